"""Context values: a bad one stops synthesis and names itself."""

import json
from pathlib import Path

import pytest

import app
from infra import asset
from infra.options import ContextError, Options
from tests.infra.template import synthesise


def read(**context: object) -> Options:
    return Options.read(context.get)


CERTIFICATE = "arn:aws:acm:us-east-1:123456789012:certificate/1"
BAD = [
    ("reserveReconcile", "-1"),
    ("edge", "fastly"),
    ("edgeRateLimit", "9"),
    ("domainName", "not a domain"),
    ("domainName", "gpu.page.example"),
    ("certificateArn", "certificate/1"),
    ("certificateArn", CERTIFICATE),
    ("subscriberAccounts", "1234"),
    ("stage", "Dev"),
    ("stage", "my-stage"),
    ("stages", "dev"),
    ("stages", {"prod": ["iam"]}),
    ("firstDeploy", "yes"),
    ("ephemeral", "perhaps"),
    ("logRetention", "30"),
    ("MAX_RETRY_ATTEMPTS", "-1"),
    ("MAX_RETRY_ATTEMPTS", "three"),
    ("MAX_CONCURRENT_JOBS", "1"),
    ("MAX_CONCURRENT_JOBS", "1001"),
    ("MAX_CONCURRENT_JOBS", 2.5),
    ("MAX_CONCURRENT_JOBS", ""),
    ("throttleBurst", "0"),
    ("throttleRate", "fast"),
    ("auth", "none"),
    ("corsOrigins", {"origin": "https://page.example"}),
    ("localApiId", "xyz"),
    ("alarmEmail", "somebody"),
    ("settings", "INSTANCE_POLL_INTERVAL=10"),
    ("settings", "[]"),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_bad_value_is_named(name: str, value: object) -> None:
    with pytest.raises(ContextError, match=f"context {name} is "):
        read(**{name: value})


@pytest.mark.parametrize("name", ["poll", "Poll_Interval", "POLL-INTERVAL", "_POLL", "POLL_", "1ST", ""])
def test_a_setting_that_is_not_upper_snake_is_named(name: str) -> None:
    with pytest.raises(ContextError, match=rf"settings\.{name} .*UPPER_SNAKE"):
        read(settings={name: "1"})


@pytest.mark.parametrize("value", [None, True, ["10"], {"seconds": 10}])
def test_a_setting_that_no_environment_can_hold_is_named(value: object) -> None:
    with pytest.raises(ContextError, match=r"settings\.POLL .*string or a number"):
        read(settings={"POLL": value})


def test_a_setting_under_a_name_of_lambdas_own_is_refused() -> None:
    with pytest.raises(ContextError, match=r"settings\.AWS_REGION "):
        read(settings={"AWS_REGION": "eu-west-1"})


def test_a_setting_that_the_stack_makes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ContextError, match=r"settings\.TABLE_NAME "):
        synthesise(tmp_path, settings={"TABLE_NAME": "another"})


def test_a_setting_that_no_function_reads_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ContextError, match=r"settings\.INSTANCE_POLL_INTERVALL "):
        synthesise(tmp_path, settings={"INSTANCE_POLL_INTERVALL": "10"})


def test_a_log_level_that_nothing_knows_is_named() -> None:
    with pytest.raises(ContextError, match=r"settings\.LOG_LEVEL "):
        read(settings={"LOG_LEVEL": "LOUD"})


@pytest.mark.parametrize("missing", ["jwtIssuer", "jwtAudience"])
def test_tokens_need_an_issuer_and_an_audience(missing: str) -> None:
    complete: dict[str, object] = {"auth": "jwt", "jwtIssuer": "https://i.example", "jwtAudience": ["ostler"]}

    with pytest.raises(ContextError, match=f"context {missing} is "):
        read(**{**complete, missing: ""})


def test_signatures_do_not_go_through_cloudfront() -> None:
    with pytest.raises(ContextError, match="context edge is 'cloudfront': cannot be with auth=iam"):
        read(auth="iam", edge="cloudfront")


def test_a_certificate_for_cloudfront_is_in_the_one_region_that_it_takes_them_from() -> None:
    elsewhere = CERTIFICATE.replace("us-east-1", "eu-west-1")

    assert read(domainName="gpu.page.example", certificateArn=elsewhere).certificate_arn == elsewhere
    with pytest.raises(ContextError, match=r"certificateArn .* in us-east-1"):
        read(domainName="gpu.page.example", certificateArn=elsewhere, edge="cloudfront")


def test_settings_may_be_an_object_or_its_json() -> None:
    assert read(settings={"POLL": 10}).settings == read(settings='{"POLL": "10"}').settings == {"POLL": "10"}


def test_retries_given_as_a_setting_count_for_the_queues_too() -> None:
    assert read(settings={"MAX_RETRY_ATTEMPTS": "7"}).max_retry_attempts == 7
    assert read(settings={"MAX_CONCURRENT_JOBS": "7"}).max_concurrent_jobs == 7


def test_a_stage_has_choices_of_its_own_before_those_for_all() -> None:
    chosen = {"auth": "iam", "MAX_CONCURRENT_JOBS": 20, "stages": {"dev": {"MAX_CONCURRENT_JOBS": 2}}}

    dev, prod = read(stage="dev", **chosen), read(**chosen)

    assert (dev.auth, dev.max_concurrent_jobs) == ("iam", 2)
    assert (prod.stage, prod.auth, prod.max_concurrent_jobs) == ("prod", "iam", 20)


@pytest.mark.parametrize(
    ("stage", "names"),
    [("prod", ("Ostler", "OstlerWatch", "ostler")), ("dev", ("Ostler-dev", "OstlerWatch-dev", "ostler-dev"))],
)
def test_what_a_stage_is_called(stage: str, names: tuple[str, str, str]) -> None:
    options = read(stage=stage)

    assert (options.name, options.watch_name, options.service) == names


def choose(folder: Path, monkeypatch: pytest.MonkeyPatch, **context: object) -> None:
    file = folder / "cdk.json"
    file.write_text(json.dumps({"context": context}))
    monkeypatch.setattr(app, "CDK_JSON", file)


def test_what_cdk_json_chooses_lasts_without_the_cli_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(tmp_path, monkeypatch, auth="iam", settings={"ORPHAN_POLICY": "delete"})

    options = read(**app.chosen())

    assert (options.auth, options.settings) == ("iam", {"ORPHAN_POLICY": "delete"})
    assert options.max_concurrent_jobs == 10


def test_what_the_cli_passes_is_all_that_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose(tmp_path, monkeypatch, auth="iam")
    monkeypatch.setenv("CDK_CONTEXT_JSON", json.dumps({"auth": "keys"}))

    assert app.chosen() == {}


def test_a_bad_value_ends_the_app_with_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(tmp_path, monkeypatch, MAX_CONCURRENT_JOBS="1")
    monkeypatch.setattr(asset, "build", lambda **_: tmp_path)

    with pytest.raises(SystemExit) as ended:
        app.main()

    assert ended.value.code == (
        "ostler: context MAX_CONCURRENT_JOBS is '1': must be a whole number from 2 to 1000"
    )
