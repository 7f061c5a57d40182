"""The three ports of a local copy, all on loopback."""

import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from ops.command import RefusalError

HOST = "127.0.0.1"
VARIABLES = {"api": "OSTLER_PORT", "simulator": "NOVITA_SIM_PORT", "emulator": "AWS_EMULATOR_PORT"}


@dataclass(frozen=True)
class Ports:
    api: int = 8080
    simulator: int = 8081
    emulator: int = 4566

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> "Ports":
        given = {name: environment.get(variable) for name, variable in VARIABLES.items()}
        return cls(**{name: _port(VARIABLES[name], text) for name, text in given.items() if text})

    @classmethod
    def free(cls) -> "Ports":
        """Three that nobody uses right now, for tests."""
        with ExitStack() as held:
            sockets = [held.enter_context(socket.socket()) for _ in VARIABLES]
            for one in sockets:
                one.bind((HOST, 0))
            return cls(*(one.getsockname()[1] for one in sockets))


def require_free(port: int, name: str) -> None:
    with socket.socket() as probe:
        # A port whose last connections are only just closed can be had.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise RefusalError(
                f"port {port} on {HOST} (the {name}) cannot be had: {error.strerror}. "
                f"Stop what uses it, or choose another with {VARIABLES[name]}, as in "
                f"`make run {VARIABLES[name]}={port + 100}`."
            ) from None


def _port(variable: str, text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 65535:
        raise RefusalError(f"{variable} is {text!r}: must be a port number from 1 to 65535.")
    return int(text)
