"""Bootstrap servers by the names of their addresses, as `client.dns.lookup` asks for."""

from __future__ import annotations

from collections.abc import Callable
from socket import gaierror, socket
from threading import Event
from time import monotonic
from typing import Any

import pytest

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.client.reader import from_properties
from quotaform.cluster.kafka import KafkaGateway
from quotaform.cluster.wire.broker_connection import BrokerConnection, canonical_servers
from quotaform.cluster.wire.failure import AttemptError
from quotaform.model.errors import ConnectError
from quotaform.model.server import ALLOWED_HOSTS, Server

CANONICAL = {"client.dns.lookup": "resolve_canonical_bootstrap_servers_only"}
ADDRESSES = {
    "kafka.example": ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"],
    "b1.example": ["192.0.2.1"],
    "b2.example": ["192.0.2.9", "192.0.2.2"],
    "stranger.example": ["192.0.2.9"],
}
NAMES = {"192.0.2.1": "b1.example", "192.0.2.2": "b2.example", "192.0.2.3": "stranger.example"}


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(known: dict[str, Any], key: str) -> Any:
        if key not in known:
            raise gaierror("unknown")
        return known[key]

    def addresses(host: str, port: int, *_: object, **__: object) -> list[Any]:
        return [(2, 1, 6, "", (address, port)) for address in find(ADDRESSES, host)]

    name: Callable[..., tuple[str, str]] = lambda address, _: (find(NAMES, address[0]), "")  # noqa: E731
    monkeypatch.setattr("quotaform.cluster.wire.broker_connection.socket.getaddrinfo", addresses)
    monkeypatch.setattr("quotaform.cluster.wire.broker_connection.socket.getnameinfo", name)


def canonical(server: Server) -> list[Server]:
    return canonical_servers(server, monotonic() + 60, Event())


def test_each_address_has_its_own_name_if_that_leads_back_to_it() -> None:
    assert [str(server) for server in canonical(Server("kafka.example", 9093))] == [
        "b1.example:9093",
        "b2.example:9093",
        "192.0.2.3:9093",
        "192.0.2.4:9093",
    ]


def test_a_name_without_an_address_stays_and_connecting_tells() -> None:
    with pytest.raises(ConnectError, match=r"the host name nowhere\.example of nowhere\.example:1 cannot be resolved"):
        KafkaGateway.connect("nowhere.example:1", from_properties(CANONICAL), name="lab")


def test_a_hidden_address_stays_hidden() -> None:
    servers = canonical(Server("kafka.example", 9093, "${env:QUOTAFORM_HOST}"))
    assert [server.host for server in servers][:2] == ["b1.example", "b2.example"]
    assert {str(server) for server in servers} == {"${env:QUOTAFORM_HOST}"}


def test_names_that_are_not_listed_are_neither_looked_up_nor_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED_HOSTS, "other.example")
    assert canonical(Server("kafka.example", 9093)) == [Server("kafka.example", 9093)]
    monkeypatch.setenv(ALLOWED_HOSTS, "kafka.example")
    with pytest.raises(ConnectError, match=f"b1.example:9093 is not listed in {ALLOWED_HOSTS}"):
        KafkaGateway.connect("kafka.example:9093", from_properties(CANONICAL), name="lab")


def test_by_default_servers_are_connected_to_by_the_names_that_were_given() -> None:
    assert not from_properties({}).canonical_names
    assert not from_properties({"client.dns.lookup": "use_all_dns_ips"}).canonical_names
    assert from_properties(CANONICAL).canonical_names


def test_closing_ends_with_the_address_that_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next addresses of the host were tried all the same, each for its share of the time."""
    closing, tried = Event(), list[str]()

    class Closed(socket):
        def connect(self, address: Any) -> None:
            tried.append(address[0])
            closing.set()
            raise OSError

    monkeypatch.setattr("quotaform.cluster.wire.broker_connection.socket.socket", Closed)
    connection = BrokerConnection(Server("kafka.example", 1), ClientConfig(), ssl_context=None, closing=closing)
    with pytest.raises(AttemptError, match="it was closed"):
        connection.open(monotonic() + 60)
    assert tried == ["192.0.2.1"]
