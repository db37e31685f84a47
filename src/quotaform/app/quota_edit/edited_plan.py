"""The plan that changed quota files would make, before they are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from quotaform.app.plan.plan import plan
from quotaform.app.plan.request import PlanRequest
from quotaform.app.quota_edit.quota_edit import Changed, EditedFiles
from quotaform.app.repository.repository import Repository
from quotaform.app.repository.revision import Revision
from quotaform.core.plan import Plan
from quotaform.core.usage.sizing.recommendation import Recommendation
from quotaform.desired.tree import Root, layer_of
from quotaform.errors import QuotaformError
from quotaform.model.entity import Entity

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster, Config
    from quotaform.desired.tree import SourceFile, Tree


@dataclass(frozen=True, slots=True)
class EditedRevision:
    """The files of a repository with changes that are not written.

    Attributes:
        below: The files without them.
        files: The changed files, by their paths in it.
    """

    below: Revision
    directory: Path
    files: Mapping[str, bytes]

    def read_config(self, path: Path) -> SourceFile | None:
        """Read quotaform.yaml, which does not change."""
        return self.below.read_config(path)

    def read_tree(self, directory: Path, files: MutableMapping[str, bytes] | None = None) -> Tree:
        """Read a quotas directory; what cannot be read is part of the answer."""
        tree = self.below.read_tree(directory, files)
        if directory != self.directory or not self.files:
            return tree
        layers = {layer for path in self.files if (layer := layer_of(path)) is not None}
        changed = {**tree.files, **self.files}
        return replace(tree, files=changed, folders=sorted({*tree.folders, *layers}), root=Root.DIRECTORY)


@dataclass(frozen=True, slots=True)
class ProposedPlans:
    """The plans of proposals.

    Attributes:
        plans: One per cluster that the changed files change, of nothing but the entities that proposals are about;
            each with what the cluster holds.
        others: How many other entities the files change on these clusters.
        failures: The clusters that could not be planned, and why.
    """

    plans: tuple[Plan, ...] = ()
    others: int = 0
    failures: tuple[tuple[str, QuotaformError], ...] = ()


def plan_proposals(
    repository: Repository,
    config: Config,
    clusters: Sequence[Cluster],
    proposals: Iterable[Recommendation],
    edited: EditedFiles,
) -> ProposedPlans:
    """Plan the clusters by files that follow proposals.

    Args:
        clusters: The clusters, which are read now.
        edited: The files that follow the proposals, written or not.

    Raises:
        InvalidFilesError: The files are invalid.
    """
    left = {_place(each.proposal) for each in edited.edit.unwritten}
    followed: set[Changed] = {(each.cluster, each.entity) for each in proposals if _place(each) not in left}
    concerned = {cluster for cluster, _ in followed}
    chosen = tuple(cluster for cluster in clusters if cluster.name in concerned)
    if not chosen:
        return ProposedPlans()
    files = {
        path.relative_to(repository.directory).as_posix(): file.after.encode()
        for path, file in zip(edited.paths, edited.edit.files, strict=True)
    }
    revision = EditedRevision(repository.revision, repository.directory, files)
    request = PlanRequest(
        repository=replace(repository, revision=revision),
        config=config,
        clusters=chosen,
        has_lints=False,
        is_guarded=False,
        keeps_actual=True,
    )
    outcomes = list(plan(request))
    made = [outcome.value for outcome in outcomes if outcome.value is not None]
    plans = tuple(_limited(each, followed) for each in made)
    return ProposedPlans(
        plans=plans,
        others=sum(len(each.changes) for each in made) - sum(len(each.changes) for each in plans),
        failures=tuple((outcome.cluster, outcome.error) for outcome in outcomes if outcome.error is not None),
    )


def _place(each: Recommendation) -> tuple[str, Entity, str]:
    return each.cluster, each.entity, each.key


def _limited(made: Plan, followed: set[Changed]) -> Plan:
    """Return a plan of nothing but the entities that proposals are about."""
    cluster = made.header.cluster_name
    changes = tuple(change for change in made.changes if (cluster, change.entity) in followed)
    return made if len(changes) == len(made.changes) else replace(made, changes=changes, is_complete=False)
