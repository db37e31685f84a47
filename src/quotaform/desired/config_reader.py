"""Reads quotaform.yaml."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from re import compile as regex
from typing import Any, Final, TypeVar

from quotaform.desired.config import Cluster, Config, ListedPath, Referring, check_variables, prune_problem, walk_texts
from quotaform.desired.file_report import FileReport, check_shape
from quotaform.desired.match import name_oddness, read_pattern
from quotaform.desired.schema import config as config_schema
from quotaform.desired.tree import SourceFile, decode
from quotaform.desired.value import bare_keys, read_expires, read_values
from quotaform.desired.yaml.document import StopReadingError, taken_for
from quotaform.desired.yaml.reader import read_document
from quotaform.model import rule
from quotaform.model.entity import USER, spell_name
from quotaform.model.finding import Finding
from quotaform.model.moment import parse_duration
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Values
from quotaform.model.scope import MOST_PATTERNS, Scope
from quotaform.model.server import parse_server, spell_server
from quotaform.model.settings import (
    DEFAULT_GUARD_LIMITS,
    EXPIRES_WITHIN_DAYS,
    MOST_SOURCES,
    NO_METRICS,
    Capacity,
    ClusterMetrics,
    CountLimit,
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
from quotaform.model.variable import PREFIX

T = TypeVar("T")

MOST_IGNORES: Final = 1000
"""How many items `drift_ignore` may have."""
MOST_LINT_IGNORES: Final = 200
"""How many items `lints.ignore` may have."""
MOST_PRINCIPALS: Final = 100
"""How many principals `principals.brokers` may list."""


def read_lint_settings(root: dict[str, Any], report: FileReport, profiles: Mapping[str, Values]) -> LintSettings:
    """Return the settings of lints; the schema reports values of the wrong shape."""
    lints = _mapping(root, "lints")
    return LintSettings(
        ignores=_read_ignores(lints, "ignore", report),
        expires_within_days=_read_number(lints, "expires_within_days", EXPIRES_WITHIN_DAYS),
        broker_principals=_read_principals(root, report),
        profile_findings=tuple(_bare_profiles(root, report, profiles)),
    )


def read_capacity(node: dict[str, Any], report: FileReport) -> Capacity:
    """Return the capacity of a cluster."""
    written = _mapping(node, "capacity")
    values = read_values(written, None, report)
    return Capacity(values=values, places={key: report.document.place(written, key).key for key in values})


def _read_ignores(holder: dict[str, Any], field: str, report: FileReport) -> tuple[Ignore, ...]:
    ignores: list[Ignore] = []
    for index, item in _items(holder, field, dict):
        name, reason, address, match = (item.get(each) for each in ("rule", "reason", "address", "match"))
        if isinstance(name, str):
            _check_rule(name, item, report)
        ignores.append(
            Ignore(
                reason=str(reason),
                rule=name,
                address=address,
                match=read_pattern(match, report) if isinstance(match, dict) else None,
                keys=_read_keys(item, report),
                expires=read_expires(item, report) or date.max,
                location=report.document.place(holder[field], index).value,
            )
        )
    return tuple(ignores)


def _check_rule(name: str, item: dict[str, Any], report: FileReport) -> None:
    if name in rule.LINTS:
        return
    lints = ", ".join(rule.LINTS)
    if name in rule.RULES:
        text = f"{name} is not a lint, and only lints can be ignored: {lints}"
    else:
        text = f"unknown lint {quote(name)}{did_you_mean(name, rule.LINTS) or '.'} The lints are {lints}"
    report.add(rule.BAD_CHOICE, text, item, "rule")


def _read_principals(root: dict[str, Any], report: FileReport) -> tuple[str, ...] | None:
    principals = _mapping(root, "principals")
    if not isinstance(principals.get("brokers"), list):
        return None
    names = list(_items(principals, "brokers", str))
    for index, name in names:
        if oddness := name_oddness(USER, name):
            report.add(rule.BAD_NAME, f"{spell_name(name)} {oddness}", principals["brokers"], index)
    return tuple(name for _, name in names if name)


def _bare_profiles(root: dict[str, Any], report: FileReport, profiles: Mapping[str, Values]) -> list[Finding]:
    written = _mapping(root, "profiles")
    return [
        rule.SUSPICIOUS_UNIT.finding(
            suspicious_unit_text(key, values[key]), key=key, location=report.document.place(written[name], key).value
        )
        for name, values in profiles.items()
        for key in bare_keys(written[name], values)
    ]


MOST_CLUSTERS: Final = 20_000
"""The limit on clusters in quotaform.yaml."""
MOST_VALUES: Final = 500_000
"""The limit on values, keys among them: a cluster has some 15."""
MOST_PROFILES: Final = 1000
"""The limit on profiles."""
MOST_SERVERS: Final = 100
"""The limit on bootstrap servers of a cluster."""
MOST_ROOTS: Final = 100
"""The limit on other quota repositories."""
MOST_PATHS: Final = 100
"""The limit on paths and globs of policies."""

_CLUSTER_NAME = regex(r"[A-Za-z0-9][A-Za-z0-9._-]*").fullmatch


def read_config(source: SourceFile, directory: Path) -> tuple[Config, list[Finding]]:
    """Return the content of a configuration, and its problems.

    `directory`: the folder that paths in it are relative to.
    """
    text = decode(source)
    if isinstance(text, Finding):
        return Config(), [text]
    document = read_document(source.name, text, most_values=MOST_VALUES)
    report = FileReport(document)
    config = Config()
    if document.root is not None:
        with suppress(StopReadingError):
            config = _read_root(report, directory)
    report.findings.extend(document.problems)
    return config, report.findings.all()


def _read_root(report: FileReport, directory: Path) -> Config:
    root = report.document.root if isinstance(report.document.root, dict) else {}
    profiles = set(map(id, _mapping(root, "profiles").values()))
    profiles |= {id(_mapping(_mapping(root, "recommend"), field)) for field in ("floor", "cap")}
    clusters = _mapping(root, "clusters")
    profiles |= {id(node.get("capacity")) for node in clusters.values() if isinstance(node, dict)}
    _limit(root, report)
    check_variables(report)
    _check_texts(report, profiles)
    scope = _read_scope(_mapping(root, "scope"), report)
    config = Config(
        clusters={
            name: _read_cluster(clusters, name, directory, report) for name in clusters if _is_mapping(clusters[name])
        },
        profiles=_read_profiles(_mapping(root, "profiles"), report),
        scope=scope,
        prune=_read_prune(root, scope, report),
        drift_ignore=_read_ignores(root, "drift_ignore", report),
        policies=_read_paths(root, "policies", report),
        roots=_read_paths(root, "roots", report),
        guard_limits=read_guard_limits(root, report),
        sizing=read_sizing(root, report),
    )
    config = replace(config, lints=read_lint_settings(root, report, config.profiles))
    for name in clusters:
        _check_cluster_name(clusters, name, report)
    check_shape(config_schema, report)
    return config


def _mapping(node: dict[str, Any], key: str) -> dict[str, Any]:
    value = node.get(key)
    return value if isinstance(value, dict) else {}


def _is_mapping(node: object) -> bool:
    return isinstance(node, dict)


def _items(node: dict[str, Any], key: str, kind: type[T]) -> Iterator[tuple[int, T]]:
    """Yield the items of a list that have a type, with their places; the schema reports the others."""
    listed = node.get(key)
    for index, item in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(item, kind):
            yield index, item


def _limit(root: dict[str, Any], report: FileReport) -> None:
    """Report each list and mapping that is too long, and drop the items beyond its limit."""
    clusters, scope = _mapping(root, "clusters"), _mapping(root, "scope")
    lists: list[tuple[str, dict[str, Any], int, str]] = [
        ("clusters", root, MOST_CLUSTERS, "clusters"),
        ("profiles", root, MOST_PROFILES, "profiles"),
        ("include", scope, MOST_PATTERNS, "patterns"),
        ("exclude", scope, MOST_PATTERNS, "patterns"),
        ("drift_ignore", root, MOST_IGNORES, "items"),
        ("policies", root, MOST_PATHS, "paths"),
        ("roots", root, MOST_ROOTS, "paths"),
        ("ignore", _mapping(root, "lints"), MOST_LINT_IGNORES, "items"),
        ("brokers", _mapping(root, "principals"), MOST_PRINCIPALS, "names"),
        ("protect", root, MOST_PATTERNS, "patterns"),
    ]
    for node in filter(_is_mapping, clusters.values()):
        metrics = _mapping(node, "metrics")
        lists += [
            ("bootstrap_servers", node, MOST_SERVERS, "servers"),
            ("brokers", metrics, MOST_SOURCES, "sources"),
            ("labels", metrics, MOST_LABELS, "labels"),
        ]
    for field, holder, most, what in lists:
        node = holder.get(field)
        if not isinstance(node, list | dict) or len(node) <= most:
            continue
        beyond = list(node)[most:] if isinstance(node, dict) else range(most, len(node))
        text = f"{field} contains more than the limit of {most:,} {what}; remove some"
        report.add_at(rule.TOO_LARGE, text, report.document.place(node, beyond[0]).key)
        for key in reversed(beyond):
            del node[key]


def _check_texts(report: FileReport, profiles: Collection[int]) -> None:
    """Reject texts that other YAML parsers read as a number or a date; values of profiles are checked separately.

    A date is what `expires` holds.
    """
    for _, container, key, text in walk_texts(report.document.root) if report.document.has_odd else ():
        oddity = report.document.oddity(container, key)
        if oddity is not None and id(container) not in profiles and key != "expires":
            report.add(rule.WRONG_TYPE, f"this must be text, but {taken_for(text, oddity)}", container, key)


def _check_cluster_name(clusters: dict[str, Any], name: str, report: FileReport) -> None:
    if not _CLUSTER_NAME(name):
        text = f"the cluster name {quote(name)} must consist of letters, digits, dots, dashes and underscores"
        report.add(rule.BAD_NAME, text, clusters, name, at_key=True)


def _read_cluster(clusters: dict[str, Any], name: str, directory: Path, report: FileReport) -> Cluster:
    node: dict[str, Any] = clusters[name]
    if ("bootstrap_servers" in node) == ("snapshot" in node):
        what = "both bootstrap_servers and snapshot" if "snapshot" in node else "neither bootstrap_servers nor snapshot"
        text = f"the cluster {quote(name)} has {what}; give one of them"
        report.add_at(rule.BAD_CLUSTER, text, report.document.place(clusters, name).key)
    elif "snapshot" in node and "command_config" in node:
        text = "command_config has no effect with snapshot; remove it"
        report.add(rule.BAD_CLUSTER, text, node, "command_config", at_key=True)
    servers, server_references = _read_servers(node, report)
    config_reference = config_location = None
    command_config = node.get("command_config")
    if isinstance(command_config, str):
        config_location = report.document.place(node, "command_config").value
        config_reference = Referring(command_config, config_location) if PREFIX in command_config else None
    return Cluster(
        name=name,
        bootstrap_servers=servers,
        command_config=_read_path(node, "command_config", directory),
        cluster_id=_read_text(node, "cluster_id"),
        confirm=_read_text(node, "confirm"),
        snapshot=_read_path(node, "snapshot", directory),
        server_references=server_references,
        config_reference=config_reference,
        config_location=config_location,
        servers_location=report.document.place(node, "bootstrap_servers").value if servers else None,
        folder=directory,
        capacity=read_capacity(node, report),
        metrics=read_metrics(node, report),
    )


def _read_servers(node: dict[str, Any], report: FileReport) -> tuple[tuple[str, ...], dict[str, Referring]]:
    """Return the servers, and those of them that refer to variables; one text may hold several."""
    servers: list[str] = []
    references: dict[str, Referring] = {}
    listed = node.get("bootstrap_servers")
    for index, text in _items(node, "bootstrap_servers", str):
        if not text:
            continue
        place = report.document.place(listed, index).value
        parts = [part.strip() for part in text.split(",")]
        references |= {part: Referring(part, place) for part in parts if PREFIX in part}
        try:
            servers += [part if PREFIX in part else str(parse_server(part)) for part in parts]
        except ValueError:
            if "${" not in text:
                raw = report.document.place(listed, index).text or ""
                text = f"{spell_server(raw)} is not HOST:PORT, as in broker-1:9092"
                report.add(rule.BAD_SERVER, text, listed, index)
    return tuple(servers), references


def _read_text(node: dict[str, Any], key: str) -> str | None:
    value = node.get(key)
    return value if isinstance(value, str) else None


def _read_path(node: dict[str, Any], key: str, directory: Path) -> Path | None:
    value = node.get(key)
    return directory / value if isinstance(value, str) and value else None


def _read_profiles(node: dict[str, Any], report: FileReport) -> dict[str, Values]:
    return {name: read_values(values, None, report) for name, values in node.items() if isinstance(values, dict)}


def _read_scope(node: dict[str, Any], report: FileReport) -> Scope:
    include, exclude = (
        tuple(read_pattern(item, report) for index, item in _items(node, side, dict)) for side in ("include", "exclude")
    )
    return Scope(include=include, exclude=exclude)


def _read_paths(root: dict[str, Any], field: str, report: FileReport) -> tuple[ListedPath, ...]:
    return tuple(
        ListedPath(text, report.document.place(root[field], index).value)
        for index, text in _items(root, field, str)
        if text
    )


def _read_prune(root: dict[str, Any], scope: Scope, report: FileReport) -> PruneMode:
    """Return what happens to undeclared entities; what is no mode was found by the schema."""
    mode = _read_text(root, "prune")
    if mode not in tuple(PruneMode):
        return PruneMode.REPORT
    if problem := prune_problem(PruneMode(mode), scope):
        report.add(rule.PRUNE_SCOPE, problem, root, "prune")
    return PruneMode(mode)


def _read_keys(item: dict[str, Any], report: FileReport) -> frozenset[str]:
    found = set()
    for index, key in _items(item, "keys", str):
        if key not in QUOTA_KEYS:
            guess = did_you_mean(key, QUOTA_KEYS) or f"; the keys are {', '.join(QUOTA_KEYS)}"
            report.add(rule.UNKNOWN_KEY, f"unknown quota key {quote(key)}{guess}", item["keys"], index)
        found.add(key)
    return frozenset(found)


def read_guard_limits(root: dict[str, Any], report: FileReport) -> GuardLimits:
    """Return the limits of the guards; the schema reports values that are not numbers or out of range."""
    node = _mapping(root, "guards")
    return GuardLimits(
        delete=_read_count_limit(_mapping(node, "delete"), DEFAULT_GUARD_LIMITS.delete),
        update=_read_count_limit(_mapping(node, "update"), DEFAULT_GUARD_LIMITS.update),
        change_factor=_read_number(node, "change_factor", DEFAULT_GUARD_LIMITS.change_factor),
        protect=tuple(read_pattern(item, report) for index, item in _items(root, "protect", dict)),
    )


def _read_count_limit(node: dict[str, Any], default: CountLimit) -> CountLimit:
    return CountLimit(_read_number(node, "count", default.count), _read_number(node, "percent", default.percent))


def _read_number(node: dict[str, Any], key: str, default: int) -> int:
    number = node.get(key)
    return number if type(number) is int else default


MOST_LABELS: Final = 100
"""The limit on labels of `metrics.labels`."""


def read_metrics(node: dict[str, Any], report: FileReport) -> ClusterMetrics:
    """Return where the measurements of a cluster are; the schema reports values of the wrong shape."""
    written = node.get("metrics")
    if not isinstance(written, dict):
        return NO_METRICS
    prometheus = _read_text(written, "prometheus")
    if prometheus:
        _check_url(prometheus, report, written, "prometheus")
    return ClusterMetrics(
        sources=_read_sources(written, report),
        prometheus=prometheus,
        labels={name: value for name, value in _mapping(written, "labels").items() if isinstance(value, str)},
        location=report.document.place(node, "metrics").value,
    )


def _read_sources(written: dict[str, Any], report: FileReport) -> tuple[MetricsSource, ...]:
    sources: list[MetricsSource] = []
    for index, text in _items(written, "brokers", str):
        if not text:
            continue
        try:
            source = parse_source(text)
            require_distinct([*sources, source])
        except ValueError as error:
            report.add(rule.BAD_METRICS, str(error), written["brokers"], index)
            continue
        if source.kind is not SourceKind.JMX:
            _check_url(source.address, report, written["brokers"], index)
        sources.append(source)
    return tuple(sources)


def _check_url(text: str, report: FileReport, container: Any, key: str | int) -> None:
    from quotaform.http.message import Url

    try:
        Url.parse(text)
    except ValueError as error:
        report.add(rule.BAD_METRICS, f"invalid URL: {error}", container, key)


def read_sizing(root: dict[str, Any], report: FileReport) -> SizingSettings:
    """Return how quotas are sized by usage; the schema reports values of the wrong shape."""
    node, default = _mapping(root, "recommend"), SizingSettings()
    headroom = node.get("headroom")
    is_number = isinstance(headroom, int | Decimal) and not isinstance(headroom, bool)
    return SizingSettings(
        percentile=_read_parsed(node, "percentile", report, default.percentile, parse_percentile),
        outlier_days=_read_number(node, "outlier_days", default.outlier_days),
        headroom=float(headroom) if is_number and headroom is not None else default.headroom,
        floors=read_values(_mapping(node, "floor"), None, report),
        caps=read_values(_mapping(node, "cap"), None, report),
        min_history_days=_read_parsed(node, "min_history", report, default.min_history_days, _days),
        min_samples=_read_number(node, "min_samples", default.min_samples),
        unused_after_days=_read_parsed(node, "unused_after", report, default.unused_after_days, _days),
    )


def _read_parsed(node: dict[str, Any], field: str, report: FileReport, default: T, parse: Callable[[str], T]) -> T:
    text = node.get(field)
    if isinstance(text, str):
        try:
            return parse(text)
        except ValueError as error:
            report.add(rule.BAD_VALUE, f"{field}: {error}", node, field)
    return default


def _days(text: str) -> float:
    return parse_duration(text).total_seconds() / 86_400
