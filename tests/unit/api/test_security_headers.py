"""What every answer tells browsers, whatever it answers."""

import re
from html.parser import HTMLParser

import pytest

from tests.unit.api.api import Api, create_body

DOCUMENTS = ("/openapi.json", "/docs")  # hold no data, and are kept by browsers
STRICT = "default-src 'none'; frame-ancestors 'none'"


class Inline(HTMLParser):
    """The scripts and styles of a page, as a browser finds them."""

    def found(self, page: str) -> list[str]:
        self.tags: list[str] = []
        self.feed(page)
        return self.tags

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style"):
            assert not attrs
            self.tags.append(tag)


@pytest.mark.parametrize(
    ("method", "path", "key", "status"),
    [
        ("GET", "/health", None, 200),
        ("GET", "/openapi.json", None, 200),
        ("GET", "/docs", None, 200),
        ("GET", "/api/instances", "admin", 200),
        ("POST", "/api/instances", "admin", 201),
        ("POST", "/api/instances", "read", 403),
        ("GET", "/api/instances", None, 401),
        ("GET", "/api/instances/nobody", "admin", 404),
        ("GET", "/api/nothing", "admin", 404),
        ("OPTIONS", "/api/instances", "admin", 404),
        ("GET", "/api/instances?limit=0", "admin", 400),
    ],
)
def test_every_answer_carries_them(api: Api, method: str, path: str, key: str | None, status: int) -> None:
    presented = {"Authorization": f"Bearer {api.keys[key]}" if key else None}

    answer = api.call(method, path, create_body() if method == "POST" else None, headers=presented)

    assert answer.status == status
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cache-Control"] == ("no-cache" if path in DOCUMENTS else "no-store")
    assert (answer.headers["Content-Security-Policy"] == STRICT) is (path != "/docs")


def test_an_error_of_ours_carries_them_too(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functions.api.requests.enter", lambda *_: 1 / 0)

    answer = api.call("GET", "/api/instances")

    assert (answer.status, answer.headers["Content-Security-Policy"]) == (500, STRICT)


def test_the_page_may_run_its_own_scripts_and_no_others(api: Api) -> None:
    answer = api.call("GET", "/docs", headers={"Authorization": None})

    policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert re.fullmatch(r"'sha256-[^ ]+' 'sha256-[^ ]+' 'sha256-[^ ]+'", policy["script-src"])
    assert re.fullmatch(r"'sha256-[^ ]+'", policy["style-src"])
    assert policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in str(policy)
    assert Inline().found(answer.text) == ["style", "script", "script", "script"], (
        "each runs by its hash, or not"
    )


def test_no_answer_opens_the_api_to_other_origins(api: Api) -> None:
    for method in ("GET", "OPTIONS"):
        answer = api.call(method, "/api/instances", headers={"Origin": "https://page.example"})
        assert not [name for name in answer.headers if name.lower().startswith("access-control-")]
