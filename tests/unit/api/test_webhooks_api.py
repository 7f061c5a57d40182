"""What callers see of webhook deliveries, how they send one again, and what receivers verify with."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import boto3
import pytest

from functions.api.use_cases.replay_delivery import ReplayDelivery
from functions.shared.domain.delivery.webhooks import (
    Attempt,
    Delivery,
    DeliveryState,
    derive_secret,
    show_secret,
)
from functions.shared.domain.messages import DeliveryMessage, StepMessage
from functions.shared.platform import wiring
from functions.shared.platform.aws import Queues
from functions.shared.stores.deliveries import Deliveries
from tests.unit.api.api import Api
from tests.unit.builders import created
from tests.unit.webhook.harness import CURRENT, FORMER, announcement

LEASE = timedelta(seconds=60)
URL = "https://hooks.example.com/in"
_instances = count(1)


class Kept(Queues):
    def __init__(self) -> None:
        self.sent: list[DeliveryMessage] = []

    def send(self, queue: str, message: StepMessage | DeliveryMessage, delay_seconds: float = 0) -> bool:
        assert queue == "webhook"
        assert delay_seconds == 0
        assert isinstance(message, DeliveryMessage)
        self.sent.append(message)
        return True


@pytest.fixture(autouse=True)
def queue(api: Api) -> Kept:  # noqa: ARG001  # it has made the wiring
    wiring.wiring("api").queues = kept = Kept()
    return kept


@pytest.fixture
def instance_id(api: Api) -> str:  # noqa: ARG001  # it has made the wiring
    record = created(instance_id=f"inst_{next(_instances):026d}")
    return wiring.wiring("api").instances.add(record).id


def now() -> datetime:
    return datetime.now(UTC)


def add(instance_id: str, sequence: int = 1) -> str:
    return wiring.wiring("api").deliveries.add(announcement(URL, sequence, instance_id), URL, now())[0]


def stored(delivery_id: str) -> Delivery:
    delivery = wiring.wiring("api").deliveries.get(delivery_id)
    assert delivery is not None
    return delivery


def attempted(
    delivery_id: str, state: DeliveryState, *, again_at: datetime | None = None, **result: Any
) -> None:
    deliveries = wiring.wiring("api").deliveries
    begun = deliveries.begin(stored(delivery_id), now(), now() + LEASE)
    assert begun is not None
    attempt = Attempt(begun.attempt, now(), 12, **result)
    assert deliveries.finish(begun, attempt, state=state, again_at=again_at, now=now())


def listed(api: Api, instance_id: str, more: str = "") -> Any:
    answer = api.call("GET", f"/api/webhooks/deliveries?instanceId={instance_id}{more}", scope="read")
    assert answer.status == 200, answer.text
    return answer.body


def replayed(api: Api, delivery_id: str, **options: Any) -> Any:
    answer = api.call("POST", f"/api/webhooks/deliveries/{delivery_id}/replay", scope="write", **options)
    assert answer.status == 202, answer.text
    return answer.body


# The list


def test_deliveries_are_listed_with_their_attempts_newest_first(api: Api, instance_id: str) -> None:
    first, second = add(instance_id, 1), add(instance_id, 2)
    attempted(first, DeliveryState.PENDING, again_at=now(), error="timeout")
    attempted(first, DeliveryState.DELIVERED, status=200, answer="thanks")

    newest, oldest = listed(api, instance_id)["deliveries"]

    assert (newest["id"], newest["state"], newest["attempts"]) == (second, "pending", [])
    assert newest["nextAttemptAt"]
    assert (oldest["id"], oldest["state"], oldest["url"]) == (first, "delivered", URL)
    assert oldest["eventId"] == f"evt_{instance_id.removeprefix('inst_')}_1"
    assert oldest["eventType"] == "instance.ready"
    assert "nextAttemptAt" not in oldest
    failed, good = ({k: v for k, v in one.items() if k != "at"} for one in oldest["attempts"])
    assert failed == {"attempt": 1, "tookMs": 12, "error": "timeout"}
    assert good == {"attempt": 2, "tookMs": 12, "status": 200, "answer": "thanks"}


def test_pages_hold_each_delivery_once_in_the_order_of_events(api: Api, instance_id: str) -> None:
    made = [add(instance_id, sequence) for sequence in range(1, 13)]
    found: list[str] = []
    cursor = ""

    for _ in range(3):
        page = listed(api, instance_id, f"&limit=5{cursor}")
        found += [one["id"] for one in page["deliveries"]]
        cursor = f"&cursor={page.get('nextCursor')}"

    assert found == made[::-1]
    assert "nextCursor" not in page


def test_a_cursor_of_another_listing_or_none_of_ours_is_refused(api: Api, instance_id: str) -> None:
    for sequence in (1, 2):
        add(instance_id, sequence)
    cursor = listed(api, instance_id, "&limit=1")["nextCursor"]
    other = wiring.wiring("api").instances.add(created(instance_id=f"inst_{next(_instances):026d}")).id

    for instance, given in ((other, cursor), (instance_id, cursor[:-2] + "AA"), (instance_id, "x")):
        answer = api.call("GET", f"/api/webhooks/deliveries?instanceId={instance}&cursor={given}")
        assert (answer.status, answer.code) == (400, "INVALID_CURSOR")


@pytest.mark.parametrize("query", ["", "instanceId=", "instanceId=x&limit=0", "instanceId=x&limit=101"])
def test_a_listing_that_makes_no_sense_is_refused(api: Api, query: str) -> None:
    answer = api.call("GET", f"/api/webhooks/deliveries?{query}")

    assert (answer.status, answer.code) == (400, "VALIDATION_ERROR")


def test_deliveries_of_no_instance_are_not_found(api: Api) -> None:
    answer = api.call("GET", "/api/webhooks/deliveries?instanceId=inst_nobody")

    assert (answer.status, answer.code) == (404, "INSTANCE_NOT_FOUND")


def test_an_attempt_under_way_has_no_outcome_and_one_whose_worker_died_is_lost(
    api: Api, instance_id: str
) -> None:
    delivery_id = add(instance_id)
    deliveries = wiring.wiring("api").deliveries
    deliveries.begin(stored(delivery_id), now(), now() + LEASE)
    (under_way,) = listed(api, instance_id)["deliveries"]

    (attempt,) = under_way["attempts"]
    assert attempt.keys() == {"attempt", "at"}
    assert "nextAttemptAt" not in under_way

    deliveries.begin(stored(delivery_id), now(), now())
    (over,) = listed(api, instance_id)["deliveries"]

    assert [one.get("error") for one in over["attempts"]] == ["lost", "lost"]
    assert over["nextAttemptAt"]


# Replay


@pytest.mark.parametrize("state", [DeliveryState.DELIVERED, DeliveryState.ENDED, DeliveryState.EXHAUSTED])
def test_what_has_ended_is_sent_again_in_a_new_round(
    api: Api, instance_id: str, queue: Kept, state: DeliveryState
) -> None:
    delivery_id = add(instance_id)
    attempted(delivery_id, state, status=200)

    answer = replayed(api, delivery_id)

    assert (answer["deliveryId"], answer["state"]) == (delivery_id, "pending")
    assert [(one.delivery_id, one.attempt) for one in queue.sent] == [(delivery_id, 2)]
    again = stored(delivery_id)
    assert (again.state, again.attempt, again.of_round) == (DeliveryState.PENDING, 1, 0)
    assert again.awaits(2, now())
    assert len(again.attempts) == 1


@pytest.mark.parametrize("lost", [False, True])
def test_a_pending_one_is_made_due_now(api: Api, instance_id: str, queue: Kept, lost: bool) -> None:
    delivery_id = add(instance_id)
    if lost:
        wiring.wiring("api").deliveries.begin(stored(delivery_id), now(), now())
    else:
        attempted(delivery_id, DeliveryState.PENDING, again_at=now() + timedelta(hours=5), status=500)

    replayed(api, delivery_id)
    replayed(api, delivery_id)

    assert {one.attempt for one in queue.sent} == {2}  # the second message finds the attempt made
    again = stored(delivery_id)
    assert again.awaits(2, now())
    assert again.of_round == 0


def test_one_that_is_being_sent_this_moment_is_left_alone(api: Api, instance_id: str, queue: Kept) -> None:
    delivery_id = add(instance_id)
    deliveries = wiring.wiring("api").deliveries
    begun = deliveries.begin(stored(delivery_id), now(), now() + LEASE)

    answer = replayed(api, delivery_id)

    assert answer["state"] == "pending"
    assert queue.sent == []
    assert stored(delivery_id) == begun


def test_of_two_replays_at_once_one_begins_a_round(
    api: Api,  # noqa: ARG001  # it has made the wiring
    instance_id: str,
    queue: Kept,
) -> None:
    delivery_id = add(instance_id)
    attempted(delivery_id, DeliveryState.DELIVERED, status=200)
    wired = wiring.wiring("api")

    class Overtaken(Deliveries):
        """Between its read and its write, somebody else replays, and that round is over already."""

        def replay(self, *args: Any) -> Any:
            if not queue.sent:
                ReplayDelivery(wired.deliveries, wired.idempotency, queue, now)(delivery_id, None)
                attempted(delivery_id, DeliveryState.DELIVERED, status=200)
            return super().replay(*args)

    ReplayDelivery(Overtaken(wired.table), wired.idempotency, queue, now)(delivery_id, None)

    assert len(queue.sent) == 1
    assert stored(delivery_id).state is DeliveryState.DELIVERED
    assert stored(delivery_id).attempt == 2


def test_a_replay_that_meets_the_end_of_an_attempt_begins_a_round_all_the_same(
    api: Api,  # noqa: ARG001  # it has made the wiring
    instance_id: str,
    queue: Kept,
) -> None:
    delivery_id = add(instance_id)
    wired = wiring.wiring("api")

    class Overtaken(Deliveries):
        def replay(self, *args: Any) -> Any:
            if stored(delivery_id).attempt == 0:
                attempted(delivery_id, DeliveryState.EXHAUSTED, status=500)
            return super().replay(*args)

    ReplayDelivery(Overtaken(wired.table), wired.idempotency, queue, now)(delivery_id, None)

    assert [one.attempt for one in queue.sent] == [2]
    assert stored(delivery_id).of_round == 0


def test_the_same_key_replays_once(api: Api, instance_id: str, queue: Kept) -> None:
    delivery_id = add(instance_id)
    attempted(delivery_id, DeliveryState.DELIVERED, status=200)
    key = {"Idempotency-Key": f"once {delivery_id}"}

    first = replayed(api, delivery_id, headers=key)
    attempted(delivery_id, DeliveryState.DELIVERED, status=200)
    second = replayed(api, delivery_id, headers=key)

    assert first == second
    assert len(queue.sent) == 1


def test_after_many_replays_the_log_keeps_the_last_attempts(instance_id: str) -> None:
    delivery_id = add(instance_id)
    attempted(delivery_id, DeliveryState.DELIVERED, status=200)
    many = tuple(Attempt(number, now(), 12, status=200) for number in range(1, 61))

    wiring.wiring("api").deliveries.replay(replace(stored(delivery_id), attempts=many), now())

    assert [one.number for one in stored(delivery_id).attempts] == list(range(11, 61))


def test_a_replay_of_nothing_is_not_found_and_needs_the_scope_to_write(api: Api) -> None:
    path = "/api/webhooks/deliveries/dlv_nothing/replay"

    missing = api.call("POST", path)
    forbidden = api.call("POST", path, scope="read")

    assert (missing.status, missing.code) == (404, "DELIVERY_NOT_FOUND")
    assert (forbidden.status, forbidden.code) == (403, "FORBIDDEN")


# The secret


@pytest.fixture
def masters(api: Api) -> Iterator[Callable[..., None]]:  # noqa: ARG001  # it has made the wiring
    client = boto3.client("secretsmanager")
    client.create_secret(Name="webhook", SecretString="{}")

    def put(**kept: str) -> None:
        client.put_secret_value(SecretId="webhook", SecretString=json.dumps(kept))
        wiring.wiring("api").secrets._held.clear()

    yield put
    client.delete_secret(SecretId="webhook", ForceDeleteWithoutRecovery=True)


def test_the_secret_of_a_receiver_is_shown_to_admins(api: Api, masters: Callable[..., None]) -> None:
    masters(current=show_secret(CURRENT), previous="")

    answer = api.call("GET", f"/api/webhooks/secret?url={URL}")

    origin = "https://hooks.example.com"
    assert answer.body == {"origin": origin, "secrets": [show_secret(derive_secret(CURRENT, origin))]}
    for scope in ("read", "write"):
        refused = api.call("GET", f"/api/webhooks/secret?url={URL}", scope=scope)
        assert (refused.status, refused.code) == (403, "FORBIDDEN")
        assert "whsec_" not in refused.text


def test_during_rotation_both_secrets_are_shown_the_current_one_first(
    api: Api, masters: Callable[..., None]
) -> None:
    masters(current=show_secret(CURRENT), previous=show_secret(FORMER))

    answer = api.call("GET", f"/api/webhooks/secret?url={URL}")

    derived = [show_secret(derive_secret(one, "https://hooks.example.com")) for one in (CURRENT, FORMER)]
    assert answer.body["secrets"] == derived


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks.example.com",
        "ftp://hooks.example.com/",
        "https://",
        "https://me@hooks.example.com/",
        "http://127.0.0.1/",
        "http://169.254.169.254/",
        "http://2130706433/",
        "https://hooks.example.com/" + "x" * 2048,
    ],
)
def test_a_secret_of_no_possible_receiver_is_a_bad_field(api: Api, url: str) -> None:
    answer = api.call("GET", f"/api/webhooks/secret?url={url}")

    assert (answer.status, answer.code, answer.fields) == (400, "VALIDATION_ERROR", {"url": "INVALID_URL"})
