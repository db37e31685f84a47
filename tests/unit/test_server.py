"""One grammar of HOST:PORT, in quotaform.yaml, client properties and on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quotaform.cluster.client.reader import from_properties
from quotaform.model.errors import InvalidFilesError
from quotaform.model.server import Server, parse_servers
from tests.loading import load_config

GOOD = {
    "b1:9092": Server("b1", 9092),
    "PLAINTEXT://b1:9092": Server("b1", 9092),
    "SASL_SSL://[::1]:9093": Server("::1", 9093),
    "[fe80::1%eth0]:9092": Server("fe80::1%eth0", 9092),
    "[fe80::1%en-0.5_x]:9092": Server("fe80::1%en-0.5_x", 9092),
    "[::ffff:127.0.0.1]:1": Server("::ffff:127.0.0.1", 1),
    "kafka_1.example.:65535": Server("kafka_1.example.", 65535),
    "bücher.example:9092": Server("bücher.example", 9092),
}
BAD = [
    *("host", "host:", "host:x", "host:0", "host:65536", "host:123456", ":9092", "a b:1", "a/b:1", "::1:9092"),
    *("[::1]", "[]:1", "[host]:1", "[fe80::1%]:1", "[fe80::1%a b]:1", "://b1:9092", "a-b://b1:9092", "b1:٩٠٩٢"),
]


def servers_of_files(written: str, folder: Path) -> tuple[str, ...]:
    path = folder / "quotaform.yaml"
    path.write_text(f"clusters: {{lab: {{bootstrap_servers: [{json.dumps(written)}]}}}}\n", encoding="utf-8")
    return tuple(load_config(path).clusters["lab"].bootstrap_servers)


@pytest.mark.parametrize(("written", "server"), GOOD.items(), ids=GOOD)
def test_what_is_a_server_is_one_everywhere(written: str, server: Server, tmp_path: Path) -> None:
    """`[fe80::1%eth0]:9092` passed validate and not plan; `PLAINTEXT://b1:9092` the other way round."""
    assert parse_servers(written) == (server,)
    assert parse_servers(str(server)) == (server,)
    assert parse_servers(servers_of_files(written, tmp_path)) == (server,)
    assert parse_servers(from_properties({"bootstrap.servers": written}).bootstrap_servers) == (server,)


@pytest.mark.parametrize("written", BAD)
def test_what_is_none_is_none_anywhere(written: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not host:port; write for example broker1:9092"):
        parse_servers(written)
    with pytest.raises(InvalidFilesError, match="is not HOST:PORT"):
        servers_of_files(written, tmp_path)
    with pytest.raises(InvalidFilesError, match="is not host:port"):
        from_properties({"bootstrap.servers": written})
