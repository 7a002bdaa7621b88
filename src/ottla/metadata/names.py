"""Topic names: what Kafka allows, and in which words it refuses.

Owns: the rules for one name. Never knows: which topics exist.
"""

from re import compile as compile_pattern

MOST_CHARACTERS = 249
METADATA_TOPIC = "__cluster_metadata"
_ALLOWED = compile_pattern(r"[a-zA-Z0-9._-]*\Z")


def topic_name_problem(name: str) -> str | None:
    """Why no topic can have this name, or None."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MOST_CHARACTERS:
        reason = f"the length of '{name}' is longer than the max allowed length {MOST_CHARACTERS}"
    elif not _ALLOWED.match(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return None
    return f"Topic name is invalid: {reason}"
