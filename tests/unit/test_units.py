"""Values as people write and read them."""

from __future__ import annotations

import pytest

from quotaform.model.quota_key import (
    CONNECTION_CREATION_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    QUOTA_KEYS,
    REQUEST_PERCENTAGE,
    QuotaKey,
)
from quotaform.model.units import is_unlimited, is_writable, parse_value, plain, render_value, spell_value

MIB = 1048576.0


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        (PRODUCER_BYTE_RATE, "1", 1.0),
        (PRODUCER_BYTE_RATE, "512B/s", 512.0),
        (PRODUCER_BYTE_RATE, "64KiB/s", 65536.0),
        (PRODUCER_BYTE_RATE, "10 MiB/s", 10 * MIB),
        (PRODUCER_BYTE_RATE, "1.5MiB/s", 1.5 * MIB),
        (PRODUCER_BYTE_RATE, "5MB/s", 5e6),
        (PRODUCER_BYTE_RATE, "5kB/s", 5e3),
        (PRODUCER_BYTE_RATE, "5KB/s", 5e3),
        (PRODUCER_BYTE_RATE, "1GiB/s", 2.0**30),
        (PRODUCER_BYTE_RATE, "1e6", 1e6),
        (PRODUCER_BYTE_RATE, "1.5e1", 15.0),
        (PRODUCER_BYTE_RATE, "9007199254740992", 2.0**53),
        (PRODUCER_BYTE_RATE, "9223372036854775808", 2.0**63),
        (PRODUCER_BYTE_RATE, "unlimited", 2.0**63),
        (REQUEST_PERCENTAGE, "150%", 150.0),
        (REQUEST_PERCENTAGE, "0.1", 0.1),
        (REQUEST_PERCENTAGE, "5e-324", 5e-324),
        (REQUEST_PERCENTAGE, "1e308%", 1e308),
        (REQUEST_PERCENTAGE, "unlimited", 2147483647.0),
        (CONTROLLER_MUTATION_RATE, "2.5/s", 2.5),
        (CONNECTION_CREATION_RATE, "50/s", 50.0),
        (CONNECTION_CREATION_RATE, "unlimited", 2147483647.0),
    ],
)
def test_a_value_is_read_exactly(key: QuotaKey, text: str, value: float) -> None:
    assert parse_value(key, text) == value


