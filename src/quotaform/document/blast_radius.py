"""The blast radius of a plan: the section of the plan file, and the rows of the file with all changes as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from json import dumps
from typing import Any

from quotaform.core.blast_radius import BlastRadius, DirectionCount, RadiusCounts
from quotaform.core.canonical import json_number
from quotaform.core.limit_change import LimitChange, LimitDirection, change_row
from quotaform.core.plan import Plan
from quotaform.core.resolve.entry import Effective
from quotaform.document.field import dump_entity, load_number
from quotaform.document.shape import readable
from quotaform.model.entity import Entity
from quotaform.model.precedence import level_of


def dump_blast_radius(radius: BlastRadius) -> dict[str, Any]:
    """Return the section `blast_radius` of a plan file."""
    return {
        **dump_radius_counts(radius),
        "largest": [_dump_change(change) for change in radius.largest],
        "file": radius.file,
    }


def dump_radius_counts(radius: RadiusCounts) -> dict[str, Any]:
    """Return the counts of a blast radius, as a plan file and a report of many clusters have them."""
    return {
        "source": radius.source,
        "principals": radius.principals,
        "affected": radius.affected,
        "counts": {direction.value: radius.counts[direction]._asdict() for direction in LimitDirection},
    }


def _dump_change(change: LimitChange) -> dict[str, Any]:
    return {
        **dump_entity(change.principal),
        "key": change.key,
        "direction": change.direction,
        "factor": json_number(change.factor),
        "before": _dump_limit(change.before),
        "after": _dump_limit(change.after),
    }


def _dump_limit(limit: Effective) -> dict[str, Any]:
    value, source, level = limit
    return {
        "value": json_number(value),
        "source": source.address if source else None,
        "entity": source.names if source else None,
        "bucket": list(level.bucket) if level else None,
    }


def load_blast_radius(item: Mapping[str, Any]) -> BlastRadius:
    """Return a blast radius as `dump_blast_radius` had it.

    Raises `ShapeError` if it holds something that this version does not write.
    """
    with readable("blast_radius"):
        return BlastRadius(
            source=item["source"],
            principals=int(item["principals"]),
            affected=int(item["affected"]),
            counts={
                each: DirectionCount(**{name: int(item["counts"][each][name]) for name in DirectionCount._fields})
                for each in LimitDirection
            },
            largest=tuple(
                LimitChange(
                    Entity(each["entity"]), each["key"], _load_limit(each["before"]), _load_limit(each["after"])
                )
                for each in item["largest"]
            ),
            file=item["file"],
        )


def _load_limit(item: Mapping[str, Any]) -> Effective:
    source = None if item["entity"] is None else Entity(item["entity"])
    return Effective(load_number(item["value"]), source, None if source is None else level_of(source))


def limit_change_lines(plan: Plan) -> Iterator[str]:
    """Yield all changes of limits by a plan as JSON lines, with the fields of `core.limit_change.change_row`."""
    for change in plan.blast_radius.changes if plan.blast_radius else ():
        row = change_row(change)
        yield f"{dumps({name: json_number(cell) if type(cell) is float else cell for name, cell in row.items()})}\n"
