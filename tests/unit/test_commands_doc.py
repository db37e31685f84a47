"""The help of every command: examples that work, and docs/commands.md says the same."""

from __future__ import annotations

import os
import shlex
from functools import cache
from typing import Any

import pytest
import typer

from quotaform.cli.client_quotas import build_parser
from quotaform.model.errors import ExitCode
from tests.command_line import COMMANDS, LEAVES, require_understood
from tools.commands_page import render_page


@cache
def page() -> str:
    """Return the page as it is to be; it takes a tenth of a second."""
    return render_page()


def examples(command: Any) -> list[str]:
    """Return the command lines that a help text shows."""
    _, _, text = (command.help or "").partition("Example")
    return [line.strip() for line in text.splitlines()[1:] if line.strip()]


def rendered_help(path: str) -> str:
    """Return what `--help` of a command prints on a terminal of 80 columns."""
    command = COMMANDS[path]
    return str(command.get_help(typer.Context(command, info_name=path, terminal_width=80)))


def rendered_examples(path: str) -> list[str]:
    """Return the lines between the heading of the examples and the next empty line."""
    lines = [line.strip() for line in rendered_help(path).splitlines()]
    headings = [at for at, line in enumerate(lines) if line in ("Example:", "Examples:")]
    assert len(headings) == 1, f"{path}: one line of --help is the heading of the examples"
    after = lines[headings[0] + 1 :]
    return after[: after.index("")]


def test_the_page_does_not_depend_on_where_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = page()
    for name, value in (("COLUMNS", "40"), ("TERM", "dumb"), ("NO_COLOR", "1"), ("FORCE_COLOR", "1"), ("LANG", "C")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("shutil.get_terminal_size", lambda fallback=None: os.terminal_size((40, 10)))
    assert render_page() == expected
    assert "\x1b" not in expected
    assert "\b" not in expected


def test_the_page_has_every_command_every_option_and_every_exit_code() -> None:
    for path, command in LEAVES.items():
        _, heading, section = page().partition(f"\n## {path}\n")
        section = section.partition("\n## ")[0]
        assert heading, path
        for option in command.params:
            if option.param_type_name == "option" and not option.hidden:
                assert f"`{', '.join(option.opts)}" in section, (path, option.name)
    _, _, script = page().partition("\n## kafka-client-quotas\n")
    for action in build_parser()._actions:
        assert "help" in action.dest or f"`{action.option_strings[0]}" in script
    for code in ExitCode:
        assert any(cell in page() for cell in (f"| {code} |", f"{code}, ", f", {code} |"))


@pytest.mark.parametrize("path", COMMANDS)
def test_every_help_text_says_what_it_does_in_a_sentence_and_fits_a_screen(path: str) -> None:
    command = COMMANDS[path]
    first = (command.help or "").partition("\n\n")[0]
    assert first[:1].isupper(), path
    assert first.endswith("."), path
    assert len((command.help or "").splitlines()) < 40
    for option in command.params:
        assert option.help or option.hidden, f"{path} {option.name}"
    for text in (rendered_help(path), page().partition(f"\n## {path}\n")[2].partition("\n## ")[0]):
        assert "\\b" not in text
        assert "\b" not in text


@pytest.mark.parametrize("path", ["quotaform", *LEAVES])
def test_help_prints_each_example_on_a_line_of_its_own(path: str) -> None:
    """A raw docstring kept the two characters of `\\b`, and help and page ran all examples together."""
    assert rendered_examples(path) == examples(COMMANDS[path])
    assert all(line.startswith("quotaform ") for line in rendered_examples(path))
    assert any(path in line for line in rendered_examples(path)), path


@pytest.mark.parametrize(
    "line", [line for command in COMMANDS.values() for line in examples(command)], ids=lambda line: line[10:]
)
def test_every_example_is_a_command_line_that_is_understood(line: str) -> None:
    require_understood(line)


def test_the_examples_of_the_script_are_understood() -> None:
    parser = build_parser()
    text = (parser.epilog or "").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith(f"{parser.prog} ")]
    assert len(lines) >= 3
    for line in lines:
        assert parser.parse_args(shlex.split(line)[1:]).operation
