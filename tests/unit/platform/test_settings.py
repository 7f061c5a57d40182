"""A bad setting stops a function when it starts, and names itself."""

from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

import functions
from functions.shared.domain.errors import BadSettings
from functions.shared.platform.settings import Settings

REQUIRED = {item.name.upper(): item for item in fields(Settings) if item.default is MISSING}
ENOUGH = {name: "https://queue.example/1" if name.endswith("_URL") else "x" for name in REQUIRED}
WEBHOOKS = {"WEBHOOK_QUEUE_URL": "https://queue.example/1"}
NUMBERS = [item for item in fields(Settings) if isinstance(item.default, (int, float))]


def read(**given: str) -> Settings:
    return Settings.read({**ENOUGH, **given})


def problem(**given: str) -> str:
    with pytest.raises(BadSettings) as caught:
        read(**given)
    return caught.value.message


def test_what_the_stack_sets_is_enough() -> None:
    settings = read()

    assert settings.instance_poll_interval == 30
    assert settings.novita_api_base_url == "https://api.novita.ai/gpu-instance/openapi/v1"


@pytest.mark.parametrize(
    ("name", "given", "meant"),
    [
        ("LIST_TTL", "2000", "2"),
        # What the earlier system had in milliseconds.
        ("NOVITA_READ_TIMEOUT", "30000", "30"),
        ("INSTANCE_POLL_INTERVAL", "30000", "30"),
        ("BOOT_MAX_WAIT", "600000", "600"),
        ("BREAKER_RECOVERY_TIMEOUT", "60000", "60"),
        ("RETRY_CAP_SECONDS", "300000", "300"),
        ("DETAILS_TTL", "30000", "30"),
        ("PRODUCTS_TTL", "300000", "300"),
        ("TEMPLATES_TTL", "600000", "600"),
    ],
)
def test_seconds_that_look_like_milliseconds_are_refused_with_that_hint(
    name: str, given: str, meant: str
) -> None:
    found = problem(**{name: given})

    assert name in found
    assert f"it looks like milliseconds, and {meant} seconds may be meant" in found


@pytest.mark.parametrize(
    ("name", "given"),
    [("NOVITA_READ_TIMEOUT", "61"), ("NOVITA_READ_TIMEOUT", "90000000"), ("NOVITA_RATE_LIMIT", "20000")],
)
def test_other_numbers_out_of_bounds_have_no_such_hint(name: str, given: str) -> None:
    assert "milliseconds" not in problem(**{name: given})


# As docs/reference.md documents them
PROMISED: dict[str, Any] = {
    "purchase_max_wait": 3600,
    "boot_max_wait": 1200,
    "settle_seconds": 120,
    "instance_poll_interval": 30,
    "max_retry_attempts": 3,
    "retry_base_seconds": 5,
    "retry_cap_seconds": 300,
    "novita_rate_limit": 100,
    "breaker_failure_threshold": 5,
    "breaker_window": 30,
    "breaker_recovery_timeout": 60,
    "breaker_success_threshold": 2,
    "default_region": "CN-HK-01",
    "region_priority": "AS-SGP-02,CN-HK-01,AS-IN-01",
    "products_ttl": 300,
    "templates_ttl": 600,
    "details_ttl": 30,
    "offer_max_age": 30,
    "lookup_seconds": 2,
    "webhook_timeout": 15,
    "gone_confirm_seconds": 10,
    "webhook_waits": "5,300,1800,7200,18000,36000,50400,72000,86400",
    "outbound_allow_cidrs": "",
    "orphan_policy": "announce",
    "key_cache_seconds": 30,
}


@pytest.mark.parametrize(("name", "value"), PROMISED.items())
def test_defaults_are_those_of_the_product(name: str, value: Any) -> None:
    assert getattr(read(), name) == value


@pytest.mark.parametrize("item", NUMBERS, ids=lambda item: item.name)
@pytest.mark.parametrize("bad", ["nan", "NaN", "inf", "-inf", "", " ", "many", "-1", "1e99", "0x10", "None"])
def test_a_number_that_is_none_or_out_of_bounds_names_itself(item: Any, bad: str) -> None:
    said = problem(**{item.name.upper(): bad})

    assert said.startswith(f"{item.name.upper()} is {bad!r}: ")


