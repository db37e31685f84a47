"""`quotaform init`, `import` and `comment`: what begins a quota repository, and shows plans in its pull requests."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from quotaform.cli.console import Console
from quotaform.cli.option.cluster import BOOTSTRAP_SERVER, COMMAND_CONFIG, OR_SNAPSHOT, Clusters
from quotaform.cli.option.common import REQUIRED, argument, choice, flag, one_of, option, require_choice
from quotaform.cli.option.run import Engine, Output
from quotaform.cli.present import report_failures
from quotaform.model.errors import ExitCode, UsageError
from quotaform.model.outcome import ClusterOutcome, exit_code
from quotaform.model.text import inert
from quotaform.repository.revision import CONFIG_NAME
from quotaform.review.comment import CommentMode, comment_warnings, render_comment
from quotaform.system.files import write_files

CI_SYSTEMS: Final = ("github", "gitlab", "none")
"""The keys of `CI_FILES`, whose module imports much."""
_YAML: Final = (".yaml", ".yml")


def init(
    *,
    directory: Path | None = argument("DIR", "Where the repository goes. [default: the current directory]"),
    cluster: str | None = option("--cluster NAME", "What to call the cluster."),
    bootstrap_server: str | None = BOOTSTRAP_SERVER,
    command_config: Path | None = COMMAND_CONFIG,
    imports: bool | None = option("--import/--no-import", "Whether to write the live quotas as YAML."),
    ci: str | None = choice("--ci", CI_SYSTEMS, "The CI system to write workflows for."),
    dry_run: bool = flag("--dry-run", "List the files, and write nothing."),
    output: Output,
) -> int:
    """Make a quota repository for a cluster: quotaform.yaml, quotas.d, schemas for editors, .gitignore, CI workflows.

    What the options leave open is asked for on a terminal. The id of the cluster is pinned in quotaform.yaml, and a
    plan made right after an import is empty. No file is overwritten: if any of them exists, nothing is written.

    In a repository that has other clusters, the quotas of a further one are written to its own folder of quotas.d, and
    the lines to add to quotaform.yaml are printed.

    \b
    Examples:
      quotaform init
      quotaform init --cluster prod-eu --bootstrap-server broker1:9092 --import --ci github
      quotaform init kafka-quotas --cluster lab --bootstrap-server localhost:9092 --no-import --ci none
    """
    from quotaform.review.init import InitRequest, make_repository, require_cluster, require_nothing_there
    from quotaform.review.report import init_lines

    console = output.console
    folder = directory or Path()
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"DIR must be a directory, but {folder} is a file")
    if not (folder / CONFIG_NAME).is_file():
        require_nothing_there(folder, ci or "none")
    given = {"--cluster": cluster, "--bootstrap-server": bootstrap_server, "--import": imports, "--ci": ci}
    missing = [option for option, value in given.items() if value is None]
    if missing and not sys.stdin.isatty():
        raise UsageError(
            f"there is no terminal to ask on; give {', '.join(missing)}".replace("--import", "--import or --no-import")
        )
    usual = InitRequest(
        directory=folder, servers="localhost:9092", command_config=None, cluster="kafka", imports=False, ci="none"
    )

    def require_file(answer: str) -> None:
        if answer and not Path(answer).is_file():
            raise UsageError(f"There is no file {answer}")

    if cluster is None:
        cluster = _ask(
            console, "Name of the cluster", usual.cluster, lambda name: require_cluster(replace(usual, cluster=name))
        )
    if bootstrap_server is None:
        bootstrap_server = _ask(
            console, "Bootstrap servers", usual.servers, lambda text: require_cluster(replace(usual, servers=text))
        )
        if command_config is None:
            properties = _ask(console, "Client properties file (if it needs one)", "", require_file)
            command_config = Path(properties) if properties else None
    if imports is None:
        answer = _ask_choice(console, "Import its quotas (yes or no)", "yes", ("yes", "no", "y", "n"))
        imports = answer.startswith("y")
    if ci is None:
        likely = "github" if (folder / ".github").is_dir() else "none"
        ci = _ask_choice(console, f"CI system ({one_of(CI_SYSTEMS)})", likely, CI_SYSTEMS)
    request = replace(
        usual, servers=bootstrap_server, command_config=command_config, cluster=cluster, imports=imports, ci=ci
    )
    made = make_repository(request, progress=console.progress)
    console.keep_code()
    if not dry_run:
        write_files(made.files)
    console.echo("".join(f"{line}\n" for line in init_lines(made, console.style(), is_dry_run=dry_run)))
    return 0


def _ask(console: Console, question: str, usual: str, check: Callable[[str], object]) -> str:
    """Ask at the terminal until the check raises no `UsageError`; an empty answer is the usual one."""
    while True:
        console.write_stderr(f"{question}{f' [{usual}]' if usual else ''}: ")
        line = sys.stdin.readline()
        if not line:
            raise UsageError("the input ended before everything was answered; nothing was written")
        answer = line.strip() or usual
        try:
            check(answer)
        except UsageError as error:
            console.write_stderr(f"{error}\n")
        else:
            return answer


def _ask_choice(console: Console, question: str, usual: str, allowed: Sequence[str]) -> str:
    """Ask for one of some words, in upper or lower case."""
    return _ask(console, question, usual, lambda answer: require_choice("answer", answer.lower(), allowed)).lower()


def import_quotas(
    *,
    directory: Path | None = option("--output -o DIR", "The quotas directory. [default: quotas.d]"),
    split: str = choice("--split", ("none", "prefix"), "Write one file, or one per first word of the names.", "none"),
    target: Clusters = OR_SNAPSHOT,
    engine: Engine,
    output: Output,
) -> int:
    """Write the live quotas that no file declares yet as YAML; a plan made right after it is empty.

    Entities that files cannot represent (a NaN, a host name as ip, an empty name) are omitted and listed. No file is
    overwritten. With several clusters in quotaform.yaml, the quotas of each go to its own directory.

    \b
    Examples:
      quotaform import --bootstrap-server localhost:9092
      quotaform import --cluster prod-eu --split prefix
      quotaform import --all
    """
    from quotaform.api import import_quotas as import_clusters
    from quotaform.review.report import render_import

    console = output.console
    console.keep_code()
    if str(directory) == "-":
        raise UsageError("--output must be a directory, not -; quotaform snapshot can write to stdout")
    if directory is not None and not directory.is_dir() and (directory.exists() or directory.suffix in _YAML):
        raise UsageError(f"--output must be a directory, but {directory} is a file or has the name of one")
    repository = target.repository(directory)
    chosen = target.choose(repository, repository.config())
    session, progress = engine.start(console, "Reading", len(chosen))
    outcomes: list[ClusterOutcome[None]] = []
    made = import_clusters(repository, chosen, is_split=split == "prefix", engine=session, progress=progress)
    for outcome in made:
        outcomes.append(outcome.map(lambda _: None))
        if outcome.error is not None and len(chosen) > 1:
            report_failures(console, [outcome])
            continue
        done = outcome.require()
        if len(chosen) > 1:
            heading = console.style().paint(f"Cluster  {inert(outcome.cluster)}", "bold")
            console.echo(f"{heading}\n" if len(outcomes) == 1 else f"\n{heading}\n")
        console.echo(render_import(done, console.style()))
        if done.files and not repository.has_config():
            servers = ", ".join(chosen[0].bootstrap_servers)
            console.warn(
                f"Next: name the cluster in {repository.config_path}, for example with",
                f"  clusters: {{my-cluster: {{bootstrap_servers: [{servers}]}}}}",
                "and let editors check the files: quotaform schema --output schemas",
            )
    return exit_code(outcomes)


def comment(
    *,
    files: list[Path] = argument("FILE...", "Comments, as plan --out markdown=FILE writes them.", REQUIRED),
    mode: str = choice(
        "--mode",
        CommentMode,
        "Update the comment of an earlier run, create it only if there are changes, or always create one.",
        "update",
    ),
    platform: str | None = choice(
        "--platform", ("github", "gitlab"), "Where the pull request is. [default: the CI system of this run]"
    ),
    repository: str | None = option(
        "--repository OWNER/NAME",
        "The repository, or the project of GitLab by path or number. [default: that of this run]",
    ),
    pull_request: str | None = option(
        "--pull-request NUMBER", "The pull request, or merge request. [default: that of this run]"
    ),
    commit: str | None = option(
        "--commit SHA",
        "The commit that was planned; if the pull request has a newer one, nothing is written. "
        "[default: that of this run]",
    ),
    api_url: str | None = option(
        "--api-url URL", "The REST API. [default: GITHUB_API_URL, CI_API_V4_URL, or that of github.com or gitlab.com]"
    ),
    ca_file: Path | None = option("--ca-file FILE", "Trusted certificates, in PEM. [default: those of the system]"),
    dry_run: bool = flag("--dry-run", "Show what would be done; write nothing."),
    output: Output,
) -> int:
    """Write plans as comments to a pull request of GitHub or a merge request of GitLab, one comment per cluster.

    The token is read from QUOTAFORM_COMMENT_TOKEN, or from GITHUB_TOKEN or GITLAB_TOKEN. Only comments of its own user
    are updated. A run of CI without a pull request writes nothing and exits 0; one for an older commit than the newest
    of its pull request writes nothing and exits 5.

    \b
    Examples:
      quotaform plan --out markdown=plan.md
      quotaform comment plan.md
      quotaform comment plans/prod-eu.md plans/lab.md --mode changes-only
      quotaform comment plan.md --platform github --repository acme/quotas --pull-request 7 --dry-run
    """
    from quotaform.http.client import Transport, trusting
    from quotaform.review.run import Comments, find_pull_request, find_token, post_comments, read_drafts

    console = output.console
    drafts = read_drafts(files)
    found = find_pull_request(
        os.environ,
        platform=platform,
        api_url=api_url,
        repository=repository,
        number=pull_request,
        commit=commit,
    )
    if found is None:
        console.warn("This run is for no pull request; no comment was written.")
        return ExitCode.DONE
    # A job waits for at most a minute.
    transport = Transport(patience=60.0, context=trusting(ca_file) if ca_file else None)
    comments = Comments(found, find_token(found.platform, os.environ), transport)
    code = ExitCode.DONE
    for step in post_comments(comments, drafts, CommentMode(mode), commit=found.commit, is_dry_run=dry_run):
        if step.error is not None:
            code = ExitCode.ERROR
            console.write_stderr(f"Error: {step.draft.name}: {step.error}\n")
        else:
            console.echo(render_comment(step, is_dry_run=dry_run))
            console.warn(*comment_warnings(step))
    return code
