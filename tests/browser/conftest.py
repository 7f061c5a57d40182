"""One deployed stack and one browser for all tests of the page, and what each test may not leave behind.

A page must say nothing on the console, violate no policy, and ask no other host for anything.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from local.ports import Ports
from local.stack import LocalStack
from tests.browser import chromium
from tests.e2e.conftest import QUICK
from tests.e2e.service import Service

AXE = chromium.PACKAGES / "axe-core" / "axe.min.js"
SETTINGS = {**QUICK, "PURCHASE_MAX_WAIT": "60", "DETAILS_TTL": "2"}
PATIENCE_MS = 30_000
expect.set_options(timeout=PATIENCE_MS)


def required(found: chromium.Chromium | None, environment: Mapping[str, str]) -> chromium.Chromium:
    """Who has no browser is told; where everything is checked nothing is left out."""
    if found:
        return found
    why = "no browser: run `make .build/node/.ready`, or install chromium"
    if environment.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = required(chromium.find(), os.environ)
    with sync_playwright() as driver:
        launched = driver.chromium.launch(
            executable_path=found.path, args=chromium.FLAGS, env=dict(found.environment)
        )
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[LocalStack]:
    assert browser.is_connected()
    with LocalStack(tmp_path_factory.mktemp("ostler"), Ports.free(), SETTINGS) as running:
        yield running
        assert "AccessDenied" not in running.state.log("functions").read_text()


@pytest.fixture(scope="session")
def deployed(stack: LocalStack) -> Service:
    return Service(stack)


@pytest.fixture
def service(deployed: Service) -> Iterator[Service]:
    deployed.clean_slate()
    yield deployed
    deployed.simulator.clear_faults()


@dataclass
class Visit:
    """A page that somebody has open, and what was wrong with it."""

    page: Page
    base: str
    key: str
    problems: list[str] = field(default_factory=list)
    refusals_expected: bool = False

    def open(self, place: str = "", key: str | None = None) -> Page:
        """With the key in a one-time link, as `make run` prints it; then the screen."""
        self.page.goto(f"{self.base}/#key={key or self.key}")
        self.page.locator("h1").first.wait_for()
        if place:
            self.go(place)
        return self.page

    def go(self, place: str) -> None:
        self.page.evaluate("place => { location.hash = place }", place)

    def expect_soon(self, place: Locator, text: str) -> None:
        """Without waiting for the next poll: as if somebody looked away and back. `text` is a pattern."""
        for _ in range(PATIENCE_MS // 500):
            if re.search(text, place.first.text_content() or "" if place.count() else ""):
                return
            self.page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
            self.page.wait_for_timeout(500)
        expect(place).to_contain_text(re.compile(text), timeout=1)

    def assert_accessible(self) -> None:
        """axe-core finds nothing serious in what is shown."""
        if not self.page.evaluate("() => 'axe' in window"):
            # Through the debugger, since the page's own policy lets no other script in.
            self.page.evaluate(AXE.read_text())
        found = self.page.evaluate(
            "() => axe.run(document, {resultTypes: ['violations']})"
            ".then(({violations}) => violations.map(({id, impact, nodes}) =>"
            " ({id, impact, where: nodes.map((node) => node.html.slice(0, 200))})))"
        )
        assert [one for one in found if one["impact"] in ("serious", "critical")] == []

    def _on_console(self, kind: str, text: str) -> None:
        expected = self.refusals_expected and text.startswith("Failed to load resource")
        if kind in ("error", "warning") and not expected:
            self.problems.append(f"{kind}: {text}")

    def _on_request(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob") and f"{parts.scheme}://{parts.netloc}" != self.base:
            self.problems.append(f"asked {url}")


@pytest.fixture
def visit(browser: Browser, service: Service) -> Iterator[Callable[..., Visit]]:
    """`visit(color_scheme="dark", viewport=…)` makes one more."""
    visits: list[Visit] = []

    def begin(**options: Any) -> Visit:
        wanted: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}, "locale": "en-GB", **options}
        context = browser.new_context(**wanted)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        one = Visit(page, service.stack.api_url, service.stack.api_key)
        page.on("console", lambda message: one._on_console(message.type, message.text))
        page.on("pageerror", lambda error: one.problems.append(f"thrown: {error}"))
        page.on("request", lambda request: one._on_request(request.url))
        page.add_init_script(
            "document.addEventListener('securitypolicyviolation',"
            " (event) => console.error('policy violated: ' + event.violatedDirective))"
        )
        visits.append(one)
        return one

    yield begin
    for one in visits:
        one.page.context.close()
    assert [problem for one in visits for problem in one.problems] == []
