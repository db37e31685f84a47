"""Rows of tables, and what is guessed of their columns."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from quotaform.core.usage.format.table import parse_rows, read_cell_time
from quotaform.core.usage.format.table_mapping import TableMapping, TimeUnit, guess_mapping, mapping_problem
from quotaform.core.usage.metric.origin import Origin
from quotaform.core.usage.sample.sample import DropReason, Item, Sample
from quotaform.core.usage.sample.series import Attribute

from .recorded import ORIGIN, TS, dropped, reasons, samples, series, values

METRICS = TableMapping(columns={"ts": "t", "metric": "m", "value": "v", "labels": "l"})
BUCKETS = TableMapping(
    columns={"ts": "t", "rate": "r", "throttle_ms": "w", "user": "u", "client_id": "c"}, constants={"key": "Produce"}
)
METRIC = "kafka_server_Produce_byte_rate"


def parse(mapping: TableMapping, *rows: dict[str, Any]) -> list[Item]:
    return list(parse_rows(rows, mapping, ORIGIN))


@pytest.mark.parametrize(
    "labels",
    [
        {"user": "CN%3Da", "client_id": None},
        [("user", "CN%3Da")],
        [{"name": "user", "value": "CN%3Da"}],
        '{"user": "CN%3Da"}',
        '[["user", "CN%3Da"]]',
    ],
)
def test_labels_are_a_map_pairs_or_json(labels: Any) -> None:
    assert parse(METRICS, {"t": TS, "m": METRIC, "v": 5.5, "l": labels}) == [Sample(series(user="CN=a"), TS, 5.5, 11.5)]


def test_labels_may_be_columns_and_the_metric_a_constant() -> None:
    mapping = TableMapping(
        columns={"ts": "t", "value": "v", "broker": "b"},
        constants={"metric": METRIC, "cluster": "c"},
        labels={"user": "u", "client_id": "c"},
        factors={"value": 1024},
    )
    items = parse(mapping, {"t": TS, "v": "2", "u": "a", "c": None, "b": 7})
    assert items == [Sample(series(user="a", broker="7")._replace(cluster="c"), TS, 2048, 11.5)]


def test_a_row_of_a_bucket_has_a_rate_a_throttle_time_or_both() -> None:
    row = {"t": TS, "u": "a%20b", "c": "x"}
    items = parse(BUCKETS, {**row, "r": 1, "w": 2}, {**row, "r": 3, "w": None}, {**row, "w": 4}, row)
    rate, throttle = (series(user="a%20b", client_id="x", attribute=each) for each in list(Attribute)[:2])
    assert [(item.series, item.value) for item in samples(items)] == [
        (rate, 1),
        (throttle, 2),
        (rate, 3),
        (throttle, 4),
    ]
    assert dropped(items) == {DropReason.MISSING: 1}


def test_users_are_decoded_where_the_mapping_says_so() -> None:
    mapping = TableMapping(
        columns={"ts": "t", "rate": "r", "user": "u", "key": "k", "window_s": "s"}, has_sanitized_users=True
    )
    items = parse(mapping, {"t": TS, "r": 1, "u": "a%20b", "k": "consumer_byte_rate", "s": 60})
    assert items == [Sample(series("consumer_byte_rate", user="a b"), TS, 1, 60.0)]


def test_connections_are_of_an_address() -> None:
    mapping = TableMapping(columns={"ts": "t", "rate": "r", "ip": "i"}, constants={"key": "connection_creation_rate"})
    items = parse(mapping, {"t": TS, "r": 1, "i": "0:0:0:0:0:0:0:1"}, {"t": TS, "r": 1}, {"t": TS, "r": 1, "i": "x"})
    assert [item.series for item in samples(items)] == [series("connection_creation_rate", ip="::1")]
    assert dropped(items) == {DropReason.BROKER_TOTAL: 1}
    assert reasons(items) == ['row 3: "x" is not an IP address']


@pytest.mark.parametrize(
    ("mapping", "cells", "reason"),
    [
        (METRICS, {"m": METRIC, "l": 7}, "its labels are no map, no pairs and no JSON"),
        (METRICS, {"m": METRIC, "l": "{"}, "its labels are no map, no pairs and no JSON"),
        (METRICS, {"m": METRIC, "l": {"user": "a"}, "v": "x"}, '"x" is not a number'),
        (METRICS, {"m": METRIC, "l": {"user": "a"}, "v": 1, "t": "x"},
         '"x" is not a time in ISO 8601, as in 2026-11-20T09:12:44Z'),
        (METRICS, {"m": METRIC, "l": {"user": "a"}, "v": 1, "t": None}, "there is no time"),
        (BUCKETS, {"u": "a", "r": -1}, "the value is -1; a rate is never negative"),
        (TableMapping(columns={"ts": "t", "key": "k", "rate": "r"}), {"k": "bytes", "r": 1},
         '"bytes" is no quota key and no type of quota'),
        (TableMapping(columns={"ts": "t", "key": "k", "user": "u", "rate": "r", "window_s": "s"}),
         {"k": "Fetch", "u": "a", "r": 1, "s": -1}, '"-1.0" is no number of seconds'),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_read_is_rejected(mapping: TableMapping, cells: dict[str, Any], reason: str) -> None:
    assert reasons(parse(mapping, {"t": TS, **cells})) == [f"row 1: {reason}"]


@pytest.mark.parametrize(
    ("cell", "unit"),
    [
        (TS, None),
        (int(TS * 1e3), None),
        (int(TS * 1e6), None),
        (str(int(TS * 1e9)), None),
        (TS, TimeUnit.S),
        (TS * 1e3, TimeUnit.MS),
        ("2025-11-20T22:04:16Z", None),
        ("2025-11-20 23:04:16+01:00", None),
        (datetime(2025, 11, 20, 22, 4, 16, tzinfo=UTC), None),
        (datetime(2025, 11, 20, 22, 4, 16), None),
    ],
)
def test_a_time_is_a_moment_or_a_number(cell: object, unit: TimeUnit | None) -> None:
    assert read_cell_time(cell, TableMapping(columns={"ts": "t"}, time_unit=unit)) == TS


def test_a_day_is_its_beginning() -> None:
    assert read_cell_time(date(2025, 11, 20), TableMapping(columns={"ts": "t"})) == 1763596800.0


def test_the_columns_of_a_dump_of_metrics_are_guessed() -> None:
    mapping = guess_mapping(["Timestamp", "__name__", "value", "user", "client_id", "quota_type", "instance", "job"])
    assert isinstance(mapping, TableMapping)
    assert mapping.columns == {"ts": "Timestamp", "metric": "__name__", "value": "value"}
    assert mapping.labels.keys() == {"user", "client_id", "quota_type", "instance"}


def test_the_columns_of_a_table_of_usage_are_guessed() -> None:
    names = ["ts", "window_s", "cluster", "broker", "key", "user", "client_id", "ip", "rate", "throttle_ms", "instance"]
    mapping = guess_mapping(names)
    assert isinstance(mapping, TableMapping)
    assert mapping.columns == {name: name for name in names}
    assert values(parse(mapping, {"ts": TS, "key": "producer_byte_rate", "user": "a", "rate": 5})) == [(TS, 5.0)]


@pytest.mark.parametrize(("broker", "instance"), [(None, "h1"), ("", "h1"), ("b1", None)])
def test_an_instance_is_a_client_unless_a_broker_measured(broker: str | None, instance: str | None) -> None:
    """In rows of brokers, what is called instance is often the address of the broker."""
    mapping = guess_mapping(["ts", "key", "client_id", "rate", "broker", "instance"])
    assert isinstance(mapping, TableMapping)
    cells = {"ts": TS, "key": "Fetch", "client_id": "a", "rate": 5, "broker": broker, "instance": "h1"}
    [sample] = parse_rows([cells], mapping, Origin(cluster="lab"))
    assert isinstance(sample, Sample)
    assert (sample.series.broker, sample.series.instance) == (broker or None, instance)


def test_the_label_that_tells_clients_apart_may_be_a_column() -> None:
    mapping = guess_mapping(["ts", "metric", "value", "client_id", "client_instance_id"])
    assert isinstance(mapping, TableMapping)
    metric = "org.apache.kafka.producer.outgoing.byte.rate"
    cells = {"ts": TS, "metric": metric, "value": 5, "client_id": "a", "client_instance_id": "h1"}
    [sample] = parse_rows([cells], mapping, Origin(cluster="lab"))
    assert isinstance(sample, Sample)
    assert sample.series.instance == "h1"


def test_other_columns_are_not_guessed() -> None:
    problem = guess_mapping(["a", "b"])
    assert problem == (
        "its columns are a, b, not those of metrics (ts, metric, value, labels) or of buckets (ts, key, rate); "
        "say in a mapping file what they are"
    )


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        (["timestamp", "value", "labels"], {"labels": {"__name__": METRIC, "user": "a"}}),
        (["timestamp", "value", "labels"], {"labels": [("__name__", METRIC), ("user", "a")]}),
        (["timestamp", "value", "__name__", "username"], {"__name__": METRIC, "username": "a"}),
        (["timestamp", "value", "__name__", "clientId", "kafka_user"], {"__name__": METRIC, "kafka_user": "User:a"}),
        (["timestamp", "value", "name", "attribute_name", "user"],
         {"name": "kafka_server_Produce", "attribute_name": "byte-rate", "user": "a"}),
    ],
)  # fmt: skip
def test_the_usual_columns_of_long_term_stores_are_known(columns: list[str], row: dict[str, Any]) -> None:
    """Tables whose labels hold the name of the metric, or have other names, needed a mapping file."""
    mapping = guess_mapping(columns)
    assert isinstance(mapping, TableMapping)
    cells = {"timestamp": TS * 1000, "value": 5.5, **row}
    assert [item.series for item in samples(parse(mapping, cells))] == [series(user="a")]


def test_values_need_something_that_names_the_metric() -> None:
    assert isinstance(guess_mapping(["ts", "value", "user"]), str)
    problem = mapping_problem(TableMapping(columns={"ts": "t", "value": "v"}, labels={"user": "u"}))
    assert problem == (("columns",), "rows of metrics need metric, or labels with __name__")
    assert mapping_problem(TableMapping(columns={"ts": "t", "value": "v"}, labels={"__name__": "n"})) is None


def test_a_first_line_of_values_is_not_taken_for_names() -> None:
    """The values were listed as columns of which it is not known what they are."""
    found = guess_mapping(["kafka_server_produce_byte_rate", "5.5", "1795000000000", "alice"])
    assert isinstance(found, str)
    assert "which are values and not names of columns; put a line with the names before it" in found


def test_rows_without_the_name_of_a_metric_are_not_taken_for_other_metrics() -> None:
    """Files that lie in a folder called after the metric lost all rows as metrics that are not of quotas."""
    mapping = guess_mapping(["timestamp", "value", "labels", "pod"])
    assert isinstance(mapping, TableMapping)
    row = {"timestamp": TS, "value": 5.5, "labels": '{"user": "alice"}', "pod": "b1"}
    assert "constants: {metric: NAME}" in reasons(parse(mapping, row))[0]


@pytest.mark.parametrize("column", ["clientName", "client_app", "mbean"])
def test_a_column_of_metrics_that_may_name_somebody_is_a_label(column: str) -> None:
    """A column that was not known was left out, and its bucket taken for that of the user alone."""
    mapping = guess_mapping(["ts", "metric", "value", "user", column, "listener"])
    assert isinstance(mapping, TableMapping)
    assert set(mapping.labels) == {"user", column}


def test_a_row_of_metrics_with_half_its_names_known_is_quarantined() -> None:
    mapping = guess_mapping(["ts", "metric", "value", "user", "clientName"])
    assert isinstance(mapping, TableMapping)
    row = {"ts": TS, "metric": METRIC, "value": 5.5, "user": "alice"}
    items = parse(mapping, {**row, "clientName": "x"}, {**row, "clientName": None})
    assert 'a label "clientName"' in reasons(items)[0]
    assert [sample.series for sample in samples(items)] == [series(user="alice")]


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        (["ts", "key", "rate", "user", "clientName"], "no column client_id, but clientName"),
        (["ts", "key", "rate", "client_id", "sasl_user"], "no column user, but sasl_user"),
    ],
)
def test_a_column_of_buckets_that_may_name_somebody_is_asked_for(columns: list[str], names: str) -> None:
    assert names in str(guess_mapping(columns))


def test_columns_that_name_nobody_do_not_matter() -> None:
    columns = ["ts", "key", "rate", "user", "client_software_name", "client_rack", "job"]
    assert isinstance(guess_mapping(columns), TableMapping)


@pytest.mark.parametrize(
    "columns",
    [
        ["s_series_hash", "l___name__", "l_user", "s_col_indexes", "s_data_0"],
        ["___cf_meta_index", "___cf_meta_chunk_0"],
        ["___cf_meta_index", "___cf_meta_hash", "___cf_meta_label_user"],
    ],
)
def test_the_blocks_of_a_store_are_not_read(columns: list[str]) -> None:
    assert "encoded in chunks" in str(guess_mapping(columns))
    assert "--prometheus" in str(guess_mapping(columns))
