"""Use cases of clusters that need no quotas files: checkups, SCRAM credentials, snapshots."""

from __future__ import annotations

from contextlib import ExitStack
from ssl import SSLError
from typing import Final

from msgspec import structs

from quotaform.cluster.broker import BrokerRelease
from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.gateway import Gateway, read_actual
from quotaform.cluster.kafka import CONNECT_TIMEOUT, KafkaGateway
from quotaform.cluster.records import CheckedStep, Checkup, ReachedCluster, Step, StepStatus
from quotaform.cluster.scram import ScramGateway
from quotaform.cluster.wire.broker_connection import BrokerConnection
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.cluster.wire.failure import Failure, Stage
from quotaform.desired.config import Cluster
from quotaform.model.alteration import Alteration
from quotaform.model.entity import Entity
from quotaform.model.errors import (
    BlockedError,
    ClusterError,
    ClusterIdError,
    InvalidFilesError,
    UsageError,
    as_usage_error,
)
from quotaform.model.outcome import Progress, no_progress
from quotaform.model.precedence import CALLBACK
from quotaform.model.quotas import Snapshot
from quotaform.model.server import Server, parse_servers
from quotaform.repository.gateway import connection_of, require_pinned
from quotaform.system.clock import SYSTEM_CLOCK, Clock, timestamp

_STEPS: Final = (Step.CONNECT, Step.TLS, Step.API_VERSIONS, Step.AUTHENTICATE, Step.CLUSTER_ID, Step.CLUSTER_ID)
"""The step of each `Stage`."""
_RIGHTS: Final = (Step.DESCRIBE_QUOTAS, Step.ALTER_QUOTAS, Step.DESCRIBE_CONFIGS)
_PROBE: Final = Alteration(Entity(user="quotaform-doctor"), {"producer_byte_rate": None})
"""Removes what is not there. The right to alter is checked before anything else, and nothing would change even if a
broker passed over validate-only; a request without alterations has no row that could tell of a refusal."""


def check_cluster(cluster: Cluster, *, clock: Clock = SYSTEM_CLOCK, progress: Progress = no_progress) -> Checkup:
    """Connect to each bootstrap server of a cluster, and ask for rights; nothing is changed.

    After a server that refuses the credentials no other one is tried: repeating wrong credentials locks accounts.
    Raises `UsageError` if the cluster is a snapshot file, or has no bootstrap servers.
    """
    if cluster.snapshot is not None:
        raise UsageError(f"cluster {cluster.name} is a snapshot file; there is nothing to connect to")
    reached = ReachedCluster(name=cluster.label, id=None)
    try:
        given, config = connection_of(cluster)
    except InvalidFilesError as error:
        problem = "; ".join(map(str, error.problems))
        steps = [CheckedStep(step=Step.PROPERTIES, status=StepStatus.FAILED, problem=problem)]
        steps += [CheckedStep(step=step, status=StepStatus.NOT_REACHED) for step in _RIGHTS]
        return Checkup(cluster=reached, checked_at=timestamp(clock), steps=tuple(steps))
    with as_usage_error():
        servers = parse_servers(given or config.bootstrap_servers)
    facts = {"file": cluster.shown_config or "none", "security_protocol": config.security_protocol}
    if config.credentials is not None:
        facts["mechanism"] = config.credentials.mechanism
    steps = [CheckedStep(step=Step.PROPERTIES, facts=facts)]
    used: KafkaGateway | None = None
    with ExitStack() as opened:
        for server in servers:
            progress(f"Connecting to {server}", 0, 0)
            if any(step.step is Step.AUTHENTICATE and step.status is StepStatus.FAILED for step in steps):
                steps += [
                    CheckedStep(step=step, server=str(server), status=StepStatus.NOT_REACHED) for step in _facts(config)
                ]
                continue
            taken, gateway = _connect(server, config, cluster, used)
            steps += taken
            if gateway:
                opened.enter_context(gateway)
                used = used or gateway
        progress("Asking for rights", 0, 0)
        steps += [_check_right(step, used) for step in _RIGHTS]
        if used:
            reached = structs.replace(reached, id=used.connection.cluster_id)
    return Checkup(cluster=reached, checked_at=timestamp(clock), steps=tuple(steps))


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
        gateway = KafkaGateway(connection, name=cluster.label, config=config)
    except ClusterError as error:
        if not attempts:
            raise
        problem = str(error).removeprefix(f"Cannot connect to {cluster.label}: ")
    # A name may stand for several brokers (client.dns.lookup); the error is about the one that was got furthest with.
    broker, failure = max(attempts, key=lambda attempt: len(Stage) if attempt[1] is None else attempt[1].stage)
    failed = None if failure is None else _STEPS[failure.stage]
    if failure and failure.stage is Stage.CONNECT and not broker.addresses:
        failed = Step.RESOLVE
    elif failure and failure.stage is Stage.API_VERSIONS and isinstance(failure.cause, SSLError):
        failed = Step.TLS  # With TLS 1.3 a server refuses a client's certificate after the handshake.
    steps = []
    for step, facts in _facts(config, broker, gateway).items():
        if step is failed:
            steps.append(CheckedStep(step=step, server=str(server), status=StepStatus.FAILED, problem=problem))
            status = StepStatus.NOT_REACHED
        else:
            shown = facts if status is StepStatus.OK else {}
            steps.append(CheckedStep(step=step, server=str(server), status=status, facts=shown))
    if gateway:
        try:
            require_pinned(cluster.name, cluster.cluster_id, gateway.connection.cluster_id, is_reading=True)
        except ClusterIdError as error:
            gateway.close()
            return [*steps[:-1], structs.replace(steps[-1], status=StepStatus.FAILED, problem=str(error))], None
    return steps, gateway


