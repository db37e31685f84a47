"""Reads the stores of Java clients, PKCS12 and JKS, as PEM; as in Java, the first bytes say which of them a file is.

| what a store holds | trusted | shown to brokers |
| --- | --- | --- |
| certificates only | all of them | |
| private keys | the certificate of each, and certificates with an alias of their own | the first key and its chain |

Java chooses one of several keys by what the broker asks for, and finds nothing in a PKCS12 truststore of OpenSSL's.
JKS is small and has not changed since JDK 1.2 (`sun.security.provider.JavaKeyStore`, `KeyProtector`): no library here.
"""

from __future__ import annotations

from base64 import encodebytes
from collections.abc import Iterator, Sequence
from hashlib import sha1
from io import BytesIO
from re import DOTALL
from re import compile as regex
from ssl import DER_cert_to_PEM_cert
from typing import Final, NamedTuple
from warnings import catch_warnings, simplefilter

from quotaform.errors import missing_extra

CONVERT: Final = "keytool -importkeystore -srckeystore STORE -srcstoretype TYPE -destkeystore NEW -deststoretype PKCS12"
_IS_PKCS12: Final = regex(rb"\x30(?:[\x00-\x80]|\x81.|\x82..|\x83...|\x84....)\x02\x01\x03", DOTALL).match
_SALTS: Final = regex(rb"\x30([\x00-\x7f])\x04([\x00-\x7f])").finditer
_MOST_ITERATIONS: Final = 5_000_000
"""Java's limit for one key (`sun.security.pkcs12.PKCS12KeyStore`), here for a whole store: two seconds."""
_SHA1: Final = 20
_MASKED_KEY: Final = regex(
    rb"\x06\x0a\x2b\x06\x01\x04\x01\x2a\x02\x11\x01\x01(?:\x05\x00)?\x04(?:[\x00-\x7f]|\x81.|\x82..|\x83...)", DOTALL
).search
"""What is before a key in DER: the object identifier 1.3.6.1.4.1.42.2.17.1.1, and the head of an OCTET STRING."""


class StoreError(ValueError):
    """A store cannot be used; the message goes on after naming it."""


class _Store(NamedTuple):
    """What a store holds: certificates in DER, and the first key (PKCS#8 in DER, or what JKS makes of it)."""

    trusted: Sequence[bytes]
    chain: Sequence[bytes] = ()
    key: bytes = b""


def kind_of(content: bytes) -> str | None:
    """Return JKS, PKCS12 or PEM; `None` for something else."""
    if content.startswith(b"\xfe\xed\xfe\xed"):
        return "JKS"
    if _IS_PKCS12(content):
        return "PKCS12"
    return "PEM" if b"-----BEGIN " in content else None


def read_store(content: bytes, store: str, password: str | None, key_password: str | None) -> str:
    """Return the certificates of a truststore, or the decrypted key of a keystore with its certificates, as PEM.

    Raises:
        StoreError: It cannot be used.
    """
    kind = kind_of(content)
    if not content:
        raise StoreError("it is empty")
    if kind == "PEM":
        raise StoreError(f"it is a PEM file; set ssl.{store}.type=PEM")
    if kind is None:
        raise StoreError(f"it is no PEM, PKCS12 or JKS store; convert it: {CONVERT}")
    found = (_read_jks if kind == "JKS" else _read_pkcs12)(content, password)
    if found is None or (password is None and store == "keystore"):
        state = "missing" if password is None else "wrong, or the file is damaged"
        raise StoreError(f"ssl.{store}.password is {state}")
    certificates = found.trusted if store == "truststore" else found.chain
    if not certificates:
        raise StoreError(f"it contains no {'certificate' if store == 'truststore' else 'private key'}")
    pem = "".join(map(DER_cert_to_PEM_cert, certificates))
    if store == "truststore":
        return pem
    if kind == "JKS":
        key = _unmask(found.key, (key_password or password or "").encode("utf-16-be"))
    elif key_password in (None, password):
        key = found.key
    else:
        raise StoreError("in a PKCS12 store the key has the password of the store; remove ssl.key.password")
    return f"-----BEGIN PRIVATE KEY-----\n{encodebytes(key).decode()}-----END PRIVATE KEY-----\n{pem}"


