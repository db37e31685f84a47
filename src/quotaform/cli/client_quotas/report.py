"""Quotas as KIP-546 has `kafka-client-quotas` print them: one line each, keys by name, values as plain numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from quotaform.model.entity import IP, Entity, sanitize, sanitized_entity, type_order
from quotaform.model.quotas import Quotas
from quotaform.model.units import plain
from quotaform.resolve.effect import differs_text
from quotaform.resolve.request import Resolved


def render_described(quotas: Quotas) -> str:
    """Return a line per entity: `{user=<default>, client-id=x} consumer_byte_rate=1000000`.

    Ordered by user, then client-id, then ip, the names before the default.
    """
    return "".join(f"{line}\n" for line in _described(quotas))


def _described(quotas: Quotas) -> Iterator[str]:
    for entity in sorted(quotas, key=_order):
        values = quotas[entity]
        yield " ".join([sanitized_entity(entity), *(f"{sanitize(key)}={plain(values[key])}" for key in sorted(values))])


def _order(entity: Entity) -> list[tuple[int, str, bool, str]]:
    return [(*type_order(entity_type), name is None, name or "") for entity_type, name in entity.parts]


def render_resolved(resolved: Mapping[str, Resolved]) -> str:
    """Return a line per quota key that is limited: `consumer_byte_rate=1000000 {user=<default>, client-id=x}`."""
    return "".join(
        f"{sanitize(key)}={plain(found.value)} {sanitized_entity(found.source)}\n"
        for key, found in sorted(resolved.items())
        if found.value is not None and found.source is not None
    )


def render_assumed(unmentioned: Iterable[str], resolved: Mapping[str, Resolved]) -> str:
    """Return which names were assumed for a request that has none, and for how many others the result differs."""
    assumed = " and ".join(f"{'an' if kind == IP else 'a'} {kind}" for kind in unmentioned)
    notes = [
        f"; {sanitize(key)} {differs_text(found.differs)}" for key, found in sorted(resolved.items()) if found.differs
    ]
    return f"resolved for {assumed} that no quota mentions{''.join(notes)}"
