"""The options of teams whose inventory, or desired quotas, are in tables that Spark reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quotaform.cli.option.engine import LOCAL
from quotaform.cli.process import open_until_end
from quotaform.errors import UsageError

if TYPE_CHECKING:
    from quotaform.app.repository.repository import Repository
    from quotaform.cli.console import Console
    from quotaform.cli.option.engine import Engine
    from quotaform.desired.config import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Tables instead of files. They mean `--engine spark`."""

    desired_table: Annotated[
        str | None,
        typer.Option(
            "--desired-table",
            metavar="PATH|TABLE",
            help="Desired quotas from a table instead of the quotas directory: cluster, entity_key, key, value.",
        ),
    ] = None
    clusters_table: Annotated[
        str | None,
        typer.Option(
            "--clusters-table",
            metavar="PATH|TABLE",
            help="Clusters from a table instead of quotaform.yaml: name, bootstrap_servers, command_config, snapshot.",
        ),
    ] = None

    @property
    def is_given(self) -> bool:
        """Whether there is a table."""
        return self.desired_table is not None or self.clusters_table is not None

    def require_valid(self, directory: Path | None, *, has_base: bool, is_revert: bool = False) -> None:
        """Make sure that the tables go together with other options.

        Args:
            directory: The quotas directory that was given.
            has_base: Whether the files are to be compared with a base.
            is_revert: Whether a receipt is to be reverted.

        Raises:
            UsageError: They do not.
        """
        if is_revert:
            raise UsageError("--revert does not follow the files; leave --desired-table and --clusters-table out")
        if self.desired_table is not None and (directory is not None or has_base):
            raise UsageError(
                "--desired-table takes the place of the quotas directory, and has no git history; leave out the "
                "directory and the base"
            )

    def open_session(self, console: Console, engine: Engine) -> Engine:
        """Open the session that reads the tables and stays until the command ends, and return the engine that uses it.

        Raises:
            UsageError: Spark is not to be used.
            EngineError: Spark is missing, or does not start.
        """
        if not self.is_given:
            return engine
        if engine.engine == LOCAL:
            raise UsageError("--desired-table and --clusters-table are read by Spark; leave --engine local out")
        from quotaform.cli.job_progress import JobProgress
        from quotaform.spark.session.session import spark_session

        session = engine.session()
        open_until_end(spark_session(session, JobProgress(console, "Reading tables", session)))
        return replace(engine, engine="spark", master=None, remote=None, spark_conf=None)

    def with_clusters(self, config: Config, repository: Repository) -> Config:
        """Return a configuration with the clusters of the table, if one is given.

        Raises:
            UsageError: quotaform.yaml has clusters, too.
            InvalidFilesError: The table cannot be read, or is not valid.
        """
        if self.clusters_table is None:
            return config
        if config.clusters:
            raise UsageError(
                f"--clusters-table takes the place of the clusters in {repository.config_path}; remove one of the two"
            )
        from quotaform.spark.session.session import spark_session
        from quotaform.spark.table.clusters_table import read_clusters_table

        with spark_session() as spark:
            clusters = read_clusters_table(spark, self.clusters_table, repository.config_path.parent)
        return replace(config, clusters=clusters)
