"""What became of clusters, printed and written: a section and files for each, and reports of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from quotaform.cli.ci import MOST_SUMMARIES, STEP_SUMMARY, SUMMARY_BYTES, Ci
from quotaform.cli.console import Console, remove_earlier, write_binary_file, write_file
from quotaform.cli.option.output import read_output
from quotaform.model.entity import spell_name
from quotaform.model.errors import NotReadError, QuotaformError, UsageError
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.text import inert, listed, quote
from quotaform.report.format import ONE_DOCUMENT, PICTURES, REPORT, SECTIONS, Document, digest_of, render, render_failed
from quotaform.system.files import require_writable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from quotaform.fleet.fleet_report import FleetReport
    from quotaform.plan.receipt import SavedReceipt
    from quotaform.report.chart import Chart
    from quotaform.report.text import Style
    from quotaform.repository.repository import Repository


_LONGEST_NAME: Final = 100
"""Characters of a cluster's name in a path; file systems limit a name to 255 bytes."""

PLACEHOLDER: Final = "{cluster}"
"""Stands for the name of the cluster in a path."""


def cluster_paths(option: str, path: str | Path, clusters: Sequence[str], *, example: str) -> Mapping[str, Path]:
    """Return where an option writes what belongs to each cluster.

    >>> cluster_paths("--out", "plans/{cluster}.json", ["eu", "us"], example="")["us"].as_posix()
    'plans/us.json'

    `path`: its value, empty when it is not given. `example`: A value of the option that would do.
    """
    if len(clusters) > 1 and PLACEHOLDER not in str(path):
        raise UsageError(
            f"several clusters ({listed(clusters)}) need one file each; "
            f"write {PLACEHOLDER} in {option}, as in {option} '{example}'"
        )
    paths = {name: Path(str(path).replace(PLACEHOLDER, file_name(name))) for name in clusters}
    if len(set(paths.values())) < len(paths):
        raise UsageError(f"the names of some clusters give the same file name; run {option} for one cluster at a time")
    return paths


def file_name(cluster: str) -> str:
    """Return the name of a cluster as part of a path: one that leads to no other folder and is not too long.

    >>> file_name("prod-eu"), file_name("a/b"), file_name("..")
    ('prod-eu', 'a_b', '_')
    """
    name = "".join(letter if letter.isprintable() and letter not in "/\\" else "_" for letter in cluster)
    return name[:_LONGEST_NAME] if name.strip(".") else "_"


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Gathered(Generic[T]):
    """The outcomes of a run, whole or as far as it came."""

    # One per cluster; that of a cluster which an interrupt left unread is a `NotReadError`
    outcomes: tuple[ClusterOutcome[T], ...]
    interrupt: KeyboardInterrupt | None = None  # What ended the run early

    def raise_interrupt(self) -> None:
        """Go on with the interrupt, if there was one, once what was finished is printed and written."""
        if self.interrupt is not None:
            raise self.interrupt


def gather(outcomes: Iterator[ClusterOutcome[T]], clusters: Sequence[str], *, missing: str = "not read") -> Gathered[T]:
    """Collect the outcomes of clusters until an interrupt comes.

    `missing`: what became of a cluster that an interrupt left out.
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
    from quotaform.apply.lock import started_receipt

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

    `subject`: what it is: a row of `quotaform.report.format.FORMATS`. `outcomes`: one per cluster; the error of the
    only one is raised. `total`: returns the lines that sum up several, of what each amounts to. `options`: what renders
    the subject, such as `style`.
    """
    if len(outcomes) == 1:
        print_result(console, format_name, render(subject, format_name, outcomes[0].require(), **options))
        return
    if format_name == "json":
        from quotaform.model.outcome import outcome_lines

        made = (outcome.map(lambda value: render(subject, format_name, value, **options)) for outcome in outcomes)
        console.echo(outcome_lines(made))
        return
    if format_name not in SECTIONS:
        for outcome in outcomes:
            failure = render_failed(subject, format_name, outcome, **options)
            result = render(subject, format_name, outcome.require(), **options) if failure is None else (failure,)
            print_result(console, format_name, result)
        return
    from quotaform.cli.outcome_text import render_failure

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


def require_sections(format_name: str, clusters: int) -> None:
    """Make sure that a result can be printed for several clusters: as sections, or in one JSON document."""
    if clusters > 1 and format_name not in ("text", "json"):
        raise UsageError(f"--format {format_name} prints one cluster; choose one with --cluster, or use --format json")


def echo_sections(
    console: Console,
    format_name: str,
    outcomes: Sequence[ClusterOutcome[T]],
    rendered: Callable[[T], Iterable[str]],
) -> None:
    """Print what was read of clusters: a section for each, or one JSON document. Raises the error of the only one."""
    if len(outcomes) == 1:
        console.echo(rendered(outcomes[0].require()))
        return
    if format_name == "json":
        from quotaform.model.outcome import outcome_lines

        console.echo(outcome_lines(outcome.map(lambda value: iter(rendered(value))) for outcome in outcomes))
        return
    from quotaform.cli.outcome_text import render_failure

    for place, outcome in enumerate(outcomes):
        console.echo("\n" if place else "")
        if outcome.error is None:
            console.echo(rendered(outcome.require()))
        else:
            console.echo(render_failure(outcome.cluster, outcome.error, console.style()))


STDOUT: Final = "stdout"
"""The document that is printed."""


