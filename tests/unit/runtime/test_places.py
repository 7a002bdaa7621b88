"""Which file it is, and which file system holds it, as it is attached now."""

import os
import shutil
from pathlib import Path

import pytest

from ottla.runtime.world import place_identity


def test_a_file_has_one_name_by_every_path_as_long_as_nobody_changes_it(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    file = tmp_path / "file"
    file.touch()
    name = place_identity(str(file))
    assert name == place_identity(str(tmp_path / "folder" / ".." / "file")) != ""
    file.read_bytes()
    assert place_identity(str(file)) == name


def test_a_copy_has_another_name_whatever_was_kept_of_the_file(tmp_path: Path) -> None:
    file, copy = tmp_path / "file", tmp_path / "copy"
    file.touch()
    shutil.copy2(file, copy)
    assert place_identity(str(copy)) != place_identity(str(file))


def test_files_of_two_file_systems_have_two(tmp_path: Path) -> None:
    other = Path("/proc")
    if not other.exists() or os.stat(other).st_dev == os.stat(tmp_path).st_dev:
        pytest.skip("there is only one file system")
    assert place_identity(str(other)) != place_identity(str(tmp_path))


def test_what_is_not_there_has_none(tmp_path: Path) -> None:
    assert place_identity(str(tmp_path / "nothing")) == ""
