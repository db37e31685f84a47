"""`quotaform demo --usage`: real traffic, a recording of it, and quotas that follow from it."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from typing import TYPE_CHECKING, Final

from quotaform.cli.command.sandbox import step_console
from quotaform.cli.demo.session import DemoSession
from quotaform.core.check import rule
from quotaform.errors import QuotaformError

if TYPE_CHECKING:
    from quotaform.cli.console import Console
    from quotaform.sandbox import Sandbox

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

    Args:
        seconds: How long the clients have something to send; with less than 12, none is throttled.
    """
    from quotaform.sandbox import Sandbox
    from quotaform.spark.session.session import require_spark, spark_session

    require_spark()
    console.echo("Starting Apache Kafka on loopback (the first start downloads it: about 50 MB) ...\n")
    with Sandbox(exporter=True).start(progress=step_console().progress) as kafka:
        # Inside of the sandbox's own folder, which goes whatever happens to this process.
        folder = kafka.data_dir / "demo"
        folder.mkdir()
        with spark_session(), chdir(folder):
            _run(_UsageSession(console, folder), kafka, seconds)
    console.echo("\nKafka was stopped and its data removed. Next: docs/usage.md, or quotaform usage --help\n")


class _UsageSession(DemoSession):
    """Runs commands in this process, where they use the Spark session that is there."""

    def _exit_code(self, arguments: list[str]) -> int:
        from quotaform.cli.main import run

        return run(arguments)

    @contextmanager
    def in_background(self, *arguments: str) -> Iterator[None]:
        """Run a command in a process of its own until the end of the block, and wait for it."""
        command = f"quotaform {shlex.join(arguments)}"
        self._prompt(f"{command} &")
        process = subprocess.Popen([sys.executable, "-m", "quotaform", *arguments], cwd=self._folder)  # noqa: S603
        try:
            yield
            if code := process.wait():
                raise QuotaformError(f"the demo stopped: {command} ended with {code}, not 0")
        finally:
            process.kill()


def _run(session: _UsageSession, kafka: Sandbox, seconds: int) -> None:
    """Run the session from beginning to end."""
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
    from quotaform.sandbox.traffic import Traffic

    with Traffic(kafka) as traffic:
        traffic.produce("orders", "checkout", rate=1_000_000, seconds=seconds)
        traffic.produce("events", "etl", rate=4_000_000, seconds=seconds)
        traffic.consume("events", "reports")
        yield
        traffic.wait()
