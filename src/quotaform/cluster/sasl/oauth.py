"""OAUTHBEARER (RFC 7628, KIP-255, KIP-342): reads the properties of Java's client, and sends a token to a broker."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from re import compile as regex
from typing import Final

from quotaform.cluster.client.client_properties import ClientProperties
from quotaform.cluster.client.jaas import parse_jaas, read_jaas
from quotaform.cluster.client.java_properties import Property
from quotaform.cluster.client.tls_properties import read_tls
from quotaform.cluster.sasl.assertion import ALGORITHMS, Assertion, SecretFile
from quotaform.cluster.sasl.credentials import Exchange
from quotaform.cluster.sasl.token_source import (
    Command,
    Endpoint,
    Source,
    TokenRules,
    Unsecured,
    forget_token,
    get_token,
)
from quotaform.cluster.wire.failure import CodeError, LoginError, RefusedError
from quotaform.errors import ConnectError, QuotaformError
from quotaform.executable import find_executable
from quotaform.http.client import DEFAULT_LIMITS, Limits
from quotaform.http.message import Url, file_of
from quotaform.model.secret import Secret
from quotaform.model.server import Server
from quotaform.model.text import quote
from quotaform.model.variable import OwnSecret

_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
_HANDLER, _RETRIEVER = "sasl.login.callback.handler.class", "sasl.oauthbearer.jwt.retriever.class"
_URL, _JAAS = "sasl.oauthbearer.token.endpoint.url", "sasl.jaas.config"
_ASSERTION, _CREDENTIALS = "sasl.oauthbearer.assertion.", "sasl.oauthbearer.client.credentials.client."
_UNSECURED: Final = "internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
_CLASSES: Final = {
    _HANDLER: ("OAuthBearerLoginCallbackHandler", "secured.OAuthBearerLoginCallbackHandler", _UNSECURED),
    _RETRIEVER: (
        "DefaultJwtRetriever",
        "ClientCredentialsJwtRetriever",
        "JwtBearerJwtRetriever",
        "FileJwtRetriever",
    ),
    "sasl.oauthbearer.jwt.validator.class": ("DefaultJwtValidator", "ClientJwtValidator"),
}
"""Kafka's own classes, of which others are kinds; the first of each is the usual one."""
_FORM: Final = (
    f'write: {_JAAS}={_PACKAGE}OAuthBearerLoginModule required clientId="ID" clientSecret="SECRET";'
    f" with {_URL} (https or file), or give a command in {OwnSecret.TOKEN_COMMAND}"
)
_EXTENSIONS, _CLAIM = ("extension_", "unsecuredLoginExtension_"), "unsecuredLoginStringClaim_"
_NAME: Final = regex(r"(?!auth$)[A-Za-z]+").fullmatch
_NUMBER: Final = regex(r"[0-9]{1,10}").fullmatch
_VALUE: Final = regex(r"[\x21-\x7e \t\r\n]+").fullmatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearer:
    """A source of tokens, and what is sent with them.

    Attributes:
        source: Where tokens come from.
        rules: What is required of them.
        extensions: Names and values that are sent to the broker (KIP-342).
        who: What messages call the client.
        properties: The `sasl.*` properties as a Java client needs them.
    """

    source: Source
    rules: TokenRules
    extensions: tuple[tuple[str, Secret], ...]
    who: str
    properties: tuple[tuple[str, Secret], ...]
    mechanism = "OAUTHBEARER"
    check = "check issuer, audience and lifetime of its tokens; the log of the broker says what it does not accept"

    def exchange(self, host: str) -> Exchange:
        """Begin to authenticate, with a token that may be asked for first."""
        token = get_token(self.source, self.rules)
        pairs = [("auth", f"Bearer {token.reveal()}"), *((name, value.reveal()) for name, value in self.extensions)]
        message = "\1".join(["n,,", *(f"{name}={value}" for name, value in pairs), "", ""])
        said = ""
        try:
            challenge = yield message.encode()
            if not challenge:
                return
            said = _status(challenge)
            yield b"\1"
        except CodeError as error:
            forget_token(self.source)
            raise RefusedError(error.code, said) from None

    def java_properties(self) -> dict[str, str]:
        """Return the properties of a Java client."""
        if isinstance(self.source, Command):
            raise QuotaformError(f"A Java client has no {OwnSecret.TOKEN_COMMAND}; give it {_URL}.")
        if isinstance(self.source, Endpoint):
            server = Server(self.source.url.host, self.source.url.port)
            if problem := server.problem(os.environ):
                raise ConnectError(f"{self.source.shown} {problem}")
        return {name: value.reveal() for name, value in self.properties}


def _status(challenge: bytes) -> str:
    """Return what a broker says about a token it does not accept, such as `invalid_token` (RFC 7628, section 3.2.2)."""
    try:
        return quote(str(json.loads(challenge)["status"]))
    except (ValueError, RecursionError, LookupError, TypeError):
        return quote(challenge.decode(errors="replace"))


