"""The schema of plan files."""

from __future__ import annotations

from quotaform.core.blast_radius import MOST_LARGEST
from quotaform.core.effects import Direction
from quotaform.core.limit_change import LimitDirection
from quotaform.core.origin import Origin
from quotaform.model.document_kind import PLAN
from quotaform.model.entity import ENTITY_TYPES
from quotaform.model.entry import Cause
from quotaform.schema.definition import (
    IN_SYNC,
    address,
    approvals,
    base,
    declared,
    digest,
    document,
    plan_options,
    quota_key,
    radius_counts,
    source_fields,
    timestamp,
)
from quotaform.schema.node import Node, boolean, choice, count, items, mapping, maybe, maybe_text, record, ref, text
from quotaform.schema.usage_backtest import backtest_definitions


def plan() -> tuple[Node, dict[str, Node]]:
    """Return the schema of plan files and its definitions."""
    schema = document(
        PLAN,
        "A plan file, as quotaform plan writes it and quotaform apply reads it. Two digests protect it: an edited "
        "plan is rejected.",
        {
            "plan_id": digest("A digest of the changes, the cluster and the allowances."),
            "created_at": timestamp("When the cluster or its snapshot was read"),
            "cluster": ref("cluster"),
            "snapshot": ref(
                "snapshot_file", "The snapshot that was read instead of a running cluster; omitted if there is none."
            ),
            "source": record("The origin of the files.", {**source_fields(), "base": base()}),
            "options": plan_options(),
            "allowances": items(
                "The rules allowed for this plan, as RULE or RULE=N; omitted if there are none.",
                {"type": "string"},
            ),
            "approvals": approvals(),
            "complete": boolean("Whether the plan covers all entities; false with a selection."),
            "applyable": boolean("Whether it has no blocking findings."),
            "summary": record(
                "The number of entities per kind of change.",
                {
                    "create": count("Entities that will be created."),
                    "update": count("Entities that will be changed."),
                    "delete": count("Entities that will be deleted."),
                    "no_op": count(IN_SYNC),
                    "loosen": count("Changed entities whose effective limits increase."),
                    "tighten": count("Changed entities whose effective limits decrease."),
                    "mixed": count("Changed entities with increased and decreased limits."),
                    "to_unlimited": count("Changed entities with a limit that becomes unlimited."),
                    "blocked": count("Findings that block the plan."),
                    "in_scope": count("Live entities in scope."),
                    "drift": count("Changed entities of origin drift; omitted without a base."),
                    "both": count("Changed entities of origin both; omitted without a base."),
                },
                optional=("drift", "both"),
            ),
            "blast_radius": _blast_radius(),
            "backtest": ref(
                "backtest",
                "What it would have throttled of recorded usage (--backtest); omitted if that was not asked for. It is "
                "information that is not applied: the plan id does not cover it.",
            ),
            "changes": items(
                "One item per entity that differs: deletes, updates, creates, each by address.", ref("change")
            ),
            "declared": declared(),
            "unmanaged": items("The live entities that no file declares, by address.", ref("unmanaged")),
            "findings": items("Findings about the live cluster and the plan, blocking ones first.", ref("finding")),
            "digest": digest("A digest of everything else in this file."),
        },
        optional=("allowances", "approvals", "snapshot", "declared", "blast_radius", "backtest"),
    )
    definitions = {
        **backtest_definitions(),
        "change": _change(),
        "key": _key(),
        "effective": _effective(),
        "unmanaged": record(
            "A live entity that no file declares.",
            {
                "address": address(),
                "entity": ref("entity"),
                "values": ref("values"),
                "in_scope": boolean("Whether it is in scope."),
            },
        ),
    }
    return schema, definitions


def _blast_radius() -> Node:
    return record(
        "The principals whose effective limits change (--principals); omitted if that was not asked for. It is "
        "information that is not applied: the plan id does not cover it.",
        {
            **radius_counts(),
            "largest": items(
                f"The {MOST_LARGEST} largest changes: by direction in the order of counts; lower limits by the "
                "smallest factor, higher ones by the largest; then by user, client-id, ip and key.",
                _limit_change(),
                maxItems=MOST_LARGEST,
            ),
            "file": maybe_text("The file with all changes, as given with --principals-out, or null."),
        },
    )


