"""Novita's payloads in every form that they may come in."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.shared.domain.instance.machine import Endpoint, Mount
from functions.shared.novita import payloads as reading
from functions.shared.novita import payloads as scalars

MACHINE: dict[str, Any] = {
    "id": "8097f1658f3e6ad1",
    "name": "comfy-dep1-01J",
    "clusterName": "US-CA-06 (California)",
    "productId": "4090.16c62g",
    "productName": "RTX 4090 24GB",
    "gpuNum": "2",
    "status": "running",
    "statusError": {"state": "", "message": ""},
    "portMappings": [
        {
            "port": 8188,
            "endpoint": "https://8097f1658f3e6ad1-8188.us-ca-6.gpu-instance.novita.ai",
            "type": "http",
        },
        {"port": "22", "endpoint": "proxy.us-ca-6.gpu-instance.novita.ai:62248", "type": "tcp"},
    ],
    "billingMode": "spot",
    "spotStatus": "notified",
    "spotReclaimTime": "1756959094",
    "createdAt": "1756950000",
}

NO_PRICES: list[Any] = [0, "0", None, "", "free", -1, True, "NaN", "inf", [], {}, "1e999999", "1e-999999"]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*MACHINE, "Id", "image"]), inner)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(("said", "read"), [(80, 80), ("80", 80), (0, None), ("", None), (None, None)])
def test_a_machines_disk_is_read_as_number_or_text(said: Any, read: int | None) -> None:
    machine = reading.read_machine({**MACHINE, "rootfsSize": said})

    assert machine is not None
    assert machine.rootfs_size == read


def test_a_machine_is_read_with_its_numbers_as_text() -> None:
    machine = reading.read_machine(MACHINE)

    assert machine is not None
    assert (machine.id, machine.status, machine.region, machine.gpu_num) == (
        "8097f1658f3e6ad1",
        "running",
        "US-CA-06",
        2,
    )
    assert machine.endpoints == (
        Endpoint(8188, "http", "https://8097f1658f3e6ad1-8188.us-ca-6.gpu-instance.novita.ai"),
        Endpoint(22, "tcp", "proxy.us-ca-6.gpu-instance.novita.ai:62248"),
    )
    assert machine.spot_reclaim_at == datetime.fromtimestamp(1756959094, UTC)
    assert machine.created_at == datetime.fromtimestamp(1756950000, UTC)
    assert machine.error == ""


def test_a_machine_needs_nothing_but_its_id() -> None:
    machine = reading.read_machine({"id": "abc"})

    assert machine is not None
    assert (machine.status, machine.endpoints, machine.gpu_num, machine.created_at) == ("", (), None, None)


@pytest.mark.parametrize("entry", [None, "abc", 7, [], {}, {"id": ""}, {"id": None}, {"status": "running"}])
def test_an_entry_without_an_id_is_no_machine(entry: Any) -> None:
    assert reading.read_machine(entry) is None


def test_an_answer_to_a_get_may_leave_the_id_out() -> None:
    machine = reading.read_machine({"status": "toCreate"}, asked_for="abc")

    assert machine is not None
    assert (machine.id, machine.status) == ("abc", "toCreate")


@pytest.mark.parametrize("status", ["pending", "freezing", "somethingNew"])
def test_a_status_that_nobody_documented_is_kept_as_it_is(status: str) -> None:
    machine = reading.read_machine({**MACHINE, "status": status})

    assert machine is not None
    assert machine.status == status


@pytest.mark.parametrize("never", ["0", 0, "-1", "", None, "soon", True, 1e400, "9" * 30])
def test_a_time_that_is_none_is_never(never: Any) -> None:
    assert scalars.moment(never) is None


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ({"port": 80, "type": "https", "endpoint": "https://x"}, (Endpoint(80, "http", "https://x"),)),
        ({"port": 80, "type": "http"}, (Endpoint(80, "http", ""),)),
        ({"port": 80, "type": "http", "endpoint": None}, (Endpoint(80, "http", ""),)),
        ({"port": 80, "endpoint": "https://x"}, (Endpoint(80, "http", "https://x"),)),
        (
            {"port": 80, "type": "http", "endpoint": "x.novita.ai"},
            (Endpoint(80, "http", "https://x.novita.ai"),),
        ),
        (
            {"port": 80, "type": "http", "endpoint": "10.0.0.1:8"},
            (Endpoint(80, "http", "http://10.0.0.1:8"),),
        ),
        ({"port": 22, "endpoint": "host:1"}, (Endpoint(22, "tcp", "host:1"),)),
        ({"port": 22, "type": "tcp", "endpoint": "tcp://host:1"}, (Endpoint(22, "tcp", "host:1"),)),
        ({"port": 53, "type": "udp", "endpoint": "host:1"}, ()),
        ({"port": "x", "type": "tcp"}, ()),
        ("nonsense", ()),
    ],
)
def test_endpoints_are_urls_or_host_and_port(mapping: Any, expected: tuple[Endpoint, ...]) -> None:
    machine = reading.read_machine({"id": "abc", "portMappings": [mapping]})

    assert machine is not None
    assert machine.endpoints == expected


def test_what_went_wrong_with_a_machine_is_one_short_line_without_a_password() -> None:
    said = {"state": "pullFailed", "message": "login denied\npassword: hunter2 " + "x " * 400}

    machine = reading.read_machine({**MACHINE, "statusError": said})

    assert machine is not None
    assert machine.error.startswith("pullFailed: login denied ***")
    assert len(machine.error) <= 400
    assert "\n" not in machine.error


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (35000, Decimal("0.35")),
        ("18000", Decimal("0.18")),
        ("18000.5", Decimal("0.180005")),
        (7.5, Decimal("0.000075")),
        *[(nothing, None) for nothing in NO_PRICES],
    ],
)
def test_prices_are_in_hundred_thousandths_of_a_dollar(given: Any, expected: Decimal | None) -> None:
    product = reading.read_product({"id": "a", "name": "b", "price": given, "spotPrice": given})

    assert product is not None
    assert (product.price, product.spot_price) == (expected, expected)


def test_a_product_is_read_with_plain_region_names() -> None:
    product = reading.read_product(
        {
            "id": 26,
            "name": " RTX 4090 24GB ",
            "regions": ["US-CA-06 (California)", "US-CA-06", "CN-HK-01", None, ""],
            "availableDeploy": True,
            "billingMethods": ["onDemand", "spot"],
            "memoryPerGpu": "62",
            "cpuPerGpu": 16,
            "minRootFS": "10",
            "maxRootFS": 1000,
        }
    )

    assert product is not None
    assert (product.id, product.name) == ("26", "RTX 4090 24GB")
    assert product.regions == ("US-CA-06", "CN-HK-01")
    assert (product.memory_per_gpu, product.min_rootfs, product.max_rootfs) == (62, 10, 1000)


@pytest.mark.parametrize(
    ("facts", "available"),
    [
        ({"availableDeploy": True, "inventoryState": "none"}, True),
        ({"availableDeploy": "false"}, False),
        ({"inventoryState": "none"}, False),
        ({"inventoryState": "low"}, True),
        ({}, True),
    ],
)
def test_availability_is_what_novita_says_or_else_its_stock(facts: dict[str, Any], available: bool) -> None:
    product = reading.read_product({"id": "a", "name": "b", **facts})

    assert product is not None
    assert product.available is available


def test_a_template_keeps_what_cannot_be_read_for_validation_to_name() -> None:
    template = reading.read_template(
        {
            "Id": "107672",
            "image": "img",
            "imageAuth": "auth-id",
            "ports": [{"type": "HTTP", "ports": [80, "8188", "x"]}, {"type": "tcp", "ports": 22}, "nonsense"],
            "envs": [{"key": "K", "value": " v "}, {"name": "K"}, {"key": "N", "value": 1}],
            "tools": [{"name": "Jupyter", "port": 8888}],
            "rootfsSize": "60",
        },
        "107672",
    )

    assert template is not None
    assert template.ports == ((80, "http"), (8188, "http"), (0, "http"), (22, "tcp"))
    assert template.envs == (("K", " v "), ("", ""), ("N", "1"))
    assert template.tools == (("Jupyter", "8888", "http"),)
    assert (template.image_auth, template.rootfs_size) == ("auth-id", 60)


def test_how_to_get_in_is_read_and_never_shown_by_accident() -> None:
    connection = reading.read_connection(
        {
            "connectComponentSSH": {"sshCommand": "ssh -p 1 root@host", "password": "hunter2"},
            "connectComponentJupyter": {"address": "https://j?token=hunter3"},
            "connectComponentWebTerminal": {"address": "https://t", "username": "u", "password": "hunter4"},
            "connectComponentLog": {
                "systemLogAddress": "https://s?hunter5",
                "instanceLogAddress": "https://i",
            },
        }
    )

    assert (connection.ssh_password, connection.terminal_password) == ("hunter2", "hunter4")
    assert connection.jupyter_address == "https://j?token=hunter3"
    assert (connection.system_log, connection.instance_log) == ("https://s?hunter5", "https://i")
    assert "hunter" not in repr(connection)
    assert "hunter" not in repr(
        reading.read_registry_auth({"id": "a", "username": "u", "password": "hunter2"})
    )


def test_the_older_names_of_the_ssh_facts_are_understood() -> None:
    connection = reading.read_connection({"sshCommand": "ssh root@host", "sshPassword": "p"})

    assert (connection.ssh_command, connection.ssh_password) == ("ssh root@host", "p")


@given(json_values)
def test_no_payload_whatever_breaks_the_reading(value: Any) -> None:
    reading.read_machine(value)
    reading.read_product(value)
    reading.read_cluster(value)
    reading.read_template(value, "1")
    reading.read_registry_auth(value)
    reading.read_connection(value)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (
            {"availableBalance": "123456", "creditLimit": 0},
            {"availableUsd": "12.3456", "creditLimitUsd": "0"},
        ),
        ({"data": {"cashBalance": -5000}}, {"cashUsd": "-0.5"}),
        ({"availableBalance": "1e999999", "cashBalance": None}, {}),
        ({"data": []}, {}),
        (["availableBalance"], {}),
        (None, {}),
    ],
)
def test_a_balance_is_told_in_usd_as_far_as_it_can_be_read(body: Any, found: dict[str, str]) -> None:
    assert reading.read_balance(body) == {name: Decimal(amount) for name, amount in found.items()}


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"state": "oom", "message": "killed"}, "oom: killed"),
        ({"state": "pull", "error": "denied", "message": "denied"}, "pull: denied"),
        ("image not found", "image not found"),
        ({"state": "", "message": ""}, ""),
        ({"state": "running", "message": ""}, ""),
        ({"state": "normal"}, ""),
        ("", ""),
        (None, ""),
        ({}, ""),
        ([], ""),
        (["odd"], ""),
        (True, ""),
        ({"state": None, "message": ["odd"]}, ""),
    ],
)
def test_what_is_wrong_is_read_from_whatever_novita_sends(said: Any, error: str) -> None:
    machine = reading.read_machine({**MACHINE, "statusError": said})

    assert machine is not None
    assert machine.error == error


def test_what_a_machine_is_made_of_is_read_without_its_variables() -> None:
    facts = {
        **MACHINE,
        "clusterId": "us-ca-6",
        "imageUrl": "somebody:hunter2@ghcr.io/acme/app@sha256:0a1b",
        "cpuNum": "16",
        "memory": "62",
        "endTime": "1800000000",
        "volumeMounts": [
            {"type": "network", "id": "ns-1", "mountPath": "/data", "size": "100"},
            {"type": "local", "mountPath": "/workspace", "size": 20},
            "nonsense",
        ],
        "envs": [{"key": "TOKEN", "value": "hunter2"}],
    }

    machine = reading.read_machine(facts)

    assert machine is not None
    assert (machine.cluster_id, machine.cpu_num, machine.memory) == ("us-ca-6", 16, 62)
    assert machine.image == "ghcr.io/acme/app@sha256:0a1b"
    assert machine.ends_at == datetime.fromtimestamp(1_800_000_000, UTC)
    assert machine.mounts == (Mount("network", "/data", "ns-1", 100), Mount("local", "/workspace", size=20))
    assert "hunter2" not in str(machine)


@pytest.mark.parametrize("odd", [None, "", [], {}, -1, "many", True, 1e300])
def test_facts_that_make_no_sense_are_left_out(odd: Any) -> None:
    names = ("clusterId", "imageUrl", "cpuNum", "memory", "endTime", "volumeMounts")

    machine = reading.read_machine({**MACHINE, **dict.fromkeys(names, odd)})

    assert machine is not None
    assert machine.mounts == ()
    assert machine.cpu_num is None
