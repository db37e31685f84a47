"""Reads the `ssl.*` client properties."""

from __future__ import annotations

from collections.abc import Iterator
from re import Match
from re import compile as regex
from typing import Final

from quotaform.cluster.client.client_properties import ClientProperties
from quotaform.cluster.client.property_key import is_word
from quotaform.cluster.client.store import CONVERT, StoreError, kind_of, read_store
from quotaform.cluster.client.tls import (
    CAN_CHOOSE,
    SUITES_1_3,
    TLS_VERSIONS,
    KeyStoreError,
    Tls,
    TrustError,
    openssl_name,
)
from quotaform.files import PEM_LIMIT
from quotaform.model.secret import Secret

_MARKER: Final = regex(r"-----(BEGIN|END) [A-Z0-9 ]{1,64}-----")
_SUITE: Final = regex(r"(TLS|SSL)_[A-Z0-9_]{1,40}_WITH_[A-Z0-9_]{1,40}").fullmatch
_INLINE: Final = {
    "truststore": ("ssl.truststore.certificates",),
    "keystore": ("ssl.keystore.key", "ssl.keystore.certificate.chain"),
}


def read_tls(reader: ClientProperties) -> Tls:
    """Return what the keys say; problems go to the reader."""
    before = len(reader.problems)
    ca, key_store, ciphers = _read_store(reader, "truststore"), _read_store(reader, "keystore"), _read_ciphers(reader)
    # The key of a store that is no PEM was decrypted when it was read.
    key_password = reader.get("ssl.key.password") if _kind(reader, "keystore") == "PEM" else None
    tls = Tls(
        ca=ca,
        key_store=Secret(key_store) if key_store is not None else None,
        key_password=Secret(key_password) if key_password else None,
        check_host=_read_host_check(reader),
        versions=_read_versions(reader, ciphers),
        ciphers=ciphers,
    )
    # The certificates of the system, which take a while to load, need no check.
    if len(reader.problems) == before and (tls.ca is not None or tls.key_store is not None):
        try:
            tls.context()
        except (TrustError, KeyStoreError) as error:
            store = "truststore" if isinstance(error, TrustError) else "keystore"
            key = next(key for key in (f"ssl.{store}.location", _INLINE[store][0]) if reader.has(key))
            reader.report(key, f"{key} cannot be used: {error}")
    return tls


def _kind(reader: ClientProperties, store: str) -> str:
    return (reader.get(f"ssl.{store}.type") or "JKS").upper()


def _read_store(reader: ClientProperties, store: str) -> str | None:
    """Return a store as PEM; `None` if there is none, or none that can be read."""
    location, inline = f"ssl.{store}.location", [key for key in _INLINE[store] if reader.has(key)]
    keys = [location, *inline, f"ssl.{store}.type", f"ssl.{store}.password", "ssl.key.password"]
    # A value that cannot be known has been reported.
    if any(reader.has(key) and reader.get(key) is None for key in keys):
        return None
    if not (reader.has(location) or inline) or not _is_readable(reader, store, inline):
        return None
    if reader.has(location) and inline:
        reader.report(inline[0], f"{inline[0]} and {location} exclude each other; remove one")
        return None
    if inline:
        if missing := [key for key in _INLINE[store] if key not in inline]:
            reader.report(inline[0], f"{inline[0]} requires {missing[0]}")
        return "\n".join(_rewrap(reader.get(key) or "") for key in inline)
    found = reader.read_file(location, reader.get(location) or "", PEM_LIMIT, f"{location} names a file")
    if found is None:
        return None
    _, content = found
    passwords = reader.get(f"ssl.{store}.password") or None, reader.get("ssl.key.password") or None
    try:
        if _kind(reader, store) == "PEM":
            return _read_pem(content, f"ssl.{store}")
        return read_store(content, store, *passwords)
    except StoreError as error:
        reader.report(location, f"{location} cannot be used: {error}")
        return None


def _is_readable(reader: ClientProperties, store: str, inline: list[str]) -> bool:
    """Check a store's type, and that nobody gave a store password, which PEM stores have not."""
    kind, type_key, password = _kind(reader, store), f"ssl.{store}.type", f"ssl.{store}.password"
    if kind == "PEM":
        if reader.has(password):
            instead = "; the password of an encrypted key is ssl.key.password" if store == "keystore" else ""
            reader.report(password, f"{password} cannot be used with {type_key}=PEM; remove it{instead}")
    elif kind not in ("PKCS12", "JKS"):
        reader.report(
            type_key,
            f"{reader.spell(type_key)} is not supported; set it to PEM, PKCS12 or JKS, or convert the store: {CONVERT}",
        )
        return False
    elif inline:
        reader.report(inline[0], f"{inline[0]} requires {type_key}=PEM")
        return False
    return True


def _read_pem(content: bytes, name: str) -> str:
    """Return the blocks of a PEM file without what is around them, which may be in any language."""
    if (kind := kind_of(content)) in ("JKS", "PKCS12"):
        raise StoreError(f"it is a {kind} store; set {name}.type={kind}")
    return "\n".join("".join(block) for block in _blocks(content.decode(errors="replace")))


def _blocks(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the blocks of a PEM text: first line, content, last line; what is around them is a comment."""
    begin: Match[str] | None = None
    for marker in _MARKER.finditer(text):
        if marker[1] == "BEGIN":
            begin = begin or marker
        elif begin is not None:
            yield begin[0], text[begin.end() : marker.start()], marker[0]
            begin = None


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
        with_suite = {"TLSv1.3" if name in SUITES_1_3 else "TLSv1.2" for name in ciphers}
        versions = tuple(name for name in versions if name in with_suite)
        if not versions:
            reader.report("ssl.cipher.suites", "ssl.cipher.suites names no suite of the TLS versions that are enabled")
    return versions or tuple(TLS_VERSIONS)


def _read_ciphers(reader: ClientProperties) -> tuple[str, ...]:
    key = "ssl.cipher.suites"
    names = [name.strip() for name in (reader.get(key) or "").split(",") if name.strip()]
    if unknown := [name for name in names if name not in SUITES_1_3 and openssl_name(name) is None]:
        shown = ", ".join(unknown) if all(map(_SUITE, unknown)) else "an unknown name"
        example = "such as TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
        reader.report(key, f"{key} contains {shown}, which cannot be offered; give names of Java and IANA, {example}")
        return ()
    if 0 < len(SUITES_1_3.intersection(names)) < len(SUITES_1_3) and not CAN_CHOOSE:
        all_of_them = ", ".join(sorted(SUITES_1_3))
        reader.report(
            key, f"{key}: before 3.15, Python offers all suites of TLS 1.3 or none; name {all_of_them}, or none"
        )
    return tuple(names)
