"""Changes a quotas file: entries that are edited and new ones at its end; all other text stays as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from re import compile as regex
from typing import Any, Final, NamedTuple

from quotaform.desired.format.formatter import format_source
from quotaform.desired.tree import SourceFile
from quotaform.desired.writer import match_lines, spell_scalar
from quotaform.model.entity import Entity
from quotaform.model.finding import Location, Position
from quotaform.model.quota_key import key_order

_MARKED: Final = ("&", "*", "!")
"""What begins a value with an anchor or a tag, or an alias."""
_ANCHOR: Final = "&"
_ALIAS: Final = regex(r"\s*:\s+\*[^\s,\[\]{}]+").match
"""What follows a key whose value is an alias."""
_BLOCKS: Final = ("|", ">")
_MERGE: Final = "<<"


class UneditableError(Exception):
    """A value cannot be changed without changing others, or is not written here; the message says why."""


class Splice(NamedTuple):
    """A part of a text that is replaced; an empty part is an insertion."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A key of a mapping and its value."""

    key: str
    start: int  # where the key begins
    end: int  # where what is written of the value ends
    node: Any  # the value, as PyYAML composes it


class MappingText:
    """A mapping in a text, whose own keys and values have neither anchors nor tags."""

    def __init__(self, text: str, node: Any, *, within: tuple[int, int] | None = None) -> None:
        """Find a mapping.

        `node`: the mapping, as PyYAML composes it. `within`: the part of the text that it must be in, as an alias is
        not.

        Raises `UneditableError`: it is no mapping, has an anchor or a tag, or is an alias.
        """
        start = node.start_mark.index
        if node.id != "mapping":
            raise UneditableError("it is no mapping")
        if text.startswith(_MARKED, start) or (within is not None and not within[0] <= start < within[1]):
            raise UneditableError("it has an anchor, or is an alias")
        self.text = text
        self.is_flow = bool(node.flow_style)  # whether it is written in braces
        self.start = start
        self.column = node.start_mark.column
        self.line_end = "\r\n" if "\r\n" in text else "\n"
        self.pairs = [
            Pair(str(key.value), key.start_mark.index, _value_end(text, key.end_mark.index, value), value)
            for key, value in node.value
        ]
        self.end = node.end_mark.index if self.is_flow else self.pairs[-1].end
        self.has_merge = any(pair.key == _MERGE for pair in self.pairs)
        if any(text.startswith(_MARKED, pair.start) for pair in self.pairs):
            raise UneditableError("a key of it has an anchor or a tag")

    def __contains__(self, key: str) -> bool:
        return self.pair(key) is not None

    def pair(self, key: str) -> Pair | None:
        """Return a key with its value; `None` if it is not here."""
        return next((pair for pair in self.pairs if pair.key == key), None)

    def mapping(self, key: str) -> MappingText:
        """Return the mapping at a key."""
        pair = self.pair(key)
        if pair is None:
            raise UneditableError(f"it has no {key} of its own")
        return MappingText(self.text, pair.node, within=(pair.start, pair.end + 1))

    def replaced(self, key: str, spelled: str) -> Splice:
        """Return the change of a scalar. Raises `UneditableError` if it is not written here."""
        pair = self.pair(key)
        if pair is None:
            raise UneditableError(f"it has no {key} of its own")
        start = pair.node.start_mark.index
        if self.text.startswith(_MARKED, start) or not pair.start <= start <= pair.end:
            raise UneditableError(f"{key} has an anchor, or is an alias")
        return Splice(start, pair.end, spelled)

    def inserted(self, key: str, spelled: str, *, after: str | None = None) -> Splice:
        """Return the insertion of a key.

        `spelled`: its value on one line. `after`: the key that it comes after; the last one if left out.
        """
        pair = (self.pair(after) if after is not None else None) or self.pairs[-1]
        if self.is_flow:
            return Splice(pair.end, pair.end, f", {key}: {spelled}")
        end = self._line_stop(pair.end)
        return Splice(end, end, f"{self.line_end}{' ' * self.column}{key}: {spelled}")

    def removed(self, keys: Iterable[str]) -> Iterator[Splice]:
        """Yield what takes keys away; at least one other stays.

        Raises `UneditableError` if one of them is not here, has an anchor, or is in what is merged, too; or it begins
        the line of something else.
        """
        gone = set(keys)
        if not gone <= {pair.key for pair in self.pairs}:
            raise UneditableError("it comes from elsewhere in the file")
        if beneath := gone & {key for pair in self.pairs if pair.key == _MERGE for key in _keys(pair.node)}:
            raise UneditableError(f"without {min(beneath)} here, that from elsewhere in the file counts")
        for index, pair in enumerate(self.pairs):
            if pair.key not in gone:
                continue
            self.require_unanchored(pair)
            if self.is_flow:
                yield self._removed_in_flow(index, gone)
                continue
            line = self.text.rfind("\n", 0, pair.start) + 1
            if self.text[line : pair.start].strip(" "):
                raise UneditableError(f"{pair.key} begins the line of its entry")
            # With the end of the line before it: something may be inserted at the end of this one.
            yield Splice(self._line_stop(line - 1), self._line_stop(pair.end), "")

    def require_unanchored(self, pair: Pair) -> None:
        """Make sure that nothing elsewhere can be an alias of a part of a value."""
        if self._is_anchored(pair.node, pair):
            raise UneditableError(f"{pair.key} has an anchor")

    def _is_anchored(self, node: Any, pair: Pair) -> bool:
        start = node.start_mark.index
        if not pair.start <= start <= pair.end:
            # It is what an alias stands for.
            return False
        if self.text.startswith(_ANCHOR, start):
            return True
        parts = [] if node.id == "scalar" else chain(*node.value) if node.id == "mapping" else node.value
        return any(self._is_anchored(part, pair) for part in parts)

    def _removed_in_flow(self, index: int, gone: set[str]) -> Splice:
        pair = self.pairs[index]
        if all(each.key in gone for each in self.pairs[:index]):
            return Splice(pair.start, self.pairs[index + 1].start, "")
        return Splice(self.pairs[index - 1].end, pair.end, "")

    def _line_stop(self, position: int) -> int:
        """Return where the line of a position ends, before its line end."""
        end = self.text.find("\n", position)
        if end < 0:
            return len(self.text)
        return end - 1 if self.text[end - 1] == "\r" else end


