"""The options that say what files are compared with, and what that deletes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from quotaform.cli.option.completion import complete_from
from quotaform.cli.usage import require_choice
from quotaform.errors import UsageError

if TYPE_CHECKING:
    from quotaform.app.base.base import BaseChoice
    from quotaform.cli.console import Console
    from quotaform.core.prune import PruneMode

_MODES: Final = ("report", "removed", "scope")

BaseOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--base",
        metavar="REF|RECEIPT",
        help="Git revision or receipt to compare the files with, e.g. origin/main. [default: in CI, the target branch "
        "or the commit before the push]",
        show_default=False,
    ),
]
NoBaseOption: TypeAlias = Annotated[
    bool, typer.Option("--no-base", help="Compare with nothing, even if the CI system names a base.")
]
PruneOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--prune",
        metavar="|".join(_MODES),
        help="What happens to live entities in scope that no file declares. [default: as in quotaform.yaml]",
        show_default=False,
        autocompletion=complete_from(_MODES),
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The options of a command that plans."""

    base: BaseOption = None
    no_base: NoBaseOption = False
    prune: PruneOption = None

    @property
    def is_given(self) -> bool:
        """Whether there is any of them."""
        return self.base is not None or self.no_base or self.prune is not None

    def choose_base(self, console: Console) -> BaseChoice | None:
        """Return the base that is meant; that of the CI system is reported.

        Raises `UsageError` if it cannot be the name of a git revision, or options exclude each other.
        """
        if self.base is not None:
            from quotaform.app.base.base import BaseChoice, require_ref

            if self.no_base:
                raise UsageError("--base and --no-base cannot be combined; give one of them")
            return BaseChoice(refs=(require_ref(self.base),))
        if self.no_base or not ("GITHUB_ACTIONS" in os.environ or "GITLAB_CI" in os.environ):
            return None
        from quotaform.app.base.ci import find_ci_base

        found = find_ci_base(os.environ)
        if found is not None:
            console.warn(f"Base {found.name}, from {found.found_in} (--base gives another one, --no-base none)")
        return found

    def prune_mode(self) -> PruneMode | None:
        """Return what happens to undeclared entities; `None` when quotaform.yaml says it."""
        if self.prune is None:
            return None
        from quotaform.core.prune import PruneMode

        return PruneMode(require_choice("prune", self.prune, _MODES))
