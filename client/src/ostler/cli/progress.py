"""Waiting, as a person watches it: phase, time since, time expected, and what it waits for in words."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ostler.cli.session import FAILED, INTERRUPTED, TOO_LONG, Session, say
from ostler.cli.words import COLOURS, DOING, ago, seconds_of, span, usd, why

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ostler.models import Accepted, Created, Instance
    from ostler.waiting import Progress

_FRAMES_PER_SECOND = 8
_SIGN_OF_LIFE_SECONDS = 30.0  # between two lines that say nothing new


class NotReached(SystemExit):
    """It did not come to what was waited for, and the user knows; `instance` as it was last seen."""

    code: int

    def __init__(self, code: int, instance: Instance | None) -> None:
        super().__init__(code)
        self.instance = instance


class Watch:
    """Told of every look; shows one line that lives in a terminal, and a line for each change in a pipe.
    `label`: which it is, where several are waited for."""

    def __init__(self, label: str, expected: float | None, status: str) -> None:
        self.label = f"{label}: " if label else ""
        self.expected = expected
        self.began = self.phase_began = self.said_at = time.monotonic()
        self.silent_since: float | None = None
        self.status = status
        self.waiting = ""
        self.said = ""
        self.console: Any = None

    def note(self, progress: Progress) -> None:
        seen, now = progress.instance, time.monotonic()
        if progress.problem:
            self.silent_since = self.silent_since or now
        else:
            self.silent_since = None
        if seen:
            if seen["status"] != self.status:
                self.end_phase(now, _bought(seen) if self.status == "creating" else "")
                self.status, self.phase_began = seen["status"], now
            self.waiting = why(seen)
        if not self.console:
            self._say_changes(now)

    def end_phase(self, now: float, more: str = "", *, well: bool = True) -> None:
        """In a terminal what is over stays as a line."""
        if not self.status or not self.console:
            return
        from rich.text import Text

        plain = self.console.options.ascii_only
        mark = ("+" if plain else "✔") if well else ("x" if plain else "✘")
        line = Text.assemble((mark, "green" if well else "red"), f" {self.label}{self.status:16}")
        line.append(f"{span(now - self.phase_began):14}{more}".rstrip())
        self.console.print(line, no_wrap=True, overflow="ellipsis")

    def _say_changes(self, now: float) -> None:
        told = f"{self.status} {'?' if self.silent_since else ''}{self.waiting.partition('; next try')[0]}"
        if told != self.said or now - self.said_at >= _SIGN_OF_LIFE_SECONDS:
            self.said, self.said_at = told, now
            say(self.line())

    def line(self) -> str:
        """`starting  12 s of about 1 min  on its way up`"""
        status = f"{self.label}{self.status or 'unknown'}"
        return "  ".join(part for part in (status, *self._since_and_why()) if part)

    def _since_and_why(self) -> tuple[str, str]:
        now = time.monotonic()
        since = now - self.began
        time_words = span(since)
        if self.expected:
            longer = since > self.expected
            time_words += (
                f", longer than the {span(self.expected)} expected"
                if longer
                else f" of about {span(self.expected)}"
            )
        if self.silent_since is not None:
            words = f"no answer from the service for {span(now - self.silent_since)}, trying again"
        else:
            words = self.waiting or DOING.get(self.status, "")
        return time_words, words

    def __rich__(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1))
        grid.add_column(no_wrap=True)
        grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        frames = "|/-\\" if self.console.options.ascii_only else "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
        frame = frames[int(time.monotonic() * _FRAMES_PER_SECOND) % len(frames)]
        since, words = self._since_and_why()
        colour = COLOURS.get(self.status, "cyan")
        status = (f"{self.status or 'unknown':16}", colour)
        line = Text.assemble(self.label, status, f"{since}  ", (words, "dim"))
        grid.add_row(Text(frame, style=colour), line)
        return grid


def _bought(seen: Instance) -> str:
    """What the wait for stock has ended with."""
    if not seen.get("novitaInstanceId") or seen["status"] == "failed":
        return ""
    price = f"${usd(seen['pricePerGpuHour'])} per GPU and hour" if seen.get("pricePerGpuHour") else ""
    return ", ".join(filter(None, (seen.get("productName"), seen.get("region"), price)))


def _live(watch: Watch) -> Any:
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console
    from rich.live import Live

    watch.console = Console(stderr=True)
    return Live(watch, console=watch.console, refresh_per_second=_FRAMES_PER_SECOND, transient=True)


def _how_to_go_on(ids: Sequence[str], wanted: str) -> None:
    for one in ids:
        say(f"  follow  ostler wait {one}{f' --for {wanted}' if wanted != 'up' else ''}")
        say(f"  events  ostler events -f {one}")
    if wanted != "gone":
        say(f"  delete  ostler rm {' '.join(ids)}")


def wait(
    session: Session,
    one: Instance | dict[str, Any],
    wanted: str,
    timeout: str | None,
    *,
    accepted: Accepted | Created | None = None,
    among: Sequence[Instance] | None = None,
) -> Instance:
    """Until it is so; Ctrl-C ends the waiting alone, and says so. `accepted`: what began it; `among`: of
    several, those that are still waited for, this one first."""
    from ostler.errors import InstanceFailed, WaitTimeout

    instance_id, name = str(one["instanceId"]), str(one["name"])
    ready_by = accepted.get("estimatedReadyTime") if accepted else None
    expected = max(1.0, -ago(ready_by)) if ready_by else None
    watch = Watch(name if among else "", expected, accepted["status"] if accepted else "")
    waiting = [str(other["instanceId"]) for other in among or (one,)]
    seconds = seconds_of(timeout) if timeout else None
    try:
        with _live(watch):
            found = session.client.wait_until(instance_id, wanted, timeout=seconds, on_progress=watch.note)
            watch.end_phase(time.monotonic())
    except KeyboardInterrupt:
        who = f"{name} goes" if len(waiting) == 1 else f"All {len(waiting)} go"
        say(f"No longer waiting. {who} on all the same:")
        _how_to_go_on(waiting, wanted)
        raise SystemExit(INTERRUPTED) from None
    except WaitTimeout as late:
        say(f"{late}. It goes on all the same:")
        _how_to_go_on([instance_id], wanted)
        raise NotReached(TOO_LONG, late.instance) from None
    except InstanceFailed as failed:
        watch.end_phase(time.monotonic(), well=False)
        say(str(failed), "red")
        if failed.instance["status"] == "failed" and failed.instance.get("cleanup"):
            say("  Its machine is being given back.")
        say(f"  more  ostler events {instance_id}")
        raise NotReached(FAILED, failed.instance) from None
    waited = time.monotonic() - watch.began
    after = f" after {span(waited)}" if watch.status or waited >= 1 else ""
    say(f"{name} is {found['status']}{after}.", COLOURS.get(found["status"]))
    return found
