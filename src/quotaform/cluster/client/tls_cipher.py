"""Cipher suites, by the names that Java and IANA give them, which OpenSSL spells otherwise before TLS 1.3."""

from __future__ import annotations

from collections.abc import Iterable
from re import compile as regex
from ssl import PROTOCOL_TLS_CLIENT, SSLContext, SSLError
from typing import Final

TLS_1_3: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
"""The suites of TLS 1.3 that Java and OpenSSL offer by default."""
CAN_CHOOSE: Final = hasattr(SSLContext, "set_ciphersuites")
"""Whether Python can choose among them: from 3.15."""

_NAME: Final = regex(
    r"TLS_(ECDHE_ECDSA|ECDHE_RSA|DHE_RSA|RSA)_WITH_"
    r"(?:AES_(128|256)_(?:CBC(_SHA(?:256|384)?)|(GCM_SHA(?:256|384)))|(CHACHA20_POLY1305)_SHA256)"
).fullmatch


def openssl_name(name: str) -> str | None:
    """Return OpenSSL's name of a suite of TLS 1.2; `None` for another, and for one without encryption.

    >>> openssl_name("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"), openssl_name("TLS_RSA_WITH_AES_128_CBC_SHA")
    ('ECDHE-RSA-AES256-GCM-SHA384', 'AES128-SHA')
    """
    found = _NAME(name)
    if found is None:
        return None
    exchange, bits, digest, gcm, chacha = found.groups()
    cipher = chacha or f"AES{bits}{digest or f'_{gcm}'}"
    return (cipher if exchange == "RSA" else f"{exchange}_{cipher}").replace("_", "-")


def version_of(name: str) -> str:
    """Return the TLS version that a suite belongs to."""
    return "TLSv1.3" if name in TLS_1_3 else "TLSv1.2"


def offers(name: str) -> bool:
    """Whether this Python's OpenSSL can offer a suite."""
    if name in TLS_1_3:
        return True
    try:
        SSLContext(PROTOCOL_TLS_CLIENT).set_ciphers(openssl_name(name) or "")
    except SSLError:
        return False
    return True


def choose(context: SSLContext, names: Iterable[str]) -> None:
    """Have a context offer these suites and no others, as far as Python can choose."""
    older = [openssl_name(name) or "" for name in names if name not in TLS_1_3]
    if older:
        context.set_ciphers(":".join(older))
    newer = [name for name in names if name in TLS_1_3]
    if newer and CAN_CHOOSE:
        context.set_ciphersuites(":".join(newer))  # type: ignore[attr-defined]
