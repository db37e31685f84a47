"""What exporters, agents and collectors make of the metrics of client quotas: the names and labels of each."""

from __future__ import annotations

import json
from re import fullmatch
from typing import Any

import pytest

from quotaform.core.usage.format.exposition import parse_exposition
from quotaform.core.usage.metric.metric import Measure, read_metric
from quotaform.core.usage.metric.origin import Origin
from quotaform.core.usage.sample.sample import Dropped, DropReason, Item, Rejected, Sample, Unreadable
from quotaform.core.usage.sample.series import Attribute
from quotaform.metrics.prometheus import QUERY

from .recorded import ORIGIN, series

PRODUCE, FETCH, REQUEST = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
MUTATION, CONNECTION = "controller_mutation_rate", "connection_creation_rate"
RATE, THROTTLE = Attribute.RATE, Attribute.THROTTLE_TIME

EXPORTERS = {
    "rules with the attribute in a label": """
        kafka_server_produce{user="alice",attribute_name="byte-rate"} 1
        kafka_server_fetch{client_id="x",attribute_name="throttle-time"} 2
        kafka_server_quota{quota_type="Request",user="alice",attribute="request-time"} 3
        kafka_server_socketservermetrics{ip="10.0.0.1",attribute_name="connection-accept-rate"} 4
        kafka_server_produce{attribute_name="queue-size"} 5
    """,
    "rules that write the type of the MBean in one word": """
        kafka_server_socketservermetrics_connection_accept_rate{listener="PLAIN",network_processor="0"} 1
        kafka_server_socketservermetrics_connection_accept_rate{ip="10.0.0.1"} 2
        kafka_server_controllermutation_mutation_rate{user="alice"} 3
    """,
    "a reporter in the broker, whose labels may be empty": """
        kafka_server_produce_byte_rate{client_id="",user="CN%3Da"} 1
        kafka_server_socket_server_metrics_connection_accept_rate{ip="10.0.0.1"} 2
        kafka_server_socket_server_metrics_ip_connection_accept_throttle_time{ip="10.0.0.1"} 3
        kafka_server_socket_server_metrics_broker_connection_accept_rate 4
    """,
    "Telegraf, which writes to a Prometheus": """
        kafka_client_byte_rate{client_id="x",host="t",jolokia_agent_url="http://b1:8778/jolokia",type="Produce"} 1
        kafka_user_throttle_time{user="alice",host="t",jolokia_agent_url="http://b1:8778/jolokia",type="Fetch"} 2
        kafka_user_client_request_time{user="alice",client_id="x",type="Request"} 3
    """,
    "OpenTelemetry, which adds units": """
        kafka_server_quota_byte_rate_bytes_per_second{quota_type="Produce",user="alice"} 1
        kafka_server_quota_byte_rate_kibibytes_per_second{quota_type="Fetch",user="alice"} 2
        kafka_server_quota_throttle_time_milliseconds{quota_type="Produce",user="alice"} 3
        kafka_server_quota_throttle_time_seconds{quota_type="Fetch",user="alice"} 4
        kafka_server_quota_request_time_percent{user="alice"} 5
        kafka_server_quota_mutation_rate_per_second{user="alice"} 6
    """,
    "averages": """
        kafka_server_produce_throttle_time_ms_mean{client_id="x"} 1
        kafka_server_produce_throttle_time_avg_ms{user="alice"} 2
        kafka_server_produce_throttle_time{client_id="x",quantile="0.99"} 3
        kafka_server_produce_throttle_time_max{client_id="x"} 4
    """,
    "whom a bucket is for in the name": """
        kafka_server_produce_user_byte_rate{user="alice"} 1
        kafka_server_quota_fetch_user_client_id_byte_rate{user="alice",client_id="x"} 2
    """,
    "no separators": """
        kafka_server_quota_byterate{type="Produce",user="alice"} 1
        kafka_server_quota_throttletime{type="Produce",user="alice"} 2
    """,
    "other names of labels": """
        kafka_server_quota_byte_rate{type="gauge",resource="Produce",kafka_user="User:alice"} 1
        kafka_server_quota_byte_rate{request_type="Fetch",kafka_client_id="x"} 2
    """,
    "clients that measure themselves": """
        kafka_producer_outgoing_byte_total_bytes_total{client_id="x"} 1
        kafka_consumer_fetch_throttle_time_avg_milliseconds{client_id="x"} 2
        kafka_producer_byte_rate{client_id="x",topic="t"} 3
    """,
    "newer brokers": """
        kafka_server_produce_quota_utilization{client_id="x"} 1
        kafka_server_quota_byte_quota_value{quota_type="Produce",client_id="x"} 2
    """,
    "rules that write the value into the name": """
        kafka_server_quota_Produce_byte_rate:_55300_995 {user="alice",client="x"} 55300.995
        kafka_server_quota_Request_request_time:_1_5E_4 {user="alice",client="x"} 0.00015
        kafka_server_quota_Fetch_throttle_time:_NaN {user="alice",client="x"} NaN
        kafka_server_quota_Request_queue_size:_0_0 0.0
        kafka_server_socket_server_metrics_incoming_byte_rate:_7_0{listener="PLAIN",networkProcessor="0"} 7
    """,
    "rules for any two properties, which split at the last equals sign": """
        kafka_server_produce{user="alice",client_id="x",attribute_name="byte-rate"} 1
        kafka_server_fetch{user="bob",client_id_a="b\\"",attribute_name="byte-rate"} 2
        kafka_server_controllermutation{user="alice",attribute_name="tokens"} 3
    """,
    "the type and the attribute in labels": """
        kafka_server{type="Produce",attribute="byte-rate",user="alice"} 1
        kafka_server{type="Log",attribute="size",topic="t"} 2
    """,
    "the name of the MBean in a label": """
        kafka_server_byte_rate{mbean="kafka.server:type=Produce,user=CN%3Da,client-id=\\"a,b\\""} 1
        kafka_server_byte_rate{mbean="kafka.server:type=LeaderReplication"} 2
    """,
    "clients whose attribute is in a label": """
        kafka_producer_producer_metrics{client_id="x",attribute_name="outgoing-byte-rate"} 1
        kafka_consumer_consumer_fetch_manager_metrics{client_id="x",attribute_name="fetch-throttle-time-avg"} 2
        kafka_producer_producer_metrics{client_id="x",attribute_name="batch-size-avg"} 3
    """,
    "clients of both kinds under one name": """
        kafka_client_produce_throttle_time_avg{client_id="x"} 1
        kafka_client_bytes_consumed_rate{client_id="x"} 2
        kafka_client_outgoing_byte_rate{client_id="x"} 3
    """,
    "replication": """
        kafka_server_leaderreplication_byte_rate 1
        kafka_server_quota_byte_rate{resource="FollowerReplication"} 2
    """,
}

