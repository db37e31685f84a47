"""`quotaform fmt`: bring the files into one style."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quotaform.cli.console import write_file
from quotaform.cli.option.output import Output, with_option_groups
from quotaform.model.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from quotaform.cli.console import Console
    from quotaform.model.outcome import FormattedFile


@with_option_groups
def fmt(
    *,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[DIR|FILE]...",
            help="Files, directories, or - for stdin to stdout. [default: quotas.d and quotaform.yaml]",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; list what would change, and exit 2 if anything would.")
    ] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Write nothing; print the differences, and exit 2 if there are any.")
    ] = False,
    output: Output,
) -> int:
    """Bring quotas.d and quotaform.yaml into one style, with all comments, and list the files that were changed.

    In an entry, fields stand in the order match, profile, values, unset, state, expires, owner, reason, quota keys in
    that of the documentation, and values have the shortest unit of their family (1024MiB/s becomes 1GiB/s, and 20MB/s
    stays). Entries keep their order, and names and texts are left as they are written. What the files declare never
    changes.

    A file that is not valid YAML, or has a duplicate key, a tag or a second document, stays as it is: exit 3.

    \b
    Examples:
      quotaform fmt
      quotaform fmt --check
      quotaform fmt --diff quotas.d/orders.yaml
      quotaform fmt - < quotas.d/orders.yaml
    """
    from quotaform.repository.format_files import format_text, read_files
    from quotaform.system.files import QUOTAS_LIMIT, read_stdin

    console = output.console()
    takes_stdin = any(str(path) == "-" for path in paths or ())
    if takes_stdin and len(paths or ()) > 1:
        raise UsageError("- stands for stdin and cannot be combined with files")
    run = _Run(console, writes=not (check or diff), shows_diff=diff)
    if takes_stdin:
        file = format_text(read_stdin(QUOTAS_LIMIT))
        run.take(file, None)
        if run.writes and not file.problems:
            _write_stdout(console, file.after)
        return run.code()
    for each in read_files(paths or ()):
        run.take(each.format(), each.path)
    return run.code()


class _Run:
    """Takes one file after the other, and knows the exit code."""

    def __init__(self, console: Console, *, writes: bool, shows_diff: bool) -> None:
        self.writes = writes
        self._console = console
        self._shows_diff = shows_diff
        self._codes: set[ExitCode] = set()

    def take(self, file: FormattedFile, path: Path | None) -> None:
        """Write or show what changes in a file.

        `path`: where to write it; `None` for the standard output, to which it is not written here.
        """
        for problem in file.problems:
            self._console.write_stderr(f"{problem}\n")
        self._codes.add(file.exit_code)
        if not file.is_changed:
            return
        if self.writes and path is not None:
            write_file(path, file.after)
        if self._shows_diff:
            from quotaform.report.text import render_format_diff

            self._console.echo(render_format_diff(file, self._console.style()))
        elif not self.writes or path is not None:
            self._console.echo(f"{file.name}\n")

    def code(self) -> ExitCode:
        """Return the exit code."""
        return ExitCode.most_severe(self._codes - {ExitCode.DIFFERENCES} if self.writes else self._codes)


def _write_stdout(console: Console, text: str) -> None:
    """Print a file: to another program exactly, on a terminal without what could do harm."""
    from quotaform.cli.stream import GuardedStream

    if isinstance(sys.stdout, GuardedStream) and not sys.stdout.isatty():
        sys.stdout.write_raw(text)
    else:
        console.echo(text)
