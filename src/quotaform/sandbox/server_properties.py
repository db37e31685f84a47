"""Writes Java properties files for the broker."""

from __future__ import annotations

from collections.abc import Mapping


def render_properties(properties: Mapping[str, str]) -> str:
    r"""Return the text of a Java properties file, in ASCII.

    Kafka reads these files as ISO-8859-1 (`java.util.Properties.load(InputStream)`), so other characters
    are escaped.

    >>> print(render_properties({"log.dirs": "/tmp/é", "a": "b\\c"}), end="")
    log.dirs=/tmp/\u00e9
    a=b\\c
    """
    return "".join(f"{key}={_escape(value)}\n" for key, value in properties.items())


def _escape(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n")
    units = escaped.encode("utf-16-be")
    characters = [int.from_bytes(units[index : index + 2], "big") for index in range(0, len(units), 2)]
    return "".join(chr(unit) if 32 <= unit < 127 else f"\\u{unit:04x}" for unit in characters)
