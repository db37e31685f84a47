"""Laws of changes of quota files, for files of any style."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from quotaform.desired.format import format_source
from quotaform.desired.tree import SourceFile
from quotaform.model.entity import Entity
from quotaform.repository.repository import Repository
from quotaform.usage.recommend.quota_edit import edit_quotas
from quotaform.usage.recommend.recommendation import Action, Recommendation
from tests.builder import CONSUMER, PRODUCER

MIB = 2.0**20
CONFIG = "clusters: {prod: {bootstrap_servers: [b:9092]}}\n"
KEYS = (PRODUCER, CONSUMER)


@st.composite
def _entry(draw: st.DrawFn, name: str) -> tuple[str, frozenset[str]]:
    """An entry in some style, and the keys that it has, each with 1 MiB/s."""
    keys = draw(st.sampled_from([KEYS, KEYS[:1], KEYS[1:], KEYS[::-1]]))
    value = draw(st.sampled_from(["1MiB/s", "1048576", '"1 MiB/s"', "1024KiB/s"]))
    note = draw(st.sampled_from(["", "  # a note: {x}", " #"]))
    pad = draw(st.sampled_from(["", "  "]))
    match = draw(st.sampled_from([f"{{user: {name}}}", f"{{ 'user': \"{name}\" }}", f"\n{pad}      user: {name}"]))
    owner = draw(st.sampled_from(["", "owner: team", "reason: why not", "reason: >-\n        because\n        of it"]))
    if draw(st.booleans()):
        inner = ", ".join(f"{key}: {value}" for key in keys)
        if "\n" not in match and draw(st.booleans()):
            extra = f", {owner}" if owner and "\n" not in owner else ""
            return f"{pad}- {{match: {match}, values: {{{inner}}}{extra}}}{note}\n", frozenset(keys)
        values = f"values: {{{inner}}}{note}"
    else:
        values = "values:" + "".join(f"\n{pad}      {key}: {value}{note}" for key in keys)
    fields = [f"match: {match}", values, *([owner] if owner else [])]
    if draw(st.booleans()):
        fields = [fields[0], *reversed(fields[1:])]
    text = f"\n{pad}  ".join(fields)
    return f"{pad}# About {name}.\n{pad}- {text}\n", frozenset(keys)


@st.composite
def _file(draw: st.DrawFn) -> list[tuple[str, frozenset[str]]]:
    names = [f"user{number}" for number in range(draw(st.integers(1, 4)))]
    entries = [draw(_entry(name)) for name in names]
    # All entries are indented alike.
    return [entry for entry in entries if entry[0].startswith(" ") == entries[0][0].startswith(" ")]


@settings(max_examples=150, deadline=None)
@given(_file(), st.data(), st.booleans())
def test_an_edit_changes_what_is_proposed_and_leaves_every_other_entry_as_fmt_writes_it(
    entries: list[tuple[str, frozenset[str]]], data: st.DataObject, windows: bool
) -> None:
    proposals = []
    left = []
    for text, keys in entries:
        name = next(f"user{number}" for number in range(4) if f"user{number}" in text)
        after = {key: data.draw(st.sampled_from([MIB, 12.5 * MIB, None])) for key in KEYS}
        changed = [
            _proposal(name, key, MIB if key in keys else None, after[key])
            for key in KEYS
            if after[key] != (MIB if key in keys else None)
        ]
        proposals += changed
        if not changed:
            left.append(text)
    source = "quotas:\n" + "".join(text for text, _ in entries)
    end = "\r\n" if windows else "\n"
    with TemporaryDirectory() as folder:
        (Path(folder) / "quotaform.yaml").write_text(CONFIG)
        (Path(folder) / "quotas.d").mkdir()
        (Path(folder) / "quotas.d/a.yaml").write_bytes(source.replace("\n", end).encode())
        repository = Repository.at(Path(folder), None)
        # It makes sure itself that the files say what is proposed, and nothing else.
        edited = edit_quotas(repository, repository.config(), proposals, {}, date(2026, 11, 22))
    assert edited.unwritten == ()
    assert len(edited.files) == bool(proposals)
    for file in edited.files:
        for text in left:
            formatted = format_source(SourceFile("a.yaml", f"quotas:\n{text}")).after
            assert formatted.removeprefix("quotas:\n").replace("\n", end) in file.after
        assert file.after.count("\n") == file.after.count(end)
        assert file.after.count("# About") == source.count("# About")


def _proposal(name: str, key: str, before: float | None, after: float | None) -> Recommendation:
    action = Action.CREATE if before is None else Action.DELETE if after is None else Action.UPDATE
    entity = Entity(user=name)
    return Recommendation(
        cluster="prod", entity=entity, key=key, action=action, before=before, after=after, reason="p99 of 14 days"
    )
