"""The sandbox's smaller parts: places, ports, the probe, properties and certificates."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from quotaform.model.errors import SandboxError, UsageError
from quotaform.sandbox import Sandbox, detached, security
from quotaform.sandbox.cache import cache_directory, locked
from quotaform.sandbox.node import Node, free_ports, new_uuid, node_properties
from quotaform.sandbox.quorum import Answer, probe
from quotaform.sandbox.security import Certificates, make_certificates, render_properties


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {}, "/home/u/.cache/quotaform"),
        ("linux", {"XDG_CACHE_HOME": "/var/c"}, "/var/c/quotaform"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "/home/u/.cache/quotaform"),
        ("darwin", {"XDG_CACHE_HOME": "/var/c"}, "/home/u/Library/Caches/quotaform"),
        ("darwin", {"QUOTAFORM_CACHE": "/own"}, "/own"),
        ("linux", {"QUOTAFORM_CACHE": "~/own", "XDG_CACHE_HOME": "/var/c"}, "/home/u/own"),
    ],
)
def test_the_cache_is_where_the_platform_wants_it(
    monkeypatch: pytest.MonkeyPatch, platform: str, environment: dict[str, str], expected: str
) -> None:
    for name in ("QUOTAFORM_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/u")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.platform", platform)
    assert cache_directory() == Path(expected)


def test_a_lock_that_is_never_freed_is_named(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "x.lock", patience=1),
        pytest.raises(SandboxError, match=r"x\.lock"),
        locked(tmp_path / "x.lock", patience=0.1),
    ):
        pass


def test_free_ports_differ_and_can_be_bound() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.socket() as server:
            server.bind(("127.0.0.1", port))


def serve_once(response: bytes) -> int:
    """Answer one request with `response` on a port of its own."""
    server = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with server, server.accept()[0] as connection:
            connection.recv(1000)
            connection.sendall(response)

    threading.Thread(target=answer, daemon=True).start()
    return int(server.getsockname()[1])


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


GOOD = b"\0\0\0\1\0\0\0\0\0\0\0\0\x03ab\0\0\0\1\x04"


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (framed(GOOD), Answer("ab", 3)),
        (framed(GOOD[:9] + b"\0\x1f" + GOOD[11:]), None),
        (framed(GOOD[:12]), None),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", None),
        (b"", None),
    ],
    ids=["good", "error code", "truncated", "no broker", "closed"],
)
def test_a_probe_understands_a_broker_and_nobody_else(response: bytes, expected: Answer | None) -> None:
    assert probe("127.0.0.1", serve_once(response)) == expected


def test_a_probe_of_a_closed_port_finds_nothing() -> None:
    assert probe("127.0.0.1", free_ports(1)[0]) is None


def test_ids_are_kafka_uuids() -> None:
    for _ in range(200):
        assert len(made := new_uuid()) == 22
        assert not made.startswith("-")


def test_a_node_of_three_knows_the_others(tmp_path: Path) -> None:
    nodes = [Node(n, tmp_path / str(n), "id", {"PLAINTEXT": n, "CONTROLLER": 10 + n}) for n in (1, 2, 3)]
    properties = node_properties(nodes[1], nodes, {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"})
    assert properties["controller.quorum.bootstrap.servers"] == "127.0.0.1:11,127.0.0.1:12,127.0.0.1:13"
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:2,CONTROLLER://127.0.0.1:12"
    assert properties["offsets.topic.replication.factor"] == "3"
    assert nodes[1].initial_controller == "2@127.0.0.1:12:id"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("b\\c", "b\\\\c"),
        ("/tmp/é", "/tmp/\\u00e9"),
        ("😀", "\\ud83d\\ude00"),
        ("a b=c:d#e", "a b=c:d#e"),
        ("x\ny", "x\\ny"),
    ],
)
def test_a_properties_file_is_ascii(value: str, written: str) -> None:
    assert render_properties({"a": value}) == f"a={written}\n"


def test_a_missing_openssl_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match="install OpenSSL"):
        make_certificates(tmp_path / "certificates")


def test_client_properties_name_the_user_and_the_files(certificates: Certificates) -> None:
    sasl = security.client_properties("SASL_SSL", certificates, user="plainuser")
    assert sasl.splitlines() == [
        "security.protocol=SASL_SSL",
        "sasl.mechanism=PLAIN",
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="plainuser" password="plain-secret";',
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={certificates.authority}",
    ]
    tls = security.client_properties("MTLS", certificates, certificate="tenant")
    assert f"ssl.keystore.location={certificates.client('tenant').keystore}" in tls
    assert security.client_properties("PLAINTEXT", None) == "security.protocol=PLAINTEXT\n"
    wrong = security.client_properties("SASL_PLAINTEXT", certificates, user="admin", password="wrong")
    assert 'password="wrong"' in wrong
    with pytest.raises(UsageError, match="does not know the user eve"):
        security.client_properties("SASL_SSL", certificates, user="eve")
    with pytest.raises(UsageError, match="no client certificate eve, only quota-admin, tenant"):
        security.client_properties("MTLS", certificates, certificate="eve")


def test_a_sandbox_has_at_least_one_broker() -> None:
    with pytest.raises(UsageError, match="at least 1 broker, not 0"):
        Sandbox(brokers=0)


def test_a_torn_state_file_is_no_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUOTAFORM_CACHE", str(tmp_path))
    (tmp_path / "sandboxes").mkdir()
    (tmp_path / "sandboxes" / "x.json").write_text('{"name": "x", "pi')
    assert detached.find("x") is None
    assert detached.find("y") is None
    assert not detached.stop("x")
