"""Builds a Python SSL context from the settings of Java clients, with all stores as PEM."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from re import compile as regex
from ssl import PROTOCOL_TLS_CLIENT, VERIFY_X509_PARTIAL_CHAIN, SSLContext, SSLError, TLSVersion
from sys import platform
from tempfile import mkstemp
from typing import Final

from quotaform.model.secret import Secret

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """What is trusted and what is shown.

    Attributes:
        ca: The PEM text of the certificates that are trusted; `None` for those of the system.
        key_store: The PEM text of a private key and its certificate chain, if a client certificate is shown.
        key_password: The password of an encrypted private key.
        check_host: Whether the server's certificate must be for the host that was connected to.
        versions: The TLS versions to offer, by Java's names.
        ciphers: The cipher suites to offer, by Java's names; those of OpenSSL if there is none.
    """

    ca: str | None = None
    key_store: Secret | None = None
    key_password: Secret | None = None
    check_host: bool = True
    versions: tuple[str, ...] = tuple(TLS_VERSIONS)
    ciphers: tuple[str, ...] = ()

    def context(self) -> SSLContext:
        """Return a context for connections to a broker.

        Raises:
            TrustError: The trusted certificates cannot be read.
            KeyStoreError: Key, chain or password do not fit.
        """
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
                raise TrustError("it contains no readable PEM certificate") from None
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
            raise KeyStoreError(self._reason(error, is_asked=is_asked)) from None
        except OSError as error:
            raise KeyStoreError(f"no temporary file can be made for it ({error.strerror})") from None

    def _reason(self, error: Exception, *, is_asked: bool) -> str:
        if "MISMATCH" in str(getattr(error, "reason", "")):
            return "the private key does not belong to the first certificate"
        if is_asked and self.key_password:
            return "the private key cannot be decrypted with ssl.key.password"
        if is_asked:
            return "the private key is encrypted; give its password with ssl.key.password"
        return "it does not contain a PEM private key (PKCS#8) and its certificate chain"


@contextmanager
def _in_a_file(text: str) -> Iterator[str]:
    """Yield the name of a file (mode 0600) with a key and its chain, which OpenSSL reads from files alone.

    On Linux it is in memory: what is killed leaves no key behind.
    """
    if platform == "linux":
        descriptor = os.memfd_create("key")
        name, kept = f"/proc/self/fd/{descriptor}", None
    else:
        descriptor, name = mkstemp(suffix=".pem")
        kept = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            yield name
    finally:
        if kept is not None:
            kept.unlink(missing_ok=True)


class TrustError(ValueError):
    """The trusted certificates cannot be read; the message goes on after naming them."""


class KeyStoreError(ValueError):
    """The client's key or certificate cannot be used; the message goes on after naming them."""
