"""A declared entity: its values and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from quotaform.model.entity import Entity
from quotaform.model.location import Location, Position
from quotaform.model.quotas import Values

STATE_ABSENT: Final = "state: absent"
"""The spelling in files for an entity that must not exist."""


class Cause(StrEnum):
    """Why an entity has its desired state.

    | cause | the files | the entity |
    | --- | --- | --- |
    | entry | declare values | has these values |
    | tombstone | say `state: absent` | must not exist |
    | expired | declare values that have expired | must not exist |
    | undeclared | do not mention it | is pruned |
    | revert | may say anything | gets back the values from before an apply |
    """

    ENTRY = "entry"
    TOMBSTONE = "tombstone"
    EXPIRED = "expired"
    UNDECLARED = "undeclared"
    REVERT = "revert"


class LayerFile(NamedTuple):
    """A file and the cluster that it is for; `None` for all."""

    name: str
    layer: str | None = None


class ProfileUse(NamedTuple):
    """A `profile:` of an entry: the profile's name, and where the word `profile` is."""

    name: str
    position: Position


class Provenance(NamedTuple):
    """Where a declared value comes from.

    Attributes:
        location: The key in the file, or the `profile:` that gives it.
        layer: The cluster whose own file it is in; `None` for a common file.
    """

    location: Location
    layer: str | None = None
    profile: str | None = None


ValuePlace: TypeAlias = "Position | ProfileUse | Provenance"
"""Where a value of an entry comes from: a place in the entry's own file, its profile, or anything else."""


class Entry(NamedTuple):
    """One declared entity: what one file says, or all layers together.

    There is one for every entity of every file, so it is a tuple, which takes a third of the time of a frozen
    dataclass, and locations are stored compactly. Pass fields by name.

    Attributes:
        values: Every quota key that the entity must have; empty when it must not exist.
        file: The file that the entry is in; `None` for an entry that is in no file.
        position: Where in the file it begins.
        places: Where each of the values comes from, in their order; empty when that is not known.
        owner: Free text shown in plans.
        reason: Free text shown in plans.
        expires: The date (UTC) from which it is treated as absent.
        unset: The keys of the common entry that it removes, with their positions.
        bare: The keys of values that are small byte rates without a unit.
    """

    entity: Entity
    values: Values
    file: LayerFile | None = None
    position: Position = 0
    places: tuple[ValuePlace, ...] = ()
    owner: str | None = None
    reason: str | None = None
    cause: Cause = Cause.ENTRY
    expires: date | None = None
    profile: ProfileUse | None = None
    unset: Mapping[str, Position] | None = None
    bare: tuple[str, ...] = ()

    @property
    def location(self) -> Location | None:
        """Where it begins."""
        return None if self.file is None else Location.at(self.file.name, self.position)

    @property
    def absent(self) -> str | None:
        """Why the entity must not exist: `state: absent` or `expired DATE`; `None` when it must."""
        if self.cause is Cause.ENTRY:
            return None
        return f"expired {self.expires}" if self.cause is Cause.EXPIRED else STATE_ABSENT

    def provenance(self, key: str) -> Provenance | None:
        """Return where one of its values comes from; `None` when that is not known."""
        return self.provenances().get(key)

    def provenances(self) -> dict[str, Provenance]:
        """Return where each of its values comes from; empty when that is not known."""
        if self.file is None:
            return {}
        name, layer = self.file
        result: dict[str, Provenance] = {}
        for key, place in zip(self.values, self.places, strict=bool(self.places)):
            if isinstance(place, int):
                result[key] = Provenance(Location.at(name, place), layer)
            elif isinstance(place, ProfileUse):
                result[key] = Provenance(Location.at(name, place.position), layer, place.name)
            else:
                result[key] = place
        return result


Desired: TypeAlias = Mapping[Entity, Entry]
"""The declared entries by entity."""
