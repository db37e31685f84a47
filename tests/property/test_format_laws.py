"""Formatting changes how a file is written, and nothing that it says."""

from __future__ import annotations

from collections import Counter
from re import findall
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from quotaform.desired.format import FormattedFile, format_source, respell
from quotaform.desired.quotas_file import LoadedFile, load_file
from quotaform.desired.tree import SourceFile
from quotaform.desired.writer import render_quotas, spell_scalar
from quotaform.model.entity import Entity
from quotaform.model.finding import Severity
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.units import parse_value
from tests.strategies import quotas

PROFILES = {"gold": {"producer_byte_rate": 5.0}}
PARTS = (
    "svc",
    "<default>",
    "a.b@c",
    "CN=a",
    "CN=a,OU=b",
    "x y",
    "007",
    "null",
    "*",
    "a\té",
    "it's",
    "a: b",
    "#x",
    "é😀",
)
VALUES = {
    "producer_byte_rate": ("20MiB/s", "1048576", "20 MB/s", '"1024KiB/s"', "1.5MiB/s", "1e6", "unlimited", "20"),
    "consumer_byte_rate": ("1000kB/s", "5KB/s", "9223372036854775808", "2048MiB/s", "3.0GiB/s", "'7'"),
    "request_percentage": ("150", "12.50%", "0.1%", "1e-7", "1e30"),
    "controller_mutation_rate": ("5", "2.5 /s", "5/s"),
}
TEXTS = ("team-a", '"x # y"', "'it''s'", "|\n~one\n~\n~  two", ">-\n~folded\n~text", "plain\n~  goes on", '"a \\\n~b"')
"""`~` stands for the indentation of the lines after the first."""
COMMENTS = ("#", "# - x: y", "#\ttab {", '# "é')
DATES = ("2099-12-31", '"2099-12-31"')
RARELY = st.sampled_from([False, False, False, False, False, True])


class _Source:
    """Writes a random file line by line."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.names = 0
        self.comments = 0
        self.anchors: list[str] = []

    def one_of(self, *choices: str) -> str:
        return self.draw(st.sampled_from(choices))

    def rarely(self) -> bool:
        return self.draw(RARELY)

    def spaces(self, least: int, most: int) -> str:
        return " " * self.draw(st.integers(least, most))

    def comment(self) -> str:
        self.comments += 1
        return f"{self.one_of(*COMMENTS)} c{self.comments}"

    def add(self, *lines: str) -> None:
        """Add lines: comments and empty ones above them, and a comment at the end of a single one."""
        while self.rarely():
            self.lines.append(self.one_of("", self.spaces(0, 9) + self.comment()))
        if len(lines) == 1 and self.rarely():
            lines = (f"{lines[0]}{self.one_of(' ', '   ')}{self.comment()}",)
        self.lines += lines

    def name(self) -> str:
        """Return a name that no other entry has, with or without quotes."""
        self.names += 1
        name = self.one_of(*PARTS) + str(self.names)
        return f"'{name}'".replace("it's", "it''s") if self.rarely() and "\t" not in name else spell_scalar(name)

    def mapping(self, start: str, pad: str, pairs: list[tuple[str, str]]) -> None:
        """Add a mapping: on lines of its own, in braces, or in braces on several lines."""
        style = self.one_of("block", "flow", "long")
        if style == "block":
            self.add(start)
            inner = pad + self.spaces(1, 4)
            for key, value in pairs:
                self.add(f"{inner}{key}:{self.spaces(1, 3)}{value}")
        elif style == "flow":
            self.add(f"{start} {{{', '.join(f'{key}: {value}' for key, value in pairs)}}}")
        else:
            self.lines.append(start + " {")
            for key, value in pairs:
                self.add(f"{pad}  {key}: {value},")
            self.add(f"{pad}  }}")

    def entry(self, dash: str) -> None:
        pad = " " * len(dash)
        fields = ["match", "values", *self.draw(st.sets(st.sampled_from(["owner", "reason", "expires", "profile"])))]
        start = dash
        for field in self.draw(st.permutations(fields)):
            self.field(field, start + field + ":", pad)
            start = pad

    def field(self, field: str, start: str, pad: str) -> None:
        if field == "match":
            self.mapping(start, pad, self.match())
        elif field == "values":
            keys = self.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, unique=True))
            pairs = [(key, self.one_of(*VALUES[key])) for key in keys]
            if self.anchors and self.rarely():
                pairs.insert(self.draw(st.integers(0, len(pairs))), ("<<", f"*{self.one_of(*self.anchors)}"))
            elif self.rarely():
                self.anchors.append(f"a{len(self.anchors)}")
                start += f" &{self.anchors[-1]}"
            self.mapping(start, pad, pairs)
        elif field in {"expires", "profile"}:
            self.add(f"{start} {self.one_of(*DATES) if field == 'expires' else 'gold'}")
        else:
            self.add(*f"{start} {self.one_of(*TEXTS)}".replace("~", pad + "   ").split("\n"))

    def match(self) -> list[tuple[str, str]]:
        return {
            "one": [("user", self.name())],
            "list": [("user", f"[{self.name()}, {self.name()}]")],
            "literal": [("client-id", f"{{name: {self.name()}}}")],
            "pair": [("client-id", self.name()), ("user", "<default>")],
        }[self.one_of("one", "list", "literal", "pair")]


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A file of quotas.d that is valid, whatever it looks like."""
    source = _Source(draw)
    if source.rarely():
        source.add("---")
    source.add("quotas:")
    dash = f"{source.spaces(0, 4)}-{source.spaces(1, 3)}"
    for _ in range(draw(st.integers(1, 4))):
        source.entry(dash)
    while source.rarely():
        source.lines.append(source.one_of("", source.spaces(0, 9) + source.comment()))
    end = source.one_of("\n", "\r\n")
    text = end.join(source.lines) + source.one_of("", end, end * 3)
    return (b"\xef\xbb\xbf" if source.rarely() else b"") + text.encode()


