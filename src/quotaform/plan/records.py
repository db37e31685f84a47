"""The JSON of a change, one line of the plan file.

A plan may have 100,000 changes, so time and memory matter: lines are concatenated from strings, which takes a fifth of
the time of `json.dumps` with the same result, and equal strings and limits are shared when a file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from functools import lru_cache
from json import dumps
from json.encoder import encode_basestring_ascii as quoted
from typing import TYPE_CHECKING, Any, Final, TypeVar

from quotaform.model.entity import Entity, parse_address
from quotaform.model.errors import PlanFileChangedError, PlanFileError
from quotaform.model.finding import Allowance, Approval, Location
from quotaform.model.precedence import level_of
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.quotas import NO_VALUES, Cause, Change, Values, action_of
from quotaform.model.records.document import PLAN, Spelled, envelope, json_number, sealed_lines
from quotaform.model.records.field import (
    dump_approval,
    dump_base,
    dump_cluster,
    dump_entity,
    dump_finding,
    dump_snapshot_file,
    dump_values,
    load_approval,
    load_base,
    load_finding,
    load_number,
    load_snapshot_file,
    load_values,
)
from quotaform.model.records.validator import ShapeError, loaded_items, readable, require_shape
from quotaform.model.scope import count_problem
from quotaform.model.settings import GuardLimits, PruneMode
from quotaform.model.units import render_value
from quotaform.plan.backtest import dump_cluster_backtest, load_cluster_backtest
from quotaform.plan.blast_radius import (
    BlastRadius,
    DirectionCount,
    LimitChange,
    LimitDirection,
    RadiusCounts,
    change_row,
)
from quotaform.plan.change import EntityChange, Origin
from quotaform.plan.check.saved import saved_plan_problem
from quotaform.plan.plan import Plan, PlanHeader, PlanOptions, PlanSource, Unmanaged
from quotaform.plan.sealed_content import SealedContent, SealedFormat, Strict
from quotaform.resolve.effect import Effect
from quotaform.resolve.request import NO_LIMIT, NO_NAMES, Effective

if TYPE_CHECKING:
    pass


def dump_options(options: PlanOptions) -> dict[str, Any]:
    """Return the options of a plan as JSON holds them; limits that are the defaults are left out."""
    return {
        "prune": options.prune.value,
        **({"prune_given": True} if options.is_prune_given else {}),
        **_globs(options),
        **options.limits.dump(),
        **_server(options),
        **({} if options.revert is None else {"revert": options.revert}),
    }


def dump_drift_options(options: PlanOptions) -> dict[str, Any]:
    """Return those options that say what was compared."""
    return {**_globs(options), **_server(options)}


def load_options(item: Mapping[str, Any]) -> PlanOptions:
    """Return the options of a plan as `dump_options` had them.

    Raises `ShapeError` if there is no such way to prune, or it protects more than a quotaform.yaml can say.
    """
    if problem := count_problem(item.get("protect", ())):
        raise ShapeError("options.protect", f"is too long: {problem}")
    with readable("options.prune"):
        prune = PruneMode(item["prune"])
    return PlanOptions(
        prune=prune,
        select=tuple(item["select"]),
        exclude=tuple(item["exclude"]),
        limits=GuardLimits.load(item),
        bootstrap_server=item.get("bootstrap_server"),
        revert=item.get("revert"),
        is_prune_given=item.get("prune_given", False),
    )


def _globs(options: PlanOptions) -> dict[str, Any]:
    return {"select": list(options.select), "exclude": list(options.exclude)}


def _server(options: PlanOptions) -> dict[str, Any]:
    return {} if options.bootstrap_server is None else {"bootstrap_server": options.bootstrap_server}


_REMEMBERED: Final = 4096
"""How many different texts a writer keeps for the next lines: values come again and again."""
_NULL: Final = "null"
_NO_LIMIT: Final = '{"value": null, "source": null, "entity": null}'


def change_lines(changes: Iterable[EntityChange]) -> Iterator[Spelled]:
    """Yield changes as JSON, each on one line, character by character as `json.dumps` writes it."""
    return map(_Writer().change, changes)


class _Writer:
    """Spells changes, and remembers what several of them have in common."""

    def __init__(self) -> None:
        self._number: Callable[[float | None], str] = lru_cache(_REMEMBERED)(_number)
        self._in_order: Callable[[tuple[str, ...]], list[str]] = lru_cache(_REMEMBERED)(_in_order)
        self._row_ends: Callable[[str, float | None, float | None], tuple[str, str]] = lru_cache(_REMEMBERED)(_row_ends)
        self._names: Callable[[Entity], tuple[str, str]] = lru_cache(_REMEMBERED)(_names)

    def change(self, change: EntityChange) -> Spelled:
        """Return a change as JSON."""
        entity = change.entity
        own = _names(entity)
        rows = ", ".join(
            [self._row(row, effect, entity, own) for row, effect in zip(change.changes, change.effects, strict=True)]
        )
        return Spelled(
            f'{{"address": {own[0]}, "entity": {own[1]}, "action": "{change.action}", '
            f'"reason": {_text(change.reason)}, "cause": "{change.cause}", "origin": {_text(change.origin)}, '
            f'"direction": "{change.direction}", "before": {self._values(change.before)}, '
            f'"after": {self._values(change.after)}{self._base(change.base)}, "keys": [{rows}], '
            f'"location": {_location(change.location)}, '
            f'"owner": {_text(change.owner)}{_expiry(change.expires)}}}'
        )

    def _base(self, values: Values | None) -> str:
        if values is None:
            return ""
        return f', "base": {self._values(values) if values else "{}"}'

    def _values(self, values: Values) -> str:
        if not values:
            return _NULL
        keys = self._in_order(tuple(values))
        return f"{{{', '.join([f'{quoted(key)}: {self._number(values[key])}' for key in keys])}}}"

    def _row(self, row: Change, effect: Effect, entity: Entity, own: tuple[str, str]) -> str:
        start, end = self._row_ends(row.key, row.before, row.after)
        before, after = self._effective(effect.before, entity, own), self._effective(effect.after, entity, own)
        differs = f', "differs": {_counts(effect.differs)}' if effect.differs else ""
        return f'{start}"effective": {{"before": {before}, "after": {after}{differs}}}, {end}'

    def _effective(self, effective: Effective, entity: Entity, own: tuple[str, str]) -> str:
        if effective is NO_LIMIT:
            return _NO_LIMIT
        value, source, _ = effective
        if source is None:
            return f'{{"value": {self._number(value)}, "source": null, "entity": null}}'
        address, names = own if source is entity else self._names(source)
        return f'{{"value": {self._number(value)}, "source": {address}, "entity": {names}}}'


def _text(text: str | None) -> str:
    return _NULL if text is None else quoted(text)


def _expiry(expires: date | None) -> str:
    return "" if expires is None else f', "expires": "{expires.isoformat()}"'


def _number(value: float | None) -> str:
    number = json_number(value)
    return _text(number) if number is None or isinstance(number, str) else repr(number)


def _in_order(keys: tuple[str, ...]) -> list[str]:
    return sorted(keys, key=key_order)


def _names(entity: Entity) -> tuple[str, str]:
    """Return the address of an entity, and its names by type."""
    names = ", ".join([f"{quoted(kind)}: {_text(name)}" for kind, name in entity.parts])
    return quoted(entity.address), f"{{{names}}}"


def _row_ends(key: str, before: float | None, after: float | None) -> tuple[str, str]:
    """Return how a row begins and ends: what follows from the key and its values alone."""
    known = QUOTA_KEYS.get(key)
    shown = [None if value is None else render_value(known, value) for value in (before, after)]
    return (
        f'{{"key": {quoted(key)}, "action": "{action_of(before, after)}", '
        f'"before": {_number(before)}, "after": {_number(after)}, ',
        f'"display": {{"before": {_text(shown[0])}, "after": {_text(shown[1])}}}}}',
    )


def _counts(differs: Mapping[str, int]) -> str:
    return f"{{{', '.join([f'{quoted(kind)}: {count}' for kind, count in differs.items()])}}}"


def _location(location: Location | None) -> str:
    if location is None:
        return _NULL
    return f'{{"file": {quoted(location.file)}, "line": {location.line}, "column": {location.column}}}'


class ChangeReader:
    """Reads the changes of one plan file."""

    def __init__(self) -> None:
        """Begin with nothing that lines could share."""
        self._texts: dict[str, str] = {}
        self._counts: dict[tuple[tuple[str, int], ...], Mapping[str, int]] = {(): NO_NAMES}
        self._effective: dict[tuple[float | tuple[str, str | None] | None, ...], Effective] = {}

    def change(self, item: Mapping[str, Any]) -> EntityChange:
        """Return a change of its JSON.

        Raises `KeyError`, `TypeError`, `ValueError`, `AttributeError` or `OverflowError` if it is not what this version
        writes.
        """
        text = self._texts
        names = item["entity"]
        entity = self._entity(names)
        level = level_of(entity)
        rows, effects = [], []
        for row in item["keys"]:
            key = text.setdefault(row["key"], row["key"])
            rows.append(Change(entity, key, load_number(row["before"]), load_number(row["after"])))
            limits = [
                Effective(load_number(each["value"]), entity, level) if each["entity"] == names else self._limit(each)
                for each in (row["effective"]["before"], row["effective"]["after"])
            ]
            effects.append(Effect(limits[0], limits[1], self._differs(row["effective"].get("differs"))))
        return EntityChange(
            entity=entity,
            before=self._values(item["before"]),
            after=self._values(item["after"]),
            changes=tuple(rows),
            effects=tuple(effects),
            reason=self._text(item["reason"]),
            cause=Cause(item["cause"]),
            origin=None if item["origin"] is None else Origin(item["origin"]),
            base=self._values(item["base"]) if "base" in item else None,
            owner=self._text(item["owner"]),
            location=self._location(item["location"]),
            expires=date.fromisoformat(item["expires"]) if "expires" in item else None,
        )

    def _text(self, text: str | None) -> str | None:
        return None if text is None else self._texts.setdefault(text, text)

    def _values(self, values: Mapping[str, float | str] | None) -> Values:
        if not values:
            return NO_VALUES
        return {self._texts.setdefault(key, key): float(value) for key, value in values.items()}

    def _location(self, item: Mapping[str, Any] | None) -> Location | None:
        if item is None:
            return None
        return Location(self._texts.setdefault(item["file"], item["file"]), item["line"], item.get("column", 0))

    def _entity(self, names: Mapping[str, str | None]) -> Entity:
        for name in names.values():
            if name is not None and not isinstance(name, str):
                raise TypeError("a name is a text or null")
        return Entity.of([(self._texts.setdefault(kind, kind), name) for kind, name in names.items()])

    def _limit(self, item: Mapping[str, Any]) -> Effective:
        value, names = load_number(item["value"]), item["entity"]
        if names is None:
            return NO_LIMIT if value is None else Effective(value)
        shared = (value, *names.items())
        found = self._effective.get(shared)
        if found is None:
            source = self._entity(names)
            found = self._effective[shared] = Effective(value, source, level_of(source))
        return found

    def _differs(self, counts: Mapping[str, int] | None) -> Mapping[str, int]:
        if not counts:
            return NO_NAMES
        return self._counts.setdefault(tuple(counts.items()), dict(counts))


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
    """Yield all changes of limits by a plan as JSON lines, with the fields of `change_row`."""
    for change in plan.blast_radius.changes if plan.blast_radius else ():
        row = change_row(change)
        yield f"{dumps({name: json_number(cell) if type(cell) is float else cell for name, cell in row.items()})}\n"


# The plan file: a plan as JSON, refused if it was modified.
#
# Format 1.1, `schemas/plan.schema.json`. Minor versions only add fields; an unknown major version is refused.
# It has two digests: `plan_id` covers the changes and the cluster, `digest` the whole file. Neither protects against
# an edit that recomputes them, so a plan file is verified when it is loaded:
#
# | check | rejects |
# | --- | --- |
# | digest | a file that was modified without recomputing it |
# | schema | a missing field, or one of the wrong type |
# | plan id | changes, a cluster or allowances that do not match the id |
# | derived fields | a field that differs from the one recomputed from other fields |
# | contents | a change that no plan contains: an entity twice, a value that files cannot declare |

T = TypeVar("T")

PLAN_LISTS: Final[Mapping[str, str]] = {
    "changes": "change",
    "declared": "address",
    "unmanaged": "unmanaged",
    "findings": "finding",
}
"""The fields of a plan file with a line per item, and the definition of an item in the schema."""

_FORMAT: Final = SealedFormat(
    kind=PLAN,
    lists=PLAN_LISTS,
    noun="plan",
    command="quotaform plan --out",
    remedy="make a new plan",
    unreadable=PlanFileError,
    changed=PlanFileChangedError,
)


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the plan file in pieces: a header, then one line per entity, so that it can be compared line by line.

    What is written never has to be in memory whole.
    """
    return sealed_lines(_fields(plan).items(), PLAN_LISTS)


