"""The command line in a real terminal, against a small server: what is asked and what is shown."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local.paths import ROOT
from tests.client.small_server import Asked, Said, SmallServer
from tests.client.terminal import Terminal
from tests.client.test_command_line import ONE, QUOTE

MADE = {
    "instanceId": ONE["instanceId"],
    "status": "creating",
    "message": "Accepted; a machine is being bought",
    "estimatedReadyTime": "2100-01-01T00:00:00Z",
}
CREATE = ("create", "first", "--product", "RTX 4090 24GB", "--template", "107672")


class Opened:
    def __init__(self, server: SmallServer) -> None:
        self.server = server
        self.terminals: list[Terminal] = []

    def __call__(self, *arguments: str, columns: int = 100, **environment: str) -> Terminal:
        made = Terminal(
            [sys.executable, "-m", "ostler.cli.main", *arguments],
            {
                "PYTHONPATH": str(ROOT / "client/src"),
                "OSTLER_URL": self.server.url,
                "OSTLER_API_KEY": "ost_test",
                "OSTLER_CONFIG": "/nonexistent",
                **environment,
            },
            columns,
        )
        self.terminals.append(made)
        return made


@pytest.fixture
def ostler(server: SmallServer) -> Iterator[Opened]:
    opened = Opened(server)
    yield opened
    for one in opened.terminals:
        one.kill()


def serve(server: SmallServer, *found: dict[str, Any]) -> None:
    def answer(asked: Asked) -> Said:
        path = asked.path.partition("?")[0]
        if path == "/api/quotes":
            return Said(200, QUOTE)
        if asked.method == "POST":
            return Said(201, MADE)
        return Said(200, {"instances": list(found)} if path == "/api/instances" else found[0])

    server.otherwise = answer


def test_a_purchase_is_asked_for_and_a_no_buys_nothing(server: SmallServer, ostler: Opened) -> None:
    serve(server, ONE)

    terminal = ostler(*CREATE)
    terminal.wait_for("$0.18 per hour ($4.32 per day)")
    terminal.wait_for("[y/n]")
    terminal.type("\n")  # neither yes nor no: it asks again
    terminal.type("n\n")

    assert terminal.end() == 1
    assert "Nothing was done." in terminal.screen()
    assert {asked.path for asked in server.asked} == {"/api/quotes"}


def test_ctrl_c_while_waiting_says_that_it_goes_on_and_how_to_follow_or_delete_it(
    server: SmallServer, ostler: Opened
) -> None:
    serve(server, {**ONE, "status": "starting"})

    terminal = ostler(*CREATE, "--yes", "--wait")
    terminal.wait_for("starting")
    terminal.press_ctrl_c()

    assert terminal.end() == 130
    for line in (
        "first goes on",
        f"ostler wait {ONE['instanceId']}",
        f"ostler events -f {ONE['instanceId']}",
        f"ostler rm {ONE['instanceId']}",
    ):
        assert line in terminal.screen()


def test_what_it_waits_for_is_said_in_words(server: SmallServer, ostler: Opened) -> None:
    regions = {"CN-HK-01": "RESOURCE_CONSTRAINTS", "AS-SGP-02": "NOT_AVAILABLE"}
    fault = {"code": "RESOURCE_CONSTRAINTS", "message": "None to be had", "details": {"regions": regions}}
    serve(server, {**ONE, "status": "creating", "waitingFor": fault, "nextCheckAt": "2100-01-01T00:00:00Z"})

    terminal = ostler(*CREATE, "--yes", "--wait", columns=160)

    terminal.wait_for("no room in CN-HK-01, AS-SGP-02; next try in ")
    terminal.wait_for(" of about ")


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 140])
def test_a_list_fits_the_terminal(server: SmallServer, ostler: Opened, columns: int) -> None:
    long = {**ONE, "name": "日本語の名前-" + "long-" * 12, "waitingFor": {"code": "X", "message": "m" * 300}}
    serve(server, long, ONE)

    terminal = ostler("ls", columns=columns)

    assert terminal.end() == 0
    lines = terminal.screen().splitlines()
    assert lines[0].split()[:2] == ["NAME", "STATUS"]
    assert len(lines) == 5, "the head, an instance with its remark, another, the sum: no line is broken"


@pytest.mark.parametrize("columns", [50, 80])
def test_no_word_is_broken_where_a_line_goes_on(server: SmallServer, ostler: Opened, columns: int) -> None:
    words = "Novita took it away, and nothing of that kind is to be had in any of the regions"
    event = {"type": "instance.failed", "sequence": 1, "actor": "system", "error": {"message": words}}
    event |= {"id": "e", "timestamp": "2026-11-16T08:00:00Z", "status": "failed"}
    serve(server, {**ONE, "status": "failed", "error": {"code": "X", "message": words}})
    found, server.otherwise = server.otherwise, lambda asked: events(asked)

    def events(asked: Asked) -> Said:
        return Said(200, {"events": [event]}) if asked.path.endswith("/events") else found(asked)

    for command, indent in (("show", len("  Novita id  ")), ("events", len("2026-11-16 08:00:00Z  "))):
        terminal = ostler(command, "first", columns=columns)
        assert terminal.end() == 0
        lines = terminal.screen().splitlines()
        assert any(line.startswith(" " * indent) for line in lines), command
        assert words in " ".join(" ".join(lines).split())


def test_amounts_stand_with_their_points_below_each_other(server: SmallServer, ostler: Opened) -> None:
    prices = ("0.0037", "12.5", "0.18")
    serve(
        server,
        *({**ONE, "cost": {"soFarUsd": price, "perHourUsd": "0.2"}} for price in prices),
    )

    terminal = ostler("ls", columns=120)

    assert terminal.end() == 0
    lines = terminal.screen().splitlines()
    place = lines[1].index("0.0037") + 1
    assert [line[place] for line in lines[1:4]] == ["."] * 3
    assert [line[place + 1 :].split()[0] for line in lines[1:4]] == ["0037", "50", "18"]


def test_a_live_table_leaves_nothing_behind_when_the_terminal_is_resized(
    server: SmallServer, ostler: Opened
) -> None:
    serve(server, ONE, ONE)

    terminal = ostler("ls", "-w")
    terminal.wait_for("2 instances")
    terminal.resize(60)
    serve(server, ONE)
    terminal.wait_for("1 instance,")
    terminal.press_ctrl_c()

    assert terminal.end() == 0
    assert terminal.screen().count("NAME") == 1


def test_a_live_table_shows_what_changes_and_ends_with_ctrl_c(server: SmallServer, ostler: Opened) -> None:
    serve(server, {**ONE, "status": "starting"})

    terminal = ostler("ls", "-w")
    terminal.wait_for("starting")
    serve(server, ONE)
    terminal.wait_for("running")
    terminal.press_ctrl_c()

    assert terminal.end() == 0
    assert "starting" not in terminal.screen()


def test_colours_are_only_for_those_who_want_them(server: SmallServer, ostler: Opened) -> None:
    serve(server, ONE)

    coloured, plain = ostler("show", "first"), ostler("show", "first", NO_COLOR="1")
    coloured.end()
    plain.end()

    assert b"\x1b[32mrunning" in coloured.raw
    assert b"\x1b[" not in plain.raw
    assert coloured.screen() == plain.screen()


def test_deleting_names_what_is_lost_and_asks_once_for_all(server: SmallServer, ostler: Opened) -> None:
    cost = {"soFarUsd": "1.2345", "perHourUsd": "0.36"}
    one, other = {**ONE, "cost": cost}, {**ONE, "instanceId": ONE["instanceId"][:-1] + "7", "cost": cost}

    def answer(asked: Asked) -> Said:
        if asked.method == "DELETE":
            return Said(202, {"instanceId": asked.path[-31:], "status": "deleting", "message": "Accepted"})
        return Said(200, one if asked.path.endswith(one["instanceId"]) else other)

    server.otherwise = answer

    terminal = ostler("rm", one["instanceId"], other["instanceId"], one["instanceId"], columns=120)
    terminal.wait_for("Delete these 2? [y/n]")
    terminal.type("y\n")

    assert terminal.end() == 0
    screen = terminal.screen()
    assert screen.count("and has cost $1.23. What is on its disk (60 GB) is lost.") == 2
    assert "2 in all, 2 of them running; together they have cost $2.47." in screen
    assert "2 of 2 accepted." in screen
    assert sum(asked.method == "DELETE" for asked in server.asked) == 2


def test_a_key_that_is_typed_is_not_shown(server: SmallServer, ostler: Opened, tmp_path: Path) -> None:
    config = tmp_path / "config.ini"

    terminal = ostler("config", "set", "work", "--url", server.url, OSTLER_CONFIG=str(config))
    terminal.wait_for("API key:")
    terminal.type("ost_typed\n")

    assert terminal.end() == 0
    assert b"ost_typed" not in terminal.raw
    assert "ost_typed" in config.read_text()
