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
    if not (reason := _why_machines_may_live(state, real_novita)):
        return
    raise RefusalError(
        f"{found}. It would be moved aside, but {reason}. Nothing is changed. Either\n"
        "- delete them, with the version that saved it or in Novita's console, and start again, or\n"
        "- give this copy a folder of its own with OSTLER_STATE_DIR, or\n"
        "- start with FRESH=force: what was saved is moved aside and the machines go on billing; they are\n"
        "  then found as orphans and can be imported (docs/runbook.md, Orphans)."
    )


def _why_machines_may_live(state: StateDir, real_novita: NovitaAccount | None) -> str:
    """Empty where none does: the Novita that the records belong to is asked, which may not be today's."""
    deployment_id, saved_novita = _deployment_id(state), state.saved_novita()
    if real_novita and deployment_id:
        try:
            living = real_novita.living_machines(deployment_id)
        except RefusalError as error:
            return str(error)
        if living:
            return f"machines of ours live at Novita: {', '.join(living)}"
    if saved_novita in ("simulator", real_novita.base_url if real_novita else ""):
        return ""
    return f"machines of ours may live at {saved_novita}, and its NOVITA_API_KEY is needed to ask"


def _deployment_id(state: StateDir) -> str:
    return state.deployment_id.read_text().strip() if state.deployment_id.exists() else ""


def clear_state(
    state: StateDir, simulator: SimulatorServer, real_novita: NovitaAccount | None, fresh: str
) -> None:
    """The simulator's machines are play money: they go with the rest, without a question."""
    if fresh.lower() != FORCE and (reason := _why_machines_may_live(state, real_novita)):
        raise RefusalError(f"{reason}. Delete them first, or forget them with FRESH=force.")
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
