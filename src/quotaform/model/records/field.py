"""Fields that several documents share: values, locations, findings, clusters."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from quotaform.model.entity import Entity, parse_address
from quotaform.model.finding import CHANGE, Allowance, Approval, Finding, Location, Severity
from quotaform.model.quota_key import key_order
from quotaform.model.quotas import Base, SnapshotFile, Values
from quotaform.model.records.document import json_number


def dump_cluster(name: str, cluster_id: str | None) -> dict[str, Any]:
    """Return a cluster as JSON holds it."""
    return {"name": name, "id": cluster_id}


def dump_base(base: Base | None) -> dict[str, Any] | None:
    """Return what files were compared with as JSON holds it."""
    if base is None:
        return None
    return {"ref": base.ref, "commit": base.commit, **({"receipt": True} if base.is_receipt else {})}


def load_base(item: Mapping[str, Any] | None) -> Base | None:
    """Return what files were compared with as `dump_base` had it."""
    return None if item is None else Base(item["ref"], item["commit"], item.get("receipt", False))


def dump_snapshot_file(snapshot: SnapshotFile | None) -> dict[str, Any]:
    """Return the field `snapshot` of a document; no field for a running cluster."""
    return {} if snapshot is None else {"snapshot": {"path": snapshot.path, "captured_at": snapshot.captured_at}}


def load_snapshot_file(document: Mapping[str, Any]) -> SnapshotFile | None:
    """Return the field `snapshot` of a document as `dump_snapshot_file` had it."""
    item = document.get("snapshot")
    return None if item is None else SnapshotFile(item["path"], item["captured_at"])


def dump_entity(entity: Entity) -> dict[str, Any]:
    """Return an entity as JSON holds it: as people write it, and as a mapping of type to name."""
    return {"address": entity.address, "entity": entity.names}


def load_number(value: float | str | None) -> float | None:
    """Return a value as `json_number` had it."""
    return None if value is None else float(value)


def dump_values(values: Values) -> dict[str, Any]:
    """Return values as JSON holds them, in the order of the keys."""
    keys = values if len(values) == 1 else sorted(values, key=key_order)
    return {key: json_number(values[key]) for key in keys}


def load_values(values: Mapping[str, float | str] | None) -> Values:
    """Return values as `dump_values` had them; nothing for `None`."""
    return {key: float(value) for key, value in (values or {}).items()}


def dump_location(location: Location | None) -> dict[str, Any] | None:
    """Return a location as JSON holds it."""
    if location is None:
        return None
    return {"file": location.file, "line": location.line, "column": location.column}


def load_location(item: Mapping[str, Any] | None) -> Location | None:
    """Return a location as `dump_location` had it."""
    return None if item is None else Location(item["file"], item["line"], item.get("column", 0))


def dump_finding(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON holds it."""
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "blocking": finding.blocking,
        "address": finding.address,
        "key": finding.key,
        "message": finding.message,
        "override": finding.override,
        **_allowance(finding.allowance),
        **({} if finding.value is None else {"value": json_number(finding.value)}),
        **({} if finding.allowed_by is None else {"allowed_by": finding.allowed_by}),
        "location": dump_location(finding.location),
    }


def _allowance(allowance: Allowance | None) -> dict[str, Any]:
    return {} if allowance is None else {"allowance": {"rule": allowance.rule, "number": allowance.number}}


def _load_allowance(item: Mapping[str, Any] | None) -> Allowance | None:
    return None if item is None else Allowance(item["rule"], item["number"])


def load_finding(item: Mapping[str, Any]) -> Finding:
    """Return a finding as `dump_finding` had it."""
    return Finding(
        rule=item["rule"],
        message=item["message"],
        severity=Severity(item["severity"]),
        blocking=item["blocking"],
        address=item["address"],
        key=item["key"],
        override=item["override"],
        allowance=_load_allowance(item.get("allowance")),
        allowed_by=item.get("allowed_by"),
        value=load_number(item.get("value")),
        location=load_location(item["location"]),
    )


def dump_approval(approval: Approval) -> dict[str, Any]:
    """Return an approval as JSON holds it."""
    return {
        "rule": approval.rule,
        "address": approval.entity.address,
        **({} if approval.cluster is None else {"cluster": approval.cluster}),
        "reason": approval.reason,
        "approver": approval.approver,
        "expires": approval.expires.isoformat(),
        **({"action": approval.action} if approval.action != CHANGE else {}),
        **({"to": dump_values(dict(approval.to))} if approval.to else {}),
        **({"new": True} if approval.is_new else {}),
    }


def load_approval(item: Mapping[str, Any]) -> Approval:
    """Return an approval as `dump_approval` had it. Raises `ValueError` if the address or the date is none."""
    return Approval(
        rule=item["rule"],
        entity=parse_address(item["address"]),
        cluster=item.get("cluster"),
        reason=item["reason"],
        approver=item["approver"],
        expires=date.fromisoformat(item["expires"]),
        action=item.get("action", CHANGE),
        to=tuple(sorted(load_values(item.get("to")).items())),
        is_new=item.get("new", False),
    )
