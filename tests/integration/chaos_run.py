"""A chaos run: which function is called when and where it crashes, all from one seed.

Everything happens on one thread, in virtual time. Functions run at the same time by one being interrupted at
one of its calls and another running to its end there, in an environment of its own.
"""

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from random import Random
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from functions.announce.handler import handler as announce
from functions.shared.platform import wiring
from ops import keys
from tests.integration.callers import Caller, crowding_read
from tests.integration.fault_profiles import FaultProfile
from tests.integration.harness import Context, Harness
from tests.integration.proxy import UNSEEN_SECONDS, FaultProxy
from tests.integration.wire import Killed, Made, WatchedWiring

_MINUTE = timedelta(minutes=1)
_BACK_AFTER = timedelta(seconds=180)  # a message whose function died or could not put it back
_ENVIRONMENTS = 4
_OTHER_KEY = "the key of another account"
_KEY_HELD = timedelta(minutes=6)  # by a function, and then a sweep has to see that it is ours
_HUNG_SECONDS = 15.0  # what whoever hangs takes of a worker's time
_QUIET_SWEEPS = 4  # in a row without anything to do, and then it is believed
_LONGEST_ASKING = timedelta(hours=4)
_LONGEST_WAY_TO_REST = timedelta(hours=4)  # longer than any deadline, and than all waits between webhooks


