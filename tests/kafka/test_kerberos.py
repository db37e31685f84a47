"""Kerberos tickets, accepted and refused by a broker; the KDC is a real one, too."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final

import pytest

from quotaform.cluster.client.config_reader import from_properties
from quotaform.cluster.kafka import KafkaGateway
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.errors import AuthenticationError, AuthorizationError
from quotaform.sandbox import Sandbox
from tests.doors import Doors
from tests.kdc import MODULE, REALM, Kdc
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka

KINIT: Final = "run kinit, or use a keytab (useKeyTab=true)"


def properties(options: str, **more: str) -> dict[str, str]:
    given = {name.replace("_", "."): value for name, value in more.items()}
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.jaas.config": f"{MODULE} required {options};",
        "sasl.kerberos.service.name": "kafka",
    } | given


class World:
    """A KDC, and a broker that knows it."""

    def __init__(self, kdc: Kdc, kafka: Sandbox, expired: Path) -> None:
        self.kdc = kdc
        self.kafka = kafka
        self.expired = expired
        self.address = kafka.listeners["SASL_PLAINTEXT"].replace("127.0.0.1", "localhost")

    def keytab(self, principal: str = "admin") -> str:
        return f'useKeyTab=true storeKey=true keyTab="{self.kdc.add(principal)}" principal="{principal}@{REALM}"'

    def cache(self, principal: str = "admin") -> str:
        return f'useTicketCache=true ticketCache="{self.kdc.ticket(principal, self.kdc.add(principal))}"'

    def connect(self, options: str, address: str | None = None, **more: str) -> KafkaGateway:
        config = from_properties(properties(options, **more), environ={})
        return KafkaGateway.connect(address or self.address, config, name="prod")

    def failure(self, options: str, address: str | None = None, **more: str) -> str:
        with pytest.raises(AuthenticationError) as caught:
            self.connect(options, address, **more)
        return str(caught.value).removeprefix("Cannot connect to prod: ")


@pytest.fixture
def world(doors: Doors) -> World:
    return World(doors.kdc, doors.kafka, doors.files["ticket, expired"])


class TestTickets:
    @pytest.mark.parametrize("way", [World.keytab, World.cache])
    def test_a_ticket_leads_in_and_the_environment_stays(self, world: World, way: object) -> None:
        assert callable(way)
        before = dict(os.environ)
        with world.connect(way(world)) as gateway:
            assert gateway.describe() == {}
        assert dict(os.environ) == before
        assert not (world.kdc.folder / "none").exists()

    def test_the_cache_of_the_process_is_used_when_none_is_named(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KRB5CCNAME", str(world.kdc.ticket("admin", world.kdc.add("admin"))))
        with world.connect("useTicketCache=true") as gateway:
            assert gateway.describe() == {}

    def test_a_keytab_helps_where_the_ticket_of_the_cache_has_expired(self, world: World) -> None:
        options = f'{world.keytab("late")} useTicketCache=true ticketCache="{world.expired}"'
        with world.connect(options) as gateway, pytest.raises(AuthorizationError):
            gateway.describe()
        assert "has expired" in world.failure(f'useTicketCache=true ticketCache="{world.expired}"')

    def test_threads_with_keytabs_of_their_own_do_not_meet(self, world: World) -> None:
        rights: dict[str, bool] = {}

        def ask(principal: str, options: str) -> None:
            with world.connect(options) as gateway:
                try:
                    rights[principal] = gateway.describe() == {}
                except AuthorizationError:
                    rights[principal] = False

        keytabs = {name: world.keytab(name) for name in ("admin", "tenant")}
        threads = [threading.Thread(target=ask, args=item) for item in keytabs.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert rights == {"admin": True, "tenant": False}

    def test_a_session_is_renewed_on_its_connection(self, world: World) -> None:
        with world.connect(world.keytab()) as gateway:
            connection = gateway.connection
            assert isinstance(connection, ClusterConnection)
            first = connection.broker
            assert first is not None
            wait_until(lambda: first.must_authenticate)
            assert gateway.describe() == {}
            assert connection.broker is first
            assert not first.must_authenticate

    def test_an_address_stands_for_its_name_as_in_java(self, world: World) -> None:
        with world.connect(world.keytab(), world.kafka.bootstrap_servers) as gateway:
            assert gateway.describe() == {}


class TestRefusals:
    def test_no_ticket(self, world: World) -> None:
        assert world.failure("useTicketCache=true") == f"the ticket cache has no ticket; {KINIT}."

    def test_a_ticket_of_somebody_else(self, world: World) -> None:
        answer = world.failure(f'{world.cache()} principal="bob"')
        assert answer == f"the ticket cache has no ticket of principal bob; {KINIT}."

    def test_an_expired_ticket(self, world: World) -> None:
        answer = world.failure(f'useTicketCache=true ticketCache="{world.expired}"')
        assert answer == f"the Kerberos ticket of the ticket cache has expired; {KINIT}."
        answer = world.failure(f'useTicketCache=true ticketCache="{world.expired}" principal="late"')
        assert answer == f"the Kerberos ticket of principal late has expired; {KINIT}."

    def test_a_service_that_the_kdc_does_not_know(self, world: World) -> None:
        answer = world.failure(world.keytab(), sasl_kerberos_service_name="rabbit")
        assert answer.startswith("the KDC does not know the service rabbit/localhost; check sasl.kerberos.service.name")

    def test_a_name_that_dns_has_instead_does_not_count_as_in_java(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        canonical = world.kdc.folder / "canonical.conf"
        text = world.kdc.krb5_conf.read_text().replace("rdns = false", "rdns = true")
        canonical.write_text(text.replace("hostname = false", "hostname = true"))
        monkeypatch.setenv("KRB5_CONFIG", str(canonical))
        # Another way to write 127.0.0.1, for which DNS has localhost.
        answer = world.failure(world.keytab(), world.kafka.bootstrap_servers.replace("127.0.0.1", "127.1"))
        assert answer.startswith("the KDC does not know the service kafka/127.1; ")

    def test_a_keytab_without_the_principal(self, world: World) -> None:
        options = world.keytab().replace(f"admin@{REALM}", "bob")
        answer = "the keytab has no key of principal bob; check keyTab and principal (klist -k FILE)."
        assert world.failure(options) == answer

    def test_a_principal_that_is_gone(self, world: World) -> None:
        options = world.keytab("leaver")
        world.kdc.remove("leaver")
        assert world.failure(options) == (
            "Kerberos gave no ticket for the service kafka/localhost (Client 'leaver@QUOTAFORM.TEST' not found in"
            " Kerberos database); check krb5.conf and principal."
        )

    def test_a_kdc_that_is_away(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        elsewhere = world.kdc.folder / "elsewhere.conf"
        elsewhere.write_text(world.kdc.krb5_conf.read_text().replace(f":{world.kdc.port}", ":1"))
        monkeypatch.setenv("KRB5_CONFIG", str(elsewhere))
        assert world.failure(world.keytab()).startswith(f"no KDC can be reached for principal admin@{REALM}; check its")

    def test_a_broker_with_another_key_than_the_kdc(self, world: World) -> None:
        world.kdc.add("rabbit/localhost")
        answer = world.failure(world.keytab(), sasl_kerberos_service_name="rabbit")
        assert f"principal admin@{REALM} (GSSAPI)" in answer

    def test_what_comes_from_a_variable_is_not_shown(self, world: World) -> None:
        line = properties(world.keytab().replace(f"admin@{REALM}", "${env:QUOTAFORM_WHO}"))
        config = from_properties(line, environ={"QUOTAFORM_WHO": "hunter2@NOWHERE", "QUOTAFORM_ENV": "QUOTAFORM_WHO"})
        with pytest.raises(AuthenticationError) as caught:
            KafkaGateway.connect(world.address, config, name="prod")
        assert "the keytab has no key of the principal of sasl.jaas.config" in str(caught.value)
        assert "hunter2" not in str(caught.value)
