"""Which action is allowed in which status, and the statuses that it leads through."""

from dataclasses import dataclass

from local.novita.errors import ApiError
from local.novita.settings import Settings
from local.novita.timeline import Step


@dataclass(frozen=True)
class Action:
    allowed_in: frozenset[str]
    through: tuple[str, ...]
    to: str
    setting: str


ACTIONS = {
    "start": Action(frozenset({"exited"}), ("toStart", "starting"), "running", "start_seconds"),
    "stop": Action(frozenset({"running"}), ("toStop", "stopping"), "exited", "stop_seconds"),
    "restart": Action(frozenset({"running"}), ("toRestart", "restarting"), "running", "restart_seconds"),
    "migrate": Action(frozenset({"running", "exited"}), ("migrating",), "running", "migrate_seconds"),
    "upgrade": Action(frozenset({"running"}), ("toReset", "resetting"), "running", "restart_seconds"),
}
REMOVE = Action(frozenset(), ("toRemove", "removing"), "removed", "remove_seconds")
REMOVING = frozenset({*REMOVE.through, REMOVE.to})

# Of the whole time of a boot: when each status begins.
BOOT = (("toCreate", 0.0), ("creating", 0.1), ("pulling", 0.3), ("running", 1.0))

NOT_BILLED = frozenset({"toCreate", "creating", "pending", "exited", "removed"})
BILLED_AS_BEFORE = frozenset({"toStart", "freezing", "toRemove", "removing"})
WITHOUT_GPU = frozenset({"exited", "removed"})


def check_allowed(name: str, status: str) -> None:
    if status not in ACTIONS[name].allowed_in:
        raise ApiError("CONFLICT", f"invalid state change: cannot {name} an instance that is {status}")


def boot_steps(t: float, seconds: float) -> list[Step[str]]:
    return [Step(t + seconds * part, status) for status, part in BOOT]


def action_steps(action: Action, t: float, settings: Settings) -> list[Step[str]]:
    """The first status at once, the others a fifth of the time later, the last at the end."""
    seconds: float = getattr(settings, action.setting)
    first, *others = action.through
    return [
        Step(t, first),
        *(Step(t + seconds / 5, status) for status in others),
        Step(t + seconds, action.to),
    ]


def spans(steps: list[Step[bool]]) -> list[tuple[float, float | None]]:
    """From when to when it is so; the last one may be open."""
    found: list[tuple[float, float | None]] = []
    for step in steps:
        is_open = bool(found) and found[-1][1] is None
        if step.value and not is_open:
            found.append((step.at, None))
        elif not step.value and is_open:
            found[-1] = (found[-1][0], step.at)
    return [(begin, end) for begin, end in found if begin != end]


def billing_steps(steps: list[Step[str]]) -> list[Step[bool]]:
    """Billing begins at pulling and ends when the machine is stopped or removed."""
    billing = False
    found: list[Step[bool]] = []
    for step in steps:
        if step.value not in BILLED_AS_BEFORE:
            billing = step.value not in NOT_BILLED
        found.append(Step(step.at, billing))
    return found
