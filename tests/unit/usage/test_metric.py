"""Names and labels of metrics, as exporters and their rules write them."""

from __future__ import annotations

from typing import Any

import pytest

from quotaform.core.usage.metric.metric import LONGEST_NAME, Measure, read_metric, read_object_name
from quotaform.core.usage.metric.origin import Origin
from quotaform.core.usage.sample.sample import DropReason, Unreadable
from quotaform.core.usage.sample.series import Attribute, Series

from .recorded import ORIGIN, series

THROTTLE = Attribute.THROTTLE_TIME
AX: dict[str, Any] = {"user": "alice", "client_id": "x"}


def read(name: str, labels: dict[str, str], origin: Origin = ORIGIN) -> Series:
    measure = read_metric(name, labels, origin)
    assert isinstance(measure, Measure), measure
    return measure.series


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("kafka_server_quota_byte_rate", {"quota_type": "Produce", **AX}, series(**AX)),
        ("kafka_server_quota_byte_rate", {"quota_type": "produce", **AX}, series(**AX)),
        ("kafka_server_quota_byte_rate", {"type": "Fetch", **AX}, series("consumer_byte_rate", **AX)),
        ("kafka_server_quota_byte_rate", {"resource": "Produce", "user": "alice", "clientId": "x"}, series(**AX)),
        ("kafka_server_quota_byte_rate", {"resource": "Produce, user=alice", "clientId": "x"}, series(**AX)),
        ("kafka_server_quota_byte_rate", {"resource": "Produce", "user": "alice, client-id=x"}, series(**AX)),
        ("kafka_server_produce_byte_rate", AX, series(**AX)),
        ("kafka_server_Produce_byte_rate", {"client_id": "x", "user": "alice"}, series(**AX)),
        ("kafka_server_Produce_byte_rate", {"client-id": "x", "user": "alice"}, series(**AX)),
        ("kafka_server_quota_Produce_byte_rate", {"user": "alice", "client": "x"}, series(**AX)),
        ("kafka_quota_byte_rate", {"quotaType": "Produce", "clientid": "x", "principal": "User:alice"}, series(**AX)),
        ("kafka_server_Fetch_byte_rate", {"user": "alice"}, series("consumer_byte_rate", user="alice")),
        ("kafka_server_quota_byte_rate", {"quota_type": "Fetch", "client_id": "x", "user": ""},
         series("consumer_byte_rate", client_id="x")),
        ("kafka_server_quota_request_time", {"quota_type": "Request", **AX}, series("request_percentage", **AX)),
        ("kafka_server_request_request_time", AX, series("request_percentage", **AX)),
        ("kafka_server_quota_request_time", AX, series("request_percentage", **AX)),
        ("kafka_server_quota_throttle_time", {"resource": "Request", **AX},
         series("request_percentage", **AX, attribute=THROTTLE)),
        ("kafka_server_quota_throttle_time_ms", {"quota_type": "Produce", **AX}, series(**AX, attribute=THROTTLE)),
        ("kafka_server_produce_throttle_time", AX, series(**AX, attribute=THROTTLE)),
        ("kafka_server_quota_mutation_rate", {"user": "alice"}, series("controller_mutation_rate", user="alice")),
        ("kafka_server_ControllerMutation_mutation_rate", {"user": "alice"},
         series("controller_mutation_rate", user="alice")),
        ("kafka_server_controllermutation_throttle_time", {"user": "alice"},
         series("controller_mutation_rate", user="alice", attribute=THROTTLE)),
        ("kafka_server_quota_connection_accept_rate", {"ip": "10.0.0.1"},
         series("connection_creation_rate", ip="10.0.0.1")),
        ("kafka_server_socket_server_metrics_connection_accept_rate", {"ip": '"0:0:0:0:0:0:0:1"'},
         series("connection_creation_rate", ip="::1")),
    ],
)  # fmt: skip
def test_a_bucket_is_known_by_the_names_that_common_rules_make(
    name: str, labels: dict[str, str], expected: Series
) -> None:
    assert read(name, labels) == expected


@pytest.mark.parametrize(
    ("label", "user"),
    [
        ("CN%3Dtenant%20a%2CO%3DTenants", "CN=tenant a,O=Tenants"),
        ("%2A", "*"),
        ("%3Cdefault%3E", "<default>"),
        ("<default>", "<default>"),
        ("100%25", "100%"),
        ("a%2525", "a%25"),
        ("CN=a, O=b", "CN=a, O=b"),
    ],
)
def test_a_user_is_percent_decoded_as_kafka_encodes_it(label: str, user: str) -> None:
    assert read("kafka_server_Produce_byte_rate", {"user": label}).user == user


