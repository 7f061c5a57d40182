"""Every screen with everything on it that there can be: readable to all, within the page, only text."""

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser import every_state
from tests.browser.conftest import Visit
from tests.browser.every_state import COMFY

Begin = Callable[..., Visit]

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
MARKUP = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>\'"&lt;b>'
# Words that the page goes by; the rest of what the API says is for people.
_KEPT = re.compile(
    r"\d{4}-\d\d-\d\d|[\d.]+$|(inst|op|evt|dlv|let|cor)_|instance\.|recovery\.|https?://|spot$|onDemand$|"
    r"CLOSED$|OPEN$|HALF_OPEN$|OFFERED$|http$|tcp$|running$|storage$|delivered$|pending$|all$|month$|refuse$|"
    rf"notify$|delete$|replace$|healthy$|completed$|failed$|({'|'.join(every_state.MACHINES)})$"
)
_KEPT_FIELDS = ("id", "status", "nextCursor", "endedBy", "groupBy")


def poisoned(value: Any, name: str = "") -> Any:
    """The same answer with markup in every text that the page does not go by."""
    if isinstance(value, dict):
        return {key: poisoned(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [poisoned(inner, name) for inner in value]
    if isinstance(value, str) and name not in _KEPT_FIELDS and not _KEPT.match(value):
        return f"{value}{MARKUP}"
    return value


def screens(one: Visit) -> Iterator[str]:
    """From screen to screen and from dialog to dialog; says where it is."""
    page = one.page
    expect(page.locator("tbody tr")).to_have_count(13)
    yield "fleet"
    for name in ("comfy-eu-2", "notebook-mia", "going-soon"):
        page.get_by_label(f"Select {name}").check()
    yield "selected"
    yield from dialog(page, "Stop…")
    yield from dialog(page, "Delete…")
    page.get_by_role("button", name="Clear").click()
    one.go(f"#/instances/{COMFY}")
    page.get_by_role("button", name="Show connection").click()
    expect(page.get_by_label("Get in")).to_contain_text("Web terminal")
    expect(page.get_by_label("Webhook deliveries")).to_contain_text("next try")
    opened(page)
    yield "instance"
    yield from dialog(page, "Limits…")
    yield from dialog(page, "Restart")
    yield from dialog(page, "Delete…")
    for number in (2, 4, 5, 6, 7, 10):  # waits, failed, missing, comes back, is taken away, was not seen
        one.go(f"#/instances/inst_{number:026d}")
        expect(page.get_by_label("Events", exact=True)).to_be_visible()
        yield f"instance {number}"
    one.go("#/new")
    opened(page)
    page.get_by_label("GPU", exact=True).fill("RTX 4090 24GB")
    page.get_by_label("Template").fill("107672")
    expect(page.get_by_label("Quote")).to_contain_text("AS-IN-01")
    expect(page.get_by_label("Quote")).to_contain_text("until then")
    yield "new"
    one.go("#/costs")
    expect(page.locator("rect.series").first).to_be_visible()
    opened(page)
    yield "costs"
    yield from dialog(page, "New budget")
    yield from dialog(page, "Delete… budget company")
    one.go("#/service")
    expect(page.get_by_label("Dead letters")).to_contain_text("redriven")
    opened(page)
    yield "service"
    yield from dialog(page, "Resume…")
    yield from dialog(page, "Redrive… let_1")


def dialog(page: Page, button: str) -> Iterator[str]:
    page.get_by_role("button", name=button).first.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    yield f"dialog {button}"
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def opened(page: Page) -> None:
    page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true; })")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_state_of_every_screen_is_accessible(visit: Begin, scheme: str) -> None:
    one = visit(color_scheme=scheme)
    every_state.serve(one.page)
    one.open()

    for place in screens(one):
        one.assert_accessible()
        assert_fits(one.page, place)


def test_every_state_of_every_screen_fits_a_phone_and_is_accessible_there(visit: Begin) -> None:
    one = visit(**PHONE)
    every_state.serve(one.page)
    one.open()

    for place in screens(one):
        assert_fits(one.page, place)
        one.assert_accessible()


