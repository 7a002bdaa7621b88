"""The parts of a machine keep to themselves: one place changes the role, and nobody uses another's private names."""

import ast
from collections.abc import Iterator
from pathlib import Path

from ottla import raft

MODULES = sorted(Path(str(raft.__path__[0])).glob("*.py"))


def attributes() -> Iterator[tuple[Path, ast.Attribute]]:
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                yield path, node


def test_the_role_changes_in_the_transitions_and_nowhere_else() -> None:
    setting = {path.stem for path, node in attributes() if node.attr == "role" and isinstance(node.ctx, ast.Store)}

    assert setting == {"core", "transitions"}, "the core only begins with one"


def test_no_part_uses_a_private_name_of_another() -> None:
    used = [
        f"{path.stem}:{node.lineno} {ast.unparse(node)}"
        for path, node in attributes()
        if node.attr.startswith("_") and node.attr != "_replace" and ast.unparse(node.value) != "self"
    ]

    assert not used
