"""What a process makes before its first event, and where."""

from collections.abc import Iterator

import pytest

from functions.shared.domain.errors import BadSettings
from functions.shared.platform import wiring
from functions.shared.platform.observability import choose_metrics

QUEUES = ("CREATE", "MONITOR", "STARTUP", "WEBHOOK", "DEAD_LETTER")
REQUIRED = {f"{name}_QUEUE_URL": "https://queue.example" for name in QUEUES} | dict.fromkeys(
    ("TABLE_NAME", "TOPIC_ARN", "NOVITA_SECRET_ID", "WEBHOOK_SECRET_ID"), "x"
)


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in {**REQUIRED, "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_LAMBDA_FUNCTION_NAME", raising=False)
    wiring.use(None)
    yield
    wiring.use(None)
    choose_metrics("all")


def test_in_lambda_the_tables_client_is_made_before_the_first_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "monitor")

    wiring.prepare("monitor")

    assert wiring._current is not None
    assert "table" in vars(wiring._current)


def test_anywhere_else_importing_a_handler_makes_nothing() -> None:
    wiring.prepare("monitor")

    assert wiring._current is None


def test_a_bad_setting_is_named_by_the_first_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "monitor")
    monkeypatch.setenv("SETTLE_SECONDS", "soon")

    wiring.prepare("monitor")

    with pytest.raises(BadSettings, match="SETTLE_SECONDS"):
        wiring.wiring("monitor")
