"""What a template may hold, and that every fault is named with a code of its own."""

from dataclasses import replace
from typing import Any

import pytest

from functions.shared.domain.errors import CallerError
from functions.shared.domain.market import Template, validate_template

GOOD = Template(
    id="107672",
    name="comfyui",
    image="ghcr.io/ostler-demo/comfyui:latest",
    image_auth="4c1f0f5a7d6e4b52a9d0c3f1e8b7a601",
    ports=((8188, "http"), (22, "tcp")),
    envs=(("MODE", "serve"), ("EMPTY", "")),
    tools=(("Jupyter", "8888", "http"),),
)


def codes(**change: Any) -> list[str]:
    with pytest.raises(CallerError) as caught:
        validate_template(replace(GOOD, **change))
    assert caught.value.details is not None
    found = [fault["code"] for fault in caught.value.details["faults"]]
    assert caught.value.code == found[0]
    return found


def test_a_good_template_comes_back_as_it_is() -> None:
    assert validate_template(GOOD) == GOOD


def test_https_is_sent_as_http_and_once_only() -> None:
    sent = validate_template(replace(GOOD, ports=((443, "https"), (443, "http"), (22, "TCP"))))

    assert sent.ports == ((443, "http"), (22, "tcp"))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"image": ""}, "INVALID_TEMPLATE_IMAGE"),
        ({"image": "x" * 501}, "INVALID_TEMPLATE_IMAGE"),
        ({"image": "an image"}, "INVALID_TEMPLATE_IMAGE"),
        ({"image": "image\n"}, "INVALID_TEMPLATE_IMAGE"),
        ({"image_auth": "x" * 256}, "INVALID_TEMPLATE_IMAGE_AUTH"),
        ({"ports": ((9000, "udp"),)}, "INVALID_TEMPLATE_PORT"),
        ({"ports": ((9000, ""),)}, "INVALID_TEMPLATE_PORT"),
        ({"ports": ((0, "http"),)}, "INVALID_TEMPLATE_PORT"),
        ({"ports": ((65536, "tcp"),)}, "INVALID_TEMPLATE_PORT"),
        ({"ports": ((2222, "tcp"),)}, "INVALID_TEMPLATE_PORT"),
        ({"ports": ((2224, "http"),)}, "INVALID_TEMPLATE_PORT"),
        ({"ports": tuple((8000 + n, "http") for n in range(15))}, "INVALID_TEMPLATE_PORT"),
        ({"tools": (("", "8888", "http"),)}, "INVALID_TEMPLATE_TOOL"),
        ({"tools": (("Jupyter", "", "http"),)}, "INVALID_TEMPLATE_TOOL"),
        ({"tools": (("Jupyter", "2223", "http"),)}, "INVALID_TEMPLATE_TOOL"),
        ({"envs": (("", "x"),)}, "INVALID_TEMPLATE_ENV"),
        ({"envs": (("K" * 512, "x"),)}, "INVALID_TEMPLATE_ENV"),
        ({"envs": (("K", "x" * 4096),)}, "INVALID_TEMPLATE_ENV"),
        ({"envs": tuple((f"K{n}", "x") for n in range(101))}, "INVALID_TEMPLATE_ENV"),
        ({"start_command": "x" * 2048}, "INVALID_TEMPLATE_COMMAND"),
        ({"entrypoint": "x" * 2048}, "INVALID_TEMPLATE_ENTRYPOINT"),
        ({"min_cuda_version": "x" * 256}, "INVALID_TEMPLATE_CUDA_VERSION"),
    ],
)
def test_each_fault_has_its_code(change: dict[str, Any], code: str) -> None:
    assert codes(**change) == [code]


def test_what_is_just_allowed_is_allowed() -> None:
    edge = replace(
        GOOD,
        image="x" * 500,
        ports=tuple((8000 + n, "http") for n in range(14)),
        envs=tuple((f"K{n}", "x" * 4095) for n in range(100)),
        start_command="x" * 2047,
    )

    assert validate_template(edge) == edge


def test_all_faults_are_told_at_once() -> None:
    found = codes(image="", ports=((9000, "udp"), (2222, "tcp")), envs=(("", "x"),))

    assert found == [
        "INVALID_TEMPLATE_IMAGE",
        "INVALID_TEMPLATE_PORT",
        "INVALID_TEMPLATE_PORT",
        "INVALID_TEMPLATE_ENV",
    ]


def test_the_value_of_a_variable_is_never_repeated() -> None:
    secret = "hunter2-" * 600

    with pytest.raises(CallerError) as caught:
        validate_template(replace(GOOD, envs=(("PASSWORD", secret), ("", secret))))

    assert "hunter2" not in f"{caught.value} {caught.value.details}"
