"""Whether a command line that some text shows would be understood."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import typer

from quotaform.cli.client_quotas import build_parser
from quotaform.cli.main import build_app
from tests.builder import PRODUCER


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from _commands(child, f"{path} {name}")


COMMANDS: dict[str, Any] = dict(_commands(typer.main.get_command(build_app()), "quotaform"))
"""Every command and group, by path."""
LEAVES = {path: command for path, command in COMMANDS.items() if not hasattr(command, "commands")}
"""Every command that does something."""


REQUIRED = {
    "quotaform resolve": ("--name", "user=a"),
    "quotaform explain": ("user=a",),
    "quotaform alter": ("user=a", "--add", f"{PRODUCER}=1"),
    "quotaform scram upsert": ("user=a", "--mechanism", "SCRAM-SHA-256", "--password-env", "PW"),
    "quotaform scram delete": ("user=a", "--mechanism", "SCRAM-SHA-256", "--auto-approve"),
    "quotaform apply": ("--auto-approve",),
}
"""What a command needs to go on."""


def split_path(words: list[str]) -> tuple[str, list[str]]:
    """Return the path of the command that words begin with, and the other words."""
    path, rest = words[0], words[1:]
    while rest and f"{path} {rest[0]}" in COMMANDS:
        path = f"{path} {rest.pop(0)}"
    return path, rest


def require_understood(line: str) -> None:
    """Raise what a user would be told if an option or an argument did not exist or were missing."""
    words = shlex.split(line.partition(" | ")[0], comments=True)
    if words[0] == "kafka-client-quotas":
        parser = build_parser()
        parser.exit_on_error = False
        assert parser.parse_args(words[1:]).operation
        return
    path, rest = split_path(words)
    if path == "quotaform" and rest and set(rest) <= set(option_names(path)):
        return
    assert path in LEAVES, f"{line}: no such command"
    LEAVES[path].make_context(path, rest)


def option_names(path: str) -> list[str]:
    """Return the options of a command, `--help` among them."""
    return [
        "--help",
        "-h",
        *(option for each in COMMANDS[path].params for option in (*each.opts, *each.secondary_opts)),
    ]
