"""`quotaform import` and `snapshot`: everything a broker can hold, and nothing dropped in silence."""

from __future__ import annotations

import json
import math
from errno import ENOSPC
from pathlib import Path

import pytest

from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas, same_values
from quotaform.system import files as atomic_file
from tests.workflow.command import Cluster, Repository

pytestmark = pytest.mark.workflow

MIB = 1048576.0

ODD_NAMES = [
    "two words", 'quote"d', "apo'strophe", "com,ma", "equals=sign", "CN=a b,O=Å/ß+*~'\"", "<default>", "new\nline",
    "tab\t", "yes", "no", "null", "~", "007", "1e5", "0x1F", "2026-12-31", "1:30", "true", " leading", "trailing ",
    "%", "%0A::error file=a::x", "::warning::x", "-", "- item", "#", "a: b", "a #b", "&anchor", "*alias", "!tag",
    "{a}", "[a]", "|", ">", "@at", "`tick", "back\\slash", "émile", "日本", "🙂", "e\u0301", "\u202eabc", "\u2028",
    "\x1b[31mred", "\x7f", "\u0085", "\ufeff", "=", "<<", "y", "n", ".", "..", "a" * 300, "${env:HOME}",
    "{{ name }}", "?", "? key", "---", "...", "'", '"', "\U0010ffff",
]  # fmt: skip

SHAPES: Quotas = {
    Entity(user="a"): {"producer_byte_rate": MIB, "consumer_byte_rate": 5e6, "request_percentage": 12.5},
    Entity(client_id="a"): {"producer_byte_rate": 1023.0, "controller_mutation_rate": 0.25},
    Entity(user="a", client_id="b"): {"consumer_byte_rate": 1.0},
    Entity(user="a", client_id=None): {"producer_byte_rate": 2.0**63},
    Entity(user=None, client_id="a"): {"producer_byte_rate": 2.0**53 + 2},
    Entity(user=None): {"consumer_byte_rate": 2.0**63, "controller_mutation_rate": 2147483647.0},
    Entity(client_id=None): {"request_percentage": 2147483647.0},
    Entity(user=None, client_id=None): {"request_percentage": 0.1 + 0.2},
    Entity(ip="10.0.0.1"): {"connection_creation_rate": 2147483647.0},
    Entity(ip="2001:db8::1"): {"connection_creation_rate": 1.0},
    Entity(ip=None): {"connection_creation_rate": 50.0},
}

ODD_VALUES: Quotas = {
    Entity(user="small"): {"request_percentage": 5e-324, "controller_mutation_rate": 1e-7},
    Entity(user="large"): {"request_percentage": 1e308, "controller_mutation_rate": 1.7976931348623157e308},
    Entity(user="thirds"): {"request_percentage": 100 / 3, "controller_mutation_rate": 1e16},
    Entity(user="whole"): {"producer_byte_rate": 2.0**63 - 1024, "consumer_byte_rate": 2.0**53},
}

INEXPRESSIBLE: dict[str, tuple[Entity, dict[str, float]]] = {
    "consumer_byte_rate is 1024.0000005, which is not a whole number of bytes per second": (
        Entity(user="fraction"), {"consumer_byte_rate": 1024.0000005, "producer_byte_rate": MIB}
    ),
    "producer_byte_rate is 0.0000001, which is not a whole number": (
        Entity(user="tiny"), {"producer_byte_rate": 1e-7}
    ),
    "request_percentage is NaN": (Entity(user="nan"), {"request_percentage": math.nan}),
    "controller_mutation_rate is Infinity": (Entity(user="inf"), {"controller_mutation_rate": math.inf}),
    "connection_creation_rate is NaN": (Entity(ip="10.9.9.9"), {"connection_creation_rate": math.nan}),
    "localhost is not an IP address": (Entity(ip="localhost"), {"connection_creation_rate": 5.0}),
    "::ffff:10.1.2.3 is not the canonical spelling of this address; write 10.1.2.3": (
        Entity(ip="::ffff:10.1.2.3"), {"connection_creation_rate": 5.0}
    ),
    "10.1 is not the canonical spelling of this address; write 10.0.0.1": (
        Entity(ip="10.1"), {"connection_creation_rate": 5.0}
    ),
    "ABCD::EF is not the canonical spelling of this address; write abcd::ef": (
        Entity(ip="ABCD::EF"), {"connection_creation_rate": 5.0}
    ),
}  # fmt: skip


def assert_same(one: Quotas, other: Quotas) -> None:
    assert one.keys() == other.keys()
    assert [entity for entity, values in one.items() if not same_values(values, other[entity])] == []


@pytest.fixture
def everything(cluster: Cluster) -> Quotas:
    """A cluster that holds everything that a broker can hold; returns what that is."""
    quotas = {**SHAPES, **ODD_VALUES}
    for name in ODD_NAMES:
        quotas[Entity(user=name)] = {"producer_byte_rate": MIB}
        quotas[Entity(client_id=name)] = {"producer_byte_rate": 2 * MIB}
        quotas[Entity(user=name, client_id=name)] = {"producer_byte_rate": 3 * MIB}
    quotas |= dict(INEXPRESSIBLE.values())
    cluster.alter(quotas)
    assert_same(cluster.read(), quotas)
    return quotas