def _limit_change() -> Node:
    limit = record(
        "An effective limit.",
        {
            "value": ref("maybe_value", "The limit, or null if there is none."),
            "source": maybe_text("The address of the entity that it comes from, or null."),
            "entity": maybe(ref("entity"), "The entity that it comes from, by type and name, or null."),
            "bucket": maybe(
                items("The entity types.", choice("An entity type.", ENTITY_TYPES)),
                "The entity types whose names tell one rate from another; null if there is no limit.",
            ),
        },
    )
    return record(
        "An effective limit of a principal that changes.",
        {
            "address": address("user=alice,client-id=etl"),
            "entity": ref("entity", "The principal: a user, a client-id or both, or an ip."),
            "key": quota_key(),
            "direction": choice(
                "What becomes of the limit; other_bucket: the same limit, but shared with others than before.",
                (direction.value for direction in LimitDirection),
            ),
            "factor": ref("maybe_value", "The limit after, divided by that before; null unless both are above 0."),
            "before": limit,
            "after": limit,
        },
    )


def _change() -> Node:
    return record(
        "The changes of one entity, which the broker applies atomically.",
        {
            "address": address("user=svc-orders", "user=<default>,client-id=etl"),
            "entity": ref("entity"),
            "action": ref("action"),
            "reason": maybe_text(
                "The reason, from the files; for a deletion `state: absent`, `expired DATE`, or why it is pruned."
            ),
            "origin": choice(
                "The origin of the change: the files, the cluster or both differ from the base; null without a base.",
                (*(origin.value for origin in Origin), None),
            ),
            "cause": choice(
                "The cause: an entry, `state: absent`, an expired entry or no current declaration in the files; or the "
                "receipt of which the plan is a revert.",
                (cause.value for cause in Cause),
            ),
            "direction": choice(
                "How the effective limits change, taken together; unlimited is the largest.",
                (direction.value for direction in Direction),
            ),
            "before": ref("maybe_values", "All live values, or null if the entity does not exist."),
            "after": ref("maybe_values", "All values after the change, or null if the entity will be deleted."),
            "base": mapping(
                "All values that the base declares, none if the entity must not exist; omitted if the base does not "
                "declare it, and without a base.",
                ref("value"),
                {"producer_byte_rate": 10485760},
            ),
            "keys": items("One item per quota key that changes.", ref("key"), minItems=1),
            "location": ref("maybe_location", "The location of its entry."),
            "owner": maybe_text("The owner, from the files."),
            "expires": text("The day (UTC) on which the entry expires; omitted if it does not.", "2026-12-31"),
        },
        optional=("base", "expires"),
    )


def _key() -> Node:
    return record(
        "One quota key that changes.",
        {
            "key": quota_key(),
            "action": ref("action"),
            "before": ref("maybe_value", "The live value, or null."),
            "after": ref("maybe_value", "The value after the change, or null."),
            "effective": record(
                "The effective limits of the clients that the entity matches.",
                {
                    "before": ref("effective", "The limit before the change."),
                    "after": ref("effective", "The limit after the change."),
                    "differs": mapping(
                        "Entity type to the number of names under this entity that will resolve to another value; "
                        "omitted if there are none.",
                        {**count("The number of names."), "minimum": 1},
                        {"client-id": 3},
                        minProperties=1,
                        propertyNames={"enum": list(ENTITY_TYPES)},
                    ),
                },
                optional=("differs",),
            ),
            "display": record(
                "The values as printed.",
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
            "value": ref("maybe_value", "The limit, or null if there is none."),
            "source": maybe_text("The address of the entity that it comes from, or null."),
            "entity": maybe(ref("entity"), "The entity that it comes from, by type and name, or null."),
        },
    )
