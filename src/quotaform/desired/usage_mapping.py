"""Reads the file that says what the columns of a table with usage are."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from quotaform.core.check import rule
from quotaform.core.usage.format.table_mapping import TableMapping, TimeUnit, mapping_problem
from quotaform.desired.report import FileReport
from quotaform.desired.shape import explain_shape, has_shape
from quotaform.desired.tree import SourceFile, decode
from quotaform.desired.yaml.document import StopReadingError
from quotaform.desired.yaml.reader import read_document
from quotaform.model.finding import Finding

SCHEMA = "usage-mapping"


def read_usage_mapping(source: SourceFile) -> tuple[TableMapping | None, list[Finding]]:
    """Return the mapping in a file, and its problems; there is no mapping if there are problems.

    Args:
        source: Its text, YAML or JSON.
    """
    text = decode(source)
    if isinstance(text, Finding):
        return None, [text]
    document = read_document(source.name, text, detailed=True)
    report = FileReport(document)
    mapping = None
    with suppress(StopReadingError):
        if not document.problems and not has_shape(SCHEMA, document):
            explain_shape(SCHEMA, report)
        elif not document.problems:
            mapping = _read(document.root, report)
    report.findings.extend(document.problems)
    findings = report.findings.all()
    return (None, findings) if findings else (mapping, [])


def _read(root: Any, report: FileReport) -> TableMapping:
    mapping = TableMapping(
        columns=root["columns"],
        constants=root.get("constants", {}),
        labels=root.get("labels", {}),
        factors={name: float(factor) for name, factor in root.get("factors", {}).items()},
        time_unit=TimeUnit(root["time_unit"]) if "time_unit" in root else None,
        has_sanitized_users=root.get("sanitized_users", False),
    )
    problem = mapping_problem(mapping)
    if problem is not None:
        path, text = problem
        report.at(*path).add_at(rule.BAD_MAPPING, text, report.document.locate(path).key)
    return mapping
