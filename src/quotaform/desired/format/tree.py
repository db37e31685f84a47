"""The syntax tree of a YAML file, nodes with their comments, and its parser.

libyaml's tokens do not include comments, which are found in the gaps between tokens. The position of a comment
determines the node that it belongs to:

| comment | belongs to |
| --- | --- |
| at the end of a line | the key, or the item of a list, that the line ends with |
| below such a comment, in the same column | the same |
| on its own line | the next key or item of the collection with the same indentation |
| the same, without a next key or item | the end of that collection |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from re import compile as regex
from typing import Any, Final


class Kind(Enum):
    """What a node is."""

    SCALAR = "scalar"
    ALIAS = "alias"
    MAPPING = "mapping"
    SEQUENCE = "sequence"


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment.

    Attributes:
        text: From its `#` on, without white space at the end.
        column: Where it begins in its line, from 0 on.
        has_blank: Whether the line before it is empty.
    """

    text: str
    column: int = 0
    has_blank: bool = False


@dataclass(slots=True)
class Node:
    """A node of the tree; styles change it in place.

    Attributes:
        column: Where it begins in its line, from 0 on.
        raw: A scalar or an alias as it is written, which may be several lines.
        value: What a scalar stands for, as text.
        is_plain: Whether a scalar is written without quotes.
        in_flow: Whether it is written within `[]` or `{}`.
        is_flow: Whether a collection is to be written as `[]` or `{}` if that fits.
        is_spaced: Whether there is to be an empty line between the items of a sequence.
        props: The anchor and the tag before it, as they are written.
        items: What a collection holds.
        closing: The comments between the last item of a collection and its end.
    """

    kind: Kind
    column: int = 0
    raw: str = ""
    value: str = ""
    is_plain: bool = False
    in_flow: bool = False
    is_flow: bool = False
    is_spaced: bool = False
    props: tuple[str, ...] = ()
    items: list[Item] = field(default_factory=list)
    closing: list[Comment] = field(default_factory=list)
    is_collection: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_collection = self.kind is Kind.MAPPING or self.kind is Kind.SEQUENCE


@dataclass(slots=True)
class Item:
    """A key and its value, or an item of a sequence.

    Attributes:
        key: The key; `None` in a sequence.
        value: The value; `None` when nothing is written.
        before: The comments on the lines above it.
        trailing: The comments that end a line of it.
        has_blank: Whether the line above it is empty.
    """

    key: Node | None = None
    value: Node | None = None
    before: list[Comment] = field(default_factory=list)
    trailing: list[Comment] = field(default_factory=list)
    has_blank: bool = False

    @property
    def name(self) -> str | None:
        """The key when it is a text."""
        return self.key.value if self.key is not None and self.key.kind is Kind.SCALAR else None


@dataclass(slots=True)
class Tree:
    """A file.

    Attributes:
        head: The lines before `---`: directives and comments.
        has_start: Whether there is a `---`.
        root: Its content; `None` when there is none.
        tail: The comments of a file without content.
    """

    head: list[str] = field(default_factory=list)
    has_start: bool = False
    root: Node | None = None
    tail: list[Comment] = field(default_factory=list)
    comments: int = 0
    has_anchors: bool = False


_BLANK: Final = regex(r"(?:^|\n)(?:[^\S\n]*[ \t])?(?=\n)").finditer
"""The lines that are empty, each up to its end."""
_COMMENT: Final = regex("#[^\n\x85\u2028\u2029]*").match


class UnformattableError(Exception):
    """A file is YAML, and holds what this module does not read."""


def read_tree(text: str) -> Tree:
    """Read a file.

    Args:
        text: Its content, which must be valid YAML with `\\n` as line ends.

    Raises:
        UnformattableError: It holds what is not read: a value without a key.
    """
    return _Parser(text).read()


