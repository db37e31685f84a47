"""Reads the `ssl.*` client properties."""

from __future__ import annotations

from collections.abc import Iterator
from re import Match
from re import compile as regex
from typing import Final

from quotaform.cluster.client.client_properties import ClientProperties
from quotaform.cluster.client.property_key import is_word
from quotaform.cluster.client.store import (
    JCEKS,
    JKS,
    PEM,
    PKCS12,
    StoreError,
    conversion,
    read_key,
    read_trusted,
    type_of,
)
from quotaform.cluster.client.tls import TLS_VERSIONS, KeyStoreError, Tls, TrustError
from quotaform.cluster.client.tls_cipher import CAN_CHOOSE, TLS_1_3, offers, version_of
from quotaform.files import PEM_LIMIT
from quotaform.model.secret import Secret

_MARKER: Final = regex(r"-----(BEGIN|END) [A-Z0-9 ]{1,64}-----")
_SUITE: Final = regex(r"(TLS|SSL)_[A-Z0-9_]{1,40}_WITH_[A-Z0-9_]{1,40}").fullmatch


def read_tls(reader: ClientProperties) -> Tls:
    """Return what the keys say; problems go to the reader."""
    before, key_password = len(reader.problems), _secret(reader, "ssl.key.password")
    ciphers = _read_ciphers(reader)
    key_store = _read_keys(reader, key_password)
    tls = Tls(
        ca=_read_trust(reader),
        key_store=key_store,
        # A key of another type of store was decrypted when it was read.
        key_password=key_password if (reader.get("ssl.keystore.type") or "").upper() == PEM else None,
        check_host=_read_host_check(reader),
        versions=_read_versions(reader, ciphers),
        ciphers=ciphers,
    )
    # The certificates of the system, which take a while to load, need no check.
    if len(reader.problems) == before and (tls.ca is not None or tls.key_store is not None):
        try:
            tls.context()
        except TrustError as error:
            key = "ssl.truststore.location" if reader.has("ssl.truststore.location") else "ssl.truststore.certificates"
            reader.report(key, f"{key} cannot be used: {error}")
        except KeyStoreError as error:
            key = "ssl.keystore.location" if reader.has("ssl.keystore.location") else "ssl.keystore.key"
            reader.report(key, f"{key} cannot be used: {error}")
    return tls


def _read_trust(reader: ClientProperties) -> str | None:
    location, inline = "ssl.truststore.location", "ssl.truststore.certificates"
    if not reader.has(location) and not reader.has(inline):
        return None
    kind = _store_type(reader, "truststore", [inline] if reader.has(inline) else [])
    if kind is None:
        return None
    if reader.has(location) and reader.has(inline):
        reader.report(inline, f"{inline} and {location} exclude each other; remove one")
        return None
    if not reader.has(location):
        return _rewrap(reader.get(inline) or "")
    content = _read_file(reader, location)
    if content is None or kind == PEM:
        text = None if content is None else _read_pem(reader, location, content)
        return None if text is None else _bare(text)
    try:
        return read_trusted(content, reader.get("ssl.truststore.password") or None)
    except StoreError as error:
        reader.report(location, f"{location} cannot be used: {error}")
        return None


def _read_keys(reader: ClientProperties, key_password: Secret | None) -> Secret | None:
    location, key, chain = "ssl.keystore.location", "ssl.keystore.key", "ssl.keystore.certificate.chain"
    inline = [name for name in (key, chain) if reader.has(name)]
    if not reader.has(location) and not inline:
        return None
    kind = _store_type(reader, "keystore", inline)
    if kind is None:
        return None
    if not reader.has(location):
        if len(inline) == 1:
            missing = chain if inline == [key] else key
            reader.report(inline[0], f"{inline[0]} requires {missing}")
            return None
        return Secret(f"{_rewrap(reader.get(key) or '')}\n{_rewrap(reader.get(chain) or '')}")
    if inline:
        reader.report(inline[0], f"{inline[0]} and {location} exclude each other; remove one")
        return None
    content = _read_file(reader, location)
    if content is None or kind == PEM:
        text = None if content is None else _read_pem(reader, location, content)
        return None if text is None else Secret(text)
    if type_of(content) in (PKCS12, JKS) and not reader.has("ssl.keystore.password"):
        reader.report(location, f"{location} requires ssl.keystore.password")
        return None
    try:
        return read_key(
            content, reader.get("ssl.keystore.password") or "", key_password.reveal() if key_password else None
        )
    except StoreError as error:
        reader.report(location, f"{location} cannot be used: {error}")
        return None


