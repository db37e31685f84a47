"""What an apply did, as a page."""

from __future__ import annotations

from collections.abc import Iterator

from quotaform.apply.report import effect_words, resources_line
from quotaform.model.entity import spell_name
from quotaform.model.text import inert
from quotaform.plan.page import change_sections
from quotaform.plan.receipt import Receipt
from quotaform.report.html import render_html
from quotaform.report.report import Report, Section, Table


def render_receipt_html(receipt: Receipt) -> Iterator[str]:
    """Yield what became of each entity, and what the plan said, as a page."""
    header = receipt.plan.header
    rows = tuple(
        (each.entity.address, each.action.value, each.result.value.replace("_", " "), inert(each.message or "-"))
        for each in sorted(receipt.results, key=lambda each: each.result.holds)
    )
    table = Table("Results", ("entity", "action", "result", "message"), rows)
    ended = [f"Interrupted by {receipt.interruption}."] if receipt.interruption else []
    report = Report(
        title=f"Kafka quota apply to {spell_name(header.cluster_name)}",
        about=(
            resources_line([receipt.digest], is_complete=receipt.is_complete),
            f"Plan {receipt.plan.plan_id}, applied by {inert(receipt.applied_by)} at {receipt.started_at}",
            *ended,
        ),
        sections=(*([Section(table)] if rows else []), *change_sections(receipt.plan.changes)),
        nothing="There was nothing to apply.",
        notes=() if receipt.is_complete else (f"{effect_words(receipt).capitalize()}. Nothing is rolled back.",),
    )
    return render_html(report)
