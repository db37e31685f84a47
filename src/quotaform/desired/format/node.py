"""The syntax tree of a YAML file: nodes with their comments."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


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
