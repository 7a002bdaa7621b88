"""Where pipelines keep their files on this machine: checkpoints, logs, and who runs.

Owns: the directory of each pipeline below the state directory (`XDG_STATE_HOME`, else `~/.local/state`). Never knows:
Spark, topics. Invariants: a pid file names a process only as long as it is that process: its start time is kept beside.
"""

import json
import os
from pathlib import Path
from typing import Any


class PipelineDirectory:
    """A pipeline's directory."""

    def __init__(self, name: str) -> None:
        state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
        self.folder = Path(state) / "ottla" / "pipelines" / name
        self.checkpoint = self.folder / "checkpoint"
        self.log = self.folder / "log"
        self._process = self.folder / "process.json"

    def make(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def claim(self, pid: int, state: str) -> None:
        """Say which process runs the pipeline, and how it is."""
        self.make()
        content = {"pid": pid, "started": _start_of(pid), "state": state}
        following = self._process.with_suffix(".next")
        following.write_text(json.dumps(content), encoding="ascii")
        following.replace(self._process)

    def release(self) -> None:
        """Nothing runs any more."""
        self._process.unlink(missing_ok=True)

    def process(self) -> dict[str, Any] | None:
        """The process that runs the pipeline on this machine, if one does."""
        try:
            found: dict[str, Any] = json.loads(self._process.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None
        return found if is_running(found["pid"]) and _start_of(found["pid"]) == found["started"] else None


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _start_of(pid: int) -> str:
    """When a process began, as Linux tells; elsewhere nobody does."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