ALICE: dict[str, Any] = {"user": "alice"}
X: dict[str, Any] = {"client_id": "x"}
IP: dict[str, Any] = {"ip": "10.0.0.1"}
VALUE_IN_NAME = (
    "its value is in its name, so that each value makes another metric; end the pattern of the exporter's rule with a "
    "colon: ><>(.+):"
)
EXPECTED: dict[str, list[object]] = {
    "rules with the attribute in a label": [
        (series(PRODUCE, **ALICE), 1.0),
        (series(FETCH, **X, attribute=THROTTLE), 2.0),
        (series(REQUEST, **ALICE), 3.0),
        (series(CONNECTION, **IP), 4.0),
        (DropReason.OTHER_ATTRIBUTE, 1),
    ],
    "rules that write the type of the MBean in one word": [
        (series(CONNECTION, **IP), 2.0),
        (series(MUTATION, **ALICE), 3.0),
        (DropReason.BROKER_TOTAL, 1),
    ],
    "a reporter in the broker, whose labels may be empty": [
        (series(PRODUCE, user="CN=a"), 1.0),
        (series(CONNECTION, **IP), 2.0),
        (DropReason.OTHER_ATTRIBUTE, 2),
    ],
    "Telegraf, which writes to a Prometheus": [
        (series(PRODUCE, **X, broker="b1:8778"), 1.0),
        (series(FETCH, **ALICE, broker="b1:8778", attribute=THROTTLE), 2.0),
        (series(REQUEST, **ALICE, **X), 3.0),
    ],
    "OpenTelemetry, which adds units": [
        (series(PRODUCE, **ALICE), 1.0),
        (series(FETCH, **ALICE), 2048.0),
        (series(PRODUCE, **ALICE, attribute=THROTTLE), 3.0),
        (series(FETCH, **ALICE, attribute=THROTTLE), 4000.0),
        (series(REQUEST, **ALICE), 5.0),
        (series(MUTATION, **ALICE), 6.0),
    ],
    "averages": [
        (series(PRODUCE, **X, attribute=THROTTLE), 1.0),
        (series(PRODUCE, **ALICE, attribute=THROTTLE), 2.0),
        (DropReason.OTHER_ATTRIBUTE, 1),
        (DropReason.OTHER_METRIC, 1),
    ],
    "whom a bucket is for in the name": [
        (series(PRODUCE, **ALICE), 1.0),
        (series(FETCH, **ALICE, **X), 2.0),
    ],
    "no separators": [(series(PRODUCE, **ALICE), 1.0), (series(PRODUCE, **ALICE, attribute=THROTTLE), 2.0)],
    "other names of labels": [(series(PRODUCE, **ALICE), 1.0), (series(FETCH, **X), 2.0)],
    "clients that measure themselves": [
        (series(PRODUCE, **X, broker=None, attribute=Attribute.TOTAL), 1.0),
        (series(FETCH, **X, broker=None, attribute=THROTTLE), 2.0),
        (DropReason.OTHER_METRIC, 1),
    ],
    "newer brokers": [(DropReason.OTHER_ATTRIBUTE, 2)],
    "rules that write the value into the name": [
        *[f"line {line}: {VALUE_IN_NAME}" for line in (2, 3, 4)],
        (DropReason.OTHER_ATTRIBUTE, 1),
        (DropReason.OTHER_METRIC, 1),
    ],
    "rules for any two properties, which split at the last equals sign": [
        (series(PRODUCE, **ALICE, **X), 1.0),
        'line 3: it has no client-id, but a label "client_id_a"; if that names one, give it with --client-id-label of '
        "usage ingest, otherwise say that client_id does: --client-id-label client_id",
        (DropReason.OTHER_ATTRIBUTE, 1),
    ],
    "the type and the attribute in labels": [(series(PRODUCE, **ALICE), 1.0), (DropReason.OTHER_METRIC, 1)],
    "the name of the MBean in a label": [
        (series(PRODUCE, user="CN=a", client_id="a,b"), 1.0),
        (DropReason.OTHER_METRIC, 1),
    ],
    "clients whose attribute is in a label": [
        (series(PRODUCE, **X, broker=None), 1.0),
        (series(FETCH, **X, broker=None, attribute=THROTTLE), 2.0),
        (DropReason.OTHER_METRIC, 1),
    ],
    "clients of both kinds under one name": [
        (series(PRODUCE, **X, broker=None, attribute=THROTTLE), 1.0),
        (series(FETCH, **X, broker=None), 2.0),
        (DropReason.OTHER_METRIC, 1),
    ],
    "replication": [(DropReason.OTHER_METRIC, 2)],
}


