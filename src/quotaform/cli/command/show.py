"""`quotaform show`: print a saved plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quotaform.app.rendering import render
from quotaform.cli.ci import Ci
from quotaform.cli.console import Color, Console
from quotaform.cli.format import format_option, require_format
from quotaform.cli.option.common import ColorOption
from quotaform.cli.outcomes import print_result
from quotaform.exit_code import ExitCode


def show(
    plan_file: Annotated[
        Path, typer.Argument(metavar="PLAN.json", help="A plan file written by quotaform plan --out.")
    ],
    format_name: Annotated[str, format_option("plan")] = "text",
    show_unchanged: Annotated[bool, typer.Option("--show-unchanged", help="Also show unchanged keys.")] = False,
    show_unmanaged: Annotated[
        bool, typer.Option("--show-unmanaged", help="List live entities that no file declares.")
    ] = False,
    color: ColorOption = Color.AUTO,
) -> int:
    """Print a saved plan after verifying that it was not modified.

    \b
    Example:
      quotaform show plan.json
    """
    from quotaform.app.plan.plan_file import load_plan_file

    console = Console(color)
    require_format("plan", format_name)
    options = {"style": console.style(), "shows_unchanged": show_unchanged, "shows_unmanaged": show_unmanaged}
    options |= Ci().options
    print_result(console, format_name, render("plan", format_name, load_plan_file(plan_file), **options))
    return ExitCode.DONE
