"""What a run in a CI system adds: links, annotations, a job summary, and outputs of the step.

The variables of the environment are read here, and in `quotaform.apply.audit`; views get what they say as arguments.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

from quotaform import __version__
from quotaform.cli.console import Console
from quotaform.model.errors import BlockedError, ExitCode, QuotaformError
from quotaform.model.outcome import ClusterOutcome, digest_of
from quotaform.report.format import REPORTED, render, render_outcome
from quotaform.system.files import append_to_regular_file

SUMMARY_BYTES: Final = 1 << 20
"""How much GitHub takes as the summary of a step."""
MOST_SUMMARIES: Final = 20
"""With more clusters than this, the summary of a step has one report of all instead of a document for each."""
_LEAST: Final = 4096
"""With less room than this, nothing is added."""


def run_options(root: Path | None = None) -> dict[str, Any]:
    """Return what renders results may need of the run that this process is part of; `root` is the quotas directory."""
    here, run = Path.cwd(), None
    # The top of the repository, or the current directory outside of one.
    given = os.environ.get("GITHUB_WORKSPACE") or os.environ.get("CI_PROJECT_DIR")
    if given and here.is_relative_to(Path(given).resolve()):
        top = Path(given).resolve()
    else:
        from quotaform.git import find_work_tree

        top = (find_work_tree(root or here) or here).resolve()

    def from_top(file: str) -> str | None:
        """Return the path of a file from the top of the repository; `None` for one that is outside."""
        path = Path(os.path.normpath(here / file))
        return path.relative_to(top).as_posix() if path.is_relative_to(top) else None

    if "GITHUB_ACTIONS" in os.environ or "GITLAB_CI" in os.environ:
        from quotaform.apply.audit import read_run

        run = read_run()
    return {
        "run_url": None if run is None else run.url,
        "place": from_top,
        "version": __version__,
        "root": "quotas.d" if root is None else root.as_posix(),
    }


def is_github() -> bool:
    """Whether this is a step of GitHub Actions."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def append_summary(
    console: Console, subject: str, outcomes: Sequence[ClusterOutcome[Any]], options: Mapping[str, Any]
) -> None:
    """Append results to the summary of a step of GitHub Actions, if this is one."""
    name = os.environ.get("GITHUB_STEP_SUMMARY")
    if not (is_github() and name):
        return
    is_one = len(outcomes) > MOST_SUMMARIES and subject in REPORTED
    try:
        for some in [outcomes] if is_one else [[outcome] for outcome in outcomes]:
            room = SUMMARY_BYTES - Path(name).stat().st_size
            if room < _LEAST:
                return
            limited = {**options, "limit": room - _LEAST // 2}
            if is_one:
                pieces = render_fleet(subject, "markdown", some, **limited)
            else:
                pieces = render_outcome(subject, "markdown", some[0], **limited)
            append_to_regular_file(Path(name), f"{''.join(pieces)}\n", SUMMARY_BYTES)
    except OSError as error:
        console.report_failure(f"The job summary cannot be written: {error.strerror or error}")


def render_fleet(
    subject: str,
    format_name: str,
    outcomes: Iterable[ClusterOutcome[Any]],
    error: QuotaformError | None = None,
    **options: Any,
) -> Iterator[str]:
    """Return the one report of all clusters; `error` is what ended the run."""
    from quotaform.fleet.report import make_fleet_report

    report = make_fleet_report(REPORTED[subject], [outcome.map(digest_of) for outcome in outcomes], error=error)
    return render("fleet-report", format_name, report, **options)


# What a step of GitHub Actions gives to later steps in the file `$GITHUB_OUTPUT`: the exit code and what it means.
#
# Actions makes one failure of every code that is not 0, so the reason is what a workflow can act on. Of several
# clusters it is that of the most severe.

COMMANDS: Final = frozenset({"plan", "apply", "drift", "validate"})
_REASONS: Final = {ExitCode.DONE: "success", ExitCode.INVALID: "invalid-files"}
"""What the codes mean whose name does not say it.

A blocked run is blocked:RULE,RULE, refused (by the broker's dry run) or not-approved.
"""
_NOTED: ContextVar[tuple[Any, ...]] = ContextVar("_NOTED", default=())
"""The digests and errors of the step that is running."""


def note_outcomes(outcomes: Iterable[ClusterOutcome[Any]]) -> None:
    """Keep what became of clusters for the outputs of the step, if it has any."""
    if not os.environ.get("GITHUB_OUTPUT"):
        return
    found = [digest_of(outcome.value) if outcome.error is None else outcome.error for outcome in outcomes]
    _NOTED.set((*_NOTED.get(), *found))


def end_step(code: int) -> str | None:
    """Append the outputs to `$GITHUB_OUTPUT`, and return why that is not possible, if so."""
    from secrets import token_hex

    noted = _NOTED.get()
    _NOTED.set(())
    reason = _REASONS.get(ExitCode(code), ExitCode(code).name.lower())
    if code == ExitCode.BLOCKED:
        rules = sorted({rule for each in noted for rule in getattr(each, "rules", ())})
        refusals = [each.reason for each in noted if isinstance(each, BlockedError)]
        reason = f"blocked:{','.join(rules)}" if rules else min(refusals, default=reason)
    totals: Counter[str] = Counter()
    for each in noted:
        totals.update(getattr(each, "counts", {}))  # Those of all clusters together
    outputs = {"exitcode": str(code), "reason": reason} | {name: str(n) for name, n in totals.items()}
    for name in ("plan_id", "fingerprint"):
        if found := [value for each in noted if (value := getattr(each, name, ""))]:
            outputs[name] = "\n".join(found)
    text = ""
    for name, value in outputs.items():
        end = f"quotaform-{token_hex(16)}"  # It cannot be guessed, so that no value can contain it.
        text += f"{name}<<{end}\n{value}\n{end}\n"
    try:
        append_to_regular_file(Path(os.environ["GITHUB_OUTPUT"]), text)
    except OSError as error:
        return f"the outputs of the step cannot be written: {error.strerror or error}"
    return None
