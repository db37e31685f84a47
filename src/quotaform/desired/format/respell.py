"""Respells values in the canonical style without changing the number or the unit family.

| written | respelled |
| --- | --- |
| `20 MiB/s`, `20.0MiB/s` | `20MiB/s` |
| `1024MiB/s`, `1000kB/s` | `1GiB/s`, `1MB/s`: a larger unit of the same family, binary or decimal |
| `1.5MiB/s`, `20MB/s` | as written |
| `1048576`, `5000000` | `1MiB/s`, `5MB/s` |
| `1500`, `1000` | as written |
| `150`, `12.50%` (`request_percentage`) | `150%`, `12.5%` |
| `5` (rates of events) | `5/s` |
"""

from __future__ import annotations

from functools import lru_cache
from re import compile as regex
from typing import Final

from quotaform.desired.value import SMALL_RATE
from quotaform.model.quota_key import QUOTA_KEYS, QuotaKey
from quotaform.model.units import UNLIMITED, parse_value, spell_value, unit_spellings

_PARTS: Final = regex(r"([0-9.]+) ?([A-Za-z/%]*)").fullmatch
_BYTES: Final = "B/s"
_BINARY: Final = "iB/s"


@lru_cache(maxsize=65536)
def respell(name: str, text: str) -> str:
    """Return a value of a quota key as files spell it; the text itself when it is none, or is spelled so already.

    >>> respell("producer_byte_rate", "1024 MiB/s"), respell("producer_byte_rate", "20MB/s")
    ('1GiB/s', '20MB/s')
    >>> respell("request_percentage", "150"), respell("request_percentage", "a lot")
    ('150%', 'a lot')
    """
    key = QUOTA_KEYS.get(name)
    if key is None:
        return text
    try:
        value = parse_value(key, text)
        spelled = _respell(key, text, value)
        return spelled if spelled is not None and parse_value(key, spelled) == value else text
    except ValueError:
        return text


def _respell(key: QuotaKey, text: str, value: float) -> str | None:
    shortest = spell_value(key, value)
    parts = _PARTS(text)
    if shortest is None or shortest == UNLIMITED or key.unit != _BYTES or parts is None:
        return shortest
    number, unit = parts[1], parts[2]
    if unit in {"", _BYTES}:
        # No unit was chosen: one that says more is. A bare number stays bare when there is none, and when it is so
        # small that a unit may be missing, of which a lint warns.
        if not unit and value < SMALL_RATE:
            return str(int(value))
        is_bare = not unit and shortest.removesuffix(_BYTES).isdigit()
        return shortest.removesuffix(_BYTES) if is_bare else shortest
    factors = {_factor(key, other): other for other in reversed(unit_spellings(key)) if _is_like(other, unit)}
    own = _factor(key, unit)
    larger = [factor for factor in factors if factor >= own and value % factor == 0]
    if larger:
        return f"{int(value) // max(larger)}{factors[max(larger)]}"
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number}{factors[own]}"


def _is_like(unit: str, other: str) -> bool:
    """Whether two units of bytes are of one family: powers of 1024, or powers of 1000."""
    return unit != _BYTES and unit.endswith(_BINARY) == other.endswith(_BINARY)


def _factor(key: QuotaKey, unit: str) -> int:
    return int(parse_value(key, f"1{unit}"))
