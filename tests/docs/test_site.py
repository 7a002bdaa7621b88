"""The documentation builds as a site, with every page in it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from docs.pages import REPOSITORY


def test_the_site_builds_and_every_page_can_be_reached(tmp_path: Path) -> None:
    command = [sys.executable, str(REPOSITORY / "scripts" / "build_docs.py"), str(tmp_path / "site")]
    built = subprocess.run(command, check=False, capture_output=True, text=True, timeout=280)
    assert built.returncode == 0, built.stdout + built.stderr
    site = tmp_path / "site"
    pages = {page.relative_to(REPOSITORY / "docs").with_suffix(".html") for page in (REPOSITORY / "docs").rglob("*.md")}
    assert {page.relative_to(site) for page in site.rglob("*.html")} == {*pages, Path("404.html")}
    reached = reachable(site)
    assert {page for page in pages if site / page not in reached} == set()
    outside = {address for page in reached for address in loaded(page) if address.startswith(("http:", "https:", "//"))}
    assert outside == set()  # a page that is read loads nothing from other places


def loaded(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(r"<(?:script|img)[^>]*\bsrc=\"([^\"]+)\"", text) + re.findall(
        r"<link[^>]*rel=\"stylesheet\"[^>]*href=\"([^\"]+)\"", text
    )


def reachable(site: Path) -> set[Path]:
    """Every page that links lead to from the first one; a link that leads nowhere fails."""
    found: set[Path] = set()
    waiting = [site / "index.html"]
    while waiting:
        page = waiting.pop()
        if page in found:
            continue
        found.add(page)
        for target in re.findall(r"<a[^>]*\bhref=\"([^\"#:]+)(?:#[^\"]*)?\"", page.read_text(encoding="utf-8")):
            place = (page.parent / target).resolve()
            assert place.exists(), f"{page.relative_to(site)} links to {target}"
            if place.suffix == ".html":
                waiting.append(place)
    return found
