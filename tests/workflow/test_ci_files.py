"""The files that a user copies into a quota repository: their scripts run here as a CI system runs them.

`tests/golden/ci-*.txt` hold what is done in a repository and in jobs, in the form of `test_stories`, and what comes of
it. A line is one of the words of `Team`.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from shutil import rmtree

import pytest

from quotaform.sandbox import Sandbox
from tests.actions import ROOT, Runner, environment, load
from tests.builder import MIB, PRODUCER
from tests.git_repository import GitRepository
from tests.golden.conftest import Golden, golden
from tests.golden.table import Text, check_told
from tests.http_server import HttpServer, answer
from tests.pull_request_server import TOKEN, FakeGitHub, FakeGitLab, event
from tests.workflow.command import Cluster, run

pytestmark = pytest.mark.workflow
__all__ = ["golden"]

EXAMPLES = ROOT / "examples"
LABELS = "toJSON(github.event.pull_request.labels.*.name)"
SNAPSHOT = """{"format_version": "1.0", "kind": "quotaform.snapshot", "cluster": {"name": "prod-eu", "id": "x"},
"captured_at": "2026-01-01T00:00:00Z", "quotas": [
{"entity": {"user": "a"}, "values": {"producer_byte_rate": 1048576}}]}
"""
TOLD = re.compile(
    "^(Cluster |::error|Error|Plan: |Apply complete|Apply incomplete|No changes|Drift: |No drift|Base |created: )"
    "|^Snapshot "
)
"""Which lines of the output of a job are told."""
WRITTEN = ("plans", "receipts", "drift", "drift-state", "revert", "applied", "live")
"""What a job writes into the checkout, which is another one in the next job."""


class Team:
    """A quota repository on a server, a checkout of it, a runner, and servers like GitHub and GitLab."""

    def __init__(self, path: Path, sandbox: Sandbox, cluster: Cluster, stack: ExitStack) -> None:
        self.sandbox, self.cluster, self.stack = sandbox, cluster, stack
        self.origin = GitRepository.init(path / "origin")
        self.origin.write("quotaform.yaml", "clusters: {prod-eu: {snapshot: snapshots/prod-eu.json}}\n")
        self.origin.write("snapshots/prod-eu.json", SNAPSHOT)
        self.origin.declare("teams.yaml", "a")
        self.origin.commit()
        self.checkout = self.origin.clone(path / "checkout")
        self.commits = [self.checkout.git("rev-parse", "HEAD")]
        self.temp = path / "temp"
        self.temp.mkdir()
        self.properties = self.temp / "client.properties"
        (self.temp / "event.json").write_text("{}")
        environ = {"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "acme/quotas"}
        self.runner = Runner(
            workspace=self.checkout.path,
            temp=self.temp,
            environ=environment(**environ, GITHUB_EVENT_PATH=str(self.temp / "event.json")),
            expressions={
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
            },
        )
        self.github = FakeGitHub(token_kind="job", login="github-actions[bot]")
        self.gitlab = FakeGitLab(snapshot=SNAPSHOT)
        self.webhook = HttpServer(lambda _: answer(200))
        hub, lab, _ = (stack.enter_context(each) for each in (self.github.server(), self.gitlab.server(), self.webhook))
        self.urls = {hub.url: "GITHUB", lab.url: "GITLAB", self.webhook.url: "HOOK", str(path): "HERE"}
        self.use("GITHUB_API_URL", hub.url)
        self.lab_url = f"{lab.url}/api/v4"

    def tell(self, line: str) -> Iterator[str]:
        line = re.sub(r"@(\d)", lambda found: self.commits[int(found[1])], line)
        word, *rest = shlex.split(line)
        yield from map(self.masked, getattr(self, word.replace("-", "_"))(*rest) or ())

    def masked(self, line: str) -> str:
        assert TOKEN not in line
        for known, name in self.urls.items():
            line = line.replace(known, name)
        for number, commit in enumerate(self.commits):
            line = line.replace(commit, f"<{number}>").replace(commit[:7], f"<{number}>")
        line = re.sub(r"\(id `?[\w-]{22}`?\)", "(id ...)", line)
        line = re.sub(r"sha256:[0-9a-f]{64}", "<digest>", line)
        return re.sub(rf"{datetime.now(UTC):%Y-%m-%d}T[:\d]+Z", "NOW", line)

    # The repository and the cluster

    def broker(self) -> None:
        """`broker`: the cluster is a real broker, empty at first."""
        self.cluster.wipe()
        server = self.sandbox.bootstrap_servers
        lines = f"    bootstrap_servers: [{server!r}]\n    command_config: ${{env:QUOTAFORM_COMMAND_CONFIG}}\n"
        self.checkout.write("quotaform.yaml", f"clusters:\n  prod-eu:\n{lines}")

    def live(self, *users: str) -> None:
        """`live a=7`: the broker holds this, too, in MiB/s."""
        for user, rate in (each.split("=") for each in users):
            self.cluster.set({PRODUCER: float(rate) * MIB}, user=None if user == "<default>" else user)

    def holds(self) -> Iterator[str]:
        """`holds`: tell what the broker holds."""
        held = {entity.address: f"{values[PRODUCER] / MIB:g}" for entity, values in self.cluster.read().items()}
        yield f"the broker holds {dict(sorted(held.items()))}"

    def config(self, text: str) -> None:
        """`config LINE`: quotaform.yaml has this line, too."""
        self.checkout.write("quotaform.yaml", (self.checkout.path / "quotaform.yaml").read_text() + f"{text}\n")

    def declare(self, *users: str) -> None:
        """`declare a b=20`: what the files declare, in MiB/s; what is no number is what an entry says."""
        said = ((user, rate or "1") for user, _, rate in (each.partition("=") for each in users))
        items = (
            f"  - match: {{user: {user}}}\n    values: {{{f'{PRODUCER}: {rate}MiB/s' if rate.isdigit() else rate}}}\n"
            for user, rate in said
        )
        self.checkout.write("quotas.d/teams.yaml", f"quotas:\n{''.join(items)}")

    def file(self, name: str, text: str) -> None:
        self.checkout.write(name, f"{text}\n")

    def commit(self) -> None:
        self.commits.append(self.checkout.commit())

    def git(self, *arguments: str) -> None:
        self.checkout.git(*arguments)

    # What the CI system says

    def use(self, name: str, value: str) -> None:
        """`use NAME VALUE`: a variable of the runner."""
        self.runner.environ[name] = value

    def given(self, name: str, value: str = "") -> None:
        """`given secrets.NAME VALUE`: the value of an expression; `labels` is the list of labels, HOOK a webhook."""
        names = {"labels": LABELS}
        self.runner.expressions[names.get(name, name)] = value.replace("HOOK", f"{self.webhook.url}/{TOKEN}")

    def pull_request(self) -> None:
        """`pull-request`: the runs are for pull request 7, with a snapshot that a run on the main branch kept."""
        if not self.runner.caches:
            self.cached("quotas-snapshot", "live/prod-eu.json", SNAPSHOT)
        (self.temp / "event.json").write_text(event(7))
        self.runner.environ |= {"GITHUB_EVENT_NAME": "pull_request", "GITHUB_BASE_REF": "main"}
        self.use("GITHUB_REF", "refs/pull/7/merge")

    def no_caches(self) -> None:
        """`no-caches`: no run on the main branch kept anything."""
        self.runner.caches.clear()

    def no_snapshot(self) -> None:
        """`no-snapshot`: the main branch on GitLab has none."""
        self.gitlab.snapshot = None

    def cached(self, key: str, name: str, text: str) -> None:
        """`cached KEY FILE TEXT`: what an earlier run kept."""
        kept = self.temp / "cache" / key / name
        kept.parent.mkdir(parents=True)
        kept.write_text(text)
        self.runner.caches.append((f"{key}/prod-eu/1-1", kept.parent))

    def push(self, before: str = "") -> None:
        """`push @1`: the runs are for a push, before which this was the commit."""
        (self.temp / "event.json").write_text(json.dumps({"before": before} if before else {}))
        self.runner.environ |= {"GITHUB_EVENT_NAME": "push", "GITHUB_REF": "refs/heads/main"}

    # Jobs

    def job(self, file: str, name: str, pattern: str = "") -> Iterator[str]:
        """`job plan validate`: run a job of quotas-plan.yml in a checkout without what an earlier job wrote."""
        for folder in WRITTEN:
            rmtree(self.checkout.path / folder, ignore_errors=True)
        job = load(EXAMPLES / f"github/.github/workflows/quotas-{file}.yml")["jobs"][name]
        done = self.runner.run(job["steps"], job.get("env"))
        yield f"{file} {name}: {', '.join(f'{step} {code}' for step, code in done.codes.items())}"
        yield from self.said(done.printed + done.summary, pattern)
        yield from (f"  {key}={value}" for key, value in done.outputs.items() if name == "changed" or "has-" in key)

    def action(self, *inputs: str) -> Iterator[str]:
        r"""`action command=plan 'args=-q\n-v'`: run the steps of action.yml that run a command."""
        action = load(ROOT / "action.yml")
        given = {f"inputs.{name}": value.get("default", "") for name, value in action["inputs"].items()}
        said = dict(each.replace("\\n", "\n").split("=", 1) for each in inputs)
        given |= {"inputs.token": TOKEN, **{f"inputs.{name}": value for name, value in said.items()}}
        self.runner.expressions |= given
        steps = [step for step in action["runs"]["steps"] if step.get("name") in ("Run quotaform", "Comment")]
        done = self.runner.run(steps)
        outputs = {name: self.runner.expressions.get(each["value"][4:-3]) for name, each in action["outputs"].items()}
        shown = [f"{name}={outputs[name]}" for name in ("exit-code", "reason", "changes", "plan-id") if outputs[name]]
        yield f"action {' '.join(map(shlex.quote, inputs))}: {done.codes}, {', '.join(shown)}"
        assert not (self.checkout.path / "owned").exists()

    def gitlab_job(self, name: str, *variables: str) -> Iterator[str]:
        """`gitlab-job plan NAME=VALUE`: run a job of the GitLab file, without what installs the command."""
        file = load(EXAMPLES / "gitlab" / "quotaform.gitlab-ci.yml")
        given = {"GITLAB_CI": "true", "CLUSTER": "prod-eu", "CI_PROJECT_ID": "42", "GITLAB_TOKEN": TOKEN}
        given |= {"CI_DEFAULT_BRANCH": "main", "CI_API_V4_URL": self.lab_url, "CI_MERGE_REQUEST_IID": "7"}
        if name.startswith("apply"):
            del given["CI_MERGE_REQUEST_IID"]
            self.properties.write_text("security.protocol=PLAINTEXT\n")
            given |= {"QUOTAFORM_ENV": "QUOTAFORM_COMMAND_CONFIG", "QUOTAFORM_COMMAND_CONFIG": str(self.properties)}
        given |= {**file["variables"], **dict(each.split("=", 1) for each in variables)}
        script = "\n".join(file[f"quotas-{name}"]["script"])
        yield from self.script(["bash", "-eo", "pipefail", "-c", script], given, f"gitlab {name}")

    def atlantis(self, stage: str) -> Iterator[str]:
        """`atlantis plan`: run the steps of the custom workflow of Atlantis, in `sh -c` as it does."""
        workflow = load(EXAMPLES / "atlantis" / "repos.yaml")["workflows"]["quotaform"]
        (project,) = load(EXAMPLES / "atlantis" / "atlantis.yaml")["projects"]
        self.properties.write_text("security.protocol=PLAINTEXT\n")
        given = {"PROJECT_NAME": project["name"], "PLANFILE": str(self.checkout.path / "prod-eu-default.tfplan")}
        given |= {"BASE_BRANCH_NAME": "main", "QUOTAFORM_SNAPSHOTS": str(self.temp)}
        given |= {"QUOTAFORM_ENV": "QUOTAFORM_COMMAND_CONFIG", "QUOTAFORM_COMMAND_CONFIG": str(self.properties)}
        steps = workflow[stage]["steps"]
        given |= {step["env"]["name"]: step["env"]["value"] for step in steps if "env" in step}
        for step in (step["run"] for step in steps if "run" in step):
            command = step if isinstance(step, str) else step["command"]
            yield from self.script(["sh", "-c", command], given, f"atlantis {stage}")

    def script(self, command: list[str], given: Mapping[str, str], name: str) -> Iterator[str]:
        env = environment(**given)
        done = subprocess.run(
            command, cwd=self.checkout.path, env=env, capture_output=True, text=True, timeout=240, check=False
        )
        yield f"{name}: exit {done.returncode}"
        yield from self.said(done.stdout + done.stderr, ": error: ")

    def said(self, printed: str, pattern: str = "") -> Iterator[str]:
        assert TOKEN not in printed
        # Markdown spells the id of some clusters in another way than text.
        lines = dict.fromkeys(map(self.masked, printed.splitlines()))
        yield from (f"  {line}" for line in lines if TOLD.match(line) or (pattern and re.search(pattern, line)))

    def snapshot(self, name: str) -> Iterator[str]:
        """`snapshot FILE`: take one of the broker, beside the checkout."""
        env = {"QUOTAFORM_ENV": "QUOTAFORM_COMMAND_CONFIG", "QUOTAFORM_COMMAND_CONFIG": str(self.properties)}
        yield f"snapshot: exit {run('snapshot', '--output', self.temp / name, cwd=self.checkout.path, env=env).code}"

    # What is left behind

    def comments(self, pattern: str) -> Iterator[str]:
        """`comments PATTERN`: tell how many comments there are, and the lines of them that match."""
        found = [*self.github.comments, *self.gitlab.notes]
        yield f"{len(found)} comments"
        yield from (f"  {line}" for each in found for line in each["body"].splitlines() if re.search(pattern, line))

    def notified(self) -> Iterator[str]:
        yield f"notified: {', '.join(each.json()['event'] for each in self.webhook.received) or 'nothing'}"
        self.webhook.received.clear()

    def newest(self, name: str, pattern: str) -> Iterator[str]:
        """`newest FOLDER/FILE PATTERN`: tell the lines that match of what was kept last in a cache."""
        folder, _, file = name.partition("/")
        kept = [path for _, path in self.runner.caches if path.name == folder]
        yield from self.show(str((kept[-1] / file).relative_to(self.checkout.path.parent)), pattern)

    def show(self, name: str, pattern: str = "") -> Iterator[str]:
        """`show temp/NAME PATTERN`: tell the files of a folder, or the lines of a file that match."""
        path = self.checkout.path.parent / name
        if not path.exists():
            yield f"{name}: there is none"
        elif path.is_dir():
            yield f"{name}: {', '.join(sorted(each.name for each in path.iterdir()))}"
        else:
            mode = f" (mode {path.stat().st_mode & 0o777:o})" if path == self.properties else ""
            found = [line.strip() for line in path.read_text().splitlines() if re.search(pattern, line)]
            yield f"{name}{mode}: {' '.join(found) or 'nothing'}"


@pytest.mark.parametrize("name", ["plan", "apply", "drift", "action", "gitlab", "atlantis"])
def test_this_comes_of_the_files_for_ci(
    golden: Golden,
    name: str,
    tmp_path: Path,
    sandbox: Sandbox,
    shared_cluster: Cluster,
) -> None:
    numbers = count()

    def tell(text: Text) -> Iterator[str]:
        with ExitStack() as stack:
            team = Team(tmp_path / str(next(numbers)), sandbox, shared_cluster, stack)
            for line in str(text).splitlines():
                yield from team.tell(line)

    check_told(golden, f"ci-{name}.txt", tell)
