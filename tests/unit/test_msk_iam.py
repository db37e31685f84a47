"""AWS_MSK_IAM: signatures; `tests/golden/logins-msk.txt` has where keys come from, what is sent and answered."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from ssl import PROTOCOL_TLS_SERVER, SSLContext
from typing import Any, Final

import pytest
from botocore.credentials import ReadOnlyCredentials

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.client.tls import Tls
from quotaform.cluster.kafka import KafkaGateway
from quotaform.cluster.sasl.msk_iam import MECHANISM, MskIam, payload
from quotaform.model.errors import AuthenticationError
from quotaform.sandbox.security import Certificates
from tests.fake_broker import Asked, FakeBroker, serving

BROKER: Final = "b-1.demo-cluster-1.abc.c2.kafka.eu-west-1.amazonaws.com"
SECRET, TOKEN = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "c4nary/Session+Token=="
NOW: Final = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)


def signed(host: str, moment: str, token: str | None) -> dict[str, str]:
    """Return what kafka-python sends to a broker."""
    from kafka.net.sasl.msk import AwsMskIamClient

    theirs = AwsMskIamClient(host, "AKIDEXAMPLE", SECRET, "eu-west-1", token)
    theirs.datestamp, theirs.timestamp = moment[:8], moment
    return json.loads(theirs.first_message())  # type: ignore[no-any-return]


@pytest.mark.parametrize("token", [None, TOKEN])
def test_the_message_is_that_of_kafka_python(token: str | None) -> None:
    zoned = NOW.astimezone(tz=None)
    message = json.loads(
        payload(ReadOnlyCredentials("AKIDEXAMPLE", SECRET, token), host=BROKER, region="eu-west-1", now=zoned)
    )
    assert message.pop("user-agent").startswith("quotaform/")
    assert message | {"user-agent": "kafka-python"} == signed(BROKER, "20150830T123600Z", token)


class Msk(FakeBroker):
    """A broker that lets in who signs with the key above."""

    def _answer_17(self, asked: Asked) -> dict[str, Any]:
        return {"error_code": 0 if asked.fields.mechanism == MECHANISM else 33, "mechanisms": [MECHANISM]}

    def _answer_36(self, asked: Asked) -> dict[str, Any]:
        sent = json.loads(asked.fields.auth_bytes)
        is_right = sent | {"user-agent": "kafka-python"} == signed("127.0.0.1", sent["x-amz-date"], TOKEN)
        said = {"error_code": 0 if is_right else 58, "auth_bytes": b'{"version": "2020_10_22", "request-id": "x"}'}
        return super()._answer_36(asked) | said


@pytest.mark.parametrize("secret", [SECRET, "another"])
def test_a_broker_checks_the_signature(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    key = {"ACCESS_KEY_ID": "AKIDEXAMPLE", "SECRET_ACCESS_KEY": secret, "SESSION_TOKEN": TOKEN, "REGION": "eu-west-1"}
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    for name, value in key.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server)
    tls = Tls(ca=certificates.authority.read_text())
    config = ClientConfig(security_protocol="SASL_SSL", credentials=MskIam(), tls=tls)
    with serving(Msk(tls=context)) as broker:
        if secret == SECRET:
            KafkaGateway.connect(broker.address, config).close()
            return
        with pytest.raises(AuthenticationError) as caught:
            KafkaGateway.connect(broker.address, config)
    assert str(caught.value).partition(": ")[2] == (
        f"{broker.address} did not accept the AWS credentials of this process (AWS_MSK_IAM); check that the policy"
        " allows kafka-cluster:Connect, that the credentials have not expired, and the clock of this machine."
    )
