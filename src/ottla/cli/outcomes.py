"""What became of several things a command was to do.

Owns: the sentence for each, for people, and the JSON of all of them, for programs. Never knows: what was done.
Invariant: one thing that was refused makes the command fail, after everything that was done is told.
"""

from collections.abc import Mapping
from typing import Any

from ottla.base.errors import ErrorCode
from ottla.cli.failures import Failure, refusal
from ottla.cli.output import say, show_json
from ottla.client.admin.part import Outcome
from ottla.client.errors import BrokerError

SHOWN_REFUSALS = 5


def report(kind: str, outcomes: Mapping[str, Outcome], done: str, *, of: str = "", as_json: bool = False) -> None:
    """Say what was done to which things of a kind, by their names; Failure for what was refused."""
    if as_json:
        show_json([outcome_json(kind, name, outcome, done) for name, outcome in outcomes.items()])
    else:
        for name, outcome in outcomes.items():
            if outcome.error == ErrorCode.NONE:
                say(f"{done} {kind} {name!r}{of}\n")
    require(kind, outcomes, of=of)


def outcome_json(kind: str, name: str, outcome: Outcome, done: str) -> dict[str, Any]:
    refused = outcome.error != ErrorCode.NONE
    return {
        kind: name,
        done: not refused,
        "error": outcome.error.name if refused else None,
        "message": outcome.message if refused else None,
    }


def require(kind: str, outcomes: Mapping[str, Outcome], *, of: str = "") -> None:
    """Failure with a sentence for what was refused."""
    sentences = [
        refusal(BrokerError(outcome.error, f"{kind} {name!r}{of}", outcome.message))
        for name, outcome in outcomes.items()
        if outcome.error != ErrorCode.NONE
    ]
    if sentences:
        more = f"; and {len(sentences) - SHOWN_REFUSALS} more" if len(sentences) > SHOWN_REFUSALS else ""
        raise Failure("; ".join(sentences[:SHOWN_REFUSALS]) + more)
