"""Waiting for something to become true, and asking an address on this machine whether it is up."""

import http.client
import time
from collections.abc import Callable


def wait_until(ready: Callable[[], bool], seconds: float, pause: float = 0.05) -> bool:
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True


def http_status(port: int, path: str, timeout: float = 5) -> int | None:
    """None if nobody answers. Proxies of the environment are not asked: this never leaves the machine."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
