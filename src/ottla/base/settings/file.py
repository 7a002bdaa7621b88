"""Settings as people write them: a `.properties` text and `--set name=value`.

Owns: the syntax, and the sentence for a name or value that is wrong. Never knows: where the text came from.
"""

from collections.abc import Iterable, Mapping

from ottla.base.settings.broker import BROKER_SETTINGS, find_broker_setting
from ottla.base.settings.changes import check_broker_together
from ottla.base.settings.kinds import InvalidSetting, parse
from ottla.base.settings.security import check_unguarded
from ottla.base.settings.values import BrokerValues

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK = " \t\f"
_FOR_PLUG_INS = ("config.providers.", "rsm.config.", "rlmm.config.")


def parse_properties(text: str) -> dict[str, str]:
    """Name and value of every line of a `.properties` text; the last of two equal names counts."""
    values: dict[str, str] = {}
    for line in _logical_lines(text):
        name, value = _split(line)
        values[_unescape(name)] = _unescape(value)
    return values


def merge(values: Mapping[str, str], assignments: Iterable[str]) -> dict[str, str]:
    """The values with `name=value` assignments laid over them."""
    merged = dict(values)
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            raise InvalidSetting(f"A setting is given as name=value, not as {assignment!r}.")
        merged[name.strip()] = value
    return merged


def check_static(values: Mapping[str, str]) -> None:
    """Every name known, every value possible, alone and together; InvalidSetting says what to change."""
    for name, text in values.items():
        setting = find_broker_setting(name)
        if setting is not None:
            parse(setting, text)
        elif not name.startswith(_FOR_PLUG_INS):
            raise InvalidSetting(_unknown(name))
    if values.get("authorizer.class.name", "").strip():
        # Taking it silently would leave a broker open that its owner believes to be guarded.
        raise InvalidSetting("This version cannot authorize: remove authorizer.class.name.")
    check_unguarded(values)
    if values.get("remote.log.storage.system.enable", "false").strip().lower() == "true":
        raise InvalidSetting("Tiered storage is not offered: remove remote.log.storage.system.enable.")
    check_broker_together(BrokerValues(values))


def _unknown(name: str) -> str:
    import difflib  # only when something is wrong anyway

    near = difflib.get_close_matches(name, BROKER_SETTINGS, n=1, cutoff=0.75)
    return f"There is no setting {name!r}" + (f"; did you mean {near[0]!r}?" if near else ".")


def _logical_lines(text: str) -> Iterable[str]:
    """Lines without comments and blank ones, those that end in a backslash joined with the next."""
    pending: str | None = None
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = line.lstrip(_BLANK)
        if pending is None:
            if not line or line[0] in "#!":
                continue
            pending = ""
        pending += line
        if _ends_open(pending):
            pending = pending[:-1]
            continue
        yield pending
        pending = None
    if pending:
        yield pending


def _ends_open(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """The name ends at the first bare `=`, `:` or blank; one `=` or `:` may follow the blanks."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANK:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return line[:end], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    index = 0
    while index < len(text):
        letter = text[index]
        index += 1
        if letter != "\\" or index == len(text):
            parts.append(letter)
            continue
        letter = text[index]
        index += 1
        if letter == "u":
            digits = text[index : index + 4]
            if len(digits) < 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                raise InvalidSetting(f"\\u is followed by four hexadecimal digits, not by {digits!r}.")
            parts.append(chr(int(digits, 16)))
            index += 4
        else:
            parts.append(_ESCAPES.get(letter, letter))
    return "".join(parts)
