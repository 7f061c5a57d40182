"""What the simulator sells, as tests change it."""

from local.novita.client import Simulator

PRODUCT = "RTX 4090 24GB"


def put_on_sale(simulator: Simulator, *, available: bool, name: str = PRODUCT) -> None:
    for product in simulator.products():
        if product["name"] == name and product["id"] != "4090.8c30g":  # never to be had
            simulator.patch_product(product["id"], available=available)


def bought_at(simulator: Simulator) -> list[float]:
    """When each create call arrived."""
    return [call["time"] for call in simulator.calls("/gpu/instance/create")]
