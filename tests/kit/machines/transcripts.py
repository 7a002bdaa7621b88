"""Conversations of machines as text files: commands, and below each what the machines answered to it.

Owns: the format of a transcript, running one, comparing it, writing it anew, and values as short text. Never knows: any
machine. A transcript is read as a story and fails as a diff:

    # Three voters that know nothing of each other find a leader.

    wait 0 0.1
    ----
    0 Send(to=1 Vote(epoch=0 candidate=0 log_end=0@0 pre_vote))
    0 Send(to=2 Vote(epoch=0 candidate=0 log_end=0@0 pre_vote))

Lines that begin with `#` are the story, told by hand. A step is one command or several below each other, a line of four
dashes, and what was printed, up to an empty line. `OTTLA_WRITE_TRANSCRIPTS=1 pytest tests/unit -k transcript` writes
what is printed now into the files; read the difference as you would read code.

How to add a machine. Write its transcripts, without what they print, into a folder `transcripts` beside its tests, and
beside that folder `test_transcripts.py`, with a class whose methods are the commands: `def wait(self, node: str,
seconds: str, *, quietly: str = "")` serves the command `wait 0 0.1` and `wait 0 0.1 quietly=yes`; a dash in a command's
name is an underscore in the method's. What they pass to `self.say` is what is printed, a line each:

    class GroupStage(Stage):
        show = Printer({TopicPartition: "{0.topic}-{0.partition}".format}, hidden=["client_id"])

        def __init__(self) -> None:
            super().__init__()
            self.machine = GroupMachine(...)

        def join(self, member: str) -> None:
            decision = self.machine.decide_join(...)
            for fact in decision.facts:
                self.say(self.show(fact))

    @pytest.mark.parametrize("transcript", transcripts_beside(__file__), ids=transcript_name)
    def test_a_transcript_is_what_the_groups_say(transcript: Path) -> None:
        check_transcript(transcript, GroupStage())

Each transcript gets a new stage. Whatever a command raises fails the test, with the transcript's name and line.
"""

import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from difflib import unified_diff
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from ottla.wire.schema import Message

WRITE = bool(os.environ.get("OTTLA_WRITE_TRANSCRIPTS"))
_DASHES = "----"