def _fields(plan: Plan) -> dict[str, Any]:
    header = plan.header
    fields = {
        "plan_id": plan.plan_id,
        "created_at": header.created_at,
        "cluster": dump_cluster(header.cluster_name, header.cluster_id),
        **dump_snapshot_file(header.snapshot),
        "source": {
            "directory": header.source.directory,
            "commit": header.source.commit,
            "dirty": header.source.dirty,
            "base": dump_base(header.source.base),
        },
        "options": dump_options(header.options),
        **({"allowances": list(map(str, plan.allowances))} if plan.allowances else {}),
        **({"approvals": list(map(dump_approval, plan.approvals))} if plan.approvals else {}),
        "complete": plan.is_complete,
        "applyable": plan.is_applyable,
        "summary": dict(plan.summary),
        **({} if plan.blast_radius is None else {"blast_radius": dump_blast_radius(plan.blast_radius)}),
        **({} if plan.backtest is None else {"backtest": dump_cluster_backtest(plan.backtest)}),
        "changes": change_lines(plan.changes),
        **({} if plan.declared is None else {"declared": _address_lines(plan.declared)}),
        "unmanaged": (
            {**dump_entity(item.entity), "values": dump_values(item.values), "in_scope": item.in_scope}
            for item in plan.unmanaged
        ),
        "findings": map(dump_finding, plan.findings),
    }
    return envelope(PLAN, fields)


