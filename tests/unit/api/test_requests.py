"""What arrives at the API and cannot be taken: one 4xx that names every bad field, and nothing stored."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.api.api import Answer, Api, create_body

DEEP = 100_000  # brackets
HUGE = 10**400


@pytest.fixture(autouse=True)
def nothing_breaks_and_nothing_is_stored(api: Api, capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    before = api.stored()
    yield
    assert api.stored() == before
    logged = "".join(capfd.readouterr())
    assert "Traceback" not in logged
    assert "request failed" not in logged


def assert_refused(answer: Answer, status: int, code: str) -> None:
    assert (answer.status, answer.code) == (status, code), answer.text
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["X-Request-ID"] == answer.error["requestId"]
    assert answer.headers["X-Correlation-ID"] == answer.error["correlationId"]
    assert answer.error["retryable"] is False
    assert answer.error["message"]
    assert answer.error["timestamp"].endswith("Z")


# Whole bodies


@pytest.mark.parametrize("body", ["", "null"])
def test_a_create_without_a_body_is_told_that_one_is_required(api: Api, body: str) -> None:
    answer = api.post(raw=body)

    assert_refused(answer, 400, "VALIDATION_ERROR")
    assert answer.fields == {"body": "INVALID_BODY"}


@pytest.mark.parametrize(
    "body",
    [
        "{",
        "{} x",
        "{'name': 1}",
        "name=test",
        " ",
        "\ufeff{}",
        '{"a": 1,}',
        '"\ud800',
        '{"gpuNum": NaN}',
        '{"gpuNum": -Infinity}',
        '{"maxPricePerGpuHour": Infinity}',
        f'{{"gpuNum": {"1" * 5000}}}',
        "tru",
        "\x00",
    ],
)
def test_what_is_not_json_is_malformed(api: Api, body: str) -> None:
    answer = api.post(raw=body)

    assert_refused(answer, 400, "MALFORMED_JSON")


@pytest.mark.parametrize("body", [b"\xff\xfe{}", json.dumps(create_body()).encode("utf-16"), b"\xed\xa0\x80"])
def test_bytes_that_are_not_utf_8_are_malformed(api: Api, body: bytes) -> None:
    answer = api.post(raw=body)

    assert_refused(answer, 400, "MALFORMED_JSON")


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"":', "}]")])
def test_endless_nesting_is_malformed(api: Api, opening: str, closing: str) -> None:
    answer = api.post(raw=opening * DEEP + "1" + closing * DEEP)

    assert_refused(answer, 400, "MALFORMED_JSON")


@pytest.mark.parametrize("depth", [10, 400, 900])
def test_nesting_that_can_be_read_is_still_the_wrong_type(api: Api, depth: int) -> None:
    nested = '{"a":' * depth + "1" + "}" * depth

    answer = api.post(raw=json.dumps(create_body())[:-1] + f',"tags":{nested},"gpuNum":{nested}}}')

    assert_refused(answer, 400, "VALIDATION_ERROR")
    assert answer.fields["gpuNum"] == "INVALID_GPU_NUM"
    assert set(answer.fields.values()) == {"INVALID_GPU_NUM", "INVALID_TAGS"}


@pytest.mark.parametrize("body", [[], [create_body()], [[create_body()]], "text", 0, 1.5, True, False])
@pytest.mark.parametrize("path", ["/api/instances", "/api/instances/inst_X/start", "/api/quotes"])
def test_a_body_that_is_no_object_is_refused_even_around_a_good_one(api: Api, path: str, body: Any) -> None:
    answer = api.post(body, path)

    assert_refused(answer, 400, "VALIDATION_ERROR")
    assert answer.fields == {"body": "INVALID_BODY"}


@pytest.mark.parametrize("body", ["x" * 1_048_577, b"x" * 1_048_577, "é" * 524_289])
def test_more_than_a_megabyte_is_too_large(api: Api, body: str | bytes) -> None:
    answer = api.post(raw=body)

    assert_refused(answer, 413, "PAYLOAD_TOO_LARGE")


def test_a_megabyte_is_still_read(api: Api) -> None:
    filled = json.dumps(create_body(gpuNum=0))
    answer = api.post(raw=filled + " " * (1_048_576 - len(filled)))

    assert_refused(answer, 400, "VALIDATION_ERROR")
    assert answer.fields == {"gpuNum": "INVALID_GPU_NUM"}


@pytest.mark.parametrize("unknown", [{f"field{n}": n for n in range(40_000)}, {"f" * 900_000: 1}])
def test_the_answer_to_a_flood_of_unknown_fields_stays_small(api: Api, unknown: dict[str, int]) -> None:
    answer = api.post(unknown)

    assert_refused(answer, 400, "VALIDATION_ERROR")
    assert len(answer.text) < 30_000


# Fields


def test_every_bad_field_is_named_at_once(api: Api) -> None:
    answer = api.post(
        {
            "name": " ",
            "productName": 5,
            "gpuNum": "1",
            "rootfsSize": 9,
            "region": "a b",
            "regions": ["CN-HK-01", ""],
            "webhookUrl": "http://10.0.0.1/hook",
            "billingMode": "monthly",
            "maxPricePerGpuHour": 0,
            "placement": None,
            "healthCheck": {"timeoutMs": 999, "path": "x", "colour": "red"},
            "maxWaitTime": 1.5,
            "onFailure": "explode",
            "tags": {"k": 1, "": "x"},
            "colour": "red",
        }
    )

    assert_refused(answer, 400, "VALIDATION_ERROR")
    assert answer.fields == {
        "name": "INVALID_INSTANCE_NAME",
        "productName": "INVALID_PRODUCT_NAME",
        "templateId": "INVALID_TEMPLATE_ID",
        "gpuNum": "INVALID_GPU_NUM",
        "rootfsSize": "INVALID_ROOTFS_SIZE",
        "region": "INVALID_REGION",
        "regions.1": "INVALID_REGION",
        "webhookUrl": "INVALID_WEBHOOK_URL",
        "billingMode": "INVALID_BILLING_MODE",
        "maxPricePerGpuHour": "INVALID_MAX_PRICE_PER_GPU_HOUR",
        "placement": "INVALID_PLACEMENT",
        "healthCheck.timeoutMs": "INVALID_HEALTH_CHECK",
        "healthCheck.path": "INVALID_HEALTH_CHECK",
        "healthCheck.colour": "UNKNOWN_FIELD",
        "maxWaitTime": "INVALID_MAX_WAIT_TIME",
        "onFailure": "INVALID_ON_FAILURE",
        "tags.k": "INVALID_TAGS",
        "tags..[key]": "INVALID_TAGS",
        "colour": "UNKNOWN_FIELD",
    }


def test_what_was_sent_is_not_repeated(api: Api) -> None:
    answer = api.post(create_body(gpuNum="a secret", webhookUrl="http://10.0.0.1/?key=a secret"))

    assert_refused(answer, 400, "VALIDATION_ERROR")
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    "field",
    [
        "name",
        "productName",
        "templateId",
        "gpuNum",
        "rootfsSize",
        "region",
        "regions",
        "webhookUrl",
        "billingMode",
        "maxPricePerGpuHour",
        "placement",
        "healthCheck",
        "maxWaitTime",
        "onFailure",
        "tags",
    ],
)
@pytest.mark.parametrize("value", [True, -1.5, [1], [[]], {"a": {"b": 1}}, HUGE, -HUGE, ""])
def test_a_field_of_the_wrong_type_is_named(api: Api, field: str, value: Any) -> None:
    answer = api.post(create_body(**{field: value}))

    assert_refused(answer, 400, "VALIDATION_ERROR")
    assert {name.partition(".")[0] for name in answer.fields} == {field}


OUTSIDE: dict[str, list[Any]] = {
    "name": ["", "x" * 101],
    "productName": ["", "x" * 201],
    "templateId": ["", "x" * 256, 0, -1, "two words", 10**18],
    "gpuNum": [0, 9, -1],
    "rootfsSize": [9, 1001],
    "region": ["", "x" * 65, "-CN", "CN HK", "CN-HK-01\n"],
    "regions": [[], ["CN-HK-01"] * 21],
    "webhookUrl": [
        f"https://example.com/{'x' * 2029}",
        "https://example.com:0/",
        "https://example.com:65536/",
    ],
    "maxPricePerGpuHour": [0, -0.01, 10_000.01, 1e308],
    "maxWaitTime": [999, 86_400_001],
    "tags": [{str(number): "" for number in range(21)}, {"": ""}, {"x" * 129: ""}, {"k": "x" * 257}],
}
OUTSIDE_OF_A_CHECK: dict[str, list[Any]] = {
    "timeoutMs": [999, 60_001],
    "retryAttempts": [-1, 11],
    "retryDelayMs": [99, 30_001],
    "maxWaitTimeMs": [29_999, 1_800_001],
    "targetPort": [0, 65_536, "80"],
    "path": ["", "health", "/" + "x" * 1024, "/a b", "/a\r\nb"],
}


@pytest.mark.parametrize(("field", "value"), [(f, v) for f, values in OUTSIDE.items() for v in values])
def test_just_outside_a_bound_is_refused(api: Api, field: str, value: Any) -> None:
    answer = api.post(create_body(**{field: value}))

    assert_refused(answer, 400, "VALIDATION_ERROR")
    assert {name.partition(".")[0] for name in answer.fields} == {field}


@pytest.mark.parametrize(
    ("field", "value"), [(f, v) for f, values in OUTSIDE_OF_A_CHECK.items() for v in values]
)
def test_just_outside_a_health_checks_bound_is_refused(api: Api, field: str, value: Any) -> None:
    created = api.post(create_body(healthCheck={field: value}))
    started = api.post({"healthCheckConfig": {field: value}}, "/api/instances/inst_X/start")

    assert_refused(created, 400, "VALIDATION_ERROR")
    assert created.fields == {f"healthCheck.{field}": "INVALID_HEALTH_CHECK"}
    assert_refused(started, 400, "VALIDATION_ERROR")
    assert started.fields == {f"healthCheckConfig.{field}": "INVALID_HEALTH_CHECK_CONFIG"}


@pytest.mark.parametrize(
    "text",
    ["a\x00b", "a\nb", "a\x7fb", "\u202etest", "a\u200bb", "\ue000", "\ud800", "a\udfffb", "\u2028", "   "],
)
def test_invisible_characters_are_refused_where_people_read(api: Api, text: str) -> None:
    answer = api.post(create_body(name=text, productName=text, tags={"k": text + "\x00", text: "v"}))

    assert_refused(answer, 400, "VALIDATION_ERROR")
    assert {name.partition(".")[0] for name in answer.fields} == {"name", "productName", "tags"}


@pytest.mark.parametrize(
    "url",
    [
        "example.com",
        "ftp://example.com/",
        "javascript:alert(1)",
        "https://",
        "https://user:pw@example.com/",
        "https://example.com/a b",
        "https://example.com\\@evil.com/",
        "https://exa\nmple.com/",
        "//example.com/",
        "http://127.0.0.1/",
        "http://localhost:8080/",
        "http://[::1]/",
        "http://169.254.169.254/latest",
        "http://0x7f.1/",
        "http://[::ffff:10.0.0.1]/",
        "http://2130706433/",
        "http://a.localhost/",
    ],
)
def test_a_webhook_that_leads_nowhere_public_is_refused(api: Api, url: str) -> None:
    answer = api.post(create_body(webhookUrl=url))

    assert_refused(answer, 400, "VALIDATION_ERROR")
    assert answer.fields == {"webhookUrl": "INVALID_WEBHOOK_URL"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("import", {"novitaInstanceId": "machine"}),
        ("start", {"instanceName": "test"}),
        ("inst_X/start", {}),
        ("inst_X/restart", {}),
    ],
)
def test_a_webhook_is_checked_wherever_one_is_given(api: Api, path: str, body: dict[str, str]) -> None:
    answer = api.post({**body, "webhookUrl": "http://169.254.169.254/"}, f"/api/instances/{path}")

    assert_refused(answer, 400, "VALIDATION_ERROR")
    assert answer.fields == {"webhookUrl": "INVALID_WEBHOOK_URL"}


@pytest.mark.parametrize("path", ["start", "stop", "delete"])
def test_an_operation_by_name_needs_a_name_and_nothing_unknown(api: Api, path: str) -> None:
    answer = api.post({"instanceName": "", "force": True}, f"/api/instances/{path}")

    assert_refused(answer, 400, "VALIDATION_ERROR")
    assert answer.fields == {"instanceName": "INVALID_INSTANCE_NAME", "force": "UNKNOWN_FIELD"}


@pytest.mark.parametrize("machine", ["", "a b", "../x", "x" * 129, 5, None])
def test_an_import_needs_an_id_that_could_be_one(api: Api, machine: Any) -> None:
    answer = api.post({"novitaInstanceId": machine}, "/api/instances/import")

    assert_refused(answer, 400, "VALIDATION_ERROR")
    assert answer.fields == {"novitaInstanceId": "INVALID_NOVITA_INSTANCE_ID"}


@pytest.mark.parametrize(
    "time",
    [
        "yesterday",
        "",
        5,
        1.5e18,
        True,
        "1700000000",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-13-01T00:00:00Z",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        {},
        [],
        "2999-01-01T00:00:00Z",
    ],
)
def test_a_last_use_that_is_no_moment_or_still_to_come_is_refused(api: Api, time: Any) -> None:
    answer = api.call("PUT", "/api/instances/inst_X/last-used", {"lastUsedAt": time})

    assert_refused(answer, 400, "VALIDATION_ERROR")
    assert answer.fields == {"lastUsedAt": "INVALID_LAST_USED_AT"}


@pytest.mark.parametrize("body", [{"force": True}, {"instanceName": "x"}, []])
def test_a_stop_with_something_to_say_is_refused(api: Api, body: Any) -> None:
    answer = api.post(body, "/api/instances/inst_X/stop")

    assert_refused(answer, 400, "VALIDATION_ERROR")
    assert set(answer.fields.values()) <= {"UNKNOWN_FIELD", "INVALID_BODY"}


@pytest.mark.parametrize("body", [None, {}])
def test_a_stop_needs_no_body(api: Api, body: Any) -> None:
    answer = api.post(body, "/api/instances/inst_X/stop")

    assert_refused(answer, 404, "INSTANCE_NOT_FOUND")
