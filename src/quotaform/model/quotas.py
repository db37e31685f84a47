"""Quotas: the values of each entity, as a cluster or its snapshot holds them and as files declare them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct, field

from quotaform.model import rule
from quotaform.model.entity import Entity
from quotaform.model.finding import Finding, Location
from quotaform.model.records.record import Record, about
from quotaform.model.text import inert

Values: TypeAlias = Mapping[str, float]
"""Quota key to value; the value is the IEEE-754 double that goes over the wire (KIP-546)."""

Quotas: TypeAlias = Mapping[Entity, Values]
"""The quotas of a cluster: an entity exists only while it has at least one value."""


def same_value(one: float | None, other: float | None) -> bool:
    """Whether two values are the same to a broker, where NaN equals NaN and `None` is no value.

    >>> same_value(float("nan"), float("nan")), same_value(1.0, None), same_value(1024.0, 1024)
    (True, False, True)
    """
    return one == other or (one != one and other != other)


def same_values(one: Values, other: Values) -> bool:
    """Whether two sets of values are the same to a broker."""
    return one == other or (one.keys() == other.keys() and all(same_value(one[key], other[key]) for key in one))


class Snapshot(Struct, frozen=True, kw_only=True):
    """The quotas of a cluster at one moment."""

    cluster_name: str  # what the cluster was called
    cluster_id: str
    captured_at: str  # when it was read, as ISO 8601 in UTC
    quotas: Quotas  # what it held


class SnapshotFile(Struct, frozen=True):
    """The snapshot that was read instead of a running cluster."""

    path: Annotated[str, about("The file, as it was given.", "snapshots/lab.json")]  # empty for one in memory
    captured_at: Annotated[str, about("When the cluster was read, as the snapshot says: ISO 8601 in UTC.")]


STATE_ABSENT: Final = "state: absent"
"""The spelling in files for an entity that must not exist."""


class Cause(StrEnum):
    """Why an entity has its desired state."""

    ENTRY = "entry"  # the files declare values, which it has
    TOMBSTONE = "tombstone"  # the files say `state: absent`: it must not exist
    EXPIRED = "expired"  # the files declare values that have expired: it must not exist
    UNDECLARED = "undeclared"  # the files do not mention it: it is pruned
    REVERT = "revert"  # whatever the files say, it gets back the values from before an apply


class ProfileUse(NamedTuple):
    """A `profile:` of an entry: the profile's name, and where the word `profile` is."""

    name: str
    location: Location


class Entry(NamedTuple):
    """One declared entity: what one file says, or all layers together.

    There is one for every entity of every file, so it is a tuple, which takes a third of the time of a frozen
    dataclass. Pass fields by name.
    """

    entity: Entity
    values: Values  # every quota key that the entity must have; empty when it must not exist
    location: Location | None = None  # where it begins; `None` for an entry that is in no file
    layer: str | None = None  # the cluster whose own file it is in; `None` for a common file
    # Where each of the values comes from, its key or the `profile:` that gives it; empty when that is not known
    places: tuple[Location, ...] = ()
    owner: str | None = None  # free text shown in plans
    reason: str | None = None  # free text shown in plans
    cause: Cause = Cause.ENTRY
    expires: date | None = None  # the date (UTC) from which it is treated as absent
    profile: ProfileUse | None = None
    unset: Mapping[str, Location] | None = None  # the keys of the common entry that it removes, with their places
    bare: tuple[str, ...] = ()  # the keys of values that are small byte rates without a unit

    @property
    def absent(self) -> str | None:
        """Why the entity must not exist: `state: absent` or `expired DATE`; `None` when it must."""
        if self.cause is Cause.ENTRY:
            return None
        return f"expired {self.expires}" if self.cause is Cause.EXPIRED else STATE_ABSENT

    def provenances(self) -> dict[str, Location]:
        """Return where each of its values comes from; empty when that is not known."""
        return dict(zip(self.values, self.places, strict=bool(self.places)))


Desired: TypeAlias = Mapping[Entity, Entry]
"""The declared entries by entity."""


class Base(Record, omit_defaults=True):
    """The revision that the files were compared with."""

    ref: Annotated[str, about("The git revision or the receipt, as given.", "origin/main")]
    commit: Annotated[str | None, about("The commit of the revision; null for a receipt without one.")]
    is_receipt: Annotated[bool, about("Whether it is a receipt; omitted for a git revision.")] = field(
        default=False, name="receipt"
    )

    @property
    def type(self) -> Literal["git", "receipt", "history"]:
        """What it is; `history` is what a cluster held at a moment."""
        if self.is_receipt:
            return "receipt"
        return "history" if self.commit is None else "git"


class DeclaredBase(Struct, frozen=True):
    """What the base declares for one cluster."""

    base: Base  # what the files are compared with
    desired: Desired  # what it declares
    # The entities that it declares with values that are not known: a receipt lists all of them and holds the values of
    # those that the apply changed
    unvalued: frozenset[Entity] = frozenset()

    def values(self, entity: Entity) -> Values | None:
        """Return what the base declares for an entity; `None` if it does not, or if that is unknown."""
        entry = self.desired.get(entity)
        return None if entry is None else entry.values

    def declares(self, entity: Entity) -> bool:
        """Whether the base declares values for an entity; a tombstone and an expired entry declare none."""
        entry = self.desired.get(entity)
        return entity in self.unvalued if entry is None else entry.cause is Cause.ENTRY


def check_pinned_id(
    cluster: str, pinned_id: str | None, found_id: str | None, snapshot: SnapshotFile | None = None
) -> Finding | None:
    """Return what is wrong when a cluster is not the one that quotaform.yaml pins; `None` and empty pin nothing."""
    if not pinned_id or pinned_id == found_id:
        return None
    if snapshot is None:
        found, remedy = f"the live id is {found_id}", "check the bootstrap servers"
    else:
        name = f"the snapshot {inert(snapshot.path)}" if snapshot.path else "the snapshot"
        found = f"{name} is of a cluster with id {found_id}"
        remedy = "give a snapshot of the pinned cluster"
    return rule.CLUSTER_ID.finding(
        f"cluster {cluster} is pinned to id {pinned_id}, and {found}; {remedy}; "
        "change cluster_id in quotaform.yaml only if the cluster was replaced on purpose."
    )


class Action(StrEnum):
    """What happens to a value or to an entity."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"

    @property
    def glyph(self) -> str:
        """The sign in front of a line: `+`, `~` or `-`."""
        return {Action.CREATE: "+", Action.UPDATE: "~", Action.DELETE: "-"}[self]


ActionName: TypeAlias = Annotated[
    Action, about("create: no value before; update: another value before; delete: no value after.")
]


NO_VALUES: Final[Values] = {}
"""What the cluster holds of an entity that is not there; one object, because a plan may create very many."""

ACTION_ORDER = {Action.DELETE: 0, Action.UPDATE: 1, Action.CREATE: 2}
"""The order in which a plan lists its entities; within an action they go by address."""


class Change(Struct, frozen=True, gc=False):
    """One row of a plan: a quota key of an entity, its value before and after; `None` is no value."""

    entity: Entity
    key: str
    before: float | None
    after: float | None

    @property
    def action(self) -> Action:
        """What happens to the value."""
        if self.before is None:
            return Action.CREATE
        return Action.DELETE if self.after is None else Action.UPDATE
