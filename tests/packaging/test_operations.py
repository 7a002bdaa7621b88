"""The files for those who run ottla as a service or in a container say what is true of this version."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from ottla.base.settings.file import check_static, merge, parse_properties
from ottla.cli.main import load
from support.processes import free_port, until

REPOSITORY = Path(__file__).resolve().parents[2]
SERVICE = (REPOSITORY / "ops" / "ottla.service").read_text()
DOCKERFILE = re.sub(r"\\\n\s*", "", (REPOSITORY / "Dockerfile").read_text())


def options_of_serve() -> set[str]:
    found: Any = load("serve")
    return {name for each in found.params for name in each.opts}


def test_the_service_starts_a_node_with_options_that_exist() -> None:
    (command,) = re.findall(r"^ExecStart=(.+)$", SERVICE, re.MULTILINE)
    assert set(re.findall(r" (--[\w-]+)", command)) <= options_of_serve()


def test_systemd_finds_nothing_wrong_with_the_service(tmp_path: Path) -> None:
    unit = tmp_path / "ottla.service"
    unit.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", SERVICE, flags=re.MULTILINE))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_settings_of_the_service_start_a_node_that_says_when_it_is_ready(tmp_path: Path) -> None:
    settings = (REPOSITORY / "ops" / "server.properties").read_text()
    check_static(parse_properties(settings))
    port, metrics = free_port(), free_port()
    (tmp_path / "server.properties").write_text(
        settings.replace("/var/lib/ottla", str(tmp_path / "data")).replace("9092", str(port))
    )
    with (tmp_path / "log").open("wb") as log:
        node = subprocess.Popen(
            [
                *(Path(sys.executable).with_name("ottla"), "serve"),
                *("--config", tmp_path / "server.properties", "--metrics-port", str(metrics)),
            ],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        assert node.stdout is not None
        assert "is ready" in node.stdout.readline(), (tmp_path / "log").read_text()
        (check,) = re.findall(r"HEALTHCHECK .*CMD (\[.+\])$", DOCKERFILE, re.MULTILINE)
        words = [word.replace("9404", str(metrics)) for word in yaml.safe_load(check)]
        asking = [sys.executable, *words[1:]]
        # More than once, as the container's supervisor does: it gives a node that is slow to answer two seconds.
        until(lambda: subprocess.run(asking, capture_output=True, check=False, timeout=60).returncode == 0, "health")
    finally:
        node.terminate()
        assert node.wait(60) == 0
        assert node.stdout is not None
        node.stdout.close()


def test_the_image_starts_a_node_with_options_and_settings_that_exist() -> None:
    (entry,) = re.findall(r"^ENTRYPOINT (\[.+\])$", DOCKERFILE, re.MULTILINE)
    words = yaml.safe_load(entry)
    assert words[:2] == ["ottla", "serve"]
    assert {word for word in words if word.startswith("--")} <= options_of_serve()
    given = [word for before, word in pairwise(words) if before == "--set"]
    check_static(merge({}, given))


def test_the_image_is_asked_for_its_health_where_the_node_answers() -> None:
    port = re.findall(r"--metrics-port\", \"(\d+)\"", DOCKERFILE)
    assert re.findall(r"127\.0\.0\.1:(\d+)/readyz", DOCKERFILE) == port
    assert re.search(r"^USER 9092$", DOCKERFILE, re.MULTILINE)


def test_the_image_copies_only_what_is_there() -> None:
    for files in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE):
        assert all((REPOSITORY / name).exists() for name in files.split())
        kept = (REPOSITORY / ".dockerignore").read_text().split()
        assert all(f"!{name}" in kept for name in files.split())


def test_the_compose_file_of_the_guide_gives_settings_that_exist() -> None:
    page = (REPOSITORY / "docs" / "how-to" / "docker-compose.md").read_text()
    (compose,) = re.findall(r'```yaml title="docker-compose.yml"\n(.*?)```', page, re.DOTALL)
    words = yaml.safe_load(compose)["services"]["kafka"]["command"]
    assert set(words[::2]) == {"--set"}
    check_static(merge({}, words[1::2]))


def test_the_recipe_for_wheels_is_a_workflow() -> None:
    workflow = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "wheels.yml").read_text())
    assert set(workflow["jobs"]) == {"wheels", "rest"}
    assert all(job["steps"] for job in workflow["jobs"].values())
