"""House rules that a script can hold: sizes, names, docstrings, and nothing that names the place it was written in."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from unit.dead_names import Package

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = sorted((REPOSITORY / "src").rglob("*.py"))
CODE = [*SOURCES, *(path for folder in ("tests", "bench", "scripts") for path in (REPOSITORY / folder).rglob("*.py"))]
GENERATED = (REPOSITORY / "src/ottla/wire/messages", REPOSITORY / "src/ottla/wire/stored")
OFFERED = ("ottla.client.", "ottla.testing.", "ottla.sim.")
"""Rooms that serve programs, tests and stories: what tests use there is used."""
ALIVE = {
    "ottla.client.consumer.deserializers: Deserializer": "what programs implement",
    "ottla.client.consumer.interceptors: ConsumerInterceptor": "what programs implement",
    "ottla.client.producer.interceptors: ProducerInterceptor": "what programs implement",
    "ottla.client.producer.serializers: Serializer": "what programs implement",
}
"""Names that nothing refers to, each with the reason why it stays."""
VAGUE = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}
MOST_LINES = 600
LONGEST_FUNCTION = 60
"""Lines of a function's body, without its signature and docstring."""
LONG = {"src/ottla/wire/fetch.py _read": "one pass over the bytes of every fetch: each call in it would be paid by all"}
SHARED_NAMES = {"Broker": "what programs call it (client, test kit), and the broker itself"}
"""Class names in more than two rooms, each with the reason."""

KIT = REPOSITORY / "tests" / "kit"
LOOSE: dict[str, str] = {}
"""Tests that stand something together of loose attributes, each with the reason why no port can be implemented."""

# Absolute paths of somebody's machine. /proc, /dev and /usr are the system's own.
WORKPLACE = re.compile(r"(?<![\w.~$}{])/(work|home|root|tmp|Users|mnt|opt|var/tmp)/[\w.-]+")
READ_SUFFIXES = {".py", ".pyx", ".c", ".md", ".toml", ".sh", ".json", ".txt", ".yml", ""}
SKIPPED = {".git", ".venv", "work", "__pycache__", "ottla.egg-info", "build", "dist"}


