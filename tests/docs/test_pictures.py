"""The pictures of docs/explanation can be drawn again, from a cluster of this version."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.pages import REPOSITORY
from kit.brokers.processes import free_ports

PAGES = REPOSITORY / "docs" / "explanation"
# What scripts/draw_pictures.py draws, and words that each of its pictures has.
TELLING = {
    "groups.svg": r"cleo leaves",
    "log.svg": r"00000000000000000000\.log +[\d,]+ bytes, \d+ batches",
    "quorum.svg": r"this node is the controller in epoch",
    "replication.svg": r"kill -9 of node \d",
}


def words(picture: Path) -> str:
    return " ".join(text for text in ElementTree.parse(picture).getroot().itertext())


@pytest.mark.timeout(900)
def test_all_pictures_are_drawn_from_a_running_cluster(tmp_path: Path) -> None:
    command = [sys.executable, str(REPOSITORY / "scripts" / "draw_pictures.py"), str(tmp_path), str(free_ports(3))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=840)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {picture.name for picture in tmp_path.iterdir()} == set(TELLING)
    for name, telling in TELLING.items():
        assert re.search(telling, words(tmp_path / name)), name


def test_every_picture_that_is_kept_is_shown_and_tells_its_story() -> None:
    shown = {name for page in PAGES.glob("*.md") for name in re.findall(r"\(pictures/([\w.]+)\)", page.read_text())}
    assert shown == {picture.name for picture in (PAGES / "pictures").iterdir()} >= set(TELLING)
    for name, telling in TELLING.items():
        assert re.search(telling, words(PAGES / "pictures" / name)), name