def _value_end(text: str, key_end: int, value: Any) -> int:
    """Return where what is written of a value ends; of an alias, that is not where its node ends."""
    if value.start_mark.index >= key_end:
        return max(content_end(text, value), key_end)
    alias = _ALIAS(text, key_end)
    if alias is None:
        raise UneditableError("it has an alias")
    return alias.end()


def _keys(node: Any) -> Iterator[str]:
    """Yield the keys that a merge key adds: those of a mapping or of a list of them."""
    if node.id == "sequence":
        for each in node.value:
            yield from _keys(each)
    elif node.id == "mapping":
        for key, value in node.value:
            if key.value == _MERGE:
                yield from _keys(value)
            else:
                yield str(key.value)


def content_end(text: str, node: Any) -> int:
    """Return where what is written of a value ends, without comments and empty lines after it."""
    start: int = node.start_mark.index
    end: int = node.end_mark.index
    if node.id == "scalar":
        return start + len(text[start:end].rstrip()) if node.style in _BLOCKS else end
    if node.flow_style or not node.value:
        return end
    last = node.value[-1]
    return content_end(text, last[1] if node.id == "mapping" else last)


@dataclass(frozen=True, slots=True)
class Items:
    """The items of `quotas` in a file."""

    by_place: dict[tuple[int, int], Any]  # the mappings by line and column, from 1 on
    sequence: Any  # the list; `None` if the file has none


def read_items(text: str) -> Items:
    """Return the items of a quotas file, which must be valid."""
    import yaml

    root: Any = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    sequence = None
    if root is not None and root.id == "mapping":
        sequence = next((value for key, value in root.value if key.value == "quotas"), None)
    if sequence is None or sequence.id != "sequence":
        return Items({}, None)
    marks = ((node.start_mark, node) for node in sequence.value)
    return Items({(mark.line + 1, mark.column + 1): node for mark, node in marks}, sequence)


