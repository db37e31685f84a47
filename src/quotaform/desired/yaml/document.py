"""The content of a YAML file as plain Python values with locations; which scalars are clear, and limits.

Plain scalars are read where YAML 1.1 and 1.2 agree:

| written without quotes | read as |
| --- | --- |
| `svc-orders`, `10MiB/s`, `y` | text |
| `null`, `~`, nothing | null |
| `yes`, `No`, `on`, `true` | a boolean |
| `5`, `-5` | an integer |
| `1.5`, `1e6` | an exact decimal |
| `007`, `0x1F`, `1_000`, `1:30`, `.inf`, `2026-12-31` | text, marked as ambiguous: others read a number or a date |
"""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from re import MULTILINE, VERBOSE
from re import compile as regex
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from quotaform.model.entity import Entity
from quotaform.model.finding import Finding, Location, Severity
from quotaform.model.rule import FindingList, FindingRule
from quotaform.model.text import LONGEST, quote

WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"), True),
    **dict.fromkeys(("no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"), False),
}
"""The words that are not text (YAML 1.1 as PyYAML reads it, which includes those of YAML 1.2)."""

NUMERIC_STARTS: Final = frozenset("0123456789+-.")
"""What a number or a date begins with."""


class Oddity(StrEnum):
    """What another reader of YAML takes a scalar for."""

    DATE = "a date"
    OCTAL = "an octal number"
    HEXADECIMAL = "a hexadecimal number"
    BINARY = "a binary number"
    UNDERSCORED = "a number with underscores"
    SEXAGESIMAL = "a sexagesimal number"
    INFINITE = "not a finite number"
    NUMBER = "a number"


