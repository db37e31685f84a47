"""Reads YAML text as a document, in one pass over the parser's events.

No node tree is built: a mapping and a list know where their values are written (`YamlMapping`, `YamlList`).

Everything has a limit. One long list at the root may be handed over in parts, so a file can be long; everything
else in it, and each item of that list, is limited in size. Aliases share their value, and the number of values to which
they would expand is limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

import yaml
from yaml import MarkedYAMLError
from yaml.reader import ReaderError

from quotaform.desired.tree import SourceFile, decode
from quotaform.desired.yaml.document import (
    NUMERIC_STARTS,
    WORDS,
    Document,
    Oddity,
    StopReadingError,
    YamlList,
    YamlMapping,
    read_number,
    syntax_hint,
)
from quotaform.model import rule
from quotaform.model.finding import Finding, Location
from quotaform.model.text import quote

MAX_DEPTH: Final = 100
"""How deep a file may nest, aliases included."""
MAX_ALIASED: Final = 100_000
"""How many nodes aliases may add to a file, before its own size counts."""
ALIASED_PER_NODE: Final = 10
"""How many more they may add per node that is written."""
MOST_ALIASED: Final = 1_000_000
"""How many they may add to any file."""
MAX_ANCHORED: Final = 20_000
"""How many values the anchors of a file may hold."""
MAX_VALUES: Final = 100_000
"""How many values an item of the streamed list may hold, and how many there may be outside that list, by default."""
MAX_CHARACTERS: Final = 100_000
"""How long a text may be."""

MERGE_KEY: Final = "<<"

_STR_TAGS: Final = frozenset({"!", "tag:yaml.org,2002:str"})


_STREAMED: Final = "quotas"
"""The list of the root that may be handed over in parts while a file is read."""

Take: TypeAlias = Callable[[Document], None]


def read_document(source: SourceFile, *, take: Take | None = None, most_values: int = MAX_VALUES) -> Document:
    """Read a YAML file; never raises, whatever it contains.

    `take` is called with the document whose root holds a part of the list `quotas` and nothing else, as often as
    another part was read; the list is empty in what is returned. It may raise `StopReadingError`. `most_values`: how
    many values an item of that list may hold, and how many there may be outside it.
    """
    document, text = Document(source.name), decode(source)
    if isinstance(text, Finding):
        document.add_finding(text)
        return document
    reader = _DocumentReader(document, take, most_values)
    with suppress(StopReadingError):
        try:
            reader.read(text)
        except yaml.YAMLError as error:
            reader.end_early(error, text)
        reader.hand_over()
    return document


class Anchor(NamedTuple):
    """A value with a name."""

    value: Any
    oddity: Oddity | None  # what a text would be taken for elsewhere
    size: int  # how many values it holds, itself and those of its aliases among them
    height: int  # how many levels it nests


class _DocumentReader:
    def __init__(self, document: Document, take: Take | None, most_values: int) -> None:
        self.document = document
        self.most_values = most_values
        self.take = take
        self.streamed: YamlList | None = None
        # The anchors that were read so far; an alias means the last one of its name that begins before it.
        self.anchors: dict[str, Anchor] = {}
        self.open: dict[str, tuple[int, int]] = {}  # those that go on: the line, and `aliased` where they begin
        self.anchored = 0  # how many values anchors hold
        self.aliased = 0  # how many values aliases have added

    def read(self, text: str) -> None:
        """Turn events into values; the one hot loop of loading, hence flat."""
        scalar_event, alias_event = yaml.ScalarEvent, yaml.AliasEvent
        mapping_start, sequence_start = yaml.MappingStartEvent, yaml.SequenceStartEvent
        mapping_end, sequence_end = yaml.MappingEndEvent, yaml.SequenceEndEvent
        document_start = yaml.DocumentStartEvent
        document = self.document

        stack: list[tuple[Any, str | None, Any, list[Any] | None, str | None, Any, int, int]] = []
        target: Any = None
        is_mapping = False
        key: Any = None
        key_mark: Any = None
        merges: list[Any] | None = None
        anchor: str | None = None
        opened: Any = None
        nodes = height = documents = 0
        written = taken = 0
        bound = self.most_values
        streamed: YamlList | None = None
        value: Any

        for event in read_events(text):
            kind = type(event)
            written += 1
            scalar = oddity = None
            if written > bound:
                what, remedy = "this file contains, besides its entries,", "divide it"
                if streamed is not None and len(stack) > 2:
                    what = "this entry contains"
                elif self.take is None:
                    what, remedy = "this file contains", "shorten it"
                document.stop(rule.TOO_LARGE, f"{what} more than {self.most_values:,} values; {remedy}", opened)
            if kind is scalar_event:
                value = scalar = event.value
                if len(value) > MAX_CHARACTERS:
                    document.stop(
                        rule.TOO_LARGE,
                        f"this text has {len(value):,} characters; at most {MAX_CHARACTERS:,} are allowed",
                        event.start_mark,
                    )
                if is_mapping and key is None:
                    if event.tag is not None and event.tag not in _STR_TAGS:
                        self.report_tag(event)
                    key, key_mark = value, event.start_mark
                    if value == MERGE_KEY and event.implicit[0]:
                        if merges is not None:
                            what = "the key << is written twice here; write one <<: [*first, *second]"
                            document.report(rule.DUPLICATE_KEY, what, key_mark)
                        merges = merges or []
                    elif value in target:
                        self.report_duplicate(target, value, key_mark)
                    if event.anchor is not None:
                        self.add_anchor(event.anchor, value, None)
                    continue
                if event.tag is not None:
                    if event.tag not in _STR_TAGS:
                        self.report_tag(event)
                elif event.implicit[0]:
                    if value in WORDS:
                        value = WORDS[value]
                    elif value[0] in NUMERIC_STARTS:
                        value = read_number(value)
                        if type(value) is Oddity:
                            value, oddity = scalar, value
                            document.has_odd = True
                if event.anchor is not None:
                    self.add_anchor(event.anchor, value, oddity)
                mark = event.start_mark
            elif kind is mapping_start or kind is sequence_start:
                if is_mapping and key is None:
                    self.stop_at_key(event)
                if event.tag is not None and not event.tag.startswith(
                    ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
                ):
                    self.report_tag(event)
                if len(stack) >= MAX_DEPTH:
                    stop_at_depth(document, event)
                is_list = kind is sequence_start
                # One with an anchor is needed as a whole.
                is_first = self.take is not None and streamed is None and key == _STREAMED
                is_streamed = is_first and is_list and len(stack) == 1 and key not in target and event.anchor is None
                stack.append((target, key, key_mark, merges, anchor, opened, nodes, height))
                anchor, opened = event.anchor, event.start_mark
                if anchor is not None:
                    self.open[anchor] = opened.line, self.aliased
                nodes, height, key, merges = written + self.aliased, 0, None, None
                is_mapping = not is_list
                target = YamlMapping() if is_mapping else YamlList()
                if is_streamed:
                    streamed = self.streamed = target
                continue
            elif kind is mapping_end or kind is sequence_end:
                value, mark = target, opened
                if merges:
                    self.merge(target, merges)
                if anchor is not None:
                    self.end_anchor(anchor, value, written + self.aliased - nodes, height + 1, mark)
                below = height + 1
                target, key, key_mark, merges, anchor, opened, nodes, height = stack.pop()
                height = max(height, below)
                is_mapping = type(target) is YamlMapping
            elif kind is alias_event:
                found = self.follow_alias(event, len(stack), written)
                value, oddity, mark = found.value, found.oddity, event.start_mark
                height = max(height, found.height)
                if is_mapping and key is None:
                    if type(value) is not str:
                        self.stop_at_key(event)
                    key, key_mark = value, mark
                    if value in target:
                        self.report_duplicate(target, value, mark)
                    continue
            elif kind is document_start:
                documents += 1
                if documents > 1:
                    what = "a second YAML document begins here; a file contains one"
                    document.stop(rule.MULTI_DOCUMENT, f"{what}, so remove the --- or make two files", event.start_mark)
                continue
            else:
                continue

            if is_mapping:
                if merges is not None and key == MERGE_KEY:
                    merges.append((value, mark))
                elif key not in target:
                    target[key] = value
                    target.spots[key] = key_mark, mark, scalar, oddity
                key = None
            elif target is not None:
                target.append(value)
                target.spots.append((mark, mark, scalar, oddity))
                if streamed is not None and target is streamed:
                    bound = written + self.most_values
                    if len(streamed) >= 500 or written - taken > 20_000:
                        taken = written
                        self.hand_over()
            else:
                document.root = value

    def merge(self, target: YamlMapping, merged: Iterable[tuple[Any, Any]]) -> None:
        """Add what `<<` names, with its marks, to a mapping; what is written out wins, then what is named first."""
        for value, mark in merged:
            for source in value if isinstance(value, list) else [value]:
                if not isinstance(source, YamlMapping):
                    what = "<< must be a mapping or a list of mappings, as in <<: *name"
                    self.document.report(rule.BAD_MERGE, what, mark)
                    continue
                for key, item in source.items():
                    if key not in target:
                        target[key] = item
                        target.spots[key] = source.spots[key]

    def hand_over(self) -> None:
        """Hand over the items that were read since the last time, and forget them."""
        document, items = self.document, self.streamed
        if self.take is None or not items:
            return
        root, document.root = document.root, {_STREAMED: items}
        try:
            self.take(document)
        except StopReadingError:
            document.root = None
            raise
        document.root = root
        document.offset += len(items)
        items.clear()
        items.spots.clear()

    def end_early(self, error: yaml.YAMLError, text: str) -> None:
        """Report an error of the YAML parser and keep what was read before it."""
        document = self.document
        if isinstance(error, ReaderError):
            before = text.encode()[: error.position].decode(errors="ignore").splitlines() or [""]
            location = Location(document.name, len(before), len(before[-1]) + 1)
            code = f"{error.character:04X}"
            what = f'the character U+{code} is not allowed in a file; write it as "\\u{code}", in double quotes'
            document.add_finding(rule.YAML_SYNTAX.finding(what, location=location))
            return
        if not isinstance(error, MarkedYAMLError):
            raise error
        location = document.location(error.problem_mark) if error.problem_mark else Location(document.name)
        begun = f" {error.context}" if error.context else ""
        if begun and error.context_mark:
            begun += f" that begins on line {error.context_mark.line + 1}"
        hint = syntax_hint(error, text)
        what = f"not valid YAML: {error.problem}{begun}{f'; {hint}' if hint else ''}"
        document.add_finding(rule.YAML_SYNTAX.finding(what, location=location))
        document.root = None
        if self.streamed:
            # The mistake may be in what was taken for the end of the last item.
            self.streamed.pop()
            self.streamed.spots.pop()

    def stop_at_key(self, event: Any) -> NoReturn:
        what = "a key must be text, not a mapping or a list; is {{ … }} a template that was not rendered?"
        self.document.stop(rule.BAD_KEY, what, event.start_mark)

    def report_tag(self, event: Any) -> None:
        self.document.report(rule.YAML_TAG, f"the tag {quote(event.tag)} is not supported; remove it", event.start_mark)

    def report_duplicate(self, target: YamlMapping, key: str, mark: Any) -> None:
        first = self.document.place(target, key).key
        self.document.report(rule.DUPLICATE_KEY, f"the key {quote(key)} is written twice; it is also at {first}", mark)

    def add_anchor(self, name: str, value: Any, oddity: Oddity | None) -> None:
        """Add the anchor of a scalar."""
        self.open.pop(name, None)
        self.anchors[name] = Anchor(value, oddity, 1, 0)

    def end_anchor(self, name: str, value: Any, size: int, height: int, mark: Any) -> None:
        """Add an anchor whose value has ended, unless one of its name began within it."""
        begun = self.open.pop(name, None)
        if begun is None:
            return
        self.anchors[name] = Anchor(value, None, size, height)
        self.anchored += size - (self.aliased - begun[1])
        if self.anchored > MAX_ANCHORED:
            what = f"the anchors of this file hold more than {MAX_ANCHORED:,} values; use fewer anchors"
            self.document.stop(rule.TOO_LARGE, what, mark)

    def follow_alias(self, event: Any, depth: int, written: int) -> Anchor:
        """Return what an alias points to, unless it expands to too much. `written`: the values of the file so far."""
        name, stop = event.anchor, self.document.stop
        if name in self.open:
            what = f"the alias *{name} is part of the value that it refers to (line {self.open[name][0] + 1})"
            stop(rule.RECURSIVE_ALIAS, what, event.start_mark)
        anchor = self.anchors.get(name)
        if anchor is None:
            stop(rule.UNKNOWN_ALIAS, f"the alias *{name} has no anchor &{name} before it", event.start_mark)
        self.aliased += anchor.size
        limit = min(MAX_ALIASED + ALIASED_PER_NODE * written, MOST_ALIASED)
        if self.aliased > limit:
            what = f"the aliases of this file expand to more than {limit:,} values; use fewer aliases"
            stop(rule.ALIAS_BOMB, what, event.start_mark)
        if depth + anchor.height > MAX_DEPTH:
            stop_at_depth(self.document, event)
        return anchor


LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""That of libyaml, if PyYAML has it."""


def read_events(text: str) -> Iterator[Any]:
    """Yield the events of a text as PyYAML parses it."""
    return iter(LOADER(text).get_event, None)


def stop_at_depth(document: Document, event: Any) -> NoReturn:
    """Report that something is nested too deeply."""
    document.stop(rule.TOO_DEEP, f"this is nested more than {MAX_DEPTH} levels deep", event.start_mark)
