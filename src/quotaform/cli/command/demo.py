"""`quotaform demo`: the full workflow on a real Apache Kafka, as one terminal session."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, chdir, contextmanager
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from quotaform.cli.console import Color, Console, step_console
from quotaform.cli.option.common import ColorOption
from quotaform.model.errors import QuotaformError, UsageError

if TYPE_CHECKING:
    from quotaform.sandbox import Sandbox


class DemoSession:
    """Runs commands in a folder and shows them with their output."""

    def __init__(self, console: Console, folder: Path) -> None:
        self._console = console
        self.folder = folder
        self._style = console.style()

    def print_step(self, text: str) -> None:
        """Print what is done next."""
        self._console.echo("\n" + self._style.paint(f"# {text}", "bold") + "\n")

    def _prompt(self, command: str) -> None:
        self._console.echo("\n" + self._style.paint(f"$ {command}", "green") + "\n")

    def quotaform(self, *arguments: str, expected: int = 0) -> None:
        """Run a command.

        `expected`: the exit code that it must have.
        """
        self._prompt(f"quotaform {shlex.join(arguments)}")
        options = ["--color", "always" if self._style.is_coloured else "never"]
        code = self._exit_code([*arguments, *options])
        if expected:
            self._console.echo(self._style.paint(f"(exit code {code})", "dim") + "\n")
        if code != expected:
            raise QuotaformError(
                f"the demo stopped: quotaform {shlex.join(arguments)} ended with {code}, not {expected}"
            )

    def _exit_code(self, arguments: list[str]) -> int:
        """Run a command, and return its exit code."""
        command = [sys.executable, "-m", "quotaform", *arguments]
        return subprocess.run(command, cwd=self.folder, check=False).returncode  # noqa: S603

    def kafka_configs(self, kafka: Sandbox, entity: str, values: str, *, shows_server: bool = False) -> None:
        """Set quotas with Kafka's own script.

        `entity`: its options for an entity. `shows_server`: whether the command is shown with the address of the
        broker.
        """
        server = f"--bootstrap-server {kafka.bootstrap_servers} " if shows_server else ""
        self._prompt(f"kafka-configs.sh {server}--alter {entity} --add-config {values}")
        done = kafka.run_tool(
            "kafka.admin.ConfigCommand",
            "--bootstrap-server",
            kafka.bootstrap_servers,
            "--alter",
            *shlex.split(entity),
            "--add-config",
            values,
        )
        self._console.echo(done.stdout)
        if done.returncode:
            raise QuotaformError(f"the demo stopped: kafka-configs ended with {done.returncode}: {done.stderr}")

    def write(self, name: str, text: str) -> None:
        """Write a file and show it."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        self.show(name)

    def show(self, name: str) -> None:
        """Show a file."""
        self._prompt(f"cat {name}")
        self._console.echo((self.folder / name).read_text(encoding="utf-8"))

    def edit(self, name: str, after: str) -> None:
        """Give a file another content and show what that changes."""
        path = self.folder / name
        before = path.read_text(encoding="utf-8")
        path.write_text(after, encoding="utf-8")
        self._prompt(f"$EDITOR {name}")
        difference = unified_diff(
            before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}", n=1
        )
        for line in difference:
            colour = {"+": "green", "-": "red"}.get(line[0])
            self._console.echo(self._style.paint(line.rstrip("\n"), colour) + "\n" if colour else line)


_BY_HAND: Final = (
    ("--entity-type users --entity-default", "producer_byte_rate=5242880,consumer_byte_rate=10485760"),
    ("--entity-type users --entity-name svc-orders", "producer_byte_rate=10485760,consumer_byte_rate=20971520"),
    (
        "--entity-type users --entity-name svc-etl --entity-type clients --entity-name nightly",
        "producer_byte_rate=52428800,request_percentage=150",
    ),
)
_BEHIND_GIT: Final = ("--entity-type users --entity-name svc-orders", "producer_byte_rate=104857600")
_OLD_VALUE: Final = "producer_byte_rate: 10MiB/s"
_NEW_VALUE: Final = "producer_byte_rate: 20MiB/s"
_NEW_ENTRY: Final = """
  - match: {user: svc-search}
    values:
      producer_byte_rate: 2MiB/s
    owner: team-search
"""


