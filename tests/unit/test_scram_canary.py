"""A password that is typed in any place of a `scram` command line but the right one is not repeated."""

from __future__ import annotations

import pytest

from quotaform.cli.main import run

CANARY = "canary-Pa55word"
UPSERT = ["scram", "upsert", "--user", "a", "--mechanism", "SCRAM-SHA-512"]
SERVER = ["--bootstrap-server", "127.0.0.1:1"]


@pytest.mark.parametrize(
    "arguments",
    [
        [*UPSERT, *SERVER, "--password-file", CANARY],
        [*UPSERT, *SERVER, "--password-env", CANARY],
        [*UPSERT, *SERVER, "--password", CANARY],
        [*UPSERT, *SERVER, CANARY],
        [*UPSERT, *SERVER, f"--{CANARY}"],
        [*UPSERT, *SERVER, "--format", CANARY],
        [*UPSERT, *SERVER, f"--format={CANARY}"],
        [*UPSERT, *SERVER, "--iterations", CANARY],
        [*UPSERT, *SERVER, "--color", CANARY],
        [*UPSERT, *SERVER, "--mechanism", CANARY],
        [*UPSERT, *SERVER, "--command-config", CANARY],
        [*UPSERT, *SERVER, "--config", CANARY],
        [*UPSERT, *SERVER, "--cluster", CANARY],
        [*UPSERT, *SERVER, f"--quiet={CANARY}"],
        [*UPSERT, "--bootstrap-server", CANARY],
        [*UPSERT, "--bootstrap-server", f"me:{CANARY}@127.0.0.1:1"],
        ["scram", "describe", *SERVER, CANARY],
        ["scram", "describe", *SERVER, "--format", CANARY],
        ["scram", "delete", *SERVER, "--user", "a", "--mechanism", CANARY],
        ["scram", "delete", *SERVER, CANARY],
    ],
    ids=lambda arguments: " ".join(arguments[-2:]),
)
def test_no_value_of_a_command_about_credentials_is_repeated(
    arguments: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """`--password-file hunter2`, `--format hunter2` and `--iterations hunter2` printed the password."""
    assert run(arguments) in {3, 64}
    out, err = capfd.readouterr()
    assert CANARY not in out + err
    assert err
