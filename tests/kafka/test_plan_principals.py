"""`plan --principals scram` on a real broker: the users with credentials there, and nobody else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quotaform.cli.main import run
from quotaform.cluster.scram import ScramGateway, make_upsertion
from quotaform.cluster.scram_credential import ScramDeletion, ScramMechanism
from quotaform.model.text import Secret
from quotaform.sandbox import Sandbox
from tests.builder import MUTATION
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka


def test_the_users_with_credentials_are_the_principals(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quotas.d").mkdir()
    Path("quotas.d/all.yaml").write_text(f"quotas: [{{match: {{user: scram-a}}, values: {{{MUTATION}: 5/s}}}}]\n")
    with ScramGateway.connect(sandbox.bootstrap_servers, name="lab") as gateway:
        mechanism = ScramMechanism.SHA_256
        upsertions = [make_upsertion(user, mechanism, Secret("secret")) for user in ("scram-a", "scram-b")]
        gateway.alter(upsertions).raise_for_errors()
        wait_until(lambda: all(found.credentials for found in gateway.describe(["scram-a", "scram-b"])))
        users = [found.user for found in gateway.describe() if found.credentials]
        servers = ["--bootstrap-server", sandbox.bootstrap_servers]
        code = run(["plan", *servers, "--principals", "scram", "--out", "plan.json", "--quiet"])
        gateway.alter([ScramDeletion(each.user, mechanism) for each in upsertions]).raise_for_errors()
    assert code == 0
    radius = json.loads(Path("plan.json").read_text())["blast_radius"]
    assert (radius["source"], radius["principals"]) == ("scram", len(users))
    assert [row["address"] for row in radius["largest"]] == ["user=scram-a"]
