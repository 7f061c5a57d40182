"""`webhooks`: what was sent, sending it again, what receivers verify with, and a receiver to learn from."""

from __future__ import annotations

import shlex
from typing import Any

import click

from ostler.cli.arguments import one_instance, pass_session
from ostler.cli.session import FAILED, NOT_ALLOWED, Session, fail, json_option, say


@click.group()
def webhooks() -> None:
    """Webhooks: what was sent, sending it again, and what receivers verify with."""


@webhooks.command("list")
@one_instance
@json_option
@pass_session
def list_webhooks(session: Session, name: str) -> None:
    """An instance's deliveries, newest first."""
    found = list(session.client.deliveries(session.find(name)["instanceId"]))
    rows = [["EVENT", "STATE", "ATTEMPTS", "LAST ANSWER", "ID", "URL"]]
    for one in found:
        last: Any = one["attempts"][-1] if one["attempts"] else {}
        answer = str(last.get("status") or last.get("error") or "-")
        rows.append(
            [one["eventType"], one["state"], str(len(one["attempts"])), answer, one["id"], one["url"]]
        )
    none = f"Nothing was sent for {name}. Has it an address? ostler update {shlex.quote(name)} --webhook URL"
    session.show_rows(found, rows, none, spare=["URL", "LAST ANSWER"])


@webhooks.command()
@click.argument("delivery_id")
@json_option
@pass_session
def replay(session: Session, delivery_id: str) -> None:
    """Send a delivery again."""
    told = session.client.replay(delivery_id)
    session.show(told, [told["message"]])


@webhooks.command()
@click.argument("url")
@json_option
@pass_session
def secret(session: Session, url: str) -> None:
    """What a receiver at that address verifies signatures with (admin)."""
    told = session.client.webhook_secret(url)
    session.show(told, told["secrets"])


@webhooks.command()
@click.option("--port", type=click.IntRange(0, 65535), default=4242, show_default=True, help="0: a free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--url", "public", help="Its address as the service sees it, behind a tunnel.")
@click.option("--secret", "given", help="Verify with this; by default the service is asked (admin).")
@click.option("-n", "--count", type=click.IntRange(1), help="End after so many events.")
@json_option
@pass_session
def listen(
    session: Session, port: int, host: str, public: str | None, given: str | None, count: int | None
) -> None:
    """Receive webhooks here, verify their signatures and print the events, until Ctrl-C.

    A deployed service sends to public addresses only: give the tunnel's as --url. A local copy
    (`make run`) sends to 127.0.0.1 too.
    """
    from ostler.cli.receiver import receive

    def begun(url: str) -> list[str]:
        say(f"Listening. Tell the service: ostler create … --webhook {public or url}")
        return [given] if given else _secrets(session, public or url)

    try:
        receive(session, host, port, count, begun)
    except OSError as error:
        fail(f"{host}:{port} cannot be listened on: {error.strerror}.", "Another port: --port 0", FAILED)


def _secrets(session: Session, url: str) -> list[str]:
    from ostler.errors import Forbidden

    try:
        return session.client.webhook_secret(url)["secrets"]
    except Forbidden:
        fail(
            "Only a key with the scope admin may read the receiver's secret.",
            "Ask somebody who has one for `ostler webhooks secret`, and give it with --secret.",
            NOT_ALLOWED,
        )


COMMANDS = (webhooks,)
