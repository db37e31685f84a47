"""The JSON of resolved limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from msgspec import Meta

from quotaform.model.entity import Entity
from quotaform.model.finding import Finding
from quotaform.model.precedence import LEVELS
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.records.document import document_lines, json_number
from quotaform.model.records.record import (
    Address,
    EntityTypeName,
    QuotaKeyName,
    Record,
    SourceName,
    Value,
    about,
    builtins,
    derived,
)
from quotaform.model.units import is_unlimited
from quotaform.resolve.index import Effective, shared_by
from quotaform.resolve.resolve import KeyResolution, Resolution, ResolveHeader

if TYPE_CHECKING:
    from quotaform.resolve.run import ResolveRun

_SCOPES: Final = dict.fromkeys(key.per for key in QUOTA_KEYS.values())


class EntryRecord(Record):
    """An entry with the key."""

    value: Annotated[Value | None, about("The limit; null if there is none.")]
    source: Annotated[str | None, about("The address of the entry that it comes from.", "user=<default>")] = derived(
        lambda entry: entry.entity and entry.entity.address
    )
    entity: Annotated[
        Entity | None, about("The entry that it comes from: entity type to name, null being the default of a type.")
    ]
    source_name: SourceName
    level: Annotated[
        Annotated[int, Meta(ge=1, le=max(level.number for level in LEVELS))] | None,
        about("Its level of precedence; 1 is the highest."),
    ]

    @classmethod
    def of(cls, limit: Effective, **more: Any) -> Self:
        """Return the record of a limit, with what a kind of records has besides."""
        value, source, level = limit
        source_name, number = (level.source, level.number) if level else (None, None)
        return cls(value=json_number(value), entity=source, source_name=source_name, level=number, **more)


class LimitRecord(EntryRecord):
    """A limit and where it comes from."""

    unlimited: Annotated[bool, about("Whether the request is unlimited: no entry applies, or its value is no limit.")]


class ResolvedKeyRecord(LimitRecord, omit_defaults=True):
    """The effective quota of a request for one key; with the plan applied, if one is given."""

    key: QuotaKeyName
    per: Annotated[
        str | None,
        about(
            "Where the limit applies: each broker enforces the whole limit, or the cluster enforces it once; null for "
            "an unknown key.",
            extra_json_schema={"enum": [*_SCOPES, None]},
        ),
    ]
    bucket: Annotated[
        Annotated[tuple[EntityTypeName, ...], Meta(min_length=1)] | None,
        about(
            "The entity types that identify the rate: requests with equal names for them share it. Null if no entry "
            "applies."
        ),
    ]
    shared_by: Annotated[str | None, about("The bucket in words.")]
    differs: Annotated[
        dict[str, Annotated[int, Meta(ge=1)]] | None,
        about(
            "Entity type to the number of names that resolve to another value than a name that no quota mentions; "
            "omitted if there are none.",
            {"client-id": 3},
        ),
    ] = None
    overridden: Annotated[list[EntryRecord], about("The overridden entries with the key, in order of precedence.")]
    before: Annotated[LimitRecord | None, about("The limit before the plan is applied; null without a plan.")]


class RequestRecord(Record):
    """A concrete entity and its effective quotas."""

    address: Address
    entity: Annotated[
        dict[str, str],
        about(
            "The source of the request: a user, a client-id, both, or an ip.",
            {"user": "svc-orders", "client-id": "etl"},
            min_length=1,
        ),
    ]
    unmentioned: Annotated[
        tuple[EntityTypeName, ...],
        about("The entity types without a name in the request, resolved for a name that no quota mentions."),
    ]
    keys: Annotated[list[ResolvedKeyRecord], about("The quota keys that can limit it.")]

    @classmethod
    def of(cls, resolution: Resolution) -> Self:
        """Return the record."""
        entity = resolution.entity
        return cls(
            address=entity.address,
            entity={kind: name or "" for kind, name in entity.parts},
            unmentioned=resolution.unmentioned,
            keys=[_resolved_key(row, entity) for row in resolution.keys],
        )


def _resolved_key(row: KeyResolution, asked: Entity) -> ResolvedKeyRecord:
    resolved, before, known = row.resolved, row.before, QUOTA_KEYS.get(row.key)
    level = resolved.level
    return ResolvedKeyRecord.of(
        resolved.effective,
        unlimited=is_unlimited(known, resolved.value),
        key=row.key,
        per=known.per if known else None,
        bucket=level.bucket if level else None,
        shared_by=shared_by(level, asked) if level else None,
        differs=dict(resolved.differs) or None,
        overridden=list(map(EntryRecord.of, resolved.overridden)),
        before=before and LimitRecord.of(before.effective, unlimited=is_unlimited(known, before.value)),
    )


class ResolveRecord(ResolveHeader, omit_defaults=True):
    """The effective quotas of requests, as quotaform resolve writes them."""

    requests: Annotated[list[RequestRecord], about("The effective quotas per request, in the order of the requests.")]
    findings: Annotated[list[Finding], about("Findings about the resolved quotas.")]


def dump_resolved(run: ResolveRun) -> Iterator[str]:
    """Yield the document in pieces, one per request."""

    def fields() -> Iterator[tuple[str, Any]]:
        yield from builtins(run.header).items()
        yield "requests", map(RequestRecord.of, run)  # With numbers as JSON has them, for there may be very many
        yield "findings", list(map(builtins, run.findings()))

    return document_lines(fields(), {"requests"})