def test_every_screen_fits_whatever_is_between_a_phone_and_a_desk(visit: Begin) -> None:
    one = visit()
    every_state.serve(one.page)
    page = one.open()
    for place in ("#/", f"#/instances/{COMFY}", "#/new", "#/costs", "#/service"):
        one.go(place)
        expect(page.locator(".skeleton")).to_have_count(0)
        for width in (320, 600, 721, 768, 861, 981, 1024):
            page.set_viewport_size({"width": width, "height": 900})
            opened(page)
            assert_fits(page, f"{place} at {width}")
            boxes = [name.bounding_box() for name in page.locator("td.name a").all()]
            assert all(box and box["height"] < 50 for box in boxes), width


def assert_fits(page: Page, place: str) -> None:
    """Nothing goes beyond the page's edge, nor beyond the edge of a card or a dialog."""
    beside = page.evaluate(
        "() => [document.documentElement, ...document.querySelectorAll('dialog, .card')]"
        ".filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent.slice(0, 60))"
    )
    assert beside == [], place


def test_markup_is_text_in_every_state_of_every_screen(visit: Begin) -> None:
    one = visit()
    every_state.serve(one.page, poisoned)
    one.open()

    for place in screens(one):
        shown = one.page.evaluate("() => document.body.innerText")
        assert "onerror=" in shown, place
        assert one.page.evaluate("() => window.broken") is None, place
        assert one.page.locator("main img, main script, dialog img, dialog script").count() == 0, place


def test_the_timeline_is_to_scale_with_lanes_for_purchases_and_machines(visit: Begin) -> None:
    one = visit()
    every_state.serve(one.page)
    page = one.open(f"#/instances/{COMFY}")
    picture = page.get_by_label("Timeline of comfy-eu-2")
    expect(picture.locator("g.dot")).to_have_count(16)

    events, cost = every_state.events(), every_state.cost()
    moments = [datetime.fromisoformat(event["timestamp"]).timestamp() for event in events]
    dots = [float(str(dot.get_attribute("cx"))) for dot in picture.locator("circle.touch").all()]
    per_second = (dots[-1] - dots[0]) / (moments[-1] - moments[0])
    for at, moment in zip(dots, moments, strict=True):
        assert at - dots[0] == pytest.approx((moment - moments[0]) * per_second, abs=1)

    lanes = picture.locator("text").all_text_contents()
    assert {"status", "purchases", "machine 1", "machine 2", "events"} <= set(lanes)
    for interval, label in zip(cost["intervals"], ("billed, $0.285", "disk only, $0.001"), strict=False):
        long = (moment_of(interval["to"]) - moment_of(interval["from"])) * per_second
        assert bar(picture, label) == pytest.approx(long, abs=3)
    for label in ("taken away, 10 min", "pulling, 1 min", "health checking, 1 min", "bought after 4 min"):
        assert bar(picture, label) > 0
    assert bar(picture, "billed, ≈ $0.20") > 0
    round_ = picture.locator("g.round.ill title", has_text="1 of 2 endpoints healthy: http 80 nobody listens")
    expect(round_).to_have_count(1)


def test_what_was_missing_and_what_was_off_is_drawn_so(visit: Begin) -> None:
    def paused(body: Any) -> Any:
        if len(body.get("intervals", ())) < 2:
            return body
        first, second, third = body["intervals"]
        again = {**first, "from": every_state.ago(minutes=72), "to": second["to"]}
        return body | {"intervals": [first, again, third]}

    one = visit()
    every_state.serve(one.page, paused)
    page = one.open(f"#/instances/inst_{5:026d}")
    picture = page.get_by_label("Timeline of lost-at-sea")
    assert bar(picture, "running, 4 h") == pytest.approx(4 * bar(picture, "missing, 1 h"), rel=0.01)

    one.go(f"#/instances/{COMFY}")
    assert bar(page.get_by_label("Timeline of comfy-eu-2"), "off, nothing billed") > 0


