"""Stores of both types on a broker that requires client certificates, and a keystore that is renewed under a watch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from quotaform.cluster.client.reader import from_properties
from quotaform.cluster.kafka import KafkaGateway
from quotaform.model.errors import AuthenticationError
from quotaform.repository.gateway import open_gateway
from quotaform.sandbox import Sandbox
from tests.doors import sign
from tests.unit.test_watch import World

pytestmark = pytest.mark.kafka

PASSWORD = "store-secret"


def keystore(kafka: Sandbox, *, days: int = 30) -> bytes:
    """Return a PKCS12 store with the super user's key and a certificate that ends in so many days."""
    key = generate_private_key(SECP256R1())
    issuer = x509.load_pem_x509_certificate((kafka.data_dir / "certificates" / "ca.pem").read_bytes())
    encryption = BestAvailableEncryption(PASSWORD.encode())
    return pkcs12.serialize_key_and_certificates(b"admin", key, sign(kafka, key, days=days), [issuer], encryption)


@pytest.fixture(scope="module")
def stores(secured_sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Truststores and keystores by their type."""
    folder, authority = tmp_path_factory.mktemp("stores"), secured_sandbox.data_dir / "certificates" / "ca.pem"
    (folder / "PKCS12.key").write_bytes(keystore(secured_sandbox))
    trusted = pkcs12.PKCS12Certificate(x509.load_pem_x509_certificate(authority.read_bytes()), b"ca")
    encryption = BestAvailableEncryption(PASSWORD.encode())
    (folder / "PKCS12.trust").write_bytes(pkcs12.serialize_java_truststore([trusted], encryption))

    def keytool(*arguments: str | Path) -> None:
        done = secured_sandbox.run_tool("sun.security.tools.keytool.Main", *map(str, arguments), "-noprompt")
        assert done.returncode == 0, done.stdout

    keytool(
        *("-importkeystore", "-srckeystore", folder / "PKCS12.key", "-srcstorepass", PASSWORD),
        *("-deststoretype", "JKS", "-destkeystore", folder / "JKS.key", "-deststorepass", PASSWORD),
    )
    keytool(
        *("-importcert", "-file", authority, "-alias", "ca"),
        *("-storetype", "JKS", "-keystore", folder / "JKS.trust", "-storepass", PASSWORD),
    )
    return folder


def properties(folder: Path, kind: str) -> dict[str, str]:
    return {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(folder / f"{kind}.trust"),
        "ssl.truststore.password": PASSWORD,
        "ssl.keystore.location": str(folder / f"{kind}.key"),
        "ssl.keystore.password": PASSWORD,
    }


def identify(kafka: Sandbox, given: Mapping[str, str]) -> str:
    with KafkaGateway.connect(kafka.listeners["MTLS"], from_properties(given, environ={}), name="lab") as gateway:
        gateway.describe()
        return gateway.cluster_id()


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_both_types_are_accepted_by_either_side(secured_sandbox: Sandbox, stores: Path, kind: str) -> None:
    suite = {"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}
    assert identify(secured_sandbox, properties(stores, kind) | suite) == secured_sandbox.cluster_id


def test_a_truststore_may_hold_the_brokers_certificate_alone(
    secured_sandbox: Sandbox, stores: Path, tmp_path: Path
) -> None:
    """OpenSSL asks for the whole chain up to a certificate that signed itself; Java trusts what is in the store."""
    path = secured_sandbox.data_dir / "certificates" / "server.crt"
    given = properties(stores, "JKS") | {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(path)}
    del given["ssl.truststore.password"]
    assert identify(secured_sandbox, given) == secured_sandbox.cluster_id


def test_a_cipher_suite_that_the_broker_cannot_use_is_told(secured_sandbox: Sandbox, stores: Path) -> None:
    given = properties(stores, "JKS") | {"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"}
    with pytest.raises(AuthenticationError, match=r"refused the TLS handshake .*compare ssl\.cipher\.suites"):
        identify(secured_sandbox, given)


def test_a_certificate_that_was_renewed_is_used_by_the_next_check_of_a_watch(
    secured_sandbox: Sandbox, stores: Path, tmp_path: Path
) -> None:
    store = tmp_path / "client.p12"
    store.write_bytes(keystore(secured_sandbox, days=-1))
    world = World(tmp_path, {"lab": {}})
    given = properties(stores, "PKCS12") | {"ssl.keystore.location": str(store)}
    world.write("client.properties", "".join(f"{key}={value}\n" for key, value in given.items()))
    address = secured_sandbox.listeners["MTLS"]
    world.write(
        "quotaform.yaml",
        f"clusters: {{lab: {{bootstrap_servers: ['{address}'], command_config: client.properties}}}}\n",
    )
    world.watch.connect = open_gateway
    [refused] = world.run()
    assert "did not accept the client certificate (" in refused
    store.write_bytes((stores / "JKS.key").read_bytes())
    assert world.run() == ["lab: Drift: 0 modified, 1 missing, 0 unexpected; 0 in sync."]
    store.write_bytes(b"half of a store")
    [broken] = world.run()
    assert "ssl.keystore.location cannot be used" in broken
