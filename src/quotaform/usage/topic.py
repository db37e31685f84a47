"""The topic that is read: what it is, and how Spark's connector reads it."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from os import environ
from re import DOTALL
from re import compile as regex
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace
from pyspark.errors import PySparkException

from quotaform.cluster.kafka import BrokerGateway
from quotaform.cluster.wire.message import Metadata
from quotaform.fleet.session import is_connect, starts_java
from quotaform.model.errors import (
    ArgumentError,
    AuthorizationError,
    ClusterError,
    ConnectError,
    EngineError,
    UsageError,
)
from quotaform.model.server import Server, parse_servers
from quotaform.model.text import inert, option_of, quote
from quotaform.repository.gateway import connection_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from quotaform.cluster.client.config import ClientConfig
    from quotaform.cluster.client.tls import Tls
    from quotaform.desired.config import Cluster
    from quotaform.fleet.options import SessionOptions


class Topic(Struct, frozen=True, kw_only=True):
    """A topic."""

    name: str  # Its name
    topic_id: str | None  # What tells it from a topic of the same name that was there before; `None` before Kafka 2.8
    cluster_id: str | None  # The id of its cluster, if that has one


class TopicGateway(BrokerGateway):
    """The topics of one cluster."""

    def topic(self, name: str) -> Topic | None:
        """Return a topic; `None` if there is none of that name.

        Raises `AuthorizationError` if the principal lacks DESCRIBE on the topic. Raises `UsageError` if no topic can
        have such a name. Raises `ConnectError` if a broker is not in `QUOTAFORM_ALLOWED_HOSTS`, and Spark connects to
        all of them by itself. Raises `ClusterError` if the cluster could not be read.
        """
        for server in self.connection.brokers.values():
            if problem := server.problem(environ):
                raise ConnectError(f"{server} {problem}")
        subject = f"the topic {quote(name)} of {self.name}"
        try:
            # For so many seconds with all retries: a topic that was made just now may take a moment.
            code, topic_id, _ = self._read(Metadata([name]), 15.0, subject=subject).topics[0]
        except ValueError as error:
            raise UsageError(f"{quote(name)} is not the name of a topic: {error}") from None
        if code == 3:  # UNKNOWN_TOPIC_OR_PARTITION
            return None
        if code == 17:  # INVALID_TOPIC_EXCEPTION
            raise UsageError(
                f"{quote(name)} is not the name of a topic; a name has up to 249 of the characters a-z, A-Z, 0-9, "
                "dot, underscore and hyphen"
            )
        if code == 29:  # TOPIC_AUTHORIZATION_FAILED
            raise AuthorizationError(
                f"The principal is not authorised to read {subject}",
                remedy="grant it READ and DESCRIBE on the topic.",
                code=code,
            )
        if code:
            raise ClusterError(f"Cannot read {subject}; the broker responded with error code {code}", code=code)
        # Uuid.ZERO_UUID stands for none.
        shown_id = urlsafe_b64encode(topic_id).decode().rstrip("=") if any(topic_id) else None
        return Topic(name=name, topic_id=shown_id, cluster_id=self.connection.cluster_id)


def find_topic(cluster: Cluster, name: str) -> tuple[Topic, tuple[str | Server, ...], ClientConfig]:
    """Return a topic of a cluster, the bootstrap servers, and their client. Raises `UsageError` if there is none."""
    servers, client = connection_of(cluster)
    with TopicGateway.connect(servers, client, name=cluster.label) as gateway:
        topic = gateway.topic(name)
    if topic is None:
        raise ArgumentError(
            "{topic}: {} has no topic {}; create it, or correct the name", inert(cluster.label), inert(name)
        )
    return topic, servers, client


_ARTIFACT: Final = "spark-sql-kafka-0-10"
_PACKAGES: Final = "spark.jars.packages"
_PEM: Final = regex(r"-----BEGIN ([A-Z0-9 ]+)-----.+?-----END \1-----", DOTALL)


def package() -> str:
    """Return the Maven coordinates of the connector for the Spark that is installed here."""
    from pyspark import __version__ as version

    return f"org.apache.spark:{_ARTIFACT}_2.13:{version}"


def with_connector(session: SessionOptions) -> SessionOptions:
    """Return the options of a session that has the connector, unless a setting brings it already.

    Maven coordinates are resolved when a session starts that this process starts; a session that exists, one of
    spark-submit or of a server has what it was started with.
    """
    places = (_PACKAGES, "spark.jars", "spark.driver.extraClassPath")
    if not starts_java(session) or any(_ARTIFACT in session.conf.get(place, "") for place in places):
        return session
    # The connector needs these, and Spark has them: 80 MB, which would be copied whenever a session starts.
    excluded = "org.apache.hadoop:hadoop-client-api,org.apache.hadoop:hadoop-client-runtime"
    added = {_PACKAGES: package(), "spark.jars.excludes": excluded}
    conf = {name: ",".join(filter(None, (session.conf.get(name), value))) for name, value in added.items()}
    return replace(session, conf={**session.conf, **conf})


def require_connector(spark: SparkSession) -> None:
    """Make sure that a session can read topics.

    Raises `EngineError` if it has no connector, or it is one of Spark Connect.
    """
    if is_connect(spark):
        raise EngineError(
            "The Spark session is one of Spark Connect, and a topic is read by a driver of its own; end the session, "
            "or run the command elsewhere."
        )
    try:
        # Nothing is connected to yet.
        options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "usage"}
        spark.readStream.format("kafka").options(**options).load()
    except PySparkException as error:
        if "kafka" not in str(error).lower():
            raise
        raise EngineError(
            f"The Spark session cannot read topics; start it with --packages {package()} or {_PACKAGES}={package()}."
        ) from None


def unresolved(error: EngineError) -> EngineError:
    """Return the error of a session that did not start because Maven has no answer, or the error itself."""
    text = str(error)
    if _ARTIFACT not in text and "unresolved dependency" not in text.lower():
        return error
    return EngineError(
        f"Spark cannot get the package {package()}, by which it reads topics; allow this machine to connect to a Maven "
        f"repository, name one in spark.jars.repositories, or give the files: {option_of('spark_conf')} "
        "spark.jars=PATH,..."
    )


def client_options(servers: Sequence[str | Server], config: ClientConfig) -> dict[str, str]:
    """Return the options of the connector for a client; passwords and keys are among the values.

    >>> from quotaform.cluster.client.config import ClientConfig
    >>> client_options(["b1:9092"], ClientConfig())["kafka.bootstrap.servers"]
    'b1:9092'

    Raises `ConnectError` if a server is not in `QUOTAFORM_ALLOWED_HOSTS`; Spark would send it the login.
    """
    given = parse_servers(servers)
    for server in given:
        if problem := server.problem(environ):
            raise ConnectError(f"{server} {problem}")
    options = {
        "bootstrap.servers": ",".join(server.address for server in given),
        "security.protocol": config.security_protocol,
        # What a transaction has not committed is not recorded.
        "isolation.level": "read_committed",
    }
    if config.client_id is not None:
        options["client.id"] = config.client_id
    if config.canonical_names:
        options["client.dns.lookup"] = "resolve_canonical_bootstrap_servers_only"
    if config.credentials is not None:
        options |= config.credentials.java_properties()
    if config.tls is not None:
        options |= _tls_options(config.tls)
    return {f"kafka.{key}": value for key, value in options.items()}


def _tls_options(tls: Tls) -> dict[str, str]:
    options = {"ssl.enabled.protocols": ",".join(tls.versions)}
    if tls.ciphers:
        options["ssl.cipher.suites"] = ",".join(tls.ciphers)
    if tls.ca is not None:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _pem(tls.ca, of_key=False)}
    if tls.key_store is not None:
        store = tls.key_store.reveal()
        options |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": _pem(store, of_key=True),
            "ssl.keystore.certificate.chain": _pem(store, of_key=False),
        }
        if tls.key_password is not None:
            options["ssl.key.password"] = tls.key_password.reveal()
    if not tls.check_host:
        options["ssl.endpoint.identification.algorithm"] = ""
    return options


def _pem(text: str, *, of_key: bool) -> str:
    """Return the sections of a PEM text that are keys, or those that are certificates."""
    return "\n".join(each[0] for each in _PEM.finditer(text) if each[1].endswith("PRIVATE KEY") is of_key)
