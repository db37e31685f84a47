"""The Markdown of this repository's pages, and what GitHub and GitLab make of the Markdown that is written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from quotaform.report.format import render

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/**/*.md")])

_FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: which page it is on, its line there, its language and what is in it."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_session(self) -> bool:
        """Whether it shows commands behind a `$` and what they print."""
        return not self.language and self.text.startswith("$ ")

    @property
    def commands(self) -> list[str]:
        """The command lines of a shell block or a session, without comments; continued lines are joined."""
        lines = self.text.replace("\\\n", " ").splitlines()
        if self.is_session:
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        elif self.language != "sh":
            return []
        return [command for line in lines if (command := re.sub(r"(^|\s+)# .*", "", line).strip())]

    @property
    def printed(self) -> list[list[str]]:
        """What each command of a session prints, line by line."""
        parts = re.split(r"^\$ .*\n", self.text, flags=re.MULTILINE)
        return [part.splitlines() for part in parts[1:]]


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(page.relative_to(ROOT).as_posix(), line, found[1], found[2])


def prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def inline_code(page: Path) -> list[str]:
    """Return what stands between backticks in the prose; a table escapes its bars."""
    return [code.replace("\\|", "|") for code in _CODE.findall(prose(page))]


def links(page: Path) -> list[str]:
    return _LINK.findall(_CODE.sub("", prose(page)))


def anchors(page: Path) -> set[str]:
    """Return what a link into a page can point to: its headings, spelled as GitHub spells them."""
    headings = _HEADING.findall(prose(page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


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
