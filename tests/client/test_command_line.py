"""The command line as a process of its own, in a pipe, against a small server."""

import base64
import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests
from standardwebhooks import Webhook

from local.paths import ROOT
from tests.client.small_server import Asked, Said, SmallServer, failure

ONE: dict[str, Any] = {
    "instanceId": "inst_01M7HP43RHSQ5Y3XSAP23NRW56",
    "name": "first",
    "status": "running",
    "productName": "RTX 4090 24GB",
    "region": "CN-HK-01",
    "novitaInstanceId": "d34d2b9117cad304",
    "gpuNum": 2,
    "billingMode": "spot",
    "pricePerGpuHour": "0.18",
    "rootfsSize": 60,
    "createdAt": "2026-11-16T08:03:36.849Z",
    "readyAt": "2026-11-16T08:04:13.102Z",
    "portMappings": [{"port": 22, "type": "tcp", "endpoint": "127.0.0.1:22"}],
}
OTHER = {**ONE, "instanceId": "inst_01M7HP43RHSQ5Y3XSAP23NRW57"}
QUOTE: dict[str, Any] = {
    "productName": "RTX 4090 24GB",
    "billingMode": "spot",
    "region": "CN-HK-01",
    "gpuNum": 1,
    "pricePerGpuHour": "0.18",
    "pricePerHour": "0.18",
    "alternatives": [],
    "regions": {},
}


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
    assert row.split("\t")[:3] == ["first", "running", "RTX 4090 24GB"]
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
    assert "What is on its disk (60 GB) is lost." in done.stderr
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
    assert ("does not take this key" if status == 401 else "so it is") in done.stderr
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


def test_json_and_yes_are_understood_on_either_side_of_the_command(server: SmallServer) -> None:
    serve(server, [ONE])

    assert json.loads(run(server, "ls", "--json").stdout) == [ONE]
    assert run(server, "rm", "first", "--yes").returncode == 0


def test_every_command_takes_json() -> None:
    from ostler.cli.main import cli

    def leaves(command: Any, path: str) -> dict[str, Any]:
        inner = getattr(command, "commands", None)
        if inner is None:
            return {path: command}
        return {name: one for key in inner for name, one in leaves(inner[key], f"{path} {key}").items()}

    without = {
        name
        for name, command in leaves(cli, "ostler").items()
        if not any("--json" in one.opts for one in command.params)
    }

    # They show no result: they change a file of yours, or print a script.
    assert without == {"ostler config set", "ostler config use", "ostler config rm", "ostler completion"}


def test_a_beginning_that_says_nothing_is_no_name(server: SmallServer) -> None:
    serve(server, [ONE])
    server.otherwise = lambda asked: Said(200, {"instances": [] if "name=" in asked.path else [ONE]})

    assert run(server, "show", "inst_").returncode == 3
    assert run(server, "show", "01").returncode == 3


def test_a_create_that_may_have_been_accepted_says_how_to_be_sure(server: SmallServer) -> None:
    def answer(asked: Asked) -> Said:
        return Said(200, QUOTE) if asked.path == "/api/quotes" else Said(503, failure("SERVICE_UNAVAILABLE"))

    server.otherwise = answer

    done = run(
        server, "create", "n", "--product", "p", "--template", "1", "--yes", "--idempotency-key", "mine"
    )

    assert done.returncode == 5
    assert "may have been accepted" in done.stderr
    assert "--idempotency-key mine" in done.stderr
    assert server.asked[-1].headers["Idempotency-Key"] == "mine"


def test_what_cannot_come_any_more_ends_a_wait_with_1(server: SmallServer) -> None:
    fault = {"code": "IMAGE_PULL_FAILED", "message": "manifest unknown"}
    serve(server, [ONE], NRW56={**ONE, "status": "failed", "error": fault})

    done = run(server, "wait", "first")

    assert done.returncode == 1
    assert "manifest unknown" in done.stderr


