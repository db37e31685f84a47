"""Documents of JSON: one, or one per line, of which some may be broken."""

from __future__ import annotations

from collections.abc import Iterator
from json import JSONDecodeError, JSONDecoder, dumps
from re import compile as regex
from typing import Any, Final

from quotaform.core.usage.format.text import read_text
from quotaform.core.usage.sample.sample import LONGEST_RECORD, Rejected, reject
from quotaform.model.text import explain_json_error

TOO_LONG: Final = "a number is too long"
_DECODER: Final = JSONDecoder()
_LINE_START = regex(r"\n[\[{]").search


def json_documents(data: bytes | str) -> Iterator[tuple[int, Any] | Rejected]:
    """Yield the documents of a text, each with the number of the line at which it begins, from 1.

    What stands after a broken document is read from the next line on that begins with a bracket.
    """
    text = read_text(data)
    if isinstance(text, Rejected):
        yield text
        return
    place, line = _skip(text, 0), 1
    counted = 0
    while place < len(text):
        line += text.count("\n", counted, place)
        counted = place
        try:
            document, place = _DECODER.raw_decode(text, place)
        except RecursionError:
            yield reject(line, f"line {line}: the document is nested too deeply", text[place : place + 200])
            place = _next_document(text, place)
        except ValueError as error:
            at, message = explain_json_error(error) if isinstance(error, JSONDecodeError) else (place, TOO_LONG)
            broken = line + text.count("\n", counted, at)
            byte = len(text[:at].encode("utf-8", "replace"))
            yield reject(line, f"line {broken}, byte {byte}: not JSON, or cut: {message}", text[place : place + 200])
            place = _next_document(text, max(at, place))
        else:
            yield line, document
        place = _skip(text, place)


def spell_document(document: object) -> str:
    """Return the beginning of a document as JSON."""
    try:
        return dumps(document, ensure_ascii=False)[:LONGEST_RECORD]
    except RecursionError:
        return "(nested deeply)"


def _skip(text: str, place: int) -> int:
    while place < len(text) and text[place] in " \t\r\n":
        place += 1
    return place


def _next_document(text: str, place: int) -> int:
    """Return where the next document of JSON lines begins: what is indented is part of the broken one."""
    found = _LINE_START(text, place)
    return found.end() - 1 if found else len(text)
