"""A group of measurements is a module of this folder with `rows()`.

Each is measured in a process of its own: nothing is imported, cached or switched off there by another.
"""

import pkgutil
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

from bench.results import line
from bench.table import Row


def groups() -> list[str]:
    modules = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return [name for name in modules if name[0] != "_" and hasattr(import_module(f"bench.{name}"), "rows")]


def measure(group: str) -> list[Row]:
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(measured, group).result()


def measured(group: str) -> list[Row]:
    rows = []
    for row in import_module(f"bench.{group}").rows():
        if row.group != group:  # it would take the place of another group's rows in the results
            raise ValueError(f"{group} has a row of {row.group}: {row.name}")
        print(line(row), flush=True)
        rows.append(row)
    return rows
