"""Proposals as changes of quota files: what changes in the text, and what cannot."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from quotaform.app.quota_edit import placement
from quotaform.app.quota_edit.quota_edit import EditedFiles, edit_quotas, write_quotas
from quotaform.app.repository.repository import Repository
from quotaform.core.usage.sizing.recommendation import Action, Recommendation, entry_reason
from quotaform.errors import QuotaformError
from quotaform.model.entity import Entity
from quotaform.model.quotas import Values
from tests.builder import CONSUMER, PRODUCER, REQUEST

MIB = 2.0**20
DAY = date(2026, 11, 22)
ALICE = Entity(user="alice")
ONE = "clusters: {prod: {bootstrap_servers: [b:9092]}}\n"
TWO = "clusters: {prod: {bootstrap_servers: [b:9092]}, lab: {bootstrap_servers: [l:9092]}}\n"


def update(
    before: float | None = MIB, after: float | None = 12.5 * MIB, *, key: str = PRODUCER, entity: Entity = ALICE
) -> Recommendation:
    """A proposal for prod."""
    action = Action.DELETE if after is None else Action.CREATE if before is None else Action.UPDATE
    reason = "not used for 30 days" if after is None else "p99 of 14 days 8.2 MiB/s x 1.5"
    return Recommendation(
        cluster="prod", entity=entity, key=key, action=action, before=before, after=after, reason=reason
    )


class Files:
    """A quota repository in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, config: str = ONE, **files: str) -> None:
        (self.folder / "quotas.d").mkdir()
        (self.folder / "quotaform.yaml").write_text(config, encoding="utf-8")
        for name, text in files.items():
            path = self.folder / "quotas.d" / f"{name.replace('__', '/')}.yaml"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text.encode())

    def edit(self, *proposals: Recommendation, live: Values | None = None) -> EditedFiles:
        repository = Repository.at(self.folder / "quotas.d", None)
        held = {(each.cluster, each.entity): live or {} for each in proposals}
        return edit_quotas(repository, repository.config(), proposals, held, DAY)

    def written(self, *proposals: Recommendation, live: Values | None = None) -> str:
        """The one file that is changed."""
        edited = self.edit(*proposals, live=live)
        assert not edited.edit.unwritten
        assert write_quotas(edited).is_written
        (path,) = edited.paths
        return path.read_bytes().decode()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_a_value_is_replaced_where_it_stands_and_all_else_stays_as_it_is(files: Files) -> None:
    text = """\
# Orders.
quotas:
  - match: {  user: 'alice' }     # the shop
    values:
      # On black friday more.
      producer_byte_rate: "1MiB/s"  # since May
      consumer_byte_rate:   2MiB/s
    owner: team-a
    # The end.
  - match: {user: bob}
    values: {producer_byte_rate: 1MiB/s}
"""
    files.write(a=text)
    changed = text.replace('"1MiB/s"', "12.5MiB/s").replace(
        "owner: team-a\n", 'owner: team-a\n    reason: "p99 of 14 days 8.2 MiB/s x 1.5 (2026-11-22)"\n'
    )
    assert files.written(update()) == changed


def test_a_file_that_is_formatted_stays_formatted(files: Files) -> None:
    text = "quotas:\n  - match: {user: alice}\n    values:\n      consumer_byte_rate: 2MiB/s\n    owner: team-a\n"
    files.write(a=text)
    assert files.written(update(None)) == (
        "quotas:\n  - match: {user: alice}\n    values:\n      producer_byte_rate: 12.5MiB/s\n"
        "      consumer_byte_rate: 2MiB/s\n    owner: team-a\n"
        '    reason: "p99 of 14 days 8.2 MiB/s x 1.5 (2026-11-22)"\n'
    )


def test_entries_in_braces_line_ends_and_marks_are_kept(files: Files) -> None:
    text = (
        "\ufeffquotas:\r\n"
        "- {match: {user: alice}, values: {consumer_byte_rate: 2MiB/s, producer_byte_rate: 1MiB/s}} # all\r\n"
        "- match: {user: bob}\r\n  values: {producer_byte_rate: 1MiB/s}"
    )
    files.write(a=text)
    bob = update(entity=Entity(user="bob"))
    reason = '"p99 of 14 days 8.2 MiB/s x 1.5 (2026-11-22)"'
    assert files.written(update(), bob) == (
        "\ufeffquotas:\r\n"
        "- {match: {user: alice}, values: {consumer_byte_rate: 2MiB/s, producer_byte_rate: 12.5MiB/s}, "
        f"reason: {reason}}} # all\r\n"
        f"- match: {{user: bob}}\r\n  values: {{producer_byte_rate: 12.5MiB/s}}\r\n  reason: {reason}"
    )


