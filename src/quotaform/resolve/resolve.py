"""Resolving requests: per quota key the entry that wins, those that lost, and what needs a second look."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Final, NamedTuple

from msgspec import Struct

from quotaform.model import rule
from quotaform.model.entity import CLIENT_ID, DEFAULT_WORD, IP, Entity, address_of, spell_name
from quotaform.model.finding import Finding, Severity
from quotaform.model.precedence import CALLBACK, level_of
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.quotas import Quotas, SnapshotFile
from quotaform.model.records.record import ClusterRecord, Digest, Record, Timestamp, about
from quotaform.model.rule import FindingRule
from quotaform.model.text import inert, listed
from quotaform.model.units import is_unlimited, is_writable, readable
from quotaform.resolve.index import (
    NOT_LIMITED,
    QuotaIndex,
    Resolved,
    request_of,
    unmentioned_types,
)


class ResolveOptions(Record):
    """The options of the command."""

    keys: Annotated[tuple[str, ...], about("The selected quota keys; empty for all.")] = ()
    # As in the draft of KIP-546: omitInheritedValues and omitOverriddenValues
    inherited: Annotated[bool, about("Whether keys whose value comes from another entity are included.")] = True
    overridden: Annotated[bool, about("Whether overridden entries are included.")] = True


FULL_DETAIL: Final = ResolveOptions()


class KeyResolution(NamedTuple):
    """What limits a request for one quota key."""

    key: str
    resolved: Resolved  # What limits it, with the plan applied if there is one
    before: Resolved | None = None  # What limits it as long as the plan is not applied; `None` without a plan


class Resolution(NamedTuple):
    """What limits the requests of one concrete entity."""

    entity: Entity  # Who makes the request: a user, a client-id or both, or an ip
    keys: tuple[KeyResolution, ...]  # The quota keys in the order in which they print

    @property
    def unmentioned(self) -> tuple[str, ...]:
        """The entity types that the entity leaves out, so that a name that no quota mentions was resolved."""
        return unmentioned_types(request_of(self.entity))


class AssumedPlan(NamedTuple):
    """A plan to resolve requests by as if it were applied; functions take what a cluster holds."""

    plan_id: str
    require_cluster: Callable[[str], None]  # Raises a `StaleError` unless the plan is for the cluster with this id
    after: Callable[[Quotas], Quotas]  # Returns the entities that the plan changes, as they will be
    findings: Callable[[Quotas], list[Finding]]  # Returns why the plan cannot be applied as it is


class ResolveHeader(Record, document="resolve", omit_defaults=True):
    """What was resolved against what: the document without its requests."""

    cluster: ClusterRecord
    read_at: Annotated[Timestamp, about("When the cluster or its snapshot was read, as ISO 8601 in UTC.")]
    snapshot: Annotated[SnapshotFile | None, about("Omitted if a running cluster was read.")] = None
    plan_id: Annotated[Digest | None, about("The plan that is assumed to be applied, or null.")]
    options: ResolveOptions


def make_resolution(
    entity: Entity, actual: QuotaIndex, planned: QuotaIndex | None = None, detail: ResolveOptions = FULL_DETAIL
) -> Resolution:
    """Resolve one concrete entity.

    `planned`: The same with a plan applied; `None` without a plan.
    Raises `ValueError`: It is not concrete.
    """
    request = request_of(entity)
    found = (planned or actual).resolve(request, detail.keys)
    before = {} if planned is None else actual.resolve(request, detail.keys)
    own = None if detail.inherited else level_of(entity)
    rows = []
    for key in detail.keys or sorted({**found, **before}, key=key_order):
        if key in QUOTA_KEYS and key not in found:
            continue  # It cannot limit such a request.
        resolved, was = found.get(key, NOT_LIMITED), None if planned is None else before.get(key, NOT_LIMITED)
        if own is not None and resolved.level != own and (was is None or was.level != own):
            continue
        if not detail.overridden and resolved.overridden:
            resolved = resolved._replace(overridden=())
        rows.append(KeyResolution(key, resolved, was))
    return Resolution(entity, tuple(rows))


class TableReport(Struct, frozen=True, kw_only=True):
    """What was written."""

    header: ResolveHeader
    target: str  # Where the table is
    clients: int  # How many users, client-ids and pairs of them were resolved
    ips: int  # How many addresses
    keys: list[tuple[str, int, int, int | None]]
    """By quota key, in the order in which keys print, how many rows have a value that limits, how many have none or one
    that is no limit, and how many have another value than before the plan; `None` without a plan."""


SHOWN: Final = 5


class ResolutionChecks:
    """Checks requests as they are resolved: one finding per rule and subject, however many the requests are.

    `index` holds the quotas that are resolved.
    """

    def __init__(self, index: QuotaIndex) -> None:
        self._index = index
        self._counted: dict[FindingRule, tuple[int, Entity]] = {}  # How many requests break a rule, and the first one
        self._found: dict[tuple[str, Entity | str], Finding] = {}
        self._loses_client_entries = False

    def add(self, resolution: Resolution) -> None:
        """Check what one request resolved to."""
        entity = resolution.entity
        names = entity.names
        if IP in names:
            self._check_ip(entity, names[IP] or "")
        elif names.get(CLIENT_ID) == "":
            self._count(rule.EMPTY_CLIENT_ID, entity)
            self._loses_client_entries |= self._index.meets_more_with_names(request_of(entity))
        if DEFAULT_WORD in names.values():
            self._count(rule.DEFAULT_WORD, entity)
        for row in resolution.keys:
            value, source = row.resolved.value, row.resolved.source
            if value is None or source is None or (row.key, source) in self._found:
                continue
            if text := _value_problem(row.key, value):
                broken = rule.ODD_VALUE if value == value else rule.NAN_VALUE
                self._found[row.key, source] = broken.finding(text, address=source.address, key=row.key)

    def findings(self) -> list[Finding]:
        """Return what was found so far."""
        found = []
        for counted, (count, first) in self._counted.items():
            more = f" (and {count - 1:,} more)" if count > 1 else ""
            severity = counted.severity
            if counted is rule.EMPTY_CLIENT_ID:
                severity = Severity.WARNING if self._loses_client_entries else Severity.NOTE
                text = (
                    f"resolved for an empty client-id{more}, which no entry with a client-id matches, not even a "
                    "default (KAFKA-13341); leave the client-id out for one that no quota mentions"
                )
            else:
                text = (
                    f"{DEFAULT_WORD} is used literally as a name{more}, because requests never carry a default; "
                    "defaults apply to any name without an entry of its own"
                )
            found.append(counted.finding(text, severity=severity, address=first.address))
        return [*found, *self._found.values()]

    def _count(self, counted: FindingRule, entity: Entity) -> None:
        count, first = self._counted.get(counted, (0, entity))
        self._counted[counted] = count + 1, first

    def _check_ip(self, entity: Entity, ip: str) -> None:
        address, spellings = address_of(ip), self._index.spellings(IP, ip)
        found, about, severity = rule.IP_ALIAS, entity.address, rule.IP_ALIAS.severity
        if address is None:
            found = rule.IP_NAME
            text = f"{spell_name(ip)} is not an IP address; connections come from addresses, so give the address itself"
        elif len(spellings) > 1:
            names = ", ".join(map(spell_name, sorted(spellings)))
            about = Entity(ip=address).address
            text = (
                f"{names} are the same address to a broker: the entry written last applies, and brokers do not say "
                f"which that is; keep only {address}"
            )
        elif spellings and spellings[0] != ip:
            severity = Severity.NOTE
            text = f"the entry ip={spell_name(spellings[0])} is for the same address"
        else:
            return
        self._found[found.id, about] = found.finding(text, severity=severity, address=about)


@lru_cache(maxsize=4096)
def _value_problem(key: str, value: float) -> str:
    """Return why a value that applies is not enforced as it reads; empty if it is."""
    known = QUOTA_KEYS.get(key)
    if value != value:
        effect = known.nan_effect if known else "it is not known how brokers enforce it"
        return f"{spell_name(key)} is NaN (not a number): {effect}"
    if known is None or is_writable(known, value) or is_unlimited(known, value):
        return ""
    if value <= 0:
        effect = "which older brokers accept and newer ones refuse; it blocks everything"
    elif value < 1:
        effect = "which is less than 1 and effectively blocks everything"
    else:
        effect = "which is not a whole number; brokers enforce it nevertheless"
    return f"{key} is {readable(value)}, {effect}"


def check_callbacks(values: Mapping[int, str | None], errors: Mapping[int, Exception]) -> list[Finding]:
    """Report which brokers use a custom quota callback, and for which this is not known.

    `values`: `client.quota.callback.class` by node id. `errors`: why it could not be read, by node id.
    """
    findings = []
    brokers: dict[str, list[str]] = defaultdict(list)
    for node_id, value in sorted(values.items()):
        if value:
            brokers[value].append(str(node_id))
    for name, nodes in sorted(brokers.items()):
        text = (
            f"{CALLBACK} is {inert(name)} on {_brokers(nodes)}: this callback determines the limits of users and "
            "client-ids, and may ignore what is shown here (KIP-257)"
        )
        findings.append(rule.QUOTA_CALLBACK.finding(text))
    if errors:
        reasons = "; ".join(dict.fromkeys(str(error) for _, error in sorted(errors.items())[:SHOWN]))
        text = (
            f"could not check whether {_brokers([str(node_id) for node_id in sorted(errors)])} "
            f"{'uses' if len(errors) == 1 else 'use'} a custom quota callback ({CALLBACK}): {reasons}"
        )
        findings.append(rule.QUOTA_CALLBACK_UNCHECKED.finding(text))
    return findings


def _brokers(nodes: list[str]) -> str:
    return f"broker{'' if len(nodes) == 1 else 's'} {listed(nodes, SHOWN)}"
