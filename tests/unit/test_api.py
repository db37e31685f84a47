"""The Python API: names that are there, calls that do what commands do, wrong calls and files of wrong types refused.

Most of these calls ended in an `AttributeError` or another error from within; `prune: [report]` in an internal error.
The names and signatures are a golden file.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any, cast
from unittest.mock import Mock

import pytest

import quotaform
from quotaform import Alteration, Entity, EntityFilter, QuotaAdmin
from quotaform.cluster.gateway import dump_snapshot
from quotaform.cluster.records import ScramCredential, ScramUser
from quotaform.desired.config import read_config
from quotaform.desired.loader import conclude, load_file
from quotaform.desired.tree import SourceFile
from quotaform.model.errors import ClusterError, InvalidFilesError, UsageError
from quotaform.model.finding import Finding
from quotaform.model.quotas import Quotas, Snapshot
from tests.golden.test_public_names import Checked
from tests.http_server import HttpServer, answer
from tests.loading import load_schema
from tests.markdown import ROOT, blocks
from tests.scripted_gateway import ScriptedGateway

KEY = "producer_byte_rate"
ALICE = Entity(user="alice")
api: Any = quotaform


def test_what_can_be_gone_through_is_taken() -> None:
    admin = QuotaAdmin(Checked({ALICE: {KEY: 1.0}}))
    assert admin.resolve_all(iter([ALICE, ALICE])).keys() == {ALICE}
    assert admin.resolve_all({ALICE}).keys() == {ALICE}
    assert len(admin.alter(Alteration(Entity(user=name), {KEY: 1}) for name in "ab")) == 2
    assert api.EntityFilter([api.FilterComponent("user", "exact", "a")]) == EntityFilter.contains(user="a")


class TestSnapshot:
    """A snapshot's admin could only be had through modules that are not public."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        quotas: Quotas = {ALICE: {KEY: 1.0}, Entity(user=None): {KEY: 2.0}}
        path = tmp_path / "lab.json"
        path.write_text(dump_snapshot(Snapshot(cluster_name="lab", cluster_id="x", captured_at="", quotas=quotas)))
        return path

    def test_it_is_described_and_resolved_offline(self, path: Path) -> None:
        for spelled in (path, str(path)):
            with QuotaAdmin.from_snapshot(spelled) as admin:
                assert admin.cluster_id() == "x"
                assert admin.snapshot is not None
                assert admin.snapshot.path == str(path)
                assert admin.describe(EntityFilter.contains(user="alice")) == {ALICE: {KEY: 1.0}}
                assert admin.resolve(user="bob")[KEY].value == 2.0

    def test_a_file_that_is_none_is_said(self, tmp_path: Path) -> None:
        for name in ("absent.json", "."):
            with pytest.raises(InvalidFilesError):
                QuotaAdmin.from_snapshot(tmp_path / name)


class Slow(ScriptedGateway):
    """Takes its time, and notes how many threads it serves at once."""

    def __init__(self) -> None:
        super().__init__({})
        self.entered, self.may_end = Event(), Event()
        self.inside = self.most = 0

    def describe(self, *arguments: Any, **more: Any) -> Quotas:
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.entered.set()
        self.may_end.wait(60)
        self.inside -= 1
        return {}

    def close(self) -> None:
        self.may_end.set()