def _facts(
    config: ClientConfig, broker: BrokerConnection | None = None, gateway: KafkaGateway | None = None
) -> dict[Step, dict[str, str]]:
    """Return the steps of connecting that a protocol has, each with what it showed, if it succeeded."""
    facts: dict[Step, dict[str, str]] = {Step.RESOLVE: {}, Step.CONNECT: {}}
    if config.tls is not None:
        facts[Step.TLS] = dict(broker.session) if broker else {}
    facts[Step.API_VERSIONS] = {"kafka": str(BrokerRelease.of(broker.versions))} if broker else {}
    if config.credentials is not None:
        lifetime = f"{broker.session_lifetime:g} s" if broker and broker.session_lifetime else "unlimited"
        facts[Step.AUTHENTICATE] = {"as": config.credentials.who, "session": lifetime}
    facts[Step.CLUSTER_ID] = {}
    if gateway:
        connection = gateway.connection
        facts[Step.CLUSTER_ID] = {"id": str(connection.cluster_id), "brokers": str(len(connection.brokers))}
    if broker and not broker.server.written:
        facts[Step.RESOLVE]["addresses"] = ", ".join(broker.addresses)
    else:
        # What a variable holds is not shown: neither the address nor a certificate's names, which are like it.
        facts.get(Step.TLS, {}).pop("certificate_of", None)
    return facts


def _check_right(step: Step, gateway: KafkaGateway | None) -> CheckedStep:
    if gateway is None:
        return CheckedStep(step=step, status=StepStatus.NOT_REACHED)
    try:
        if step is Step.DESCRIBE_QUOTAS:
            gateway.describe_entities([_PROBE.entity])
        elif step is Step.ALTER_QUOTAS:
            gateway.alter([_PROBE], validate_only=True).raise_for_errors()
        else:
            for error in gateway.broker_config(CALLBACK).errors.values():
                raise error
    except ClusterError as error:
        return CheckedStep(step=step, status=StepStatus.FAILED, problem=str(error))
    return CheckedStep(step=step)


def open_scram(cluster: Cluster) -> ScramGateway:
    """Connect to a cluster. Raises `UsageError` if it is a snapshot file, else as `open_pinned_gateway` does."""
    if cluster.snapshot is not None:
        raise UsageError(f"cluster {cluster.name} is a snapshot file, which contains no SCRAM credentials")
    gateway = ScramGateway.connect(*connection_of(cluster), name=cluster.label)
    try:
        require_pinned(cluster.name, cluster.cluster_id, gateway.cluster_id)
    except BlockedError:
        gateway.close()
        raise
    return gateway


def snapshot_of(
    cluster: Cluster, gateway: Gateway, progress: Progress = no_progress, *, clock: Clock = SYSTEM_CLOCK
) -> Snapshot:
    """Read everything that a cluster of quotaform.yaml holds; from a snapshot it keeps the time of that."""
    return Snapshot(
        cluster_name=cluster.name,
        cluster_id=gateway.cluster_id(),
        captured_at=timestamp(clock) if gateway.snapshot is None else gateway.snapshot.captured_at,
        quotas=read_actual(gateway, clock=clock, progress=progress),
    )
