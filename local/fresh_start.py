"""Whether the kept state may be used, or thrown away."""

from local.problems import RefusalError
from local.provider import RealNovita
from local.simulator import Simulator
from local.state import StateDir
from ops.novita import living_machines

NO, YES, FORCE = ("", "0", "no", "false"), ("1", "yes", "true"), "force"


def wants_fresh(text: str) -> bool:
    if text.lower() not in (*NO, *YES, FORCE):
        raise RefusalError(f"FRESH is {text!r}: must be 1, or force")
    return text.lower() not in NO


def throw_state_away(state: StateDir, simulator: Simulator, real: RealNovita | None, fresh: str) -> None:
    """Machines that nobody remembers go on costing money, so this refuses while any of ours live."""
    deployment = state.deployment.read_text().strip() if state.deployment.exists() else ""
    if deployment and fresh.lower() != FORCE:
        if real:
            alive = living_machines(real.base_url, real.key, deployment, loopback=False)
        else:
            alive = living_machines(simulator.api_url, "local", deployment, loopback=True)
        if alive:
            raise RefusalError(
                f"machines of ours live at {'Novita' if real else 'the simulator'}: {', '.join(alive)}. "
                "Delete them first, or forget them with FRESH=force."
            )
    state.forget()
    if not real:
        simulator.reset()


def require_same_novita(state: StateDir, real: RealNovita | None) -> None:
    """Records of simulated machines must not be held against real ones, nor the other way round."""
    note = state.running / "novita"
    now = real.base_url if real else "simulator"
    before = note.read_text().strip() if note.exists() else now
    if before != now:
        raise RefusalError(
            f"the state in {state.path} belongs to another Novita ({before}, now {now}). "
            "Give this copy a folder of its own with OSTLER_STATE_DIR, or begin anew with FRESH=1."
        )
    note.write_text(f"{now}\n")