class TestThreads:
    def test_calls_of_several_threads_are_made_one_after_the_other(self) -> None:
        """Two threads wrote to one connection at a time."""
        gateway = Slow()
        admin = QuotaAdmin(gateway)
        threads = [Thread(target=admin.describe) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert gateway.entered.wait(60)
        gateway.may_end.set()
        for thread in threads:
            thread.join(60)
        assert gateway.most == 1

    def test_closing_does_not_wait_for_a_call(self) -> None:
        gateway = Slow()
        admin = QuotaAdmin(gateway)
        thread = Thread(target=admin.describe)
        thread.start()
        assert gateway.entered.wait(60)
        admin.close()
        thread.join(60)
        assert not thread.is_alive()
        with pytest.raises(ClusterError, match="is closed"):
            admin.describe()


WRONG = (
    "[report]", "[]", "[[a]]", "[{a: [b]}]", "{a: b}", "{}", "{5: a}", "{null: a}", "{[a]: b}", "{true: a}", "null", "",
    '""', "true", "5", "-1", "1.5", "1e999", "0x1f", "1:30", ".nan", "2026-12-31", "2026-12-31T10:00:00Z", "a",
    "!!binary aGk=", "!!set {a}", "!!timestamp 2026-12-31", "!x a", "*nobody", "&a [*a]", "{<<: 5}", "{<<: [a]}",
)  # fmt: skip


def templates(name: str, node: Any) -> Iterator[str]:
    """The text of a file for each field of a schema, with an @ where its value is."""
    yield "@"
    for part in (*node.get("allOf", ()), *node.get("anyOf", ())):
        yield from templates(name, part)
    if "$ref" in node:
        yield from templates(name, load_schema(name)["definitions"][node["$ref"].rpartition("/")[2]])
    for key, field in node.get("properties", {}).items():
        yield from (f"{{{key}: {inner}}}" for inner in templates(name, field))
    if isinstance(node.get("additionalProperties"), dict):
        yield from (f"{{x: {inner}}}" for inner in templates(name, node["additionalProperties"]))
    if isinstance(node.get("items"), dict):
        yield from (f"[{inner}]" for inner in templates(name, node["items"]))


CONFIG = sorted(set(templates("config", load_schema("config"))))
QUOTAS = sorted(set(templates("quotas", load_schema("quotas"))))


def check_quotas(text: str) -> list[Finding]:
    return conclude([load_file(SourceFile("f.yaml", text, "lab"), {})], date(2026, 6, 1))[1]


def check_config(text: str) -> list[Finding]:
    return list(read_config(SourceFile("f.yaml", text), Path())[1])


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("check", "template"),
    [*((check_config, template) for template in CONFIG), *((check_quotas, template) for template in QUOTAS)],
)
def test_a_field_with_a_value_of_a_wrong_type_is_a_problem_with_its_place(
    check: Callable[[str], list[Finding]], template: str
) -> None:
    for value in WRONG:
        text = template.replace("@", value) + "\n"
        for finding in check(text):
            assert finding.location is not None, text
            assert finding.location.file == "f.yaml", text
            assert min(finding.location.line, finding.location.column) > 0, text


@pytest.mark.exhaustive
def test_the_templates_cover_every_field() -> None:
    assert {"{prune: @}", "{clusters: {x: {confirm: @}}}", "{scope: {include: [{user: @}]}}"} <= set(CONFIG)
    assert {"{quotas: [{expires: @}]}", "{quotas: [{match: {user: [{name: @}]}}]}"} <= set(QUOTAS)


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
        "import quotaform.plan.plan; from quotaform import plan",
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
    with pytest.raises(UsageError, match="revert cannot be used with base, prune or engine"):
        quotaform.plan(here, revert="receipt.json", prune="scope")
    with pytest.raises(UsageError, match="duration must be longer than nothing"):
        quotaform.record_usage(here, repository / "usage", duration=timedelta(0))
    # Without a duration, an interval of None was an AttributeError.
    with pytest.raises(TypeError, match="interval must be a timedelta, not None"):
        quotaform.record_usage(here, repository / "usage", interval=cast("Any", None))
    for call in (quotaform.top, lambda here, **more: quotaform.record_usage(here, "usage", **more)):
        with pytest.raises(UsageError, match=r"^source: the URL must begin with http"):
            call(here, source=["1=b1:7071/metrics"])
    with pytest.raises(UsageError, match='unknown cluster "prod"'):
        quotaform.drift(here, ["prod"])
    with pytest.raises(TypeError, match="a list of names"):
        quotaform.snapshot(here, "lab")
    with pytest.raises(TypeError, match="needs a repository"):
        quotaform.validate()