def summary(item: Item) -> object:
    match item:
        case Sample():
            return item.series, item.value
        case Dropped():
            return tuple(item)
        case Rejected():
            return item.reason


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_the_names_of_an_exporter_are_understood(exporter: str) -> None:
    lines = "\n".join(line.strip() for line in EXPORTERS[exporter].splitlines())
    assert [summary(item) for item in parse_exposition(lines, ORIGIN, 1.0)] == EXPECTED[exporter]


@pytest.mark.parametrize("unit", ["ratio", "seconds", "ms", "bytes"])
def test_a_unit_that_cannot_be_converted_is_not_guessed(unit: str) -> None:
    """A ratio of a thread was taken for percent of it."""
    measure = read_metric(f"kafka_server_quota_request_time_{unit}", ALICE, ORIGIN)
    assert isinstance(measure, Unreadable)
    assert "record it without that unit" in measure.reason


@pytest.mark.parametrize("label", ["label_user", "clientName", "sasl_principal"])
def test_a_label_that_may_name_somebody_is_not_taken_for_a_whole_broker(label: str) -> None:
    """The series of such exporters were left out as those of whole brokers."""
    labels = {"quota_type": "Produce", label: "alice", "client_software_name": "java"}
    measure = read_metric("kafka_server_quota_byte_rate", labels, ORIGIN)
    assert isinstance(measure, Unreadable)
    assert f"{json.dumps(label)}; if that names one of them, give it with --user-label" in measure.reason


@pytest.mark.parametrize(
    ("labels", "label", "option"),
    [
        ({"user": "alice", "clientName": "x"}, "clientName", "--client-id-label"),
        ({"client_id": "x", "sasl_principal": "alice"}, "sasl_principal", "--user-label"),
    ],
)
def test_a_bucket_of_two_names_is_not_taken_for_one_of_one_name(
    labels: dict[str, str], label: str, option: str
) -> None:
    """The bucket of alice with x was taken for that of alice, which is another one."""
    measure = read_metric("kafka_server_produce_byte_rate", labels, ORIGIN)
    assert isinstance(measure, Unreadable)
    assert f'a label "{label}"; if that names one, give it with {option}' in measure.reason


