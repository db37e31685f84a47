"""The files that a user copies into a quota repository: their scripts run here as a CI system runs them."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from quotaform.model.entity import Entity
from quotaform.sandbox import Sandbox
from tests.actions import ROOT, JobResult, Runner, environment, load
from tests.builder import PRODUCER
from tests.git_repository import GitRepository
from tests.http_server import HttpServer, answer
from tests.markdown import blocks
from tests.pull_request_server import TOKEN, FakeGitHub, FakeGitLab, event
from tests.workflow.command import Cluster, run

pytestmark = pytest.mark.workflow

LABELS = "toJSON(github.event.pull_request.labels.*.name)"
WORKFLOWS = ROOT / "examples" / "github" / ".github" / "workflows"
MIB = 1048576.0
ATLANTIS_PLAN = re.compile(
    r"Plan: (?:(\d+) to import, )?(\d+) to add, (\d+) to change, (\d+) to destroy(?:, (\d+) to forget)?\."
)
SNAPSHOT = """{"format_version": "1.0", "kind": "quotaform.snapshot", "cluster": {"name": "prod-eu", "id": "x"},
"captured_at": "2026-01-01T00:00:00Z", "quotas": [
{"entity": {"user": "a"}, "values": {"producer_byte_rate": 1048576}}]}
"""


@dataclass
class Team:
    """A quota repository on a server, a checkout of it, and a runner."""

    origin: GitRepository
    checkout: GitRepository
    runner: Runner

    def job(self, file: str, name: str) -> JobResult:
        """Run a job of a workflow, in a checkout without what an earlier job wrote."""
        for folder in ("plans", "receipts", "drift", "drift-state", "revert", "applied", "live"):
            rmtree(self.checkout.path / folder, ignore_errors=True)
        job: dict[str, Any] = load(WORKFLOWS / file)["jobs"][name]
        return self.runner.run(job["steps"], job.get("env"))

    def config(self) -> str:
        """Return quotaform.yaml of the checkout."""
        return (self.checkout.path / "quotaform.yaml").read_text()

    def use(self, **environ: str) -> None:
        """Set variables of the runner."""
        self.runner.environ |= environ


def make_team(path: Path, config: str) -> Team:
    origin = GitRepository.init(path / "origin")
    origin.write("quotaform.yaml", config)
    origin.write("snapshots/prod-eu.json", SNAPSHOT)
    origin.declare("teams.yaml", "a")
    origin.commit()
    checkout = origin.clone(path / "checkout")
    (path / "temp").mkdir()
    (path / "temp" / "event.json").write_text("{}")
    environ = environment(
        GITHUB_ACTIONS="true",
        GITHUB_REPOSITORY="acme/quotas",
        GITHUB_EVENT_PATH=str(path / "temp" / "event.json"),
    )
    expressions = {
        "matrix.cluster": "prod-eu",
        "github.token": TOKEN,
        "github.run_id": "4711",
        "github.run_attempt": "1",
        "inputs.allow": "",
        "inputs.base": "",
        "inputs.revert-run": "",
        LABELS: "[]",
        "secrets.KAFKA_CLIENT_PROPERTIES": "security.protocol=PLAINTEXT\nclient.id=ci",
        "secrets.QUOTAFORM_NOTIFY_URL": "",
    }
    runner = Runner(workspace=checkout.path, temp=path / "temp", environ=environ, expressions=expressions)
    return Team(origin, checkout, runner)


@pytest.fixture
def team(tmp_path: Path) -> Team:
    """A team whose cluster is a snapshot."""
    return make_team(tmp_path, "clusters: {prod-eu: {snapshot: snapshots/prod-eu.json}}\n")


@pytest.fixture
def live_team(tmp_path: Path, sandbox: Sandbox, cluster: Cluster) -> Team:
    """A team whose cluster is a real broker, empty at first."""
    server = sandbox.bootstrap_servers
    return make_team(
        tmp_path,
        f"clusters:\n  prod-eu:\n    bootstrap_servers: [{server!r}]\n"
        "    command_config: ${env:QUOTAFORM_COMMAND_CONFIG}\n",
    )


def open_pull_request(team: Team, snapshot: str = SNAPSHOT) -> None:
    """Let the runner run for pull request 7, with a snapshot that a run on the main branch kept."""
    kept = team.runner.temp / "cache" / "kept" / "live"
    kept.mkdir(parents=True)
    (kept / "prod-eu.json").write_text(snapshot)
    team.runner.caches.append(("quotas-snapshot/prod-eu/1-1", kept))
    (team.runner.temp / "event.json").write_text(event(7))
    team.use(GITHUB_EVENT_NAME="pull_request", GITHUB_BASE_REF="main", GITHUB_REF="refs/pull/7/merge")


def plan(team: Team, github: FakeGitHub) -> JobResult:
    """Run the job that plans and comments."""
    with github.server() as server:
        team.use(GITHUB_API_URL=server.url)
        return team.job("quotas-plan.yml", "plan")


WRONG_KEY = "values: {producer_byte_rat: 1MiB/s}"
TWENTY = "values: {producer_byte_rate: 20MiB/s}"


class TestPlan:
    """quotas-plan.yml on a pull request."""

    def test_a_change_is_validated_planned_and_shown_in_a_comment(self, team: Team) -> None:
        open_pull_request(team)
        team.checkout.declare("teams.yaml", "a", "b")
        team.checkout.commit()
        assert team.job("quotas-plan.yml", "validate").code == 0
        github = FakeGitHub(token_kind="job", login="github-actions[bot]")
        first, second = plan(team, github), plan(team, github)
        assert first.codes == {"Plan": 0, "Comment": 0}, first.printed
        assert "Plan: 1 to add, 0 to change, 0 to destroy." in first.printed
        assert "origin/main" in first.printed
        assert "created: https://github.example/" in first.printed
        assert "### Kafka quota plan for `prod-eu`: 1 to add" in first.summary
        assert second.code == 0, second.printed
        assert [what for what, _ in github.writes][:1] == ["create"]
        assert len(github.comments) == 1
        assert github.comments[0]["body"].startswith("<!-- quotaform:plan ")
        kept = sorted(path.name for path in (team.runner.artifacts / "quotas-plan-prod-eu").iterdir())
        assert kept == ["prod-eu.json", "prod-eu.md"]
        assert TOKEN not in first.printed + second.printed

    def test_a_plan_is_made_without_credentials_against_the_snapshot_of_the_main_branch(
        self, live_team: Team, cluster: Cluster
    ) -> None:
        """Each branch was given the credentials of the cluster: its author could send them to any host."""
        assert live_team.job("quotas-drift.yml", "drift").codes["Snapshot"] == 0
        del live_team.runner.expressions["secrets.KAFKA_CLIENT_PROPERTIES"]
        planned = plan(live_team, FakeGitHub())
        assert planned.codes["Plan"] == 0, planned.printed
        assert "Snapshot live/prod-eu.json, captured 20" in planned.printed
        assert "Plan: 1 to add, 0 to change, 0 to destroy." in planned.printed

    def test_without_a_snapshot_the_job_says_how_to_get_one(self, team: Team) -> None:
        open_pull_request(team)
        team.runner.caches.clear()
        github = FakeGitHub()
        done = plan(team, github)
        assert done.codes == {"Plan": 3, "Comment": 0}
        assert done.printed.startswith(
            "::error::there is no snapshot of prod-eu yet: run the workflow quotas-drift by hand, then this job again\n"
        )
        assert "live/prod-eu.json" in github.comments[0]["body"]

    def test_invalid_files_fail_both_jobs_and_take_the_place_of_the_plan_in_the_comment(self, team: Team) -> None:
        """The comment went on showing the plan of an earlier commit."""
        open_pull_request(team)
        github = FakeGitHub()
        assert plan(team, github).code == 0
        team.checkout.declare("teams.yaml", "a", more=WRONG_KEY)
        validated, planned = team.job("quotas-plan.yml", "validate"), plan(team, github)
        assert validated.codes == {"Validate": 3}
        assert "::error file=quotas.d/teams.yaml,line=3" in validated.printed
        assert planned.codes == {"Plan": 3, "Comment": 0}, planned.printed
        (comment,) = github.comments
        assert "### Kafka quota plan for `prod-eu`: failed" in comment["body"]
        assert "producer_byte_rat" in comment["body"]

    def test_a_blocked_plan_fails_and_is_shown_and_a_label_lifts_a_guard(self, team: Team) -> None:
        """A label about the documentation of a rule, which has a space in it, lifted the rule."""
        open_pull_request(team)
        team.checkout.declare("teams.yaml", "a", more=TWENTY)
        github = FakeGitHub()
        allowing = "quotas-allow:change-factor"
        for labels, code in (
            ([], 4),
            (["bug", allowing, "*", "$(id)"], 0),
            (["quotas-allow:nonsense"], 64),
            ([f"docs {allowing}"], 4),
            ([f"docs\n{allowing}"], 4),
            ([f"{allowing} docs"], 64),
        ):
            team.runner.expressions[LABELS] = json.dumps(labels, indent=2)
            planned = plan(team, github)
            assert planned.codes["Plan"] == code, (labels, planned.printed)
            assert ("Comment" in planned.codes) is (code != 64)
            assert code != 4 or "change-factor" in github.comments[0]["body"]

    @pytest.mark.parametrize(("file", "job"), [("apply", "plan"), ("apply", "apply"), ("drift", "drift")])
    def test_a_secret_that_is_not_set_is_named(self, team: Team, file: str, job: str) -> None:
        """An empty file was written, which is a connection without authentication and TLS."""
        team.runner.expressions["secrets.KAFKA_CLIENT_PROPERTIES"] = ""
        result = team.job(f"quotas-{file}.yml", job)
        assert result.codes["Credentials"] == 1
        assert "::error::the secret KAFKA_CLIENT_PROPERTIES is not set" in result.printed
        assert not (team.runner.temp / "client.properties").exists()

    def test_client_properties_are_for_nobody_else_to_read(self, team: Team) -> None:
        team.job("quotas-drift.yml", "drift")
        path = team.runner.temp / "client.properties"
        assert path.read_text() == "security.protocol=PLAINTEXT\nclient.id=ci\n"
        assert path.stat().st_mode & 0o077 == 0


class TestApply:
    """quotas-apply.yml after a merge."""

    def test_what_was_planned_is_applied_and_what_a_push_removes_is_deleted(
        self, live_team: Team, cluster: Cluster
    ) -> None:
        for user in (None, "a", "b"):
            cluster.set({PRODUCER: MIB}, user=user)
        live_team.checkout.write("quotaform.yaml", f"{live_team.config()}prune: removed\n")
        live_team.checkout.declare("teams.yaml", "<default>", "a", "b")
        before = live_team.checkout.commit()
        assert live_team.job("quotas-apply.yml", "plan").code == 0
        assert live_team.job("quotas-apply.yml", "changed").outputs == {"clusters": "[]"}, "nobody is asked"

        live_team.checkout.declare("teams.yaml", "<default>", "a", "c")
        live_team.checkout.commit()
        push(live_team, before=before)
        planned = live_team.job("quotas-apply.yml", "plan")
        assert planned.codes == {"Credentials": 0, "Plan": 0}, planned.printed
        assert "Plan: 1 to add, 0 to change, 1 to destroy." in planned.printed
        assert live_team.job("quotas-apply.yml", "changed").outputs == {"clusters": '["prod-eu"]'}
        applied = live_team.job("quotas-apply.yml", "apply")
        assert applied.codes == {"Credentials": 0, "Apply": 0, "Snapshot": 0}, applied.printed
        assert '"user": "c"' in (live_team.runner.caches[-1][1] / "prod-eu.json").read_text()
        kept = sorted(path.name for path in (live_team.runner.artifacts / "quotas-receipt-prod-eu").iterdir())
        assert kept == ["prod-eu-audit.jsonl", "prod-eu.json"]
        assert set(cluster.read()) == {Entity(user=None), Entity(user="a"), Entity(user="c")}

        again = live_team.job("quotas-apply.yml", "plan")
        assert again.code == 0, again.printed
        assert "has-changes" not in again.outputs

    def test_a_run_is_undone_from_its_receipt(self, live_team: Team, cluster: Cluster) -> None:
        cluster.set({PRODUCER: 7 * MIB}, user="a")
        for job in ("plan", "apply"):
            assert live_team.job("quotas-apply.yml", job).code == 0
        assert cluster.read()[Entity(user="a")] == {PRODUCER: MIB}
        live_team.runner.expressions["inputs.revert-run"] = "4711"
        live_team.use(GITHUB_EVENT_NAME="workflow_dispatch")
        for job in ("plan", "apply"):
            result = live_team.job("quotas-apply.yml", job)
            assert result.code == 0, result.printed
        assert cluster.read()[Entity(user="a")] == {PRODUCER: 7 * MIB}
        drifted = live_team.job("quotas-drift.yml", "drift")  # It failed: it read the receipt of the revert.
        assert drifted.codes["Drift"] == 2, drifted.printed
        assert "user=a" in drifted.printed

    def test_what_a_guard_blocks_is_allowed_by_hand(self, live_team: Team, cluster: Cluster) -> None:
        cluster.set({PRODUCER: 50 * MIB}, user="a")
        blocked = live_team.job("quotas-apply.yml", "plan")
        assert blocked.codes["Plan"] == 4, blocked.printed
        assert live_team.job("quotas-apply.yml", "changed").outputs == {"clusters": "[]"}
        live_team.use(GITHUB_EVENT_NAME="workflow_dispatch")
        live_team.runner.expressions |= {"inputs.allow": "change-factor", "inputs.base": "HEAD"}
        for job in ("plan", "apply"):
            result = live_team.job("quotas-apply.yml", job)
            assert result.code == 0, result.printed
        assert cluster.read()[Entity(user="a")] == {PRODUCER: MIB}

    def test_what_blocked_one_push_blocks_the_next_one_as_well(self, team: Team) -> None:
        config = team.config()
        team.checkout.write("quotaform.yaml", f"{config}protect: [{{user: a}}]\n")
        applied = team.checkout.commit()
        push(team)
        assert team.job("quotas-apply.yml", "plan").code == 0
        team.checkout.write("quotaform.yaml", config)
        team.checkout.declare("teams.yaml", "a", more="values: {producer_byte_rate: 256KiB/s}")
        first = team.checkout.commit()
        push(team, before=applied)
        assert team.job("quotas-apply.yml", "plan").codes["Plan"] == 4
        team.checkout.write("README.md", "innocent\n")
        team.checkout.commit()
        push(team, before=first)
        second = team.job("quotas-apply.yml", "plan")
        assert second.codes["Plan"] == 4, second.printed
        assert "protect has no user=a" in second.printed
        assert f"Base {applied}" in second.printed

    def test_an_apply_is_what_the_next_push_is_compared_with(self, live_team: Team, cluster: Cluster) -> None:
        applied = live_team.checkout.git("rev-parse", "HEAD")
        for job in ("plan", "apply"):
            assert live_team.job("quotas-apply.yml", job).code == 0
        live_team.checkout.declare("teams.yaml", "a", "b")
        push(live_team, before=live_team.checkout.commit())
        planned = live_team.job("quotas-apply.yml", "plan")
        assert (planned.code, f"Base {applied}" in planned.printed) == (0, True), planned.printed

    def test_a_commit_that_lacks_what_was_applied_is_not_planned(self, team: Team) -> None:
        """Running an older workflow again took back what had been merged and applied since."""
        older = team.checkout.git("rev-parse", "HEAD")
        team.checkout.declare("teams.yaml", "a", "b", "c")
        team.runner.caches.append(("quotas-applied/prod-eu/1-1", team.runner.temp / "applied"))
        team.runner.caches[0][1].mkdir()
        (team.runner.caches[0][1] / "prod-eu").write_text(team.checkout.commit())
        team.checkout.git("checkout", "-q", "-f", older)
        done = team.job("quotas-apply.yml", "plan")
        assert done.codes["Plan"] == 5, done.printed
        assert "this commit does not contain it: run the newest one" in done.printed

    def test_a_cluster_that_changed_before_the_approval_is_left_as_it_is(
        self, live_team: Team, cluster: Cluster
    ) -> None:
        cluster.set({PRODUCER: 7 * MIB}, user="a")
        assert live_team.job("quotas-apply.yml", "plan").code == 0
        cluster.set({PRODUCER: 8 * MIB}, user="a")
        applied = live_team.job("quotas-apply.yml", "apply")
        assert applied.codes == {"Credentials": 0, "Apply": 5, "Snapshot": 0}, applied.printed
        assert "Make a new plan" in applied.printed


def push(team: Team, **event: str) -> None:
    """Let the runner run for a push, whose event says which commit was `before`."""
    (team.runner.temp / "event.json").write_text(json.dumps(event))
    team.use(GITHUB_EVENT_NAME="push", GITHUB_REF="refs/heads/main")


class TestDrift:
    """quotas-drift.yml on a schedule."""

    def test_a_cluster_as_declared_passes_and_one_that_was_changed_fails(self, team: Team) -> None:
        in_sync = team.job("quotas-drift.yml", "drift")
        assert in_sync.code == 0, in_sync.printed
        team.checkout.declare("teams.yaml", "a", more="values: {producer_byte_rate: 2MiB/s}")
        drifted = team.job("quotas-drift.yml", "drift")
        assert drifted.codes == {"Credentials": 0, "Drift": 2, "Snapshot": 0}, drifted.printed
        assert (team.runner.artifacts / "quotas-drift-prod-eu" / "prod-eu.json").is_file()

    def test_what_is_merged_and_not_applied_yet_is_no_drift(self, live_team: Team, cluster: Cluster) -> None:
        for job in ("plan", "apply"):
            assert live_team.job("quotas-apply.yml", job).code == 0
        live_team.checkout.declare("teams.yaml", "a", "b", more="values: {producer_byte_rate: 2MiB/s}")
        pending = live_team.job("quotas-drift.yml", "drift")
        assert pending.code == 0, pending.printed
        cluster.set({PRODUCER: 7 * MIB}, user="a")
        assert live_team.job("quotas-drift.yml", "drift").code == 2

    def test_a_webhook_gets_one_message_and_the_run_passes(self, team: Team) -> None:
        with HttpServer(lambda _: answer(200)) as server:
            team.runner.expressions["secrets.QUOTAFORM_NOTIFY_URL"] = f"{server.url}/{TOKEN}"
            team.checkout.declare("teams.yaml", "a", more="values: {producer_byte_rate: 2MiB/s}")
            runs = [team.job("quotas-drift.yml", "drift") for _ in range(2)]
            assert [len(server.received), server.received[0].json()["event"]] == [1, "drift.detected"]
            team.checkout.git("checkout", "-q", ".")
            runs.append(team.job("quotas-drift.yml", "drift"))
        assert [run.code for run in runs] == [0, 0, 0], runs[0].printed
        assert [request.json()["event"] for request in server.received] == ["drift.detected", "drift.resolved"]
        assert TOKEN not in "".join(run.printed for run in runs)


class TestAction:
    """The steps of action.yml that run a command."""

    @staticmethod
    def run(team: Team, **inputs: str) -> JobResult:
        action = load(ROOT / "action.yml")
        steps = [step for step in action["runs"]["steps"] if step.get("name") in ("Run quotaform", "Comment")]
        given = {f"inputs.{name}": value.get("default", "") for name, value in action["inputs"].items()}
        given |= {"inputs.token": TOKEN} | {f"inputs.{name.replace('_', '-')}": value for name, value in inputs.items()}
        team.runner.expressions |= given
        return team.runner.run(steps)

    def test_a_plan_is_made_and_shown(self, team: Team) -> None:
        open_pull_request(team)
        team.checkout.declare("teams.yaml", "a", "b")
        github = FakeGitHub()
        with github.server() as server:
            team.use(GITHUB_API_URL=server.url)
            result = self.run(
                team, command="plan", all="true", comment="update", args="--detailed-exitcode\n--show-unchanged"
            )
        assert result.codes == {"Run quotaform": 2, "Comment": 0}, result.printed
        action = load(ROOT / "action.yml")
        outputs = {name: team.runner.expressions[each["value"][4:-3]] for name, each in action["outputs"].items()}
        assert [outputs[name] for name in ("exit-code", "reason", "changes")] == ["2", "differences", "1"]
        assert outputs["plan-id"].startswith("sha256:")
        assert sorted(path.name for path in (team.checkout.path / "quotaform-output").iterdir()) == [
            "prod-eu.json",
            "prod-eu.md",
        ]
        assert len(github.comments) == 1

    @pytest.mark.parametrize(
        ("inputs", "code"),
        [
            ({"command": "validate"}, 0),
            ({"command": "validate", "directory": "quotas.d", "cluster": "prod-*\nprod-eu"}, 0),
            ({"command": "validate", "directory": "nowhere"}, 3),
            ({"command": "drift", "cluster": "prod-eu"}, 0),
            ({"command": "scram"}, 64),
            ({"command": "plan", "cluster": "*; touch owned"}, 64),
            ({"command": "plan", "args": "$(touch owned)\n`touch owned`"}, 64),
            ({"command": "apply", "plan_file": "gone.json"}, 1),
        ],
    )
    def test_the_code_is_that_of_the_command(self, team: Team, inputs: dict[str, str], code: int) -> None:
        result = self.run(team, **inputs)
        assert result.codes == {"Run quotaform": code}, result.printed
        assert not (team.checkout.path / "owned").exists()


class TestGitLab:
    """The scripts of the GitLab file; what installs the command is left out."""

    @staticmethod
    def run(team: Team, job: str, **environ: str) -> subprocess.CompletedProcess[str]:
        file = load(ROOT / "examples" / "gitlab" / "quotaform.gitlab-ci.yml")
        script = file[job]["script"]
        env = environment(
            GITLAB_CI="true", CLUSTER="prod-eu", CI_PROJECT_ID="42", GITLAB_TOKEN=TOKEN, CI_DEFAULT_BRANCH="main"
        )
        env |= {**file["variables"], **environ}
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", "\n".join(script)],
            cwd=team.checkout.path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )

    def plan(self, team: Team, gitlab: FakeGitLab, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run the job that plans and comments."""
        with gitlab.server() as server:
            given = {"CI_API_V4_URL": f"{server.url}/api/v4", "CI_MERGE_REQUEST_IID": "7"}
            return self.run(team, "quotas-plan", **given, **environ)

    def test_a_merge_request_is_validated_planned_and_commented(self, team: Team) -> None:
        base = team.checkout.git("rev-parse", "HEAD")
        team.checkout.declare("teams.yaml", "a", "b")
        team.checkout.commit()
        gitlab = FakeGitLab(snapshot=SNAPSHOT)
        assert self.run(team, "quotas-validate").returncode == 0
        done = self.plan(team, gitlab, CI_MERGE_REQUEST_DIFF_BASE_SHA=base)
        assert done.returncode == 0, done.stderr
        assert "Plan: 1 to add, 0 to change, 0 to destroy." in done.stdout
        assert "Snapshot live/prod-eu.json, captured 2026-01-01T00:00:00Z" in done.stdout
        assert len(gitlab.notes) == 1
        assert TOKEN not in done.stdout + done.stderr
        assert json.loads((team.checkout.path / "gl-code-quality-report.json").read_text()) == []

    def test_without_a_snapshot_the_job_says_how_to_get_one(self, team: Team) -> None:
        gitlab = FakeGitLab()
        done = self.plan(team, gitlab)
        assert done.returncode == 3
        assert (
            "Error: there is no snapshot of prod-eu yet: run the schedule with QUOTAFORM_SNAPSHOT, then this job\n"
            in done.stderr
        )
        assert "live/prod-eu.json" in gitlab.notes[0]["body"]

    def test_the_snapshot_is_written_where_it_is_read(self, team: Team) -> None:
        assert self.run(team, "quotas-snapshot").returncode == 0
        assert '"quotaform.snapshot"' in (team.checkout.path / "live" / "prod-eu.json").read_text()

    def test_problems_are_a_report_of_code_quality(self, team: Team) -> None:
        team.checkout.declare("teams.yaml", "a", more=WRONG_KEY)
        assert self.run(team, "quotas-validate").returncode == 3
        (problem,) = json.loads((team.checkout.path / "gl-code-quality-report.json").read_text())
        assert problem["location"] == {"path": "quotas.d/teams.yaml", "lines": {"begin": 3}}

    def test_a_plan_that_fails_is_shown_and_fails_the_job(self, team: Team) -> None:
        team.checkout.write("quotas.d/teams.yaml", "quotas: 5\n")
        gitlab = FakeGitLab(snapshot=SNAPSHOT)
        codes = [self.plan(team, gitlab, QUOTAFORM_COMMENT_TOKEN=token).returncode for token in (TOKEN, "refused")]
        assert codes == [3, 3]
        assert len(gitlab.notes) == 1

    def test_a_label_and_a_variable_lift_a_guard(self, team: Team) -> None:
        team.checkout.declare("teams.yaml", "a", more=TWENTY)
        team.checkout.commit()
        one = {"CI_MERGE_REQUEST_LABELS": "docs quotas-allow:change-factor,bug"}
        labels = {"CI_MERGE_REQUEST_LABELS": "bug,quotas-allow:change-factor"}
        gitlab = FakeGitLab(snapshot=SNAPSHOT)
        codes = [self.plan(team, gitlab, **more).returncode for more in ({}, one, labels)]
        assert codes == [4, 4, 0]
        by_hand = {"CI_PIPELINE_SOURCE": "web", "QUOTAFORM_ALLOW": "change-factor"}
        done = self.run(team, "quotas-apply-plan", **by_hand)
        assert done.returncode == 0, done.stderr
        assert "Base HEAD^" in done.stdout
        assert self.run(team, "quotas-apply-plan", CI_PIPELINE_SOURCE="push").returncode == 4

    def test_drift_fails_the_job(self, team: Team) -> None:
        assert self.run(team, "quotas-drift").returncode == 0
        team.checkout.declare("teams.yaml", "b")
        assert self.run(team, "quotas-drift").returncode == 2

    def test_a_merge_is_applied(self, live_team: Team, cluster: Cluster) -> None:
        properties = live_team.runner.temp / "client.properties"
        properties.write_text("security.protocol=PLAINTEXT\n")
        environ = {"QUOTAFORM_ENV": "QUOTAFORM_COMMAND_CONFIG", "QUOTAFORM_COMMAND_CONFIG": str(properties)}
        planned = self.run(live_team, "quotas-apply-plan", **environ, CI_PIPELINE_SOURCE="push")
        assert planned.returncode == 0, planned.stderr
        done = self.run(live_team, "quotas-apply", **environ)
        assert "Apply complete! Resources: 1 added, 0 changed, 0 destroyed." in done.stdout, done.stderr
        assert (live_team.checkout.path / "receipts" / "prod-eu.json").is_file()


