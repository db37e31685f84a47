"""Reads the stores of Java clients, PKCS12 and JKS, as PEM; as in Java, the first bytes say which of them a file is.

| what a store holds | trusted | shown to brokers |
| --- | --- | --- |
| certificates only | all of them | |
| private keys | the certificate of each, and certificates with an alias of their own | the first key and its chain |

Java chooses one of several keys by what the broker asks for, and finds nothing in a PKCS12 truststore of OpenSSL's.
"""

from __future__ import annotations

from base64 import encodebytes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from re import DOTALL
from re import compile as regex
from ssl import DER_cert_to_PEM_cert
from typing import Final
from warnings import catch_warnings, simplefilter

from quotaform.cluster.client.jks import MAGIC, DamagedError, WrongPasswordError, read_jks, unprotect
from quotaform.errors import missing_extra
from quotaform.model.secret import Secret

PEM, PKCS12, JKS, JCEKS = "PEM", "PKCS12", "JKS", "JCEKS"
_IS_PKCS12: Final = regex(rb"\x30(?:[\x00-\x80]|\x81.|\x82..|\x83...|\x84....)\x02\x01\x03", DOTALL).match
_SALTS: Final = regex(rb"\x30([\x00-\x7f])\x04([\x00-\x7f])").finditer
_MOST_ITERATIONS: Final = 5_000_000
"""Java's limit for one key (`sun.security.pkcs12.PKCS12KeyStore`), here for a whole store: two seconds."""


class StoreError(ValueError):
    """A store cannot be used; the message goes on after naming it."""


@dataclass(frozen=True, slots=True)
class _Store:
    """What a store holds: certificates in DER, and the first key (PKCS#8 in DER, or what JKS makes of it)."""

    trusted: Sequence[bytes]
    chain: Sequence[bytes] = ()
    key: bytes = b""


def type_of(content: bytes) -> str | None:
    r"""Return the type of a store; `None` for something else.

    >>> type_of(b"Subject: CN=x\n-----BEGIN CERTIFICATE-----\n"), type_of(b"PK"), type_of(b"\xfe\xed\xfe\xed")
    ('PEM', None, 'JKS')
    """
    if content.startswith(MAGIC):
        return JKS
    if content.startswith(b"\xce\xce\xce\xce"):
        return JCEKS
    if _IS_PKCS12(content):
        return PKCS12
    return PEM if b"-----BEGIN " in content else None


def conversion(store: str) -> str:
    """Return the command that makes PKCS12 of a store of another type.

    >>> conversion("JCEKS")
    'keytool -importkeystore -srckeystore STORE -srcstoretype JCEKS -destkeystore NEW -deststoretype PKCS12'
    """
    return f"keytool -importkeystore -srckeystore STORE -srcstoretype {store} -destkeystore NEW -deststoretype PKCS12"


def read_trusted(content: bytes, password: str | None) -> str:
    """Return the certificates that a truststore trusts, as PEM.

    Raises:
        StoreError: It cannot be used.
    """
    trusted = _read(content, "ssl.truststore", password).trusted
    if not trusted:
        raise StoreError("it contains no certificate to trust")
    return "".join(map(DER_cert_to_PEM_cert, trusted))


def read_key(content: bytes, password: str, key_password: str | None) -> Secret:
    """Return the private key of a keystore, decrypted, and its certificate chain, as PEM.

    Raises:
        StoreError: It cannot be used.
    """
    store = _read(content, "ssl.keystore", password)
    if not store.chain:
        raise StoreError("it contains no private key with its certificate")
    if type_of(content) == JKS:
        key = _unprotect(store.key, password, key_password)
    elif key_password not in (None, password):
        raise StoreError("in a PKCS12 store the key has the password of the store; remove ssl.key.password")
    else:
        key = store.key
    body = encodebytes(key).decode()
    chain = "".join(map(DER_cert_to_PEM_cert, store.chain))
    return Secret(f"-----BEGIN PRIVATE KEY-----\n{body}-----END PRIVATE KEY-----\n{chain}")


def _unprotect(protected: bytes, password: str, key_password: str | None) -> bytes:
    try:
        return unprotect(protected, key_password or password)
    except WrongPasswordError:
        if key_password is None:
            raise StoreError("its private key has another password; give it with ssl.key.password") from None
        raise StoreError("the private key cannot be decrypted with ssl.key.password") from None
    except DamagedError:
        raise StoreError("its private key is damaged, or encrypted in an unknown way") from None


def _read(content: bytes, name: str, password: str | None) -> _Store:
    kind = type_of(content)
    if kind == PEM:
        raise StoreError(f"it is a PEM file; set {name}.type=PEM")
    if kind == JCEKS:
        raise StoreError(f"it is a JCEKS store, which is not supported; convert it: {conversion(JCEKS)}")
    if kind is None:
        raise StoreError("it is neither a PKCS12 nor a JKS store nor a PEM file")
    try:
        return _read_jks(content, password) if kind == JKS else _read_pkcs12(content, password)
    except WrongPasswordError:
        if password is None:
            raise StoreError(f"it is encrypted; give its password with {name}.password") from None
        raise StoreError(f"{name}.password is wrong, or the file is damaged") from None
    except DamagedError:
        raise StoreError("it is damaged") from None


def _read_jks(content: bytes, password: str | None) -> _Store:
    keys, certificates = read_jks(content, password)
    trusted = [*certificates, *(key.chain[0] for key in keys if key.chain)]
    return _Store(trusted, keys[0].chain, keys[0].protected) if keys else _Store(trusted)


def _read_pkcs12(content: bytes, password: str | None) -> _Store:
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise StoreError(f"PKCS12 stores are read by cryptography: {missing_extra('stores')}") from None
    if sum(_iterations(content)) > _MOST_ITERATIONS:
        raise StoreError(f"it asks for more than {_MOST_ITERATIONS:,} iterations of its password")
    try:
        with catch_warnings():
            # About what older Javas wrote into certificates.
            simplefilter("ignore")
            store = load_pkcs12(content, None if password is None else password.encode())
            others = [(each, each.certificate.public_bytes(Encoding.DER)) for each in store.additional_certs]
            if store.key is None or store.cert is None:
                return _Store([der for _, der in others])
            own = store.cert.certificate.public_bytes(Encoding.DER)
            # Certificates of a chain have no alias; Java writes their subject in its place.
            aliased = [der for each, der in others if each.friendly_name and b"=" not in each.friendly_name]
            chain, last = [own], store.cert.certificate
            issuers = {each.certificate.subject: (each.certificate, der) for each, der in others}
            while last.issuer != last.subject and last.issuer in issuers:
                last, der = issuers.pop(last.issuer)
                chain.append(der)
            key = store.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
            return _Store([own, *aliased], chain, key)
    except ValueError as error:
        raise (WrongPasswordError if "password" in str(error) else DamagedError) from None
    except Exception as error:
        # What a key, a certificate or the encryption is, may be unknown to the library.
        raise StoreError(f"it cannot be read ({type(error).__name__}); give it as PEM") from None


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
