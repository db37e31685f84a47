"""Reads the `metrics` of clusters in quotaform.yaml: where their measurements are."""

from __future__ import annotations

from typing import Any, Final

from quotaform.core.check import rule
from quotaform.core.usage.record.source import (
    NO_METRICS,
    ClusterMetrics,
    MetricsSource,
    SourceKind,
    parse_source,
    require_distinct,
)
from quotaform.desired.report import FileReport, Part

MOST_LABELS: Final = 100
"""The limit on labels of `metrics.labels`."""


def read_metrics(cluster: str, node: dict[str, Any], report: FileReport) -> ClusterMetrics:
    """Return where the measurements of a cluster are; the schema reports values of the wrong shape."""
    written = node.get("metrics")
    if not isinstance(written, dict):
        return NO_METRICS
    part = report.at("clusters", cluster, "metrics")
    prometheus, labels = written.get("prometheus"), written.get("labels")
    if isinstance(prometheus, str):
        _check_url(prometheus, part.at("prometheus"), written, "prometheus")
    return ClusterMetrics(
        sources=_read_sources(written, part),
        prometheus=prometheus if isinstance(prometheus, str) else None,
        labels={
            name: value
            for name, value in (labels if isinstance(labels, dict) else {}).items()
            if isinstance(value, str)
        },
        location=report.document.locate(part.path).value,
    )


def _read_sources(written: dict[str, Any], part: Part) -> tuple[MetricsSource, ...]:
    listed = written.get("brokers")
    sources: list[MetricsSource] = []
    for index, text in enumerate(listed if isinstance(listed, list) else []):
        if not isinstance(text, str):
            continue
        place = part.at("brokers", index)
        try:
            source = parse_source(text)
            require_distinct([*sources, source])
        except ValueError as error:
            place.add(rule.BAD_METRICS, str(error), listed, index)
            continue
        if source.kind is not SourceKind.JMX:
            _check_url(source.address, place, listed, index)
        sources.append(source)
    return tuple(sources)


def _check_url(text: str, part: Part, container: Any, key: str | int) -> None:
    from quotaform.http.message import Url

    try:
        Url.parse(text)
    except ValueError as error:
        part.add(rule.BAD_METRICS, f"invalid URL: {error}", container, key)
