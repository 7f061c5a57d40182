"""Puts the page together: one HTML document with its styles and its modules inside.

Each module becomes a function that is called once and returns what the module exports, in the order in which
they need each other; an import takes names out of what another one returned.
"""

import re
from pathlib import Path

FOLDER = Path("api", "page")  # within the functions' sources
DOCUMENT = "index.html"

_FIRST = "app.js"
_IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:(?:async )?function|class|const) (\w+))", re.MULTILINE)
_LEFT_OVER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


class BadPage(Exception):
    """The sources do not fit together."""


def assemble(folder: Path) -> str:
    document = (folder / "shell.html").read_text("utf-8")
    inside = {
        "<style></style>": (folder / "style.css").read_text("utf-8"),
        '<script type="module"></script>': _join(folder),
    }
    for place, text in inside.items():
        if document.count(place) != 1 or "</s" in text.lower():
            raise BadPage(f"nothing can be put into {place}")
        document = document.replace(place, place.replace("></", f">\n{text}</"))
    return document


def _join(folder: Path) -> str:
    """Every module that the first one needs, each after those that it needs itself."""
    joined: dict[str, str] = {}
    exports: dict[str, list[str]] = {}

    def add(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise BadPage(f"modules need each other in a circle: {', '.join((*path, name))}")
        if name in joined:
            return
        text = (folder / name).read_text("utf-8")
        for names, module in _IMPORT.findall(text):
            needed = f"{module}.js"
            add(needed, (*path, name))
            for wanted in names.split(", "):
                if wanted not in exports[needed]:
                    raise BadPage(f"{name} imports {wanted}, which {needed} does not export")
        exports[name] = _EXPORT.findall(text)
        text = _EXPORT.sub("", _IMPORT.sub(r"const { \1 } = \2_module;", text))
        if odd := _LEFT_OVER.search(text):
            raise BadPage(f"{name} has what is not understood here: {odd.group()}")
        own = name.removesuffix(".js")
        joined[name] = (
            f"const {own}_module = (() => {{\n{text}\nreturn {{ {', '.join(exports[name])} }};\n}})();\n"
        )

    add(_FIRST, ())
    if unused := {path.name for path in folder.glob("*.js")} - joined.keys():
        raise BadPage(f"nothing imports {', '.join(sorted(unused))}")
    return "".join(joined.values())
