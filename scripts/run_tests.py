"""Runs one suite; a few failures among programs of others get a second try, alone, and are named.

    python scripts/run_tests.py SUITE PYTEST-ARGUMENT…

For the suites that start other people's programs (Kafka's tools, Spark, pip), several at a time on whatever machine
there is. At most `MOST` failed tests are run once more, with nothing beside them: what fails again fails the run; what
passes is unsteady, is written to build/unsteady-tests and named by the last line of `make test`. An unsteady test is a
bug that somebody has to find. Tests that judge what ottla promises about data (unit, property, simulation, oracle,
cluster, Spark's exactly-once) never come here: what they see once has happened.
"""

import json
import subprocess
import sys
from pathlib import Path

MOST = 2
"""More failures than this are no accident."""

TESTS_FAILED = 1
"""Pytest's word for: everything ran, some tests failed."""


def pytest(suite: str, arguments: list[str]) -> int:
    cache = ["-o", f"cache_dir=.pytest_cache/{suite}", "--cache-clear"]
    return subprocess.run([sys.executable, "-m", "pytest", "-q", *cache, *arguments], check=False).returncode


def failed(suite: str) -> list[str]:
    """The tests that failed in the last run of the suite."""
    return sorted(json.loads(Path(".pytest_cache", suite, "v", "cache", "lastfailed").read_text()))


def run(suite: str, arguments: list[str]) -> int:
    """The exit code of the suite."""
    code = pytest(suite, arguments)
    if code != TESTS_FAILED:
        return code
    names = failed(suite)
    if len(names) > MOST:
        print(f"== {suite}: {len(names)} tests failed; up to {MOST} would have been tried again", flush=True)
        return code
    print(f"== {suite}: a second try, alone, for: {', '.join(names)}", flush=True)
    code = pytest(suite, names)
    if code:
        return code
    unsteady = Path("build", "unsteady-tests")
    unsteady.parent.mkdir(exist_ok=True)
    with unsteady.open("a") as report:
        report.writelines(f"{name}\n" for name in names)
    print(f"== {suite}: UNSTEADY, failed once and passed alone: {', '.join(names)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