class Stage:
    """What a machine's commands are methods of; see the module."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, line: str) -> None:
        assert line.splitlines() == [line], f"not one line: {line!r}"
        self.said.append(line)


class Printer:
    """A value as short text: fields by name, without those at their defaults, and without what says nothing in a story.

    `words` are values of certain types as text, `named` those of fields with certain names, with an empty one for those
    that need not be mentioned; `hidden` are names of fields that no reader misses.
    """

    def __init__(
        self,
        words: Mapping[type, Callable[[Any], str]] | None = None,
        named: Mapping[str, Callable[[Any], str]] | None = None,
        hidden: Iterable[str] = (),
    ) -> None:
        self._words = dict(words or {})
        self._named = dict(named or {})
        self._hidden = frozenset(hidden)

    def __call__(self, value: object) -> str:
        word = self._words.get(type(value))
        if word is not None:
            return word(value)
        if isinstance(value, Enum):
            return value.name
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            defaults: Mapping[str, object] = getattr(value, "_field_defaults", {})
            return self._fields(value, {name: getattr(value, name) for name in value._fields}, defaults)
        if isinstance(value, Message):
            defaults = {field.name: field.default for field in value.FIELDS}
            return self._fields(value, {name: getattr(value, name) for name in value.__slots__}, defaults)
        return self._plain(value)

    def _fields(self, value: object, fields: Mapping[str, object], defaults: Mapping[str, object]) -> str:
        parts = []
        for name, field in fields.items():
            if name in self._hidden or field is None or (name in defaults and defaults[name] == field):
                continue
            # What is only true or false is there or not.
            if isinstance(field, bool):
                parts += [name] if field else [f"not-{name}"] if name in defaults else []
                continue
            text = self._named.get(name, self)(field)
            parts += [f"{name}={text}"] if text else []
        return f"{type(value).__name__}({' '.join(parts)})"

    def _plain(self, value: object) -> str:
        if isinstance(value, bytes | bytearray | memoryview):
            return f"<{len(value)} bytes>"
        if isinstance(value, float):
            return f"{value:.6g}"
        if isinstance(value, Mapping):
            return "{" + " ".join(f"{self(key)}:{self(item)}" for key, item in value.items()) + "}"
        if isinstance(value, AbstractSet):
            return "{" + " ".join(sorted(map(self, value))) + "}"
        if isinstance(value, list | tuple):
            return "[" + " ".join(map(self, value)) + "]"
        return "none" if value is None else str(value)


class Step(NamedTuple):
    """A part of a transcript: the story before the commands as it stands in the file, the commands, what they print."""

    story: tuple[str, ...]
    line: int
    commands: tuple[str, ...]
    printed: tuple[str, ...]


def read_transcript(text: str) -> tuple[list[Step], tuple[str, ...]]:
    """The steps of a transcript, and the story after the last of them."""
    steps: list[Step] = []
    story: list[str] = []
    commands: list[str] = []
    printed: list[str] | None = None
    lines = text.splitlines()
    for number, line in enumerate([*lines, ""], 1):
        if printed is not None:
            if line.strip():
                printed.append(line)
                continue
            steps.append(Step(tuple(story), number - len(printed) - len(commands) - 1, tuple(commands), tuple(printed)))
            story, commands, printed = [], [], None
        elif line == _DASHES:
            assert commands, f"line {number}: nothing was asked"
            printed = []
        elif commands and not line.strip():
            # Written by hand, and not yet run.
            steps.append(Step(tuple(story), number - len(commands), tuple(commands), ()))
            story, commands = [], []
        elif line.strip() and not line.startswith("#"):
            commands.append(line)
        else:
            assert not commands, f"line {number}: the story is told before the commands"
            story.append(line)
    while story and not story[-1].strip():
        story.pop()
    return steps, tuple(story)


def write_transcript(steps: Iterable[Step], rest: tuple[str, ...]) -> str:
    lines: list[str] = []
    for step in steps:
        lines += [*step.story, *step.commands, _DASHES, *step.printed, ""]
    lines += rest
    return "\n".join(lines).rstrip("\n") + "\n"


def run_steps(steps: Iterable[Step], stage: Stage, name: str) -> list[Step]:
    """The same steps with what is printed now."""
    played = []
    for step in steps:
        stage.said = []
        for number, command in enumerate(step.commands, step.line):
            try:
                _act(stage, command)
            except Exception as problem:
                problem.add_note(f"{name}:{number}: {command}")
                raise
        played.append(step._replace(printed=tuple(stage.said)))
    return played


def _act(stage: Stage, command: str) -> None:
    name, *words = shlex.split(command)
    of_stages = name.startswith("_") or hasattr(Stage, name)
    method = None if of_stages else getattr(stage, name.replace("-", "_"), None)
    assert callable(method), f"no such command: {name}"
    options = dict(word.split("=", 1) for word in words if "=" in word)
    method(*(word for word in words if "=" not in word), **options)


def check_transcript(path: Path, stage: Stage, *, write: bool = WRITE) -> None:
    """Run it; what is printed has to be what it says, unless it is written anew."""
    text = path.read_text()
    steps, rest = read_transcript(text)
    assert steps, f"{path.name} says nothing"
    played = write_transcript(run_steps(steps, stage, path.name), rest)
    if write:
        path.write_text(played)
        return
    difference = "\n".join(unified_diff(text.splitlines(), played.splitlines(), path.name, "now", lineterm="", n=6))
    assert not difference, f"{difference}\nif that is right: OTTLA_WRITE_TRANSCRIPTS=1 pytest -k transcript writes it"


def transcripts_beside(test: str) -> list[Path]:
    """The transcripts in the folder beside a test's file."""
    found = sorted((Path(test).parent / "transcripts").glob("*.txt"))
    assert found, f"no transcripts beside {test}"
    return found


def transcript_name(path: Path) -> str:
    return path.stem
