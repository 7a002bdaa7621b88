"""`ottla bench …`: how fast a cluster takes records, gives them, and brings them through.

Owns: the commands and their options, which are those of Kafka's performance tools. Never knows: the loads
(`bench_loads`) and their figures (`bench_figures`).
"""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.output import say, show_json
from ottla.cli.produce import CREATION_SECONDS, Acks, CompressionName
from ottla.cli.session import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_SECONDS,
    AsJson,
    Bootstrap,
    Seconds,
    client_settings,
    run_client,
    with_cluster,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ottla.client.cluster import Cluster

app = typer.Typer(help="Measure a cluster: producers, consumers, and the way through both.", no_args_is_help=True)

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="Where the records go or come from.")]
Records = Annotated[int, typer.Option("--num-records", "-n", min=1, help="How many records.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-X", metavar="NAME=VALUE", help="A client setting by Kafka's name; repeat for more."),
]
Measures = Annotated[
    bool, typer.Option("--print-metrics", help="At the end, also what the client counted and measured itself.")
]
Interval = Annotated[
    float, typer.Option("--reporting-interval", min=0.1, metavar="SECONDS", help="How often to print how it goes.")
]


@app.command()
def producer(
    topic: Topic,
    records: Records = 100_000,
    record_size: Annotated[
        int | None, typer.Option("--record-size", "-s", min=0, help="Bytes of each value; 100 unless said otherwise.")
    ] = None,
    payload_file: Annotated[
        str | None, typer.Option("--payload-file", metavar="FILE", help="Send the lines of a file, in turns.")
    ] = None,
    payload_monotonic: Annotated[
        bool, typer.Option("--payload-monotonic", help="Send the numbers of the records, as text.")
    ] = False,
    throughput: Annotated[
        float, typer.Option("--throughput", metavar="N", help="At most so many records a second; -1: no bound.")
    ] = -1,
    acks: Annotated[
        Acks | None, typer.Option("--acks", show_default="all", help="Who must have a record before it counts.")
    ] = None,
    compression: Annotated[
        CompressionName | None, typer.Option("--compression", "-z", help="How batches are compressed.")
    ] = None,
    transactional_id: Annotated[
        str | None, typer.Option("--transactional-id", metavar="ID", help="Send in transactions under this id.")
    ] = None,
    transaction_duration: Annotated[
        int, typer.Option("--transaction-duration-ms", min=1, metavar="MS", help="How long each transaction lasts.")
    ] = 3000,
    settings: Settings = None,
    interval: Interval = 5.0,
    print_metrics: Measures = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Send records and show how many a second arrive and how long each takes, as kafka-producer-perf-test does.

    \b
    ottla bench producer load
    ottla bench producer load -n 1000000 -s 1024 -z lz4 --set linger.ms=5
    ottla bench producer load --throughput 5000 --acks 1 --json
    """
    from ottla.cli.bench_loads import Load, ProducerRun, random_values
    from ottla.cli.topic import parse_settings
    from ottla.client.settings import PRODUCER

    if sum((record_size is not None, payload_file is not None, payload_monotonic)) > 1:
        raise typer.BadParameter("choose one of --record-size, --payload-file and --payload-monotonic")
    values = [] if payload_monotonic else _lines(payload_file) if payload_file else random_values(record_size or 100)
    given: dict[str, object] = dict(parse_settings(settings, "--set"))
    if acks is not None:
        given["acks"] = acks.value
    if compression is not None:
        given["compression.type"] = compression.value
    if transactional_id is not None:
        given["transactional.id"] = transactional_id
    length = transaction_duration / 1000 if "transactional.id" in given else 0.0
    load = Load(topic, records, values, throughput, length, interval)
    _create(topic, bootstrap, seconds)
    configuration = client_settings(PRODUCER, bootstrap, given, _usual(given))
    run = ProducerRun(configuration, load, _teller(as_json))
    try:
        run_client(bootstrap, run.work())
    finally:  # also after Ctrl-C: what was measured until then
        shown = run.metrics if print_metrics else {}
        if run.sent is not None and as_json:
            show_json({**run.sent.document(run.ended), **_as_document(shown)})
        elif run.sent is not None:
            say(run.sent.line(run.ended) + "\n" + metric_lines(shown))


@app.command()
def consumer(
    topic: Topic,
    records: Records = 100_000,
    group: Annotated[
        str | None, typer.Option("--group", "-g", metavar="GROUP", help="Read as a member of this group; else alone.")
    ] = None,
    from_latest: Annotated[
        bool, typer.Option("--from-latest", help="Start with what comes from now on, not with what is there.")
    ] = False,
    fetch_size: Annotated[
        int, typer.Option("--fetch-size", min=1, metavar="BYTES", help="How much of a partition to ask for at once.")
    ] = 1024 * 1024,
    idle: Annotated[
        float, typer.Option("--idle", min=0.1, metavar="SECONDS", help="Give up when nothing came for so long.")
    ] = 10.0,
    detailed: Annotated[
        bool, typer.Option("--show-detailed-stats", help="Print a row every --reporting-interval, and none at the end.")
    ] = False,
    hide_header: Annotated[bool, typer.Option("--hide-header", help="No heading.")] = False,
    settings: Settings = None,
    interval: Interval = 5.0,
    print_metrics: Measures = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Read records and show how many a second come, as kafka-consumer-perf-test does.

    \b
    ottla bench consumer load
    ottla bench consumer load -n 1000000 --group perf --show-detailed-stats --reporting-interval 1
    """
    from ottla.cli.bench_figures import CONSUMER_HEADER, DETAILED_HEADER
    from ottla.cli.bench_loads import ConsumerRun, ReadLoad
    from ottla.cli.topic import parse_settings
    from ottla.client.settings import CONSUMER

    given: dict[str, object] = {
        "auto.offset.reset": "latest" if from_latest else "earliest",
        "max.partition.fetch.bytes": fetch_size,
        **parse_settings(settings, "--set"),
    }
    if group is not None:
        given["group.id"] = group
    _require(topic, bootstrap, seconds)
    configuration = client_settings(CONSUMER, bootstrap, given, {"max.poll.records": 10_000, "check.crcs": False})
    if not hide_header and not as_json:
        say((DETAILED_HEADER if detailed else CONSUMER_HEADER) + "\n")
    tell = _teller(as_json or not detailed)
    run = ConsumerRun(configuration, ReadLoad(topic, records, idle, interval), tell)
    try:
        run_client(bootstrap, run.work())
    finally:
        shown = run.metrics if print_metrics else {}
        if run.read is not None and as_json:
            show_json({**run.read.document(), **_as_document(shown)})
        elif run.read is not None:
            say(("" if detailed else run.read.line() + "\n") + metric_lines(shown))
    if run.read is not None and run.read.records < records:
        print(f"ottla: nothing came for {idle:g} s after {run.read.records:,} of {records:,} records; "
              "--idle waits longer", file=sys.stderr)  # fmt: skip


@app.command()
def latency(
    topic: Topic,
    records: Records = 10_000,
    record_size: Annotated[int, typer.Option("--record-size", "-s", min=1, help="Bytes of each value.")] = 100,
    acks: Annotated[Acks, typer.Option("--acks", help="Who must have a record before it counts: 1 or all.")] = Acks.ALL,
    settings: Settings = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Send one record at a time, read it, and show how long that took, as kafka-e2e-latency does.

    Nobody else may write to the topic meanwhile.

    \b
    ottla bench latency ping
    ottla bench latency ping -n 1000 --acks 1 --json
    """
    from ottla.cli.bench_figures import Travelled
    from ottla.cli.bench_loads import Trip, random_values, travel
    from ottla.cli.topic import parse_settings
    from ottla.client.settings import CONSUMER, PRODUCER

    if acks is Acks.NONE:
        raise typer.BadParameter("a record nobody acknowledges has no known way; take 1 or all", param_hint="--acks")
    extra: dict[str, object] = dict(parse_settings(settings, "--set"))
    of_producer = {name: value for name, value in extra.items() if name in PRODUCER.settings}
    of_consumer = {name: value for name, value in extra.items() if name in CONSUMER.settings}
    unknown = sorted(extra.keys() - of_producer.keys() - of_consumer.keys())
    if unknown:
        raise typer.BadParameter(f"neither producers nor consumers have a setting {unknown[0]!r}", param_hint="--set")
    producing = client_settings(PRODUCER, bootstrap, {"acks": acks.value, **of_producer}, {"linger.ms": 0})
    consuming = client_settings(CONSUMER, bootstrap, of_consumer)
    _create(topic, bootstrap, seconds)
    trip, travelled = Trip(topic, records, random_values(record_size)[0]), Travelled()
    try:
        run_client(bootstrap, travel(producing, consuming, trip, travelled, _teller(as_json)))
    finally:
        if travelled.records and as_json:
            show_json(travelled.document())
        elif travelled.records:
            say(travelled.lines())


def metric_lines(metrics: "Mapping[str, float]") -> str:
    """One a line, as Kafka's tools print them."""
    width = max(map(len, metrics), default=0)
    return "".join(f"{name:<{width}} : {value:.3f}\n" for name, value in sorted(metrics.items()))


def _as_document(metrics: "Mapping[str, float]") -> "dict[str, dict[str, float]]":
    return {"metrics": dict(metrics)} if metrics else {}


def _usual(given: "dict[str, object]") -> "dict[str, object]":
    """Idempotence goes with acks=all alone."""
    return {} if str(given.get("acks", "all")) in ("all", "-1") else {"enable.idempotence": False}


def _teller(quiet: bool) -> "Callable[[str], None]":
    return (lambda _: None) if quiet else (lambda line: say(line + "\n"))


def _create(topic: str, bootstrap: str, seconds: float) -> None:
    """Let the broker make the topic if it does that, so that its making is not measured."""

    async def work(cluster: "Cluster") -> None:
        await cluster.topic(topic, cluster.deadline(min(seconds, CREATION_SECONDS)), create=True)

    with_cluster(bootstrap, seconds, work)


def _require(topic: str, bootstrap: str, seconds: float) -> None:
    async def work(cluster: "Cluster") -> None:
        await cluster.topic(topic, cluster.deadline(seconds))

    with_cluster(bootstrap, seconds, work)


def _lines(path: str) -> list[bytes]:
    from ottla.cli.failures import Failure

    try:
        with open(path, "rb") as file:
            lines = file.read().splitlines()
    except OSError as problem:
        raise Failure(f"cannot read {path}: {problem.strerror}") from None
    if not lines:
        raise Failure(f"{path} is empty; --payload-file needs a line to send")
    return lines
