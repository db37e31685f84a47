"""The entry point: parses, runs one command and turns whatever happens into one message and one exit code."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from quotaform.cli.console import Console, drop_unwritten_output
from quotaform.cli.process import TerminatedError, any_text_printable, rare_collections, signals_raised
from quotaform.exit_code import ExitCode

if TYPE_CHECKING:
    import typer

_EMPTY_OPTION = re.compile(r"--[a-z-]+=").fullmatch

_COMPLETION = "_QUOTAFORM_COMPLETE"
"""With this in the environment a shell asks for words to complete to, whatever the arguments are."""


_GLOBALS = {
    "--config": True,
    "--format": True,
    "--color": True,
    "--quiet": False,
    "-q": False,
    "--verbose": False,
    "-v": False,
}
"""The options that most commands share, and whether each takes a value."""


def main() -> NoReturn:
    """Run `quotaform` with the arguments of the process and exit."""
    code = run(sys.argv[1:])
    drop_unwritten_output()
    sys.exit(int(code))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; the process is left as it was found.

    Nothing is raised but an internal error with `--verbose`.
    """
    if arguments == ["--version"] and _COMPLETION not in os.environ:
        from quotaform import __version__

        sys.stdout.write(f"quotaform {__version__}\n")
        return ExitCode.DONE
    with signals_raised(), any_text_printable(), rare_collections():
        return _run(arguments)


def _run(arguments: list[str]) -> int:
    if any(argument == "" or _EMPTY_OPTION(argument) for argument in arguments):
        return _fail(
            "an argument is empty, as an unset variable makes it; leave it out, or give a value", ExitCode.USAGE
        )
    try:
        return _invoke(arguments)
    except TerminatedError:
        return _fail("terminated", ExitCode.TERMINATED)
    except KeyboardInterrupt:
        return _fail("interrupted", ExitCode.INTERRUPTED)
    except Exception as error:
        if {"-v", "--verbose"}.intersection(arguments):
            raise
        kind = type(error).__name__
        return _fail(
            f"internal error: {kind}: {error}. Please report it with the output of the same command and --verbose.",
            ExitCode.ERROR,
        )


def _invoke(arguments: list[str]) -> int:
    import typer

    from quotaform.cli.root import Interruption, build_app
    from quotaform.errors import QuotaformError

    words = globals_last(arguments)
    app = build_app(words[0] if words and _COMPLETION not in os.environ else None)
    try:
        result = app(words, standalone_mode=False, prog_name="quotaform")
    except QuotaformError as error:
        return _fail(str(error), error.exit_code)
    except Interruption as stopped:
        raise stopped.interrupt from None
    except typer.Exit as ended:
        return ended.exit_code
    except typer.Abort:
        return _fail("not approved; nothing was written", ExitCode.BLOCKED)
    except typer.TyperException as error:
        return _fail_usage(error)
    return result if isinstance(result, int) else ExitCode.DONE


def globals_last(arguments: list[str]) -> list[str]:
    """Move global options that stand before the command behind it, where the commands read them.

    >>> globals_last(["--color", "never", "-q", "plan", "quotas.d"])
    ['plan', 'quotas.d', '--color', 'never', '-q']
    """
    moved = []
    rest = list(arguments)
    while rest and rest[0].partition("=")[0] in _GLOBALS:
        name, has_value, _ = rest[0].partition("=")
        width = 2 if _GLOBALS[name] and not has_value else 1
        moved += rest[:width]
        del rest[:width]
    return [*rest, *moved] if rest else list(arguments)


def _fail_usage(error: typer.TyperException) -> int:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "quotaform"
    message = getattr(error, "format_message", lambda: str(error))()
    if message.startswith("Usage:"):  # a group without a command: the help is the message
        sys.stderr.write(f"{message}\n")
        return ExitCode.USAGE
    return _fail(f"{message} Try '{command} --help'.", ExitCode.USAGE)


def _fail(message: str, code: ExitCode) -> ExitCode:
    Console.clear()
    with suppress(OSError, ValueError):
        sys.stderr.write(f"quotaform: {message}\n")
        sys.stderr.flush()
    return code
