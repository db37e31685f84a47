"""Where OAuth tokens come from, how long they are used, and what is checked before a broker gets one.

As in Kafka's Java client (KIP-768, KIP-1139; `org.apache.kafka.common.security.oauthbearer`), except for the command.
"""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from re import ASCII
from re import compile as regex
from time import monotonic, sleep, time
from typing import Any, Final

from quotaform.cluster.client.tls import Tls
from quotaform.cluster.sasl.assertion import Assertion, SecretFile, encode
from quotaform.cluster.wire.failure import LoginError
from quotaform.errors import HttpError
from quotaform.http.client import Limits, send
from quotaform.http.message import Request, Response, Url, form_value
from quotaform.http.retry import Retry, send_again
from quotaform.model.secret import Secret
from quotaform.model.text import inert
from quotaform.model.variable import OwnSecret

_LONGEST_MESSAGE: Final = 200
_JWT: Final = regex(r"[\w-]{8,}\.[\w-]{8,}\.[\w-]*")
_TOKEN: Final = regex(r"[\w-]+\.[\w-]+\.[\w-]*", ASCII).fullmatch
_JWT_BEARER: Final = "urn:ietf:params:oauth:{}:jwt-bearer"
_COMMAND_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A token endpoint (RFC 6749, section 4.4; RFC 7523).

    Attributes:
        url: Its URL: https, or this machine.
        shown: What messages call it.
        client_id: The id of the client, if it has one.
        client_secret: The secret of the client; `None` with an assertion.
        assertion: What shows who the client is, instead.
        is_grant: Whether the assertion stands for the authorization, and not for the client's secret.
        scope: What is asked for.
        is_urlencoded: Whether id and secret are encoded as in forms (RFC 6749, section 2.3.1).
        tls: What is trusted and shown.
        limits: How long a request may take.
        backoff: Seconds after the first failure.
        patience: Seconds after which nothing is sent again, as in Java's client.
    """

    url: Url
    shown: str
    client_id: str | None
    client_secret: Secret | None
    assertion: Assertion | SecretFile | None
    is_grant: bool
    scope: str | None
    is_urlencoded: bool
    tls: Tls
    limits: Limits
    backoff: float
    patience: float

    @property
    def what(self) -> str:
        """What messages call it."""
        return f"the token endpoint {self.shown}"

    def fetch(self) -> str:
        """Ask for a token, again while that may help.

        Raises:
            LoginError: There is none.
        """
        request, secrets = self._request()
        retry = Retry(
            sleep=sleep,
            monotonic=monotonic,
            now=lambda: datetime.now(UTC),
            attempts=100,
            first_wait=self.backoff,
            longest_wait=self.patience,
            total=self.patience,
            limited_wait=0.0,
        )
        context = self.tls.context() if self.url.scheme == "https" else None
        try:
            response = send_again(request, lambda sent: send(sent, self.limits, context=context), retry)
            if not response.is_success:
                raise self._refused(response, secrets)
            answer = response.json()
        except HttpError as error:
            problem, _, remedy = error.problem.rpartition("; ")
            if remedy.startswith("give the CA"):
                remedy += " with ssl.truststore.location in sasl.jaas.config"
            fallback = "check sasl.oauthbearer.token.endpoint.url, or try again later"
            raise LoginError(f"{self.what} {problem or remedy}", remedy if problem else fallback) from None
        token = answer.get("access_token") or answer.get("id_token") if isinstance(answer, dict) else None
        if not isinstance(token, str):
            raise LoginError(f"{self.what} gave no access_token", "check sasl.oauthbearer.token.endpoint.url")
        return token

    def _request(self) -> tuple[Request, list[str]]:
        """Return the request, and what must not be shown when the endpoint repeats it."""
        form = {"grant_type": "client_credentials", "scope": self.scope}
        credentials, secrets = {}, []
        if self.assertion is not None:
            made = self.assertion.fetch()
            secrets = [made]
            if self.is_grant:
                form |= {"grant_type": _JWT_BEARER.format("grant-type"), "assertion": made}
            else:
                kind = _JWT_BEARER.format("client-assertion-type")
                form |= {"client_id": self.client_id, "client_assertion_type": kind, "client_assertion": made}
        elif self.client_id is not None and self.client_secret is not None:
            login = [self.client_id, self.client_secret.reveal()]
            basic = b64encode(":".join(map(form_value, login) if self.is_urlencoded else login).encode()).decode()
            credentials = {"Authorization": Secret(f"Basic {basic}")}
            secrets = [self.client_secret.reveal(), basic]
        body = "&".join(f"{name}={form_value(value)}" for name, value in form.items() if value)
        headers = {
            "Accept": "application/json",
            "Cache-Control": "no-cache",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        # A second token does no harm.
        request = Request(
            method="POST",
            url=self.url,
            headers=headers,
            credentials=credentials,
            body=body.encode(),
            is_repeatable=True,
        )
        return request, secrets

    def _refused(self, response: Response, secrets: list[str]) -> LoginError:
        status = response.status
        try:
            content = response.json()
        except HttpError:  # Such as a page for people.
            content = None
        if not isinstance(content, dict):
            content = {}
        error = content.get("error") or content.get("errorCode")
        words = [error, content.get("error_description") or content.get("errorSummary")]
        said = redacted(": ".join(word for word in words if isinstance(word, str)), secrets)
        why = f"status {status}{f', {said}' if said else ''}"
        if status == 429 or status >= 500:
            return LoginError(f"{self.what} failed ({why})", "try again later")
        check = "check the assertion and its key" if self.assertion else "check client id and client secret"
        return LoginError(f"{self.what} refused to give a token ({why})", f"{check}, and the scope")


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the operator, whose output is a token; no shell has a part in it.

    Attributes:
        argv: The command with its arguments, which may be secret.
    """

    argv: tuple[Secret, ...]

    @property
    def what(self) -> str:
        """What messages call it."""
        return f"the command of {OwnSecret.TOKEN_COMMAND}"

    def fetch(self) -> str:
        """Run it and return what it prints.

        Raises:
            LoginError: It fails.
        """
        argv = [each.reveal() for each in self.argv]
        remedy = f"run it by hand, and correct {OwnSecret.TOKEN_COMMAND}"
        try:
            done = subprocess.run(  # noqa: S603 (the operator's own)
                argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_COMMAND_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise LoginError(f"{self.what} did not end within {_COMMAND_SECONDS:g} s", remedy) from None
        except (OSError, ValueError):
            raise LoginError(f"{self.what} cannot be run", remedy) from None
        output = done.stdout.decode(errors="replace").strip()
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            said = redacted(lines[-1] if lines else "", [output, *argv[1:]])
            raise LoginError(f"{self.what} failed (exit code {done.returncode}{f', {said}' if said else ''})", remedy)
        return output


@dataclass(frozen=True, slots=True)
class Unsecured:
    """Tokens without a signature, for brokers under development; they prove nothing (KIP-255).

    Attributes:
        claims: Their claims.
        lifetime: Seconds until they expire.
    """

    claims: tuple[tuple[str, str], ...]
    lifetime: int

    @property
    def what(self) -> str:
        """What messages call it."""
        return "sasl.jaas.config"

    def fetch(self) -> str:
        """Make one."""
        now = time()
        payload = {"exp": now + self.lifetime, "iat": now, **dict(self.claims)}
        return ".".join([*(encode(json.dumps(part).encode()) for part in ({"alg": "none"}, payload)), ""])


Source = Endpoint | Command | Unsecured | SecretFile
"""Each has `fetch`, which returns a token or raises `LoginError`, and `what` messages call it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """What Java's client requires of a token (`ClientJwtValidator`), and when it gets another one.

    Attributes:
        subject: The claim that names the user.
        scope: The claim with the scopes.
        skew: Seconds by which the clocks of issuer and broker may differ from this one.
        window: The part of its lifetime after which a token is replaced.
    """

    subject: str
    scope: str
    skew: int
    window: float


@dataclass(frozen=True, slots=True)
class _Kept:
    token: Secret
    renew_at: float
    expires: float


_KEPT: Final[dict[Source, _Kept]] = {}
"""Tokens of this process; others cost a request or the start of a command."""


def get_token(source: Source, rules: TokenRules) -> Secret:
    """Return a token that is valid for a while, the same as before if it is.

    Raises:
        LoginError: There is none, or none that can be used.
    """
    now = time()
    kept = _KEPT.get(source)
    if kept is not None and now < kept.renew_at:
        return kept.token
    try:
        text = source.fetch().strip()
        expires = _check(text, rules, now)
    except LoginError:
        if kept is not None and now < kept.expires:
            return kept.token
        raise
    except ValueError as error:
        raise LoginError(f"{source.what} gave a token that cannot be used: {error}", _REMEDY) from None
    token = Secret(text)
    if isinstance(source, (Endpoint, Command)):
        _KEPT[source] = _Kept(token, now + rules.window * (expires - now), expires)
    return token


_REMEDY: Final = "check what issues it, and the clock of this machine"


def forget_token(source: Source) -> None:
    """Use no longer what a broker does not accept."""
    _KEPT.pop(source, None)


def _check(text: str, rules: TokenRules, now: float) -> float:
    """Return when a token expires, in seconds since 1970.

    Raises:
        ValueError: It cannot be used; the message holds nothing of it.
    """
    if not _TOKEN(text):
        raise ValueError("it is not a JWT, which has three parts")
    try:
        payload = json.loads(b64decode(text.split(".")[1] + "==", altchars=b"-_"))
    except (ValueError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        raise ValueError("the claims of the JWT cannot be read")
    subject, expires = payload.get(rules.subject), payload.get("exp")
    if not isinstance(subject, str) or not subject.strip():
        raise ValueError(f"it has no claim {inert(rules.subject)} (sasl.oauthbearer.sub.claim.name)")
    if not _are_scopes(payload, rules.scope):
        raise ValueError(f"its claim {inert(rules.scope)} has an empty scope (sasl.oauthbearer.scope.claim.name)")
    if not isinstance(expires, (int, float)) or not 0 <= expires < 1e11:
        raise ValueError("it has no claim exp with the time when it expires")
    if expires + rules.skew < now:
        when = datetime.fromtimestamp(expires, UTC)
        raise ValueError(f"it expired at {when:%Y-%m-%d %H:%M:%S} UTC")
    return float(expires)


def _are_scopes(payload: Mapping[str, Any], claim: str) -> bool:
    scopes = payload.get(claim)
    listed = [scopes] if isinstance(scopes, str) else scopes if isinstance(scopes, list) else []
    return all(isinstance(scope, str) and scope.strip() for scope in listed)


def redacted(text: str, secrets: list[str]) -> str:
    """Return what others say as a short part of a line, without secrets and what looks like a token."""
    for secret in secrets:
        text = text.replace(secret, "***") if secret else text
    return inert(_JWT.sub("***", text)[:_LONGEST_MESSAGE].strip())