_INTEGER: Final = regex(r"0|-?[1-9][0-9]*").fullmatch
_DECIMAL: Final = regex(r"[-+]?(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?(?:[eE][-+]?[0-9]{1,4})?").fullmatch
_ODD: Final = tuple(
    (oddity, regex(pattern, VERBOSE).fullmatch)
    for oddity, pattern in (
        (
            Oddity.DATE,
            r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2} (?:(?:[Tt]|[\ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?"
            r"(?:[\ \t]*(?:Z|[-+][0-9]{1,2}(?::?[0-9]{2})?))?)?",
        ),
        (Oddity.OCTAL, r"[-+]?0o?[0-7]+"),
        (Oddity.HEXADECIMAL, r"[-+]?0x[0-9a-fA-F_]+"),
        (Oddity.BINARY, r"[-+]?0b[01_]+"),
        (Oddity.INFINITE, r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"),
        (Oddity.SEXAGESIMAL, r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?"),
        (Oddity.UNDERSCORED, r"[-+]?(?:[0-9]+_[0-9_]*(?:\.[0-9_]*)?|[0-9]*\.[0-9]*_[0-9_]*)(?:[eE][-+]?[0-9]+)?"),
        (Oddity.NUMBER, r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"),
    )
)


@lru_cache(maxsize=8192)
def read_number(text: str) -> str | int | Decimal | Oddity:
    """Return the number that a plain scalar is if every reader agrees on it, else what it is taken for, or the text.

    >>> read_number("5"), read_number("1e6"), read_number("007").value, read_number("10MiB/s")
    (5, Decimal('1E+6'), 'an octal number', '10MiB/s')
    """
    if len(text) <= 18 and _INTEGER(text):
        return int(text)
    if len(text) <= 40 and _DECIMAL(text) and text[0] != "+" and any(map(str.isdigit, text.split("e")[0])):
        return Decimal(text)
    return next((oddity for oddity, matches in _ODD if matches(text)), text)


def glued_key(key: str, known: Collection[str]) -> str | None:
    """Return the known key that a key begins with when only the space after its colon is missing.

    >>> glued_key("user:alice", ["user"]), glued_key("user", ["user"])
    ('user', None)
    """
    begin, colon, _ = key.partition(":")
    return begin if colon and begin in known else None


def taken_for(raw: str, kind: str) -> str:
    """Say that YAML takes a plain scalar for something that is no text, and what to write.

    >>> print(taken_for("007", "an octal number"))
    YAML reads 007 as an octal number; write "007"
    """
    if len(raw) > LONGEST:
        return f"YAML reads {quote(raw)} as {kind}; quote it"
    return f'YAML reads {raw} as {kind}; write "{raw}"'


def is_text(text: str) -> bool:
    """Whether every reader of YAML takes this plain scalar for text.

    >>> [is_text(text) for text in ("svc-a", "yes", "y", "007", "1e5", "", "<default>")]
    [True, False, False, False, False, False, True]
    """
    if text in WORDS or text in {"y", "Y", "n", "N", "=", "<<"}:
        return False
    return text[0] not in NUMERIC_STARTS or type(read_number(text)) is str


Node: TypeAlias = str | int | Decimal | bool | list[Any] | dict[str, Any] | None

Spot: TypeAlias = tuple[Any, Any, str | None, Oddity | None]
"""The marks of a key and its value (for an item of a list: the item twice), the text of a scalar, and its oddity."""


class YamlMapping(dict[str, Any]):
    """A mapping that knows where its keys and values are."""

    __slots__ = ("spots",)

    def __init__(self) -> None:
        self.spots: dict[str, Spot] = {}


class YamlList(list[Any]):
    """A list that knows where its items are."""

    __slots__ = ("spots",)

    def __init__(self) -> None:
        self.spots: list[Spot] = []


def spots_of(container: Node) -> Any:
    """Return where the values of a mapping or a list that was read are written, by key or index."""
    return container.spots  # type: ignore[union-attr]


def spot_of(container: Node, key: str | int) -> Spot:
    """Return where something is written; nothing is known of what no file holds."""
    try:
        return spots_of(container)[key]  # type: ignore[no-any-return]
    except (AttributeError, LookupError):
        return None, None, None, None


class Place(NamedTuple):
    """Where a value and its key are written (for an item of a list: the item twice), and the text of a scalar."""

    key: Location
    value: Location
    text: str | None


class StopReadingError(Exception):
    """The rest of a file is not read: it cannot be, it is too large, or enough problems were found."""


class Document:
    """One YAML file, or the part of it that was read last, and what is wrong with it.

    A long list may be handed over in parts while it is read (see `read_document`): then `root` holds one part of it
    at a time, and `offset` says how many items came before. Whatever adds a finding may raise `StopReadingError`: there
    are more than are shown.
    """

    def __init__(self, name: str) -> None:
        self.name = name  # the file's name in messages
        self.root: Node = None  # its content; `None` for an empty file
        self.offset = 0  # how many items of the list were handed over before those in `root`
        self.findings = FindingList()  # what was found: the first of it, if it is a lot
        self.errors = 0  # how many of the findings are errors
        self.has_odd = False  # whether another reader takes any of its scalars for something else

    def add(
        self,
        broken: FindingRule,
        message: str,
        container: Node,
        key: str | int,
        *,
        at_key: bool = False,
        entity: Entity | None = None,
        quota_key: str | None = None,
    ) -> None:
        """Report something about the value (or the key) of a container."""
        place = self.place(container, key)
        location = place.key if at_key else place.value
        address = None if entity is None else entity.address
        self.add_finding(broken.finding(message, address=address, key=quota_key, location=location))

    def add_finding(self, finding: Finding) -> None:
        """Add a finding."""
        self.errors += finding.severity is Severity.ERROR
        self.findings.add(finding)
        if self.findings.is_full:
            raise StopReadingError

    def report(self, broken: FindingRule, message: str, mark: Any) -> None:
        """Report something at a mark of the parser."""
        self.add_finding(broken.finding(message, location=self.location(mark)))

    def stop(self, broken: FindingRule, message: str, mark: Any) -> NoReturn:
        """Report what leaves nothing to read on."""
        self.report(broken, message, mark)
        raise StopReadingError

    def oddity(self, container: Node, key: str | int) -> Oddity | None:
        """Return what another reader takes a text for."""
        return spot_of(container, key)[3] if self.has_odd else None

    def place(self, container: Node, key: str | int, unknown: Place | None = None) -> Place:
        """Where something is written; if that is not known `unknown`, which is the whole file by default."""
        at_key, at, text, _ = spot_of(container, key)
        if at is None:
            return unknown or Place(Location(self.name), Location(self.name), None)
        return Place(self.location(at_key), self.location(at), text)

    def locate(self, path: tuple[str | int, ...]) -> Place:
        """Where the value at a path from the root is written, or the last value on the way that there is."""
        here: Any = self.root
        place = Place(Location(self.name, 1, 1), Location(self.name, 1, 1), None)
        for step in path:
            place = self.place(here, step, place)
            try:
                here = here[step]
            except (LookupError, TypeError):
                break
        return place

    def location(self, mark: Any) -> Location:
        """Return the location of a mark of the parser."""
        return Location(self.name, mark.line + 1, mark.column + 1)


_CONFLICT: Final = regex(r"^(?:<{7}|>{7}|\|{7})(?: |$)", MULTILINE).search
_HINTS: Final = {
    "did not find expected alphabetic or numeric character": 'quote a text that begins with * or &, as in "*"',
    "mapping values are not allowed in this context": "quote a text that contains a colon and a space, and write a "
    "space after the colon of a key",
    "could not find expected ':'": "write KEY: VALUE, or - ITEM in a list",
    "did not find expected '-' indicator": "indent all fields of an item equally, and begin each item with -",
    "did not find expected key": "indent all keys of a mapping equally",
    "did not find expected ',' or '}'": 'close the { with }, and quote a text that contains ": " or a quote',
    "did not find expected ',' or ']'": 'close the [ with ], and quote a text that contains ": " or a quote',
    "found unexpected end of stream": "close the quote",
    "found unknown escape character": r"in double quotes, write a backslash as \\",
    "found invalid Unicode character escape code": "half of a surrogate pair is not a character",
    "block sequence entries are not allowed in this context": "begin a list on a new line",
    "did not find expected comment or line break": "quote a text that begins with | or >",
    "did not find expected whitespace or line break": "quote a text that begins with !",
}


def syntax_hint(error: Any, text: str) -> str | None:
    """Return what was probably meant, from an error of the YAML parser and the character at which it was found."""
    mark = error.problem_mark
    end = mark.index if mark else 0
    at, before = text[end : end + 1], text[max(0, end - min(mark.column, 1000)) : end] if mark else ""
    if _CONFLICT(text):
        return "resolve the merge conflict in this file and remove the lines <<<<<<<, ======= and >>>>>>>"
    if at == "\t" or (before.isspace() and "\t" in before):
        return "indent with spaces, YAML does not allow tabs"
    if before.endswith("$") and at == "{":
        return 'quote a text with a reference, as in "${env:NAME}"'
    if at == "%" and before.endswith("{"):
        return "is this a template that was not rendered?"
    if error.problem == "found character that cannot start any token":
        return f"quote a text that begins with {at}" if at in {"@", "`", "%"} else None
    if error.problem == "did not find expected node content":
        if at == ":":
            return 'quote a text that begins with a colon, as in "::1"'
        return f"something is missing before {at or 'the end of the file'}"
    return _HINTS.get(error.problem or "")
