"""Pipelines from files: YAML is a definition, Python a function `build`.

Owns: reading either. Never knows: what is in a definition, Spark. Invariants: what is wrong with a file is one sentence
with its line; a key that is there twice is wrong; texts of YAML are as they were written (`on` is a name, `1.10` is not
1.1); a Python pipeline's module travels to executors by its content, so no executor must have the file.
"""

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ottla.spark.pipelines.definition import BadPipeline, Definition, Frame, frame_of, understand
from ottla.spark.pipelines.variables import replace_variables

_IMPLICIT = ("tag:yaml.org,2002:null", "tag:yaml.org,2002:merge")
"""What a plain text of YAML may mean besides itself."""
_MOST_PARTS = 100_000


class Program(NamedTuple):
    """A pipeline in Python."""

    frame: Frame
    build: Callable[[Any], object]
    variables: Mapping[str, str]
    path: Path


def load_pipeline(file: str, assignments: Mapping[str, str]) -> Definition | Program:
    """What a file describes, with variables from the assignments, then from the environment."""
    path = Path(file)
    values = {**os.environ, **assignments}
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
        raise BadPipeline([f"cannot read {file}: {why}"]) from None
    if path.suffix == ".py":
        return _program(path, values)
    if path.suffix not in (".yaml", ".yml"):
        raise BadPipeline([f"{file} is no pipeline: its name must end with .yaml, .yml or .py"])
    problems: list[str] = []
    document = replace_variables(_parse(file, text), values, problems)
    if problems:
        raise BadPipeline(problems)
    _importable(path)
    return understand(document, path.stem)


def _parse(file: str, text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise BadPipeline(["pipelines in YAML need PyYAML: pip install 'ottla[spark]'"]) from None

    class Loader(yaml.SafeLoader):
        """Takes texts as they are written, and refuses keys that are there twice, of which YAML would take the last."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen: set[str] = set()
            for key_node, _ in node.value:
                place = f"{file}, line {key_node.start_mark.line + 1}"
                if not isinstance(key_node, yaml.ScalarNode):
                    raise BadPipeline([f"{place}: a name is a text, not a list or a mapping"])
                if key_node.value in seen:
                    raise BadPipeline([f"{place}: {key_node.value} is there twice"])
                seen.add(key_node.value)
            return super().construct_mapping(node, deep)

    Loader.yaml_implicit_resolvers = {
        first: [(tag, text) for tag, text in resolvers if tag in _IMPLICIT]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        return _unfolded(file, yaml.load(text, Loader))
    except BadPipeline:
        raise
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        what = getattr(problem, "problem", None) or str(problem).splitlines()[0]
        raise BadPipeline([f"{file}{place} is no YAML: {what}"]) from None
    except RecursionError:
        raise BadPipeline([f"{file} is nested too deeply"]) from None
    except (TypeError, ValueError) as problem:  # of tags such as !!int and !!timestamp, which nothing here needs
        raise BadPipeline([f"{file} has a value that is not what its tag says: {problem}"]) from None


def _unfolded(file: str, document: Any) -> Any:
    """The document, if its aliases come to an end: one that contains itself has none, and some grow without bound."""
    open_parts: set[int] = set()
    count = 0

    def visit(part: Any) -> None:
        nonlocal count
        count += 1
        if count > _MOST_PARTS:
            raise BadPipeline([f"{file} is too large: with its aliases it has more than {_MOST_PARTS} parts"])
        if isinstance(part, (dict, list)):
            if id(part) in open_parts:
                raise BadPipeline([f"{file} has an alias (*) inside of what it stands for"])
            open_parts.add(id(part))
            for each in part.values() if isinstance(part, dict) else part:
                visit(each)
            open_parts.discard(id(part))

    visit(document)
    return document


def _program(path: Path, values: Mapping[str, str]) -> Program:
    _importable(path)
    name = path.stem.replace("-", "_").replace(".", "_")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "the name ends with .py"
    assert spec.loader is not None, "the name ends with .py"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as problem:
        raise BadPipeline([f"{path} cannot be loaded: {where_in(problem, path)}"]) from problem
    build = getattr(module, "build", None)
    if not callable(build):
        raise BadPipeline([f"{path} has no function build(p), which is what a pipeline in Python is"])
    carry_along(module)
    problems: list[str] = []
    said = replace_variables(getattr(module, "PIPELINE", {}), values, problems)
    if problems:
        raise BadPipeline(problems)
    return Program(frame_of(path.stem, said), build, values, path)


def carry_along(module: ModuleType) -> None:
    """Let executors get this module's functions by their content."""
    try:
        from pyspark.cloudpickle import register_pickle_by_value
    except ImportError:
        raise BadPipeline(["pipelines run on Spark, and PySpark is missing: pip install 'ottla[spark]'"]) from None
    register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _importable(path: Path) -> None:
    """Modules beside the file can be imported."""
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)


def where_in(problem: BaseException, path: Path) -> str:
    """An exception as a sentence, with the line of the file it came through last."""
    line = problem.lineno if isinstance(problem, SyntaxError) else None
    at = problem.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename == str(path):
            line = at.tb_lineno
        at = at.tb_next
    what = problem.msg if isinstance(problem, SyntaxError) else str(problem).splitlines()[0] if str(problem) else ""
    place = f"line {line}: " if line else ""
    return f"{place}{type(problem).__name__}: {what}"
