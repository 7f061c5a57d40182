"""Templates and registry logins that are there from the start, faulty ones among them."""

from typing import Any

from local.novita.wire import Wire


class RegistryAuth(Wire):
    id: str
    name: str
    username: str
    password: str


# id, name, user, password. Names are not unique at Novita. Any login here may read every private image.
AUTHS = (
    ("4c1f0f5a7d6e4b52a9d0c3f1e8b7a601", "ghcr", "ostler-demo", "ghp_demo_1"),
    ("9b7e2d40c58f4f0c8f6a1d2e3c4b5a02", "ghcr", "ostler-other", "ghp_demo_2"),
)

PUBLIC_IMAGE = "ghcr.io/ostler-demo/comfyui:latest"
PRIVATE_IMAGE = "ghcr.io/ostler-private/comfyui:latest"
HTTP_AND_SSH = [{"type": "http", "ports": [8188, 80]}, {"type": "tcp", "ports": [22]}]

# id → what is special about it, as fields over those of `template`.
TEMPLATES: dict[str, dict[str, Any]] = {
    "107672": {"name": "public image, http and tcp ports"},
    "107673": {"name": "private image with a login", "image": PRIVATE_IMAGE, "imageAuth": AUTHS[0][0]},
    "107674": {"name": "https port", "ports": [{"type": "https", "ports": [8443]}]},
    "107675": {"name": "udp port", "ports": [{"type": "udp", "ports": [9000]}]},
    "107676": {"name": "no image", "image": ""},
    "107677": {"name": "no ports", "ports": []},
    "107678": {
        "name": "bad envs",
        "envs": [{"key": "", "value": "x"}, {"name": "K"}, {"key": "N", "value": 1}],
    },
    "107679": {"name": "login that is gone", "image": PRIVATE_IMAGE, "imageAuth": "0" * 32},
    "107680": {"name": "reserved port", "ports": [{"type": "tcp", "ports": [2222]}]},
    "107681": {"name": "image that is not there", "image": "ghcr.io/ostler-demo/unpullable:latest"},
}


def template(id_: str, fields: dict[str, Any], created_at: str = "1756959094") -> dict[str, Any]:
    """A template as Novita shows it; it keeps both names of the times, the payload chooses one."""
    return {
        "Id": id_,
        "user": "5f0c9d1e-8b7a-4c6d-9e2f-1a2b3c4d5e6f",
        "name": "",
        "readme": "",
        "logo": "",
        "type": "instance",
        "channel": "private",
        "image": PUBLIC_IMAGE,
        "imageAuth": "",
        "startCommand": "",
        "entrypoint": "",
        "rootfsSize": 60,
        "volumes": [{"type": "local", "size": 20, "mountPath": "/workspace"}],
        "ports": HTTP_AND_SSH,
        "envs": [{"key": "MODE", "value": "serve"}],
        "tools": [],
        "minCudaVersion": "",
        "createdAt": created_at,
        "updatedAt": created_at,
        "creator": "",
        "uuid": f"00000000-0000-4000-8000-{id_:0>12.12}",
        "isUsed": False,
        "description": "",
        "collectNum": "0",
        "isCollected": False,
        "complaintNum": "0",
        "nickname": "ostler",
        **fields,
    }


def default_templates() -> dict[str, dict[str, Any]]:
    return {id_: template(id_, fields) for id_, fields in TEMPLATES.items()}


def default_auths() -> dict[str, RegistryAuth]:
    return {
        id_: RegistryAuth(id=id_, name=name, username=username, password=password)
        for id_, name, username, password in AUTHS
    }
