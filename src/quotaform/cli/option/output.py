"""The options that say how a command prints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quotaform.cli.console import Color, Console
from quotaform.cli.option.common import ColorOption, QuietOption, VerboseOption

if TYPE_CHECKING:
    from quotaform.cli.ci import Ci


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What every command that prints a result understands."""

    color: ColorOption = Color.AUTO
    quiet: QuietOption = False
    verbose: VerboseOption = False

    def console(self) -> Console:
        """Return where the output of this run goes."""
        return Console(self.color, is_quiet=self.quiet, is_verbose=self.verbose)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOutput(Output):
    """What the commands understand besides whose results CI systems show."""

    no_github: Annotated[
        bool, typer.Option("--no-github", help="In GitHub Actions, write no annotations, job summary or outputs.")
    ] = False

    def ci(self, root: Path | None = None) -> Ci:
        """Return the run of a CI system that this is part of."""
        from quotaform.cli.ci import Ci

        return Ci(root, is_enabled=not self.no_github)
