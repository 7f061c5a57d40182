"""One deployed stack for all end-to-end tests of a worker, with waits short enough to test against."""

from collections.abc import Iterator

import pytest

from local.emulator import ACCESS_KEY, REGION, SECRET_KEY
from local.ports import Ports
from local.stack import LocalStack
from tests.e2e.service import Service

QUICK = {
    "INSTANCE_POLL_INTERVAL": "1",
    "SETTLE_SECONDS": "4",
    "GONE_CONFIRM_SECONDS": "1",
    "VANISHED_AFTER": "6",
    "PURCHASE_LEASE_SECONDS": "15",
    "PURCHASE_MAX_WAIT": "15",
    "SWEEP_GRACE_SECONDS": "1",
    "RESEND_SECONDS": "2",
    "RETRY_BASE_SECONDS": "1",
    "RETRY_CAP_SECONDS": "3",
    "NOVITA_RATE_LIMIT": "6000",
    "REQUESTS_PER_CALLER": "1000000",
    "REQUESTS_PER_STRANGER": "1000000",
    "NOVITA_READ_TIMEOUT": "3",
    "NOVITA_CREATE_TIMEOUT": "3",
    "BREAKER_RECOVERY_TIMEOUT": "2",
    "BREAKER_CACHE_SECONDS": "0.2",
    "PRODUCTS_TTL": "0",
    "TEMPLATES_TTL": "0",
    "OFFER_MAX_AGE": "0",
    "DETAILS_TTL": "1",
    "SECRET_CACHE_SECONDS": "1",
    "KEY_CACHE_SECONDS": "1",
    "WEBHOOK_TIMEOUT": "2",
    "WEBHOOK_WAITS": "1,1,2,2,3",
}


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    with LocalStack(tmp_path_factory.mktemp("ostler"), Ports.free(), QUICK) as running:
        yield running
        # The emulator holds the functions to their roles; a refusal is not always an error to them.
        log = running.state.log("functions").read_text()
        assert "AccessDenied" not in log
        assert "message not queued" not in log


@pytest.fixture
def credentials(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands for a deployed stack find this one, as they find the account of somebody's credentials."""
    for name, value in {
        "AWS_ENDPOINT_URL": stack.emulator_url,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="session")
def deployed(stack: LocalStack) -> Service:
    return Service(stack)


@pytest.fixture
def service(deployed: Service) -> Iterator[Service]:
    """A clean slate before the test, and machines and records that match after it."""
    deployed.clean_slate()
    yield deployed
    deployed.simulator.clear_faults()
    deployed.assert_books_balance()
