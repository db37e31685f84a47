"""The schemas of what is measured at this moment: recordings, and who is throttled."""

from __future__ import annotations

from typing import Final

from quotaform.core.usage.sample import DropReason
from quotaform.model.document_kind import USAGE_RECORD
from quotaform.schema.definition import document
from quotaform.schema.node import Node, count, items, mapping, maybe_text, record, ref, text

_MOMENT: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{6})?Z$"


def usage_record() -> tuple[Node, dict[str, Node]]:
    """Return the schema of a recording and its definitions."""
    reasons = ", ".join(f"{reason.name.lower()}: {reason.value}" for reason in DropReason)
    gap = record(
        "A time without measurements.",
        {
            "first": moment("The first time at which there should be one."),
            "last": moment("The last such time."),
            "missed": count("How many are missing."),
            "reason": text("Why."),
        },
    )
    source = record(
        "What was recorded of a broker.",
        {
            "broker": text("Its name in the table."),
            "source": text("Where it was measured."),
            "asked": count("How often it was asked."),
            "read": count("How often it answered."),
            "rows": count("The rows of it in the table."),
            "dropped": mapping(
                f"Numbers of samples that are not in the table, by reason. {reasons}.", count("Samples.")
            ),
            "rejected": count("Records that could not be read."),
            "problems": items("The first reasons of these.", {"type": "string"}),
            "bytes": count("The bytes of all its answers."),
            "seconds": number("The time that all its answers took."),
            "longest_s": number("The longest of these times."),
            "gaps": items("The times without measurements.", ref("gap")),
            "remark": maybe_text("Why its last answer had no row, or null."),
        },
    )
    fields = {
        "cluster": text("The name of the cluster."),
        "usage": text("The table, as given."),
        "started_at": moment("When it began."),
        "ended_at": moment("When it ended."),
        "interval_s": number("Seconds between two measurements of a broker."),
        "rows": count("The rows that were added to the table."),
        "files": count("The files that were added to the table."),
        "sources": items("What was recorded of each broker.", ref("source")),
    }
    schema = document(USAGE_RECORD, "The result of quotaform usage record.", fields)
    return schema, {"source": source, "gap": gap}


def moment(description: str) -> Node:
    """Return the schema of a time."""
    return text(f"{description.removesuffix('.')}, as ISO 8601 in UTC.", pattern=_MOMENT)


def number(description: str) -> Node:
    """Return the schema of a measured number, which is never below 0."""
    return {"description": description, "type": "number", "minimum": 0}
