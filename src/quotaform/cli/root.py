"""The command with its subcommands; only their options are imported, not what they need to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    "usage": "Measure usage: record, ingest, compact, headroom, backtest, recommend.",
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

GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "history": {},
    "usage": {
        "ingest": "Add existing recordings to a usage table.",
        "record": "Record the usage metrics of brokers.",
        "compact": "Bring the files of each day of a usage table together.",
        "headroom": "Show how close clients are to their quotas.",
        "backtest": "Show what a plan would have throttled, from recorded usage.",
        "recommend": "Propose quotas that fit the recorded usage.",
    },
    "scram": {},
    "sandbox": {},
}
"""The commands that have subcommands; with their summaries, if each of these is the function of a module of its own."""

_MODULES: Final = {"import": "import_quotas", "show": "plan", "explain": "resolve"}
"""Modules that do not have the name of their command."""


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


def build_app(*words: str) -> typer.Typer:
    """Return the command with its subcommands.

    `words`: the command line, as far as it names commands: others are only listed, since to import and inspect them all
    takes longer than most of them run. All of them are there without any word.
    """
    app = typer.Typer(
        name="quotaform",
        cls=_Commands,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(invoke_without_command=True)(root)
    for name in COMMANDS:
        if name in GROUPS:
            app.add_typer(_group(name, words), name=name, short_help=COMMANDS[name])
        else:
            app.command(name, short_help=COMMANDS[name])(_function(name) if _is_meant(name, words) else _listed)
    return app


def _group(name: str, words: Sequence[str]) -> typer.Typer:
    """Return the subcommands of a command."""
    module = f"quotaform.cli.command.{name}"
    if not _is_meant(name, words):
        group = typer.Typer()
        group.command("listed")(_listed)
        return group
    subcommands = GROUPS[name]
    if not subcommands:
        made: typer.Typer = import_module(module).app
        return made
    group = typer.Typer(help=COMMANDS[name], no_args_is_help=True)
    for each, summary in subcommands.items():
        is_meant = _is_meant(each, words[1:])
        group.command(each, short_help=summary)(
            getattr(import_module(f"{module}.{each}"), each) if is_meant else _listed
        )
    return group


def _function(name: str) -> Callable[..., object]:
    module = import_module(f"quotaform.cli.command.{_MODULES.get(name, name)}")
    found: Callable[..., object] = getattr(module, "import_quotas" if name == "import" else name)
    return found


def _is_meant(name: str, words: Sequence[str]) -> bool:
    return not words or words[0] == name


def _listed() -> None:
    """Stand for a command that is listed and not run."""
