"""Printing and writing what became of clusters: one as it is, several with a section for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from quotaform.app.rendering import ONE_DOCUMENT, SECTIONS, digest_of, render, render_failed
from quotaform.cli.cluster_path import PLACEHOLDER, cluster_paths
from quotaform.cli.console import Console, remove_earlier, require_writable, write_file
from quotaform.cli.format import read_output
from quotaform.core.outcome import ClusterOutcome
from quotaform.errors import NotReadError, QuotaformError, UsageError
from quotaform.model.entity import spell_name
from quotaform.model.text import inert

if TYPE_CHECKING:
    from quotaform.app.repository.repository import Repository
    from quotaform.core.receipt import SavedReceipt
    from quotaform.views.style import Style

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Gathered(Generic[T]):
    """The outcomes of a run, whole or as far as it came.

    Attributes:
        outcomes: One per cluster; that of a cluster which an interrupt left unread is a `NotReadError`.
        interrupt: What ended the run early.
    """

    outcomes: tuple[ClusterOutcome[T], ...]
    interrupt: KeyboardInterrupt | None = None

    def raise_interrupt(self) -> None:
        """Go on with the interrupt, if there was one, once what was finished is printed and written."""
        if self.interrupt is not None:
            raise self.interrupt


def gather(outcomes: Iterator[ClusterOutcome[T]], clusters: Sequence[str], *, missing: str = "not read") -> Gathered[T]:
    """Collect the outcomes of clusters until an interrupt comes.

    Args:
        missing: What became of a cluster that an interrupt left out.

    Raises:
        KeyboardInterrupt: It came before any cluster was finished.
    """
    found: dict[str, ClusterOutcome[T]] = {}
    interrupt = None
    try:
        for outcome in outcomes:
            found[outcome.cluster] = outcome
    except KeyboardInterrupt as came:
        if not found:
            raise
        interrupt = came
    if interrupt is None:
        return Gathered(tuple(found.values()))
    unread = NotReadError(f"{missing}: the run was interrupted")
    return Gathered(tuple(found.get(name) or ClusterOutcome(name, error=unread) for name in clusters), interrupt)


class OutputFiles:
    """The files of `--out`: one per format and cluster."""

    def __init__(self, console: Console, subject: str, written: Iterable[str], clusters: Sequence[str]) -> None:
        """Read the values of `--out`.

        Raises `UsageError` if a value cannot be read, or several clusters would share one file, and `QuotaformError` if
        a folder that is named after the clusters cannot be written to.
        """
        self._console = console
        self._subject = subject
        self._files = []
        for text in written:
            format_name, path = read_output(subject, text)
            paths = cluster_paths("--out", path, clusters, example=f"{format_name}={subject}s/{PLACEHOLDER}.json")
            if PLACEHOLDER in str(path):
                for each in paths.values():
                    require_writable(each)
            self._files.append((format_name, paths))

    def write(self, outcomes: Iterable[ClusterOutcome[T]], **options: Any) -> None:
        """Write what was made.

        The file of a cluster that failed says so if its format can, or is removed, so that an earlier result is not
        taken for it.
        """
        for outcome in outcomes:
            for format_name, paths in self._files:
                path: Path = paths[outcome.cluster]
                if outcome.error is None:
                    write_file(path, render(self._subject, format_name, outcome.require(), **options))
                elif (failure := render_failed(self._subject, format_name, outcome, **options)) is not None:
                    write_file(path, failure)
                else:
                    remove_earlier(self._console, path)

    def remove(self) -> None:
        """Remove the files of an earlier run, so that they are not taken for the result of this one."""
        for _, paths in self._files:
            for path in paths.values():
                remove_earlier(self._console, path)

    @property
    def formats(self) -> list[str]:
        """The formats that are written."""
        return [name for name, _ in self._files]

    def paths(self, format_name: str) -> list[Mapping[str, Path]]:
        """Return the files of a format, one mapping of cluster to file for each `--out`."""
        return [paths for name, paths in self._files if name == format_name]


def report_failures(console: Console, outcomes: Iterable[ClusterOutcome[T]]) -> None:
    """Print to stderr what failed on which cluster, beside a result that has no section for each cluster."""
    for outcome in outcomes:
        if outcome.error is not None:
            console.write_stderr(f"Error: {inert(outcome.cluster)}: {outcome.error.text_of(outcome.cluster)}\n")


def failed_outcomes(failures: Iterable[tuple[str, QuotaformError]]) -> list[ClusterOutcome[None]]:
    """Return the outcomes of clusters that could not be read, each given by its name and why."""
    return [ClusterOutcome(name, error=error) for name, error in failures]


def require_one(format_name: str, clusters: Sequence[str]) -> None:
    """Make sure that a format can be printed for these clusters."""
    if format_name in ONE_DOCUMENT and len(clusters) > 1:
        raise UsageError(
            f"--format {format_name} prints one cluster; write a file for each, as in --out "
            f"'{format_name}={PLACEHOLDER}.json'"
        )


def print_result(console: Console, format_name: str, pieces: Iterable[str]) -> None:
    """Print a result in a format; commands for GitHub Actions are left whole."""
    if format_name == "github":
        console.write_commands(pieces)
    else:
        console.echo(pieces)


def warn_of_started(
    console: Console, repository: Repository, cluster: str, cluster_id: str, reverted: SavedReceipt | None = None
) -> bool:
    """Print that an apply from this directory was killed and left a started receipt; return whether one was."""
    from quotaform.app.apply.last_receipt import started_receipt

    found = started_receipt(repository, cluster, cluster_id)
    if found is not None and found[1] != reverted:
        (path, receipt), here = found, Path.cwd()
        shown = inert(str(path.relative_to(here) if path.is_relative_to(here) else path))
        console.warn(
            f"Warning: the apply to cluster {spell_name(cluster)} of {receipt.started_at} did not finish. Keep its "
            f"receipt. Apply again to complete it, or undo what it changed: quotaform plan --revert {shown}"
        )
    return found is not None


def warn_of_started_receipts(
    console: Console,
    repository: Repository,
    found: Iterable[ClusterOutcome[Any]],
    reverted: SavedReceipt | None = None,
) -> None:
    """Print which applies from this directory were killed, to clusters that were read (`digests`).

    Not of the receipt that is being reverted.
    """
    for outcome in found:
        if outcome.value is not None and not outcome.value.is_snapshot:
            warn_of_started(console, repository, outcome.cluster, outcome.value.cluster_id, reverted)


def digests(outcomes: Iterable[ClusterOutcome[Any]]) -> list[ClusterOutcome[Any]]:
    """Return what the results of clusters amount to."""
    return [outcome.map(digest_of) for outcome in outcomes]


def echo_outcomes(
    console: Console,
    subject: str,
    format_name: str,
    outcomes: Sequence[ClusterOutcome[T]],
    total: Callable[[Sequence[ClusterOutcome[Any]], Style], str],
    **options: Any,
) -> None:
    """Print what became of clusters.

    | clusters | as JSON | otherwise |
    | --- | --- | --- |
    | one | its document | its result |
    | several | one document of kind `quotaform.outcomes` | a section for each that was read, and in text the total |

    Args:
        subject: What it is: a row of `quotaform.app.rendering.FORMATS`.
        outcomes: One per cluster; the error of the only one is raised.
        total: Returns the lines that sum up several, of what each amounts to.
        options: What renders the subject, such as `style`.
    """
    if len(outcomes) == 1:
        print_result(console, format_name, render(subject, format_name, outcomes[0].require(), **options))
        return
    if format_name == "json":
        from quotaform.document.outcomes import outcome_lines

        made = (outcome.map(lambda value: render(subject, format_name, value, **options)) for outcome in outcomes)
        console.echo(outcome_lines(made))
        return
    if format_name not in SECTIONS:
        for outcome in outcomes:
            failure = render_failed(subject, format_name, outcome, **options)
            result = render(subject, format_name, outcome.require(), **options) if failure is None else (failure,)
            print_result(console, format_name, result)
        return
    from quotaform.views.plan.outcome_text import render_failure

    style = console.style()
    for outcome in outcomes:
        if isinstance(outcome.error, NotReadError):
            continue
        if outcome.error is None:
            console.echo(render(subject, format_name, outcome.require(), **options))
        else:
            console.echo(render_failure(outcome.cluster, outcome.error, style))
        console.echo("\n")
    console.echo(total(digests(outcomes), style))
