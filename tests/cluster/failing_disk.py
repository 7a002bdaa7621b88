"""A disk that fails on order, laid under a broker process by LD_PRELOAD (see failing_disk.c)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.debian import program

SOURCE = Path(__file__).with_suffix(".c")


class FailingDisk:
    """Below `under`, writes fail between `fail` and `heal`. Give `environment` to the process that shall suffer."""

    def __init__(self, under: Path, work: Path) -> None:
        library = work / "failing_disk.so"
        self._order = work / "failing_disk.order"
        subprocess.run([program("gcc"), "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE)], check=True)
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAILING_DISK_UNDER": str(under),
            "FAILING_DISK_ORDER": str(self._order),
        }

    def fail(self, number: int) -> None:
        """From now on writes fail with this error number."""
        draft = self._order.with_suffix(".draft")
        draft.write_text(str(number))
        draft.rename(self._order)  # a half-written order would be another order

    def heal(self) -> None:
        self._order.unlink()
