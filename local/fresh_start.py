"""Whether the kept state may be used, or thrown away."""

from local.server import SimulatorServer
from local.state import StateDir
from ops.command import RefusalError
from ops.novita import NovitaAccount

NO, YES, FORCE = ("", "0", "no", "false"), ("1", "yes", "true"), "force"


def wants_fresh(text: str) -> bool:
    if text.lower() not in (*NO, *YES, FORCE):
        raise RefusalError(f"FRESH is {text!r}: must be 1, or force")
    return text.lower() not in NO


def clear_state(
    state: StateDir, simulator: SimulatorServer, real_novita: NovitaAccount | None, fresh: str
) -> None:
    """Machines that nobody remembers go on costing money, so this refuses while any of ours live."""
    deployment_id = state.deployment_id.read_text().strip() if state.deployment_id.exists() else ""
    if deployment_id and fresh.lower() != FORCE:
        novita = real_novita or NovitaAccount("local", simulator.api_url, loopback=True)
        if living := novita.living_machines(deployment_id):
            raise RefusalError(
                f"machines of ours live at {'Novita' if real_novita else 'the simulator'}: "
                f"{', '.join(living)}. Delete them first, or forget them with FRESH=force."
            )
    state.clear()
    if not real_novita:
        simulator.reset()


def require_same_novita(state: StateDir, real_novita: NovitaAccount | None) -> None:
    """Records of simulated machines must not be held against real ones, nor the other way round."""
    file = state.running / "novita"
    now = real_novita.base_url if real_novita else "simulator"
    before = file.read_text().strip() if file.exists() else now
    if before != now:
        raise RefusalError(
            f"the state in {state.path} belongs to another Novita ({before}, now {now}). "
            "Give this copy a folder of its own with OSTLER_STATE_DIR, or begin anew with FRESH=1."
        )
    file.write_text(f"{now}\n")