def test_a_removed_value_takes_its_line_and_a_reason_of_somebody_stays(files: Files) -> None:
    text = """\
quotas:
  - match: {user: alice}
    values:
      producer_byte_rate: 1MiB/s  # gone
      consumer_byte_rate: 2MiB/s
    reason: checkout  # why
"""
    files.write(a=text)
    assert files.written(update(after=None)) == text.replace("      producer_byte_rate: 1MiB/s  # gone\n", "").replace(
        "checkout", '"checkout; not used for 30 days (2026-11-22)"'
    )


@pytest.mark.parametrize(
    "values",
    [
        "{producer_byte_rate: 1MiB/s, consumer_byte_rate: 2MiB/s}",
        "{consumer_byte_rate: 2MiB/s, producer_byte_rate: 1MiB/s}",
    ],
)
def test_a_removed_value_leaves_the_others_in_braces(files: Files, values: str) -> None:
    files.write(a=f"quotas:\n  - match: {{user: alice}}\n    values: {values}\n    expires: 2027-01-01\n")
    assert "\n    values: {consumer_byte_rate: 2MiB/s}\n" in files.written(update(after=None))


def test_an_entity_without_a_value_left_becomes_absent(files: Files) -> None:
    text = """\
quotas:
  - match: {user: alice}
    values:
      producer_byte_rate: 1MiB/s
      request_percentage: 50%
    expires: 2027-01-01
    owner: team-a
"""
    files.write(a=text)
    gone = (update(after=None), update(50.0, None, key=REQUEST))
    assert files.written(*gone) == (
        "quotas:\n  - match: {user: alice}\n    state: absent\n    owner: team-a\n"
        '    reason: "not used for 30 days (2026-11-22)"\n'
    )


def test_an_entity_of_no_file_gets_an_entry_with_all_its_values(files: Files) -> None:
    files.write(recommended="quotas:\n- match: {user: bob}\n  values: {producer_byte_rate: 1MiB/s}\n# The end.\n")
    assert files.written(update(), live={PRODUCER: MIB, CONSUMER: 5e6}) == (
        "quotas:\n- match: {user: bob}\n  values: {producer_byte_rate: 1MiB/s}\n\n"
        "- match: {user: alice}\n  values:\n    producer_byte_rate: 12.5MiB/s\n    consumer_byte_rate: 5MB/s\n"
        '  reason: "p99 of 14 days 8.2 MiB/s x 1.5 (2026-11-22)"\n# The end.\n'
    )


def test_an_entity_without_any_value_gets_an_entry(files: Files) -> None:
    files.write()
    assert "match: {user: alice}\n    values:\n      producer_byte_rate: 12.5MiB/s\n" in files.written(update(None))


def test_an_entity_of_no_file_that_is_to_go_becomes_absent_in_a_new_file(files: Files) -> None:
    files.write(TWO)
    assert files.written(update(after=None), live={PRODUCER: MIB}) == (
        "# yaml-language-server: $schema=../../schemas/quotas.schema.json\n"
        "quotas:\n  - match: {user: alice}\n    state: absent\n"
        '    reason: "not used for 30 days (2026-11-22)"\n'
    )
    assert (files.folder / "quotas.d/prod/recommended.yaml").is_file()


COMMON = "quotas:\n  - match: {user: alice}\n    values: {producer_byte_rate: 1MiB/s, consumer_byte_rate: 2MiB/s}\n"


def test_a_common_entry_of_several_clusters_is_overridden_in_the_folder_of_the_cluster(files: Files) -> None:
    files.write(TWO, a=COMMON)
    edited = files.edit(update(), update(2 * MIB, None, key=CONSUMER))
    (file,) = edited.edit.files
    assert file.name.endswith("quotas.d/prod/recommended.yaml")
    assert file.after == (
        "# yaml-language-server: $schema=../../schemas/quotas.schema.json\n"
        "quotas:\n  - match: {user: alice}\n    values:\n      producer_byte_rate: 12.5MiB/s\n"
        "    unset: [consumer_byte_rate]\n"
        '    reason: "producer_byte_rate: p99 of 14 days 8.2 MiB/s x 1.5; consumer_byte_rate: not used for 30 days '
        '(2026-11-22)"\n'
    )


