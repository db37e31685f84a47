"""What GitHub and GitLab make of Markdown: the tables of a document, and what of it is more than text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from quotaform.report.format import render

_OURS = re.compile(r"</?(details|summary|sub)>|<!-- quotaform:.*-->|</?(details|summary|sub)><(details|summary)>.*")
_MENTION = re.compile(r"(^|\W)@[\w-]|(^|[\s(])#\d|\bGH-\d|https?://|www\.|!\d|&\d")


def markdown_of(subject: str, value: object, **options: Any) -> str:
    """Return a result as Markdown."""
    return "".join(render(subject, "markdown", value, **options))


@dataclass
class Document:
    """A document as it is read."""

    tables: list[list[int]] = field(default_factory=list)  # the number of cells of each row of each table
    codes: list[str] = field(default_factory=list)  # the texts of all code spans and blocks
    links: list[str] = field(default_factory=list)  # the addresses of all links
    html: list[str] = field(default_factory=list)  # all HTML that is none of ours
    texts: list[str] = field(default_factory=list)  # all text outside of code

    @property
    def references(self) -> list[str]:
        """What of the text mentions somebody, refers to an issue or becomes a link."""
        return [text for text in self.texts if _MENTION.search(text)]


def read_markdown(text: str) -> Document:
    """Read a document with tables and raw HTML, as GitHub does."""
    found = Document()
    for token in _all(MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)):
        if token.type == "table_open":
            found.tables.append([])
        elif token.type == "tr_open":
            found.tables[-1].append(0)
        elif token.type in ("td_open", "th_open"):
            found.tables[-1][-1] += 1
        elif token.type in ("code_inline", "fence", "code_block"):
            found.codes.append(token.content)
        elif token.type in ("link_open", "image"):
            found.links.append(str(token.attrs.get("href", token.attrs.get("src"))))
        elif token.type in ("html_inline", "html_block"):
            found.html += [line for line in token.content.splitlines() if line.strip() and not _OURS.match(line)]
        elif token.type == "text":
            found.texts.append(token.content)
    return found


def _all(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _all(token.children or [])
