"""Creates whose answer is lost: whether there is a machine is found out, and never two are kept."""

from tests.e2e.service import Service

CREATE = "/gpu/instance/create"


def test_a_machine_that_was_bought_without_an_answer_is_adopted(service: Service) -> None:
    service.simulator.settings(listLagSeconds=1)
    novita = service.simulator
    novita.fault("status", CREATE, match_body="gateway", status=502, commit=True)
    novita.fault("disconnect", CREATE, match_body="reset", commit=True)
    novita.fault("timeout", CREATE, match_body="silence", commit=True)
    novita.fault("garbage", CREATE, match_body="nonsense", commit=True)
    novita.fault("slow", CREATE, match_body="late", delayMs=4000)  # made after our time-out
    ids = [service.create(name=name) for name in ("gateway", "reset", "silence", "nonsense", "late")]

    shown = [service.wait_for(instance_id, "running") for instance_id in ids]

    assert len(novita.calls(CREATE)) == 5
    assert {one["novitaInstanceId"] for one in shown} == {machine["id"] for machine in novita.instances()}
    for instance_id in ids:
        assert service.statuses(instance_id) == ["creating", "starting", "running"]


def test_a_purchase_that_never_happened_is_made_again_only_after_the_settling_time(service: Service) -> None:
    novita = service.simulator
    novita.fault("status", CREATE, match_body="gateway", status=502, times=1)
    novita.fault("disconnect", CREATE, match_body="reset", times=1)
    ids = [service.create(name=name) for name in ("gateway", "reset")]

    for instance_id in ids:
        service.wait_for(instance_id, "running")

    for name in ("gateway", "reset"):
        first, second = [call for call in novita.calls(CREATE) if call["body"]["name"].startswith(name)]
        assert second["body"]["name"] == f"{first['body']['name']}-2"
        assert second["time"] - first["time"] >= 4  # SETTLE_SECONDS
    assert len(novita.instances()) == 2
