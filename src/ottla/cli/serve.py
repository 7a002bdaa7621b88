"""`ottla serve`: one node in the foreground."""

from typing import Annotated

import typer


def serve(
    port: Annotated[
        int | None, typer.Option(help="Port to listen on, on this machine's loopback addresses (default 9092).")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Directory for the data (default ./ottla-data).")] = None,
    config: Annotated[str | None, typer.Option(help="A settings file in Kafka's .properties form.")] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting; may be given many times.")
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(help="Port for /metrics (Prometheus), /healthz and /readyz; not served unless given."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Say that the node is ready as a JSON object, for programs.")
    ] = False,
) -> None:
    """Run one node in the foreground until Ctrl-C, SIGTERM or the end of its terminal.

    ottla serve
    ottla serve --port 19092 --data /var/lib/ottla
    ottla serve --metrics-port 9404
    ottla serve --set num.partitions=6 --set log.retention.hours=24
    ottla serve --json --set ottla.log.format=json
    """
    from ottla.node.node import run
    from ottla.node.options import Options

    raise typer.Exit(run(Options(port, data, config, assignments or (), metrics_port), as_json=as_json))
