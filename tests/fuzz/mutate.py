"""Documents changed at random: bytes of any document, and the structure of one that is JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from random import Random
from re import compile as regex
from typing import Any, Final

_LONGEST: Final = 100_000
_MOST_PLACES: Final = 20_000
_FEW_PLACES: Final = 300
_TIMES: Final = (*(1, 2, 3, 10, 30, 100) * 8, 1_000, 20_000)
"""How often something is repeated: rarely so often that reading it costs more than a moment."""
_TOKENS: Final = tuple(
    text.encode("utf-8", "surrogatepass")
    for text in (
        "\0", "\r", "\n", "\t", "\x1b[31m", "\x7f", "\x85", "\u2028", "\u202e", "\ufeff", "\ud800",
        "\U0001f642", "²", "٣",
        "::error::x", "${env:HOME}", "${env:QUOTAFORM_X}", "${env:", "${", "$", "&a ", "*a", "<<: *a",
        "!!python/name:os.system ",
        "!!binary ", "? ", "- ", ": ", ":", ",", "{", "}", "[", "]", '"', "'", "\\", "\\\n", "\\u0000",
        "\\ud800", "\\u", "=", ";",
        "null", "~", "true", "no", ".nan", ".inf", "NaN", "Infinity", "1e400", "-1", "-0", "0", "1_000",
        "0x10", "9" * 400, "5e-324",
        "1e-320", "2026-11-31", "<default>", '"<default>"', "unlimited", "%YAML 1.1\n", "---\n", "...\n", "# ",
        "|\n", ">-\n", "@",
        "`", "<<<<<<< HEAD\n", "10MiB/s", "%", "*", "??", "[!a]", "::1", "::ffff:10.0.0.1",
        "[fe80::1%eth0]:9092", "user", "client-id",
        "ip", "/", "//", "/*", "*/", "\u00a0", "Å", " ", "  ", "-----BEGIN CERTIFICATE-----\n",
    )
)  # fmt: skip
_ODD_NUMBERS: Final = (0, 1, 4, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_BRACKETS: Final = ((b"[", b"]"), (b"{a: ", b"}"), (b'{"a":', b"}"), (b"(", b")"), (b"- ", b""))
_DIGITS: Final = regex(rb"()([0-9]+(?:\.[0-9]+)?)").finditer
_LINE: Final = regex(rb"()([^\n]*\n)").finditer
_ODD_VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63, 2**64, 10**400, 0.5, 5e-324, 1e308, float("nan"),
    float("inf"), "",
    " ", "a", "\n::error::x", "\x1b[31mred", "\ud800", "\u202e", "NaN", "Infinity", "<default>", "null", "1.0",
    "2026-13-45",
    "sha256:", "x" * 5_000, [], [None], [[]], {}, {"": None}, {"a": {"b": {}}},
)  # fmt: skip

_HUGE: Final = (
    "9" * 19, "9" * 20, "9" * 40, "9" * 309, "1" + "0" * 310, "-" + "9" * 400, "9" * 4300, "9" * 4301, "9" * 20_000,
    "0." + "3" * 400, "9" * 400 + ".5", "1e308", "1e309", "-1e400", "1e-400", "1e999999999", "1e" + "9" * 400,
    "9" * 400 + "e-400", "1795000000" + "0" * 300, "253402300799", "253402300800", str(2**63), str(-(2**63) - 1),
    "0" * 300 + "7", "1_" * 200 + "1", "NaN", "Infinity", "-Infinity",
)  # fmt: skip
"""Numbers of hundreds of digits, at the edges of doubles, times and 64 bits, and what is none."""
_TYPED: Final = (
    "4711", "-0.5", "1e400", "true", "no", "null", "~", "2026-12-31", "2026-12-31T09:12:44Z", "12:30:45", "0x1F", "[]",
    "[4711]", "[[a]]", "{}", "{a: 4711}", '{"a": [null]}', '""', '"4711"', "'true'", "!!str 4711", "!!int '4711'",
    "&a 4711", "9" * 400,
)  # fmt: skip
"""Values of each type, as YAML has them; many are JSON, too."""
_VALUE: Final = regex(
    rb"""(:[ \t]*)("[^"\n]*"|'[^'\n]*'|[^\s,{}\[\]"'][^,{}\[\]\n]*|\[[^\[\]{}\n]*\]|\{[^{}\n]*\})"""
).finditer


def mutate(random: Random, corpus: Sequence[bytes]) -> bytes:
    """Return one document of a corpus with some changes, rarely with none that counts."""
    data = random.choice(corpus)
    if random.random() < 0.5 and (tree := _tree(data)) is not None:
        for _ in range(_times(random)):
            tree = mutate_tree(random, tree)
        data = _json(random, tree) or data
        if random.random() < 0.7:
            return data
    for _ in range(_times(random)):
        start, end, instead = _change(random, data, corpus)
        data = data[:start] + instead + data[end:]
    return data[:_LONGEST]


