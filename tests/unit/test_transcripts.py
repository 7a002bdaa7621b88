"""The runner of transcripts, on a machine that counts."""

from enum import Enum
from pathlib import Path
from typing import NamedTuple

import pytest

from kit.machines.transcripts import Printer, Stage, check_transcript
from ottla.wire.messages.vote import VoteRequest

STORY = """\
# A counter counts.

add 1
add-both 2 3 by=2
----
1
11

# What nobody prints is a step as well.
add 0 quietly=yes
----

# The end.
"""


class Counter(Stage):
    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def add(self, number: str, *, quietly: str = "") -> None:
        self.total += int(number)
        if not quietly:
            self.say(str(self.total))

    def add_both(self, first: str, second: str, *, by: str = "1") -> None:
        self.total += (int(first) + int(second)) * int(by)
        self.say(str(self.total))


def written(folder: Path, text: str) -> Path:
    path = folder / "counting.txt"
    path.write_text(text)
    return path


def test_a_transcript_that_says_what_happens_passes_and_is_written_as_it_was(tmp_path: Path) -> None:
    path = written(tmp_path, STORY)

    check_transcript(path, Counter(), write=False)
    check_transcript(path, Counter(), write=True)
    assert path.read_text() == STORY


def test_a_transcript_that_says_something_else_fails_with_the_difference(tmp_path: Path) -> None:
    path = written(tmp_path, STORY.replace("11", "12"))

    with pytest.raises(AssertionError, match=r"(?s)-12\n\+11.*OTTLA_WRITE_TRANSCRIPTS"):
        check_transcript(path, Counter(), write=False)
    check_transcript(path, Counter(), write=True)
    assert path.read_text() == STORY


def test_commands_alone_become_a_transcript_when_they_are_run(tmp_path: Path) -> None:
    path = written(tmp_path, "# A counter counts.\n\nadd 1\nadd-both 2 3 by=2\n\nadd 1\n")

    check_transcript(path, Counter(), write=True)
    assert path.read_text() == "# A counter counts.\n\nadd 1\nadd-both 2 3 by=2\n----\n1\n11\n\nadd 1\n----\n12\n"


@pytest.mark.parametrize("command", ["subtract 1", "say 1", "__init__", "said", "total", "add x"])
def test_a_command_that_goes_wrong_is_named_by_its_line(tmp_path: Path, command: str) -> None:
    path = written(tmp_path, f"# One goes wrong.\n\nadd 1\n{command}\n")

    with pytest.raises((AssertionError, ValueError, TypeError)) as failed:
        check_transcript(path, Counter(), write=True)
    assert failed.value.__notes__ == [f"counting.txt:4: {command}"]


class Colour(Enum):
    RED = 1


class Thing(NamedTuple):
    name: str
    colour: Colour
    parts: object = ()
    ready: bool = False
    cluster: str = "here"


def test_values_are_printed_by_field_without_what_says_nothing() -> None:
    show = Printer({float: lambda seconds: f"{seconds * 1000:g}ms" if seconds else ""}, hidden=["cluster"])

    assert show(Thing("a", Colour.RED)) == show(Thing("a", Colour.RED, 0.0)) == "Thing(name=a colour=RED)"
    assert show(Thing("b", Colour.RED, (0.5, None, b"123", {2, 1}), True, "there")) == (
        "Thing(name=b colour=RED parts=[500ms none <3 bytes> {1 2}] ready)"
    )
    assert show(VoteRequest(cluster_id="x")) == "VoteRequest(cluster_id=x)"