def documents_of(
    format_name: str, printed: Mapping[str, Any], file_formats: Iterable[str], ci: Ci, clusters: int = 1
) -> tuple[Document, ...]:
    """Return the documents that a command needs of each result.

    `file_formats`: the formats that are written to files.
    """
    documents = [] if format_name == REPORT else [Document(STDOUT, format_name, printed)]
    documents += [Document(name, name, ci.options) for name in dict.fromkeys(file_formats)]
    if ci.has_summary and clusters <= MOST_SUMMARIES:
        documents.append(Document(STEP_SUMMARY, "markdown", {**ci.options, "limit": SUMMARY_BYTES}))
    return tuple(documents)


def report_saved_files(console: Console, what: str, paths: Iterable[object]) -> None:
    """Print in one line to stderr where something was saved; nothing if there are no paths, or when quiet.

    `what`: what it is, in singular or plural. `paths`: the files and directories, as they were given.
    """
    names = [inert(str(path)) for path in paths]
    if names:
        console.warn(f"Saved the {what} to: {listed(names)}")


SUBJECT: Final = "fleet-report"
_OPTION: Final = "--report"


class FleetReports:
    """The reports that were asked for."""

    def __init__(self, console: Console, command: str, written: Iterable[str]) -> None:
        """Read the values of `--report`.

        `written`: the values.
        """
        self._console = console
        self._command = command
        self._files: list[tuple[str, Path]] = []
        self._is_written = False
        for text in written:
            format_name, path = read_output(SUBJECT, text, option=_OPTION)
            if PLACEHOLDER in str(path):
                raise UsageError(
                    f"{_OPTION} writes one file for all clusters; leave {PLACEHOLDER} out, or write a file for each "
                    "cluster with --out"
                )
            require_writable(path)
            self._files.append((format_name, path))

    def write(self, outcomes: Sequence[ClusterOutcome[Any]], error: QuotaformError | None = None) -> None:
        """Write the files.

        `error`: what ended the run as a whole.
        """
        self._is_written = True
        if self._files:
            report = self._made(outcomes, error)
            for format_name, path in self._files:
                write_file(path, render(SUBJECT, format_name, report))

    def remove(self) -> None:
        """Remove the files of an earlier run, so that they are not taken for the result of this one."""
        for _, path in self._files:
            remove_earlier(self._console, path)

    def echo(self, outcomes: Sequence[ClusterOutcome[Any]]) -> None:
        """Print the report."""
        self._console.echo(render(SUBJECT, "text", self._made(outcomes), style=self._console.style()))

    @contextmanager
    def covering(self, clusters: Sequence[str]) -> Iterator[None]:
        """Write the files also when the block writes none, because of an error or an interrupt.

        Wrong usage is not written: it is for whoever typed it.

        `clusters`: the names of the clusters, as far as they are known.
        """
        try:
            yield
        except UsageError:
            raise
        except QuotaformError as error:
            self._write_failed([ClusterOutcome(name, error=error) for name in clusters], error)
            raise
        except KeyboardInterrupt:
            missing = "not applied" if self._command == "apply" else "not read"
            unread = NotReadError(f"{missing}: the run was interrupted")
            self._write_failed([ClusterOutcome(name, error=unread) for name in clusters])
            raise

    def _write_failed(self, outcomes: Sequence[ClusterOutcome[Any]], error: QuotaformError | None = None) -> None:
        try:
            if not self._is_written:
                self.write(outcomes, error)
        except QuotaformError as problem:
            # What failed first is what matters.
            self._console.report_failure(f"Warning: the failure is not in the files of {_OPTION}: {problem}")

    def _made(self, outcomes: Sequence[ClusterOutcome[Any]], error: QuotaformError | None = None) -> FleetReport:
        from quotaform.fleet.fleet_report import make_fleet_report

        return make_fleet_report(self._command, outcomes, error=error)


_PARQUET: Final = "parquet"


class TableOutput:
    """The files of one run."""

    def __init__(self, subject: str, written: Iterable[str]) -> None:
        """Read the values of `--out`.

        Raises `QuotaformError` if a file cannot be written, a directory exists already, or pictures cannot be drawn.
        """
        self._subject = subject
        self._files: list[tuple[str, Path]] = []
        self._folders: list[str] = []
        self._pictures: list[tuple[str, Path]] = []
        self._paths: list[str] = []
        for text in written:
            name, separator, path = text.partition("=")
            if name == _PARQUET and separator:
                self._folders.append(_new_folder(path))
                self._paths.append(path)
            else:
                format_name, file = read_output(subject, text)
                require_writable(file)
                self._paths.append(str(file))
                (self._pictures if format_name in PICTURES else self._files).append((format_name, file))
        if self._pictures:
            from quotaform.report.plot.library import require_matplotlib

            require_matplotlib()

    @property
    def has_pictures(self) -> bool:
        """Whether a chart of the result is needed."""
        return bool(self._pictures)

    def write(self, result: object, rows: DataFrame, **options: Any) -> None:
        """Write a result, and all rows of it."""
        for format_name, file in self._files:
            write_file(file, render(self._subject, format_name, result, **options))
        for folder in self._folders:
            rows.write.parquet(folder)

    def draw(self, chart: Chart) -> None:
        """Write the pictures of a result."""
        for format_name, file in self._pictures:
            write_binary_file(file, PICTURES[format_name](chart))

    def report(self, console: Console) -> None:
        """Print to stderr what was written, once it is."""
        report_saved_files(console, "result", self._paths)


def _new_folder(path: str) -> str:
    """Return where Spark is to write, if nothing is there."""
    if not path:
        raise UsageError("--out parquet: a directory is missing; write for example --out parquet=rows")
    from quotaform.fleet.table import is_url, located

    if not is_url(path) and Path(path).exists():
        raise QuotaformError(f"--out parquet={quote(path)}: it exists already; name a new directory")
    return located(path)
