"""The options that say which clusters a command is about, one or any number of them, and what of them is planned."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from quotaform.cli.option.common import choice, flag, option
from quotaform.model.errors import QuotaformError, UsageError
from quotaform.model.text import listed

if TYPE_CHECKING:
    from quotaform.cli.console import Console
    from quotaform.desired.config import Cluster, Config
    from quotaform.plan.base import BaseChoice
    from quotaform.plan.run import PlanRequest
    from quotaform.repository.repository import Repository

_GLOB_SIGNS: Final = frozenset("*?[")


def complete_cluster(context: typer.Context, incomplete: str) -> list[str]:
    """Return the clusters of quotaform.yaml that a shell may complete to; none when it cannot be read."""
    from quotaform.repository.repository import Repository

    directories = [context.params.get("directory"), *(context.params.get("directories") or ())]
    given = next(filter(None, directories), None), context.params.get("config")
    folder, config = (Path(value) if value else None for value in given)
    try:
        names = Repository.at(folder, config).config().clusters
    except (QuotaformError, OSError):
        return []
    return [name for name in names if name.startswith(incomplete)]


CONFIG: Final = option("--config FILE", "Path of quotaform.yaml. [default: next to the quotas directory]")
CLUSTER: Final = option(
    "--cluster NAME|GLOB",
    "Cluster in quotaform.yaml, or a glob. Repeatable; optional if there is only one.",
    complete=complete_cluster,
)
BOOTSTRAP_SERVER: Final = option(
    "--bootstrap-server HOST:PORT,...", "Bootstrap servers, instead of a cluster in quotaform.yaml."
)
COMMAND_CONFIG: Final = option("--command-config FILE", "Java client properties file, with --bootstrap-server.")
SELECT: Final = option("--select GLOB", "Only entities whose address matches, e.g. 'user=svc-*'. Repeatable.")
EXCLUDE: Final = option("--exclude GLOB", "Skip entities whose address matches. Repeatable.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """The clusters that a command is about."""

    config: Path | None = CONFIG
    cluster: list[str] | None = CLUSTER
    all_clusters: bool = flag("--all", "All clusters in quotaform.yaml.")
    bootstrap_server: str | None = BOOTSTRAP_SERVER
    command_config: Path | None = COMMAND_CONFIG
    snapshot: Path | None = None  # An option of those commands that have `OR_SNAPSHOT`

    def __post_init__(self) -> None:
        """Make sure that client properties have a server; `init` asks for one."""
        if self.command_config is not None and self.bootstrap_server is None:
            raise UsageError("--command-config requires --bootstrap-server; in quotaform.yaml, use command_config")

    @property
    def is_narrow(self) -> bool:
        """Whether an option says something else than every cluster."""
        return bool(self.cluster or self.bootstrap_server or self.command_config)

    @property
    def literal_names(self) -> tuple[str, ...]:
        """The values of `--cluster` that are names and no globs; quotaform.yaml may not have them."""
        return tuple(name for name in self.cluster or () if not _GLOB_SIGNS & set(name))

    def repository(self, directory: Path | None = None) -> Repository:
        """Return the repository that the options and a quotas directory mean."""
        from quotaform.repository.repository import Repository

        return Repository.at(directory, self.config)

    def choose(
        self,
        repository: Repository | None = None,
        config: Config | None = None,
        *,
        planned: str | None = None,
        needs_name: bool = True,
    ) -> tuple[Cluster, ...]:
        """Return the clusters that are meant, in the order of quotaform.yaml; at least one.

        `planned` is the cluster of a saved plan, which is meant when no option says anything else. Without
        `needs_name`, an address alone is enough, because no files of a cluster are read or written.
        """
        from quotaform.repository.repository import Target

        names = tuple(self.cluster or ())
        if (self.snapshot or self.bootstrap_server) and len(names) > 1:
            name = "--snapshot" if self.snapshot else "--bootstrap-server"
            raise UsageError(f"{name} can be used for one cluster only; choose one with --cluster")
        repository = repository or self.repository()
        config = repository.config() if config is None else config
        if planned is not None and planned in config.clusters and not (self.is_narrow or self.snapshot):
            names = (planned,)
        target = Target(
            clusters=names,
            takes_all=self.all_clusters,
            bootstrap_servers=self.bootstrap_server,
            command_config=self.command_config,
            snapshot=self.snapshot,
            needs_name=needs_name,
        )
        try:
            return repository.clusters(config, target)
        except UsageError as error:
            from quotaform.cli.option.common import name_options

            name_options(error)  # A watch logs it.
            raise

    def choose_one(self) -> Cluster:
        """Return the one cluster that is meant; no files of it are read, so that an address is enough."""
        chosen = self.choose(needs_name=False)
        if len(chosen) > 1:
            which = listed(each.name for each in chosen)
            raise UsageError(f"this command takes one cluster, and --cluster names several ({which}); give one name")
        return chosen[0]

    def choose_for_plan(self, repository: Repository, file: Path, name: str, *, noun: str = "plan") -> Cluster:
        """Return the cluster that a saved plan or a receipt (`noun`) is for; the options may say where it is."""
        what = f"{file} is a {noun} for cluster {name}"
        if self.all_clusters:
            raise UsageError(f"{what}; leave --all out")
        config = repository.config()
        known = config.clusters.get(name)
        if self.is_narrow:
            named = self.cluster or ([name] if known else None)
            chosen = replace(self, cluster=named).choose(repository, config)
            others = [cluster.name for cluster in chosen if cluster.name != name]
            if self.cluster and others:
                raise UsageError(f"{what}, not {listed(others)}; leave --cluster out")
            if self.bootstrap_server and not self.cluster:
                return replace(chosen[0], given_servers=",".join(chosen[0].bootstrap_servers))
            return chosen[0]
        if known is not None and known.snapshot is None:
            return known
        why = "is a snapshot" if known else f"is not in {repository.config_path}"
        if not repository.has_config():
            why = f"is unknown, because {repository.config_path} does not exist (--config gives another path)"
        raise UsageError(f"{what}, which {why}; give its address: --bootstrap-server HOST:PORT")


ONE_CLUSTER: Final[Any] = {
    "cluster": option(
        "--cluster NAME", "Cluster in quotaform.yaml; optional if there is only one.", complete=complete_cluster
    ),
    "all_clusters": False,
}
"""The default of the `Clusters` of a command that is about one."""

OR_SNAPSHOT: Final[Any] = {"snapshot": option("--snapshot FILE", "Snapshot file to read instead of a live cluster.")}
"""The default of the `Clusters` of a command that takes a snapshot for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selecting:
    """The entities that a command is about."""

    select: list[str] | None = SELECT
    exclude: list[str] | None = EXCLUDE


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Selecting):
    """The options of a command that plans."""

    base: str | None = option(
        "--base REF|RECEIPT",
        "Git revision or receipt to compare the files with, e.g. origin/main. [default: in CI, the target "
        "branch or the commit before the push]",
    )
    no_base: bool = flag("--no-base", "Compare with nothing, even if the CI system names a base.")
    prune: str | None = choice(
        "--prune",
        ("report", "removed", "scope"),
        "What happens to live entities in scope that no file declares. [default: as in quotaform.yaml]",
    )

    def choose_base(self, console: Console) -> BaseChoice | None:
        """Return the base that is meant; that of the CI system is reported."""
        if self.base is not None:
            from quotaform.plan.base import choose_base

            return choose_base(self.base)
        if self.no_base or not ("GITHUB_ACTIONS" in os.environ or "GITLAB_CI" in os.environ):
            return None
        from quotaform.review.ci import find_ci_base

        found = find_ci_base(os.environ)
        if found is not None:
            console.warn(f"Base {found.name}, from {found.found_in} (--base gives another one, --no-base none)")
        return found


def make_request(
    target: Clusters,
    repository: Repository,
    selecting: Selecting,
    *,
    allow: list[str] | None = None,
    revert: Path | None = None,
    **options: Any,
) -> PlanRequest:
    """Return what is to be planned; the further options are those of `quotaform.api.make_request`."""
    from quotaform import api
    from quotaform.plan.receipt_file import load_receipt_file

    config = repository.config()
    receipt = None
    if revert is None:
        clusters = target.choose(repository, config)
    else:
        receipt = load_receipt_file(revert)
        name = api.cluster_of(receipt, config)
        clusters = (target.choose_for_plan(repository, revert, name, noun="receipt"),)
    return api.make_request(
        repository,
        clusters,
        config,
        select=selecting.select or (),
        exclude=selecting.exclude or (),
        allow=allow or (),
        revert=receipt,
        **options,
    )