@pytest.mark.parametrize("item", NUMBERS, ids=lambda item: item.name)
def test_a_default_is_within_its_own_bounds(item: Any) -> None:
    assert getattr(read(**{item.name.upper(): str(item.default)}), item.name) == item.default


@pytest.mark.parametrize("name", REQUIRED)
def test_what_is_missing_or_empty_is_named(name: str) -> None:
    without = {other: value for other, value in ENOUGH.items() if other != name}

    with pytest.raises(BadSettings) as caught:
        Settings.read(without)

    assert f"{name} is missing" in caught.value.message
    assert f"{name} is '': " in problem(**{name: ""})


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("NOVITA_API_BASE_URL", "ftp://novita.example"),
        ("NOVITA_API_BASE_URL", "novita.example"),
        ("NOVITA_API_BASE_URL", "https://"),
        ("NOVITA_API_BASE_URL", ""),
        ("DEFAULT_REGION", " "),
        ("WEBHOOK_WAITS", "5,soon"),
        ("WEBHOOK_WAITS", "nan"),
        ("WEBHOOK_WAITS", "-5"),
        ("OUTBOUND_ALLOW_CIDRS", "127.0.0.1/33"),
        ("OUTBOUND_ALLOW_CIDRS", "10.0.0.1/8"),
        ("OUTBOUND_ALLOW_CIDRS", "localhost"),
        ("ORPHAN_POLICY", "Delete"),
        ("LOG_LEVEL", "loud"),
        ("MAX_RETRY_ATTEMPTS", "2.5"),
    ],
)
def test_a_word_that_makes_no_sense_names_itself(name: str, bad: str) -> None:
    assert problem(**{name: bad}).startswith(f"{name} is {bad!r}: ")


def test_all_problems_are_named_at_once() -> None:
    said = problem(TABLE_NAME="", BOOT_MAX_WAIT="nan", LOG_LEVEL="loud")

    assert [part.split(" is ")[0] for part in said.split("; ")] == [
        "TABLE_NAME",
        "BOOT_MAX_WAIT",
        "LOG_LEVEL",
    ]


BY = {item.name: set(item.metadata["by"].split()) for item in fields(Settings)}
FUNCTIONS = sorted(path.parent.name for path in Path(functions.__path__[0]).glob("*/handler.py"))


def test_only_functions_that_there_are_read_settings() -> None:
    assert set().union(*BY.values()) <= {*FUNCTIONS, "all"}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_has_what_it_declares_and_nothing_else(function: str) -> None:
    settings = Settings.read(ENOUGH, function)

    for name, by in BY.items():
        if by & {function, "all"}:
            assert getattr(settings, name) == getattr(read(), name)
        else:
            with pytest.raises(BadSettings, match=f"{name.upper()} .* {function} "):
                getattr(settings, name)


def test_what_a_function_does_not_read_may_be_missing_or_bad() -> None:
    settings = Settings.read(
        {"TABLE_NAME": "x", "TOPIC_ARN": "x", **WEBHOOKS, "BOOT_MAX_WAIT": "nan"}, "announce"
    )

    assert settings.topic_arn == "x"
    with pytest.raises(
        BadSettings, match=r"^TOPIC_ARN is missing: [^;]*; WEBHOOK_QUEUE_URL is missing: [^;]*$"
    ):
        Settings.read({"TABLE_NAME": "x"}, "announce")


def test_other_variables_are_none_of_its_business() -> None:
    assert read(PATH="/bin", AWS_REGION="x") == read()


def test_ranges_and_addresses_are_taken_as_they_are_meant() -> None:
    settings = read(
        NOVITA_API_BASE_URL="http://127.0.0.1:1/v1/", OUTBOUND_ALLOW_CIDRS="127.0.0.1/32, ::1/128"
    )

    assert settings.novita_api_base_url == "http://127.0.0.1:1/v1"
    assert settings.outbound_allow_cidrs == "127.0.0.1/32, ::1/128"


@pytest.mark.parametrize("item", fields(Settings), ids=lambda item: item.name)
def test_every_setting_has_a_sentence_and_a_unit_or_bounds(item: Any) -> None:
    about = item.metadata["about"]

    assert about[0].isupper()
    assert not about.endswith(".")
    assert item.metadata["bounds"] or not isinstance(item.default, (int, float))
