"""Kerberos tickets, accepted and refused by a broker; the KDC is a real one, too."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from quotaform.cluster.client.reader import from_properties
from quotaform.cluster.kafka import KafkaGateway
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.model.errors import AuthenticationError, AuthorizationError
from tests.doors import Doors
from tests.kdc import MODULE, REALM
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka

KINIT: Final = "run kinit, or use a keytab (useKeyTab=true)"


def properties(options: str, **more: str) -> dict[str, str]:
    given = {name.replace("_", "."): value for name, value in more.items()}
    return {"sasl.jaas.config": f"{MODULE} required {options};", "sasl.kerberos.service.name": "kafka"} | given


def keytab(doors: Doors, principal: str = "admin", more: str = "", **given: str) -> dict[str, str]:
    line = f'useKeyTab=true storeKey=true keyTab="{doors.kdc.add(principal)}" principal="{principal}@{REALM}"'
    return properties(f"{line} {more}".strip(), **given)


def cached(path: Path, more: str = "") -> dict[str, str]:
    return properties(f'useTicketCache=true ticketCache="{path}" {more}'.strip())


def own_cache(doors: Doors, more: str = "") -> dict[str, str]:
    return cached(doors.kdc.ticket("admin", doors.kdc.add("admin")), more)


class TestTickets:
    @pytest.mark.parametrize("way", [keytab, own_cache])
    def test_a_ticket_leads_in_and_the_environment_stays(
        self, doors: Doors, way: Callable[[Doors], dict[str, str]]
    ) -> None:
        before = dict(os.environ)
        with doors.open(way(doors)) as gateway:
            assert gateway.describe() == {}
        assert dict(os.environ) == before
        assert not (doors.kdc.folder / "none").exists()

    def test_the_cache_of_the_process_is_used_when_none_is_named(
        self, doors: Doors, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KRB5CCNAME", str(doors.kdc.ticket("admin", doors.kdc.add("admin"))))
        with doors.open(properties("useTicketCache=true")) as gateway:
            assert gateway.describe() == {}

    def test_a_keytab_helps_where_the_ticket_of_the_cache_has_expired(self, doors: Doors) -> None:
        expired = doors.files["ticket, expired"]
        given = keytab(doors, "late", f'useTicketCache=true ticketCache="{expired}"')
        with doors.open(given) as gateway, pytest.raises(AuthorizationError):
            gateway.describe()
        assert "has expired" in doors.refusal(cached(expired))

    def test_threads_with_keytabs_of_their_own_do_not_meet(self, doors: Doors) -> None:
        rights: dict[str, bool] = {}

        def ask(principal: str, given: dict[str, str]) -> None:
            with doors.open(given) as gateway:
                try:
                    rights[principal] = gateway.describe() == {}
                except AuthorizationError:
                    rights[principal] = False

        keytabs = {name: keytab(doors, name) for name in ("admin", "tenant")}
        threads = [threading.Thread(target=ask, args=item) for item in keytabs.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert rights == {"admin": True, "tenant": False}

    def test_a_session_is_renewed_on_its_connection(self, doors: Doors) -> None:
        with doors.open(keytab(doors)) as gateway:
            connection = gateway.connection
            assert isinstance(connection, ClusterConnection)
            first = connection.broker
            assert first is not None
            wait_until(lambda: first.must_authenticate)
            assert gateway.describe() == {}
            assert connection.broker is first
            assert not first.must_authenticate

    def test_an_address_stands_for_its_name_as_in_java(self, doors: Doors) -> None:
        with doors.open(keytab(doors), doors.kafka.bootstrap_servers) as gateway:
            assert gateway.describe() == {}


class TestRefusals:
    def test_no_ticket(self, doors: Doors) -> None:
        assert doors.refusal(properties("useTicketCache=true")) == f"the ticket cache has no ticket; {KINIT}."

    def test_a_ticket_of_somebody_else(self, doors: Doors) -> None:
        answer = doors.refusal(own_cache(doors, 'principal="bob"'))
        assert answer == f"the ticket cache has no ticket of principal bob; {KINIT}."

    def test_a_service_that_the_kdc_does_not_know(self, doors: Doors) -> None:
        answer = doors.refusal(keytab(doors, sasl_kerberos_service_name="rabbit"))
        assert answer.startswith("the KDC does not know the service rabbit/localhost; check sasl.kerberos.service.name")

    def test_a_name_that_dns_has_instead_does_not_count_as_in_java(
        self, doors: Doors, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        canonical = doors.kdc.folder / "canonical.conf"
        text = doors.kdc.krb5_conf.read_text().replace("rdns = false", "rdns = true")
        canonical.write_text(text.replace("hostname = false", "hostname = true"))
        monkeypatch.setenv("KRB5_CONFIG", str(canonical))
        # Another way to write 127.0.0.1, for which DNS has localhost.
        answer = doors.refusal(keytab(doors), doors.kafka.bootstrap_servers.replace("127.0.0.1", "127.1"))
        assert answer.startswith("the KDC does not know the service kafka/127.1; ")

    def test_a_keytab_without_the_principal(self, doors: Doors) -> None:
        given = {key: value.replace(f"admin@{REALM}", "bob") for key, value in keytab(doors).items()}
        answer = "the keytab has no key of principal bob; check keyTab and principal (klist -k FILE)."
        assert doors.refusal(given) == answer

    def test_a_principal_that_is_gone(self, doors: Doors) -> None:
        given = keytab(doors, "leaver")
        doors.kdc.remove("leaver")
        assert doors.refusal(given) == (
            "Kerberos gave no ticket for the service kafka/localhost (Client 'leaver@QUOTAFORM.TEST' not found in"
            " Kerberos database); check krb5.conf and principal."
        )

    def test_a_kdc_that_is_away(self, doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
        elsewhere = doors.kdc.folder / "elsewhere.conf"
        elsewhere.write_text(doors.kdc.krb5_conf.read_text().replace(f":{doors.kdc.port}", ":1"))
        monkeypatch.setenv("KRB5_CONFIG", str(elsewhere))
        assert doors.refusal(keytab(doors)).startswith(f"no KDC can be reached for principal admin@{REALM}; check its")

    def test_a_broker_with_another_key_than_the_kdc(self, doors: Doors) -> None:
        doors.kdc.add("rabbit/localhost")
        answer = doors.refusal(keytab(doors, sasl_kerberos_service_name="rabbit"))
        assert f"principal admin@{REALM} (GSSAPI)" in answer

    def test_what_comes_from_a_variable_is_not_shown(self, doors: Doors) -> None:
        line = keytab(doors)["sasl.jaas.config"].replace(f"admin@{REALM}", "${env:QUOTAFORM_WHO}")
        given = keytab(doors) | {"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": line}
        config = from_properties(given, environ={"QUOTAFORM_WHO": "hunter2@NOWHERE", "QUOTAFORM_ENV": "QUOTAFORM_WHO"})
        with pytest.raises(AuthenticationError) as caught:
            KafkaGateway.connect(doors.address("SASL_PLAINTEXT"), config, name="prod")
        assert "the keytab has no key of the principal of sasl.jaas.config" in str(caught.value)
        assert "hunter2" not in str(caught.value)
