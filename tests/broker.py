"""What tests on brokers have in common."""

from __future__ import annotations

from pathlib import Path
from subprocess import CompletedProcess
from time import monotonic, sleep
from typing import Final

from quotaform import Alteration, QuotaAdmin
from quotaform.cluster.broker import BrokerRelease
from quotaform.cluster.gateway import Gateway
from quotaform.cluster.records import ScramMechanism
from quotaform.cluster.scram import ScramAlteration, ScramGateway
from quotaform.model.quotas import Quotas
from quotaform.sandbox import Sandbox
from quotaform.sandbox.configuration import PROTOCOLS, SCRAM, USERS, User, render_properties
from tests.waiting import PATIENCE, wait_until
from tools.broker_facts import FACTS

SHORT_SESSIONS: Final = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
"""A broker that was killed may register again only when its old session is over: 9 seconds by default."""


def wait_for(admin: QuotaAdmin | Gateway, quotas: Quotas) -> None:
    """Wait until a cluster has just these quotas: accepted changes show with a delay."""
    deadline = monotonic() + PATIENCE
    while (live := admin.describe()) != quotas and monotonic() < deadline:
        sleep(0.01)
    assert live == quotas


def become(admin: QuotaAdmin | Gateway, quotas: Quotas) -> None:
    """Make a cluster hold these quotas and nothing else."""
    live = admin.describe()
    wanted = {entity: {**dict.fromkeys(live.get(entity, {})), **quotas.get(entity, {})} for entity in {*live, *quotas}}
    admin.alter([Alteration(entity, values) for entity, values in wanted.items()]).raise_for_errors()
    wait_for(admin, quotas)


def held_credentials(gateway: ScramGateway) -> dict[str, dict[str, int]]:
    """Return the iterations of each user's credentials, by mechanism."""
    return {found.user: {each.mechanism: each.iterations for each in found.credentials} for found in gateway.describe()}


def wipe_credentials(gateway: ScramGateway) -> None:
    held = held_credentials(gateway)
    gateway.alter(
        [ScramAlteration(user, ScramMechanism(each)) for user, known in held.items() for each in known]
    ).raise_for_errors()
    wait_until(lambda: not held_credentials(gateway))


def broker_release(sandbox: Sandbox) -> BrokerRelease:
    """Return the release of a sandbox's brokers, by what was started."""
    major, minor, *_ = sandbox.release.number
    return BrokerRelease((major, minor), sandbox.release.has_zookeeper)


def kafka_configs(
    sandbox: Sandbox, *arguments: str, listener: str = "PLAINTEXT", config: Path | None = None
) -> CompletedProcess[str]:
    """Run `kafka-configs` of the same Kafka, with client properties if the listener takes some."""
    properties = () if config is None else ("--command-config", str(config))
    servers = ("--bootstrap-server", sandbox.listeners[listener])
    return sandbox.run_tool("kafka.admin.ConfigCommand", *servers, *properties, *arguments)


def holds(sandbox: Sandbox, fact: str) -> bool:
    """Return whether a fact of the table holds for a sandbox's brokers."""
    return FACTS[fact].holds(broker_release(sandbox))


def client_settings(
    sandbox: Sandbox, listener: str, *, user: str = "admin", password: str = "", certificate: str = "quota-admin"
) -> dict[str, str]:
    """Return a Java client's properties for a listener of a secured sandbox; a certificate is for MTLS."""
    properties = {"security.protocol": PROTOCOLS[listener]}
    if listener.startswith("SASL"):
        known = USERS.get(user) or User(user, "", SCRAM)
        mechanism = known.mechanisms[0] if sandbox.release.formats_scram else "PLAIN"
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        login = f'username="{user}" password="{password or known.password}"'
        properties["sasl.mechanism"] = mechanism
        properties["sasl.jaas.config"] = f"org.apache.kafka.common.security.{module} required {login};"
    stores = {"truststore": "ca"} if PROTOCOLS[listener].endswith("SSL") else {}
    if listener == "MTLS":
        stores["keystore"] = certificate
    for kind, name in stores.items():
        properties[f"ssl.{kind}.type"] = "PEM"
        properties[f"ssl.{kind}.location"] = f"{sandbox.data_dir}/certificates/{name}.pem"
    return properties


def client_properties(sandbox: Sandbox, listener: str, **given: str) -> str:
    """Write `client_settings` as a file."""
    return render_properties(client_settings(sandbox, listener, **given))