def load(data: bytes) -> LoadedFile:
    return load_file(SourceFile("f.yaml", data), PROFILES)


def declared(loaded: LoadedFile) -> list[Any]:
    """What a file declares, without the places."""
    return [
        (entry.entity, dict(entry.values), entry.owner, entry.reason, entry.cause, entry.expires)
        for entry in loaded.entries
    ]


def formatted(data: bytes) -> FormattedFile:
    file = format_source(SourceFile("f.yaml", data))
    assert not file.problems, (file.problems, data.decode())
    return file


def comments(text: str) -> Counter[str]:
    return Counter(findall(r"#[^\r\n#]* c[0-9]+", text))


@given(files())
def test_a_formatted_file_declares_the_same_with_the_same_comments_and_stays(data: bytes) -> None:
    before = load(data)
    assert not [str(problem) for problem in before.problems if problem.severity is Severity.ERROR]
    after = formatted(data).after
    assert declared(load(after.encode())) == declared(before)
    assert comments(after) == comments(data.decode())
    assert formatted(after.encode()).after == after
    assert after.endswith("\n")
    assert not after.endswith(("\n\n", "\n\r\n"))


@given(quotas())
def test_what_import_writes_is_formatted(live: dict[Entity, dict[str, float]]) -> None:
    text, _ = render_quotas(live)
    assert formatted(text.encode()).after == text


@given(st.text(max_size=60) | st.from_regex(r"[\[\]{}:,&*!|>'\"%@`#?\- \na-c<~]{1,40}"))
@example("a: &x\n")
@example("? [a]\n: b\n")
@example("- - a # x\n  - b\n")
@example("{a: 1, b} # x")
def test_any_text_is_formatted_once_and_for_all_or_has_a_problem(text: str) -> None:
    file = format_source(SourceFile("f.yaml", text))
    if not file.problems:
        again = format_source(SourceFile("f.yaml", file.after))
        assert not again.problems
        assert again.after == file.after


SPELLINGS = st.from_regex(r"[0-9]{1,4}(\.[0-9]{1,3})?(e[0-9]{1,2})? ?([kKMGTP]i?)?B?(/s)?%?", fullmatch=True)


@given(st.sampled_from(sorted(QUOTA_KEYS)), SPELLINGS)
def test_a_respelled_value_is_the_same_number_and_stays(name: str, text: str) -> None:
    spelled = respell(name, text)
    assert respell(name, spelled) == spelled
    try:
        value = parse_value(QUOTA_KEYS[name], text)
    except ValueError:
        assert spelled == text
    else:
        assert parse_value(QUOTA_KEYS[name], spelled) == value
