"""The table of rules."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import quotaform
from quotaform.model import rule
from quotaform.model.finding import Allowance, Severity
from quotaform.model.rule import RULES, FindingRule

PACKAGE = Path(quotaform.__file__).parent


@cache
def nodes() -> list[tuple[str, ast.AST]]:
    """Every node of every module that may make a finding or name a rule, with the name of the module."""
    compound = "|".join(re.escape(name) for name in RULES if "-" in name)
    # To parse the others would take a second.
    told = re.compile(rf"""\b(Finding\(|rule\.)|["']({compound})["']""")
    texts = {
        path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))
    }
    trees = [(name, ast.parse(text)) for name, text in texts.items() if name != "model/rule.py" and told.search(text)]
    # The other nodes are not asked for.
    kinds = (ast.Call, ast.Constant, ast.Attribute)
    return [(name, node) for name, tree in trees for node in ast.walk(tree) if isinstance(node, kinds)]


@pytest.mark.exhaustive
def test_every_finding_is_made_from_a_row() -> None:
    made = {
        name
        for name, node in nodes()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding"
    }

    assert made == set()


def test_no_rule_is_a_bare_string() -> None:
    compound = {name for name in RULES if "-" in name}
    bare = [
        (name, node.lineno, node.value)
        for name, node in nodes()
        if isinstance(node, ast.Constant) and node.value in compound
    ]

    assert bare == []


def test_every_row_is_used() -> None:
    used = {
        node.attr
        for _, node in nodes()
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "rule"
    }
    rows = {name for name, row in vars(rule).items() if isinstance(row, FindingRule)}

    assert rows - used == set()


@pytest.mark.parametrize("row", RULES.values(), ids=RULES)
def test_a_row_says_what_it_means_and_what_to_do_in_a_sentence_each(row: FindingRule) -> None:
    for text in (row.summary, row.remedy):
        assert text[0].isupper() or text[0] == "`"
        assert text.endswith(".")
        assert "\n" not in text


def test_a_finding_of_a_blocking_rule_blocks() -> None:
    blocking = FindingRule("S.", "R.", "r", is_blocking=True, is_allowable=True)

    finding = blocking.finding("m", severity=Severity.WARNING, address="user=a", key="k")

    assert (finding.rule, finding.blocking, finding.override) == ("r", True, "--allow r")
    assert (finding.severity, finding.address, finding.key) == (Severity.WARNING, "user=a", "k")
    assert not FindingRule("S.", "R.", "r").finding("m").blocking


def test_a_finding_that_can_be_allowed_says_so_as_data() -> None:
    """Others read the rule and the number out of the text of the option."""
    counted = rule.DELETE.finding("m", number=8)

    assert (counted.allowance, counted.override) == (Allowance("delete", 8), "--allow delete=8")
    assert rule.EMPTY.finding("m").allowance == Allowance("empty")
    assert (rule.PROTECT.finding("m").allowance, rule.PROTECT.override) == (None, "an approval in approvals.yaml")
    assert (rule.CLUSTER_ID.finding("m").allowance, rule.CLUSTER_ID.override) == (None, None)
