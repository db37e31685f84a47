"""What pages and help texts show: links that lead somewhere, files that are valid, command lines that are understood.

Their blocks are run by tests/workflow/test_docs.py.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from quotaform.cli.client_quotas import build_parser
from quotaform.desired.config import read_config
from quotaform.desired.tree import SourceFile
from quotaform.model.errors import ExitCode
from quotaform.usage.ingest.run import read_usage_mapping
from tests.command_line import COMMANDS, LEAVES, option_names, require_understood, split_path
from tests.loading import check, load_config
from tests.markdown import PAGES, ROOT, Block, anchors, blocks, inline_code, links
from tools import commands_page, rules_page
from tools.broker_facts import with_tables
from tools.commands_page import render_page
from tools.key_table import with_table

TODAY = date(2026, 1, 1)
_FROM_AN_INDEX = re.compile(
    r"(?:\b(?:pip3?|pipx|uv|poetry|conda)\s+(?:\w+\s+)?(?:install|add|run)|\buvx)\b"
    r"\s+(?:[^\s;&|#`)]+(?:[ \t]|\\\n)+)*?[\"']?quotaform(?![\w./-])"
)
"""An installation of the name `quotaform`, and not of a path, an archive or an address."""
LANGUAGES = {"", "sh", "yaml", "python", "json", "text"}
BLOCKS = [block for page in PAGES for block in blocks(page)]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def test_the_pages_are_found() -> None:
    assert {"README.md", "commands.md", "lifecycle.md", "CONTRIBUTING.md"} <= {page.name for page in PAGES}
    assert {"sh", "yaml", "python"} <= {block.language for block in BLOCKS}


def test_the_rules_of_the_exporter_are_those_of_the_sandbox() -> None:
    rules = (ROOT / "src/quotaform/sandbox/jmx-exporter-rules.yml").read_text(encoding="utf-8")
    lines = [line for line in rules.splitlines() if not line.startswith("#")]
    assert [block.text.splitlines() for block in BLOCKS if "lowercaseOutputName" in block.text] == [lines]


@pytest.mark.parametrize(
    ("name", "render"),
    [
        ("brokers", with_tables),
        ("commands", lambda _: commands_page.render_page()),
        ("files", with_table),
        ("rules", lambda _: rules_page.render_page()),
    ],
)
def test_what_is_made_of_the_code_is_current(name: str, render: Callable[[str], str]) -> None:
    page = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
    assert render(page) == page, f"docs/{name}.md is out of date: run make docs"


@every_page
def test_a_block_has_a_language_that_some_test_knows(page: Path) -> None:
    assert {block.language for block in blocks(page)} <= LANGUAGES
    assert page.read_text(encoding="utf-8").count("\n```") % 2 == 0


@every_page
def test_a_link_leads_to_a_file_and_a_heading_that_are_there(page: Path) -> None:
    for link in links(page):
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "yaml"], ids=str)
def test_a_yaml_block_is_a_valid_file(block: Block, tmp_path: Path) -> None:
    source = SourceFile(str(block), block.text)
    if re.search(r"^quotas:", block.text, re.MULTILINE):
        _, findings = check([source], load_config(ROOT / "quotaform.yaml").profiles, TODAY)
    elif re.search(r"^columns:", block.text, re.MULTILINE):
        assert read_usage_mapping(source)
        findings = []
    else:
        _, findings = read_config(source, tmp_path)
    assert [str(finding) for finding in findings] == []


@pytest.mark.parametrize(
    ("place", "command"),
    [pytest.param(block, command, id=f"{block} {command}") for block in BLOCKS for command in block.commands],
)
def test_a_command_line_is_understood(place: Block, command: str) -> None:
    for line in (*re.findall(r"\$\((.*?)\)", command), *command.split(" && ")):
        program, _, rest = line.partition(" ")
        if program in ("quotaform", "kafka-client-quotas"):
            require_understood(line)
        elif program == "make":
            assert set(re.findall(r"^[a-z-]+", rest)) <= TARGETS, line


def test_a_module_that_the_architecture_mentions_exists() -> None:
    """After modules moved, it named those that had been."""
    page = ROOT / "docs/lifecycle.md"
    package = ROOT / "src/quotaform"
    for code in inline_code(page):
        first, *rest = code.removeprefix("quotaform.").split(".")
        if (
            re.fullmatch(r"[a-z_.A-Z]+", code)
            and rest
            and rest[-1] not in ("json", "lock", "py")
            and (package / first).is_dir()
        ):
            found = package / first
            while rest and (found / rest[0]).is_dir():
                found /= rest.pop(0)
            if rest:
                text = (found / f"{rest[0]}.py").read_text(encoding="utf-8")
                assert all(re.search(rf"\b{name}\b", text) for name in rest[1:]), code


@every_page
def test_a_command_that_is_mentioned_exists_and_has_the_options_that_are_mentioned(page: Path) -> None:
    for code in inline_code(page):
        program, *words = code.split()
        if program == "make" and words:
            assert words[0] in TARGETS, code
        if program == "quotaform" and words:
            path, rest = split_path([program, *words])
            assert path != "quotaform" or rest[0].startswith("-"), f"`{code}`: no such command"
            flags = {word.partition("=")[0] for word in rest if word.startswith("-")}
            assert flags <= set(option_names(path)), code


def test_the_readme_has_every_command_and_nothing_else_in_its_table() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Commands\n")[2].partition("\n## ")[0]
    cells = [row.partition(" | ")[0] for row in text.splitlines() if row.startswith("| `")]
    codes = [code for cell in cells for code in re.findall(r"`([^`]+)`", cell)]
    named = {re.split(r"[ \\|]", code)[0] for code in codes}
    assert named == {path.split()[1] for path in COMMANDS if path != "quotaform"}
    assert len(cells) == len(set(cells)), "a row comes twice"


@pytest.mark.exhaustive
def test_nothing_says_to_install_a_name_from_an_index() -> None:
    """Pages and messages said `pip install "quotaform[spark]"`, a name that anybody may take in the index."""
    files = [*PAGES, ROOT / "action.yml", *ROOT.glob("examples/**/*"), *ROOT.glob("src/quotaform/review/template/**/*")]
    texts = {str(path): path.read_text(encoding="utf-8") for path in files if path.is_file() and path.suffix != ".pyc"}
    for path in ROOT.glob("src/quotaform/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            text = "".join(str(part.value) for part in parts if isinstance(part, ast.Constant))
            texts[f"{path}:{getattr(node, 'lineno', 0)}:{getattr(node, 'col_offset', 0)}"] = text
    assert sum("install" in text for text in texts.values()) > 10
    assert {place: found for place, text in texts.items() if (found := _FROM_AN_INDEX.findall(text))} == {}


@pytest.mark.parametrize(
    ("text", "is_from_an_index"),
    [
        ("run: pip install quotaform", True),
        ('(`pip install\n"quotaform[spark]"`)', True),
        ("pip install --quiet 'quotaform[spark] >= 1' venv-pack", True),
        ("uv tool install quotaform==0.1.0", True),
        ("uvx quotaform plan", True),
        ("pipx run --spec x quotaform", True),
        ("pip install '.[spark]' && quotaform plan", False),
        ("pip install . # then\nquotaform --help", False),
        ("pip install ./quotaform-0.1.0-py3-none-any.whl[usage]", False),
        ("pip install git+https://github.com/quotaform/quotaform.git@v0.1.0", False),
    ],
)
def test_what_counts_as_a_name_from_an_index(text: str, is_from_an_index: bool) -> None:
    assert bool(_FROM_AN_INDEX.search(text)) == is_from_an_index


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
