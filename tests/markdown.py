"""The pages of this repository, read for their code blocks, terminal sessions, command lines and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