def test_events_are_one_list_for_programs_and_lines_while_followed(server: SmallServer) -> None:
    event = {"id": "e1", "type": "instance.terminated", "sequence": 1, "status": "terminated", "actor": "me"}
    event |= {"timestamp": "2026-11-16T08:03:36.849Z"}
    serve(server, [ONE], events={"events": [event]})

    assert json.loads(run(server, "events", "first", "--json").stdout) == [event]
    assert run(server, "events", "first", "-f", "--json").stdout == json.dumps(event) + "\n"
    assert "instance.terminated" in run(server, "events", "first", "-f").stdout


def test_ssh_takes_options_after_the_name_for_the_command(server: SmallServer, tmp_path: Path) -> None:
    serve(server, [ONE], connection={"ssh": {"command": "ssh root@host.example"}})

    done = run(server, "ssh", "first", "ls", "--json", "-y", PATH=fake_ssh(tmp_path))

    assert done.stdout == "root@host.example ls --json -y\n"


def test_several_are_all_tried_and_summed_up(server: SmallServer) -> None:
    def answer(asked: Asked) -> Said:
        if asked.method == "GET":
            return Said(200, ONE if asked.path.endswith("56") else OTHER)
        if "56" in asked.path:
            return Said(409, failure("INSTANCE_NOT_STOPPABLE"))
        return Said(202, {"instanceId": OTHER["instanceId"], "status": "stopping", "message": "Accepted"})

    server.otherwise = answer

    done = run(server, "stop", ONE["instanceId"], OTHER["instanceId"])

    assert done.returncode == 1
    assert "1 of 2 accepted." in done.stderr
    assert OTHER["instanceId"] in done.stdout


def test_extending_moves_every_limit_that_would_end_it(server: SmallServer) -> None:
    limits = {"stopAfter": "8h", "deleteAt": "2026-11-20T08:00:00Z", "idleStopAfter": "30m"}
    serve(server, [ONE], NRW56={**ONE, "limits": limits})

    run(server, "extend", "first", "90m")

    asked = server.asked[-1]
    assert asked.method == "PATCH"
    assert asked.body == {"limits": {"stopAfter": "570m", "deleteAt": "2026-11-20T09:30:00+00:00"}}


def test_extending_what_has_no_limit_changes_nothing(server: SmallServer) -> None:
    serve(server, [ONE])

    done = run(server, "extend", "first", "90m")

    assert done.returncode == 1
    assert "ostler update first --stop-after 90m" in done.stderr
    assert all(asked.method == "GET" for asked in server.asked)


@pytest.mark.parametrize(
    ("expiry", "words"),
    [
        (
            {"deleteAt": "2100-01-01T00:00:00Z", "deleteReason": "lifetime"},
            "the longest that this deployment allows.",
        ),
        ({"stopAt": "2100-01-01T00:00:00Z", "stopReason": "budget"}, "since a budget is spent."),
    ],
)
def test_extending_what_something_else_ends_says_what_ends_it(
    server: SmallServer, expiry: dict[str, str], words: str
) -> None:
    serve(server, [ONE], NRW56={**ONE, "expiry": expiry})

    done = run(server, "extend", "first", "90m")

    assert done.returncode == 1
    assert "first has no time limit of its own: it is " in done.stderr
    assert done.stderr.endswith(f"{words}\n")


def test_a_change_is_a_merge_patch(server: SmallServer) -> None:
    serve(server, [ONE])

    run(server, "update", "first", "--tag", "a=b", "--untag", "c", "--no-protect", "--webhook", "")
    body = server.asked[-1].body
    run(server, "update", "first", "--on-reclaim", "restart")

    assert body == {"tags": {"a": "b", "c": None}, "protected": False, "webhookUrl": None}
    assert server.asked[-1].body == {"onReclaim": "restart"}


