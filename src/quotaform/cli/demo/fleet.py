"""`quotaform demo --fleet`: three clusters and one that is down, planned and applied on Spark, with history."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, chdir, contextmanager
from typing import TYPE_CHECKING, Final

from quotaform.cli.command.sandbox import step_console
from quotaform.cli.demo.session import DemoSession
from quotaform.core.check import rule

if TYPE_CHECKING:
    from quotaform.cli.console import Console
    from quotaform.sandbox import Sandbox

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
_BY_HAND: Final = ("--entity-type users --entity-name svc-orders", "producer_byte_rate=104857600")
_SPARK: Final = ("--all", "--engine", "spark")
_FAILED: Final = 1
"""A cluster is down."""
_PARTIAL: Final = 6
"""Something was written, and a cluster is down."""
_HISTORY: Final = ("--history", "history")


def run_fleet_demo(console: Console) -> None:
    """Start three clusters, run the session, and stop them."""
    from quotaform.spark.session.session import require_spark, spark_session

    require_spark()
    console.echo(
        "Starting three clusters of Apache Kafka on loopback (the first start downloads it: about 45 MB) ...\n"
    )
    with _clusters() as clusters:
        # Inside of a sandbox's own folder, which goes whatever happens to this process.
        folder = clusters["eu"].data_dir / "demo"
        folder.mkdir()
        with spark_session(), chdir(folder):
            _run(_NotebookSession(console, folder), clusters)
    console.echo("\nThe clusters were stopped and their data removed. Next: docs/spark.md, or quotaform --help\n")


@contextmanager
def _clusters() -> Iterator[dict[str, Sandbox]]:
    """Start the clusters side by side, and stop them at the end."""
    from quotaform.sandbox import Sandbox
    from quotaform.sandbox.jar import find_jars

    find_jars(step_console().progress)
    clusters = {name: Sandbox() for name in _NAMES}
    with ExitStack() as stack:
        for kafka in clusters.values():
            stack.callback(kafka.stop)
        with ThreadPoolExecutor(len(clusters)) as pool:
            for started in [pool.submit(kafka.start) for kafka in clusters.values()]:
                started.result()
        yield clusters


class _NotebookSession(DemoSession):
    """Runs commands in this process, where they use the Spark session that is there."""

    def _exit_code(self, arguments: list[str]) -> int:
        from quotaform.cli.main import run

        return run(arguments)


def _run(session: DemoSession, clusters: dict[str, Sandbox]) -> None:
    """Run the session from beginning to end."""
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
    session.kafka_configs(clusters["us"], *_BY_HAND, shows_server=True)
    session.print_step("Few clusters are compared sooner in one process, which is the default.")
    session.quotaform("drift", "--all", "--format", "report", expected=_FAILED)
    session.print_step("The history takes up the change.")
    session.quotaform("history", "append", "--cluster", "us", *_HISTORY)
    session.print_step(
        "What it had, since when, and who changed it: receipts of applies say so; the change outside of git has none."
    )
    session.quotaform("history", "show", "user=svc-orders", "--cluster", "us", *_HISTORY)
