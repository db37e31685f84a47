"""`quotaform drift`: see whether somebody changed the cluster behind git's back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from quotaform.cli.console import require_format, write_file
from quotaform.cli.exit_code import judge_drift
from quotaform.cli.option.cluster import OneCluster
from quotaform.cli.option.common import (
    FORMATS,
    DirectoryArgument,
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
    from quotaform.core.drift import Drift
    from quotaform.views.style import Style


@with_option_groups
def drift(
    *,
    directory: DirectoryArgument = None,
    target: OneCluster,
    snapshot: SnapshotOption = None,
    select: SelectOption = None,
    exclude: ExcludeOption = None,
    out: OutOption = None,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit 0 also when there is drift.")] = False,
    format_name: FormatOption = "text",
    output: Output,
) -> int:
    """Compare the cluster with the files and change nothing. Exit 2 when they differ.

    Classes: modified (other values), missing (declared and not there), unexpected (there and not declared).

    \b
    Examples:
      quotaform drift
      quotaform drift --format json --out json=drift.json
    """
    from quotaform.app.plan import plan
    from quotaform.core.drift import make_drift

    console = output.console()
    require_format(format_name, FORMATS)
    outputs = [read_output(text) for text in out or ()]
    request = make_request(target, directory, select, exclude, snapshot)
    found = make_drift(plan(request, progress=console.progress)[0].require())
    for format_of_file, path in outputs:
        write_file(path, _render(found, format_of_file))
    console.echo(_render(found, format_name, console.style()))
    return judge_drift(found, is_reported_only=exit_zero)


def _render(found: Drift, format_name: str, style: Style | None = None) -> str:
    if format_name == "json":
        from quotaform.document.drift import dump_drift

        return dump_drift(found)
    from quotaform.views.drift_text import render_drift
    from quotaform.views.style import PLAIN

    return render_drift(found, style or PLAIN)
