"""What a comparison with Novita's list found, and what became of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from functions.shared.domain.instance import Fault


class Kind(StrEnum):
    FOLLOWED = "followed"  # Novita shows something that the record does not know yet
    DOUBTED = "doubted"  # absent from the list: a get by id tells
    SURPLUS = "surplus"  # a machine with an instance's mark that is not its machine
    ORPHAN = "orphan"  # a machine with our mark, and no record


@dataclass(frozen=True)
class Finding:
    kind: Kind
    machine_id: str
    instance_id: str
    action: str  # the status that the record has then; look; adopt, delete; announce, keep
    done: bool = False  # by this comparison


@dataclass(frozen=True)
class Outcome:
    complete: bool  # everything was looked at in the time there was
    known: int  # records that have a machine
    braked: bool = False
    findings: tuple[Finding, ...] = ()
    fault: Fault | None = None  # why Novita's list could not be read

    def of(self, kind: Kind) -> Iterator[Finding]:
        return (one for one in self.findings if one.kind is kind)

    def counts(self) -> dict[str, int | bool]:
        return {
            "complete": self.complete,
            "braked": self.braked,
            "known": self.known,
            "changed": sum(one.done for one in self.findings if one.kind is not Kind.ORPHAN),
            "unlisted": sum(1 for _ in self.of(Kind.DOUBTED)),
            "surplus": sum(1 for _ in self.of(Kind.SURPLUS)),
            "orphans": sum(1 for _ in self.of(Kind.ORPHAN)),
            "orphans_deleted": sum(one.done and one.action == "delete" for one in self.of(Kind.ORPHAN)),
        }