NEAREST = "the nearest values are"


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        (PRODUCER_BYTE_RATE, "10MiBps", '"10MiBps" is not in a unit of producer_byte_rate; did you mean 10MiB/s?'),
        (PRODUCER_BYTE_RATE, "10 MB", '"10 MB" lacks "/s"; did you mean 10MB/s?'),
        (PRODUCER_BYTE_RATE, "10mib/S", '"10mib/S" is not in a unit of producer_byte_rate; did you mean 10MiB/s?'),
        (
            PRODUCER_BYTE_RATE,
            "10Mbps",
            '"10Mbps" counts bits; producer_byte_rate counts bytes, eight bits each: '
            "write for example 10MiB/s, 5MB/s or a whole number of bytes per second",
        ),
        (PRODUCER_BYTE_RATE, "1.5 B/s", "1.5 B/s is not a whole number of bytes per second"),
        (CONNECTION_CREATION_RATE, "0.5/s", "0.5/s is not a whole number of connections per second"),
        (PRODUCER_BYTE_RATE, "NaN", '"NaN" is not a value of producer_byte_rate; write unlimited for no limit'),
        (PRODUCER_BYTE_RATE, ".inf", '".inf" is not a value of producer_byte_rate; write unlimited for no limit'),
        (PRODUCER_BYTE_RATE, "\nNaN", '"\\nNaN" is not a value of producer_byte_rate; write unlimited for no limit'),
        (PRODUCER_BYTE_RATE, "UNLIMITED", '"UNLIMITED" is not a value of producer_byte_rate; write unlimited for no '),
        (
            REQUEST_PERCENTAGE,
            "0",
            "0 is not above 0; write unlimited for no limit, or omit the key to inherit one",
        ),
        (REQUEST_PERCENTAGE, "0.0%", "0.0% is not above 0; "),
        (REQUEST_PERCENTAGE, "-1", '"-1" is not a value of request_percentage; write unlimited for no limit'),
        (REQUEST_PERCENTAGE, "-5\n::error", '"-5\\n::error" is not above 0; write unlimited for no limit, or omit '),
        (REQUEST_PERCENTAGE, "1e400", "1e400 is out of range: no quota value has that many digits"),
        (REQUEST_PERCENTAGE, "1e-400", "1e-400 is out of range: no quota value has that many digits"),
        (REQUEST_PERCENTAGE, "1e9999999999", "1e9999999999 is out of range: no quota value has that many digits"),
        (REQUEST_PERCENTAGE, "1e309", "1e309 is too large for request_percentage; its maximum is written as unlimited"),
        (REQUEST_PERCENTAGE, "1e-330", "1e-330 is too small for a double"),
        (
            PRODUCER_BYTE_RATE,
            "9007199254740993",
            f"9007199254740993 cannot be represented exactly as a double; {NEAREST} "
            "9007199254740992 and 9007199254740994",
        ),
        (
            REQUEST_PERCENTAGE,
            "0.10000000000000000001",
            f"0.10000000000000000001 cannot be represented exactly as a double; {NEAREST} 0.09999999999999999 and 0.1",
        ),
        (PRODUCER_BYTE_RATE, "8193PiB/s", "8193PiB/s is too large for producer_byte_rate; its maximum is written as "),
        (CONNECTION_CREATION_RATE, "2147483648", "2147483648 is too large for connection_creation_rate; "),
        (REQUEST_PERCENTAGE, "5/s", '"5/s" is not in a unit of request_percentage; the units are %, or a bare number'),
        (
            CONTROLLER_MUTATION_RATE,
            "5%",
            '"5%" is not in a unit of controller_mutation_rate; the units are /s, ',
        ),
        (PRODUCER_BYTE_RATE, "1,000", '"1,000" is not a value of producer_byte_rate; write the number without separ'),
        (PRODUCER_BYTE_RATE, "1 000 B/s", '"1 000 B/s" is not a value of producer_byte_rate; write the number without'),
        (PRODUCER_BYTE_RATE, "٥", '"٥" is not a value of producer_byte_rate; write for example 10MiB/s'),
        (PRODUCER_BYTE_RATE, "", '"" is not a value of producer_byte_rate; write for example 10MiB/s'),
        (PRODUCER_BYTE_RATE, " 5", '" 5" is not a value of producer_byte_rate; '),
        (PRODUCER_BYTE_RATE, "5\x1b[31m", '"5\\u001b[31m" is not in a unit of producer_byte_rate; '),
        (PRODUCER_BYTE_RATE, "x" * 500, f'"{"x" * 60}…" (500 characters) is not a value of producer_byte_rate; '),
        (PRODUCER_BYTE_RATE, "9" * 500, f'"{"9" * 60}…" (500 characters) is out of range: '),
        (PRODUCER_BYTE_RATE, "9" * 500 + "MiBps", f'"{"9" * 60}…" (505 characters) is not in a unit of '),
    ],
)
def test_what_is_no_value_says_why_and_what_to_write(key: QuotaKey, text: str, said: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        parse_value(key, text)
    assert str(caught.value).startswith(said)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (PRODUCER_BYTE_RATE, 1.0, "1B/s"),
        (PRODUCER_BYTE_RATE, 1536.0, "1536B/s"),
        (PRODUCER_BYTE_RATE, 10 * MIB, "10MiB/s"),
        (PRODUCER_BYTE_RATE, 5e6, "5MB/s"),
        (PRODUCER_BYTE_RATE, 2.0**62, "4096PiB/s"),
        (PRODUCER_BYTE_RATE, 2.0**63, "unlimited"),
        (PRODUCER_BYTE_RATE, 1024.5, None),
        (PRODUCER_BYTE_RATE, 1024.0000005, None),
        (PRODUCER_BYTE_RATE, 1e300, None),
        (PRODUCER_BYTE_RATE, 0.0, None),
        (PRODUCER_BYTE_RATE, -1.0, None),
        (PRODUCER_BYTE_RATE, float("nan"), None),
        (REQUEST_PERCENTAGE, float("inf"), None),
        (REQUEST_PERCENTAGE, 12.5, "12.5%"),
        (REQUEST_PERCENTAGE, 1e300, "1e+300"),
        (REQUEST_PERCENTAGE, 1e-7, "1e-07"),
        (CONTROLLER_MUTATION_RATE, 0.1, "0.1/s"),
        (CONNECTION_CREATION_RATE, 50.0, "50/s"),
        (CONNECTION_CREATION_RATE, 2147483647.0, "unlimited"),
    ],
)
def test_a_value_is_spelled_for_a_file_or_not_at_all(key: QuotaKey, value: float, text: str | None) -> None:
    assert spell_value(key, value) == text
    assert is_writable(key, value) == (text is not None)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (PRODUCER_BYTE_RATE, 10 * MIB, "10 MiB/s"),
        (PRODUCER_BYTE_RATE, 50e6, "50 MB/s"),
        # A file's 20MB/s was shown as 19.073 MiB/s [20000000].
        (PRODUCER_BYTE_RATE, 20e6, "20 MB/s"),
        (PRODUCER_BYTE_RATE, 1.5e9, "1.5 GB/s"),
        (PRODUCER_BYTE_RATE, 12345678.0, "11.774 MiB/s [12345678]"),
        (PRODUCER_BYTE_RATE, 1500.0, "1.5 kB/s"),
        (PRODUCER_BYTE_RATE, 1536.0, "1.5 KiB/s"),
        (PRODUCER_BYTE_RATE, 512.0, "512 B/s"),
        (PRODUCER_BYTE_RATE, 2.0**63, "unlimited"),
        (PRODUCER_BYTE_RATE, float("nan"), "NaN"),
        (PRODUCER_BYTE_RATE, 1024.5, "1 KiB/s [1024.5]"),
        (REQUEST_PERCENTAGE, 150.0, "150%"),
        # These two were lines of more than 300 digits, and the first began with 0%.
        (REQUEST_PERCENTAGE, 5e-324, "<0.001% [0.0000000000…0005 (326 characters)]"),
        (REQUEST_PERCENTAGE, 1e300, "100000000000…0160 (301 characters)%"),
        (CONNECTION_CREATION_RATE, 50.0, "50/s"),
        (None, 1e20, "100000000000000000000"),
    ],
)
def test_a_value_is_shown_with_its_unit(key: QuotaKey | None, value: float, text: str) -> None:
    assert render_value(key, value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.0**63, "9223372036854775808"),
        (0.1, "0.1"),
        (5e-7, "0.0000005"),
        (-0.0, "0"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_a_double_is_written_without_an_exponent(value: float, text: str) -> None:
    assert plain(value) == text


def test_no_value_and_the_maximum_limit_nothing() -> None:
    for key in QUOTA_KEYS.values():
        assert is_unlimited(key, None)
        assert is_unlimited(key, key.maximum)
        assert not is_unlimited(key, 1.0)
    assert not is_unlimited(None, 1e300)
    assert is_unlimited(None, float("inf"))
