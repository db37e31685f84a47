"""What a YAML file declares, which formatting must not change."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from quotaform.desired.value import parse_fitting
from quotaform.desired.yaml.document import Document, UnclearError
from quotaform.desired.yaml.reader import Stream, read_document
from quotaform.desired.yaml.scalar import Oddity
from quotaform.model.finding import Finding

_ENTRIES: Final = "quotas"


@dataclass(slots=True)
class Content:
    """The data of a file.

    Attributes:
        root: All but the entries.
        entries: The entries of `quotas`, in their order.
        odd: What another reader of YAML takes for something else, and how often.
        problems: What is wrong with it as YAML.
    """

    root: Any = None
    entries: list[Any] = field(default_factory=list)
    odd: Counter[tuple[str, Oddity]] = field(default_factory=Counter)
    problems: list[Finding] = field(default_factory=list)


def read_content(name: str, text: str) -> Content:
    """Read the content of a file; never raises, whatever it contains.

    Args:
        name: What messages call the file.
    """
    try:
        return _read(name, text, is_detailed=False)
    except UnclearError:
        return _read(name, text, is_detailed=True)


def _read(name: str, text: str, *, is_detailed: bool) -> Content:
    content = Content()

    def take(document: Document) -> None:
        root = document.root
        if isinstance(root, dict):
            content.entries += root[_ENTRIES]
        content.odd.update(_oddities(document))
        document.odd.clear()

    document = read_document(name, text, detailed=is_detailed, stream=Stream(_ENTRIES, take))
    content.root = document.root
    content.odd.update(_oddities(document))
    content.problems = document.problems
    return content


def _oddities(document: Document) -> list[tuple[str, Oddity]]:
    return [(key if isinstance(key, str) else "", oddity) for (_, key), oddity in document.odd.items()]


def is_same(one: Content, other: Content) -> bool:
    """Whether two files declare the same; the spelling of values and the order of keys may differ."""
    return (
        one.odd == other.odd
        and _is_same_node(one.root, other.root)
        and len(one.entries) == len(other.entries)
        and all(map(_is_same_node, one.entries, other.entries))
    )


def _is_same_node(one: Any, other: Any, key: str = "") -> bool:
    kind = type(one)
    if kind is not type(other):
        return _is_same_value(key, one, other)
    if kind is dict:
        return one.keys() == other.keys() and all(_is_same_node(node, other[name], name) for name, node in one.items())
    if kind is list:
        return len(one) == len(other) and all(map(_is_same_node, one, other))
    return one == other or _is_same_value(key, one, other)


def _is_same_value(key: str, one: Any, other: Any) -> bool:
    try:
        return parse_fitting(key, one, ()) == parse_fitting(key, other, ())
    except (KeyError, ValueError, TypeError):
        return False
