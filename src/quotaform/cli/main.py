"""The entry point: the commands; parses, runs one, and turns whatever happens into one message and one exit code.

Only the options of the command that is meant are imported, and not what it needs to run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.main import get_command

from quotaform import __version__
from quotaform.cli.console import Console, cut_lines, guarded_streams, run_as_process
from quotaform.model.errors import ExitCode, InvalidFilesError, QuotaformError, UsageError
from quotaform.model.text import inert, printable
from quotaform.system.process import interrupt_code, signals_raised

COMMANDS: Final = {
    "validate": ("files", "Check the files offline."),
    "fmt": ("files", "Bring the files into one style."),
    "plan": ("plan", "Show what apply would change."),
    "apply": ("apply", "Apply plans to clusters."),
    "drift": ("drift", "Compare clusters with the files."),
    "show": ("plan", "Print a saved plan."),
    "explain": ("resolve", "Show where declared values come from."),
    "doctor": ("cluster", "Check step by step whether a cluster can be used."),
    "describe": ("cluster", "Print live quotas."),
    "resolve": ("resolve", "Show which quotas apply to a request."),
    "alter": ("cluster", "Set and remove quotas of one entity."),
    "init": ("review", "Make a new quota repository."),
    "import": ("review", "Write live quotas as YAML."),
    "snapshot": ("cluster", "Write live quotas to one JSON file."),
    "history": ("history", "Keep snapshots over time: who had what when, and who changed it (on Spark)."),
    "usage": ("usage", "Measure usage: record, ingest, compact, headroom, backtest, recommend."),
    "top": ("top", "Show who is throttled now, and by which quota."),
    "comment": ("review", "Write plans as comments to a pull request."),
    "schema": ("files", "Print the JSON Schemas of the files."),
    "scram": ("scram", "Manage the SCRAM credentials of users (KIP-554)."),
    "sandbox": ("sandbox", "Run a real Apache Kafka on this machine (127.0.0.1 only), for tests."),
    "demo": ("sandbox", "Run the full workflow on a real Apache Kafka."),
}
"""The commands in the order of `--help`: the modules of `quotaform.cli.command` that have them, and summaries."""

GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "history": {
        "append": "Append snapshots of clusters, or in files, to a history.",
        "show": "Show what entities had and when, and who changed it.",
        "diff": "Show what changed between two times.",
    },
    "usage": {
        "ingest": "Add existing recordings to a usage table.",
        "record": "Record the usage metrics of brokers.",
        "compact": "Bring the files of each day of a usage table together.",
        "headroom": "Show how close clients are to their quotas.",
        "backtest": "Show what a plan would have throttled, from recorded usage.",
        "recommend": "Propose quotas that fit the recorded usage.",
    },
    "scram": {
        "describe": "Show users and their SCRAM credentials.",
        "upsert": "Create or update credentials.",
        "delete": "Delete credentials.",
    },
    "sandbox": {
        "start": "Start a sandbox and print its bootstrap servers.",
        "stop": "Stop a sandbox and remove its data.",
        "status": "Print the bootstrap servers of a running sandbox.",
    },
}
"""The commands that have subcommands, with their summaries."""


def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Kafka client quotas as code: validate, plan, apply, and detect drift.

    \b
    Examples:
      quotaform import --bootstrap-server localhost:9092
      quotaform validate
      quotaform plan --out plan.json
      quotaform apply plan.json
    """
    if version:
        typer.echo(f"quotaform {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def build_app(*words: str) -> typer.Typer:
    """Return the command with its subcommands.

    `words`: the command line, as far as it names commands: others are only listed, since to import and inspect them all
    takes longer than most of them run. All of them are there without any word.
    """
    app = typer.Typer(
        name="quotaform",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(invoke_without_command=True)(root)
    for name, (home, summary) in COMMANDS.items():
        module = import_module(f"quotaform.cli.command.{home}") if words[:1] in ((), (name,)) else None
        if name not in GROUPS:
            function = "import_quotas" if name == "import" else name
            app.command(name, short_help=summary)(_command(module, function))
            continue
        group = typer.Typer(help=summary, no_args_is_help=True)
        for each, text in GROUPS[name].items():
            is_meant = words[1:2] in ((), (each,))
            group.command(each, short_help=text)(_command(module if is_meant else None, each))
        app.add_typer(group, name=name, short_help=summary)
    return app


def _command(module: ModuleType | None, name: str) -> Callable[..., int]:
    """Return a function of a module as a command; without a module, what stands for one that is listed and not run."""
    if module is None:
        return lambda: 0
    from quotaform.cli.option.common import with_options

    return with_options(getattr(module, name))


_COMPLETION: Final = "_QUOTAFORM_COMPLETE"
"""With this in the environment a shell asks for words to complete to, whatever the arguments are."""


_WITH_VALUE: Final = {"--config", "--format", "--color"}
_GLOBALS: Final = {*_WITH_VALUE, "--quiet", "-q", "--verbose", "-v"}
"""The options that most commands share."""


def main() -> NoReturn:
    """Run `quotaform` with the arguments of the process and exit."""
    run_as_process(run)


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; the process is left as it was found.

    Nothing is raised but an internal error with `--verbose`.
    """
    with guarded_streams() as output:
        with signals_raised():
            code = _run(arguments)
        if output.loss is not None:
            # That is an error where the output is all that was asked for.
            code = ExitCode.most_severe({ExitCode(code), ExitCode.ERROR}) if output.is_result else code
            _fail(output.loss, code)
        if os.environ.get("GITHUB_OUTPUT") and "--no-github" not in arguments:
            from quotaform.cli.present import STEPS, end_step

            if STEPS.intersection(globals_last(arguments)[:1]) and (problem := end_step(code)) is not None:
                _fail(problem, code)
        return code


def _run(arguments: list[str]) -> int:
    for before, argument in zip(["", *arguments], arguments, strict=False):
        if not argument or re.fullmatch("--[^=]*=", argument):
            option = argument.rstrip("=") or (before if re.fullmatch("--?[a-z-]+", before) else "")
            what = f"the argument after {option}" if option else "an argument"
            text = f"{what} is empty, perhaps because a variable is not set; give a value, or leave it out"
            return _fail(text, ExitCode.USAGE)
    try:
        return _invoke(arguments)
    except KeyboardInterrupt as interrupt:
        code = interrupt_code(interrupt)
        # With what had been done by then.
        return _fail("; ".join((code.name.lower(), *getattr(interrupt, "__notes__", ()))), code)
    except OSError as error:
        # A name that is too long, a disk that is full, no descriptor left: nothing to report to the authors.
        place = f"{inert(str(error.filename))} cannot be used: " if error.filename is not None else ""
        return _fail(f"{place}{error.strerror or error}", ExitCode.ERROR)
    except Exception as error:
        if {"-v", "--verbose"}.intersection(arguments):
            raise
        if _COMPLETION in os.environ:
            return _fail(
                f"{_COMPLETION} is set, which only a shell does to complete a command; unset it", ExitCode.USAGE
            )
        text = f"internal error: {type(error).__name__}: {printable(str(error))}"
        return _fail(f"{text}. Please report it with the output of the same command and --verbose.", ExitCode.ERROR)


def _invoke(arguments: list[str]) -> int:
    words = globals_last(arguments)
    meant = words or [""]
    if _COMPLETION in os.environ:
        # The words before the one that is completed; bash and zsh or fish say them in different variables.
        line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
        meant = line.split()[1:] or [""]

    def redacted(text: str) -> str:
        """Return a message; where passwords may be given by mistake, it repeats no value of the command line."""
        if words[:1] != ["scram"] or not GROUPS["scram"].keys() & words[1:2]:
            return text
        return redact(text, words[2:])

    try:
        command = get_command(build_app(*meant))
        if _COMPLETION in os.environ:
            command(words, standalone_mode=False, prog_name="quotaform")
        # Not as above, which would turn an interrupt into an exit code without a word.
        with command.make_context("quotaform", list(words)) as context:
            result = command.invoke(context)
    except InvalidFilesError as error:
        # Each problem begins its line with its place, for editors and problem matchers.
        problems, _, total = redacted(str(error)).rpartition("\n")
        return _fail(total, error.exit_code, f"{problems}\nError: ")
    except QuotaformError as error:
        if "GITHUB_OUTPUT" in os.environ:
            from quotaform.cli.present import note_outcomes
            from quotaform.model.outcome import ClusterOutcome

            note_outcomes([ClusterOutcome("", error=error)])
        from quotaform.cli.option.common import name_options

        name_options(error)
        return _fail(redacted(str(error)) if isinstance(error, UsageError) else str(error), error.exit_code)
    except typer.Exit as ended:
        return ended.exit_code
    except typer.TyperException as error:
        message = str(error)
        if message.startswith("Usage:"):  # a group without a command: the help is the message
            return _fail(message, ExitCode.USAGE, "")
        name = f"quotaform {words[0]}" if words and words[0] in COMMANDS else "quotaform"
        return _fail(redacted(usage_text(error, name, words)), ExitCode.USAGE)
    return result if isinstance(result, int) else ExitCode.DONE


def globals_last(arguments: list[str]) -> list[str]:
    """Move global options that stand before the command behind it, where the commands read them."""
    moved = []
    rest = list(arguments)
    while rest and rest[0].partition("=")[0] in _GLOBALS:
        name, has_value, _ = rest[0].partition("=")
        width = 2 if name in _WITH_VALUE and not has_value else 1
        moved += rest[:width]
        del rest[:width]
    return [*rest, *moved] if rest else list(arguments)


def _fail(message: str, code: int, start: str = "Error: ") -> int:
    Console().write_stderr(f"{cut_lines(f'{start}{message}')}\n")
    return code


def usage_text(error: typer.TyperException, command: str, words: Sequence[str]) -> str:
    """Return what is wrong with a command line, in one sentence, and where its help is.

    Typer's exceptions carry what the sentence is built from, by these names. `command` is for those without one, and
    `words` are the command line.
    """
    from quotaform.model.entity import ENTITY_TYPES

    context: Any = getattr(error, "ctx", None)
    option = getattr(error, "option_name", None)
    parameter: Any = getattr(error, "param", None)
    kind: Any = getattr(parameter, "type", None)
    least, most = getattr(kind, "min", None), getattr(kind, "max", None)
    if hasattr(error, "possibilities") and option is not None:
        text = f"No such option: {inert(option)}{_meant_option(error, words)}"
    elif least is not None and most is not None:
        # Not shown: what was given may be a password in the wrong place.
        text = f"{parameter.opts[0]} takes a whole number from {least:,} to {most:,}."
    else:
        text = inert(str(getattr(error, "format_message", lambda: str(error))()))
    if text.startswith("Got unexpected extra argument") and any(f"({each}=" in text for each in ENTITY_TYPES):
        text += "; the parts of one address are joined by a comma, as in user=alice,client-id=app1"
    end = "" if text.endswith((".", "?")) else "."
    return f"{text}{end} Try '{command if context is None else context.command_path} --help'."


def _meant_option(error: Any, words: Sequence[str]) -> str:
    """Return which option is near an unknown one, or that entities are addresses."""
    from quotaform.cli.option.common import NO_ARGV
    from quotaform.model.entity import USER, meant_type

    parameters = error.ctx.command.params if error.ctx is not None else ()
    known = [name for each in parameters if not each.hidden for name in each.opts]
    typed = error.option_name.lstrip("-")
    name = next((word for word in words if word in COMMANDS), None)
    if error.ctx is not None and error.ctx.parent is None and name is not None:
        return f"; write it after the command, as in quotaform {name} {inert(error.option_name)}."
    if typed == "password" and "--password-file" in known:
        return f": {NO_ARGV}."
    if typed == "dry-run" and "--validate-only" in known:
        return "; did you mean --validate-only?"
    entity_type = meant_type(typed)
    if entity_type is not None or typed.startswith(("entity", "name", "default", "target")):
        address = f"{entity_type or USER}=NAME"
        if any("ENTITY" in (each.metavar or "") for each in parameters):
            return f"; give the address as an argument, as in {address}."
        if "--select" in known:
            return f"; did you mean --select {address}?"
    # Possibilities may have little but the dashes in common, and may be hidden.
    alike = (name for name in error.possibilities or () if name in known and name[:3] == error.option_name[:3])
    # Terraform's options have one dash.
    dashed = (f"-{word.partition('=')[0]}" for word in words if word.startswith(error.option_name))
    near = next((name for name in dashed if name in known), None) or next(alike, None)
    return "" if near is None else f"; did you mean {near}?"


def redact(text: str, arguments: list[str]) -> str:
    """Return a message without the values of arguments; names of files that exist stay."""
    from quotaform.model.entity import ENTITY_TYPES

    for given in arguments:
        name, _, value = given.partition("=") if given.startswith("-") else ("", "", given)
        # The name of an option stays, known or not; a password with a digit or a capital letter is none.
        for word in ("" if re.fullmatch("--[a-z]+(-[a-z]+)*", name) else name.lstrip("-"), value):
            # A shorter text is part of many words.
            if len(word) >= 4 and word not in ENTITY_TYPES and not os.path.lexists(word):
                text = text.replace(word, "…")
    return text
