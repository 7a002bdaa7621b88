"""The guide for people who test with ottla, run as written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "testing.md"


def test_every_example_of_the_guide_runs(pytester: pytest.Pytester) -> None:
    examples = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    (settings,) = re.findall(r"```ini\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    for number, example in enumerate(examples):
        (pytester.path / f"test_example_{number}.py").write_text(example, encoding="utf-8")
    pytester.makeini(settings)
    wanted = sum(example.count("def test_") for example in examples)
    assert wanted >= 6
    pytester.runpytest_subprocess("-q", timeout=250).assert_outcomes(passed=wanted)
