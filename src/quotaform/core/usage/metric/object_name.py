r"""Object names of MBeans, as JMX writes them: `domain:key=value,key="quoted value"`.

A value is plain or quoted. Kafka quotes the tags that hold anything but letters, digits, `_`, `-`, `%`, `.`, blank
and tab; in quotes, `"`, `*`, `?` and `\` stand behind a backslash, and `\n` is a line end.

Source: javax.management.ObjectName.quote, org.apache.kafka.common.utils.Sanitizer.jmxSanitize.
"""

from __future__ import annotations

from re import compile as regex
from typing import Final, NamedTuple

PROPERTY: Final = r'[^,=:"*?\n]+=(?:"(?:[^"\\\n]|\\["*?\\n])*"|[^,=:"\n]*)'
"""A property of an object name, as a regular expression; the value may be a pattern."""

_PROPERTIES = regex(rf"{PROPERTY}(?:,{PROPERTY})*").fullmatch
_ONE = regex(rf"({PROPERTY})(?:,|$)").match
_QUOTED = regex(r'"(?:[^"\\\n]|\\["*?\\n])*"').fullmatch
_ESCAPE: Final = regex(r"\\(.)")


class ObjectName(NamedTuple):
    """An object name.

    Attributes:
        domain: Such as `kafka.server`.
        properties: The values by key, as they are written; see `unquote`.
    """

    domain: str
    properties: dict[str, str]


def parse_object_name(text: str) -> ObjectName | None:
    r"""Return an object name; `None` if the text is none.

    >>> parse_object_name('kafka.server:type=Fetch,client-id="a,b=\\"c\\""')
    ObjectName(domain='kafka.server', properties={'type': 'Fetch', 'client-id': '"a,b=\\"c\\""'})
    >>> parse_object_name("kafka.server")
    """
    domain, colon, rest = text.partition(":")
    properties = parse_properties(rest) if colon else None
    return ObjectName(domain.strip(), properties) if properties is not None else None


def parse_properties(text: str) -> dict[str, str] | None:
    """Return the properties of an object name, as they are written; `None` if the text is no list of properties.

    >>> parse_properties("type=Produce, user=alice")
    {'type': 'Produce', 'user': 'alice'}
    """
    if not _PROPERTIES(text):
        return None
    found, place = {}, 0
    while place < len(text) and (one := _ONE(text, place)):
        key, _, value = one[1].partition("=")
        found[key.strip()] = value
        place = one.end()
    return found


def unquote(value: str) -> str:
    r"""Return a value without the quotes of JMX; as it is if it has none.

    >>> print(unquote('"a\\"b"'), unquote('"a"b"'), unquote("a"))
    a"b "a"b" a
    """
    if not value.startswith('"') or not _QUOTED(value):
        return value
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], value[1:-1])
