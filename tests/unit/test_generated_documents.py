"""The documents say what the code says."""

from pathlib import Path

import pytest

from docs.generate import PARTS, rendered
from functions.api.responses import STATUS_OF
from functions.shared.domain.errors import CODES
from functions.shared.domain.instance.status import MEANING, Status


@pytest.mark.parametrize("document", PARTS, ids=lambda path: str(path.name))
def test_the_parts_made_from_the_code_are_up_to_date(document: Path) -> None:
    assert rendered(document) == document.read_text(), "run `make readme`"


def test_every_code_that_is_answered_is_explained() -> None:
    assert STATUS_OF.keys() <= CODES.keys()


def test_every_status_is_explained() -> None:
    assert MEANING.keys() == set(Status)
