"""Limits on YAML input, and the message for each problem."""

from __future__ import annotations

from re import MULTILINE
from re import compile as regex
from typing import Any, Final

from quotaform.core.check import rule
from quotaform.core.check.finding_list import MAX_PROBLEMS
from quotaform.desired.yaml.document import Document, StopReadingError, UnclearError
from quotaform.model.location import Location
from quotaform.model.rule import FindingRule
from quotaform.model.text import quote

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

    Args:
        error: The `MarkedYAMLError`.
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
