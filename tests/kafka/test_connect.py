"""Connecting to a broker with SASL, TLS and an authorizer: every way in, one sentence per way that is barred."""

from __future__ import annotations

import logging
from time import monotonic, sleep

import pytest

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.client.config_reader import from_properties
from quotaform.cluster.kafka import KafkaGateway
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.errors import AuthenticationError, AuthorizationError, ClusterError, ConnectError
from quotaform.model.alteration import Alteration, Outcome
from quotaform.model.entity import Entity
from quotaform.sandbox import Sandbox
from quotaform.sandbox.certificate import make_certificates

pytestmark = pytest.mark.kafka

PROBE = [Alteration(Entity(user="probe"), {"producer_byte_rate": None})]


def config(kafka: Sandbox, listener: str, **changes: str | None) -> ClientConfig:
    """Return the sandbox's own properties for a listener, changed; `None` leaves a key out."""
    text = kafka.client_properties(listener)
    properties = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    # `client_properties` writes for a file, where a backslash is doubled; there is none in here.
    assert "\\" not in text
    named: dict[str, str | None] = {key.replace("_", "."): value for key, value in changes.items()}
    return from_properties({key: value for key, value in (properties | named).items() if value is not None}, environ={})


def jaas(user: str, password: str) -> str:
    return f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{user}" password="{password}";'


def failure(address: str, settings: ClientConfig, *, within: float = 9.0) -> ClusterError:
    begin = monotonic()
    with pytest.raises(ClusterError) as caught:
        KafkaGateway.connect(address, settings, name="prod")
    assert monotonic() - begin < within
    assert "secret" not in str(caught.value)
    assert str(caught.value).startswith("Cannot connect to prod: ")
    return caught.value


class TestWaysIn:
    @pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL", "MTLS"])
    def test_a_super_user_reads_and_changes(self, secured_sandbox: Sandbox, listener: str) -> None:
        address = secured_sandbox.listeners[listener]
        with KafkaGateway.connect(address, config(secured_sandbox, listener), name="prod") as gateway:
            assert gateway.cluster_id() == secured_sandbox.cluster_id
            assert gateway.describe() == {}
            gateway.alter(PROBE, validate_only=True).raise_for_errors()

    @pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
    @pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
    def test_every_mechanism_works(self, secured_sandbox: Sandbox, listener: str, mechanism: str) -> None:
        settings = config(secured_sandbox, listener, sasl_mechanism=mechanism)
        with KafkaGateway.connect(secured_sandbox.listeners[listener], settings) as gateway:
            assert gateway.describe() == {}

    def test_a_host_name_of_the_certificate_works_too(self, secured_sandbox: Sandbox) -> None:
        address = secured_sandbox.listeners["SASL_SSL"].replace("127.0.0.1", "localhost")
        with KafkaGateway.connect(address, config(secured_sandbox, "SASL_SSL")) as gateway:
            assert gateway.describe() == {}

    def test_a_name_with_the_signs_that_scram_reserves_works(self, secured_sandbox: Sandbox) -> None:
        name, listener = "CN=a b,O=c", "SASL_PLAINTEXT"
        admin = secured_sandbox.data_dir / "admin.properties"
        admin.write_text(secured_sandbox.client_properties(listener), encoding="utf-8")
        done = secured_sandbox.run_tool(
            "kafka.admin.ConfigCommand",
            *("--bootstrap-server", secured_sandbox.bootstrap_servers, "--command-config", str(admin), "--alter"),
            *("--entity-type", "users", "--entity-name", name, "--add-config", "SCRAM-SHA-512=[password=odd-secret]"),
        )
        assert done.returncode == 0, done.stderr
        settings = config(secured_sandbox, listener, sasl_jaas_config=jaas(name, "odd-secret"))
        with KafkaGateway.connect(secured_sandbox.bootstrap_servers, settings) as gateway:
            assert gateway.cluster_id() == secured_sandbox.cluster_id


class TestRights:
    def test_who_may_not_read_is_told_which_right_is_missing(self, secured_sandbox: Sandbox) -> None:
        settings = config(secured_sandbox, "SASL_PLAINTEXT", sasl_jaas_config=jaas("tenant", "tenant-secret"))
        with KafkaGateway.connect(secured_sandbox.bootstrap_servers, settings, name="prod") as gateway:
            with pytest.raises(AuthorizationError) as caught:
                gateway.describe()
            assert str(caught.value) == (
                "The principal is not authorised to read the client quotas of prod:"
                " grant it DESCRIBE_CONFIGS on the Cluster resource (kafka-cluster)."
            )

    @pytest.mark.parametrize("validate_only", [True, False])
    def test_who_may_not_change_is_told_which_right_is_missing(
        self, secured_sandbox: Sandbox, validate_only: bool
    ) -> None:
        settings = config(secured_sandbox, "SASL_PLAINTEXT", sasl_jaas_config=jaas("tenant", "tenant-secret"))
        asked = [Alteration(Entity(user=name), {"producer_byte_rate": 1.0}) for name in "abc"]
        with KafkaGateway.connect(secured_sandbox.bootstrap_servers, settings) as gateway:
            result = gateway.alter(asked, validate_only=validate_only)
        assert [(row.outcome, row.code) for row in result] == [(Outcome.REFUSED, 31)] * 3
        with pytest.raises(AuthorizationError, match=r"user=a: .* ALTER_CONFIGS on the Cluster .* \(and 2 more\)"):
            result.raise_for_errors()


