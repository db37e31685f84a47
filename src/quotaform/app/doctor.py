"""Checks step by step whether a cluster can be used, and says which step fails and why (`quotaform doctor`)."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from socket import gaierror
from ssl import SSLError
from typing import TYPE_CHECKING, Final

from quotaform.app.clock import SYSTEM_CLOCK, Clock, timestamp
from quotaform.app.repository.address import connection_of
from quotaform.app.repository.gateway import require_pinned
from quotaform.cluster.age import Age
from quotaform.cluster.broker_gateway import CONNECT_TIMEOUT
from quotaform.cluster.gateway import Progress, no_progress
from quotaform.cluster.kafka import KafkaGateway
from quotaform.cluster.wire.cluster_connection import ClusterConnection, certificate_validity
from quotaform.cluster.wire.failure import Failure, LookupTimeoutError, Stage, UnlistedError
from quotaform.core.check.resolution import CALLBACK
from quotaform.errors import ClusterError, ClusterIdError, InvalidFilesError, UsageError
from quotaform.model.alteration import Alteration
from quotaform.model.checkup import CheckedStep, Checkup, Step, StepStatus
from quotaform.model.entity import Entity
from quotaform.model.server import HiddenServer, Server, parse_servers

if TYPE_CHECKING:
    from quotaform.cluster.client.config import ClientConfig
    from quotaform.cluster.wire.broker_connection import BrokerConnection
    from quotaform.desired.config import Cluster

_STEPS: Final = (Step.CONNECT, Step.TLS, Step.API_VERSIONS, Step.AUTHENTICATE, Step.CLUSTER_ID, Step.CLUSTER_ID)
"""The step of each `Stage`."""
_RIGHTS: Final = (Step.DESCRIBE_QUOTAS, Step.ALTER_QUOTAS, Step.DESCRIBE_CONFIGS)
_PROBE: Final = Alteration(Entity(user="quotaform-doctor"), {"producer_byte_rate": None})
"""Removes what is not there. The right to alter is checked before anything else, and nothing would change even if a
broker passed over validate-only; a request without alterations has no row that could tell of a refusal."""


def check_cluster(cluster: Cluster, *, clock: Clock = SYSTEM_CLOCK, progress: Progress = no_progress) -> Checkup:
    """Connect to each bootstrap server of a cluster, and ask for rights; nothing is changed.

    After a server that refuses the credentials no other one is tried: repeating wrong credentials locks accounts.
    Raises `UsageError` if it is a snapshot file, or has no bootstrap servers.
    """
    if cluster.snapshot is not None:
        raise UsageError(f"cluster {cluster.name} is a snapshot file; there is nothing to connect to")
    try:
        given, config = connection_of(cluster)
    except InvalidFilesError as error:
        failed = CheckedStep(Step.PROPERTIES, status=StepStatus.FAILED, problem="; ".join(map(str, error.problems)))
        rights = (CheckedStep(step, status=StepStatus.NOT_REACHED) for step in _RIGHTS)
        return Checkup(cluster.label, None, timestamp(clock), (failed, *rights))
    try:
        servers = parse_servers(given or config.bootstrap_servers)
    except ValueError as error:
        raise UsageError(str(error)) from None
    file = cluster.config_reference.text if cluster.config_reference else cluster.command_config
    facts = {"file": str(file or "none"), "security_protocol": config.security_protocol}
    if config.credentials is not None:
        facts["mechanism"] = config.credentials.mechanism
    steps = [CheckedStep(Step.PROPERTIES, facts=facts)]
    used: KafkaGateway | None = None
    with ExitStack() as opened:
        for server in servers:
            progress(f"Connecting to {server}", 0, 0)
            if any(step.step is Step.AUTHENTICATE and step.status is StepStatus.FAILED for step in steps):
                steps += [CheckedStep(step, str(server), StepStatus.NOT_REACHED) for step in _facts(config)]
                continue
            taken, gateway = _connect(server, config, cluster, used)
            steps += taken
            if gateway:
                opened.enter_context(gateway)
                used = used or gateway
        progress("Asking for rights", 0, 0)
        for step in _RIGHTS:
            steps.append(_check_right(step, used))
        cluster_id = used.connection.cluster_id if used else None
    return Checkup(cluster.label, cluster_id, timestamp(clock), tuple(steps))


def _connect(
    server: Server, config: ClientConfig, cluster: Cluster, used: KafkaGateway | None
) -> tuple[list[CheckedStep], KafkaGateway | None]:
    """Connect to a server; return the steps, and a gateway if they all succeeded."""
    attempts: list[tuple[BrokerConnection, Failure | None]] = []
    gateway, problem, status = None, "", StepStatus.OK
    try:
        connection = ClusterConnection(
            [server],
            config,
            name=cluster.label,
            timeout=CONNECT_TIMEOUT,
            cluster_id=used.connection.cluster_id if used else None,
            observe=lambda *attempt: attempts.append(attempt),
        )
        gateway = KafkaGateway(connection, name=cluster.label)
    except ClusterError as error:
        if not attempts:
            raise
        problem = str(error).removeprefix(f"Cannot connect to {cluster.label}: ")
    # A name may stand for several brokers (client.dns.lookup); the error is about the one that was got furthest with.
    broker, failure = max(attempts, key=lambda attempt: len(Stage) if attempt[1] is None else attempt[1].stage)
    steps = []
    for step, facts in _facts(config, broker, gateway).items():
        if failure and step is _failed_step(failure):
            steps.append(CheckedStep(step, str(server), StepStatus.FAILED, problem=problem))
            status = StepStatus.NOT_REACHED
        else:
            steps.append(CheckedStep(step, str(server), status, facts if status is StepStatus.OK else {}))
    if gateway:
        try:
            require_pinned(cluster.name, cluster.cluster_id, gateway.connection.cluster_id, is_reading=True)
        except ClusterIdError as error:
            gateway.close()
            return [*steps[:-1], replace(steps[-1], status=StepStatus.FAILED, problem=str(error))], None
    return steps, gateway


def _failed_step(failure: Failure) -> Step:
    if isinstance(failure.cause, (gaierror, LookupTimeoutError, UnlistedError)):
        return Step.RESOLVE
    # With TLS 1.3 a server refuses a client's certificate after the handshake.
    is_tls = failure.stage is Stage.API_VERSIONS and isinstance(failure.cause, SSLError)
    return Step.TLS if is_tls else _STEPS[failure.stage]


def _facts(
    config: ClientConfig, broker: BrokerConnection | None = None, gateway: KafkaGateway | None = None
) -> dict[Step, dict[str, str]]:
    """Return the steps of connecting that a protocol has, each with what it showed, if it succeeded."""
    facts: dict[Step, dict[str, str]] = {Step.RESOLVE: {}, Step.CONNECT: {}}
    if config.tls is not None:
        facts[Step.TLS] = dict(broker.stream.session) if broker else {}
        if own := certificate_validity(config):
            facts[Step.TLS]["client_certificate_until"] = f"{own.end:%Y-%m-%dT%H:%M:%SZ}"
    facts[Step.API_VERSIONS] = {"kafka": str(Age.of(broker.versions))} if broker else {}
    if config.credentials is not None:
        lifetime = f"{broker.session_lifetime:g} s" if broker and broker.session_lifetime else "unlimited"
        facts[Step.AUTHENTICATE] = {"as": config.credentials.who, "session": lifetime}
    facts[Step.CLUSTER_ID] = {}
    if gateway:
        connection = gateway.connection
        facts[Step.CLUSTER_ID] = {"id": str(connection.cluster_id), "brokers": str(len(connection.brokers))}
    if broker and not isinstance(broker.server, HiddenServer):
        facts[Step.RESOLVE]["addresses"] = ", ".join(broker.stream.addresses)
    else:
        # What a variable holds is not shown: neither the address nor a certificate's names, which are like it.
        facts.get(Step.TLS, {}).pop("certificate_of", None)
    return facts


def _check_right(step: Step, gateway: KafkaGateway | None) -> CheckedStep:
    if gateway is None:
        return CheckedStep(step, status=StepStatus.NOT_REACHED)
    try:
        if step is Step.DESCRIBE_QUOTAS:
            gateway.describe_entities([_PROBE.entity])
        elif step is Step.ALTER_QUOTAS:
            gateway.alter([_PROBE], validate_only=True).raise_for_errors()
        else:
            for error in gateway.broker_config(CALLBACK).errors.values():
                raise error
    except ClusterError as error:
        return CheckedStep(step, status=StepStatus.FAILED, problem=str(error))
    return CheckedStep(step)
