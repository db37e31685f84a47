"""Interop with `kafka-configs`: what either writes the other reads, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from struct import pack

import pytest

from quotaform import Alteration, Entity, QuotaAdmin
from quotaform.sandbox import Sandbox
from tests.broker import become, holds, kafka_configs, wait_for
from tests.builder import CONNECTION, CONSUMER, MUTATION, PRODUCER, REQUEST

pytestmark = pytest.mark.kafka


NAMES = (
    "two words",
    "quote\"d and apo'strophe",
    "com,ma=x,O=y",
    "Å/ß 日本 🙂",
    "100%",
    "a%20b",
    "%3Cdefault%3E",
    "<default>",
    "are a=1",
    "new\nline",
)
NOT_TYPED = ("e\u0301", "\u202e\u2028\x7f", "x" * 32_767, "é" * 16_383)
"""More names, which nobody gives to a command."""

ALL_KEYS = {PRODUCER: 2.0**63, CONSUMER: 2.0**53 + 2, REQUEST: 0.1 + 0.2, MUTATION: 1e308}

SHAPES: dict[Entity, dict[str, float]] = {
    Entity(user="plain"): ALL_KEYS,
    Entity(user=None): {CONSUMER: 9007199254740991.0, REQUEST: 1e308},
    Entity(client_id="plain"): {PRODUCER: 1.0, REQUEST: 100 / 3},
    Entity(client_id=None): {MUTATION: 2.2250738585072014e-308},
    Entity(user="plain", client_id="of,a"): ALL_KEYS,
    Entity(user="CN=a b,O=x", client_id=None): {PRODUCER: 1048576.0},
    Entity(user=None, client_id="plain"): {REQUEST: 12.5},
    Entity(user=None, client_id=None): {REQUEST: 2147483647.0, MUTATION: 0.25},
    Entity(ip="10.0.0.7"): {CONNECTION: 2147483647.0},
    Entity(ip=None): {CONNECTION: 1000.0},
}

TYPES = {"user": "users", "client-id": "clients", "ip": "ips"}
WORDS = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}


@dataclass(frozen=True)
class ConfigCommand:
    """`kafka-configs` of the same Kafka."""

    sandbox: Sandbox

    def __call__(self, *arguments: str) -> str:
        done = kafka_configs(self.sandbox, *arguments)
        of_users_alone = {"--describe", "users"} <= {*arguments} and "clients" not in arguments
        if of_users_alone and not holds(self.sandbox, "scram"):
            # It prints the quotas, and then asks for SCRAM credentials.
            assert "does not support DESCRIBE_USER_SCRAM_CREDENTIALS" in done.stdout + done.stderr
            return done.stdout.partition("Error while executing config command")[0]
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def alter(self, entity: Entity, *change: str) -> None:
        arguments = [
            ("--entity-type", TYPES[kind], *(["--entity-default"] if name is None else ["--entity-name", name]))
            for kind, name in entity.parts
        ]
        self("--alter", *change, *chain(*arguments))

    def all_texts(self) -> dict[tuple[str, ...], str]:
        """What a describe of each combination of types prints; two JVMs at a time."""
        kinds = [("user",), ("client-id",), ("user", "client-id"), ("ip",)]
        flags = [[flag for kind in each for flag in ("--entity-type", TYPES[kind])] for each in kinds]
        with ThreadPoolExecutor(2) as pool:
            return dict(zip(kinds, pool.map(lambda each: self("--describe", *each), flags), strict=True))


def heading(entity: Entity) -> str:
    """How kafka-configs begins the line of an entity; it writes names as they are."""
    parts = [f"the default {WORDS[kind]}" if name is None else f"{WORDS[kind]} '{name}'" for kind, name in entity.parts]
    return f"Quota configs for {', '.join(parts)} are "


def printed(text: str, entity: Entity) -> dict[str, float]:
    """The values that kafka-configs prints of an entity, which are Java's doubles."""
    _, _, rest = text.partition(heading(entity))
    pairs = rest.partition("\n")[0].split(", ")
    return {key: float(value) for key, _, value in (pair.partition("=") for pair in pairs)}


def bits(values: Mapping[str, float]) -> dict[str, bytes]:
    return {key: pack(">d", value) for key, value in values.items()}


@pytest.fixture(scope="module")
def config_command(sandbox: Sandbox) -> ConfigCommand:
    return ConfigCommand(sandbox)


@pytest.fixture
def admin(sandbox: Sandbox) -> Iterator[QuotaAdmin]:
    """A broker without any quotas."""
    with QuotaAdmin.connect(sandbox.bootstrap_servers) as admin:
        become(admin, {})
        yield admin
        become(admin, {})


def test_kafka_configs_reads_what_quotaform_writes(admin: QuotaAdmin, config_command: ConfigCommand) -> None:
    quotas = SHAPES | (
        {Entity(ip="2001:db8::1"): {CONNECTION: 5e-324}} if holds(config_command.sandbox, "ipv6") else {}
    )
    for name in (*NAMES, *NOT_TYPED):
        quotas[Entity(user=name)] = ALL_KEYS
        quotas[Entity(client_id=name)] = {PRODUCER: 5e6}
        quotas[Entity(user=name, client_id=name)] = {REQUEST: 0.1}
        quotas[Entity(user=name, client_id=None)] = {CONSUMER: 3.0}
        quotas[Entity(user=None, client_id=name)] = {MUTATION: 7.25}
    admin.alter([Alteration(entity, values) for entity, values in quotas.items()]).raise_for_errors()
    wait_for(admin, quotas)
    texts = config_command.all_texts()
    for entity, values in quotas.items():
        assert texts[entity.types].count(heading(entity)) == 1, entity
        assert bits(printed(texts[entity.types], entity)) == bits(values), entity
    assert sum(text.count("Quota configs for ") for text in texts.values()) == len(quotas)


def test_quotaform_reads_what_kafka_configs_writes(admin: QuotaAdmin, config_command: ConfigCommand) -> None:
    odd = dict(zip(SHAPES, NAMES, strict=True))
    quotas: dict[Entity, dict[str, float]] = {}
    for entity, values in SHAPES.items():
        # Each shape takes one of the odd names; an ip is an ip.
        named = {kind: name if name is None or kind == "ip" else odd[entity] for kind, name in entity.names.items()}
        quotas[Entity(named)] = values

    def write(item: tuple[Entity, dict[str, float]]) -> None:
        entity, values = item
        config_command.alter(entity, "--add-config", ",".join(f"{key}={value!r}" for key, value in values.items()))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, quotas.items()))
    wait_for(admin, quotas)
    live = admin.describe()
    assert {entity: bits(values) for entity, values in live.items()} == {
        entity: bits(values) for entity, values in quotas.items()
    }


def test_each_removes_what_the_other_wrote(admin: QuotaAdmin, config_command: ConfigCommand) -> None:
    ours, theirs = Entity(user="<default>", client_id=None), Entity(user=None)
    admin.alter([Alteration(ours, {PRODUCER: 1.0, CONSUMER: 2.0})]).raise_for_errors()
    config_command.alter(ours, "--delete-config", PRODUCER)
    config_command.alter(theirs, "--add-config", f"{REQUEST}=50,{PRODUCER}=9")
    wait_for(admin, {ours: {CONSUMER: 2.0}, theirs: {REQUEST: 50.0, PRODUCER: 9.0}})
    admin.alter([Alteration(theirs, {REQUEST: None, PRODUCER: None})]).raise_for_errors()
    wait_for(admin, {ours: {CONSUMER: 2.0}})
    assert config_command("--describe", "--user-defaults") == ""
