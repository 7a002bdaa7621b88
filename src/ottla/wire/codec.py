"""Messages to bytes and back, for any version, by functions compiled from the message's fields on first use.

Owns: the order and the shape of a message's fields in a version. Never knows: which API a message belongs to, sockets,
frames. Invariants: bad bytes give `MalformedMessage` and nothing else; no count or length taken from the wire makes a
reader allocate more than the bytes that are really there.

Consecutive fields of fixed size become one `struct` call, which is what makes a compiled reader several times faster
than one that walks the description.
"""

from collections.abc import Callable, Generator, Iterator
from struct import Struct, pack, unpack_from
from struct import error as StructError
from typing import Any, TypeVar

from ottla.base.ports import ByteView
from ottla.wire.primitives import (
    FIXED,
    READERS,
    WRITERS,
    Reader,
    non_null,
    read_compact_count,
    read_count,
    read_tag_count,
    read_varint,
    skip_tags,
    take_slice,
    write_compact_count,
    write_count,
    write_varint,
)
from ottla.wire.primitives import MalformedMessage as MalformedMessage
from ottla.wire.schema import LATEST, Encoded, Field, Message, Root

Writer = Callable[[bytearray, Any], None]
Stepper = Callable[[bytearray, Any], Iterator[None]]
SteppedReader = Callable[[memoryview, int], Generator[None, None, tuple[Any, int]]]
PORTION = 256
"""Values of one size that are read in one step."""
PART_BYTES = 256 * 1024
"""What is written in steps comes in parts of this size or a little more."""
M = TypeVar("M", bound=Message)
R = TypeVar("R", bound=Root)


def decode(kind: type[R], version: int, data: ByteView, position: int = 0) -> tuple[R, int]:
    """Read one message; returns it and the position behind it."""
    view = data if isinstance(data, memoryview) else memoryview(data)
    try:
        return reader(kind, version, version >= kind.FLEXIBLE_FROM)(view, position)
    except (StructError, UnicodeDecodeError, OverflowError) as problem:
        raise MalformedMessage(f"{kind.__name__} v{version}: {problem}") from None


def decode_in_steps(kind: type[R], version: int, data: ByteView, position: int = 0) -> Generator[None, None, R]:
    """The same message, its value in the end: pauses after each element of its arrays (of values of one size, after
    some hundred), so that a long request can be read between other work."""
    view = data if isinstance(data, memoryview) else memoryview(data)
    try:
        message: R
        message, _ = yield from stepped_reader(kind, version, version >= kind.FLEXIBLE_FROM)(view, position)
        return message
    except (StructError, UnicodeDecodeError, OverflowError) as problem:
        raise MalformedMessage(f"{kind.__name__} v{version}: {problem}") from None


def encode(message: Root, version: int) -> bytearray:
    """The bytes of one message."""
    out = bytearray()
    write(out, message, version)
    return out


def write(out: bytearray, message: Root, version: int) -> None:
    """Add the bytes of one message to a buffer."""
    kind = type(message)
    writer(kind, version, version >= kind.FLEXIBLE_FROM)(out, message)


def encode_in_steps(message: Root, version: int) -> Generator[None, None, list[bytes]]:
    """The same bytes in parts, as the value in the end: pauses after each element of the message's arrays, so that a
    long answer can be written between other work. One growing buffer would be copied whole now and then."""
    parts: list[bytes] = []
    out = bytearray()
    kind = type(message)
    for _ in stepper(kind, version, version >= kind.FLEXIBLE_FROM)(out, message):
        if len(out) >= PART_BYTES:
            parts.append(bytes(out))
            out.clear()
        yield
    parts.append(bytes(out))
    return parts


# --- compiling -------------------------------------------------------------------------------------------------------


# One class for all versions, compiled here, where a library has one for each: design/0001.
def reader(kind: type[Message], version: int, flexible: bool) -> Reader:
    """The compiled reader of one version."""
    found: Reader = _readers[kind, version, flexible]
    return found