def _times(random: Random) -> int:
    return random.choice([1, 1, 1, 2, 2, 3, 5])


# Bytes


def _change(random: Random, data: bytes, corpus: Sequence[bytes]) -> tuple[int, int, bytes]:
    """Return a place, and what stands there instead."""
    kind = random.random()
    start, end = _span(random, data)
    if kind < 0.2:
        return start, random.choice([start, end]), random.choice(_TOKENS)
    if kind < 0.4:
        start, end = _found(random, _DIGITS(data)) or (len(data), len(data))
        return start, end, random.choice([*_TOKENS, *(text.encode() for text in _HUGE)])
    if kind < 0.55:
        start, end = _found(random, _VALUE(data)) or (start, end)
        return start, end, random.choice(_TYPED).encode()
    if kind < 0.6:
        size = random.choice([1, 2, 4])  # as lengths of a protocol are
        return start, start + size, (random.choice(_ODD_NUMBERS) & (1 << 8 * size) - 1).to_bytes(size, "big")
    if kind < 0.65:
        return start, start + 1, bytes([(data[start] if start < len(data) else 0) ^ 1 << random.randrange(8)])
    if kind < 0.75:
        return start, random.choice([end, len(data)]), b""
    if kind < 0.8:
        start, end = _found(random, _LINE(data)) or (start, end)
        line = data[start:end]
        return start, end, random.choice([b" " + line, b"  " + line, line.strip(), b""])
    part = data[start:end]
    if kind < 0.87:
        return start, end, part * min(random.choice(_TIMES), _LONGEST // max(1, end - start))
    if kind < 0.93:
        (opening, closing), depth = random.choice(_BRACKETS), random.choice(_TIMES)
        return start, end, opening * depth + part + closing * depth
    other = random.choice([data, *corpus])
    first, last = _span(random, other)
    return start, random.choice([start, end]), other[first:last]


def _span(random: Random, data: bytes) -> tuple[int, int]:
    start = random.randint(0, len(data))
    return start, min(len(data), start + random.choice([1, 1, 2, 4, 10, 100, len(data)]))


def _found(random: Random, matches: Any) -> tuple[int, int] | None:
    places = [match.span(2) for match in matches]
    return random.choice(places) if places else None


# Structure


def _tree(data: bytes) -> Any:
    if data[:1] not in (b"{", b"["):
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _json(random: Random, tree: Any) -> bytes:
    """Return a JSON value as text in UTF-8; nothing for one that is nested too deeply."""
    try:
        text = json.dumps(tree, indent=random.choice([None, 2]), ensure_ascii=random.random() < 0.8)
    except RecursionError:
        return b""
    return text.encode("utf-8", "surrogatepass")


def mutate_tree(random: Random, tree: Any) -> Any:
    """Return a JSON value with one change somewhere in it."""
    places: list[tuple[Any, Any]] = []  # a container, and a key or an index of it
    waiting = [tree]
    while waiting and len(places) < _MOST_PLACES:
        node = waiting.pop()
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, value in list(items):
            places.append((node, key))
            waiting.append(value)
    if not places:
        return _copy(random.choice(_ODD_VALUES))
    node, key = random.choice(places)
    change = random.random()
    if change < 0.35:
        node[key] = _copy(random.choice(_ODD_VALUES))
    elif change < 0.5:
        node[key] = _retyped(random, node[key])
    elif change < 0.6:
        other, name = random.choice(places)
        node[key] = _copy(other.get(name) if isinstance(other, dict) else other[name] if name < len(other) else None)
    elif change < 0.7:
        del node[key]
    elif change < 0.8:
        node[key] = [_copy(node[key])] if random.random() < 0.5 else {"a": _copy(node[key])}
    elif change < 0.85:
        for _ in range(random.choice([2, 100])):
            node[key] = [node[key]]
    elif isinstance(node, dict):
        node[random.choice(["", "x", "user", "\n", f"{key}s", "é"])] = (
            node.pop(key) if change < 0.95 else _copy(node[key])
        )
    else:
        node[key:key] = [_copy(node[key])] * random.choice([1, 2, 300 if len(places) < _FEW_PLACES else 1])
    return tree


def _retyped(random: Random, value: Any) -> Any:
    """Return a value of another type that says much the same, and of a number also one of hundreds of digits."""
    if isinstance(value, bool | int | float):
        return random.choice([str(value), [value], {"a": value}, 10 ** random.choice([19, 40, 309, 400, 4299]), value])
    if isinstance(value, str):
        number = value.strip()
        return random.choice([4711, -0.5, True, [value], {value[:20]: value}, number.isdecimal() and int(number[:50])])
    return random.choice([4711, "4711", -0.5, False, [], {}])


def _copy(value: Any) -> Any:
    """Return a value of its own, so that a change does not go into itself."""
    try:
        return deepcopy(value)
    except RecursionError:
        return None
