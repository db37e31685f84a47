"""What a check of a plan may need to know beside the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from quotaform.core.check.lint.setting import Capacity, LintSettings
from quotaform.core.check.policy import Policy
from quotaform.core.cluster_base import ClusterBase
from quotaform.core.prune import Pruning
from quotaform.core.revert import Revert
from quotaform.core.safeguards import Safeguards
from quotaform.core.scope import ALL, Selection
from quotaform.model.approval import Approval
from quotaform.model.entity import Entity
from quotaform.model.entry import Desired
from quotaform.model.quotas import Quotas


@dataclass(frozen=True, slots=True)
class Removal:
    """Where an entity was removed from the files.

    Attributes:
        file: The file that declared it, as messages name it.
        commit: The commit that removed it; `None` when that is not committed.
        is_applied: Whether the files of the last apply did not declare it any more.
    """

    file: str
    commit: str | None = None
    file_exists: bool = True
    is_applied: bool = False


@dataclass(frozen=True, slots=True)
class NotSearched:
    """Earlier files that were not searched.

    Attributes:
        commit: The commit of the file, or the oldest one whose files were searched; `None` when there is none.
        file: The file, as messages name it; `None` for all files before the commit.
        count: How many files.
    """

    reason: str
    commit: str | None = None
    file: str | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class RemovalSearch:
    """What a search of earlier files found.

    Attributes:
        removals: Entities that the files declared before and do not declare any more.
        not_searched: What was left out of the search although it may declare others.
    """

    removals: Mapping[Entity, Removal] = field(default_factory=dict)
    not_searched: tuple[NotSearched, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LintRequest:
    """What lints of a plan need to know.

    Attributes:
        settings: What quotaform.yaml says about lints.
        capacity: What the brokers of the cluster can do, as far as that is declared.
        today: The day (UTC).
    """

    settings: LintSettings
    capacity: Capacity
    today: date


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts around a plan.

    Attributes:
        pinned_id: The id that quotaform.yaml pins the cluster to, if it does.
        other_pin: The name of another live cluster that quotaform.yaml pins to the id of this one.
        selection: The part of the plan that was asked for.
        removed: What earlier files declared that the files do not declare any more.
        safeguards: What in the repository protects the cluster.
        today: The day (UTC) on which approvals may have expired.
        missing: Why there are no files, if there are none.
        source_problem: Why the commit of the files is not known, although there is one.
        policies: What the repository asks of every entry.
        base: What the files are compared with, or why nothing is.
        pruning: What is deleted that no file declares.
        revert: What is put back, if the plan is a revert.
        lints: What lints need to know; `None` when they are not made.
    """

    desired: Desired
    actual: Quotas
    pinned_id: str | None = None
    other_pin: str | None = None
    selection: Selection = ALL
    removed: RemovalSearch = field(default_factory=RemovalSearch)
    safeguards: Safeguards = Safeguards()  # noqa: RUF009
    approvals: tuple[Approval, ...] = ()
    today: date = date.max
    missing: str | None = None
    source_problem: str | None = None
    policies: tuple[Policy, ...] = ()
    base: ClusterBase = field(default_factory=ClusterBase)
    pruning: Pruning = field(default_factory=Pruning)
    revert: Revert | None = None
    lints: LintRequest | None = None
