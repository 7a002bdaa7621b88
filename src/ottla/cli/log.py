"""`ottla log …`: looking into the files of a log, without a running node.

Owns: printing. Never knows: file formats; the rows come from `ottla.log.dump`.
"""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ottla.log.dump import Row

app = typer.Typer(help="Look into log files.", no_args_is_help=True)


@app.callback()
def log() -> None:
    """Look into log files."""


@app.command()
def dump(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE…",
            help="A .log, .index, .timeindex, .txnindex, .snapshot or .checkpoint file, or leader-epoch-checkpoint.",
        ),
    ],
    records: Annotated[bool, typer.Option("--records", help="Show each record: key, value and headers.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")] = False,
) -> None:
    """Show what is in files of a log and verify checksums, offsets and index entries; exit code 1 when one is wrong."""
    from ottla.log.dump import UnreadableFile
    from ottla.log.dump import dump as rows_of
    from ottla.runtime.disk import RealDisk

    disk = RealDisk()
    show = _as_json if as_json else _as_text
    wrong = False
    for path in paths:
        try:
            for row in rows_of(disk, path, records=records):
                wrong = wrong or row.problem is not None
                print(show(row))
        except UnreadableFile as error:
            wrong = True
            typer.echo(str(error), err=True)
    if wrong:
        raise typer.Exit(1)


def _as_text(row: "Row") -> str:
    """A row for people."""
    if row.kind == "verdict":
        fields = dict(row.fields)
        path, problems = fields.pop("file"), fields.pop("problems")
        counts = ", ".join(f"{number} {kind}" for kind, number in fields.items()) or "nothing in it"
        return f"{path}: {counts}; {f'{problems} problems' if problems else 'all of it verified'}"
    text = "  ".join(f"{name}={_value(value)}" for name, value in row.fields.items())
    indent = "  " if row.kind == "record" else ""
    problem = f"  PROBLEM: {row.problem}" if row.problem else ""
    return f"{indent}{row.kind}  {text}{problem}"


def _value(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_value(content)}" for name, content in value.items()) + "}"
    return str(value)


def _as_json(row: "Row") -> str:
    """A row for programs."""
    import json

    fields = {"kind": row.kind, **row.fields}
    if row.problem is not None:
        fields["problem"] = row.problem
    return json.dumps(fields, ensure_ascii=False)
