"""The records of a cluster: described and altered quotas, SCRAM credentials (KIP-554), outcomes, and checkups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

from msgspec import convert, field

from quotaform.model.alteration import AlterationResults, Altered, Outcome, reason_of
from quotaform.model.entity import Entity, spell_name
from quotaform.model.errors import ExitCode
from quotaform.model.filter import Described, Rule
from quotaform.model.quota_key import key_order
from quotaform.model.quotas import SnapshotFile
from quotaform.model.records.document import OUTCOMES
from quotaform.model.records.record import (
    Address,
    ClusterName,
    ClusterRecord,
    Double,
    KeyDoubles,
    QuotaKeyName,
    Record,
    Timestamp,
    about,
    derived,
    dump_record,
    in_order,
)


class EntityQuotas(Record):
    """The quotas of one entity."""

    address: Address = derived(lambda item: item.entity.address)
    entity: Entity
    values: KeyDoubles


class FilterComponentRecord(Record):
    """The filter of one entity type."""

    entity_type: Annotated[str, about("The entity type.")] = field(name="type")
    rule: Annotated[Rule, about("How the name is matched.")]
    match: Annotated[str | None, about("The name or prefix; null for default and any.")]


class FilterRecord(Record):
    """The filter of the command."""

    strict: Annotated[bool, about("Whether entities with further entity types are excluded.")]
    components: Annotated[list[FilterComponentRecord], about("The filters per entity type, combined with AND.")]
    quota_types: Annotated[list[str] | None, about("The selected quota keys; null for all.")]


class DescribedRecord(Record, document="describe"):
    """Live client quotas of a Kafka cluster, as quotaform describe --format json prints them."""

    cluster: ClusterRecord
    read_at: Annotated[str, about("When it or its snapshot was read, as ISO 8601 in UTC.")]
    snapshot: Annotated[
        SnapshotFile | None, about("The snapshot that was read instead of a running cluster; null if there is none.")
    ]
    filter: FilterRecord
    quotas: Annotated[list[EntityQuotas], about("One item per entity, sorted by address.")]


def dump_described(described: Described) -> str:
    """Return quotas as JSON, sorted by address."""
    asked = described.entity_filter
    components = convert(asked.components, list[FilterComponentRecord], from_attributes=True)
    record = DescribedRecord(
        cluster=ClusterRecord(name=described.cluster_name, id=described.cluster_id),
        read_at=described.read_at,
        snapshot=described.snapshot,
        filter=FilterRecord(strict=asked.is_strict, components=components, quota_types=list(described.keys) or None),
        quotas=[
            EntityQuotas(entity=entity, values=in_order(values))
            for entity, values in sorted(described.quotas.items(), key=lambda item: item[0].address)
        ],
    )
    return dump_record(record)


class AlteredKey(Record):
    """A changed quota key."""

    key: QuotaKeyName
    before: Annotated[Double | None, about("The value before; null for none.")]
    after: Annotated[Double | None, about("The value now; null for none.")]


class AlteredRecord(Record, document="alter"):
    """The result of quotaform alter --format json."""

    cluster: ClusterRecord
    read_at: Annotated[str, about("When it was read, as ISO 8601 in UTC.")]
    validate_only: Annotated[
        bool, about("Whether the change was only validated; the values are then the expected ones.")
    ]
    address: Address = derived(lambda item: item.entity.address)
    entity: Entity
    values: Annotated[
        Mapping[str, Double], about("Quota key to value, read back from the cluster; empty if the entity was deleted.")
    ]
    changes: Annotated[list[AlteredKey], about("The changed keys.")]


def dump_altered(done: Altered, *, cluster_name: str, cluster_id: str, read_at: str) -> str:
    """Return an alteration as JSON."""
    changed = [key for key in sorted(done.ops, key=key_order) if done.has_changed(key)]
    altered = AlteredRecord(
        cluster=ClusterRecord(name=cluster_name, id=cluster_id),
        read_at=read_at,
        validate_only=done.is_validation,
        entity=done.entity,
        values=in_order(done.after),
        changes=[AlteredKey(key=key, before=done.before.get(key), after=done.after.get(key)) for key in changed],
    )
    return dump_record(altered)


class ReachedCluster(Record):
    """The cluster."""

    name: Annotated[str, about("The name in quotaform.yaml, or the bootstrap servers.")]
    id: Annotated[str | None, about("The cluster id; null if unknown.")]


RESOURCE_NOT_FOUND: Final = 91
"""The broker's error code for a user without credentials."""


class ScramMechanism(StrEnum):
    """The mechanisms that Kafka has, in the order of their numbers in KIP-554 (RFC 5802, RFC 7677)."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def number(self) -> int:
        """The number on the wire."""
        return list(ScramMechanism).index(self) + 1

    @property
    def hash_name(self) -> str:
        """The hash, as `hashlib` calls it."""
        return self.replace("SCRAM-", "").replace("-", "").lower()

    @classmethod
    def name_of(cls, number: int) -> str:
        """Return the name of a number; one that this version does not know is passed through."""
        return next((str(each) for each in cls if each.number == number), f"mechanism {number}")


class ScramCredential(Record, kw_only=False, order=True):
    """One credential."""

    mechanism: Annotated[str, about("The SCRAM mechanism.", "SCRAM-SHA-512")]
    iterations: Annotated[int, about("Iterations of hashing.")]


class ScramError(Record, kw_only=False):
    """Why the user could not be described."""

    code: Annotated[int, about("Kafka's error code.")]
    message: Annotated[str, about("The message of the broker.")]


class ScramUser(Record, kw_only=False):
    """One user."""

    user: Annotated[str, about("The user's name.")]
    credentials: Annotated[tuple[ScramCredential, ...], about("The user's credentials.")] = ()
    error: Annotated[ScramError | None, about("Why the user could not be described; null on success.")] = None

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a run that describes it: that of an error for a user without credentials."""
        return ExitCode.ERROR if self.error else ExitCode.DONE