def test_a_profile_named_on_the_line_is_meant(server: SmallServer, tmp_path: Path) -> None:
    config = str(tmp_path / "config.ini")
    stored = ("--url", "http://127.0.0.1:9", "--key", "ost_w")
    run(server, "config", "set", "work", *stored, OSTLER_CONFIG=config)
    run(server, "config", "set", "other", "--url", server.url, "--key", "ost_o", OSTLER_CONFIG=config)

    shown = run(server, "--profile", "work", "config", OSTLER_CONFIG=config).stdout
    listed = run(server, "config", "list", "--json", OSTLER_CONFIG=config).stdout
    run(server, "config", "use", "work", OSTLER_CONFIG=config)
    used = run(server, "config", OSTLER_CONFIG=config, OSTLER_URL="", OSTLER_API_KEY="").stdout
    gone = run(server, "config", "rm", "work", "--yes", OSTLER_CONFIG=config)

    assert shown == "http://127.0.0.1:9 (profile work, with a key)\n"
    assert [one["used"] for one in json.loads(listed)] == [False, True]
    assert "ost_" not in listed
    assert used == shown
    assert gone.returncode == 0
    assert "work" not in Path(config).read_text()


def test_the_doctor_says_where_nobody_answers(server: SmallServer) -> None:
    done = run(server, "doctor", "--json", OSTLER_URL="http://127.0.0.1:9")

    (address,) = json.loads(done.stdout)
    assert done.returncode == 5
    assert (address["check"], address["ok"]) == ("address", False)
    assert "nobody listens there" in address["message"]


def test_the_doctor_says_where_no_address_is_known(server: SmallServer, tmp_path: Path) -> None:
    nowhere = {"OSTLER_URL": "", "OSTLER_STATE_DIR": str(tmp_path)}

    done = run(server, "doctor", "--json", **nowhere)

    assert done.returncode == 5
    assert "No address is known" in json.loads(done.stdout)[0]["message"]
    assert run(server, "ls", **nowhere).returncode == 2


def test_what_the_doctor_cannot_see_hides_nothing_else(server: SmallServer) -> None:
    status = {"purchasesPaused": False, "rateLimit": {"limit": 1, "windowSeconds": 60, "used": 0}}

    def answer(asked: Asked) -> Said:
        if asked.path == "/api/circuits":
            return Said(400, failure("NOVITA_REJECTED", "the table does not answer"))
        known = {"/api/status": status, "/api/me": {"scopes": ["read"]}, "/api/jobs/stats": JOBS}
        return Said(200, known.get(asked.path, {}))

    server.otherwise = answer

    done = run(server, "doctor", "--json")

    found = {one["check"]: one for one in json.loads(done.stdout)}
    assert done.returncode == 1
    assert "the table does not answer" in found["circuits"]["message"]
    assert found["key"]["ok"]
    assert {"queue create", "sweep", "purchases"} <= set(found)


JOBS = {
    "queues": {"create": dict.fromkeys(("depth", "inFlight", "delayed", "dead", "oldestAgeSeconds"), 0)},
    "deadLettersNotStored": 0,
}


def test_the_doctor_names_the_chapter_of_what_is_wrong(server: SmallServer) -> None:
    chapters = set(re.findall(r"^### (\w+)", (ROOT / "docs/runbook.md").read_text(), re.MULTILINE))
    limit = {"limit": 100, "windowSeconds": 60, "used": 100, "usedBy": {}}
    status = {"purchasesPaused": True, "pausedBy": "key_x", "rateLimit": limit, "keyProven": False}
    status |= {"missing": 1, "orphans": 2, "orphanDeletionsHeld": 3, "stuckCleanups": 4}
    status |= {"comparisonError": {"code": "NOVITA_UNAVAILABLE", "message": "Novita does not answer"}}
    status |= {"lastSweepAt": "2026-11-16T08:00:00Z", "lastComparedAt": "2026-11-16T08:00:00Z"}
    queue = {"depth": 1, "inFlight": 1, "delayed": 1, "dead": 2, "oldestAgeSeconds": 900}
    jobs = {"queues": {"create": queue}, "deadLettersNotStored": 1}
    circuit = {"name": "reads", "state": "OPEN", "openUntil": "2026-11-16T09:00:00Z"}
    serve(
        server,
        [],
        health={"status": "ok"},
        me={"id": "key_x", "scopes": ["read"]},
        status=status,
        circuits={"circuits": [circuit]},
        stats=jobs,
    )

    done = run(server, "doctor", "--json")

    found = json.loads(done.stdout)
    wrong = {one["check"] for one in found if not one["ok"]}
    assert done.returncode == 1
    assert wrong >= {"Novita", "Novita key", "rate limit", "circuit reads", "queue create", "dead letters"}
    assert wrong >= {"sweep", "comparison", "missing", "orphans", "held", "clean-ups", "purchases"}
    assert {one["alarm"] for one in found if "alarm" in one} <= chapters


