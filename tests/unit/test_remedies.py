"""What messages tell people to do can be done.

Rooms below `cli` name arguments, and do not see when the option of one is renamed.
"""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from quotaform.cli.client_quotas import build_parser
from quotaform.model.text import option_of
from tests.command_line import COMMANDS, option_names, split_path
from tests.markdown import ROOT

pytestmark = pytest.mark.exhaustive

OF_OTHERS = {"--global", "--unshallow", "--date-format", "--report-format", "--packages"}
"""Options of git, JmxTool and spark-submit."""
KNOWN = {name for path in COMMANDS for name in option_names(path)} | OF_OTHERS
_OPTION = re.compile(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*")
_COMMAND = re.compile(r"\bquotaform ((?:[^\s;,.]+ )+)(--[a-z-]+)")


@cache
def messages() -> list[tuple[str, str]]:
    """Return the texts with a space in them, each with its place, but for documentation; a value in one is `{}`.

    An argument is its option in them.
    """
    package, found = ROOT / "src/quotaform", []
    for path in package.rglob("*.py"):
        if path.is_relative_to(package / "cli"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, (ast.Constant, ast.JoinedStr)) and id(node) not in documentation:
                parts = node.values if isinstance(node, ast.JoinedStr) else [node]
                text = "".join(map(part_text, parts))
                if " " in text:
                    found.append((f"{path.relative_to(package)}:{node.lineno}", text))
    return found


def part_text(part: ast.expr) -> str:
    match part:
        case ast.Constant(value):
            return str(value)
        case ast.FormattedValue(ast.Call(ast.Name("option_of"), [ast.Constant(str(argument))])):
            return option_of(argument)
        case _:
            return "{}"


def test_every_option_that_a_message_names_exists() -> None:
    known = KNOWN | {name for action in build_parser()._actions for name in action.option_strings}
    named = [(place, option) for place, text in messages() for option in _OPTION.findall(text)]
    assert len(named) > 50
    assert [(place, option) for place, option in named if option not in known] == []


def test_every_argument_that_an_error_names_is_that_of_an_option() -> None:
    named: list[str] = []
    for path in (ROOT / "src/quotaform").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "ArgumentError":
                text = "".join(str(each.value) for each in ast.walk(call.args[0]) if isinstance(each, ast.Constant))
                named += set(re.findall(r"{(\w+)}", text))
    assert len(named) > 30
    assert [name for name in named if option_of(name) not in KNOWN] == []


def test_the_command_of_a_remedy_has_the_option_of_the_remedy() -> None:
    found = [(place, *each) for place, text in messages() for each in _COMMAND.findall(text)]
    assert len(found) > 7
    for place, words, option in found:
        path, _ = split_path(["quotaform", *words.split()])
        assert path in COMMANDS, place
        assert option in option_names(path), f"{place}: {path} has no {option}"
