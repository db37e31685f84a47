"""Who asks a Prometheus."""

from __future__ import annotations

import pytest

from quotaform.model.errors import UsageError
from quotaform.usage.record.reader import NO_LOGIN, PrometheusLogin

PREFIX = "QUOTAFORM_PROMETHEUS_"


def login(**values: str) -> PrometheusLogin:
    return PrometheusLogin.from_environment({f"{PREFIX}{name}": value for name, value in values.items()})


@pytest.mark.parametrize(
    ("values", "sent"),
    [
        ({}, {}),
        ({"TOKEN": "", "USER": ""}, {}),
        ({"TOKEN": "abc"}, {"Authorization": "Bearer abc"}),
        ({"USER": "Aladdin", "PASSWORD": "open sesame"}, {"Authorization": "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="}),
    ],
)
def test_a_token_or_a_user_is_sent_as_a_secret(values: dict[str, str], sent: dict[str, str]) -> None:
    found = login(**values)
    assert {name: secret.reveal() for name, secret in found.credentials.items()} == sent
    assert found.headers == {}
    assert not any(value and value in repr(found) for value in values.values())


def test_a_tenant_is_sent_as_all_servers_with_tenants_read_it() -> None:
    assert login(TENANT="team-a") == PrometheusLogin({}, {"X-Scope-OrgID": "team-a", "THANOS-TENANT": "team-a"})
    assert login() == NO_LOGIN


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"TOKEN": "hidden", "USER": "a", "PASSWORD": "hidden"}, "are both set; unset one of them"),
        ({"USER": "a"}, "set both, or none of them"),
        ({"PASSWORD": "hidden"}, "set both, or none of them"),
        ({"USER": "a:b", "PASSWORD": "hidden"}, "contains a colon"),
        ({"TENANT": "a\r\nX: y"}, "a character that a header cannot have"),
    ],
)
def test_what_cannot_be_sent_is_refused(values: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said) as error:
        login(**values)
    assert "hidden" not in str(error.value)
