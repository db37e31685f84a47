"""`docs/commands.md`: every command with its options, from the same source as `--help`.

`make docs` writes it (`python -m tools.commands_page docs/commands.md`); a test says when it is out of date.
"""

from __future__ import annotations

import sys
from argparse import SUPPRESS, Action, ArgumentParser
from collections.abc import Iterable, Iterator
from inspect import getdoc
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import typer

from quotaform.cli.client_quotas.command import build_parser
from quotaform.cli.format import FORMATS
from quotaform.cli.root import build_app
from quotaform.exit_code import ExitCode

_INTRODUCTION: Final = """\
# Commands

<!-- Written by `make docs` from the commands' own help. To change this page, change that. -->

Every command has `-h` and `--help`. Results go to stdout; progress, warnings and errors to stderr.
`quotaform --install-completion` makes your shell (bash, zsh or fish) complete commands, options and cluster names.
"""
_SUBCOMMAND: Final = "COMMAND ..."
_VERBATIM: Final = "\b"
"""The first line of a paragraph that `--help` does not wrap."""


def main() -> None:
    """Write the page to the path that is given."""
    Path(sys.argv[1]).write_text(render_page(), encoding="utf-8")


def render_page() -> str:
    """Return the page; it depends on nothing but the commands."""
    root = typer.main.get_command(build_app())
    commands = [("quotaform", root), *_leaves("quotaform", root)]
    parser = build_parser()
    lines = [
        _INTRODUCTION,
        "| command | does |",
        "| --- | --- |",
        *(f"| [`{path}`](#{path.replace(' ', '-')}) | {_inline(_summary(each))} |" for path, each in commands[1:]),
        f"| [`{parser.prog}`](#{parser.prog}) | {_inline(parser.description or '')} |",
        "",
        "## Exit codes",
        "",
        *_exit_codes(),
        "",
        f"Those of `{parser.prog}` are those of Kafka's own scripts: 0, 1 whatever went wrong, 130 when interrupted.",
        "",
        "## Formats",
        "",
        "What `--format` takes, and `--out FORMAT=PATH` where a command has it. `quotaform schema` prints the JSON",
        "Schemas.",
        "",
        "| result | formats |",
        "| --- | --- |",
        *(f"| {subject} | {', '.join(f'`{name}`' for name in names)} |" for subject, names in FORMATS.items()),
        "",
    ]
    for path, command in commands:
        lines += _section(path, command)
    lines += _script_section(parser)
    return "\n".join(lines).rstrip("\n") + "\n"


def _leaves(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield the commands that do something, by path, in the order of `--help`."""
    for name, child in getattr(command, "commands", {}).items():
        if child.hidden:
            continue
        if hasattr(child, "commands"):
            yield from _leaves(f"{path} {name}", child)
        else:
            yield f"{path} {name}", child


def _summary(command: Any) -> str:
    return str(command.short_help or (command.help or "").partition("\n")[0])


def _exit_codes() -> list[str]:
    """Return the table of exit codes, which is in the docstring of the one place that defines them."""
    return [line for line in (getdoc(ExitCode) or "").splitlines() if line.startswith("|")]


def _section(path: str, command: Any) -> Iterator[str]:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    words = " ".join(_argument(each) for each in arguments)
    yield from (
        f"## {path}",
        "",
        "```",
        f"{path} [OPTIONS] {words or _SUBCOMMAND * hasattr(command, 'commands')}".rstrip(),
        "```",
        "",
    )
    yield from _paragraphs(command.help or "")
    rows = [(_argument(each), each.help or "") for each in arguments]
    rows += [(_option(each), _option_help(each)) for each in options]
    yield from _table(rows)


def _paragraphs(text: str) -> Iterator[str]:
    """Yield a help text as Markdown: examples as code, everything else as paragraphs."""
    for paragraph in dedent(text).strip().split("\n\n"):
        first, _, rest = paragraph.partition("\n")
        if first.strip() != _VERBATIM:
            yield from (_inline(" ".join(paragraph.split())), "")
            continue
        heading, _, body = rest.partition("\n")
        if body:
            yield from (heading, "", "```sh", *dedent(body).splitlines(), "```", "")
        else:
            yield from (_inline(heading), "")


def _argument(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required else f"[{name}]"


def _option(option: Any) -> str:
    names = " / ".join(", ".join(each) for each in (option.opts, option.secondary_opts) if each)
    return names if option.is_flag else f"{names} {_metavar(option)}"


def _metavar(option: Any) -> str:
    choices = getattr(option.type, "choices", None)
    return option.metavar or ("|".join(map(str, choices)) if choices else str(option.type.name).upper())


def _option_help(option: Any) -> str:
    text = option.help or ""
    if option.required:
        return f"{text} Required."
    default = option.default
    if option.secondary_opts:
        return f"{text} [default: {(option.opts if default else option.secondary_opts)[0]}]"
    is_told = "[default:" in text or default is None or default is False or default == ""
    return text if is_told else f"{text} [default: {getattr(default, 'value', default)}]"


def _table(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield from ("| option | what |", "| --- | --- |")
    for name, text in rows:
        yield f"| `{name.replace('|', chr(92) + '|')}` | {_inline(text)} |"
    yield ""


def _inline(text: str) -> str:
    """Return a text so that Markdown shows it as it is, in a table as well."""
    for character in "*<|":
        text = text.replace(character, f"\\{character}")
    return text


def _script_section(parser: ArgumentParser) -> Iterator[str]:
    yield from (f"## {parser.prog}", "", "```", f"{parser.prog} [OPTIONS]", "```", "")
    yield from (_inline(parser.description or ""), "")
    shown = [each for each in parser._actions if each.help is not SUPPRESS and each.dest != "help"]
    yield from _table((_script_option(each), (each.help or "").replace("%%", "%")) for each in shown)
    if parser.epilog:
        yield from ("```text", *parser.epilog.strip("\n").splitlines(), "```", "")


def _script_option(action: Action) -> str:
    names = ", ".join(action.option_strings)
    return f"{names} {action.metavar}" if action.metavar else names


if __name__ == "__main__":
    main()
