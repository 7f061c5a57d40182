"""What the simulator really holds, without lag and with what is gone: for tests that balance the books."""

from typing import Any

from local.novita.machines import Machine


def entry(machine: Machine, now: float) -> dict[str, Any]:
    bought = machine.bought
    spot = machine.spot(now)
    error = machine.error(now)
    return {
        "id": machine.id,
        "name": machine.name,
        "status": machine.status(now),
        "statusError": {"state": error.state, "message": error.message},
        "spotStatus": spot.status,
        "spotReclaimTime": spot.reclaim_time,
        "createdAt": machine.created_at,
        "removedAt": machine.removed_at(now),
        "billing": machine.billing(now),
        "billedSeconds": machine.billed_seconds(now),
        "productId": bought.product_id,
        "productName": bought.product_name,
        "clusterId": bought.cluster_id,
        "region": bought.region,
        "gpuNum": bought.gpu_num,
        "billingMode": bought.billing_mode,
        "pricePerGpuHour": bought.unit_price,
        "create": machine.create_body,
        "history": [{"at": step.at, "status": step.value} for step in machine.statuses.until(now)],
    }
