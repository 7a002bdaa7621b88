"""`ottla quorum …`: from ZooKeeper to the quorum.

Owns: the command, its options, and how the plan is shown. Never knows: what is moved and when that is safe
(`node.migration`).
"""

from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.failures import Failure
from ottla.cli.output import growing_progress, progress, say, show_json
from ottla.cli.session import AsJson

if TYPE_CHECKING:
    from ottla.base.settings.values import BrokerValues
    from ottla.node.migration import MigrationPlan
    from ottla.zookeeper.session import SessionSettings

app = typer.Typer(help="Move a cluster from ZooKeeper to the quorum.", no_args_is_help=True)


@app.callback()
def quorum() -> None:
    """Move a cluster from ZooKeeper to the quorum. How the quorum is: ottla cluster quorum."""


@app.command()
def migrate(
    zookeeper: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT,…[/CHROOT]", help="The ensemble, as zookeeper.connect named it."),
    ] = None,
    old: Annotated[
        str | None,
        typer.Option("--from", metavar="FILE", help="Or a node's settings file from before, with all of zookeeper.*."),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="FILE", help="The new settings of a voter on this machine; repeat for more."),
    ] = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="The one voter named here votes alone at first; others can join it.")
    ] = False,
    initial_controllers: Annotated[
        str | None,
        typer.Option(metavar="ID@HOST:PORT:DIRECTORY,…", help="These vote at first; others can join them later."),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it; without this it is only shown.")] = False,
    as_json: AsJson = False,
) -> None:
    """Move the metadata of a stopped cluster from ZooKeeper to the quorum.

    Look first, also while the cluster runs: without --execute nothing is changed. Then stop every node, give each a
    settings file without zookeeper.connect and with process.roles and the quorum's settings, run this for every voter,
    on its machine, and start the nodes. Records stay where they are; ZooKeeper's tree is read and never changed.

    \b
    ottla quorum migrate --zookeeper zk1:2181,zk2:2181/kafka
    ottla quorum migrate --from old.properties --config new.properties
    ottla quorum migrate --from old.properties --config new.properties --execute
    """
    import asyncio

    from ottla.log.files import World
    from ottla.node.formatting import Wishes
    from ottla.node.migration import move, require_voter
    from ottla.node.options import Options, StartFailure, resolve
    from ottla.runtime.disk import RealDisk
    from ottla.runtime.world import RealClock, RealRandom

    if execute and not config:
        raise typer.BadParameter("name the new settings file of each voter on this machine", param_hint="--config")
    world = World(RealDisk(), RealClock(), RealRandom())
    try:
        voters = [resolve(Options(config=each)) for each in config or ()]
        for values in voters:
            require_voter(world, values)
        plan = asyncio.run(_plan(_settings(zookeeper, old)))
        if execute and plan.obstacle is not None:
            raise StartFailure(plan.obstacle)
        if not as_json:
            say(_text(plan))
        if execute:
            wishes = Wishes(standalone=standalone, initial_controllers=initial_controllers)
            for values in voters:
                node = f"node {values.integer('node.id')}"
                with progress(f"writing for {node}", plan.facts, "facts") as advance:
                    move(world, values, plan, wishes, advance)
                if not as_json:
                    say(f"{node} votes with this from its next start\n")
    except StartFailure as failure:
        raise Failure(str(failure).rstrip(".")) from None
    if as_json:
        show_json(_json(plan, voters, done=execute))
    else:
        say(_next_step(voters, execute=execute))


def _settings(zookeeper: str | None, old: str | None) -> "SessionSettings":
    from ottla.node.options import Options, resolve
    from ottla.node.roles import by_zookeeper
    from ottla.zookeeper.session import SessionSettings

    if (zookeeper is None) == (old is None):
        raise typer.BadParameter("say where the cluster is now, with --zookeeper or --from", param_hint="--zookeeper")
    if zookeeper is not None:
        return SessionSettings(zookeeper)
    values = resolve(Options(config=old))
    if not by_zookeeper(values):
        raise Failure(f"{old} names no zookeeper.connect; it is the settings file from before the move")
    return SessionSettings.of(values)


async def _plan(settings: "SessionSettings") -> "MigrationPlan":
    import asyncio

    from ottla.node.migration import survey
    from ottla.zookeeper.layout import BadZnode
    from ottla.zookeeper.ports import EnsembleRefusal, Unreachable

    try:
        from ottla.zookeeper.session import ZooKeeperSession

        session = ZooKeeperSession(asyncio.get_running_loop(), settings)
    except ImportError:
        raise Failure("ZooKeeper needs another package; install it: pip install 'ottla[zookeeper]'") from None
    try:
        await asyncio.to_thread(session.open)
        with growing_progress("reading ZooKeeper", unit="znodes") as reach:
            return await survey(session, reach)
    except (Unreachable, EnsembleRefusal, BadZnode) as problem:
        raise Failure(str(problem).rstrip(".")) from None
    finally:
        await asyncio.to_thread(session.close)


def _text(plan: "MigrationPlan") -> str:
    counted = _counts(plan)
    width = max(len(name) for name in counted)
    standing = "stopped" if plan.obstacle is None else "running"
    lines = [f"cluster {plan.image.cluster_id}, {standing} in the controller epoch {plan.position.epoch}", ""]
    lines += [f"  {name:<{width}}  {number:,}" for name, number in counted.items()]
    lines += ["", *(f"note: {remark}" for remark in (*plan.remarks, *filter(None, [plan.obstacle])))]
    return "\n".join(lines).rstrip() + "\n\n"


def _counts(plan: "MigrationPlan") -> dict[str, int]:
    image = plan.image
    return {
        "brokers": len(_brokers(plan)),
        "topics": len(image.topics),
        "partitions": sum(len(topic.partitions) for topic in image.topics.values()),
        "settings of topics, brokers and groups": sum(len(values) for values in image.configs.values()),
        "next producer id": image.next_producer_id,
        "the quorum's log begins at": plan.position.offset,
    }


def _brokers(plan: "MigrationPlan") -> list[int]:
    """Those that are registered, and those that only hold partitions: Kafka's tree forgets a broker that stopped."""
    topics = plan.image.topics.values()
    holders = {broker for topic in topics for partition in topic.partitions for broker in partition.replicas}
    return sorted(holders | plan.image.brokers.keys())


def _json(plan: "MigrationPlan", voters: "list[BrokerValues]", *, done: bool) -> dict[str, object]:
    image = plan.image
    return {
        "cluster_id": image.cluster_id,
        "controller_epoch": plan.position.epoch,
        "begins_at": plan.position.offset,
        "next_producer_id": image.next_producer_id,
        "brokers": _brokers(plan),
        "topics": {name: len(topic.partitions) for name, topic in sorted(image.topics.items())},
        "configs": sum(len(values) for values in image.configs.values()),
        "remarks": list(plan.remarks),
        "obstacle": plan.obstacle,
        "voters": [values.integer("node.id") for values in voters],
        "executed": done,
    }


def _next_step(voters: "list[BrokerValues]", *, execute: bool) -> str:
    if execute:
        return "start the nodes with their new settings; keep ZooKeeper until you are content\n"
    if not voters:
        return "nothing was changed; with --config FILE --execute, the voter of that file begins with this\n"
    from ottla.node.formatting import metadata_log_directory

    places = [
        f"node {each.integer('node.id')} would begin with this in {metadata_log_directory(each)}\n" for each in voters
    ]
    return "".join(places) + "nothing was changed; --execute does it\n"