def test_costs_are_shown_by_interval_and_by_group(server: SmallServer) -> None:
    interval: dict[str, Any] = {"novitaInstanceId": "a", "kind": "running", "from": "2026-11-16T08:00:00Z"}
    interval |= {"usdPerHour": "0.18", "amountUsd": "1.2", "estimated": True}
    cost = {"instanceId": "i", "totalUsd": "1.2", "perHourUsd": "0.18", "intervals": [interval]}
    day = {"from": "2026-11-01", "to": "2026-11-18", "groupBy": "product", "totalUsd": "3.5"}
    costs = {**day, "groups": [{"key": "RTX 4090 24GB", "amountUsd": "3.5", "days": []}]}
    serve(server, [ONE], cost=cost, costs=costs)

    one, everything = run(server, "cost", "first").stdout, run(server, "cost", "--by", "product").stdout

    assert "2026-11-16 08:00:00Z\tnow\trunning\t0.18\t~1.20" in one
    assert "$1.20 so far, $0.18 per hour now" in one
    assert "RTX 4090 24GB\t3.50" in everything
    assert "2026-11-01 to 2026-11-18: $3.50" in everything


def test_a_reader_who_has_had_enough_is_no_error(server: SmallServer) -> None:
    serve(server, [ONE] * 5000)
    command = f"{sys.executable} -m ostler.cli.main ls | head -1"

    done = subprocess.run(
        ["bash", "-c", command],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT / "client/src"),
            "OSTLER_URL": server.url,
            "OSTLER_API_KEY": "k",
            "OSTLER_CONFIG": "/nonexistent",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stdout.startswith("NAME\t")
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def signed(secret: str, body: bytes) -> dict[str, str]:
    when = datetime.now(UTC)
    signature = Webhook(secret).sign("msg_1", when, body.decode())
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(when.timestamp())),
        "webhook-signature": signature,
    }


def test_listening_prints_what_is_genuine_and_refuses_the_rest(server: SmallServer) -> None:
    secret = "whsec_" + base64.b64encode(b"a secret of 24 characters").decode()
    serve(server, [], secret={"origin": "o", "secrets": [secret]})
    body = json.dumps({"type": "instance.ready", "timestamp": "2026-11-16T08:00:00Z", "instanceId": "i"})
    listener = subprocess.Popen(
        [sys.executable, "-m", "ostler.cli.main", "webhooks", "listen", "--port", "0", "-n", "1"],
        env={
            "PYTHONPATH": str(ROOT / "client/src"),
            "OSTLER_URL": server.url,
            "OSTLER_API_KEY": "k",
            "OSTLER_CONFIG": "/nonexistent",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert listener.stderr is not None
    url = listener.stderr.readline().split()[-1]

    forged = requests.post(url, data=body, headers=signed("whsec_" + "b" * 32, body.encode()), timeout=10)
    bare = requests.post(url, data=body, timeout=10)
    genuine = requests.post(url, data=body, headers=signed(secret, body.encode()), timeout=10)
    shown, remarks = listener.communicate(timeout=30)

    assert (forged.status_code, bare.status_code, genuine.status_code) == (401, 401, 204)
    assert "instance.ready" in shown
    assert remarks.count("refused:") == 2
    assert listener.returncode == 0
