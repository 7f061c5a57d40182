"""What users and strangers write comes through the whole service, and is shown as text.

Everything else that the API answers: test_page_in_every_state.py.
"""

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Route, expect

from tests.browser.conftest import Visit
from tests.e2e.service import Service

Begin = Callable[..., Visit]

MARKUP = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>\'"&lt;b>'


def test_markup_from_users_and_strangers_is_text(visit: Begin, service: Service) -> None:
    url = service.simulator.inbox_url("markup")
    service.simulator.answer("markup", {"status": 500, "body": MARKUP})
    name = f"evil {MARKUP}"[:100]
    instance = service.create(name=name, tags={"team": MARKUP[:200], MARKUP[:100]: "x"}, webhookUrl=url)
    service.wait_for(instance, "running")
    service.wait(lambda: attempts(service, instance))
    one = visit()
    page = one.open()

    expect(page.get_by_role("link", name=name)).to_be_visible()
    expect(page.get_by_role("row", name="evil")).to_contain_text(MARKUP[:60])
    one.go(f"#/instances/{instance}")
    expect(page.locator("h1")).to_contain_text(name)
    page.get_by_text(re.compile("attempts? to")).last.click()
    expect(page.locator("code.block").first).to_contain_text("onerror")
    page.get_by_role("button", name="Delete…").click()
    expect(page.get_by_role("dialog")).to_contain_text("evil <img")
    page.keyboard.press("Escape")
    assert_nothing_ran(one)


def attempts(service: Service, instance: str) -> list[Any]:
    found = service.get(f"/api/webhooks/deliveries?instanceId={instance}")["deliveries"]
    return [attempt for delivery in found for attempt in delivery["attempts"] if attempt.get("answer")]


def test_an_address_that_is_no_address_is_no_link(visit: Begin, service: Service) -> None:
    instance = service.take_over()
    one = visit()

    def answer(route: Route) -> None:
        body = route.fetch().json()
        body["portMappings"] = [{"port": 80, "type": "http", "endpoint": "javascript:window.broken=1"}]
        route.fulfill(json=body)

    one.page.route(re.compile(rf"/api/instances/{instance}$"), answer)
    page = one.open(f"#/instances/{instance}")

    expect(page.get_by_text("javascript:window.broken=1")).to_be_visible()
    assert page.locator("a[href^='javascript']").count() == 0


def assert_nothing_ran(one: Visit) -> None:
    assert one.page.evaluate("() => window.broken") is None
    assert one.page.locator("main img, main script, dialog img, dialog script").count() == 0
