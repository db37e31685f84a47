"""What follows a plan that was saved: where it is, and the command that applies it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final

from quotaform.cli.saved_file import report_saved_files
from quotaform.core.outcome import ClusterOutcome
from quotaform.model.text import inert

_MOST_FILES: Final = 10

if TYPE_CHECKING:
    from quotaform.app.plan.request import PlanRequest
    from quotaform.cli.console import Console
    from quotaform.core.digest import PlanDigest
    from quotaform.desired.config import Cluster


def report_saved(
    console: Console,
    request: PlanRequest,
    files: Sequence[Mapping[str, Path]],
    outcomes: Sequence[ClusterOutcome[PlanDigest]],
) -> None:
    """Print to stderr where plans were saved, and the command that applies those that can be applied.

    The plan of a pull request is not applied but made again after the merge, so there is no command for it.

    Args:
        files: Cluster to plan file, for each time that plans were saved.
        outcomes: The plans; those of failed clusters were not saved.
    """
    plans = {outcome.cluster: outcome.require() for outcome in outcomes if outcome.error is None}
    saved = [paths[name] for paths in files for name in plans]
    if not saved:
        return
    report_saved_files(console, "plan" if len(saved) == 1 else "plans", saved)
    if request.base is not None and request.base.is_proposed:
        return
    clusters = [each for each in request.clusters if each.name in plans and _can_apply(request, each, plans[each.name])]
    if clusters:
        paths = [str(files[0][each.name]) for each in clusters]
        words = ("quotaform", "apply", *paths[:_MOST_FILES], *_target(request, clusters[0]))
        more = f" (and {len(paths) - _MOST_FILES:,} more plans with changes)" if len(paths) > _MOST_FILES else ""
        console.warn(f"To apply: {inert(' '.join(map(quote, words)))}{more}")


def _can_apply(request: PlanRequest, cluster: Cluster, plan: PlanDigest) -> bool:
    """Whether a plan has something to apply and a running cluster; one that was read from `--snapshot` may have one."""
    known = request.config.clusters.get(cluster.name)
    is_running = cluster.snapshot is None or (known is not None and known.snapshot is None)
    return bool(plan.changes) and plan.is_applyable and is_running


def _target(request: PlanRequest, cluster: Cluster) -> Iterator[str]:
    """Yield the options without which `apply` would not find the cluster."""
    from quotaform.app.repository.revision import CONFIG_NAME

    known = request.config.clusters.get(cluster.name)
    if known is not None and request.repository.config_path != Path(CONFIG_NAME):
        yield from ("--config", str(request.repository.config_path))
    if cluster.bootstrap_servers and (known is None or known.bootstrap_servers != cluster.bootstrap_servers):
        yield from ("--bootstrap-server", ",".join(cluster.bootstrap_servers))
        if cluster.command_config is not None:
            yield from ("--command-config", str(cluster.command_config))
