"""What a run in a CI system adds: links, paths from the top of the repository, annotations and a job summary.

The variables of the environment are read here, and in `quotaform.app.run`; views get what they say as arguments.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from quotaform import __version__
from quotaform.app.place import Place
from quotaform.app.rendering import FORMATS, digest_of, render, render_failed
from quotaform.atomic_file import append_to_regular_file
from quotaform.cli.format import REPORTED

if TYPE_CHECKING:
    from quotaform.cli.console import Console
    from quotaform.core.outcome import ClusterOutcome

SUMMARY_BYTES: Final = 1 << 20
"""How much GitHub takes as the summary of a step."""
STEP_SUMMARY: Final = "step-summary"
"""The document that is appended to the summary of a step, of a result that was rendered elsewhere."""
MOST_SUMMARIES: Final = 20
"""With more clusters than this, the summary of a step has one report of all instead of a document for each."""
_LEAST: Final = 4096
"""With less room than this, nothing is added."""


@dataclass(frozen=True)
class Ci:
    """The run that this process is part of.

    Attributes:
        root: The quotas directory.
        is_enabled: Whether anything is added (`--no-github`).
    """

    root: Path | None = None
    is_enabled: bool = True
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @property
    def is_github(self) -> bool:
        """Whether this is a step of GitHub Actions, and annotations and a summary are wanted."""
        return self.is_enabled and self.variables.get("GITHUB_ACTIONS") == "true"

    @property
    def has_summary(self) -> bool:
        """Whether results are appended to the summary of a step."""
        return self.is_github and bool(self.variables.get("GITHUB_STEP_SUMMARY"))

    @cached_property
    def options(self) -> dict[str, Any]:
        """What renders results may need of the run."""
        from quotaform.app.run import read_run

        run = read_run(self.variables)
        return {
            "run_url": None if run is None else run.url,
            "place": self.place,
            "version": __version__,
            "root": "quotas.d" if self.root is None else self.root.as_posix(),
        }

    @cached_property
    def top(self) -> Path:
        """The top of the repository, or the current directory outside of one."""
        given = self.variables.get("GITHUB_WORKSPACE") or self.variables.get("CI_PROJECT_DIR")
        here = Path.cwd()
        if given and here.is_relative_to(Path(given).resolve()):
            return Path(given).resolve()
        from quotaform.app.git.object_store import find_work_tree

        top = find_work_tree(self.root or here)
        return here if top is None else top.resolve()

    @property
    def place(self) -> Place:
        """What finds files from the top of the repository."""
        return Place(self.top, Path.cwd())

    def report(self, console: Console, subject: str, outcomes: Sequence[ClusterOutcome[Any]]) -> None:
        """Note the outputs of a step of GitHub Actions, and append results to its summary.

        A summary that cannot be written is a warning.
        """
        if self.is_enabled and self.variables.get("GITHUB_OUTPUT"):
            from quotaform.cli.step_output import note_outcomes

            note_outcomes(outcomes)
        if not self.has_summary:
            return
        try:
            if len(outcomes) > MOST_SUMMARIES and subject in REPORTED:
                self._append(partial(_report_text, subject, outcomes))
            else:
                for outcome in outcomes:
                    self._append(partial(_outcome_text, subject, outcome))
        except OSError as error:
            console.report_failure(f"The job summary cannot be written: {error.strerror or error}")

    def _append(self, make: Callable[[Mapping[str, Any]], str]) -> None:
        path = Path(self.variables["GITHUB_STEP_SUMMARY"])
        room = SUMMARY_BYTES - path.stat().st_size
        if room < _LEAST:
            return
        text = make({**self.options, "limit": room - _LEAST // 2, "document": STEP_SUMMARY})
        append_to_regular_file(path, f"{text}\n", SUMMARY_BYTES)

    def annotate(self, console: Console, subject: str, format_name: str, value: object) -> None:
        """Print annotations on stderr, beside a result that has none."""
        if self.is_github and format_name != "github" and "github" in FORMATS[subject]:
            console.write_commands(render(subject, "github", value, **self.options), is_result=False)


def _outcome_text(subject: str, outcome: ClusterOutcome[Any], options: Mapping[str, Any]) -> str:
    text = render_failed(subject, "markdown", outcome, **options)
    return "".join(render(subject, "markdown", outcome.require(), **options)) if text is None else text


def _report_text(subject: str, outcomes: Sequence[ClusterOutcome[Any]], options: Mapping[str, Any]) -> str:
    from quotaform.core.fleet_report import make_fleet_report

    report = make_fleet_report(REPORTED[subject], [outcome.map(digest_of) for outcome in outcomes])
    return "".join(render("fleet-report", "markdown", report, **options))
