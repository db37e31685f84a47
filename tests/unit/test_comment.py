"""Which comment on a pull request is written for what, against servers that answer as GitHub and GitLab do."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotaform.cli.main import run
from quotaform.model.errors import HttpError, QuotaformError
from quotaform.report.comment import Marker, read_marker
from quotaform.review.platform import Platform
from quotaform.review.run import find_token, read_drafts
from tests.golden.test_comments import BODY, EMPTY, post
from tests.http_server import HttpServer, Received, answer
from tests.pull_request_server import TOKEN, FakeGitHub, event


class TestMarker:
    """The first line says what a comment shows."""

    @given(st.text(max_size=100), st.text(max_size=100), st.none() | st.integers(0))
    def test_what_is_written_is_read_back(self, cluster: str, root: str, changes: int | None) -> None:
        line = Marker("drift", cluster, root, changes).line()
        read = read_marker(f"{line}\nmore")
        assert read is not None
        assert (read, read.changes) == (Marker("drift", cluster, root), changes)
        assert line.count("-->") == 1


class TestServers:
    @pytest.mark.exhaustive
    def test_a_list_without_an_end_is_left(self) -> None:
        def reply(request: Received) -> bytes:
            if request.target == "/user":
                return answer(200, {"login": "me"})
            return answer(200, [], Link='</again>; rel="next"')

        with HttpServer(reply) as server, pytest.raises(HttpError, match="lists more than 500 pages"):
            post(server, BODY)


class TestToken:
    def test_the_token_comes_from_the_environment(self) -> None:
        environ = {"GITHUB_TOKEN": " a\n", "GITLAB_TOKEN": "b"}
        assert find_token(Platform.GITHUB, environ).reveal() == "a"
        assert find_token(Platform.GITLAB, environ).reveal() == "b"
        assert find_token(Platform.GITLAB, {**environ, "QUOTAFORM_COMMENT_TOKEN": "c"}).reveal() == "c"
        with pytest.raises(
            QuotaformError, match=r"no token is in QUOTAFORM_COMMENT_TOKEN or GITHUB_TOKEN; set one of them$"
        ):
            find_token(Platform.GITHUB, {"GITHUB_TOKEN": ""})
        with pytest.raises(QuotaformError, match="CI_JOB_TOKEN cannot write notes, so create a project access token"):
            find_token(Platform.GITLAB, {"CI_JOB_TOKEN": "x"})


class TestCommand:
    """`quotaform comment`, as a job runs it."""

    @pytest.fixture
    def job(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        for name in ("GITLAB_CI", "QUOTAFORM_COMMENT_TOKEN", "GITLAB_TOKEN", "http_proxy", "HTTP_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
        monkeypatch.setenv("GITHUB_REPOSITORY", "acme/quotas")
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        monkeypatch.setenv("GITHUB_EVENT_PATH", str(tmp_path / "event.json"))
        (tmp_path / "event.json").write_text(event(7))
        (tmp_path / "plan.md").write_text(BODY)
        return tmp_path

    @staticmethod
    def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
        code = run(["comment", *arguments])
        output, errors = capfd.readouterr()
        assert TOKEN not in output + errors
        return code, output, errors

    def test_a_comment_is_written_and_updated(
        self, job: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        github = FakeGitHub()
        github.add(EMPTY, login="mal\nlory")
        with github.server() as server:
            monkeypatch.setenv("GITHUB_API_URL", server.url)
            dry = self.run(capfd, "plan.md", "--dry-run")
            first = self.run(capfd, "plan.md")
            (job / "plan.md").write_text(EMPTY)
            second = self.run(capfd, "plan.md", "--mode", "changes-only", "--quiet")
        url = "https://github.example/acme/quotas/pull/7#issuecomment-101"
        warning = 'Warning: "mal\\nlory" wrote a comment with the marker of lab; it was left as it is.\n'
        assert dry == (0, "Comment on the plan of lab: would be created\n", warning)
        assert first == (0, f"Comment on the plan of lab: created: {url}\n", warning)
        assert second == (0, f"Comment on the plan of lab: updated: {url}\n", "")
        assert [what for what, _ in github.writes] == ["create", "101"]


def test_drafts_are_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(BODY.replace("\n", "\r\n").encode())
    (read,) = read_drafts([tmp_path / "a.md"])
    assert (read.body, read.marker.cluster) == (BODY, "lab")