class TestAtlantis:
    """The custom workflow of Atlantis, in `sh -c` as it runs steps."""

    @staticmethod
    def run(team: Team, stage: str) -> list[subprocess.CompletedProcess[str]]:
        workflow = load(ROOT / "examples" / "atlantis" / "repos.yaml")["workflows"]["quotaform"]
        (project,) = load(ROOT / "examples" / "atlantis" / "atlantis.yaml")["projects"]
        properties = team.runner.temp / "client.properties"
        properties.write_text("security.protocol=PLAINTEXT\n")
        env = environment(
            PROJECT_NAME=project["name"],
            PLANFILE=str(team.checkout.path / "prod-eu-default.tfplan"),
            BASE_BRANCH_NAME="main",
            QUOTAFORM_ENV="QUOTAFORM_COMMAND_CONFIG",
            QUOTAFORM_COMMAND_CONFIG=str(properties),
            QUOTAFORM_SNAPSHOTS=str(team.runner.temp),
        )
        env |= {step["env"]["name"]: step["env"]["value"] for step in workflow[stage]["steps"] if "env" in step}
        steps = [step["run"] for step in workflow[stage]["steps"] if "run" in step]
        commands = [step if isinstance(step, str) else step["command"] for step in steps]
        return [
            subprocess.run(
                ["sh", "-c", command], cwd=team.checkout.path, env=env, capture_output=True, text=True, check=False
            )
            for command in commands
        ]

    def test_plan_and_apply_say_what_atlantis_looks_for(self, live_team: Team, cluster: Cluster) -> None:
        live_team.checkout.declare("teams.yaml", "a", "b")
        missing = self.run(live_team, "plan")[-1]
        assert "prod-eu.json: error: there is no such file; quotaform snapshot writes one" in missing.stderr
        env = {"QUOTAFORM_ENV": "QUOTAFORM_COMMAND_CONFIG"}
        env |= {"QUOTAFORM_COMMAND_CONFIG": str(live_team.runner.temp / "client.properties")}
        snapshot = live_team.runner.temp / "prod-eu.json"
        assert run("snapshot", "--output", snapshot, cwd=live_team.checkout.path, env=env).code == 0
        planned = self.run(live_team, "plan")
        assert [step.returncode for step in planned] == [0, 0], planned[-1].stderr
        found = ATLANTIS_PLAN.search(planned[-1].stdout)
        assert found is not None
        assert found.groups() == (None, "2", "0", "0", None)
        assert (live_team.checkout.path / "prod-eu-default.tfplan").is_file()
        (applied,) = self.run(live_team, "apply")
        assert applied.returncode == 0, applied.stderr
        assert "Apply complete! Resources: 2 added" in applied.stdout


