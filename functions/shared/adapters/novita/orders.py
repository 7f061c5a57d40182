"""The body of a create call: strict, with nothing in it that Novita need not know."""

import re
from typing import Any

from functions.shared.domain.machine import Order, RegistryAuth

# A password that Novita shows as stars, dots or nothing is not one that a registry takes.
_MASKED = re.compile(r"[*•●xX.]*")


def is_masked(auth: RegistryAuth) -> bool:
    return not auth.username or bool(_MASKED.fullmatch(auth.password)) or "***" in auth.password


def body(order: Order, auth: RegistryAuth | None = None) -> dict[str, Any]:
    """`auth` stands in for the template's registry auth id where Novita did not take that."""
    template = order.template
    optional = {
        "imageAuthId": "" if auth else template.image_auth,
        "imageAuth": f"{auth.username}:{auth.password}" if auth else "",
        "ports": ",".join(f"{port}/{type_}" for port, type_ in template.ports),
        "envs": [{"key": key, "value": value} for key, value in template.envs],
        "tools": [{"name": name, "port": port, "type": type_} for name, port, type_ in template.tools],
        "command": template.start_command,
        "entrypoint": template.entrypoint,
        "minCudaVersion": template.min_cuda_version,
    }
    return {
        "kind": "gpu",
        "name": order.name,
        "productId": order.offer.product_id,
        "gpuNum": order.gpu_num,
        "rootfsSize": order.rootfs_size,
        "imageUrl": template.image,
        "clusterId": order.offer.cluster_id,
        "billingMode": order.billing_mode,
        **{name: value for name, value in optional.items() if value},
    }