def stepped_reader(kind: type[Message], version: int, flexible: bool) -> SteppedReader:
    """The compiled reader of one version as a generator that pauses within its arrays."""
    found: SteppedReader = _stepped_readers[kind, version, flexible]
    return found


def writer(kind: type[Message], version: int, flexible: bool) -> Writer:
    """The compiled writer of one version."""
    found: Writer = _writers[kind, version, flexible]
    return found


def stepper(kind: type[Message], version: int, flexible: bool) -> Stepper:
    """The compiled writer of one version as a generator that pauses after each element of its arrays."""
    found: Stepper = _steppers[kind, version, flexible]
    return found


def _split(kind: type[Message], version: int) -> tuple[list[Field], list[Field]]:
    plain: list[Field] = []
    tagged: list[Field] = []
    for field in kind.FIELDS:
        if field.first <= version <= field.last:
            (tagged if field.tag >= 0 and version >= field.tag_from else plain).append(field)
    return plain, sorted(tagged, key=lambda field: field.tag)


class _Source:
    """Lines of a function being written, and the names it uses; `stepped` makes it a generator."""

    def __init__(self, kind: type[Message], version: int, flexible: bool, stepped: bool = False) -> None:
        self.kind = kind
        self.version = version
        self.flexible = flexible
        self.stepped = stepped
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "kind": kind,
            "varint": read_varint,
            "tag_count": read_tag_count,
            "slice_": take_slice,
            "non_null": non_null,
        }

    def name(self, prefix: str, value: Any) -> str:
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def nullable(self, field: Field) -> bool:
        return self.version >= field.null_from

    def compact(self, field: Field) -> bool:
        return self.flexible and not field.legacy

    def finish(self, head: str) -> Any:
        source = "\n".join([head, *("    " + line for line in self.lines)])
        exec(compile(source, f"<{self.kind.__name__} v{self.version}>", "exec"), self.names)
        return self.names["function"]


