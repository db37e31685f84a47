"""Parses `sasl.jaas.config`: a login module, a control flag and its options.

Read as Kafka reads it (`org.apache.kafka.common.security.JaasConfig`, a `java.io.StreamTokenizer`): values in double
or single quotes with backslash escapes, or plain words; comments; a semicolon at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from re import DOTALL, Match
from re import compile as regex
from typing import Final, NamedTuple

from quotaform.model.secret import Secret

_TOKEN: Final = regex(
    r"""(?P<blank>[\x00-\x20]+|/\*.*?(?:\*/|\Z)|/[^\r\n]*)"""
    r"""|"(?P<double>(?:[^"\\\r\n]|\\[^\r\n])*)"|'(?P<single>(?:[^'\\\r\n]|\\[^\r\n])*)'"""
    r"""|(?P<word>[A-Za-z_$\u00a0-\U0010ffff][A-Za-z0-9_$.\-\u00a0-\U0010ffff]*)"""
    r"""|(?P<sign>[=;])""",
    DOTALL,
)
_ESCAPE: Final = regex(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)")
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_MODULES: Final = ("PlainLoginModule", "ScramLoginModule")

FORM: Final = (
    'write: sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="NAME"'
    ' password="PASSWORD"; (for PLAIN: security.plain.PlainLoginModule; every backslash in it is doubled)'
)


class Login(NamedTuple):
    """Who logs in."""

    username: str
    password: Secret


def parse_jaas(text: str) -> Login:
    """Return the user name and password of a login module line.

    Raises:
        ValueError: It is none that can be used; the message holds nothing of the line, which is a secret.
    """
    tokens = list(_tokens(text))
    if not tokens or tokens[0].is_sign:
        raise ValueError(f"it does not begin with a login module; {FORM}")
    module = tokens[0].text.rpartition(".")[2]
    if module not in _MODULES:
        raise ValueError(f"its login module is not one of {' and '.join(_MODULES)}, which are supported; {FORM}")
    if len(tokens) < 2 or tokens[1].text.lower() not in _FLAGS:
        raise ValueError(f"its login module is not followed by a control flag such as required; {FORM}")
    if tokens[-1] != _END:
        raise ValueError(f"it does not end with a semicolon; {FORM}")
    options = _options(tokens[2:-1])
    if options.get("tokenauth", "false").lower() != "false":
        raise ValueError("delegation tokens (tokenauth) are not supported; use a user name and a password")
    for name in ("username", "password"):
        if not options.get(name):
            raise ValueError(f"it has no {name}; {FORM}")
    return Login(options["username"], Secret(options["password"]))


class _Token(NamedTuple):
    text: str
    is_sign: bool = False


_END: Final = _Token(";", True)
_EQUALS: Final = _Token("=", True)


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"it cannot be read after {position} characters; put values in double quotes; {FORM}")
        position = match.end()
        if match["sign"]:
            yield _Token(match["sign"], True)
        elif match["blank"] is None:
            quoted = match["double"] if match["double"] is not None else match["single"]
            yield _Token(match["word"] if quoted is None else _ESCAPE.sub(_unescape, quoted))


def _unescape(match: Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _ESCAPES.get(escaped, escaped)


def _options(tokens: list[_Token]) -> dict[str, str]:
    options: dict[str, str] = {}
    rest = iter(tokens)
    for name in rest:
        sign, value = next(rest, _END), next(rest, _END)
        if name.is_sign or sign != _EQUALS or value.is_sign:
            raise ValueError(f'an option in it is not name="value"; {FORM}')
        options[name.text] = value.text
    return options