def test_after_an_import_of_anything_the_plan_is_empty(
    repository: Repository, cluster: Cluster, everything: Quotas
) -> None:
    done = repository("import")
    assert (done.code, done.err) == (0, "")
    expressible = len(everything) - len(INEXPRESSIBLE)
    assert done.last == f"Imported {expressible} entities."
    assert f"Not imported: {len(INEXPRESSIBLE)} that files cannot represent." in done.out
    for told, (entity, _) in INEXPRESSIBLE.items():
        assert f"{entity.address}: {told}" in done.out
    assert "10.0.0.1, 10.1 are one address to a broker" in done.out
    assert "\n::" not in done.out, "no name forges a workflow command"
    assert "\x1b" not in done.out

    valid = repository("validate")
    assert valid.code == 0, valid.out
    assert f"{expressible} entities for lab" in valid.last
    planned = repository("plan", "--detailed-exitcode")
    assert planned.code == 0, planned.out
    undeclared = f"{len(INEXPRESSIBLE)} undeclared entities in scope stay as they are."
    assert planned.last == f"No changes. Your infrastructure matches the configuration. {undeclared}"
    for told, (entity, _) in INEXPRESSIBLE.items():
        assert f"{entity.address}: {told}" in planned.out

    assert repository("apply", "--auto-approve").code == 0
    assert_same(cluster.read(), everything)


def test_what_files_cannot_express_outlives_an_apply_and_can_be_taken_over(
    repository: Repository, cluster: Cluster, everything: Quotas
) -> None:
    repository("import")
    repository.quotas(
        "  - match: {user: new}\n    values: {producer_byte_rate: 1MiB/s}\n"
        "  - match: {user: nan}\n    values: {request_percentage: 50%}\n"
        "  - match: {user: inf}\n    state: absent\n",
        "more.yaml",
    )
    done = repository("apply", "--auto-approve")
    assert done.code == 0, done.said
    assert done.last == "Apply complete! Resources: 1 added, 1 changed, 1 destroyed."
    expected = dict(everything)
    expected[Entity(user="new")] = {"producer_byte_rate": MIB}
    expected[Entity(user="nan")] = {"request_percentage": 50.0}
    del expected[Entity(user="inf")]
    assert_same(cluster.read(), expected)


def test_a_snapshot_holds_everything_and_can_be_imported_without_a_broker(
    repository: Repository, everything: Quotas
) -> None:
    taken = repository("snapshot")
    document = json.loads(taken.out)
    assert len(document["quotas"]) == len(everything)
    held = {
        Entity(item["entity"]): {key: float(value) for key, value in item["values"].items()}
        for item in document["quotas"]
    }
    assert_same(held, everything)
    assert repository("snapshot", "--output", "live.json").code == 0
    assert json.loads(repository.read("live.json"))["quotas"] == document["quotas"]

    (repository.path / "quotaform.yaml").unlink()
    done = repository("import", "--snapshot", "live.json")
    assert done.last == f"Imported {len(everything) - len(INEXPRESSIBLE)} entities."
    assert repository("plan", "--snapshot", "live.json", "--detailed-exitcode").code == 0


def test_a_second_import_takes_only_what_is_new_and_overwrites_nothing(
    repository: Repository, cluster: Cluster
) -> None:
    cluster.set({"producer_byte_rate": MIB}, user="a")
    assert repository("import").last == "Imported 1 entity."
    first = repository.read("quotas.d/imported.yaml")
    again = repository("import")
    assert (again.code, again.last) == (0, "Imported 0 entities.")
    assert "1 already declared" in again.out
    cluster.set({"producer_byte_rate": MIB}, user="b")
    assert repository("import").out.startswith("Wrote quotas.d/imported-2.yaml (1 entity)")
    assert repository.read("quotas.d/imported.yaml") == first
    assert repository("plan", "--detailed-exitcode").code == 0


def test_an_import_can_be_split_by_the_first_word_of_the_names(repository: Repository, cluster: Cluster) -> None:
    for user in ("svc-a", "svc-b", "etl-a", "Étude", None):
        cluster.set({"producer_byte_rate": MIB}, user=user)
    cluster.set({"producer_byte_rate": MIB}, client_id="SVC.c")
    cluster.set({"connection_creation_rate": 5.0}, ip="10.0.0.1")
    cluster.set({"connection_creation_rate": 5.0}, ip=None)
    done = repository("import", "--split", "prefix", "--output", "quotas.d")
    assert done.last == "Imported 8 entities."
    assert {path.name: path.read_text().count("- match") for path in (repository.path / "quotas.d").iterdir()} == {
        "imported-svc.yaml": 3,
        "imported-etl.yaml": 1,
        "imported-other.yaml": 1,
        "defaults.yaml": 2,
        "ips.yaml": 1,
    }
    assert repository("plan", "--detailed-exitcode").code == 0


