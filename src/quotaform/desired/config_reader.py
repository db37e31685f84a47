"""Reads quotaform.yaml."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from re import compile as regex
from typing import Any, Final

from quotaform.core.check import rule
from quotaform.core.drift.ignore import DriftIgnore
from quotaform.core.guard_limits import DEFAULT_GUARD_LIMITS, CountLimit, GuardLimits
from quotaform.core.prune import PruneMode
from quotaform.core.scope import MOST_PATTERNS, Scope
from quotaform.core.usage.record.source import (
    MOST_SOURCES,
    NO_METRICS,
    ClusterMetrics,
    MetricsSource,
    SourceKind,
    parse_source,
    require_distinct,
)
from quotaform.core.usage.sizing.recommendation import SizingSettings, parse_percentile
from quotaform.desired.config import Cluster, Config, ListedPath, prune_problem
from quotaform.desired.day import read_expires
from quotaform.desired.lint import MOST_LINT_IGNORES, MOST_PRINCIPALS, read_capacity, read_lint_settings
from quotaform.desired.pattern import read_pattern
from quotaform.desired.report import FileReport, Part
from quotaform.desired.shape import explain_shape, has_shape
from quotaform.desired.tree import SourceFile, decode
from quotaform.desired.value import read_values
from quotaform.desired.variable import Referring, check_variables
from quotaform.desired.yaml.document import StopReadingError
from quotaform.desired.yaml.reader import read_document
from quotaform.desired.yaml.scalar import taken_for
from quotaform.model.duration import parse_duration
from quotaform.model.finding import Finding
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Values
from quotaform.model.server import parse_server, spell_server
from quotaform.model.text import did_you_mean, quote
from quotaform.model.variable import PREFIX

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

    Args:
        directory: The folder that paths in it are relative to.
    """
    text = decode(source)
    if isinstance(text, Finding):
        return Config(), [text]
    document = read_document(source.name, text, detailed=True, most_values=MOST_VALUES)
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
    profiles |= set(map(id, value_mappings(root)))
    profiles |= {id(node["capacity"]) for node in _mapping(root, "clusters").values() if _has_capacity(node)}
    _limit(root, report)
    check_variables(report)
    _check_texts(report, profiles)
    scope = _read_scope(_mapping(root, "scope"), report)
    config = Config(
        clusters={
            name: _read_cluster(name, node, directory, report)
            for name, node in _mapping(root, "clusters").items()
            if isinstance(node, dict)
        },
        profiles=_read_profiles(_mapping(root, "profiles"), report),
        scope=scope,
        prune=_read_prune(root, scope, report),
        drift_ignore=read_drift_ignores(root, report),
        policies=_read_paths(root, "policies", report),
        roots=_read_paths(root, "roots", report),
        guard_limits=read_guard_limits(root, report),
        sizing=read_sizing(root, report),
    )
    config = replace(config, lints=read_lint_settings(root, report, config.profiles))
    for name in _mapping(root, "clusters"):
        _check_cluster_name(root["clusters"], name, report)
    if not has_shape("config", report.document):
        explain_shape("config", report)
    return config


def _mapping(node: dict[str, Any], key: str) -> dict[str, Any]:
    value = node.get(key)
    return value if isinstance(value, dict) else {}


def _has_capacity(node: Any) -> bool:
    return isinstance(node, dict) and isinstance(node.get("capacity"), dict)


