"""Reads and writes `sasl.jaas.config`: a login module, a control flag and its options.

Read as Kafka reads it (`org.apache.kafka.common.security.JaasConfig`, a `java.io.StreamTokenizer`): values in double
or single quotes with backslash escapes, or plain words; comments; a semicolon at the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from re import DOTALL, Match
from re import compile as regex
from typing import Final, NamedTuple

from quotaform.cluster.client.properties import ClientProperties, ReportedError

_TOKEN: Final = regex(
    r"""(?P<blank>[\x00-\x20]+|/\*.*?(?:\*/|\Z)|/[^\r\n]*)"""
    r"""|"(?P<double>(?:[^"\\\r\n]|\\.)*)"|'(?P<single>(?:[^'\\\r\n]|\\.)*)'"""
    r"""|(?P<word>[A-Za-z_$\u00a0-\U0010ffff][A-Za-z0-9_$.\-\u00a0-\U0010ffff]*)"""
    r"""|(?P<sign>[=;{}])""",
    DOTALL,
)
_ESCAPE: Final = regex(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", DOTALL)
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_QUOTED: Final = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def read_jaas(reader: ClientProperties, modules: Collection[str], form: str) -> dict[str, str]:
    """Return the options of `sasl.jaas.config`; `form` is what to write, and ends the sentences about problems."""
    key = "sasl.jaas.config"
    if not reader.has(key):
        raise reader.refused("security.protocol", f"{key} is missing; {form}")
    if (line := reader.get(key)) is None:
        raise ReportedError
    try:
        name, options = parse_jaas(line)
        if name not in modules:
            raise ValueError(f"its login module is not {' or '.join(modules)}")
    except ValueError as error:
        raise reader.refused(key, f"{key} cannot be used: {error}; {form}") from None
    return options


def parse_jaas(text: str) -> tuple[str, dict[str, str]]:
    """Return a line's login module without its package, and its options. Raises `ValueError` with nothing of it."""
    tokens = list(_tokens(text))
    if not tokens or tokens[0].is_sign:
        raise ValueError("it does not begin with a login module")
    if _Token("{", True) in tokens[:2]:
        raise ValueError("it is an entry of a JAAS file; leave out its name and the braces")
    if len(tokens) < 2 or tokens[1].text.lower() not in _FLAGS:
        raise ValueError("its login module is not followed by a control flag such as required")
    if tokens[-1] != _END:
        hint = "; a value with a slash needs double quotes" if "/" in text and text.rstrip().endswith(";") else ""
        raise ValueError(f"it does not end with a semicolon{hint}")
    if _END in tokens[2:-1]:
        raise ValueError("it has more than one login module, or one that ends early")
    options: dict[str, str] = {}
    rest = iter(tokens[2:-1])
    for name in rest:
        sign, value = next(rest, _END), next(rest, _END)
        if name.is_sign or sign != _Token("=", True) or value.is_sign:
            raise ValueError('an option in it is not name="value"')
        options[name.text] = value.text
    return tokens[0].text.rpartition(".")[2], options


def shown_option(reader: ClientProperties, name: str) -> str:
    """Return an option as it is written, since a variable may hold it."""
    try:
        return parse_jaas(reader.written("sasl.jaas.config"))[1][name]
    except (ValueError, KeyError):
        return "of sasl.jaas.config"


def render_jaas(module: str, options: Mapping[str, str]) -> str:
    """Return the line of a login module, given with its package; `parse_jaas` reads it."""
    written = "".join(f' {name}="{value.translate(_QUOTED)}"' for name, value in options.items())
    return f"{module} required{written};"


class _Token(NamedTuple):
    text: str
    is_sign: bool = False


_END: Final = _Token(";", True)


def _tokens(text: str) -> Iterator[_Token]:
    def unescape(match: Match[str]) -> str:
        escaped = match[1]
        return chr(int(escaped, 8)) if escaped[0] in "01234567" else _ESCAPES.get(escaped, escaped)

    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(
                "it cannot be read; put values in double quotes, and a backslash before a double quote in a value"
            )
        position = match.end()
        if match["sign"]:
            yield _Token(match["sign"], True)
        elif match["blank"] is None:
            quoted = match["double"] if match["double"] is not None else match["single"]
            yield _Token(match["word"] if quoted is None else _ESCAPE.sub(unescape, quoted))
