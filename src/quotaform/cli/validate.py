"""`quotaform validate`: check the files, offline."""

from __future__ import annotations

from quotaform.cli.console import Color, Console, require_format
from quotaform.cli.option import (
    FORMATS,
    ClusterOption,
    ColorOption,
    ConfigOption,
    DirectoryArgument,
    FormatOption,
    QuietOption,
    VerboseOption,
)


def validate(
    directory: DirectoryArgument = None,
    config: ConfigOption = None,
    cluster: ClusterOption = None,
    format_name: FormatOption = "text",
    color: ColorOption = Color.AUTO,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Check the files, offline: syntax, schema and meaning. Exit 3 when anything is wrong.

    \b
    Examples:
      quotaform validate
      quotaform validate quotas.d --cluster prod-eu
    """
    from quotaform.app.repository import Repository
    from quotaform.app.validate import validate_files
    from quotaform.views.validation_text import render_validation, render_validation_json

    console = Console(color, is_quiet=quiet, is_verbose=verbose)
    require_format(format_name, FORMATS)
    report = validate_files(Repository.at(directory, config), cluster)
    if format_name == "json":
        console.echo(render_validation_json(report))
    else:
        console.echo(render_validation(report, console.style()))
    return 0 if report.is_valid else 3
