"""Which comment on a pull request is written for what, against servers that answer as GitHub and GitLab do."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotaform.cli.main import run
from quotaform.http.client import Limits
from quotaform.model.errors import HttpError, QuotaformError
from quotaform.model.text import Secret
from quotaform.report.comment import Marker, read_changes, read_marker
from quotaform.review.comment import CommentAction, CommentMode, Draft, Posted, plan_comment
from quotaform.review.run import (
    CommentOutcome,
    Given,
    Platform,
    find_pull_request,
    find_token,
    make_transport,
    open_comments,
    post_comments,
    read_drafts,
)
from tests.http_server import HttpServer, Received, answer
from tests.pull_request_server import NEWEST, TOKEN, FakeGitHub, event

MARKER = '<!-- quotaform:plan {"v":1,"cluster":"lab","root":"quotas.d"} -->'
OTHER = MARKER.replace("lab", "prod-eu")
BODY = f"{MARKER}\n### Kafka quota plan for `lab`: 1 to add\n\ntext\n"
EMPTY = MARKER.replace("}", ',"changes":0}') + "\n### Kafka quota plan for `lab`: no changes\n"
BEGIN = datetime(2026, 11, 22, 12, tzinfo=UTC)


class FakeClock:
    """A clock that moves when somebody waits."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return sum(self.waits)

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


def draft(body: str = BODY, name: str = "plan.md") -> Draft:
    marker = read_marker(body)
    assert marker is not None
    return Draft(name, marker, body)


def post(
    server: HttpServer,
    *bodies: str,
    mode: CommentMode = CommentMode.UPDATE,
    platform: Platform = Platform.GITHUB,
    root: str = "",
    clock: FakeClock | None = None,
    limits: Limits | None = None,
    commit: str | None = None,
) -> list[CommentOutcome]:
    """Post comments with a clock that nobody waits for; the token must not show in what comes of it."""
    is_github = platform is Platform.GITHUB
    given = Given(
        platform=platform,
        api_url=server.url + (root if is_github else "/api/v4"),
        repository="acme/quotas" if is_github else "42",
        number="7",
        commit=commit,
    )
    pull_request = find_pull_request(given, {})
    assert pull_request is not None
    transport = make_transport(limits=limits or Limits(), clock=clock or FakeClock())
    comments = open_comments(pull_request, Secret(TOKEN), transport)
    try:
        outcomes = list(post_comments(comments, [draft(body) for body in bodies], mode, commit=pull_request.commit))
    except QuotaformError as error:
        require_no_token(error)
        raise
    for outcome in outcomes:
        assert TOKEN not in f"{outcome} {outcome.error and vars(outcome.error)}"
    return outcomes


def require_no_token(error: QuotaformError) -> None:
    assert TOKEN not in f"{error} {error!r} {vars(error)}"


def action(outcome: CommentOutcome) -> CommentAction:
    assert outcome.step is not None, outcome.error
    return outcome.step.action


class TestMarker:
    """The first line says what a comment shows."""

    @given(st.text(max_size=100), st.text(max_size=100), st.none() | st.integers(0))
    def test_what_is_written_is_read_back(self, cluster: str, root: str, changes: int | None) -> None:
        line = Marker("drift", cluster, root).line(changes)
        assert read_marker(f"{line}\nmore") == Marker("drift", cluster, root)
        assert read_changes(line) == changes
        assert line.count("-->") == 1


OWN, FOREIGN = (Posted(id=number, body=BODY, author="a", is_own=is_own) for number, is_own in ((1, True), (2, False)))
STALE = Posted(id=3, body=EMPTY, author="a", is_own=True)


@pytest.mark.parametrize(
    ("posted", "mode", "body", "expected", "target"),
    [
        ((), "update", BODY, "create", None),
        ((), "update", EMPTY, "create", None),
        ((), "changes-only", BODY, "create", None),
        ((), "changes-only", EMPTY, "skip", None),
        ((FOREIGN,), "changes-only", EMPTY, "skip", None),
        ((FOREIGN,), "update", BODY, "create", None),
        ((OWN,), "update", BODY, "keep", OWN),
        ((OWN,), "update", EMPTY, "update", OWN),
        ((OWN,), "changes-only", EMPTY, "update", OWN),
        ((FOREIGN, STALE, OWN), "update", BODY, "update", STALE),
        ((OWN,), "new", BODY, "create", None),
    ],
)
def test_what_is_done_follows_from_the_comments_that_are_there(
    posted: tuple[Posted, ...], mode: str, body: str, expected: str, target: Posted | None
) -> None:
    step = plan_comment(draft(body), posted, CommentMode(mode))
    assert (step.action, step.target) == (expected, target)


