"""Laws of changes of quota files of several clusters: layers, profiles, lists, anchors and merge keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from re import findall
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from quotaform.model.entity import Entity
from quotaform.model.quotas import Values
from quotaform.repository.repository import Repository
from quotaform.usage.recommend.quota_edit import edit_quotas, write_quotas
from quotaform.usage.recommend.recommendation import Action, Recommendation
from tests.builder import CONSUMER, PRODUCER, REQUEST

MIB = 2.0**20
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
PARTS = (
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
    parts = draw(st.lists(st.sampled_from(PARTS), unique_by=lambda part: part.partition("}")[0], max_size=5))
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
            action=Action.DELETE if value is None else Action.CREATE if key not in values else Action.UPDATE,
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
        edited = edit_quotas(repository, repository.config(), proposals, before, DAY)
        write_quotas(edited)
        left = {(each.cluster, each.entity, each.key) for each in edited.unwritten}
        assert [each.reason for each in edited.unwritten if each.reason not in REASONS] == []
        assert _desired(repository) == _expected(before, proposals, left)
        for name, text in files.items():
            # An entry that is changed in place keeps its comments; what is removed takes those of its lines along.
            kept = (Path(folder) / name).read_text(encoding="utf-8")
            removed = any(each.action is Action.DELETE for each in proposals)
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
