"""A disk that fails on order, laid under a broker process by LD_PRELOAD (see failing_disk.c)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kit.others.debian import program

SOURCE = Path(__file__).with_suffix(".c")


class FailingDisk:
    """Below `under`, writes fail between `fail` and `heal`, and reads after `fail_reads`. Give `environment` to the
    process that shall suffer."""

    def __init__(self, under: Path, work: Path) -> None:
        library = work / "failing_disk.so"
        self._order = work / "failing_disk.order"
        self._reads = work / "failing_disk.reads"
        subprocess.run([program("gcc"), "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE)], check=True)
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAILING_DISK_UNDER": str(under),
            "FAILING_DISK_ORDER": str(self._order),
            "FAILING_DISK_READS": str(self._reads),
        }

    def fail(self, number: int) -> None:
        """From now on writes fail with this error number."""
        _order(self._order, number)

    def fail_reads(self, number: int) -> None:
        """From now on nothing is in the page cache, and reading ahead fails with this error number."""
        _order(self._reads, number)

    def heal(self) -> None:
        self._order.unlink()


def _order(path: Path, number: int) -> None:
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(str(number))
    draft.rename(path)  # a half-written order would be another order
