"""scripts/release.py: what has to agree before something is called a release, and what may be in it."""

from __future__ import annotations

import importlib.util
import io
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import ottla

REPOSITORY = Path(__file__).resolve().parents[2]
LATER = "# Changelog\n\n## Unreleased\n\n- more\n\n## 0.1.0 - 2026-11-16\n\n- all\n"
RELEASED = LATER.replace("Unreleased", "0.2.0 - 2026-12-01")


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", REPOSITORY / "scripts" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RELEASE = script()


def wrong(version: str, changelog: str, here: tuple[str, ...] = (), elsewhere: tuple[str, ...] = ("v0.1.0",)) -> str:
    return "; ".join(RELEASE.disagreements(version, changelog, here, elsewhere))


def test_this_version_and_its_changelog_agree() -> None:
    source = (REPOSITORY / "src" / "ottla" / "__init__.py").read_text()
    assert RELEASE.version_of(source) == ottla.__version__
    assert wrong(ottla.__version__, (REPOSITORY / "CHANGELOG.md").read_text(), (), ()) == ""


def test_a_version_under_development_has_a_section_for_what_is_unreleased() -> None:
    assert wrong("0.2.0.dev0", LATER) == ""
    assert "has to begin with 'Unreleased'" in wrong("0.3.0.dev0", RELEASED)
    assert "comes before 0.1.0" in wrong("0.1.0.dev0", LATER)
    assert "under development" in wrong("0.2.0.dev0", LATER, ("v0.2.0",))


def test_a_release_has_its_section_and_its_tag() -> None:
    assert wrong("0.2.0", RELEASED) == ""
    assert wrong("0.2.0", RELEASED, ("v0.2.0",)) == ""
    assert "has to begin with '0.2.0 - date'" in wrong("0.2.0", LATER)
    assert "has to begin with '0.3.0 - date'" in wrong("0.3.0", RELEASED)
    assert "its version is 0.2.0" in wrong("0.2.0", RELEASED, ("v0.3.0",))
    assert "a version is released once" in wrong("0.2.0", RELEASED, (), ("v0.1.0", "v0.2.0"))


def test_a_changelog_that_cannot_be_read_is_not_taken_for_one() -> None:
    assert "neither" in wrong("0.2.0.dev0", LATER.replace("2026-11-16", "soon"))
    assert "not in order" in wrong("0.2.0", RELEASED + "\n## 0.1.1 - 2026-11-20\n")
    assert "is no version" in wrong("0.2", LATER)


def test_what_does_not_belong_into_a_wheel_is_found(tmp_path: Path) -> None:
    wheel = tmp_path / "ottla-0.2.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("ottla/__init__.py", "pyspark_ottla/__init__.py"):
            archive.writestr(name, "")
        archive.writestr("ottla-0.2.0.dist-info/METADATA", "Name: ottla\nVersion: 0.2.0\n")
    assert RELEASE.problems_of_wheel(wheel, "0.2.0") == []
    assert RELEASE.problems_of_wheel(wheel, "0.3.0") == ["its metadata say 0.2.0"]
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("tests/test_x.py", "")
        archive.writestr("ottla/records/_codec.c", "")
    assert len(RELEASE.problems_of_wheel(wheel, "0.2.0")) == 2


def test_what_a_source_distribution_lacks_is_found(tmp_path: Path) -> None:
    archive = tmp_path / "ottla-0.2.0.tar.gz"
    with tarfile.open(archive, "w:gz") as content:
        for name in RELEASE.IN_SOURCE - {"LICENSE"} | {"src/ottla/records/_codec.so"}:
            content.addfile(tarfile.TarInfo(f"ottla-0.2.0/{name}"), io.BytesIO())
    assert RELEASE.problems_of_source(archive, "0.2.0") == [
        "it lacks LICENSE",
        "it holds src/ottla/records/_codec.so",
    ]
