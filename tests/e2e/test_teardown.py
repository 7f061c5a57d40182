"""Removing the stacks: refused while machines of ours live, and none that came up meanwhile is forgotten."""

from dataclasses import replace
from itertools import count

import pytest

from ops.command import RefusalError
from ops.novita_account import NovitaAccount
from ops.teardown import Teardown, main
from tests.e2e.service import Service


def read(service: Service) -> Teardown:
    stack = service.stack
    table = stack.emulator.table(stack.table_name)
    return Teardown.read(table, NovitaAccount("local", stack.novita_url, loopback=True))


def tear_down(service: Service, *, force: bool = False) -> tuple[int, list[str], int]:
    said: list[str] = []
    removals = count()
    code = read(service).run(lambda: next(removals) * 0, force=force, say=said.append)
    return code, said, next(removals)


def test_a_living_machine_stops_it_and_is_named(service: Service) -> None:
    instance_id = service.create()
    service.wait_for(instance_id, "running")
    (machine,) = service.simulator.live()

    with pytest.raises(RefusalError) as refused:
        tear_down(service)

    assert f"instance {instance_id}" in str(refused.value)
    assert f"machine {machine['name']}" in str(refused.value)
    code, said, removed = tear_down(service, force=True)
    assert (code, removed) == (1, 1)
    assert said == [f"still living at Novita, and billed: {machine['name']}"]


def test_an_instance_that_may_still_buy_stops_it(service: Service) -> None:
    with service.at_a_standstill("create"):
        instance_id = service.create()

        with pytest.raises(RefusalError, match=f"instance {instance_id}"):
            tear_down(service)

        service.operate(instance_id, "delete")
        service.wait_for(instance_id, "terminated")


def test_a_machine_that_no_record_knows_stops_it_too(service: Service) -> None:
    deployment_id = read(service).deployment_id
    name = f"lost-{deployment_id}-{'0' * 26}"
    made = service.simulator.put_instance(name=name, status="running")

    with pytest.raises(RefusalError, match=name):
        tear_down(service)

    service.simulator.patch_instance(made["id"], status="removed")


def test_what_was_given_back_may_go(service: Service) -> None:
    instance_id = service.create()
    service.wait_for(instance_id, "running")
    service.operate(instance_id, "delete")
    service.wait_for(instance_id, "terminated")

    assert tear_down(service) == (0, [], 1)


def test_a_command_that_fails_says_so(service: Service) -> None:
    assert read(service).run(lambda: 7, force=False, say=print) == 7


@pytest.fixture(params=["refuses the key", "does not answer"])
def unasked(request: pytest.FixtureRequest, service: Service) -> Teardown:
    """Novita does not say what lives there."""
    known = read(service)
    if request.param == "refuses the key":
        service.simulator.fault("status", "/gpu/instances", status=401)
        return known
    return replace(known, novita=NovitaAccount("local", "http://127.0.0.1:9", loopback=True))


def test_without_novitas_word_it_is_refused(unasked: Teardown) -> None:
    removals = count()

    with pytest.raises(RefusalError, match="Novita does not say"):
        unasked.run(lambda: next(removals), force=False, say=print)

    assert next(removals) == 0


def test_force_goes_on_without_novitas_word_and_names_the_mark(unasked: Teardown) -> None:
    said: list[str] = []

    def remove() -> int:
        said.append("removed")
        return 0

    assert unasked.run(remove, force=True, say=said.append) == 1

    assert said.pop(1) == "removed"
    assert len(said) == 2
    for line in said:
        assert "Novita does not say" in line
        assert f"-{unasked.deployment_id}-" in line


def test_a_look_afterwards_that_fails_is_said(service: Service) -> None:
    said: list[str] = []

    def remove() -> int:
        service.simulator.fault("status", "/gpu/instances", status=401)
        return 0

    assert read(service).run(remove, force=False, say=said.append) == 1
    assert "Novita does not say" in "".join(said)


@pytest.mark.usefixtures("credentials")
def test_the_command_finds_the_stack_and_removes_it_by_what_it_is_given(
    service: Service, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NOVITA_API_BASE_URL", service.stack.novita_url)
    monkeypatch.setattr("sys.argv", ["teardown", "--", "echo", "removed"])
    instance_id = service.create()
    service.wait_for(instance_id, "running")

    assert main() == RefusalError.exit_code
    refused = capfd.readouterr()
    service.operate(instance_id, "delete")
    service.wait_for(instance_id, "terminated")
    assert main() == 0

    assert instance_id in refused.err
    assert "removed" not in refused.out
    assert "removed" in capfd.readouterr().out