def test_an_entry_of_the_cluster_is_changed_in_place_and_unsets_what_is_common(files: Files) -> None:
    files.write(TWO, a=COMMON, prod__a=COMMON.replace("2MiB", "3MiB"))
    edited = files.edit(update(3 * MIB, None, key=CONSUMER))
    (file,) = edited.edit.files
    assert "values: {producer_byte_rate: 1MiB/s}" in file.after
    assert "unset: [consumer_byte_rate]" in file.after


@pytest.mark.parametrize(
    "text",
    [
        "quotas:\n  - match: {user: [alice, bob]}\n    values: {producer_byte_rate: 1MiB/s}\n",
        "quotas:\n  - &a\n    match: {user: alice}\n    values: {producer_byte_rate: 1MiB/s}\n"
        "  - {<<: *a, match: {user: bob}}\n",
        "quotas:\n  - match: {user: bob}\n    values: &v {producer_byte_rate: 1MiB/s}\n"
        "  - {match: {user: alice}, values: *v}\n",
        "quotas:\n  - match: {user: bob}\n    values: {producer_byte_rate: &v 1MiB/s}\n"
        "  - {match: {user: alice}, values: {producer_byte_rate: *v}}\n",
        "quotas:\n  - match: {user: alice}\n    values: {producer_byte_rate: &v 1MiB/s}\n"
        "  - {match: {user: bob}, values: {producer_byte_rate: *v}}\n",
    ],
    ids=["list", "anchored-entry", "aliased-values", "aliased-value", "anchored-value"],
)
def test_an_entry_that_is_a_part_of_others_is_overridden_and_they_stay(files: Files, text: str) -> None:
    files.write(a=text)
    changed = files.written(update())
    assert (files.folder / "quotas.d/a.yaml").read_text() == text
    assert "match: {user: alice}\n    values:\n      producer_byte_rate: 12.5MiB/s\n" in changed
    own = text.replace("quotas:", "# x\nquotas:")
    (files.folder / "quotas.d/a.yaml").unlink()
    (files.folder / "quotas.d/prod/recommended.yaml").write_text(own)
    edited = files.edit(update())
    assert not edited.edit.files
    assert [each.proposal.entity for each in edited.edit.unwritten] == [ALICE]


@pytest.mark.parametrize(
    ("values", "used"),
    [
        ("&v {producer_byte_rate: 1MiB/s}", "{<<: *v, request_percentage: 50%}"),
        ("{producer_byte_rate: &v 1MiB/s}", "{producer_byte_rate: *v}"),
        ("\n      producer_byte_rate: &v 1MiB/s", "{producer_byte_rate: *v}"),
    ],
)
def test_an_anchor_that_others_use_is_not_taken_away(files: Files, values: str, used: str) -> None:
    """The file had an alias of nothing then, and no proposal for any entity of any cluster was written."""
    text = f"quotas:\n  - match: {{user: alice}}\n    values: {values}\n  - {{match: {{user: bob}}, values: {used}}}\n"
    text += "  - match: {user: eve}\n    values: {producer_byte_rate: 1MiB/s}\n"
    files.write(TWO, prod__a=text)
    eve = update(entity=Entity(user="eve"))
    edited = files.edit(update(after=None), eve)
    assert [(each.proposal.entity, "has an anchor" in each.reason) for each in edited.edit.unwritten] == [(ALICE, True)]
    (file,) = edited.edit.files
    assert file.after.startswith(text.partition("  - match: {user: eve}")[0])
    assert "12.5MiB/s" in file.after


BASE = "quotas:\n  - match: {user: bob}\n    values: &v {producer_byte_rate: 1MiB/s}\n"


