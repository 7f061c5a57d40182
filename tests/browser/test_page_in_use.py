"""The page as people use it: a machine's whole life, refusals, outages, and every kind of reader."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from ops import keys
from tests.browser import money
from tests.browser.conftest import Visit
from tests.e2e import courses
from tests.e2e.service import Service

Begin = Callable[..., Visit]

# All that a key with the scope `read` has to press: columns to sort by, spans of the timeline, its own key.
READING = {"Name", "Status", "Machine", "Age ↓", "Per hour", "So far", "Ends", "Forget key"}


def status(page: Page) -> Locator:
    return page.locator("h1 .pill")


def expect_status(page: Page, word: str) -> None:
    expect(status(page)).to_have_text(word)


def describe(page: Page, name: str = "comfy", product: str = "RTX 4090 24GB") -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("GPU", exact=True).fill(product)
    page.get_by_label("Template").fill("107672")


def test_a_machine_from_quote_to_the_end(visit: Begin, service: Service) -> None:
    one = visit()
    page = one.open()
    expect(page.get_by_role("heading", name="No machine yet")).to_be_visible()
    page.get_by_role("link", name="Create the first machine").click()

    describe(page)
    quote = page.get_by_label("Quote")
    expect(quote).to_contain_text("per hour")
    expect(quote).to_contain_text("CN-HK-01")
    page.get_by_label("Stop after it has run for").fill("4h")
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Ready only when").check()
    page.get_by_label("Tags").fill("team=art, project=x=y")
    page.get_by_label("Variables").fill("MODEL=llama\nTOKEN=a=b")
    page.get_by_role("button", name="Buy it").click()

    expect(page).to_have_url(re.compile("#/instances/inst_"))
    expect_status(page, "ready")
    expect(page.get_by_label("Timeline", exact=True)).to_contain_text("bought after")

    expect(page.get_by_label("Now")).to_contain_text("stops in 3 h")
    page.get_by_role("button", name="Limits…").click()
    page.get_by_label("2 hours more").check()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_label("Now")).to_contain_text("stops in 5 h")

    page.get_by_role("button", name="Show connection").click()
    expect(page.get_by_label("Get in")).to_contain_text("ssh")

    page.get_by_role("button", name="Stop", exact=True).click()
    expect_status(page, "stopped")
    page.get_by_role("button", name="Start").click()
    expect_status(page, "ready")
    expect(page.get_by_label("Now")).to_contain_text("stops in 5 h")  # of each start
    page.get_by_role("button", name="Delete…").click()
    expect(page.get_by_role("dialog")).to_contain_text("is lost")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect_status(page, "terminated")
    expect(page.get_by_role("button", name="Delete…")).to_have_count(0)
    assert [operation["status"] for operation in operations(service, page)] == ["completed"] * 3
    shown = service.instance(page.url.rsplit("/", 1)[1])
    assert shown["tags"] == {"team": "art", "project": "x=y"}
    assert shown["envNames"] == ["MODEL", "TOKEN"]


def operations(service: Service, page: Page) -> list[dict[str, str]]:
    found: list[dict[str, str]] = service.get(f"/api/instances/{page.url.rsplit('/', 1)[1]}/operations")[
        "operations"
    ]
    return found


def test_the_key_in_a_link_leaves_the_address_and_lives_as_long_as_the_tab(visit: Begin) -> None:
    one = visit()
    page = one.open()

    assert one.key not in page.url
    assert page.evaluate("() => [localStorage.length, document.cookie]") == [0, ""]
    assert page.evaluate("() => history.length") == 2, "about:blank and the page"
    page.reload()
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
    other = page.context.new_page()
    other.goto(one.base)
    expect(other.get_by_label("API key")).to_be_visible()
    other.goto(f"{one.base}/#key={one.key}")  # into a page that is open already
    expect(other.get_by_role("heading", name="Fleet")).to_be_visible()
    assert one.key not in other.url


def test_a_wrong_key_leads_back_to_the_key(visit: Begin) -> None:
    one = visit()
    one.refusals_expected = True
    page = one.page
    page.goto(one.base)
    page.get_by_label("API key").fill(f"ost_{'a' * 43}")
    page.get_by_role("button", name="Open").click()

    expect(page.locator(".note")).to_contain_text("does not take this key")
    expect(page.locator(".note")).to_contain_text(re.compile("UNAUTHORIZED, request [0-9a-f-]{36}"))
    page.get_by_label("API key").fill(one.key)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()

    page.get_by_role("button", name="Forget key").click()
    expect(page.get_by_label("API key")).to_be_focused()
    assert page.evaluate("() => sessionStorage.length") == 0


def test_a_read_key_sees_no_button_that_it_cannot_use(visit: Begin, service: Service) -> None:
    instance = service.take_over()
    table = service.stack.emulator.table(service.stack.table_name)
    key = keys.new_key()
    keys.create_key(table, name="reader", scopes=("read",), key=key)
    one = visit()
    page = one.open(key=key)
    row = page.get_by_role("row", name="theirs")
    expect(row).to_be_visible()

    for place in ("#/", f"#/instances/{instance}", "#/new", "#/costs", "#/service"):
        one.go(place)
        expect(page.locator("h1")).to_be_visible()
        page.wait_for_timeout(300)
        buttons = {button.text_content() for button in page.locator("button").all()}
        assert buttons <= READING, place
        assert page.get_by_role("link", name="New machine").count() == 0, place
        assert page.get_by_role("checkbox").count() == 0, place


def test_an_outage_of_novita_shows_what_was_known_and_how_old_it_is(visit: Begin, service: Service) -> None:
    instance = service.take_over()
    one = visit()
    page = one.open(f"#/instances/{instance}")
    expect_status(page, "running")

    service.simulator.fault(kind="status", status=503)
    one.expect_soon(page.locator("main"), r"this is how it was \d+ s ago")
    expect_status(page, "running")
    one.refusals_expected = True
    one.go("#/new")
    describe(page)
    expect(page.get_by_label("Quote").get_by_role("alert")).to_be_visible()
    one.go("#/service")
    one.expect_soon(page.get_by_label("Circuits to Novita"), "open: fails fast")


def test_without_room_every_region_says_why(visit: Begin, service: Service) -> None:
    for product in service.simulator.products():
        service.simulator.patch_product(product["id"], available=False)
    one = visit()
    one.refusals_expected = True
    page = one.open("#/new")
    describe(page, "patient")

    quote = page.get_by_label("Quote")
    expect(quote).to_contain_text("sold out")
    expect(quote).to_contain_text("AS-SGP-02")
    expect(quote.get_by_role("alert")).to_contain_text("NO_OPTIMAL_PRODUCT_ANY_REGION")


def test_a_failed_instance_says_why_and_that_nothing_is_billed(visit: Begin, service: Service) -> None:
    instance = service.create(name="broken", maxWaitTime=60_000)
    service.wait_for(instance, "starting", "running")
    (machine,) = service.simulator.live()
    error = {"state": "pulling", "message": "image not found"}
    service.simulator.patch_instance(machine["id"], status="pulling", statusError=error)
    one = visit()
    page = one.open(f"#/instances/{instance}")

    one.expect_soon(page.locator(".note.bad"), "no machine of it is billed")
    expect_status(page, "failed")
    one.go("#/")
    expect(page.get_by_role("row", name="broken")).to_contain_text("failed")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_first_visit_is_accessible(visit: Begin, scheme: str) -> None:
    """All else is in test_page_in_every_state.py."""
    one = visit(color_scheme=scheme)
    one.page.goto(one.base)
    expect(one.page.get_by_label("API key")).to_be_visible()
    one.assert_accessible()
    page = one.open()
    for place, heading in (("#/", "No machine yet"), ("#/new", "New machine"), ("#/costs", "Costs")):
        one.go(place)
        expect(page.get_by_role("heading", name=heading)).to_be_visible()
        one.assert_accessible()
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == (
        "rgb(19, 21, 23)" if scheme == "dark" else "rgb(246, 246, 243)"
    )


def test_everything_is_reached_with_the_keyboard_alone(visit: Begin, service: Service) -> None:
    instance = service.take_over()
    one = visit()
    page = one.open()
    expect(page.get_by_role("row", name="theirs")).to_be_visible()

    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("theirs")
    tab_to(page, "link", "theirs")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_be_focused()
    expect_status(page, "running")

    tab_to(page, "button", "Restart")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Restart")).to_be_focused()

    page.locator(".dot.selected").focus()
    page.keyboard.press("Home")
    expect(page.locator(".chosen")).to_contain_text("event 1 of")
    page.keyboard.press("ArrowRight")
    tab_to(page, "button", "Stop", backwards=True)
    page.keyboard.press("Space")
    expect_status(page, "stopped")
    assert service.instance(instance)["status"] == "stopped"


def test_a_machine_is_made_and_deleted_with_the_keyboard_alone(visit: Begin, service: Service) -> None:
    one = visit()
    page = one.open()
    tab_to(page, "link", "New machine")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="New machine")).to_be_focused()
    for label, text in (("Name", "typed"), ("GPU", "RTX 4090 24GB"), ("Template", "107672")):
        tab_to(page, "textbox" if label != "GPU" else "combobox", label)
        page.keyboard.type(text)
    page.keyboard.press("Escape")  # what is suggested
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#/instances/inst_"))
    expect_status(page, "running")

    tab_to(page, "button", "Delete…")
    page.keyboard.press("Enter")
    tab_to(page, "button", "Delete")
    page.keyboard.press("Enter")

    expect_status(page, "terminated")
    assert [one["name"] for one in service.get("/api/instances")["instances"]] == ["typed"]


def tab_to(page: Page, role: str, name: str, *, backwards: bool = False) -> None:
    wanted = page.get_by_role(role, name=name, exact=True)  # type: ignore[arg-type] # any role
    for _ in range(60):
        page.keyboard.press("Shift+Tab" if backwards else "Tab")
        if wanted.evaluate("(element) => element === document.activeElement"):
            return
    raise AssertionError(f"no {role} {name} is reached")


def test_many_are_stopped_and_deleted_at_once(visit: Begin, service: Service) -> None:
    ids = [service.take_over(name=f"worker-{number}") for number in range(3)]
    one = visit()
    page = one.open()
    expect(page.get_by_role("row", name="worker-2")).to_be_visible()

    page.get_by_label("Select all that are shown").check()
    expect(page.get_by_label("Selected")).to_contain_text("3 instances selected")
    page.get_by_role("button", name="Stop…").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop 3").click()
    for name in ("worker-0", "worker-1", "worker-2"):
        one.expect_soon(page.get_by_role("row", name=name), "stopped")
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete 3").click()
    one.expect_soon(page.locator("main"), "Nothing here is like that.")
    assert {service.instance(id_)["status"] for id_ in ids} == {"terminated"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_costs_are_drawn_by_day_with_the_budgets_line(visit: Begin, scheme: str) -> None:
    one = visit(color_scheme=scheme)
    money.serve(one.page)
    page = one.open("#/costs")
    page.get_by_label("Days", exact=True).select_option("30")

    chart = page.get_by_label("Costs by day")
    expect(chart.locator("rect.series.s0").first).to_be_visible()
    expect(chart).to_contain_text("budget company: $900.00 a month, evenly spent")
    expect(chart.locator(".legend")).to_contain_text("H100 SXM 80GB")
    chart.get_by_text("As a table").click()
    expect(chart.get_by_role("row")).to_have_count(31)
    expect(page.get_by_label("Budgets", exact=True)).to_contain_text("tag team: art")
    one.assert_accessible()
    page.get_by_label("Stacked").select_option("tag")
    page.get_by_role("dialog").get_by_label("Tag").fill("team")
    with page.expect_request(re.compile(r"groupBy=tag%3Ateam")):
        page.get_by_role("button", name="Show").click()
    one.go("#/")
    expect(page.locator("main")).to_contain_text("No machine yet")


def test_a_reclaimed_machine_that_comes_back_shows_that_it_was_away(visit: Begin, service: Service) -> None:
    one = visit()
    page = one.open("#/new")
    describe(page, "phoenix")
    page.get_by_text("More", exact=True).click()
    page.get_by_label("If Novita takes a spot machine away").select_option("restart")
    page.get_by_role("button", name="Buy it").click()
    expect_status(page, "running")
    instance = page.url.rsplit("/", 1)[1]

    service.simulator.reclaim(service.instance(instance)["novitaInstanceId"])

    one.expect_soon(page.get_by_label("Events", exact=True), "recovery began")
    one.expect_soon(page.get_by_label("Events", exact=True), "recovered")
    expect(page.get_by_label("Now")).to_contain_text("1 time")
    expect(status(page)).to_have_text(re.compile("running|ready"))


def test_what_was_spent_is_drawn_and_bounded_by_a_budget(visit: Begin, service: Service) -> None:
    instance = service.create(name="spender", tags={"team": "art"})
    service.wait_for(instance, "running")
    assert service.wait(lambda: float(service.instance(instance)["cost"]["soFarUsd"]) > 0)
    service.sum_costs()
    one = visit()
    page = one.open("#/costs")
    chart, budgets = page.get_by_label("Costs by day"), page.get_by_label("Budgets", exact=True)
    expect(chart.locator(".chart rect.series.s0")).to_have_count(1)
    expect(chart.locator(".legend")).to_contain_text("RTX 4090 24GB")

    page.get_by_role("button", name="New budget").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("company")
    dialog.get_by_label("Limit, USD").fill("-1")
    one.refusals_expected = True
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("VALIDATION_ERROR")
    dialog.get_by_label("Limit, USD").fill("31")
    dialog.get_by_label("When it is spent").select_option("refuse")
    dialog.get_by_role("button", name="Save").click()
    expect(budgets).to_contain_text("of $31.00 this month")
    expect(budgets).to_contain_text("refuses new machines and starts")
    expect(chart).to_contain_text("a day, above this chart")

    budgets.get_by_role("button", name="Change… budget company").click()
    dialog.get_by_label("Limit, USD").fill("32")
    dialog.get_by_role("button", name="Save").click()
    expect(budgets).to_contain_text("of $32.00 this month")
    budgets.get_by_role("button", name="Delete… budget company").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(budgets).to_contain_text("None.")
    page.get_by_label("Stacked").select_option("tag")
    dialog.get_by_label("Tag", exact=True).fill("team")
    dialog.get_by_role("button", name="Show").click()
    expect(chart.locator(".legend")).to_contain_text("art")


def test_a_webhook_is_sent_again(visit: Begin, service: Service) -> None:
    url = service.simulator.inbox_url("again")
    instance = service.create(webhookUrl=url)
    service.wait_for(instance, "running")
    assert service.wait(lambda: len(service.simulator.inbox("again")) == 3)
    page = visit().open(f"#/instances/{instance}")

    page.get_by_role("button", name="Send again instance.running").click()

    expect(page.locator("#notices")).to_contain_text("it is being sent again")
    assert service.wait(lambda: len(service.simulator.inbox("again")) == 4)


def test_purchases_are_paused_caches_cleared_and_a_dead_letter_redriven(
    visit: Begin, service: Service
) -> None:
    instance = courses.refused_create(service, "redriven")
    letter = service.add_dead_letter(instance)
    one = visit()
    page = one.open("#/service")
    dialog = page.get_by_role("dialog")

    page.get_by_role("button", name="Pause purchases…").click()
    expect(dialog).to_contain_text("stops and deletes work")
    dialog.get_by_role("button", name="Pause").click()
    expect(page.locator(".note")).to_contain_text("Nothing is bought or started: paused")
    page.get_by_role("button", name="Resume…").click()
    dialog.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause purchases…")).to_be_visible()
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#notices")).to_contain_text("Nothing cached before is used any more")

    expect(page.get_by_label("Dead letters")).to_contain_text("ended without saying why")
    one.refusals_expected = True  # until the purchase that failed is settled
    page.get_by_role("button", name=f"Redrive… {letter}").click()
    expect(dialog).to_contain_text("bought again, and costs again")
    while dialog.count():
        dialog.get_by_role("button", name="Redrive").click()
        page.wait_for_timeout(500)
    expect(page.get_by_label("Dead letters")).to_contain_text("redriven")
    service.wait_for(instance, "running")
