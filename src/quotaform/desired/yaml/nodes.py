"""YAML as nodes with their comments, which ruamel.yaml writes.

ruamel.yaml keeps a comment with the value before it, which is wrong once entries are sorted. Here the position of a
comment determines what it belongs to:

| comment | belongs to |
| --- | --- |
| at the end of a line | the key, or the item of a list, that the line ends with |
| below such a comment, in the same column | the same |
| on its own line | the next key or item of the collection with the same indentation |
| the same, without a next key or item | the end of that collection |
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter, deque
from collections.abc import Iterator
from io import StringIO
from itertools import dropwhile
from re import compile as regex
from typing import Any, Final, NamedTuple

import yaml
from msgspec import Struct, field
from ruamel.yaml import YAML
from ruamel.yaml.anchor import Anchor
from ruamel.yaml.emitter import RoundTripEmitter
from ruamel.yaml.error import CommentMark
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.resolver import BaseResolver, VersionedResolver
from ruamel.yaml.tag import Tag
from ruamel.yaml.tokens import CommentToken

from quotaform.desired.writer import MOST_COLUMNS, quote_scalar
from quotaform.desired.yaml.reader import LOADER, read_events

ALIAS: Final = "*"
"""The style of a scalar that is an alias; its value is how it is written."""
_BLOCKS: Final = ("|", ">")
_INDENT: Final = 2
_COMMENT: Final = regex("#[^\n\x85\u2028\u2029]*")
_FOLD: Final = regex(r"\a(?! \S)")
"""Where it is noted that a folded text goes on in the next line, and ruamel.yaml cannot write that."""
_GAP: Final = regex(r"&[^\s,\[\]{}]+(?:\s+(?:#[^\n]*)?)*").match
"""An anchor, and what comes before what it is of."""
_PRELUDE: Final = regex(r"(?:(?:[%#][^\n]*|[ \t]*)\n)*---(?=\s|\Z)").match


class Notes(Struct):
    """The comments of a node, as lines; an empty line above one is a line, too."""

    before: list[str] = field(default_factory=list)  # above a key or an item
    trailing: list[str] = field(default_factory=list)  # at the end of its line
    closing: list[str] = field(default_factory=list)  # between the last item of a collection and its end


def notes(node: Node) -> Notes:
    """Return the comments of a node, which may be changed."""
    if node.comment is None:
        node.comment = Notes()
    found: Notes = node.comment
    return found


class NodeFile(Struct):
    """A file as nodes. `prelude` is what stands above its body, up to `---`; `root` is `None` when that is empty."""

    prelude: list[str]
    body: str  # what the positions of nodes are in
    root: Any
    tail: list[str]  # the comments of a file without content


class _TextResolver(VersionedResolver):
    """Resolves every scalar as text: its type is decided elsewhere."""

    versioned_resolver: dict[str, Any] = {}  # noqa: RUF012


class _Emitter(RoundTripEmitter):
    MAX_SIMPLE_KEY_LENGTH = 1024

    def choose_scalar_style(self) -> Any:
        style, value = self.event.style, self.event.value
        return "" if style == ALIAS or not (style or value) else super().choose_scalar_style()

    def write_double_quoted(self, text: str, split: Any = True) -> None:
        self.write_indicator(quote_scalar(text), need_whitespace=True)


def is_block(node: Node) -> bool:
    """Whether a node is a collection with items that is written on lines of its own."""
    return isinstance(node, CollectionNode) and not node.flow_style and bool(node.value)


def pairs(node: Node) -> list[tuple[Node, Node]]:
    """Return the keys and values of a mapping, or each item of a list twice."""
    return node.value if isinstance(node, MappingNode) else [(item, item) for item in node.value]


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all in it, in their order."""
    yield node
    if isinstance(node, CollectionNode):
        for head, value in pairs(node):
            if head is not value:
                yield from walk(head)
            yield from walk(value)


class _Comment(NamedTuple):
    start: int
    line: int  # where its line begins
    text: str
    is_own: bool  # whether nothing else is on its line
    has_blank: bool  # whether the line above it is empty


def _comments(text: str) -> Iterator[_Comment]:
    """Yield the comments: what is between tokens, and in the first line of a block scalar."""
    end = 0
    for token in yaml.scan(text, Loader=LOADER):
        start = token.start_mark.index
        begins_block = isinstance(token, yaml.ScalarToken) and token.style in _BLOCKS
        spans = [(end, start), (start, text.find("\n", start))] if begins_block else [(end, start)]
        for begin, stop in spans:
            for found in _COMMENT.finditer(text, begin, stop):
                line = _line(text, found.start())
                is_own = not text[line : found.start()].strip(" \t-?:")
                yield _Comment(found.start(), line, found[0].rstrip(), is_own, _is_below_blank(text, line))
        end = token.end_mark.index


def find_comments(text: str) -> Counter[str]:
    """Return the comments of a file, which must be valid YAML, and how often each is in it."""
    return Counter(comment.text for comment in _comments(text))


