"""Writes `ottla/wire/messages` and `ottla/wire/stored` from Kafka's own message schemas.

The schemas are JSON files inside Kafka's jars (`common/message/*.json`, `common/metadata/*.json`); unpack the jars of
the wanted release into one folder and name it: `python scripts/generate_messages.py FOLDER`. The result is committed,
so neither users nor tests need the jars.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

RELEASE = "4.3.1"
PACKAGE = Path(__file__).resolve().parent.parent / "src" / "ottla" / "wire"
PYTHON = {
    "bool": "bool",
    "string": "str",
    "bytes": "ByteView",
    "records": "ByteView",
    "uuid": "bytes",
    "float64": "float",
}
ZERO = {"bool": "False", "string": '""', "bytes": 'b""', "records": 'b""', "uuid": "NO_ID", "float64": "0.0"}
STORED = {
    "group": ("group-coordinator", "the records of `__consumer_offsets`"),
    "transaction": ("transaction-coordinator", "the records of `__transaction_state`"),
    "metadata": ("metadata", "the records of `__cluster_metadata`"),
}
UNUSED_STORED = ("Share", "Streams", "Legacy")


def snake(name: str) -> str:
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def load(path: Path) -> dict[str, Any]:
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("//")]
    schema: dict[str, Any] = json.loads("\n".join(lines))
    return schema


def versions(text: str | None) -> tuple[int, int] | None:
    if not text or text == "none":
        return None
    if text.endswith("+"):
        return int(text[:-1]), 32767
    low, _, high = text.partition("-")
    return int(low), int(high or low)


class Module:
    """One generated file."""

    def __init__(self, about: str) -> None:
        self.about = about
        self.classes: dict[str, str] = {}
        self.sources: list[str] = []

    def unique(self, name: str, prefix: str) -> str:
        return f"{prefix}{name}" if name in self.classes else name

    def add_root(self, schema: dict[str, Any]) -> None:
        commons = {struct["name"]: struct for struct in schema.get("commonStructs", [])}
        names: dict[str, str] = {}
        prefix = {"response": "Response", "request": "Request"}.get(schema["type"], schema["name"])
        valid = versions(schema["validVersions"]) or (0, -1)
        flexible = versions(schema.get("flexibleVersions"))
        constants = [
            f"    KEY = {schema.get('apiKey', -1)}",
            f"    VERSIONS = {valid}",
            f"    FLEXIBLE_FROM = {flexible[0] if flexible else 'LATEST + 1'}",
        ]
        self.add(schema["name"], schema["fields"], "Root", constants, (commons, names, prefix))

    def add(
        self,
        class_name: str,
        fields: list[dict[str, Any]],
        base: str,
        constants: list[str],
        context: tuple[dict[str, Any], dict[str, str], str],
    ) -> None:
        described = [self.describe(field, context) for field in fields]
        self.classes[class_name] = class_name
        lines = [f"class {class_name}({base}):"]
        lines.append(f"    __slots__ = ({''.join(repr(d['name']) + ', ' for d in described)})".replace(", )", ",)"))
        lines += constants
        lines.append(f"    FIELDS = ({''.join(d['field'] + ', ' for d in described)})".replace(", )", ",)"))
        lines.append("")
        if described:
            lines.append("    def __init__(")
            lines.append("        self,")
            lines += [f"        {d['name']}: {d['type']} = {d['default']}," for d in described]
            lines.append("    ) -> None:")
            lines += [f"        self.{d['name']}{d['slot']} = {d['value']}" for d in described]
        else:
            lines = [line for line in lines if line]
        self.sources.append("\n".join(lines))

    def struct(self, field: dict[str, Any], name: str, context: tuple[dict[str, Any], dict[str, str], str]) -> str:
        commons, names, prefix = context
        if name in names:
            return names[name]
        class_name = self.unique(name, prefix)
        names[name] = class_name
        fields = field.get("fields") or commons[name]["fields"]
        self.add(class_name, fields, "Message", [], context)
        return class_name

    def describe(self, field: dict[str, Any], context: tuple[dict[str, Any], dict[str, str], str]) -> dict[str, str]:
        name = snake(field["name"])
        name = {"from": "from_", "global": "global_"}.get(name, name)
        kind = field["type"]
        array = kind.startswith("[]")
        kind = kind.removeprefix("[]")
        # Where only tagged versions are named, the field is in no others.
        first, last = versions(field.get("versions", field.get("taggedVersions", "0+"))) or (0, -1)
        nullable = versions(field.get("nullableVersions"))
        default = field.get("default")
        is_struct = kind[0].isupper()
        python_kind = self.struct(field, kind, context) if is_struct else PYTHON.get(kind, "int")
        code = python_kind if is_struct else repr(kind)
        if array:
            python_type, python_default = f"Sequence[{python_kind}]", "()"
            if default == "null":
                python_default = "None"
        elif is_struct:
            python_type, python_default = f"{python_kind} | None", "None"
        else:
            python_type, python_default = python_kind, self.literal(kind, default)
        if (nullable or python_default == "None") and not python_type.endswith("| None"):
            python_type += " | None"
        value = name
        slot = ""
        if is_struct and not array and not nullable:
            value = f"{python_kind}() if {name} is None else {name}"
            slot = f": {python_kind}"
        parts = [repr(name), code]
        if array:
            parts.append("array=True")
        if first:
            parts.append(f"first={first}")
        if last != 32767:
            parts.append(f"last={last}")
        if nullable:
            parts.append(f"null_from={nullable[0]}")
        if "tag" in field:
            tagged = versions(field["taggedVersions"]) or (0, -1)
            parts.append(f"tag={field['tag']}")
            if tagged[0]:
                parts.append(f"tag_from={tagged[0]}")
        if python_default != "None":
            parts.append(f"default={python_default}")
        if field.get("flexibleVersions") == "none":
            parts.append("legacy=True")
        return {
            "name": name,
            "field": f"Field({', '.join(parts)})",
            "type": python_type,
            "default": python_default,
            "value": value,
            "slot": slot,
        }

    def literal(self, kind: str, default: Any) -> str:
        if default is None or default == "":
            return ZERO.get(kind, "0")
        if default == "null":
            return "None"
        text = str(default)
        if kind == "bool":
            return "True" if text.lower() == "true" else "False"
        if kind == "string":
            return json.dumps(text)
        if kind == "uuid":
            return ZERO["uuid"]
        return str(int(text, 0)) if kind != "float64" else str(float(text))

    def text(self) -> str:
        body = "\n\n\n".join(self.sources)
        head = [f'"""{self.about} Generated from Kafka {RELEASE}\'s schemas by scripts/generate_messages.py."""', ""]
        if "Sequence[" in body:
            head += ["from collections.abc import Sequence", ""]
        if "NO_ID" in body:
            head.append("from ottla.base.vocabulary import NO_TOPIC_ID as NO_ID")
        if "ByteView" in body:
            head.append("from ottla.base.ports import ByteView")
        names = sorted(name for name in ("Field", "LATEST", "Message", "Root") if re.search(rf"\b{name}\b", body))
        head.append(f"from ottla.wire.schema import {', '.join(names)}")
        return "\n".join(head) + "\n\n\n" + body + "\n"


