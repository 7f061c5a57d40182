"""Every snippet of the documents is run by a test, or says why not."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests.snippets import FILE, NOT_RUN, ROOT, RUNS, documents, snippets

REASONS = ("needs an AWS account", "changes your shell")
ELSEWHERE = re.compile(r"(tests/\S+\.py) does this")


def name(document: Path) -> str:
    return str(document.relative_to(ROOT))


@pytest.mark.parametrize("document", documents(), ids=name)
def test_every_snippet_says_who_runs_it(document: Path) -> None:
    for one in snippets(document):
        assert one.mark in (RUNS, FILE, NOT_RUN), f"no mark above:\n{one.text}"
        if one.mark == NOT_RUN and one.about not in REASONS:
            test = ELSEWHERE.fullmatch(one.about)
            assert test, one.about
            assert (ROOT / test[1]).is_file()


@pytest.mark.parametrize("document", documents(), ids=name)
def test_every_snippet_is_well_formed(document: Path) -> None:
    for one in snippets(document):
        if one.language == "python":
            ast.parse(one.text)
        if one.language == "sh":
            checked = subprocess.run(
                ["bash", "-n"], input=one.text, text=True, capture_output=True, check=False
            )
            assert checked.returncode == 0, checked.stderr


def test_snippets_are_found() -> None:
    assert {one.mark for document in documents() for one in snippets(document)} == {RUNS, FILE, NOT_RUN}