def test_a_plan_has_the_blast_radius_on_those_who_connect(repository: Path) -> None:
    (repository / "clients.csv").write_text("user,client-id\nalice,app1\nbob,app1\n", encoding="utf-8")
    here = quotaform.Repository.at(repository)
    (planned,) = quotaform.plan(here, principals=repository / "clients.csv")
    found = planned.require().blast_radius
    assert found is not None
    assert found.principals == 2
    assert {row.entity.address for row in found.largest} == {"user=alice,client-id=app1"}


def test_users_without_credentials_are_found_on_each_cluster(repository: Path) -> None:
    here = quotaform.Repository.at(repository)

    users = [ScramUser("bob", (ScramCredential("SCRAM-SHA-256", 8192),))]

    def connect(_: object) -> Any:
        return Mock(describe=lambda: users)

    (checked,) = quotaform.check_principals(here, connect=connect)
    assert [finding.rule for finding in checked.require()] == ["unknown-principal"]
    (repository / "quotas.d/all.yaml").write_text("quotas: 1\n", encoding="utf-8")
    with pytest.raises(InvalidFilesError):
        quotaform.check_principals(here, connect=connect)


def test_usage_is_recorded_for_a_while(repository: Path, tmp_path: Path) -> None:
    page = b'kafka_server_quota_byte_rate{quota_type="Produce",user="alice",client_id="app"} 1000.5\n'
    here, warnings = quotaform.Repository.at(repository), list[str]()
    with HttpServer(lambda _: answer(200, page)) as server:
        (outcome,) = quotaform.record_usage(
            here,
            tmp_path / "usage",
            duration=timedelta(seconds=0.2),
            interval=timedelta(seconds=0.1),
            source=[f"1={server.url}/metrics"],
            warn=warnings.append,
        )
    recording = outcome.require()
    assert recording.rows >= 1
    assert list((tmp_path / "usage").glob("date=*/cluster=lab/*.parquet"))
    assert warnings == []


def test_a_cluster_that_fails_hides_no_other(repository: Path) -> None:
    config = repository / "quotaform.yaml"
    config.write_text("clusters: {gone: {snapshot: gone.json}, lab: {snapshot: lab.json}}\n", encoding="utf-8")
    here = quotaform.Repository.at(repository)
    requests = [quotaform.Entity(user="alice")]
    for outcomes in (quotaform.describe(here, ["*"]), quotaform.resolve(here, requests, ["*"])):
        gone, lab = outcomes
        assert isinstance(gone.error, quotaform.QuotaformError)
        assert lab.require()


def test_an_import_leaves_an_empty_plan_and_a_cluster_that_fails_hides_no_other(repository: Path) -> None:
    config = repository / "quotaform.yaml"
    config.write_text("clusters: {gone: {snapshot: gone.json}, lab: {snapshot: lab.json}}\n", encoding="utf-8")
    (repository / "quotas.d/all.yaml").unlink()
    here = quotaform.Repository.at(repository)
    gone, lab = quotaform.import_quotas(here, ["*"])
    assert isinstance(gone.error, quotaform.QuotaformError)
    assert list(lab.require().files) == [str(repository / "quotas.d/lab/imported.yaml")]
    (planned,) = quotaform.plan(here, ["lab"])
    assert planned.require().changes == ()


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
    (back,) = quotaform.plan(here, revert=receipt, connect=connect)
    assert [change.after for change in back.require().changes] == [{"producer_byte_rate": 1048576.0}]
    config = "clusters: {eu: {bootstrap_servers: ['b:1']}, lab: {bootstrap_servers: ['a:1']}}\n"
    (tmp_path / "quotaform.yaml").write_text(config, encoding="utf-8")
    # Of several clusters, the one of the receipt was compared with the files of the first.
    with pytest.raises(UsageError, match=r"^revert is of one cluster; choose that one alone, or none"):
        quotaform.plan(here, ["*"], revert=receipt, connect=connect)
    (drifted,) = quotaform.drift(here, ["lab"], connect=connect)
    assert not drifted.require().entities
