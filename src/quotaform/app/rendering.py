"""The formats in which results are printed and written: one row per subject and format.

What renders is imported when it is needed. On Spark it runs where the result was made, and what is left of that is a
`StoredResult`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from typing import Any, Final, Generic, TypeVar

from quotaform.core.outcome import ClusterOutcome

D = TypeVar("D")

FORMATS: Final[Mapping[str, Mapping[str, str]]] = {
    "plan": {
        "text": "views.plan.plan_text:render_plan",
        "json": "document.plan:plan_lines",
        "summary": "views.plan.plan_summary:render_plan_summary",
        "markdown": "views.plan.plan_markdown:render_plan_markdown",
        "github": "views.finding.problem_github:render_plan_github",
        "sarif": "views.finding.problem_sarif:render_plan_sarif",
        "gitlab": "views.finding.problem_gitlab:render_plan_gitlab",
    },
    "limit-changes": {
        "csv": "views.plan.blast_radius_csv:render_limit_changes_csv",
        "jsonl": "document.blast_radius:limit_change_lines",
    },
    "drift": {
        "text": "views.drift.drift_text:render_drift",
        "json": "document.drift:dump_drift",
        "markdown": "views.drift.drift_markdown:render_drift_markdown",
        "github": "views.finding.problem_github:render_drift_github",
        "sarif": "views.finding.problem_sarif:render_drift_sarif",
        "gitlab": "views.finding.problem_gitlab:render_drift_gitlab",
    },
    "receipt": {
        "text": "views.plan.receipt_text:render_receipt",
        "json": "document.receipt:receipt_lines",
        "markdown": "views.plan.receipt_markdown:render_receipt_markdown",
    },
    "validation": {
        "text": "views.finding.validation_text:render_validation",
        "json": "document.validation:dump_validation",
        "markdown": "views.finding.validation_markdown:render_validation_markdown",
        "github": "views.finding.problem_github:render_validation_github",
        "sarif": "views.finding.problem_sarif:render_validation_sarif",
        "gitlab": "views.finding.problem_gitlab:render_validation_gitlab",
    },
    "fleet-report": {
        "text": "views.fleet.report_text:render_fleet_report",
        "json": "document.fleet_report:fleet_report_lines",
        "markdown": "views.fleet.report_markdown:render_fleet_report_markdown",
    },
    "explain": {"text": "views.quotas.explain_text:render_explained", "json": "document.explain:dump_explained"},
    "alter": {"text": "views.quotas.describe_text:render_altered", "json": "document.describe:dump_altered"},
    "describe": {
        "text": "views.quotas.describe_text:render_quotas_text",
        "json": "document.describe:dump_described",
        "yaml": "desired.writer:render_quotas_yaml",
        "csv": "views.quotas.describe_csv:render_quotas_csv",
    },
    "doctor": {"text": "views.doctor_text:render_checkup", "json": "document.doctor:dump_checkup"},
    "resolve": {
        "text": "views.quotas.resolve_text:render_resolve",
        "json": "document.resolve:dump_resolved",
        "csv": "views.quotas.resolve_csv:render_resolve_csv",
    },
    "history": {
        "text": "views.history.history_text:render_entity_history",
        "json": "document.history:dump_entity_history",
    },
    "history-append": {
        "text": "views.history.history_text:render_append",
        "json": "document.history:dump_append",
    },
    "history-diff": {
        "text": "views.history.history_text:render_history_difference",
        "json": "document.history:dump_history_difference",
    },
    "usage-ingest": {
        "text": "views.usage.ingest_text:render_ingested",
        "json": "document.usage_ingest:dump_ingested",
    },
    "usage-headroom": {
        "text": "views.usage.headroom_text:render_headroom",
        "json": "document.usage_headroom:dump_headroom",
        "markdown": "views.usage.headroom_markdown:render_headroom_markdown",
    },
    "usage-stream": {
        "text": "views.usage.stream_text:render_streamed",
        "json": "document.usage_ingest:dump_streamed",
    },
    "usage-backtest": {
        "text": "views.usage.backtest_text:render_backtest",
        "json": "document.usage_backtest:dump_backtest",
        "markdown": "views.usage.backtest_markdown:render_backtest_markdown",
    },
    "usage-recommend": {
        "text": "views.usage.recommend_text:render_recommendations",
        "json": "document.usage_recommend:dump_recommendations",
        "markdown": "views.usage.recommend_markdown:render_recommendations_markdown",
    },
    "top": {"text": "views.usage.top_text:render_top", "json": "document.top:dump_top"},
    "usage-record": {
        "text": "views.usage.record_text:render_recording",
        "json": "document.usage_ingest:dump_recording",
    },
    "scram": {"text": "views.quotas.scram_text:render_scram", "json": "document.scram:dump_scram"},
    "scram-result": {"text": "views.quotas.scram_text:render_scram_result", "json": "document.scram:dump_scram_result"},
}
"""Subject to format to the function that renders it, as `module:function` of this package.

