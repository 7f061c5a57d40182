"""The parts of the documents that are made from the code: `make readme` writes them, a test compares them."""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path

import click

from bench.results import RESULTS, read
from functions.api.app import build
from functions.api.auth import scope_for
from functions.api.responses import STATUS_OF
from functions.shared.domain.errors import CODES
from functions.shared.domain.instance.status import MEANING, NEXT, Status
from functions.shared.platform.observability import METRICS
from functions.shared.platform.settings import Settings
from local.paths import ROOT

README, SCREENS = ROOT / "README.md", ROOT / "docs" / "screens"
REFERENCE, RUNBOOK, CLI = (ROOT / "docs" / name for name in ("reference.md", "runbook.md", "cli.md"))
FIVE_MINUTES, OPERATE = (ROOT / "docs" / "guides" / name for name in ("five-minutes.md", "operate.md"))


def states() -> str:
    rows = ["| status | means | may be followed by |", "|---|---|---|"]
    for status in Status:
        after = ", ".join(f"`{one}`" for one in Status if one in NEXT[status])
        rows.append(f"| `{status}` | {MEANING[status]} | {after or 'nothing'} |")
    return "\n".join(rows)


def routes() -> str:
    rows = ["| route | success | scope | |", "|---|---|---|---|"]
    paths = json.loads(build().get_openapi_json_schema(title="Ostler", version="1"))["paths"]
    for path in sorted(paths):
        for method, operation in paths[path].items():
            (success,) = (code for code in operation["responses"] if code.startswith("2"))
            scope = scope_for(method.upper(), path) if path.startswith("/api") else ""
            rows.append(f"| {method.upper()} {path} | {success} | {scope} | {operation['summary']} |")
    return "\n".join(rows)


def errors() -> str:
    rows = ["| code | HTTP | meaning |", "|---|---|---|"]
    for code, meaning in sorted(CODES.items(), key=lambda entry: (STATUS_OF.get(entry[0], 999), entry[0])):
        rows.append(f"| `{code}` | {STATUS_OF.get(code, 'on instances')} | {meaning} |")
    return "\n".join(rows)


def settings() -> str:
    rows = ["| variable | default | bounds | what it is |", "|---|---|---|---|"]
    for item in fields(Settings):
        if item.default is MISSING:
            continue  # set by the stack
        unit = f" {item.metadata['unit']}" if item.metadata["unit"] else ""
        default = f"`{item.default}`{unit}" if item.default != "" else "none"
        rows.append(
            f"| `{item.name.upper()}` | {default} | {item.metadata['bounds']} | {item.metadata['about']} |"
        )
    return "\n".join(rows)


def metrics() -> str:
    rows = ["| metric | unit | by | answers |", "|---|---|---|---|"]
    for one in METRICS:
        by = f"`{one.dimension}`" if one.dimension else ""
        rows.append(f"| `{one.name}` | {one.unit} | {by} | {one.asks} |")
    return "\n".join(rows)


def commands() -> str:
    """Every command with its options, from the command line itself."""
    sys.path.insert(0, str(ROOT / "client" / "src"))  # a package of its own, not installed here
    from ostler.cli.main import cli

    return "\n\n".join(
        _command_help(cli, click.Context(cli, info_name="ostler", terminal_width=100, **cli.context_settings))
    )


def _command_help(command: click.Command, context: click.Context) -> list[str]:
    sections = [f"## `{context.command_path}`\n\n```\n{command.get_help(context)}\n```"]
    for name in command.list_commands(context) if isinstance(command, click.Group) else ():
        inner = command.get_command(context, name)  # type: ignore[attr-defined]  # it is a group
        below = click.Context(inner, info_name=name, parent=context, terminal_width=100)
        sections += _command_help(inner, below)
    return sections


def screen(name: str, *commands: str) -> Callable[[], str]:
    """What a test of the deployed service saw (`make screens`); of these commands alone, if any are named."""

    def shown() -> str:
        parts = re.split(r"(?m)\n\n(?=^\$ )", (SCREENS / f"{name}.txt").read_text().rstrip())
        wanted = [one for one in parts if not commands or one.removeprefix("$ ostler ").startswith(commands)]
        return "```text\n" + "\n\n".join(wanted) + "\n```"

    return shown


_TOLD_USD = 0.5  # parts of the bill that are smaller are the rest


def measured_bill() -> tuple[dict[str, float], str, str, str]:
    """USD by what it is for; and of an idle month with alarms, one without and of a thousand lives, the
    names."""
    bill = [row for row in read(RESULTS.read_text()) if row.group == "bill"]
    watched, unwatched, lives = (row.name for row in bill if not row.is_part)
    return {row.name: row.value for row in bill}, watched, unwatched, lives


def what_it_costs() -> str:
    usd, watched, unwatched, lives = measured_bill()
    parts = {name.rpartition(": ")[2]: part for name, part in usd.items() if name.startswith(f"{watched}: ")}
    told = {name: part for name, part in parts.items() if part >= _TOLD_USD}
    rest = usd[watched] - sum(told.values())
    made_up = ", ".join(f"{name} {part:.2f}" for name, part in told.items())
    return (
        f"Idle it costs ${usd[watched]:.2f} a month at AWS's list prices with all alarms ({made_up}, the "
        f"rest {rest:.2f}), ${usd[unwatched]:.2f} without them. A thousand lives of an instance, from create "
        f"to gone, cost ${usd[lives]:.2f} more."
    )


def idle_bill() -> str:
    """As it was measured: the two rows of the bill that have a bound, and what they are made up of."""
    usd, watched, unwatched, _ = measured_bill()
    rows = ["| USD a month | with alarms | with `watch=off` |", "|---|---:|---:|"]
    for part in (name.rpartition(": ")[2] for name in usd if name.startswith(f"{watched}: ")):
        shown = (f"{usd.get(f'{which}: {part}', 0.0):.2f}" for which in (watched, unwatched))
        rows.append(f"| {part} | {' | '.join(shown)} |")
    return "\n".join([*rows, f"| **in all** | **{usd[watched]:.2f}** | **{usd[unwatched]:.2f}** |"])


PARTS: dict[Path, dict[str, Callable[[], str]]] = {
    README: {
        "round trip": screen("round-trip", "create", "ls", "rm"),
        "round trip by curl": screen("curl", "$ KEY", '$ curl -H "$KEY" -H', "$ curl -X"),
        "what it costs": what_it_costs,
    },
    FIVE_MINUTES: {
        "life": screen("round-trip"),
        "waiting": screen("no-room"),
        "failing": screen("failed-pull"),
        "losing": screen("lost-connection"),
        "outage": screen("novita-down"),
        "faults": screen("faults", "stop", "start", "extend", "rm"),
        "pipe": screen("round-trip-in-a-pipe", "ls", "stop", "rm", "wait"),
    },
    CLI: {"commands": commands},
    REFERENCE: {"routes": routes, "states": states, "errors": errors, "settings": settings},
    RUNBOOK: {"metrics": metrics},
    OPERATE: {"idle bill": idle_bill},
}


def rendered(document: Path) -> str:
    text = document.read_text()
    for name, make in PARTS[document].items():
        begin, end = f"<!-- {name}: made from the code -->\n", f"<!-- end of {name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise ValueError(f"{document.name} has no place for {name}")
        text = f"{before}{begin}{make()}\n{end}{after}"
    return text


def main() -> int:
    for document in PARTS:
        document.write_text(rendered(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())