def read(reader: ClientProperties, mechanism: str) -> Bearer | None:
    """Return what the properties say; `None` after a problem was reported."""
    before = len(reader.problems)
    options = read_jaas(reader, ("OAuthBearerLoginModule",), _FORM)
    if options is None:
        return None
    source, who = _read_source(reader, options)
    rules = TokenRules(
        subject=reader.get("sasl.oauthbearer.sub.claim.name") or "sub",
        scope=reader.get("sasl.oauthbearer.scope.claim.name") or "scope",
        skew=_number(reader, "sasl.oauthbearer.clock.skew.seconds", 30),
        window=_window(reader),
    )
    extensions = _read_extensions(reader, options)
    if source is None or len(reader.problems) > before:
        return None
    keys = [key for key in reader.keys if key.startswith("sasl.") and reader.has(key)]
    java = {_HANDLER: _PACKAGE + _CLASSES[_HANDLER][0]} if not isinstance(source, Unsecured) else {}
    java |= {key: reader.get(key) or "" for key in keys}
    secret = tuple((key, Secret(value)) for key, value in java.items())
    return Bearer(source=source, rules=rules, extensions=extensions, who=who, properties=secret)


def _read_source(reader: ClientProperties, options: Mapping[str, str]) -> tuple[Source | None, str]:
    url, handler = reader.get(_URL), (reader.get(_HANDLER) or "").removeprefix(_PACKAGE)
    command = reader.environ.get(OwnSecret.TOKEN_COMMAND)
    unsecured = handler == _UNSECURED or any(name.startswith("unsecuredLogin") for name in options)
    if command and not url and not unsecured:
        return _read_command(reader, command), f"the token of {OwnSecret.TOKEN_COMMAND}"
    for key, classes in _CLASSES.items():
        given = reader.get(key)
        if given and given not in {_PACKAGE + name for name in classes}:
            instead = f"set it to {_PACKAGE}{classes[0]}, or give a command in {OwnSecret.TOKEN_COMMAND} without {_URL}"
            reader.report(key, f"{key} names a Java class that quotaform does not have; {instead}")
    if unsecured:
        return _read_unsecured(reader, options)
    if not url:
        reader.report(_JAAS, f"{_URL} is missing; {_FORM}")
        return None, ""
    path = file_of(url)
    if path is not None:
        return _file(reader, _URL, path), f"the token of {_URL}"
    return _read_endpoint(reader, options, url)


def _read_command(reader: ClientProperties, command: str) -> Command | None:
    try:
        name, *arguments = shlex.split(command)
        # A relative path may lead into a repository, of which nothing is executed.
        program = Path(name) if Path(name).is_absolute() else find_executable(name, outside=reader.repository)
        if program is None or (Path(name).name != name and not Path(name).is_absolute()):
            raise ValueError
    except ValueError:
        reader.report(_JAAS, f"{OwnSecret.TOKEN_COMMAND} names no command; give its absolute path, or one on the PATH")
        return None
    return Command(tuple(map(Secret, [str(program), *arguments])))


def _read_unsecured(reader: ClientProperties, options: Mapping[str, str]) -> tuple[Source | None, str]:
    known = (_CLAIM, _EXTENSIONS[1], "unsecuredLoginLifetimeSeconds")
    claims = {name.removeprefix(_CLAIM): value for name, value in options.items() if name.startswith(_CLAIM)}
    lifetime = options.get("unsecuredLoginLifetimeSeconds", "3600")
    other = [name for name in options if name.startswith("unsecuredLogin") and not name.startswith(known)]
    if not claims.get("sub") or not lifetime.isdecimal() or len(lifetime) > 9 or other or {"exp", "iat"} & set(claims):
        reader.report(
            _JAAS,
            f'{_JAAS} cannot be used: an unsecured token needs {_CLAIM}sub="NAME", and may have other {_CLAIM}NAME but'
            " exp and iat, and unsecuredLoginLifetimeSeconds, a number; remove other options of this kind",
        )
        return None, ""
    return Unsecured(tuple(claims.items()), int(lifetime)), f"user {_shown(reader, f'{_CLAIM}sub')}"


