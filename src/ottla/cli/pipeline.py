"""`ottla pipeline …`: stream processing on Spark, from a file.

Owns: the commands and their options. Never knows: Spark (`spark.pipelines`), how one is run (`pipeline_run`), layout
(`pipeline_views`). `list`, `status`, `stop` and `logs` start no Spark.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ottla.cli.failures import Failure
from ottla.cli.output import say, show, show_json, show_json_line
from ottla.cli.session import DEFAULT_BOOTSTRAP, DEFAULT_SECONDS, AsJson, AsJsonLines, Bootstrap, Seconds

if TYPE_CHECKING:
    from ottla.spark.pipelines.definition import Definition
    from ottla.spark.pipelines.files import Program

app = typer.Typer(help="Run stream processing on Spark; see it, stop it.", no_args_is_help=True)

File = Annotated[str, typer.Argument(metavar="FILE", help="The pipeline: YAML with SQL (.yaml), or Python (.py).")]
STOPPING = "stopping"
"""Of a pipeline that was asked to stop, and that nobody waits for."""
Name = Annotated[str, typer.Argument(metavar="NAME", help="The pipeline's name.")]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A value for ${NAME} in the file; repeat for more."),
]
Master = Annotated[
    str | None,
    typer.Option(metavar="URL", help="The Spark cluster, as spark://host:7077 or k8s://…; else this machine."),
]


@app.command()
def run(
    context: typer.Context,
    file: File,
    assignments: Assignments = None,
    master: Master = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Where the pipeline remembers how far it is; any place Spark can write to."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Take what is there now, then end.")] = False,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Run in the background.")] = False,
    logged: Annotated[bool, typer.Option("--logged", hidden=True)] = False,
    as_json: AsJsonLines = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Run a pipeline until it is stopped: with Ctrl-C, or by 'ottla pipeline stop' from anywhere.

    It goes on where it was when it is started again, as long as it finds its checkpoint.

    \b
    ottla pipeline run orders.yaml
    ottla pipeline run orders.yaml --once --set WINDOW='5 minutes'
    ottla pipeline run orders.yaml --once --json | jq -c 'select(.event == "batch") | .input_rows'
    ottla pipeline run orders.py --detach --master spark://spark:7077 --checkpoint hdfs:///checkpoints/orders
    """
    from ottla.cli.pipeline_run import RunRequest, run_detached, run_here

    described = _load(file, assignments)
    described = _with_client(described, _client(context, described.frame.client, bootstrap))
    wanted = RunRequest(file, described, assignments or [], master, checkpoint, once, seconds, as_json)
    if detach:
        run_detached(wanted)
    else:
        run_here(wanted, logged)