def demo(
    fleet: Annotated[
        bool, typer.Option("--fleet", help="On three clusters, planned and applied on Spark, with history.")
    ] = False,
    usage: Annotated[
        bool, typer.Option("--usage", help="With real traffic: recorded, replayed on Spark, and quotas that fit it.")
    ] = False,
    color: ColorOption = Color.AUTO,
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
    from quotaform.sandbox import Sandbox

    if fleet and usage:
        raise UsageError("--fleet and --usage are two demos; give one of them")
    console = Console(color)
    if usage:
        run_usage_demo(console)
        return 0
    if fleet:
        run_fleet_demo(console)
        return 0
    console.echo("Starting Apache Kafka on loopback (the first start downloads it: about 45 MB) ...\n")
    with Sandbox().start(progress=step_console().progress) as kafka:
        _run(DemoSession(console, _folder(kafka)), kafka)
    console.echo("\nKafka was stopped and its data removed. Next: README.md, or quotaform --help\n")
    return 0


def edited(imported: str) -> str:
    """Return the file of the import after the edit that the demo makes, in the style of `quotaform fmt`."""
    return imported.replace(_OLD_VALUE, _NEW_VALUE, 1) + _NEW_ENTRY


def _run(session: DemoSession, kafka: Sandbox) -> None:
    """Run the session on one broker from beginning to end."""
    imported = "quotas.d/imported.yaml"
    session.print_step("Existing quotas, set with Kafka's own script.")
    for entity, values in _BY_HAND:
        session.kafka_configs(kafka, entity, values)

    session.print_step("Bring them under management: configure the cluster and import its quotas.")
    session.write(
        "quotaform.yaml",
        f"clusters:\n  demo:\n    bootstrap_servers: [{kafka.bootstrap_servers}]\n",
    )
    session.quotaform("import")
    session.show(imported)

    session.print_step("Edit: a higher limit for svc-orders, and a new user.")
    session.edit(imported, edited((session.folder / imported).read_text(encoding="utf-8")))
    session.quotaform("validate")
    session.quotaform("plan", "--out", "plan.json")
    session.quotaform("apply", "plan.json")
    session.quotaform("plan", "--detailed-exitcode")

    session.print_step("A change outside of git.")
    session.kafka_configs(kafka, *_BEHIND_GIT)
    session.quotaform("drift", expected=2)
    session.print_step("Repair it with apply.")
    session.quotaform("apply", "--auto-approve")
    session.quotaform("drift")


_NAMES: Final = ("eu", "us", "ap")
_COMMON: Final = """\
# All clusters.
quotas:
  - match: {user: <default>}
    values:
      producer_byte_rate: 5MiB/s
      consumer_byte_rate: 10MiB/s

  - match: {user: svc-orders}
    values: {producer_byte_rate: 20MiB/s}
    owner: team-orders
"""
_LAYER: Final = """\
# Cluster eu alone.
quotas:
  - match: {user: svc-orders}
    values: {producer_byte_rate: 40MiB/s}
    owner: team-orders

  - match: {user: svc-etl, client-id: nightly}
    values: {producer_byte_rate: 50MiB/s, request_percentage: 150}
    owner: team-data
"""
_CLIENTS: Final = """\
user,client_id,ip
svc-orders,checkout,
svc-orders,reports,
svc-etl,nightly,
svc-mobile,android,
"""
_BEFORE: Final = ("--entity-type users --entity-name svc-orders", "producer_byte_rate=10485760")
_FLEET_BY_HAND: Final = ("--entity-type users --entity-name svc-orders", "producer_byte_rate=104857600")
_SPARK: Final = ("--all", "--engine", "spark")
_FAILED: Final = 1
"""A cluster is down."""
_PARTIAL: Final = 6
"""Something was written, and a cluster is down."""
_HISTORY: Final = ("--history", "history")


def run_fleet_demo(console: Console) -> None:
    """Start three clusters, run the session, and stop them."""
    from quotaform.fleet.session import require_spark

    require_spark()
    console.echo(
        "Starting three clusters of Apache Kafka on loopback (the first start downloads it: about 45 MB) ...\n"
    )
    with _clusters() as clusters, _notebook(console, clusters["eu"]) as session:
        _run_fleet(session, clusters)
    console.echo("\nThe clusters were stopped and their data removed. Next: docs/spark.md, or quotaform --help\n")


@contextmanager
def _clusters() -> Iterator[dict[str, Sandbox]]:
    """Start the clusters side by side, and stop them at the end."""
    from quotaform.sandbox import Sandbox
    from quotaform.sandbox.release import find_jars

    find_jars(step_console().progress)
    clusters = {name: Sandbox() for name in _NAMES}
    with ExitStack() as stack:
        for kafka in clusters.values():
            stack.callback(kafka.stop)
        with ThreadPoolExecutor(len(clusters)) as pool:
            for started in [pool.submit(kafka.start) for kafka in clusters.values()]:
                started.result()
        yield clusters


def _run_fleet(session: DemoSession, clusters: dict[str, Sandbox]) -> None:
    """Run the session from beginning to end."""
    from quotaform.model import rule

    session.print_step("All commands use one Spark session, as in a notebook; in a shell, each one starts its own.")
    session.print_step("A repository for four clusters: common quotas, a layer of eu, and edge, which is down.")
    lines = [f"  {name}: {{bootstrap_servers: [{kafka.bootstrap_servers}]}}\n" for name, kafka in clusters.items()]
    lines.append("  edge: {bootstrap_servers: [127.0.0.1:1]}\n")
    session.write("quotaform.yaml", f"clusters:\n{''.join(lines)}")
    session.write("quotas.d/common.yaml", _COMMON)
    session.write("quotas.d/eu/own.yaml", _LAYER)
    session.kafka_configs(clusters["us"], *_BEFORE, shows_server=True)

    session.print_step("A history begins with what the clusters hold before anything changes.")
    session.quotaform("history", "append", "--all", *_HISTORY, expected=_FAILED)

    session.print_step("Plan all clusters on Spark, with those who connect: whose limits change, and by how much?")
    session.write("clients.csv", _CLIENTS)
    session.quotaform(
        "plan",
        *_SPARK,
        "--principals",
        "clients.csv",
        "--out",
        "summary=plans/{cluster}.txt",
        "--format",
        "report",
        expected=_FAILED,
    )
    session.show("plans/us.txt")

    session.print_step("The new default is intended, so allow it and apply to the clusters that are up.")
    session.quotaform(
        "apply", *_SPARK, "--auto-approve", "--allow", rule.DEFAULT_ENTITY.id, "--format", "report", expected=_PARTIAL
    )
    session.quotaform("history", "append", "--all", *_HISTORY, expected=_FAILED)

    session.print_step("A change outside of git on one cluster.")
    session.kafka_configs(clusters["us"], *_FLEET_BY_HAND, shows_server=True)
    session.print_step("Few clusters are compared sooner in one process, which is the default.")
    session.quotaform("drift", "--all", "--format", "report", expected=_FAILED)
    session.print_step("The history takes up the change.")
    session.quotaform("history", "append", "--cluster", "us", *_HISTORY)
    session.print_step(
        "What it had, since when, and who changed it: receipts of applies say so; the change outside of git has none."
    )
    session.quotaform("history", "show", "user=svc-orders", "--cluster", "us", *_HISTORY)


_QUOTAS: Final = """\
quotas:
  # So large that it limits nobody: brokers measure nobody before there is a quota of the key.
  - match: {client-id: <default>}
    values: {producer_byte_rate: 1GB/s, consumer_byte_rate: 1GB/s}

  # Limits that were guessed.
  - match: {client-id: checkout}
    values: {producer_byte_rate: 10MB/s}
    owner: team-orders

  - match: {client-id: etl}
    values: {producer_byte_rate: 10MB/s}
    owner: team-data
"""
_FILE: Final = "quotas.d/quotas.yaml"
_GUESS: Final = "match: {client-id: etl}\n    values: {producer_byte_rate: 10MB/s}"
_TIGHT: Final = "match: {client-id: etl}\n    values: {producer_byte_rate: 3MB/s}"
_SECONDS: Final = 25


def run_usage_demo(console: Console, seconds: int = _SECONDS) -> None:
    """Start a broker, run the session, and stop it.

    `seconds`: how long the clients have something to send; with less than 12, none is throttled.
    """
    from quotaform.fleet.session import require_spark
    from quotaform.sandbox import Sandbox

    require_spark()
    console.echo("Starting Apache Kafka on loopback (the first start downloads it: about 50 MB) ...\n")
    with (
        Sandbox(exporter=True).start(progress=step_console().progress) as kafka,
        _notebook(console, kafka) as session,
    ):
        _run_usage(session, kafka, seconds)
    console.echo("\nKafka was stopped and its data removed. Next: docs/usage.md, or quotaform usage --help\n")


class _NotebookSession(DemoSession):
    """Runs commands in this process, where they use the Spark session that is there."""

    def _exit_code(self, arguments: list[str]) -> int:
        from quotaform.cli.main import run

        return run(arguments)

    @contextmanager
    def in_background(self, *arguments: str) -> Iterator[None]:
        """Run a command in a process of its own until the end of the block, and wait for it."""
        command = f"quotaform {shlex.join(arguments)}"
        self._prompt(f"{command} &")
        process = subprocess.Popen([sys.executable, "-m", "quotaform", *arguments], cwd=self.folder)  # noqa: S603
        try:
            yield
            if code := process.wait():
                raise QuotaformError(f"the demo stopped: {command} ended with {code}, not 0")
        finally:
            process.kill()


def _folder(kafka: Sandbox) -> Path:
    """Make a folder inside of that of a sandbox, which goes whatever happens to this process."""
    folder: Path = kafka.data_dir / "demo"
    folder.mkdir()
    return folder


@contextmanager
def _notebook(console: Console, kafka: Sandbox) -> Iterator[_NotebookSession]:
    """Yield a session on Spark."""
    from quotaform.fleet.session import spark_session

    folder = _folder(kafka)
    with spark_session(), chdir(folder):
        yield _NotebookSession(console, folder)


def _run_usage(session: _NotebookSession, kafka: Sandbox, seconds: int) -> None:
    """Run the session from beginning to end."""
    from quotaform.model import rule

    # With the seconds in which clients start, and in which etl ends with the lower limit.
    record = ("usage", "record", "--interval", "1s", "--for", f"{seconds * 4 // 3 + 12}s", "--usage")
    session.print_step("A cluster, where its broker offers metrics, and quotas that somebody guessed.")
    [url] = kafka.metrics_urls.values()
    session.write(
        "quotaform.yaml",
        "clusters:\n"
        "  demo:\n"
        f"    bootstrap_servers: [{kafka.bootstrap_servers}]\n"
        f"    metrics: {{brokers: ['1={url}']}}\n",
    )
    session.write(_FILE, _QUOTAS)
    session.quotaform("apply", "--auto-approve", "--allow", rule.DEFAULT_ENTITY.id)

    session.print_step(f"Traffic of {seconds} s: checkout produces 1 MB/s, etl 4 MB/s, reports consumes what etl made.")
    with _traffic(kafka, seconds):
        session.quotaform(*record, "before")

    session.print_step("How close is everybody to the limits?")
    session.quotaform("usage", "headroom", "--usage", "before")

    session.print_step("A limit that fits what checkout uses, and a lower one for etl: what would it have done?")
    session.edit(_FILE, _QUOTAS.replace(_GUESS, _TIGHT))
    session.quotaform(
        *("usage", "recommend", "--usage", "before", "--select", "client-id=checkout"),
        *("--min-history", "10s", "--min-samples", "10", "--write", "--no-backtest"),
    )
    session.show(_FILE)
    session.quotaform("plan", "--backtest", "before", "--out", "plan.json")
    session.quotaform("apply", "plan.json")

    session.print_step("The same traffic again. Who is throttled now, and by which quota?")
    with _traffic(kafka, seconds), session.in_background(*record, "after", "--quiet"):
        time.sleep(seconds)
        session.quotaform("top", "--once")

    session.print_step("For how long? As the plan's backtest said, to within the seconds that a broker's gauges tell.")
    session.quotaform("usage", "headroom", "--usage", "after")


@contextmanager
def _traffic(kafka: Sandbox, seconds: int) -> Iterator[None]:
    """Run the clients until the end of the block, and wait for the producers."""
    from quotaform.sandbox.tool import Traffic

    with Traffic(kafka) as traffic:
        traffic.produce("orders", "checkout", rate=1_000_000, seconds=seconds)
        traffic.produce("events", "etl", rate=4_000_000, seconds=seconds)
        traffic.consume("events", "reports")
        yield
        traffic.wait()
