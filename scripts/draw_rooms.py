"""Draws the rooms of the code for docs/architecture.md, from what the code says of itself.

The rows are the layers that import-linter holds (pyproject.toml); below the name of a room that has an event loop stand
the pure machines that it drives. Run it after a room was added or moved: `.venv/bin/python -m scripts.draw_rooms`.
"""

import sys
import tomllib
from pathlib import Path

from scripts.draw_pictures import GRID, INK, PALE, WIDTH, Drawing

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE = REPOSITORY / "src" / "ottla"
PICTURE = REPOSITORY / "docs" / "pictures" / "rooms.svg"
PURE_WALL = "pure rooms"
DRIVES = {
    "controller": ("metadata",),
    "coordinator": ("groups", "transactions"),
    "replicas": ("replication",),
    "quorum": ("raft",),
}
"""Which machines run in which room."""
TWINS = {"zookeeper": "quorum"}
"""Rooms that take another's place."""
LEFT, TOP, ROW, BOX = 20.0, 50.0, 46.0, 38.0
FILLS = {"pure": "#b2dfdb", "driver": "#ffe0b2", "other": GRID}
LEGEND = (("pure", "pure machines and values"), ("driver", "drives machines"), ("other", "everything else"))


def contracts() -> list[dict[str, list[str]]]:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    return list(settings["tool"]["importlinter"]["contracts"])


def layers() -> list[list[str]]:
    """Rooms from the top to the bottom, as import-linter has them; those that are yet to be built are left out."""
    (rows,) = [each["layers"] for each in contracts() if "layers" in each]
    named = [[room.strip(" ()") for room in row.split("|")] for row in rows]
    built = [[room for room in row if (SOURCE / room).exists() or (SOURCE / f"{room}.py").exists()] for row in named]
    return [row for row in built if row]


def pure_rooms() -> set[str]:
    (wall,) = [each for each in contracts() if str(each["name"]).startswith(PURE_WALL)]
    return {room.removeprefix("ottla.") for room in wall["source_modules"]}


def role_of(room: str) -> str:
    """What stands below a room's name. A machine that the room does not import is not driven there."""
    if room in TWINS:
        return f"in the place of {TWINS[room]}"
    machines = DRIVES.get(room, ())
    texts = [path.read_text() for path in sorted((SOURCE / room).rglob("*.py"))]
    for machine in machines:
        assert any(f"from ottla.{machine}" in text for text in texts), f"{room} does not drive {machine}"
    return f"drives {' and '.join(machines)}" if machines else ""


def draw(path: Path) -> None:
    rows, pure = layers(), pure_rooms()
    drawing = Drawing(int(TOP + ROW * len(rows) + 36), "The rooms of ottla: imports go downwards only")
    drawing.text(LEFT, 26, "Imports go downwards only; rooms on one line do not know each other.", INK, 14)
    for number, row in enumerate(rows):
        width = (WIDTH - 2 * LEFT - 12 * (len(row) - 1)) / len(row)
        top = TOP + number * ROW
        for place, room in enumerate(row):
            x = LEFT + place * (width + 12)
            role = role_of(room)
            kind = "pure" if room in pure else "driver" if role else "other"
            drawing.box(x, top, width, BOX, FILLS[kind], f"src/ottla/{room}")
            drawing.text(x + width / 2, top + (17 if role else 24), room, INK, 14, "middle")
            drawing.text(x + width / 2, top + 31, role, INK, 11, "middle")
    x = LEFT
    for kind, words in LEGEND:
        bottom = TOP + ROW * len(rows) + 6
        drawing.box(x, bottom, 16, 16, FILLS[kind])
        drawing.text(x + 22, bottom + 13, words, PALE, 12)
        x += 250
    drawing.save(path)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
