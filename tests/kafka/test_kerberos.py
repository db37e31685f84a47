"""Kerberos tickets, accepted and refused by a broker; the KDC is a real one, too."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from re import sub

import pytest

from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.model.errors import AuthorizationError
from tests.doors import Doors
from tests.kdc import MODULE, REALM
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka


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


def without_principal(doors: Doors) -> dict[str, str]:
    return {key: value.replace(f"admin@{REALM}", "bob") for key, value in keytab(doors).items()}


def leaver(doors: Doors) -> dict[str, str]:
    given = keytab(doors, "leaver")
    doors.kdc.admin("delprinc -force leaver")
    return given


def of_a_broker_with_another_key(doors: Doors) -> dict[str, str]:
    doors.kdc.add("rabbit/localhost")
    return keytab(doors, sasl_kerberos_service_name="rabbit")


@pytest.mark.parametrize(
    ("way", "host"),
    [(keytab, "localhost"), (own_cache, "localhost"), (keytab, "127.0.0.1")],
    ids=["keytab", "cache", "an address, which stands for its name as in Java"],
)
def test_a_ticket_leads_in_and_the_environment_stays(
    doors: Doors, way: Callable[[Doors], dict[str, str]], host: str
) -> None:
    before = dict(os.environ)
    with doors.open(way(doors), doors.kafka.bootstrap_servers.replace("127.0.0.1", host)) as gateway:
        assert gateway.describe() == {}
    assert dict(os.environ) == before
    assert not (doors.kdc.folder / "none").exists()


def test_the_cache_of_the_process_is_used_when_none_is_named(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", str(doors.kdc.ticket("admin", doors.kdc.add("admin"))))
    with doors.open(properties("useTicketCache=true")) as gateway:
        assert gateway.describe() == {}


def test_a_keytab_helps_where_the_ticket_of_the_cache_has_expired(doors: Doors) -> None:
    expired = doors.files["ticket, expired"]
    given = keytab(doors, "late", f'useTicketCache=true ticketCache="{expired}"')
    with doors.open(given) as gateway, pytest.raises(AuthorizationError):
        gateway.describe()


def test_threads_with_keytabs_of_their_own_do_not_meet(doors: Doors) -> None:
    keytabs = {name: keytab(doors, name) for name in ("admin", "tenant")}

    def may_read(given: dict[str, str]) -> bool:
        with doors.open(given) as gateway, suppress(AuthorizationError):
            return gateway.describe() == {}
        return False

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(may_read, keytabs.values())) == [True, False]


def test_a_session_is_renewed_on_its_connection(doors: Doors) -> None:
    with doors.open(keytab(doors)) as gateway:
        connection = gateway.connection
        assert isinstance(connection, ClusterConnection)
        first = connection.broker
        assert first is not None
        wait_until(lambda: first.must_authenticate)
        assert gateway.describe() == {}
        assert connection.broker is first
        assert not first.must_authenticate


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            lambda doors: properties("useTicketCache=true"),
            "the ticket cache has no ticket; run kinit, or use a keytab (useKeyTab=true).",
        ),
        (
            lambda doors: own_cache(doors, 'principal="bob"'),
            "the ticket cache has no ticket of principal bob; run kinit, or use a keytab (useKeyTab=true).",
        ),
        (
            lambda doors: keytab(doors, sasl_kerberos_service_name="nothing"),
            "the KDC does not know the service nothing/localhost; check sasl.kerberos.service.name",
        ),
        (without_principal, "the keytab has no key of principal bob; check keyTab and principal (klist -k FILE)."),
        (
            leaver,
            f"Kerberos gave no ticket for the service kafka/localhost (Client 'leaver@{REALM}' not found in"
            " Kerberos database); check krb5.conf and principal.",
        ),
        (of_a_broker_with_another_key, f"principal admin@{REALM} (GSSAPI)"),
    ],
    ids=["no ticket", "ticket of somebody else", "unknown service", "keytab without it", "leaver", "another key"],
)
def test_what_is_refused_says_what_to_do(doors: Doors, given: Callable[[Doors], dict[str, str]], said: str) -> None:
    assert said in doors.refusal(given(doors))


@pytest.mark.parametrize(
    ("changes", "address", "said"),
    [
        # Another way to write 127.0.0.1, for which DNS has localhost; what DNS has does not count, as in Java.
        ({"rdns = false": "rdns = true", "hostname = false": "hostname = true"}, "127.1", "service kafka/127.1; "),
        (
            {r"kdc = \S+": "kdc = 127.0.0.1:1"},
            "localhost",
            f"no KDC can be reached for principal admin@{REALM}",
        ),
    ],
)
def test_what_krb5_conf_leads_to(
    doors: Doors, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], address: str, said: str
) -> None:
    text = doors.kdc.krb5_conf.read_text()
    for old, new in changes.items():
        text = sub(old, new, text)
    path = doors.kdc.folder / "changed.conf"
    path.write_text(text)
    monkeypatch.setenv("KRB5_CONFIG", str(path))
    assert said in doors.refusal(keytab(doors), doors.kafka.bootstrap_servers.replace("127.0.0.1", address))
