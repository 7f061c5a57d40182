"""Whether the kept state is used, moved aside or cleared.

Machines that nobody remembers go on costing money, so nothing is put away while real ones of ours live.
"""

from collections.abc import Callable

from local.paths import display_path
from local.server import SimulatorServer
from local.state import VERSION, StateDir
from ops.command import RefusalError
from ops.novita_account import NovitaAccount

NO, YES, FORCE = ("", "0", "no", "false"), ("1", "yes", "true"), "force"


def wants_fresh(text: str) -> bool:
    if text.lower() not in (*NO, *YES, FORCE):
        raise RefusalError(f"FRESH is {text!r}: must be 1, or force")
    return text.lower() not in NO


def set_other_version_aside(
    state: StateDir, real_novita: NovitaAccount | None, fresh: str, say: Callable[[str], None]
) -> None:
    """What another version saved cannot be read, so it is moved aside and this run starts empty."""
    if not state.is_saved() or state.saved_version() == VERSION:
        return
    found = f"the state in {display_path(state.path)} was saved by {_whose(state.saved_version())}"
    if fresh.lower() != FORCE:
        _refuse_to_forget_real_machines(state, real_novita, found)
    aside = display_path(state.move_aside())
    say(
        f"{found}, and is not used.\n"
        f"It is moved to {aside}; nothing is lost. The API key and the webhook secret stay as they are.\n"
        f"To use it, run the version that saved it with OSTLER_STATE_DIR={aside}. Now starting empty."
    )


def _whose(version: int | None) -> str:
    if version is None:
        return f"an unknown version of Ostler (its format has no number, this one reads {VERSION})"
    age = "an older" if version < VERSION else "a newer"
    return f"{age} version of Ostler (in format {version}, this one reads {VERSION})"


def _refuse_to_forget_real_machines(state: StateDir, real_novita: NovitaAccount | None, found: str) -> None:
    saved_novita, deployment_id = state.saved_novita(), _deployment_id(state)
    if real_novita:
        try:
            living = real_novita.living_machines(deployment_id) if deployment_id else []
        except RefusalError as error:
            reason = str(error)
        else:
            if not living:
                return
            reason = f"machines of ours live at Novita: {', '.join(living)}"
    elif saved_novita == "simulator":
        return
    else:
        reason = f"machines of ours may live at {saved_novita}, which NOVITA_API_KEY is needed to ask"
    raise RefusalError(
        f"{found}. It would be moved aside, but {reason}. Nothing is changed. Either\n"
        "- delete them, with the version that saved it or in Novita's console, and start again, or\n"
        "- give this copy a folder of its own with OSTLER_STATE_DIR, or\n"
        "- start with FRESH=force: what was saved is moved aside and the machines go on billing; they are\n"
        "  then found as orphans and can be imported (docs/runbook.md, Orphans)."
    )


def _deployment_id(state: StateDir) -> str:
    return state.deployment_id.read_text().strip() if state.deployment_id.exists() else ""


def clear_state(
    state: StateDir, simulator: SimulatorServer, real_novita: NovitaAccount | None, fresh: str
) -> None:
    """The simulator's machines are play money: they go with the rest, without a question."""
    deployment_id = _deployment_id(state)
    asks = real_novita if deployment_id and fresh.lower() != FORCE else None
    if asks and (living := asks.living_machines(deployment_id)):
        raise RefusalError(
            f"machines of ours live at Novita: {', '.join(living)}. "
            "Delete them first, or forget them with FRESH=force."
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
