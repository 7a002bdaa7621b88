"""Changing the text of the config file, and only what has to change.

Owns: finding the lines. Never knows: files. Invariant: comments and everything else stay; a result that does not say
what was asked for (somebody wrote the file in a way that these few lines do not see through) is a ValueError.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from ottla.cli.profiles import Profiles, parse_profiles

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_NUMBER_OR_TRUTH = re.compile(r"0|-?[1-9][0-9]*|true|false")


def with_settings(text: str, name: str, settings: Mapping[str, str]) -> str:
    """Settings of one profile, which is made if it is not there; an empty value takes a setting away."""
    lines = text.splitlines()
    begin = _header(lines, name)
    if begin is None:
        lines += ["", f"[profiles.{_key(name)}]"] if lines else [f"[profiles.{_key(name)}]"]
        begin = len(lines) - 1
    for setting, value in settings.items():
        end = _end(lines, begin)
        there = next((at for at in range(begin + 1, end) if _assigns(lines[at]) == setting), None)
        if there is not None:
            del lines[there]
        if value:
            while there is None and end > begin + 1 and not lines[end - 1].strip():
                end -= 1  # above the empty lines that part it from the next profile
            lines.insert(end if there is None else there, f"{setting} = {_value(value)}")
    before = _parsed(text)
    wanted = dict(before.settings)
    wanted[name] = {
        **{key: old for key, old in before.settings.get(name, {}).items() if settings.get(key, "kept")},
        **{key: _read(value) for key, value in settings.items() if value},
    }
    return _proven(lines, before._replace(settings=wanted))


def with_default(text: str, name: str) -> str:
    """Another default profile."""
    lines = _without_default(text.splitlines())
    gap = [""] if lines and lines[0].strip() else []
    first = f"default = {json.dumps(name, ensure_ascii=False)}"
    return _proven([first, *gap, *lines], _parsed(text)._replace(default=name))


def without_profile(text: str, name: str) -> str:
    """All but one profile; if it was the default there is none any more."""
    before, lines = _parsed(text), text.splitlines()
    begin = _header(lines, name)
    if begin is None:
        raise ValueError(f"profile {name!r} is not written as [profiles.{_key(name)}]")
    del lines[begin : _end(lines, begin)]
    default = before.default
    if default == name:
        lines, default = _without_default(lines), None
    rest = {other: settings for other, settings in before.settings.items() if other != name}
    return _proven(lines, before._replace(default=default, settings=rest))


def _parsed(text: str) -> Profiles:
    return parse_profiles(Path(), text)


def _proven(lines: list[str], wanted: Profiles) -> str:
    text = "\n".join(lines).strip("\n") + "\n"
    if _parsed(text) != wanted:
        raise ValueError("it is written in a way this command does not see through; change it with an editor")
    return text


def _header(lines: list[str], name: str) -> int | None:
    """Where a profile begins."""
    for at, line in enumerate(lines):
        if line.lstrip().startswith("[") and _content(line) == {"profiles": {name: {}}}:
            return at
    return None


def _end(lines: list[str], begin: int) -> int:
    """Where the next table begins."""
    following = (at for at in range(begin + 1, len(lines)) if lines[at].lstrip().startswith("["))
    return next(following, len(lines))


def _without_default(lines: list[str]) -> list[str]:
    first = _end(lines, -1)
    return [line for at, line in enumerate(lines) if at >= first or _assigns(line) != "default"]


def _assigns(line: str) -> str | None:
    """The dotted name that a line gives a value to."""
    content, names = _content(line), []
    while isinstance(content, dict) and len(content) == 1:
        ((name, content),) = content.items()
        names.append(name)
    return ".".join(names) or None


def _content(line: str) -> object:
    try:
        return tomllib.loads(line)
    except ValueError:
        return None


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _value(text: str) -> str:
    return text if _NUMBER_OR_TRUTH.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _read(text: str) -> object:
    return tomllib.loads(f"value = {_value(text)}")["value"]
