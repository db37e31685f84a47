"""OAUTHBEARER (RFC 7628, KIP-255, KIP-342): reads the properties of Java's client, and sends a token to a broker."""

from __future__ import annotations

import json
import os
import shlex
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from re import compile as regex
from typing import Final

from msgspec import Struct

from quotaform.cluster.client.config import Exchange
from quotaform.cluster.client.properties import ClientProperties, is_number
from quotaform.cluster.client.tls import read_tls
from quotaform.cluster.sasl.jaas import read_jaas, render_jaas, shown_option
from quotaform.cluster.sasl.token_source import (
    ALGORITHMS,
    Assertion,
    Endpoint,
    SecretFile,
    TokenCommand,
    TokenSource,
    Unsecured,
    forget_token,
    get_token,
    mask,
)
from quotaform.cluster.wire.failure import SASL_FAILED, AttemptError, LoginError, code_error
from quotaform.http.client import Transport, Url, file_of, form_value
from quotaform.model.errors import ConnectError, QuotaformError
from quotaform.model.server import ALLOWED_HOSTS
from quotaform.model.text import Secret, quote
from quotaform.model.variable import OwnSecret
from quotaform.system.executable import find_executable
from quotaform.system.files import is_within

_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
_JAAS, _HANDLER = "sasl.jaas.config", "sasl.login.callback.handler.class"
_OAUTH: Final = "sasl.oauthbearer."
_URL, _RETRIEVER = f"{_OAUTH}token.endpoint.url", f"{_OAUTH}jwt.retriever.class"
_CLIENT, _ASSERTION = f"{_OAUTH}client.credentials.client.", f"{_OAUTH}assertion."
_KEYS: Final = {"clientId": f"{_CLIENT}id", "clientSecret": f"{_CLIENT}secret", "scope": f"{_OAUTH}scope"}
"""Options of the login module, and the keys of Kafka 4.1 that win over them."""
_LOGIN, _UNSECURED = f"{_PACKAGE}OAuthBearerLoginCallbackHandler", ".OAuthBearerUnsecuredLoginCallbackHandler"
_FORM: Final = (
    f'write: {_JAAS}={_PACKAGE}OAuthBearerLoginModule required clientId="ID" clientSecret="SECRET";'
    f" with {_URL} (https or file), or give a command in {OwnSecret.TOKEN_COMMAND}"
)
_EXTENSIONS, _CLAIM = ("extension_", "unsecuredLoginExtension_"), "unsecuredLoginStringClaim_"
_LIFETIME: Final = "unsecuredLoginLifetimeSeconds"
_LONGEST_PATIENCE: Final = 60.0
"""Seconds after which no request for a token is repeated: with weeks, a pull request would block a job of CI."""
_NAME: Final = regex(r"(?!auth$)[A-Za-z]+").fullmatch
_VALUE: Final = regex(r"[\x21-\x7e \t\r\n]+").fullmatch


class Bearer(Struct, frozen=True, kw_only=True):
    """A source of tokens, and what is sent with them."""

    source: TokenSource
    who: str
    subject: str  # the claim of a token that names the user
    skew: float  # seconds by which clocks may differ
    window: float  # the part of a token's lifetime after which it is replaced
    extensions: tuple[tuple[str, Secret], ...]  # what the broker gets with the token (KIP-342)
    properties: tuple[tuple[str, Secret], ...]
    mechanism = "OAUTHBEARER"
    check = "check issuer, audience and lifetime of its tokens; the log of the broker says what it does not accept"

    def exchange(self, host: str) -> Exchange:
        token = get_token(self.source, subject=self.subject, skew=self.skew, window=self.window)
        extensions = [f"{name}={value.reveal()}" for name, value in self.extensions]
        said = ""
        try:
            challenge = yield "\1".join(["n,,", f"auth=Bearer {token.reveal()}", *extensions, "", ""]).encode()
            if challenge:
                # Such as invalid_token (RFC 7628, section 3.2.2).
                try:
                    status = str(json.loads(challenge)["status"])
                except (ValueError, RecursionError, LookupError, TypeError):
                    status = challenge.decode(errors="replace")
                said = quote(mask(status, [token.reveal(), *(value.reveal() for _, value in self.extensions)]))
                yield b"\1"
                raise code_error(SASL_FAILED)
        except AttemptError:
            forget_token(self.source)
            raise code_error(SASL_FAILED, said) from None

    def java_properties(self) -> dict[str, str]:
        if isinstance(self.source, TokenCommand):
            raise QuotaformError(f"A Java client has no {OwnSecret.TOKEN_COMMAND}; give it {_URL}.")
        if isinstance(self.source, Endpoint):
            if self.source.assertion:
                raise QuotaformError(
                    f"Spark's connector has no {_ASSERTION}*; give it a client secret, or a file in {_URL}."
                )
            if problem := self.source.url.server.problem(os.environ):
                raise ConnectError(f"{self.source.what} {problem}")
        return {name: value.reveal() for name, value in self.properties}


