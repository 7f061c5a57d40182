"""The README says what the code says."""

from functions.api.responses import STATUS_OF
from functions.shared.domain.codes import CODES
from functions.shared.domain.status import MEANING, Status
from local.readme import README, rendered


def test_the_parts_made_from_the_code_are_up_to_date() -> None:
    text = README.read_text()

    assert rendered(text) == text, "run `make readme`"


def test_every_code_that_is_answered_is_explained() -> None:
    assert STATUS_OF.keys() <= CODES.keys()


def test_every_status_is_explained() -> None:
    assert MEANING.keys() == set(Status)