def _store_type(reader: ClientProperties, store: str, inline: list[str]) -> str | None:
    """Return the type of a store: PEM, or JKS, which means PKCS12 as well; `None` for one that cannot be read.

    A store in PEM has no password, and one in the properties themselves is PEM.
    """
    type_key, password = f"ssl.{store}.type", f"ssl.{store}.password"
    given = reader.get(type_key)
    if given is None and reader.has(type_key):
        return None
    kind = (given or JKS).upper()
    if kind == PEM:
        if reader.has(password):
            instead = "; the password of an encrypted key is ssl.key.password" if store == "keystore" else ""
            reader.report(password, f"{password} cannot be used with {type_key}=PEM; remove it{instead}")
        return PEM
    if kind not in (PKCS12, JKS):
        other = kind if kind in (JCEKS, "BCFKS") else "TYPE"
        reader.report(
            type_key,
            f"{reader.spell(type_key)} is not supported; set it to PEM, PKCS12 or JKS, or convert the store:"
            f" {conversion(other)}",
        )
        return None
    if inline:
        reader.report(inline[0], f"{inline[0]} requires {type_key}=PEM")
        return None
    return JKS


def _read_file(reader: ClientProperties, key: str) -> bytes | None:
    found = reader.read_file(key, reader.get(key) or "", PEM_LIMIT, f"{key} names a file")
    return None if found is None else found[1]


def _read_pem(reader: ClientProperties, key: str, content: bytes) -> str | None:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        kind, type_key = type_of(content), key.replace("location", "type")
        instead = f"; set {type_key}={kind}" if kind in (PKCS12, JKS) else ""
        reader.report(key, f"{key} names a file that is not a PEM file{instead}")
        return None


def _blocks(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the blocks of a PEM text: first line, content, last line; what is around them is a comment."""
    begin: Match[str] | None = None
    for marker in _MARKER.finditer(text):
        if marker[1] == "BEGIN":
            begin = begin or marker
        elif begin is not None:
            yield begin[0], text[begin.end() : marker.start()], marker[0]
            begin = None


def _bare(text: str) -> str:
    """Return the blocks of a PEM text without what is around them, which may be in any language."""
    return "\n".join("".join(block) for block in _blocks(text))


def _rewrap(text: str) -> str:
    """Return PEM text as OpenSSL wants it; in properties it may have spaces for line ends, as Kafka accepts."""
    return "\n".join(_rewrap_one(*block) for block in _blocks(text))


def _rewrap_one(first: str, content: str, last: str) -> str:
    if ":" in content:
        return f"{first}{content}{last}"
    body = "".join(content.split())
    lines = [body[start : start + 64] for start in range(0, len(body), 64)]
    return "\n".join([first, *lines, last])


def _read_host_check(reader: ClientProperties) -> bool:
    key = "ssl.endpoint.identification.algorithm"
    algorithm = reader.get(key)
    if algorithm is not None and algorithm.lower() not in {"", "https"}:
        reader.report(
            key, f"{reader.spell(key)} is unknown; use https to check the host name, or an empty value not to"
        )
    return algorithm != ""


def _read_versions(reader: ClientProperties, ciphers: tuple[str, ...]) -> tuple[str, ...]:
    key = "ssl.enabled.protocols"
    protocol = reader.get("ssl.protocol") or "TLS"
    # SSL is another name of TLS in Java, too.
    if protocol not in ("TLS", "SSL") and protocol not in TLS_VERSIONS:
        known = " or ".join(TLS_VERSIONS)
        reader.report("ssl.protocol", f"{reader.spell('ssl.protocol')} is not supported; use {known}")
    names = [name.strip() for name in (reader.get(key) or ",".join(TLS_VERSIONS)).split(",") if name.strip()]
    unknown = [name for name in names if name not in TLS_VERSIONS]
    if unknown:
        holds = ", ".join(unknown) if is_word(reader.written(key)) else "an unsupported value"
        reader.report(key, f"{key} contains {holds}; supported are {' and '.join(TLS_VERSIONS)}")
    # A Java context for TLSv1.2 knows nothing later.
    versions = tuple(name for name in names if name in TLS_VERSIONS and (protocol != "TLSv1.2" or name == protocol))
    if not versions and not unknown:
        reader.report(key, f"{key} and ssl.protocol have no version in common")
    if versions and ciphers:
        # As in Java, a version without a suite is not offered.
        versions = tuple(name for name in versions if name in map(version_of, ciphers))
        if not versions:
            reader.report("ssl.cipher.suites", "ssl.cipher.suites names no suite of the TLS versions that are enabled")
    return versions or tuple(TLS_VERSIONS)


def _read_ciphers(reader: ClientProperties) -> tuple[str, ...]:
    key = "ssl.cipher.suites"
    names = [name.strip() for name in (reader.get(key) or "").split(",") if name.strip()]
    unknown = [name for name in names if not offers(name)]
    if unknown:
        shown = ", ".join(dict.fromkeys(unknown)) if all(map(_SUITE, unknown)) else "an unknown name"
        remedy = "name suites of TLS 1.2 and 1.3 as Java does, such as TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
        reader.report(key, f"{key} contains {shown}, which cannot be offered; {remedy}")
        return ()
    if 0 < len(TLS_1_3 & set(names)) < len(TLS_1_3) and not CAN_CHOOSE:
        reader.report(
            key,
            f"{key} names some of the TLS 1.3 suites, and before Python 3.15 all of them are offered or none; name"
            f" {', '.join(sorted(TLS_1_3))}, or none of them",
        )
    return tuple(names)


def _secret(reader: ClientProperties, key: str) -> Secret | None:
    value = reader.get(key)
    return Secret(value) if value else None
