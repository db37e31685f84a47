"""Where the declared values of one entity come from, and what each layer would have given.

Layers speak in order, and within a layer its profile, its values, `unset`, and then what ends it (`state: absent`, or
its expiry). For each key the last one that speaks of it decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from quotaform.model.entity import Entity
from quotaform.model.finding import Location
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.quota_key import key_order
from quotaform.model.quotas import Cause, Entry, Values


class Giver(StrEnum):
    """What in a layer gives a value or takes it away."""

    PROFILE = "profile"
    VALUES = "values"
    UNSET = "unset"
    TOMBSTONE = "tombstone"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one part of a layer says about a key."""

    value: float | None  # The value that it gives; `None` when it takes the key away
    giver: Giver  # The part
    layer: str | None = None  # The cluster whose layer it is; `None` for the common one
    profile: str | None = None
    location: Location | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedKey:
    """A quota key with everything that speaks of it, in order: the last step decides."""

    key: str
    steps: tuple[Step, ...]

    @property
    def value(self) -> float | None:
        """The declared value; `None` when the key is declared to be not set."""
        return self.steps[-1].value


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedText:
    """An owner, a reason or a coming expiry, where its entry is, and whether a later layer replaces it."""

    field: str
    text: str
    layer: str | None
    location: Location | None
    is_replaced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What the files declare for one entity and one cluster, and why."""

    cluster: str | None  # The cluster's name; `None` without clusters
    entity: Entity
    cause: Cause  # What makes it what it is to be; `undeclared` when no file of this cluster mentions it
    absent: str | None = None  # Why it must not exist, in the words of the files; `None` when it must
    location: Location | None = None  # The entry that has the last word
    keys: tuple[ExplainedKey, ...] = ()  # Every key that any layer speaks of
    texts: tuple[ExplainedText, ...] = ()
    """Owners, reasons and the days on which layers will expire, those of the common layer first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What the files of a directory declare for an entity, cluster by cluster."""

    directory: str
    entity: Entity
    clusters: tuple[Explanation, ...]  # One explanation per cluster whose files are valid
    failed: tuple[ClusterOutcome[Explanation], ...] = ()  # The clusters whose files are invalid


def explain(
    cluster: str | None,
    entity: Entity,
    layers: Sequence[Entry],
    merged: Entry | None,
    profiles: Mapping[str, Values],
    today: date,
) -> Explanation:
    """Explain what is declared for an entity.

    `layers` is what each layer says about it, in the order in which they are merged. `merged` is what they say
    together.
    """
    if merged is None:
        return Explanation(cluster=cluster, entity=entity, cause=Cause.UNDECLARED)
    steps: dict[str, list[Step]] = {}
    endings: list[Step] = []
    for entry in layers:
        for key, step in _given(entry, profiles):
            steps.setdefault(key, list(endings)).append(step)
        ending = _ending(entry, today)
        if ending is not None:
            endings.append(ending)
            for given in steps.values():
                given.append(ending)
    return Explanation(
        cluster=cluster,
        entity=entity,
        cause=merged.cause,
        absent=merged.absent,
        location=merged.location,
        keys=tuple(ExplainedKey(key=key, steps=tuple(steps[key])) for key in sorted(steps, key=key_order)),
        texts=(*_texts(layers), *_expiries(layers, today)),
    )


def _given(entry: Entry, profiles: Mapping[str, Values]) -> list[tuple[str, Step]]:
    """Return what the profile, the values and `unset` of an entry say, in this order."""
    name, layer = entry.file if entry.file else ("", None)
    given: list[tuple[str, Step]] = []
    if entry.profile is not None:
        location = Location.at(name, entry.profile.position)
        given += [
            (key, Step(value=value, giver=Giver.PROFILE, layer=layer, profile=entry.profile.name, location=location))
            for key, value in profiles.get(entry.profile.name, {}).items()
        ]
    for key, found in entry.provenances().items():
        if found.profile is None:
            value = entry.values[key]
            given.append((key, Step(value=value, giver=Giver.VALUES, layer=layer, location=found.location)))
    for key, position in (entry.unset or {}).items():
        location = Location.at(name, position)
        given.append((key, Step(value=None, giver=Giver.UNSET, layer=layer, location=location)))
    return given


def _ending(entry: Entry, today: date) -> Step | None:
    """Return what takes away all keys of this entry and of those below it, if anything does."""
    layer = entry.file.layer if entry.file else None
    if entry.cause is Cause.TOMBSTONE:
        return Step(value=None, giver=Giver.TOMBSTONE, layer=layer, location=entry.location)
    if entry.expires is not None and entry.expires <= today:
        return Step(value=None, giver=Giver.EXPIRED, layer=layer, location=entry.location)
    return None


def _texts(layers: Sequence[Entry]) -> list[ExplainedText]:
    return [
        ExplainedText(
            field=field,
            text=text,
            layer=entry.file.layer if entry.file else None,
            location=entry.location,
            is_replaced=any(getattr(later, field) is not None for later in layers[index + 1 :]),
        )
        for field in ("owner", "reason")
        for index, entry in enumerate(layers)
        if (text := getattr(entry, field)) is not None
    ]


def _expiries(layers: Sequence[Entry], today: date) -> list[ExplainedText]:
    """Return the days on which layers will end what they and the layers below them declare; no layer replaces them."""
    return [
        ExplainedText(
            field="expires",
            text=entry.expires.isoformat(),
            layer=entry.file.layer if entry.file else None,
            location=entry.location,
            is_replaced=False,
        )
        for entry in layers
        if entry.expires is not None and entry.expires > today
    ]