@app.command()
def check(
    context: typer.Context,
    file: File,
    assignments: Assignments = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Look for mistakes without running anything: keys, names, SQL against the schemas, what streams cannot do.

    No cluster is asked, unless it is named with --bootstrap or --profile: then the topics must be there.

    \b
    ottla pipeline check orders.yaml
    ottla pipeline check orders.yaml -b localhost:9092
    """
    from ottla.spark.pipelines.definition import BadPipeline

    refusal: Failure | None = None
    try:
        found = _examine(context, file, assignments, bootstrap, seconds)
        if found.problems:
            refusal = Failure(_listed(file, found.problems))
    except Failure as failure:
        if not isinstance(failure.__cause__, BadPipeline):
            raise
        found, refusal = _Examined(failure.__cause__.problems), failure
    if as_json:
        show_json({"file": file, **found._asdict()})
    if refusal is not None:
        raise refusal
    if not as_json:
        say(f"{file} is fine: {len(found.sources)} sources and tables, {len(found.sinks)} sinks\n")
        for note in found.notes:
            say(f"note: {note}\n")


@app.command()
def plan(
    file: File,
    assignments: Assignments = None,
    as_json: AsJson = False,
) -> None:
    """Show what is made from what: from each sink back to the sources.

    \b
    ottla pipeline plan orders.yaml
    ottla pipeline plan orders.yaml --json | jq '.nodes[] | select(.kind == "source")'
    """
    from ottla.spark.pipelines.definition import BadPipeline, Definition
    from ottla.spark.pipelines.graph import draw, graph_json, graph_of

    described = _load(file, assignments)
    if isinstance(described, Definition):
        try:
            nodes = graph_of(described)
        except BadPipeline as problem:
            raise Failure(_listed(file, problem.problems)) from None
    else:
        from ottla.cli.pipeline_run import built

        with built(described) as pipeline:
            nodes = pipeline.graph()
    if as_json:
        show_json(graph_json(described.frame.name, nodes))
    else:
        say(draw(nodes))


@app.command("list")
def list_pipelines(
    as_json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, seconds: Seconds = DEFAULT_SECONDS
) -> None:
    """List the pipelines that run or have run on a cluster.

    \b
    ottla pipeline list
    ottla pipeline list --json | jq -r '.[] | select(.state == "running") | .name'
    """
    from ottla.cli.pipeline_views import list_table, now_ms, with_condition

    with _board(_registry_client(bootstrap), seconds) as board:
        found = [with_condition(each, now_ms()) for each in board.pipelines().values()]
    if as_json:
        show_json(found)
    else:
        show(list_table(found, now_ms()))


@app.command()
def status(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One pipeline; else all that run.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Stay, and show it live until Ctrl-C.")] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Show how far queries are: batch, rows a second in and out, lag, watermark, state, and where a batch's time goes.

    \b
    ottla pipeline status
    ottla pipeline status orders --follow
    """
    from ottla.cli import pipeline_views as views

    client = _registry_client(bootstrap)
    with _board(client, seconds) as board:
        if name is not None and name not in board.pipelines():
            raise Failure(_unknown(name))
        if follow:
            _asking(client, lambda: views.follow(board, name, as_json))
        elif as_json:
            show_json(views.status_json(board, name))
        else:
            views.show_status(board, name)


@app.command()
def stop(
    name: Name,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it has ended.")] = True,
    within: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="How long the last batch may take.")] = 150.0,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Stop a pipeline, wherever it runs; the batches that run come to their end first.

    \b
    ottla pipeline stop orders
    """
    from ottla.cli.pipeline_views import GONE, condition, now_ms, wait_for_end
    from ottla.spark.pipelines.registry import ALIVE, FAILED, PIPELINES, REQUEST, STOP, Publisher

    client = _registry_client(bootstrap)
    with _board(client, seconds) as board:
        found = board.pipelines().get(name)
        if found is None:
            raise Failure(_unknown(name))
        if found["state"] not in ALIVE:
            _tell_end(name, f"does not run: it is {found['state']}", found["state"], as_json)
            return
        with Publisher(client) as publisher:
            if condition(found, now_ms()) == GONE:
                gone = {**found, "state": FAILED, "problem": "its process is gone", "time": now_ms()}
                publisher.put(PIPELINES, name, gone)
                _tell_end(name, f"does not run any more: process {found['pid']} is gone", FAILED, as_json)
                return
            publisher.put(PIPELINES, f"{name}/{REQUEST}", {"request": STOP, "time": now_ms()})
            publisher.flush()
        if wait:
            state = _asking(client, lambda: wait_for_end(board, name, found["started"], within))
            if state is None:
                raise Failure(f"pipeline {name} did not stop within {within:g} s; 'ottla pipeline status {name}'")
            _tell_end(name, f"has {state}", state, as_json)
        elif as_json:
            show_json({"pipeline": name, "state": STOPPING})


def _tell_end(name: str, sentence: str, state: str, as_json: bool) -> None:
    if as_json:
        show_json({"pipeline": name, "state": state})
    else:
        say(f"pipeline {name} {sentence}\n")


@app.command()
def logs(
    name: Name,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until it ends.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines; 0: all.")] = 100,
    as_json: AsJsonLines = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Seconds = DEFAULT_SECONDS,
) -> None:
    """Show the log of a pipeline that was started with --detach on this machine.

    \b
    ottla pipeline logs orders --follow
    """
    from ottla.cli.pipeline_views import tail, whole_lines
    from ottla.spark.pipelines.places import PipelineDirectory

    place = PipelineDirectory(name)
    if not place.log.exists():
        with _board(_registry_client(bootstrap), seconds) as board:
            found = board.pipelines().get(name)
        if found is None:
            raise Failure(_unknown(name))
        where = f"in {found['log']}" if found["log"] else "the terminal it was started from"
        raise Failure(f"pipeline {name} was started on {found['host']}; its log is {where} there")
    if as_json:
        for line in whole_lines(tail(place, lines, follow)):
            show_json_line({"pipeline": name, "line": line})
    else:
        for piece in tail(place, lines, follow):
            say(piece)


# --- what the commands share ------------------------------------------------------------------------------------------


class _Examined(NamedTuple):
    """What was found in a file that was checked."""

    problems: Sequence[str]
    sources: Sequence[str] = ()
    sinks: Sequence[str] = ()
    notes: Sequence[str] = ()


def _examine(
    context: typer.Context, file: str, assignments: list[str] | None, bootstrap: str, seconds: float
) -> _Examined:
    """Build a pipeline and look at it; a file that is none fails because of a `BadPipeline`."""
    from ottla.cli.pipeline_run import built

    described = _load(file, assignments)
    client = _client(context, described.frame.client, bootstrap)
    with built(_with_client(described, client)) as pipeline:
        problems = pipeline.check()
        topics = [name for source in pipeline.sources.values() for name in _names(source)]
        sources, sinks = list(pipeline.sources), [output.sink.name for output in pipeline.outputs]
    if _is_named(context):
        missing = _asking(client, lambda: _missing(client, topics, seconds))
        problems += [f"topic {name!r} does not exist; 'ottla topic create {name}' makes it" for name in missing]
    return _Examined(problems, sources, sinks, _advice(described))


def _load(file: str, assignments: list[str] | None) -> "Definition | Program":
    from ottla.spark.pipelines.definition import BadPipeline
    from ottla.spark.pipelines.files import load_pipeline

    values = {}
    for each in assignments or ():
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{each!r} is not NAME=VALUE", param_hint="--set")
        values[name] = value
    try:
        return load_pipeline(file, values)
    except BadPipeline as problem:
        raise Failure(_listed(file, problem.problems)) from problem


def _listed(file: str, problems: Sequence[str]) -> str:
    if len(problems) == 1:
        return f"{problems[0]} ({file})" if file not in problems[0] else problems[0]
    return f"{file} has {len(problems)} problems:" + "".join(f"\n  {problem}" for problem in problems)


def _is_named(context: typer.Context) -> bool:
    """Somebody said which cluster is meant."""
    import os

    from ottla.cli.profiles import PROFILE

    source = context.get_parameter_source("bootstrap")
    return (source is not None and source.name != "DEFAULT") or bool(os.environ.get(PROFILE))


def _client(context: typer.Context, said: Mapping[str, str], bootstrap: str) -> dict[str, str]:
    """A pipeline's client settings: the command line wins over the file, the file over a default."""
    named = _is_named(context) or "bootstrap.servers" not in said
    return {**said, **_registry_client(bootstrap)} if named else dict(said)


