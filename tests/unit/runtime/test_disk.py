"""The machine's own files behind the port."""

import errno
import os
from pathlib import Path

import pytest

from ottla.runtime.disk import RealDisk


def test_syncing_a_closed_file_is_an_error_of_the_file(tmp_path: Path) -> None:
    file = RealDisk().open(str(tmp_path / "file"), create=True)
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor") as failure:
        file.sync()
    assert failure.value.errno == errno.EBADF


def test_a_file_being_closed_has_no_descriptor_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealDisk().open(str(tmp_path / "file"), create=True)
    close, seen = os.close, []

    def watched(descriptor: int) -> None:
        seen.append(file.fileno())
        close(descriptor)

    monkeypatch.setattr(os, "close", watched)
    file.close()
    assert seen == [-1]


def test_a_name_that_cannot_be_looked_up_is_not_taken_for_absent(tmp_path: Path) -> None:
    disk = RealDisk()
    assert not disk.exists(str(tmp_path / "nobody"))
    (tmp_path / "file").write_bytes(b"")
    assert not disk.exists(str(tmp_path / "file" / "below"))
    with pytest.raises(OSError, match="too long"):
        disk.exists(str(tmp_path / ("x" * 300)))