class _ReaderSource(_Source):
    """Writes a function (view, position) -> (message, position)."""

    def compile(self) -> Any:
        plain, tagged = _split(self.kind, self.version)
        run: list[Field] = []
        for field in plain:
            if field.kind in FIXED and not field.array:
                run.append(field)
                continue
            self.fixed(run)
            self.field(field, f"v_{field.name}", "")
        self.fixed(run)
        arguments = [f"{field.name}=v_{field.name}" for field in plain]
        if self.flexible and tagged:
            self.tags(tagged)
            arguments.append("**tags")
        elif self.flexible:
            self.lines.append(f"p = {self.name('skip', skip_tags)}(b, p) if b[p:p + 1] != b'\\0' else p + 1")
        self.lines.append(f"return kind({', '.join(arguments)}), p")
        if self.stepped:
            self.lines.append("yield")
        return self.finish("def function(b, p):")

    def fixed(self, run: list[Field]) -> None:
        if not run:
            return
        layout = Struct(">" + "".join(FIXED[str(field.kind)][0] for field in run))
        targets = ", ".join(f"v_{field.name}" for field in run)
        self.lines.append(f"{targets}, = {self.name('s', layout.unpack_from)}(b, p); p += {layout.size}")
        run.clear()

    def value(self, field: Field, target: str) -> str:
        """An assignment of one non-array value and the new position."""
        kind = field.kind
        if isinstance(kind, str):
            if kind in FIXED:
                layout = Struct(">" + FIXED[kind][0])
                return f"({target},) = {self.name('s', layout.unpack_from)}(b, p); p += {layout.size}"
            return f"{target}, p = {self.name('r', READERS[kind, self.compact(field)])}(b, p)"
        if self.stepped:
            return f"{target}, p = yield from {self.name('g', stepped_reader(kind, self.version, self.flexible))}(b, p)"
        return f"{target}, p = {self.name('r', reader(kind, self.version, self.flexible))}(b, p)"

    def field(self, field: Field, target: str, indent: str) -> None:
        add = self.lines.append
        nullable = self.nullable(field)
        if not field.array:
            if not isinstance(field.kind, str) and nullable:
                marker = self.name("s", Struct(">b").unpack_from)
                add(f"{indent}({target}_mark,) = {marker}(b, p); p += 1")
                add(f"{indent}{target} = None")
                # Where it is tagged the marker is a count, so that 0 stands for null.
                add(f"{indent}if {target}_mark >= {0 if field.tag < 0 else 1}:")
                add(f"{indent}    {self.value(field, target)}")
                return
            add(indent + self.value(field, target))
            if isinstance(field.kind, str) and field.kind not in FIXED and not nullable:
                add(f"{indent}if {target} is None: non_null({target})")
            return
        count = self.name("n", read_compact_count if self.flexible else read_count)
        add(f"{indent}n, p = {count}(b, p)")
        add(f"{indent}if n < 0:")
        add(f"{indent}    {target} = None" if nullable else f"{indent}    non_null(None)")
        add(f"{indent}else:")
        if isinstance(field.kind, str) and field.kind in FIXED:
            self.fixed_array(field.kind, target, indent)
            return
        add(f"{indent}    {target} = []")
        add(f"{indent}    for _ in range(n):")
        add(f"{indent}        {self.value(field, 'x')}")
        if self.stepped:
            add(f"{indent}        yield")
        if isinstance(field.kind, str):
            add(f"{indent}        if x is None: non_null(x)")
        add(f"{indent}        {target}.append(x)")

    def fixed_array(self, kind: str, target: str, indent: str) -> None:
        """`n` values of one size, at once or, where that is asked for, a portion at a time."""
        add = self.lines.append
        code, size = FIXED[kind]
        add(f"{indent}    slice_(b, p, n * {size})")
        if kind == "uuid":
            some = "[bytes(b[r:r + 16]) for r in range(p, p + k * 16, 16)]"
        else:
            some = f"{self.name('u', unpack_from)}(f'>{{k}}{code}', b, p)"
        if not self.stepped:
            add(f"{indent}    k = n; {target} = list({some})")
            add(f"{indent}    p += n * {size}")
            return
        add(f"{indent}    {target} = []")
        add(f"{indent}    for q in range(0, n, {PORTION}):")
        add(f"{indent}        k = min({PORTION}, n - q); {target} += {some}; p += k * {size}")
        add(f"{indent}        yield")

    def tags(self, tagged: list[Field]) -> None:
        add = self.lines.append
        add("tags = {}")
        add("t, p = tag_count(b, p)")
        add("for _ in range(t):")
        add("    tag, p = varint(b, p)")
        add("    size, p = varint(b, p)")
        add("    slice_(b, p, size)")
        add("    after = p + size")
        for position, field in enumerate(tagged):
            add(f"    {'if' if position == 0 else 'elif'} tag == {field.tag}:")
            self.field(field, "value", "        ")
            add(f"        tags['{field.name}'] = value")
        add("    p = after")
        for field in tagged:
            if _has_default_struct(field):
                add(f"tags.setdefault('{field.name}', {self.name('d', field.kind)}())")


