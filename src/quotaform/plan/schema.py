"""The schemas of plan files and of receipts."""

from __future__ import annotations

from quotaform.model.entity import ENTITY_TYPES
from quotaform.model.finding import DELETE
from quotaform.model.quotas import Cause
from quotaform.model.records.document import PLAN, RECEIPT
from quotaform.model.records.schema import (
    DAY,
    IN_SYNC,
    Node,
    address,
    boolean,
    choice,
    count,
    digest,
    document,
    globs,
    items,
    mapping,
    maybe,
    maybe_text,
    quota_key,
    record,
    ref,
    text,
    timestamp,
)
from quotaform.model.settings import PruneMode
from quotaform.plan.backtest import backtest_definitions
from quotaform.plan.blast_radius import MOST_LARGEST, LimitDirection
from quotaform.plan.change import Origin
from quotaform.plan.receipt import Result
from quotaform.resolve.effect import Direction


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
            "source": record("The origin of the files.", {**_source_fields(), "base": _base()}),
            "options": _plan_options(),
            "allowances": items(
                "The rules allowed for this plan, as RULE or RULE=N; omitted if there are none.",
                {"type": "string"},
            ),
            "approvals": _approvals(),
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
            "declared": _declared(),
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
                {**_source_fields(), "base": _base()},
                optional=("base",),
            ),
            "options": {**_plan_options(), "description": "The options of the plan; omitted before version 1.2."},
            "allowances": items("The rules allowed for the plan, as RULE or RULE=N.", {"type": "string"}),
            "approvals": _approvals(),
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
            "declared": _declared(),
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


def _source_fields() -> dict[str, Node]:
    """Return the schemas of where files came from."""
    return {
        "directory": text("The directory, as given.", "quotas.d"),
        "commit": maybe_text("The git commit, or null outside of git."),
        "dirty": {
            "description": "Whether the files differed from that commit; null outside of git.",
            "type": ["boolean", "null"],
        },
    }


def _base() -> Node:
    """Return the schema of what files were compared with."""
    return {
        **record(
            "The revision that the files were compared with, or null.",
            {
                "ref": text("The git revision or the receipt, as given.", "origin/main"),
                "commit": maybe_text("The commit of the revision; null for a receipt without one."),
                "receipt": boolean("Whether it is a receipt; omitted for a git revision."),
            },
            optional=("receipt",),
        ),
        "type": ["object", "null"],
    }


def _declared() -> Node:
    """Return the schema of the addresses that files declare."""
    return items(
        "The addresses of all entities that the files declare for the cluster, selected or not, sorted; tombstones and "
        "expired entries are not among them. Omitted before version 1.1.",
        ref("address"),
    )


def _plan_options() -> Node:
    """Return the schema of what was asked for when a plan was made."""
    return record(
        "The options of the command.",
        {
            "prune": text("What happens to entities in scope that no file declares.", *PruneMode),
            "prune_given": boolean("Whether --prune was given; omitted if the mode is that of quotaform.yaml."),
            "select": globs("Globs of addresses to include; all entities if empty."),
            "exclude": globs("Globs of addresses to exclude."),
            "bootstrap_server": text(
                "The value of --bootstrap-server when it stands for the cluster, whose files are used; "
                "omitted otherwise."
            ),
            "revert": digest("The id of the plan that this plan reverts; omitted if it reverts none."),
            "guards": record(
                "The limits of quotaform.yaml that differ from the defaults; omitted if there are none.",
                {"delete": _count_limit(), "update": _count_limit(), "change_factor": count("The factor.")},
                optional=("delete", "update", "change_factor"),
            ),
            "protect": items(
                "The protected entities, by entity type: a glob, or null for the default; omitted if there are none.",
                mapping("A pattern.", {"type": ["string", "null"]}, {"user": "kafka-*"}),
            ),
        },
        optional=("prune_given", "bootstrap_server", "revert", "guards", "protect"),
    )


def _count_limit() -> Node:
    return record(
        "A number of entities.",
        {"count": count("At most so many."), "percent": count("At most this share, in percent.")},
    )


def ci_run() -> Node:
    """Return the schema of the job of a CI system."""
    return record(
        "The CI job that applied it, according to its environment; omitted outside CI.",
        {
            "system": text("The CI system.", "github", "gitlab"),
            "url": maybe_text("The URL of the job, or null."),
            "actor": maybe_text("The CI user who started it, or null."),
        },
    )


def _approvals() -> Node:
    """Return the schema of the approvals that lift blocks of a plan."""
    return items(
        "The approvals of approvals.yaml that the plan depends on; omitted if there are none.",
        record(
            "An approval for one rule and one entity, or the entities that a pattern matches.",
            {
                "rule": text("The rule that would block."),
                "address": ref("address"),
                "cluster": text("The cluster that it is for, or a glob; omitted if it is for any."),
                "reason": text("The reason."),
                "approver": text("The person who approved it."),
                "expires": text("The day (UTC) on which it expires.", "2026-12-31", pattern=DAY),
                "action": choice("The approved action if the entity is deleted; omitted otherwise.", [DELETE]),
                "to": ref("values", "The approved keys and values; omitted if the approval is for any."),
                "new": boolean(
                    "Whether it is new or changed compared with the base; omitted if not, or without a base."
                ),
            },
            optional=("cluster", "action", "to", "new"),
        ),
    )


def radius_counts() -> dict[str, Node]:
    """Return the schemas of how many limits plans change for those who really connect."""
    limits = record(
        "How often limits change in this direction.",
        {
            "principals": count("Principals with such a limit; one can count in several directions."),
            "limits": count("Effective limits: one per principal and quota key."),
        },
    )
    return {
        "source": text("The list of principals: scram, or a file or table as given.", "principals.csv", "scram"),
        "principals": count("Principals in the list, each counted once."),
        "affected": count("Principals that get another effective limit."),
        "counts": record("One field per direction.", {direction.value: limits for direction in LimitDirection}),
    }
