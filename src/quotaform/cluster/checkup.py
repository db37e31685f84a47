"""What `quotaform doctor` found: the steps of using a cluster, and how far they went."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import field

from quotaform.model.errors import ExitCode
from quotaform.model.records.document import DOCTOR
from quotaform.model.records.record import Record, Timestamp, about, derived


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


class ReachedCluster(Record):
    """The cluster."""

    name: Annotated[str, about("The name in quotaform.yaml, or the bootstrap servers.")]
    id: Annotated[str | None, about("The cluster id; null if unknown.")]


class CheckedStep(Record):
    """One step; nothing in it is secret."""

    step: Annotated[Step, about("Which step.")]
    server: Annotated[str | None, about("The bootstrap server; null for the client properties and for rights.")] = None
    status: Annotated[StepStatus, about("How it ended; not-reached after an earlier step failed.")] = StepStatus.OK
    facts: Annotated[dict[str, str], about("What it showed, by name.", {"version": "TLSv1.3"})] = field(
        default_factory=dict
    )
    problem: Annotated[str | None, about("Why it failed and what to change; null if it did not.")] = None


class Checkup(Record, document=DOCTOR):
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
