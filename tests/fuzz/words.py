"""Fuzzed: what is typed (addresses, names, filters, values, patterns), client properties, JAAS lines and servers."""

from __future__ import annotations

from typing import Final

from quotaform.cli.client_quotas import command as lists
from quotaform.cli.command.alter import read_ops
from quotaform.cli.option.entity import read_entity, read_filter
from quotaform.cluster.client.reader import load_client_config
from quotaform.cluster.sasl.jaas import parse_jaas, render_jaas
from quotaform.model.entity import Entity, parse_address
from quotaform.model.errors import InvalidFilesError, UsageError
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.scope import Selection
from quotaform.model.server import parse_servers
from quotaform.model.units import is_writable, parse_value, render_value, spell_value
from tests.fuzz.target import CANARY, Target, line_problems, require_words, round_trip, scratch, text_of

_ADDRESSES: Final = (
    "user=svc-a", "user=svc-a,client-id=<default>", 'user="CN=a,O=b"',
    'user="<default>",client-id="a\\"\\u0000"', "ip=::1",
    'group="\\ud83d\\ude42"',
)  # fmt: skip
_NAMES: Final = (
    "user=alice\nclient-id=app",
    'user="a b"\nip=10.0.0.1',
    "user=CN%3Da%2CO%3Db,client-id=x%20y",
    "user=<default>",
)
_VALUES: Final = (
    "20MiB/s",
    "5MB/s",
    "1.5KiB/s",
    "150%",
    "20/s",
    "1048576",
    "12.5",
    "unlimited",
    "1e3",
    "9223372036854775807",
)
_PATTERNS: Final = ("user=svc-*", "user=[a-z]*,client-id=?", 'user="CN=*"', "*", "user=<default>", "[!a]*[]]")
_OPS: Final = (
    "producer_byte_rate=10MiB/s,consumer_byte_rate=5", "request_percentage=150%\nproducer_byte_rate",
    "future_rate=1e3",
    f'a=1,sasl.jaas.config="x password={CANARY};"',
)  # fmt: skip
_ENTITIES: Final = (
    Entity(user="svc-a"),
    Entity(user="a" * 200, client_id=None),
    Entity(ip="10.0.0.1"),
    Entity(user="<default>"),
)


def _read_address(document: bytes) -> None:
    entity = parse_address(text_of(document))
    assert not list(line_problems(entity.address)) or not entity.parts, "an address is not one printable line"
    if entity.parts:
        assert parse_address(entity.address) == entity, "what was written does not read back"


def _read_names(document: bytes) -> None:
    """Read the lines as names; each reader refuses them in its own words."""
    lines = text_of(document).split("\n")[:50]
    readers = (
        lambda: read_entity(lines, None),
        lambda: read_filter(
            names=lines[:1], prefixes=lines[1:2], others=lines[2:3], any_names=lines[3:], is_strict=True
        ),
        lambda: read_filter(prefixes=lines[:1]).matches(_ENTITIES[0]),
        lambda: lists.read_parts(lines, []),
        lambda: lists.read_parts([], lines),
    )
    require_words(UsageError, readers)


def _read_ops(document: bytes) -> None:
    lines = text_of(document).split("\n")[:50]
    readers = (
        lambda: read_ops(_ENTITIES[0], lines[:1], lines[1:]),
        lambda: lists.read_ops(lines[:1], lines[1:]),
        lambda: lists.read_properties(lines),
    )
    require_words(UsageError, readers, CANARY)


def _read_value(document: bytes) -> None:
    text = text_of(document)
    refused: list[str] = []
    for key in QUOTA_KEYS.values():
        try:
            value = parse_value(key, text)
        except ValueError as error:
            refused.append(str(error))
            continue
        assert is_writable(key, value), "a value that may not be written was read"
        spelled = spell_value(key, value)
        assert spelled is not None, "a value that was read cannot be written"
        assert parse_value(key, spelled) == value, "what was written does not read back"
        assert render_value(key, value).isprintable()
    assert not [found for message in refused for found in line_problems(message)], refused[0][:300]


def _match_pattern(document: bytes) -> None:
    selection = Selection(select=(text_of(document),), exclude=("user=x",))
    for entity in _ENTITIES:
        selection.contains(entity)


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


def _read_properties(document: bytes) -> None:
    path = scratch() / "client.properties"
    path.write_bytes(document)
    config = load_client_config(path, environ={"QUOTAFORM_X": CANARY, "QUOTAFORM_ENV": "QUOTAFORM_X"})
    assert CANARY not in repr(config.credentials), "shows a secret"


def _read_jaas(document: bytes) -> None:
    module = parse_jaas(document.decode("utf-8", "replace"))
    assert parse_jaas(render_jaas(f"x.{module.name}", module.options)) == module, "what was written does not read back"


TARGETS: Final = (
    Target("address", _ADDRESSES, _read_address, (ValueError,)),
    Target("names", _NAMES, _read_names, ()),
    Target("ops", _OPS, _read_ops, ()),
    Target("value", _VALUES, _read_value, ()),
    Target("pattern", _PATTERNS, _match_pattern, ()),
    Target(
        "properties",
        _PROPERTIES,
        _read_properties,
        (InvalidFilesError,),
        (_INCOMPLETE_PROPERTIES.encode(),),
    ),
    Target("jaas", _JAAS, _read_jaas, (ValueError,)),
    Target(
        "servers",
        _SERVERS,
        round_trip(
            lambda text: parse_servers(text_of(text) if isinstance(text, bytes) else text),
            lambda servers: ",".join(map(str, servers)),
        ),
        (ValueError,),
    ),
)
