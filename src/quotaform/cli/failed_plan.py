"""Writing the files of `plan --out` when nothing could be planned for any cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quotaform.cli.ci import Ci
from quotaform.cli.console import Console
from quotaform.cli.outcomes import OutputFiles
from quotaform.core.outcome import ClusterOutcome
from quotaform.core.plan import Plan
from quotaform.errors import QuotaformError, UsageError


def write_failed_plan(
    error: QuotaformError, out: Iterable[str], clusters: Sequence[str], ci: Ci, console: Console
) -> None:
    """Write why there is no plan, so that a comment does not go on showing the plan of an earlier commit.

    Wrong usage is not written: it is for whoever typed it.

    Args:
        error: Why nothing was planned.
        out: The values of `--out`.
        clusters: The names of the clusters, as far as they are known: quotaform.yaml may be invalid.
        ci: The run of a CI system that this is part of.
        console: Where it is said which files are removed.
    """
    if isinstance(error, UsageError) or not clusters:
        return
    outcomes: list[ClusterOutcome[Plan]] = [ClusterOutcome(name, error=error) for name in clusters]
    try:
        OutputFiles(console, "plan", out, clusters).write(outcomes, **ci.options)
        ci.report(console, "plan", outcomes)
    except QuotaformError as problem:
        # What failed first is what matters.
        console.report_failure(f"Warning: the failure is not in the files of --out: {problem}")
