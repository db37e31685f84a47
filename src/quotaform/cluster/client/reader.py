"""Reads Java client properties as a `ClientConfig`, with the one table of SASL mechanisms.

The file is the one that Kafka's own commands take as `--command-config`. An unsupported setting is an error that names
the line; only keys without effect here are ignored (`quotaform.cluster.client.properties`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from quotaform.cluster.client.config import ClientConfig, Credentials
from quotaform.cluster.client.properties import ClientProperties, Property, parse_properties, provider_folder
from quotaform.cluster.client.tls import read_tls
from quotaform.cluster.sasl import kerberos, msk_iam, password
from quotaform.model import rule
from quotaform.model.errors import FileReadError, InvalidFilesError
from quotaform.model.finding import Finding, Location, by_place
from quotaform.model.server import Server, parse_servers
from quotaform.system.files import PROPERTIES_LIMIT, read_bytes, trusted_folder

Read = Callable[[ClientProperties, str], Credentials]
"""Returns the credentials that properties describe for a mechanism; they count if no problem was reported."""


def _read_oauth(reader: ClientProperties, mechanism: str) -> Credentials:
    handler = "sasl.login.callback.handler.class"
    if (reader.get(handler) or "").startswith(msk_iam.PACKAGE):
        raise reader.refused(
            handler, f"{handler} is not supported: for IAM set sasl.mechanism={msk_iam.MECHANISM}; {msk_iam.FORM}"
        )
    from quotaform.cluster.sasl import oauth  # needs HTTP, which takes a while to load

    return oauth.read(reader, mechanism)


MECHANISMS: Final[Mapping[str, Read]] = {
    "PLAIN": password.read,
    "SCRAM-SHA-256": password.read,
    "SCRAM-SHA-512": password.read,
    msk_iam.MECHANISM: msk_iam.read,
    "GSSAPI": kerberos.read,
    "OAUTHBEARER": _read_oauth,
}


PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
CANONICAL: Final = "resolve_canonical_bootstrap_servers_only"
LOOKUPS: Final = ("use_all_dns_ips", CANONICAL, "default")
"""The values of client.dns.lookup; the last one, of old clients, means here what the first does."""


def load_client_config(
    path: str | Path,
    *,
    overrides: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    repository: Path | None = None,
    name: str | None = None,
    named_at: tuple[str, Location] | None = None,
) -> ClientConfig:
    """Read a client properties file.

    The file is UTF-8 or else ISO 8859-1; `overrides` win over its properties. Links must not lead out of
    `repository`, the folder of the repository that names the file (`None`: the operator names it). `named_at` is
    the field that names it, if that is in another file. Raises `InvalidFilesError` with all its problems, each with its
    line, if it cannot be read or used.
    """
    file, problems = name or str(path), list[Finding]()
    try:
        within = None if repository is None else trusted_folder(path, repository)
        content = read_bytes(path, PROPERTIES_LIMIT, within=within)
    except FileReadError as error:
        why = "there is no such file" if error.is_missing else f"it cannot be read: {error.reason}"
        place = Location(file)
        if named_at is not None:
            why, place = f"{named_at[0]} {file}: {why}", named_at[1]
        raise InvalidFilesError([rule.CLIENT_PROPERTIES.finding(why, location=place)]) from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    options = Location("client properties given as options")
    given = [Property(key, value, options) for key, value in (overrides or {}).items()]
    reader = ClientProperties(
        [*parse_properties(text, file, problems), *given],
        os.environ if environ is None else environ,
        source=Location(file),
        folder=Path(path).parent,
        repository=repository,
        within=provider_folder(path, repository),
        problems=problems,
    )
    return _read(reader)


def from_properties(
    properties: Mapping[str, str], *, source: str = "client properties", environ: Mapping[str, str] | None = None
) -> ClientConfig:
    """Make a client config from properties of no file. Raises `InvalidFilesError` with all problems."""
    place = Location(source)
    given = [Property(key, value, place) for key, value in properties.items()]
    return _read(ClientProperties(given, os.environ if environ is None else environ, source=place))


def _read(reader: ClientProperties) -> ClientConfig:
    reader.check_keys()
    protocol = _choice(reader, "security.protocol", PROTOCOLS, "PLAINTEXT")
    needs_protocol = "sasl.jaas.config ssl.truststore.location ssl.truststore.certificates ssl.keystore.location"
    if not reader.has("security.protocol") and (key := next(filter(reader.has, needs_protocol.split()), None)):
        # With the default everything would be sent unencrypted.
        fitting = "SASL_SSL or SASL_PLAINTEXT" if key.startswith("sasl") else "SSL or SASL_SSL"
        reader.report(
            key, f"{key} has no effect, because security.protocol is missing and means PLAINTEXT; set it to {fitting}"
        )
    config = ClientConfig(
        bootstrap_servers=_servers(reader),
        client_id=reader.get("client.id") or None,
        canonical_names=_choice(reader, "client.dns.lookup", LOOKUPS, LOOKUPS[0]) == CANONICAL,
        security_protocol=protocol,
        credentials=_read_credentials(reader) if protocol.startswith("SASL_") else None,
        tls=read_tls(reader) if protocol.endswith("SSL") else None,
        request_timeout=reader.number("request.timeout.ms", 30_000, 1) / 1000,
        api_timeout=reader.number("default.api.timeout.ms", 60_000, 1) / 1000,
    )
    if reader.problems:
        raise InvalidFilesError(by_place(reader.problems))
    return config


def _read_credentials(reader: ClientProperties) -> Credentials | None:
    # Java's default.
    mechanism = _choice(reader, "sasl.mechanism", tuple(MECHANISMS), None if reader.has("sasl.mechanism") else "GSSAPI")
    handler = "sasl.client.callback.handler.class"
    if reader.has(handler) and mechanism in ("GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        reader.report(handler, f"{handler} names a Java class, which quotaform cannot load; remove it")
    return None if mechanism is None else reader.attempt(MECHANISMS[mechanism], mechanism)


def _choice(reader: ClientProperties, key: str, choices: tuple[str, ...], default: Any) -> Any:
    value = reader.get(key)
    if not value:
        return default
    for choice in choices:
        if value.lower() == choice.lower():
            return choice
    listed = f"{', '.join(choices[:-1])} or {choices[-1]}"
    reader.report(key, f"{reader.render(key)} is not supported; set it to {listed}")
    return default


def _servers(reader: ClientProperties) -> tuple[str | Server, ...]:
    value = reader.get("bootstrap.servers")
    if value is None:
        return ()
    try:
        servers = parse_servers(value)
    except ValueError:
        reader.report("bootstrap.servers", "bootstrap.servers is not host:port, as in broker-1:9092")
        return ()
    written = reader.written("bootstrap.servers")
    return tuple(map(str, servers)) if written == value else tuple(replace(each, written=written) for each in servers)
