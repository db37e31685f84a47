"""quotaform.yaml: what it says, and how it is read; which clusters names and globs choose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from re import compile as regex
from typing import Any, Final

from msgspec.structs import replace

from quotaform.desired.field import bare_keys, key_problem, name_oddness, read_expires, read_pattern, read_values
from quotaform.desired.schema import config as config_schema
from quotaform.desired.shape import NodePath, require_shape
from quotaform.desired.tree import SourceFile
from quotaform.desired.yaml.document import Document, StopReadingError, taken_for
from quotaform.desired.yaml.reader import read_document
from quotaform.model import rule
from quotaform.model.entity import USER, spell_name
from quotaform.model.errors import ArgumentError, InvalidFilesError, UsageError
from quotaform.model.finding import Finding, Location
from quotaform.model.moment import parse_duration
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Snapshot, Values
from quotaform.model.scope import FULL_SCOPE, Pattern, Scope, count_problem, matches_glob, pattern_problem
from quotaform.model.server import parse_server, spell_server
from quotaform.model.settings import (
    DEFAULT_GUARD_LIMITS,
    EXPIRES_WITHIN_DAYS,
    NO_METRICS,
    Capacity,
    ClusterMetrics,
    GuardLimits,
    Ignore,
    LintSettings,
    MetricsSource,
    PruneMode,
    SizingSettings,
    parse_percentile,
    parse_source,
    require_distinct,
)
from quotaform.model.text import did_you_mean, listed, quote
from quotaform.model.units import suspicious_unit_text
from quotaform.model.variable import PLACES, PREFIX, check_references, expand


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster by name: a running one, or a snapshot file."""

    name: str  # its name in quotaform.yaml
    bootstrap_servers: tuple[str, ...] = ()  # brokers to ask first, as HOST:PORT
    command_config: Path | None = None  # a file of Java client properties
    cluster_id: str | None = None  # the id that the cluster must have
    confirm: str | None = None  # `name` when the cluster's name must be typed to apply by hand
    snapshot: Path | None = None  # the snapshot file that stands for the cluster
    # Those of `bootstrap_servers` that refer to environment variables, by their text. The variables are looked up when
    # the cluster is connected to; messages show the text.
    server_references: Mapping[str, WrittenText] = field(default_factory=dict, compare=False)
    # `command_config` as quotaform.yaml has it, and where; `None` when the operator names the file
    written_config: WrittenText | None = field(default=None, compare=False)
    # Where quotaform.yaml has `bootstrap_servers`; `None` when the operator names them
    servers_location: Location | None = field(default=None, compare=False)
    # The folder of the quotaform.yaml that names the files; `None` when the operator does
    folder: Path | None = field(default=None, compare=False)
    # What the snapshot file holds, when it was read already
    taken: Snapshot | None = field(default=None, compare=False, repr=False)
    # The bootstrap servers of the command line, when they stand for the cluster and it was not named
    given_servers: str | None = None
    # What its brokers can do, as far as that is declared
    capacity: Capacity = Capacity()  # noqa: RUF009
    metrics: ClusterMetrics = NO_METRICS  # where the measurements of its brokers are

    @property
    def has_name(self) -> bool:
        """Whether it has a name of its own; one that only an address was given for is called by that."""
        return self.name != ",".join(self.bootstrap_servers)

    @property
    def label(self) -> str:
        """What headings and errors call it: its name, or the servers that the command line gave instead."""
        return self.given_servers or self.name

    @property
    def shown_config(self) -> str | None:
        """What messages call its client properties: the path, or the text with variables in it."""
        if self.written_config is not None and self.written_config.has_variable:
            return self.written_config.text
        return None if self.command_config is None else str(self.command_config)


