"""The options that say who connects, and where the changes of their limits are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from quotaform.errors import UsageError

if TYPE_CHECKING:
    from quotaform.app.plan.principals import PrincipalList


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalOptions:
    """The options of a command that shows the blast radius of a plan."""

    principals: Annotated[
        str | None,
        typer.Option(
            "--principals",
            metavar="FILE|scram",
            help="Show whose effective limits change: of a CSV or JSON lines file with user, client_id, ip, or of all "
            "users with SCRAM credentials; - is stdin.",
        ),
    ] = None
    principals_out: Annotated[
        str | None,
        typer.Option(
            "--principals-out",
            metavar="[FORMAT=]PATH",
            help="With --principals: write all changes of limits to this file, .csv or .jsonl.",
        ),
    ] = None

    def require_valid(self) -> None:
        """Make sure that the options go together.

        Raises:
            UsageError: A file is to be written without a list.
        """
        if self.principals is None and self.principals_out is not None:
            raise UsageError("--principals-out requires --principals")

    def read(self, files: Mapping[str, str]) -> PrincipalList | None:
        """Read the list of principals; `None` if nobody asked for the blast radius.

        Args:
            files: Cluster to the file in which all changes of limits are wanted.

        Raises:
            UsageError: The list is one that only Spark reads.
            InvalidFilesError: The list cannot be read, or something is wrong in it.
        """
        if self.principals is None:
            return None
        from quotaform.app.plan.principals import read_principals

        return read_principals(self.principals, files)
