"""How a command runs: in this process or on Spark, and how far it is; how it prints and writes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from quotaform.cli.console import Console
from quotaform.cli.option.common import choice, complete_from, flag, one_of, option
from quotaform.model.errors import UsageError
from quotaform.model.text import inert
from quotaform.report.format import ANNOTATED, FORMATS, REPORT, REPORTED, render

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from quotaform.fleet.options import SessionOptions
    from quotaform.model.outcome import Progress


LOCAL: Final = "local"
SPARK: Final = "spark"
AUTO: Final = "auto"

ON_SPARK: Final[Any] = {"engine": SPARK}
"""The default of the `Engine` of a command that always uses Spark: only where that runs is an option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Where a command computes. The options about Spark mean `--engine spark`, unless `--engine auto` decides."""

    engine: str | None = choice(
        "--engine",
        (LOCAL, SPARK, AUTO),
        "Compute in this process, on Spark (the spark extra and a JDK 17+), or on Spark for more than 400 clusters or "
        "64 MiB of files. [default: local; spark with --master, --remote or --spark-conf]",
    )
    master: str | None = option(
        "--master URL",
        "Spark master: local[2], spark://host:7077, yarn or k8s://https://host. [default: MASTER, else local[*]]",
    )
    remote: str | None = option("--remote sc://HOST[:PORT]", "Spark Connect server. [default: SPARK_REMOTE]")
    spark_conf: list[str] | None = option(
        "--spark-conf KEY=VALUE", "Setting of Spark, e.g. spark.executor.memory=4g. Repeatable."
    )

    def __post_init__(self) -> None:
        """Make sure that the options can be used, before any work is done."""
        values = {"--master": self.master, "--remote": self.remote, "--spark-conf": self.spark_conf}
        given = next((name for name, value in values.items() if value), None)
        if self.engine == LOCAL and given:
            raise UsageError(f"{given} is for Spark; leave --engine local out, or give --engine spark")
        if given:
            self.session()

    @property
    def is_given(self) -> bool:
        """Whether anything but this process is asked for."""
        return self.engine not in (None, LOCAL) or bool(self.master or self.remote or self.spark_conf)

    def session(self) -> SessionOptions:
        """Return where Spark runs, if it is used."""
        from quotaform.fleet.options import read_session

        return read_session(self.master, self.remote, self.spark_conf or ())

    def installed(self, usage: str | None = None) -> SessionOptions:
        """Return where Spark runs, and reads a usage table; modules that use it can be imported then."""
        from quotaform.fleet.session import require_installed

        session = replace(self.session(), has_joins=True)
        require_installed(session)
        if usage is not None:
            from quotaform.fleet.table import require_table

            require_table(usage, session)
        return session

    def start(
        self, console: Console, work: str, clusters: int, size: Callable[[], int] = int
    ) -> tuple[SessionOptions | None, Progress]:
        """Return where Spark runs, as use cases take it (`engine`), and what shows how far `Planning` of clusters is.

        It is `None` for this process. Why `auto` chooses Spark, or cannot use it, is reported. `size` is asked for the
        bytes of the quota files if it matters.
        """
        session = None
        if self.is_given:
            from quotaform.fleet.session import chosen_engine, require_installed

            session, engine = self.session(), SPARK
            if self.engine != AUTO:
                require_installed(session)
            else:
                engine, reason = chosen_engine(clusters, size, session)
                if reason is not None:
                    remedy = " (--engine local computes in this process)" if engine == SPARK else ""
                    console.warn(f"Engine {engine}: {reason}{remedy}")
            session = session if engine == SPARK else None
        return session, job_progress(console, work, clusters, session)


@contextmanager
def spark_job(console: Console, work: str, session: SessionOptions) -> Iterator[tuple[SparkSession, Progress]]:
    """Yield a session in which a command works alone, and what shows how far it is."""
    from quotaform.fleet.session import spark_session

    progress = spark_progress(console, work, session)
    with spark_session(session, progress) as spark:
        progress(work, 0, 0)
        yield spark, progress


def job_progress(
    console: Console, work: str, count: int, session: SessionOptions | None, what: str = "cluster"
) -> Progress:
    """Return what shows how far `Planning` of so many clusters is, with an engine as `Engine.start` returns it."""
    from quotaform.report.text import counted

    return console.progress if session is None else spark_progress(console, f"{work} {counted(count, what)}", session)


def spark_progress(console: Console, work: str, session: SessionOptions) -> Progress:
    """Return what shows how far work on Spark is; a log (of CI, a notebook) says when it begins, and where."""
    has_begun = False

    def progress(what: str, done: int, total: int) -> None:
        nonlocal has_begun
        if not (has_begun or sys.stderr.isatty()):
            from quotaform.fleet.session import new_session_place

            place = new_session_place(session)
            console.warn(f"{work} on Spark{'' if place is None else f' ({place})'} ...")
        has_begun = True
        console.progress(what, done, total)

    return progress


COLOR: Final = choice("--color", ("auto", "always", "never"), "When to use colours; NO_COLOR is respected.", "auto")


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What every command that prints a result understands, and where its output goes."""

    format_name: str = "text"
    color: str = COLOR
    quiet: bool = flag("--quiet -q", "Suppress progress and warnings, not failures.")
    verbose: bool = flag("--verbose -v", "Log steps to stderr; show tracebacks of internal errors.")

    subject: str = ""  # What is printed: a row of `quotaform.report.format.FORMATS`
    console: Console = field(init=False)
    no_github: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "console", Console(self.color, is_quiet=self.quiet, is_verbose=self.verbose))

    def print(self, result: object, **shown: Any) -> None:
        """Print a result in its format; `shown` is what else that takes."""
        self.console.echo(render(self.subject, self.format_name, result, style=self.console.style(), **shown))


