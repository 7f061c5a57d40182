"""Every path that the documents name is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = tuple(
    f"{name}/" for name in ("client", "functions", "infra", "local", "ops", "tests", "bench", "docs")
)
# In backquotes or as the target of a link.
PATH = re.compile(r"`([\w./*-]+)`|\]\(([\w./-]+)(?:#[\w-]+)?\)")


def named_paths(document: Path) -> set[str]:
    found = {one or other for one, other in PATH.findall(document.read_text())}
    return {path for path in found if path.startswith(FOLDERS) or path.endswith((".py", ".md"))}


def exists(path: str, document: Path) -> bool:
    """From the top, beside the document, or within functions/ where the walk-through and its layers are."""
    bases = (ROOT, document.parent, ROOT / "functions", ROOT / "functions/shared/domain/instance")
    return any(next(base.glob(path.rstrip("/")), None) for base in bases)


DOCUMENTS = [
    "CONTRIBUTING.md",
    "README.md",
    "docs/walkthrough.md",
    "docs/decisions.md",
    "docs/migrating.md",
    "docs/reference.md",
    "docs/runbook.md",
    *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("docs/guides/*.md"))),
]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_path_that_is_named_exists(name: str) -> None:
    document = ROOT / name

    paths = named_paths(document)

    assert paths
    assert [path for path in sorted(paths) if not exists(path, document)] == []


def test_the_walk_through_names_each_file_once() -> None:
    text = (ROOT / "docs/walkthrough.md").read_text()

    numbers = [int(number) for number in re.findall(r"^(\d+)\. `", text, re.MULTILINE)]

    assert numbers == list(range(1, len(numbers) + 1))
