"""The content of a YAML file as plain Python values, and the location of each."""

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


class StopReadingError(Exception):
    """The rest of a file is not read: it cannot be, it is too large, or enough problems were found."""


class Document:
    """One YAML file, or the part of it that was read last.

    A long list may be handed over in parts while it is read (see `read_document`): then `root` holds one part of it
    at a time, and `offset` says how many items came before.

    Attributes:
        name: The file's name in messages.
        root: Its content; `None` for an empty file.
        is_detailed: Whether places were recorded.
        is_cut: Whether `root` ends where the reader gave up, because something is too large.
        offset: How many items of the list were handed over before those in `root`.
        problems: What is wrong with it as YAML; always empty when it was read without details.
        odd: Scalars that another reader takes for something else, by (id of container, key).
        starts: Where the items of a list begin, by its id.
        keys: Where the keys of a mapping are, in their order, by its id; of mappings at a tracked key.
        tracked: Where a tracked key is, by (id of container, key).
    """

    __slots__ = (
        "_held",
        "_kept",
        "_places",
        "is_cut",
        "is_detailed",
        "keys",
        "name",
        "odd",
        "offset",
        "problems",
        "root",
        "starts",
        "tracked",
    )

    def __init__(self, name: str, *, is_detailed: bool) -> None:
        self.name = name
        self.root: Node = None
        self.is_detailed = is_detailed
        self.is_cut = False
        self.offset = 0
        self.problems: list[Finding] = []
        self.odd: dict[tuple[int, str | int], Oddity] = {}
        self.starts: dict[int, list[Position]] = {}
        self.keys: dict[int, list[Position]] = {}
        self.tracked: dict[tuple[int, str], Position] = {}
        self._places: dict[tuple[int, str | int], tuple[Position, Position, str | None]] = {}
        self._held: list[Any] = []
        self._kept: dict[int, Any] = {}

    def record(self, container: Node, key: str | int, at_key: Position, at: Position, text: str | None) -> None:
        """Note where something is written."""
        self._places[id(container), key] = (at_key, at, text)

    def repeat(self, source: dict[str, Any], target: dict[str, Any], key: str) -> None:
        """Note that something in a mapping comes from another one (a merge key)."""
        tables: tuple[dict[Any, Any], ...] = (self.tracked, self.odd, self._places)
        for table in tables:
            if (id(source), key) in table:
                table[id(target), key] = table[id(source), key]

    def hold(self, node: Node) -> None:
        """Keep a node that is not part of the root, so that its id is not used again before `forget`."""
        self._held.append(node)

    def keep(self, node: Node) -> int:
        """Keep what is known about a node and everything in it when the rest is forgotten.

        Returns:
            The number of values that are kept now and were not before.
        """
        count, pending = 0, [node]
        while pending:
            here = pending.pop()
            if isinstance(here, dict | list) and id(here) not in self._kept:
                self._kept[id(here)] = here
                count += len(here)
                pending += here.values() if isinstance(here, dict) else here
        return count

    def forget(self) -> None:
        """Forget the places of what is not kept: ids of containers that are gone are used again."""
        kept = self._kept
        self.odd = {key: value for key, value in self.odd.items() if key[0] in kept}
        self.tracked = {key: value for key, value in self.tracked.items() if key[0] in kept}
        self._places = {key: value for key, value in self._places.items() if key[0] in kept}
        self.starts = {key: value for key, value in self.starts.items() if key in kept}
        self.keys = {key: value for key, value in self.keys.items() if key in kept}
        self._held.clear()

    def place(self, container: Node, key: str | int) -> Place:
        """Where something is written; the whole file when that was not recorded."""
        return self._place(id(container), key) or Place(Location(self.name), Location(self.name), None)

    def odd_places(self) -> list[tuple[int, str | int, Oddity, Place]]:
        """Return every odd scalar: the id of its container, its key, what it is taken for, and where it is."""
        everywhere = Place(Location(self.name), Location(self.name), None)
        return [
            (container, key, oddity, self._place(container, key) or everywhere)
            for (container, key), oddity in self.odd.items()
        ]

    def locate(self, path: tuple[str | int, ...]) -> Place:
        """Where the value at a path from the root is written."""
        here: Any = self.root
        place = Place(Location(self.name, 1, 1), Location(self.name, 1, 1), None)
        for step in path:
            place = self._place(id(here), step) or place
            here = here[step]
        return place

    def _place(self, container: int, key: str | int) -> Place | None:
        found = self._places.get((container, key))
        if found is None:
            return None
        return Place(Location.at(self.name, found[0]), Location.at(self.name, found[1]), found[2])
