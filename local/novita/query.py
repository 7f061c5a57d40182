"""Query parameters of the lists: numbers, pages, names."""

import re
from typing import TypeVar

from aiohttp import web

from local.novita.errors import ApiError
from local.novita.settings import Settings

T = TypeVar("T")
LONGEST = 255
MOST = 2**31 - 1
DIGITS = re.compile("[0-9]{1,10}")


def number(request: web.Request, name: str, default: int = 0, most: int = MOST) -> int:
    given = request.query.get(name, "")
    if not given:
        return default
    if not DIGITS.fullmatch(given) or int(given) > most:
        raise ApiError("VALIDATOR_PARAM", f"{name}: not a whole number from 0 to {most}")
    return int(given)


def text(request: web.Request, name: str, longest: int = LONGEST) -> str:
    value = request.query.get(name, "")
    if len(value) > longest:
        raise ApiError("VALIDATOR_PARAM", f"{name}: longer than {longest}")
    return value


def required(request: web.Request, name: str) -> str:
    value = text(request, name)
    if not value:
        raise ApiError("VALIDATOR_PARAM", f"{name}: required")
    return value


def contains(wanted: str, value: str) -> bool:
    """Fuzzy, as far as is known: any part, any case."""
    return wanted.lower() in value.lower()


def page_params(request: web.Request, settings: Settings, page_name: str = "pageNum") -> tuple[int, int]:
    """Page size and number; where pages count from 1, page 0 is the first as well."""
    for name in ("pageSize", page_name):
        if settings.paging_required and name not in request.query:
            raise ApiError("VALIDATOR_PARAM", f"{name}: required")
    size = number(request, "pageSize") or settings.default_page_size
    if settings.max_page_size:
        size = min(size, settings.max_page_size)
    return size, number(request, page_name, settings.page_start)


def page_slice(items: list[T], size: int, page: int, page_start: int) -> list[T]:
    start = max(page - page_start, 0) * size
    return items[start : start + size]
