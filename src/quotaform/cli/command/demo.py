"""`quotaform demo`: the full workflow on a real Apache Kafka, as one terminal session."""

from __future__ import annotations

import shlex
import subprocess
import sys
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quotaform.cli.command.sandbox import step_console
from quotaform.cli.console import Color, Console
from quotaform.cli.option.common import ColorOption
from quotaform.errors import QuotaformError

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


def demo(color: ColorOption = Color.AUTO) -> int:
    """Run the full workflow on a real Apache Kafka, which is started for the demo and stopped at the end.

    Import existing quotas, edit, validate, plan, apply, detect drift and repair it. All output is that of the commands
    shown.

    \b
    Example:
      quotaform demo
    """
    from quotaform.sandbox import Sandbox

    console = Console(color)
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


class _Session:
    """Runs commands in a folder and shows them with their output."""

    def __init__(self, console: Console, folder: Path, kafka: Sandbox) -> None:
        self._console = console
        self._folder = folder
        self._kafka = kafka
        self._style = console.style()

    def run(self) -> None:
        """Run the session from beginning to end."""
        quotas = self._folder / "quotas.d" / "imported.yaml"
        self._print_step("Existing quotas, set with Kafka's own script.")
        for entity, values in _BY_HAND:
            self._kafka_configs(entity, values)

        self._print_step("Bring them under management: configure the cluster and import its quotas.")
        self._write(
            self._folder / "quotaform.yaml",
            f"clusters:\n  demo:\n    bootstrap_servers: [{self._kafka.bootstrap_servers}]\n",
        )
        self._quotaform("import")
        self._show(quotas)

        self._print_step("Edit: a higher limit for svc-orders, and a new user.")
        self._edit(quotas)
        self._quotaform("validate")
        self._quotaform("plan", "--out", "plan.json")
        self._quotaform("apply", "plan.json")
        self._quotaform("plan", "--detailed-exitcode")

        self._print_step("A change outside of git.")
        self._kafka_configs(*_BEHIND_GIT)
        self._quotaform("drift", expected=2)
        self._print_step("Repair it with apply.")
        self._quotaform("apply", "--auto-approve")
        self._quotaform("drift")

    def _print_step(self, text: str) -> None:
        self._console.echo("\n" + self._style.paint(f"# {text}", "bold") + "\n")

    def _prompt(self, command: str) -> None:
        self._console.echo("\n" + self._style.paint(f"$ {command}", "green") + "\n")

    def _quotaform(self, *arguments: str, expected: int = 0) -> None:
        self._prompt(f"quotaform {shlex.join(arguments)}")
        options = ["--color", "always" if self._style.is_coloured else "never"]
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "quotaform", *arguments, *options], cwd=self._folder, check=False
        )
        if expected:
            self._console.echo(self._style.paint(f"(exit code {done.returncode})", "dim") + "\n")
        if done.returncode != expected:
            raise QuotaformError(
                f"the demo stopped: quotaform {shlex.join(arguments)} ended with {done.returncode}, not {expected}"
            )

    def _kafka_configs(self, entity: str, values: str) -> None:
        self._prompt(f"kafka-configs.sh --alter {entity} --add-config {values}")
        done = self._kafka.run_tool(
            "kafka.admin.ConfigCommand",
            "--bootstrap-server",
            self._kafka.bootstrap_servers,
            "--alter",
            *shlex.split(entity),
            "--add-config",
            values,
        )
        self._console.echo(done.stdout)
        if done.returncode:
            raise QuotaformError(f"the demo stopped: kafka-configs ended with {done.returncode}: {done.stderr}")

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        self._show(path)

    def _show(self, path: Path) -> None:
        self._prompt(f"cat {path.relative_to(self._folder).as_posix()}")
        self._console.echo(path.read_text(encoding="utf-8"))

    def _edit(self, path: Path) -> None:
        name = path.relative_to(self._folder).as_posix()
        before = path.read_text(encoding="utf-8")
        after = edited(before)
        path.write_text(after, encoding="utf-8")
        self._prompt(f"$EDITOR {name}")
        difference = unified_diff(
            before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}", n=1
        )
        for line in difference:
            colour = {"+": "green", "-": "red"}.get(line[0])
            self._console.echo(self._style.paint(line.rstrip("\n"), colour) + "\n" if colour else line)
