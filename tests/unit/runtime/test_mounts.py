"""Which file system holds a path, as it is attached now."""

import os
from pathlib import Path

import pytest

from ottla.runtime.world import mount_identity


def test_a_file_system_has_one_name_wherever_one_looks_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "folder"
    folder.mkdir(parents=True)
    assert mount_identity(str(folder)) == mount_identity(str(tmp_path)) != ""


def test_two_file_systems_have_two(tmp_path: Path) -> None:
    other = Path("/proc")
    if not other.exists() or os.stat(other).st_dev == os.stat(tmp_path).st_dev:
        pytest.skip("there is only one file system")
    assert mount_identity(str(other)) != mount_identity(str(tmp_path))


def test_what_is_not_there_has_none(tmp_path: Path) -> None:
    assert mount_identity(str(tmp_path / "nothing")) == ""
