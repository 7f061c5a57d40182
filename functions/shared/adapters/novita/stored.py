"""Products and templates as JSON and back, for caches."""

from dataclasses import asdict
from decimal import Decimal
from typing import Any

from functions.shared.domain.machine import Product, Template


def product_to_json(product: Product) -> dict[str, Any]:
    facts = asdict(product)
    for name in ("price", "spot_price"):
        facts[name] = None if facts[name] is None else str(facts[name])
    return facts | {"regions": list(product.regions), "billing_methods": list(product.billing_methods)}


def product_from_json(facts: dict[str, Any]) -> Product:
    prices = {name: None if facts[name] is None else Decimal(facts[name]) for name in ("price", "spot_price")}
    lists = {name: tuple(facts[name]) for name in ("regions", "billing_methods")}
    numbers = {
        name: int(facts[name]) for name in ("memory_per_gpu", "cpu_per_gpu", "min_rootfs", "max_rootfs")
    }
    return Product(**{**facts, **prices, **lists, **numbers})


def template_to_json(template: Template) -> dict[str, Any]:
    """With the values of its variables, which may be secrets: whoever stores it decides about that."""
    facts = asdict(template)
    return facts | {name: [list(entry) for entry in facts[name]] for name in ("ports", "envs", "tools")}


def template_from_json(facts: dict[str, Any]) -> Template:
    lists = {name: tuple(tuple(entry) for entry in facts[name]) for name in ("envs", "tools")}
    ports = tuple((int(port), type_) for port, type_ in facts["ports"])
    return Template(**{**facts, **lists, "ports": ports, "rootfs_size": int(facts["rootfs_size"])})
