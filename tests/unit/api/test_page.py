"""The page at `/` and the other documents: open to all, compressed, kept by browsers, closed to scripts."""

import base64
import gzip
import re
from pathlib import Path

import pytest

from functions.api.routes import page as route
from infra.page import DOCUMENT, assemble
from tests.unit.api.api import Answer, Api

SOURCES = route.FOLDER
MOST_BYTES = 100_000
OPEN = {"Authorization": None}


@pytest.fixture(autouse=True)
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the asset build leaves it."""
    (tmp_path / DOCUMENT).write_text(assemble(SOURCES), "utf-8")
    monkeypatch.setattr(route, "FOLDER", tmp_path)


def compressed(api: Api, path: str, **headers: str) -> Answer:
    return api.call("GET", path, headers={**OPEN, "Accept-Encoding": "gzip, deflate, br", **headers})


def test_the_page_is_open_and_fits_into_100_kb(api: Api) -> None:
    answer = compressed(api, "/")

    body = base64.b64decode(answer.text)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Content-Encoding"] == "gzip"
    assert len(body) < MOST_BYTES
    assert gzip.decompress(body).decode() == assemble(SOURCES)


def test_whoever_takes_no_gzip_gets_it_plain(api: Api) -> None:
    for headers in (OPEN, {**OPEN, "Accept-Encoding": "br, gzip;q=0"}):
        answer = api.call("GET", "/", headers=headers)

        assert "Content-Encoding" not in answer.headers
        assert answer.text == assemble(SOURCES)


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json"])
def test_what_has_not_changed_is_not_sent_again(api: Api, path: str) -> None:
    first = compressed(api, path)

    again = compressed(api, path, **{"If-None-Match": f'W/"other", {first.headers["ETag"]}'})
    other = compressed(api, path, **{"If-None-Match": 'W/"other"'})

    assert (again.status, again.text) == (304, "")
    assert again.headers["ETag"] == first.headers["ETag"]
    assert (other.status, other.text) == (200, first.text)
    assert first.headers["Cache-Control"] == "no-cache"
    assert first.headers["Vary"] == "Accept-Encoding"


def test_the_documentation_is_sent_compressed(api: Api) -> None:
    plain = api.call("GET", "/docs", headers=OPEN)

    body = base64.b64decode(compressed(api, "/docs").text)

    assert gzip.decompress(body).decode() == plain.text
    assert len(body) < len(plain.text) / 3


def test_only_its_own_script_and_style_run_and_nothing_becomes_markup(api: Api) -> None:
    answer = compressed(api, "/")

    policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert re.fullmatch(r"'sha256-[^ ]+'", policy["script-src"])
    assert re.fullmatch(r"'sha256-[^ ]+'", policy["style-src"])
    assert (policy["connect-src"], policy["img-src"]) == ("'self'", "data:")
    assert policy["require-trusted-types-for"] == "'script'"
    assert policy["trusted-types"] == "'none'"
    assert "unsafe" not in answer.headers["Content-Security-Policy"]


def test_it_says_how_callers_are_known_here(api: Api) -> None:
    for mode in ("iam", "jwt", "keys"):
        api.restart(AUTH=mode)

        assert f'data-auth="{mode}"' in api.call("GET", "/", headers=OPEN).text


def test_nobody_pays_for_it_who_does_not_open_it(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route, "FOLDER", Path("/nowhere"))

    assert api.call("GET", "/health", headers=OPEN).status == 200
    assert api.call("GET", "/api/me").status == 200


@pytest.mark.parametrize(
    ("scope", "scopes"),
    [("read", ["read"]), ("write", ["read", "write"]), ("admin", ["read", "write", "admin"])],
)
def test_a_caller_is_told_what_it_may_do(api: Api, scope: str, scopes: list[str]) -> None:
    answer = api.call("GET", "/api/me", headers={"Authorization": f"Bearer {api.keys[scope]}"})

    assert answer.status == 200
    assert answer.body["id"].startswith("key_")
    assert answer.body["scopes"] == scopes


def test_no_module_makes_markup_out_of_text() -> None:
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc|localStorage"
    )

    found = {path.name: forbidden.findall(path.read_text("utf-8")) for path in SOURCES.glob("*.js")}

    assert {name: words for name, words in found.items() if words} == {"dom.js": ["srcdoc"]}  # refused there
