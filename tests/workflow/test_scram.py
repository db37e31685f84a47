"""`quotaform scram` and `validate --check-principals`, as a user runs them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quotaform.cluster.records import ScramMechanism
from quotaform.cluster.scram import ScramGateway, make_upsertion
from quotaform.model.text import Secret
from quotaform.sandbox import Sandbox
from tests.broker import held_credentials, wipe_credentials
from tests.waiting import wait_until
from tests.workflow.command import Repository
from tests.workflow.terminal import talk

pytestmark = pytest.mark.workflow

SECRET = "hunter2-is-it"
SHA_512 = "SCRAM-SHA-512"
UPSERT = ("scram", "upsert", "--mechanism", SHA_512)


@pytest.fixture
def credentials(sandbox: Sandbox) -> Iterator[ScramGateway]:
    """The shared broker, which has no credentials before and after."""
    with ScramGateway.connect(sandbox.bootstrap_servers, name="lab") as gateway:
        wipe_credentials(gateway)
        yield gateway
        wipe_credentials(gateway)


def test_credentials_are_set_shown_and_deleted(repository: Repository, credentials: ScramGateway) -> None:
    assert repository("scram", "describe").out == "lab has no SCRAM credentials.\n"

    repository.write("password", f"{SECRET}\n").chmod(0o600)
    both = ("--mechanism", "SCRAM-SHA-256", "--mechanism", SHA_512)
    options = (*both, "--iterations", "8192", "--password-file", "password")
    done = repository("scram", "upsert", "user=a", 'user="b b"', *options)
    assert (done.code, done.err, done.last) == (0, "", "4 credentials set.")
    each = {"SCRAM-SHA-256": 8192, SHA_512: 8192}
    wait_until(lambda: held_credentials(credentials) == {"a": each, "b b": each})
    assert repository("scram", "describe").last == "4 SCRAM credentials of 2 users on lab."

    gone = repository("scram", "delete", "user=a", 'user="b b"', "--mechanism", "SCRAM-SHA-256")
    assert (gone.code, gone.last) == (0, "2 credentials deleted.")
    assert "may lose all users of that mechanism" in gone.err
    wait_until(lambda: held_credentials(credentials) == {"a": {SHA_512: 8192}, "b b": {SHA_512: 8192}})


def test_the_password_is_asked_for_twice_and_never_shown(repository: Repository, credentials: ScramGateway) -> None:
    answers = [
        ("Password for a: ", f"{SECRET}\n"),
        ("Repeat the password for a: ", f"{SECRET}\n"),
        ("Password for b: ", "other\n"),
        ("Repeat the password for b: ", "other\n"),
    ]
    code, screen = talk(*UPSERT, "user=a", "user=b", cwd=repository.path, answers=answers)
    assert code == 0, screen
    assert "2 credentials set." in screen
    assert SECRET not in screen
    assert "other" not in screen
    assert held_credentials(credentials).keys() == {"a", "b"}


@pytest.mark.parametrize(
    ("typed", "code", "words"),
    [
        (("one\n", "two\n"), 64, "the two passwords for a differ; nothing was changed"),
        (("\n",), 64, "the password for a is empty"),
        (("\x04",), 64, "no password was given for a; nothing was changed"),
        (("\x03",), 130, "interrupted"),
    ],
    ids=["differ", "empty", "end of file", "Ctrl-C"],
)
def test_a_password_that_was_not_given_changes_nothing(
    repository: Repository, credentials: ScramGateway, typed: tuple[str, ...], code: int, words: str
) -> None:
    prompts = ("Password for a: ", "Repeat the password for a: ")
    ended, screen = talk(*UPSERT, "user=a", cwd=repository.path, answers=list(zip(prompts, typed, strict=False)))
    assert ended == code, screen
    assert words in screen
    assert "Traceback" not in screen
    assert held_credentials(credentials) == {}


def test_any_cluster_can_be_asked_for_users(offline: Repository, sandbox: Sandbox, credentials: ScramGateway) -> None:
    credentials.alter([make_upsertion("svc-etl", ScramMechanism.SHA_512, Secret("x"))]).raise_for_errors()
    wait_until(lambda: held_credentials(credentials))
    users = "  - match: {user: [svc-etl, svc-ordres, 'CN=app,O=Example']}\n"
    offline.quotas(f"{users}    values: {{producer_byte_rate: 1MiB/s}}\n")
    checked = offline("validate", "--check-principals", "--bootstrap-server", sandbox.bootstrap_servers)
    assert (checked.code, checked.out.count("[unknown-principal]")) == (0, 1)
    assert "user svc-ordres has no SCRAM credentials" in checked.out


def test_credentials_go_only_to_the_cluster_that_is_pinned(offline: Repository, sandbox: Sandbox) -> None:
    """The pin was not looked at, nor was confirm: name."""
    offline.config(f"clusters: {{lab: {{bootstrap_servers: ['{sandbox.bootstrap_servers}'], cluster_id: another}}}}\n")
    offline.write("password", "pw\n")
    for command in (("upsert", "--password-file", "password"), ("delete",)):
        done = offline("scram", *command, "user=a", "--mechanism", SHA_512)
        assert (done.code, done.out) == (4, "")
        assert "cluster lab is pinned to id another, and the live id is" in done.err
    offline.config(f"clusters: {{lab: {{bootstrap_servers: ['{sandbox.bootstrap_servers}'], confirm: name}}}}\n")
    done = offline("scram", "delete", "user=a", "--mechanism", SHA_512)
    assert done.code == 4
    assert "requires typing its name" in done.err