class TestGitHub:
    """As github.com and GitHub Enterprise Server answer."""

    def test_a_comment_of_somebody_else_with_the_same_marker_is_left_alone(self) -> None:
        github = FakeGitHub()
        github.add(EMPTY, login="mallory")
        with github.server() as server:
            (outcome,) = post(server, BODY)
        assert action(outcome) == "create"
        assert github.comments[0]["body"] == EMPTY
        assert outcome.step is not None
        assert outcome.step.others == ("mallory",)

    def test_a_user_with_the_name_of_an_app_is_somebody_else(self) -> None:
        github = FakeGitHub(token_kind="job", login="our-app")
        github.add(EMPTY, login="our-app[bot]", kind="User")
        with github.server() as server:
            (outcome,) = post(server, BODY)
        assert action(outcome) == "create"

    @pytest.mark.parametrize(
        ("reply", "words"),
        [
            (
                answer(401, {"message": f"Bad credentials {TOKEN}"}),
                "refused this with status 401 (Bad credentials ***); check the token in QUOTAFORM_COMMENT_TOKEN or "
                "GITHUB_TOKEN",
            ),
            (
                answer(404, {"message": "Not Found"}),
                "refused this with status 404 (Not Found); check repository and number",
            ),
            (answer(410), "refused this with status 410; comments are turned off or the pull request is gone"),
            (answer(422, {"message": "no\n::error::x"}), 'refused this with status 422 ("no\\n::error::x")'),
            (answer(422, [["message"]]), "refused this with status 422"),
            (answer(200, b"<html>"), "answered with something that is not JSON; check the URL"),
            (answer(200, {"a": 1}), "answered with JSON of an unexpected shape; check the URL of the API"),
            (answer(200, [5]), "answered with JSON of an unexpected shape; check the URL of the API"),
            (answer(200, [{"id": "1", "body": "b", "user": {"login": "x"}}]), "JSON of an unexpected shape"),
            (
                answer(302, Location="https://evil.example/x"),
                "redirects to https://evil.example, and redirects to another",
            ),
            (
                answer(200, [], Link='<https://evil.example/2>; rel="next"'),
                "the list goes on at https://evil.example, which",
            ),
        ],
    )
    def test_what_github_does_not_do_is_an_error_in_one_sentence(self, reply: bytes, words: str) -> None:
        with FakeGitHub(trouble=[None, reply]).server() as server, pytest.raises(HttpError) as caught:
            post(server, BODY)
        assert words in str(caught.value)
        assert str(caught.value).startswith(server.url)
        assert "\n" not in str(caught.value)

    @pytest.mark.exhaustive
    def test_a_list_without_an_end_is_left(self) -> None:
        def reply(request: Received) -> bytes:
            if request.target == "/user":
                return answer(200, {"login": "me"})
            return answer(200, [], Link='</again>; rel="next"')

        with HttpServer(reply) as server, pytest.raises(HttpError, match="lists more than 500 pages"):
            post(server, BODY)

    @pytest.mark.slow
    def test_a_server_that_hangs_is_given_up(self) -> None:
        def reply(_: Received) -> Iterable[bytes]:
            server.is_over.wait(10)
            yield b""

        with HttpServer(reply) as server, pytest.raises(HttpError, match=r"did not answer within 0\.3 s"):
            post(server, BODY, limits=Limits(total=0.3))
        assert len(server.received) == 5


class TestGitLab:
    """As gitlab.com answers."""

    def test_a_token_that_is_not_known_says_which_variable(self) -> None:
        with (
            HttpServer(lambda _: answer(401, {"message": "401 Unauthorized"})) as server,
            pytest.raises(HttpError) as caught,
        ):
            post(server, BODY, platform=Platform.GITLAB)
        assert "GITLAB_TOKEN; CI_JOB_TOKEN cannot write notes" in str(caught.value)


