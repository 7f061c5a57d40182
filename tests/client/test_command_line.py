"""The command line as a process of its own, in a pipe, against a small server."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from local.paths import ROOT
from tests.client.small_server import Asked, Said, SmallServer, failure

ONE: dict[str, Any] = {
    "instanceId": "inst_01M7HP43RHSQ5Y3XSAP23NRW56",
    "name": "first",
    "status": "running",
    "productName": "RTX 4090 24GB",
    "region": "CN-HK-01",
    "rootfsSize": 60,
    "createdAt": "2026-11-16T08:03:36.849Z",
    "readyAt": "2026-11-16T08:04:13.102Z",
    "portMappings": [{"port": 22, "type": "tcp", "endpoint": "127.0.0.1:22"}],
}
OTHER = {**ONE, "instanceId": "inst_01M7HP43RHSQ5Y3XSAP23NRW57"}
QUOTE = {"productName": "RTX 4090 24GB", "billingMode": "spot", "region": "CN-HK-01", "pricePerHour": "0.18"}


def run(server: SmallServer, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ostler.cli.main", *arguments],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT / "client/src"),
            "OSTLER_URL": server.url,
            "OSTLER_API_KEY": "ost_test",
            "OSTLER_CONFIG": "/nonexistent",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def serve(server: SmallServer, found: list[dict[str, Any]], **more: Any) -> None:
    def answer(asked: Asked) -> Said:
        path = asked.path.partition("?")[0]
        for ending, body in more.items():
            if path.endswith(ending):
                return Said(200, body)
        if asked.method in ("POST", "DELETE"):
            return Said(202, {"instanceId": ONE["instanceId"], "status": "deleting", "message": "Accepted"})
        return Said(200, {"instances": found} if path == "/api/instances" else ONE)

    server.otherwise = answer


def test_a_pipe_gets_plain_text_with_tabs(server: SmallServer) -> None:
    serve(server, [ONE])

    done = run(server, "ls")

    head, row = done.stdout.splitlines()
    assert head.split("\t")[:2] == ["NAME", "STATUS"]
    assert row.split("\t")[:3] == ["first", "running", "RTX 4090 24GB CN-HK-01"]
    assert "\x1b" not in done.stdout


def test_a_program_gets_json(server: SmallServer) -> None:
    serve(server, [ONE])

    assert json.loads(run(server, "--json", "ls").stdout) == [ONE]


def test_nothing_is_deleted_without_a_terminal_or_yes(server: SmallServer) -> None:
    serve(server, [ONE])

    done = run(server, "rm", "first")

    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert all(asked.method == "GET" for asked in server.asked)


def test_yes_deletes_and_says_what_is_lost(server: SmallServer) -> None:
    serve(server, [ONE])

    done = run(server, "--yes", "rm", "first")

    assert done.returncode == 0
    assert "Its disk (60 GB) is lost." in done.stderr
    assert server.asked[-1].method == "DELETE"


def test_nothing_is_bought_without_a_terminal_or_yes(server: SmallServer) -> None:
    serve(server, [], quotes=QUOTE)

    done = run(server, "create", "first", "--product", "RTX 4090 24GB", "--template", "107672")

    assert done.returncode == 2
    assert "$0.18 per hour" in done.stderr
    assert [asked.path for asked in server.asked] == ["/api/quotes"]


def test_the_beginning_of_an_id_is_enough_where_it_is_one(server: SmallServer) -> None:
    server.say(200, {"instances": []})
    server.say(200, {"instances": [ONE]})
    server.otherwise = lambda _: Said(200, ONE)

    assert "first" in run(server, "show", "inst_01M7HP").stdout


def test_two_of_a_name_are_not_guessed_between(server: SmallServer) -> None:
    serve(server, [ONE, OTHER])

    done = run(server, "--yes", "rm", "first")

    assert done.returncode == 2
    assert ONE["instanceId"] in done.stderr
    assert OTHER["instanceId"] in done.stderr
    assert all(asked.method == "GET" for asked in server.asked)


@pytest.mark.parametrize(
    ("status", "code", "exit_code"),
    [
        (404, "INSTANCE_NOT_FOUND", 3),
        (401, "UNAUTHORIZED", 4),
        (403, "FORBIDDEN", 4),
        (409, "INSTANCE_PROTECTED", 4),
        (400, "VALIDATION_ERROR", 2),
        (409, "INSTANCE_NOT_STOPPABLE", 1),
        (502, "NOVITA_REJECTED", 1),
    ],
)
def test_exit_codes_say_what_happened(server: SmallServer, status: int, code: str, exit_code: int) -> None:
    server.otherwise = lambda _: Said(status, failure(code, "so it is"))

    done = run(server, "stop", "first")

    assert done.returncode == exit_code
    assert "so it is" in done.stderr
    assert "request req-1" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_a_service_does_not_have_yet_is_said_so(server: SmallServer) -> None:
    server.say(200, {"instances": [ONE]})
    server.otherwise = lambda _: Said(404, failure("ROUTE_NOT_FOUND"))

    done = run(server, "cost", "first")

    assert done.returncode == 3
    assert "needs a newer version" in done.stderr


def test_waiting_too_long_is_124(server: SmallServer) -> None:
    serve(server, [{**ONE, "status": "creating"}], NRW56={**ONE, "status": "creating"})

    assert run(server, "wait", "first", "--timeout", "1s").returncode == 124


def fake_ssh(folder: Path) -> str:
    program = folder / "ssh"
    program.write_text('#!/bin/sh\necho "$@"\nexit 7\n')
    program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_ssh_runs_the_machines_own_command_and_has_its_exit_code(server: SmallServer, tmp_path: Path) -> None:
    serve(server, [ONE], connection={"ssh": {"command": "ssh root@host.example -p 2222"}})

    done = run(server, "ssh", "first", "nvidia-smi", "-L", PATH=fake_ssh(tmp_path))

    assert done.stdout == "-p 2222 root@host.example nvidia-smi -L\n"
    assert done.returncode == 7


def test_an_ssh_command_that_would_do_more_is_not_run(server: SmallServer, tmp_path: Path) -> None:
    command = "ssh -o ProxyCommand=evil root@host.example"
    serve(server, [ONE], connection={"ssh": {"command": command}})

    done = run(server, "ssh", "first", PATH=fake_ssh(tmp_path))

    assert done.returncode == 4
    assert done.stdout == ""


def test_a_stored_key_goes_to_no_other_address(server: SmallServer, tmp_path: Path) -> None:
    config = tmp_path / "config.ini"
    run(
        server,
        "config",
        "set",
        "work",
        "--url",
        "http://127.0.0.1:9",
        "--key",
        "ost_w",
        OSTLER_CONFIG=str(config),
    )

    done = run(server, "ls", OSTLER_CONFIG=str(config), OSTLER_API_KEY="")

    assert config.stat().st_mode & 0o777 == 0o600
    assert done.returncode == 2
    assert "There is no key for" in done.stderr
    assert server.asked == []
