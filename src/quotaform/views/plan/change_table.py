"""The changes of a plan as rows of a table: one by one, equal ones together, or counted by the beginning of names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from quotaform.core.change import Action, Change
from quotaform.core.effects import Direction, Effect
from quotaform.core.entity_change import EntityChange
from quotaform.core.origin import Origin
from quotaform.core.resolve.entry import Effective
from quotaform.model.entity import Entity, spell_name
from quotaform.views.address_group import by_prefix, largest, pattern_of
from quotaform.views.markdown import LONGEST_NAME, code_cell, table, words_cell
from quotaform.views.plan.change_part import Row, Rows
from quotaform.views.plan.effect_text import DIRECTIONS, effect_text, fallback_text, value_text
from quotaform.views.plan.origin_text import drift_reason
from quotaform.views.style import counted

MOST_GROUPS: Final = 60
"""How many groups of equal changes are listed."""
_NOT_SET: Final = "not set"
_REMOVED: Final = "removed"
_SOME: Final = Entity(user="some")
"""Stands for the entity of a row, so that rows that say the same are equal."""
_WORDS: Final = (*DIRECTIONS.values(), "to unlimited")
Cells: TypeAlias = tuple[str, str, str, str]
HEADER: Final = ("", "Entity", "Quota", "Now", "After", "Effective limit", "Owner, reason")


def full_table(entities: Rows) -> Iterator[str]:
    """Yield a table with a row for each key."""
    yield from table(HEADER, _full_rows(entities))
    yield "\n"


def _full_rows(entities: Rows) -> Iterator[Sequence[str]]:
    for change, rows in entities:
        first = (change.action.value, code_cell(change.entity.address))
        about = words_cell(_shortened("; ".join(filter(None, (change.owner, change.reason)))))
        for row in rows:
            yield (*first, *_values(row), about)
            first, about = ("", ""), ""


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


def grouped_table(entities: Rows) -> Iterator[str]:
    """Yield a table in which entities with equal changes share a row; the largest groups come first."""
    groups: dict[tuple[object, ...], list[tuple[EntityChange, Sequence[Row]]]] = {}
    for change, rows in entities:
        groups.setdefault((change.action, *map(_content, rows)), []).append((change, rows))
    ordered = sorted(groups.values(), key=len, reverse=True)
    yield from table(HEADER, (cells for group in ordered[:MOST_GROUPS] for cells in _group_rows(group)))
    yield "\n"
    rest = [each for group in ordered[MOST_GROUPS:] for each in group]
    if rest:
        yield f"And {counted(len(rest), 'more entity', 'more entities')}:\n\n"
        yield from counted_table(rest)


def _group_rows(group: Rows) -> Iterator[Sequence[str]]:
    change, rows = group[0]
    who = code_cell(change.entity.address)
    if len(group) > 1:
        who = f"{len(group):,} of {pattern_of([each.entity.address for each, _ in group])}"
    owners = {each.owner or "" for each, _ in group}
    owner = f"{len(owners):,} owners" if len(owners) > 1 else words_cell(_shortened(owners.pop()))
    first = change.action.value, who
    for row in rows:
        yield (*first, *_values(row), owner)
        first, owner = ("", ""), ""


def counted_table(entities: Rows) -> Iterator[str]:
    """Yield a table that counts entities by owner, or by the beginning of their addresses where most have none."""
    changes = {change.entity.address: change for change, _ in entities}
    by_owner: dict[str, list[str]] = {}
    for address, change in changes.items():
        by_owner.setdefault(change.owner or "", []).append(address)
    if len(by_owner) > 1 and len(by_owner.get("", ())) * 2 < len(changes):
        title, groups = "Owner", largest(by_owner, lambda owner, _: words_cell(_shortened(owner)) or "none", "owners")
    else:
        title, groups = "Entities", by_prefix(list(changes))
    rows = [(shown, f"{len(some):,}", directions_of([changes[address] for address in some])) for shown, some in groups]
    yield from table((title, "Number", "Effective limits"), rows)
    yield "\n"


class _Content(NamedTuple):
    """What a row says of any entity: equal for entities whose rows say the same."""

    key: str
    before: float | None
    after: float | None
    limit_before: float | None
    source_before: Entity | None
    limit_after: float | None
    source_after: Entity | None
    differs: tuple[tuple[str, int], ...]
    note: str


def _content(row: Row) -> _Content:
    change, effect = row.row, row.effect
    entity, before, after = change.entity, effect.before, effect.after
    return _Content(
        change.key,
        change.before,
        change.after,
        before.value,
        _SOME if before.source == entity else before.source,
        after.value,
        _SOME if after.source == entity else after.source,
        tuple(effect.differs.items()) if effect.differs else (),
        "" if row.origin is None else _origin_note(row),
    )


def _origin_note(row: Row) -> str:
    change, base = row.row, row.change.base
    if row.origin is Origin.BOTH and base is not None:
        declared = base.get(change.key)
        return f"conflict: the base declares {_NOT_SET if declared is None else value_text(change.key, declared)}"
    is_drift = row.origin is Origin.DRIFT and row.change.action is Action.DELETE
    return f"drift: {drift_reason(row.change)}" if is_drift else ""


def _values(row: Row) -> Cells:
    """Return the key, its value now and after, and what that means, as cells."""
    return _cells(_content(row))


@lru_cache(maxsize=4096)
def _cells(content: _Content) -> Cells:
    change = Change(_SOME, content.key, content.before, content.after)
    before = Effective(content.limit_before, content.source_before)
    after = Effective(content.limit_after, content.source_after)
    effect = Effect(before, after, dict(content.differs))
    notes = [effect_text(change, effect)[1:-1], content.note]
    if change.after is None and effect.shadowed_by(_SOME, None) is None:
        notes.insert(0, fallback_text(change.key, effect.after)[1:-1])
    return (
        code_cell(spell_name(change.key)),
        _NOT_SET if change.before is None else words_cell(value_text(change.key, change.before)),
        _REMOVED if change.after is None else words_cell(value_text(change.key, change.after)),
        words_cell("; ".join(filter(None, notes))),
    )


def directions_of(changes: Iterable[EntityChange]) -> str:
    """Return how many entities have looser and tighter limits after a change, in words.

    >>> directions_of([])
    'none'
    """
    counts: Counter[str] = Counter()
    for change in changes:
        direction = change.direction
        counts[DIRECTIONS[direction]] += 1
        if direction in (Direction.LOOSEN, Direction.MIXED):
            counts["to unlimited"] += change.becomes_unlimited
    return ", ".join(f"{counts[word]:,} {word}" for word in _WORDS if counts[word]) or "none"
