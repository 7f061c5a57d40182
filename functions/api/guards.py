"""Headers that tell browsers to do no more with an answer than it is meant for."""

import base64
import hashlib
import re
from functools import cache

GUARDED = {
    "Strict-Transport-Security": "max-age=31536000",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}
_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


@cache
def page_policy(page: str) -> str:
    """For a page that carries its own scripts and styles: these very ones, and calls to where it is from."""
    inline: dict[str, list[str]] = {"script": [], "style": []}
    for kind, text in _INLINE.findall(page):
        inline[kind].append(f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'")
    allowed = {
        "default-src": ["'none'"],
        "script-src": inline["script"],
        "style-src": inline["style"],
        "img-src": ["data:"],
        "connect-src": ["'self'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
        "frame-ancestors": ["'none'"],
    }
    return "; ".join(" ".join([name, *sources]) for name, sources in allowed.items())
