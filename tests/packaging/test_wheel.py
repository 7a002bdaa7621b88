"""A wheel, built with a compiler and without one, serves a Kafka from an empty environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

import ottla
from kit.brokers.processes import free_port, free_ports

REPOSITORY = Path(__file__).resolve().parents[2]
BUILT_FROM = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
MINUTES = 600.0
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
GIVEN = os.environ.get("OTTLA_TEST_WHEEL", "")
"""A wheel that was built already, by `make release`; it is tested alone."""

# Two wheels are built and two environments filled before the first test begins; on a busy machine that takes its time.
pytestmark = pytest.mark.timeout(1200)

# No optimisation: what is tested here is that it builds. And a compiler that always fails is as good as none.
COMPILERS = {"compiled": {"CFLAGS": "-O0"}, "pure": {"CC": "false"}}
KINDS = ["compiled"] if GIVEN else list(COMPILERS)


class Installed(NamedTuple):
    """An environment with nothing but the wheel and what it asks for."""

    wheel: Path
    programs: Path

    def run(self, name: str, *arguments: str, given: str = "") -> str:
        done = subprocess.run(
            [self.programs / name, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=MINUTES,
            check=False,
            cwd=self.programs.parent,
            env=clean_environment(),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def clean_environment(**more: str) -> dict[str, str]:
    """Nothing that would let the checkout be found instead of the wheel."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OTTLA_", "VIRTUAL_ENV"))
    }
    return {**kept, **more}


def call(*command: str | Path, cwd: Path, **environment: str) -> None:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=MINUTES,
        check=False,
        cwd=cwd,
        env=clean_environment(**environment),
    )
    assert done.returncode == 0, done.stdout + done.stderr


def build(kind: str, place: Path) -> Path:
    """The wheel of this checkout, or the one that was given."""
    if GIVEN:
        return Path(GIVEN)
    source = place / "source"
    shutil.copytree(
        REPOSITORY / "src", source / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    )
    for name in BUILT_FROM:
        shutil.copy(REPOSITORY / name, source)
    call(*PIP, "wheel", "--no-deps", "--wheel-dir", "dist", ".", cwd=source, **COMPILERS[kind])
    (wheel,) = (source / "dist").glob("*.whl")
    return wheel


def build_and_install(kind: str, place: Path) -> Installed:
    wheel = build(kind, place)
    call(sys.executable, "-m", "venv", "--without-pip", "environment", cwd=place)
    programs = place / "environment" / "bin"
    call(*PIP, "--python", programs / "python", "install", wheel, cwd=place)
    return Installed(wheel, programs)


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Installed]]:
    """Both, made at the same time."""
    with ThreadPoolExecutor() as threads:
        made = {kind: threads.submit(build_and_install, kind, tmp_path_factory.mktemp(kind)) for kind in KINDS}
        yield {kind: future.result() for kind, future in made.items()}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def installed(environments: dict[str, Installed], kind: str) -> Installed:
    return environments[kind]


def test_the_wheel_holds_the_package_and_nothing_else(installed: Installed, kind: str) -> None:
    names = zipfile.ZipFile(installed.wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"ottla", "pyspark_ottla"}
    assert {"ottla/py.typed", "ottla/demo/pipelines/orders.yaml"} <= set(names)
    assert not [name for name in names if name.endswith((".c", ".html")) or "__pycache__" in name]
    assert bool([name for name in names if name.endswith(".so")]) == (kind == "compiled")


def test_the_record_codec_is_compiled_where_there_is_a_compiler(installed: Installed, kind: str) -> None:
    program = "from ottla.records.codec import COMPILED; import ottla; print(COMPILED, ottla.__file__)"
    compiled, place = installed.run("python", "-P", "-c", program).split()
    assert compiled == str(kind == "compiled")
    assert Path(place).is_relative_to(installed.programs.parent)


def test_the_installed_version_is_the_one_of_the_code(installed: Installed, kind: str) -> None:
    program = "from importlib.metadata import version; import ottla; print(version('ottla'), ottla.__version__)"
    of_metadata, of_code = installed.run("python", "-P", "-c", program).split()
    assert of_metadata == of_code == ottla.__version__
    assert installed.run("ottla", "--version").split() == ["ottla", of_code]


def test_a_node_serves_and_what_is_sent_comes_back(installed: Installed, tmp_path: Path) -> None:
    port = free_port()
    there = ("--bootstrap", f"127.0.0.1:{port}")
    with (tmp_path / "log").open("wb") as log:
        node = subprocess.Popen(
            [installed.programs / "ottla", "serve", "--port", str(port), "--data", str(tmp_path / "data")],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=clean_environment(),
        )
    try:
        assert node.stdout is not None
        assert "is ready" in node.stdout.readline(), (tmp_path / "log").read_text()
        installed.run("ottla", "topic", "create", "orders", "--partitions", "1", *there)
        installed.run("ottla", "produce", "orders", *there, given="one\ntwo\n")
        assert installed.run("ottla", "consume", "orders", "--until-end", *there) == "one\ntwo\n"
    finally:
        node.terminate()
        assert node.wait(60) == 0
        assert node.stdout is not None
        node.stdout.close()


def test_the_demo_plays_from_an_installed_package(environments: dict[str, Installed]) -> None:
    port = str(free_ports(3))
    said = environments["compiled"].run("ottla", "demo", "--once", "--pace", "0.1", "--rate", "300", "--port", port)
    assert "Every event that was acknowledged is there, once, byte for byte." in said
    assert "pip install" in said  # Spark is not there, and it says how to get it
