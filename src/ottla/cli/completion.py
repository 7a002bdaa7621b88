"""What the shell offers after a few letters: names of topics, groups and profiles.

Owns: asking the cluster that the rest of the line means, in no time or not at all. Never knows: shells (they are
Typer's). Invariant: never fails and never speaks, because both would land in the middle of somebody's command line.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster

SECONDS = 1.0
"""How long somebody who pressed TAB is kept waiting for a cluster that does not answer."""


def offer_names(command: Any) -> None:
    """Let the shell offer names wherever a command asks for a TOPIC, GROUP or PROFILE, by that word in its help."""
    for parameter in command.params:
        for word, names in (("TOPIC", topic_names), ("GROUP", group_names), ("PROFILE", profile_names)):
            if (parameter.metavar or "").startswith(word):
                parameter._custom_shell_complete = names  # what `autocompletion` would have set


def topic_names(context: typer.Context, _parameter: Any, incomplete: str) -> list[str]:
    """The topics that begin so; the cluster's own only when their underscores do."""

    async def work(cluster: "Cluster") -> Iterable[str]:
        from ottla.client.admin.topics import TopicAdmin

        topics = await TopicAdmin(cluster).topics(SECONDS)
        return [topic.name for topic in topics if not topic.internal or incomplete.startswith("_")]

    return _offered(context, incomplete, work)


def group_names(context: typer.Context, _parameter: Any, incomplete: str) -> list[str]:
    """The groups that begin so."""

    async def work(cluster: "Cluster") -> Iterable[str]:
        from ottla.client.admin.groups import GroupAdmin

        return [group.group_id for group in await GroupAdmin(cluster).groups(seconds=SECONDS)]

    return _offered(context, incomplete, work)


def profile_names(_context: typer.Context, _parameter: Any, incomplete: str) -> list[str]:
    """The profiles that begin so."""
    from ottla.cli.failures import Failure
    from ottla.cli.profiles import read_profiles

    try:
        return sorted(name for name in read_profiles().settings if name.startswith(incomplete))
    except Failure:
        return []


def _offered(
    context: typer.Context, incomplete: str, work: "Callable[[Cluster], Awaitable[Iterable[str]]]"
) -> list[str]:
    from ottla.cli.failures import Failure
    from ottla.cli.session import with_cluster

    bootstrap = context.params.get("bootstrap")  # of the line that is typed, or where its profile says
    if not bootstrap:
        return []
    try:
        names = with_cluster(bootstrap, SECONDS, work)
    except (Failure, typer.BadParameter, OSError):
        return []
    return sorted(name for name in names if name.startswith(incomplete))