def main(folder: Path) -> None:
    schemas = [load(path) for path in sorted((folder / "clients").rglob("*.json"))]
    apis: dict[str, list[dict[str, Any]]] = {}
    other: list[dict[str, Any]] = []
    for schema in schemas:
        if schema["type"] in ("request", "response"):
            apis.setdefault(re.sub("(Request|Response)$", "", schema["name"]), []).append(schema)
        else:
            other.append(schema)
    (PACKAGE / "messages").mkdir(exist_ok=True)
    (PACKAGE / "stored").mkdir(exist_ok=True)
    index: list[tuple[int, str, str, int, int, int]] = []
    for api, pair in apis.items():
        pair.sort(key=lambda schema: str(schema["type"]))
        valid = versions(pair[0]["validVersions"])
        if valid is None:
            continue
        module = Module(f"{api}: request and response.")
        for schema in pair:
            module.add_root(schema)
        (PACKAGE / "messages" / f"{snake(api)}.py").write_text(module.text())
        flexible = versions(pair[0].get("flexibleVersions"))
        index.append((pair[0]["apiKey"], api, snake(api), *valid, flexible[0] if flexible else 32768))
    header = Module("Request and response headers.")
    for schema in other:
        if schema["type"] == "header":
            header.add_root(schema)
    (PACKAGE / "messages" / "header.py").write_text(header.text())
    for name, (source, about) in STORED.items():
        module = Module(f"{about[0].upper()}{about[1:]}.")
        for path in sorted((folder / source).rglob("*.json")):
            schema = load(path)
            if not schema["name"].startswith(UNUSED_STORED):
                module.add_root(schema)
        (PACKAGE / "stored" / f"{name}.py").write_text(module.text())
    about = "key, name, module, first version, last version, first flexible version"
    lines = [f'"""Every API of Kafka {RELEASE}: {about}. Generated by scripts/generate_messages.py."""', ""]
    lines.append("APIS: tuple[tuple[int, str, str, int, int, int], ...] = (")
    lines += [f"    {row!r}," for row in sorted(index)]
    lines.append(")")
    (PACKAGE / "messages" / "__init__.py").write_text("\n".join(lines) + "\n")
    (PACKAGE / "stored" / "__init__.py").write_text('"""Messages that Kafka stores in logs and files."""\n')


if __name__ == "__main__":
    main(Path(sys.argv[1]))
