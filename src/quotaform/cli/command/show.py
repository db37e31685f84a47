"""`quotaform show`: print a saved plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quotaform.cli.ci import Ci
from quotaform.cli.console import Color, Console
from quotaform.cli.option.common import ColorOption
from quotaform.cli.option.output import format_option, require_format
from quotaform.cli.present import print_result
from quotaform.model.errors import ExitCode
from quotaform.report.format import render


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
    from quotaform.plan.plan_file import load_plan_file

    console = Console(color)
    require_format("plan", format_name)
    options = {"style": console.style(), "shows_unchanged": show_unchanged, "shows_unmanaged": show_unmanaged}
    options |= Ci().options
    print_result(console, format_name, render("plan", format_name, load_plan_file(plan_file), **options))
    return ExitCode.DONE
