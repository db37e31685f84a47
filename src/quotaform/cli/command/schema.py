"""`quotaform schema`: print the JSON Schemas of all file formats."""

from __future__ import annotations

from pathlib import Path

from quotaform.cli.console import Console, write_file
from quotaform.cli.option.common import argument, option, with_options
from quotaform.cli.option.value import complete_from, require_choice
from quotaform.model.errors import UsageError
from quotaform.model.text import inert
from quotaform.report.format import schema_builder, schema_names


@with_options
def schema(
    name: str | None = argument(
        "NAME", "Schema name; lists all names if omitted.", complete=complete_from(schema_names)
    ),
    output: Path | None = option("--output -o DIR", "Write all schemas to a directory."),
) -> int:
    """Print the JSON Schemas of all file formats, for validation and completion in editors.

    \b
    Examples:
      quotaform schema quotas
      quotaform schema --output schemas
    """
    from quotaform.model.records.schema import render_schema

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
