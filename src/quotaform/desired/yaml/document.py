"""What a YAML file holds, as plain Python values, and where it is written."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from quotaform.desired.yaml.scalar import Oddity, Scalar
from quotaform.model.finding import Finding
from quotaform.model.location import Location, Position

Node: TypeAlias = "Scalar | list[Any] | dict[str, Any]"


class Place(NamedTuple):
    """Where a value and its key are written (for an item of a list: the item twice), and the text of a scalar."""

    key: Location
    value: Location
    text: str | None


class UnclearError(Exception):
    """Something is wrong in a file that is read without details; read it again with them."""


class Document:
    """One YAML file.

    Attributes:
        name: The file's name in messages.
        root: Its content; `None` for an empty file.
        is_detailed: Whether places were recorded.
        problems: What is wrong with it as YAML; always empty when it was read without details.
        odd: Scalars that another reader takes for something else, by (id of container, key).
        places: Where everything is, by (id of container, key); only with details.
        starts: Where the items of a list begin, by its id.
        keys: Where the keys of a mapping are, in their order, by its id; of mappings at a tracked key.
        tracked: Where a tracked key is, by (id of container, key).
    """

    __slots__ = ("is_detailed", "kept", "keys", "name", "odd", "places", "problems", "root", "starts", "tracked")

    def __init__(self, name: str, *, is_detailed: bool) -> None:
        self.name = name
        self.root: Node = None
        self.is_detailed = is_detailed
        self.problems: list[Finding] = []
        self.odd: dict[tuple[int, str | int], Oddity] = {}
        self.places: dict[tuple[int, str | int], Place] = {}
        self.starts: dict[int, list[Position]] = {}
        self.keys: dict[int, list[Position]] = {}
        self.tracked: dict[tuple[int, str], Position] = {}
        self.kept: list[Any] = []

    def place(self, container: Node, key: str | int) -> Place:
        """Where something is written; the whole file when that was not recorded."""
        found = self.places.get((id(container), key))
        if found is None:
            everywhere = Location(self.name)
            return Place(everywhere, everywhere, None)
        return found

    def locate(self, path: tuple[str | int, ...]) -> Place:
        """Where the value at a path from the root is written."""
        here: Any = self.root
        place = Place(Location(self.name, 1, 1), Location(self.name, 1, 1), None)
        for step in path:
            place = self.places.get((id(here), step), place)
            here = here[step]
        return place
