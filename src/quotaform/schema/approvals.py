"""The schema of approvals.yaml."""

from __future__ import annotations

from quotaform.core.check.rule import APPROVABLE
from quotaform.model.approval import CHANGE, DELETE, MOST_APPROVALS, MOST_DAYS
from quotaform.schema.definition import DAY
from quotaform.schema.node import Node, choice, closed, ref, text
from quotaform.schema.quotas import values


def approvals() -> tuple[Node, dict[str, Node]]:
    """Return the schema and its definitions."""
    schema: Node = {
        "description": "approvals.yaml, next to quotaform.yaml: approvals that lift a blocking rule for entities.",
        "type": "array",
        "items": ref("approval"),
        "maxItems": MOST_APPROVALS,
    }
    return schema, {"approval": _approval(), "values": values()}


def _approval() -> Node:
    fields = {
        "rule": choice("The rule that blocks.", APPROVABLE),
        "address": text(
            "The address of the entity, as printed in plans, or one with globs (*, ?, [...]) as names, for entities of "
            "the same types; only <default> matches a default.",
            "user=<default>",
            "user=svc-*,client-id=etl",
            minLength=1,
        ),
        "reason": text("The reason.", "moves to the new cluster", minLength=1),
        "approver": text("The person who approves it.", "alice@example.com", minLength=1),
        "expires": text(
            f"The day (UTC) on which the approval expires, at most {MOST_DAYS} days ahead.",
            "2026-12-31",
            pattern=DAY,
        ),
    }
    optional = {
        "action": choice(f"The approved action; {CHANGE} if omitted.", (CHANGE, DELETE)),
        "to": ref(
            "values",
            "Limits the approval to these keys, each with its only approved value, written as in quotas; any if "
            "omitted.",
        ),
        "cluster": text("The cluster in quotaform.yaml, or a glob over names; any if omitted.", "prod-*", minLength=1),
    }
    return closed(
        "An approval for one rule, and one entity or the entities that a pattern matches.",
        {**fields, **optional},
        required=list(fields),
    )
