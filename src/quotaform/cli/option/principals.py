"""The options that say who connects, and where the changes of their limits are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from quotaform.errors import UsageError

if TYPE_CHECKING:
    from quotaform.app.plan.principals import PrincipalList
    from quotaform.cli.console import Console
    from quotaform.cli.limit_changes import LimitChangeFiles
    from quotaform.cli.option.engine import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalOptions:
    """The options of a command that shows the blast radius of a plan."""

    principals: Annotated[
        str | None,
        typer.Option(
            "--principals",
            metavar="FILE|TABLE|scram",
            help="Show whose effective limits change: of a CSV or JSON lines file with user, client_id, ip (- is "
            "stdin), of all users with SCRAM credentials, or with --engine spark of a table (Parquet, or a name in the "
            "catalog).",
        ),
    ] = None
    principals_out: Annotated[
        str | None,
        typer.Option(
            "--principals-out",
            metavar="[FORMAT=]PATH",
            help="With --principals: write all changes of limits to a file, .csv or .jsonl; for a table, parquet=DIR.",
        ),
    ] = None

    def require_valid(self) -> None:
        """Make sure that the options go together."""
        if self.principals is None and self.principals_out is not None:
            raise UsageError("--principals-out requires --principals")

    def require_files(self, engine: Engine) -> None:
        """Make sure that files of principals are there, before Spark is started to read them.

        Raises `EngineError` if Spark is not installed.
        """
        from quotaform.app.plan.principals import is_table

        if self.principals is not None and is_table(self.principals, on_spark=True):
            from quotaform.spark.session.session import require_installed

            require_installed(engine.session())
            from quotaform.spark.table.principal_file import require_files

            require_files(self.principals, engine.session())

    def read(
        self, console: Console, files: LimitChangeFiles, engine: Engine, *, on_spark: bool
    ) -> PrincipalList | None:
        """Read the list of principals; `None` if nobody asked for the blast radius.

        Args:
            on_spark: Whether the plans are computed on Spark.

        Raises:
            UsageError: Only Spark reads the list, or all changes are wanted in a form that is not for it.
            InvalidFilesError: The list cannot be read, or something is wrong in it.
        """
        if self.principals is None:
            return None
        from quotaform.app.plan.principals import read_principals

        found = read_principals(self.principals, files.names, files.folder, on_spark=on_spark)
        if found.table is not None:
            self.require_files(engine)
        if found.nameless:
            from quotaform.app.resolve.request_file import nameless_note

            console.warn(f"Warning: {nameless_note(self.principals, found.nameless)}")
        return found
