"""Examples are true: every command that a help text or the guide shows exists and takes what it is given there.

Nothing is run: a line is taken apart by the program itself, up to the point where the command would begin.
"""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import typer

from ottla.cli.main import COMMANDS, app, load

ROOT = Path(__file__).resolve().parents[3]
GUIDE = ROOT / "docs/guide/command-line.md"
PLACEHOLDER = re.compile(r"…|\[-")


def help_texts() -> Iterator[str]:
    """What is not to be wrapped in them: examples, not sentences."""
    for name in COMMANDS:
        command = load(name)
        for each in getattr(command, "commands", {"": command}).values():
            paragraphs = re.split(r"\n\s*\n", each.help or "")
            yield from (text for text in paragraphs if "\b" in text or text.startswith("ottla "))


def examples() -> list[str]:
    """The commands in the lines of code, each as one text."""
    guide = GUIDE.read_text(encoding="utf-8")
    code = re.findall(r"^```\w*\n(.*?)^```$", guide, re.DOTALL | re.MULTILINE)
    lines = [line for block in (*help_texts(), *code) for line in block.splitlines() if "ottla " in line]
    lines += [cell.replace("\\|", "|") for cell in re.findall(r"\| `(ottla [^`]+)` \|$", guide, re.MULTILINE)]
    plain = [line.strip().removeprefix("$ ") for line in lines if not PLACEHOLDER.search(line)]
    return sorted({shlex.join(words) for line in plain for words in commands(re.split(r"\s{2,}", line)[0])})


def commands(line: str) -> Iterator[list[str]]:
    """What a shell would start of this program."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>()")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    taking = True
    for word in lexer:
        if word == "|":
            yield from [words] if words[:1] == ["ottla"] else []
            words, taking = [], True
        elif word in ("<", ">", "(", ")"):
            taking = False
        elif taking:
            words.append(word)
    yield from [words] if words[:1] == ["ottla"] else []


def parse(words: list[str]) -> None:
    """Wrong usage is an exception."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("ottla", words)
    while rest := [*getattr(context, "_protected_args", ()), *context.args]:
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


def test_there_are_examples_of_every_command() -> None:
    shown = examples()
    for name in COMMANDS:
        assert any(line.startswith(f"ottla {name}") for line in shown), name


@pytest.mark.parametrize("line", examples())
def test_an_example_is_taken_as_it_is_written(line: str, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[profiles.staging]\n")
    with mock.patch.dict(os.environ, {"OTTLA_CONFIG": str(config)}):
        parse(shlex.split(line)[1:])