GITHUB = {"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "acme/quotas", "GITHUB_API_URL": "https://ghe.example/api/v3"}
GITLAB = {"GITLAB_CI": "true", "CI_PROJECT_ID": "42", "CI_API_V4_URL": "https://gitlab.example/api/v4"}


class TestPullRequest:
    """Variables say which pull request a run is for."""

    @pytest.mark.parametrize("content", [None, "no json", "[" * 100_000])
    def test_an_event_that_cannot_be_read_is_an_error(self, tmp_path: Path, content: str | None) -> None:
        path = tmp_path / "event.json"
        if content is not None:
            path.write_text(content)
        with pytest.raises(QuotaformError, match=r"GITHUB_EVENT_PATH.*; give --pull-request"):
            find_pull_request(Given(), {**GITHUB, "GITHUB_EVENT_PATH": str(path)})

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

    @pytest.mark.parametrize(
        ("arguments", "commit", "code"),
        [
            ((), NEWEST, 0),
            ((), "4" * 40, 5),
            (("--mode", "new"), "4" * 40, 5),
            (("--dry-run",), "4" * 40, 5),
            (("--pull-request", "7"), "4" * 40, 0),
            (("--pull-request", "7", "--commit", "4" * 40), NEWEST, 5),
        ],
    )
    def test_the_comment_of_an_older_commit_is_refused(
        self,
        job: Path,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
        arguments: tuple[str, ...],
        commit: str,
        code: int,
    ) -> None:
        """A job of an older commit that was run again replaced the comment of the newest one without a word."""
        (job / "event.json").write_text(event(7, commit))
        github = FakeGitHub()
        with github.server() as server:
            monkeypatch.setenv("GITHUB_API_URL", server.url)
            done, _, errors = self.run(capfd, "plan.md", *arguments)
        assert (done, len(github.writes)) == (code, not code)
        assert code == 0 or errors == (
            f"Error: the pull request is at commit {NEWEST}, and this run is for {'4' * 40}; no comment was written, "
            "so that none of a newer commit is replaced\n"
        )

    def test_a_run_for_a_push_writes_nothing_and_exits_0(self, job: Path, capfd: pytest.CaptureFixture[str]) -> None:
        (job / "event.json").write_text("{}")
        assert self.run(capfd, "plan.md") == (0, "", "This run is for no pull request; no comment was written.\n")

    @pytest.mark.parametrize(
        ("files", "code", "words"),
        [
            (["gone.md"], 1, "gone.md cannot be read"),
            (["text.md"], 1, "text.md does not begin with the marker of a comment; write it with plan --out markdown="),
            (["plan.json"], 1, "; give what plan --out markdown=plan.md writes"),  # It named plan.json to write over.
            (["plan.md", "again.md"], 64, "plan.md and again.md are both the plan of cluster lab; give one"),
            (["plan.md", "--mode", "off"], 64, "unknown mode 'off'; choose update, changes-only or new"),
            (["plan.md", "--platform", "bitbucket"], 64, "unknown platform 'bitbucket'; choose github or gitlab"),
            (["plan.md", "--api-url", f"https://{TOKEN}@a"], 64, "it must not contain a user name or a password"),
            (["plan.md", "--api-url", f"https://a/?key={TOKEN}"], 64, "it must not contain a query; check --api-url"),
            (["plan.md", "--api-url", "http://git.example.com"], 1, "would receive the token unencrypted"),
        ],
    )
    def test_bad_input_is_an_error(
        self, files: list[str], code: int, words: str, job: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        (job / "text.md").write_text("text\n")
        (job / "plan.json").write_text("{}\n")
        (job / "again.md").write_text(BODY)
        found, output, errors = self.run(capfd, *files)
        assert (found, output) == (code, "")
        assert words in errors


def test_drafts_are_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(BODY.replace("\n", "\r\n").encode())
    (read,) = read_drafts([tmp_path / "a.md"])
    assert (read.body, read.marker.cluster) == (BODY, "lab")
    assert not read.is_empty
    assert draft(EMPTY).is_empty


@pytest.mark.parametrize("changes", ["3", "null", "false", "0.0", '"0"', "[]"])
def test_only_the_number_0_says_that_there_is_nothing_to_review(changes: str) -> None:
    """The words of the heading said it."""
    assert not draft(EMPTY.replace(":0", f":{changes}")).is_empty


SNAPSHOT = """{"format_version": "1.0", "kind": "quotaform.snapshot", "cluster": {"name": "lab", "id": "x"},
"captured_at": "2026-01-01T00:00:00Z", "quotas": [{"entity": {"user": "a"}, "values": {"producer_byte_rate": 1048576}}]}
"""


@pytest.mark.parametrize(("value", "is_empty"), [("1MiB/s", True), ("2MiB/s", False)])
def test_the_comment_of_a_plan_is_a_draft(
    value: str, is_empty: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab.json").write_text(SNAPSHOT)
    (tmp_path / "quotaform.yaml").write_text("clusters: {lab: {snapshot: lab.json}}\n")
    (tmp_path / "quotas.d").mkdir()
    entry = f"quotas: [{{match: {{user: a}}, values: {{producer_byte_rate: {value}}}}}]\n"
    (tmp_path / "quotas.d" / "a.yaml").write_text(entry)
    assert run(["plan", "--out", "markdown=plan.md"]) == 0
    (read,) = read_drafts([Path("plan.md")])
    assert (read.marker, read.is_empty) == (Marker("plan", "lab", "quotas.d"), is_empty)