class _Parser:
    """A parser of tokens by recursive descent, along the grammar of libyaml."""

    def __init__(self, text: str) -> None:
        import yaml

        self.text = text
        self.below_blanks = {found.end() + 1 for found in _BLANK(text)}
        self.tree = Tree()
        self.next: Callable[[], Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text).get_token
        self.pending: list[Comment] = []
        self.owner: Item | None = None
        self.aligned: tuple[int, int] | None = None
        self.end = 0
        self.hash = self.find_hash(0)
        self.token: Any = None
        self.kind: type[Any] = type(None)
        self.start = 0
        tokens = yaml.tokens
        self.key, self.colon, self.dash, self.comma = (
            tokens.KeyToken,
            tokens.ValueToken,
            tokens.BlockEntryToken,
            tokens.FlowEntryToken,
        )
        self.block_end = tokens.BlockEndToken
        self.scalar, self.props = tokens.ScalarToken, (tokens.AnchorToken, tokens.TagToken)
        self.anchor, self.directive = tokens.AnchorToken, tokens.DirectiveToken
        self.document_start, self.document_end = tokens.DocumentStartToken, tokens.DocumentEndToken
        self.stream_end = tokens.StreamEndToken
        self.readers: dict[type[Any], Callable[[Item | None], Node]] = {
            tokens.AliasToken: self.read_alias,
            tokens.BlockMappingStartToken: self.read_block_mapping,
            tokens.BlockSequenceStartToken: self.read_block_sequence,
            tokens.FlowMappingStartToken: lambda holder: self.read_flow(holder, tokens.FlowMappingEndToken),
            tokens.FlowSequenceStartToken: lambda holder: self.read_flow(holder, tokens.FlowSequenceEndToken),
        }
        self.flow_ends = (tokens.FlowMappingEndToken, tokens.FlowSequenceEndToken)
        self.flow_mapping_end = tokens.FlowMappingEndToken
        self.depth = 0

    def read(self) -> Tree:
        self.advance()  # the start of the stream
        self.advance()
        while self.kind is self.directive:
            self.tree.head += [comment.text for comment in self.take_pending()]
            self.tree.head.append(self.raw().rstrip())
            self.advance()
        if self.kind is self.document_start:
            self.tree.head += [comment.text for comment in self.take_pending()]
            self.tree.has_start = True
            self.advance()
        if self.kind not in (self.document_end, self.stream_end):
            self.tree.root = self.read_node(None)
        while self.kind is not self.stream_end:
            self.owner = None
            self.advance()
        root = self.tree.root
        if root is not None and root.is_collection:
            root.closing += self.take_pending()
        self.tree.tail = self.take_pending()
        return self.tree

    def advance(self) -> None:
        """Go to the next token, and take up the comments before it."""
        token = self.token = self.next()
        self.kind = type(token)
        self.start = start = token.start_mark.index
        if self.hash < start:
            self.take_comments(start)
        self.end = token.end_mark.index

    def take_comments(self, start: int) -> None:
        """Take up the comments between the last token and the one that begins somewhere."""
        if self.hash < self.end:
            self.hash = self.find_hash(self.end)
        while self.hash < start:
            self.take_comment(self.hash)

    def find_hash(self, begin: int) -> int:
        """Return where the next `#` is, or the end of the text."""
        found = self.text.find("#", begin)
        return found if found >= 0 else len(self.text) + 1

    def take_comment(self, begin: int) -> None:
        """Give a comment to what it belongs to, or keep it for what comes next."""
        found = _COMMENT(self.text, begin)
        if found is None:  # pragma: no cover - a `#` is there
            raise UnformattableError
        line = self.text.rfind("\n", 0, begin) + 1
        comment = Comment(found[0].rstrip(), begin - line, line in self.below_blanks)
        self.tree.comments += 1
        self.hash = self.find_hash(found.end())
        is_own_line = not self.text[line:begin].strip(" \t")
        below = self.aligned == (line, comment.column)
        self.aligned = None
        if self.owner is not None and (below or not is_own_line):
            self.owner.trailing.append(comment)
            self.aligned = found.end() + 1, comment.column
        else:
            self.pending.append(comment)

    def raw(self) -> str:
        """Return the token as it is written."""
        return self.text[self.start : self.token.end_mark.index]

    def take_pending(self) -> list[Comment]:
        """Return the comments that belong to nothing yet."""
        comments, self.pending = self.pending, []
        return comments

    def open_item(self) -> Item:
        """Return a new item, which begins at this token."""
        item = Item()
        if self.pending:
            item.before = self.take_pending()
        if self.below_blanks and not self.depth:
            item.has_blank = self.text.rfind("\n", 0, self.start) + 1 in self.below_blanks
        self.owner = item
        return item

    def read_node(self, holder: Item | None, *, is_indentless: bool = False) -> Node | None:
        """Read a node.

        Args:
            holder: The item that it is a part of.
            is_indentless: Whether a list may begin here that is not indented.
        """
        if self.kind is self.scalar:
            return self.read_scalar(holder)
        props: tuple[str, ...] = ()
        while self.kind in self.props:
            self.tree.has_anchors = True
            props += (self.raw(),)
            self.advance()
        if self.kind is self.scalar:
            node = self.read_scalar(holder)
        elif self.kind in self.readers:
            node = self.readers[self.kind](holder)
        elif self.kind is self.dash and is_indentless:
            node = self.read_indentless(holder)
        elif props:
            node = Node(Kind.SCALAR, is_plain=True)
        else:
            return None
        if props:
            node.props = props
        return node

    def read_scalar(self, holder: Item | None) -> Node:
        if self.pending:
            self.claim(holder)
        token = self.token
        # By position: there are very many.
        node = Node(Kind.SCALAR, 0, self.text[self.start : self.end], token.value, token.plain, self.depth > 0)
        self.advance()
        return node

    def read_alias(self, holder: Item | None) -> Node:
        self.claim(holder)
        self.tree.has_anchors = True
        node = Node(Kind.ALIAS, raw=self.raw())
        self.advance()
        return node

    def claim(self, holder: Item | None) -> None:
        """Let the comments between a key and its value stand above both."""
        if self.pending and holder is not None:
            holder.before += self.take_pending()

    def read_block_mapping(self, holder: Item | None) -> Node:
        node = Node(Kind.MAPPING, column=self.token.start_mark.column)
        self.advance()
        advance, key, colon, scalar, items = self.advance, self.key, self.colon, self.scalar, node.items
        while self.kind is key:
            item = self.open_item()
            advance()
            item.key = self.read_scalar(item) if self.kind is scalar else self.read_key(item)
            if self.kind is colon:
                advance()
                item.value = self.read_scalar(item) if self.kind is scalar else self.read_node(item, is_indentless=True)
            items.append(item)
        return self.close_block(node)

    def read_block_sequence(self, holder: Item | None) -> Node:
        node = Node(Kind.SEQUENCE, column=self.token.start_mark.column)
        self.advance()
        self.read_dashes(node)
        return self.close_block(node)

    def read_indentless(self, holder: Item | None) -> Node:
        node = Node(Kind.SEQUENCE, column=self.token.start_mark.column)
        self.read_dashes(node)
        self.take_closing(node, node.column + 1)
        return node

    def read_dashes(self, node: Node) -> None:
        while self.kind is self.dash:
            item = self.open_item()
            self.advance()
            if self.kind is not self.dash:
                item.value = self.read_node(item)
            node.items.append(item)

    def close_block(self, node: Node) -> Node:
        if self.kind is not self.block_end:
            raise UnformattableError
        self.take_closing(node, node.column)
        self.advance()
        return node

    def take_closing(self, node: Node, column: int) -> None:
        """Give a collection the comments at its end that are indented at least as far as a column."""
        if self.pending:
            end = next((place for place, each in enumerate(self.pending) if each.column < column), len(self.pending))
            node.closing += self.pending[:end]
            self.pending = self.pending[end:]

    def read_flow(self, holder: Item | None, end: type[Any]) -> Node:
        self.claim(holder)
        is_mapping = end is self.flow_mapping_end
        node = Node(Kind.MAPPING if is_mapping else Kind.SEQUENCE, in_flow=self.depth > 0, is_flow=True)
        self.depth += 1
        self.advance()
        while self.kind is not end:
            if self.kind is self.comma:
                self.advance()
                continue
            item = self.open_item()
            if self.kind is not self.key:
                item.key, item.value = (self.read_key(item), None) if is_mapping else (None, self.read_node(item))
                if item.key is item.value is None:
                    raise UnformattableError
            elif is_mapping:
                self.read_pair(item)
            else:
                pair = Item()
                item.value = Node(Kind.MAPPING, in_flow=True, is_flow=True, items=[pair])
                self.read_pair(pair)
            node.items.append(item)
        self.depth -= 1
        node.closing = self.take_pending()
        self.owner = holder
        self.advance()
        return node

    def read_pair(self, item: Item) -> None:
        self.advance()
        item.key = self.read_key(item)
        if self.kind is self.colon:
            self.advance()
            item.value = self.read_node(item)

    def read_key(self, item: Item) -> Node:
        key = self.read_scalar(item) if self.kind is self.scalar else self.read_node(item)
        if key is None or key.is_collection:
            raise UnformattableError
        return key
