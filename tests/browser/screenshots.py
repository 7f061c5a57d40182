"""`make screenshots`: the pictures in docs/images, taken of the running page with a small fleet behind it.

A stack that has just been started has a history of seconds: its times and amounts are stretched, and the
month of costs is made up.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from local.paths import ROOT
from local.ports import Ports
from local.stack import LocalStack
from tests.browser import chromium, money, stretched
from tests.browser.conftest import SETTINGS
from tests.e2e.service import Service

IMAGES = ROOT / "docs" / "images"
WIDE, PHONE = {"width": 1200, "height": 760}, {"width": 390, "height": 780}


def main() -> int:
    found = chromium.find()
    if found is None:
        sys.stderr.write("no browser: run `make .build/node/.ready`, or install chromium\n")
        return 2
    IMAGES.mkdir(exist_ok=True)
    with (
        TemporaryDirectory() as folder,
        LocalStack(Path(folder), Ports.free(), {**SETTINGS, "PURCHASE_MAX_WAIT": "3600"}) as stack,
        sync_playwright() as driver,
    ):
        service = Service(stack)
        instance = fleet(service)
        browser = driver.chromium.launch(
            executable_path=found.path, args=chromium.FLAGS, env=dict(found.environment)
        )
        take(browser, service, instance)
        browser.close()
    return 0


def fleet(service: Service) -> str:
    """One of every kind; the id of the one that has the longest history."""
    service.clean_slate()
    check = {"healthCheck": {}, "webhookUrl": service.simulator.inbox_url("pictures")}
    ends = {"limits": {"stopAfter": "4h", "deleteAfterStopped": "1d"}}
    comfy = service.create(name="comfy-eu-2", tags={"team": "art"}, **check, **ends)
    notebook = service.create(name="notebook-mia", tags={"team": "research"})
    service.wait_for(comfy, "ready")
    service.wait_for(notebook, "running")
    service.operate(notebook, "stop")
    service.operate(comfy, "stop")
    service.wait_for(comfy, "stopped")
    service.operate(comfy, "start")
    service.wait_for(comfy, "ready")
    canary = service.create(name="api-canary", tags={"team": "web"})
    service.wait_for(canary, "starting", "running")
    machine = service.instance(canary)["novitaInstanceId"]
    error = {"state": "pulling", "message": "denied: no right to pull ghcr.io/web/canary"}
    service.simulator.patch_instance(machine, status="pulling", statusError=error)
    service.wait_for(canary, "failed")
    service.simulator.settings(bootSeconds=600)
    service.create(name="train-llama-7", tags={"team": "research"}, gpuNum=4, billingMode="onDemand")
    with service.at_a_standstill("create"):  # it sells out between the request and the purchase
        service.create(name="render-19", productName="RTX 3090 24GB", tags={"team": "art"})
        for product in service.simulator.products():
            if product["name"] == "RTX 3090 24GB":
                service.simulator.patch_product(product["id"], available=False)
    service.sweep()
    return comfy


def take(browser: Browser, service: Service, instance: str) -> None:
    with opened(browser, service, viewport=WIDE) as page:
        page.get_by_role("row", name="train-llama-7").wait_for()
        page.wait_for_timeout(2000)  # what the API offers is read meanwhile
        picture(page, "fleet")
        go(page, f"#/instances/{instance}", "Events")
        picture(page, "instance")
        go(page, "#/new", "Name")
        page.get_by_label("Name").fill("comfy-eu-3")
        page.get_by_label("GPU", exact=True).fill("RTX 4090 24GB")
        page.get_by_label("Template").fill("107672")
        page.locator(".quote .price").wait_for()
        picture(page, "create")
        go(page, "#/service", "Queues")
        picture(page, "service")
    with opened(browser, service, viewport=WIDE, color_scheme="dark") as page:
        money.serve(page)
        page.reload()
        go(page, "#/costs", "Days")
        page.get_by_label("Days", exact=True).select_option("30")
        page.locator(".legend").get_by_text("evenly spent").wait_for()
        picture(page, "costs")
    with opened(browser, service, viewport=PHONE, color_scheme="dark") as page:
        page.get_by_role("link", name="train-llama-7").wait_for()
        picture(page, "phone")


@contextmanager
def opened(browser: Browser, service: Service, **options: Any) -> Iterator[Page]:
    context = browser.new_context(locale="en-GB", timezone_id="UTC", **options)
    page = context.new_page()
    stretched.serve(page)
    page.goto(f"{service.stack.api_url}/#key={service.stack.api_key}")
    yield page
    page.unroute_all(behavior="ignoreErrors")
    context.close()


def go(page: Page, place: str, label: str) -> None:
    page.evaluate("place => { location.hash = place }", place)
    page.get_by_label(label, exact=True).first.wait_for()
    page.wait_for_timeout(1000)


def picture(page: Page, name: str) -> None:
    page.mouse.move(0, 0)
    page.screenshot(path=IMAGES / f"page-{name}.png", animations="disabled")
    sys.stdout.write(f"docs/images/page-{name}.png\n")


if __name__ == "__main__":
    sys.exit(main())