def _registry_client(bootstrap: str) -> dict[str, str]:
    from ottla.cli.profiles import chosen_settings, text_of

    profile = {name: text_of(value) for name, value in chosen_settings().items()}
    return {**profile, "bootstrap.servers": bootstrap}


def _with_client(described: "Definition | Program", client: Mapping[str, str]) -> "Definition | Program":
    return described._replace(frame=described.frame._replace(client=client))


def _names(source: Any) -> list[str]:
    return [] if source.option("subscribePattern") else [name.strip() for name in source.topics.split(",")]


def _advice(described: "Definition | Program") -> list[str]:
    from ottla.spark.pipelines.definition import Definition
    from ottla.spark.pipelines.graph import advice

    return advice(described) if isinstance(described, Definition) else []


def _missing(client: Mapping[str, str], topics: list[str], seconds: float) -> list[str]:
    from ottla.spark.pipelines.registry import missing_topics

    return missing_topics(_hurried(client, seconds), sorted(set(topics)), seconds)


def _hurried(client: Mapping[str, str], seconds: float) -> dict[str, str]:
    """For a command that somebody waits for."""
    return {**client, "default.api.timeout.ms": str(int(seconds * 1000))}


def _asking(client: Mapping[str, str], work: Any) -> Any:
    """What `work` answers; what goes wrong with the cluster is one sentence."""
    from ottla.cli.failures import explain
    from ottla.client.errors import ClientError

    try:
        return work()
    except ClientError as problem:
        raise Failure(explain(problem, client["bootstrap.servers"])) from problem


def _board(client: Mapping[str, str], seconds: float) -> Any:
    from ottla.spark.pipelines.registry import Board

    return _asking(client, lambda: Board(_hurried(client, seconds), seconds))


def _unknown(name: str) -> str:
    return f"no pipeline {name!r} has run on this cluster; 'ottla pipeline list' shows those that have"
