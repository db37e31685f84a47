"""The files of a repository for a process that goes on: read at each round, parsed only when they have changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from quotaform.app.base.base import BaseChoice, read_chosen_base
from quotaform.app.base.receipt import is_receipt
from quotaform.app.git.object_store import find_work_tree, open_objects
from quotaform.app.git.process import GitError, TimeLeft
from quotaform.app.plan.request import PlanRequest
from quotaform.app.repository.repository import Repository
from quotaform.app.repository.root import read_claims, root_trees
from quotaform.app.repository.source import Source
from quotaform.core.cluster_base import ClusterBase
from quotaform.core.plan import PlanSource
from quotaform.errors import FileReadError, QuotaformError
from quotaform.files import RECEIPT_LIMIT, read_bytes
from quotaform.model.entry import Desired

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster, Config
    from quotaform.desired.loader import LoadedFiles
    from quotaform.desired.tree import Tree

_UNREADABLE: Final = b"\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedState:
    """The files at one moment.

    Attributes:
        request: What to compare: the configuration and the clusters.
        desired: What the files declare for each cluster, by its name; an error if they are invalid for it.
        source: The directory, and what the baseline declares.
    """

    request: PlanRequest
    desired: Mapping[str, Desired | QuotaformError] = field(repr=False)
    source: Source = field(repr=False)

    @property
    def is_valid(self) -> bool:
        """Whether the files can be used for every cluster."""
        return not any(isinstance(each, QuotaformError) for each in self.desired.values())

    def declared(self, cluster: str) -> Desired:
        """Return what the files declare for a cluster. Raises `QuotaformError` if they are invalid."""
        found = self.desired[cluster]
        if isinstance(found, QuotaformError):
            # It is raised at each round, and a traceback only grows: it would hold on to the frames of all of them.
            raise found.with_traceback(None)
        return found


class WatchedFiles:
    """Reads the files whenever it is asked and returns the same value as long as nothing has changed."""

    def __init__(self, request: PlanRequest, choose: Callable[[Config], tuple[Cluster, ...]]) -> None:
        """Begin with what was read already.

        `request` is what to compare at first. `choose` returns the clusters that are meant, of a configuration.
        """
        self._request = request
        self._choose = choose
        self._key: tuple[object, ...] | None = None
        self._config_text = _config_text(request.repository)
        self._files: LoadedFiles | None = None
        self._state: WatchedState | None = None

    def load(self, today: date) -> WatchedState:
        """Return the files as they are.

        Raises `QuotaformError` if quotaform.yaml is invalid, or the baseline cannot be read.
        """
        self._reload_config()
        repository = self._request.repository
        tree = repository.revision.read_tree(repository.directory)
        base = self._request.base
        roots = root_trees(repository, self._request.config)
        key = (self._request, today, None if base is None else _base_key(repository, base), roots)
        is_same = self._files is not None and self._files.layout.tree == tree
        if self._state is None or not is_same or key != self._key:
            self._state = self._parse(tree, today)
            self._key = key
        return self._state

    def _reload_config(self) -> None:
        """Read quotaform.yaml again if it has changed.

        Raises `QuotaformError` if it is invalid, or does not name a cluster that was asked for.
        """
        text = _config_text(self._request.repository)
        if text == self._config_text:
            return
        config = self._request.repository.config()
        self._request = replace(self._request, config=config, clusters=self._choose(config))
        self._config_text = text

    def _parse(self, tree: Tree, today: date) -> WatchedState:
        from quotaform.desired.loader import load_files
        from quotaform.desired.tree import Layout

        request, before = self._request, self._state
        similar = None if self._files is None or before is None else (self._files, before.request.config.profiles)
        config = request.config
        files = load_files(Layout(tree, config.clusters), config.profiles, today, config.scope, similar=similar)
        desired: dict[str, Desired | QuotaformError] = {}
        for cluster in request.clusters:
            try:
                desired[cluster.name] = files.desired(cluster.name)
            except QuotaformError as error:
                # A traceback would hold on to this frame, and so to the files as they were before.
                desired[cluster.name] = error.with_traceback(None)
        bases: Mapping[str, ClusterBase] = {}
        if request.base is not None:
            bases = read_chosen_base(request.repository, config, request.base, request.clusters, today, similar=files)
        claims = read_claims(request.repository, config, today)
        source = Source(PlanSource(directory=request.repository.directory.as_posix()), bases=bases, claims=claims)
        self._files = files
        return WatchedState(request=request, desired=desired, source=source)


def _config_text(repository: Repository) -> bytes | str | None:
    """Return the text of quotaform.yaml, to see whether it changes."""
    try:
        source = repository.revision.read_config(repository.config_path)
    except FileReadError:
        return _UNREADABLE
    return None if source is None else source.text


def _base_key(repository: Repository, choice: BaseChoice) -> str | None:
    """Return what changes when the baseline does; `None` when it cannot be read."""
    ref = choice.refs[0]
    try:
        if is_receipt(ref):
            return sha256(read_bytes(ref, RECEIPT_LIMIT)).hexdigest()
        top = find_work_tree(repository.directory)
        if top is None:
            return None
        with open_objects(top, TimeLeft()) as objects:
            commit = objects.commit(f"{ref}^{{commit}}")
            return None if commit is None else commit.id
    except (FileReadError, GitError):
        return None
