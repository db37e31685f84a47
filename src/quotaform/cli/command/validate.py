"""`quotaform validate`: check the files, offline."""

from __future__ import annotations

from typing import Annotated

import typer

from quotaform.cli.console import Color, Console, require_format
from quotaform.cli.exit_code import decide
from quotaform.cli.option.common import (
    FORMATS,
    BootstrapOption,
    ClusterOption,
    ColorOption,
    CommandConfigOption,
    ConfigOption,
    DirectoryArgument,
    FormatOption,
    QuietOption,
    VerboseOption,
)
from quotaform.errors import UsageError


def validate(
    directory: DirectoryArgument = None,
    config: ConfigOption = None,
    cluster: ClusterOption = None,
    check_principals: Annotated[
        bool,
        typer.Option("--check-principals", help="Also ask the clusters which users have SCRAM credentials."),
    ] = False,
    bootstrap_server: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    format_name: FormatOption = "text",
    color: ColorOption = Color.AUTO,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Check the files, offline: syntax, schema and meaning. Exit 3 when anything is wrong.

    With --check-principals each user in the files who has no SCRAM credentials on the cluster is a warning, unless
    the cluster keeps none at all. Warnings leave the exit code as it is.

    \b
    Examples:
      quotaform validate
      quotaform validate quotas.d --cluster prod-eu
      quotaform validate --check-principals
    """
    from quotaform.app.repository import Repository, Target
    from quotaform.app.validate import validate_files
    from quotaform.document.validation import dump_validation
    from quotaform.views.validation_text import render_validation

    console = Console(color, is_quiet=quiet, is_verbose=verbose)
    require_format(format_name, FORMATS)
    if (bootstrap_server or command_config) and not check_principals:
        raise UsageError("the files are checked offline; --bootstrap-server goes with --check-principals")
    repository = Repository.at(directory, config)
    report = validate_files(repository, cluster)
    if check_principals:
        from quotaform.app.principal import with_principals

        target = Target(
            clusters=(cluster,) if cluster else (), bootstrap_servers=bootstrap_server, command_config=command_config
        )
        report = with_principals(report, repository, target)
    if format_name == "json":
        console.echo(dump_validation(report))
    else:
        console.echo(render_validation(report, console.style()))
    return decide(is_invalid=not report.is_valid)