class ScramRow(Record, kw_only=False):
    """The result for one credential."""

    user: Annotated[str, about("The user's name.")]
    mechanism: Annotated[str, about("The SCRAM mechanism.", "SCRAM-SHA-512")]
    iterations: Annotated[int | None, about("Iterations of hashing; null for a deletion.")]
    outcome: Annotated[Outcome, about("The result.")]
    code: Annotated[int | None, about("Kafka's error code; 0 on success.")] = 0
    message: Annotated[str | None, about("The message of the broker.")] = ""

    @property
    def subject(self) -> str:
        """The user and the mechanism."""
        return f"{spell_name(self.user)} {self.mechanism}"

    @property
    def reason(self) -> str:
        """Why it failed, on one line: the broker's message, or its code if it has none."""
        return reason_of(self.code, self.message or "")


class ScramResult(AlterationResults[ScramRow], frozen=True):
    """The results of altering credentials.

    `interrupt` is the Ctrl-C or SIGTERM that cut the work short, to be raised again once the rows were seen.
    """

    interrupt: BaseException | None = None

    @property
    def wrote_anything(self) -> bool:
        """Whether anything was or may have been written."""
        return any(row.outcome in (Outcome.OK, Outcome.UNKNOWN) for row in self.rows)

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a run that alters credentials."""
        if not self.failed:
            return ExitCode.DONE
        return ExitCode.PARTIAL if self.wrote_anything else ExitCode.ERROR


class ScramUsers(Record, document="scram"):
    """SCRAM credentials of users, as quotaform scram describe --format json prints them."""

    cluster: ReachedCluster
    users: Annotated[Sequence[ScramUser], about("One item per user, by name.")]


def dump_scram(users: Sequence[ScramUser], cluster_name: str, cluster_id: str | None) -> str:
    """Return credentials as JSON, by user; a user who could not be described has an error."""
    return dump_record(ScramUsers(cluster=ReachedCluster(name=cluster_name, id=cluster_id), users=users))


class ScramResultRecord(Record, document="scram-result"):
    """The result of changing SCRAM credentials; contains no passwords."""

    cluster: ReachedCluster
    results: Annotated[Sequence[ScramRow], about("One item per credential, in the requested order.")]


def dump_scram_result(result: ScramResult, cluster_name: str, cluster_id: str | None) -> str:
    """Return what became of each credential as JSON; nothing of any password is in it."""
    return dump_record(ScramResultRecord(cluster=ReachedCluster(name=cluster_name, id=cluster_id), results=result.rows))


class OutcomeError(Record):
    """Why there is no result."""

    exit_code: Annotated[int, about("The exit code of this error alone.")]
    message: Annotated[str, about("The error and its remedy.")]


class OutcomeRecord(Record):
    """The result for one cluster."""

    cluster: ClusterName
    error: Annotated[OutcomeError | None, about("Why there is no result; null if there is one.")]
    result: Annotated[
        dict[str, Any] | None, about("The document of the cluster: a plan, a drift or a receipt; null after an error.")
    ]


class OutcomesDocument(Record, document=OUTCOMES):
    """The results for several clusters, as plan, drift and apply print them with --format json."""

    outcomes: Annotated[list[OutcomeRecord], about("One item per cluster.")]


class Step(StrEnum):
    """The steps, in their order; those from RESOLVE to CLUSTER_ID are taken with each bootstrap server."""

    PROPERTIES = "properties"
    RESOLVE = "resolve"
    CONNECT = "connect"
    TLS = "tls"
    API_VERSIONS = "api-versions"
    AUTHENTICATE = "authenticate"
    CLUSTER_ID = "cluster"
    DESCRIBE_QUOTAS = "describe-quotas"
    ALTER_QUOTAS = "alter-quotas"
    DESCRIBE_CONFIGS = "describe-configs"


class StepStatus(StrEnum):
    """How a step ended."""

    OK = "ok"
    FAILED = "failed"
    NOT_REACHED = "not-reached"


class CheckedStep(Record):
    """One step; nothing in it is secret."""

    step: Annotated[Step, about("Which step.")]
    server: Annotated[str | None, about("The bootstrap server; null for the client properties and for rights.")] = None
    status: Annotated[StepStatus, about("How it ended; not-reached after an earlier step failed.")] = StepStatus.OK
    facts: Annotated[dict[str, str], about("What it showed, by name.", {"version": "TLSv1.3"})] = field(
        default_factory=dict
    )
    problem: Annotated[str | None, about("Why it failed and what to change; null if it did not.")] = None


class Checkup(Record, document="doctor"):
    """The steps of using a Kafka cluster, as quotaform doctor --format json prints them."""

    cluster: ReachedCluster
    checked_at: Annotated[Timestamp, about("When they were taken, as ISO 8601 in UTC.")]
    is_healthy: Annotated[bool, about("Whether all steps succeeded.")] = derived(
        lambda checkup: all(step.status is StepStatus.OK for step in checkup.steps), name="healthy"
    )
    steps: Annotated[tuple[CheckedStep, ...], about("The steps, in their order.", min_length=1)]

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a run that checks: the client properties are files."""
        if self.steps[0].status is StepStatus.FAILED:
            return ExitCode.INVALID
        return ExitCode.DONE if self.is_healthy else ExitCode.ERROR
