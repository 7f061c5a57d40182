"""Which settings each function has read, though here all of them share one process and what it has built."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from threading import local
from weakref import WeakKeyDictionary

from functions.shared.platform.settings import Settings
from tests.infra.template import NAMES


def declared() -> dict[str, set[str]]:
    by = {item.name: item.metadata["by"] for item in fields(Settings)}
    return {
        name: {setting for setting, who in by.items() if who == "all" or name in who.split()}
        for name in NAMES
    }


class SettingsRead:
    def __init__(self) -> None:
        self.by_function: dict[str, set[str]] = defaultdict(set)
        self._built: WeakKeyDictionary[object, dict[str, set[str]]] = WeakKeyDictionary()
        self._building = _Building()

    def note(self, handler: str, names: set[str]) -> None:
        """What is read outside of every function, by a test itself, is nobody's."""
        if handler:
            self.by_function[{"sweep": "reconcile"}.get(handler, handler)] |= names
        for one in self._building.now:
            one |= names

    @contextmanager
    def building(self, owner: object, name: str, handler: str) -> Iterator[None]:
        """Whatever is read meanwhile is what this needs, now and whenever it is used again."""
        if name in vars(owner):
            self.note(handler, self._built.get(owner, {}).get(name, set()))
            yield
            return
        needs: set[str] = set()
        self._building.now.append(needs)
        try:
            yield
        finally:
            self._building.now.pop()
        self._built.setdefault(owner, {})[name] = needs

    @property
    def undeclared(self) -> set[tuple[str, str]]:
        allowed = declared()
        return {(who, name) for who, names in self.by_function.items() for name in names - allowed[who]}


class _Building(local):
    """Of one thread, as a request may have several."""

    def __init__(self) -> None:
        self.now: list[set[str]] = []