class ChaosRun:
    def __init__(self, harness: Harness, proxy: FaultProxy, random: Random, profile: FaultProfile) -> None:
        self.harness = harness
        self.callers: list[Caller] = []
        self.injected: Counter[str] = Counter()
        self.sent: list[tuple[str, str]] = []  # every message: its queue and its body
        self.blind: list[tuple[datetime, datetime]] = []  # with another account's key
        self._proxy = proxy
        self._random = random
        self._profile = profile
        self._swept_at = harness.now()
        self._pending: list[tuple[str, dict[str, Any]]] = []
        self._later: list[tuple[datetime, int, str, str]] = []
        self._streamed: set[tuple[str, str, str]] = set()
        self._environments: list[WatchedWiring] = []
        self._busy: WatchedWiring | None = None
        self._dead = self._second_sweep_in = 0
        self._hangs = self._hung = False
        self._other_key_at = harness.now()
        self._right_key_at: datetime | None = None  # until then another account's is in use
        self._reader, self._crowded = keys.new_key(), 0
        self._with_faults = True
        proxy.now, proxy.random, proxy.faults = harness.now, Random(random.random()), profile.wire
        proxy.injected = Counter()
        harness.cold = self._begins
        harness.skew = self._skew
        harness.redeliver = self._redeliver  # type: ignore[method-assign]  # messages come back later
        harness.wire.before, harness.wire.after = self._before, self._after
        harness.outbound_hangs = self._outbound_hangs
        harness.environment |= dict(profile.settings)
        harness.simulator.settings(accounts={_OTHER_KEY: "another"})
        harness.add_key(self._reader, "read")
        harness.restart()
        if profile.novita_settings:
            self.injected["Novita: list lagging or in small pages"] += 1
            harness.simulator.settings(**dict(profile.novita_settings))
        for number, fault in enumerate(profile.novita):
            harness.simulator.fault(**{"seed": number + random.randrange(1_000_000), **fault})

    # What happens

    def run(self, callers: list[Caller], calm_after: float) -> None:
        """With faults until all callers are done and a while longer, then without, until all is at rest."""
        self.callers = callers
        harness, begun = self.harness, self.harness.now()
        while not all(caller.done for caller in callers) and harness.now() - begun < _LONGEST_ASKING:
            self._turn()
        end = harness.now() + timedelta(seconds=calm_after)
        while harness.now() < end:
            self._turn()
        self._calm()
        self._rest()

    def _calm(self) -> None:
        self._with_faults = False
        self._put_right_key()
        self._show_all()
        applied = (
            (fault["kind"], fault["commit"], fault["applied"]) for fault in self.harness.simulator.faults()
        )
        for kind, commit, times in applied:
            if times:
                self.injected[f"Novita: {kind}{' after commit' if commit else ''}"] += times
        self.harness.simulator.clear_faults()
        self.harness.simulator.settings(listLagSeconds=2)
        self._proxy.faults = ()

    def _rest(self) -> None:
        """Until nothing is due, nothing is under way, and several sweeps find nothing to do."""
        quiet, end = 0, self.harness.now() + _LONGEST_WAY_TO_REST
        while self.harness.now() < end:
            swept = self._swept_at
            nothing = not self._turn() and self._still()
            quiet = quiet + (self._swept_at != swept) if nothing else 0
            if quiet >= _QUIET_SWEEPS:
                self.injected.update(self._proxy.injected)
                return
        due = [(kind, len(self.harness._due(kind))) for kind in ("instance", "event", "delivery")]
        busy = [one for one in self.harness.records() if not one.at_rest]
        restless = f"{due}, {self._later} come back, busy: {busy}"
        raise AssertionError(f"not at rest after {_LONGEST_WAY_TO_REST}: {restless}")

    def _still(self) -> bool:
        due = any(self.harness._due(kind) for kind in ("instance", "event", "delivery"))
        return not due and not self._later and all(caller.done for caller in self.callers)

    def _turn(self) -> bool:
        """Whether anything happened."""
        self._proxy.release()
        self._novita_lies()
        self._crowd()
        asked = self._ask()
        streamed = self._stream()
        handled = self._messages()
        if self.harness.now() - self._swept_at >= _MINUTE:
            self._sweep()
            handled += self.harness.handle_dead_letters()
        self._harvest()
        if self._hung:
            self._hung = False
            self.harness.advance(_HUNG_SECONDS)
        busy = asked or streamed or handled
        self.harness.advance(1.0 if busy else max(1.0, (self._next() - self.harness.now()).total_seconds()))
        return bool(busy)

    def _next(self) -> datetime:
        times = [self._swept_at + _MINUTE, *(at for at, *_ in self._later)]
        times += [caller.next_at for caller in self.callers if not caller.done]
        return min([*times, at] if (at := self._proxy.next_release()) else times)

    # A provider that lies, callers that crowd

    def _novita_lies(self) -> None:
        if self._right_key_at and self._right_key_at <= self.harness.now():
            self._put_right_key()
        if not self._with_faults:
            return
        if self._random.random() < self._profile.hides and (live := self._live()):
            self.injected["machine hidden"] += 1
            self.harness.simulator.hide(self._random.choice(live), self._random.uniform(20, 600))
        if self._profile.reclaims and self._random.random() < self._profile.reclaims:
            self._take_one_away()
        due = self._random.random() < self._profile.other_account and self._right_key_at is None
        # Where no machine is ours yet, any key is believed, and what it buys would be nobody's.
        if due and self._live():
            self.injected["another account's key"] += 1
            self.harness.put_secret("novita", _OTHER_KEY)
            self._other_key_at = self.harness.now()
            self._right_key_at = self.harness.now() + timedelta(minutes=self._random.uniform(6, 15))

    def _take_one_away(self) -> None:
        """With or without notice, stopped or removed, with or without room for it for a while."""
        shown = ((one["id"], one["status"], one["spotStatus"]) for one in self.harness.simulator.live())
        running = [id_ for id_, status, spot in shown if (status, spot) == ("running", "running")]
        if not running:
            return
        self.injected["spot machine taken away"] += 1
        notice = self._random.random() < 0.5
        removed = notice and self._random.random() < 0.2
        no_room = self._random.choice((0, 0, 100, 400, 5000))
        how = {"notice": notice, "removed": removed, "noRoomSeconds": no_room}
        in_seconds = self._random.uniform(70, 200) if notice else 0
        self.harness.simulator.reclaim(self._random.choice(running), in_seconds, **how)

    def _live(self) -> list[str]:
        return [one["id"] for one in self.harness.simulator.live() if not one["hidden"]]

    def _put_right_key(self) -> None:
        if self._right_key_at:
            self.harness.put_secret("novita", "novita-key")
            self.blind.append((self._other_key_at, self.harness.now() + _KEY_HELD))
            self._right_key_at = None

    def _show_all(self) -> None:
        for machine in self.harness.simulator.live():
            if machine["hidden"]:
                self.harness.simulator.show(machine["id"])

    def _crowd(self) -> None:
        """One caller asks for whatever it may read, as often as it can."""
        if not self._with_faults:
            return
        for _ in range(self._profile.crowd):
            known = [caller.instance_id for caller in self.callers if caller.instance_id]
            request = crowding_read(self._crowded, self._random.choice(known) if known else "")
            self._crowded += 1
            self.injected["request of a crowding caller"] += 1
            try:
                with self.harness.wire.handling("api"):
                    self.harness.call(*request, {"authorization": f"Bearer {self._reader}"})
            except Killed:
                self.harness.restart()

    def _outbound_hangs(self) -> bool:
        self._hung = self._hung or self._hangs
        return self._hangs

    def _harvest(self) -> None:
        for made in self.harness.wire.calls:
            if made.name.startswith("SendMessage "):
                self.sent.append((made.name.removeprefix("SendMessage "), made.params["MessageBody"]))
        self.harness.wire.calls.clear()

    def _ask(self) -> int:
        due = self._due_callers()
        for caller in due:
            if not caller.done:  # it may have come to its end meanwhile
                caller.act(self.harness, self._random)
        return len(due)

    def _due_callers(self) -> list[Caller]:
        return [caller for caller in self.callers if not caller.done and caller.next_at <= self.harness.now()]

    def _stream(self) -> int:
        """Every change of an event that is due is one record of the stream, which may be lost or doubled."""
        keys = [(one["pk"]["S"], one["sk"]["S"], one["dueAt"]["N"]) for one in self.harness._due("event")]
        fresh = [key for key in keys if key not in self._streamed]
        self._streamed = set(keys)
        for pk, sk, _ in fresh:
            image = self.harness._item({"pk": {"S": pk}, "sk": {"S": sk}})
            for _ in range(self._times()):
                self._announce(pk, image)
        return len(fresh)

    def _times(self) -> int:
        drawn = self._random.random() if self._with_faults else 1.0
        if drawn < self._profile.stream_lost:
            self.injected["stream record lost"] += 1
            return 0
        if drawn < self._profile.stream_lost + self._profile.stream_doubled:
            self.injected["stream record doubled"] += 1
            return 2
        return 1

    def _announce(self, about: str, image: dict[str, Any]) -> None:
        self.harness._begin_invocation(about)
        try:
            with self.harness.wire.handling("announce", about):
                announce({"Records": [{"dynamodb": {"NewImage": image}}]}, Context())
        except Killed:
            self.harness.restart()

    def _messages(self) -> int:
        now = self.harness.now()
        for _, _, queue, handle in [one for one in self._later if one[0] <= now]:
            self._show(queue, handle)
        self._later = [one for one in self._later if one[0] > now]
        for queue in sorted(self._proxy.filled & self.harness.queues.keys()):  # dead letters wait for a sweep
            while records := self.harness.receive(queue, VisibilityTimeout=UNSEEN_SECONDS):
                self._pending += [(queue, record) for record in records]
        self._proxy.filled.clear()
        self._random.shuffle(self._pending)
        handled = len(self._pending)
        while self._pending:
            self._hand_over(*self._pending.pop())
        return handled

    def _hand_over(self, queue: str, record: dict[str, Any]) -> None:
        waiting = len(self._later)
        if self.harness.handle(queue, record):
            return
        if len(self._later) == waiting and not self._proxy.hides(record["receiptHandle"]):
            self._redeliver(queue, record)

    def _redeliver(self, queue: str, record: dict[str, Any]) -> None:
        """Its function died, or could not say when it should come back: the queue's own time-out does."""
        if handle := record["receiptHandle"]:
            self._later.append((self.harness.now() + _BACK_AFTER, len(self._later), queue, handle))

    def _show(self, queue: str, handle: str) -> None:
        url = self.harness.queues[queue]
        with suppress(self.harness.sqs.exceptions.ReceiptHandleIsInvalid):  # it was there before its time
            self.harness.sqs.change_message_visibility(
                QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0
            )
        self._proxy.filled.add(queue)

    def _sweep(self) -> None:
        self._swept_at = self.harness.now()
        if self._with_faults and self._random.random() < self._profile.two_sweeps:
            self._second_sweep_in = self._random.randint(1, 25)
        self._swept()
        self._second_sweep_in = 0

    def _swept(self) -> None:
        """One that the table does not let end has failed, and the next minute brings another."""
        try:
            self.harness.sweep()
        except (ClientError, BotoCoreError):
            self.injected["sweep failed"] += 1

    # What goes wrong within a function

    def _begins(self, _: str) -> bool:
        """One environment of several takes the invocation, or a new one."""
        self._hangs = self._with_faults and self._random.random() < self._profile.hang
        if self._hangs:
            self.injected["receivers and applications hang"] += 1
        free = [one for one in self._environments if one is not self._busy]
        if len(free) < _ENVIRONMENTS or self._random.random() < 0.05:
            self._environments = free[-_ENVIRONMENTS:] + ([self._busy] if self._busy else [])
            self.harness.restart()
            self._environments.append(self.harness.wiring)
        else:
            self.harness.wiring = self._random.choice(free)
            wiring.use(self.harness.wiring)
        return False

    def _skew(self) -> timedelta:
        most = self._profile.skew_seconds
        if most:
            self.injected["clock off"] += 1
        return timedelta(seconds=self._random.uniform(-most, most))

    def _before(self, made: Made) -> None:
        if made.invocation == self._dead:  # another thread of a function that has died
            raise Killed
        if not self._with_faults:
            return
        if self._second_sweep_in and made.handler == "sweep":
            self._second_sweep_in -= 1
            if not self._second_sweep_in:
                self._meanwhile("two sweeps at once", self._swept)
        if self._random.random() < self._profile.meanwhile:
            self._something_else()
        self._die(made)

    def _after(self, made: Made) -> None:
        if self._with_faults:
            self._die(made)

    def _die(self, made: Made) -> None:
        if self._random.random() < self._profile.crashes / 2:
            self.injected["function died"] += 1
            self._dead = made.invocation
            self._environments = [one for one in self._environments if one is not self.harness.wiring]
            raise Killed

    def _something_else(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        due = self._due_callers()
        if due and self._random.random() < 0.5:
            caller = self._random.choice(due)
            self._meanwhile("at the same time: a request", lambda: caller.act(self.harness, self._random))
        elif self._pending:
            queue, record = self._pending.pop(self._random.randrange(len(self._pending)))
            self._meanwhile("at the same time: a message", lambda: self._hand_over(queue, record))

    def _meanwhile(self, what: str, work: Callable[[], object]) -> None:
        self.injected[what] += 1
        self._busy, handler = self.harness.wiring, (self.harness.wire.handler, self.harness.wire.about)
        try:
            self.harness.elsewhere(work)
        finally:
            self._busy = None
            self.harness.wire.handler, self.harness.wire.about = handler