class TestPage:
    """docs/pull-requests.md shows what comes out."""

    BASE = """quotas:
  - match: {user: svc-audit}
    values: {consumer_byte_rate: 16MiB/s}
    owner: team-audit
  - match: {user: svc-orders}
    values: {producer_byte_rate: 10MiB/s}
    owner: team-orders
"""
    HEAD = (
        BASE.replace("10MiB", "20MiB")
        + """  - match: {user: svc-mobile}
    values: {producer_byte_rate: 1MiB/s}
    owner: team-mobile
"""
    )
    LIVE = """{"format_version": "1.0", "kind": "quotaform.snapshot", "cluster": {"name": "prod-eu", "id": "3JxQ"},
"captured_at": "2026-11-20T09:12:44Z", "quotas": [
{"entity": {"user": "svc-audit"}, "values": {"consumer_byte_rate": 83886080}},
{"entity": {"user": "svc-orders"}, "values": {"producer_byte_rate": 10485760}}]}
"""

    def test_the_session_and_the_comment_are_real(self, team: Team) -> None:
        team.origin.write("quotas.d/teams.yaml", self.BASE)
        team.origin.write("snapshots/prod-eu.json", self.LIVE)
        team.origin.commit()
        team.checkout.git("pull", "-q")
        team.checkout.write("quotas.d/teams.yaml", self.HEAD)
        team.checkout.commit()
        page = ROOT / "docs" / "pull-requests.md"
        (session,) = (block for block in blocks(page) if block.is_session)
        (command,), (printed,) = session.commands, session.printed
        done = run(*command.split()[1:], "--out", "markdown=plan.md", cwd=team.checkout.path)
        assert done.code == 0
        lines = iter(done.out.splitlines())
        for line in printed:
            assert line in ("...", "") or line in lines, line
        comment = (team.checkout.path / "plan.md").read_text().splitlines()
        shown = [line[2:] for line in page.read_text().splitlines() if line.startswith("> ") and len(line) > 2]
        assert len(shown) > 5
        for line in shown:
            assert line in comment, line
