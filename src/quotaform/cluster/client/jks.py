"""Reads JKS, the older key store format of Java, which needs no library: it is small and has not changed since JDK 1.2.

The format is that of `sun.security.provider.JavaKeyStore` in OpenJDK: a magic number, a version, the entries, and a
SHA-1 digest of the password and all of that. A private key is masked with SHA-1 (`KeyProtector`) by a password of its
own, which usually is that of the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha1
from io import BytesIO
from re import DOTALL
from re import compile as regex
from typing import Final

MAGIC: Final = b"\xfe\xed\xfe\xed"
_WHITENER: Final = b"Mighty Aphrodite"
"""What Java digests between the password and the entries."""
_DIGEST: Final = 20
_KEY, _CERTIFICATE = 1, 2
_PROTECTED: Final = regex(
    # SEQUENCE { SEQUENCE { OID 1.3.6.1.4.1.42.2.17.1.1, NULL }, OCTET STRING }, each length short or long.
    rb"\x30(?:[\x00-\x7f]|\x81.|\x82..|\x83...)\x30[\x0c\x0e]\x06\x0a\x2b\x06\x01\x04\x01\x2a\x02\x11\x01\x01"
    rb"(?:\x05\x00)?\x04(?:[\x00-\x7f]|\x81.|\x82..|\x83...)",
    DOTALL,
).match


class WrongPasswordError(ValueError):
    """The password does not fit."""


class DamagedError(ValueError):
    """The bytes are not what the format prescribes."""


@dataclass(frozen=True, slots=True)
class JksKey:
    """A private key as the store holds it, and its certificates in DER, the owner's first."""

    protected: bytes
    chain: tuple[bytes, ...]


def read_jks(content: bytes, password: str | None) -> tuple[list[JksKey], list[bytes]]:
    """Return the private keys and the trusted certificates (DER) of a store, in their order.

    Without a password nothing is verified, as in Java; the certificates are not encrypted.

    Raises:
        WrongPasswordError: The digest is another: the password is wrong, or the store was changed.
        DamagedError: It cannot be read.
    """
    body, digest = content[:-_DIGEST], content[-_DIGEST:]
    if password is not None and _sha1(_bytes(password) + _WHITENER + body) != digest:
        raise WrongPasswordError
    stream = BytesIO(body)

    def take(size: int) -> bytes:
        taken = stream.read(size)
        if len(taken) < size:
            raise DamagedError
        return taken

    def number(size: int = 4) -> int:
        return int.from_bytes(take(size))

    def certificate() -> bytes:
        if version == 2:
            take(number(2))  # the type, which is X.509
        return take(number())

    keys, certificates = list[JksKey](), list[bytes]()
    magic, version = take(len(MAGIC)), number()
    if magic != MAGIC or version not in (1, 2):
        raise DamagedError
    for _ in range(number()):
        tag = number()
        take(number(2))  # the alias
        take(8)  # the time
        if tag == _KEY:
            protected = take(number())
            keys.append(JksKey(protected, tuple(certificate() for _ in range(number()))))
        elif tag == _CERTIFICATE:
            certificates.append(certificate())
        else:
            raise DamagedError
    return keys, certificates


def unprotect(protected: bytes, password: str) -> bytes:
    """Return a private key as PKCS#8 in DER.

    Raises:
        WrongPasswordError: The password is not that of the key.
        DamagedError: It is protected in another way.
    """
    found = _PROTECTED(protected)
    if found is None:
        raise DamagedError
    content, secret = protected[found.end() :], _bytes(password)
    masked, check = content[_DIGEST:-_DIGEST], content[-_DIGEST:]
    block, mask = content[:_DIGEST], bytearray()
    while len(mask) < len(masked):
        block = _sha1(secret + block)
        mask += block
    key = bytes(left ^ right for left, right in zip(masked, mask, strict=False))
    if _sha1(secret + key) != check:
        raise WrongPasswordError
    return key


def _bytes(password: str) -> bytes:
    return password.encode("utf-16-be")


def _sha1(data: bytes) -> bytes:
    return sha1(data, usedforsecurity=False).digest()