@dataclass(frozen=True, slots=True)
class WrittenText:
    """A text of quotaform.yaml: a path or a glob, relative to its folder, or what may have `${env:NAME}` in it."""

    text: str  # as it is written, which is also what messages show
    location: Location = field(compare=False)

    @property
    def has_variable(self) -> bool:
        """Whether it refers to environment variables, if it is of a field where they are expanded."""
        return PREFIX in self.text

    def expand(self, environment: Mapping[str, str]) -> str:
        """Return the text with its variables replaced, which is a secret.

        Raises `InvalidFilesError` if a variable is not set or may not be read.
        """
        expansion = expand(self.text, environment)
        if problems := [row.finding(text, location=self.location) for row, text in expansion.problems]:
            raise InvalidFilesError(problems)
        return expansion.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The content of quotaform.yaml."""

    clusters: Mapping[str, Cluster] = field(default_factory=dict)  # by name
    profiles: Mapping[str, Values] = field(default_factory=dict)  # values by the name of the profile
    scope: Scope = FULL_SCOPE  # the entities that the files manage
    prune: PruneMode = PruneMode.REPORT  # what happens to entities in scope that no file declares
    drift_ignore: tuple[Ignore, ...] = ()  # drift to ignore; it affects only `drift`
    policies: tuple[WrittenText, ...] = ()  # where the policies are
    roots: tuple[WrittenText, ...] = ()  # where other quota repositories are, whose entities these files do not declare
    # What is to be known about lints, and ignored
    lints: LintSettings = LintSettings()  # noqa: RUF009
    guard_limits: GuardLimits = DEFAULT_GUARD_LIMITS  # what guards go by: `guards` and `protect`
    # How quotas are sized by usage
    sizing: SizingSettings = SizingSettings()  # noqa: RUF009
    # The names of the live clusters that are pinned to an id, by the id
    pins: Mapping[str, Sequence[str]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Index the pins: each of very many clusters is compared with all others."""
        pins: dict[str, list[str]] = {}
        for name, cluster in self.clusters.items():
            if cluster.cluster_id and not cluster.snapshot:
                pins.setdefault(cluster.cluster_id, []).append(name)
        object.__setattr__(self, "pins", pins)


def prune_problem(mode: PruneMode, scope: Scope) -> str | None:
    """Return why undeclared entities cannot be pruned in a mode; `None` if they can."""
    if mode is not PruneMode.SCOPE or scope.include:
        return None
    return (
        "prune: scope deletes every entity in scope that no file declares, so quotaform.yaml must list what is in "
        "scope: write scope: {include: [...]}, or prune: removed"
    )


def choose_cluster(config: Config, name: str | None) -> Cluster:
    """Return the cluster of a name, by default the only cluster. Raises `UsageError` if there is none, or several."""
    if name is not None:
        if name not in config.clusters:
            guess = did_you_mean(name, config.clusters) or "; quotaform.yaml does not name it."
            clusters = f" The clusters are {listed(config.clusters)}" if config.clusters else ""
            raise UsageError(f"unknown cluster {quote(name)}{guess}{clusters}")
        return config.clusters[name]
    if not config.clusters:
        raise UsageError("quotaform.yaml defines no cluster; add one")
    if len(config.clusters) > 1:
        raise several_clusters(config.clusters)
    return next(iter(config.clusters.values()))


def several_clusters(names: Iterable[str]) -> ArgumentError:
    """Return the error that there are several clusters, and nothing says which one is meant."""
    return ArgumentError(
        "quotaform.yaml names several clusters ({}); choose with {cluster}, by name or glob", listed(names)
    )


def choose_clusters(config: Config, patterns: Sequence[str], *, takes_all: bool = False) -> tuple[Cluster, ...]:
    """Return the clusters that names and case-sensitive globs choose, each once, in the order of quotaform.yaml.

    Without any it is the only cluster. Raises `UsageError` if one matches no cluster, or if nothing is chosen and there
    is not just one cluster.
    """
    if takes_all and config.clusters:
        return tuple(config.clusters.values())
    if not patterns:
        return (choose_cluster(config, None),)
    chosen: set[str] = set()
    if problem := count_problem(patterns):
        raise ArgumentError("{cluster}: {}", problem)
    for pattern in patterns:
        if problem := pattern_problem(pattern):
            raise UsageError(f"{problem}; shorten it")
        matching = {name for name in config.clusters if matches_glob(name, pattern)}
        chosen |= matching or {choose_cluster(config, pattern).name}
    return tuple(cluster for name, cluster in config.clusters.items() if name in chosen)


MOST_VALUES: Final = 500_000
"""The limit on values, keys among them: a cluster has some 15."""

_CLUSTER_NAME: Final = regex(r"[A-Za-z0-9][A-Za-z0-9._-]*").fullmatch
_VALUES: Final = (("recommend", "floor"), ("recommend", "cap"))
"""Where other values than those of profiles and clusters are."""


def read_config(source: SourceFile, directory: Path) -> tuple[Config, list[Finding]]:
    """Return the content of a configuration, and its problems; it is of use only when there are none.

    `directory`: the folder that its paths are relative to.
    """
    document = read_document(source, most_values=MOST_VALUES)
    config = Config()
    if document.root is not None:
        with suppress(StopReadingError):
            config = _read_root(document, directory)
    return config, document.findings.all()


