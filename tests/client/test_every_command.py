"""What each command asks and says, in this process: quicker than one process for each, and no less true."""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import click
import pytest
from click.testing import CliRunner, Result
from ostler.cli import main
from ostler.cli.words import happened, seconds_of, span, usd, why

from tests.client.small_server import LOST, Asked, Said, SmallServer, failure
from tests.client.test_command_line import ONE, QUOTE
from tests.snippets import ROOT, documents

Ostler = Callable[..., Result]


@pytest.fixture
def ostler(server: SmallServer, monkeypatch: pytest.MonkeyPatch) -> Ostler:
    for name, value in {"URL": server.url, "API_KEY": "ost_test", "CONFIG": "/nonexistent"}.items():
        monkeypatch.setenv(f"OSTLER_{name}", value)

    def run(*arguments: str) -> Result:
        @click.command(context_settings={"ignore_unknown_options": True})
        def whole() -> None:
            main.main(list(arguments))

        return CliRunner().invoke(whole, [])

    return run


def serve(server: SmallServer, *found: dict[str, Any], **more: Any) -> None:
    """The fleet, and what paths with these endings answer."""

    def answer(asked: Asked) -> Said:
        path = urlsplit(asked.path).path
        for ending, body in more.items():
            if path.endswith(ending):
                return Said(200, body)
        if path != "/api/instances":
            return Said(200, found[0] if found else {})
        named = parse_qs(urlsplit(asked.path).query).get("name")
        return Said(200, {"instances": [one for one in found if not named or [one["name"]] == named]})

    server.otherwise = answer


def paths(server: SmallServer) -> list[str]:
    return [f"{one.method} {unquote(urlsplit(one.path).path)}" for one in server.asked]


ACCEPTED = {"instanceId": ONE["instanceId"], "status": "stopping", "message": "Accepted"}
ON_ONE = [
    ("show", f"GET /api/instances/{ONE['instanceId']}"),
    ("events", f"GET /api/instances/{ONE['instanceId']}/events"),
    ("ssh --json", f"GET /api/instances/{ONE['instanceId']}/connection"),
    ("logs --urls", f"GET /api/instances/{ONE['instanceId']}/connection"),
    ("cost", f"GET /api/instances/{ONE['instanceId']}/cost"),
    ("wait", f"GET /api/instances/{ONE['instanceId']}"),
    ("start", f"POST /api/instances/{ONE['instanceId']}/start"),
    ("stop", f"POST /api/instances/{ONE['instanceId']}/stop"),
    ("restart", f"POST /api/instances/{ONE['instanceId']}/restart"),
    ("rm --yes", f"DELETE /api/instances/{ONE['instanceId']}"),
    ("rm --yes --release", f"DELETE /api/instances/{ONE['instanceId']}"),
    ("update --tag a=b", f"PATCH /api/instances/{ONE['instanceId']}"),
    ("webhooks list", "GET /api/webhooks/deliveries"),
]


@pytest.mark.parametrize("named", ["first", "01m7hp43", "inst_01M7HP43RH", ONE["instanceId"]])
@pytest.mark.parametrize(("command", "wanted"), ON_ONE, ids=[command for command, _ in ON_ONE])
def test_every_command_takes_a_name_an_id_and_the_beginning_of_one(
    server: SmallServer, ostler: Ostler, command: str, wanted: str, named: str
) -> None:
    connection = {"ssh": {"command": "ssh root@host.example"}, "logs": {"system": "http://127.0.0.1:9"}}
    cost = {"totalUsd": "1", "perHourUsd": "0", "intervals": []}
    deliveries: dict[str, Any] = {"deliveries": []}
    answers = dict.fromkeys(("start", "stop", "restart"), ACCEPTED)
    events: dict[str, Any] = {"events": []}
    limits = {"limits": {"stopAfter": "1h"}}
    serve(
        server,
        {**ONE, **limits, "message": "Accepted"},
        connection=connection,
        cost=cost,
        deliveries=deliveries,
        events=events,
        **answers,
    )

    done = ostler(*command.split(), named)

    assert done.exit_code == 0, done.output
    assert paths(server)[-1] == wanted


def test_a_wait_looks_for_the_name_no_longer_than_it_may_take(server: SmallServer, ostler: Ostler) -> None:
    server.otherwise = lambda _: Said(LOST)

    done = ostler("wait", "first", "--timeout", "1s")

    assert done.exit_code == 5
    assert len(server.asked) <= 4, "in a second; in the usual 20 it is asked eight times"


