"""The keys of Kafka client properties: those used, those without effect here, and remedies for the others."""

from __future__ import annotations

from re import compile as regex
from typing import Final

from quotaform.model.text import nearest

_USED = """
    bootstrap.servers client.id client.dns.lookup security.protocol request.timeout.ms default.api.timeout.ms
    sasl.mechanism sasl.jaas.config sasl.client.callback.handler.class sasl.kerberos.service.name
    ssl.truststore.type ssl.truststore.location ssl.truststore.certificates ssl.truststore.password
    ssl.keystore.type ssl.keystore.location ssl.keystore.key ssl.keystore.certificate.chain ssl.keystore.password
    ssl.key.password ssl.endpoint.identification.algorithm ssl.protocol ssl.enabled.protocols ssl.cipher.suites
    config.providers
    sasl.login.callback.handler.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
    sasl.login.retry.backoff.ms sasl.login.retry.backoff.max.ms sasl.login.refresh.window.factor
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.token.endpoint.url
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.scope sasl.oauthbearer.header.urlencode sasl.oauthbearer.clock.skew.seconds
    sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.template.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
"""
USED: Final = frozenset(_USED.split())
"""Keys that are read."""

_WITHOUT_EFFECT = """
    client.rack connections.max.idle.ms receive.buffer.bytes send.buffer.bytes
    reconnect.backoff.ms reconnect.backoff.max.ms retries retry.backoff.ms retry.backoff.max.ms
    socket.connection.setup.timeout.ms socket.connection.setup.timeout.max.ms
    metadata.max.age.ms metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms
    metric.reporters auto.include.jmx.reporter enable.metrics.push
    metrics.num.samples metrics.recording.level metrics.sample.window.ms

    acks batch.size buffer.memory compression.type compression.gzip.level compression.lz4.level
    compression.zstd.level delivery.timeout.ms enable.idempotence interceptor.classes key.serializer linger.ms
    max.block.ms max.in.flight.requests.per.connection max.request.size metadata.max.idle.ms partitioner.class
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.ignore.keys
    transaction.timeout.ms transactional.id value.serializer

    allow.auto.create.topics auto.commit.interval.ms auto.offset.reset check.crcs enable.auto.commit
    exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id group.instance.id
    group.protocol group.remote.assignor heartbeat.interval.ms isolation.level key.deserializer
    max.partition.fetch.bytes max.poll.interval.ms max.poll.records partition.assignment.strategy
    session.timeout.ms value.deserializer
"""
_IGNORED: Final = frozenset(_WITHOUT_EFFECT.split())
"""Keys without effect here: tuning, metrics, producers, consumers."""

_IGNORED_PREFIXES: Final = (
    "sasl.kerberos.",
    "sasl.login.refresh.",
    "sasl.oauthbearer.jwks.",
    "sasl.oauthbearer.expected.",
    "sasl.oauthbearer.scope.claim.name",
    "schema.registry.",
    "basic.auth.",
    "config.providers.",
)
"""Keys of unsupported mechanisms and of brokers, of other services whose settings share the file, and of providers,
which are read when a value names one."""

_REMEDIES: Final = {
    "bootstrap.controllers": "quotas are read and changed through brokers; give bootstrap.servers",
    "sasl.username": "it is not a key of Java clients; put the user name into sasl.jaas.config",
    "sasl.password": "it is not a key of Java clients; put the password into sasl.jaas.config",
    "sasl.mechanisms": "Java clients call it sasl.mechanism",
    "ssl.ca.location": "Java clients call it ssl.truststore.location, with ssl.truststore.type=PEM",
    "ssl.certificate.location": "Java clients have key and certificate in one file: ssl.keystore.location",
    "ssl.key.location": "Java clients have key and certificate in one file: ssl.keystore.location",
    "ssl.key-password": "Java clients call it ssl.key.password",
    "metadata.broker.list": "Java clients call it bootstrap.servers",
}

_PLUGINS: Final = (
    ".class",
    ".provider",
    ".providers",
    ".handler.class",
    ".factory.class",
    ".algorithm",
    ".implementation",
)

_VALUES = """
    PLAINTEXT SSL TLS SASL SASL_PLAINTEXT SASL_SSL SASL_TLS SASL-SSL
    PLAIN GSSAPI KERBEROS OAUTHBEARER AWS_MSK_IAM DIGEST-MD5 SCRAM SCRAM-SHA-1 SCRAM-SHA-256 SCRAM-SHA-512
    PEM JKS JCEKS PKCS12 P12 BCFKS DEFAULT
    TLSV1 TLSV1.0 TLSV1.1 TLSV1.2 TLSV1.3 SSLV2 SSLV3
    HTTPS NONE TRUE FALSE ENV FILE DIRECTORY
"""
_WORDS: Final = frozenset(_VALUES.split())
"""Well-known values in capitals, which are not secret."""
_NUMBER: Final = regex(r"[+-]?[0-9]{1,10}(\.[0-9]{1,6})?(ms|s|m|h)?").fullmatch
_KEY: Final = regex(r"[a-z][a-z0-9.-]{0,79}").fullmatch

_WORDS_AND_DOTS: Final = regex(r"[a-z]+(?:\.[a-z]+){1,8}").fullmatch
"""What all keys of Kafka's clients are made of, and few secrets."""
_SECRETS: Final = tuple(
    sorted(
        key for key in USED if key.endswith((".jaas.config", ".password", ".keystore.key", ".secret", ".passphrase"))
    )
)
"""Keys whose values are secret."""

_FAMILIES: Final = frozenset(key.partition(".")[0] for key in USED | _IGNORED)


def is_ignored(key: str) -> bool:
    """Whether a key can be ignored because it has no effect here.

    >>> is_ignored("retries"), is_ignored("ssl.provider")
    (True, False)
    """
    return key in _IGNORED or key.startswith(_IGNORED_PREFIXES)


def is_word(value: str) -> bool:
    """Whether a value is a number or a word of Kafka's configuration, so that it may be shown: it is no secret.

    >>> is_word("gssapi"), is_word("30s"), is_word("hunter2")
    (True, True, False)
    """
    return all(part.strip().upper() in _WORDS for part in value.split(",")) or bool(_NUMBER(value))


def refusal(key: str, *, is_line: bool) -> str:
    """Return why a key is refused and what to do.

    Args:
        key: The key. One that is like none of Kafka's is not shown: it may be a secret in the wrong place, or the rest
            of one that was meant to go on over a line's end.
        is_line: Whether it was read from a line of a file.

    >>> refusal("sasl.machanism", is_line=True)
    'sasl.machanism is not a key of Kafka clients; did you mean sasl.mechanism?'
    """
    if remedy := _REMEDIES.get(key):
        return f"{key} is not supported: {remedy}"
    if secret := next((each for each in _SECRETS if key.startswith(each)), None):
        return f"{secret} is not followed by = and a value; write {secret}=VALUE"
    if _KEY(key) and (known := nearest(key, USED, cutoff=0.85)):
        return f"{key} is not a key of Kafka clients; did you mean {known}?"
    if _WORDS_AND_DOTS(key) is None or key.partition(".")[0] not in _FAMILIES:
        if is_line:
            return (
                "this line does not begin with a key of Kafka clients; remove it, or end the previous line with a"
                " backslash if it continues here"
            )
        return "a given property is not a key of Kafka clients; remove it"
    if key.endswith(_PLUGINS):
        return f"{key} names a Java class, which quotaform cannot load; remove it"
    return f"{key} is not supported; remove it if the connection does not need it"
