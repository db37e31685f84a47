"""TLS as Java clients configure it: `ssl.*` properties, PKCS12, JKS and PEM stores, and the SSL context they make.

As in Java, the first bytes of a store say what it is:

| what a store holds | trusted | shown to brokers |
| --- | --- | --- |
| certificates only | all of them | |
| private keys | the certificate of each, and certificates with an alias of their own | the first key and its chain |

Java chooses one of several keys by what the broker asks for, and finds nothing in a PKCS12 truststore of OpenSSL's.
JKS is small and has not changed since JDK 1.2 (`sun.security.provider.JavaKeyStore`, `KeyProtector`): no library here.
"""

from __future__ import annotations

import os
from base64 import encodebytes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha1
from io import BytesIO
from re import DOTALL, Match
from re import compile as regex
from ssl import PROTOCOL_TLS_CLIENT, VERIFY_X509_PARTIAL_CHAIN, DER_cert_to_PEM_cert, SSLContext, SSLError, TLSVersion
from sys import platform
from tempfile import NamedTemporaryFile
from typing import Final, NamedTuple
from warnings import catch_warnings, simplefilter

from msgspec import Struct

from quotaform.cluster.client.properties import ClientProperties, ReportedError, is_word
from quotaform.model.errors import missing_extra
from quotaform.model.text import Secret
from quotaform.system.files import PEM_LIMIT

TLS_VERSIONS: Final = {"TLSv1.2": TLSVersion.TLSv1_2, "TLSv1.3": TLSVersion.TLSv1_3}
"""What Kafka offers by default; older ones are broken and not offered here."""
SUITES_1_3: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
"""The cipher suites of TLS 1.3 that Java and OpenSSL offer; Python can choose among them from 3.15 on."""
CAN_CHOOSE: Final = hasattr(SSLContext, "set_ciphersuites")
_SUITE: Final = regex(r"TLS_[A-Z_]+_WITH_(?:AES_(?:128|256)_(?:CBC|GCM)|CHACHA20_POLY1305)_SHA[0-9]*").fullmatch


def openssl_name(suite: str) -> str | None:
    """Return OpenSSL's name of a cipher suite of TLS 1.2; `None` if this OpenSSL cannot offer it.

    >>> openssl_name("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"), openssl_name("TLS_RSA_WITH_NULL_SHA256")
    ('ECDHE-RSA-AES256-GCM-SHA384', None)
    """
    name = suite.removeprefix("TLS_").removeprefix("RSA_WITH_").replace("_WITH", "").replace("AES_", "AES")
    name = name.replace("_CBC", "").replace("1305_SHA256", "1305").replace("_", "-")
    try:
        SSLContext(PROTOCOL_TLS_CLIENT).set_ciphers(name if _SUITE(suite) else "")
    except SSLError:
        return None
    return name


class StoreError(ValueError):
    """A store cannot be used; the message goes on after naming it."""


class KeyStoreError(StoreError):
    """The client's key or certificate cannot be used."""


