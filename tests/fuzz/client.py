"""Fuzzed: client properties, JAAS lines and bootstrap servers."""

from __future__ import annotations

from atexit import register
from os import getpid
from pathlib import Path
from tempfile import gettempdir
from typing import Final

from quotaform.cluster.client.reader import load_client_config
from quotaform.cluster.sasl.jaas import parse_jaas, render_jaas
from quotaform.model.errors import InvalidFilesError
from quotaform.model.server import parse_server, parse_servers
from tests.fuzz.target import CANARY, Target

_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_JAAS: Final = (
    f'{_LOGIN} username="alice" password="{CANARY}";',
    f'{_LOGIN} username=\'alice\' password="{CANARY}\\"\\101" tokenauth=false;',
    f'// a comment\n{_LOGIN}\n username="CN=a b" /* two */ password={CANARY} ;',
)
_PROPERTIES: Final = (
    f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={_LOGIN} \\\n"
    '  username="alice" \\\n'
    f'  password="{CANARY}";\nssl.enabled.protocols=TLSv1.3,TLSv1.2\n',
    f"# comment\n! another\nsecurity.protocol : SASL_PLAINTEXT\nsasl.mechanism PLAIN\nsasl.jaas.config={_JAAS[0]}\n"
    "client.id = a\\u0062c\nrequest.timeout.ms=5000\ndefault.api.timeout.ms=60000\n"
    "bootstrap.servers=b1:9092,[::1]:9093\n",
    "security.protocol=PLAINTEXT\nclient.id=${env:QUOTAFORM_X}\nmetadata.max.age.ms=1\nretries=3\n",
)
_INCOMPLETE_PROPERTIES: Final = (
    f"security.protocol=SSL\nssl.key.password={CANARY}\nssl.keystore.type=PEM\n"
    f"ssl.keystore.key=-----BEGIN PRIVATE KEY----- {CANARY} -----END PRIVATE KEY-----\n"
    "ssl.keystore.certificate.chain=-----BEGIN CERTIFICATE----- x -----END CERTIFICATE-----\n"
    "ssl.truststore.location=ca.pem\nssl.endpoint.identification.algorithm=\n"
)
"""Without the type of the trust store, and without the file."""
_SERVERS: Final = ("b1:9092", "b1:9092,b2:9093", "[::1]:9092", "PLAINTEXT://b1:9092, [fe80::1%eth0]:9092", "10.0.0.1:1")


class _PropertiesFile:
    """The file that each document is written to: readers take a path."""

    def __init__(self) -> None:
        self._path: Path | None = None

    def __call__(self, document: bytes) -> Path:
        if self._path is None:
            self._path = Path(gettempdir()) / f"quotaform-fuzz-{getpid()}.properties"
            register(self._path.unlink, missing_ok=True)
        self._path.write_bytes(document)
        return self._path


_file: Final = _PropertiesFile()


def _read_properties(document: bytes) -> None:
    config = load_client_config(_file(document), environ={"QUOTAFORM_X": CANARY, "QUOTAFORM_ENV": "QUOTAFORM_X"})
    assert CANARY not in repr(config.credentials), "shows a secret"


def _read_jaas(document: bytes) -> None:
    module = parse_jaas(document.decode("utf-8", "replace"))
    assert parse_jaas(render_jaas(f"x.{module.name}", module.options)) == module, "what was written does not read back"


def _read_servers(document: bytes) -> None:
    for server in parse_servers(document.decode("utf-8", "surrogateescape")):
        assert parse_server(str(server)) == server, "what was written does not read back"


TARGETS: Final = (
    Target(
        "properties",
        lambda: [text.encode() for text in _PROPERTIES],
        _read_properties,
        (InvalidFilesError,),
        (_INCOMPLETE_PROPERTIES.encode(),),
    ),
    Target("jaas", lambda: [text.encode() for text in _JAAS], _read_jaas, (ValueError,)),
    Target("servers", lambda: [text.encode() for text in _SERVERS], _read_servers, (ValueError,)),
)