@pytest.mark.parametrize(
    ("label", "client_id"),
    [
        ("%2A", "%2A"),
        ('"a:b"', "a:b"),
        (r'"a\"b\\c\*\?\nd"', 'a"b\\c*?\nd'),
        ("a:b", "a:b"),
        ('"', '"'),
        ('"<default>"', "<default>"),
        (r'"\"x\""', '"x"'),
    ],
)
def test_a_client_id_loses_the_quotes_of_jmx_and_nothing_else(label: str, client_id: str) -> None:
    assert read("kafka_server_Fetch_byte_rate", {"client_id": label}).client_id == client_id


def test_a_client_id_with_the_separator_of_a_greedy_rule_is_put_together_again() -> None:
    labels = {"resource": 'Fetch, user=alice, client-id="a', "clientId": 'b"'}
    assert read("kafka_server_quota_byte_rate", labels).client_id == "a, client-id=b"


@pytest.mark.parametrize(
    ("name", "factor"),
    [("throttle_time", 1.0), ("throttle_time_ms", 1.0), ("throttle_time_seconds", 1000.0)],
)
def test_a_throttle_time_is_in_milliseconds(name: str, factor: float) -> None:
    measure = read_metric(f"kafka_server_produce_{name}", AX, ORIGIN)
    assert isinstance(measure, Measure)
    assert measure.factor == factor


@pytest.mark.parametrize(
    ("name", "labels", "reason"),
    [
        ("jvm_threads_current", {}, DropReason.OTHER_METRIC),
        ("kafka_server_brokertopicmetrics_bytesin_total", {"topic": "t"}, DropReason.OTHER_METRIC),
        ("kafka_server_quota_byte_rate", {"resource": "replica-fetcher-metrics, broker-id=1"}, DropReason.OTHER_METRIC),
        ("kafka_server_quota_byte_rate", {"quota_type": "LeaderReplication"}, DropReason.OTHER_METRIC),
        ("kafka_server_quota_tokens", {"quota_type": "ControllerMutation", **AX}, DropReason.OTHER_ATTRIBUTE),
        ("kafka_server_quota_queue_size", {"quota_type": "Produce"}, DropReason.OTHER_ATTRIBUTE),
        ("kafka_server_quota_exempt_request_time", {"quota_type": "Request"}, DropReason.OTHER_ATTRIBUTE),
        ("kafka_server_quota_byte_rate", {"quota_type": "Produce"}, DropReason.BROKER_TOTAL),
        ("kafka_server_quota_connection_accept_rate", {"listener": "PLAINTEXT"}, DropReason.BROKER_TOTAL),
    ],
)
def test_what_is_not_for_the_table_is_dropped_by_reason(name: str, labels: dict[str, str], reason: DropReason) -> None:
    assert read_metric(name, labels, ORIGIN) is reason


@pytest.mark.parametrize(
    ("name", "labels", "remedy"),
    [
        ("kafka_server_Produce_user_alice_client_id_x_byte_rate", {}, "rules that keep labels"),
        ("kafka_server_quota_byte_rate", AX, "label quota_type"),
        ("kafka_server_quota_connection_accept_rate", {"ip": "some-host"}, "is not an IP address"),
        ("kafka_server_Produce_byte_rate", {"client_id": "a\udcff"}, "not UTF-8"),
    ],
)
def test_a_metric_of_a_quota_that_cannot_be_told_says_what_to_do(
    name: str, labels: dict[str, str], remedy: str
) -> None:
    measure = read_metric(name, labels, ORIGIN)
    assert isinstance(measure, Unreadable)
    assert remedy in measure.reason


@pytest.mark.parametrize(
    ("labels", "cluster", "broker"),
    [
        ({}, "prod", "1"),
        ({"cluster": "c", "broker": "b"}, "c", "b"),
        ({"kafka_cluster": "c", "instance": "b:7071"}, "c", "b:7071"),
        ({"strimzi_io_cluster": "c", "kubernetes_pod_name": "c-0", "instance": "10.0.0.7:9404"}, "c", "c-0"),
        ({"cluster": "k8s", "strimzi_io_cluster": "c", "broker": "b"}, "c", "b"),
        ({"clusterName": "c", "brokerId": "2", "instance": "x"}, "c", "2"),
        ({"cluster": "", "instance": ""}, "prod", "1"),
    ],
)  # fmt: skip
def test_labels_say_the_cluster_and_the_broker(labels: dict[str, str], cluster: str, broker: str) -> None:
    assert read("kafka_server_Produce_byte_rate", {**AX, **labels})[:2] == (cluster, broker)


