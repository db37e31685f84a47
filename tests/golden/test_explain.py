"""Where declared values come from, with everything that can give or take a value in it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from quotaform.model.entity import Entity
from quotaform.report.text import Style
from quotaform.repository.repository import Repository
from quotaform.resolve.explain import Explained, dump_explained
from quotaform.resolve.report import render_explained
from quotaform.resolve.run import explain_entity
from tests.golden.conftest import Golden

FILES = {
    "quotaform.yaml": """\
clusters:
  lab: {bootstrap_servers: [b1:9092]}
  prod-eu: {bootstrap_servers: [b1:9092]}
  prod-us: {bootstrap_servers: [b1:9092]}
  stage: {bootstrap_servers: [b1:9092]}
profiles:
  gold: {producer_byte_rate: 50MiB/s, consumer_byte_rate: 100MiB/s}
  silver: {consumer_byte_rate: unlimited}
""",
    "quotas.d/teams.yaml": """\
quotas:
  - match: {user: svc-orders}
    profile: gold
    values: {producer_byte_rate: 10MiB/s, request_percentage: 33.3%}
    owner: team-orders
    reason: "checkout\\n::error::traffic"
  - match: {user: svc-eu}
    profile: gold
""",
    "quotas.d/lab/teams.yaml": "quotas:\n  - {match: {user: svc-orders}, state: absent, reason: no lab}\n",
    "quotas.d/prod-eu/teams.yaml": """\
quotas:
  - match: {user: svc-orders}
    profile: silver
    values:
      producer_byte_rate: 20MiB/s
    unset: [request_percentage]
    owner: team-eu
""",
    "quotas.d/stage/teams.yaml": """\
quotas:
  - match: {user: svc-orders}
    values: {controller_mutation_rate: 5/s}
    expires: 2026-01-31
""",
}


@pytest.fixture
def explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Explained:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return explain_entity(Repository.at(None, None), Entity(user="svc-orders"), (), date(2026, 11, 20))


def test_explain_text(explained: Explained, golden: Golden) -> None:
    golden("explain.txt", render_explained(explained))


def test_explain_text_in_colour(explained: Explained, golden: Golden) -> None:
    golden("explain-colour.txt", render_explained(explained, Style(is_coloured=True)))


def test_explain_json(explained: Explained, golden: Golden) -> None:
    golden("explain.json", dump_explained(explained))
