"""Reads the `ssl.*` client properties."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from re import Match
from re import compile as regex
from typing import Final

from quotaform.cluster.client.client_properties import ClientProperties
from quotaform.cluster.client.property_key import is_word
from quotaform.cluster.client.tls import TLS_VERSIONS, KeyStoreError, Tls, TrustError
from quotaform.errors import FileReadError, NotTextError
from quotaform.files import PEM_LIMIT, read_text, trusted_folder
from quotaform.model.secret import Secret

_MARKER: Final = regex(r"-----(BEGIN|END) [A-Z0-9 ]{1,64}-----")
_CONVERT: Final = {
    "truststore": "openssl pkcs12 -in STORE -nokeys -out ca.pem",
    "keystore": "openssl pkcs12 -in STORE -nodes -out client.pem",
}


def read_tls(reader: ClientProperties) -> Tls:
    """Return what the keys say; problems go to the reader."""
    before = len(reader.problems)
    tls = Tls(
        ca=_read_trust(reader),
        key_store=_read_keys(reader),
        key_password=_secret(reader, "ssl.key.password"),
        check_host=_read_host_check(reader),
        versions=_read_versions(reader),
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
    if not _is_pem(reader, "truststore", location if reader.has(location) else inline):
        return None
    if reader.has(location) and reader.has(inline):
        reader.report(inline, f"{inline} and {location} exclude each other; remove one")
        return None
    if reader.has(location):
        text = _read_file(reader, location)
        return None if text is None else _bare(text)
    return _rewrap(reader.get(inline) or "")


def _read_keys(reader: ClientProperties) -> Secret | None:
    location, key, chain = "ssl.keystore.location", "ssl.keystore.key", "ssl.keystore.certificate.chain"
    inline = [name for name in (key, chain) if reader.has(name)]
    if not reader.has(location) and not inline:
        return None
    if not _is_pem(reader, "keystore", location if reader.has(location) else inline[0]):
        return None
    if reader.has(location):
        if inline:
            reader.report(inline[0], f"{inline[0]} and {location} exclude each other; remove one")
            return None
        text = _read_file(reader, location)
        return None if text is None else Secret(text)
    if len(inline) == 1:
        missing = chain if inline == [key] else key
        reader.report(inline[0], f"{inline[0]} requires {missing}")
        return None
    return Secret(f"{_rewrap(reader.get(key) or '')}\n{_rewrap(reader.get(chain) or '')}")


def _is_pem(reader: ClientProperties, store: str, used: str) -> bool:
    """Check a store's type, and that nobody gave a store password, which PEM stores have not."""
    type_key, password = f"ssl.{store}.type", f"ssl.{store}.password"
    kind = reader.get(type_key)
    if kind != "PEM":
        problem = (
            f"{reader.spell(type_key)} is not supported" if kind else f"{used} without {type_key} means a JKS store"
        )
        reader.report(
            type_key if kind else used,
            f"{problem}; convert it once ({_CONVERT[store]}; keytool -importkeystore makes PKCS12 of JKS) and set"
            f" {type_key}=PEM",
        )
        return False
    if reader.has(password):
        instead = "; the password of an encrypted key is ssl.key.password" if store == "keystore" else ""
        reader.report(password, f"{password} cannot be used with {type_key}=PEM; remove it{instead}")
    return True


def _read_file(reader: ClientProperties, key: str) -> str | None:
    """Return the text of the file that a key names, relative to the working folder or else to the properties file."""
    value = reader.get(key) or ""
    written = Path(value).expanduser() if value.startswith("~/") else Path(value)
    places = [written]
    if not written.is_absolute() and reader.folder is not None:
        places.append(reader.folder / written)
    for place in places:
        within = None if reader.repository is None else trusted_folder(place, reader.repository)
        try:
            return read_text(place, PEM_LIMIT, within=within)
        except NotTextError:
            reader.report(key, f"{key} names a file that is not a PEM file")
            return None
        except FileReadError as error:
            if not error.is_missing:
                reader.report(key, f"{key} names a file that cannot be read: {error.reason}")
                return None
    nowhere = "exists neither in the current directory nor next to this file" if len(places) > 1 else "does not exist"
    reader.report(key, f"{key} names a file that {nowhere}")
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


def _read_versions(reader: ClientProperties) -> tuple[str, ...]:
    key = "ssl.enabled.protocols"
    protocol = reader.get("ssl.protocol") or "TLS"
    if protocol != "TLS" and protocol not in TLS_VERSIONS:
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
    return versions or tuple(TLS_VERSIONS)


def _secret(reader: ClientProperties, key: str) -> Secret | None:
    value = reader.get(key)
    return Secret(value) if value else None
