"""The schema of a line of the audit log."""

from __future__ import annotations

from quotaform.core.receipt import Result
from quotaform.model.document_kind import AUDIT
from quotaform.schema.definition import address, ci_run, digest, document, quota_key, timestamp
from quotaform.schema.node import Node, choice, count, items, maybe, maybe_text, record, ref, text

_CHANGE = ("address", "entity", "key", "action", "before", "after", "result", "message")
_START = ("changes", "allowances")
_END = ("outcome", "reason", "summary")


def audit() -> tuple[Node, dict[str, Node]]:
    """Return the schema of a line of the audit log and its definitions."""
    schema = document(
        AUDIT,
        "One line of the file that quotaform apply --audit appends to: an apply begins, changes a quota key, or ends. "
        "A start without an end means that the apply was killed.",
        {
            "event": choice("The kind of line.", ("start", "change", "end")),
            "time": timestamp("When it was written"),
            "cluster": ref("cluster"),
            "plan_id": digest("The id of the plan."),
            "commit": maybe_text("The git commit of the files, or null outside of git."),
            "applied_by": text("The user, according to the operating system."),
            "run": maybe(ci_run(), "The CI job, or null outside CI."),
            "changes": count("For start: the number of quota keys that the plan changes."),
            "allowances": items("For start: the rules allowed for the plan.", {"type": "string"}),
            "address": address(),
            "entity": ref("entity"),
            "key": quota_key(),
            "action": ref("action"),
            "before": ref("maybe_value", "For change: the live value before the apply, or null."),
            "after": ref("maybe_value", "For change: the value after the apply, or null if the key is removed."),
            "result": choice("For change: the result for the entity, as in receipts.", (each.value for each in Result)),
            "message": maybe_text("For change: the message of the broker or the reason; null on success."),
            "outcome": choice(
                "For end: complete: all changes are in effect; incomplete: not all are; refused: nothing was written.",
                ("complete", "incomplete", "refused"),
            ),
            "reason": maybe_text("For end: why it was refused or interrupted, or null."),
            "summary": maybe(
                record("The number of entities per result.", {each.value: count("Entities.") for each in Result}),
                "For end: the number of entities per result; null if nothing was written.",
            ),
        },
        optional=(*_START, *_CHANGE, *_END),
    )
    fields = {"start": _START, "change": _CHANGE, "end": _END}
    rules: list[Node] = [
        {"if": {"properties": {"event": {"const": event}}}, "then": {"required": list(names)}}
        for event, names in fields.items()
    ]
    return {**schema, "allOf": rules}, {}
