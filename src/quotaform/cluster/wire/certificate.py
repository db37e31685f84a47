"""The validity period of a certificate, for messages."""

from __future__ import annotations

from binascii import Error as Base64Error
from datetime import UTC, datetime
from re import DOTALL
from re import compile as regex
from ssl import CERT_NONE, PROTOCOL_TLS_CLIENT, PEM_cert_to_DER_cert, SSLContext
from typing import Final, NamedTuple

_UTC_TIME: Final = rb"\x17\x0d([0-9]{12})Z"
_GENERALIZED_TIME: Final = rb"\x18\x0f([0-9]{14})Z"
_TIME: Final = rb"(?:" + _UTC_TIME + rb"|" + _GENERALIZED_TIME + rb")"
_VALIDITY: Final = regex(rb"\x30." + _TIME + _TIME, DOTALL).search
"""The Validity of RFC 5280 in DER: a SEQUENCE of two times, each short or long."""

_PEM: Final = regex(r"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----").search


class Validity(NamedTuple):
    """From when until when a certificate is valid, in UTC."""

    begin: datetime
    end: datetime

    def __str__(self) -> str:
        return f"it is valid from {self.begin:%Y-%m-%dT%H:%M:%SZ} until {self.end:%Y-%m-%dT%H:%M:%SZ}"


def read_validity(certificate: bytes) -> Validity | None:
    """Return the validity of a certificate in DER, `None` when it cannot be read."""
    found = _VALIDITY(certificate)
    if found is None:
        return None
    short_begin, long_begin, short_end, long_end = found.groups()
    try:
        return Validity(_time(short_begin, long_begin), _time(short_end, long_end))
    except ValueError:
        return None


def read_pem_validity(text: str) -> Validity | None:
    """Return the validity of the first certificate of a PEM text, `None` when there is none that can be read."""
    found = _PEM(text)
    try:
        return read_validity(PEM_cert_to_DER_cert(found[0])) if found else None
    except (Base64Error, ValueError):
        return None


def unverified_context() -> SSLContext:
    """Return a context for looking at a server's certificate, and for nothing else: it trusts everybody."""
    context = SSLContext(PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = CERT_NONE
    return context


def _time(short: bytes | None, long: bytes | None) -> datetime:
    if long is not None:
        return datetime.strptime(long.decode(), "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    # Two digits of a year are 1950 to 2049 (RFC 5280, 4.1.2.5.1).
    text = (short or b"").decode()
    century = "19" if text[:2] >= "50" else "20"
    return datetime.strptime(century + text, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
