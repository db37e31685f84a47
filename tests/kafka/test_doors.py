"""Every way in, with what it takes and without: which step fails, in which words, and nothing secret in any of them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import pytest

from quotaform.cluster.records import Step, StepStatus
from quotaform.cluster.report import render_checkup
from quotaform.desired.config import Cluster
from quotaform.model.records.record import dump_record
from quotaform.repository.run import check_cluster
from quotaform.sandbox.security import render_properties
from tests.doors import SASL, Doors
from tests.kdc import REALM

pytestmark = pytest.mark.kafka

TLS, LOGIN, ID, RIGHTS = Step.TLS, Step.AUTHENTICATE, Step.CLUSTER_ID, Step.DESCRIBE_QUOTAS
PASSWORD: Final = "check user name and password in sasl.jaas.config."
TOKEN: Final = "check token id and HMAC in sasl.jaas.config, and whether the token has expired."
ENDPOINT: Final = "the token endpoint {token_endpoint} refused to give a token"
GRANT: Final = (
    "The principal is not authorised to read the client quotas of prod: grant it DESCRIBE_CONFIGS on the Cluster"
)

ACCEPTED: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "delegation token", "OAUTHBEARER", "GSSAPI", "mTLS")

WAYS: Final = [
    # what the client shows, how that is: the step that fails, and a part of its sentence
    ("none", "no rights", RIGHTS, GRANT),
    *[(way, "right", None, "") for way in ACCEPTED],
    *[(way, "no rights", RIGHTS, GRANT) for way in ACCEPTED],
    *[(way, "wrong", LOGIN, f"{{server}} did not accept user admin ({way}); {PASSWORD}") for way in ACCEPTED[:3]],
    *[(way, "unknown", LOGIN, f"{{server}} did not accept user nobody ({way}); {PASSWORD}") for way in ACCEPTED[:3]],
    ("delegation token", "wrong", LOGIN, f"did not accept delegation token {{token}} (SCRAM-SHA-256); {TOKEN}"),
    ("delegation token", "expired", LOGIN, f"did not accept delegation token {{token}} (SCRAM-SHA-256); {TOKEN}"),
    ("OAUTHBEARER", "wrong", LOGIN, f"{ENDPOINT} (status 401, invalid_client: Client authentication failed); check"),
    ("OAUTHBEARER", "expired", LOGIN, '(OAUTHBEARER) and answered "invalid_token"; check issuer, audience and'),
    ("GSSAPI", "wrong", LOGIN, f"the KDC did not accept the key of principal former@{REALM} in the keytab; write"),
    ("GSSAPI", "expired", LOGIN, f"the Kerberos ticket of principal late@{REALM} has expired; run kinit, or use a"),
    ("mTLS", "wrong", TLS, "{server} did not accept the client certificate ("),
    ("mTLS", "expired", TLS, "{server} did not accept the client certificate, which has expired: it is valid from 2"),
]  # fmt: skip
"""Each is tried with TLS and without; AWS_MSK_IAM, which no broker of Kafka has, is in tests/golden/logins-msk.txt."""

LISTENERS: Final = {"none": ("PLAINTEXT", "TLS"), "mTLS": ("MTLS",)}
"""The listeners of a way; those with SASL if it is not named."""

ASTRAY: Final = [
    # the listener, what the client was made for: the step that fails, and a part of its sentence
    ("TLS", "PLAINTEXT", Step.API_VERSIONS, "speaks TLS but security.protocol is PLAINTEXT; set security.protocol=SSL"),
    ("SASL_SSL", "SASL_PLAINTEXT", Step.API_VERSIONS, "speaks TLS but security.protocol is SASL_PLAINTEXT; set"),
    ("PLAINTEXT", "TLS", TLS, "closed the connection during the TLS handshake; listeners without TLS"),
    ("SASL_PLAINTEXT", "SASL_SSL", TLS, "closed the connection during the TLS handshake; listeners without TLS"),
    ("SASL_PLAINTEXT", "PLAINTEXT", ID, "if it requires SASL, set security.protocol=SASL_PLAINTEXT, "),
    ("SASL_SSL", "TLS", ID, "if it requires SASL, set security.protocol=SASL_SSL, "),
    ("PLAINTEXT", "SASL_PLAINTEXT", LOGIN, "has no SASL but security.protocol is SASL_PLAINTEXT; use"),
    ("TLS", "SASL_SSL", LOGIN, "has no SASL but security.protocol is SASL_SSL; use"),
    ("MTLS", "TLS", TLS, "requires a client certificate, but none is configured; give one"),
    ("SASL_SSL", "no truststore", TLS, "is not trusted (self-signed certificate in certificate chain); give the CA"),
    ("SASL_SSL", "AWS_MSK_IAM", LOGIN, "does not offer the SASL mechanism AWS_MSK_IAM; set sasl.mechanism to one of"),
]  # fmt: skip


def failed_step(
    doors: Doors, listener: str, properties: dict[str, str], folder: Path, log: pytest.LogCaptureFixture
) -> tuple[Step | None, str]:
    """Return the first step that fails and its sentence, after a look for secrets in everything that is written."""
    path = folder / "client.properties"
    path.write_text(render_properties(properties))
    server = doors.address(listener)
    with log.at_level(logging.DEBUG):
        checkup = check_cluster(Cluster(name="prod", bootstrap_servers=(server,), command_config=path))
    written = dump_record(checkup) + render_checkup(checkup) + repr(checkup) + log.text
    assert not [secret for secret in doors.secrets if secret in written]
    failed = [step for step in checkup.steps if step.status is StepStatus.FAILED]
    assert checkup.is_healthy is not bool(failed)
    return (failed[0].step, str(failed[0].problem)) if failed else (None, "")


@pytest.mark.parametrize(
    ("listener", "way", "condition", "step", "sentence"),
    [(listener, *row) for row in WAYS for listener in LISTENERS.get(row[0], SASL)],
)
def test_a_way_in(
    doors: Doors,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    listener: str,
    way: str,
    condition: str,
    step: Step | None,
    sentence: str,
) -> None:
    found, said = failed_step(doors, listener, doors.client(listener, way, condition), tmp_path, caplog)
    token, _ = doors.tokens.get(condition, ("", ""))
    endpoint = doors.provider.token_url.removesuffix("/token")
    expected = sentence.format(server=doors.address(listener), token=token, token_endpoint=endpoint)
    assert (found, expected in said) == (step, True), said


@pytest.mark.parametrize(("listener", "made_for", "step", "sentence"), ASTRAY)
def test_a_client_of_another_listener(
    doors: Doors,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    listener: str,
    made_for: str,
    step: Step,
    sentence: str,
) -> None:
    way = {"SASL_PLAINTEXT": "PLAIN", "SASL_SSL": "PLAIN", "no truststore": "PLAIN"}.get(made_for, "none")
    properties = doors.client(listener if made_for in ("no truststore", "AWS_MSK_IAM") else made_for, way)
    if made_for == "no truststore":
        properties = {key: value for key, value in properties.items() if "truststore" not in key}
    if made_for == "AWS_MSK_IAM":
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
            monkeypatch.setenv(name, "eu-west-1")
        line = "software.amazon.msk.auth.iam.IAMLoginModule required;"
        properties |= {"sasl.mechanism": "AWS_MSK_IAM", "sasl.jaas.config": line}
    found, said = failed_step(doors, listener, properties, tmp_path, caplog)
    assert (found, said.startswith((f"{doors.address(listener)} ", "the ")), sentence in said) == (step, True, True), (
        said
    )