def _read_endpoint(reader: ClientProperties, options: Mapping[str, str], written: str) -> tuple[Source | None, str]:
    try:
        url = Url.parse(written)
    except ValueError as error:
        reader.report(_URL, f"{_URL} cannot be used: {error}")
        return None, ""
    if url.scheme != "https" and not url.is_loopback:
        reader.report(_URL, f"{_URL} would receive the secret of the client unencrypted; use https")
    client_id = reader.get(f"{_CREDENTIALS}id") or options.get("clientId", "").strip() or None
    secret = reader.get(f"{_CREDENTIALS}secret") or options.get("clientSecret", "").strip() or None
    is_grant = (reader.get(_RETRIEVER) or "").endswith(".JwtBearerJwtRetriever")
    has_assertion = is_grant or reader.has(f"{_ASSERTION}file") or reader.has(f"{_ASSERTION}claim.iss")
    if not has_assertion and not (client_id and secret):
        reader.report(_JAAS, f"{_JAAS} has no clientId or no clientSecret; {_FORM}")
    connect = _number(reader, "sasl.login.connect.timeout.ms", int(DEFAULT_LIMITS.connect * 1000)) / 1000
    read_ms = _number(reader, "sasl.login.read.timeout.ms", 0)
    # The TLS of the endpoint is that of the options; the keys outside of them are for the broker.
    place = reader.location(_JAAS)
    inner = ClientProperties(
        [Property(name, value, place) for name, value in options.items() if name.startswith("ssl.")],
        {},
        source=place,
        folder=reader.folder,
        repository=reader.repository,
        within=reader.within,
    )
    endpoint = Endpoint(
        url=url,
        shown=url.origin if reader.written(_URL) == written else f"of {_URL}",
        client_id=client_id,
        client_secret=Secret(secret) if secret else None,
        assertion=_read_assertion(reader) if has_assertion else None,
        is_grant=is_grant,
        scope=reader.get("sasl.oauthbearer.scope") or options.get("scope", "").strip() or None,
        is_urlencoded=(reader.get("sasl.oauthbearer.header.urlencode") or "").lower() == "true",
        tls=read_tls(inner),
        limits=Limits(connect=connect, total=connect + read_ms / 1000 if read_ms else DEFAULT_LIMITS.total),
        backoff=_number(reader, "sasl.login.retry.backoff.ms", 100) / 1000,
        patience=_number(reader, "sasl.login.retry.backoff.max.ms", 10_000) / 1000,
    )
    reader.problems += inner.problems
    return endpoint, f"client {_shown(reader, 'clientId', f'{_CREDENTIALS}id')}"


def _read_assertion(reader: ClientProperties) -> Assertion | SecretFile | None:
    if ready := reader.get(f"{_ASSERTION}file"):
        return _file(reader, f"{_ASSERTION}file", ready)
    algorithm = reader.get(f"{_ASSERTION}algorithm") or ALGORITHMS[0]
    if algorithm not in ALGORITHMS:
        reader.report(f"{_ASSERTION}algorithm", f"{_ASSERTION}algorithm is not {' or '.join(ALGORITHMS)}")
    key, template = f"{_ASSERTION}private.key.file", f"{_ASSERTION}template.file"
    passphrase = reader.get(f"{_ASSERTION}private.key.passphrase")
    if not reader.has(key):
        reader.report(_RETRIEVER, f"{key} is missing, with which assertions are signed; add it, or {_ASSERTION}file")
        return None
    private = _file(reader, key, reader.get(key) or "")
    claims = {name: reader.get(f"{_ASSERTION}claim.{name}") for name in ("aud", "iss", "sub")}
    return private and Assertion(
        algorithm=algorithm,
        key=private,
        passphrase=Secret(passphrase) if passphrase else None,
        claims=tuple((name, value) for name, value in claims.items() if value),
        template=_file(reader, template, reader.get(template) or "") if reader.has(template) else None,
        lifetime=_number(reader, f"{_ASSERTION}claim.exp.seconds", 300),
        leeway=_number(reader, f"{_ASSERTION}claim.nbf.seconds", 60),
        has_id=(reader.get(f"{_ASSERTION}claim.jti.include") or "").lower() == "true",
    )


def _file(reader: ClientProperties, key: str, written: str) -> SecretFile | None:
    path = Path(written)
    if reader.folder is not None and not path.exists():
        path = reader.folder / path
    file = SecretFile(key, path, reader.within)
    try:
        file.fetch()
    except LoginError as error:
        reader.report(key, f"{error.problem}; {error.remedy}")
        return None
    return file


def _read_extensions(reader: ClientProperties, options: Mapping[str, str]) -> tuple[tuple[str, Secret], ...]:
    found = {}
    for option, value in options.items():
        if option.startswith(_EXTENSIONS):
            name = option.partition("_")[2]
            if not _NAME(name) or not _VALUE(value):
                reader.report(
                    _JAAS,
                    f"{_JAAS} cannot be used: the name of an extension is letters other than auth, its value printable"
                    " ASCII; correct the option",
                )
            found[name] = Secret(value)
    return tuple(found.items())


def _shown(reader: ClientProperties, option: str, key: str = "") -> str:
    """Return an option as it is written, or the property that wins over it, since a variable may hold it."""
    if key and reader.has(key):
        return reader.written(key)
    try:
        return parse_jaas(reader.written(_JAAS)).options[option]
    except (ValueError, KeyError):
        return f"of {_JAAS}"


def _number(reader: ClientProperties, key: str, default: int) -> int:
    value = reader.get(key)
    if value and not (_NUMBER(value) and int(value) < 2**31):
        reader.report(key, f"{reader.spell(key)} is not a number; write one from 0 to {2**31 - 1}")
        return default
    return int(value) if value else default


def _window(reader: ClientProperties) -> float:
    key = "sasl.login.refresh.window.factor"
    value = reader.get(key) or "0.8"
    try:
        window = float(value)
    except ValueError:
        window = 0
    if not 0.5 <= window <= 1:
        reader.report(key, f"{reader.spell(key)} is not a number from 0.5 to 1")
    return window