class TestBarredWays:
    @pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
    @pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
    @pytest.mark.parametrize("user", ["admin", "nobody"])
    def test_wrong_credentials_are_told_for_certain(
        self, secured_sandbox: Sandbox, listener: str, mechanism: str, user: str
    ) -> None:
        settings = config(
            secured_sandbox, listener, sasl_mechanism=mechanism, sasl_jaas_config=jaas(user, "wrong-secret")
        )
        address = secured_sandbox.listeners[listener]
        error = failure(address, settings)
        assert isinstance(error, AuthenticationError)
        assert str(error).endswith(
            f"{address} did not accept user {user} ({mechanism}); check user name and password in sasl.jaas.config."
        )

    def test_wrong_credentials_are_tried_once_and_not_at_every_server(self, secured_sandbox: Sandbox) -> None:
        address = secured_sandbox.listeners["SASL_PLAINTEXT"]
        settings = config(secured_sandbox, "SASL_PLAINTEXT", sasl_jaas_config=jaas("admin", "wrong-secret"))
        error = failure(f"{address},{address.replace('127.0.0.1', 'localhost')}", settings)
        assert "Also tried" not in str(error)

    def test_passwords_are_not_logged_even_at_debug_level(
        self, secured_sandbox: Sandbox, caplog: pytest.LogCaptureFixture
    ) -> None:
        settings = config(secured_sandbox, "SASL_PLAINTEXT", sasl_mechanism="PLAIN")
        with (
            caplog.at_level(logging.DEBUG),
            KafkaGateway.connect(secured_sandbox.bootstrap_servers, settings) as gateway,
        ):
            gateway.describe()
        assert [record for record in caplog.records if record.name.startswith("kafka")] == []

    @pytest.mark.parametrize(
        ("listener", "settings", "kind", "message"),
        [
            ("TLS", ("PLAINTEXT", {}), ConnectError, "speaks TLS but security.protocol is PLAINTEXT; set security.pro"),
            (
                "SASL_SSL",
                ("SASL_PLAINTEXT", {}),
                ConnectError,
                "speaks TLS but security.protocol is SASL_PLAINTEXT",
            ),
            ("PLAINTEXT", ("TLS", {}), ConnectError, "closed the connection during the TLS handshake; listeners with"),
            (
                "SASL_PLAINTEXT",
                ("SASL_SSL", {}),
                ConnectError,
                "closed the connection during the TLS handshake; listeners",
            ),
            (
                "SASL_PLAINTEXT",
                ("PLAINTEXT", {}),
                ConnectError,
                "as listeners that require SASL do",
            ),
            (
                "SASL_SSL",
                ("TLS", {}),
                ConnectError,
                "if it requires SASL, set security.protocol=SASL_SSL",
            ),
            (
                "PLAINTEXT",
                ("SASL_PLAINTEXT", {}),
                AuthenticationError,
                "has no SASL but security.protocol is SASL",
            ),
            (
                "TLS",
                ("SASL_SSL", {}),
                AuthenticationError,
                "has no SASL but security.protocol is SASL_SSL; use",
            ),
            (
                "MTLS",
                ("TLS", {}),
                AuthenticationError,
                "requires a client certificate, but none is configured; give one",
            ),
            (
                "SASL_SSL",
                ("SASL_SSL", {"ssl_truststore_location": None, "ssl_truststore_type": None}),
                ConnectError,
                "is not trusted (self-signed certificate in certificate chain); give the CA",
            ),
        ],
    )
    def test_a_wrong_protocol_or_trust_is_told_with_its_remedy(
        self,
        secured_sandbox: Sandbox,
        listener: str,
        settings: tuple[str, dict[str, str | None]],
        kind: type[ClusterError],
        message: str,
    ) -> None:
        address = secured_sandbox.listeners[listener]
        error = failure(address, config(secured_sandbox, settings[0], **settings[1]))
        assert isinstance(error, kind)
        assert f"{address} " in str(error)
        assert message in str(error)

    def test_a_client_certificate_that_is_not_trusted_is_told(self, secured_sandbox: Sandbox) -> None:
        strangers = make_certificates(secured_sandbox.data_dir / "strangers")
        settings = config(secured_sandbox, "MTLS", ssl_keystore_location=str(strangers.client("quota-admin").keystore))
        error = failure(secured_sandbox.listeners["MTLS"], settings)
        assert isinstance(error, AuthenticationError)
        assert "did not accept the client certificate" in str(error)

    def test_a_mechanism_that_is_not_offered_is_told(self) -> None:
        """And on the same broker, a session that ends is renewed on its connection (KIP-368)."""
        properties = {
            "listener.name.sasl_ssl.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "connections.max.reauth.ms": "2500",
        }
        with Sandbox(secured=True, properties=properties) as kafka:
            self._check_that_a_session_is_renewed(kafka)
            address = kafka.listeners["SASL_SSL"]
            error = failure(address, config(kafka, "SASL_SSL", sasl_mechanism="PLAIN"))
            assert isinstance(error, AuthenticationError)
            assert f"{address} does not offer the SASL mechanism PLAIN; set sasl.mechanism to one of" in str(error)

    @staticmethod
    def _check_that_a_session_is_renewed(kafka: Sandbox) -> None:
        with KafkaGateway.connect(kafka.listeners["SASL_SSL"], config(kafka, "SASL_SSL")) as gateway:
            connection = gateway.connection
            assert isinstance(connection, ClusterConnection)
            first = connection.broker
            end = monotonic() + 4
            while monotonic() < end:
                assert gateway.describe() == {}
                gateway.alter(PROBE, validate_only=True).raise_for_errors()
                sleep(0.2)
            sleep(3)
            assert gateway.describe() == {}, "after the end of the session, too"
            assert connection.broker is first
