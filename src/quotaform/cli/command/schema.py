"""`quotaform schema`: print the JSON Schemas of all file formats."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from quotaform.cli.console import Console, write_file
from quotaform.cli.option.value import complete_from, require_choice
from quotaform.model.errors import UsageError

if TYPE_CHECKING:
    from quotaform.model.records.schema import Builder

_BUILDERS: Final = {
    "alter": "cluster.records:alter",
    "approvals": "desired.schema:approvals",
    "audit": "apply.records:audit",
    "config": "desired.schema:config",
    "describe": "cluster.records:describe",
    "doctor": "cluster.records:doctor",
    "drift": "drift.records:drift",
    "entry": "desired.schema:entry",
    "explain": "resolve.records:explain",
    "fleet-report": "fleet.records:fleet_report",
    "history": "history.records:history",
    "history-append": "history.records:history_append",
    "history-diff": "history.records:history_diff",
    "notification": "drift.records:notification",
    "outcomes": "cluster.records:outcomes",
    "plan": "plan.records:PlanRecord",
    "quotas": "desired.schema:quotas",
    "receipt": "plan.receipt_records:ReceiptRecord",
    "resolve": "resolve.records:resolve",
    "scram": "cluster.records:scram",
    "scram-result": "cluster.records:scram_result",
    "snapshot": "cluster.records:snapshot",
    "top": "usage.records:top",
    "usage-backtest": "plan.backtest:Backtest",
    "usage-headroom": "usage.headroom.headroom:usage_headroom",
    "usage-ingest": "usage.records:usage_ingest",
    "usage-mapping": "usage.records:usage_mapping",
    "usage-recommend": "usage.recommend.records:usage_recommend",
    "usage-record": "usage.records:usage_record",
    "usage-stream": "usage.records:usage_stream",
    "validation": "cluster.records:validation",
}
"""What builds each schema, as `module:function` of quotaform."""


def schema_names() -> tuple[str, ...]:
    """Return the names of all schemas, sorted, e.g. `quotas`."""
    return tuple(_BUILDERS)


def schema_builder(name: str) -> Builder:
    """Return what builds a schema. Raises `KeyError` if there is none of this name."""
    module, _, function = _BUILDERS[name].partition(":")
    build: Builder = getattr(import_module(f"quotaform.{module}"), function)
    return build


def _complete_schema(incomplete: str) -> list[str]:
    """Offer the names of JSON Schemas."""
    return complete_from(schema_names())(incomplete)


def schema(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Schema name; lists all names if omitted.", autocompletion=_complete_schema
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Write all schemas to a directory.")
    ] = None,
) -> int:
    """Print the JSON Schemas of all file formats, for validation and completion in editors.

    \b
    Examples:
      quotaform schema quotas
      quotaform schema --output schemas
    """
    from quotaform.model.records.schema import render_schema
    from quotaform.model.text import inert

    console = Console()
    names = schema_names()
    if str(output) == "-":
        raise UsageError("--output names a directory, and - is none; give NAME to print a schema to stdout")
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        for each in names:
            write_file(output / f"{each}.schema.json", render_schema(schema_builder(each)))
        console.echo(f"Wrote {len(names)} schemas to {inert(str(output))}.\n")
    elif name is None:
        console.echo("".join(f"{each}\n" for each in names))
    else:
        console.echo(render_schema(schema_builder(require_choice("schema", name, names))))
    return 0