def _limit(root: dict[str, Any], report: FileReport) -> None:
    """Report each list and mapping that is too long, and drop the items beyond its limit."""
    clusters, scope = _mapping(root, "clusters"), _mapping(root, "scope")
    lists: list[tuple[tuple[str, ...], dict[str, Any], int, str]] = [
        (("clusters",), root, MOST_CLUSTERS, "clusters"),
        (("profiles",), root, MOST_PROFILES, "profiles"),
        (("scope", "include"), scope, MOST_PATTERNS, "patterns"),
        (("scope", "exclude"), scope, MOST_PATTERNS, "patterns"),
        (("drift_ignore",), root, MOST_IGNORES, "items"),
        (("policies",), root, MOST_PATHS, "paths"),
        (("roots",), root, MOST_ROOTS, "paths"),
        (("lints", "ignore"), _mapping(root, "lints"), MOST_LINT_IGNORES, "items"),
        (("principals", "brokers"), _mapping(root, "principals"), MOST_PRINCIPALS, "names"),
        (("protect",), root, MOST_PATTERNS, "patterns"),
    ]
    lists += [
        (("clusters", name, "bootstrap_servers"), node, MOST_SERVERS, "servers")
        for name, node in clusters.items()
        if isinstance(node, dict)
    ]
    for name, node in clusters.items():
        if isinstance(node, dict) and (metrics := _mapping(node, "metrics")):
            lists += [
                (("clusters", name, "metrics", "brokers"), metrics, MOST_SOURCES, "sources"),
                (("clusters", name, "metrics", "labels"), metrics, MOST_LABELS, "labels"),
            ]
    for path, holder, most, what in lists:
        node = holder.get(path[-1])
        if not isinstance(node, list | dict) or len(node) <= most:
            continue
        beyond = list(node)[most:] if isinstance(node, dict) else range(most, len(node))
        place = report.document.place(node, beyond[0])
        text = f"{path[-1]} contains more than the limit of {most:,} {what}; remove some"
        report.at(*path, "").add_at(rule.TOO_LARGE, text, place.key)
        if isinstance(node, dict):
            for key in beyond:
                report.document.hold(node.pop(key))
        else:
            report.document.hold(node[most:])
            del node[most:]


def _check_texts(report: FileReport, profiles: Collection[int]) -> None:
    """Reject texts that other YAML parsers read as a number or a date; values of profiles are checked separately.

    A date is what `expires` holds.
    """
    document = report.document
    for container, key, oddity, place in document.odd_places():
        if container not in profiles and key != "expires":
            text = f"this must be text, but {taken_for(place.text or '', oddity)}"
            report.at("", container, key).add_at(rule.WRONG_TYPE, text, place.value)


def _check_cluster_name(clusters: dict[str, Any], name: str, report: FileReport) -> None:
    if not _CLUSTER_NAME(name):
        text = f"the cluster name {quote(name)} must consist of letters, digits, dots, dashes and underscores"
        report.at("clusters", name, "").add(rule.BAD_NAME, text, clusters, name, at_key=True)


def _read_cluster(name: str, node: dict[str, Any], directory: Path, report: FileReport) -> Cluster:
    if ("bootstrap_servers" in node) == ("snapshot" in node):
        what = "both bootstrap_servers and snapshot" if "snapshot" in node else "neither bootstrap_servers nor snapshot"
        text = f"the cluster {quote(name)} has {what}; give one of them"
        report.at("clusters", name, "").add_at(rule.BAD_CLUSTER, text, report.document.locate(("clusters", name)).key)
    elif "snapshot" in node and "command_config" in node:
        text = "command_config has no effect with snapshot; remove it"
        report.at("clusters", name, "command_config").add(rule.BAD_CLUSTER, text, node, "command_config", at_key=True)
    servers, server_references = _read_servers(name, node, report)
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
        capacity=read_capacity(name, node, report),
        metrics=read_metrics(name, node, report),
    )


def _read_servers(name: str, node: dict[str, Any], report: FileReport) -> tuple[tuple[str, ...], dict[str, Referring]]:
    """Return the servers, and those of them that refer to variables; one text may hold several."""
    servers: list[str] = []
    references: dict[str, Referring] = {}
    listed = node.get("bootstrap_servers")
    for index, text in enumerate(listed if isinstance(listed, list) else []):
        if not isinstance(text, str) or not text:
            continue
        place = report.document.place(listed, index).value
        parts = [part.strip() for part in text.split(",")]
        references |= {part: Referring(part, place) for part in parts if PREFIX in part}
        try:
            servers += [part if PREFIX in part else str(parse_server(part)) for part in parts]
        except ValueError:
            part = report.at("clusters", name, "bootstrap_servers", index)
            if not report.covers(part.path):
                raw = report.document.place(listed, index).text or ""
                text = f"{spell_server(raw)} is not HOST:PORT, as in broker-1:9092"
                part.add(rule.BAD_SERVER, text, listed, index)
    return tuple(servers), references


def _read_text(node: dict[str, Any], key: str) -> str | None:
    value = node.get(key)
    return value if isinstance(value, str) else None