def test_a_user_is_no_longer_than_a_string_of_kafka() -> None:
    measure = read_metric("kafka_server_Produce_byte_rate", {"user": "a" * (LONGEST_NAME + 1)}, ORIGIN)
    assert isinstance(measure, Unreadable)
    assert "longer than 32,767 characters" in measure.reason


def test_a_metric_with_a_name_without_end_is_another_metric() -> None:
    assert read_metric(f"kafka_server_Produce_user_{'a' * 100_000}_byte_rate", {}, ORIGIN) is DropReason.OTHER_METRIC


def test_a_label_with_a_long_name_is_no_other_label() -> None:
    assert read("kafka_server_Produce_byte_rate", {**AX, "a" * 10_000: "b"}) == series(**AX)


def test_the_labels_that_count_can_be_chosen() -> None:
    origin = Origin("prod", None, ("env",), ("rack",))
    labels = {**AX, "env": "test", "cluster": "other", "instance": "b"}
    assert read("kafka_server_Produce_byte_rate", labels, origin)[:2] == ("test", None)


@pytest.mark.parametrize(
    ("name", "attribute", "expected"),
    [
        ("kafka.server:type=Produce,user=alice,client-id=x", "byte-rate", series(**AX)),
        ("kafka.server:client-id=x,type=Produce,user=alice", "throttle-time", series(**AX, attribute=THROTTLE)),
        ('kafka.server:type=Fetch,client-id="a,b=c"', "byte-rate", series("consumer_byte_rate", client_id="a,b=c")),
        ("kafka.server:type=Request,user=%2A", "request-time", series("request_percentage", user="*")),
        ("kafka.server:type=socket-server-metrics,ip=10.0.0.1", "connection-accept-rate",
         series("connection_creation_rate", ip="10.0.0.1")),
        ("kafka.producer:type=producer-metrics,client-id=x", "outgoing-byte-rate", series(client_id="x", broker=None)),
    ],
)  # fmt: skip
def test_an_mbean_is_the_same_as_its_metric(name: str, attribute: str, expected: Series) -> None:
    measure = read_object_name(name, attribute, ORIGIN)
    assert isinstance(measure, Measure)
    assert measure.series == expected


def test_what_is_no_mbean_is_unreadable() -> None:
    assert isinstance(read_object_name("kafka.server", "byte-rate", ORIGIN), Unreadable)
    assert read_object_name("java.lang:type=Threading", "ThreadCount", ORIGIN) is DropReason.OTHER_METRIC


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("org.apache.kafka.producer.outgoing.byte.rate", series(**AX, broker=None, instance="i")),
        ("org.apache.kafka.producer.outgoing.byte.total",
         series(**AX, broker=None, instance="i", attribute=Attribute.TOTAL)),
        ("org.apache.kafka.producer.produce.throttle.time.avg",
         series(**AX, broker=None, instance="i", attribute=THROTTLE)),
        ("org.apache.kafka.consumer.fetch.manager.bytes.consumed.rate",
         series("consumer_byte_rate", **AX, broker=None, instance="i")),
        ("org.apache.kafka.consumer.fetch.manager.fetch.throttle.time.avg",
         series("consumer_byte_rate", **AX, broker=None, instance="i", attribute=THROTTLE)),
    ],
)  # fmt: skip
def test_clients_that_measure_themselves_are_on_no_broker(name: str, expected: Series) -> None:
    assert read(name, {**AX, "client_instance_id": "i", "node_id": "1"}) == expected


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("org.apache.kafka.producer.node.outgoing.byte.rate", AX),
        ("org.apache.kafka.producer.produce.throttle.time.max", AX),
        ("org.apache.kafka.consumer.outgoing.byte.rate", AX),
        ("org.apache.kafka.consumer.fetch.manager.bytes.consumed.rate", {**AX, "topic": "t"}),
    ],
)
def test_parts_of_what_a_client_used_are_not_counted_twice(name: str, labels: dict[str, str]) -> None:
    assert read_metric(name, labels, ORIGIN) is DropReason.OTHER_METRIC