@pytest.mark.parametrize(
    ("entry", "proposals", "after"),
    [
        (
            "  - match: {user: alice}\n    values: *v # all\n",
            [update(after=None)],
            "  - match: {user: alice}\n    state: absent # all\n",
        ),
        (
            "  - {match: {user: alice}, values: *v, owner: me}\n",
            [update(after=None)],
            "  - {match: {user: alice}, state: absent, owner: me, ",
        ),
        (
            "  - match: {user: alice}\n    values: {<<: *v, request_percentage: 50%}\n",
            [update(50.0, None, key=REQUEST)],
            "values: {<<: *v}\n",
        ),
        (
            "  - match: {user: alice}\n    values: { <<: [*v] , request_percentage: 50%}\n",
            [update(50.0, None, key=REQUEST)],
            "values: { <<: [*v]}\n",
        ),
        (
            "  - match: {user: alice}\n    values: {<<: *v}\n",
            [update(None, 2 * MIB, key=CONSUMER)],
            "values: {<<: *v, consumer_byte_rate: 2MiB/s}\n",
        ),
        (
            "  - match: {user: alice}\n    values:\n      <<: *v\n      request_percentage: 50%\n",
            [update(50.0, None, key=REQUEST), update(None, 2 * MIB, key=CONSUMER)],
            "values:\n      <<: *v\n      consumer_byte_rate: 2MiB/s\n",
        ),
    ],
)
def test_what_stands_beside_an_alias_is_changed_and_the_alias_stays_whole(
    files: Files, entry: str, proposals: list[Recommendation], after: str
) -> None:
    """An alias was taken to end where its key does: `{<<: *v, b: 1}` became `{<<}`, and nothing was written at all."""
    files.write(TWO, prod__a=BASE + entry)
    changed = files.written(*proposals)
    assert changed.startswith(BASE)
    assert after in changed


def test_a_value_that_is_merged_from_elsewhere_too_is_not_taken_away(files: Files) -> None:
    values = "{<<: *v, producer_byte_rate: 3MiB/s, request_percentage: 50%}"
    files.write(TWO, prod__a=f"{BASE}  - match: {{user: alice}}\n    values: {values}\n")
    left = [each.reason for each in files.edit(update(3 * MIB, None)).edit.unwritten]
    assert left == ["without producer_byte_rate here, that from elsewhere in the file counts"]


def test_a_value_with_an_anchor_is_not_taken_from_the_others_of_its_entry(files: Files) -> None:
    text = "quotas:\n  - match: {user: alice}\n    values:\n      producer_byte_rate: &v 1MiB/s\n"
    text += "      consumer_byte_rate: 2MiB/s\n  - {match: {user: bob}, values: {producer_byte_rate: *v}}\n"
    files.write(TWO, prod__a=text)
    gone = update(after=None)
    left = [(each.proposal, each.reason) for each in files.edit(gone).edit.unwritten]
    assert left == [(gone, "producer_byte_rate has an anchor")]


