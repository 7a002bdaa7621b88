"""An answer that says of everything asked for that it failed.

Owns: where the error stands in the answer of each API. Never knows: why it fails. Invariants: an answer has a place for
the error or there is none at all; where an answer has no error of its own, each element that was asked about gets one.
"""

from typing import Any

from ottla.base.errors import ErrorCode
from ottla.wire.apis import FETCH
from ottla.wire.schema import Field, Message, Root

_ERRORS = ("error_code", "partition_error_code")
_SAME = (
    ("partition_index", "partition", "index"),
    ("name", "topic", "topic_name"),
    ("group_id", "group", "key"),
)
"""Names under which questions and answers speak of the same thing."""


def failed_answer(request: Root, kind: type[Root], version: int, error: ErrorCode) -> Root | None:
    """What a broker answers to `request` when all of it failed, or None where no answer can say so."""
    answer = kind()
    # Clients give up a whole session for an error of the answer to Fetch, which other errors do not mean.
    if _has_error(kind, version) and not (kind.KEY == FETCH and request.topics):  # type: ignore[attr-defined]
        answer.error_code = int(error)  # type: ignore[attr-defined]
        return answer
    return answer if _fill(answer, request, version, error) else None


def _has_error(kind: type[Message], version: int) -> bool:
    return any(field.name in _ERRORS for field in _fields(kind, version))


def _fields(kind: type[Message], version: int) -> list[Field]:
    return [field for field in kind.FIELDS if field.first <= version <= field.last]


def _fill(answer: Message, request: Message, version: int, error: ErrorCode) -> bool:
    """Whether any element of the answer could be given the error."""
    for field in _fields(type(answer), version):
        kind = field.kind
        if not field.array or isinstance(kind, str) or not _can_fail(kind, version):
            continue
        made = [_element(kind, asked, version, error) for asked in _asked(request, version)]
        setattr(answer, field.name, made)
        return bool(made)
    return False


def _can_fail(kind: type[Message], version: int) -> bool:
    return any(
        field.name in _ERRORS or (field.array and not isinstance(field.kind, str) and _can_fail(field.kind, version))
        for field in _fields(kind, version)
    )


def _asked(request: Message, version: int) -> list[Any]:
    """The things a request lists: messages, or plain names and numbers."""
    for field in _fields(type(request), version):
        if field.array:
            return list(getattr(request, field.name) or ())
    return []


def _element(kind: type[Message], asked: Any, version: int, error: ErrorCode) -> Message:
    made = kind()
    fields = _fields(kind, version)
    for field in fields:
        if field.name in _ERRORS:
            setattr(made, field.name, int(error))
        elif not field.array and isinstance(asked, Message):
            for name in _names(field.name):
                if hasattr(asked, name):
                    setattr(made, field.name, getattr(asked, name))
                    break
    if not isinstance(asked, Message):
        first = next(field for field in fields if field.name not in _ERRORS and field.kind in _kinds_of(asked))
        setattr(made, first.name, asked)
    elif not _has_error(kind, version):
        _fill(made, asked, version, error)
    return made


def _names(name: str) -> tuple[str, ...]:
    return next((names for names in _SAME if name in names), (name,))


def _kinds_of(asked: Any) -> tuple[str, ...]:
    if isinstance(asked, str):
        return ("string",)
    return ("uuid", "bytes") if isinstance(asked, bytes) else ("int32", "int64")