def _line(text: str, index: int) -> int:
    return text.rfind("\n", 0, index) + 1


def _is_below_blank(text: str, line: int) -> bool:
    return line > 0 and not text[_line(text, line - 1) : line].strip()


class _Attacher:
    """Gives comments to the nodes that they belong to."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.queue = deque(_comments(text))

    def attach(self, node: Node, until: int, outer: int) -> None:
        """Give comments to the items of a collection on lines of its own.

        `until`: where the next item after the collection begins. `outer`: the column of the collection around it; -1
        for the root.
        """
        start = node.start_mark.index
        start = found.end() if (found := _GAP(self.text, start)) else start
        column = start - _line(self.text, start)
        least = max(column, outer + 1) if outer >= 0 else 0
        if self.text[start] in "[{":
            least, until = 0, min(until, node.end_mark.index)
        items = pairs(node)
        stops = [head.start_mark.index for head, _ in items[1:]] + [until]
        for place, ((head, value), stop) in enumerate(zip(items, stops, strict=True)):
            self.take_above(head, is_first=place == 0)
            if is_block(value):
                self.take_trailing(head, pairs(value)[0][0].start_mark.index)
                self.attach(value, stop, column)
            else:
                is_empty = value.start_mark.index == value.end_mark.index
                end = (head if is_empty else value).end_mark.index
                while self.queue and self.queue[0].start < end:
                    comment = self.queue.popleft()
                    (notes(head).before if comment.is_own else notes(head).trailing).append(comment.text)
            self.take_trailing(head, stop)
        while self.queue and self.queue[0].start < until and self.queue[0].start - self.queue[0].line >= least:
            notes(node).closing += self.lines(self.queue.popleft())

    def lines(self, comment: _Comment) -> list[str]:
        return ["", comment.text] if comment.has_blank else [comment.text]

    def take_above(self, head: Node, *, is_first: bool) -> None:
        start = head.start_mark.index
        lines: list[str] = []
        while self.queue and self.queue[0].start < start:
            lines += self.lines(self.queue.popleft())
        line = _line(self.text, start)
        if _is_below_blank(self.text, line) and not self.text[line:start].strip(" \t-?"):
            lines.append("")
        while is_first and lines and not lines[0]:
            del lines[0]
        if lines:
            notes(head).before = lines

    def take_trailing(self, head: Node, stop: int) -> None:
        """Take the comment at the end of a line, and those below it in the same column."""
        below = None
        while self.queue and self.queue[0].start < stop:
            comment = self.queue[0]
            if comment.is_own and below != (comment.line, comment.start - comment.line):
                break
            below = comment.start + len(comment.text) + 1, comment.start - comment.line
            notes(head).trailing.append(comment.text)
            self.queue.popleft()


def _compose(text: str) -> Node | None:
    """Return the root of a text; every scalar is a text, and an alias is left as it is written.

    PyYAML reads it, of which libyaml does most, in a tenth of the time that ruamel.yaml takes.
    """
    levels: list[list[Any]] = [[]]
    begun: list[Any] = []
    node: Node
    for event in read_events(text):
        anchor, start, end = getattr(event, "anchor", None), event.start_mark, event.end_mark
        if isinstance(event, yaml.CollectionStartEvent):
            begun.append(event)
            levels.append([])
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            first, content = begun.pop(), levels.pop()
            kind: type[CollectionNode] = SequenceNode
            tag = BaseResolver.DEFAULT_SEQUENCE_TAG
            if isinstance(event, yaml.MappingEndEvent):
                kind, tag = MappingNode, BaseResolver.DEFAULT_MAPPING_TAG
                content = list(zip(content[::2], content[1::2], strict=True))
            node = kind(_tag(first, tag), content, first.start_mark, end, first.flow_style, anchor=first.anchor)
        elif isinstance(event, yaml.ScalarEvent):
            is_folded = event.style == ">"
            value = _with_folds(event.value, text[start.index : end.index]) if is_folded else event.value
            tag = _tag(event, BaseResolver.DEFAULT_SCALAR_TAG)
            node = ScalarNode(tag, value, start, end, event.style or None, anchor=anchor)
        elif isinstance(event, yaml.AliasEvent):
            node = ScalarNode(BaseResolver.DEFAULT_SCALAR_TAG, f"*{anchor}", start, end, ALIAS)
        else:
            continue
        levels[-1].append(node)
    return next(iter(levels[0]), None)


def _tag(event: Any, usual: Tag) -> Tag:
    return usual if event.tag in (None, "!") else Tag(suffix=event.tag)


def _with_folds(value: str, written: str) -> str:
    """Return a folded text with a sign, as ruamel.yaml makes it, wherever it goes on in the next line."""
    end = 0
    for line in written.split("\n")[1:]:
        text = line.lstrip(" ")
        found = value.find(text, end)
        if not text or found < 0:
            continue
        end = found + len(text)
        if value[end : end + 1] == " ":
            value = f"{value[:end]}\a{value[end:]}"
    return value


def read_nodes(text: str) -> NodeFile:
    """Read a file, which must be valid YAML."""
    found = _PRELUDE(text)
    prelude = [line.rstrip() for line in found[0].split("\n") if line.strip()] if found else []
    body = text[found.end() :] if found else text
    attacher = _Attacher(body)
    starts = [comment.start for comment in attacher.queue]
    root = _compose(body)
    for node in walk(root) if root is not None else ():
        node.comment = None
        if isinstance(node, CollectionNode) and node.flow_style:
            place = bisect(starts, node.start_mark.index)
            has_comment = place < len(starts) and starts[place] < node.end_mark.index
            node.flow_style = not node.value or not (has_comment or node is root)
    if root is not None and is_block(root):
        attacher.attach(root, len(body), -1)
    return NodeFile(prelude, body, root, [line for comment in attacher.queue for line in attacher.lines(comment)])


def write_nodes(file: NodeFile) -> str:
    """Write a file, which is not used any more then. Raises `ruamel.yaml.error.YAMLError`: it cannot be written."""
    stream = StringIO()
    if file.root is not None:
        offset = _INDENT if isinstance(file.root, MappingNode) else 0
        _dress(file.root, 0, offset)
        writer: Any = YAML()
        writer.Resolver, writer.Emitter = _TextResolver, _Emitter
        writer.width = 1 << 30
        writer.brace_single_entry_mapping_in_flow_sequence = True
        writer.indent(mapping=_INDENT, sequence=_INDENT + offset, offset=offset)
        writer.serialize(file.root, stream)
    written = stream.getvalue().removesuffix("...\n").rstrip("\n")
    return "".join([f"{line}\n" for line in (*file.prelude, *file.tail, *([written] if written else ()))])


def _dress(node: Node, indent: int, offset: int) -> None:
    """Lay out a node and all in it, and hand over its comments as ruamel.yaml writes them.

    `indent`: how far it is indented. `offset`: how much further the `-` of a list is.
    """
    own = node.comment or Notes()
    node.comment = [None, None]
    if not is_block(node):
        for part in walk(node):
            _prepare(part)
        return
    _prepare(node)
    is_mapping = isinstance(node, MappingNode)
    column = indent if is_mapping else indent + offset
    for head, value in pairs(node):
        if isinstance(value, CollectionNode) and value.flow_style and value.value:
            # It goes on lines of its own if there is no room for it.
            room = MOST_COLUMNS - column - _INDENT - (len(head.value) if is_mapping else 0)
            value.flow_style = _width(value, room) <= room
        found = _settle(head, value)
        if is_mapping:
            _prepare(head)
            head.comment = None
        _dress(value, indent if is_mapping and not isinstance(value, MappingNode) else column + _INDENT, offset)
        if found.trailing:
            value.comment[0] = CommentToken(f" {found.trailing[0]}\n", CommentMark(0))
        if found.before and is_mapping:
            head.comment = [None, [_token(found.before, column)]]
        elif found.before:
            value.comment[1] = [_token(found.before, column)]
    if own.closing:
        node.comment.append([_token(own.closing, column)])


def _settle(head: Node, value: Node) -> Notes:
    """Move comments that cannot stand in the line of a key or item above it, also those within an item; return them."""
    found = notes(head)
    is_item = head is value and is_block(value)
    if is_item or len(found.trailing) > 1 or (isinstance(value, ScalarNode) and value.style in (ALIAS, *_BLOCKS)):
        found.before += found.trailing
        found.trailing = []
    if is_item:
        first = _settle(*pairs(value)[0])
        found.before += dropwhile(lambda line: not line, first.before)
        first.before = []
    return found


def _token(lines: list[str], column: int) -> CommentToken:
    pad = " " * column
    return CommentToken("".join([f"{pad}{line}\n" if line else "\n" for line in lines]), CommentMark(0))


def _prepare(node: Node) -> None:
    """Prepare a node for ruamel.yaml, which else leaves out anchors without an alias."""
    if node.anchor is not None:
        anchor = Anchor()
        anchor.value, anchor.always_dump = node.anchor, True
        node.anchor = anchor
    if not isinstance(node, ScalarNode):
        return
    if node.style == ">":
        node.value = _FOLD.sub("", node.value)
    if node.style in _BLOCKS and (node.value == "\n" or node.value.endswith("\n\n")):
        # What it is depends on the lines after it.
        node.style, node.value = '"', node.value.replace("\a", "")


def _width(node: Node, room: int) -> int:
    """Return how many characters a node takes on one line; more than there is room for if it takes several lines."""
    width = len(node.anchor) + 2 if node.anchor else 0
    if isinstance(node, ScalarNode):
        if node.style == '"':
            return width + len(quote_scalar(node.value))
        if "\n" in node.value or node.style in _BLOCKS:
            return room + 1
        return width + len(node.value) + (2 + node.value.count("'") if node.style == "'" else 0)
    width += 2 * len(node.value)
    for head, value in pairs(node):
        width += _width(value, room - width) + (_width(head, room - width) + 2 if head is not value else 0)
        if width > room:
            break
    return width