def _read_path(node: dict[str, Any], key: str, directory: Path) -> Path | None:
    value = node.get(key)
    return directory / value if isinstance(value, str) and value else None


def _read_profiles(node: dict[str, Any], report: FileReport) -> dict[str, Values]:
    profiles: dict[str, Values] = {}
    for name, values in node.items():
        if isinstance(values, dict):
            profiles[name] = read_values(values, None, report.at("profiles", name))
    return profiles


def _read_scope(node: dict[str, Any], report: FileReport) -> Scope:
    include, exclude = (
        tuple(
            read_pattern(item, report.at("scope", side, index))
            for index, item in enumerate(node[side] if isinstance(node.get(side), list) else ())
            if isinstance(item, dict)
        )
        for side in ("include", "exclude")
    )
    return Scope(include=include, exclude=exclude)


def _read_paths(root: dict[str, Any], field: str, report: FileReport) -> tuple[ListedPath, ...]:
    listed = root.get(field)
    return tuple(
        ListedPath(text, report.document.place(listed, index).value)
        for index, text in enumerate(listed if isinstance(listed, list) else ())
        if isinstance(text, str) and text
    )


def _read_prune(root: dict[str, Any], scope: Scope, report: FileReport) -> PruneMode:
    """Return what happens to undeclared entities; what is no mode was found by the schema."""
    mode = _read_text(root, "prune")
    if mode not in tuple(PruneMode):
        return PruneMode.REPORT
    if problem := prune_problem(PruneMode(mode), scope):
        report.at("prune").add(rule.PRUNE_SCOPE, problem, root, "prune")
    return PruneMode(mode)


MOST_IGNORES: Final = 1000
"""How many items `drift_ignore` may have."""


def read_drift_ignores(root: dict[str, Any], report: FileReport) -> tuple[DriftIgnore, ...]:
    """Return the items of `drift_ignore`; the schema reports values of the wrong shape."""
    listed = root.get("drift_ignore")
    ignores = []
    for index, item in enumerate(listed if isinstance(listed, list) else ()):
        if not isinstance(item, dict):
            continue
        part = report.at("drift_ignore", index)
        keys = _read_keys(item, part)
        expires = read_expires(item, part)
        match, reason = item.get("match"), item.get("reason")
        pattern = read_pattern(match, part.at("match")) if isinstance(match, dict) else None
        if pattern is not None and expires is not None and isinstance(reason, str):
            ignores.append(
                DriftIgnore(
                    match=pattern,
                    keys=keys,
                    reason=reason,
                    expires=expires,
                    location=report.document.place(listed, index).value,
                )
            )
    return tuple(ignores)


def _read_keys(item: dict[str, Any], part: Part) -> frozenset[str]:
    keys = item.get("keys")
    found = set()
    for index, key in enumerate(keys if isinstance(keys, list) else ()):
        if not isinstance(key, str):
            continue
        if key not in QUOTA_KEYS:
            guess = did_you_mean(key, QUOTA_KEYS) or f"; the keys are {', '.join(QUOTA_KEYS)}"
            part.at("keys", index).add(rule.UNKNOWN_KEY, f"unknown quota key {quote(key)}{guess}", keys, index)
        found.add(key)
    return frozenset(found)


def read_guard_limits(root: dict[str, Any], report: FileReport) -> GuardLimits:
    """Return the limits of the guards; the schema reports values that are not numbers or out of range."""
    guards, protect = root.get("guards"), root.get("protect")
    node = guards if isinstance(guards, dict) else {}
    return GuardLimits(
        delete=_read_count_limit(node.get("delete"), DEFAULT_GUARD_LIMITS.delete),
        update=_read_count_limit(node.get("update"), DEFAULT_GUARD_LIMITS.update),
        change_factor=_read_number(node, "change_factor", DEFAULT_GUARD_LIMITS.change_factor),
        protect=tuple(
            read_pattern(item, report.at("protect", index))
            for index, item in enumerate(protect if isinstance(protect, list) else ())
            if isinstance(item, dict)
        ),
    )


def _read_count_limit(node: object, default: CountLimit) -> CountLimit:
    if not isinstance(node, dict):
        return default
    return CountLimit(_read_number(node, "count", default.count), _read_number(node, "percent", default.percent))


