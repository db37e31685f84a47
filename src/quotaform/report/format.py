"""The formats in which results are printed and written: one row per subject and format; and the JSON Schemas.

What renders is imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, Literal

from quotaform.model.errors import ExitCode
from quotaform.model.outcome import ClusterOutcome, digest_of, loaded
from quotaform.report.report import Report

if TYPE_CHECKING:
    from quotaform.model.records.schema import Builder
    from quotaform.report.text import Style

_RECORD: Final = "model.records.record:dump_record"


def _formats(text: str, json: str = _RECORD, **others: str) -> dict[str, str]:
    return {"text": text, "json": json, **others}


def _annotated(function: str) -> dict[str, str]:
    """Return the formats of findings at the lines of the files; `function` returns a `Report` of them alone."""
    return dict.fromkeys(("github", "sarif", "gitlab"), function)


def _reported(function: str, json: str = _RECORD, text: str = "", **others: str) -> dict[str, str]:
    """Return the formats of a subject that describes itself as one `Report`; `text` is its own one, if it has one."""
    return _formats(text or function, json, markdown=function, html=function, **others)


FORMATS: Final[Mapping[str, Mapping[str, str]]] = {
    "plan": _formats(
        "plan.report:render_plan",
        "plan.records:plan_lines",
        summary="plan.report:render_plan_summary",
        markdown="plan.page:plan_report",
        html="plan.page:plan_report",
        **_annotated("plan.report:plan_problems"),
    ),
    "limit-changes": {"csv": "plan.report:render_limit_changes_csv", "jsonl": "plan.records:limit_change_lines"},
    "drift": _reported(
        "drift.report:drift_report",
        "drift.records:dump_drift",
        "drift.report:render_drift",
        **_annotated("drift.report:drift_problems"),
    ),
    "receipt": _reported("apply.report:receipt_report", "plan.receipt:receipt_lines", "apply.report:render_receipt"),
    "validation": _formats(
        "plan.validate:render_validation",
        markdown="plan.validate:validation_report",
        **_annotated("plan.validate:validation_problems"),
    ),
    "fleet-report": _reported("fleet.report:fleet_report", "fleet.report:fleet_report_lines"),
    "explain": _formats("resolve.report:render_explained", "resolve.explain:dump_explained"),
    "alter": _formats("cluster.report:render_altered", "cluster.records:dump_altered"),
    "describe": _formats(
        "cluster.report:render_quotas_text",
        "cluster.records:dump_described",
        yaml="desired.writer:render_quotas_yaml",
        csv="cluster.report:render_quotas_csv",
    ),
    "doctor": _formats("cluster.report:render_checkup"),
    "resolve": _formats(
        "resolve.report:render_resolve",
        "resolve.records:dump_resolved",
        csv="resolve.report:render_resolve_csv",
        html="resolve.report:resolve_report",
    ),
    "history": _formats("history.history:history_report", html="history.history:history_page"),
    "history-append": _formats("history.history:append_report"),
    "history-diff": _formats("history.history:difference_report"),
    "usage-ingest": _formats("usage.ingest.ingest:render_ingested"),
    "usage-compact": _formats("usage.ingest.ingest:render_compacted"),
    "usage-headroom": _reported("usage.headroom.headroom:headroom_report"),
    "usage-stream": _formats("usage.ingest.ingest:render_streamed"),
    "usage-backtest": _reported("usage.replay.report:backtest_report"),
    "usage-recommend": _reported("usage.recommend.recommendation:recommend_report"),
    "top": _formats("usage.top:render_top", "usage.top:dump_top"),
    "usage-record": _formats("usage.record.recording:render_recording"),
    "scram": _formats("cluster.report:render_scram", "cluster.records:dump_scram"),
    "scram-result": _formats("cluster.report:render_scram_result", "cluster.records:dump_scram_result"),
}
"""Subject to format to the function that renders it, as `module:function` of this package.

