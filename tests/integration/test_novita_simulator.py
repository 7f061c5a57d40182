"""The client against the simulator: a machine's whole life, every reading of a fact in doubt, faults."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.gate import OpenGate
from functions.shared.domain.errors import (
    CallerError,
    ImageAuthRefused,
    InvalidState,
    MachineNotFound,
    NoCapacity,
    NotFound,
    NotNow,
    NovitaForNow,
    NovitaRefused,
    OstlerError,
    OutcomeUnclear,
)
from functions.shared.domain.market import Order, choose, region_order, validate_template
from functions.shared.novita.attempts import CallTimeouts
from functions.shared.novita.calls import NovitaKey
from functions.shared.novita.client import Novita
from local.novita.client import Simulator
from local.novita.process import running

ENOUGH = 20.0
REGIONS = region_order(None, None, "CN-HK-01", ["AS-SGP-02", "CN-HK-01", "AS-IN-01"])


@pytest.fixture(scope="module")
def process() -> Iterator[Simulator]:
    with running() as simulator:
        yield simulator


@pytest.fixture
def sim(process: Simulator) -> Simulator:
    process.reset()
    process.stand_still(1_800_000_000)
    process.settings(listLagSeconds=0)
    return process


@pytest.fixture
def novita(sim: Simulator) -> Novita:
    return client(sim)


def client(sim: Simulator, **over: Any) -> Novita:
    gate = OpenGate()
    given: dict[str, Any] = {
        "key": lambda: NovitaKey("some-key"),
        "correlation": lambda: "corr-1",
        "circuits": gate,
        "limiter": gate,
        "wait": lambda _: None,
        "limits": CallTimeouts(1, 1, 1),
    }
    return Novita(sim.api_url, **{**given, **over})


def order(
    novita: Novita, template: str = "107672", mode: str = "spot", name: str = "comfy-dep1-01J"
) -> Order:
    products = novita.products("RTX 4090 24GB", mode, within=ENOUGH)
    choice = choose(
        products,
        novita.clusters(within=ENOUGH),
        product_name="RTX 4090 24GB",
        gpu_num=1,
        rootfs_size=60,
        billing_mode=mode,
        regions=REGIONS,
    )
    found = validate_template(novita.template(template, within=ENOUGH))
    return Order(name, choice.offers[0], found, 1, 60, mode)


def refused(call: Callable[[], object]) -> OstlerError:
    with pytest.raises(OstlerError) as caught:
        call()
    return caught.value


def test_a_machine_is_bought_looked_after_and_given_back(sim: Simulator, novita: Novita) -> None:
    machine_id = novita.create(order(novita), within=ENOUGH)
    sim.advance(60)
    machine = novita.get(machine_id, within=ENOUGH)
    assert (machine.name, machine.status, machine.region) == ("comfy-dep1-01J", "running", "CN-HK-01")
    assert {(endpoint.port, endpoint.type) for endpoint in machine.endpoints} == {
        (8188, "http"),
        (80, "http"),
        (22, "tcp"),
    }
    assert all(endpoint.address for endpoint in machine.endpoints)
    assert novita.connection(machine_id, within=ENOUGH).ssh_command

    novita.restart(machine_id, within=ENOUGH)
    sim.advance(60)
    novita.stop(machine_id, within=ENOUGH)
    sim.advance(60)
    assert novita.get(machine_id, within=ENOUGH).status == "exited"
    novita.start(machine_id, within=ENOUGH)
    sim.advance(60)
    novita.delete(machine_id, within=ENOUGH, unless=lambda: False)
    sim.advance(60)

    for call in (novita.get, novita.start, novita.stop, novita.connection):
        error = refused(lambda call=call: call(machine_id, within=ENOUGH))  # type: ignore[misc]  # a default in a lambda
        assert isinstance(error, MachineNotFound)
    assert sim.live() == []


def test_the_cheapest_offer_depends_on_how_it_is_paid(novita: Novita) -> None:
    assert order(novita, mode="spot").offer.product_id == "4090.16c62g"
    assert order(novita, mode="onDemand").offer.product_id == "4090.18c96g"


@pytest.mark.parametrize(
    "reading",
    [
        {"priceAs": "number", "spotPriceAs": "number", "regionNames": "plain"},
        {"notFoundAs": 404, "actionBodies": "none", "endpointInList": True},
        {"actionBodies": "empty", "timestampsPresent": False, "nodeAs": "array"},
        {"blankBillingMode": True, "templateTimesAs": "createTime", "pagingRequired": True},
    ],
)
def test_every_reading_of_a_fact_in_doubt_is_understood(sim: Simulator, novita: Novita, reading: Any) -> None:
    sim.settings(**reading)

    machine_id = novita.create(order(novita), within=ENOUGH)
    sim.advance(60)
    novita.stop(machine_id, within=ENOUGH)
    sim.advance(60)

    assert [machine.status for machine in novita.list(within=ENOUGH)] == ["exited"]
    assert isinstance(refused(lambda: novita.get("0" * 16, within=ENOUGH)), MachineNotFound)


@pytest.mark.parametrize("page_start", [0, 1])
@pytest.mark.parametrize("total", [True, False])
@pytest.mark.parametrize("largest_page", [0, 7])
def test_all_pages_are_listed(
    sim: Simulator, novita: Novita, page_start: int, total: bool, largest_page: int
) -> None:
    sim.settings(pageStart=page_start, totalInList=total, maxPageSize=largest_page)
    made = [novita.create(order(novita, name=f"many-{number}"), within=ENOUGH) for number in range(9)]

    assert sorted(machine.id for machine in novita.list(within=ENOUGH)) == sorted(made)
    assert [machine.name for machine in novita.list("many-3", within=ENOUGH)] == ["many-3"]


def test_an_auth_is_sent_by_its_id_and_by_password_only_where_that_is_refused(
    sim: Simulator, novita: Novita
) -> None:
    private = order(novita, template="107673")
    novita.create(private, within=ENOUGH)
    sim.settings(imageAuthIdAccepted=False)

    error = refused(lambda: novita.create(private, within=ENOUGH))
    auth = novita.registry_auth(private.template.image_auth, within=ENOUGH)
    novita.create(private, auth, within=ENOUGH)

    assert isinstance(error, ImageAuthRefused)
    assert len(sim.live()) == 2
    sent = [call["body"] for call in sim.calls(path="/gpu/instance/create")]
    assert ["imageAuthId" in body for body in sent] == [True, True, False]


def test_an_auth_that_is_gone_is_not_found(novita: Novita) -> None:
    gone = order(novita, template="107679")

    assert isinstance(refused(lambda: novita.create(gone, within=ENOUGH)), ImageAuthRefused)
    error = refused(lambda: novita.registry_auth(gone.template.image_auth, within=ENOUGH))
    assert isinstance(error, NotFound)
    assert error.code == "REGISTRY_AUTH_NOT_FOUND"


def test_a_masked_password_is_not_handed_out(sim: Simulator, novita: Novita) -> None:
    sim.settings(maskAuthPasswords=True)
    auth_id = novita.template("107673", within=ENOUGH).image_auth

    error = refused(lambda: novita.registry_auth(auth_id, within=ENOUGH))

    assert type(error) is NovitaRefused


@pytest.mark.parametrize(
    ("template", "code"),
    [
        ("107675", "INVALID_TEMPLATE_PORT"),
        ("107676", "INVALID_TEMPLATE_IMAGE"),
        ("107678", "INVALID_TEMPLATE_ENV"),
        ("107680", "INVALID_TEMPLATE_PORT"),
    ],
)
def test_a_faulty_template_is_named_before_anything_is_bought(
    novita: Novita, template: str, code: str
) -> None:
    error = refused(lambda: validate_template(novita.template(template, within=ENOUGH)))

    assert isinstance(error, CallerError)
    assert error.code == code


def test_an_https_port_is_bought_as_http(novita: Novita) -> None:
    machine_id = novita.create(order(novita, template="107674"), within=ENOUGH)

    endpoints = novita.get(machine_id, within=ENOUGH).endpoints
    assert [(endpoint.port, endpoint.type) for endpoint in endpoints] == [(8443, "http")]


def test_a_template_that_does_not_exist_is_not_found_but_an_outage_is_no_absence(
    sim: Simulator, novita: Novita
) -> None:
    assert refused(lambda: novita.template("1", within=ENOUGH)).code == "TEMPLATE_NOT_FOUND"

    sim.fault("status", path="/template", status=503)
    error = refused(lambda: novita.template("1", within=ENOUGH))

    assert type(error) is NovitaForNow
    assert len(sim.calls(path="/template")) == 1 + 3


@pytest.mark.parametrize(
    ("reason", "status", "kind", "code"),
    [
        ("INSUFFICIENT_RESOURCE", 400, NoCapacity, "RESOURCE_CONSTRAINTS"),
        ("BALANCE_NOT_ENOUGH", 400, NovitaRefused, "NOVITA_REJECTED"),
        ("UNAUTHORIZED", 401, NovitaRefused, "NOVITA_AUTHENTICATION_FAILED"),
        ("RATE_LIMIT_EXCEEDED", 429, NotNow, "RATE_LIMIT_EXCEEDED"),
        ("UNKNOWN", 500, OutcomeUnclear, "NOVITA_UNAVAILABLE"),
        ("WALLET_NOT_FOUND", 500, OutcomeUnclear, "NOVITA_UNAVAILABLE"),
    ],
)
def test_a_purchase_is_asked_for_once_whatever_is_answered(
    sim: Simulator, novita: Novita, reason: str, status: int, kind: type[OstlerError], code: str
) -> None:
    wanted = order(novita)
    sim.fault("status", path="/gpu/instance/create", status=status, reason=reason)

    error = refused(lambda: novita.create(wanted, within=ENOUGH))

    assert (type(error), error.code) == (kind, code)
    assert len(sim.calls(path="/gpu/instance/create")) == 1
    assert sim.live() == []


@pytest.mark.parametrize("fault", ["status", "timeout", "disconnect", "garbage"])
def test_a_purchase_that_novita_hides_is_unclear_and_found_by_its_name(
    sim: Simulator, novita: Novita, fault: Any
) -> None:
    wanted = order(novita)
    sim.fault(fault, path="/gpu/instance/create", commit=True)

    error = refused(lambda: novita.create(wanted, within=ENOUGH))

    assert type(error) is OutcomeUnclear
    assert [machine.name for machine in novita.list(wanted.name, within=ENOUGH)] == [wanted.name]


def test_a_start_of_a_running_machine_is_refused_for_its_status(sim: Simulator, novita: Novita) -> None:
    machine_id = novita.create(order(novita), within=ENOUGH)
    sim.advance(60)

    assert isinstance(refused(lambda: novita.start(machine_id, within=ENOUGH)), InvalidState)


def test_a_stop_whose_first_answer_was_lost_is_asked_for_again(sim: Simulator, novita: Novita) -> None:
    machine_id = novita.create(order(novita), within=ENOUGH)
    sim.advance(60)
    sim.fault("status", path="/gpu/instance/stop", status=502, times=1)

    novita.stop(machine_id, within=ENOUGH)

    sim.advance(60)
    assert novita.get(machine_id, within=ENOUGH).status == "exited"


def test_a_delete_that_was_done_and_not_told_ends_as_gone(sim: Simulator, novita: Novita) -> None:
    machine_id = novita.create(order(novita), within=ENOUGH)
    sim.settings(removeSeconds=0)
    sim.fault("status", path="/gpu/instance/delete", status=502, times=1, commit=True)

    error = refused(lambda: novita.delete(machine_id, within=ENOUGH, unless=lambda: False))

    assert isinstance(error, MachineNotFound)


def test_a_spot_machine_that_is_to_be_reclaimed_says_so(sim: Simulator, novita: Novita) -> None:
    machine_id = novita.create(order(novita), within=ENOUGH)
    sim.advance(60)

    sim.reclaim(machine_id, in_seconds=3600)
    sim.advance(5)

    (machine,) = novita.list(within=ENOUGH)
    assert machine.spot_status == "notified"
    assert machine.spot_reclaim_at is not None
