"""Which comment on a pull request is written for what: `story-comment.txt`, against servers like GitHub's and GitLab's.

An input is YAML. `has` is what was written there, `AUTHOR:BODY`, `AUTHOR:BODY:KIND` or one of these `* NUMBER`; nobody
is who the token belongs to. `trouble` is what the first requests are answered in place of the right answer: a status,
or a status, a message or JSON, and headers. Each item of `post` is a run, with one body or several.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import yaml

from quotaform.http.client import Transport, Url
from quotaform.model.errors import QuotaformError
from quotaform.model.text import Secret
from quotaform.report.comment import read_marker
from quotaform.review.comment import CommentMode, CommentStep, DesiredComment
from quotaform.review.run import Comments, find_pull_request, post_comments
from tests.golden.conftest import Golden
from tests.golden.table import Text, check_told
from tests.http_server import HttpServer, answer
from tests.pull_request_server import TOKEN, FakeGitHub, FakeGitLab
from tests.scripted_gateway import Clock

MARKER = '<!-- quotaform:plan {"v":1,"cluster":"lab","root":"quotas.d"} -->'
OTHER = MARKER.replace("lab", "prod-eu")
BODY = f"{MARKER}\n### Kafka quota plan for `lab`: 1 to add\n\ntext\n"
EMPTY = MARKER.replace("}", ',"changes":0}') + "\n### Kafka quota plan for `lab`: no changes\n"
BODIES: Final = {
    "plan": BODY,
    "plan+": f"{BODY}more",
    "long": BODY + "a" * 65_536,
    "empty": EMPTY,
    "other": OTHER,
    "b": BODY.replace("lab", "b"),
}
NAMES: Final = {body: name for name, body in BODIES.items()}


def post(
    server: HttpServer,
    *bodies: str,
    mode: str = "update",
    platform: str = "github",
    root: str = "",
    clock: Clock | None = None,
    commit: str | None = None,
) -> list[CommentStep]:
    """Post comments with a clock that nobody waits for; the token must not show in what comes of it."""
    is_github = platform == "github"
    pull_request = find_pull_request(
        {},
        platform=platform,
        api_url=server.url + (root if is_github else "/api/v4"),
        repository="acme/quotas" if is_github else "42",
        number="7",
        commit=commit,
    )
    assert pull_request is not None
    comments = Comments(pull_request, Secret(TOKEN), Transport(clock=clock or Clock(), patience=60.0))
    drafts = [DesiredComment("plan.md", marker, body) for body in bodies if (marker := read_marker(body))]
    steps = list(post_comments(comments, drafts, CommentMode(mode), commit=pull_request.commit))
    for step in steps:
        assert TOKEN not in f"{step} {step.error and vars(step.error)}"
    return steps


def reply_of(said: Any) -> bytes | None:
    status, message, headers = [*said, {}][:3] if isinstance(said, list) else (said, None, {})
    if isinstance(message, str):
        message = message.encode() if message.startswith("<") else {"message": message}
    return None if status is None else answer(status, b"" if message is None else message, **headers)


def platform_of(asked: dict[str, Any]) -> FakeGitHub | FakeGitLab:
    """Return a server with what was written there."""
    trouble = [reply_of(each) for each in asked.get("trouble", ())]
    lab = FakeGitLab(trouble=trouble)
    hub = FakeGitHub(
        token_kind=asked.get("kind", "personal"),
        login=asked.get("login", "quota-bot"),
        root=asked.get("root", ""),
        trouble=[*trouble],
        after_write=(lambda: answer(asked["after"])) if "after" in asked else None,
    )
    for written in asked.get("has", ()):
        item, _, times = written.partition(" * ")
        author, body, *kind = item.split(":")
        for number in range(int(times or 1)):
            text = BODIES.get(body, f"{body} {number}")
            hub.add(text, author or None, kind[0] if kind else "User")
            lab.add(text, int(author) if author.isdigit() else None, is_system=author == "system")
    return lab if asked.get("platform") == "gitlab" else hub


def of_posted(text: Text) -> Iterator[str]:
    """Yield what becomes of each comment, what was written, and how long it was waited for."""
    asked = yaml.safe_load(text)
    platform, clock = platform_of(asked), Clock()
    is_lab = isinstance(platform, FakeGitLab)
    with platform.server() as server:
        for bodies in asked["post"]:
            names = bodies if isinstance(bodies, list) else [bodies]
            try:
                steps = post(
                    server,
                    *(BODIES[name] for name in names),
                    platform="gitlab" if is_lab else "github",
                    root=asked.get("root", ""),
                    clock=clock,
                    mode=asked.get("mode", "update"),
                    commit=asked.get("commit"),
                )
            except QuotaformError as error:
                shown = f"{error!r} {vars(error)}"
                if TOKEN in shown:
                    raise
                yield f"{type(error).__name__}: {error}".replace(Url.parse(server.url).origin, "URL")
                continue
            for name, step in zip(names, steps, strict=True):
                if step.error is not None:
                    yield f"{name}: {step.error}".replace(server.url, "URL")
                    continue
                target = step.target.url or step.target.id if step.target else ""
                others = f"; left alone: {', '.join(step.others)}" if step.others else ""
                duplicates = f"; {step.duplicates} duplicates" if step.duplicates else ""
                yield f"{name}: {step.action} {target}{others}{duplicates}"
    writes = [f"{what} {NAMES[body]}" for what, body in platform.writes]
    yield f"written: {', '.join(writes) or 'nothing'}; {len(server.received)} requests"
    if clock.pauses:
        yield f"waited {len(clock.pauses)} times, each {'20 s or more' if min(clock.pauses) >= 20 else 'a few seconds'}"


def test_comments_are_written_like_this(golden: Golden) -> None:
    check_told(golden, "story-comment.txt", of_posted)
