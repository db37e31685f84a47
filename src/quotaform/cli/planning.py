"""From options to what is planned, and where: in this process, or on Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, TypeAlias

import typer

from quotaform.cli.option.engine import SPARK
from quotaform.cli.option.value import complete_from, require_choice
from quotaform.cli.present import Gathered, gather
from quotaform.model.errors import UsageError
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.text import quote

if TYPE_CHECKING:
    from quotaform.cli.console import Console
    from quotaform.cli.option.cluster import ManyClusters
    from quotaform.cli.option.engine import Engine
    from quotaform.cli.present import FleetReports, OutputFiles
    from quotaform.drift.drift import DriftDigest
    from quotaform.fleet.options import SessionOptions
    from quotaform.history.drift import Past
    from quotaform.model.outcome import Progress
    from quotaform.model.scope import Selection
    from quotaform.model.settings import PruneMode
    from quotaform.plan.base import BaseChoice
    from quotaform.plan.plan import PlanDigest
    from quotaform.plan.run import PlanRequest
    from quotaform.report.format import Document


def make_request(
    target: ManyClusters,
    directory: Path | None,
    select: list[str] | None,
    exclude: list[str] | None,
    snapshot: Path | None = None,
    base: BaseChoice | None = None,
    prune: PruneMode | None = None,
    *,
    allow: list[str] | None = None,
    is_guarded: bool = True,
    revert: Path | None = None,
) -> PlanRequest:
    """Return what is to be planned.

    `snapshot`: the snapshot to read instead of a cluster. `base`: what to compare the files with. `prune`: what happens
    to undeclared entities, if not what quotaform.yaml says. `is_guarded`: whether guards, policies and lints are
    checked: not so when only drift is read from the plan. `revert`: the receipt of the apply that is to be reverted.
    """
    from quotaform import api
    from quotaform.plan.run import load_revertible

    selection = read_selection(select, exclude)
    repository = target.repository(directory)
    config = repository.config()
    receipt = None
    if revert is None:
        clusters = target.choose(repository, config, snapshot=snapshot)
    else:
        receipt = load_revertible(revert)
        pinned = (cluster.name for cluster in config.clusters.values() if cluster.cluster_id == receipt.cluster_id)
        name = next(pinned, receipt.cluster_name)
        clusters = (target.choose_for_plan(repository, revert, name, noun="receipt"),)
    return api.make_request(
        repository,
        config,
        clusters,
        selection=selection,
        base=base,
        prune=prune,
        allow=allow or (),
        revert=receipt,
        is_guarded=is_guarded,
    )


def read_selection(select: Sequence[str] | None, exclude: Sequence[str] | None) -> Selection:
    """Return the entities that `--select` and `--exclude` leave. Raises `UsageError` if a pattern cannot be used."""
    from quotaform.api import make_selection

    return make_selection(select or (), exclude or ())


class PlanEngine(Protocol):
    """What makes plans and finds drift. Documents are what an engine renders that does not return whole plans."""

    @property
    def is_spark(self) -> bool:
        """Whether Spark does the work."""

    def plan(self, request: PlanRequest, documents: Sequence[Document]) -> Gathered[Any]:
        """Return the plan of each cluster: a `Plan`, or a `StoredResult` of one."""

    def check_drift(self, request: PlanRequest, documents: Sequence[Document]) -> Gathered[Any]:
        """Return the drift of each cluster: a `Drift`, or a `StoredResult` of one."""


@dataclass(frozen=True, slots=True)
class LocalPlanEngine:
    """This process: one cluster after the other."""

    console: Console

    @property
    def is_spark(self) -> bool:
        """Whether Spark does the work."""
        return False

    def plan(self, request: PlanRequest, documents: Sequence[Document]) -> Gathered[Any]:
        """Return the plan of each cluster; after an interrupt, of those that are done."""
        if request.revert is not None:
            from quotaform.plan.run import plan_revert as plan
        else:
            from quotaform.plan.run import plan
        return gather(plan(request, progress=self.console.progress), _names(request))

    def check_drift(self, request: PlanRequest, documents: Sequence[Document]) -> Gathered[Any]:
        """Return the drift of each cluster; after an interrupt, of those that are done."""
        from quotaform.drift.run import check_drift
        from quotaform.plan.run import plan

        return gather(check_drift(request, plan, progress=self.console.progress), _names(request))


@dataclass(frozen=True, slots=True)
class SparkPlanEngine:
    """Spark."""

    console: Console
    session: SessionOptions
    past: Past | None = None  # What of a history clusters are compared with instead

    @property
    def is_spark(self) -> bool:
        """Whether Spark does the work."""
        return True

    def plan(self, request: PlanRequest, documents: Sequence[Document]) -> Gathered[Any]:
        """Return the plan of each cluster."""
        from quotaform.fleet.plan import plan

        return Gathered(
            tuple(
                plan(
                    request,
                    documents,
                    session=self.session,
                    progress=self._progress("Planning", request),
                    warn=lambda text: self.console.warn(f"Warning: {text}"),
                )
            )
        )

    def check_drift(self, request: PlanRequest, documents: Sequence[Document]) -> Gathered[Any]:
        """Return the drift of each cluster."""
        if self.past is not None:
            from quotaform.history.drift import check_drift_against

            check = partial(check_drift_against, request, self.past, documents)
        else:
            from quotaform.fleet.plan import check_drift

            check = partial(check_drift, request, documents)
        return Gathered(tuple(check(session=self.session, progress=self._progress("Comparing", request))))

    def _progress(self, verb: str, request: PlanRequest) -> Progress:
        from quotaform.cli.option.engine import JobProgress
        from quotaform.report.text import counted

        return JobProgress(self.console, f"{verb} {counted(len(request.clusters), 'cluster')}", self.session)


def plan_engine(console: Console, engine: Engine, request: PlanRequest, past: Past | None = None) -> PlanEngine:
    """Return the engine that was asked for.

    `past`: what of a history clusters are compared with instead of the files.
    """
    if past is not None:
        return SparkPlanEngine(console, engine.session(), past=past)
    if engine.choose(console, len(request.clusters), partial(quota_bytes, request)) == SPARK:
        return SparkPlanEngine(console, engine.session())
    return LocalPlanEngine(console)


def quota_bytes(request: PlanRequest) -> int:
    """Return how many bytes the quota files of a request have, about: files that are not read count, too."""
    sizes = 0
    for folder, _, names in os.walk(request.repository.directory):
        for name in names:
            with suppress(OSError):
                sizes += Path(folder, name).stat().st_size
    return sizes


def _names(request: PlanRequest) -> list[str]:
    return [cluster.name for cluster in request.clusters]


def require_selected(
    selection: Selection,
    outcomes: Sequence[ClusterOutcome[PlanDigest]] | Sequence[ClusterOutcome[DriftDigest]],
    *files: OutputFiles | FleetReports,
) -> None:
    """Make sure that the selection leaves an entity on one of the clusters, unless a cluster could not be read.

    `files`: files that are removed when there is no result to write.
    """
    if not selection.is_partial or any(outcome.error or outcome.require().has_entities for outcome in outcomes):
        return
    for each in files:
        each.remove()
    of_clusters = "of the clusters" if len(outcomes) > 1 else "of the cluster"
    raise UsageError(
        f"{selection_text(selection)}: no entity of the files or {of_clusters} is left; patterns begin with an entity "
        "type, as in --select 'user=svc-*'"
    )


def selection_text(selection: Selection) -> str:
    """Return a selection as options of the command line."""
    return " ".join(
        f"--{name} {' '.join(map(quote, globs))}"
        for name, globs in (("select", selection.select), ("exclude", selection.exclude))
        if globs
    )


_MODES: Final = ("report", "removed", "scope")

BaseOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--base",
        metavar="REF|RECEIPT",
        help="Git revision or receipt to compare the files with, e.g. origin/main. [default: in CI, the target branch "
        "or the commit before the push]",
        show_default=False,
    ),
]
NoBaseOption: TypeAlias = Annotated[
    bool, typer.Option("--no-base", help="Compare with nothing, even if the CI system names a base.")
]
PruneOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--prune",
        metavar="|".join(_MODES),
        help="What happens to live entities in scope that no file declares. [default: as in quotaform.yaml]",
        show_default=False,
        autocompletion=complete_from(_MODES),
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The options of a command that plans."""

    base: BaseOption = None
    no_base: NoBaseOption = False
    prune: PruneOption = None

    @property
    def is_given(self) -> bool:
        """Whether there is any of them."""
        return self.base is not None or self.no_base or self.prune is not None

    def choose_base(self, console: Console) -> BaseChoice | None:
        """Return the base that is meant; that of the CI system is reported.

        Raises `UsageError` if it cannot be the name of a git revision, or options exclude each other.
        """
        if self.base is not None:
            from quotaform.plan.base import BaseChoice, require_ref

            if self.no_base:
                raise UsageError("--base and --no-base cannot be combined; give one of them")
            return BaseChoice(refs=(require_ref(self.base),))
        if self.no_base or not ("GITHUB_ACTIONS" in os.environ or "GITLAB_CI" in os.environ):
            return None
        from quotaform.review.ci import find_ci_base

        found = find_ci_base(os.environ)
        if found is not None:
            console.warn(f"Base {found.name}, from {found.found_in} (--base gives another one, --no-base none)")
        return found

    def prune_mode(self) -> PruneMode | None:
        """Return what happens to undeclared entities; `None` when quotaform.yaml says it."""
        if self.prune is None:
            return None
        from quotaform.model.settings import PruneMode

        return PruneMode(require_choice("prune", self.prune, _MODES))
