"""Parses and prints values with units, using exact arithmetic.

| unit | written as | one is |
| --- | --- | --- |
| bytes per second | `512B/s 64KiB/s 10MiB/s 1GiB/s 5MB/s`, a bare number | a byte per second |
| percent | `150%`, a bare number | a percent of one thread |
| events per second | `20/s`, a bare number | one per second |

`unlimited` stands for the key's own maximum. Input is never rounded: a value that a double cannot represent exactly is
rejected.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import inf, isfinite, nextafter
from re import compile as regex
from typing import Final

from quotaform.model.quota_key import QuotaKey
from quotaform.model.text import quote

UNLIMITED: Final = "unlimited"

_IEC: Final = {"B/s": 1, "KiB/s": 2**10, "MiB/s": 2**20, "GiB/s": 2**30, "TiB/s": 2**40, "PiB/s": 2**50}
_SI: Final = {"kB/s": 10**3, "KB/s": 10**3, "MB/s": 10**6, "GB/s": 10**9, "TB/s": 10**12, "PB/s": 10**15}
_SHOWN_SI: Final = {name: size for name, size in _SI.items() if name != "KB/s"}
_FACTORS: Final[dict[str, dict[str, int]]] = {
    "B/s": {"": 1, **_IEC, **_SI},
    "%": {"": 1, "%": 1},
    "/s": {"": 1, "/s": 1},
}
_WRITTEN_AS: Final = {"B/s": ("10MiB/s (2^20)", "5MB/s (10^6)"), "%": ("150%",), "/s": ("20/s",)}
_SPELLED_FACTORS: Final = sorted((size, name) for name, size in (_IEC | _SI).items() if name != "KB/s")
_EXAMPLES: Final = {"B/s": "10MiB/s, 5MB/s or a whole number of bytes per second", "%": "150%", "/s": "20/s"}

_WRITTEN: Final = regex(
    r"(?P<number>(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?) ?(?P<unit>[^0-9 ].*)?"
).fullmatch
_NUMBER: Final = regex(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?").fullmatch
_SHOWN: Final = 60
_LARGEST: Final = int(nextafter(inf, 0))
"""The largest double."""
_MAX_DIGITS: Final = 400
"""No double has more digits before the decimal point; longer numbers are rejected before any arithmetic."""


@lru_cache(maxsize=65536)
def parse_value(key: QuotaKey, text: str) -> float:
    """Read a value as it is written in a file or on a command line.

    >>> from quotaform.model.quota_key import PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
    >>> parse_value(PRODUCER_BYTE_RATE, "10MiB/s"), parse_value(REQUEST_PERCENTAGE, "12.5%")
    (10485760.0, 12.5)

    Raises `ValueError`: the text is not a value of this key; the message says why and what to write.
    """
    if text == UNLIMITED:
        return key.maximum
    written = _WRITTEN(text)
    if written is None:
        raise ValueError(
            f"{quote(text, _SHOWN)} is not a value of {key.name}; write a number above 0 without separators, for "
            f"example {_EXAMPLES[key.unit]}, or {UNLIMITED} for no limit"
        )
    number, unit = written["number"], (written["unit"] or "")
    factor = _FACTORS[key.unit].get(unit)
    if factor is None:
        remedy = f"the units are {' '.join(known for known in _FACTORS[key.unit] if known)}, or a bare number"
        spelled = f"{unit.removesuffix('ps')}/s"
        if spelled in _FACTORS[key.unit] and len(number) < _SHOWN:
            remedy = f"did you mean {number}{spelled}?"
        raise ValueError(f"{quote(text, _SHOWN)} is not in a unit of {key.name} ({key.measures}); {remedy}")
    mantissa, _, exponent = number.lower().partition("e")
    if len(exponent) > 6 or len(mantissa) + abs(int(exponent or 0)) > _MAX_DIGITS:
        raise ValueError(f"{_cut(text)} is out of range: no quota value has that many digits")
    exact = Fraction(number) * factor
    if exact <= 0:
        raise ValueError(f"{_cut(text)} is not above 0; write {UNLIMITED} for no limit, or omit the key to inherit one")
    if key.is_whole and exact.denominator != 1:
        raise ValueError(f"{_cut(text)} is not a whole number of {key.measures}")
    if exact > (int(key.maximum) if key.is_whole else _LARGEST):
        raise ValueError(f"{_cut(text)} is too large for {key.name}; its maximum is written as {UNLIMITED}")
    value = float(exact)
    if value == 0:
        raise ValueError(f"{_cut(text)} is too small for a double")
    if exact != Fraction(value) and (key.is_whole or exact != Fraction(repr(value))):
        below, above = sorted((value, nextafter(value, -inf if Fraction(value) > exact else inf)))
        nearest = f"{plain(below)} and {plain(above)}"
        raise ValueError(f"{_cut(text)} cannot be represented exactly as a double; the nearest values are {nearest}")
    return value


def _cut(text: str) -> str:
    """Return a text that is known to be a number and a unit."""
    return text if len(text) <= _SHOWN else quote(text, _SHOWN)


def parse_number(text: str) -> float:
    """Read a plain decimal number as the nearest double, as Kafka's own tools do.

    >>> parse_number("1e3"), parse_number("9223372036854775807")
    (1000.0, 9.223372036854776e+18)

    Raises `ValueError`: it is anything else, or not finite.
    """
    if not _NUMBER(text) or not isfinite(value := float(text)):
        raise ValueError(f"{quote(text, _SHOWN)} is not a finite decimal number")
    return value


def unit_spellings(key: QuotaKey) -> tuple[str, ...]:
    """Return the units that may stand behind a number of a key.

    >>> from quotaform.model.quota_key import CONTROLLER_MUTATION_RATE
    >>> unit_spellings(CONTROLLER_MUTATION_RATE)
    ('/s',)
    """
    return tuple(name for name in _FACTORS[key.unit] if name)


def describe_key(key: QuotaKey) -> str:
    """Return what a key limits and how its values are written, in two sentences.

    >>> from quotaform.model.quota_key import CONTROLLER_MUTATION_RATE
    >>> print(describe_key(CONTROLLER_MUTATION_RATE))
    Partitions created or deleted per second, per cluster (KIP-599). Write 20/s, a number above 0, or unlimited.
    """
    only = "" if len(key.entity_types) > 1 else f"; {min(key.entity_types)} entities only"
    plain_number = "a whole number from 1 on" if key.is_whole else "a number above 0"
    written = ", ".join((*_WRITTEN_AS[key.unit], plain_number))
    return f"{key.limits}, per {key.per}{only} ({key.kip}). Write {written}, or {UNLIMITED}."


def is_unlimited(key: QuotaKey | None, value: float | None) -> bool:
    """Whether a value, or its absence, limits nothing."""
    return value is None or value == inf or (key is not None and value >= key.maximum)


def plain(value: float) -> str:
    """Return a double as a decimal without exponent: exact when whole, else the shortest that reads back.

    >>> plain(2.0**63), plain(0.1), plain(5e-7), plain(float("nan"))
    ('9223372036854775808', '0.1', '0.0000005', 'NaN')
    """
    if not isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if value == int(value):
        return str(int(value))
    return format(Decimal(repr(value)), "f")


def readable(value: float) -> str:
    """Return a double as messages and plans print it: as `plain` does, and the middle of very many digits left out.

    >>> readable(0.1), readable(5e-324), readable(1e300)
    ('0.1', '0.0000000000…0005 (326 characters)', '100000000000…0160 (301 characters)')
    """
    return _cut_digits(plain(value))


def _cut_digits(digits: str) -> str:
    return digits if len(digits) <= 40 else f"{digits[:12]}…{digits[-4:]} ({len(digits)} characters)"


@lru_cache(maxsize=65536)
def render_value(key: QuotaKey | None, value: float, *, decimal: bool | None = None) -> str:
    """Return a value as plans print it: units, at most 3 decimals, `[raw]` behind what was rounded.

    Bytes have the unit that is exact, of two such units the preferred one, else the one with fewer digits, of equal
    ones that of IEC.

    >>> from quotaform.model.quota_key import PRODUCER_BYTE_RATE
    >>> render_value(PRODUCER_BYTE_RATE, 10485760.0), render_value(PRODUCER_BYTE_RATE, 50e6)
    ('10 MiB/s', '50 MB/s')
    >>> render_value(PRODUCER_BYTE_RATE, 12345678.0)
    '11.774 MiB/s [12345678]'
    >>> render_value(PRODUCER_BYTE_RATE, 128000.0), render_value(PRODUCER_BYTE_RATE, 128000.0, decimal=True)
    ('125 KiB/s', '128 kB/s')

    Of a key that this version does not know (`None`) it is the plain number; a value may be one that quotaform would
    not write (NaN, a fraction of a byte). `decimal`: whether units that are powers of 1000 are preferred, or those of
    IEC; `None` for neither.
    """
    if key is None or not isfinite(value) or value <= 0:
        return readable(value)
    if value == key.maximum:
        return UNLIMITED
    exact = Fraction(value) if value == int(value) else Fraction(repr(value))
    if key.unit != "B/s":
        return f"{_rounded(exact)}{key.unit}{'' if round(exact, 3) == exact else f' [{readable(value)}]'}"
    units = (_largest_unit(_IEC, value), _largest_unit(_SHOWN_SI, value))
    fitting = [(size, name) for size, name in units if round(exact / size, 3) == exact / size]
    preferred = None if decimal is None else units[decimal]
    if preferred in fitting:
        fitting = [unit for unit in fitting if unit == preferred]
    size, name = min(fitting, key=lambda unit: len(plain_fraction(exact / unit[0])), default=units[0])
    rest = "" if fitting else f" [{readable(value)}]"
    return f"{_rounded(exact / size)} {name}{rest}"


def is_decimal(key: QuotaKey | None, value: float | None) -> bool:
    """Whether a value is written in units that are powers of 1000, as 5 MB/s is.

    >>> from quotaform.model.quota_key import PRODUCER_BYTE_RATE
    >>> [is_decimal(PRODUCER_BYTE_RATE, value) for value in (5e6, 2.0**20, None)]
    [True, False, False]
    """
    if key is None or value is None or key.unit != "B/s" or value < min(_SHOWN_SI.values()):
        return False
    return render_value(key, value).rpartition(" ")[2] in _SHOWN_SI


def render_measured(key: QuotaKey | None, value: float, *, decimal: bool = False) -> str:
    """Return what was measured as reports print it: three digits, in the largest unit that it has one of.

    >>> from quotaform.model.quota_key import PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
    >>> render_measured(PRODUCER_BYTE_RATE, 12345678.0), render_measured(REQUEST_PERCENTAGE, 0.04567)
    ('11.8 MiB/s', '0.0457%')
    >>> render_measured(PRODUCER_BYTE_RATE, 12345678.0, decimal=True)
    '12.3 MB/s'

    `decimal`: whether units are powers of 1000, like those of the limit that is shown with it; see `is_decimal`.
    """
    if not isfinite(value):
        return plain(value)
    size, unit = measuring_unit(key, value, decimal=decimal)
    number = value / size
    # Three digits, or all of those before the point; never an exponent.
    digits = f"{number:,.0f}" if abs(number) >= 100 or number == 0 else plain(float(f"{number:.3g}"))
    return f"{digits}{' ' * unit.endswith('B/s')}{unit}"


def measuring_unit(key: QuotaKey | None, highest: float, *, decimal: bool = False) -> tuple[int, str]:
    """Return the unit in which values up to the highest one are best read: its size, and its name.

    >>> from quotaform.model.quota_key import CONTROLLER_MUTATION_RATE, PRODUCER_BYTE_RATE
    >>> measuring_unit(PRODUCER_BYTE_RATE, 12345678.0), measuring_unit(CONTROLLER_MUTATION_RATE, 5.0)
    ((1048576, 'MiB/s'), (1, '/s'))
    """
    if key is None:
        return 1, ""
    return _largest_unit(_SHOWN_SI if decimal else _IEC, highest) if key.unit == "B/s" else (1, key.unit)


def _rounded(number: Fraction) -> str:
    """Return a number above 0 with at most 3 decimals; none is shown as 0, which would block."""
    return _cut_digits(plain_fraction(number)) if round(number, 3) else "<0.001"


def _largest_unit(units: dict[str, int], value: float) -> tuple[int, str]:
    """Return the largest unit that a value has at least one of; a byte per second if there is none."""
    return next(((size, name) for name, size in reversed(units.items()) if value >= size), (1, "B/s"))


def plain_fraction(number: Fraction) -> str:
    """Return a fraction of at most 3 decimals without trailing zeros.

    >>> plain_fraction(Fraction(3, 2)), plain_fraction(Fraction(100)), plain_fraction(Fraction(1, 1000))
    ('1.5', '100', '0.001')
    """
    whole, thousandths = divmod(round(number * 1000), 1000)
    return f"{whole}.{thousandths:03d}".rstrip("0").rstrip(".") if thousandths else str(whole)


def is_writable(key: QuotaKey, value: float) -> bool:
    """Whether files can represent a value: finite, above 0, and for a whole key a whole number within its maximum.

    >>> from quotaform.model.quota_key import CONNECTION_CREATION_RATE
    >>> [is_writable(CONNECTION_CREATION_RATE, value) for value in (1.0, 0.5, 0.0, 2147483648.0)]
    [True, False, False, False]
    """
    return isfinite(value) and value > 0 and (not key.is_whole or (value <= key.maximum and value.is_integer()))


def spell_value(key: QuotaKey, value: float) -> str | None:
    """Return the spelling of a value in files that reads back bit for bit; `None` if there is none.

    >>> from quotaform.model.quota_key import CONSUMER_BYTE_RATE, CONNECTION_CREATION_RATE
    >>> spell_value(CONSUMER_BYTE_RATE, 5e6), spell_value(CONSUMER_BYTE_RATE, 1536.0)
    ('5MB/s', '1536B/s')
    >>> spell_value(CONNECTION_CREATION_RATE, 0.5) is None
    True
    """
    if not is_writable(key, value):
        return None
    if value == key.maximum:
        return UNLIMITED
    if key.unit != "B/s":
        return f"{plain(value)}{key.unit}" if 1e-6 <= value < 1e16 else repr(value)
    whole = int(value)
    spellings = [f"{whole // size}{name}" for size, name in _SPELLED_FACTORS if whole % size == 0]
    return min(spellings, key=len)


def suspicious_unit_text(key: str, value: float) -> str:
    """Say that a byte rate is a small number without a unit."""
    number = plain(value)
    rate = f"{number} {'byte' if number == '1' else 'bytes'} per second"
    return f"{key}: {number} is {rate}; write {number}B/s if that is meant, else a unit as in 10MiB/s"
