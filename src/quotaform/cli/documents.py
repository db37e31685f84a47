"""What a command prints and writes of each result, for an engine that renders it elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from quotaform.app.rendering import Document
from quotaform.cli.ci import MOST_SUMMARIES, STEP_SUMMARY, SUMMARY_BYTES, Ci
from quotaform.cli.format import REPORT

STDOUT: Final = "stdout"
"""The document that is printed."""


def documents_of(
    format_name: str, printed: Mapping[str, Any], file_formats: Iterable[str], ci: Ci, clusters: int = 1
) -> tuple[Document, ...]:
    """Return the documents that a command needs of each result.

    Args:
        file_formats: The formats that are written to files.
    """
    documents = [] if format_name == REPORT else [Document(STDOUT, format_name, printed)]
    documents += [Document(name, name, ci.options) for name in dict.fromkeys(file_formats)]
    if ci.has_summary and clusters <= MOST_SUMMARIES:
        documents.append(Document(STEP_SUMMARY, "markdown", {**ci.options, "limit": SUMMARY_BYTES}))
    return tuple(documents)