The function takes the value first and what else it needs by name; it returns a text, yields one in pieces, or returns
a `Report`, of which all formats but JSON are made.
"""

FAILURES: Final = {
    "markdown": "report.comment:render_failure_markdown",
    "github": "report.annotation:render_failure_github",
}
"""Format to the function that renders a cluster for which nothing could be made; the others have no such form."""

SECTIONS: Final = frozenset({"text", "summary"})
"""Formats for people, in which several clusters are sections that end with a total."""

ONE_DOCUMENT: Final = frozenset({"sarif", "gitlab", "csv", "yaml", "html"})
"""Formats whose documents cannot follow each other on stdout."""

TOTALS: Final = {
    "plan": "plan.report:render_plan_total",
    "drift": "drift.report:render_drift_total",
    "receipt": "apply.report:render_receipt_total",
}
"""Subject to the function that sums up several, of their outcomes with digests."""

ANNOTATED: Final[Mapping[str, Collection[ExitCode]]] = {"plan": {ExitCode.BLOCKED}, "validation": frozenset(ExitCode)}
"""The subjects whose results are annotated in addition to the output, each with the exit codes of those that are."""

REPORT: Final = "report"
"""The format that prints one report of all clusters, and nothing of each."""

REPORTED: Final[Mapping[str, Literal["plan", "drift", "apply"]]] = {
    "plan": "plan",
    "drift": "drift",
    "receipt": "apply",
}
"""The subjects that have it, each with the command that makes it."""

REPORT_FORMATS: Final = {
    "text": "report.render:render_text",
    "markdown": "report.comment:render_markdown",
    "html": "report.html:render_html",
    **{name: f"report.annotation:render_{name}" for name in _annotated("")},
}
"""Format to the function that renders a subject which describes itself as a `Report`."""

_PIECE: Final = 65_536


def render(subject: str, format_name: str, value: object, **options: Any) -> Iterator[str]:
    """Yield a result in one of its formats (see `FORMATS`), in pieces of a size that is worth a write.

    `options`: what the functions of the subject need besides, such as `style`; each is given those that it takes.
    """
    value = loaded(value)
    text = _called(function_of(FORMATS[subject][format_name]), value, options)
    if isinstance(text, Report):
        text = _called(function_of(REPORT_FORMATS[format_name]), text, options)
    return iter((text,)) if isinstance(text, str) else _joined(text)


def render_outcome(subject: str, format_name: str, outcome: ClusterOutcome[Any], **options: Any) -> Iterator[str]:
    """Yield the result of a cluster, or the form that its failure has in the format; nothing if it has none."""
    if outcome.error is None:
        return render(subject, format_name, outcome.require(), **options)
    if format_name not in FAILURES:
        return iter(())
    options |= {"error": outcome.error, "subject": subject}
    return iter((str(_called(function_of(FAILURES[format_name]), outcome.cluster, options)),))


def render_total(subject: str, outcomes: Iterable[ClusterOutcome[Any]], style: Style) -> str | None:
    """Return the lines that sum up the results of several clusters; `None` for a subject that has no such."""
    if subject not in TOTALS:
        return None
    return str(function_of(TOTALS[subject])([outcome.map(digest_of) for outcome in outcomes], style))


def function_of(name: str) -> Any:
    """Return what a row of these tables names."""
    module, _, function = name.partition(":")
    return getattr(import_module(f"quotaform.{module}"), function)


def _called(function: Any, value: object, options: Mapping[str, Any]) -> Any:
    return function(value, **{name: options[name] for name in signature(function).parameters if name in options})


def _joined(pieces: Iterable[str]) -> Iterator[str]:
    parts: list[str] = []
    size = 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size >= _PIECE:
            yield "".join(parts)
            parts, size = [], 0
    yield "".join(parts)


SCHEMAS: Final = {
    "alter": "cluster.records:AlteredRecord",
    "approvals": "desired.schema:approvals",
    "audit": "apply.audit:audit",
    "config": "desired.schema:config",
    "describe": "cluster.records:DescribedRecord",
    "doctor": "cluster.records:Checkup",
    "drift": "drift.drift:DriftRecord",
    "entry": "desired.schema:entry",
    "explain": "resolve.explain:ExplainedRecord",
    "fleet-report": "fleet.report:FleetReport",
    "history": "history.history:EntityHistory",
    "history-append": "history.history:AppendDocument",
    "history-diff": "history.history:HistoryDifference",
    "notification": "drift.records:Notification",
    "outcomes": "cluster.records:OutcomesDocument",
    "plan": "plan.records:PlanRecord",
    "quotas": "desired.schema:quotas",
    "receipt": "plan.receipt:SavedReceipt",
    "resolve": "resolve.records:ResolveRecord",
    "scram": "cluster.records:ScramUsers",
    "scram-result": "cluster.records:ScramResultRecord",
    "snapshot": "cluster.gateway:SnapshotDocument",
    "top": "usage.top:Top",
    "usage-backtest": "plan.backtest:Backtest",
    "usage-compact": "usage.ingest.ingest:Compacted",
    "usage-headroom": "usage.headroom.headroom:Headroom",
    "usage-ingest": "usage.ingest.ingest:Ingested",
    "usage-mapping": "usage.format.table:usage_mapping",
    "usage-recommend": "usage.recommend.recommendation:Recommendations",
    "usage-record": "usage.record.recording:Recording",
    "usage-stream": "usage.ingest.ingest:Streamed",
    "validation": "plan.validate:Validation",
}
"""What builds each schema, by name, as `module:function` of quotaform."""


def schema_builder(name: str) -> Builder:
    """Return what builds a schema. Raises `KeyError` if there is none of this name."""
    build: Builder = function_of(SCHEMAS[name])
    return build
