"""The entry point: parses, runs one command and turns whatever happens into one message and one exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Final, NoReturn

from quotaform.cli.stream import GuardedStreams, drop_unwritten_output, open_closed_streams
from quotaform.model.errors import ExitCode, InvalidFilesError, QuotaformError, UsageError
from quotaform.model.printable import printable
from quotaform.system.process import (
    end_on_signals,
    ignore_signals,
    interrupt_code,
    rare_collections,
    signals_raised,
)

_COMPLETION: Final = "_QUOTAFORM_COMPLETE"
"""With this in the environment a shell asks for words to complete to, whatever the arguments are."""


_WITH_VALUE: Final = {"--config", "--format", "--color"}
_GLOBALS: Final = {*_WITH_VALUE, "--quiet", "-q", "--verbose", "-v"}
"""The options that most commands share."""


def main() -> NoReturn:
    """Run `quotaform` with the arguments of the process and exit."""
    run_as_process(run)


def run_as_process(run_command: Callable[[list[str]], int]) -> NoReturn:
    """Run a command with the arguments of the process, whatever its streams are and whenever signals come, and exit."""
    end_on_signals()
    open_closed_streams()
    try:
        code = run_command(sys.argv[1:])
    except KeyboardInterrupt as interrupt:
        # It came when everything was said.
        code = interrupt_code(interrupt)
    drop_unwritten_output()
    ignore_signals()
    sys.exit(int(code))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; the process is left as it was found.

    Nothing is raised but an internal error with `--verbose`.
    """
    with GuardedStreams() as (output, _):
        with signals_raised(), rare_collections():
            code = _run(arguments)
        if output.loss is not None:
            # That is an error where the output is all that was asked for.
            code = ExitCode.most_severe({ExitCode(code), ExitCode.ERROR}) if output.is_result else code
            _fail(output.loss, code)
        if os.environ.get("GITHUB_OUTPUT"):
            _end_step(arguments, code)
        return code


def _end_step(arguments: list[str], code: int) -> None:
    """Give the exit code and its reason to the later steps of a job of GitHub Actions."""
    from quotaform.cli.ci import COMMANDS, end_step

    if "--no-github" not in arguments and COMMANDS.intersection(globals_last(arguments)[:1]):
        problem = end_step(code)
        if problem is not None:
            _fail(problem, code)


def _run(arguments: list[str]) -> int:
    if any(map(_is_empty, arguments)):
        return _fail(
            "an argument is empty, perhaps because a variable is not set; give a value, or leave it out", ExitCode.USAGE
        )
    try:
        return _invoke(arguments)
    except KeyboardInterrupt as interrupt:
        code = interrupt_code(interrupt)
        # With what had been done by then.
        return _fail("; ".join((code.name.lower(), *getattr(interrupt, "__notes__", ()))), code)
    except OSError as error:
        # A name that is too long, a disk that is full, no descriptor left: nothing to report to the authors.
        from quotaform.cli.option.value import shorten

        place = f"{shorten(str(error.filename))} cannot be used: " if error.filename is not None else ""
        return _fail(f"{place}{error.strerror or error}", ExitCode.ERROR)
    except Exception as error:
        if {"-v", "--verbose"}.intersection(arguments):
            raise
        if _COMPLETION in os.environ:
            return _fail(
                f"{_COMPLETION} is set, which only a shell does to complete a command; unset it", ExitCode.USAGE
            )
        kind = type(error).__name__
        return _fail(
            f"internal error: {kind}: {printable(str(error))}. Please report it with the output of the same command "
            "and --verbose.",
            ExitCode.ERROR,
        )


def _is_empty(argument: str) -> bool:
    option, is_given, value = argument.partition("=")
    return not argument or (option.startswith("--") and bool(is_given) and not value)


def _invoke(arguments: list[str]) -> int:
    import typer

    from quotaform.cli.root import Interruption, build_app

    words = globals_last(arguments)
    app = build_app(*(_completed_words() if _COMPLETION in os.environ else words or [""]))
    try:
        result = app(words, standalone_mode=False, prog_name="quotaform")
    except InvalidFilesError as error:
        # Each problem begins its line with its place, for editors and problem matchers.
        problems, _, total = str(error).rpartition("\n")
        return _print(f"{problems}\nError: {total}", error.exit_code)
    except QuotaformError as error:
        if "GITHUB_OUTPUT" in os.environ:
            from quotaform.cli.ci import note_outcomes
            from quotaform.model.outcome import ClusterOutcome

            note_outcomes([ClusterOutcome("", error=error)])
        text, argument = str(error), error.argument if isinstance(error, UsageError) else None
        if argument is not None:
            text = f"--{argument.replace('_', '-')}{text.removeprefix(argument)}"
        return _fail(text, error.exit_code)
    except Interruption as stopped:
        raise stopped.interrupt from None
    except typer.Exit as ended:
        return ended.exit_code
    except typer.Abort:
        return _fail("not approved; nothing was written", ExitCode.BLOCKED)
    except typer.TyperException as error:
        from quotaform.cli.option.value import usage_text
        from quotaform.cli.root import COMMANDS

        message = str(error)
        if message.startswith("Usage:"):  # a group without a command: the help is the message
            return _print(message, ExitCode.USAGE)
        command = f"quotaform {words[0]}" if words and words[0] in COMMANDS else "quotaform"
        return _fail(usage_text(error, command), ExitCode.USAGE)
    return result if isinstance(result, int) else ExitCode.DONE


def _completed_words() -> list[str]:
    """Return the words before the one that a shell completes; bash and zsh or fish say them in different variables."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    return line.split()[1:] or [""]


def globals_last(arguments: list[str]) -> list[str]:
    """Move global options that stand before the command behind it, where the commands read them.

    >>> globals_last(["--color", "never", "-q", "plan", "quotas.d"])
    ['plan', 'quotas.d', '--color', 'never', '-q']
    """
    moved = []
    rest = list(arguments)
    while rest and rest[0].partition("=")[0] in _GLOBALS:
        name, has_value, _ = rest[0].partition("=")
        width = 2 if name in _WITH_VALUE and not has_value else 1
        moved += rest[:width]
        del rest[:width]
    return [*rest, *moved] if rest else list(arguments)


def _fail(message: str, code: int) -> int:
    return _print(f"Error: {message}", code)


def _print(message: str, code: int) -> int:
    from quotaform.cli.console import Console
    from quotaform.cli.option.value import cut_lines

    Console().write_stderr(f"{cut_lines(message)}\n")
    return code
