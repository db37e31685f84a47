"""The file that says what the columns of a table are, and what is said about its mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.app.usage.mapping import load_usage_mapping
from quotaform.core.usage.format.table import parse_rows
from quotaform.core.usage.format.table_mapping import TableMapping, TimeUnit
from quotaform.core.usage.metric.origin import Origin
from quotaform.core.usage.sample.sample import Sample
from quotaform.desired.tree import SourceFile
from quotaform.desired.usage_mapping import read_usage_mapping
from quotaform.errors import InvalidFilesError

GOOD = """
columns: {ts: time, rate: bytes, user: principal}
constants: {key: producer_byte_rate, cluster: prod}
factors: {rate: 1048576}
time_unit: ms
sanitized_users: true
"""


def test_a_mapping_is_yaml_or_json() -> None:
    mapping, problems = read_usage_mapping(SourceFile("m.yaml", GOOD))
    assert problems == []
    assert mapping == TableMapping(
        columns={"ts": "time", "rate": "bytes", "user": "principal"},
        constants={"key": "producer_byte_rate", "cluster": "prod"},
        factors={"rate": 1048576},
        time_unit=TimeUnit.MS,
        has_sanitized_users=True,
    )
    json = '{"columns": {"ts": "t", "metric": "m", "value": "v"}, "labels": {"user": "u"}}'
    mapping, problems = read_usage_mapping(SourceFile("m.json", json))
    assert problems == []
    assert mapping is not None
    assert mapping.is_of_metrics


def test_a_factor_may_have_decimals() -> None:
    """A row of the table could not be multiplied by it."""
    mapping, _ = read_usage_mapping(SourceFile("m.yaml", GOOD.replace("1048576", "0.125")))
    assert mapping is not None
    (sample,) = parse_rows([{"time": 1.8e12, "bytes": 8, "principal": "a"}], mapping, Origin())
    assert isinstance(sample, Sample)
    assert sample.value == 1.0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "m.yaml:1:1: the file must be a mapping, but it is empty; add a value or remove the field"),
        ("columns: {rate: r}", "m.yaml:1:10: columns has no ts; add it"),
        ("columns: {ts: t}\nfoo: 1", "m.yaml:2:1: unknown field \"foo\"."),
        ("columns: {ts: 7}", "m.yaml:1:15: ts must be text, but"),
        ("columns: {ts: t, key: k, rate: r}\ntime_unit: m", "m.yaml:2:12: time_unit must be s or ms or us or ns"),
        ("columns: {ts: t, key: k, rate: r}\nfactors: {rate: 0}", "m.yaml:2:17: rate is not valid"),
        ("columns: {ts: t, key: k, rate: r}\nfactors: {rate: 1e400}", "m.yaml:2:11: the factor must lie between 1e-30"),
        ("columns: {ts: t, key: k, rate: r}\nfactors: {rate: 1e-400}", "m.yaml:2:11: the factor must lie between"),
        ("columns: {ts: t}", "m.yaml:1:1: the mapping has neither metric nor key; name metric for rows of metrics"),
        ("columns: {ts: t, key: k}", "m.yaml:1:1: rows of buckets need a column rate or throttle_ms"),
        ("columns: {ts: t, metric: m}", "m.yaml:1:1: rows of metrics need a column value"),
        ("columns: {ts: t, metric: m, value: v, rate: r}", "m.yaml:1:39: rate is no field of rows of metrics; remove"),
        ("columns: {ts: t, key: k, rate: r}\nconstants: {key: x}", "m.yaml:2:13: key is a column and a constant"),
        ("columns: {ts: t, key: k, rate: r}\nlabels: {user: u}", "m.yaml:2:1: rows of buckets have no labels"),
        ("columns: {ts: t", "m.yaml:2"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_place(text: str, problem: str) -> None:
    mapping, problems = read_usage_mapping(SourceFile("m.yaml", text))
    assert mapping is None
    assert [str(each).replace(" error:", "")[: len(problem)] for each in problems] == [problem]


def test_an_invalid_file_is_an_error_with_all_problems(tmp_path: Path) -> None:
    path = tmp_path / "mapping.yaml"
    path.write_text("columns: {ts: 7, rate: 8}\n", encoding="utf-8")
    with pytest.raises(InvalidFilesError) as caught:
        load_usage_mapping(path)
    assert len(caught.value.problems) == 2
    path.write_text(GOOD, encoding="utf-8")
    assert load_usage_mapping(path).factor("rate") == 1048576
