"""Formatting changes how a file is written and nothing that it says, and so do changes of its values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from re import findall
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from quotaform.desired.format import FormattedFile, format_source, respell
from quotaform.desired.loader import LoadedFile, load_file
from quotaform.desired.tree import SourceFile
from quotaform.desired.writer import render_quotas, spell_scalar
from quotaform.model.entity import Entity
from quotaform.model.finding import Severity
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Values
from quotaform.model.units import parse_value
from quotaform.repository.repository import Repository
from quotaform.usage.recommend.quota_edit import edit_quotas, write_quotas
from quotaform.usage.recommend.recommendation import Advice, Recommendation
from tests.builder import CONSUMER, MIB, PRODUCER, REQUEST
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


DAY = date(2026, 11, 22)
CLUSTERS = ("lab", "prod")
CONFIG = """\
clusters: {lab: {bootstrap_servers: [l:9092]}, prod: {bootstrap_servers: [b:9092]}}
profiles: {gold: {producer_byte_rate: 4MiB/s, consumer_byte_rate: 2MiB/s}}
"""
COMMON = """\
# For all clusters.
quotas:
  - match: {user: common}
    values: {producer_byte_rate: 1MiB/s, consumer_byte_rate: 1MiB/s} # both
  - match: {client-id: <default>}
    values:
      producer_byte_rate: 8MiB/s # each
"""
LAYER_PARTS = (
    # Of one name, of several, with a profile, and on top of what is common.
    '  # One.\n  - match: {user: "a b"}\n    values:\n      producer_byte_rate: 1MiB/s # own\n'
    "      request_percentage: 50%\n",
    "  - {match: {user: {name: '<default>'}}, values: {producer_byte_rate: 1048576, request_percentage: 5}}\n",
    "  - match: {user: [l1, l2]} # a list\n    values: {producer_byte_rate: 1MiB/s}\n",
    "  - match: {user: p1}\n    profile: gold # whole\n",
    "  - match: {user: p2}\n    profile: gold\n    values: {producer_byte_rate: 1MiB/s, request_percentage: 50%}\n",
    "  - match: {user: common}\n    values: {producer_byte_rate: 3MiB/s}\n",
    "  - match: {user: common}\n    unset: [consumer_byte_rate] # not here\n",
    "  - match: {user: common}\n    profile: gold\n",
    "  - match: {client-id: <default>}\n    state: absent\n",
)
ANCHORS = (
    "  - match: {user: v1}\n    values: &v {producer_byte_rate: 1MiB/s, consumer_byte_rate: 1MiB/s}\n",
    "  - match: {user: v2}\n    values: *v # the same\n",
    "  - match: {user: v3}\n    values: {<<: *v, request_percentage: 50%} # and more\n",
    "  - match: {user: v4}\n    values:\n      <<: [*v]\n      producer_byte_rate: &r 2MiB/s\n"
    "      request_percentage: 5%\n",
    "  - match: {user: v5}\n    values: {producer_byte_rate: *r, consumer_byte_rate: 3MiB/s}\n",
)
REASONS = (
    "it is of several entities; give this one an entry of its own",
    'it comes from the profile "gold"; write values in the place of the profile',
    "it has an anchor, or is an alias",
    "it comes from elsewhere in the file",
    "it has a list unset already",
    "its entry unsets consumer_byte_rate; take it from unset first",
    "producer_byte_rate has an anchor",
    "values has an anchor",
    "its entry cannot be changed without changing others",
)


@st.composite
def _layer(draw: st.DrawFn) -> str:
    """The file of a cluster: some entries, each of another entity."""
    parts = draw(st.lists(st.sampled_from(LAYER_PARTS), unique_by=lambda part: part.partition("}")[0], max_size=5))
    parts += ANCHORS[: draw(st.integers(0, len(ANCHORS)))]
    return "quotas:\n" + "".join(parts) if parts else "quotas: []\n"


def _desired(repository: Repository) -> dict[tuple[str, Entity], Values]:
    loaded = repository.load(repository.config(), DAY)
    return {
        (cluster, entity): entry.values
        for cluster in CLUSTERS
        for entity, entry in loaded.desired(cluster).items()
        if entry.absent is None
    }


def _proposals(cluster: str, entity: Entity, values: Values, after: Mapping[str, float | None]) -> list[Recommendation]:
    return [
        Recommendation(
            cluster=cluster,
            entity=entity,
            key=key,
            action=Advice.DELETE if value is None else Advice.CREATE if key not in values else Advice.UPDATE,
            before=values.get(key),
            after=value,
            reason="p99 of 14 days",
        )
        for key, value in after.items()
        if value != values.get(key)
    ]


@settings(max_examples=80, deadline=None)
@given(_layer(), _layer(), st.data())
def test_files_say_what_is_proposed_but_for_what_is_listed_and_nothing_else_changes(
    lab: str, prod: str, data: st.DataObject
) -> None:
    with TemporaryDirectory() as folder:
        files = {"quotas.d/common.yaml": COMMON, "quotas.d/lab/a.yaml": lab, "quotas.d/prod/a.yaml": prod}
        for name, text in {"quotaform.yaml": CONFIG, **files}.items():
            (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / name).write_text(text, encoding="utf-8")
        repository = Repository.at(Path(folder), None)
        before = _desired(repository)
        proposals: list[Recommendation] = []
        for (cluster, entity), values in before.items():
            keys = data.draw(st.sets(st.sampled_from([PRODUCER, CONSUMER, REQUEST])))
            after = {key: data.draw(st.sampled_from([12.5, 40.0, None])) for key in sorted(keys)}
            mib = {key: value if value is None or key == REQUEST else value * MIB for key, value in after.items()}
            proposals += _proposals(cluster, entity, values, mib)
        held = {name: {entity: values for (of, entity), values in before.items() if of == name} for name in CLUSTERS}
        edited = edit_quotas(repository, repository.config(), proposals, held, DAY)
        write_quotas(edited)
        left = {(each.cluster, each.entity, each.key) for each in edited.unwritten}
        assert [each.reason for each in edited.unwritten if each.reason not in REASONS] == []
        assert _desired(repository) == _expected(before, proposals, left)
        for name, text in files.items():
            # An entry that is changed in place keeps its comments; what is removed takes those of its lines along.
            kept = (Path(folder) / name).read_text(encoding="utf-8")
            removed = any(each.action is Advice.DELETE for each in proposals)
            assert removed or all(comment in kept for comment in findall("#.*", text))


def _expected(
    before: Mapping[tuple[str, Entity], Values],
    proposals: Iterable[Recommendation],
    left: Iterable[tuple[str, Entity, str]],
) -> dict[tuple[str, Entity], Values]:
    found = {place: dict(values) for place, values in before.items()}
    unwritten = set(left)
    for each in proposals:
        if (each.cluster, each.entity, each.key) not in unwritten:
            values = found[each.cluster, each.entity]
            if each.after is None:
                del values[each.key]
            else:
                values[each.key] = each.after
    return {place: values for place, values in found.items() if values}
