"""Each function: where it runs, as whom, with what."""

from dataclasses import MISSING, fields

import pytest

from functions.shared.platform.settings import Settings
from infra.environment import READ_BY
from tests.infra.template import NAMES, Template


def test_there_is_a_function_for_every_box(template: Template) -> None:
    handlers = {function["Handler"] for function in template.functions().values()}

    assert handlers == {f"functions.{name}.handler.handler" for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_python_313_on_arm64(template: Template, name: str) -> None:
    function = template.functions()[name]

    assert function["Runtime"] == "python3.13"
    assert function["Architectures"] == ["arm64"]


def test_all_share_one_asset(template: Template) -> None:
    assert len({str(function["Code"]) for function in template.functions().values()}) == 1


def test_no_two_share_a_role_or_a_log_group(template: Template) -> None:
    functions = template.functions().values()

    assert len({str(function["Role"]) for function in functions}) == len(NAMES)
    assert len({str(function["LoggingConfig"]["LogGroup"]) for function in functions}) == len(NAMES)


def test_logs_are_json_and_kept_for_a_month(template: Template) -> None:
    assert all(function["LoggingConfig"]["LogFormat"] == "JSON" for function in template.functions().values())
    assert {group["RetentionInDays"] for group in template.all("AWS::Logs::LogGroup").values()} == {30}


def test_log_retention_can_be_chosen(chosen: Template) -> None:
    assert {group["RetentionInDays"] for group in chosen.all("AWS::Logs::LogGroup").values()} == {7}


def test_lambda_drops_no_line_of_the_functions_nor_metrics_which_it_takes_for_info(
    template: Template, chosen: Template
) -> None:
    def levels(of: Template) -> set[str]:
        return {function["LoggingConfig"]["ApplicationLogLevel"] for function in of.functions().values()}

    assert levels(template) == {"INFO"}
    assert levels(chosen) == {"INFO"}, "though its functions log warnings only"


def test_whoever_is_fed_by_a_queue_and_sends_to_one_may_go_on_for_longer_than_16_messages(
    template: Template,
) -> None:
    fed = {
        source["FunctionName"]["Ref"]
        for source in template.all("AWS::Lambda::EventSourceMapping").values()
        if "Queues" in str(source["EventSourceArn"])
    }
    allowed = {
        logical_id
        for logical_id, function in template.all("AWS::Lambda::Function").items()
        if function.get("RecursiveLoop") == "Allow"
    }

    assert len(fed) == 5
    assert allowed == fed


def test_no_concurrency_is_reserved_since_new_accounts_have_none_to_give(
    template: Template, signed: Template
) -> None:
    def reserved(of: Template) -> dict[str, int]:
        given = "ReservedConcurrentExecutions"
        return {name: one[given] for name, one in of.functions().items() if given in one}

    assert reserved(template) == {}
    assert reserved(signed) == {"reconcile": 2}, "which was chosen"


def test_the_api_answers_before_the_gateway_gives_up(template: Template) -> None:
    assert template.functions()["api"]["Timeout"] < 30


def test_a_sweep_ends_before_the_next_begins(template: Template) -> None:
    assert template.functions()["reconcile"]["Timeout"] < 60


def test_a_sweep_every_minute_and_none_repeated(template: Template) -> None:
    rule = template.one("AWS::Events::Rule")
    (target,) = rule["Targets"]

    assert rule["ScheduleExpression"] == "rate(1 minute)"
    assert (
        template.all("AWS::Lambda::Function")[target["Arn"]["Fn::GetAtt"][0]]["Handler"].split(".")[1]
        == "reconcile"
    )
    assert target["RetryPolicy"]["MaximumRetryAttempts"] == 0
    assert template.one("AWS::Lambda::EventInvokeConfig")["MaximumRetryAttempts"] == 0


def test_a_purchase_is_leased_for_longer_than_its_function_can_live(template: Template) -> None:
    lease_seconds = {item.name: item.default for item in fields(Settings)}["purchase_lease_seconds"]

    assert lease_seconds > template.functions()["create"]["Timeout"]


def test_the_stack_knows_who_reads_a_setting_as_the_functions_do() -> None:
    by = {item.name.upper(): set(item.metadata["by"].split()) for item in fields(Settings)}

    known = {name: set(who.split()) for name, who in READ_BY.items()}

    assert known == by


def reads(name: str) -> set[str]:
    by = {item.name.upper(): item.metadata["by"] for item in fields(Settings)}
    return {setting for setting, who in by.items() if who == "all" or name in who.split()}


@pytest.mark.parametrize("name", NAMES)
def test_a_function_gets_what_it_needs_and_nothing_that_it_does_not_read(
    template: Template, chosen: Template, name: str
) -> None:
    needed = {item.name.upper() for item in fields(Settings) if item.default is MISSING} & reads(name)

    for one in (template, chosen):
        given = set(one.functions()[name]["Environment"]["Variables"])

        assert needed <= given <= reads(name)


def test_what_people_set_reaches_every_function_that_reads_it(chosen: Template) -> None:
    for name, function in chosen.functions().items():
        variables = function["Environment"]["Variables"]

        assert variables["LOG_LEVEL"] == "WARNING"
        assert variables.get("INSTANCE_POLL_INTERVAL") == (
            "10" if "INSTANCE_POLL_INTERVAL" in reads(name) else None
        )


@pytest.mark.parametrize("name", ["create", "monitor", "startup", "webhook"])
def test_functions_count_the_retries_that_were_chosen(chosen: Template, name: str) -> None:
    assert chosen.functions()[name]["Environment"]["Variables"]["MAX_RETRY_ATTEMPTS"] == "5"


def test_one_receiver_never_gets_all_the_workers_for_webhooks(template: Template, chosen: Template) -> None:
    def places(one: Template) -> str:
        return str(one.functions()["webhook"]["Environment"]["Variables"]["WEBHOOK_PER_RECEIVER"])

    assert places(template) == "3", "of 10 workers"
    assert places(chosen) == "1", "of 2 workers"


def test_who_asks_strangers_knows_how_many_workers_there_are(template: Template, chosen: Template) -> None:
    def known(one: Template) -> dict[str, str]:
        variables = {name: each["Environment"]["Variables"] for name, each in one.functions().items()}
        return {
            name: given["MAX_CONCURRENT_JOBS"]
            for name, given in variables.items()
            if "MAX_CONCURRENT_JOBS" in given
        }

    assert known(template) == {"startup": "10", "webhook": "10"}
    assert known(chosen) == {"startup": "2", "webhook": "2"}