def _read_root(document: Document, directory: Path) -> Config:
    _check_texts(document)
    _check_clusters(document)
    root: dict[str, Any] = require_shape(config_schema, document) or {}
    clusters, profiles, lints = (root.get(key, {}) for key in ("clusters", "profiles", "lints"))
    scope = Scope(**{side: _read_patterns(patterns, document) for side, patterns in root.get("scope", {}).items()})
    prune = PruneMode(root.get("prune", PruneMode.REPORT))
    if problem := prune_problem(prune, scope):
        document.add(rule.PRUNE_SCOPE, problem, root, "prune")
    values_of = {name: read_values(values, None, document) for name, values in profiles.items()}
    bare: list[Finding] = []
    for name, values in values_of.items():
        for key in bare_keys(profiles[name], values):
            text, location = suspicious_unit_text(key, values[key]), document.place(profiles[name], key).value
            bare.append(rule.SUSPICIOUS_UNIT.finding(text, key=key, location=location))
    principals = root.get("principals", {}).get("brokers")
    for index, name in enumerate(principals or ()):
        if oddness := name_oddness(USER, name):
            document.add(rule.BAD_NAME, f"{spell_name(name)} {oddness}", principals, index)
    return Config(
        clusters={name: _read_cluster(name, node, directory, document) for name, node in clusters.items()},
        profiles=values_of,
        scope=scope,
        prune=prune,
        drift_ignore=_read_ignores(root.get("drift_ignore", ()), document),
        policies=_read_paths(root.get("policies", ()), document),
        roots=_read_paths(root.get("roots", ()), document),
        guard_limits=_read_guard_limits(root, document),
        sizing=_read_sizing(root.get("recommend", {}), document),
        lints=LintSettings(
            ignores=_read_ignores(lints.get("ignore", ()), document),
            expires_within_days=int(lints.get("expires_within_days", EXPIRES_WITHIN_DAYS)),
            broker_principals=None if principals is None else tuple(principals),
            profile_findings=tuple(bare),
        ),
    )


def _check_texts(document: Document) -> None:
    """Reject texts (values aside) that other YAML parsers take for numbers or dates, and each `${...}` not expanded."""
    for path, container, key, text in _walk_texts(document.root):
        of_cluster = path[2:3] if path[0] == "clusters" else ()
        if path[0] == "profiles" or path[:2] in _VALUES or of_cluster == ("capacity",):
            continue
        oddity = document.oddity(container, key)
        if oddity is not None and key != "expires":  # A date is what `expires` holds.
            document.add(rule.WRONG_TYPE, f"this must be text, but {taken_for(text, oddity)}", container, key)
        if "${" not in text:
            continue
        problems = [f"{PLACES}; write the value itself"]
        if of_cluster in {("bootstrap_servers",), ("command_config",)}:
            problems = check_references(text)
        for message in problems:
            document.add(rule.BAD_VARIABLE, message, container, key)


def _walk_texts(node: Any, path: NodePath = ()) -> Iterator[tuple[NodePath, Any, Any, str]]:
    """Yield the texts of a document: the path of each, what holds it at which key, and itself."""
    pairs = list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
    for key, value in pairs:
        if isinstance(value, str):
            yield (*path, key), node, key, value
        else:
            yield from _walk_texts(value, (*path, key))


def _check_clusters(document: Document) -> None:
    clusters: Any = document.root.get("clusters") if isinstance(document.root, dict) else None
    for name, node in clusters.items() if isinstance(clusters, dict) else ():
        if not _CLUSTER_NAME(name):
            text = f"the cluster name {quote(name)} must consist of letters, digits, dots, dashes and underscores"
            document.add(rule.BAD_NAME, text, clusters, name, at_key=True)
        if not isinstance(node, dict):
            continue
        if ("bootstrap_servers" in node) == ("snapshot" in node):
            text = f"the cluster {quote(name)} must have either bootstrap_servers or snapshot"
            document.add(rule.BAD_CLUSTER, text, clusters, name, at_key=True)
        elif "snapshot" in node and "command_config" in node:
            text = "command_config has no effect with snapshot; remove it"
            document.add(rule.BAD_CLUSTER, text, node, "command_config", at_key=True)


def _read_cluster(name: str, node: dict[str, Any], directory: Path, document: Document) -> Cluster:
    servers, server_references = _read_servers(node.get("bootstrap_servers", ()), document)
    file: str | None = node.get("command_config")
    capacity = node.get("capacity", {})
    values = read_values(capacity, None, document)
    return Cluster(
        name=name,
        bootstrap_servers=servers,
        command_config=None if file is None else directory / file,
        cluster_id=node.get("cluster_id"),
        confirm=node.get("confirm"),
        snapshot=directory / node["snapshot"] if "snapshot" in node else None,
        server_references=server_references,
        written_config=None if file is None else WrittenText(file, document.place(node, "command_config").value),
        servers_location=document.place(node, "bootstrap_servers").value if servers else None,
        folder=directory,
        capacity=Capacity(values=values, places={key: document.place(capacity, key).key for key in values}),
        metrics=_read_metrics(node, document) if "metrics" in node else NO_METRICS,
    )


