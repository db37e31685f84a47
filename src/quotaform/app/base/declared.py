"""What the files of a base declare, and what protects the clusters there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from quotaform.app.base.cluster_bases import ClusterBases, SameBase
from quotaform.app.repository.policy_files import Folder, policy_digests
from quotaform.app.repository.safeguard import safeguards_of
from quotaform.core.base import Base, DeclaredBase
from quotaform.core.check import rule
from quotaform.core.cluster_base import ClusterBase
from quotaform.errors import InvalidFilesError, UsageError
from quotaform.model.approval import Approval
from quotaform.model.entry import Cause
from quotaform.model.finding import Finding, Severity
from quotaform.model.text import inert

if TYPE_CHECKING:
    from quotaform.app.repository.repository import Repository
    from quotaform.desired.config import Config
    from quotaform.desired.loader import LoadedFiles


def declared_bases(
    repository: Repository,
    config: Config,
    base: Base,
    names: Sequence[str],
    today: date,
    similar: LoadedFiles | None,
    folder: Folder,
) -> ClusterBases:
    """Return what the files of a base declare for each cluster.

    Args:
        repository: The repository at the base.
        config: The content of quotaform.yaml of this moment.
        names: The names of the clusters.
        similar: The files of this moment: what is the same at both is parsed once.
        folder: The folder of quotaform.yaml at the base.

    Raises:
        GitError: Git does not answer, or a limit is reached.
    """
    from quotaform.desired.loader import load_files

    try:
        earlier = repository.config()
    except InvalidFilesError as error:
        invalid = replace(_invalid(base, error), safeguards_problem=_config_problem(base, error))
        return SameBase(names, invalid)
    except UsageError as error:
        text = f"at {base.ref}: {error}"
        return SameBase(names, ClusterBase(findings=(rule.BASE_INVALID.finding(text),), safeguards_problem=text))
    files = load_files(
        repository.layout(earlier),
        earlier.profiles,
        today,
        earlier.scope,
        similar=None if similar is None else (similar, config.profiles),
    )
    return DeclaredBases(
        base,
        names,
        files,
        repository=repository,
        clusters=config.clusters.keys(),
        earlier=earlier,
        digests=policy_digests(folder, earlier.policies),
        approvals=_approvals(repository, today),
        removed=tuple(_removed_clusters(config, earlier, files, base)),
    )


class DeclaredBases(ClusterBases):
    """What the files of a base declare: those of a cluster are parsed when somebody asks about it."""

    def __init__(
        self,
        base: Base,
        names: Sequence[str],
        files: LoadedFiles,
        *,
        repository: Repository,
        clusters: Collection[str],
        earlier: Config,
        digests: Mapping[str, str],
        approvals: frozenset[Approval],
        removed: tuple[Finding, ...],
    ) -> None:
        """Note what was read.

        Args:
            names: The names of the clusters.
            repository: Where they are in messages.
            clusters: The names in the quotaform.yaml of this moment.
            earlier: The quotaform.yaml of the base.
            digests: Those of the policies of the base.
            approvals: What the base approves.
            removed: The findings about clusters that were removed since.
        """
        from quotaform.desired.tree import shown_path

        super().__init__(names)
        self._base = base
        self._files = files
        self._directory = shown_path(repository.directory)
        self._config_path = shown_path(repository.config_path)
        self._clusters = frozenset(clusters)
        self._earlier = earlier
        self._digests = dict(digests)
        self._approvals = approvals
        self._removed = removed

    def make(self, name: str) -> ClusterBase:
        """Return what the base declares for a cluster, and what protects it there."""
        found = self._declared(name)
        return replace(
            found,
            safeguards=safeguards_of(self._earlier, self._earlier.clusters.get(name), self._digests),
            approvals=self._approvals,
            findings=(*found.findings, *self._removed),
        )

    def release(self, name: str) -> None:
        """Let go of what is known of one cluster alone."""
        super().release(name)
        self._files.release(name)

    def _declared(self, name: str) -> ClusterBase:
        if not self._files.layout.tree.has_files:
            return _empty(self._base, f"{self._directory} has no quotas there")
        if name in self._clusters and name not in self._earlier.clusters:
            return _empty(self._base, f"cluster {name} is not in {self._config_path} there")
        try:
            return ClusterBase(declared=DeclaredBase(self._base, self._files.desired(name)))
        except InvalidFilesError as error:
            return _invalid(self._base, error)


def _removed_clusters(config: Config, earlier: Config, files: LoadedFiles, base: Base) -> Iterator[Finding]:
    """Yield a finding for each cluster of the base that quotaform.yaml does not have."""
    for name in earlier.clusters:
        if name in config.clusters:
            continue
        try:
            number = sum(entry.cause is Cause.ENTRY for entry in files.desired(name).values())
            declared = f"{number:,} {'entity' if number == 1 else 'entities'}"
        except InvalidFilesError:
            declared = "invalid entries"
        yield rule.CLUSTER_REMOVED.finding(
            f"cluster {inert(name)} is not in quotaform.yaml any more; the base {base.ref} declares {declared} for it, "
            "and its quotas stay as they are"
        )


def _approvals(repository: Repository, today: date) -> frozenset[Approval]:
    """Return what a base approves; a file that is invalid approves nothing."""
    try:
        return frozenset(repository.approvals(today))
    except InvalidFilesError:
        return frozenset()


def _empty(base: Base, why: str) -> ClusterBase:
    text = f"the base {base.ref} declares nothing for this cluster: {why}; everything counts as new"
    return ClusterBase(declared=DeclaredBase(base, {}), findings=(rule.BASE_EMPTY.finding(text),))


def _invalid(base: Base, error: InvalidFilesError) -> ClusterBase:
    text = f"the files at {base.ref} are invalid, so no change has an origin: {_first_problem(error)}"
    return ClusterBase(findings=(rule.BASE_INVALID.finding(text),))


def _config_problem(base: Base, error: InvalidFilesError) -> str:
    return f"at {base.ref} it is invalid: {_first_problem(error)}"


def _first_problem(error: InvalidFilesError) -> str:
    problems = [problem for problem in error.problems if problem.severity is Severity.ERROR]
    first = problems[0]
    where = f"{first.location}: " if first.location else ""
    more = f" (and {len(problems) - 1:,} more)" if len(problems) > 1 else ""
    return f"{where}{first.message}{more}"
