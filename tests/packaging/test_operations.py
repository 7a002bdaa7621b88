"""The files for those who run ottla as a service or in a container say what is true of this version."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from kit.brokers.processes import free_port, until
from ottla.base.settings.file import check_static, merge, parse_properties
from ottla.cli.main import load

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


def workflow(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((REPOSITORY / ".github" / "workflows" / name).read_text())
    return found


def test_the_recipe_for_wheels_is_a_workflow() -> None:
    jobs = workflow("wheels.yml")["jobs"]
    assert set(jobs) == {"wheels", "rest"}
    assert all(job["steps"] and job["timeout-minutes"] for job in jobs.values())


def test_the_workflow_for_tests_types_what_the_readme_says() -> None:
    (job,) = workflow("tests.yml")["jobs"].values()
    assert "make test" in [step.get("run") for step in job["steps"]]
    assert job["timeout-minutes"] > 40, "the whole suite takes that long on two cores"
    given = {key: value for step in job["steps"] for key, value in step.get("with", {}).items()}
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["requires-python"] == f">={given['python-version']}"
    assert f"-ge {given['java-version']} ]" in (REPOSITORY / "scripts" / "install-test-packages").read_text()


def test_what_the_tests_fetch_is_cached_by_the_scripts_that_name_the_versions() -> None:
    (job,) = workflow("tests.yml")["jobs"].values()
    (key,) = [step["with"]["key"] for step in job["steps"] if step.get("uses", "").startswith("actions/cache@")]
    named = set(re.findall(r"'(scripts/[\w-]+)'", key))
    called = re.findall(r"\./([\w-]+)", (REPOSITORY / "scripts" / "fetch-test-jars").read_text())
    assert named == {"scripts/fetch-test-jars", "scripts/maven-jars", *(f"scripts/{name}" for name in called)}


def test_workflows_use_one_version_of_an_action() -> None:
    used: dict[str, set[str]] = {}
    for path in (REPOSITORY / ".github" / "workflows").glob("*.yml"):
        for name, version in re.findall(r"uses: ([\w/-]+)@(\S+)", path.read_text()):
            used.setdefault(name, set()).add(version)
    assert {name: versions for name, versions in used.items() if len(versions) > 1} == {}


def test_forms_for_issues_ask_for_something() -> None:
    for name in ("bug", "feature"):
        form = yaml.safe_load((REPOSITORY / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text())
        assert {"name", "description", "body"} <= set(form)
        names = [field["id"] for field in form["body"] if field["type"] != "markdown"]
        assert len(set(names)) == len(names)
        assert any(field.get("validations", {}).get("required") for field in form["body"])