REPORT_OUT: Final = option(
    "--report [FORMAT=]PATH",
    "Also write one report of all clusters to a file: text, json, markdown or html. Repeatable.",
    complete=complete_from([f"{name}=" for name in FORMATS["fleet-report"]]),
)
DRAWN_OUT: Final = option(
    "--out FORMAT=PATH|parquet=DIR",
    "Also write the result to a file, or all of its rows as Parquet to a new directory. Repeatable.",
)


_SUFFIXES: Final = {
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
    ".sarif": "sarif",
    ".txt": "text",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}

PARQUET: Final = "parquet"
"""The format of a folder that Spark writes."""


def read_output(
    text: str, formats: Collection[str], option: str = "--out", *, default: str = "json"
) -> tuple[str, str]:
    """Return the format and the path of `--out` and options like it: FORMAT=PATH, or a path, whose suffix may say it.

    >>> read_output("found/a=b.html", ("json", "html")), read_output("markdown=a.txt", ("json", "markdown"))
    (('html', 'found/a=b.html'), ('markdown', 'a.txt'))

    `default`: the format of a path whose suffix says none; empty if it must say one.
    """
    shown = f"{option} {inert(text)}"
    name, separator, path = text.partition("=")
    if text in formats:
        path = ""
    elif not separator or "/" in name:
        meant = _SUFFIXES.get(Path(text).suffix.lower(), default)
        name, path = meant if meant in formats else default, text
    if name not in formats:
        raise UsageError(f"{shown}: the format is not known; write FORMAT=NAME with the format {one_of(formats)}")
    if Path(path).suffix.lower() in {".yaml", ".yml"} and name != "yaml":
        raise UsageError(f"{shown}: files that end in .yaml hold quotas and configuration; name another file")
    if path in ("", "-"):
        raise UsageError(f"{shown}: a name is missing; write {option} {name}=NAME (to print, use --format)")
    return name, path


def printed(subject: str) -> Any:
    """Return what the `Output` is of a command that prints a subject."""
    made = {"subject": subject, "format_name": format_option(subject)}
    if subject in REPORTED or subject in ANNOTATED:  # CI systems show it
        made["no_github"] = flag("--no-github", "In GitHub Actions, write no annotations, job summary or outputs.")
    return made


def format_option(subject: str) -> Any:
    """Return the option `--format` of a command that prints a subject."""
    formats = (*FORMATS[subject], *((REPORT,) if subject in REPORTED else ()))
    text = "Output format." + (" report: one report of all clusters." if subject in REPORTED else "")
    return choice("--format", formats, text, "text")


def out_option(subject: str) -> Any:
    """Return the option `--out` of a command that prints a subject."""
    return option(
        "--out [FORMAT=]PATH",
        f"Also write the result to a file, e.g. json={subject}.json. Repeatable.",
        complete=complete_from([f"{name}=" for name in FORMATS[subject]]),
    )
