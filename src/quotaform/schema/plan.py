"""The schema of plan files."""

from __future__ import annotations

from quotaform.core.effects import Direction
from quotaform.core.plan import Origin
from quotaform.model.document_kind import PLAN
from quotaform.model.entry import Cause
from quotaform.schema.definition import IN_SYNC, address, digest, document, globs, quota_key, source_fields, timestamp
from quotaform.schema.node import Node, boolean, choice, count, items, mapping, maybe, maybe_text, record, ref, text


def plan() -> tuple[Node, dict[str, Node]]:
    """Return the schema of plan files and its definitions."""
    schema = document(
        PLAN,
        "A plan file, as quotaform plan writes it and quotaform apply reads it. Two digests guard it: a plan that was "
        "edited is refused.",
        {
            "plan_id": digest("A digest of what the plan would do, to which cluster, and what is allowed."),
            "created_at": timestamp("When the cluster was read"),
            "cluster": ref("cluster"),
            "source": record("Where the files came from.", {**source_fields(), "base": _base()}),
            "options": record(
                "What was asked for.",
                {
                    "prune": text("What happens to entities in scope that no file declares.", "report"),
                    "select": globs("The globs over addresses of what was selected; everything when empty."),
                    "exclude": globs("The globs over addresses of what was left out."),
                },
            ),
            "allowances": items(
                "The rules that are allowed for this plan, as RULE or RULE=N; left out when there are none.",
                {"type": "string"},
            ),
            "complete": boolean("Whether the plan covers everything; false when parts were left out."),
            "applyable": boolean("Whether nothing blocks it."),
            "summary": record(
                "How many entities each thing happens to.",
                {
                    "create": count("Entities that will be created."),
                    "update": count("Entities that will be changed."),
                    "delete": count("Entities that will be gone."),
                    "no_op": count(IN_SYNC),
                    "loosen": count("Changed entities whose effective limits rise."),
                    "tighten": count("Changed entities whose effective limits fall."),
                    "mixed": count("Changed entities with limits that rise and others that fall."),
                    "to_unlimited": count("Changed entities with a limit that becomes unlimited."),
                    "blocked": count("Findings that block the plan."),
                    "in_scope": count("How many of the cluster's entities are in scope."),
                },
            ),
            "changes": items(
                "One item per entity that differs: deletes, updates, creates, each by address.", ref("change")
            ),
            "unmanaged": items("The live entities that no file declares, by address.", ref("unmanaged")),
            "findings": items(
                "What was found about the live cluster or the plan, what blocks it first.", ref("finding")
            ),
            "digest": digest("A digest of everything else in this file."),
        },
        optional=("allowances",),
    )
    definitions = {
        "change": _change(),
        "key": _key(),
        "effective": _effective(),
        "unmanaged": record(
            "A live entity that no file declares.",
            {
                "address": address(),
                "entity": ref("entity"),
                "values": ref("values"),
                "in_scope": boolean("Whether the files speak for it."),
            },
        ),
    }
    return schema, definitions


def _base() -> Node:
    return {
        **record(
            "What the files were compared with, or null when they were compared with nothing.",
            {
                "ref": text("The git ref, as it was given.", "origin/main"),
                "commit": text("The commit that it stood for."),
            },
        ),
        "type": ["object", "null"],
    }


def _change() -> Node:
    return record(
        "The changes of one entity, which the broker makes all or not at all.",
        {
            "address": address("user=svc-orders", "user=<default>,client-id=etl"),
            "entity": ref("entity"),
            "action": ref("action"),
            "reason": maybe_text("Why, in the words of the files; for a deletion `state: absent` or `expired DATE`."),
            "origin": choice(
                "What the change is due to: the files, the cluster or both moved away from the base; null without a "
                "base.",
                (*(origin.value for origin in Origin), None),
            ),
            "cause": choice(
                "What in the files it follows from: an entry, `state: absent`, an entry that has expired, or nothing "
                "that is declared now.",
                (cause.value for cause in Cause),
            ),
            "direction": choice(
                "What happens to the effective limits, taken together; unlimited is the largest.",
                (direction.value for direction in Direction),
            ),
            "before": ref("maybe_values", "All values that the cluster holds, or null when the entity is not there."),
            "after": ref("maybe_values", "All values that it will hold, or null when the entity will be gone."),
            "keys": items("One item per quota key that changes.", ref("key"), minItems=1),
            "location": ref("maybe_location", "Where the entry is."),
            "owner": maybe_text("Whose entry it is, in the words of the files."),
        },
    )


def _key() -> Node:
    return record(
        "One quota key that changes.",
        {
            "key": quota_key(),
            "action": ref("action"),
            "before": ref("maybe_value", "The value that the cluster holds, or null."),
            "after": ref("maybe_value", "The value that it will hold, or null."),
            "effective": record(
                "What limits those the entity is for, whichever entity that comes from.",
                {
                    "before": ref("effective", "What limits them now."),
                    "after": ref("effective", "What will."),
                    "differs": mapping(
                        "Entity type to the number of names under this entity that will resolve to another value; "
                        "left out when there are none.",
                        {"type": "integer", "minimum": 1},
                        {"client-id": 3},
                        minProperties=1,
                    ),
                },
                optional=("differs",),
            ),
            "display": record(
                "The values as people read them.",
                {
                    "before": maybe_text("The value before, or null.", "10 MiB/s"),
                    "after": maybe_text("The value after, or null.", "unlimited"),
                },
            ),
        },
    )


def _effective() -> Node:
    return record(
        "An effective limit.",
        {
            "value": ref("maybe_value", "The limit, or null when nothing limits."),
            "source": maybe_text("The address of the entity whose value it is, or null when nothing limits."),
            "entity": maybe(ref("entity"), "The same entity by type and name, or null when nothing limits."),
        },
    )
