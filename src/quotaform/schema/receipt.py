"""The schema of receipts."""

from __future__ import annotations

from quotaform.core.receipt import Result
from quotaform.model.document_kind import RECEIPT
from quotaform.schema.definition import address, digest, document, source_fields, timestamp
from quotaform.schema.node import Node, boolean, choice, count, items, maybe_text, record, ref, text

_RESULTS = {
    Result.APPLIED: "Read back, and as planned.",
    Result.ALREADY_APPLIED: "As planned before anything was sent.",
    Result.REFUSED: "Refused by the broker; nothing changed on them.",
    Result.UNCONFIRMED: "Accepted, and not seen in time.",
    Result.UNKNOWN: "No answer; the change may be there, now or later.",
    Result.NOT_ATTEMPTED: "Never asked.",
}


def receipt() -> tuple[Node, dict[str, Node]]:
    """Return the schema of receipts and its definitions."""
    schema = document(
        RECEIPT,
        "Who applied which plan when and what became of it, as quotaform apply writes it.",
        {
            "plan_id": digest("The id of the plan that was applied."),
            "cluster": ref("cluster"),
            "source": record("Where the files came from.", source_fields()),
            "allowances": items("The guards that were lifted, as RULE or RULE=N.", {"type": "string"}),
            "applied_by": text("Who, as the operating system says."),
            "started_at": timestamp("When it began"),
            "finished_at": timestamp("When it ended"),
            "interrupted_by": maybe_text("The signal that cut it short, or null.", "SIGINT"),
            "complete": boolean("Whether the cluster holds everything that the plan says."),
            "summary": record(
                "How many entities have which result.", {result.value: count(_RESULTS[result]) for result in Result}
            ),
            "results": items("One item per entity of the plan, in its order.", ref("result")),
            "digest": digest("A digest of everything else in this file."),
        },
    )
    meanings = " ".join(f"{result.value}: {words[0].lower()}{words[1:]}" for result, words in _RESULTS.items())
    result = record(
        "What became of the changes of one entity.",
        {
            "address": address(),
            "entity": ref("entity"),
            "action": ref("action"),
            "result": choice(meanings, (result.value for result in Result)),
            "message": maybe_text("The broker's words or the reason why there are none; null when all went well."),
        },
    )
    return schema, {"result": result}
