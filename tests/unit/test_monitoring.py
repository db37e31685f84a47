"""Alert rules and dashboard: they use metrics and labels that exist, and lead to a page that exists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml

from quotaform.drift.metric import METRICS
from tests.markdown import ROOT, anchors

FOLDER = ROOT / "examples" / "monitoring"
PAGE = ROOT / "docs" / "drift.md"
RUNBOOK = "https://github.com/quotaform/quotaform/blob/main/docs/drift.md#"
RULES = [
    rule
    for group in yaml.safe_load((FOLDER / "quotaform-alerts.yml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
DASHBOARD = json.loads((FOLDER / "quotaform-dashboard.json").read_text("utf-8"))
LABEL_VALUES = {
    "class": {"modified", "missing", "unexpected"},
    "action": {"create", "update", "delete"},
    "scope": {"in", "out"},
    "command": {"drift"},
}

every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])


def targets() -> Iterator[tuple[str, str]]:
    """Yield each expression of the dashboard with its legend."""
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]


def selectors(expression: str) -> list[tuple[str, dict[str, str]]]:
    """Return the metrics in an expression that Prometheus can parse, each with what its labels are matched with."""
    promql_parser.parse(expression)
    found = re.findall(r"\b(quotaform_[a-z_]+)(?:\{(.*?)\})?", expression)
    return [(name, dict(re.findall(r"""(\w+)[=!~]+["'](.*?)["']""", labels))) for name, labels in found]


EXPRESSIONS = [rule["expr"] for rule in RULES] + [expression for expression, _ in targets()]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_and_label_exists(expression: str) -> None:
    for name, matchers in selectors(expression):
        metric = METRICS[name]
        for label, value in matchers.items():
            assert label in metric.all_labels, expression
            values = LABEL_VALUES.get(label)
            assert values is None or set(value.split("|")) <= values, expression


@pytest.mark.parametrize("text", ["quotaform_drift_entitie > 0", "sum(quotaform_pending_changes{acton='x'})"])
def test_a_metric_that_does_not_exist_is_found(text: str) -> None:
    with pytest.raises((KeyError, AssertionError)):
        test_every_metric_and_label_exists(text)


@every_rule
def test_a_rule_has_what_an_operator_needs(rule: dict[str, Any]) -> None:
    assert re.fullmatch(r"KafkaQuota([A-Z][a-z]+)+", rule["alert"])
    assert rule["for"]
    assert rule["labels"]["severity"] in {"ticket", "info"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"{RUNBOOK}{rule['alert'].lower()}"
    assert rule["alert"].lower() in anchors(PAGE)
    used = set(re.findall(r"\$labels\.([a-z]+)", " ".join(rule["annotations"].values())))
    assert used <= ({"cluster"} if not rule["expr"].startswith("absent") else set()), "the expression keeps no others"


def test_every_metric_is_on_the_dashboard() -> None:
    used = {name for expression, _ in targets() for name, _ in selectors(expression)}
    assert used == METRICS.keys()


def test_the_dashboard_is_complete() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["title"] and panel["description"] for panel in panels)
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    assert set(variables) == {"datasource", "cluster"}
    (used,) = re.findall(r"label_values\((\w+), cluster\)", variables["cluster"]["query"]["query"])
    assert used in METRICS
    for expression, legend in targets():
        assert 'cluster=~"$cluster"' in expression
        labels = set(re.findall(r"\{\{(\w+)\}\}", legend))
        kept = {label for name, _ in selectors(expression) for label in METRICS[name].all_labels}
        assert labels <= kept


def test_the_page_lists_every_metric() -> None:
    text = PAGE.read_text("utf-8")
    for metric in METRICS.values():
        labels = ", ".join(f"`{label}`" for label in metric.all_labels)
        assert f"| `{metric.name}` | {labels} | {metric.help} |" in text
