"""A file of requests to resolve: users, client-ids and addresses, as CSV or as JSON lines.

CSV begins with a line that names its columns: `user`, `client_id` (or `client-id`) and `ip`, those that are needed in
any order. JSON lines have an object with the same names per line. Which of the two it is shows in the first character.

| | CSV | JSON lines |
| --- | --- | --- |
| omitted: a name that no quota mentions | no such column, or an empty field (`alice,`) | no such field |
| an empty client-id | the field `""`, in CSV's own quotes `alice,\"\"\"\"\"\"` | `"client_id": ""` |

CSV cannot tell an empty field from an empty text, so names are read as results print them: a JSON string in quotes is
that string.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import BytesIO, TextIOWrapper
from json import loads
from pathlib import Path
from re import compile as regex
from typing import Final, TextIO

from quotaform.model import rule
from quotaform.model.entity import IP, KNOWN_TYPES, Entity, read_name
from quotaform.model.errors import FileReadError, InvalidFilesError
from quotaform.model.finding import Finding, Location
from quotaform.model.records.document import refuse_constant
from quotaform.model.rule import FindingList
from quotaform.model.text import inert, quote
from quotaform.resolve.index import request_of
from quotaform.system.files import REQUESTS_LIMIT, read_bytes, read_stdin

LONGEST_ROW: Final = 500_000
"""How many characters a row may have."""

_TOO_LONG: Final = f"it has more than {LONGEST_ROW:,} characters"
_FIRST: Final = regex(r"\S").search
_TYPES: Final = {spelling: row.name for row in KNOWN_TYPES.values() for spelling in (row.name, row.parameter)}
COLUMNS: Final = "user, client_id and ip"
_NumberedRow = tuple[int, Entity | str | None]
"""A line, and the entity there or what is wrong with it; `None` for a row without any name."""


class RequestFile:
    """The requests of a file, read again each time they are asked for, so that they take no memory.

    Iterating yields one concrete entity per row, in the order of the file: `ips` of them are addresses. `nameless`
    further rows name no client, and are left out.
    """

    def __init__(self, content: bytes, name: str) -> None:
        """Check a file, which messages call `name`.

        Raises `InvalidFilesError`, with the first hundred problems, if something is wrong in it.
        """
        self.name: Final = name
        self._content = content
        try:
            first = _FIRST(content.decode("utf-8-sig"))  # The text is not kept: it may take more memory.
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise InvalidFilesError([self._problem("this is not UTF-8 text", line)]) from None
        if first is None:
            text = f"the file is empty; its first line must name one or more of the columns {COLUMNS}"
            raise unusable(name, text)
        self._is_json = first[0] == "{"
        problems = FindingList()
        self._count, self.ips, self.nameless = 0, 0, 0
        for line, row in self._rows():
            if isinstance(row, str):
                problems.add(self._problem(row, line))
                if problems.is_full:
                    break
            elif row is None:
                self.nameless += 1
            else:
                self._count += 1
                self.ips += row.parts[0][0] == IP
        if problems.errors:
            raise InvalidFilesError(problems.all())

    @classmethod
    def read(cls, path: Path | None) -> RequestFile:
        """Read a file, or the standard input. Raises `InvalidFilesError` if that fails, or something is wrong in it."""
        name = "stdin" if path is None else str(path)
        try:
            content = read_stdin(REQUESTS_LIMIT) if path is None else read_bytes(path, REQUESTS_LIMIT)
        except FileReadError as error:
            raise unreadable(name, error.reason) from error
        return cls(content, name)

    def __iter__(self) -> Iterator[Entity]:
        for _, row in self._rows():
            if isinstance(row, Entity):
                yield row

    def __len__(self) -> int:
        return self._count

    def _problem(self, text: str, line: int) -> Finding:
        return rule.REQUESTS.finding(text, location=Location(self.name, line))

    def _rows(self) -> Iterator[_NumberedRow]:
        with TextIOWrapper(BytesIO(self._content), "utf-8-sig", newline=None if self._is_json else "") as file:
            if not self._is_json:
                yield from _csv_rows(file)
                return
            for line, text in enumerate(iter(lambda: file.readline(LONGEST_ROW + 1), ""), 1):
                if len(text) > LONGEST_ROW:
                    yield line, f"this is not a JSON object on a line of its own: {_TOO_LONG}"
                    return
                if text.strip():
                    yield line, _json_entity(text)


def _csv_rows(file: TextIO) -> Iterator[_NumberedRow]:
    length = 0

    def lines() -> Iterator[str]:
        nonlocal length
        while text := file.readline(LONGEST_ROW + 1):
            length += len(text)
            if length > LONGEST_ROW:
                raise csv.Error
            yield text

    line, types = 0, None
    reader = csv.reader(lines(), strict=True)
    try:
        for fields in reader:
            line, begin, length = reader.line_num, line + 1, 0
            if not fields:
                continue
            if types is None:
                try:
                    types = read_header(fields)
                except ValueError as error:
                    yield begin, str(error)
                    return
            elif len(fields) != len(types):
                yield begin, f"this row has {len(fields)} fields, but the first line names {len(types)} columns"
            else:
                named = [(kind, read_name(cell)) for kind, cell in zip(types, fields, strict=True) if cell]
                yield begin, _entity(named)
    except csv.Error:
        problem = "a quotation mark is missing, or there is text after a closing one"
        if length > csv.field_size_limit():
            problem = f"a field is larger than {csv.field_size_limit():,} characters"
        yield line + 1, f"this is not CSV: {_TOO_LONG if length > LONGEST_ROW else problem}"


def nameless_note(name: str, rows: int) -> str:
    """Return a warning about rows that name no client.

    >>> nameless_note("clients.csv", 1), nameless_note("clients.csv", 2000)
    ('clients.csv: 1 row names no user, client-id or ip; left out', \
'clients.csv: 2,000 rows name no user, client-id or ip; left out')
    """
    which = "1 row names" if rows == 1 else f"{rows:,} rows name"
    return f"{inert(name)}: {which} no user, client-id or ip; left out"


def unreadable(name: str, reason: str) -> InvalidFilesError:
    """Return the error of requests that cannot be read."""
    return unusable(name, f"it cannot be read: {reason}")


def unusable(name: str, problem: str) -> InvalidFilesError:
    """Return the error of requests that cannot be used."""
    return InvalidFilesError([rule.REQUESTS.finding(problem, location=Location(name))])


def read_header(fields: Sequence[str]) -> list[str]:
    """Return the entity types that the first line of CSV names.

    Raises `ValueError` if a column is not known, or there twice.
    """
    if unknown := [quote(name) for name in fields if name.strip() not in _TYPES]:
        raise ValueError(f"unknown column {', '.join(unknown)}; the columns are {COLUMNS}")
    types = [_TYPES[name.strip()] for name in fields]
    if len(set(types)) < len(types):
        raise ValueError("a column appears twice in the first line")
    return types


def _json_entity(text: str) -> Entity | str | None:
    fields = None
    if text.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):
            fields = loads(text, object_pairs_hook=list, parse_constant=refuse_constant)
    if fields is None:
        return f"this line is not a JSON object; write one object per line, with one or more of {COLUMNS}"
    parts: dict[str, str] = {}
    for field, name in fields:
        kind = _TYPES.get(field)
        if kind is None:
            return f"unknown field {quote(field)}; the fields are {COLUMNS}"
        if kind in parts:
            return f"{kind} appears twice"
        if not isinstance(name, str):
            hint = "; leave out a field without a value" if name is None else ""
            return f"{kind} must be a string{hint}"
        parts[kind] = name
    return _entity(list(parts.items()))


def _entity(parts: list[tuple[str, str]]) -> Entity | str | None:
    if not parts:
        return None
    entity = Entity.of(parts)
    try:
        request_of(entity)
    except ValueError as error:
        return str(error)
    return entity
