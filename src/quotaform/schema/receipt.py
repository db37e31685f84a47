"""The schema of receipts."""

from __future__ import annotations

from quotaform.core.receipt import Result
from quotaform.model.document_kind import RECEIPT
from quotaform.schema.definition import (
    address,
    approvals,
    base,
    ci_run,
    declared,
    digest,
    document,
    plan_options,
    quota_key,
    source_fields,
    timestamp,
)
from quotaform.schema.node import Node, boolean, choice, count, items, maybe_text, record, ref, text

_RESULTS = {
    Result.APPLIED: "Written and read back.",
    Result.ALREADY_APPLIED: "Already as planned before the apply.",
    Result.REFUSED: "Rejected by the broker; not changed.",
    Result.UNCONFIRMED: "Accepted, but not visible before the time limit.",
    Result.OVERWRITTEN: "Accepted, but changed by somebody else since.",
    Result.UNKNOWN: "No response; the change may be in effect, now or later.",
    Result.NOT_ATTEMPTED: "Not sent.",
}


def receipt() -> tuple[Node, dict[str, Node]]:
    """Return the schema of receipts and its definitions."""
    schema = document(
        RECEIPT,
        "The result of applying a plan, as quotaform apply writes it.",
        {
            "plan_id": digest("The id of the applied plan."),
            "cluster": ref("cluster"),
            "source": record(
                "Where the files came from; base is omitted if they were compared with nothing.",
                {**source_fields(), "base": base()},
                optional=("base",),
            ),
            "options": {**plan_options(), "description": "The options of the plan; omitted before version 1.2."},
            "allowances": items("The rules allowed for the plan, as RULE or RULE=N.", {"type": "string"}),
            "approvals": approvals(),
            "applied_by": text("The user, according to the operating system."),
            "run": ci_run(),
            "started_at": timestamp("When it began"),
            "finished_at": timestamp("When it ended"),
            "interrupted_by": maybe_text("The signal that interrupted the apply, or null.", "SIGINT"),
            "state": choice(
                "started: written before the first change was sent, and never completed, so that the apply was killed "
                "or is running; results say what was intended. Omitted once the apply has ended.",
                ("started",),
            ),
            "complete": boolean("Whether all changes of the plan are in effect."),
            "summary": record(
                "The number of entities per result.", {result.value: count(_RESULTS[result]) for result in Result}
            ),
            "declared": declared(),
            "results": items("One item per entity of the plan, in its order.", ref("result")),
            "digest": digest("A digest of everything else in this file."),
        },
        optional=("approvals", "declared", "options", "run", "state"),
    )
    meanings = " ".join(f"{result.value}: {words[0].lower()}{words[1:]}" for result, words in _RESULTS.items())
    result = record(
        "The result for one entity.",
        {
            "address": address(),
            "entity": ref("entity"),
            "action": ref("action"),
            "result": choice(meanings, (result.value for result in Result)),
            "message": maybe_text("The message of the broker or the reason; null on success."),
            "keys": items(
                "The quota keys that the plan changes, with the values before and after; omitted before version 1.1.",
                ref("row"),
                minItems=1,
            ),
        },
        optional=("keys",),
    )
    row = record(
        "The planned change of one quota key; the result says whether it is in effect.",
        {
            "key": quota_key(),
            "before": ref("maybe_value", "The live value before the apply, or null."),
            "after": ref("maybe_value", "The value after the apply, or null if the key is removed."),
        },
    )
    return schema, {"result": result, "row": row}
