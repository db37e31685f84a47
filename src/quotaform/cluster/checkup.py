"""What `quotaform doctor` found: the steps of using a cluster, and how far they went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from quotaform.model.errors import ExitCode


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


@dataclass(frozen=True, slots=True)
class CheckedStep:
    """A step, with which server, how it ended, what it showed, and why it failed; nothing of it is secret."""

    step: Step
    server: str | None = None
    status: StepStatus = StepStatus.OK
    facts: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Checkup:
    """All steps, in their order; `cluster_id` is what the cluster called itself, if it was reached."""

    cluster_name: str
    cluster_id: str | None
    checked_at: str
    steps: tuple[CheckedStep, ...]

    @property
    def is_healthy(self) -> bool:
        """Whether all steps succeeded."""
        return all(step.status is StepStatus.OK for step in self.steps)

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a run that checks: the client properties are files."""
        if self.steps[0].status is StepStatus.FAILED:
            return ExitCode.INVALID
        return ExitCode.DONE if self.is_healthy else ExitCode.ERROR
