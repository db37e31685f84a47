"""AWS_MSK_IAM: signatures, and where keys come from; `tests/golden/logins-msk.txt` has what is sent and answered."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest
from botocore.credentials import ReadOnlyCredentials

from quotaform.cluster.client.reader import from_properties
from quotaform.cluster.sasl import msk_iam
from quotaform.cluster.sasl.msk_iam import MskIam, payload
from quotaform.cluster.wire.failure import LoginError
from tests.golden.test_logins import sts_answer
from tests.http_server import HttpServer, answer

ROLE: Final = "arn:aws:iam::123456789012:role/quotas"
BROKER: Final = "b-1.demo-cluster-1.abc.c2.kafka.eu-west-1.amazonaws.com"
MODULE: Final = "software.amazon.msk.auth.iam.IAMLoginModule"
SECRET, TOKEN = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "c4nary/Session+Token=="
NOW: Final = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)


@pytest.fixture(autouse=True)
def no_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Take away what this machine knows of AWS."""
    for name in [*os.environ]:
        if name.startswith("AWS_") or name.lower().endswith("_proxy") or name == "QUOTAFORM_ALLOWED_HOSTS":
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setattr(msk_iam, "_temporary", {})


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Give the process an access key."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    return monkeypatch


def credentials(options: str = "", **environ: str) -> MskIam:
    line = {"sasl.jaas.config": f"{MODULE} required {options};"}
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM", **line}
    read = from_properties(given, environ=environ).credentials
    assert isinstance(read, MskIam)
    return read


def sent(source: MskIam) -> dict[str, str]:
    """Return the message that a broker is sent."""
    return json.loads(next(source.exchange(BROKER)))  # type: ignore[no-any-return]


@pytest.mark.parametrize("token", [None, TOKEN])
def test_the_message_is_that_of_kafka_python(token: str | None) -> None:
    from kafka.net.sasl.msk import AwsMskIamClient

    theirs = AwsMskIamClient(BROKER, "AKIDEXAMPLE", SECRET, "eu-west-1", token)
    theirs.datestamp, theirs.timestamp = "20150830", "20150830T123600Z"
    expected = json.loads(theirs.first_message())

    zoned = NOW.astimezone(tz=None)
    message = json.loads(
        payload(ReadOnlyCredentials("AKIDEXAMPLE", SECRET, token), host=BROKER, region="eu-west-1", now=zoned)
    )
    assert message.pop("user-agent").startswith("quotaform/")
    assert message | {"user-agent": "kafka-python"} == expected


def test_a_container_is_asked_for_its_credentials_whatever_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    keys = {"AccessKeyId": "ASIATEMPORARY", "SecretAccessKey": SECRET, "Token": TOKEN, "Expiration": until}
    monkeypatch.setenv("QUOTAFORM_ALLOWED_HOSTS", "*.amazonaws.com")
    with HttpServer(lambda request: answer(200, keys)) as container:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{container.url}/keys")
        assert sent(credentials())["x-amz-signature"]
        assert sent(credentials())["x-amz-credential"].startswith("ASIATEMPORARY/")
    assert len(container.received) == 1


def test_a_profile_is_read_again_each_time(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    for name in ("AKIDONE", "AKIDTWO"):
        file.write_text(f"[ci]\naws_access_key_id={name}\naws_secret_access_key={SECRET}\n")
        assert sent(credentials('awsProfileName="ci"'))["x-amz-credential"].startswith(f"{name}/")


def test_without_the_extra_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(LoginError) as caught:
        sent(credentials())
    assert caught.value.problem == "AWS_MSK_IAM needs botocore"
    assert caught.value.remedy.startswith("quotaform was installed without its extra aws")


def test_nothing_shows_a_secret(
    keys: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    keys.setenv("AWS_SESSION_TOKEN", TOKEN)
    source = credentials(
        'awsRoleArn="${env:QUOTAFORM_X}" awsRoleExternalId="c4nary"', QUOTAFORM_ENV="QUOTAFORM_X", QUOTAFORM_X=ROLE
    )
    assert source.who == "the IAM role of sasl.jaas.config"
    with caplog.at_level(logging.DEBUG), HttpServer(lambda request: sts_answer(request, "3600")) as sts:
        keys.setenv("AWS_ENDPOINT_URL_STS", sts.url)
        exchange = source.exchange(BROKER)
        next(exchange)
        shown = f"{source!r} {source.who} {source.check} {exchange!r} {caplog.text} {capfd.readouterr()}"
    for secret in (SECRET, TOKEN, "c4nary", "123456789012"):
        assert secret not in shown
