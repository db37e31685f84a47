"""The changes of the text of one entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from quotaform.desired.edit.mapping_text import MappingText, Splice, UneditableError
from quotaform.desired.writer import match_lines, spell_scalar
from quotaform.model.entity import Entity
from quotaform.model.quota_key import key_order

_VALUES: Final = "values"
_GONE: Final = ("profile", "values", "unset", "expires")
"""The fields that `state: absent` does not allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryEdit:
    """What is to change of an entry.

    Attributes:
        values: The values that are set, as they are spelled, by quota key.
        removed: The keys whose values in the entry are taken away.
        unset: The keys of the common entry that are taken away.
        is_absent: Whether the entity must not exist any more; then nothing else is changed.
        reason: The text of the field `reason`; `None` leaves it as it is.
    """

    entity: Entity
    values: Mapping[str, str]
    removed: frozenset[str] = frozenset()
    unset: frozenset[str] = frozenset()
    is_absent: bool = False
    reason: str | None = None


def edit_entry(text: str, node: Any, edit: EntryEdit) -> list[Splice]:
    """Return the changes of text that an edit of an entry makes.

    Args:
        node: The item, as PyYAML composes it; it is of one entity.

    Raises:
        UneditableError: The entry is not written so that it could be changed alone.
    """
    item = MappingText(text, node)
    if item.has_merge:
        raise UneditableError("it is merged from elsewhere in the file")
    changes = _absent(item) if edit.is_absent else _values(item, edit)
    return [*changes, *_reason(item, edit.reason)]


def _absent(item: MappingText) -> Iterator[Splice]:
    first, *others = [pair for pair in item.pairs if pair.key in _GONE]
    item.require_unanchored(first)
    yield Splice(first.start, first.end, "state: absent")
    if others:
        yield from item.removed(pair.key for pair in others)


def _values(item: MappingText, edit: EntryEdit) -> Iterator[Splice]:
    pair = item.pair(_VALUES)
    if pair is not None:
        values = item.mapping(_VALUES)
        own = [each.key for each in values.pairs]
        if not edit.removed.issuperset(own):
            yield from _changed(values, [key for key in own if key not in edit.removed], edit)
        elif edit.values:
            item.require_unanchored(pair)
            yield Splice(pair.start, pair.end, f"{_VALUES}: {_in_braces(edit.values)}")
        else:
            yield from item.removed([_VALUES])
    elif edit.removed:
        raise UneditableError("its values come from elsewhere")
    elif edit.values:
        yield item.inserted(_VALUES, _in_braces(edit.values), after="profile" if "profile" in item else "match")
    if edit.unset:
        if "unset" in item:
            raise UneditableError("it has a list unset already")
        yield item.inserted("unset", f"[{', '.join(sorted(edit.unset, key=key_order))}]")


def _changed(values: MappingText, kept: Sequence[str], edit: EntryEdit) -> Iterator[Splice]:
    """Yield the changes of values, of which some are kept."""
    for key, spelled in edit.values.items():
        if key in values:
            yield values.replaced(key, spelled)
        else:
            before = [name for name in kept if key_order(name) < key_order(key)]
            yield values.inserted(key, spelled, after=before[-1] if before else kept[-1])
    if edit.removed:
        yield from values.removed(edit.removed)


def _in_braces(values: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{key}: {spelled}' for key, spelled in values.items())}}}"


def _reason(item: MappingText, reason: str | None) -> Iterator[Splice]:
    if reason is None:
        return
    spelled = spell_scalar(reason)
    yield item.replaced("reason", spelled) if "reason" in item else item.inserted("reason", spelled)


def new_entry_lines(edit: EntryEdit) -> list[str]:
    """Return the lines of a new entry, as `quotaform fmt` leaves them."""
    lines = match_lines(edit.entity)
    if edit.is_absent:
        lines.append("    state: absent")
    else:
        if edit.values:
            values = sorted(edit.values.items(), key=lambda item: key_order(item[0]))
            lines += ["    values:", *(f"      {key}: {spelled}" for key, spelled in values)]
        if edit.unset:
            lines.append(f"    unset: [{', '.join(sorted(edit.unset, key=key_order))}]")
    return lines if edit.reason is None else [*lines, f"    reason: {spell_scalar(edit.reason)}"]
