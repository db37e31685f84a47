"""`quotaform plan`: show what an apply would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from quotaform.cli.console import Console, require_choice, require_format, write_file
from quotaform.cli.exit_code import judge_plan
from quotaform.cli.option.cluster import OneCluster
from quotaform.cli.option.common import (
    FORMATS,
    DirectoryArgument,
    EngineOption,
    ExcludeOption,
    FormatOption,
    OutOption,
    SelectOption,
    SnapshotOption,
)
from quotaform.cli.option.group import with_option_groups
from quotaform.cli.option.output import Output
from quotaform.cli.plan_request import make_request, read_output

if TYPE_CHECKING:
    from quotaform.app.plan import PlanRequest
    from quotaform.core.plan import Plan


@with_option_groups
def plan(
    *,
    directory: DirectoryArgument = None,
    target: OneCluster,
    snapshot: SnapshotOption = None,
    select: SelectOption = None,
    exclude: ExcludeOption = None,
    out: OutOption = None,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit 2 when there are differences.")
    ] = False,
    show_unchanged: Annotated[
        bool, typer.Option("--show-unchanged", help="Also show the keys that stay as they are.")
    ] = False,
    show_unmanaged: Annotated[
        bool, typer.Option("--show-unmanaged", help="List the live entities that no file declares.")
    ] = False,
    engine: EngineOption = "auto",
    format_name: FormatOption = "text",
    output: Output,
) -> int:
    """Show what an apply would do, entity by entity, with the effective limits before and after.

    \b
    Examples:
      quotaform plan
      quotaform plan --out plan.json --detailed-exitcode
      quotaform plan --snapshot snapshots/lab.json --select 'user=svc-*'
    """
    console = output.console()
    require_format(format_name, FORMATS)
    outputs = [read_output(text) for text in out or ()]
    request = make_request(target, directory, select, exclude, snapshot)
    made = _make(request, engine, console)
    for format_of_file, path in outputs:
        write_file(path, render(made, format_of_file))
    if format_name == "json":
        console.echo(render(made, "json"))
    else:
        from quotaform.views.plan_text import render_plan

        text = render_plan(made, console.style(), shows_unchanged=show_unchanged, shows_unmanaged=show_unmanaged)
        console.echo(text)
    return judge_plan(made, is_detailed=detailed_exitcode)


def _make(request: PlanRequest, engine: str, console: Console) -> Plan:
    require_choice("engine", engine, ("auto", "local", "spark"))
    if engine == "spark":
        from quotaform.spark.plan import plan as planner
    else:
        from quotaform.app.plan import plan as planner
    return planner(request, progress=console.progress)[0].require()


def render(made: Plan, format_name: str) -> str:
    """Return a plan in one of the formats that files can have."""
    if format_name == "json":
        from quotaform.document.plan import dump_plan

        return dump_plan(made)
    from quotaform.views.plan_text import render_plan

    return render_plan(made)
