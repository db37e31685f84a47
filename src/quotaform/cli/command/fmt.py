"""`quotaform fmt`: bring the files into one style."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from quotaform.cli.console import write_file
from quotaform.cli.option.common import argument, flag, with_options
from quotaform.cli.option.output import Output
from quotaform.cli.stream import write_raw
from quotaform.model.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from quotaform.desired.format import FormattedFile


@with_options
def fmt(
    *,
    paths: list[Path] | None = argument(
        "[DIR|FILE]...", "Files, directories, or - for stdin to stdout. [default: quotas.d and quotaform.yaml]"
    ),
    check: bool = flag("--check", "Write nothing; list what would change, and exit 2 if anything would."),
    diff: bool = flag("--diff", "Write nothing; print the differences, and exit 2 if there are any."),
    output: Output,
) -> int:
    """Bring quotas.d and quotaform.yaml into one style, with all comments, and list the files that were changed.

    In an entry, fields stand in the order match, profile, values, unset, state, expires, owner, reason, quota keys in
    that of the documentation, and values have the shortest unit of their family (1024MiB/s becomes 1GiB/s, and 20MB/s
    stays). Entries keep their order, and names and texts keep their quotes; one on several lines goes on one line,
    unless it is a block (| or >). What the files declare never changes.

    A file that is not valid YAML, or has a duplicate key, a tag or a second document, stays as it is: exit 3.

    \b
    Examples:
      quotaform fmt
      quotaform fmt --check
      quotaform fmt --diff quotas.d/orders.yaml
      quotaform fmt - < quotas.d/orders.yaml
    """
    from quotaform.desired.format import format_source
    from quotaform.desired.tree import SourceFile
    from quotaform.report.text import render_diff
    from quotaform.repository.format_files import format_files
    from quotaform.system.files import QUOTAS_LIMIT, read_stdin

    console = output.console
    files: Iterable[tuple[FormattedFile, Path | None]]
    if not any(str(path) == "-" for path in paths or ()):
        files = format_files(paths or ())
    elif len(paths or ()) > 1:
        raise UsageError("- stands for stdin and cannot be combined with files")
    else:
        files = [(format_source(SourceFile("stdin", read_stdin(QUOTAS_LIMIT))), None)]
    writes = not (check or diff)
    codes = set()
    for file, path in files:
        for problem in file.problems:
            console.write_stderr(f"{problem}\n")
        codes.add(file.exit_code)
        if file.is_changed:
            if writes and path is not None:
                write_file(path, file.after)
            if diff:
                console.echo(render_diff(file.name, file.before, file.after, console.style()))
            elif not writes or path is not None:
                console.echo(f"{file.name}\n")
        if writes and path is None and not file.problems:
            if sys.stdout.isatty():
                console.echo(file.after)
            else:  # Another program gets it exactly; a terminal, without what could do harm.
                write_raw(sys.stdout, file.after)
    return ExitCode.most_severe(codes - {ExitCode.DIFFERENCES} if writes else codes)