def read(reader: ClientProperties, mechanism: str) -> Bearer:
    """Return what the properties say."""
    options = read_jaas(reader, ("OAuthBearerLoginModule",), _FORM)
    skew = reader.number(f"{_OAUTH}clock.skew.seconds", 30)
    window = reader.number("sasl.login.refresh.window.factor", 0.8, 0.5, 1)
    extensions = {name.partition("_")[2]: value for name, value in options.items() if name.startswith(_EXTENSIONS)}
    if not all(_NAME(name) and _VALUE(value) for name, value in extensions.items()):
        rule = "letters other than auth, its value printable ASCII; correct the option"
        reader.report(_JAAS, f"{_JAAS} cannot be used: the name of an extension is {rule}")
    source, who = _read_source(reader, options)
    given = {key: reader.get(key) or "" for key in reader.keys if key.startswith("sasl.") and reader.has(key)}
    # Spark's connector has a client of Kafka 3.9, which knows the options alone.
    if newer := {name: value for name, key in _KEYS.items() if (value := given.get(key))}:
        given[_JAAS] = render_jaas(f"{_PACKAGE}OAuthBearerLoginModule", options | newer)
    if isinstance(source, SecretFile):
        given[_URL] = source.path.as_uri()
    handler = {} if isinstance(source, Unsecured) else {_HANDLER: _LOGIN}
    return Bearer(
        source=source,
        who=who,
        subject=reader.get(f"{_OAUTH}sub.claim.name") or "sub",
        skew=skew,
        window=window,
        extensions=tuple((name, Secret(value)) for name, value in extensions.items()),
        properties=tuple((key, Secret(value)) for key, value in (handler | given).items()),
    )


def _read_source(reader: ClientProperties, options: Mapping[str, str]) -> tuple[TokenSource, str]:
    """Return where tokens come from, and what messages call the client."""
    url, command = reader.get(_URL), reader.environ.get(OwnSecret.TOKEN_COMMAND)
    is_unsecured = any(name.startswith("unsecuredLogin") for name in options)
    if command and not url and not is_unsecured:
        return _read_command(reader, command), f"the token of {OwnSecret.TOKEN_COMMAND}"
    for key in (_HANDLER, _RETRIEVER, f"{_OAUTH}jwt.validator.class"):
        if not (reader.get(key) or _PACKAGE).startswith(_PACKAGE):
            instead = f"use one of {_PACKAGE}*, or give a command in {OwnSecret.TOKEN_COMMAND} without {_URL}"
            reader.report(key, f"{key} names a Java class that quotaform does not have; {instead}")
    if is_unsecured or (reader.get(_HANDLER) or "").endswith(_UNSECURED):
        claims = {name.removeprefix(_CLAIM): value for name, value in options.items() if name.startswith(_CLAIM)}
        lifetime, known = options.get(_LIFETIME, "3600"), (_CLAIM, _EXTENSIONS[1], _LIFETIME)
        has_other = any(name.startswith("unsecuredLogin") and not name.startswith(known) for name in options)
        if not claims.get("sub") or not is_number(lifetime) or has_other or claims.keys() & {"exp", "iat"}:
            raise reader.refused(
                _JAAS,
                f'{_JAAS} cannot be used: an unsecured token needs {_CLAIM}sub="NAME", and may have other {_CLAIM}NAME'
                f" but exp and iat, and {_LIFETIME}, a number; remove other options of this kind",
            )
        source = Unsecured(tuple(claims.items()), int(float(lifetime)))
        return source, f"user {shown_option(reader, f'{_CLAIM}sub')}"
    if not url:
        raise reader.refused(_JAAS, f"{_URL} is missing; {_FORM}")
    if (path := file_of(url)) is not None:
        return _file(reader, _URL, path), f"the token of {_URL}"
    key = f"{_CLIENT}id"
    client = reader.written(key) if reader.has(key) else shown_option(reader, "clientId")
    return _read_endpoint(reader, options), f"client {client}"


def _read_command(reader: ClientProperties, command: str) -> TokenCommand:
    try:
        name, *arguments = shlex.split(command)
        # A relative path may lead into a repository, of which nothing is executed.
        is_name = Path(name).name == name
        program = find_executable(name, outside=reader.repository) if is_name else Path(name)
        if program is None or not program.is_absolute():
            raise ValueError
    except ValueError:
        raise reader.refused(
            _JAAS, f"{OwnSecret.TOKEN_COMMAND} names no command; give its absolute path, or one on the PATH"
        ) from None
    if reader.within is not None and ALLOWED_HOSTS not in reader.environ:
        reader.report(
            _JAAS,
            f"the token of {OwnSecret.TOKEN_COMMAND} would be sent to the servers that this repository names; list"
            f" their hosts in {ALLOWED_HOSTS}, or keep these properties outside of it",
        )
    return TokenCommand(tuple(map(Secret, [str(program), *arguments])))


