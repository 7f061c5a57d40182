"""Reaching a host that has several addresses, within one time for all of them."""

import socket
from collections.abc import Callable, Sequence
from typing import TypeVar

A = TypeVar("A")


def first_reached(
    addresses: Sequence[A], reach: Callable[[A, float], socket.socket], left: Callable[[], float]
) -> socket.socket:
    """The first that answers. Each has its share of the time that is left; `left` raises when it is over."""
    for tried, address in enumerate(addresses, 1):
        try:
            return reach(address, left() / (len(addresses) - tried + 1))
        except OSError:
            if tried == len(addresses):
                raise
    raise OSError("no address to reach")
