"""What Spark says, in one sentence.

Owns: finding the sentence in an exception's text, which may carry a Python traceback and a JVM's. Never knows: Spark.
"""

import re

_PYTHON = re.compile(
    r"^(?:[A-Za-z_][\w.]*\.)?([A-Z]\w*(?:Error|Exception|Failed|Lost|Loss|Option|Exceeded|Rows|Misuse|"
    r"Superseded|Undecodable|Record)): (.+)$",
    re.M,
)
_CODE = re.compile(r"^\[[A-Z0-9_.]+\] ")
_STATE = re.compile(r"\s*SQLSTATE: \w+.*", re.S)
_NOISE = ("java.", "org.apache.", "at ", "Caused by")


def sentence_of(problem: BaseException | str) -> str:
    """The one thing a person should read."""
    text = str(problem)
    told = [found for found in _PYTHON.findall(text) if found[0] not in ("Py4JJavaError", "PySparkRuntimeError")]
    told = [found for found in told if not found[1].startswith(_NOISE)]
    if told:
        name, words = told[-1]
        return words.strip() if not name.endswith(("KeyError", "IndexError", "AssertionError")) else f"{name}: {words}"
    first = next((line for line in text.splitlines() if line.strip()), type(problem).__name__)
    first = _STATE.sub("", _CODE.sub("", first.strip()))
    return first.strip()
