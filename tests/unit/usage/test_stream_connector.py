"""What the connector of Spark is told of a client, and what a stream asks the cluster of its topic."""

from __future__ import annotations

from typing import cast

import pytest
from msgspec.structs import replace

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.client.reader import from_properties
from quotaform.cluster.client.tls import Tls
from quotaform.fleet.options import SessionOptions
from quotaform.model.errors import AuthorizationError, ClusterError, ConnectError, EngineError, StreamError
from quotaform.model.server import ALLOWED_HOSTS, Server
from quotaform.model.text import Secret
from quotaform.usage.metric_name import Origin
from quotaform.usage.stream import (
    PACKAGE,
    StreamRequest,
    Topic,
    TopicGateway,
    _require_topic,
    client_options,
    unresolved,
    with_connector,
)


def test_a_client_without_properties_reads_what_is_committed() -> None:
    assert client_options(["b1:9092", "b2:9092"], from_properties({})) == {
        "kafka.bootstrap.servers": "b1:9092,b2:9092",
        "kafka.security.protocol": "PLAINTEXT",
        "kafka.isolation.level": "read_committed",
    }


def test_the_password_of_a_login_is_quoted_as_jaas_needs_it() -> None:
    config = from_properties(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
            r'username="al\"ice" password="p\\w;\"";',
            "client.id": "usage",
        }
    )
    options = client_options(["b1:9092"], config)
    assert options["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        r'username="al\"ice" password="p\\w;\"";'
    )
    assert (options["kafka.sasl.mechanism"], options["kafka.client.id"]) == ("SCRAM-SHA-512", "usage")


def test_key_and_certificates_are_given_apart_as_pem() -> None:
    def section(kind: str, text: str) -> str:
        return f"-----BEGIN {kind}-----\n{text}\n-----END {kind}-----"

    key, own, chain = section("PRIVATE KEY", "k"), section("CERTIFICATE", "c"), section("CERTIFICATE", "d")
    tls = Tls(ca=f"words\n{chain}\n", key_store=Secret(f"{own}\n{key}\nwords\n{chain}"), check_host=False)
    options = client_options(["b1:9093"], ClientConfig(security_protocol="SSL", tls=tls))
    assert {name.removeprefix("kafka.ssl."): value for name, value in options.items() if ".ssl." in name} == {
        "enabled.protocols": "TLSv1.2,TLSv1.3",
        "truststore.type": "PEM",
        "truststore.certificates": chain,
        "keystore.type": "PEM",
        "keystore.key": key,
        "keystore.certificate.chain": f"{own}\n{chain}",
        "endpoint.identification.algorithm": "",
    }


def test_an_address_that_a_variable_holds_is_connected_to_and_not_its_name() -> None:
    server = Server("::1", 9092, "${env:QUOTAFORM_HOST}")
    assert client_options([server], from_properties({}))["kafka.bootstrap.servers"] == "[::1]:9092"


def test_a_server_that_is_not_listed_gets_no_login_from_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the brokers that the cluster names were held to the list, and Spark asks the given servers by itself."""
    monkeypatch.setenv(ALLOWED_HOSTS, "*.kafka.example")
    with pytest.raises(ConnectError, match=f"^old.elsewhere:9092 is not listed in {ALLOWED_HOSTS}, so nothing is sent"):
        client_options(["b1.kafka.example:9092,old.elsewhere:9092"], from_properties({}))
    secret = Server("old.elsewhere", 9092, "${env:QUOTAFORM_HOST}")
    with pytest.raises(ConnectError, match=r"^\$\{env:QUOTAFORM_HOST} is not listed"):
        client_options([secret], from_properties({}))


def test_a_session_gets_the_package_beside_those_that_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quotaform.usage.stream.starts_java", lambda session: True)
    given = SessionOptions(conf={"spark.jars.packages": "a:b:1", "spark.jars.excludes": "c:d"}, master="local[2]")
    assert with_connector(given).conf == {
        "spark.jars.packages": f"a:b:1,{PACKAGE}",
        "spark.jars.excludes": "c:d,org.apache.hadoop:hadoop-client-api,org.apache.hadoop:hadoop-client-runtime",
    }
    assert with_connector(given).master == "local[2]"


@pytest.mark.parametrize("setting", ["spark.jars", "spark.jars.packages"])
def test_a_session_that_brings_the_connector_is_left_alone(setting: str) -> None:
    given = SessionOptions(conf={setting: "x/spark-sql-kafka-0-10_2.13:4.1.0"})
    assert with_connector(given) is given


def test_a_package_that_maven_does_not_have_is_named_with_the_remedy() -> None:
    error = EngineError("Spark did not start: [unresolved dependency: org.apache.spark#spark-sql-kafka-0-10_2.13]")
    assert PACKAGE in str(unresolved(error))
    assert "--spark-conf spark.jars=PATH" in str(unresolved(error))
    other = EngineError("Spark did not start: no memory")
    assert unresolved(other) is other


TOPIC = Topic(name="usage", topic_id="t1", cluster_id="c1")
REQUEST = StreamRequest(
    topic=TOPIC,
    servers=(),
    client=ClientConfig(),
    input_format="otlp",
    origin=Origin(),
    usage="usage",
    quarantine="bad",
    checkpoint="checkpoint",
)


def ask(answer: Topic | ClusterError | None) -> None:
    class Topics:
        def topic(self, _: str) -> Topic | None:
            if isinstance(answer, ClusterError):
                raise answer
            return answer

    _require_topic(cast("TopicGateway", Topics()), REQUEST)


def test_a_topic_that_is_deleted_or_made_anew_while_it_is_read_ends_the_stream() -> None:
    # Records of the new topic were left out, as many as had been read of the one before.
    ask(TOPIC)
    with pytest.raises(StreamError, match=r'the topic "usage" was deleted; records of it'):
        ask(None)
    with pytest.raises(StreamError, match=r'the topic "usage" was deleted and recreated; records of it'):
        ask(replace(TOPIC, topic_id="t2"))


def test_a_broker_that_is_away_for_a_moment_ends_nothing() -> None:
    # A batch that ended while a broker started again ended the stream.
    ask(ClusterError("refused"))
    with pytest.raises(AuthorizationError):
        ask(AuthorizationError("no", remedy="grant it", code=29))


@pytest.mark.parametrize(
    "changes",
    [
        {"topic": replace(TOPIC, name="other")},
        {"topic": replace(TOPIC, topic_id="t2")},
        {"topic": replace(TOPIC, cluster_id="c2")},
        {"input_format": "jmxtool"},
        {"usage": "other"},
        {"quarantine": "other"},
    ],
)
def test_another_stream_has_its_own_progress(changes: dict[str, object]) -> None:
    """Of another topic, table or format, and of a topic that was recreated."""
    assert REQUEST.progress == replace(REQUEST).progress
    assert replace(REQUEST, **changes).progress != REQUEST.progress