class Tls(Struct, frozen=True, kw_only=True):
    """What is trusted and what is shown."""

    ca: str | None = None  # the PEM text of the certificates that are trusted; `None` for those of the system
    key_store: Secret | None = None
    """The PEM text of a private key and its certificate chain, if a client certificate is shown."""
    key_password: Secret | None = None
    check_host: bool = True
    versions: tuple[str, ...] = tuple(TLS_VERSIONS)  # the TLS versions to offer, by Java's names
    ciphers: tuple[str, ...] = ()  # the cipher suites to offer, by Java's names; those of OpenSSL if there is none

    def context(self) -> SSLContext:
        """Return a context for connections to a broker."""
        context = SSLContext(PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.check_host
        offered = [TLS_VERSIONS[name] for name in self.versions]
        context.minimum_version, context.maximum_version = min(offered), max(offered)
        if older := [openssl_name(name) or "" for name in self.ciphers if name not in SUITES_1_3]:
            context.set_ciphers(":".join(older))
        newer = [name for name in self.ciphers if name in SUITES_1_3]
        if newer and CAN_CHOOSE:
            context.set_ciphersuites(":".join(newer))  # type: ignore[attr-defined]
        if self.ca is None:
            context.load_default_certs()
        else:
            # As Java does, trust what is in the store, also a certificate that another one signed.
            context.verify_flags |= VERIFY_X509_PARTIAL_CHAIN
            try:
                context.load_verify_locations(cadata=self.ca)
            except (SSLError, ValueError, TypeError):
                raise StoreError("it contains no readable PEM certificate") from None
        if self.key_store is not None:
            self._show(context, self.key_store)
        return context

    def _show(self, context: SSLContext, key_store: Secret) -> None:
        is_asked = False

        def answer() -> str:
            nonlocal is_asked
            is_asked = True
            # Without an answer OpenSSL would ask on the terminal.
            return self.key_password.reveal() if self.key_password else ""

        try:
            with _in_a_file(key_store.reveal()) as name:
                context.load_cert_chain(name, password=answer)
        except (SSLError, ValueError) as error:
            if "MISMATCH" in str(getattr(error, "reason", "")):
                why = "the private key does not belong to the first certificate"
            elif is_asked:
                why = "the private key is encrypted, and ssl.key.password is missing or wrong"
            else:
                why = "it does not contain a PEM private key (PKCS#8) and its certificate chain"
            raise KeyStoreError(why) from None
        except OSError as error:
            raise KeyStoreError(f"no temporary file can be made for it ({error.strerror})") from None


@contextmanager
def _in_a_file(text: str) -> Iterator[str]:
    """Yield the name of a file (mode 0600, on Linux in memory) with a key and its chain: OpenSSL reads only files."""
    in_memory = os.memfd_create("key") if platform == "linux" else None
    with NamedTemporaryFile(suffix=".pem") if in_memory is None else os.fdopen(in_memory, "wb") as file:
        file.write(text.encode())
        file.flush()
        yield file.name if in_memory is None else f"/proc/self/fd/{in_memory}"


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
    """Return the certificates of a truststore, or the decrypted key of a keystore with its certificates, as PEM."""
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


_MARKER: Final = regex(r"-----(BEGIN|END) [A-Z0-9 ]{1,64}-----")
_SUITE_NAME: Final = regex(r"(TLS|SSL)_[A-Z0-9_]{1,40}_WITH_[A-Z0-9_]{1,40}").fullmatch
_INLINE: Final = {
    "truststore": ("ssl.truststore.certificates",),
    "keystore": ("ssl.keystore.key", "ssl.keystore.certificate.chain"),
}


def read_tls(reader: ClientProperties) -> Tls:
    """Return what the keys say; problems go to the reader."""
    before = len(reader.problems)
    ca, key_store = (reader.attempt(_read_store, store) for store in ("truststore", "keystore"))
    ciphers = _read_ciphers(reader)
    check_key = "ssl.endpoint.identification.algorithm"
    if (algorithm := reader.get(check_key)) is not None and algorithm.lower() not in {"", "https"}:
        words = "is unknown; use https to check the host name, or an empty value not to"
        reader.report(check_key, f"{reader.render(check_key)} {words}")
    # The key of a store that is no PEM was decrypted when it was read.
    key_password = reader.get("ssl.key.password") if _kind(reader, "keystore") == "PEM" else None
    tls = Tls(
        ca=ca,
        key_store=Secret(key_store) if key_store is not None else None,
        key_password=Secret(key_password) if key_password else None,
        check_host=algorithm != "",
        versions=_read_versions(reader, ciphers),
        ciphers=ciphers,
    )
    # The certificates of the system, which take a while to load, need no check.
    if len(reader.problems) == before and (tls.ca is not None or tls.key_store is not None):
        try:
            tls.context()
        except StoreError as error:
            store = "keystore" if isinstance(error, KeyStoreError) else "truststore"
            key = next(key for key in (f"ssl.{store}.location", _INLINE[store][0]) if reader.has(key))
            reader.report(key, f"{key} cannot be used: {error}")
    return tls


def _kind(reader: ClientProperties, store: str) -> str:
    return (reader.get(f"ssl.{store}.type") or "JKS").upper()


def _read_store(reader: ClientProperties, store: str) -> str | None:
    location, inline = f"ssl.{store}.location", [key for key in _INLINE[store] if reader.has(key)]
    type_key, password = f"ssl.{store}.type", f"ssl.{store}.password"
    keys = [location, *inline, type_key, password, "ssl.key.password"]
    # A value that cannot be known has been reported.
    if any(reader.has(key) and reader.get(key) is None for key in keys):
        raise ReportedError
    if not (reader.has(location) or inline):
        return None
    kind = _kind(reader, store)
    if kind == "PEM" and reader.has(password):
        instead = "; the password of an encrypted key is ssl.key.password" if store == "keystore" else ""
        reader.report(password, f"{password} cannot be used with {type_key}=PEM; remove it{instead}")
    if kind not in ("PEM", "PKCS12", "JKS"):
        words = f"is not supported; set it to PEM, PKCS12 or JKS, or convert the store: {CONVERT}"
        raise reader.refused(type_key, f"{reader.render(type_key)} {words}")
    if inline and kind != "PEM":
        raise reader.refused(inline[0], f"{inline[0]} requires {type_key}=PEM")
    if reader.has(location) and inline:
        raise reader.refused(inline[0], f"{inline[0]} and {location} exclude each other; remove one")
    if inline:
        if missing := [key for key in _INLINE[store] if key not in inline]:
            reader.report(inline[0], f"{inline[0]} requires {missing[0]}")
        return "\n".join(_pem(reader.get(key) or "") for key in inline)
    _, content = reader.read_file(location, reader.get(location) or "", PEM_LIMIT, f"{location} names a file")
    passwords = reader.get(password) or None, reader.get("ssl.key.password") or None
    try:
        if kind != "PEM":
            return read_store(content, store, *passwords)
        if (found := kind_of(content)) in ("JKS", "PKCS12"):
            raise StoreError(f"it is a {found} store; set {type_key}={found}")
        return _pem(content.decode(errors="replace"))
    except StoreError as error:
        raise reader.refused(location, f"{location} cannot be used: {error}") from None


def _pem(text: str) -> str:
    """Return the blocks of a PEM text as OpenSSL wants them, without what is around them, in any language.

    In properties there may be spaces for line ends, as Kafka accepts.
    """
    blocks: list[str] = []
    begin: Match[str] | None = None
    for marker in _MARKER.finditer(text):
        if marker[1] == "BEGIN":
            begin = begin or marker
        elif begin is not None:
            content = text[begin.end() : marker.start()]
            if ":" not in content:  # It has no headers.
                body = "".join(content.split())
                content = "".join(f"\n{body[start : start + 64]}" for start in range(0, len(body), 64)) + "\n"
            blocks.append(f"{begin[0]}{content}{marker[0]}")
            begin = None
    return "\n".join(blocks)


def _read_versions(reader: ClientProperties, ciphers: tuple[str, ...]) -> tuple[str, ...]:
    key = "ssl.enabled.protocols"
    protocol = reader.get("ssl.protocol") or "TLS"
    # SSL is another name of TLS in Java, too.
    if protocol not in ("TLS", "SSL") and protocol not in TLS_VERSIONS:
        known = " or ".join(TLS_VERSIONS)
        reader.report("ssl.protocol", f"{reader.render('ssl.protocol')} is not supported; use {known}")
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
        shown = ", ".join(unknown) if all(map(_SUITE_NAME, unknown)) else "an unknown name"
        example = "such as TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
        reader.report(key, f"{key} contains {shown}, which cannot be offered; give names of Java and IANA, {example}")
        return ()
    if 0 < len(SUITES_1_3.intersection(names)) < len(SUITES_1_3) and not CAN_CHOOSE:
        all_of_them = ", ".join(sorted(SUITES_1_3))
        reader.report(
            key, f"{key}: before 3.15, Python offers all suites of TLS 1.3 or none; name {all_of_them}, or none"
        )
    return tuple(names)
