"""`quotaform init`: make a new quota repository."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from quotaform.cli.console import Console
from quotaform.cli.option.cluster import BootstrapOption, CommandConfigOption
from quotaform.cli.option.common import argument, choice, flag, option, with_options
from quotaform.cli.option.output import Output
from quotaform.cli.option.value import one_of
from quotaform.model.errors import UsageError
from quotaform.repository.revision import CONFIG_NAME
from quotaform.review.import_text import render_init
from quotaform.review.init import CI_FILES, InitRequest, make_repository, require_cluster, require_nothing_there
from quotaform.system.files import write_new_files
from quotaform.system.process import read_typed_line


@with_options
def init(
    *,
    directory: Path | None = argument("DIR", "Where the repository goes. [default: the current directory]"),
    cluster: str | None = option("--cluster NAME", "What to call the cluster."),
    bootstrap_server: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    imports: bool | None = option(
        "--import/--no-import", "Whether to write the live quotas as YAML.", show_default=False
    ),
    ci: str | None = choice("--ci", CI_FILES, "The CI system to write workflows for."),
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

    def check(name: str = "kafka", servers: str = "localhost:9092") -> None:
        require_cluster(
            InitRequest(directory=folder, servers=servers, command_config=None, cluster=name, imports=False, ci="none")
        )

    if cluster is None:
        cluster = _ask(console, "Name of the cluster", "kafka", check)
    if bootstrap_server is None:
        bootstrap_server = _ask(console, "Bootstrap servers", "localhost:9092", lambda servers: check(servers=servers))
        if command_config is None and (
            properties := _ask(console, "Client properties file (if it needs one)", "", _require_file)
        ):
            command_config = Path(properties)
    if imports is None:
        imports = _ask_one_of(console, "Import its quotas", ("yes", "no"), "yes") == "yes"
    if ci is None:
        usual = "github" if (folder / ".github").is_dir() else "none"
        ci = _ask_one_of(console, "CI system", tuple(CI_FILES), usual)
    request = InitRequest(
        directory=folder,
        servers=bootstrap_server,
        command_config=command_config,
        cluster=cluster,
        imports=imports,
        ci=ci,
    )
    made = make_repository(request, progress=console.progress)
    console.keep_code()
    if not dry_run:
        write_new_files(made.files)
    console.echo(render_init(made, console.style(), is_dry_run=dry_run))
    return 0


def _ask(console: Console, question: str, usual: str, check: Callable[[str], None] = lambda answer: None) -> str:
    """Ask a person at the terminal until the check raises no UsageError; an empty answer is the usual one."""
    while True:
        console.write_stderr(f"{question}{f' [{usual}]' if usual else ''}: ")
        line = read_typed_line(sys.stdin)
        if not line:
            raise UsageError("the input ended before everything was answered; nothing was written")
        answer = line.strip() or usual
        try:
            check(answer)
        except UsageError as error:
            console.write_stderr(f"{error}\n")
        else:
            return answer


def _require_file(answer: str) -> None:
    if answer and not Path(answer).is_file():
        raise UsageError(f"There is no file {answer}")


def _ask_one_of(console: Console, question: str, answers: tuple[str, ...], usual: str) -> str:
    """Ask until the answer is one of several, or begins one of them."""
    while True:
        answer = _ask(console, f"{question} ({one_of(answers)})", usual).lower()
        meant = [each for each in answers if each.startswith(answer)]
        if answer in answers or len(meant) == 1:
            return answer if answer in answers else meant[0]
        console.write_stderr(f"Please answer {one_of(answers)}.\n")
