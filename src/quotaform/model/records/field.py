"""Records that several documents share: entities, values, locations, findings, approvals, clusters."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Literal, Self, TypeAlias

from quotaform.model.entity import parse_address
from quotaform.model.finding import CHANGE, DELETE, Approval
from quotaform.model.precedence import LEVELS
from quotaform.model.quota_key import key_order
from quotaform.model.quotas import Values
from quotaform.model.records.record import Double, Record, about

Address: TypeAlias = Annotated[
    str, about("The address of the entity: unique, and safe to print.", "user=svc-orders", min_length=1)
]
QuotaKeyName: TypeAlias = Annotated[str, about("The quota key.", "producer_byte_rate", min_length=1)]
SourceName: TypeAlias = Annotated[
    str | None,
    about(
        "The name of this kind of entry in KIP-248, or null.",
        extra_json_schema={"enum": [*(level.source for level in LEVELS), None]},
    ),
]
KeyDoubles: TypeAlias = Annotated[
    Mapping[str, Double],
    about("Quota key to value.", {"producer_byte_rate": 10485760, "request_percentage": 150}, min_length=1),
]


def in_order(values: Values) -> dict[str, float]:
    """Return values in the order of the keys."""
    return {key: values[key] for key in (values if len(values) == 1 else sorted(values, key=key_order))}


class ClusterRecord(Record):
    """The cluster."""

    name: Annotated[str, about("The name in quotaform.yaml, or the bootstrap servers.")]
    id: Annotated[str, about("The cluster id.")]


class ApprovalRecord(Record, omit_defaults=True):
    """An approval for one rule and one entity, or the entities that a pattern matches."""

    rule: Annotated[str, about("The rule that would block.")]
    address: Address
    cluster: Annotated[str | None, about("The cluster that it is for, or a glob; omitted if it is for any.")] = None
    reason: Annotated[str, about("The reason.")]
    approver: Annotated[str, about("The person who approved it.")]
    expires: Annotated[date, about("The day (UTC) on which it expires.", "2026-12-31")]
    action: Annotated[
        Literal["delete"] | None, about("The approved action if the entity is deleted; omitted otherwise.")
    ] = None
    to: Annotated[KeyDoubles | None, about("The approved keys and values; omitted if the approval is for any.")] = None
    new: Annotated[
        bool | None,
        about("Whether it is new or changed compared with the base; omitted if not, or without a base."),
    ] = None

    @classmethod
    def of(cls, approval: Approval) -> Self:
        """Return the record."""
        return cls(
            rule=approval.rule,
            address=approval.entity.address,
            cluster=approval.cluster,
            reason=approval.reason,
            approver=approval.approver,
            expires=approval.expires,
            action="delete" if approval.action == DELETE else None,
            to=in_order(dict(approval.to)) or None,
            new=approval.is_new or None,
        )

    def load(self) -> Approval:
        """Return the approval. Raises `ValueError` if the address is invalid."""
        return Approval(
            rule=self.rule,
            entity=parse_address(self.address),
            cluster=self.cluster,
            reason=self.reason,
            approver=self.approver,
            expires=self.expires,
            action=CHANGE if self.action is None else self.action,
            to=tuple(sorted((self.to or {}).items())),
            is_new=self.new is True,
        )
