"""AWS_MSK_IAM: signatures; `tests/golden/logins-msk.txt` has where keys come from, what is sent and answered."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Final

import pytest
from botocore.credentials import ReadOnlyCredentials

from quotaform.cluster.sasl.msk_iam import payload

BROKER: Final = "b-1.demo-cluster-1.abc.c2.kafka.eu-west-1.amazonaws.com"
SECRET, TOKEN = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "c4nary/Session+Token=="
NOW: Final = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)


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
