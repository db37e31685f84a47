"""Guards against a base in git: what a change loosens, and how much it no longer declares."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from quotaform.model.entity import Entity
from quotaform.plan.check.facts import Safeguards, safeguards_of
from quotaform.plan.plan import PlanSource
from quotaform.repository.repository import Repository
from tests.builder import HEADER, PRODUCER, plan_of
from tests.builder import receipt_of as builder_receipt
from tests.dumped import dumped_receipt
from tests.planned_repository import CONFIG, MIB, PlannedRepository, own_environment, rate

pytestmark = pytest.mark.slow

USERS = {f"u{number}": rate(1) for number in range(9)}


@pytest.fixture
def repository(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> PlannedRepository:
    """A commit that declares the nine users of a cluster."""
    own_environment(monkeypatch)
    made = PlannedRepository(tmp_path / "repository", capsys)
    made.path.mkdir()
    made.git("init", "-q", "-b", "main")
    made.write("quotaform.yaml", CONFIG + "protect: [{user: u0}]\n")
    made.write(".gitignore", "*.json\n")
    made.quotas(**USERS)
    made.commit()
    made.live(**{key: {"producer_byte_rate": MIB} for key in USERS})
    return made


def test_a_change_that_switches_off_its_own_guards_is_blocked(repository: PlannedRepository) -> None:
    repository.write("quotaform.yaml", CONFIG + "guards: {delete: {count: 9, percent: 100}}\n")
    code, out, _ = repository("plan", "--base", "HEAD")
    assert code == 4
    assert (
        "  guards-loosened  quotaform.yaml loosens the guards of the base: guards.delete.count is 9 instead of 5; "
        "guards.delete.percent is 100 instead of 20; protect has no user=u0   Allow: --allow guards-loosened\n" in out
    )
    assert repository("plan", "--base", "HEAD", "--allow", "guards-loosened")[0] == 0
    assert repository("plan", "--no-base")[0] == 0


def test_a_base_whose_quotaform_yaml_is_invalid_blocks_because_its_guards_are_unknown(
    repository: PlannedRepository,
) -> None:
    config = repository.path / "quotaform.yaml"
    good = config.read_text()
    repository.write("quotaform.yaml", "clusters: 5\n")
    repository.commit()
    config.write_text(good)
    code, out, _ = repository("plan", "--base", "HEAD")
    assert code == 4
    assert (
        "  guards-loosened  the guards of the base are not known, so quotaform.yaml may loosen them: at HEAD it is "
        "invalid: quotaform.yaml:1:11: clusters must be a mapping" in out
    )
    assert repository("plan", "--base", "HEAD", "--allow", "guards-loosened")[0] == 0


def test_a_base_without_quotaform_yaml_has_the_guards_of_the_default(repository: PlannedRepository) -> None:
    config = repository.path / "quotaform.yaml"
    good = config.read_text()
    config.unlink()
    repository.commit()
    config.write_text(good)
    assert repository("plan", "--base", "HEAD")[0] == 0
    config.write_text(f"{good}guards: {{change_factor: 50}}\n")
    code, out, _ = repository("plan", "--base", "HEAD")
    assert (code, "guards.change_factor is 50 instead of 10" in out) == (4, True)


def test_a_receipt_as_the_base_has_the_guards_of_its_commit(repository: PlannedRepository) -> None:
    """A receipt does not hold them itself."""
    receipt = receipt_of(repository)
    assert repository("plan", "--base", receipt)[0] == 0
    repository.write("quotaform.yaml", CONFIG)
    code, out, _ = repository("plan", "--base", receipt)
    assert (code, "protect has no user=u0" in out) == (4, True)


def test_a_receipt_whose_commit_git_does_not_have_blocks(repository: PlannedRepository) -> None:
    receipt = receipt_of(repository, commit="1" * 40)
    code, out, _ = repository("plan", "--base", receipt)
    assert (code, "the guards of the base are not known" in out) == (4, True)


def receipt_of(repository: PlannedRepository, commit: str | None = None) -> str:
    """Write the receipt of an apply that found the nine users as declared, and return its path."""
    declared = {Entity(user=user): {PRODUCER: float(MIB)} for user in USERS}
    source = PlanSource(directory="quotas.d", commit=commit or repository.git("rev-parse", "HEAD"), dirty=False)
    plan = plan_of(declared, declared, header=replace(HEADER, cluster_id="id", source=source))
    receipt = builder_receipt(plan)
    repository.write("receipt.json", dumped_receipt(receipt))
    return "receipt.json"


def test_a_change_that_takes_away_a_pin_a_confirmation_or_a_policy_is_blocked(repository: PlannedRepository) -> None:
    more = "cluster_id: id, confirm: name"
    repository.write("quotaform.yaml", CONFIG.replace("}}", f", {more}}}}}") + "policies: [p.schema.json]\n")
    repository.commit()
    repository.write("quotaform.yaml", CONFIG)
    code, out, _ = repository("plan", "--base", "HEAD")
    assert code == 4
    assert (
        "policies has no p.schema.json; the cluster has no cluster_id; the cluster has no confirm: name   "
        "Allow: --allow guards-loosened\n" in out
    )


CAPS = '{"properties": {"values": {"properties": {"producer_byte_rate": {"maximum": 2097152}}}}}\n'
POLICIES = CONFIG + "policies: [policies/*.json]\n"


def looser(repository: PlannedRepository, *options: str) -> str:
    """What guards-loosened says of a plan against HEAD; empty if it does not block."""
    code, out, _ = repository("plan", "--base", "HEAD", *options)
    found = [line.split("  ", 2)[2].strip() for line in out.splitlines() if line.startswith("  guards-loosened")]
    assert code == (4 if found else 0), out
    return "\n".join(line.removesuffix("   Allow: --allow guards-loosened") for line in found)


def write_policy(repository: PlannedRepository, name: str, content: str) -> None:
    path = repository.path / "policies" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode())


def test_a_policy_file_that_a_change_alters_or_deletes_is_blocked(repository: PlannedRepository) -> None:
    """A change raised the cap of a policy and its own value with it, and nothing was said."""
    repository.write("quotaform.yaml", POLICIES)
    repository.write(".gitignore", "lab.json\n")
    write_policy(repository, "caps.json", CAPS)
    write_policy(repository, "floor.json", "{}\n")
    repository.commit()
    assert looser(repository) == ""
    write_policy(repository, "caps.json", CAPS.replace("2097152", "9e12"))
    changed = "this may loosen the policies of the base: policy policies/caps.json changed"
    assert looser(repository) == changed
    (repository.path / "policies" / "floor.json").unlink()
    assert looser(repository) == f"{changed}; policy policies/floor.json was removed"
    assert repository("plan", "--base", "HEAD", "--allow", "guards-loosened")[0] == 0


def test_a_new_a_renamed_and_a_converted_policy_file_loosen_nothing(repository: PlannedRepository) -> None:
    repository.write("quotaform.yaml", POLICIES)
    repository.write(".gitignore", "lab.json\n")
    write_policy(repository, "caps.json", CAPS)
    repository.commit()
    write_policy(repository, "more.json", "{}\n")
    assert looser(repository) == ""
    (repository.path / "policies" / "caps.json").rename(repository.path / "policies" / "limits.json")
    assert looser(repository) == ""
    write_policy(repository, "limits.json", CAPS.replace("\n", "\r\n"))
    assert looser(repository) == ""


def test_a_policy_that_quotaform_yaml_no_longer_lists_is_named(repository: PlannedRepository) -> None:
    repository.write("quotaform.yaml", POLICIES)
    repository.write(".gitignore", "lab.json\n")
    write_policy(repository, "caps.json", CAPS)
    repository.commit()
    repository.write("quotaform.yaml", CONFIG)
    assert looser(repository) == (
        "quotaform.yaml loosens the guards of the base: policies has no policies/*.json\n"
        "this may loosen the policies of the base: policy policies/caps.json was removed"
    )


def test_policies_in_a_linked_folder_are_compared_as_files(repository: PlannedRepository) -> None:
    repository.write("quotaform.yaml", CONFIG + "policies: ['rules/*.json', 'rules/sub/[a-c]*.json']\n")
    repository.write(".gitignore", "lab.json\n")
    write_policy(repository, "caps.json", CAPS)
    (repository.path / "policies" / "sub").mkdir()
    write_policy(repository, "sub/b.json", "{}\n")
    (repository.path / "rules").symlink_to("policies")
    repository.commit()
    assert looser(repository) == ""
    write_policy(repository, "sub/b.json", '{"maxProperties": 9}\n')
    assert looser(repository) == "this may loosen the policies of the base: policy rules/sub/b.json changed"


def test_a_policy_that_cannot_be_read_at_the_base_counts_as_changed(repository: PlannedRepository) -> None:
    repository.write("quotaform.yaml", POLICIES)
    repository.write(".gitignore", "lab.json\n")
    (repository.path / "policies").mkdir()
    (repository.path / "policies" / "caps.json").symlink_to("/etc/hostname")
    repository.commit()
    (repository.path / "policies" / "caps.json").unlink()
    write_policy(repository, "caps.json", CAPS)
    assert looser(repository) == "this may loosen the policies of the base: policy policies/caps.json changed"


SCOPED = CONFIG + "scope: {include: [{user: '*'}], exclude: [{user: 'legacy-*'}]}\n"


PIN = CONFIG.replace("}}", ", cluster_id: {}}}")
CONFIRM, NAME = CONFIG.replace("}}", "{}}}"), ", confirm: name"
SCOPE = CONFIG + "scope: {}\n"
WIDE, LEGACY = "{include: [{user: '*'}], exclude: [{user: 'legacy-*'}]}", "scope no longer excludes user=legacy-*"
PROTECT, LOST = CONFIG + "protect: {}\n", "protect has no user=kafka-*"
PRUNED = "an entity that is removed from the files is deleted from the cluster"
ALL_PRUNED = "every entity in scope that no file declares is deleted from the cluster"


@pytest.mark.parametrize(
    ("form", "before", "after", "said"),
    [
        # With another pin and other servers, what was reviewed for one cluster was planned for another.
        (PIN, "other", "id", "cluster_id is id instead of other"),
        # A change switched from report to scope and deleted what nobody had declared.
        (SCOPED + "prune: {}\n", "report", "removed", f"prune is removed instead of report ({PRUNED})"),
        (SCOPED + "prune: {}\n", "report", "scope", f"prune is scope instead of report ({ALL_PRUNED})"),
        (SCOPED + "prune: {}\n", "removed", "scope", f"prune is scope instead of removed ({ALL_PRUNED})"),
        (SCOPED + "prune: {}\n", "scope", "removed", None),
        (SCOPED + "prune: {}\n", "removed", "report", None),
        (CONFIRM, NAME, "", "the cluster has no confirm: name"),
        (CONFIRM, NAME, NAME, None),
        (CONFIRM, "", NAME, None),
        (SCOPE, WIDE, "{include: [{user: 'u*'}], exclude: [{user: 'legacy-*'}]}", None),
        (
            SCOPE,
            WIDE,
            "{include: [{user: 'u*', client-id: c}, {user: u5}, {user: '*'}], exclude: [{user: 'l*'}]}",
            None,
        ),
        (SCOPE, WIDE, "{exclude: [{user: 'legacy-*'}]}", "scope includes everything"),
        (SCOPE, WIDE, WIDE.replace("}]", "}, {ip: '*'}]", 1), "scope also includes ip=*"),
        (SCOPE, WIDE, WIDE.replace("}]", "}, {user: <default>}]", 1), "scope also includes user=<default>"),
        (SCOPE, WIDE, "{include: [{user: '*'}]}", LEGACY),
        (SCOPE, WIDE, WIDE.replace("legacy-*", "legacy-a*"), LEGACY),
        (SCOPE, WIDE, WIDE.replace("'legacy-*'", "'legacy-*', client-id: c"), LEGACY),
        (PROTECT, "[{user: 'kafka-*'}]", "[{user: '*'}]", None),
        (PROTECT, "[{user: 'kafka-*'}]", "[{user: 'kafka*'}, {user: x}]", None),
        (PROTECT, "[{user: 'kafka-*'}]", "[{client-id: c, user: 'kafka-*'}]", LOST),
        (PROTECT, "[{user: 'kafka-*'}]", "[{user: 'kafka-a*'}]", LOST),
        (PROTECT, "[{user: 'kafka-*'}]", "[{user: <default>}]", LOST),
        (PROTECT, "[{user: u0, client-id: c}]", "[{client-id: c, user: u0}]", None),
    ],
)
def test_what_protects_less_than_at_the_base_is_said(
    tmp_path: Path, form: str, before: str, after: str, said: str | None
) -> None:
    found = [safeguards(tmp_path, form.replace("{}", each)) for each in (before, after)]
    assert list(found[1].looser_than(found[0])) == ([] if said is None else [said])


def safeguards(folder: Path, text: str) -> Safeguards:
    (folder / "quotaform.yaml").write_text(text)
    config = Repository.at(folder / "quotas.d", folder / "quotaform.yaml").config()
    return safeguards_of(config, config.clusters["lab"], {})


def test_of_many_things_that_are_looser_the_first_are_named(repository: PlannedRepository) -> None:
    patterns = ", ".join(f"{{user: k{number:02}}}" for number in range(25))
    repository.write("quotaform.yaml", f"{CONFIG}protect: [{patterns}]\n")
    repository.commit()
    repository.write("quotaform.yaml", CONFIG)
    assert looser(repository).endswith("protect has no user=k19; and 5 more")


def test_the_mode_of_an_option_is_that_of_the_operator_and_loosens_nothing(repository: PlannedRepository) -> None:
    repository.write("quotaform.yaml", SCOPED)
    repository.commit()
    assert looser(repository, "--prune", "scope") == ""


def test_an_approval_that_a_change_brings_along_is_noted_in_every_format(repository: PlannedRepository) -> None:
    item = "{{rule: change-factor, address: 'user={user}', reason: r, approver: a, expires: {day}, to: {to}}}"
    values = {"day": (datetime.now(UTC) + timedelta(9)).date(), "to": "{producer_byte_rate: 100MiB/s}"}
    old, new = (f"- {item.format(user=user, **values)}\n" for user in ("u1", "u2"))
    repository.write("approvals.yaml", old)
    repository.commit()
    repository.write("approvals.yaml", old + new)
    repository.quotas(**USERS | {"u1": rate(100), "u2": rate(100)})
    (found,) = (each for each in repository.plan("--base", "HEAD")["findings"] if each["rule"] == "new-approval")
    assert (found["address"], found["severity"], found["blocking"], found["location"]) == (
        "user=u2",
        "note",
        False,
        {"file": "approvals.yaml", "line": 2, "column": 3},
    )
    text, markdown = (repository("plan", "--base", "HEAD", "--format", form)[1] for form in ("text", "markdown"))
    assert text.count("the approval of change-factor by a is new or changed in this change") == 1
    assert markdown.count("(for producer_byte_rate 100 MiB/s), **new in this change**: r\n") == 1
    approvals = repository.plan("--base", "HEAD")["approvals"]
    assert [(each["address"], each.get("new")) for each in approvals] == [("user=u1", None), ("user=u2", True)]
    repository.commit()
    assert "new-approval" not in repository("plan", "--base", "HEAD")[1]


def test_an_invalid_file_of_approvals_at_the_base_approved_nothing(repository: PlannedRepository) -> None:
    day = (datetime.now(UTC) + timedelta(9)).date()
    repository.write("approvals.yaml", "- nothing\n")
    repository.commit()
    repository.write(
        "approvals.yaml",
        f"- {{rule: change-factor, address: user=u1, reason: r, approver: a, expires: {day}, "
        "to: {producer_byte_rate: 100MiB/s}}\n",
    )
    repository.quotas(**USERS | {"u1": rate(100)})
    assert "new-approval" in repository("plan", "--base", "HEAD")[1]
