r"""Percent-encoded names, as Kafka's tools and metrics print them (org.apache.kafka.common.utils.Sanitizer).

The rule is Java's URL-encoding in UTF-8, then `*` as `%2A` and a blank as `%20`. So letters, digits, `.`, `-` and `_`
stay as they are, and everything else is a `%` and two capital hexadecimal digits per byte, `~` included.
"""

from __future__ import annotations

from functools import lru_cache
from re import compile as regex
from typing import Final

from quotaform.model.entity import DEFAULT_WORD, Entity

_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_")
_SPELLED: Final = tuple(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in range(256))
_ESCAPE: Final = regex(rb"%([0-9A-F]{2})")


@lru_cache(maxsize=65536)
def sanitize(name: str) -> str:
    """Return a name as Kafka's Sanitizer writes it.

    >>> sanitize("CN=a b,O=Å"), sanitize("<default>"), sanitize("a*+~")
    ('CN%3Da%20b%2CO%3D%C3%85', '%3Cdefault%3E', 'a%2A%2B%7E')

    A lone surrogate, which no broker can hold, becomes `%3F`, as in Java.
    """
    return "".join([_SPELLED[byte] for byte in name.encode("utf-8", "replace")])


def desanitize(text: str) -> str:
    """Return the name that a text stands for: decoded if it is exactly what `sanitize` writes, else as it is.

    Hence every name can be written in the way in which it is printed, and most also just as they are:

    | text | name | because |
    | --- | --- | --- |
    | `CN%3Da%20b` | `CN=a b` | that is how `CN=a b` is printed |
    | `CN=a b` | `CN=a b` | no name is printed with a blank |
    | `100%`, `a%2gb`, `a%2eb`, `%41` | the same | no name is printed like this |
    | `a%2520b` | `a%20b` | that is how `a%20b` is printed |

    Only a name that itself looks like a sanitized one, such as `a%20b`, has to be written in the way it is printed.

    >>> desanitize("CN%3Da%20b"), desanitize("100%"), desanitize("a%2520b")
    ('CN=a b', '100%', 'a%20b')
    """
    if "%" not in text:
        return text
    try:
        name = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), text.encode()).decode()
    except UnicodeError:
        return text
    return name if sanitize(name) == text else text


def sanitized_entity(entity: Entity) -> str:
    """Return an entity as KIP-546 prints it.

    >>> sanitized_entity(Entity(user="user one", client_id=None))
    '{user=user%20one, client-id=<default>}'
    """
    parts = [
        f"{sanitize(entity_type)}={DEFAULT_WORD if name is None else sanitize(name)}"
        for entity_type, name in entity.parts
    ]
    return f"{{{', '.join(parts)}}}"
