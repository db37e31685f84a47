"""Which comment on a pull request is written for what, against servers that answer as GitHub and GitLab do."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotaform.model.errors import HttpError, QuotaformError
from quotaform.report.comment import Marker, read_marker
from quotaform.review.platform import Platform
from quotaform.review.run import find_token, read_drafts
from tests.golden.test_comments import BODY, post
from tests.http_server import HttpServer, Received, answer


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
    assert find_token(Platform.GITHUB, environ).reveal() == "a"
    assert find_token(Platform.GITLAB, environ).reveal() == "b"
    assert find_token(Platform.GITLAB, {**environ, "QUOTAFORM_COMMENT_TOKEN": "c"}).reveal() == "c"
    with pytest.raises(
        QuotaformError, match=r"no token is in QUOTAFORM_COMMENT_TOKEN or GITHUB_TOKEN; set one of them$"
    ):
        find_token(Platform.GITHUB, {"GITHUB_TOKEN": ""})
    with pytest.raises(QuotaformError, match="CI_JOB_TOKEN cannot write notes, so create a project access token"):
        find_token(Platform.GITLAB, {"CI_JOB_TOKEN": "x"})


def test_drafts_are_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(BODY.replace("\n", "\r\n").encode())
    (read,) = read_drafts([tmp_path / "a.md"])
    assert (read.body, read.marker.cluster) == (BODY, "lab")
