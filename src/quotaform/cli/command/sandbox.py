"""`quotaform sandbox`: a real Apache Kafka on this machine, to try things on."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from quotaform.sandbox.detached import DetachedSandbox

app = typer.Typer(help="Run a real Apache Kafka on this machine (127.0.0.1 only), for tests.", no_args_is_help=True)


class Format(StrEnum):
    """How a result is written."""

    TEXT = "text"
    JSON = "json"


Name = Annotated[str, typer.Option(metavar="NAME", help="Name of the sandbox.")]
Output = Annotated[Format, typer.Option("--format", help="Output format.")]


@app.command()
def start(
    brokers: Annotated[int, typer.Option(metavar="N", min=1, max=9, help="Number of brokers, up to 9.")] = 1,
    secured: Annotated[bool, typer.Option("--secured", help="Enable SASL, TLS and an authorizer.")] = False,
    name: Name = "default",
    output: Output = Format.TEXT,
) -> None:
    """Start a sandbox in the background and print its bootstrap servers.

    A sandbox that already runs is not restarted. The first start downloads Apache Kafka.

    \b
    Examples:
      quotaform sandbox start
      quotaform sandbox start --brokers 3 --name trio
      quotaform sandbox start --secured --name safe --format json
    """
    from quotaform.sandbox import detached

    sandbox, started = detached.start(name, brokers=brokers, secured=secured)
    _echo(sandbox, output)
    if not started:
        typer.echo(f"The sandbox {name} was already running.", err=True)


@app.command()
def stop(name: Name = "default") -> None:
    """Stop a sandbox and remove its data.

    \b
    Example:
      quotaform sandbox stop
    """
    from quotaform.sandbox import detached

    typer.echo(f"{name}: {'stopped' if detached.stop(name) else 'not running'}")


@app.command()
def status(name: Name = "default", output: Output = Format.TEXT) -> None:
    """Print the bootstrap servers of a running sandbox; exit 1 if it is not running.

    \b
    Example:
      quotaform plan --bootstrap-server "$(quotaform sandbox status)"
    """
    from quotaform.sandbox import detached

    sandbox = detached.find(name)
    if sandbox is not None:
        _echo(sandbox, output)
        return
    typer.echo(json.dumps({"name": name, "running": False}) if output is Format.JSON else f"{name}: not running")
    raise typer.Exit(1)


def _echo(sandbox: DetachedSandbox, output: Format) -> None:
    if output is Format.JSON:
        typer.echo(json.dumps(asdict(sandbox) | {"running": True}, indent=2))
        return
    # Only the address goes to stdout: it is what a script takes.
    typer.echo(sandbox.bootstrap_servers)
    for listener, address in sandbox.listeners.items() if sandbox.secured else ():
        typer.echo(f"{listener:<14} {address}", err=True)
    if sandbox.client_config is not None:
        typer.echo(f"client configuration of admin: {sandbox.client_config}", err=True)
