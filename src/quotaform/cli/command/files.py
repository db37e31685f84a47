"""`quotaform validate`, `fmt` and `schema`: the files, offline."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from quotaform.cli.console import Console, write_file, write_raw
from quotaform.cli.option.cluster import Clusters
from quotaform.cli.option.common import argument, complete_from, flag, option, require_choice
from quotaform.cli.option.run import Output, out_option, printed
from quotaform.cli.present import Results, report_failures
from quotaform.model.errors import ExitCode, UsageError
from quotaform.model.outcome import ClusterOutcome, exit_code
from quotaform.model.text import inert
from quotaform.report.format import SCHEMAS, schema_builder

if TYPE_CHECKING:
    from quotaform.desired.format import FormattedFile


_ALL: Final = "all"
"""Stands for the clusters, which are checked together."""


def validate(
    *,
    directories: list[Path] | None = argument(
        "DIR...", "Quotas directories, or their parent directories; no two may declare the same. [default: quotas.d]"
    ),
    target: Clusters,
    check_principals: bool = flag(
        "--check-principals", "Also check on the clusters that users have SCRAM credentials."
    ),
    out: list[str] | None = out_option("validation"),
    output: Output = printed("validation"),
) -> int:
    """Check the files offline: syntax, schema, semantics and policies. Exit 3 if there are errors.

    With several directories, each with its own quotaform.yaml, it is an error if two of them declare an entity for the
    same cluster.

    With --check-principals, each user in the files without SCRAM credentials on the cluster is a warning, unless the
    cluster has no SCRAM credentials at all. Warnings do not change the exit code.

    \b
    Examples:
      quotaform validate
      quotaform validate quotas.d --cluster prod-eu
      quotaform validate --out sarif=quotaform.sarif
      quotaform validate team-a team-b
      quotaform validate --check-principals
    """
    from quotaform.plan.validate import add_user_findings, check_clusters_users, validate_files, validate_together

    repository = target.repository(directories[0] if directories else None)
    results = Results(output, repository=repository, out=out, shows_warnings=not output.quiet)
    results.open([_ALL])
    if directories and len(directories) > 1:
        if target.config is not None or check_principals:
            option = "--check-principals" if check_principals else "--config"
            raise UsageError(f"{option} is about one quota repository; give one directory")
        report = validate_together([target.repository(each) for each in directories], target.cluster or ())
        results.present([ClusterOutcome(_ALL, report)])
        return report.exit_code
    checked = validate_files(repository, target.cluster or ())
    outcomes: Sequence[ClusterOutcome[Any]] = ()
    if check_principals and checked.report.is_valid:
        clusters = tuple(cluster for cluster in checked.config.clusters.values() if cluster.snapshot is None)
        if target.is_narrow or not checked.config.clusters:
            clusters = target.choose(repository, checked.config)
        elif not clusters:
            raise UsageError("--check-principals requires a running cluster, but quotaform.yaml has only snapshots")
        outcomes = check_clusters_users(checked, clusters)
        if len(outcomes) == 1:
            outcomes[0].require()
    report = add_user_findings(checked.report, outcomes)
    results.present([ClusterOutcome(_ALL, report)])
    report_failures(output.console, outcomes)
    return exit_code([ClusterOutcome(_ALL, report), *outcomes])


def fmt(
    *,
    paths: list[Path] | None = argument(
        "[DIR|FILE]...", "Files, directories, or - for stdin to stdout. [default: quotas.d and quotaform.yaml]"
    ),
    check: bool = flag("--check", "Write nothing; list what would change, and exit 2 if anything would."),
    diff: bool = flag("--diff", "Write nothing; print the differences, and exit 2 if there are any."),
    output: Output,
) -> int:
    """Bring quotas.d and quotaform.yaml into one style, with all comments, and list the files that were changed.

    In an entry, fields stand in the order match, profile, values, unset, state, expires, owner, reason, quota keys in
    that of the documentation, and values have the shortest unit of their family (1024MiB/s becomes 1GiB/s, and 20MB/s
    stays). Entries keep their order, and names and texts keep their quotes; one on several lines goes on one line,
    unless it is a block (| or >). What the files declare never changes.

    A file that is not valid YAML, or has a duplicate key, a tag or a second document, stays as it is: exit 3.

    \b
    Examples:
      quotaform fmt
      quotaform fmt --check
      quotaform fmt --diff quotas.d/orders.yaml
      quotaform fmt - < quotas.d/orders.yaml
    """
    from quotaform.desired.format import format_source
    from quotaform.desired.tree import SourceFile
    from quotaform.report.text import render_diff
    from quotaform.repository.repository import format_files
    from quotaform.system.files import QUOTAS_LIMIT, read_stdin

    console = output.console
    files: Iterable[tuple[FormattedFile, Path | None]]
    if not any(str(path) == "-" for path in paths or ()):
        files = format_files(paths or ())
    elif len(paths or ()) > 1:
        raise UsageError("- stands for stdin and cannot be combined with files")
    else:
        files = [(format_source(SourceFile("stdin", read_stdin(QUOTAS_LIMIT))), None)]
    writes = not (check or diff)
    codes = set()
    for file, path in files:
        for problem in file.problems:
            console.write_stderr(f"{problem}\n")
        codes.add(file.exit_code)
        if file.is_changed:
            if writes and path is not None:
                write_file(path, file.after)
            if diff:
                console.echo(render_diff(file.name, file.before, file.after, console.style()))
            elif not writes or path is not None:
                console.echo(f"{file.name}\n")
        if writes and path is None and not file.problems:
            if sys.stdout.isatty():
                console.echo(file.after)
            else:  # Another program gets it exactly; a terminal, without what could do harm.
                write_raw(sys.stdout, file.after)
    return ExitCode.most_severe(codes - {ExitCode.DIFFERENCES} if writes else codes)


def schema(
    name: str | None = argument("NAME", "Schema name; lists all names if omitted.", complete=complete_from(SCHEMAS)),
    output: Path | None = option("--output -o DIR", "Write all schemas to a directory."),
) -> int:
    """Print the JSON Schemas of all file formats, for validation and completion in editors.

    \b
    Examples:
      quotaform schema quotas
      quotaform schema --output schemas
    """
    from quotaform.model.records.schema import render_schema

    console = Console()
    if str(output) == "-":
        raise UsageError("--output names a directory, and - is none; give NAME to print a schema to stdout")
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        for each in SCHEMAS:
            write_file(output / f"{each}.schema.json", render_schema(schema_builder(each)))
        console.echo(f"Wrote {len(SCHEMAS)} schemas to {inert(str(output))}.\n")
    elif name is None:
        console.echo("".join(f"{each}\n" for each in SCHEMAS))
    else:
        console.echo(render_schema(schema_builder(require_choice("schema", name, tuple(SCHEMAS)))))
    return 0
