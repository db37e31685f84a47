"""`quotaform demo`: the full workflow on a real Apache Kafka, as one terminal session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from quotaform.cli.command.sandbox import step_console
from quotaform.cli.console import Color, Console
from quotaform.cli.demo.session import DemoSession
from quotaform.cli.option.common import ColorOption
from quotaform.errors import UsageError

if TYPE_CHECKING:
    from quotaform.sandbox import Sandbox

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
        from quotaform.cli.demo.usage import run_usage_demo

        run_usage_demo(console)
        return 0
    if fleet:
        from quotaform.cli.demo.fleet import run_fleet_demo

        run_fleet_demo(console)
        return 0
    console.echo("Starting Apache Kafka on loopback (the first start downloads it: about 45 MB) ...\n")
    with Sandbox().start(progress=step_console().progress) as kafka:
        # Inside of the sandbox's own folder, which goes whatever happens to this process.
        folder = kafka.data_dir / "demo"
        folder.mkdir()
        _Session(console, folder, kafka).run()
    console.echo("\nKafka was stopped and its data removed. Next: README.md, or quotaform --help\n")
    return 0


def edited(imported: str) -> str:
    """Return the file of the import after the edit that the demo makes, in the style of `quotaform fmt`."""
    return imported.replace(_OLD_VALUE, _NEW_VALUE, 1) + _NEW_ENTRY


class _Session(DemoSession):
    """The session on one broker."""

    def __init__(self, console: Console, folder: Path, kafka: Sandbox) -> None:
        super().__init__(console, folder)
        self._kafka = kafka

    def run(self) -> None:
        """Run the session from beginning to end."""
        imported = "quotas.d/imported.yaml"
        self.print_step("Existing quotas, set with Kafka's own script.")
        for entity, values in _BY_HAND:
            self.kafka_configs(self._kafka, entity, values)

        self.print_step("Bring them under management: configure the cluster and import its quotas.")
        self.write(
            "quotaform.yaml",
            f"clusters:\n  demo:\n    bootstrap_servers: [{self._kafka.bootstrap_servers}]\n",
        )
        self.quotaform("import")
        self.show(imported)

        self.print_step("Edit: a higher limit for svc-orders, and a new user.")
        self.edit(imported, edited((self._folder / imported).read_text(encoding="utf-8")))
        self.quotaform("validate")
        self.quotaform("plan", "--out", "plan.json")
        self.quotaform("apply", "plan.json")
        self.quotaform("plan", "--detailed-exitcode")

        self.print_step("A change outside of git.")
        self.kafka_configs(self._kafka, *_BEHIND_GIT)
        self.quotaform("drift", expected=2)
        self.print_step("Repair it with apply.")
        self.quotaform("apply", "--auto-approve")
        self.quotaform("drift")