The function takes the value first and what else it needs by name; it returns a text, or yields one in pieces.
"""

FAILURES: Final = {
    "markdown": "views.plan.outcome_markdown:render_failure_markdown",
    "github": "views.finding.problem_github:render_failure_github",
}
"""Format to the function that renders a cluster for which nothing could be made; the others have no such form."""

SECTIONS: Final = frozenset({"text", "summary"})
"""Formats for people, in which several clusters are sections that end with a total."""

ONE_DOCUMENT: Final = frozenset({"sarif", "gitlab"})
"""Formats whose documents cannot follow each other on stdout."""

_PIECE: Final = 65_536


@dataclass(frozen=True, slots=True)
class StoredResult(Generic[D]):
    """What is left of a result that was rendered elsewhere.

    Attributes:
        digest: What it amounts to.
        documents: Reads what was rendered, by the name of a `Document`.
    """

    digest: D
    documents: Mapping[str, Callable[[], Iterator[str]]]


def digest_of(value: object) -> Any:
    """Return what a result amounts to; one that has no digest stands for itself."""
    if isinstance(value, StoredResult):
        return value.digest
    from quotaform.core.digest import digest_result

    return digest_result(value)


@dataclass(frozen=True, slots=True)
class Document:
    """What is to be rendered of a result.

    Attributes:
        name: What it is called; that of its format, unless there are several of one format.
        format_name: One of the formats of its subject.
        options: What its function needs besides; can be pickled.
        subject: What is rendered of the result, if that is not the result itself: a row of `FORMATS`.
    """

    name: str
    format_name: str
    options: Mapping[str, Any]
    subject: str | None = None


def render(subject: str, format_name: str, value: object, **options: Any) -> Iterator[str]:
    """Yield a result in one of its formats, in pieces of a size that is worth a write.

    Args:
        subject: What it is: a row of `FORMATS`.
        format_name: One of the subject's formats.
        options: What the functions of the subject need besides, such as `style`; each is given those that it takes. For
            a `StoredResult` only `document` counts, which names what was rendered if that is not the format.
    """
    if isinstance(value, StoredResult):
        return value.documents[options.get("document", format_name)]()
    text = _called(renderer(subject, format_name), value, options)
    return iter((text,)) if isinstance(text, str) else _joined(text)


def render_failed(subject: str, format_name: str, outcome: ClusterOutcome[Any], **options: Any) -> str | None:
    """Return a cluster that failed in a format that has a form for that; else, and without a failure, `None`.

    Args:
        subject: What could not be made: a row of `FORMATS`.
        format_name: One of the subject's formats.
        options: As for `render`.
    """
    if outcome.error is None or format_name not in FAILURES:
        return None
    return str(
        _called(
            _function(FAILURES[format_name]), outcome.cluster, {**options, "error": outcome.error, "subject": subject}
        )
    )


def renderer(subject: str, format_name: str) -> Any:
    """Return the function that renders a subject in a format."""
    return _function(FORMATS[subject][format_name])


def _function(name: str) -> Any:
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
