"""The schema of what a run of a stream has done."""

from __future__ import annotations

from quotaform.core.usage.sample.sample import DropReason
from quotaform.model.document_kind import USAGE_STREAM
from quotaform.schema.definition import document
from quotaform.schema.node import Node, count, maybe, maybe_text, record, text


def usage_stream() -> tuple[Node, dict[str, Node]]:
    """Return the schema of a run of a stream and its definitions."""
    summary = {
        "read": count("Samples, and records that could not be read: the sum of the others."),
        "written": count("Samples in the table."),
        "dropped": count("Samples that were left out."),
        "quarantined": count("Records that could not be read."),
    }
    reasons = {each.name.lower(): count(f"Samples that are left out: {each.value}.") for each in DropReason}
    fields = {
        "topic": text("The topic."),
        "usage": text("The usage table, as given."),
        "batches": count("How many batches the run had."),
        "records": count("How many records of the topic it read."),
        "duplicate_records": count("How many of them were read before."),
        "late_records": count("How many of them were late; they are in the quarantine."),
        "behind": maybe(
            count("How many records it had not read."), "Records not read yet; null if there was no batch."
        ),
        "summary": record("The numbers of samples.", summary),
        "dropped": record("How many samples were left out, per reason.", reasons, optional=reasons),
        "quarantine": maybe_text("Where the records are that could not be read or were late; null if there are none."),
    }
    return document(USAGE_STREAM, "The result of quotaform usage ingest --topic.", fields), {}
