"""Where the mappings of a YAML file are in its text, and the changes of text that change them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from re import compile as regex
from typing import Any, Final, NamedTuple

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
    """A key of a mapping and its value.

    Attributes:
        start: Where the key begins.
        end: Where what is written of the value ends.
        node: The value, as PyYAML composes it.
    """

    key: str
    start: int
    end: int
    node: Any


class MappingText:
    """A mapping in a text, whose own keys and values have neither anchors nor tags.

    Attributes:
        is_flow: Whether it is written in braces.
    """

    def __init__(self, text: str, node: Any, *, within: tuple[int, int] | None = None) -> None:
        """Find a mapping.

        Args:
            node: The mapping, as PyYAML composes it.
            within: The part of the text that it must be in, as an alias is not.

        Raises:
            UneditableError: It is no mapping, has an anchor or a tag, or is an alias.
        """
        start = node.start_mark.index
        if node.id != "mapping":
            raise UneditableError("it is no mapping")
        if text.startswith(_MARKED, start) or (within is not None and not within[0] <= start < within[1]):
            raise UneditableError("it has an anchor, or is an alias")
        self.text = text
        self.is_flow = bool(node.flow_style)
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

        Args:
            spelled: Its value on one line.
            after: The key that it comes after; the last one if left out.
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
    """The items of `quotas` in a file.

    Attributes:
        by_place: The mappings by line and column, from 1 on.
        sequence: The list; `None` if the file has none.
    """

    by_place: dict[tuple[int, int], Any]
    sequence: Any


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
