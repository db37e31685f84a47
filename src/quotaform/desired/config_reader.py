"""Reads quotaform.yaml."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from re import compile as regex
from typing import Any, Final

from msgspec.structs import replace

from quotaform.desired.config import Cluster, Config, ListedPath, Referring, prune_problem
from quotaform.desired.match import name_oddness, read_pattern
from quotaform.desired.schema import config as config_schema
from quotaform.desired.shape import NodePath, require_shape
from quotaform.desired.tree import SourceFile, decode
from quotaform.desired.value import bare_keys, read_expires, read_values
from quotaform.desired.yaml.document import Document, StopReadingError, taken_for
from quotaform.desired.yaml.reader import read_document
from quotaform.model import rule
from quotaform.model.entity import USER, spell_name
from quotaform.model.finding import Finding
from quotaform.model.moment import parse_duration
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Values
from quotaform.model.scope import MOST_PATTERNS, Pattern, Scope
from quotaform.model.server import parse_server, spell_server
from quotaform.model.settings import (
    DEFAULT_GUARD_LIMITS,
    EXPIRES_WITHIN_DAYS,
    MOST_SOURCES,
    NO_METRICS,
    Capacity,
    ClusterMetrics,
    GuardLimits,
    Ignore,
    LintSettings,
    MetricsSource,
    PruneMode,
    SizingSettings,
    SourceKind,
    parse_percentile,
    parse_source,
    require_distinct,
)
from quotaform.model.text import did_you_mean, quote
from quotaform.model.units import suspicious_unit_text
from quotaform.model.variable import PLACES, PREFIX, check_references, problem_text

MOST_VALUES: Final = 500_000
"""The limit on values, keys among them: a cluster has some 15."""
_EACH: Final = "*"
"""In a path: each value of a mapping."""
LIMITS: Final = {
    ("clusters",): (20_000, "clusters"),
    ("profiles",): (1000, "profiles"),
    ("scope", "include"): (MOST_PATTERNS, "patterns"),
    ("scope", "exclude"): (MOST_PATTERNS, "patterns"),
    ("drift_ignore",): (1000, "items"),
    ("policies",): (100, "paths"),
    ("roots",): (100, "paths"),
    ("lints", "ignore"): (200, "items"),
    ("principals", "brokers"): (100, "names"),
    ("protect",): (MOST_PATTERNS, "patterns"),
    ("clusters", _EACH, "bootstrap_servers"): (100, "servers"),
    ("clusters", _EACH, "metrics", "brokers"): (MOST_SOURCES, "sources"),
    ("clusters", _EACH, "metrics", "labels"): (100, "labels"),
}
"""How much the lists and mappings at a path may hold, and of what."""

_CLUSTER_NAME: Final = regex(r"[A-Za-z0-9][A-Za-z0-9._-]*").fullmatch
_EXPANDED: Final = (("bootstrap_servers",), ("command_config",))
"""The fields of a cluster that may hold `${env:NAME}`."""
_VALUES: Final = (("recommend", "floor"), ("recommend", "cap"))
"""Where other values than those of profiles and clusters are."""


def read_config(source: SourceFile, directory: Path) -> tuple[Config, list[Finding]]:
    """Return the content of a configuration, and its problems; it is of use only when there are none.

    `directory`: the folder that paths in it are relative to.
    """
    text = decode(source)
    if isinstance(text, Finding):
        return Config(), [text]
    document = read_document(source.name, text, most_values=MOST_VALUES)
    config = Config()
    if document.root is not None:
        with suppress(StopReadingError):
            config = _read_root(document, directory)
    return config, document.findings.all()


def _read_root(document: Document, directory: Path) -> Config:
    _limit(document)
    _check_texts(document)
    _check_clusters(document)
    root: dict[str, Any] = require_shape(config_schema, document) or {}
    clusters, written, lints = (root.get(field, {}) for field in ("clusters", "profiles", "lints"))
    scope = Scope(**{side: _read_patterns(patterns, document) for side, patterns in root.get("scope", {}).items()})
    prune = PruneMode(root.get("prune", PruneMode.REPORT))
    if problem := prune_problem(prune, scope):
        document.add(rule.PRUNE_SCOPE, problem, root, "prune")
    profiles = {name: read_values(values, None, document) for name, values in written.items()}
    return Config(
        clusters={name: _read_cluster(clusters, name, directory, document) for name in clusters},
        profiles=profiles,
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
            broker_principals=_read_principals(root.get("principals", {}).get("brokers"), document),
            profile_findings=tuple(_bare_profiles(written, profiles, document)),
        ),
    )


def _check_texts(document: Document) -> None:
    """Reject texts that other YAML parsers read as a number or a date, and each `${...}` that is not expanded.

    Values are checked where they are read. The environment is not.
    """
    for path, container, key, text in _walk_texts(document.root):
        of_cluster = path[2:3] if path[0] == "clusters" else ()
        if path[0] == "profiles" or path[:2] in _VALUES or of_cluster == ("capacity",):
            continue
        oddity = document.oddity(container, key)
        if oddity is not None and key != "expires":  # A date is what `expires` holds.
            document.add(rule.WRONG_TYPE, f"this must be text, but {taken_for(text, oddity)}", container, key)
        if "${" not in text:
            continue
        problems = [problem_text(problem, name) for problem, name in check_references(text)]
        for message in problems if of_cluster in _EXPANDED else [f"{PLACES}; write the value itself"]:
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
    """Report a cluster with a name that is none, or that is not either running or a snapshot."""
    clusters = next(_nodes(document.root, ("clusters",)), None)
    for name, node in clusters.items() if isinstance(clusters, dict) else ():
        if not _CLUSTER_NAME(name):
            text = f"the cluster name {quote(name)} must consist of letters, digits, dots, dashes and underscores"
            document.add(rule.BAD_NAME, text, clusters, name, at_key=True)
        if not isinstance(node, dict):
            continue
        if ("bootstrap_servers" in node) == ("snapshot" in node):
            which = "both" if "snapshot" in node else "neither"
            text = f"{which} bootstrap_servers {'and' if which == 'both' else 'nor'} snapshot; give one of them"
            document.add(rule.BAD_CLUSTER, f"the cluster {quote(name)} has {text}", clusters, name, at_key=True)
        elif "snapshot" in node and "command_config" in node:
            text = "command_config has no effect with snapshot; remove it"
            document.add(rule.BAD_CLUSTER, text, node, "command_config", at_key=True)


def _limit(document: Document) -> None:
    """Report each list and mapping that is too long, and drop the items beyond its limit.

    That comes first: what does not fit the schema is all found before the first of it is reported.
    """
    for path, (most, what) in LIMITS.items():
        for node in _nodes(document.root, path):
            if isinstance(node, list | dict) and len(node) > most:
                beyond = list(node)[most:] if isinstance(node, dict) else range(most, len(node))
                text = f"{path[-1]} contains more than the limit of {most:,} {what}; remove some"
                document.add_at(rule.TOO_LARGE, text, document.place(node, beyond[0]).key)
                for key in reversed(beyond):
                    del node[key]


def _nodes(node: Any, path: Sequence[str]) -> Iterator[Any]:
    """Yield what is at a path from a node on."""
    if not path:
        yield node
    elif isinstance(node, dict):
        for each in node.values() if path[0] == _EACH else [node[path[0]]] if path[0] in node else []:
            yield from _nodes(each, path[1:])


def _read_cluster(clusters: dict[str, Any], name: str, directory: Path, document: Document) -> Cluster:
    node: dict[str, Any] = clusters[name]
    servers, server_references = _read_servers(node.get("bootstrap_servers", ()), document)
    config_reference = config_location = None
    if "command_config" in node:
        config_location = document.place(node, "command_config").value
        text = node["command_config"]
        config_reference = Referring(text, config_location) if PREFIX in text else None
    capacity = node.get("capacity", {})
    values = read_values(capacity, None, document)
    return Cluster(
        name=name,
        bootstrap_servers=servers,
        command_config=directory / node["command_config"] if "command_config" in node else None,
        cluster_id=node.get("cluster_id"),
        confirm=node.get("confirm"),
        snapshot=directory / node["snapshot"] if "snapshot" in node else None,
        server_references=server_references,
        config_reference=config_reference,
        config_location=config_location,
        servers_location=document.place(node, "bootstrap_servers").value if servers else None,
        folder=directory,
        capacity=Capacity(values=values, places={key: document.place(capacity, key).key for key in values}),
        metrics=_read_metrics(node, document) if "metrics" in node else NO_METRICS,
    )


def _read_servers(listed: list[Any], document: Document) -> tuple[tuple[str, ...], dict[str, Referring]]:
    """Return the servers, and those of them that refer to variables; one text may hold several."""
    servers: list[str] = []
    references: dict[str, Referring] = {}
    for index, text in enumerate(listed):
        place = document.place(listed, index)
        parts = [part.strip() for part in text.split(",")]
        references |= {part: Referring(part, place.value) for part in parts if PREFIX in part}
        try:
            servers += [part if PREFIX in part else str(parse_server(part)) for part in parts]
        except ValueError:
            if "${" not in text:
                message = f"{spell_server(place.text or '')} is not HOST:PORT, as in broker-1:9092"
                document.add_at(rule.BAD_SERVER, message, place.value)
    return tuple(servers), references


def _read_metrics(node: dict[str, Any], document: Document) -> ClusterMetrics:
    written = node["metrics"]
    if "prometheus" in written:
        _check_url(written["prometheus"], document, written, "prometheus")
    sources: list[MetricsSource] = []
    listed = written.get("brokers", ())
    for index, text in enumerate(listed):
        try:
            source = parse_source(text)
            require_distinct([*sources, source])
        except ValueError as error:
            document.add(rule.BAD_METRICS, str(error), listed, index)
            continue
        if source.kind is not SourceKind.JMX:
            _check_url(source.address, document, listed, index)
        sources.append(source)
    return ClusterMetrics(
        sources=tuple(sources),
        prometheus=written.get("prometheus"),
        labels=dict(written.get("labels", {})),
        location=document.place(node, "metrics").value,
    )


def _check_url(text: str, document: Document, container: Any, key: str | int) -> None:
    from quotaform.http.message import Url

    try:
        Url.parse(text)
    except ValueError as error:
        document.add(rule.BAD_METRICS, f"invalid URL: {error}", container, key)


def _read_patterns(patterns: Iterable[dict[str, Any]], document: Document) -> tuple[Pattern, ...]:
    return tuple(read_pattern(pattern, document) for pattern in patterns)


def _read_paths(paths: list[Any], document: Document) -> tuple[ListedPath, ...]:
    return tuple(ListedPath(text, document.place(paths, index).value) for index, text in enumerate(paths))


def _read_guard_limits(root: dict[str, Any], document: Document) -> GuardLimits:
    guards, default = root.get("guards", {}), DEFAULT_GUARD_LIMITS
    delete, update = (
        replace(limit, **{side: int(number) for side, number in guards.get(field, {}).items()})
        for field, limit in (("delete", default.delete), ("update", default.update))
    )
    return GuardLimits(
        delete=delete,
        update=update,
        change_factor=int(guards.get("change_factor", default.change_factor)),
        protect=_read_patterns(root.get("protect", ()), document),
    )


def _read_sizing(node: dict[str, Any], document: Document) -> SizingSettings:
    default = SizingSettings()
    return SizingSettings(
        percentile=_read_parsed(node, "percentile", document, default.percentile, parse_percentile),
        outlier_days=int(node.get("outlier_days", default.outlier_days)),
        headroom=float(node.get("headroom", default.headroom)),
        floors=read_values(node.get("floor", {}), None, document),
        caps=read_values(node.get("cap", {}), None, document),
        min_history_days=_read_parsed(node, "min_history", document, default.min_history_days, _days),
        min_samples=int(node.get("min_samples", default.min_samples)),
        unused_after_days=_read_parsed(node, "unused_after", document, default.unused_after_days, _days),
    )


def _read_parsed(
    node: dict[str, Any], field: str, document: Document, default: float, parse: Callable[[str], float]
) -> float:
    try:
        return parse(node[field]) if field in node else default
    except ValueError as error:
        document.add(rule.BAD_VALUE, f"{field}: {error}", node, field)
        return default


def _days(text: str) -> float:
    return parse_duration(text).total_seconds() / 86_400


def _read_ignores(items: list[Any], document: Document) -> tuple[Ignore, ...]:
    ignores: list[Ignore] = []
    for index, item in enumerate(items):
        if "rule" in item:
            _check_rule(item, document)
        ignores.append(
            Ignore(
                reason=item.get("reason", ""),
                rule=item.get("rule"),
                address=item.get("address"),
                match=read_pattern(item["match"], document) if "match" in item else None,
                keys=_read_keys(item.get("keys", ()), document),
                expires=read_expires(item, document) or date.max,
                location=document.place(items, index).value,
            )
        )
    return tuple(ignores)


def _check_rule(item: dict[str, Any], document: Document) -> None:
    name, lints = item["rule"], ", ".join(rule.LINTS)
    if name in rule.LINTS:
        return
    if name in rule.RULES:
        text = f"{name} is not a lint, and only lints can be ignored: {lints}"
    else:
        text = f"unknown lint {quote(name)}{did_you_mean(name, rule.LINTS) or '.'} The lints are {lints}"
    document.add(rule.BAD_CHOICE, text, item, "rule")


def _read_keys(keys: list[Any], document: Document) -> frozenset[str]:
    for index, key in enumerate(keys):
        if key not in QUOTA_KEYS:
            guess = did_you_mean(key, QUOTA_KEYS) or f"; the keys are {', '.join(QUOTA_KEYS)}"
            document.add(rule.UNKNOWN_KEY, f"unknown quota key {quote(key)}{guess}", keys, index)
    return frozenset(keys)


def _read_principals(names: list[Any] | None, document: Document) -> tuple[str, ...] | None:
    if names is None:
        return None
    for index, name in enumerate(names):
        if oddness := name_oddness(USER, name):
            document.add(rule.BAD_NAME, f"{spell_name(name)} {oddness}", names, index)
    return tuple(names)


def _bare_profiles(written: dict[str, Any], profiles: Mapping[str, Values], document: Document) -> Iterator[Finding]:
    for name, values in profiles.items():
        for key in bare_keys(written[name], values):
            text = suspicious_unit_text(key, values[key])
            location = document.place(written[name], key).value
            yield rule.SUSPICIOUS_UNIT.finding(text, key=key, location=location)