def test_a_budget_is_made_shown_and_removed(server: SmallServer, ostler: Ostler) -> None:
    art: dict[str, Any] = {
        "name": "art",
        "limitUsd": "100",
        "period": "day",
        "action": "refuse",
        "spentUsd": "85.5",
    }
    art |= {"scope": {"tag": {"name": "team", "value": "art"}}, "thresholds": [50], "reached": [50]}
    serve(server, art=art, budgets={"budgets": [art]})

    made = ostler(
        *shlex.split("budget set art 100 --period day --tag team=art --action refuse --threshold 50")
    )
    body = server.asked[-1].body
    shown = ostler("budget", "ls")
    unsure = ostler("budget", "rm", "art")
    gone = ostler("budget", "rm", "art", "--yes")

    assert made.stdout == "art: $100.00 a day, then refuse\n"
    assert body == {
        "limitUsd": "100",
        "period": "day",
        "scope": {"tag": {"name": "team", "value": "art"}},
        "action": "refuse",
        "thresholds": [50],
    }
    assert shown.stdout.splitlines()[1].split("\t") == [
        "art",
        "100.00",
        "85.50",
        "86",
        "day",
        "team=art",
        "refuse",
    ]
    assert (unsure.exit_code, gone.exit_code) == (2, 0)
    assert [one for one in paths(server) if not one.startswith("GET")] == [
        "PUT /api/budgets/art",
        "DELETE /api/budgets/art",
    ]


def test_deliveries_are_listed_and_one_is_sent_again(server: SmallServer, ostler: Ostler) -> None:
    tried = {"attempt": 1, "at": "2026-11-16T08:00:00Z", "status": 500}
    sent = {"id": "dlv_1", "eventType": "instance.ready", "state": "pending", "url": "https://example.com"}
    serve(
        server,
        ONE,
        deliveries={"deliveries": [{**sent, "attempts": [tried]}, {**sent, "attempts": []}]},
        replay={"message": "Accepted; it is being sent again"},
        secret={"origin": "https://example.com", "secrets": ["whsec_new", "whsec_old"]},
    )

    listed = ostler("webhooks", "list", "first").stdout.splitlines()
    replayed = ostler("webhooks", "replay", "dlv_1").stdout
    secrets = ostler("webhooks", "secret", "https://example.com/hook").stdout

    assert [line.split("\t")[1:4] for line in listed[1:]] == [["pending", "1", "500"], ["pending", "0", "-"]]
    assert replayed == "Accepted; it is being sent again\n"
    assert secrets == "whsec_new\nwhsec_old\n"
    assert "POST /api/webhooks/deliveries/dlv_1/replay" in paths(server)


def test_a_machine_that_exists_is_taken_under_management(server: SmallServer, ostler: Ostler) -> None:
    serve(server, ONE)

    done = ostler("import", "8097f1658f3e6ad1", "--name", "first")

    assert done.stdout == f"{ONE['instanceId']}\n"
    assert server.asked[-1].body == {"novitaInstanceId": "8097f1658f3e6ad1", "name": "first"}
    assert paths(server) == ["POST /api/instances/import"]


