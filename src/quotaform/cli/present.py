"""Where results go: stdout in one format, the files of --out and --report, and the CI system; and the exit code.

What a run in a CI system adds is links, annotations, a job summary, and outputs of the step. The variables of the
environment are read here, and in `quotaform.apply.audit`; views get what they say as arguments.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from re import findall
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from quotaform import __version__
from quotaform.cli.console import Console, write_file
from quotaform.cli.option.common import name_options
from quotaform.cli.option.run import PARQUET, Output, read_output
from quotaform.model.errors import BlockedError, ExitCode, NotReadError, QuotaformError, UsageError
from quotaform.model.outcome import ClusterOutcome, digest_of, exit_code, outcome_lines
from quotaform.model.text import inert, listed, nearest, quote
from quotaform.report.format import (
    ANNOTATED,
    FAILURES,
    FORMATS,
    ONE_DOCUMENT,
    REPORT,
    REPORTED,
    SECTIONS,
    render,
    render_outcome,
    render_total,
)
from quotaform.system.files import append_to_regular_file, remove_regular_file, require_writable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from quotaform.model.scope import Selection
    from quotaform.plan.run import PlanRequest
    from quotaform.repository.repository import Repository


T = TypeVar("T")

_LONGEST_NAME: Final = 100
"""Characters of a cluster's name in a path; file systems limit a name to 255 bytes."""

PLACEHOLDER: Final = "{cluster}"
"""Stands for the name of the cluster in a path."""


def cluster_paths(option: str, path: str | Path, clusters: Sequence[str]) -> Mapping[str, Path]:
    """Return where an option writes what belongs to each cluster; `path` is its value, empty when it is not given."""
    if len(clusters) > 1 and PLACEHOLDER not in str(path):
        example = f"{PLACEHOLDER}{inert(Path(path).suffix or '.json')}"
        raise UsageError(
            f"several clusters ({listed(clusters)}) need one file each; "
            f"write {PLACEHOLDER} in {option}, as in {option} '{example}'"
        )
    for word in findall(r"{[^{}]*}", str(path)):
        if word != PLACEHOLDER and nearest(word, [PLACEHOLDER]) is not None:
            raise UsageError(f"{option}: {inert(word)} stands for nothing; did you mean {PLACEHOLDER}?")
    paths = {name: cluster_path(path, name) for name in clusters}
    if len(set(paths.values())) < len(paths):
        raise UsageError(f"the names of some clusters give the same file name; run {option} for one cluster at a time")
    return paths


def cluster_path(path: str | Path, cluster: str) -> Path:
    """Return a path with the name of a cluster in it, which leads to no other folder and is not too long."""
    name = "".join(letter if letter.isprintable() and letter not in "/\\" else "_" for letter in cluster)
    return Path(str(path).replace(PLACEHOLDER, name[:_LONGEST_NAME] if name.strip(".") else "_"))


class OutFile(NamedTuple):
    """What is written of each result, and where."""

    subject: str
    format_name: str
    paths: Mapping[str, Path]  # By cluster


