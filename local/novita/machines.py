"""A rented machine; what it is at any time is a pure function of its timelines and that time."""

from dataclasses import dataclass, field

from local.novita import lifecycle
from local.novita.orders import Env, NetworkStorage, Port, Tool
from local.novita.timeline import Step, Timeline


@dataclass(frozen=True)
class Spot:
    """`status` is None until someone says otherwise on a machine that is not spot."""

    status: str | None
    reclaim_time: int = 0


@dataclass(frozen=True)
class StatusError:
    state: str = ""
    message: str = ""


@dataclass(frozen=True)
class PurchaseTerms:
    """The terms of the purchase: a later change of the product does not change them."""

    product_id: str
    product_name: str
    cluster_id: str
    region: str
    gpu_num: int
    cpus: int
    memory: int
    billing_mode: str
    unit_price: int
    max_root_fs: int


@dataclass(frozen=True)
class TakenAction:
    """What a caller of the API told the machine to do, and it did."""

    at: float
    action: str


@dataclass
class Machine:
    id: str
    ordinal: int
    name: str
    created_at: float
    terms: PurchaseTerms
    image_url: str
    image_auth_id: str
    command: str
    entrypoint: str
    rootfs_size: int
    kind: str
    ports: list[Port]
    envs: list[Env]
    tools: list[Tool]
    create_body: dict[str, object]
    mounts: list[NetworkStorage] = field(default_factory=list)
    account: str = ""  # whose it is: other accounts do not see it
    addresses: dict[str, str] = field(
        default_factory=dict
    )  # by port: where a control call lets it lead instead
    statuses: Timeline[str] = field(default_factory=Timeline)
    spots: Timeline[Spot] = field(default_factory=Timeline)
    errors: Timeline[StatusError] = field(default_factory=Timeline)
    actions: list[TakenAction] = field(default_factory=list)
    reclaimed_as: str = "exited"  # the status that a reclaim ends in
    no_room_until: float = 0  # starts are refused until then
    hidings: Timeline[bool] = field(default_factory=Timeline)  # it lives, and Novita does not show it
    gpu_uses: Timeline[list[float | None]] = field(default_factory=Timeline)  # percent; None: not measured

    def status(self, t: float) -> str:
        return self.statuses.value(t) or "toCreate"

    def spot(self, t: float) -> Spot:
        return self.spots.value(t) or Spot(None)

    def error(self, t: float) -> StatusError:
        return self.errors.value(t) or StatusError()

    def plan(self, t: float, steps: list[Step[str]]) -> None:
        """Lead the status through these steps; a reclaim that is announced still comes."""
        self.statuses.replan(t, steps)
        self.errors.replan(t, [Step(t, StatusError())])
        self._apply_reclaim(t)

    def reclaim(
        self, t: float, in_seconds: float, stop_seconds: float, *, end: str = "exited", notice: bool = True
    ) -> None:
        at = t + in_seconds
        self.reclaimed_as = end
        if not notice:
            self._take_away(at, at + stop_seconds)
            return
        self.spots.replan(
            t,
            [
                Step(t, Spot("notified", int(at))),
                Step(at, Spot("reclaiming", int(at))),
                Step(at + stop_seconds, Spot("terminated", int(at))),
            ],
        )
        self._apply_reclaim(t)

    def clear_reclaim(self, t: float) -> None:
        """A machine that was taken away and runs again is as good as new."""
        if self.spot(t).status in ("reclaiming", "terminated"):
            self.spots.replan(t, [Step(t, Spot("running"))])

    def removed_at(self, t: float) -> float | None:
        step = self.statuses.step(t)
        return step.at if step and step.value == "removed" else None

    def visible(self, t: float, removed_visible_seconds: float) -> bool:
        removed = self.removed_at(t)
        there = self.created_at <= t and (removed is None or t < removed + removed_visible_seconds)
        return there and not self.hidden(t)

    def hidden(self, t: float) -> bool:
        return bool(self.hidings.value(t))

    def hidden_spans(self, t: float) -> list[tuple[float, float | None]]:
        return lifecycle.spans(self.hidings.until(t))

    def hide(self, t: float, seconds: float | None) -> None:
        """From now on, for so long or until it is shown again."""
        shown_again = [] if seconds is None else [Step(t + seconds, False)]
        self.hidings.replan(t, [Step(t, True), *shown_again])

    def show(self, t: float) -> None:
        self.hidings.replan(t, [Step(t, False)])

    def gpu_use(self, gpu: int, t: float) -> float | None:
        """Idle unless somebody says otherwise; not measured while it does not run."""
        if self.status(t) != "running":
            return None
        uses = self.gpu_uses.value(t)
        return 0.0 if uses is None else uses[gpu]

    def tells_use_of(self, gpu: int) -> bool:
        """Whether it was ever measured, or still may be."""
        steps = self.gpu_uses.steps
        return not steps or any(step.value[gpu] is not None for step in steps)

    def running_since(self, t: float) -> float | None:
        step = self.statuses.step(t)
        return step.at if step and step.value == "running" else None

    def listens_on(self, port: str) -> bool:
        return port in {*(str(known.port) for known in self.ports), *(tool.port for tool in self.tools)}

    def last(self, status: str, t: float) -> float | None:
        return next((step.at for step in reversed(self.statuses.until(t)) if step.value == status), None)

    def billing(self, t: float) -> bool:
        steps = lifecycle.billing_steps(self.statuses.until(t))
        return bool(steps) and steps[-1].value

    def billed(self, t: float) -> list[tuple[float, float | None]]:
        """The intervals in which it is billed."""
        return lifecycle.spans(lifecycle.billing_steps(self.statuses.until(t)))

    def stored(self, t: float) -> list[tuple[float, float | None]]:
        """The intervals in which it is stopped, and only its disk is billed."""
        return lifecycle.spans([Step(step.at, step.value == "exited") for step in self.statuses.until(t)])

    def billed_since(self, t: float) -> float | None:
        """When the last of these intervals began."""
        return next((begin for begin, _ in reversed(self.billed(t))), None)

    def billed_seconds(self, t: float) -> float:
        steps = lifecycle.billing_steps(self.statuses.until(t))
        ends = [*(step.at for step in steps[1:]), t]
        return sum(end - step.at for step, end in zip(steps, ends, strict=False) if step.value)

    def _apply_reclaim(self, t: float) -> None:
        ahead = {step.value.status: step.at for step in self.spots.steps if step.at >= t}
        if "reclaiming" in ahead:
            self._take_away(ahead["reclaiming"], ahead["terminated"])

    def _take_away(self, begin: float, end: float) -> None:
        if self.statuses.steps[-1].value == "running":
            self.statuses.replan(begin, [Step(begin, "stopping"), Step(end, self.reclaimed_as)])
