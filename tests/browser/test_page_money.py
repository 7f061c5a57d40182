"""What somebody says about money and time is what is asked for: not less, not twice, not at another price."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser import every_state
from tests.browser.conftest import Visit
from tests.browser.every_state import COMFY

Begin = Callable[..., Visit]

CREATE = re.compile("/api/instances$")


def bodies(page: Page, path: str, method: str = "POST") -> list[Any]:
    """What is sent there from now on."""
    sent: list[Any] = []
    page.on(
        "request",
        lambda one: sent.append(one.post_data_json) if one.method == method and path in one.url else None,
    )
    return sent


def described(one: Visit) -> Page:
    """A form with a price beside it."""
    every_state.serve(one.page)
    page = one.open("#/new")
    page.get_by_label("Name").fill("typed")
    page.get_by_label("GPU", exact=True).fill("RTX 4090 24GB")
    page.get_by_label("Template").fill("107672")
    expect(page.get_by_role("button", name="Buy it for $0.36 per hour")).to_be_visible()
    page.get_by_text("More", exact=True).click()
    return page


def test_a_cap_that_cannot_be_read_is_said_and_never_left_out(visit: Begin) -> None:
    page = described(visit())
    quotes, bought = bodies(page, "/api/quotes"), bodies(page, "/api/instances")
    cap, fault = page.get_by_label("At most"), page.locator("#maxPricePerGpuHour-fault")

    for text in ("0.50 USD", "$0.5", "1,000.50", "1e9"):
        cap.fill(text)
        expect(fault).to_contain_text("Must be a number")
        page.get_by_role("button", name="Buy it", exact=True).click()
        expect(cap).to_be_focused()
    assert (quotes, bought) == ([], [])

    cap.fill("0,5")
    expect(page.get_by_role("button", name="Buy it for")).to_be_visible()
    expect(fault).to_have_count(0)
    assert [body["maxPricePerGpuHour"] for body in quotes] == [0.5]


def test_the_button_names_no_price_but_that_of_what_is_described(visit: Begin) -> None:
    page = described(visit())
    held: list[Route] = []
    page.route(re.compile("/api/quotes"), lambda route: held.append(route))

    page.get_by_label("GPUs").fill("4")
    expect(page.get_by_role("button", name="Buy it", exact=True)).to_be_visible(timeout=300)
    expect(page.get_by_label("Quote")).to_contain_text("the price of what you described before")
    page.get_by_label("GPUs").fill("2")
    page.wait_for_timeout(400)  # for longer than it waits for the next letter
    while not held:
        page.wait_for_timeout(20)
    for route in held:
        route.fulfill(json=every_state.quote() | {"gpuNum": 2, "perHourUsd": "0.72"})
    expect(page.get_by_role("button", name="Buy it for $0.72 per hour")).to_be_visible()

    # What changes no price asks for none.
    del held[:]
    page.get_by_label("Name").fill("another")
    page.wait_for_timeout(500)
    expect(page.get_by_role("button", name="Buy it for $0.72 per hour")).to_be_visible()
    assert held == []


def test_what_is_ticked_stays_ticked_when_the_price_comes(visit: Begin) -> None:
    page = described(visit())
    quotes = bodies(page, "/api/quotes")

    page.get_by_label("Protected").check()
    page.get_by_label("Ready only when").check()
    page.get_by_label("GPUs").fill("2")
    while not quotes:
        page.wait_for_timeout(50)
    expect(page.get_by_role("button", name="Buy it for")).to_be_visible()

    expect(page.get_by_label("Protected")).to_be_checked()
    expect(page.get_by_label("Ready only when")).to_be_checked()


def test_a_purchase_whose_answer_was_lost_is_said_until_it_is_known(visit: Begin) -> None:
    one = visit()
    one.refusals_expected = True
    page = described(one)
    keys: list[str | None] = []
    unanswered, quote = (
        page.locator(".note").filter(has_text="may have been bought"),
        page.get_by_label("Quote"),
    )

    def lose(route: Route) -> None:
        keys.append(route.request.header_value("Idempotency-Key"))
        route.abort()

    page.route(CREATE, lose)
    for _ in range(2):
        with page.expect_request(CREATE):
            page.get_by_role("button", name="Buy it").click()
        expect(unanswered).to_contain_text("typed may have been bought all the same")
        expect(quote.get_by_role("button")).to_be_enabled()
    assert len(set(keys)) == 1, "the same description is the same purchase"

    page.get_by_label("Name").fill("typed-again")
    expect(quote).not_to_contain_text("NOT_REACHED")
    expect(unanswered).to_be_visible()
    refusal = {"error": {"code": "CAP_EXCEEDED", "message": "Too many"}}
    page.unroute(CREATE)
    page.route(CREATE, lambda route: route.fulfill(status=422, json=refusal))
    page.get_by_role("button", name="Buy it").click()
    expect(quote).to_contain_text("CAP_EXCEEDED")
    expect(unanswered).to_be_visible()
    one.assert_accessible()


LATER, LAST = every_state.ahead(hours=3), every_state.ahead(days=2)
LIMITS: dict[str, tuple[dict[str, Any], dict[str, Any], str, dict[str, Any] | None]] = {
    "a duration": (
        {"stopAfter": "4h", "idleStopAfter": "5h", "deleteAfterStopped": "1d"},
        {"stopAt": LATER, "stopReason": "lifetime"},
        "It stops at",
        {"stopAfter": "6h"},
    ),
    "all that it has": (
        {"stopAfter": "90m", "deleteAfter": "3d", "stopAt": LATER},
        {"stopAt": LATER, "stopReason": "lifetime", "deleteAt": LAST, "deleteReason": "lifetime"},
        "It stops at",
        {"stopAfter": "210m", "deleteAfter": "74h", "stopAt": 2},
    ),
    "a time that has passed": (
        {"stopAt": every_state.ago(hours=9), "deleteAt": LAST},
        {"deleteAt": LAST, "deleteReason": "lifetime"},
        "It is deleted at",
        {"deleteAt": 2},
    ),
    "idleness": (
        {"stopAfter": "8h", "idleStopAfter": "30m"},
        {"stopAt": LATER, "stopReason": "idle"},
        "because it is not used",
        None,
    ),
    "a budget": ({"stopAfter": "8h"}, {"stopAt": LATER, "stopReason": "budget"}, "a budget is spent", None),
    "a ceiling": ({}, {"stopAt": LATER, "stopReason": "lifetime"}, "this deployment's own limit", None),
}


@pytest.mark.parametrize("end", LIMITS)
def test_more_time_moves_what_time_ends_and_only_that(visit: Begin, end: str) -> None:
    limits, expiry, said, moved = LIMITS[end]
    page = limited(visit(), limits, expiry)
    sent = bodies(page, "/api/instances/", "PATCH")
    dialog = page.get_by_role("dialog")

    page.get_by_role("button", name="Limits…").click()

    expect(dialog).to_contain_text(said)
    if moved is None:
        assert dialog.get_by_role("radio").count() == 0
        return
    dialog.get_by_label("2 hours more").check()
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    times = {name: limits[name] for name, value in moved.items() if value == 2}
    for name, before in times.items():
        assert hours_between(before, sent[0]["limits"].pop(name)) == pytest.approx(2, abs=0.001)
    assert sent == [{"limits": {name: value for name, value in moved.items() if name not in times}}]


def limited(one: Visit, limits: dict[str, Any], expiry: dict[str, Any]) -> Page:
    """In lists, too: the page shows an instance by what its list said, until it has asked."""
    ends = {"limits": limits, "expiry": expiry}

    def changed(body: Any) -> Any:
        if "instances" in body:
            return body | {"instances": [instance | ends for instance in body["instances"]]}
        return body | ends if "instanceId" in body and "name" in body else body

    every_state.serve(one.page, changed)
    return one.open(f"#/instances/{COMFY}")


def hours_between(before: str, after: str) -> float:
    return (every_state.moment(after) - every_state.moment(before)).total_seconds() / 3600


def test_times_are_shown_changed_and_taken_away(visit: Begin) -> None:
    limits = {
        "stopAt": "2031-03-04T05:06:07.000Z",
        "deleteAt": LAST,
        "idleStopAfter": "1h",
        "idleGpuBelow": 5,
    }
    one = visit(timezone_id="Asia/Tokyo")
    page = limited(one, limits, {"stopAt": limits["stopAt"], "stopReason": "lifetime"})
    sent = bodies(page, "/api/instances/", "PATCH")
    dialog = page.get_by_role("dialog")
    page.get_by_role("button", name="Limits…").click()
    expect(dialog.get_by_label("Stop at")).to_have_value("2031-03-04T14:06")

    dialog.get_by_label("Stop at").fill("2031-03-04T15:00")
    dialog.get_by_label("Delete at").fill("")
    dialog.get_by_label("Stop when unused for").fill("")
    dialog.get_by_role("button", name="Save").click()

    expect(dialog).to_have_count(0)
    assert sent == [
        {
            "limits": {
                "stopAt": "2031-03-04T06:00:00.000Z",
                "deleteAt": None,
                "idleStopAfter": None,
                "idleGpuBelow": None,  # which means nothing without it
            }
        }
    ]
