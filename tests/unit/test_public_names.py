"""What `import quotaform` promises: names that are there, functions that do what commands do.

The names and signatures are a golden file.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import quotaform
from quotaform.model.errors import UsageError
from tests.markdown import ROOT, blocks
from tests.scripted_gateway import ScriptedGateway

PAGE = ROOT / "docs/python.md"
SNAPSHOT = {
    "format_version": "1.0",
    "kind": "quotaform.snapshot",
    "captured_at": "2026-11-20T09:12:44Z",
    "cluster": {"name": "lab", "id": "id"},
    "quotas": [{"entity": {"user": "alice"}, "values": {"producer_byte_rate": 1048576}}],
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The quota repository of docs/python.md."""
    (tmp_path / "quotas.d").mkdir()
    (tmp_path / "lab.json").write_text(json.dumps(SNAPSHOT), encoding="utf-8")
    config, quotas = (block.text for block in blocks(PAGE) if block.language == "yaml")
    (tmp_path / "quotaform.yaml").write_text(config, encoding="utf-8")
    (tmp_path / "quotas.d/all.yaml").write_text(quotas, encoding="utf-8")
    return tmp_path


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = quotaform.nothing


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ("kafka", "yaml", "jsonschema", "typer", "pyspark")
    program = f"import sys, quotaform; quotaform.Entity; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_program_of_the_page_prints_what_the_page_says(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repository)
    (program,) = (block.text for block in blocks(PAGE) if block.language == "python")
    (expected,) = (block.text for block in blocks(PAGE) if block.language == "text")
    exec(compile(program, str(PAGE), "exec"), {})  # noqa: S102 (our own page)
    assert capsys.readouterr().out == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        "from quotaform import plan",
        "import quotaform; plan = quotaform.plan",
        "import quotaform.plan.change; from quotaform import plan",
        "from quotaform import plan; import quotaform.plan.run; assert quotaform.plan.run.plan_cluster",
        "from quotaform.plan import run; assert run.plan_cluster; from quotaform import plan",
        "from quotaform.cli.main import run; from quotaform import plan",
        "import quotaform.apply.run; from quotaform import apply, plan; assert callable(apply)",
    ],
)
def test_a_use_case_with_the_name_of_a_room_can_be_called_in_every_order_of_imports(
    repository: Path, program: str
) -> None:
    """`quotaform.plan` was the package as soon as anything had imported one of its modules."""
    call = "from quotaform import Repository; print([o.cluster for o in plan(Repository.at())])"
    command = [sys.executable, "-c", f"{program}\n{call}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=repository)
    assert done.stdout == "['lab']\n"


def test_the_other_use_cases_read_the_same_repository(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    here, alice = quotaform.Repository.at("."), quotaform.Entity(user="alice")
    assert quotaform.validate(here).is_valid
    assert [section.cluster for section in quotaform.explain(here, alice).clusters] == ["lab"]
    expected = {alice: {"producer_byte_rate": 1048576.0}}
    (described,) = quotaform.describe(here, keys=["producer_byte_rate"])
    assert (described.require().quotas, described.require().cluster_id) == (expected, "id")
    (taken,) = quotaform.snapshot(here, quotaform.Target(snapshot=Path("lab.json")))
    assert taken.require().quotas == expected


def test_wrong_arguments_are_refused_by_the_call_itself(repository: Path) -> None:
    here = quotaform.Repository.at(repository)
    with pytest.raises(UsageError, match="prune: 'all' is none of report, removed, scope"):
        quotaform.plan(here, prune="all")
    with pytest.raises(UsageError, match=r'^base: "-x" is not the name of a git revision'):
        quotaform.plan(here, base="-x")
    with pytest.raises(UsageError, match='unknown cluster "prod"'):
        quotaform.drift(here, ["prod"])
    with pytest.raises(TypeError, match="a list of names"):
        quotaform.snapshot(here, "lab")
    with pytest.raises(TypeError, match="needs a repository"):
        quotaform.validate()


def test_a_cluster_that_fails_hides_no_other(repository: Path) -> None:
    config = repository / "quotaform.yaml"
    config.write_text("clusters: {gone: {snapshot: gone.json}, lab: {snapshot: lab.json}}\n", encoding="utf-8")
    here = quotaform.Repository.at(repository)
    requests = [quotaform.Entity(user="alice")]
    for outcomes in (quotaform.describe(here, ["*"]), quotaform.resolve(here, requests, ["*"])):
        gone, lab = outcomes
        assert isinstance(gone.error, quotaform.QuotaformError)
        assert lab.require()


def test_what_was_planned_is_applied_and_the_next_plan_is_empty(tmp_path: Path) -> None:
    alice = quotaform.Entity(user="alice")
    gateway = ScriptedGateway({alice: {"producer_byte_rate": 1048576.0}}, cluster_id="id")
    (tmp_path / "quotas.d").mkdir()
    (tmp_path / "quotaform.yaml").write_text("clusters: {lab: {bootstrap_servers: ['a:1']}}\n", encoding="utf-8")
    text = "quotas: [{match: {user: alice}, values: {producer_byte_rate: 2MiB/s}}]\n"
    (tmp_path / "quotas.d/all.yaml").write_text(text, encoding="utf-8")
    here = quotaform.Repository.at(tmp_path)

    def connect(_: object) -> ScriptedGateway:
        return gateway

    plans = [outcome.require() for outcome in quotaform.plan(here, connect=connect)]
    (done,) = quotaform.apply(here, plans, connect=connect)
    receipt = done.require().path
    assert receipt is not None
    assert receipt.is_file()
    (again,) = quotaform.plan(here, connect=connect)
    assert not again.require().changes
    (drifted,) = quotaform.drift(here, connect=connect)
    assert not drifted.require().entities
