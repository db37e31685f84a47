"""`metrics` of a cluster in quotaform.yaml: where its measurements are."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.desired.config_reader import read_config
from quotaform.desired.tree import SourceFile
from quotaform.model.settings import MetricsSource, SourceKind


def read(tmp_path: Path, metrics: str) -> tuple[object, list[str]]:
    text = f"clusters:\n  a:\n    bootstrap_servers: [b:9092]\n    metrics: {metrics}\n"
    config, findings = read_config(SourceFile("quotaform.yaml", text.encode()), tmp_path)
    return config.clusters["a"].metrics, [str(finding) for finding in findings]


def test_a_cluster_names_the_sources_of_its_brokers_and_a_prometheus(tmp_path: Path) -> None:
    metrics, findings = read(
        tmp_path,
        '{brokers: ["1=http://b1:7071/metrics", "2=jmx:b2:9999"], prometheus: "http://p:9090", labels: {cluster: a}}',
    )
    assert findings == []
    assert getattr(metrics, "sources", None) == (
        MetricsSource("1", SourceKind.EXPORTER, "http://b1:7071/metrics"),
        MetricsSource("2", SourceKind.JMX, "b2:9999"),
    )
    assert (getattr(metrics, "prometheus", None), getattr(metrics, "labels", None)) == (
        "http://p:9090",
        {"cluster": "a"},
    )
    assert "http://" not in repr(metrics)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{brokers: [b1:7071]}", "4:25: error: the URL must begin with http:// or https://"),
        ("{brokers: ['1=http://a/x', '1=http://b/x']}", '4:41: error: there are two sources of broker "1"'),
        ("{brokers: ['http://me:hunter2@a/x']}", "it must not contain a user name or a password"),
        ("{prometheus: p:9090}", "4:27: error: invalid URL"),
        ("{brokers: ['http://${env:QUOTAFORM_HOST}/x']}", "${env:NAME} is expanded only in bootstrap_servers"),
        ("{}", "4:14: error:"),
        ("{sources: ['http://a/x']}", 'unknown field "sources"'),
        ("{brokers: http://a/x}", "error:"),
        ("{labels: {a: 1}}", "a must be text"),
        ("[http://a/x]", "error:"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_without_secrets(tmp_path: Path, written: str, said: str) -> None:
    _, findings = read(tmp_path, written)
    assert said in "\n".join(findings)
    assert "hunter2" not in "\n".join(findings)


def test_there_are_limits_on_sources_and_labels(tmp_path: Path) -> None:
    sources = ", ".join(f"'{number}=http://b{number}/x'" for number in range(1001))
    metrics, findings = read(tmp_path, f"{{brokers: [{sources}]}}")
    assert len(getattr(metrics, "sources", ())) == 1000
    assert "brokers contains more than the limit of 1,000 sources" in "\n".join(findings)
