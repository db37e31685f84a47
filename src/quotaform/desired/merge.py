"""Merges the files that count for one cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from glob import escape
from typing import Final

from quotaform.core.check import rule
from quotaform.core.check.finding_list import FindingList, first_findings
from quotaform.core.scope import FULL_SCOPE, Scope
from quotaform.desired.loaded_file import LoadedFile
from quotaform.desired.writer import spell_scalar
from quotaform.model.entity import DEFAULT_WORD, Entity, Part
from quotaform.model.entry import STATE_ABSENT, Cause, Desired, Entry, LayerFile, ValuePlace
from quotaform.model.finding import Finding
from quotaform.model.location import Location
from quotaform.model.quotas import Values
from quotaform.model.text import listed

_FEW: Final = 5
"""The limit on separate problems for entities of a file that are out of scope."""


def conclude(files: Sequence[LoadedFile], today: date, scope: Scope = FULL_SCOPE) -> tuple[Desired, list[Finding]]:
    """Merge the files, and return the entries with all findings, sorted by location."""
    desired, problems = assemble(files, today)
    outside: dict[LayerFile | None, list[Entry]] = {}
    for entity, entry in desired.items():
        if not scope.contains(entity):
            outside.setdefault(entry.file, []).append(entry)
    for entries in outside.values():
        problems.extend(_out_of_scope(entries, scope))
    return desired, first_findings([*(problem for file in files for problem in file.problems), *problems.all()])


def assemble(files: Iterable[LoadedFile], today: date) -> tuple[Desired, FindingList]:
    """Merge the files: each entity once per layer, the cluster's layer over the common one, key by key.

    Args:
        files: The common files and those of at most one cluster.
        today: The day (UTC) on which entries may have expired.
    """
    layers: dict[str | None, dict[Entity, Entry]] = {None: {}}
    problems = FindingList()
    for file in files:
        layer = layers.setdefault(file.layer, {})
        for entry in file.entries:
            first = layer.setdefault(entry.entity, entry)
            if first is not entry and not problems.is_full:
                problems.add(_duplicate(entry, first))
    common = layers[None]
    desired: dict[Entity, Entry] = {}
    for layer in layers.values():
        for entity, entry in layer.items():
            if entry.unset:
                problems.extend(_unset_problems(entry, common.get(entity)))
            if entry.expires is not None and entry.expires <= today:
                entry = entry._replace(values={}, places=(), bare=(), cause=Cause.EXPIRED)
                if problems.takes_others:
                    problems.add(_expired(entry))
            below = desired.get(entity)
            desired[entity] = entry if below is None else _merge(below, entry)
    return desired, problems


def _merge(below: Entry, above: Entry) -> Entry:
    """Return an entry of a layer over that of the layer below it, key by key."""
    values: Values = {}
    places: tuple[ValuePlace, ...] = ()
    bare: tuple[str, ...] = ()
    cause = above.cause
    if above.cause is Cause.ENTRY:
        if not above.values:
            cause = below.cause
        values = {
            key: value
            for key, value in {**below.values, **above.values}.items()
            if above.unset is None or key not in above.unset
        }
        where: dict[str, ValuePlace] = {**below.provenances(), **dict(zip(above.values, above.places, strict=False))}
        places = tuple(where[key] for key in values) if where.keys() >= values.keys() else ()
        if below.bare or above.bare:
            bare = tuple(key for key in values if key in (above.bare if key in above.values else below.bare))
    return above._replace(
        values=values,
        places=places,
        bare=bare,
        cause=cause,
        expires=below.expires if cause is Cause.EXPIRED and above.cause is Cause.ENTRY else above.expires,
        owner=below.owner if above.owner is None else above.owner,
        reason=below.reason if above.reason is None else above.reason,
    )


def _unset_problems(entry: Entry, common: Entry | None) -> Iterator[Finding]:
    """Yield the problems of the keys that an entry removes from the common one."""
    address = entry.entity.address
    declared = common.values if common is not None else {}
    for key, position in (entry.unset or {}).items():
        if key not in declared:
            who = f"the common entry at {common.location} has none" if common else f"no common file declares {address}"
            text = f"{address} has no {key} to unset: {who}; remove it"
            location = Location.at(entry.file.name, position) if entry.file else None
            yield rule.BAD_UNSET.finding(text, address=address, key=key, location=location)
    if declared and not entry.values and not declared.keys() - (entry.unset or {}).keys():
        text = f"unset leaves {address} without any value; write state: absent instead"
        yield rule.NO_VALUES.finding(text, address=address, location=entry.location)


def _out_of_scope(entries: Sequence[Entry], scope: Scope) -> Iterator[Finding]:
    """Yield a problem per entry of a file, or a single one at the first entry if there are many."""
    if len(entries) > _FEW:
        first = min(entries, key=lambda entry: entry.position)
        shown = listed((entry.entity.address for entry in entries), _FEW)
        yield rule.OUT_OF_SCOPE.finding(
            f"{len(entries):,} entities of this file are outside of the scope in quotaform.yaml: {shown}; remove the "
            f"entries, or extend the scope, as in: {_into_scope(first.entity, scope)}",
            location=first.location,
        )
        return
    for entry in entries:
        yield rule.OUT_OF_SCOPE.finding(
            f"{entry.entity.address} is declared here, but is outside of the scope in quotaform.yaml; remove the "
            f"entry, or {_into_scope(entry.entity, scope)}",
            address=entry.entity.address,
            location=entry.location,
        )


def _into_scope(entity: Entity, scope: Scope) -> str:
    """Return the line of quotaform.yaml to change for an entity to be in scope."""
    for pattern in scope.exclude:
        if Scope(include=(pattern,)).contains(entity):
            return f"take {_spell_pattern(pattern.parts)} out of scope.exclude"
    line = _spell_pattern((kind, None if name is None else escape(name)) for kind, name in entity.parts)
    is_default = any(name is None for _, name in entity.parts)
    return f"add {line} to scope.include{', where * does not stand for a default' if is_default else ''}"


def _spell_pattern(parts: Iterable[Part]) -> str:
    return f"{{{', '.join(f'{kind}: {spell_scalar(name or DEFAULT_WORD)}' for kind, name in parts)}}}"


def _duplicate(entry: Entry, first: Entry) -> Finding:
    address = entry.entity.address
    text = f"{address} is declared twice; it is also at {first.location}. Keep one of the two"
    return rule.DUPLICATE_ENTITY.finding(text, address=address, location=entry.location)


def _expired(entry: Entry) -> Finding:
    address = entry.entity.address
    text = (
        f"{address} has {entry.absent}, so it is treated as {STATE_ABSENT}; remove it after the entity has been deleted"
    )
    return rule.EXPIRED.finding(text, address=address, location=entry.location)