class _WriterSource(_Source):
    """Writes a function (buffer, message) that appends."""

    def compile(self) -> Any:
        plain, tagged = _split(self.kind, self.version)
        self.names["write_varint"] = write_varint
        run: list[Field] = []
        for field in plain:
            if field.kind in FIXED and not field.array:
                run.append(field)
                continue
            self.fixed(run)
            self.field(field, f"m.{field.name}", "", "o")
        self.fixed(run)
        if self.flexible and tagged:
            self.tags(tagged)
        elif self.flexible:
            self.lines.append("o.append(0)")
        self.lines.append("return")
        if self.stepped:
            self.lines.append("yield")
        return self.finish("def function(o, m):")

    def fixed(self, run: list[Field]) -> None:
        if not run:
            return
        layout = Struct(">" + "".join(FIXED[str(field.kind)][0] for field in run))
        values = ", ".join(f"m.{field.name}" for field in run)
        self.lines.append(f"o += {self.name('s', layout.pack)}({values})")
        run.clear()

    def value(self, field: Field, source: str, out: str) -> str:
        kind = field.kind
        if isinstance(kind, str):
            if kind in FIXED:
                return f"{out} += {self.name('s', Struct('>' + FIXED[kind][0]).pack)}({source})"
            return f"{self.name('w', WRITERS[kind, self.compact(field)])}({out}, {source})"
        return f"{self.name('w', writer(kind, self.version, self.flexible))}({out}, {source})"

    def field(self, field: Field, source: str, indent: str, out: str) -> None:
        add = self.lines.append
        nullable = self.nullable(field)
        if not field.array:
            if not isinstance(field.kind, str) and nullable:
                add(f"{indent}if {source} is None: {out}.append({255 if field.tag < 0 else 0})")
                add(f"{indent}else:")
                add(f"{indent}    {out}.append(1)")
                add(f"{indent}    {self.value(field, source, out)}")
                return
            if isinstance(field.kind, str) and field.kind not in FIXED and not nullable:
                # A null here would be read as garbage by every client: fail in the broker, where it can be found.
                add(f"{indent}assert {source} is not None, '{self.kind.__name__}.{field.name}'")
            add(indent + self.value(field, source, out))
            return
        count = self.name("n", write_compact_count if self.flexible else write_count)
        add(f"{indent}a = {source}")
        add(f"{indent}if a is None:")
        if nullable:
            add(f"{indent}    {count}({out}, -1)")
        else:
            add(f"{indent}    {count}({out}, 0)")
        add(f"{indent}else:")
        add(f"{indent}    {count}({out}, len(a))")
        if isinstance(field.kind, str) and field.kind in FIXED and field.kind != "uuid":
            add(f"{indent}    {out} += {self.name('k', pack)}(f'>{{len(a)}}{FIXED[field.kind][0]}', *a)")
        else:
            add(f"{indent}    for x in a:")
            if self.stepped and not isinstance(field.kind, str):
                nested = self.name("g", stepper(field.kind, self.version, self.flexible))
                add(f"{indent}        if type(x) is {self.name('e', Encoded)}: {out} += x.data")
                add(f"{indent}        else: yield from {nested}({out}, x)")
                add(f"{indent}        yield")
            else:
                add(f"{indent}        {self.value(field, 'x', out)}")
                if self.stepped:
                    add(f"{indent}        yield")

    def tags(self, tagged: list[Field]) -> None:
        add = self.lines.append
        add("tags = []")
        for field in tagged:
            if field.array:
                add(f"if m.{field.name} is not None:" if field.default is None else f"if m.{field.name}:")
            else:
                add(f"if m.{field.name} != {self.name('d', _default(field))}:")
            add("    part = bytearray()")
            self.field(field, f"m.{field.name}", "    ", "part")
            add(f"    tags.append(({field.tag}, part))")
        add("write_varint(o, len(tags))")
        add("for tag, part in tags:")
        add("    write_varint(o, tag); write_varint(o, len(part)); o += part")


def _default(field: Field) -> Any:
    if not isinstance(field.kind, str) and (field.null_from > LATEST or _has_default_struct(field)):
        return field.kind()
    return field.default


def _has_default_struct(field: Field) -> bool:
    """Whether leaving a tag out means a structure of defaults: Kafka says so even where it can be null."""
    struct = not isinstance(field.kind, str) and not field.array
    return struct and field.tag >= 0 and field.null_from <= LATEST


class _Compiled(dict[tuple[type[Message], int, bool], Any]):
    """Functions of one form, each compiled when it is first asked for."""

    def __init__(self, source: type[_ReaderSource] | type[_WriterSource], stepped: bool) -> None:
        super().__init__()
        self._source = source
        self._stepped = stepped

    def __missing__(self, key: tuple[type[Message], int, bool]) -> Any:
        made = self[key] = self._source(*key, self._stepped).compile()
        return made


_readers = _Compiled(_ReaderSource, stepped=False)
_stepped_readers = _Compiled(_ReaderSource, stepped=True)
_writers = _Compiled(_WriterSource, stepped=False)
_steppers = _Compiled(_WriterSource, stepped=True)
