"""`quotaform validate`: check the files, offline."""

from __future__ import annotations

from typing import Annotated

import typer

from quotaform.cli.exit_code import judge_validation
from quotaform.cli.format import format_option, render, require_format
from quotaform.cli.option.cluster import ManyClusters
from quotaform.cli.option.common import DirectoryArgument
from quotaform.cli.option.group import with_option_groups
from quotaform.cli.option.output import Output
from quotaform.errors import UsageError


@with_option_groups
def validate(
    *,
    directory: DirectoryArgument = None,
    target: ManyClusters,
    check_principals: Annotated[
        bool,
        typer.Option("--check-principals", help="Also check on the clusters that users have SCRAM credentials."),
    ] = False,
    format_name: Annotated[str, format_option("validation")] = "text",
    output: Output,
) -> int:
    """Check the files offline: syntax, schema and semantics. Exit 3 if there are errors.

    With --check-principals, each user in the files without SCRAM credentials on the cluster is a warning, unless the
    cluster has no SCRAM credentials at all. Warnings do not change the exit code.

    \b
    Examples:
      quotaform validate
      quotaform validate quotas.d --cluster prod-eu
      quotaform validate --check-principals
    """
    from quotaform.app.validate import validate_files

    console = output.console()
    require_format("validation", format_name)
    if (target.bootstrap_server or target.command_config) and not check_principals:
        raise UsageError("the files are checked offline; --bootstrap-server goes with --check-principals")
    repository = target.repository(directory)
    report = validate_files(repository, target.cluster or ())
    if check_principals and report.is_valid:
        from quotaform.app.principal import with_principals

        config = repository.config()
        if target.is_narrow or not config.clusters:
            clusters = target.choose(repository, config)
        else:
            clusters = tuple(cluster for cluster in config.clusters.values() if cluster.snapshot is None)
        if not clusters:
            raise UsageError("--check-principals asks running clusters, and quotaform.yaml names only snapshots")
        report = with_principals(report, repository, config, clusters)
    console.echo(render("validation", format_name, report, style=console.style()))
    return judge_validation(report)
