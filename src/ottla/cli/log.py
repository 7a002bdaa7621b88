"""`ottla log …`: looking into the files of a log, without a running node.

Owns: the commands, their options, printing. Never knows: file formats; rows come from `ottla.log.dump`, findings from
`ottla.log.verify`, their layout from `log_views`.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.output import progress, say, show, show_json
from ottla.cli.session import AsJson, AsJsonLines

if TYPE_CHECKING:
    from ottla.log.dump import Row
    from ottla.log.verify import Report

app = typer.Typer(help="Look into log files and verify them, without a running node.", no_args_is_help=True)


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
    as_json: AsJsonLines = False,
) -> None:
    """Show what is in files of a log and verify checksums, offsets and index entries; exit code 1 when one is wrong.

    \b
    ottla log dump ottla-data/orders-0/00000000000000000000.log --records
    ottla log dump ottla-data/orders-0/*.index --json
    """
    from ottla.log.dump import UnreadableFile
    from ottla.log.dump import dump as rows_of
    from ottla.runtime.disk import RealDisk

    disk = RealDisk()
    line_of = _as_json if as_json else _as_text
    wrong = False
    for path in paths:
        try:
            for row in rows_of(disk, path, records=records):
                wrong = wrong or row.problem is not None
                print(line_of(row))
        except UnreadableFile as error:
            wrong = True
            typer.echo(str(error), err=True)
    if wrong:
        raise typer.Exit(1)


@app.command()
def verify(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="DIR…", help="Data directories of a node that is stopped, or directories of single logs."
        ),
    ],
    deep: Annotated[bool, typer.Option("--deep", help="Also decompress and decode every record.")] = False,
    as_json: AsJson = False,
) -> None:
    """Verify data directories: every batch, index, snapshot and checkpoint; exit code 1 when something is damaged.

    Nothing is changed. What a crash leaves behind and the next start repairs is told, but is no damage.

    \b
    ottla log verify ottla-data
    ottla log verify /srv/ottla/orders-0 --deep
    ottla log verify ottla-data --json | jq '.[].damage'
    """
    from ottla.cli.log_views import findings_table, report_json, verdict
    from ottla.runtime.world import RealClock

    damaged = False
    documents = []
    for path in paths:
        started = RealClock().monotonic()
        report = _verify(path, deep)
        damaged = damaged or bool(report.damage)
        if as_json:
            documents.append(report_json(path, report))
            continue
        if report.findings:
            show(findings_table(report))
            say("\n")
        say(verdict(path, report, RealClock().monotonic() - started) + "\n")
    if as_json:
        show_json(documents)
    if damaged:
        raise typer.Exit(1)


def _verify(path: str, deep: bool) -> "Report":
    import os

    from ottla.cli.failures import Failure
    from ottla.log.data_directory import in_use
    from ottla.log.verify import is_data_directory, total_bytes, verify
    from ottla.runtime.disk import RealDisk

    disk, whole = RealDisk(), os.path.abspath(path)
    try:
        directory = whole if is_data_directory(disk, whole) else os.path.dirname(whole)
        if in_use(disk, directory):
            raise Failure(f"{path} is in use by a node that runs; stop it first, or verify a copy")
        with progress("verifying", total_bytes(disk, whole), "B") as advance:
            report = verify(disk, whole, deep=deep, advance=advance)
    except OSError as problem:
        raise Failure(f"cannot read {problem.filename or path}: {problem.strerror}; name a data directory") from None
    if not report.logs:
        raise Failure(f"there is no log in {path}; name a data directory, as ./ottla-data, or that of one log in it")
    return report


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