def name_of(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def written_by_hand(path: Path) -> bool:
    return not any(path.is_relative_to(folder) for folder in GENERATED)


def kept_files() -> list[Path]:
    """Every text file that is, or could be, committed."""
    found: list[Path] = []
    waiting = [REPOSITORY]
    while waiting:
        for path in waiting.pop().iterdir():
            if path.name in SKIPPED or path.name.endswith("_cache") or path.name.startswith(".hypothesis"):
                continue
            if path.is_dir():
                waiting.append(path)
            elif path.suffix in READ_SUFFIXES and path.name != "_codec.c" and path != Path(__file__).resolve():
                found.append(path)
    return found


def test_no_module_is_longer_than_six_hundred_lines() -> None:
    sizes = {name_of(path): len(path.read_text().splitlines()) for path in CODE if written_by_hand(path)}
    assert not {name: size for name, size in sizes.items() if size > MOST_LINES}


def test_no_module_or_room_has_a_name_that_says_nothing() -> None:
    assert not [name_of(path) for path in CODE if VAGUE & {path.stem, *path.relative_to(REPOSITORY).parts[:-1]}]


def test_every_module_says_what_it_is() -> None:
    silent = [name_of(path) for path in CODE if path.read_text().strip() and not ast.get_docstring(parse(path))]
    assert not silent


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def test_no_constructor_demands_more_than_seven_arguments() -> None:
    crowded = [
        f"{name_of(path)}: {owner.name}"
        for path in SOURCES
        if written_by_hand(path)
        for owner in ast.walk(parse(path))
        if isinstance(owner, ast.ClassDef)
        for each in owner.body
        if isinstance(each, ast.FunctionDef) and each.name == "__init__" and demanded(each.args) > 7
    ]
    assert not crowded


def demanded(arguments: ast.arguments) -> int:
    """How many arguments beside self have no default."""
    by_name = sum(default is None for default in arguments.kw_defaults)
    return len(arguments.args) - 1 - len(arguments.defaults) + by_name


def test_no_code_is_left_for_later() -> None:
    later = re.compile(r"\b(TODO|FIXME|XXX)\b")
    assert not [name_of(path) for path in CODE if path != Path(__file__).resolve() and later.search(path.read_text())]


def test_nothing_names_the_machine_it_was_written_on() -> None:
    named = {}
    for path in kept_files():
        found = WORKPLACE.search(path.read_text(errors="replace"))
        if found:
            named[name_of(path)] = found.group()
    assert not named


def test_every_name_is_used_by_the_code_itself() -> None:
    # The messages, which are most of the code, use nothing that `wire/stored` does not use.
    read = [path for path in SOURCES if not path.is_relative_to(GENERATED[0])]
    tools = [path for path in CODE if path.relative_to(REPOSITORY).parts[0] in ("bench", "scripts")]
    package = Package(REPOSITORY / "src", read, tools)
    tests = [path for path in (REPOSITORY / "tests").rglob("*.py") if path != Path(__file__).resolve()]
    of_tests = {word for path in tests for word in re.findall(r"\w+", path.read_text())}
    found = {
        str(each)
        for each in package.dead(("ottla.wire.stored",))
        # The dispatcher imports the handler of an API by the name of its module.
        if not (each.module.startswith("ottla.broker.handlers.") and each.name == "handle")
        and not (each.module.startswith(OFFERED) and each.name in of_tests)
    }
    assert found == set(ALIVE), "dead, or alive again: remove it, or say in ALIVE why it stays"


def kit_modules() -> dict[str, Path]:
    """By the names that tests import them by."""
    return {".".join(path.relative_to(KIT.parent).with_suffix("").parts): path for path in KIT.rglob("*.py")}


def imported(path: Path) -> set[str]:
    """The modules that a file imports, and the names it imports from them, as if they were modules too."""
    found: set[str] = set()
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_what_is_in_the_tests_kit_has_more_than_one_user() -> None:
    users = {path: imported(path) for path in (REPOSITORY / "tests").rglob("*.py")}
    counts = {name: sum(name in found for found in users.values()) for name in kit_modules()}
    assert not {name: count for name, count in counts.items() if count < 2}, "it belongs beside the test that uses it"


def test_every_name_in_the_tests_kit_is_used() -> None:
    words = Counter(
        word for path in (REPOSITORY / "tests").rglob("*.py") for word in re.findall(r"\w+", path.read_text())
    )
    unused = [
        f"{name}.{each.name}"
        for name, path in kit_modules().items()
        for each in parse(path).body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and words[each.name] == 1
    ]
    assert not unused


def test_the_front_page_of_the_tests_kit_has_a_row_for_each_module() -> None:
    rows, folder = [], ""
    for line in (KIT / "README.md").read_text().splitlines():
        if heading := re.match(r"## `(\w+)`", line):
            folder = heading[1]
        elif row := re.match(r"\| `(\w+)\.py` \| \S", line):
            rows.append(f"kit.{folder}.{row[1]}")
    assert sorted(rows) == sorted(kit_modules())


def test_fakes_implement_ports() -> None:
    loose = {
        name_of(path) for path in (REPOSITORY / "tests").rglob("*.py") if "types.SimpleNamespace" in imported(path)
    }
    assert loose == set(LOOSE), "a fake implements a port, or is a small class: see tests/kit/README.md"


def test_code_that_is_generated_is_marked_for_reviews() -> None:
    marked = (REPOSITORY / ".gitattributes").read_text()
    for folder in GENERATED:
        assert f"{name_of(folder)}/** linguist-generated" in marked
    written = [path for path in (REPOSITORY / "docs").rglob("*.md") if "<!-- Generated by" in path.read_text()]
    assert {path.parent for path in written} == {REPOSITORY / "docs" / "reference"}
    assert "docs/reference/*.md linguist-generated" in marked


def classes_by_name() -> dict[str, set[str]]:
    """The rooms of every class that is written by hand."""
    found: dict[str, set[str]] = {}
    for path in filter(written_by_hand, SOURCES):
        room = path.relative_to(REPOSITORY / "src").parts[1]
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).add(room)
    return found


def test_no_class_name_stands_in_more_than_two_rooms_without_a_reason() -> None:
    homonyms = {name: rooms for name, rooms in classes_by_name().items() if len(rooms) > 2}
    assert homonyms.keys() == SHARED_NAMES.keys(), homonyms


def lines_of_body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = 1 if ast.get_docstring(function) is not None and len(function.body) > 1 else 0
    return (function.body[-1].end_lineno or 0) - function.body[first].lineno + 1


def test_no_function_is_longer_than_a_page() -> None:
    functions = (
        (path, node)
        for path in SOURCES
        if written_by_hand(path)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    long = {f"{name_of(path)} {node.name}" for path, node in functions if lines_of_body(node) > LONGEST_FUNCTION}
    assert long == LONG.keys()


def test_no_docstring_sends_the_reader_elsewhere_for_what_it_is_about() -> None:
    assert not [name_of(path) for path in SOURCES if "See the module" in path.read_text()]