@pytest.mark.parametrize(
    ("labels", "origin"),
    [
        ({"user": "alice", "client_type": "internal"}, Origin("prod", client_id_labels=("client_id",))),
        ({"client_id": "x", "user_tier": "gold"}, Origin("prod", user_labels=("user",))),
        ({"user": "alice", "client_software_name": "java", "client_ip": "10.0.0.1"}, ORIGIN),
        ({"user": "alice", "client_id": "x", "client_type": "internal", "user_tier": "gold"}, ORIGIN),
    ],
)
def test_other_labels_do_not_matter_where_the_names_are_known(labels: dict[str, str], origin: Origin) -> None:
    measure = read_metric("kafka_server_produce_byte_rate", labels, origin)
    assert isinstance(measure, Measure)
    assert measure.series[3:5] == (labels.get("user"), labels.get("client_id"))


def test_the_rate_of_a_client_for_a_topic_is_not_taken_for_that_of_a_quota() -> None:
    """Rules that leave the topic out give a client's metric the name of a broker's."""
    measure = read_metric("kafka_producer_byte_rate", {"client_id": "x", "type": "producer-topic-metrics"}, ORIGIN)
    assert isinstance(measure, Unreadable)
    assert "begin its name with kafka_server" in measure.reason
    for labels in (ALICE, {"client_id": "x", "quota_type": "Produce"}):
        assert isinstance(read_metric("kafka_producer_byte_rate", labels, ORIGIN), Measure)


@pytest.mark.parametrize(
    "name",
    [
        "aiven_kafka_server_Produce_byte_rate",
        "instance:kafka_server_produce_byte_rate",
        "spring_kafka_producer_outgoing_byte_rate",
    ],
)
def test_a_metric_with_a_prefix_is_neither_guessed_nor_lost(name: str) -> None:
    """Such metrics were left out as others; a recording rule may have added up several of them."""
    measure = read_metric(name, X, ORIGIN)
    assert isinstance(measure, Unreadable)
    assert "something before kafka_" in measure.reason
    assert [summary(item) for item in parse_exposition(f'{name}{{client_id="x"}} 1', ORIGIN, 1.0)] == [
        f"line 1: {measure.reason}"
    ]


@pytest.mark.parametrize(
    "name",
    [
        "job:kafka_server_produce_byte_rate:sum",
        "aiven_kafka_server_brokertopicmetrics_bytesin_total",
        "kafka_connect_source_task_metrics_source_record_poll_rate",
    ],
)
def test_what_is_not_of_quotas_is_not_quarantined(name: str) -> None:
    assert read_metric(name, X, ORIGIN) is DropReason.OTHER_METRIC


def test_no_label_that_may_name_somebody_is_a_whole_broker() -> None:
    labels = {"quota_type": "Produce", "client_software_name": "java", "job": "kafka", "label_user": ""}
    assert read_metric("kafka_server_quota_byte_rate", labels, ORIGIN) is DropReason.BROKER_TOTAL


def test_labels_of_other_names_can_be_given() -> None:
    origin = Origin(
        "prod",
        type_labels=("what",),
        user_labels=("label_user",),
        client_id_labels=("app",),
        ip_labels=("from",),
    )
    labels = {"what": "Fetch", "label_user": "alice", "app": "x", "user": "other", "from": "10.0.0.1"}
    measure = read_metric("kafka_server_quota_byte_rate", labels, origin)
    assert isinstance(measure, Measure)
    assert measure.series == series(FETCH, **ALICE, **X, broker=None)
    measure = read_metric("kafka_server_quota_connection_accept_rate", labels, origin)
    assert isinstance(measure, Measure)
    assert measure.series == series(CONNECTION, **IP, broker=None)


@pytest.mark.parametrize(
    ("url", "broker"),
    [
        ("http://b1:8778/jolokia", "b1:8778"),
        ("https://admin:secret@b1:8778/jolokia?x", "b1:8778"),
        ("b1:8778", "b1:8778"),
    ],
)
def test_a_broker_is_never_called_by_what_may_be_secret_in_a_url(url: str, broker: str) -> None:
    assert ORIGIN.broker_of({"jolokiaagenturl": url}) == broker


@pytest.mark.parametrize(
    "name",
    [
        "kafka_server",
        "kafka_server_quota",
        "kafka_server_Produce",
        "kafka_server_quota_byte_rate",
        "kafka_server_quota_Produce_byte_rate:_1_5",
        "kafka_client_throttle_time",
    ],
)
def test_a_prometheus_is_asked_for_each_name_that_is_read(name: str) -> None:
    assert fullmatch(QUERY, name)


def test_a_prometheus_is_not_asked_for_other_metrics() -> None:
    names = ("kafka_server_brokertopicmetrics_bytesin_total", "kafka_servers", "kafka_server_request_queue_size")
    assert not any(fullmatch(QUERY, name) for name in names)
