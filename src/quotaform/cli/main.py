"""The entry point: parses, runs one command and turns whatever happens into one message and one exit code."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from quotaform.cli.exit_code import ExitCode

if TYPE_CHECKING:
    import typer


class TerminatedError(KeyboardInterrupt):
    """SIGTERM, so that it takes the same careful way out as Ctrl-C."""

    signal_name = "SIGTERM"


def main() -> NoReturn:
    """Run `quotaform` with the arguments of the process and exit."""
    code = run(sys.argv[1:])
    sys.exit(int(code))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; nothing is raised."""
    if arguments == ["--version"]:
        from quotaform import __version__

        sys.stdout.write(f"quotaform {__version__}\n")
        return ExitCode.DONE
    _raise_on_sigterm()
    try:
        return _invoke(arguments)
    except BrokenPipeError:
        # The reader of our output is gone (`| head`); what was asked for is done.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.DONE
    except TerminatedError:
        return _fail("terminated", ExitCode.TERMINATED)
    except KeyboardInterrupt:
        return _fail("interrupted", ExitCode.INTERRUPTED)


def _raise_on_sigterm() -> None:
    def terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise TerminatedError

    signal.signal(signal.SIGTERM, terminate)


def _invoke(arguments: list[str]) -> int:
    import typer

    from quotaform.errors import QuotaformError

    try:
        result = build_app()(arguments, standalone_mode=False, prog_name="quotaform")
    except QuotaformError as error:
        return _fail(str(error), ExitCode(error.exit_code))
    except typer.Exit as ended:
        return ended.exit_code
    except typer.Abort:
        return _fail("not approved; nothing was written", ExitCode.BLOCKED)
    except typer.TyperException as error:
        return _fail_usage(error)
    return result if isinstance(result, int) else ExitCode.DONE


def _fail_usage(error: typer.TyperException) -> int:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "quotaform"
    message = getattr(error, "format_message", lambda: str(error))()
    return _fail(f"{message} Try '{command} --help'.", ExitCode.USAGE)


def _fail(message: str, code: ExitCode) -> ExitCode:
    try:
        sys.stderr.write(f"quotaform: {message}\n")
        sys.stderr.flush()
    except BrokenPipeError:
        pass
    return code


def build_app() -> typer.Typer:
    """Return the command with all its subcommands; only their options are imported, not what they need to run."""
    import typer

    from quotaform.cli import apply, demo, drift, live_import, plan, sandbox, schema, show, snapshot, validate

    app = typer.Typer(
        name="quotaform",
        help="Kafka client quotas as code: validate, plan, apply, and see when somebody changed the cluster.",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )

    @app.callback(invoke_without_command=True)
    def root(
        context: typer.Context,
        version: bool = typer.Option(False, "--version", help="Print the version and exit."),
    ) -> None:
        if version:
            raise typer.Exit(run(["--version"]))
        if context.invoked_subcommand is None:
            sys.stdout.write(context.get_help() + "\n")

    app.command("validate")(validate.validate)
    app.command("plan")(plan.plan)
    app.command("apply")(apply.apply)
    app.command("drift")(drift.drift)
    app.command("show")(show.show)
    app.command("import")(live_import.import_quotas)
    app.command("snapshot")(snapshot.snapshot)
    app.command("schema")(schema.schema)
    app.add_typer(sandbox.app, name="sandbox")
    app.command("demo")(demo.demo)
    return app
