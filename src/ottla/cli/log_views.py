"""What `ottla log verify` shows, made from what was found.

Owns: the rows, the verdict and the JSON document. Never knows: files, printing. Pure functions of values.
"""

from typing import Any

from ottla.cli.output import Column, Table, size_text
from ottla.log.verify import Finding, Report

DAMAGE, LEFTOVER = "damage", "leftover"


def findings_table(report: Report) -> Table:
    """Damage first."""
    columns = [Column("FILE"), Column("POSITION", True), Column("KIND", good=frozenset({LEFTOVER})), Column("PROBLEM")]
    rows = [
        [
            finding.file,
            "-" if finding.position is None else str(finding.position),
            LEFTOVER if finding.repaired else DAMAGE,
            finding.problem,
        ]
        for finding in (*report.damage, *report.leftovers)
    ]
    return Table(columns, rows)


def verdict(path: str, report: Report, seconds: float) -> str:
    """One sentence."""
    looked = [
        _count(report.logs, "log"),
        _count(report.segments, "segment"),
        _count(report.batches, "batch", "batches"),
        *([_count(report.records, "record")] if report.records else []),
    ]
    found = f"{_count(len(report.damage), 'problem')}: it is damaged" if report.damage else "all of it is whole"
    left = len(report.leftovers)
    mended = f"; {_count(left, 'leftover')} of a crash that the next start repairs" if left else ""
    return f"{path}: {', '.join(looked)}, {size_text(report.bytes)} in {seconds:.1f} s; {found}{mended}"


def report_json(path: str, report: Report) -> dict[str, Any]:
    return {
        "directory": path,
        "logs": report.logs,
        "segments": report.segments,
        "batches": report.batches,
        "records": report.records,
        "bytes": report.bytes,
        "whole": not report.damage,
        "damage": [_finding_json(finding) for finding in report.damage],
        "leftovers": [_finding_json(finding) for finding in report.leftovers],
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {"file": finding.file, "position": finding.position, "problem": finding.problem}


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
