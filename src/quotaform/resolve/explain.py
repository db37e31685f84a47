"""Where the declared values of one entity come from, and what each layer would have given.

Layers speak in order, and within a layer its profile, its values, `unset`, and then what ends it (`state: absent`, or
its expiry). For each key the last one that speaks of it decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from msgspec import Struct, convert
from msgspec import field as record_field

from quotaform.model.entity import Entity
from quotaform.model.finding import Location
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.quotas import Cause, Entry, Values
from quotaform.model.records.record import Address, Double, QuotaKeyName, Record, about, derived, dump_record
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


class ExplainedRecord(Record, document="explain"):
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
    return dump_record(convert(explained, ExplainedRecord, from_attributes=True))


def explain(
    cluster: str | None,
    layers: Sequence[Entry],
    merged: Entry | None,
    profiles: Mapping[str, Values],
    today: date,
) -> Explanation:
    """Explain what is declared for an entity.

    `layers`: what each layer says about it, in the order in which they are merged. `merged`: the result.
    """
    if merged is None:
        return Explanation(cluster=cluster, cause=Cause.UNDECLARED)
    steps: dict[str, list[LayerValue]] = {}
    texts: list[ExplainedText] = []
    endings: list[LayerValue] = []
    for entry in layers:
        for key, step in _given(entry, profiles):
            steps.setdefault(key, list(endings)).append(step)
        has_expired = entry.expires is not None and entry.expires <= today
        if has_expired or entry.cause is Cause.TOMBSTONE:
            # It takes away all keys of this layer and of those below it.
            giver = Giver.TOMBSTONE if entry.cause is Cause.TOMBSTONE else Giver.EXPIRED
            endings.append(LayerValue(value=None, giver=giver, layer=entry.layer, location=entry.location))
            for given in steps.values():
                given.append(endings[-1])
    for field in ("owner", "reason"):
        held = [(entry, text) for entry in layers if (text := getattr(entry, field)) is not None]
        texts += [_text(field, text, entry, is_replaced=entry is not held[-1][0]) for entry, text in held]
    # No layer replaces the day on which another will end what it and the layers below it declare.
    coming = [(entry, entry.expires) for entry in layers if entry.expires is not None and entry.expires > today]
    texts += [_text("expires", day.isoformat(), entry, is_replaced=False) for entry, day in coming]
    return Explanation(
        cluster=cluster,
        cause=merged.cause,
        absent=merged.absent,
        location=merged.location,
        keys=tuple(ExplainedKey(key=key, steps=tuple(steps[key])) for key in sorted(steps, key=key_order)),
        texts=tuple(texts),
    )


def _text(field: Literal["owner", "reason", "expires"], text: str, entry: Entry, *, is_replaced: bool) -> ExplainedText:
    return ExplainedText(field=field, text=text, layer=entry.layer, location=entry.location, is_replaced=is_replaced)


def _given(entry: Entry, profiles: Mapping[str, Values]) -> Iterator[tuple[str, LayerValue]]:
    """Yield what the profile, the values and `unset` of an entry say, in this order."""

    def given(
        key: str, value: float | None, giver: Giver, location: Location, profile: str | None = None
    ) -> tuple[str, LayerValue]:
        display = None if value is None else render_value(QUOTA_KEYS.get(key), value)
        return key, LayerValue(
            value=value, display=display, giver=giver, layer=entry.layer, profile=profile, location=location
        )

    profile = entry.profile
    if profile is not None:
        for key, value in profiles.get(profile.name, {}).items():
            yield given(key, value, Giver.PROFILE, profile.location, profile.name)
    for key, location in entry.provenances().items():
        if profile is None or location != profile.location:
            yield given(key, entry.values[key], Giver.VALUES, location)
    for key, location in (entry.unset or {}).items():
        yield given(key, None, Giver.UNSET, location)
