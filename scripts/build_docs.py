"""`make docs`: the pages of docs/ as a site in build/site.

Writes the generator's settings (docs/.site/settings.yml and the order of the pages) and runs it. A section is a folder
of docs/. Pages that are named here come first, in this order; the others follow by name, so that a new page needs no
entry anywhere.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
DOCS = REPOSITORY / "docs"
SECTIONS = {
    "how-to": "How to",
    "guide": "Guides",
    "explanation": "How it works",
    "reference": "Reference",
    "design": "Design",
}
FIRST = {
    "how-to": ["install", "test-your-app", "docker-compose", "three-nodes", "never-lose-a-message", "move-from-kafka"],
    "guide": ["command-line", "client", "testing", "cluster", "zookeeper", "monitoring", "spark", "pipelines"],
    "explanation": ["log", "replication", "groups", "quorum", "coordination"],
    "reference": ["command-line", "settings", "client-settings", "apis", "metrics"],
    "design": ["index"],
}


def pages(folder: str) -> list[str]:
    """The pages of a folder, in order."""
    first = FIRST.get(folder, [])
    stems = sorted(page.stem for page in (DOCS / folder).glob("*.md"))
    known = [stem for stem in first if stem in stems]
    return [f"{folder}/{stem}.md" for stem in [*known, *(stem for stem in stems if stem not in first)]]


def navigation() -> list[dict[str, Any]]:
    """Every page of docs/, once."""
    sections: dict[str, list[str]] = {title: pages(folder) for folder, title in SECTIONS.items()}
    sections["Design"][:0] = ["architecture.md", "glossary.md"]
    return [{"Home": "index.md"}, {"Tutorial": "tutorial.md"}, *({title: found} for title, found in sections.items())]


def build(target: Path) -> int:
    """Build the site into `target`; the exit code of the generator, which writes only below its own directory."""
    source = target.with_name(target.name + "-source")
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(DOCS, source / "docs", ignore=shutil.ignore_patterns(".site"))
    shutil.copy(DOCS / ".site" / "site.css", source / "docs")
    settings = yaml.safe_load((DOCS / ".site" / "settings.yml").read_text(encoding="utf-8"))
    settings |= {"docs_dir": "docs", "site_dir": "site", "nav": navigation()}
    (source / "mkdocs.yml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", "mkdocs.yml"]
    code = subprocess.run(command, cwd=source, check=False).returncode
    if code == 0:
        shutil.rmtree(target, ignore_errors=True)
        shutil.move(source / "site", target)
    shutil.rmtree(source)
    return code


if __name__ == "__main__":
    place = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else REPOSITORY / "build" / "site"
    code = build(place)
    if code == 0:
        print(f"the documentation is in {place / 'index.html'}")
    sys.exit(code)
