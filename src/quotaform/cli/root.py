"""The command with all its subcommands; only their options are imported, not what they need to run."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from quotaform import __version__
from quotaform.cli.command import (
    alter,
    apply,
    demo,
    describe,
    drift,
    explain,
    import_quotas,
    plan,
    resolve,
    sandbox,
    schema,
    scram,
    show,
    snapshot,
    validate,
)


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
    """Kafka client quotas as code: validate, plan, apply, and see when somebody changed the cluster.

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


def build_app() -> typer.Typer:
    """Return the whole command."""
    app = typer.Typer(
        name="quotaform",
        cls=_Commands,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(invoke_without_command=True)(root)
    app.command("validate", short_help="Check the files, offline.")(validate.validate)
    app.command("plan", short_help="Show what an apply would do.")(plan.plan)
    app.command("apply", short_help="Make the cluster hold what the files say.")(apply.apply)
    app.command("drift", short_help="See whether somebody changed the cluster.")(drift.drift)
    app.command("show", short_help="Print a saved plan.")(show.show)
    app.command("explain", short_help="Where the declared values of an entity come from.")(explain.explain)
    app.command("describe", short_help="Print live quotas.")(describe.describe)
    app.command("resolve", short_help="Which quota applies to a request, and why.")(resolve.resolve)
    app.command("alter", short_help="Change one entity by hand.")(alter.alter)
    app.command("import", short_help="Write live quotas as YAML.")(import_quotas.import_quotas)
    app.command("snapshot", short_help="Write live quotas to one JSON file.")(snapshot.snapshot)
    app.command("schema", short_help="Print the JSON Schemas of the files.")(schema.schema)
    app.add_typer(scram.app, name="scram", short_help="Describe, set and delete SCRAM credentials.")
    app.add_typer(sandbox.app, name="sandbox", short_help="Run a real Apache Kafka on loopback.")
    app.command("demo", short_help="Show the whole loop on a real Apache Kafka.")(demo.demo)
    return app
