"""`--select` and `--exclude` that leave nothing are wrong usage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quotaform.core.outcome import ClusterOutcome
from quotaform.errors import UsageError
from quotaform.model.text import quote

if TYPE_CHECKING:
    from quotaform.cli.fleet_report import FleetReports
    from quotaform.cli.outcomes import OutputFiles
    from quotaform.core.digest import DriftDigest, PlanDigest
    from quotaform.core.scope import Selection


def require_selected(
    selection: Selection,
    outcomes: Sequence[ClusterOutcome[PlanDigest]] | Sequence[ClusterOutcome[DriftDigest]],
    *files: OutputFiles | FleetReports,
) -> None:
    """Make sure that the selection leaves an entity on one of the clusters, unless a cluster could not be read.

    Args:
        files: Files that are removed when there is no result to write.
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
