"""Kafka's own command line tools, run from its jars. A JVM takes a second or two to start: tests group their checks."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kit.others.debian import program
from kit.others.kafka import SCRIPT

TOOLS = "org.apache.kafka.tools"
SECONDS = 200.0
"""A JVM takes a second or two to start, and many times that where several start on a busy machine."""


class Printed(NamedTuple):
    """What a tool left: exit code, standard output, standard error."""

    code: int
    output: str
    errors: str

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()


@cache
def libraries(version: str = "") -> Path:
    """The folder of Kafka's jars, of the release that all tests use or of another; fetched by Maven the first time."""
    program("java")
    program("mvn")
    environment = {**os.environ, **({"KAFKA_VERSION": version} if version else {})}
    answer = subprocess.run([str(SCRIPT), "libraries"], check=False, capture_output=True, text=True, env=environment)
    assert answer.returncode == 0, f"Kafka's jars could not be fetched:\n{answer.stderr}"
    return Path(answer.stdout.strip())


def command(tool: str, *arguments: str, version: str = "") -> list[str]:
    """The command line of a tool: a name without dots lives in org.apache.kafka.tools."""
    jars = libraries(version)
    return [
        program("java"), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
        f"-Dlog4j2.configurationFile={jars.parent / 'log4j2.properties'}", "-cp", f"{jars}/*",
        tool if "." in tool else f"{TOOLS}.{tool}", *arguments,
    ]  # fmt: skip


def attempt(tool: str, *arguments: str, stdin: str = "", seconds: float = 180.0) -> Printed:
    """Run a tool that may fail."""
    answer = subprocess.run(
        command(tool, *arguments),
        input=stdin,
        check=False,
        capture_output=True,
        text=True,
        timeout=seconds,
        env=dict(os.environ),
    )
    return Printed(answer.returncode, answer.stdout, answer.stderr)


def run(tool: str, *arguments: str, stdin: str = "", seconds: float = 180.0) -> Printed:
    """Run a tool that must succeed."""
    printed = attempt(tool, *arguments, stdin=stdin, seconds=seconds)
    assert printed.code == 0, (
        f"{tool} {' '.join(arguments)} ended with code {printed.code}\n"
        f"it printed:\n{printed.output}\nand complained:\n{printed.errors}"
    )
    return printed
