"""Every command teaches by example, and the page about commands says what the commands say."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ottla.cli.main import COMMANDS, load

ROOT = Path(__file__).resolve().parents[3]


def generator() -> ModuleType:
    path = ROOT / "scripts/generate_command_line_reference.py"
    spec = importlib.util.spec_from_file_location("generate_command_line_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def leaves() -> Iterator[tuple[str, Any]]:
    for name in COMMANDS:
        command = load(name)
        verbs = getattr(command, "commands", {"": command})
        for verb, each in verbs.items():
            yield f"{name} {verb}".strip(), each


def test_the_page_is_up_to_date() -> None:
    page = ROOT / "docs/reference/command-line.md"
    assert page.read_text() == generator().text(), "run scripts/generate_command_line_reference.py"


@pytest.mark.parametrize(("path", "command"), [pytest.param(path, each, id=path) for path, each in leaves()])
def test_every_command_shows_itself_at_work_and_explains_every_option(path: str, command: Any) -> None:
    assert f"ottla {path}" in command.help
    for parameter in command.params:
        assert parameter.hidden or parameter.help, f"ottla {path}: {parameter.name}"
