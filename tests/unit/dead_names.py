"""Names of the package that nothing in it refers to, by its syntax trees alone.

Owns: what counts as a reference. A function, class or constant of a module is alive if its own module names it, another
one imports it, or a string says it (tables that dispatch by name, `__all__`). A method is alive if an attribute of its
name is looked up anywhere outside of it. What others call is alive: commands and fixtures by their decorator, hooks of
pytest, and what a class defines that extends one of another package. Never knows: values and types, so a dead method
hides behind a living one of the same name.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef
PATH = re.compile(r"[A-Za-z_]\w*([.:][A-Za-z_]\w*)*")
"""A name as it stands in a table, alone or behind its module."""
REGISTERED = ("app", "pytest")
"""Decorators of these hand a function to somebody who calls it."""
NOT_CALLING = {
    "Protocol",
    "NamedTuple",
    "Generic",
    "Enum",
    "IntEnum",
    "StrEnum",
    "ABC",
    "object",
    "TypedDict",
    "NewType",
}
"""Bases from outside that call nothing by name."""


class Definition(NamedTuple):
    """A name, where it is defined, and the statement that does it."""

    module: str
    owner: str
    name: str
    node: ast.stmt

    def __str__(self) -> str:
        return f"{self.module}: {self.owner}{'.' if self.owner else ''}{self.name}"


class Package:
    """The modules of a package, parsed once, and of the tools that use it."""

    def __init__(self, sources: Path, paths: Iterable[Path], also: Iterable[Path] = ()) -> None:
        self.trees = {module_of(path, sources): ast.parse(path.read_text()) for path in paths}
        self.imported: set[tuple[str, str]] = set()
        self.mentioned = {module: self._read(tree) for module, tree in self.trees.items()}
        self.everywhere: Counter[str] = Counter()
        for found in (*self.mentioned.values(), *(self._read(ast.parse(path.read_text())) for path in also)):
            self.everywhere.update(found)
        self.extending = extending(self.trees.values())

    def _read(self, tree: ast.Module) -> Counter[str]:
        """Note what a file imports, or looks up in a module that it imports; answers what it mentions."""
        modules: dict[str, str] = {}
        nodes = list(below(tree))
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                self.imported.update((node.module, each.name) for each in node.names)
                modules |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
            elif isinstance(node, ast.Import):
                modules |= {each.asname: each.name for each in node.names if each.asname}
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
                self.imported.add((modules[node.value.id], node.attr))
        return mentions(nodes)

    def dead(self, skipped: tuple[str, ...]) -> Iterator[Definition]:
        """What nobody refers to, but for the modules that begin with one of `skipped`."""
        for module, tree in self.trees.items():
            if module.startswith(skipped):
                continue
            for each in tree.body:
                yield from (found for found in definitions(module, each) if not self._top_is_alive(found))
                if isinstance(each, ast.ClassDef):
                    yield from self._dead_methods(module, each)

    def _top_is_alive(self, found: Definition) -> bool:
        if (found.module, found.name) in self.imported:
            return True
        own = mentions(below(found.node))
        quoted = f"'{found.name}'"
        return self.mentioned[found.module][found.name] > own[found.name] or self.everywhere[quoted] > own[quoted]

    def _dead_methods(self, module: str, owner: ast.ClassDef) -> Iterator[Definition]:
        if owner.name in self.extending:
            return
        for each in owner.body:
            if isinstance(each, Function) and not is_called_by_others(each):
                name, quoted = each.name, f"'{each.name}'"
                elsewhere = self.everywhere[name] > self.mentioned[module][name] or self.everywhere[quoted]
                if not elsewhere and self.mentioned[module][name] <= mentions(below(each))[name]:
                    yield Definition(module, owner.name, name, each)


def module_of(path: Path, sources: Path) -> str:
    parts = path.relative_to(sources).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def definitions(module: str, node: ast.stmt) -> Iterator[Definition]:
    """What one statement of a module defines; dunder names are Python's."""
    names: list[str] = []
    if isinstance(node, ast.ClassDef) or (isinstance(node, Function) and not is_called_by_others(node)):
        names = [node.name]
    elif isinstance(node, ast.Assign):
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        names = [node.target.id]
    yield from (Definition(module, "", name, node) for name in names if not name.startswith("__"))


def is_called_by_others(node: Function) -> bool:
    by_decorator = any(ast.unparse(each).startswith(REGISTERED) for each in node.decorator_list)
    return by_decorator or node.name.startswith(("__", "pytest_"))


def base_name(base: ast.expr) -> str:
    """The name of a base class without its parameters."""
    return ast.unparse(base).split("[")[0]


def extending(trees: Iterable[ast.Module]) -> set[str]:
    """Classes that extend one of another package, themselves or through others of this one."""
    ours = {each.name: each for tree in trees for each in tree.body if isinstance(each, ast.ClassDef)}
    bases = {name: [base_name(base) for base in each.bases] for name, each in ours.items()}
    found: set[str] = set()
    before = -1
    while len(found) != before:
        before = len(found)
        for name, names in bases.items():
            if any(base in found or (base not in ours and base not in NOT_CALLING) for base in names):
                found.add(name)
    return found


def below(tree: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it, but for docstrings, which name things and call nobody."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            yield node
            waiting.extend(ast.iter_child_nodes(node))


def mentions(nodes: Iterable[ast.AST]) -> Counter[str]:
    """How often each name is used, as a variable, an attribute or, in quotes, part of a string that is a path."""
    found: Counter[str] = Counter()
    for node in nodes:
        if isinstance(node, ast.Name):
            found[node.id] += 1
        elif isinstance(node, ast.Attribute):
            found[node.attr] += 1
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and PATH.fullmatch(node.value):
            found.update(f"'{word}'" for word in re.split(r"[.:]", node.value))
    return found