class Results:
    """Where the results of one run go. Nothing is printed or written before `present`, but failures of a whole run."""

    def __init__(
        self,
        output: Output,
        *,
        repository: Repository | None = None,
        out: Iterable[str] | None = None,
        report: Iterable[str] | None = None,
        missing: str = "not read",
        **shown: Any,
    ) -> None:
        """Read the values of `--report`; those of `--out` are read by `open`, which knows the clusters.

        `repository` is that of the results, if CI systems show them. `missing` is what became of a cluster that an
        interrupt left out, and `shown` what else the format on stdout takes.
        """
        self.output = output
        self.console = output.console
        self.format_name = output.format_name
        self.interrupt: KeyboardInterrupt | None = None  # What ended the run early
        self._subject = output.subject
        self._in_ci = repository is not None and not output.no_github  # Whether a CI system shows the results
        self._is_github = self._in_ci and os.environ.get("GITHUB_ACTIONS") == "true"
        self._out = tuple(out or ())
        self._unread = NotReadError(f"{missing}: the run was interrupted")
        self.files: list[OutFile] = []
        self._reports: list[tuple[str, Path]] = []
        for text in report or ():
            format_name, place = read_output(text, FORMATS["fleet-report"], "--report")
            if PLACEHOLDER in place:
                raise UsageError(
                    f"--report writes one file for all clusters; leave {PLACEHOLDER} out, or write a file for each "
                    "cluster with --out"
                )
            require_writable(Path(place))
            self._reports.append((format_name, Path(place)))
        self._context = {} if repository is None else run_options(repository.directory)
        self._options = {"style": self.console.style(), **shown, **self._context}

    def open(self, clusters: Sequence[str], *others: OutFile) -> None:
        """Read the values of `--out`; `others` are written of each result, too.

        A folder that is named after the clusters must be one that can be written to.
        """
        if len(clusters) > 1 and self.format_name in ONE_DOCUMENT:
            raise UsageError(
                f"--format {self.format_name} prints one cluster; choose one with --cluster, or use --format json"
            )
        self.files += others
        for text in self._out:
            format_name, place = read_output(text, FORMATS[self._subject])
            paths = cluster_paths("--out", place, clusters)
            for each in paths.values() if PLACEHOLDER in place else ():
                require_writable(each)
            self.files.append(OutFile(self._subject, format_name, paths))
        for path, number in Counter(path.absolute() for path in self._paths()).items():
            if number > 1 and (path.is_file() or not path.exists()):
                raise UsageError(
                    f"{inert(str(path))} would be written {number} times; give each result a file of its own"
                )

    def _paths(self) -> list[Path]:
        return [path for each in self.files for path in each.paths.values()] + [path for _, path in self._reports]

    def gather(self, outcomes: Iterable[ClusterOutcome[T]], clusters: Sequence[str]) -> tuple[ClusterOutcome[T], ...]:
        """Collect the outcomes of clusters until an interrupt comes; those that it left out failed."""
        found: dict[str, ClusterOutcome[T]] = {}
        try:
            for outcome in outcomes:
                found[outcome.cluster] = outcome
        except KeyboardInterrupt as interrupt:
            if not found:
                raise
            self.interrupt = interrupt
            return tuple(found.get(name) or ClusterOutcome(name, error=self._unread) for name in clusters)
        return tuple(found.values())

    def exit_code(self, outcomes: Sequence[ClusterOutcome[Any]], *, counts_differences: bool = True) -> ExitCode:
        """Return the code of the run; go on with the interrupt instead, if one ended it early."""
        if self.interrupt is not None:
            raise self.interrupt
        return exit_code(outcomes, counts_differences=counts_differences)

    @contextmanager
    def covering(self, clusters: Sequence[str], *, has_files: bool = False) -> Iterator[None]:
        """Write reports also when the block makes none, because of an error or an interrupt; `has_files`: files, too.

        So no file keeps the result of an earlier run. Wrong usage is not written: it concerns the command line alone.
        """
        try:
            yield
        except UsageError:
            raise
        except (QuotaformError, KeyboardInterrupt) as cause:
            error = cause if isinstance(cause, QuotaformError) else None
            failed: list[ClusterOutcome[Any]] = [ClusterOutcome(name, error=error or self._unread) for name in clusters]
            writers = {"--report": partial(self._write_reports, failed, error)}
            if has_files and clusters and error is not None:
                writers["--out"] = partial(self._write_failed_files, failed)
            for option, write in writers.items():
                try:
                    write()
                except QuotaformError as problem:
                    # What failed first is what matters.
                    self.console.warn_of_failure(f"the failure is not in the files of {option}: {problem}")
            raise

    def _write_failed_files(self, outcomes: Sequence[ClusterOutcome[Any]]) -> None:
        if not self.files:
            self.open([outcome.cluster for outcome in outcomes])
        self._write_files(outcomes)
        self._report_to_ci(outcomes)

    def _report_to_ci(self, outcomes: Sequence[ClusterOutcome[Any]]) -> None:
        """Note the outputs of a step of GitHub Actions, and append results to its summary."""
        if self._in_ci:
            note_outcomes(outcomes)
        name = os.environ.get("GITHUB_STEP_SUMMARY")
        if not (self._is_github and name):
            return
        is_one = len(outcomes) > MOST_SUMMARIES and self._subject in REPORTED
        try:
            for some in [outcomes] if is_one else [[outcome] for outcome in outcomes]:
                room = SUMMARY_BYTES - Path(name).stat().st_size
                if room < _LEAST:
                    return
                options = {**self._context, "limit": room - _LEAST // 2}
                if is_one:
                    pieces = render_fleet(self._subject, "markdown", some, **options)
                else:
                    pieces = render_outcome(self._subject, "markdown", some[0], **options)
                append_to_regular_file(Path(name), f"{''.join(pieces)}\n", SUMMARY_BYTES)
        except OSError as error:
            self.console.report_failure(f"The job summary cannot be written: {error.strerror or error}")

    def _write_files(self, outcomes: Iterable[ClusterOutcome[Any]]) -> None:
        """Write what was made; the file of a cluster that failed says so if its format can, or is removed."""
        for outcome in outcomes:
            for subject, format_name, paths in self.files:
                path = paths[outcome.cluster]
                if outcome.error is None or format_name in FAILURES:
                    write_file(path, render_outcome(subject, format_name, outcome, **self._context))
                else:
                    self._remove_earlier(path)

    def _remove_earlier(self, path: Path) -> None:
        """Remove a file of an earlier run, so that it is not taken for the result of this one."""
        try:
            was_there = remove_regular_file(path)
        except OSError as error:
            raise QuotaformError(f"{path}, of an earlier run, cannot be removed: {error.strerror or error}") from error
        if was_there:
            self.console.warn(
                f"Removed the earlier {inert(str(path))}, so that it is not taken for the result of this run"
            )

    def _write_reports(self, outcomes: Iterable[ClusterOutcome[Any]], error: QuotaformError | None = None) -> None:
        """Write the reports of all clusters, once: the first ones know best what happened."""
        reports, self._reports = self._reports, []
        for format_name, path in reports:
            write_file(path, render_fleet(self._subject, format_name, outcomes, error))

    def present(
        self, outcomes: Sequence[ClusterOutcome[Any]], request: PlanRequest | None = None, *, is_shown: bool = False
    ) -> None:
        """Write the files, report to the CI system, and print what became of clusters.

        Several clusters are one document as JSON, otherwise sections and a total; the error of the only one is raised.
        `request` is what was planned. `is_shown` says that the results are printed already, so that failures and the
        total are left.
        """
        for outcome in outcomes:
            name_options(outcome.error)
        if request is not None:
            self.require_selected(request.selection, outcomes)
        self._write_files(outcomes)
        self._write_reports(outcomes)
        if request is not None:
            from quotaform.apply.ledger import started_warnings

            found = [outcome.map(digest_of) for outcome in outcomes]
            running = [each for each in found if each.value is not None and not each.value.row.is_snapshot]
            # The apply that is being reverted is left out.
            for text in started_warnings(request.repository, running, request.revert):
                self.console.warn_of(text)
        self._report_to_ci(outcomes)
        self.console.echo(self._printed(outcomes, is_shown=is_shown), self.format_name)
        # A result that has no annotations itself has them on stderr.
        is_annotated = self._is_github and self.format_name != "github" and self._subject in ANNOTATED
        for outcome in outcomes if is_annotated else ():
            if outcome.error is None and digest_of(outcome.value).exit_code in ANNOTATED[self._subject]:
                pieces = render(self._subject, "github", outcome.value, **self._context)
                self.console.write_commands(pieces, is_result=False)

    def _printed(self, outcomes: Sequence[ClusterOutcome[Any]], *, is_shown: bool) -> Iterator[str]:
        format_name, style = self.format_name, self.console.style()

        def made(outcome: ClusterOutcome[Any]) -> Iterator[str]:
            return render_outcome(self._subject, format_name, outcome, **self._options)

        if format_name == REPORT:
            yield from render_fleet(self._subject, "text", outcomes, style=style)
        elif len(outcomes) == 1:
            if outcomes[0].error is not None and format_name == "markdown":
                yield from made(outcomes[0])  # A comment that says so takes the place of an earlier one.
            outcomes[0].require()
            yield from () if is_shown else made(outcomes[0])
        elif format_name == "json":
            yield from outcome_lines(
                each if each.error else ClusterOutcome(each.cluster, made(each)) for each in outcomes
            )
        elif format_name not in SECTIONS:
            for outcome in outcomes:
                yield from made(outcome)
        else:
            from quotaform.report.text import render_failure

            total = render_total(self._subject, outcomes, style)
            separator = ""
            for outcome in outcomes:
                is_counted = total is not None and isinstance(outcome.error, NotReadError)
                if is_counted or (is_shown and outcome.error is None):
                    continue
                yield separator
                if outcome.error is None:
                    yield from made(outcome)
                else:
                    yield render_failure(outcome.cluster, outcome.error, style)
                separator = "\n"
            if total is not None:
                yield f"{separator}{total}"

    def require_selected(self, selection: Selection, outcomes: Sequence[ClusterOutcome[Any]]) -> None:
        """Make sure that the selection leaves an entity on one of the clusters, unless a cluster could not be read."""
        if not selection.is_partial or any(each.error or digest_of(each.value).has_entities for each in outcomes):
            return
        for path in self._paths():
            self._remove_earlier(path)
        of_clusters = "of the clusters" if len(outcomes) > 1 else "of the cluster"
        raise UsageError(
            f"{selection_text(selection)}: no entity of the files or {of_clusters} is left; patterns begin with an "
            "entity type, as in --select 'user=svc-*'"
        )


def selection_text(selection: Selection) -> str:
    """Return a selection as options of the command line."""
    return " ".join(
        f"--{name} {' '.join(map(quote, globs))}"
        for name, globs in (("select", selection.select), ("exclude", selection.exclude))
        if globs
    )


def report_failures(console: Console, outcomes: Sequence[ClusterOutcome[T]]) -> ExitCode:
    """Print to stderr what failed on which cluster, for a result without a section for each; return its code."""
    for outcome in outcomes:
        name_options(outcome.error)
        if outcome.error is not None:
            console.write_stderr(f"Error: {inert(outcome.cluster)}: {outcome.error}\n")
    # What a plan would change is no failure of what is made of it.
    return exit_code(outcome for outcome in outcomes if outcome.error is not None)


def report_saved_files(console: Console, what: str, paths: Iterable[object]) -> None:
    """Print in one line to stderr where something was saved; nothing if there are no paths, or when quiet."""
    names = [inert(str(path)) for path in paths]
    if names:
        console.warn(f"Saved the {what} to: {listed(names)}")


class TableOutput:
    """Where the result of a run goes that has a table of rows: stdout, and the files of `--out`."""

    def __init__(self, output: Output, written: Iterable[str] | None, *, has_rows: bool = True) -> None:
        """Read the values of `--out`; `has_rows` says whether the rows of the result can be written."""
        self._output = output
        formats = (*FORMATS[output.subject], *((PARQUET,) if has_rows else ()))
        self._files = [read_output(text, formats) for text in written or ()]
        for name, path in self._files:
            if name != PARQUET:
                require_writable(Path(path))
                continue
            from quotaform.fleet.table import is_url

            if not is_url(path) and Path(path).exists():
                raise QuotaformError(f"--out parquet={quote(path)}: it exists already; name a new directory")

    @property
    def has_page(self) -> bool:
        """Whether a page of the result is printed or written, which may show more than the result has."""
        return "html" in (self._output.format_name, *(name for name, _ in self._files))

    def write(self, result: object, rows: DataFrame | None = None, **shown: Any) -> None:
        """Write a result, and all rows of it; `shown` is what else a format takes."""
        for name, path in self._files:
            if name == PARQUET and rows is not None:
                from quotaform.fleet.table import located

                rows.write.parquet(located(path))
            else:
                write_file(Path(path), render(self._output.subject, name, result, **shown))

    def present(self, result: object, rows: DataFrame | None = None, **shown: Any) -> None:
        """Write and print a result, and print to stderr what was written."""
        self.write(result, rows, **shown)
        self._output.print(result, **shown)
        report_saved_files(self._output.console, "result", (path for _, path in self._files))


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

STEPS: Final = frozenset({"plan", "apply", "drift", "validate"})
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
