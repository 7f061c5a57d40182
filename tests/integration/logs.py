"""Everything that is logged while something happens, by the service and by libraries, from a level on."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from functions.shared.platform.observability import logger


@contextmanager
def everything_logged(level: int = logging.DEBUG) -> Iterator[io.StringIO]:
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(logger.registered_formatter)
    loggers = (logging.getLogger(), logging.getLogger("ostler"))
    levels = [one.level for one in loggers]
    for one in loggers:
        one.addHandler(handler)
        one.setLevel(level)
    try:
        yield text
    finally:
        for one, before in zip(loggers, levels, strict=True):
            one.removeHandler(handler)
            one.setLevel(before)
