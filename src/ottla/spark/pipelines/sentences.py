"""What Spark says, in one sentence for the person at the terminal (lines for the log are made in `log_lines` modules).

Owns: finding the sentence in an exception's text, which may carry a Python traceback and a JVM's. Never knows: Spark.
"""

import re

_PYTHON = re.compile(
    r"^(?!(?:org|java|scala|py4j|pyspark)\.)(?:(?:[a-z_]\w*\.)+([A-Z]\w*)|([A-Z]\w*(?:Error|Exception))): (.+)$", re.M
)
_CODE = re.compile(r"^\[[A-Z0-9_.]+\] ")
_STATE = re.compile(r"\s*SQLSTATE: \w+.*", re.S)
_BARE = frozenset({"KeyError", "IndexError", "AssertionError"})
"""Of these the words alone say nothing."""


def sentence_of(problem: BaseException | str) -> str:
    """The one thing a person should read."""
    text = str(problem)
    told = [(name or builtin, words.strip()) for name, builtin, words in _PYTHON.findall(text)]
    if told:
        name, words = told[-1]
        return f"{name}: {words}" if name in _BARE else words
    first = next((line for line in text.splitlines() if line.strip()), type(problem).__name__)
    first = _STATE.sub("", _CODE.sub("", first.strip()))
    return first.strip()
