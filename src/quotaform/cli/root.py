"""The command with its subcommands; only their options are imported, not what they need to run."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from quotaform import __version__

COMMANDS: Final = {
    "validate": "Check the files offline.",
    "fmt": "Bring the files into one style.",
    "plan": "Show what apply would change.",
    "apply": "Apply plans to clusters.",
    "drift": "Compare clusters with the files.",
    "show": "Print a saved plan.",
    "explain": "Show where declared values come from.",
    "doctor": "Check step by step whether a cluster can be used.",
    "describe": "Print live quotas.",
    "resolve": "Show which quotas apply to a request.",
    "alter": "Set and remove quotas of one entity.",
    "init": "Make a new quota repository.",
    "import": "Write live quotas as YAML.",
    "snapshot": "Write live quotas to one JSON file.",
    "history": "Keep snapshots over time: who had what when, and who changed it.",
    "usage": "Measure usage: record, ingest, headroom, backtest, recommend.",
    "top": "Show who is throttled now, and by which quota.",
    "comment": "Write plans as comments to a pull request.",
    "schema": "Print the JSON Schemas of the files.",
    "scram": "Manage SCRAM credentials.",
    "sandbox": "Run a real Apache Kafka on loopback.",
    "demo": "Run the full workflow on a real Apache Kafka.",
}
"""The commands in the order of `--help`, with their summaries.

Each is the function, or the group `app`, of the module of its name in `quotaform.cli.command`.
"""

_MODULES: Final = {"import": "import_quotas"}
"""Modules that cannot have the name of their command."""


class Interruption(BaseException):
    """Takes an interrupt past typer, which would turn it into an exit code without a word."""

    def __init__(self, interrupt: KeyboardInterrupt) -> None:
        super().__init__()
        self.interrupt = interrupt


class _Commands(TyperGroup):
    """The group of all commands."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise Interruption(interrupt) from None


def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Kafka client quotas as code: validate, plan, apply, and detect drift.

    \b
    Examples:
      quotaform import --bootstrap-server localhost:9092
      quotaform validate
      quotaform plan --out plan.json
      quotaform apply plan.json
    """
    if version:
        typer.echo(f"quotaform {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def build_app(invoked: str | None = None) -> typer.Typer:
    """Return the command with its subcommands.

    Args:
        invoked: The only subcommand that is needed: to import and inspect them all takes longer than most of them run.
    """
    app = typer.Typer(
        name="quotaform",
        cls=_Commands,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(invoke_without_command=True)(root)
    for name in (invoked,) if invoked in COMMANDS else COMMANDS:
        function = _MODULES.get(name, name)
        module = import_module(f"quotaform.cli.command.{function}")
        group = getattr(module, "app", None)
        if group is not None:
            app.add_typer(group, name=name, short_help=COMMANDS[name])
        else:
            app.command(name, short_help=COMMANDS[name])(getattr(module, function))
    return app