def test_a_variable_has_the_value_that_it_has_here(
    server: SmallServer, ostler: Ostler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret=1")
    monkeypatch.delenv("NOT_SET", raising=False)
    made = {"instanceId": "inst_1", "message": "Accepted", "estimatedReadyTime": "2100-01-01T00:00:00Z"}
    serve(server, quotes=QUOTE, instances=made)
    create = ("create", "n", "--product", "p", "--template", "1", "--yes")

    done = ostler(*create, "--env", "HF_TOKEN", "--env", "EMPTY=")
    unset = ostler(*create, "--env", "NOT_SET")

    assert done.exit_code == 0, done.output
    assert [{"key": "HF_TOKEN", "value": "secret=1"}, {"key": "EMPTY", "value": ""}] in [
        (asked.body or {}).get("envs") for asked in server.asked
    ]
    assert unset.exit_code == 2
    assert "NOT_SET has no value here" in unset.stderr


def test_purchases_are_paused_and_go_on(server: SmallServer, ostler: Ostler) -> None:
    serve(server, pause={"purchasesPaused": True}, resume={"purchasesPaused": False})

    assert "ostler resume" in ostler("pause").stdout
    assert ostler("resume").exit_code == 0
    assert paths(server) == ["POST /api/pause", "POST /api/resume"]


@pytest.mark.parametrize("tag", ["team=art=1", "team:art=1"])
def test_a_list_takes_a_tag_as_it_was_set(server: SmallServer, ostler: Ostler, tag: str) -> None:
    serve(server, ONE)

    ostler("ls", "--tag", tag)

    assert parse_qs(urlsplit(server.asked[-1].path).query)["tag"] == ["team:art=1"]


def test_what_is_protected_is_said_before_anything_is_asked_or_deleted(
    server: SmallServer, ostler: Ostler
) -> None:
    held = {**ONE, "name": "my box", "protected": True, "instanceId": ONE["instanceId"][:-1] + "7"}
    serve(server, ONE, held)

    done = ostler("rm", "first", "my box")

    assert done.exit_code == 4
    assert done.stderr == (
        "my box is protected. To allow it: ostler update 'my box' --no-protect\nNothing was done.\n"
    )
    assert all(asked.method == "GET" for asked in server.asked)


def test_several_are_all_waited_for_whatever_becomes_of_one(server: SmallServer, ostler: Ostler) -> None:
    fault = {"code": "X", "message": "no such GPU is free"}
    bad = {**ONE, "name": "bad", "status": "failed", "error": fault}
    good = {**ONE, "instanceId": ONE["instanceId"][:-1] + "7", "name": "good", "status": "ready"}
    late = {**ONE, "instanceId": ONE["instanceId"][:-1] + "8", "name": "late", "status": "starting"}
    by_id = {one["instanceId"]: one for one in (bad, good, late)}

    def answer(asked: Asked) -> Said:
        instance_id = asked.path.split("/")[3]
        if asked.method == "POST":
            return Said(202, {"instanceId": instance_id, "status": "starting", "message": "Accepted"})
        return Said(200, by_id[instance_id])

    server.otherwise = answer

    done = ostler("start", *by_id, "--wait", "--timeout", "1s")

    assert done.exit_code == 1, "the first that failed decides"
    assert done.stdout == "bad\tfailed\ngood\tready\nlate\tstarting\n"
    assert "bad is failed, not up: no such GPU is free" in done.stderr
    assert "late: starting" in done.stderr, "which of them it is about"
    assert "late was not up within 1 s; it is starting. It goes on all the same:" in done.stderr
    assert f"  delete  ostler rm {late['instanceId']}\n" in done.stderr


def test_an_address_that_is_none_is_wrong_usage(ostler: Ostler) -> None:
    done = ostler("--url", "localhost:8080", "--key", "k", "ls")

    assert done.exit_code == 2
    assert "write https://" in done.stderr


def test_what_is_not_there_is_said_to_be_none(server: SmallServer, ostler: Ostler) -> None:
    serve(server, ONE, budgets={"budgets": []}, deliveries={"deliveries": []}, products={"products": []})

    assert "No budgets." in ostler("budget", "ls").stderr
    assert "Nothing was sent for first." in ostler("webhooks", "list", "first").stderr
    assert "Novita sells no product named 'x'." in ostler("products", "x").stderr


def test_a_quote_has_each_regions_price_or_reason_and_the_sum_until_the_stop(
    server: SmallServer, ostler: Ostler
) -> None:
    other = {"region": "AS-SGP-02", "pricePerGpuHour": "0.17"}
    dearer = {"region": "AS-SGP-02", "pricePerGpuHour": "0.19"}
    regions = {"CN-HK-01": "OFFERED", "AS-SGP-02": "OFFERED", "AS-IN-01": "NOT_AVAILABLE"}
    told = {**QUOTE, "gpuNum": 2, "perHourUsd": "0.36", "pricePerGpuHour": "0.18", "regions": regions}
    told |= {"alternatives": [other, dearer], "expiry": {"stopAt": "2100-01-01T00:00:00Z"}}
    serve(server, quotes=told)

    lines = ostler("quote", "RTX 4090 24GB", "--gpus", "2", "--stop-after", "3d").stdout.splitlines()

    assert lines[0] == "2 x RTX 4090 24GB, spot, CN-HK-01: $0.36 per hour ($8.64 per day)"
    assert lines[1].startswith("  stops in ")
    assert lines[1].endswith(" until then")
    assert lines[2:] == ["  CN-HK-01   $0.18 per GPU", "  AS-SGP-02  $0.17 per GPU", "  AS-IN-01   no room"]
    assert server.asked[-1].body["limits"] == {"stopAfter": "3d"}


def test_a_mistyped_product_is_answered_with_the_closest_ones(server: SmallServer, ostler: Ostler) -> None:
    sold = {"regions": ["CN-HK-01"], "available": True, "cpuPerGpu": 1, "memoryPerGpu": 1}
    products = [
        {**sold, "name": "RTX 4090 24GB", "spotPricePerGpuHour": "0.18"},
        {**sold, "name": "RTX 4090 24GB", "spotPricePerGpuHour": "0.17"},
        {**sold, "name": "L40S 48GB", "spotPricePerGpuHour": "0.26"},
    ]

    def answer(asked: Asked) -> Said:
        return (
            Said(404, failure("PRODUCT_NOT_FOUND"))
            if asked.method == "POST"
            else Said(200, {"products": products})
        )

    server.otherwise = answer

    done = ostler("create", "n", "--product", "rtx 4090", "--template", "1", "--yes")

    assert done.exit_code == 3
    assert "Closest: RTX 4090 24GB ($0.17)\n" in done.stderr
    assert "ostler products" in done.stderr


def test_a_create_has_every_field_that_was_given(server: SmallServer, ostler: Ostler) -> None:
    made = {"instanceId": "inst_1", "message": "Accepted", "estimatedReadyTime": "2100-01-01T00:00:00Z"}
    serve(server, quotes=QUOTE, instances=made)

    done = ostler(
        *("create", "n", "--product", "p", "--template", "1", "--yes", "--gpus", "2", "--disk", "80"),
        *(
            "--region",
            "CN-HK-01",
            "--regions",
            "A,B",
            "--on-demand",
            "--max-price",
            "0.5",
            "--placement",
            "cheapest",
        ),
        *(
            "--volume",
            "vol-1:/data",
            "--env",
            "A=b=c",
            "--tag",
            "team=art",
            "--webhook",
            "https://example.com",
        ),
        *("--health-check", "--on-reclaim", "restart", "--keep-on-failure", "--protect"),
        *("--stop-after", "8h", "--delete-after", "3d", "--stop-at", "2100-01-01T00:00:00Z"),
        *("--delete-at", "2100-01-02T00:00:00Z", "--idle-stop-after", "30m", "--idle-gpu-below", "5"),
        *("--delete-after-stopped", "1d"),
    )

    assert done.exit_code == 0, done.output
    limits = {"stopAfter": "8h", "deleteAfter": "3d", "stopAt": "2100-01-01T00:00:00Z"}
    limits |= {"deleteAt": "2100-01-02T00:00:00Z", "idleStopAfter": "30m", "deleteAfterStopped": "1d"}
    assert server.asked[-1].body == {
        "name": "n",
        "productName": "p",
        "templateId": "1",
        "gpuNum": 2,
        "rootfsSize": 80,
        "region": "CN-HK-01",
        "regions": ["A", "B"],
        "billingMode": "onDemand",
        "maxPricePerGpuHour": 0.5,
        "placement": "cheapest",
        "networkVolumes": [{"id": "vol-1", "mountPath": "/data"}],
        "limits": {**limits, "idleGpuBelow": 5.0},
        "envs": [{"key": "A", "value": "b=c"}],
        "tags": {"team": "art"},
        "webhookUrl": "https://example.com",
        "onReclaim": "restart",
        "onFailure": "keep",
        "protected": True,
        "healthCheck": {},
    }


def test_an_error_names_the_field_what_to_do_and_the_request(server: SmallServer, ostler: Ostler) -> None:
    field = {"field": "gpuNum", "code": "INVALID_GPU_NUM", "message": "At most 8"}
    regions = {"regions": {"CN-HK-01": "NOT_AVAILABLE"}}
    server.say(400, failure("VALIDATION_ERROR", "The request is not valid", validationErrors=[field]))
    server.say(422, failure("NO_OPTIMAL_PRODUCT_ANY_REGION", "None to be had", details=regions))

    invalid, sold_out = ostler("quote", "p"), ostler("quote", "p")

    assert invalid.exit_code == 2
    assert (
        invalid.stderr == "The request is not valid  VALIDATION_ERROR\n  gpuNum: At most 8\n  request req-1\n"
    )
    assert sold_out.exit_code == 1
    assert "  CN-HK-01: no room\n" in sold_out.stderr
    assert "--on-demand" in sold_out.stderr


def test_what_has_failed_shows_why_and_nowhere_to_go(server: SmallServer, ostler: Ostler) -> None:
    fault = {"code": "IMAGE_PULL_FAILED", "message": "manifest unknown"}
    serve(server, {**ONE, "status": "failed", "error": fault, "hasMachine": False, "cost": ESTIMATED})

    shown, asked = ostler("show", "first").stdout, ostler("rm", "first")

    assert "manifest unknown" in shown
    assert "~$0.0012" in shown
    assert "endpoint" not in shown
    assert "It has no machine, so nothing is lost." in asked.stderr


ESTIMATED = {"soFarUsd": "0.0012", "perHourUsd": "0", "estimated": True}


def test_events_say_what_happened_in_words() -> None:
    changes: dict[str, Any] = {
        "limits.stopAfter": {"from": "4h", "to": "6h"},
        "name": {"from": "a", "to": None},
    }
    changes["protected"] = {"from": False, "to": True}
    for event, words in (
        ({"type": "instance.running"}, "it runs"),
        ({"type": "instance.running", "reason": "imported"}, "it runs; imported"),
        ({"type": "instance.failed", "error": {"message": "denied"}}, "denied"),
        ({"type": "instance.exited", "reason": "reclaimed by Novita"}, "Novita took it away"),
        ({"type": "something.new"}, ""),
        (
            {"type": "instance.updated", "data": {"changed": ["tags.a", *changes], "changes": changes}},
            "tags.a changed, limits.stopAfter 4h to 6h, name removed, protected no to yes",
        ),
    ):
        assert happened(event) == words


def test_an_instance_says_why_it_is_as_it_is() -> None:
    fault = {"message": "No room.", "code": "X"}
    gone = {"since": "2026-01-01T00:00:00Z", "action": "restart"}
    assert why({**ONE, "endedBy": "budget", "status": "stopped"}) == "a budget was spent"
    assert why({**ONE, "endedBy": "user", "status": "stopped"}) == ""
    assert why({**ONE, "waitingFor": fault}) == "No room"
    assert "it is being brought back: No room" in why({**ONE, "waitingFor": fault, "recovering": gone})


def test_durations_and_money_are_read_and_written_as_people_do() -> None:
    assert [seconds_of(text) for text in ("45", "90m", "1h30m", "3d")] == [45, 5400, 5400, 259_200]
    assert [span(seconds) for seconds in (0, 59.6, 3600, 90_061)] == ["0 s", "1 min", "1 h", "1 d 1 h"]
    assert [usd(value) for value in ("0.18", "0.0012", "1.2345", "900", "0", "none")] == [
        *("0.18", "0.0012", "1.23", "900.00", "0.00", "none")
    ]
    for text in ("", "h", "8 hours", "-1h", "0"):
        with pytest.raises(ValueError, match="is no duration"):
            seconds_of(text)


def commands(text: str) -> Iterator[list[str]]:
    """Every call of ostler in a document or a message of ours, as words."""
    for line in text.splitlines():
        for part in line.replace("$(", "\n").replace("`", "\n").replace("|", "\n").splitlines():
            place = part.find("ostler ")
            if place >= 0 and not part[:place].strip(" $\t"):
                yield part[place:].split(" #")[0].split()


def leaf(words: Sequence[str]) -> click.Command:
    found: click.Command = main.cli
    for word in words[1:]:
        if isinstance(found, click.Group) and word in found.commands:
            found = found.commands[word]
    return found


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_that_a_document_names_is_there(document: Any) -> None:
    for words in commands(document.read_text()):
        found = leaf(words)
        named = [word for word in words[1:] if word[0].isalpha() and word.islower()]
        assert not named or found is not main.cli or words[1].startswith("-"), words
        known = {option for param in (*found.params, *main.cli.params) for option in param.opts}
        known |= {option for param in found.params for option in param.secondary_opts} | {"--help"}
        if found.name == "ssh":  # what follows the name is for the machine
            continue
        assert {word.split("=")[0] for word in words if word.startswith("--")} <= known, words


def test_every_command_that_a_message_names_is_there() -> None:
    sources = (ROOT / "client/src/ostler").rglob("*.py")
    found = [words for file in sources for words in _quoted(file.read_text())]

    assert len(found) > 20
    for words in found:
        assert leaf(words) is not main.cli, words


def _quoted(source: str) -> Iterator[list[str]]:
    for text in re.findall(r"ostler ((?:ls|[a-z]{3,})(?: [a-z]+)?)", source):
        if text.split()[0] not in ("import", "in", "from"):
            yield ["ostler", *text.split()]


def test_json_is_json_whatever_is_asked(server: SmallServer, ostler: Ostler) -> None:
    serve(server, ONE, budgets={"budgets": []}, products={"products": []}, quotes=QUOTE)

    for command in ("ls", "show first", "budget ls", "products", "quote p", "config"):
        done = ostler(*command.split(), "--json")
        assert done.exit_code == 0, done.output
        json.loads(done.stdout)
