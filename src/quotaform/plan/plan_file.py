"""Saved plans: read, and compared with the approved id, the allowed age, and the guards of the repository."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from re import compile as regex
from typing import TYPE_CHECKING, Final

from msgspec import structs

from quotaform.model import rule
from quotaform.model.errors import NEW_PLAN, ArgumentError, FileReadError, PlanIdError, StaleError, first_lines
from quotaform.model.finding import APPROVALS_NAME, Allowance
from quotaform.model.moment import duration_text
from quotaform.model.quotas import Cause
from quotaform.model.text import listed, option_of, quote
from quotaform.plan.plan import Plan
from quotaform.plan.records import load_plan
from quotaform.repository.gateway import open_pinned_gateway
from quotaform.system.clock import SYSTEM_CLOCK, Clock, today
from quotaform.system.files import PLAN_LIMIT, read_bytes

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster, Config
    from quotaform.repository.repository import Repository


_SHOWN: Final = 5
_SKEW: Final = timedelta(minutes=5)
"""By how much the clocks of two machines may differ."""


_ID: Final = regex(r"(?:sha256:)?[0-9a-f]{64}").fullmatch


def read_plan_id(text: str) -> str:
    """Return the id of a plan; an empty one, of a variable that is not set, is refused. Raises `UsageError`."""
    if not _ID(text):
        problem = "{expect_plan_id}: {} is not a plan id; write sha256: and 64 hexadecimal digits"
        raise ArgumentError(problem, quote(text))
    return text


def load_plan_file(path: Path) -> Plan:
    """Read a saved plan.

    Raises `FileReadError`, `SavedFileError` or `SavedFileChangedError`.
    """
    try:
        content = read_bytes(path, PLAN_LIMIT)
    except FileReadError as error:
        if not error.is_missing:
            raise
        reason = f"{error.reason}; quotaform plan {option_of('out')} plan.json saves a plan"
        raise FileReadError(error.path, reason, is_missing=True) from error
    return load_plan(content, str(path))


def require_plan_id(plan_id: str, expected: str | None) -> None:
    """Raise `PlanIdError` unless the id of a plan is that of the one which was approved elsewhere."""
    if expected is not None and plan_id.removeprefix("sha256:") != expected.removeprefix("sha256:"):
        raise PlanIdError(expected=expected, found=plan_id)


def require_guards(plan: Plan, repository: Repository, clock: Clock = SYSTEM_CLOCK) -> None:
    """Make sure that a repository with a quotaform.yaml permits a plan: guards, approvals, scope and pruning.

    A plan file holds what it was made with, and its digests can be computed by anybody who writes one.

    Raises `StaleError` or `InvalidFilesError`.
    """
    if not os.path.lexists(repository.config_path):
        return
    config = repository.config()
    limits = plan.header.options.limits
    problems = [f"of the plan, {each}" for each in limits.looser_than(config.guard_limits)]
    if plan.approvals:
        held = repository.approvals(today(clock))
        problems.extend(
            f"{APPROVALS_NAME} does not hold the approval of {each.rule} for {each.target} ({each})"
            for each in plan.approvals
            if each not in held
        )
    problems.extend(_scope_problems(plan, config))
    if problems:
        raise StaleError(
            "the plan was checked with other guards than those of this repository, so nothing was written:",
            *first_lines(problems),
            NEW_PLAN,
        )


def _scope_problems(plan: Plan, config: Config) -> Iterator[str]:
    """Yield what a plan changes that quotaform.yaml does not let it change any more."""
    outside = [change.entity.address for change in plan.changes if not config.scope.contains(change.entity)]
    if outside and Allowance(rule.REVERT_UNMANAGED.id) not in plan.allowances:
        yield f"the plan changes {listed(outside, _SHOWN)}, out of scope"
    options = plan.header.options
    undeclared = sum(change.cause is Cause.UNDECLARED for change in plan.changes)
    if undeclared and options.prune.deletes_more_than(config.prune) and not options.is_prune_given:
        entities = "entity" if undeclared == 1 else "entities"
        yield f"the plan deletes {undeclared:,} undeclared {entities}: its prune is {options.prune}, not {config.prune}"


def require_recent(plan: Plan, longest: timedelta | None, clock: Clock = SYSTEM_CLOCK) -> None:
    """Make sure that a plan is not older than allowed.

    `longest` is how old it may be; `None` for any age. Raises `StaleError` if it is older, or was made more than five
    minutes in the future, so that its age is not known.
    """
    if longest is None:
        return
    created_at = plan.header.created_at
    age: timedelta | None = None
    with suppress(ValueError):
        age = clock.now() - datetime.strptime(created_at, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    if age is None:
        problem = "which is not a time"
    elif age < -_SKEW:
        problem = f"which is {duration_text(-age)} in the future: check the clocks"
    elif age > longest:
        problem = f"{duration_text(age)} ago, and may be {duration_text(longest)} old at most"
    else:
        return
    raise StaleError(f"the plan was made at {created_at}, {problem}; nothing was written: make a new plan")


def with_actual(plan: Plan, cluster: Cluster) -> Plan:
    """Return a saved plan with everything that its cluster holds now, which plan files do not have.

    Raises `InvalidFilesError`, `ClusterError` or `StaleError`.
    """
    with open_pinned_gateway(cluster) as gateway:
        plan.require_cluster(gateway.cluster_id())
        header = structs.replace(plan.header, cluster_name=cluster.name)
        return replace(plan, header=header, actual=gateway.describe())