def moment_of(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def bar(picture: Locator, label: str) -> float:
    """How long it is drawn."""
    found = picture.locator("g").filter(has=picture.page.locator("title", has_text=label)).last
    return float(str(found.locator("rect").get_attribute("width")))


def test_every_event_is_told_under_the_pointer_and_by_keyboard(visit: Begin) -> None:
    one = visit()
    every_state.serve(one.page)
    page = one.open(f"#/instances/{COMFY}")
    told, dots = page.locator(".chosen"), page.locator("g.dot")
    expect(told).to_contain_text("event 16 of 16")

    page.locator("g.dot[data-sequence='8']").hover()
    expect(told).to_contain_text("taken away by Novita")
    page.locator(".dot.selected").focus()
    page.keyboard.press("Home")
    for number in range(1, 17):
        expect(told).to_contain_text(f"event {number} of 16")
        expect(page.locator(f".dot[data-sequence='{number}']")).to_be_focused()
        page.keyboard.press("ArrowRight")
    assert all(dot.get_attribute("aria-label") for dot in dots.all())
    page.get_by_role("button", name="First 10 min").click()
    expect(dots).to_have_count(5)


def test_what_was_not_seen_for_long_is_said_to_be_old(visit: Begin) -> None:
    one = visit()
    every_state.serve(one.page)
    page = one.open()

    row = page.get_by_role("row", name="unseen")
    expect(row).to_contain_text("as seen 12 min ago")
    note = page.locator(".note").filter(has_text="Novita has not answered")
    expect(note).to_contain_text("one machine is shown as last seen, up to 12 min ago")
    expect(page.get_by_role("row", name="comfy-eu-2")).not_to_contain_text("as seen")
    one.go(f"#/instances/inst_{10:026d}")
    expect(page.locator(".note")).to_contain_text("this is how it was 12 min ago")


def test_what_has_failed_offers_nothing_that_would_be_refused(visit: Begin) -> None:
    gone = {"hasMachine": False, "cost": {"soFarUsd": "0.58", "perHourUsd": "0"}}

    def given_back(value: Any) -> Any:
        if "instances" in value:
            return value | {"instances": [given_back(one) for one in value["instances"]]}
        return value | gone if value.get("name") == "api-canary" else value

    one = visit()
    every_state.serve(one.page, given_back)
    page = one.open(f"#/instances/inst_{4:026d}")

    expect(page.locator(".note.bad")).to_contain_text("no right to pull it")
    expect(page.get_by_role("button", name="Delete…")).to_be_visible()
    for name in ("Start", "Stop", "Restart", "Show connection"):
        expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
    one.go("#/")
    expect(page.get_by_role("row", name="api-canary")).to_contain_text("no machine any more")
    expect(page.get_by_role("row", name="api-canary").locator(".hourly")).not_to_contain_text("$")


# All that there is to press: for a key that may only look, and what an administrator alone may do.
LOOKING = {"Name", "Status", "Machine", "Age ↓", "Per hour", "So far", "Ends", "Forget key", "2"}
LOOKING |= {"All", "First 10 min", "Last hour"}
RULING = {"Resume…", "Redrive… let_1", "Clear", "Remove expired", "New budget"}
RULING |= {f"{what}… budget {name}" for what in ("Change", "Delete") for name in ("company", "art")}
PLACES = ("#/", *(f"#/instances/inst_{one:026d}" for one in range(4, 14)), f"#/instances/{COMFY}", "#/new")


def buttons(one: Visit, *places: str) -> set[str]:
    found: set[str] = set()
    for place in places:
        one.go(place)
        expect(one.page.locator("h1")).to_be_visible()
        expect(one.page.locator(".skeleton")).to_have_count(0)
        if "inst_" in place:
            expect(one.page.get_by_label("Events", exact=True)).to_be_visible()
        found |= {text.strip() for text in one.page.locator("button").all_text_contents()}
    return found


def test_no_key_sees_a_button_that_it_cannot_use(visit: Begin) -> None:
    seen = {}
    for scope in ("read", "write", "admin"):
        one = visit()
        every_state.serve(one.page, scope=scope)
        one.open()
        seen[scope] = buttons(one, *PLACES, "#/costs", "#/service")

    assert seen["read"] <= LOOKING
    assert seen["write"] & RULING == set()
    assert {"Start", "Stop", "Restart", "Limits…", "Delete…", "Show connection", "Buy it"} <= seen["write"]
    assert seen["admin"] == seen["write"] | RULING


# What is left of one that has failed: its fields, what is said of its machine, what can be done with it.
REMAINS: dict[str, tuple[dict[str, Any], str, set[str]]] = {
    "kept, and on": (
        {"novitaStatus": "running"},
        "its machine is kept and costs $0.18 per hour",
        {"Start", "Stop"},
    ),
    "stopped": (
        {"novitaStatus": "exited", "cost": {"soFarUsd": "0.58", "perHourUsd": "0"}},
        "its machine is stopped, and can be started again",
        {"Start"},
    ),
    "being stopped": (
        {"cleanup": [{"novitaInstanceId": "4", "action": "stop"}]},
        "its machine is being stopped and costs $0.18 per hour until then",
        {"Start"},
    ),
    "being given back": (
        {"cleanup": [{"novitaInstanceId": "4", "action": "delete"}]},
        "its machine is being given back and costs $0.18 per hour until then",
        set(),
    ),
    "two given back": (
        {"cleanup": [{"novitaInstanceId": one, "action": "delete"} for one in "45"], "hasMachine": False},
        "2 machines of it are being given back and cost $0.18 per hour until then",
        set(),
    ),
}


@pytest.mark.parametrize("left", REMAINS)
def test_a_failed_one_says_what_its_machine_costs_and_offers_its_stop(visit: Begin, left: str) -> None:
    fields, said, offered = REMAINS[left]
    one = visit()
    every_state.serve(one.page, lambda body: body | fields if body.get("name") == "api-canary" else body)
    page = one.open(f"#/instances/inst_{4:026d}")

    expect(page.locator(".note.bad")).to_contain_text(said)
    for name in ("Start", "Stop"):
        expect(page.get_by_role("button", name=name, exact=True)).to_have_count(int(name in offered))


def test_the_fleet_says_what_is_wrong_with_the_service(visit: Begin) -> None:
    wrong = {"lastSweepAt": every_state.ago(minutes=12)}
    one = visit()
    every_state.serve(one.page, lambda body: body | wrong if "keyProven" in body else body)
    page = one.open()
    note = page.locator(".note.bad")

    expect(note).to_contain_text("No sweep has ended for 12 min")
    expect(note).to_contain_text("The Novita key is not proven")
    expect(note).to_contain_text("2 machines of Ostler's at Novita without an instance here (2 orphans)")
    expect(note).to_contain_text("Novita does not take back 1 machine")
    expect(note).to_contain_text("Novita does not answer; last compared 9 min ago")
    expect(note).to_contain_text(f"Nothing is bought or started: paused 12 min ago by {every_state.KEY}")
    note.get_by_role("link").click()
    expect(page.get_by_role("heading", name="Service")).to_be_visible()
    expect(page.locator(".note")).to_have_count(6)
    one.go("#/")
    page.get_by_role("button", name="2 failed or missing").click()
    expect(page.locator("tbody tr")).to_have_count(2)


def test_a_service_that_is_well_is_not_spoken_of(visit: Begin) -> None:
    well = {"purchasesPaused": False, "lastComparedAt": every_state.ago(), "comparisonComplete": True}
    well |= {"orphans": 0, "stuckCleanups": 0, "keyProven": True, "comparisonError": None}

    def answer(body: Any) -> Any:
        body = body | well if "keyProven" in body else body
        return {name: value for name, value in body.items() if value is not None}

    one = visit()
    every_state.serve(one.page, answer)
    with one.page.expect_response(re.compile("/api/budgets")):
        page = one.open()

    expect(page.get_by_role("link", name="How the service is")).to_have_count(0)
    one.go("#/service")
    expect(page.get_by_role("heading", name="Queues")).to_be_visible()
    expect(page.locator(".note")).to_have_count(0)


def test_many_at_once_wait_for_the_throttle_instead_of_failing(visit: Begin) -> None:
    one = visit()
    one.refusals_expected = True
    every_state.serve(one.page)
    asked: dict[str, list[str | None]] = {}

    def answer(route: Route) -> None:
        keys = asked.setdefault(route.request.url, [])
        keys.append(route.request.header_value("Idempotency-Key"))
        if len(keys) == 1:
            route.fulfill(status=429, json={"message": "Too Many Requests"})
        else:
            route.fulfill(status=202, json={"message": "Accepted; it is being stopped"})

    one.page.route(re.compile("/stop$"), answer)
    page = one.open()
    page.get_by_label("Select all that are shown").check()
    page.get_by_role("button", name="Stop…").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop 9").click()

    expect(page.locator("#notices")).to_contain_text("9 machines told to stop")
    assert [len(keys) for keys in asked.values()] == [2] * 9


# What is first by each column: from the least to the most, and the other way round, where that is one alone.
ORDERS = {
    "Name": ("api-canary", "unseen"),
    "Status": ("render-19", "on-its-way-out"),
    "Machine": ("train-llama-7", None),
    "Age": ("on-its-way-out", "train-llama-7"),
    "Per hour": ("render-19", None),
    "So far": ("render-19", None),
    "Ends": ("comfy-eu-2", None),
}


def test_the_fleet_is_sorted_by_any_column_both_ways(visit: Begin) -> None:
    one = visit()
    every_state.serve(one.page)
    page = one.open()
    names = page.locator("td.name a")
    expect(names).to_have_count(13)

    for column, (least, most) in ORDERS.items():
        head = page.get_by_role("columnheader", name=column)
        while head.get_attribute("aria-sort") != "ascending":
            head.get_by_role("button").click()
        expect(names.first).to_have_text(least)
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        expect(names.last).to_have_text(least)
        if most:
            expect(names.first).to_have_text(most)


def test_on_a_phone_the_fleet_is_sorted_and_many_are_chosen_too(visit: Begin) -> None:
    one = visit(**PHONE)
    every_state.serve(one.page)
    page = one.open()
    names = page.locator("td.name a")
    expect(names.first).to_have_text("train-llama-7")

    page.get_by_label("Sort").select_option("by name")
    expect(names.first).to_have_text("api-canary")
    page.get_by_label("Select api-canary").check()
    page.get_by_role("button", name="All that are shown").click()
    expect(page.get_by_label("Selected")).to_contain_text("13 instances selected")


def test_the_fleet_is_narrowed_by_status_and_words(visit: Begin) -> None:
    one = visit()
    every_state.serve(one.page)
    page = one.open()

    for status, count in (("trouble", 2), ("all", 14), ("terminated", 1), ("running", 3), ("live", 13)):
        page.get_by_label("Status", exact=True).select_option(status)
        expect(page.locator("tbody tr")).to_have_count(count)
    for words, count in (("team:art", 1), ("h100 demand", 0), ("h100 starting", 1), (every_state.KEY, 13)):
        page.get_by_role("searchbox").fill(words)
        expect(page.locator("tbody tr")).to_have_count(count)


def test_a_refused_change_is_undone_and_said(visit: Begin) -> None:
    one = visit()
    one.refusals_expected = True
    every_state.serve(one.page)
    refusal = {"code": "INSTANCE_NOT_STOPPABLE", "message": "It is moving", "requestId": "req-77"}
    one.page.route(re.compile("/stop$"), lambda route: route.fulfill(status=409, json={"error": refusal}))
    page = one.open(f"#/instances/{COMFY}")
    expect(page.locator("h1 .pill")).to_have_text("ready")
    page.evaluate(
        "() => { window.seen = []; new MutationObserver(() =>"
        " window.seen.push(document.querySelector('h1 .pill')?.textContent))"
        ".observe(document.querySelector('h1'), {childList: true, subtree: true, characterData: true}); }"
    )

    page.get_by_role("button", name="Stop", exact=True).click()

    expect(page.locator("#alerts")).to_contain_text("It is moving (request req-77)")
    assert page.evaluate("() => window.seen.filter((word, place, all) => word !== all[place - 1])") == [
        "stopping",
        "ready",
    ]
    one.assert_accessible()


def test_a_refusal_is_said_also_when_the_dialog_was_closed_meanwhile(visit: Begin) -> None:
    one = visit()
    one.refusals_expected = True
    every_state.serve(one.page)
    held: list[Route] = []
    one.page.route(re.compile("/restart$"), lambda route: held.append(route))
    page = one.open(f"#/instances/{COMFY}")
    page.get_by_role("button", name="Restart").click()
    page.get_by_role("dialog").get_by_role("button", name="Restart").click()
    expect(page.locator("h1 .pill")).to_have_text("starting")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    while not held:
        page.wait_for_timeout(20)

    held[0].fulfill(status=409, json={"error": {"code": "INSTANCE_NOT_RESTARTABLE", "message": "It moves"}})

    expect(page.locator("#alerts")).to_contain_text("It moves")
    expect(page.locator("h1 .pill")).to_have_text("ready")


def test_what_is_wrong_about_a_new_machine_is_said_where_it_is_wrong(visit: Begin) -> None:
    one = visit()
    one.refusals_expected = True
    every_state.serve(one.page)
    faults = [
        {"field": "templateId", "code": "INVALID_TEMPLATE_ID", "message": "Is required"},
        {"field": "limits.stopAfter", "code": "INVALID_LIMITS", "message": "Is no duration"},
    ]
    error = {"code": "VALIDATION_ERROR", "message": "The request is not valid", "requestId": "req-1"}
    page = one.open("#/new")
    page.route(
        re.compile("/api/instances$"),
        lambda route: route.fulfill(status=400, json={"error": error | {"validationErrors": faults}}),
    )
    page.get_by_role("button", name="Buy it").click()

    template = page.get_by_label("Template")
    expect(template).to_be_focused()
    expect(template).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#templateId-fault")).to_have_text("Is required")
    expect(page.get_by_label("Quote")).to_contain_text("limits.stopAfter: Is no duration")
    expect(page.get_by_label("Quote")).not_to_contain_text("templateId:")
    one.assert_accessible()
    page.get_by_label("Name").fill("something")
    expect(page.get_by_label("Quote")).not_to_contain_text("VALIDATION_ERROR")


def test_with_signed_requests_the_page_takes_no_key(visit: Begin) -> None:
    one = visit()
    page = one.page
    page.route(
        f"{one.base}/",
        lambda route: route.fulfill(
            response=(answer := route.fetch()),
            body=answer.text().replace('data-auth="keys"', 'data-auth="iam"', 1),
        ),
    )
    page.goto(f"{one.base}/#key={one.key}")

    expect(page.locator("h1")).to_have_text("This deployment wants signed requests")
    assert page.locator("input").count() == 0
    assert one.key not in page.url
    assert page.evaluate("() => [sessionStorage.length, localStorage.length]") == [0, 0]
    one.assert_accessible()


# What the gateway lets through in a second, by default (`throttleRate` in infra/options.py), and what the
# service lets one caller do (`REQUESTS_PER_CALLER`).
GATEWAY_RATE, CALLER_RATE, OPEN_PAGES = 50, 20, 10
# From then on each path is answered at once with what it was answered before, but for what changes all the
# time: a clock that is moved on does not wait for answers.
REPLAY = """
    const ask = window.fetch, known = new Map();
    window.asked = 0;
    window.fetch = async (path, options) => {
        if (!window.replaying || !known.has(path)) {
            const answer = await ask(path, options);
            known.set(path, await answer.clone().json());
            return answer;
        }
        window.asked += 1;
        const told = structuredClone(known.get(path));
        if (told.status === "starting") told.updatedAt = new Date().toISOString();
        return {ok: true, status: 200, headers: new Headers(), json: async () => told};
    };
"""


def test_ten_open_pages_stay_below_the_throttle(visit: Begin) -> None:
    """Counted over ten minutes of the page's own clock, for an instance while everything about it changes.

    Measured, in requests a second for one page: fleet 0.3, an instance that comes up 1.4, costs 0.03,
    service 0.5.
    """
    hooked = {"webhookUrl": "https://hooks.example/"}
    one = visit()
    one.page.clock.install()
    one.page.add_init_script(REPLAY)
    every_state.serve(one.page, lambda body: body | hooked if body.get("status") == "starting" else body)
    page = one.open()
    for place in ("#/", f"#/instances/inst_{1:026d}", "#/costs", "#/service"):
        one.go(place)
        page.wait_for_timeout(500)
        page.evaluate("() => { window.replaying = true; window.asked = 0; }")

        page.clock.run_for(600_000)

        a_second = page.evaluate("() => { window.replaying = false; return window.asked; }") / 600
        print(f"{place}: {a_second:.2f} requests a second")  # noqa: T201
        assert a_second > 0
        assert a_second * OPEN_PAGES <= min(GATEWAY_RATE, CALLER_RATE)


def test_it_asks_no_sooner_than_the_service_wants_to_be_asked(visit: Begin) -> None:
    one = visit()
    one.refusals_expected = True
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(status=429, headers={"Retry-After": "300"}, json={"message": "Too Many Requests"})

    one.page.clock.install()
    every_state.serve(one.page)
    one.page.route(re.compile(r"/api/instances\?"), answer)
    page = one.open()
    expect(page.locator(".note.bad")).to_contain_text("Too Many Requests")

    page.clock.run_for(250_000)
    assert len(asked) == 1
    page.clock.run_for(90_000)
    expect(page.locator(".live.bad")).to_be_visible()
    assert len(asked) == 2
