"""A real Apache Kafka, the oracle: one node on loopback, started by scripts/real-kafka."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from kit.brokers.processes import free_port
from kit.others.debian import REPOSITORY, program

SCRIPT = REPOSITORY / "scripts" / "real-kafka"


class RealKafka:
    """One real Kafka node with the same face as `OttlaProcess`, so that a test can run against either."""

    name = "kafka"
    host = "127.0.0.1"

    def __init__(self, data: Path, settings: Mapping[str, str] | None = None) -> None:
        self.data = data
        self.port = free_port()
        self._settings = dict(settings or {})
        self._environment = {**os.environ, "KAFKA_LAB": str(data), "KAFKA_HEAP": "512M"}

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def directories(self) -> list[Path]:
        return [self.data / "node1"]

    @property
    def log(self) -> str:
        return (self.data / "node1.log").read_text(errors="replace")

    def start(self) -> Self:
        for needed in ("java", "mvn", "kcat"):
            program(needed)
        settings = [f"{key}={value}" for key, value in self._settings.items()]
        answer = subprocess.run(
            [str(SCRIPT), "start", "1", str(self.port), *settings],
            env=self._environment,
            check=False,
            capture_output=True,
            text=True,
        )
        assert answer.returncode == 0, f"real Kafka did not start:\n{answer.stderr}"
        return self

    def stop(self) -> None:
        subprocess.run([str(SCRIPT), "stop"], env=self._environment, check=True, capture_output=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
