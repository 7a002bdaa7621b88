"""What was done is told, and what was refused makes the command fail."""

import json

import pytest

from ottla.base.errors import ErrorCode
from ottla.cli.failures import Failure
from ottla.cli.outcomes import SHOWN_REFUSALS, report, require
from ottla.client.admin.part import Outcome

DONE = Outcome(ErrorCode.NONE)
BUSY = Outcome(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


def test_what_was_done_is_told_before_what_was_refused_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Failure, match="group 'b' has members"):
        report("group", {"a": DONE, "b": BUSY}, "deleted")
    assert capsys.readouterr().out == "deleted group 'a'\n"


def test_programs_get_a_row_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Failure):
        report("group", {"a": DONE, "b": BUSY}, "deleted", as_json=True)
    assert json.loads(capsys.readouterr().out) == [
        {"group": "a", "deleted": True, "error": None, "message": None},
        {"group": "b", "deleted": False, "error": "NON_EMPTY_GROUP", "message": "The group is not empty."},
    ]


def test_many_refusals_are_a_few_and_a_number() -> None:
    with pytest.raises(Failure, match=r"and 2 more$"):
        require("group", {str(number): BUSY for number in range(SHOWN_REFUSALS + 2)})
