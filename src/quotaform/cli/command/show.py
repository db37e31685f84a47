"""`quotaform show`: print a saved plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quotaform.cli.console import Color, Console, require_format
from quotaform.cli.option.common import FORMATS, ColorOption, FormatOption


def show(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN.json", help="A file of quotaform plan --out.")],
    format_name: FormatOption = "text",
    show_unchanged: Annotated[
        bool, typer.Option("--show-unchanged", help="Also show the keys that stay as they are.")
    ] = False,
    show_unmanaged: Annotated[
        bool, typer.Option("--show-unmanaged", help="List the live entities that no file declares.")
    ] = False,
    color: ColorOption = Color.AUTO,
) -> int:
    """Print a saved plan, after making sure that it is what was written.

    \b
    Example:
      quotaform show plan.json
    """
    from quotaform.app.apply import load_plan_file
    from quotaform.document.plan import dump_plan
    from quotaform.views.plan_text import render_plan

    console = Console(color)
    require_format(format_name, FORMATS)
    saved = load_plan_file(plan_file)
    if format_name == "json":
        console.echo(dump_plan(saved))
    else:
        text = render_plan(saved, console.style(), shows_unchanged=show_unchanged, shows_unmanaged=show_unmanaged)
        console.echo(text)
    return 0
