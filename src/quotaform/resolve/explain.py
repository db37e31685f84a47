"""Where the declared values of one entity come from, and what each layer would have given.

Layers speak in order, and within a layer its profile, its values, `unset`, and then what ends it (`state: absent`, or
its expiry). For each key the last one that speaks of it decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Struct
from msgspec import field as record_field

from quotaform.model.entity import Entity
from quotaform.model.finding import Location
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.quotas import Cause, Entry, Values
from quotaform.model.records.document import EXPLAIN
from quotaform.model.records.field import Address, QuotaKeyName
from quotaform.model.records.record import Double, Record, about, derived, dump_record
from quotaform.model.units import render_value


class Giver(StrEnum):
    """What in a layer gives a value or takes it away."""

    PROFILE = "profile"
    VALUES = "values"
    UNSET = "unset"
    TOMBSTONE = "tombstone"
    EXPIRED = "expired"


Layer: TypeAlias = Annotated[str | None, about("The cluster whose own file it is in; null for a common file.")]


class LayerValue(Record):
    """A value or removal in one layer."""

    value: Annotated[Double | None, about("The value; null if the key is removed.")]
    display: Annotated[str | None, about("The value as printed in plans.")] = None
    giver: Annotated[Giver, about("The part of the entry that sets or removes the key.")]
    layer: Layer = None
    profile: Annotated[str | None, about("The profile with the value, or null.")] = None
    location: Annotated[Location | None, about("The location in the files.")] = None


class ExplainedKey(Record):
    """A quota key with all layers that set or remove it."""

    key: QuotaKeyName
    value: Annotated[Double | None, about("The declared value; null when the key is not set.")] = derived(
        lambda explained: explained.steps[-1].value
    )
    display: Annotated[str | None, about("The value as printed in plans.")] = derived(
        lambda explained: explained.steps[-1].display
    )
    steps: Annotated[tuple[LayerValue, ...], about("What the layers set, in order; the last one wins.", min_length=1)]


class ExplainedText(Record):
    """An owner, a reason or a coming expiry."""

    field: Annotated[Literal["owner", "reason", "expires"], about("Owner, reason or expiry.")]
    text: Annotated[str, about("The text; for expires the date (UTC), such as 2026-12-31.")]
    layer: Layer
    location: Annotated[Location | None, about("The entry that it belongs to.")]
    is_replaced: Annotated[bool, about("Whether a later layer replaces it.")] = record_field(name="replaced")


class Explanation(Record):
    """What is declared for one cluster."""

    cluster: Annotated[str | None, about("The cluster name, or null if quotaform.yaml has no clusters.")]
    cause: Annotated[Cause, about("The kind of declaration; undeclared if no file of the cluster declares the entity.")]
    absent: Annotated[str | None, about("Why the entity must not exist; null if it must exist.")] = None
    location: Annotated[Location | None, about("The entry with the highest precedence.")] = None
    keys: Annotated[tuple[ExplainedKey, ...], about("All keys that any layer sets or removes.")] = ()
    texts: Annotated[tuple[ExplainedText, ...], about("Owners and reasons, those of the common layer first.")] = ()


class ExplainedRecord(Record, document=EXPLAIN):
    """Where the declared values of an entity come from, as quotaform explain writes it."""

    directory: Annotated[str, about("The quotas directory, as given.")]
    address: Address = derived(lambda explained: explained.entity.address)
    entity: Entity
    clusters: Annotated[tuple[Explanation, ...], about("One section per cluster.", min_length=1)]


class Explained(Struct, frozen=True, kw_only=True):
    """What the files of a directory declare for an entity, cluster by cluster."""

    directory: str
    entity: Entity
    clusters: tuple[Explanation, ...]  # One explanation per cluster whose files are valid
    failed: tuple[ClusterOutcome[Explanation], ...] = ()  # The clusters whose files are invalid


def dump_explained(explained: Explained) -> str:
    """Return an explanation as JSON."""
    return dump_record(
        ExplainedRecord(directory=explained.directory, entity=explained.entity, clusters=explained.clusters)
    )


def explain(
    cluster: str | None,
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
        return Explanation(cluster=cluster, cause=Cause.UNDECLARED)
    steps: dict[str, list[LayerValue]] = {}
    endings: list[LayerValue] = []
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
        cause=merged.cause,
        absent=merged.absent,
        location=merged.location,
        keys=tuple(ExplainedKey(key=key, steps=tuple(steps[key])) for key in sorted(steps, key=key_order)),
        texts=(*_texts(layers), *_expiries(layers, today)),
    )


def _given(entry: Entry, profiles: Mapping[str, Values]) -> list[tuple[str, LayerValue]]:
    """Return what the profile, the values and `unset` of an entry say, in this order."""
    name, layer = entry.file if entry.file else ("", None)
    given: list[tuple[str, LayerValue]] = []
    if entry.profile is not None:
        location = Location.at(name, entry.profile.position)
        given += [
            (key, _step(key, value, Giver.PROFILE, layer=layer, profile=entry.profile.name, location=location))
            for key, value in profiles.get(entry.profile.name, {}).items()
        ]
    for key, found in entry.provenances().items():
        if found.profile is None:
            value = entry.values[key]
            given.append((key, _step(key, value, Giver.VALUES, layer=layer, location=found.location)))
    for key, position in (entry.unset or {}).items():
        location = Location.at(name, position)
        given.append((key, LayerValue(value=None, giver=Giver.UNSET, layer=layer, location=location)))
    return given


def _step(key: str, value: float, giver: Giver, **place: Any) -> LayerValue:
    return LayerValue(value=value, display=render_value(QUOTA_KEYS.get(key), value), giver=giver, **place)


def _ending(entry: Entry, today: date) -> LayerValue | None:
    """Return what takes away all keys of this entry and of those below it, if anything does."""
    layer = entry.file.layer if entry.file else None
    if entry.cause is Cause.TOMBSTONE:
        return LayerValue(value=None, giver=Giver.TOMBSTONE, layer=layer, location=entry.location)
    if entry.expires is not None and entry.expires <= today:
        return LayerValue(value=None, giver=Giver.EXPIRED, layer=layer, location=entry.location)
    return None


_TEXTS: Final[tuple[Literal["owner", "reason"], ...]] = ("owner", "reason")


def _texts(layers: Sequence[Entry]) -> list[ExplainedText]:
    return [
        ExplainedText(
            field=field,
            text=text,
            layer=entry.file.layer if entry.file else None,
            location=entry.location,
            is_replaced=any(getattr(later, field) is not None for later in layers[index + 1 :]),
        )
        for field in _TEXTS
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
