"""The options that say how a command prints."""

from __future__ import annotations

from dataclasses import dataclass

from quotaform.cli.console import Color, Console
from quotaform.cli.option.common import ColorOption, QuietOption, VerboseOption


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What every command that prints a result understands."""

    color: ColorOption = Color.AUTO
    quiet: QuietOption = False
    verbose: VerboseOption = False

    def console(self) -> Console:
        """Return where the output of this run goes."""
        return Console(self.color, is_quiet=self.quiet, is_verbose=self.verbose)