def _address_lines(entities: Iterable[Entity]) -> Iterator[Spelled]:
    return (Spelled(quoted(address)) for address in sorted([entity.address for entity in entities]))


def load_plan(text: str | bytes, file: str) -> Plan:
    """Read a plan file and make sure that it is a plan, and the one that was written.

    Raises `PlanFileError` or `PlanFileChangedError`.
    """
    content = SealedContent(text.encode(errors="replace") if isinstance(text, str) else text, file, _FORMAT)
    return content.read(lambda document, strict: _checked(content, document, strict, file))


def _checked(content: SealedContent, document: Mapping[str, Any], strict: Strict, file: str) -> Plan:
    from quotaform.plan.schema import plan as plan_schema

    require_shape(document, plan_schema, PLAN_LISTS)
    plan = _plan(document)
    if plan.plan_id != document["plan_id"]:
        raise PlanFileChangedError(file, "plan id")
    if problem := saved_plan_problem(plan):
        raise ShapeError(*problem)
    content.require_written(lambda: _fields(plan), strict)
    return plan


def _plan(document: Mapping[str, Any]) -> Plan:
    source = document["source"]
    changes = tuple(_items(document, "changes", ChangeReader().change))
    return Plan(
        header=PlanHeader(
            cluster_name=document["cluster"]["name"],
            cluster_id=document["cluster"]["id"],
            created_at=document["created_at"],
            source=PlanSource(
                directory=source["directory"],
                commit=source["commit"],
                dirty=source["dirty"],
                base=load_base(source["base"]),
            ),
            options=load_options(document["options"]),
            snapshot=load_snapshot_file(document),
        ),
        changes=changes,
        unchanged=int(document["summary"]["no_op"]),
        in_scope=int(document["summary"]["in_scope"]),
        unmanaged=tuple(
            _items(
                document,
                "unmanaged",
                lambda item: Unmanaged(Entity(item["entity"]), load_values(item["values"]), item["in_scope"]),
            )
        ),
        declared=_declared(document, changes) if "declared" in document else None,
        allowances=_allowances(document),
        approvals=_approvals(document),
        findings=tuple(_items(document, "findings", load_finding)),
        is_complete=document["complete"],
        blast_radius=load_blast_radius(document["blast_radius"]) if "blast_radius" in document else None,
        backtest=load_cluster_backtest(document["backtest"]) if "backtest" in document else None,
    )


def _declared(document: Mapping[str, Any], changes: Iterable[EntityChange]) -> frozenset[Entity]:
    """Return the declared entities; those that change are the same objects, so that their addresses are not read."""
    known = {change.entity.address: change.entity for change in changes}
    return frozenset(_items(document, "declared", lambda text: known.get(text) or parse_address(text)))


def _items(document: Mapping[str, Any], name: str, load: Callable[[Any], T]) -> Iterator[T]:
    from quotaform.plan.schema import plan as plan_schema

    return loaded_items(document, name, load, plan_schema, PLAN_LISTS[name])


def _allowances(document: Mapping[str, Any]) -> tuple[Allowance, ...]:
    with readable("allowances"):
        return tuple(map(Allowance.parse, document.get("allowances", ())))


def _approvals(document: Mapping[str, Any]) -> tuple[Approval, ...]:
    with readable("approvals"):
        return tuple(map(load_approval, document.get("approvals", ())))
