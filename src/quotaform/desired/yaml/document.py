"""The content of a YAML file as plain Python values with locations; which scalars are clear, and limits."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from re import MULTILINE, VERBOSE
from re import compile as regex
from typing import Any, Final, NamedTuple, TypeAlias

from quotaform.model import rule
from quotaform.model.finding import Finding, Location, Position
from quotaform.model.finding_list import MAX_PROBLEMS
from quotaform.model.rule import FindingRule
from quotaform.model.text import LONGEST, quote

# Interprets plain YAML scalars for which YAML 1.1 and 1.2 agree, and rejects the others.
#
# | written without quotes | read as |
# | --- | --- |
# | `svc-orders`, `10MiB/s`, `y` | text |
# | `null`, `~`, nothing | null |
# | `yes`, `No`, `on`, `true` | a boolean |
# | `5`, `-5` | an integer |
# | `1.5`, `1e6` | an exact decimal |
# | `007`, `0x1F`, `1_000`, `1:30`, `.inf`, `2026-12-31` | text, marked as ambiguous: others read a number or a date |

Scalar: TypeAlias = str | int | Decimal | bool | None

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


_MAX_INTEGER: Final = 18
_MAX_NUMBER: Final = 40
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
    """Read a plain scalar that begins like a number.

    >>> read_number("5"), read_number("1e6"), read_number("007").value, read_number("10MiB/s")
    (5, Decimal('1E+6'), 'an octal number', '10MiB/s')

    Returns:
        The number when every reader agrees on it, what it is otherwise taken for, or the text when it is text.
    """
    if len(text) <= _MAX_INTEGER and _INTEGER(text):
        return int(text)
    if len(text) <= _MAX_NUMBER and _DECIMAL(text) and text[0] != "+" and any(map(str.isdigit, text.split("e")[0])):
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


Node: TypeAlias = "Scalar | list[Any] | dict[str, Any]"


class Place(NamedTuple):
    """Where a value and its key are written (for an item of a list: the item twice), and the text of a scalar."""

    key: Location
    value: Location
    text: str | None


class UnclearError(Exception):
    """Something is wrong in a file that is read without details; read it again with them."""


class StopReadingError(Exception):
    """The rest of a file is not read: it cannot be, it is too large, or enough problems were found."""


class Document:
    """One YAML file, or the part of it that was read last.

    A long list may be handed over in parts while it is read (see `read_document`): then `root` holds one part of it
    at a time, and `offset` says how many items came before.
    """

    __slots__ = (
        "_held",
        "_kept",
        "_places",
        "is_cut",
        "is_detailed",
        "keys",
        "name",
        "odd",
        "offset",
        "problems",
        "root",
        "starts",
        "tracked",
    )

    def __init__(self, name: str, *, is_detailed: bool) -> None:
        self.name = name  # the file's name in messages
        self.root: Node = None  # its content; `None` for an empty file
        self.is_detailed = is_detailed  # whether places were recorded
        self.is_cut = False  # whether `root` ends where the reader gave up, because something is too large
        self.offset = 0  # how many items of the list were handed over before those in `root`
        # What is wrong with it as YAML; always empty when it was read without details
        self.problems: list[Finding] = []
        # Scalars that another reader takes for something else, by (id of container, key)
        self.odd: dict[tuple[int, str | int], Oddity] = {}
        self.starts: dict[int, list[Position]] = {}  # where the items of a list begin, by its id
        # Where the keys of a mapping are, in their order, by its id; of mappings at a tracked key
        self.keys: dict[int, list[Position]] = {}
        self.tracked: dict[tuple[int, str], Position] = {}  # where a tracked key is, by (id of container, key)
        self._places: dict[tuple[int, str | int], tuple[Position, Position, str | None]] = {}
        self._held: list[Any] = []
        self._kept: dict[int, Any] = {}

    def record(self, container: Node, key: str | int, at_key: Position, at: Position, text: str | None) -> None:
        """Note where something is written."""
        self._places[id(container), key] = (at_key, at, text)

    def repeat(self, source: dict[str, Any], target: dict[str, Any], key: str) -> None:
        """Note that something in a mapping comes from another one (a merge key)."""
        tables: tuple[dict[Any, Any], ...] = (self.tracked, self.odd, self._places)
        for table in tables:
            if (id(source), key) in table:
                table[id(target), key] = table[id(source), key]

    def hold(self, node: Node) -> None:
        """Keep a node that is not part of the root, so that its id is not used again before `forget`."""
        self._held.append(node)

    def keep(self, node: Node) -> int:
        """Keep what is known about a node and everything in it when the rest is forgotten.

        Returns:
            The number of values that are kept now and were not before.
        """
        count, pending = 0, [node]
        while pending:
            here = pending.pop()
            if isinstance(here, dict | list) and id(here) not in self._kept:
                self._kept[id(here)] = here
                count += len(here)
                pending += here.values() if isinstance(here, dict) else here
        return count

    def forget(self) -> None:
        """Forget the places of what is not kept: ids of containers that are gone are used again."""
        kept = self._kept
        self.odd = {key: value for key, value in self.odd.items() if key[0] in kept}
        self.tracked = {key: value for key, value in self.tracked.items() if key[0] in kept}
        self._places = {key: value for key, value in self._places.items() if key[0] in kept}
        self.starts = {key: value for key, value in self.starts.items() if key in kept}
        self.keys = {key: value for key, value in self.keys.items() if key in kept}
        self._held.clear()

    def place(self, container: Node, key: str | int) -> Place:
        """Where something is written; the whole file when that was not recorded."""
        return self._place(id(container), key) or Place(Location(self.name), Location(self.name), None)

    def odd_places(self) -> list[tuple[int, str | int, Oddity, Place]]:
        """Return every odd scalar: the id of its container, its key, what it is taken for, and where it is."""
        everywhere = Place(Location(self.name), Location(self.name), None)
        return [
            (container, key, oddity, self._place(container, key) or everywhere)
            for (container, key), oddity in self.odd.items()
        ]

    def locate(self, path: tuple[str | int, ...]) -> Place:
        """Where the value at a path from the root is written."""
        here: Any = self.root
        place = Place(Location(self.name, 1, 1), Location(self.name, 1, 1), None)
        for step in path:
            place = self._place(id(here), step) or place
            here = here[step]
        return place

    def _place(self, container: int, key: str | int) -> Place | None:
        found = self._places.get((container, key))
        if found is None:
            return None
        return Place(Location.at(self.name, found[0]), Location.at(self.name, found[1]), found[2])


MAX_DEPTH: Final = 100
"""How deep a file may nest, aliases included."""
MAX_ALIASED: Final = 100_000
"""How many nodes aliases may add to a file, before its own size counts."""
ALIASED_PER_NODE: Final = 10
"""How many more they may add per node that is written."""
MOST_ALIASED: Final = 1_000_000
"""How many they may add to any file."""
MAX_ANCHORED: Final = 20_000
"""How many values the anchors of a file may hold."""
MAX_VALUES: Final = 100_000
"""How many values an item of the streamed list may hold, and how many there may be beside that list, by default."""
MAX_CHARACTERS: Final = 100_000
"""How long a text may be."""


class ProblemReporter:
    """Adds problems to a document: at a mark of the parser, or where an event begins.

    Without places (`Document.is_detailed`) the first problem ends the reading with `UnclearError`. One that leaves
    nothing to read on, and the last one of those that are shown, ends it with `StopReadingError`.
    """

    def __init__(self, document: Document, *, is_streamed: bool) -> None:
        self._document = document
        self._is_streamed = is_streamed

    def report(self, rule: FindingRule, message: str, event: Any) -> None:
        self.report_at_mark(rule, message, event.start_mark)

    def report_at_mark(self, rule: FindingRule, message: str, mark: Any) -> None:
        self.report_at_location(rule, message, self._location(mark))

    def report_at_location(self, rule: FindingRule, message: str, location: Location) -> None:
        if not self._document.is_detailed:
            raise UnclearError
        self._document.problems.append(rule.finding(message, location=location))
        if len(self._document.problems) > MAX_PROBLEMS:
            raise StopReadingError

    def report_duplicate(self, target: dict[str, Any], key: str, event: Any) -> None:
        first = self._document.place(target, key).key
        self.report(rule.DUPLICATE_KEY, f"the key {quote(key)} is written twice; it is also at {first}", event)

    def report_second_merge(self, event: Any) -> None:
        self.report(rule.DUPLICATE_KEY, "the key << is written twice here; write one <<: [*first, *second]", event)

    def report_tag(self, event: Any) -> None:
        self.report(rule.YAML_TAG, f"the tag {quote(event.tag)} is not supported; remove it", event)

    def report_key(self, event: Any) -> None:
        self.report(
            rule.BAD_KEY,
            "a key must be text, not a mapping or a list; is {{ … }} a template that was not rendered?",
            event,
        )
        raise StopReadingError

    def report_depth(self, event: Any) -> None:
        self.report(rule.TOO_DEEP, f"this is nested more than {MAX_DEPTH} levels deep", event)
        raise StopReadingError

    def report_documents(self, event: Any) -> None:
        self.report(
            rule.MULTI_DOCUMENT,
            "a second YAML document begins here; a file contains one, so remove the --- or make two files",
            event,
        )
        raise StopReadingError

    def report_syntax(self, error: Exception, text: str) -> bool:
        """Report an error of the YAML parser, and return whether it is one of grammar; re-raise anything else."""
        from yaml import MarkedYAMLError
        from yaml.reader import ReaderError

        if isinstance(error, ReaderError):
            before = text.encode()[: error.position].decode(errors="ignore").splitlines() or [""]
            location = Location(self._document.name, len(before), len(before[-1]) + 1)
            code = f"{error.character:04X}"
            what = f'the character U+{code} is not allowed in a file; write it as "\\u{code}", in double quotes'
            self.report_at_location(rule.YAML_SYNTAX, what, location)
            return False
        if isinstance(error, MarkedYAMLError):
            where = self._location(error.problem_mark) if error.problem_mark else Location(self._document.name)
            self.report_at_location(rule.YAML_SYNTAX, syntax_text(error, text), where)
            return True
        raise error

    def report_size(self, most: int, mark: Any, *, is_item: bool) -> None:
        what, remedy = "this file contains, besides its entries,", "divide it"
        if is_item:
            what = "this entry contains"
        elif not self._is_streamed:
            what, remedy = "this file contains", "shorten it"
        self.report_at_mark(rule.TOO_LARGE, f"{what} more than {most:,} values; {remedy}", mark)

    def report_length(self, length: int, event: Any) -> None:
        text = f"this text has {length:,} characters; at most {MAX_CHARACTERS:,} are allowed"
        self.report(rule.TOO_LARGE, text, event)
        raise StopReadingError

    def report_anchors(self, mark: Any) -> None:
        self.report_at_mark(
            rule.TOO_LARGE, f"the anchors of this file hold more than {MAX_ANCHORED:,} values; use fewer anchors", mark
        )
        raise StopReadingError

    def _location(self, mark: Any) -> Location:
        return Location(self._document.name, mark.line + 1, mark.column + 1)


_CONFLICT: Final = regex(r"^(?:<{7}|>{7}|\|{7})(?: |$)", MULTILINE).search
_WINDOW: Final = 1000
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


def syntax_text(error: Any, text: str) -> str:
    """Return the message about an error of the YAML parser.

    `error`: the `MarkedYAMLError`.
    """
    begun = f" {error.context}" if error.context else ""
    if begun and error.context_mark:
        begun += f" that begins on line {error.context_mark.line + 1}"
    hint = _hint(error, text)
    return f"not valid YAML: {error.problem}{begun}{f'; {hint}' if hint else ''}"


def _hint(error: Any, text: str) -> str | None:
    """Return what was probably meant, from the problem and the character at which it was found."""
    mark = error.problem_mark
    end = mark.index if mark else 0
    at, before = text[end : end + 1], text[max(0, end - min(mark.column, _WINDOW)) : end] if mark else ""
    if _CONFLICT(text):
        return "resolve the merge conflict in this file and remove the lines <<<<<<<, ======= and >>>>>>>"
    if at == "\t" or (before.isspace() and "\t" in before):
        return "indent with spaces, YAML does not allow tabs"
    if before.endswith("$") and at == "{":
        return 'quote a text with a reference, as in "${env:NAME}"'
    if error.problem == "found character that cannot start any token":
        if at == "%" and before.endswith("{"):
            return "is this a template that was not rendered?"
        return f"quote a text that begins with {at}" if at in {"@", "`", "%"} else None
    if error.problem == "did not find expected node content":
        if at == ":":
            return 'quote a text that begins with a colon, as in "::1"'
        return f"something is missing before {at or 'the end of the file'}"
    return _HINTS.get(error.problem or "")
