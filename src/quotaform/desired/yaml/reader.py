"""Reads YAML text as a document, in one pass over the parser's events.

No node tree is built. Locations are recorded only on request (`detailed`): a valid file is read once, an invalid one a
second time to locate its problems.

Everything has a limit. One long list at the root may be returned in parts (`Stream`), so a file can be long; everything
else in it, and each item of that list, is limited in size. Aliases share their value, and the number of values to which
they would expand is limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from quotaform.desired.yaml.document import (
    ALIASED_PER_NODE,
    MAX_ALIASED,
    MAX_ANCHORED,
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_VALUES,
    MOST_ALIASED,
    NUMERIC_STARTS,
    WORDS,
    Document,
    Oddity,
    ProblemReporter,
    StopReadingError,
    UnclearError,
    read_number,
)
from quotaform.model import rule
from quotaform.model.finding import Position, pack_position

MERGE_KEY: Final = "<<"


def merge(
    document: Document,
    problems: ProblemReporter,
    target: dict[str, Any],
    merged: Iterable[tuple[Any, Any]],
    positions: list[Position] | None,
) -> None:
    """Add what `<<` names to a mapping; what is written out wins, then what is named first.

    `problems`: where a value that cannot be merged is reported. `merged`: the values of `<<`, each a mapping or a list
    of mappings, with their marks. `positions`: where the keys of the mapping are, if that is recorded.
    """
    for value, mark in merged:
        document.hold(value)
        for source in value if isinstance(value, list) else [value]:
            if not isinstance(source, dict):
                problems.report_at_mark(
                    rule.BAD_MERGE, "<< must be a mapping or a list of mappings, as in <<: *name", mark
                )
                continue
            where = document.keys.get(id(source)) or [mark_position(mark)] * len(source)
            for (key, item), position in zip(source.items(), where, strict=True):
                if key in target:
                    continue
                target[key] = item
                if positions is not None:
                    positions.append(position)
                document.repeat(source, target, key)


def mark_position(mark: Any) -> Position:
    """Return the position of a mark of the parser."""
    return pack_position(mark.line + 1, mark.column + 1)


_PART_ITEMS: Final = 500
_PART_VALUES: Final = 20_000

_STR_TAGS: Final = frozenset({"!", "tag:yaml.org,2002:str"})


class Stream(NamedTuple):
    """A list of the root that is handed over in parts while the file is read."""

    key: str  # the key of the root that holds it
    # Called with the document whose root holds one part of the list and nothing else; the part is gone afterwards. May
    # raise `UnclearError` and `StopReadingError`.
    take: Callable[[Document], None]


def read_document(
    name: str,
    text: str,
    *,
    detailed: bool = False,
    tracked: frozenset[str] = frozenset(),
    stream: Stream | None = None,
    most_values: int = MAX_VALUES,
) -> Document:
    """Read a YAML file.

    `detailed`: whether to record all places and collect problems. `tracked`: the keys whose own places, and those of
    the keys of the mapping there, are recorded in any case. `stream`: the list that is handed over while it is read; it
    is empty in what is returned. `most_values`: how many values an item of that list may hold, and how many there may
    be beside it.

    Raises `UnclearError`: something is wrong with it as YAML; only without `detailed`.
    """
    document = Document(name, is_detailed=detailed)
    reader = _Reader(document, tracked, stream, most_values)
    try:
        try:
            reader.read(text)
        except (UnclearError, StopReadingError):
            raise
        except Exception as error:
            reader.end_early(error, text)
        reader.hand_over()
    except StopReadingError:
        pass
    return document


class _Reader:
    def __init__(self, document: Document, tracked: frozenset[str], stream: Stream | None, most_values: int) -> None:
        self.document = document
        self.most_values = most_values
        self.problems = ProblemReporter(document, is_streamed=stream is not None)
        self.stream = stream
        self.streamed: list[Any] | None = None
        self.tracked = tracked | {MERGE_KEY} if tracked else tracked
        self.anchors = Anchors(document, self.problems)

    def read(self, text: str) -> None:
        """Turn events into values; the one hot loop of loading, hence flat."""
        import yaml

        scalar_event, alias_event = yaml.ScalarEvent, yaml.AliasEvent
        mapping_start, sequence_start = yaml.MappingStartEvent, yaml.SequenceStartEvent
        mapping_end, sequence_end = yaml.MappingEndEvent, yaml.SequenceEndEvent
        document_start = yaml.DocumentStartEvent
        document, anchors = self.document, self.anchors
        detailed, tracked = document.is_detailed, self.tracked

        stack: list[
            tuple[Any, str | None, Any, list[Any] | None, list[Position] | None, str | None, Any, int, int]
        ] = []
        target: Any = None
        is_mapping = False
        key: str | None = None
        key_mark: Any = None
        merges: list[Any] | None = None
        marks: list[Position] = []
        positions: list[Position] | None = None
        anchor: str | None = None
        opened: Any = None
        nodes = height = documents = 0
        written = taken = 0
        bound = self.most_values
        streamed: list[Any] | None = None
        value: Any

        for event in _events(text):
            kind = type(event)
            written += 1
            oddity = None
            if written > bound:
                self.problems.report_size(self.most_values, opened, is_item=streamed is not None and len(stack) > 2)
                self.cut(stack, target, opened)
            if kind is scalar_event:
                value = event.value
                if len(value) > MAX_CHARACTERS:
                    self.problems.report_length(len(value), event)
                if is_mapping and key is None:
                    if event.tag is not None and event.tag not in _STR_TAGS:
                        self.problems.report_tag(event)
                    key, key_mark = value, event.start_mark
                    if value == MERGE_KEY and event.implicit[0]:
                        if merges is not None:
                            self.problems.report_second_merge(event)
                        merges = merges or []
                    elif value in target:
                        self.problems.report_duplicate(target, value, event)
                    if event.anchor is not None:
                        anchors.add(event.anchor, value, None)
                    continue
                if event.tag is not None:
                    if event.tag not in _STR_TAGS:
                        self.problems.report_tag(event)
                elif event.implicit[0]:
                    if value in WORDS:
                        value = WORDS[value]
                    elif value[0] in NUMERIC_STARTS:
                        value = read_number(value)
                        if type(value) is Oddity:
                            value, oddity = event.value, value
                if event.anchor is not None:
                    anchors.add(event.anchor, value, oddity)
                mark = event.start_mark
            elif kind is mapping_start or kind is sequence_start:
                if is_mapping and key is None:
                    self.problems.report_key(event)
                if event.tag is not None and not event.tag.startswith(
                    ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
                ):
                    self.problems.report_tag(event)
                if len(stack) >= MAX_DEPTH:
                    self.problems.report_depth(event)
                is_streamed = len(stack) == 1 and self.starts_stream(key, target, event)
                # The mappings of a list belong to its key: `<<` may name several.
                holder = key if is_mapping or not stack else stack[-1][1]
                stack.append((target, key, key_mark, merges, positions, anchor, opened, nodes, height))
                anchor, opened = event.anchor, event.start_mark
                if anchor is not None:
                    anchors.begin(anchor, opened)
                positions = [] if holder in tracked and kind is mapping_start else None
                nodes, height, key, merges = written + anchors.aliased, 0, None, None
                is_mapping = kind is mapping_start
                if is_mapping:
                    target = {}
                else:
                    target = []
                    marks = document.starts[id(target)] = []
                    if is_streamed:
                        streamed = self.streamed = target
                        document.keep(stack[-1][0])
                        document.keep(streamed)
                continue
            elif kind is mapping_end or kind is sequence_end:
                value, mark = target, opened
                if merges:
                    merge(document, self.problems, target, merges, positions)
                if positions is not None:
                    document.keys[id(target)] = positions
                if anchor is not None:
                    anchors.end(anchor, value, written + anchors.aliased - nodes, height + 1, mark)
                below = height + 1
                target, key, key_mark, merges, positions, anchor, opened, nodes, height = stack.pop()
                height = max(height, below)
                is_mapping = type(target) is dict
                if type(target) is list:
                    marks = document.starts[id(target)]
            elif kind is alias_event:
                found = anchors.follow(event, len(stack), written)
                value, oddity, mark = found.value, found.oddity, event.start_mark
                height = max(height, found.height)
                if is_mapping and key is None:
                    if type(value) is not str:
                        self.problems.report_key(event)
                    key, key_mark = value, mark
                    if value in target:
                        self.problems.report_duplicate(target, value, event)
                    continue
            elif kind is document_start:
                documents += 1
                if documents > 1:
                    self.problems.report_documents(event)
                continue
            else:
                continue

            if is_mapping:
                if merges is not None and key == MERGE_KEY:
                    merges.append((value, mark))
                elif detailed and key in target:
                    document.hold(value)
                else:
                    target[key] = value
                    if positions is not None:
                        positions.append(mark_position(key_mark))
                    elif key in tracked:
                        document.tracked[id(target), key] = mark_position(key_mark)
                    if oddity is not None:
                        document.odd[id(target), key] = oddity  # type: ignore[index]
                    if detailed:
                        scalar = event.value if kind is scalar_event else None
                        document.record(target, key, mark_position(key_mark), mark_position(mark), scalar)  # type: ignore[arg-type]
                key = None
            elif target is not None:
                if oddity is not None:
                    document.odd[id(target), len(target)] = oddity
                position = mark_position(mark)
                if detailed:
                    scalar = event.value if kind is scalar_event else None
                    document.record(target, len(target), position, position, scalar)
                target.append(value)
                marks.append(position)
                if streamed is not None and target is streamed:
                    bound = written + self.most_values
                    if len(streamed) >= _PART_ITEMS or written - taken > _PART_VALUES:
                        taken = written
                        self.hand_over()
            else:
                document.root = value

    def starts_stream(self, key: str | None, root: Any, event: Any) -> bool:
        """Whether the list that begins here is handed over in parts; one with an anchor is needed as a whole."""
        is_first = self.stream is not None and self.streamed is None and key == self.stream.key
        return is_first and type(root) is dict and key not in root and event.anchor is None

    def hand_over(self) -> None:
        """Hand over the items that were read since the last time, and forget them."""
        document, items = self.document, self.streamed
        if self.stream is None or not items:
            return
        root, document.root = document.root, {self.stream.key: items}
        try:
            self.stream.take(document)
        except StopReadingError:
            document.root = None
            raise
        document.root = root
        document.offset += len(items)
        items.clear()
        document.starts[id(items)].clear()
        if root is None:
            document.forget()

    def cut(self, stack: list[Any], target: Any, opened: Any) -> None:
        """Take what was read so far for the whole, so that the first problems in it are found."""
        document = self.document
        document.is_cut = True
        for parent, key, key_mark, _, _, _, parent_opened, *_ in reversed(stack):
            at = mark_position(opened)
            if isinstance(parent, list):
                document.record(parent, len(parent), at, at, None)
                document.starts[id(parent)].append(at)
                parent.append(target)
            elif isinstance(parent, dict) and key not in parent:
                document.record(parent, key, mark_position(key_mark), at, None)
                parent[key] = target
            if parent is not None:
                target, opened = parent, parent_opened
        document.root = target
        self.hand_over()
        raise StopReadingError

    def end_early(self, error: Exception, text: str) -> None:
        """Report an error of the YAML parser and keep what was read before it; re-raise anything else."""
        is_placed = self.problems.report_syntax(error, text)
        if is_placed:
            self.document.root = None
        if is_placed and self.streamed:
            # The mistake may be in what was taken for the end of the last item.
            self.document.starts[id(self.streamed)].pop()
            self.streamed.pop()


def _events(text: str) -> Iterator[Any]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    return iter(loader.get_event, None)


class Anchor(NamedTuple):
    """A value with a name."""

    value: Any
    oddity: Oddity | None  # what a text would be taken for elsewhere
    size: int  # how many values it holds, itself and those of its aliases among them
    height: int  # how many levels it nests


class Anchors:
    """The anchors that were read so far; an alias means the last one of its name that begins before it."""

    __slots__ = ("_anchored", "_anchors", "_document", "_open", "_problems", "aliased")

    def __init__(self, document: Document, problems: ProblemReporter) -> None:
        self.aliased = 0  # how many values aliases have added so far
        self._document = document
        self._problems = problems
        self._anchors: dict[str, Anchor] = {}
        self._open: dict[str, int] = {}
        self._anchored = 0

    def add(self, name: str, value: Any, oddity: Oddity | None) -> None:
        """Add the anchor of a scalar."""
        self._open.pop(name, None)
        self._anchors[name] = Anchor(value, oddity, 1, 0)

    def begin(self, name: str, mark: Any) -> None:
        """Note that the value of an anchor begins, a mapping or a list."""
        self._open[name] = mark.line

    def end(self, name: str, value: Any, size: int, height: int, mark: Any) -> None:
        """Add an anchor whose value has ended, unless one of its name began within it."""
        if self._open.pop(name, None) is None:
            return
        self._anchors[name] = Anchor(value, None, size, height)
        self._anchored += self._document.keep(value)
        if self._anchored > MAX_ANCHORED:
            self._problems.report_anchors(mark)

    def follow(self, event: Any, depth: int, written: int) -> Anchor:
        """Return what an alias points to, unless it expands to too much.

        `written`: how many values the file holds so far.
        """
        name = event.anchor
        if name in self._open:
            self._problems.report(
                rule.RECURSIVE_ALIAS,
                f"the alias *{name} is part of the value that it refers to (line {self._open[name] + 1})",
                event,
            )
            raise StopReadingError
        anchor = self._anchors.get(name)
        if anchor is None:
            self._problems.report(rule.UNKNOWN_ALIAS, f"the alias *{name} has no anchor &{name} before it", event)
            raise StopReadingError
        self.aliased += anchor.size
        limit = min(MAX_ALIASED + ALIASED_PER_NODE * written, MOST_ALIASED)
        if self.aliased > limit:
            self._problems.report(
                rule.ALIAS_BOMB,
                f"the aliases of this file expand to more than {limit:,} values; use fewer aliases",
                event,
            )
            raise StopReadingError
        if depth + anchor.height > MAX_DEPTH:
            self._problems.report_depth(event)
        return anchor