def _read_number(node: dict[str, Any], key: str, default: int) -> int:
    number = node.get(key)
    return number if type(number) is int else default


MOST_LABELS: Final = 100
"""The limit on labels of `metrics.labels`."""


def read_metrics(cluster: str, node: dict[str, Any], report: FileReport) -> ClusterMetrics:
    """Return where the measurements of a cluster are; the schema reports values of the wrong shape."""
    written = node.get("metrics")
    if not isinstance(written, dict):
        return NO_METRICS
    part = report.at("clusters", cluster, "metrics")
    prometheus, labels = written.get("prometheus"), written.get("labels")
    if isinstance(prometheus, str):
        _check_url(prometheus, part.at("prometheus"), written, "prometheus")
    return ClusterMetrics(
        sources=_read_sources(written, part),
        prometheus=prometheus if isinstance(prometheus, str) else None,
        labels={
            name: value
            for name, value in (labels if isinstance(labels, dict) else {}).items()
            if isinstance(value, str)
        },
        location=report.document.locate(part.path).value,
    )


def _read_sources(written: dict[str, Any], part: Part) -> tuple[MetricsSource, ...]:
    listed = written.get("brokers")
    sources: list[MetricsSource] = []
    for index, text in enumerate(listed if isinstance(listed, list) else []):
        if not isinstance(text, str):
            continue
        place = part.at("brokers", index)
        try:
            source = parse_source(text)
            require_distinct([*sources, source])
        except ValueError as error:
            place.add(rule.BAD_METRICS, str(error), listed, index)
            continue
        if source.kind is not SourceKind.JMX:
            _check_url(source.address, place, listed, index)
        sources.append(source)
    return tuple(sources)


def _check_url(text: str, part: Part, container: Any, key: str | int) -> None:
    from quotaform.http.message import Url

    try:
        Url.parse(text)
    except ValueError as error:
        part.add(rule.BAD_METRICS, f"invalid URL: {error}", container, key)


def read_sizing(root: dict[str, Any], report: FileReport) -> SizingSettings:
    """Return how quotas are sized by usage; the schema reports values of the wrong shape."""
    node = root.get("recommend")
    if not isinstance(node, dict):
        return SizingSettings()
    part = report.at("recommend")
    default = SizingSettings()
    headroom, samples, outliers = node.get("headroom"), node.get("min_samples"), node.get("outlier_days")
    is_number = isinstance(headroom, int | Decimal) and not isinstance(headroom, bool)
    return SizingSettings(
        percentile=_read_percentile(node, part, default.percentile),
        outlier_days=outliers if type(outliers) is int else default.outlier_days,
        headroom=float(headroom) if is_number and headroom is not None else default.headroom,
        floors=_read_values(node, "floor", report),
        caps=_read_values(node, "cap", report),
        min_history_days=_read_days(node, "min_history", part, default.min_history_days),
        min_samples=samples if type(samples) is int else default.min_samples,
        unused_after_days=_read_days(node, "unused_after", part, default.unused_after_days),
    )


def value_mappings(root: dict[str, Any]) -> list[Any]:
    """Return the mappings of `recommend` that hold values of quota keys."""
    node = root.get("recommend")
    held = [node.get(field) for field in ("floor", "cap")] if isinstance(node, dict) else []
    return [each for each in held if isinstance(each, dict)]


def _read_values(node: dict[str, Any], field: str, report: FileReport) -> Values:
    written = node.get(field)
    return read_values(written, None, report.at("recommend", field)) if isinstance(written, dict) else {}


def _read_percentile(node: dict[str, Any], part: Part, default: float) -> float:
    text = node.get("percentile")
    if not isinstance(text, str):
        return default
    try:
        return parse_percentile(text)
    except ValueError as error:
        part.at("percentile").add(rule.BAD_VALUE, f"percentile: {error}", node, "percentile")
    return default


def _read_days(node: dict[str, Any], field: str, part: Part, default: float) -> float:
    text = node.get(field)
    if not isinstance(text, str):
        return default
    try:
        return parse_duration(text).total_seconds() / 86_400
    except ValueError as error:
        part.at(field).add(rule.BAD_VALUE, f"{field}: {error}", node, field)
    return default