def spliced(text: str, splices: Iterable[Splice]) -> str:
    """Return a text with parts replaced; insertions at one place keep their order.

    >>> spliced("abc", [Splice(1, 2, "-"), Splice(3, 3, "d"), Splice(3, 3, "e")])
    'a-cde'

    Raises `UneditableError` if parts overlap.
    """
    parts: list[str] = []
    at = 0
    for start, end, new in sorted(splices, key=lambda splice: (splice.start, splice.end)):
        if start < at:
            raise UneditableError("its changes overlap")
        parts += (text[at:start], new)
        at = end
    return "".join([*parts, text[at:]])


_VALUES: Final = "values"
_GONE: Final = ("profile", "values", "unset", "expires")
"""The fields that `state: absent` does not allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryEdit:
    """What is to change of an entry."""

    entity: Entity
    values: Mapping[str, str]  # the values that are set, as they are spelled, by quota key
    removed: frozenset[str] = frozenset()  # the keys whose values in the entry are taken away
    unset: frozenset[str] = frozenset()  # the keys of the common entry that are taken away
    is_absent: bool = False  # whether the entity must not exist any more; then nothing else is changed
    reason: str | None = None  # the text of the field `reason`; `None` leaves it as it is


def edit_entry(text: str, node: Any, edit: EntryEdit) -> list[Splice]:
    """Return the changes of text that an edit of an entry makes.

    `node`: the item, as PyYAML composes it; it is of one entity.

    Raises `UneditableError`: the entry is not written so that it could be changed alone.
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


_MARK: Final = "\ufeff"


class FileEdit:
    """A file that is edited, and what could not be."""

    def __init__(self, name: str, text: str) -> None:
        """Read a file.

        `name`: the file in messages. `text`: its content, which must be valid; empty for a new file.
        """
        self.name = name
        self.before = text
        self._marked = text.startswith(_MARK)
        self._text = text.removeprefix(_MARK)
        self._items: Items = read_items(self._text) if text else Items({}, None)
        self._splices: list[Splice] = []
        self._new: list[EntryEdit] = []

    def change(self, position: Position, edit: EntryEdit) -> None:
        """Change the entry at a position.

        Raises `UneditableError` if it is not written so that it could be changed alone; nothing is changed then.
        """
        place = Location.at(self.name, position)
        node = self._items.by_place.get((place.line, place.column))
        if node is None:
            raise UneditableError("it is merged from elsewhere in the file")
        splices = edit_entry(self._text, node, edit)
        spliced(self._text, splices)
        self._splices += splices

    def add(self, edit: EntryEdit) -> None:
        """Add an entry at the end. Raises `UneditableError` if the entries of the file are in brackets."""
        sequence = self._items.sequence
        if self.before and (sequence is None or sequence.flow_style or not sequence.value):
            raise UneditableError(f"{self.name} has its entries in brackets, or none; write them as a list")
        self._new.append(edit)

    def after(self, schema: str) -> str:
        """Return the new content; formatted if it was before.

        `schema`: where editors find the schema, if the file is new.
        """
        text = spliced(self._text, [*self._splices, *self._appended()]) if self.before else self._created(schema)
        after = f"{_MARK if self._marked else ''}{text}"
        formatted = format_source(SourceFile(self.name, self.before))
        if self.before and not formatted.is_changed and not formatted.problems:
            again = format_source(SourceFile(self.name, after))
            return after if again.problems else again.after
        return after

    def _created(self, schema: str) -> str:
        entries = [line for edit in self._new for line in ("", *new_entry_lines(edit))]
        return "\n".join([f"# yaml-language-server: $schema={schema}", "quotas:", *entries[1:]]) + "\n"

    def _appended(self) -> Sequence[Splice]:
        if not self._new:
            return ()
        sequence = self._items.sequence
        end = content_end(self._text, sequence)
        stop = self._text.find("\n", end)
        stop = len(self._text) if stop < 0 else stop
        line_end = "\r\n" if "\r\n" in self._text else "\n"
        pad = " " * (sequence.start_mark.column)
        lines = [line for edit in self._new for line in ("", *new_entry_lines(edit))]
        shifted = [f"{pad}{line[2:]}" if line else "" for line in lines]
        if stop and self._text[stop - 1 : stop] == "\r":
            stop -= 1
        return [Splice(stop, stop, "".join(f"{line_end}{line}" for line in shifted))]