def _read_servers(listed: list[Any], document: Document) -> tuple[tuple[str, ...], dict[str, WrittenText]]:
    """Return the servers, and those of them that refer to variables; one text may hold several."""
    servers: list[str] = []
    references: dict[str, WrittenText] = {}
    for index, text in enumerate(listed):
        place = document.place(listed, index)
        parts = [part.strip() for part in text.split(",")]
        references |= {part: WrittenText(part, place.value) for part in parts if PREFIX in part}
        try:
            servers += [part if PREFIX in part else str(parse_server(part)) for part in parts]
        except ValueError:
            if "${" not in text:
                message = f"{spell_server(place.text or '')} is not HOST:PORT, as in broker-1:9092"
                document.add(rule.BAD_SERVER, message, listed, index)
    return tuple(servers), references


def _read_metrics(node: dict[str, Any], document: Document) -> ClusterMetrics:
    from quotaform.http.client import Url

    written = node["metrics"]
    sources: list[MetricsSource] = []
    listed = written.get("brokers", ())
    urls: list[tuple[str, Any, str | int]] = []
    if "prometheus" in written:
        urls.append((written["prometheus"], written, "prometheus"))
    for index, text in enumerate(listed):
        try:
            source = parse_source(text)
            require_distinct([*sources, source])
        except ValueError as error:
            document.add(rule.BAD_METRICS, str(error), listed, index)
            continue
        if not source.is_jmx:
            urls.append((source.address, listed, index))
        sources.append(source)
    for url, container, key in urls:
        try:
            Url.parse(url)
        except ValueError as error:
            document.add(rule.BAD_METRICS, f"invalid URL: {error}", container, key)
    return ClusterMetrics(
        sources=tuple(sources),
        prometheus=written.get("prometheus"),
        labels=dict(written.get("labels", {})),
        location=document.place(node, "metrics").value,
    )


def _read_patterns(patterns: Iterable[dict[str, Any]], document: Document) -> tuple[Pattern, ...]:
    return tuple(read_pattern(pattern, document) for pattern in patterns)


def _read_paths(paths: list[Any], document: Document) -> tuple[WrittenText, ...]:
    return tuple(WrittenText(text, document.place(paths, index).value) for index, text in enumerate(paths))


def _read_guard_limits(root: dict[str, Any], document: Document) -> GuardLimits:
    guards, default = root.get("guards", {}), DEFAULT_GUARD_LIMITS
    counts = {
        key: replace(getattr(default, key), **{side: int(number) for side, number in guards.get(key, {}).items()})
        for key in ("delete", "update")
    }
    factor = int(guards.get("change_factor", default.change_factor))
    return GuardLimits(**counts, change_factor=factor, protect=_read_patterns(root.get("protect", ()), document))


def _read_sizing(node: dict[str, Any], document: Document) -> SizingSettings:
    settings: dict[str, Any] = {}
    for key, value in node.items():
        try:
            match key:
                case "percentile":
                    settings[key] = parse_percentile(value)
                case "floor" | "cap":
                    settings[f"{key}s"] = read_values(value, None, document)
                case "min_history" | "unused_after":
                    settings[f"{key}_days"] = parse_duration(value).total_seconds() / 86_400
                case _:
                    settings[key] = float(value) if key == "headroom" else int(value)
        except ValueError as error:
            document.add(rule.BAD_VALUE, f"{key}: {error}", node, key)
    return SizingSettings(**settings)


def _read_ignores(items: list[Any], document: Document) -> tuple[Ignore, ...]:
    ignores: list[Ignore] = []
    for index, item in enumerate(items):
        keys = item.get("keys", ())
        for place, key in enumerate(keys):
            if key not in QUOTA_KEYS:
                document.add(*key_problem(key, None), keys, place)
        ignores.append(
            Ignore(
                reason=item.get("reason", ""),
                rule=item.get("rule"),
                address=item.get("address"),
                entities=Scope(include=(read_pattern(item["match"], document),)) if "match" in item else FULL_SCOPE,
                keys=frozenset(keys),
                expires=read_expires(item, document) or date.max,
                location=document.place(items, index).value,
            )
        )
    return tuple(ignores)