def test_what_cannot_be_written_of_one_cluster_does_not_keep_that_of_another_from_being_written(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it was not known which change made a file invalid, nothing was written of any cluster."""
    files.write(TWO, prod__a=COMMON, lab__a=COMMON)
    right = placement._spelled
    monkeypatch.setattr(placement, "_spelled", lambda each: right(each) if each.cluster == "lab" else "*nothing")
    edited = files.edit(update(), replace(update(), cluster="lab"))
    assert [(each.proposal.cluster, each.reason) for each in edited.edit.unwritten] == [
        ("prod", "its entry cannot be changed without changing others")
    ]
    assert [file.name.endswith("lab/a.yaml") for file in edited.edit.files] == [True]


def test_a_value_beside_a_profile_that_has_it_too_is_not_taken_away(files: Files) -> None:
    """Without it, the value of the profile would count."""
    profiles = "profiles: {gold: {producer_byte_rate: 4MiB/s, consumer_byte_rate: 2MiB/s}}\n"
    entry = "quotas:\n  - match: {user: alice}\n    profile: gold\n    values: {producer_byte_rate: 1MiB/s}\n"
    files.write(TWO + profiles, prod__a=entry)
    gone, changed = update(after=None), update(2 * MIB, key=CONSUMER)
    edited = files.edit(gone, changed)
    (file,) = edited.edit.files
    assert "values: {producer_byte_rate: 1MiB/s, consumer_byte_rate: 12.5MiB/s}" in file.after
    assert [(each.proposal, each.reason) for each in edited.edit.unwritten] == [
        (gone, 'it comes from the profile "gold"; write values in the place of the profile')
    ]
    # Of an entry that is common, the folder of the cluster can say so.
    (files.folder / "quotas.d/prod/a.yaml").rename(files.folder / "quotas.d/a.yaml")
    (files.folder / "quotaform.yaml").write_text(ONE + profiles, encoding="utf-8")
    (file,) = files.edit(gone).edit.files
    assert (file.name.endswith("prod/recommended.yaml"), "unset: [producer_byte_rate]" in file.after) == (True, True)
    # And where the entry of the folder has the profile, and the common one a value, too.
    (files.folder / "quotas.d/prod/a.yaml").write_text(entry, encoding="utf-8")
    (files.folder / "quotas.d/a.yaml").write_text(COMMON, encoding="utf-8")
    (file,) = files.edit(gone).edit.files
    assert "profile: gold\n    unset: [producer_byte_rate]\n" in file.after


def test_a_profile_is_overridden_beside_it(files: Files) -> None:
    files.write(
        ONE + "profiles: {gold: {producer_byte_rate: 1MiB/s, consumer_byte_rate: 2MiB/s}}\n",
        a="quotas:\n  - match: {user: alice}\n    profile: gold\n",
    )
    assert "profile: gold\n    values: {producer_byte_rate: 12.5MiB/s}\n" in files.written(update())
    (files.folder / "quotas.d/a.yaml").write_text("quotas:\n  - match: {user: alice}\n    profile: gold\n")
    edited = files.edit(update(2 * MIB, None, key=CONSUMER))
    (file,) = edited.edit.files
    assert file.name.endswith("prod/recommended.yaml")
    assert "unset: [consumer_byte_rate]" in file.after


def test_a_value_of_a_profile_that_is_to_go_does_not_keep_the_other_values_from_being_written(files: Files) -> None:
    """Both proposals were left out, each with the reason of the one that cannot be followed."""
    files.write(
        TWO + "profiles: {gold: {producer_byte_rate: 1MiB/s, consumer_byte_rate: 2MiB/s}}\n",
        prod__a="quotas:\n  - match: {user: alice}\n    profile: gold\n",
    )
    gone = update(2 * MIB, None, key=CONSUMER)
    edited = files.edit(update(), gone)
    (file,) = edited.edit.files
    assert "profile: gold\n    values: {producer_byte_rate: 12.5MiB/s}\n" in file.after
    assert "unset" not in file.after
    assert [(each.proposal, each.reason) for each in edited.edit.unwritten] == [
        (gone, 'it comes from the profile "gold"; write values in the place of the profile')
    ]
    nothing = files.edit(gone)
    assert (nothing.edit.files, len(nothing.edit.unwritten)) == ((), 1)
    whole = files.edit(update(MIB, None), gone)
    assert [("state: absent" in file.after, "profile" in file.after) for file in whole.edit.files] == [(True, False)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (COMMON.replace("1MiB", "3MiB"), "the files say 3 MiB/s and the cluster holds 1 MiB/s; apply them first"),
        (COMMON.replace("producer_byte_rate: 1MiB/s, ", ""), "the files say no value and the cluster holds 1 MiB/s"),
        (
            "quotas:\n  - {match: {user: alice}, state: absent}\n",
            "the files say that it must not exist; apply them first",
        ),
    ],
)
def test_files_that_are_not_applied_are_left_as_they_are(files: Files, text: str, reason: str) -> None:
    files.write(a=text)
    edited = files.edit(update())
    assert not edited.edit.files
    assert [each.reason.startswith(reason) for each in edited.edit.unwritten] == [True]


def test_an_entity_of_another_repository_is_left_to_it(files: Files) -> None:
    other = files.folder / "team-b"
    (other / "quotas.d").mkdir(parents=True)
    (other / "quotaform.yaml").write_text(ONE)
    (other / "quotas.d/b.yaml").write_text(COMMON)
    files.write(ONE + "roots: [team-b]\n", a=COMMON.replace("alice", "bob"))
    (files.folder / ".git").mkdir()
    edited = files.edit(update(), live={PRODUCER: MIB})
    assert not edited.edit.files
    (left,) = edited.edit.unwritten
    assert left.reason.startswith("it is declared in another quota repository, at ")


def test_an_entity_that_files_cannot_hold_does_not_keep_others_from_being_written(files: Files) -> None:
    files.write(a=COMMON)
    odd = update(entity=Entity(user=""))
    edited = files.edit(update(), odd, live={PRODUCER: MIB})
    assert [file.name.endswith("a.yaml") for file in edited.edit.files] == [True]
    assert [(each.proposal, each.reason) for each in edited.edit.unwritten] == [
        (odd, "files cannot hold this entity; see quotaform import")
    ]


def test_what_does_not_read_back_as_proposed_is_not_written(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whatever the changes of text do, the result is read again.
    files.write(a=COMMON + COMMON.partition("\n")[2].replace("alice", "bob"))
    right = placement._spelled
    monkeypatch.setattr(placement, "_spelled", lambda each: "1KiB/s" if each.entity == ALICE else right(each))
    edited = files.edit(update(), update(entity=Entity(user="bob")))
    assert [(each.proposal.entity, each.reason) for each in edited.edit.unwritten] == [
        (ALICE, "its entry cannot be changed without changing others")
    ]
    (file,) = edited.edit.files
    assert file.after.count("12.5MiB/s") == 1
    monkeypatch.setattr(placement, "_spelled", lambda _: "1KiB/s, request_percentage: -1")
    assert not files.edit(update(), update(entity=Entity(user="bob"))).edit.files


def test_names_that_yaml_takes_for_something_else_are_quoted(files: Files) -> None:
    files.write()
    names = ["007", "a: b # c", "<default>", "nul\x07l", "yes"]
    edited = files.edit(*(update(entity=Entity(user=name)) for name in names), live={PRODUCER: MIB})
    assert not edited.edit.unwritten
    write_quotas(edited)
    again = files.edit(*(update(12.5 * MIB, 20 * MIB, entity=Entity(user=name)) for name in names))
    assert not again.edit.unwritten
    assert [file.after.count("producer_byte_rate: 20MiB/s") for file in again.edit.files] == [5]


def test_all_files_are_written_or_none(files: Files) -> None:
    files.write(a=COMMON, b=COMMON.replace("alice", "bob"))
    edited = files.edit(update(), update(entity=Entity(user="bob")))
    assert len(edited.paths) == 2
    edited.paths[1].unlink()
    edited.paths[1].mkdir()
    with pytest.raises(QuotaformError, match="is a directory"):
        write_quotas(edited)
    assert edited.paths[0].read_text() == COMMON


@pytest.mark.parametrize(
    "earlier",
    [
        "p99 of 31 days 8.2 MiB/s x 1.5 (2026-10-01)",
        "p99 of 1 hour 1.07 MiB/s x 1.5 (2026-10-01)",
        "p99.9 of 31 days, 10 MiB/s on Mondays, x 1.25 (2026-10-01)",
        "p99 of 31 days without outliers, 2.95 MiB/s on Monday 2026-11-16, x 1.5 (2026-10-01)",
        "p99 of 37s, 1.07 MiB/s, x 1.5 (2026-10-01)",
        "p99 of 1d 12h, 1.07 MiB/s on Monday 2026-11-02, x 1.5 (2026-10-01)",
        "not used for 12h (2026-10-01)",
        "not used from 2026-08-02 to 2026-09-01 (2026-10-01)",
        "not used from 2026-09-01T11:59:00Z to 2026-09-01T23:59:00Z (2026-10-01)",
        "producer_byte_rate: p99 of 31 days, 2 MB/s x 2; consumer_byte_rate: not used for 30 days (2026-10-01)",
    ],
)
def test_every_form_of_an_earlier_reason_is_replaced(earlier: str) -> None:
    new = "p99 of 14 days 8.2 MiB/s x 1.5 (2026-11-22)"
    assert entry_reason(earlier, [update()], DAY) == new
    assert entry_reason(f"checkout; see #7; {earlier}", [update()], DAY) == f"checkout; see #7; {new}"
    assert entry_reason("p99 matters here", [update()], DAY) == f"p99 matters here; {new}"


def test_an_earlier_reason_of_a_proposal_is_replaced() -> None:
    first = entry_reason("checkout; see #7", [update()], DAY)
    both = entry_reason(first, [update(), update(after=None, key=CONSUMER)], DAY)
    assert (
        entry_reason(both, [update()], DAY)
        == first
        == ("checkout; see #7; p99 of 14 days 8.2 MiB/s x 1.5 (2026-11-22)")
    )
