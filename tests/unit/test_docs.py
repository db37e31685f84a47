"""What the pages show: links that lead somewhere, files that are valid, command lines that are understood.

Their blocks are run by tests/workflow/test_docs.py.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from quotaform.desired.config_reader import read_config
from quotaform.desired.tree import SourceFile
from quotaform.usage.ingest.input import read_usage_mapping
from tests.command_line import COMMANDS, option_names, require_understood, split_path
from tests.loading import check, load_config
from tests.markdown import PAGES, ROOT, Block, anchors, blocks, inline_code, links
from tools import commands_page, rules_page
from tools.broker_facts import with_tables
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
