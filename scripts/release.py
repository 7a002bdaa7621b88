"""`make release`: wheel and source distribution of what is committed, in dist/, built and checked. Uploads nothing.

    python scripts/release.py

1. What says which version this is has to agree: `ottla.__version__`, CHANGELOG.md and the tag of the commit.
2. Both are built from a clean copy of the commit: the source distribution, and from that the wheel.
3. They are judged: by twine, by what is in them, and by tests/packaging, which installs the wheel into an empty
   environment, serves a node and plays the demo.

A version under development (`0.2.0.dev0`) goes the same way, as a rehearsal. CONTRIBUTING.md has the other steps.
"""

import ast
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from email.parser import BytesParser
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
DIST = REPOSITORY / "dist"
SECTION = re.compile(r"^## (Unreleased|(\d+\.\d+\.\d+) - (\d{4}-\d{2}-\d{2}))$", re.MULTILINE)
VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(\.dev\d+)?")
TOP_OF_WHEEL = {"ottla", "pyspark_ottla"}
IN_SOURCE = {"pyproject.toml", "setup.py", "README.md", "LICENSE", "src/ottla/py.typed", "src/ottla/records/_codec.pyx"}


def version_of(source: str) -> str:
    """What `ottla/__init__.py` says; it is read, not run."""
    for each in ast.parse(source).body:
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "__version__":
            return str(ast.literal_eval(each.value))
    raise SystemExit("src/ottla/__init__.py names no __version__")


def disagreements(version: str, changelog: str, here: Sequence[str], elsewhere: Sequence[str]) -> list[str]:
    """What does not fit together: the version, the changelog, the tags of this commit, and those of others."""
    parsed = VERSION.fullmatch(version)
    if parsed is None:
        return [f"{version} is no version: X.Y.Z, or X.Y.Z.devN between releases"]
    found = [match[1] for match in SECTION.finditer(changelog)]
    headings = re.findall(r"^## (.+)$", changelog, re.MULTILINE)
    wrong = [
        f"CHANGELOG.md: '{each}' is neither 'Unreleased' nor 'X.Y.Z - date'" for each in headings if each not in found
    ]
    released = [each.split(" - ")[0] for each in found if each != "Unreleased"]
    if released != sorted(released, key=numbers, reverse=True):
        wrong.append("CHANGELOG.md: versions are not in order, the newest first")
    if parsed[4]:
        if found[:1] != ["Unreleased"]:
            wrong.append(f"{version} is under development: CHANGELOG.md has to begin with 'Unreleased'")
        if released and numbers(version) <= numbers(released[0]):
            wrong.append(f"{version} comes before {released[0]}, which CHANGELOG.md has as released")
        wrong.extend(f"this commit is tagged {tag}, and {version} is under development" for tag in here)
        return wrong
    if not released or found[0] == "Unreleased" or released[0] != version:
        wrong.append(f"CHANGELOG.md has to begin with '{version} - date': what is unreleased becomes that section")
    wrong.extend(f"this commit is tagged {tag}, and its version is {version}" for tag in here if tag != f"v{version}")
    if f"v{version}" in elsewhere:
        wrong.append(f"v{version} is the tag of another commit: a version is released once")
    return wrong


def numbers(version: str) -> tuple[int, ...]:
    """For comparing; that of development comes before its release, which is all that is asked here."""
    found = VERSION.fullmatch(version)
    assert found is not None, version
    return int(found[1]), int(found[2]), int(found[3])


def problems_of_wheel(wheel: Path, version: str) -> list[str]:
    """What is in a wheel and should not be, or the other way round."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        said = BytesParser().parsebytes(archive.read(metadata))["Version"]
    wrong = [] if said == version else [f"its metadata say {said}"]
    tops = {name.split("/")[0].split("-")[0] for name in names}
    if tops != TOP_OF_WHEEL:
        wrong.append(f"it holds {sorted(tops)} where {sorted(TOP_OF_WHEEL)} was expected")
    wrong.extend(f"it holds {name}" for name in names if name.endswith((".c", ".html", ".pyc")))
    return wrong


def problems_of_source(archive: Path, version: str) -> list[str]:
    """The same of a source distribution."""
    root = f"ottla-{version}/"
    with tarfile.open(archive) as content:
        names = {name.removeprefix(root) for name in content.getnames()}
    wrong = [f"it lacks {name}" for name in sorted(IN_SOURCE - names)]
    wrong.extend(f"it holds {name}" for name in sorted(names) if name.endswith((".so", ".pyc")))
    return wrong


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout


def clean_environment(**more: str) -> dict[str, str]:
    """Nothing that would let this checkout be found where the wheel is meant, or change what is built."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OTTLA_"))}
    return {**kept, **more}


def run(*command: str | Path, **environment: str) -> None:
    """What a program says is shown if it fails: a build says thousands of lines."""
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env=clean_environment(**environment),
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        print(done.stdout)
        raise SystemExit(f"make release: {' '.join(map(str, command))} failed")


def refuse(wrong: Sequence[str]) -> None:
    if wrong:
        raise SystemExit("make release: " + "\nmake release: ".join(wrong))


def build(place: Path) -> list[Path]:
    """Both distributions of what is committed, in dist/, judged by twine."""
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        tools = tomllib.load(file)["dependency-groups"]["release"]
    run(sys.executable, "-m", "venv", place / "tools")
    python = place / "tools" / "bin" / "python"
    run(python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *tools)
    exported = place / "commit.tar"
    run("git", "archive", "--format=tar", "--output", exported, "HEAD")
    source = place / "source"
    with tarfile.open(exported) as content:
        content.extractall(source, filter="data")
    for old in DIST.glob("ottla-*"):
        old.unlink()
    run(python, "-m", "build", "--outdir", DIST, source)
    made = sorted(DIST.glob("ottla-*"))
    run(python, "-m", "twine", "check", "--strict", *made)
    return made


def main() -> None:
    refuse([f"not committed: {line}" for line in git("status", "--porcelain").splitlines()])
    version = version_of((REPOSITORY / "src" / "ottla" / "__init__.py").read_text(encoding="utf-8"))
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    here = git("tag", "--points-at", "HEAD", "v*").split()
    elsewhere = [tag for tag in git("tag", "--list", "v*").split() if tag not in here]
    refuse(disagreements(version, changelog, here, elsewhere))
    print(f"== building ottla {version}", flush=True)
    with tempfile.TemporaryDirectory(prefix="ottla-release-") as place:
        made = build(Path(place))
    if sorted(path.suffix for path in made) != [".gz", ".whl"]:
        refuse([f"dist/ holds {[path.name for path in made]} where a wheel and a source distribution were expected"])
    for path in made:
        judge = problems_of_wheel if path.suffix == ".whl" else problems_of_source
        refuse([f"{path.name}: {each}" for each in judge(path, version)])
    (wheel,) = (path for path in made if path.suffix == ".whl")
    print("== tests with the wheel in an empty environment", flush=True)
    run(sys.executable, "-m", "pytest", "-q", "tests/packaging/test_wheel.py", OTTLA_TEST_WHEEL=str(wheel))
    kind = "a rehearsal" if ".dev" in version else f"tag it v{version}" if not here else "tagged"
    print(f"make release: ottla {version}, {kind}; built, checked and not uploaded:")
    print("\n".join(f"  dist/{path.name}  {path.stat().st_size:,} bytes" for path in made))


if __name__ == "__main__":
    main()
