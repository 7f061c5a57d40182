"""The fenced blocks of the documents, each with the mark above it that says what a test does with it."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUNS, FILE, NOT_RUN = "runs", "file", "not run here"
# Text that is read and not run.
SHOWN = ("mermaid", "text", "json")
_MADE = re.compile(r"<!-- ([\w ]+): made from the code -->\n.*?<!-- end of \1 -->", re.DOTALL)
_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S
)


@dataclass(frozen=True)
class Snippet:
    language: str
    mark: str
    about: str  # of a file its name; of what is not run, why
    text: str


def documents() -> list[Path]:
    found = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "client/README.md",
        *ROOT.glob("docs/**/*.md"),
    ]
    return sorted(found)


def snippets(document: Path) -> list[Snippet]:
    """Those that somebody wrote: what is made from the code is held by another test."""
    found = []
    for block in _BLOCK.finditer(_MADE.sub("", document.read_text())):
        mark, _, about = (block["mark"] or "").partition(": ")
        if block["language"] not in SHOWN:
            found.append(Snippet(block["language"], mark, about, block["text"]))
    return found
