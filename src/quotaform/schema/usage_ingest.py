"""The schemas of what became of an ingest, and of a run of a stream."""

from __future__ import annotations

from typing import Final

from quotaform.core.usage.sample.sample import DropReason
from quotaform.model.document_kind import USAGE_INGEST, USAGE_STREAM
from quotaform.schema.definition import document
from quotaform.schema.node import Node, count, items, maybe, maybe_text, record, text

_MOMENT: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{6})?Z$"


def usage_ingest() -> tuple[Node, dict[str, Node]]:
    """Return the schema of an ingest and its definitions."""
    summary = {
        "read": count("Samples, and records that could not be read: the sum of the others."),
        "written": count("Samples in the table."),
        "dropped": count("Samples that were left out."),
        "quarantined": count("Records that could not be read."),
    }
    reasons = {each.name.lower(): count(f"Samples that are left out: {each.value}.") for each in DropReason}
    cluster = {
        "cluster": text("The name of the cluster."),
        "declared": maybe({"type": "boolean"}, "Whether quotaform.yaml declares it; null if there is none."),
    }
    rejected = {
        "file": text("The file."),
        "position": count("Where in the file; the reason says what is counted."),
        "reason": text("What is wrong."),
    }
    fields = {
        "usage": text("The usage table, as given."),
        "files": count("How many files were read."),
        "empty_files": count("How many of them were empty."),
        "summary": record("The numbers of samples.", summary),
        "rows": count("How many rows were added: a rate and a throttle time of one time are one."),
        "since": maybe_text("The earliest time of the rows; null if there are none.", pattern=_MOMENT),
        "until": maybe_text("The latest time of the rows; null if there are none.", pattern=_MOMENT),
        "dropped": record("How many samples were left out, per reason.", reasons, optional=reasons),
        "clusters": items("The clusters of the rows.", record("A cluster.", cluster)),
        "quarantine": maybe_text("Where the records are that could not be read; null if there are none."),
        "rejected": items("The first of these records.", record("A record.", rejected)),
    }
    return document(USAGE_INGEST, "The result of quotaform usage ingest.", fields), {}


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