def _read_jks(content: bytes, password: str | None) -> _Store | None:
    """Read a magic number, a version, the entries, and a digest; without a password that is not checked, as in Java."""
    body, digest = content[:-_SHA1], content[-_SHA1:]
    if password is not None and _sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body) != digest:
        return None
    stream = BytesIO(body)

    def take(size: int) -> bytes:
        taken = stream.read(size)
        if len(taken) < size:
            raise StoreError("it is damaged")
        return taken

    def number(size: int = 4) -> int:
        return int.from_bytes(take(size))

    def certificate() -> bytes:
        if version == 2:
            take(number(2))  # its type, which is X.509
        return take(number())

    trusted, first = list[bytes](), _Store(())
    _, version = take(4), number()
    for _ in range(number()):
        is_key = number() == 1
        take(number(2) + 8)  # alias and time
        if not is_key:
            trusted.append(certificate())
            continue
        key, chain = take(number()), [certificate() for _ in range(number())]
        trusted += chain[:1]
        first = first if first.chain else _Store((), chain, key)
    return first._replace(trusted=trusted)


def _unmask(masked: bytes, password: bytes) -> bytes:
    """Return a private key of a JKS store as PKCS#8: it follows a salt, and a digest follows it."""
    found = _MASKED_KEY(masked)
    content = masked[found.end() :] if found else b""
    block, body, digest = content[:_SHA1], content[_SHA1:-_SHA1], content[-_SHA1:]
    blocks = [block := _sha1(password + block) for _ in range(0, len(body), _SHA1)]
    key = bytes(left ^ right for left, right in zip(body, b"".join(blocks), strict=False))
    if _sha1(password + key) != digest:
        raise StoreError("its private key cannot be decrypted: ssl.key.password is wrong or missing")
    return key


def _sha1(data: bytes) -> bytes:
    return sha1(data, usedforsecurity=False).digest()


def _read_pkcs12(content: bytes, password: str | None) -> _Store | None:
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise StoreError(f"PKCS12 stores are read by cryptography: {missing_extra('stores')}") from None
    if sum(_iterations(content)) > _MOST_ITERATIONS:
        raise StoreError(f"it asks for more than {_MOST_ITERATIONS:,} iterations of its password")
    try:
        with catch_warnings():
            simplefilter("ignore")  # about what older Javas wrote into certificates
            store = load_pkcs12(content, None if password is None else password.encode())
            others = [(each, each.certificate.public_bytes(Encoding.DER)) for each in store.additional_certs]
            if store.key is None or store.cert is None:
                return _Store([der for _, der in others])
            chain, last = [store.cert.certificate.public_bytes(Encoding.DER)], store.cert.certificate
            # Certificates of a chain have no alias; Java writes their subject in its place.
            aliased = [der for each, der in others if each.friendly_name and b"=" not in each.friendly_name]
            issuers = {each.certificate.subject: (each.certificate, der) for each, der in others}
            while last.issuer != last.subject and last.issuer in issuers:
                last, der = issuers.pop(last.issuer)
                chain.append(der)
            key = store.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
            return _Store([chain[0], *aliased], chain, key)
    except Exception as error:
        if "password" in str(error):
            return None
        # What a key, a certificate or the encryption is, may be unknown to the library.
        raise StoreError("it is damaged, or of a kind that is not supported; give it as PEM") from None


def _iterations(content: bytes) -> Iterator[int]:
    """Yield how often the password is hashed for each part of a store, and for the digest at its end (RFC 7292)."""
    for salt in _SALTS(content):
        at, size = salt.end() + salt[2][0], 0
        if content[at : at + 1] == b"\x02":
            size = int.from_bytes(content[at + 1 : at + 2])
        # The parameters are a SEQUENCE of salt and iterations, and of little else.
        if 0 < size < 10 and salt[2][0] + size + 4 <= salt[1][0]:
            yield int.from_bytes(content[at + 2 : at + 2 + size])
    for size in range(1, 10):
        if content[-2 - size : -size] == bytes((2, size)):
            yield int.from_bytes(content[-size:])
            return
