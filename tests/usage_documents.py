"""Recordings in each format, written as brokers, exporters and collectors write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from json import dumps
from re import compile as regex
from typing import Any, Final, NamedTuple

from quotaform.model.entity import sanitize
from quotaform.usage.sample import Attribute, Series

_PLAIN = regex(r"[A-Za-z0-9_\-%. \t]*").fullmatch
_SPECIAL: Final = regex(r'["*?\\\n]')
_TYPES: Final = {
    "producer_byte_rate": ("Produce", "byte-rate"),
    "consumer_byte_rate": ("Fetch", "byte-rate"),
    "request_percentage": ("Request", "request-time"),
    "controller_mutation_rate": ("ControllerMutation", "mutation-rate"),
    "connection_creation_rate": ("socket-server-metrics", "connection-accept-rate"),
}


class Recorded(NamedTuple):
    """A value of a series; `nan` as text, as none of the formats has it otherwise."""

    series: Series
    ts: int
    value: float | str


def jmx_quoted(value: str) -> str:
    """Return a value as Kafka writes it into the name of an MBean (javax.management.ObjectName.quote)."""
    if _PLAIN(value):
        return value
    return '"' + _SPECIAL.sub(lambda found: "\\n" if found[0] == "\n" else "\\" + found[0], value) + '"'


def names_of(series: Series) -> dict[str, str]:
    tags = {
        "user": sanitize(series.user or ""),
        "client-id": jmx_quoted(series.client_id or ""),
        "ip": jmx_quoted(series.ip or ""),
    }
    return {key: value for key, value in tags.items() if value}


def attribute_of(series: Series) -> str:
    return "throttle-time" if series.attribute is Attribute.THROTTLE_TIME else _TYPES[series.key][1]


def mbean_of(series: Series) -> str:
    tags = ",".join(f"{key}={value}" for key, value in names_of(series).items())
    return f"kafka.server:type={_TYPES[series.key][0]},{tags}"


def metric_of(series: Series) -> tuple[str, dict[str, str]]:
    labels = {key.replace("-", "_"): value for key, value in names_of(series).items()}
    labels["quota_type"] = _TYPES[series.key][0]
    return f"kafka_server_quota_{attribute_of(series).replace('-', '_')}", labels


def by_series(recorded: Sequence[Recorded]) -> Mapping[Series, list[Recorded]]:
    found: dict[Series, list[Recorded]] = {}
    for each in recorded:
        found.setdefault(each.series, []).append(each)
    return found


def prometheus(recorded: Sequence[Recorded]) -> bytes:
    result: list[dict[str, Any]] = []
    for series, values in by_series(recorded).items():
        name, labels = metric_of(series)
        pairs = [[each.ts, str(each.value)] for each in values]
        result.append({"metric": {"__name__": name} | labels, "values": pairs})
    return dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()


def exposition(recorded: Sequence[Recorded]) -> bytes:
    lines = []
    for each in recorded:
        name, labels = metric_of(each.series)
        spelled = ",".join(f'{label}="{_escaped(value)}"' for label, value in labels.items())
        lines.append(f"{name}{{{spelled}}} {each.value} {each.ts * 1000}\n")
    return "".join(lines).encode()


def jmxtool(recorded: Sequence[Recorded]) -> bytes:
    columns = list(by_series(recorded))
    header = ["time", *(f"{mbean_of(series)}:{attribute_of(series)}" for series in columns)]
    lines = [",".join(f'"{cell}"' for cell in header)]
    for ts in dict.fromkeys(each.ts for each in recorded):
        cells = {each.series: str(each.value) for each in recorded if each.ts == ts}
        lines.append(",".join([str(ts * 1000), *(cells.get(series, "") for series in columns)]))
    return "".join(f"{line}\n" for line in lines).encode()


def otlp(recorded: Sequence[Recorded]) -> bytes:
    documents = []
    for series, values in by_series(recorded).items():
        name, labels = metric_of(series)
        attributes = [{"key": key, "value": {"stringValue": value}} for key, value in labels.items()]
        points: list[dict[str, Any]] = [
            {"attributes": attributes, "timeUnixNano": str(each.ts * 10**9), "asDouble": each.value} for each in values
        ]
        metrics = [{"name": name, "gauge": {"dataPoints": points}}]
        documents.append(dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]}))
    return "\n".join(documents).encode()


WRITERS: Final[dict[str, Callable[[Sequence[Recorded]], bytes]]] = {
    "prometheus": prometheus,
    "exposition": exposition,
    "jmxtool": jmxtool,
    "otlp": otlp,
}
"""How each format is written."""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