def test_an_import_of_nothing_says_so(repository: Repository, cluster: Cluster) -> None:
    """Nothing was written, and the next `validate` failed for the missing directory."""
    assert cluster.read() == {}
    done = repository("import")
    assert (done.code, done.err) == (0, "")
    assert done.out == "Wrote quotas.d/imported.yaml (0 entities)\nThe cluster has no quotas.\nImported 0 entities.\n"
    assert repository.read("quotas.d/imported.yaml").endswith("quotas: []\n")
    assert repository("validate").code == 0
    assert repository("import").out == "The cluster has no quotas.\nImported 0 entities.\n"


def write_snapshot(repository: Repository, *quotas: str) -> None:
    rows = ", ".join(quotas)
    repository.write(
        "live.json",
        '{"format_version": "1.0", "kind": "quotaform.snapshot", "cluster": {"name": "lab", "id": "lab-1"}, '
        f'"captured_at": "2026-11-20T09:12:44Z", "quotas": [{rows}]}}\n',
    )


def test_an_import_says_when_a_declared_entity_differs_from_the_live_one(offline: Repository) -> None:
    """Imported into a clone with example files, quotas were declared that were not there, and nothing said so."""
    write_snapshot(offline, '{"entity": {"user": "a"}, "values": {"producer_byte_rate": 1048576}}')
    offline.quotas("  - match: {user: [a, b]}\n    values: {producer_byte_rate: 2MiB/s}\n")
    done = offline("import", "--snapshot", "live.json")
    assert done.code == 0
    assert "Warning: 2 entities in the files are missing on the cluster or have other values there;" in done.out


def test_a_split_import_of_a_long_name_writes_all_files(offline: Repository) -> None:
    """A name of 300 characters was too long for a file, and two of three files were written."""
    long = "z" * 300
    rows = [f'{{"entity": {{"user": "{name}"}}, "values": {{"producer_byte_rate": 1}}}}' for name in ("a", "b", long)]
    write_snapshot(offline, *rows)
    done = offline("import", "--snapshot", "live.json", "--split", "prefix")
    assert (done.code, done.last) == (0, "Imported 3 entities.")
    names = sorted(path.name for path in (offline.path / "quotas.d").iterdir())
    assert names == ["imported-a.yaml", "imported-b.yaml", f"imported-{'z' * 60}.yaml"]


def test_an_import_writes_all_files_or_none(offline: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that were written before the one that could not be written stayed."""
    rows = [f'{{"entity": {{"user": "{name}"}}, "values": {{"producer_byte_rate": 1}}}}' for name in ("a", "b")]
    write_snapshot(offline, *rows)

    def fail_on_second(path: Path, text: str) -> None:
        if path.name == "imported-b.yaml":
            raise OSError(ENOSPC, "No space left on device")
        write(path, text)

    write = atomic_file.write_new_text
    monkeypatch.setattr(atomic_file, "write_new_text", fail_on_second)
    done = offline("import", "--snapshot", "live.json", "--split", "prefix")
    assert done.code == 1
    assert "No space left on device" in done.err
    assert not (offline.path / "quotas.d").exists()


def test_an_import_does_not_write_through_a_link_that_leads_nowhere(offline: Repository) -> None:
    """A dangling link counted as free, and the file was written where it led."""
    write_snapshot(offline, '{"entity": {"user": "a"}, "values": {"producer_byte_rate": 1}}')
    (offline.path / "quotas.d").mkdir()
    (offline.path / "quotas.d" / ".keep").touch()
    (offline.path / "quotas.d" / "imported.yaml").symlink_to(offline.path / "elsewhere.yaml")
    offline("import", "--snapshot", "live.json")
    assert not (offline.path / "elsewhere.yaml").exists()


def test_many_clusters_are_imported_each_into_its_own_directory(offline: Repository) -> None:
    write_snapshot(offline, '{"entity": {"user": "a"}, "values": {"producer_byte_rate": 1048576}}')
    offline.config(
        "clusters:\n  gone: {bootstrap_servers: ['127.0.0.1:1']}\n"
        "  one: {snapshot: live.json}\n  two: {snapshot: live.json}\n"
    )
    assert "choose with --cluster, or use --all" in offline("import").err
    done = offline("import", "--all")
    assert done.code == 1
    assert "Cannot connect to gone" in done.err
    assert done.out.splitlines() == [
        *("", "Cluster  one", "Wrote quotas.d/one/imported.yaml (1 entity)", "Imported 1 entity."),
        *("", "Cluster  two", "Wrote quotas.d/two/imported.yaml (1 entity)", "Imported 1 entity."),
    ]
    assert offline("plan", "--cluster", "one", "--cluster", "two", "--detailed-exitcode").code == 0
