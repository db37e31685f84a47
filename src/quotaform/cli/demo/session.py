"""A demo: commands that run in a folder and are shown with their output."""

from __future__ import annotations

import shlex
import subprocess
import sys
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

from quotaform.cli.console import Console
from quotaform.errors import QuotaformError

if TYPE_CHECKING:
    from quotaform.sandbox import Sandbox


class DemoSession:
    """Runs commands in a folder and shows them with their output."""

    def __init__(self, console: Console, folder: Path) -> None:
        self._console = console
        self._folder = folder
        self._style = console.style()

    def print_step(self, text: str) -> None:
        """Print what is done next."""
        self._console.echo("\n" + self._style.paint(f"# {text}", "bold") + "\n")

    def _prompt(self, command: str) -> None:
        self._console.echo("\n" + self._style.paint(f"$ {command}", "green") + "\n")

    def quotaform(self, *arguments: str, expected: int = 0) -> None:
        """Run a command.

        Args:
            expected: The exit code that it must have.
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
        return subprocess.run(command, cwd=self._folder, check=False).returncode  # noqa: S603

    def kafka_configs(self, kafka: Sandbox, entity: str, values: str, *, shows_server: bool = False) -> None:
        """Set quotas with Kafka's own script.

        Args:
            entity: Its options for an entity.
            shows_server: Whether the command is shown with the address of the broker.
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
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        self.show(name)

    def show(self, name: str) -> None:
        """Show a file."""
        self._prompt(f"cat {name}")
        self._console.echo((self._folder / name).read_text(encoding="utf-8"))

    def edit(self, name: str, after: str) -> None:
        """Give a file another content and show what that changes."""
        path = self._folder / name
        before = path.read_text(encoding="utf-8")
        path.write_text(after, encoding="utf-8")
        self._prompt(f"$EDITOR {name}")
        difference = unified_diff(
            before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}", n=1
        )
        for line in difference:
            colour = {"+": "green", "-": "red"}.get(line[0])
            self._console.echo(self._style.paint(line.rstrip("\n"), colour) + "\n" if colour else line)