def _read_endpoint(reader: ClientProperties, options: Mapping[str, str]) -> Endpoint:
    try:
        url = Url.parse(reader.get(_URL) or "")
    except ValueError as error:
        raise reader.refused(
            _URL, f"{_URL} cannot be used: {error} (or file:///PATH for a file with a token)"
        ) from None
    if url.scheme != "https" and not url.is_loopback:
        reader.report(_URL, f"{_URL} would receive the secret of the client unencrypted; use https")
    client, secret, scope = (reader.get(key) or options.get(name, "").strip() for name, key in _KEYS.items())
    form, login, assertion = {"grant_type": "client_credentials", "scope": scope}, None, None
    is_grant = (reader.get(_RETRIEVER) or "").endswith(".JwtBearerJwtRetriever")
    if is_grant or reader.has(f"{_ASSERTION}file") or reader.has(f"{_ASSERTION}claim.iss"):
        assertion, standard = _read_assertion(reader), "urn:ietf:params:oauth:{}:jwt-bearer"
        kind = standard.format("client-assertion-type")
        form |= {"grant_type": standard.format("grant-type")} if is_grant else {}
        form |= {} if is_grant else {"client_id": client, "client_assertion_type": kind}
    elif client and secret:
        is_encoded = (reader.get(f"{_OAUTH}header.urlencode") or "").lower() == "true"
        login = b64encode(":".join(map(form_value, (client, secret)) if is_encoded else (client, secret)).encode())
    else:
        reader.report(_JAAS, f"{_JAAS} has no clientId or no clientSecret; {_FORM}")
    connect = reader.number("sasl.login.connect.timeout.ms", 0) / 1000 or Transport().connect
    wait = reader.number("sasl.login.read.timeout.ms", 0) / 1000
    hidden = [secret, form_value(secret), login.decode()] if login else []
    return Endpoint(
        url=url,
        what=f"the token endpoint {url.origin if reader.written(_URL) == reader.get(_URL) else f'of {_URL}'}",
        form=tuple((name, value) for name, value in form.items() if value),
        login=Secret(f"Basic {login.decode()}") if login else None,
        secrets=tuple(map(Secret, hidden)),
        assertion=("assertion" if is_grant else "client_assertion", assertion) if assertion else None,
        tls=read_tls(reader.inside(_JAAS, options)),
        connect=connect,
        total=connect + wait if wait else Transport().total,
        backoff=reader.number("sasl.login.retry.backoff.ms", 100) / 1000,
        patience=min(reader.number("sasl.login.retry.backoff.max.ms", 10_000) / 1000, _LONGEST_PATIENCE),
    )


def _read_assertion(reader: ClientProperties) -> Assertion | SecretFile:
    if ready := reader.get(f"{_ASSERTION}file"):
        return _file(reader, f"{_ASSERTION}file", ready)
    algorithm = reader.get(f"{_ASSERTION}algorithm") or ALGORITHMS[0]
    if algorithm not in ALGORITHMS:
        reader.report(f"{_ASSERTION}algorithm", f"{_ASSERTION}algorithm is not {' or '.join(ALGORITHMS)}")
    template = reader.get(f"{_ASSERTION}template.file")
    if not (key := reader.get(f"{_ASSERTION}private.key.file")):
        raise reader.refused(_RETRIEVER, f"{_ASSERTION}private.key.file is missing; add it, or {_ASSERTION}file")
    passphrase = reader.get(f"{_ASSERTION}private.key.passphrase")
    claims = {name: reader.get(f"{_ASSERTION}claim.{name}") for name in ("aud", "iss", "sub")}
    return Assertion(
        algorithm=algorithm,
        passphrase=Secret(passphrase) if passphrase else None,
        claims=tuple((name, value) for name, value in claims.items() if value),
        lifetime=int(reader.number(f"{_ASSERTION}claim.exp.seconds", 300)),
        leeway=int(reader.number(f"{_ASSERTION}claim.nbf.seconds", 60)),
        has_id=(reader.get(f"{_ASSERTION}claim.jti.include") or "").lower() == "true",
        key=_file(reader, f"{_ASSERTION}private.key.file", key),
        template=_file(reader, f"{_ASSERTION}template.file", template) if template else None,
    )


def _file(reader: ClientProperties, key: str, written: str) -> SecretFile:
    places = (Path(written), (reader.folder or Path()) / written)
    found = [place for place in places if os.path.exists(place)]  # noqa: PTH110 (one that is no path is no error)
    allowed = [place for place in found if reader.within is None or is_within(place, reader.within)]
    # Absolute, as executors of Spark open it too.
    path, within = [*allowed, *found, places[1]][0].absolute(), reader.within and reader.within.absolute()
    file = SecretFile(key, path, within)
    try:
        file.fetch()
    except LoginError as error:
        raise reader.refused(key, f"{error.problem}; {error.remedy}") from None
    return file
