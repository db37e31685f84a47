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

TOKEN_VARIABLE: Final = "QUOTAFORM_PROMETHEUS_TOKEN"  # noqa: S105 (the name of a variable)
USER_VARIABLE: Final = "QUOTAFORM_PROMETHEUS_USER"
PASSWORD_VARIABLE: Final = "QUOTAFORM_PROMETHEUS_PASSWORD"  # noqa: S105 (the name of a variable)
TENANT_VARIABLE: Final = "QUOTAFORM_PROMETHEUS_TENANT"

GIVE: Final = f"give a token in {TOKEN_VARIABLE}, or {USER_VARIABLE} and {PASSWORD_VARIABLE}"
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
        """Return what the variables say.

        Raises:
            UsageError: They contradict each other, or one is missing.
        """
        token, user, password, tenant = (
            environment.get(name) for name in (TOKEN_VARIABLE, USER_VARIABLE, PASSWORD_VARIABLE, TENANT_VARIABLE)
        )
        if token and user:
            raise UsageError(f"{TOKEN_VARIABLE} and {USER_VARIABLE} are both set; unset one of them")
        if bool(user) != bool(password):
            raise UsageError(f"{USER_VARIABLE} and {PASSWORD_VARIABLE} are used together; set both, or none of them")
        if user and ":" in user:
            raise UsageError(f"{USER_VARIABLE} contains a colon, which a user cannot have over HTTP")
        if tenant and not (tenant.isascii() and tenant.isprintable()):
            raise UsageError(f"{TENANT_VARIABLE} contains a character that a header cannot have")
        credentials = {}
        if token:
            credentials[_AUTHORIZATION] = Secret(f"Bearer {token}")
        elif user:
            credentials[_AUTHORIZATION] = Secret("Basic " + b64encode(f"{user}:{password}".encode()).decode())
        return cls(credentials, dict.fromkeys(_TENANT_HEADERS, tenant) if tenant else {})


NO_LOGIN: Final = PrometheusLogin({}, {})
