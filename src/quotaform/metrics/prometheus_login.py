"""Who asks a Prometheus, as far as it wants to know: a bearer token, or a user and a password, and a tenant.

They are in variables alone: what stands on a command line is seen by others.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from quotaform.errors import UsageError
from quotaform.model.secret import Secret
from quotaform.model.variable import OwnSecret

_TOKEN: Final = OwnSecret.PROMETHEUS_TOKEN
_USER: Final = OwnSecret.PROMETHEUS_USER
_PASSWORD: Final = OwnSecret.PROMETHEUS_PASSWORD
_TENANT: Final = OwnSecret.PROMETHEUS_TENANT

GIVE: Final = f"give a token in {_TOKEN}, or {_USER} and {_PASSWORD}"
"""What to do if a Prometheus refuses an answer."""

_TENANT_HEADERS: Final = ("X-Scope-OrgID", "THANOS-TENANT")
"""What Mimir, Cortex and Thanos read."""
_AUTHORIZATION: Final = "Authorization"


@dataclass(frozen=True, slots=True)
class PrometheusLogin:
    """What is sent with each request.

    Attributes:
        credentials: Headers that nobody may see.
        headers: Headers that anybody may see.
    """

    credentials: Mapping[str, Secret]
    headers: Mapping[str, str]

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Return what the variables say. Raises `UsageError` if they contradict each other, or one is missing."""
        token, user, password, tenant = map(environment.get, (_TOKEN, _USER, _PASSWORD, _TENANT))
        if token and user:
            raise UsageError(f"{_TOKEN} and {_USER} are both set; unset one of them")
        if bool(user) != bool(password):
            raise UsageError(f"{_USER} and {_PASSWORD} are used together; set both, or none of them")
        if user and ":" in user:
            raise UsageError(f"{_USER} contains a colon, which a user cannot have over HTTP")
        if tenant and not (tenant.isascii() and tenant.isprintable()):
            raise UsageError(f"{_TENANT} contains a character that a header cannot have")
        credentials = {}
        if token:
            credentials[_AUTHORIZATION] = Secret(f"Bearer {token}")
        elif user:
            credentials[_AUTHORIZATION] = Secret("Basic " + b64encode(f"{user}:{password}".encode()).decode())
        return cls(credentials, dict.fromkeys(_TENANT_HEADERS, tenant) if tenant else {})


NO_LOGIN: Final = PrometheusLogin({}, {})
