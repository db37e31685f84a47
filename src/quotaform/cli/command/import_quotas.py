"""`quotaform import`: bring the quotas of a cluster under management."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quotaform.cli.option.cluster import ManyClusters
from quotaform.cli.option.common import SnapshotOption, choice, option, with_options
from quotaform.cli.option.engine import Engine, job_progress
from quotaform.cli.option.output import Output
from quotaform.cli.present import report_failures
from quotaform.model.errors import UsageError
from quotaform.model.outcome import ClusterOutcome, exit_code
from quotaform.model.text import inert
from quotaform.system.files import write_new_files

SPLITS: Final = ("none", "prefix")


@with_options
def import_quotas(
    *,
    directory: Path | None = option("--output -o DIR", "The quotas directory. [default: quotas.d]"),
    split: str = choice("--split", SPLITS, "Write one file, or one per first word of the names.", "none"),
    target: ManyClusters,
    snapshot: SnapshotOption = None,
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
    from quotaform.api import snapshot as take_snapshots
    from quotaform.cluster.snapshot import SnapshotGateway
    from quotaform.review.import_text import render_import
    from quotaform.review.init import import_cluster

    console = output.console
    console.keep_code()
    if str(directory) == "-":
        raise UsageError("--output must be a directory, not -; quotaform snapshot can write to stdout")
    if directory is not None and directory.exists() and not directory.is_dir():
        raise UsageError(f"--output must be a directory, but {directory} is a file")
    if directory is not None and directory.suffix in (".yaml", ".yml") and not directory.exists():
        raise UsageError(f"--output must be a directory, but {directory} has the name of a file; give its directory")
    repository = target.repository(directory)
    config = repository.config()
    chosen = target.choose(repository, config, snapshot=snapshot)
    session = engine.place(console, len(chosen))
    progress = job_progress(console, "Reading", len(chosen), session)
    outcomes: list[ClusterOutcome[None]] = []
    for outcome in take_snapshots(repository, chosen, engine=session, progress=progress):
        outcomes.append(outcome.map(lambda _: None))
        if outcome.error is not None and len(chosen) > 1:
            report_failures(console, [outcome])
            continue
        name = outcome.cluster
        taken = SnapshotGateway(outcome.require(), name=name, path=name)
        done = import_cluster(repository, config, name, taken, is_split=split == "prefix", progress=console.progress)
        write_new_files(done.files)
        if len(chosen) > 1:
            heading = console.style().paint(f"Cluster  {inert(name)}", "bold")
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
