"""Comments on pull requests, what a step of GitHub Actions counts, `quotaform init`; `story-ci.txt` has the rest."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotaform.cli.main import run
from quotaform.cli.present import end_step, note_outcomes, run_options
from quotaform.model.entity import Entity
from quotaform.model.errors import HttpError, QuotaformError
from quotaform.model.outcome import ClusterOutcome
from quotaform.plan.receipt import Receipt, Result
from quotaform.report.comment import Marker, read_marker
from quotaform.review.run import GITHUB, GITLAB, find_token, read_drafts
from tests.builder import PRODUCER, plan_of, result_of
from tests.golden.test_comments import BODY, post
from tests.http_server import HttpServer, Received, answer
from tests.scripted_gateway import ScriptedGateway


@given(st.text(max_size=100), st.text(max_size=100), st.none() | st.integers(0))
def test_what_is_written_is_read_back(cluster: str, root: str, changes: int | None) -> None:
    line = Marker("drift", cluster, root, changes).line()
    read = read_marker(f"{line}\nmore")
    assert read is not None
    assert (read, read.changes) == (Marker("drift", cluster, root), changes)
    assert line.count("-->") == 1


@pytest.mark.exhaustive
def test_a_list_without_an_end_is_left() -> None:
    def reply(request: Received) -> bytes:
        if request.target == "/user":
            return answer(200, {"login": "me"})
        return answer(200, [], Link='</again>; rel="next"')

    with HttpServer(reply) as server, pytest.raises(HttpError, match="lists more than 500 pages"):
        post(server, BODY)


def test_the_token_comes_from_the_environment() -> None:
    environ = {"GITHUB_TOKEN": " a\n", "GITLAB_TOKEN": "b"}
    assert find_token(GITHUB, environ).reveal() == "a"
    assert find_token(GITLAB, environ).reveal() == "b"
    assert find_token(GITLAB, {**environ, "QUOTAFORM_COMMENT_TOKEN": "c"}).reveal() == "c"
    with pytest.raises(
        QuotaformError, match=r"no token is in QUOTAFORM_COMMENT_TOKEN or GITHUB_TOKEN; set one of them$"
    ):
        find_token(GITHUB, {"GITHUB_TOKEN": ""})
    with pytest.raises(QuotaformError, match="CI_JOB_TOKEN cannot write notes, so create a project access token"):
        find_token(GITLAB, {"CI_JOB_TOKEN": "x"})


def test_drafts_are_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(BODY.replace("\n", "\r\n").encode())
    (read,) = read_drafts([tmp_path / "a.md"])
    assert (read.body, read.marker.cluster) == (BODY, "lab")


ALICE = Entity(user="alice")


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedGateway:
    """A cluster with one quota, and a repository of another cluster in the current folder."""
    (tmp_path / "quotaform.yaml").write_text("clusters: {eu: {bootstrap_servers: ['a:1']}}\n")
    (tmp_path / "schemas").mkdir()
    made = ScriptedGateway({ALICE: {PRODUCER: 1024.0}}, cluster_id="b")
    monkeypatch.setattr("quotaform.cluster.kafka.KafkaGateway.connect", lambda *_, **__: made)
    monkeypatch.chdir(tmp_path)
    return made


def test_a_bad_answer_is_asked_for_again_at_once(
    gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name and the servers were looked at after the last question, and all of it had to be typed again."""
    answers = iter(["u s\n", "us\n", "b\n", "b:1\n", "nowhere\n", "\n"])
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdin, "readline", lambda: next(answers), raising=False)
    assert run(["init", "--import", "--ci", "none"]) == 0
    shown, told = capsys.readouterr()
    assert "  quotaform plan --cluster us\n" in shown
    assert 'the cluster name "u s" must consist of letters, digits, dots, dashes and underscores\nName' in told
    assert 'The bootstrap server "b" is not host:port; write for example broker1:9092.\nBootstrap' in told
    assert "There is no file nowhere\nClient properties" in told


def test_an_apply_counts_what_it_changed_or_may_have_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counted entities that the broker refused, and those that it was never asked to change."""
    (tmp_path / "output").touch()
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    plan = plan_of({Entity(user=result.value): {PRODUCER: 1.0} for result in Result}, {})
    results = tuple(result_of(change, result) for change, result in zip(plan.changes, Result, strict=True))
    moment = "2026-11-20T09:12:44Z"
    receipt = Receipt(plan=plan, results=results, applied_by="ada", started_at=moment, finished_at=moment)
    note_outcomes([ClusterOutcome("eu", receipt)])
    assert end_step(6) is None
    lines = (tmp_path / "output").read_text().splitlines()
    found = {line.partition("<<")[0]: value for line, value in pairwise(lines) if "<<" in line}
    assert (found["changes"], found["create"]) == ("4", "1")


def test_a_path_is_that_from_the_top_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "infra").mkdir()
    monkeypatch.chdir(tmp_path / "infra")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    place = run_options(Path("quotas.d"))["place"]
    assert place("quotas.d/a.yaml") == "infra/quotas.d/a.yaml"
    assert place("../other/a.yaml") == "other/a.yaml"
    assert place(str(tmp_path / "infra/x.yaml")) == "infra/x.yaml"
    assert place("../../a.yaml") is None
    assert place("/etc/passwd") is None
    monkeypatch.delenv("GITHUB_WORKSPACE")
    assert run_options(Path("quotas.d"))["place"]("quotas.d/a.yaml") == "quotas.d/a.yaml"
