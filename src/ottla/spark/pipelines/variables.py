"""`${NAME}` and `${NAME:-default}` in the texts of a pipeline.

Owns: how they are written and replaced. Never knows: what the texts mean, where values come from.
Invariants: a variable without value and default is a problem with its name, never an empty text; `$${` stays `${`; what
was put in is not looked through again.
"""

import re
from collections.abc import Mapping
from typing import Any

_VARIABLE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_.]*)(?::-([^}]*))?\}")


def replace_variables(document: Any, values: Mapping[str, str], problems: list[str]) -> Any:
    """The document with its texts filled in; what is missing is told in `problems`."""
    if isinstance(document, str):
        return _VARIABLE.sub(lambda found: _value(found, values, problems), document)
    if isinstance(document, dict):
        return {key: replace_variables(value, values, problems) for key, value in document.items()}
    if isinstance(document, list):
        return [replace_variables(value, values, problems) for value in document]
    return document


def _value(found: re.Match[str], values: Mapping[str, str], problems: list[str]) -> str:
    name, default = found[1], found[2]
    if name is None:
        return "${"
    if name in values:
        return values[name]
    if default is None:
        sentence = f"variable {name} has no value: say --set {name}=VALUE, or write ${{{name}:-DEFAULT}}"
        if sentence not in problems:
            problems.append(sentence)
        return ""
    return default
