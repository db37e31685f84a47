"""Markdown in which no foreign text can do anything: the parts that several views share.

Names, values and messages from files and clusters stand in code spans, where GitHub and GitLab look for no mentions,
references, links or HTML. Of a message only those words are in code spans that could be anything but words.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby
from re import compile as regex
from typing import Final

from quotaform.printable import printable

LONGEST_NAME: Final = 200
"""How many characters of a name are shown; Kafka allows 32,767 bytes."""

_HARMLESS: Final = regex(r"""(?:[^\W_]|(?<=[^\W_])_(?=[^\W_])|[.,;:()=/+'"?-]|%(?!\w))+""").fullmatch
_REFERENCE: Final = regex(r"(?i)://|www\.|gh-\d").search
_ENDS: Final = regex(r"(\(*)(.*?)([.,;:)]*)").fullmatch
_URL: Final = regex(r"https?://[A-Za-z0-9._~:/?#@!$&*+,;=%-]+").fullmatch


def code(text: str, longest: int = LONGEST_NAME) -> str:
    """Return a text as a code span; see `code_cell` for tables.

    >>> code("user=a"), code("a`b"), code("`")
    ('`user=a`', '``a`b``', '`` ` ``')
    """
    shown = printable(text)
    if len(shown) > longest:
        shown = f"{shown[: longest - 1]}…"
    if "`" not in shown:
        pad = " " if not shown or shown[0] == " " == shown[-1] else ""
        return f"`{pad}{shown}{pad}`"
    fence = "`" * (_longest_run(shown) + 1)
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def code_cell(text: str, longest: int = LONGEST_NAME) -> str:
    r"""Return a text as a code span in a table, where `|` ends a cell even in code.

    Parsers do not agree about what a backslash before an escaped `|` means, so there `|` is spelled as in JSON.

    >>> print(code_cell("a|b"), code_cell("a\\|b"))
    `a\|b` `a\\u007cb`
    """
    span = code(text, longest)
    if "|" not in span:
        return span
    return span.replace("|", "\\u007c" if "\\|" in span else "\\|")


@lru_cache(maxsize=4096)
def words(text: str) -> str:
    r"""Return a message, of which what Markdown could take for anything but words is in code spans.

    >>> print(words("producer_byte_rate of user=<default> is 5; ask @team-a."))
    producer_byte_rate of `user=<default>` is 5; ask `@team-a`.
    """
    return " ".join(_word(word, code) for word in printable(text).split(" "))


@lru_cache(maxsize=4096)
def words_cell(text: str) -> str:
    """Return a message as `words` does, in a table."""
    return " ".join(_word(word, code_cell) for word in printable(text).split(" "))


def _word(word: str, span: object) -> str:
    if not word or (_HARMLESS(word) and not _REFERENCE(word)):
        return word
    found = _ENDS(word)
    begin, middle, end = found.groups() if found else ("", word, "")
    make = code_cell if span is code_cell else code
    return f"{begin}{make(middle)}{end}" if middle else make(word)


def fenced(text: str, language: str = "") -> str:
    """Return a block of code with a fence that no line of it can end."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterable[str]:
    """Yield the lines of a table. `rows` are cells, as `code_cell` and `words_cell` make them."""
    titles = list(header)
    yield f"| {' | '.join(titles)} |\n"
    yield f"|{' --- |' * len(titles)}\n"
    for row in rows:
        yield f"| {' | '.join(row)} |\n"


def details(summary: str, content: str) -> str:
    """Return what is folded until somebody opens it; the summary is Markdown of one line without foreign text."""
    return f"<details><summary>{summary}</summary>\n\n{content.rstrip()}\n\n</details>\n\n"


def link(text: str, url: str | None) -> str | None:
    """Return a link, or `None` when there is no usable URL.

    >>> link("run", "https://github.com/o/r/actions/runs/1"), link("run", "javascript:x"), link("run", None)
    ('[run](https://github.com/o/r/actions/runs/1)', None, None)
    """
    return f"[{text}]({url})" if url is not None and _URL(url) else None


def _longest_run(text: str) -> int:
    """Return how many backticks follow one another at most."""
    return max((len(list(run)) for found, run in groupby(text) if found == "`"), default=0)
