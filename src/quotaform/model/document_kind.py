"""The kinds of JSON documents that quotaform writes, with their format versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class DocumentKind:
    """One format of JSON documents.

    Attributes:
        name: What people call it; `quotaform schema NAME` prints its JSON Schema.
        version: The `format_version` that is written. Minor versions only add fields; a document of another major
            version is refused.
    """

    name: str
    version: str = "1.0"

    @property
    def kind(self) -> str:
        """The document's field `kind`.

        >>> PLAN.kind
        'quotaform.plan'
        """
        return f"quotaform.{self.name}"

    @property
    def major(self) -> str:
        """The part of the version that a reader must know."""
        return self.version.partition(".")[0]


PLAN: Final = DocumentKind("plan", "1.1")
RECEIPT: Final = DocumentKind("receipt", "1.3")
AUDIT: Final = DocumentKind("audit")
SNAPSHOT: Final = DocumentKind("snapshot")
DRIFT: Final = DocumentKind("drift", "1.2")
NOTIFICATION: Final = DocumentKind("notification")
NOTIFY_STATE: Final = DocumentKind("notify-state")
HISTORY_TABLE: Final = DocumentKind("history-table")
USAGE_CHECKPOINT: Final = DocumentKind("usage-checkpoint")
USAGE_STREAM: Final = DocumentKind("usage-stream")
HISTORY: Final = DocumentKind("history")
HISTORY_APPEND: Final = DocumentKind("history-append")
HISTORY_DIFF: Final = DocumentKind("history-diff")
USAGE_INGEST: Final = DocumentKind("usage-ingest")
USAGE_HEADROOM: Final = DocumentKind("usage-headroom")
USAGE_BACKTEST: Final = DocumentKind("usage-backtest")
USAGE_RECOMMEND: Final = DocumentKind("usage-recommend")
USAGE_RECORD: Final = DocumentKind("usage-record")
TOP: Final = DocumentKind("top")
DESCRIBE: Final = DocumentKind("describe")
RESOLVE: Final = DocumentKind("resolve")
ALTER: Final = DocumentKind("alter")
SCRAM: Final = DocumentKind("scram")
SCRAM_RESULT: Final = DocumentKind("scram-result")
VALIDATION: Final = DocumentKind("validation")
OUTCOMES: Final = DocumentKind("outcomes")
FLEET_REPORT: Final = DocumentKind("fleet-report")
EXPLAIN: Final = DocumentKind("explain")
DOCTOR: Final = DocumentKind("doctor")

DOCUMENT_KINDS: Final[dict[str, DocumentKind]] = {
    kind.name: kind
    for kind in (
        PLAN,
        RECEIPT,
        AUDIT,
        SNAPSHOT,
        DRIFT,
        NOTIFICATION,
        DESCRIBE,
        RESOLVE,
        ALTER,
        SCRAM,
        SCRAM_RESULT,
        VALIDATION,
        OUTCOMES,
        FLEET_REPORT,
        EXPLAIN,
        DOCTOR,
        HISTORY,
        HISTORY_APPEND,
        HISTORY_DIFF,
        USAGE_INGEST,
        USAGE_HEADROOM,
        USAGE_STREAM,
        USAGE_BACKTEST,
        USAGE_RECOMMEND,
        USAGE_RECORD,
        TOP,
    )
}
"""All kinds by name."""
