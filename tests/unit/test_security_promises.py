"""Every promise of docs/security.md, with the tests that keep it; those that belong to no other module are here."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from quotaform.cli.main import run
from quotaform.cli.option.common import complete_cluster
from tests.builder import PRODUCER
from tests.command_line import LEAVES

ROOT: Final = Path(__file__).resolve().parents[2]
SECRET: Final = "c4nary-Pa55word"

PROMISES: Final[Mapping[str, Sequence[str]]] = {
    "Nothing in the repository is executed": (
        "unit/test_git.py::test_nothing_of_a_clone_is_executed_and_its_own_commit_is_named",
        "unit/test_executable.py::test_modules_in_the_current_folder_are_not_imported",
        "spark/test_command.py::test_the_command_does_what_the_local_engine_does_imports_no_module_of_the_folder_and_leaves_nothing",
    ),
    "only the operator can name a [command that prints tokens]": (
        "unit/test_oauth.py::test_a_relative_command_or_one_in_the_repository_is_not_run",
        "unit/test_oauth.py::test_it_runs_no_module_of_the_current_directory",
    ),
    "never from a directory of `PATH` inside it": (
        "unit/test_git.py::test_a_git_command_in_the_repository_is_not_run",
        "unit/test_executable.py::test_relative_folders_of_the_path_are_left_out",
    ),
    "no hook, filter or configuration of the repository runs": (
        "unit/test_git.py::test_a_configuration_that_executes_is_not_used_even_where_git_reads_it",
        "unit/test_git.py::test_variables_lead_git_nowhere_else",
    ),
    "Only regular files are read, each up to a size that the error states": (
        "golden/test_reading.py::test_this_is_read_or_refused_in_these_words",
    ),
    "refused and never waited for": ("golden/test_reading.py::test_this_is_read_or_refused_in_these_words",),
    "The number of files and of reported problems is limited": (
        "unit/test_work_tree.py::test_the_number_and_the_size_of_the_files_are_bounded",
        "unit/test_file_limits.py::test_of_a_great_many_problems_the_first_hundred_are_shown",
    ),
    "Symbolic links are followed only within the directory that was given": (
        "golden/test_reading.py::test_this_is_read_or_refused_in_these_words",
        "golden/test_reading.py::test_this_is_read_or_refused_in_these_words",
        "unit/test_work_tree.py::test_a_directory_that_was_found_leads_nowhere_else_and_one_that_was_named_may",
        "unit/test_client_properties_attack.py::test_a_link_in_a_repository_leads_to_no_store_elsewhere",
    ),
    "A Kubernetes ConfigMap mount": ("golden/test_reading.py::test_this_is_read_or_refused_in_these_words",),
    "A path written in `quotaform.yaml` or client properties may lead elsewhere": (
        "unit/test_files.py::test_a_path_that_plainly_leads_out_of_a_repository_is_followed",
    ),
    "no message shows the content of a file": (
        "unit/test_security_promises.py::test_no_message_shows_the_content_of_another_file",
    ),
    "Nothing is written through a link that leads out of the current directory": (
        "unit/test_files.py::test_a_link_in_the_current_directory_leads_no_writing_out_of_it",
        "unit/test_files.py::test_no_command_writes_by_a_link_out_of_the_current_directory",
    ),
    "is expanded only in client properties and in `bootstrap_servers` and `command_config`": (
        "unit/test_config.py::test_variables_are_replaced_only_where_they_say_how_to_connect",
        "unit/test_security_promises.py::test_a_reference_in_a_name_is_text",
    ),
    "`${file:PATH:KEY}` and `${dir:PATH:FILE}` of client properties": (
        "unit/test_client_properties_attack.py::test_a_pull_request_chooses_no_file_whose_content_is_sent",
        "unit/test_client_properties_attack.py::test_the_operators_properties_may_name_any_file_and_those_of_a_repository_its_own",
        "unit/test_client_properties_attack.py::test_what_was_expanded_is_on_no_screen",
    ),
    "none of `.git`": (
        "golden/test_reading.py::test_this_is_read_or_refused_in_these_words",
        "unit/test_oauth.py::test_properties_in_a_repository_name_nothing_of_git",
    ),
    "Variables with quotaform's own secrets are never expanded, even if they are listed": (
        "unit/test_variable.py::test_a_secret_that_is_no_part_of_a_connection_is_never_expanded",
        "unit/test_variable.py::test_each_secret_of_our_own_is_named_in_the_table_alone",
        "unit/test_allowed_hosts.py::test_a_token_of_our_own_reaches_no_broker",
    ),
    "Credentials are bound to hosts, before a name is resolved or a byte is sent": (
        "unit/test_allowed_hosts.py::test_credentials_of_the_operator_go_to_their_own_servers",
        "unit/test_allowed_hosts.py::test_a_host_that_is_not_listed_is_not_asked",
        "unit/test_allowed_hosts.py::test_a_login_goes_to_no_prometheus_that_only_quotaform_yaml_names",
        "unit/test_oauth.py::test_the_token_of_a_command_goes_to_no_server_that_only_a_repository_names",
    ),
    "A server given on the command line is the operator's choice": (
        "unit/test_allowed_hosts.py::test_a_server_of_the_command_line_is_the_operators_choice",
    ),
    "limits all connections to Kafka, token endpoints, webhooks, comments, metrics, Prometheus and JMX": (
        "unit/test_oauth.py::test_a_token_endpoint_that_is_not_listed_is_not_asked",
        "unit/test_allowed_hosts.py::test_brokers_that_the_cluster_names_are_held_to_the_list",
        "unit/test_allowed_hosts.py::test_requests_over_http_and_their_proxies_are_held_to_the_list",
        "unit/test_allowed_hosts.py::test_metrics_that_quotaform_yaml_names_are_held_to_the_list",
        "unit/test_allowed_hosts.py::test_no_java_is_started_for_a_host_that_is_not_listed",
    ),
    "(STS, IAM Identity Center) are asked only if they are listed, through a listed proxy": (
        "golden/test_logins.py::test_this_is_sent_to_log_in_or_refused_in_these_words",
    ),
    "a signature is valid for one host, and for connecting to Kafka alone": (
        "unit/test_msk_iam.py::test_a_broker_finds_the_signature_right",
    ),
    "An item is a name or an address": ("golden/test_decisions.py::test_this_follows_from_each_input",),
    "JmxTool reads only the classes of numbers, names and errors": (
        "unit/test_sandbox_parts.py::test_the_reader_of_jmx_takes_few_classes_from_few_jars",
    ),
    "Whether another variable exists is not revealed": (
        "unit/test_variable.py::test_a_variable_that_the_operator_does_not_allow_is_not_read",
    ),
    "Variables are read only for clusters that are used": (
        "unit/test_config.py::test_variables_stay_as_they_are_written_until_the_cluster_is_reached",
        "unit/test_cluster_address.py::test_a_cluster_without_variables_needs_none",
    ),
    "contain the reference, not the value": (
        "unit/test_cluster_address.py::test_no_failure_to_connect_shows_what_a_variable_holds",
        "unit/test_password_canary.py::test_a_password_in_quotaform_yaml_shows_nowhere",
    ),
    "The output of `quotaform doctor` contains no secrets": (
        "workflow/test_doctor.py::test_what_variables_hold_is_not_printed",
        "kafka/test_doors.py::test_a_way_in",
    ),
    "is printed escaped": (
        "unit/test_hostile_text.py::test_a_configuration_forges_no_output",
        "unit/test_hostile_text.py::test_a_quotas_file_forges_no_output",
        "unit/test_hostile_text.py::test_an_argument_forges_no_output",
        "unit/test_hostile_text.py::test_names_of_files_and_folders_forge_no_output",
        "unit/test_stream.py::test_what_could_do_harm_is_escaped_on_its_way_out",
    ),
    "A CSV cell cannot contain a formula": ("unit/test_csv_cell.py::test_a_name_that_misleads_is_a_json_string",),
    "Completion offers only valid cluster names": (
        "unit/test_security_promises.py::test_completion_offers_nothing_that_a_shell_would_evaluate",
    ),
    "Run the installed command `quotaform`, or `python -P -m quotaform`": (
        "unit/test_security_promises.py::test_a_package_of_the_same_name_in_the_current_directory_is_not_run",
    ),
    "names are printed escaped and are never executed or expanded": (
        "unit/test_hostile_text.py::test_what_is_on_a_cluster_forges_no_output",
        "unit/test_hostile_text.py::test_the_words_of_a_broker_forge_no_output",
    ),
    "`import` writes only into the quotas directory": ("golden/test_stories.py::test_this_is_said_after_all_that",),
    "is checked against its digest, its JSON Schema and its own contents": (
        "golden/test_decisions.py::test_this_follows_from_each_input",
        "unit/test_planfile_mutation.py::test_no_value_in_any_place_is_an_internal_error",
        "golden/test_decisions.py::test_this_follows_from_each_input",
        "unit/test_hostile_text.py::test_a_document_forges_no_output",
    ),
    "which covers every change, the cluster and the blocking findings": (
        "golden/test_decisions.py::test_this_follows_from_each_input",
        "unit/test_planfile_mutation.py::test_what_blocks_a_plan_is_part_of_its_id",
        "unit/test_apply.py::test_another_plan_id_is_stale",
    ),
    "another cluster is rejected before anything is written": (
        "unit/test_check_plan.py::test_another_cluster_than_the_pinned_one_blocks",
        "unit/test_apply.py::test_a_plan_for_another_cluster_is_refused",
    ),
    "No message recommends weaker encryption": (
        "golden/test_connecting.py::test_half_a_tls_handshake_or_garbage_is_one_sentence_in_time",
        "golden/test_connecting.py::test_this_is_said_when_no_connection_is_made",
    ),
    "A response is limited to 30 seconds in total and to 1 MiB": (
        "unit/test_http.py::test_a_server_that_sends_a_byte_at_a_time_is_given_up",
        "golden/test_reading.py::test_this_is_read_or_refused_in_these_words",
    ),
    "Certificates are always verified": ("unit/test_http.py::test_another_certificate_is_refused",),
    "Redirects are followed only on the same server": (
        "unit/test_http.py::test_a_redirect_to_another_host_is_not_followed_and_gets_no_token",
    ),
    "nor unencrypted except to the local machine": ("unit/test_http.py::test_a_token_is_sent_encrypted_or_not_at_all",),
    "Tokens are read only from environment variables": (
        "unit/test_comment.py::test_the_token_comes_from_the_environment",
    ),
    "Errors name a server by scheme, host and port": (
        "unit/test_http.py::test_a_url_shows_its_origin_alone",
        "unit/test_http.py::test_a_server_that_hangs_is_given_up",
        "golden/test_comments.py::test_comments_are_written_like_this",
    ),
    "Only comments written by the user of the token are updated": (
        "golden/test_comments.py::test_comments_are_written_like_this",
    ),
    "no option of `quotaform` takes a password": (
        "unit/test_security_promises.py::test_no_option_takes_a_password",
        "golden/test_logins.py::test_this_is_sent_to_log_in_or_refused_in_these_words",
    ),
    "does not repeat values of its command line in errors": (
        "unit/test_password_canary.py::test_a_password_in_any_place_of_a_scram_command_line_is_not_repeated",
        "unit/test_password_canary.py::test_a_password_in_an_address_is_not_repeated",
    ),
    "are shown only if they are numbers or known words": (
        "unit/test_password_canary.py::test_a_password_in_the_value_of_any_property_shows_nowhere",
        "unit/test_client_properties_attack.py::test_a_value_is_never_repeated_whatever_its_key",
    ),
    "in a directory that only its user can read": (
        "unit/test_sandbox_safety.py::test_names_that_others_have_made_stop_no_sandbox",
    ),
}
"""Words of docs/security.md, and the tests of what they say."""


@cache
def functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def promises() -> str:
    """Return what docs/security.md says of attackers, on one line."""
    text = (ROOT / "docs/security.md").read_text(encoding="utf-8")
    return " ".join(text.partition("## What an attacker can do")[2].partition("## CI")[0].split())


@pytest.mark.parametrize("words", PROMISES)
def test_a_promise_is_made_and_tested(words: str) -> None:
    assert words in promises()
    for test in PROMISES[words]:
        path, _, name = test.partition("::")
        assert name in functions(path), test


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quotas.d").mkdir()
    (tmp_path / "quotas.d/a.yaml").write_text("quotas: []\n")
    return tmp_path


def configure(folder: Path, **cluster: object) -> None:
    (folder / "quotaform.yaml").write_text(json.dumps({"clusters": {"lab": cluster}}))


@pytest.mark.parametrize(
    "content",
    [
        f"root:{SECRET}:19000:0:99999:7:::\n",
        f"HOME=/\0TOKEN={SECRET}\0",
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{SECRET}\n-----END OPENSSH PRIVATE KEY-----\n",
        f'{{"auths": {{"registry.example": {{"auth": "{SECRET}"}}}}}}',
        f'["{SECRET}"]',
        f'"{SECRET}"',
        f"[default]\naws_secret_access_key = {SECRET}\n",
        f"export TOKEN={SECRET}\n",
        f"password: {SECRET}\n",
        SECRET,
    ],
)
def test_no_message_shows_the_content_of_another_file(
    content: str, folder: Path, tmp_path_factory: pytest.TempPathFactory, capfd: pytest.CaptureFixture[str]
) -> None:
    """A pull request may name any file of the machine where client properties, a snapshot or a store are expected."""
    other = tmp_path_factory.mktemp("machine") / "file"
    other.write_text(content)
    store = folder / "client.properties"
    for kind in ("truststore", "keystore"):
        store.write_text(f"security.protocol=SSL\nssl.{kind}.type=PEM\nssl.{kind}.location={other}\n")
        configure(folder, bootstrap_servers=["127.0.0.1:1"], command_config="client.properties")
        assert run(["plan", "-v"]) == 3
    configure(folder, bootstrap_servers=["127.0.0.1:1"], command_config=str(other))
    assert run(["plan", "-v"]) == 3
    configure(folder, snapshot=str(other))
    assert run(["plan", "-v"]) == 3
    printed = "".join(capfd.readouterr())
    assert printed.count("error: ") >= 4
    assert SECRET not in printed


def test_a_reference_in_a_name_is_text(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the files and on the cluster, even of a variable that may be read."""
    monkeypatch.setenv("QUOTAFORM_ENV", "QUOTAFORM_SECRET")
    monkeypatch.setenv("QUOTAFORM_SECRET", SECRET)
    name = "${env:QUOTAFORM_SECRET}"
    entry = {"match": {"user": name}, "values": {PRODUCER: 1}, "owner": name, "reason": name}
    (folder / "quotas.d/a.yaml").write_text(json.dumps({"quotas": [entry]}))
    (folder / "lab.json").write_text(
        json.dumps(
            {
                "format_version": "1.0",
                "kind": "quotaform.snapshot",
                "cluster": {"name": "lab", "id": "id"},
                "captured_at": "2026-01-01T00:00:00Z",
                "quotas": [{"entity": {"client-id": name}, "values": {PRODUCER: 1}}],
            }
        )
    )
    configure(folder, snapshot="lab.json")
    for line in ("plan --show-unmanaged", "drift", "describe", f'explain user="{name}"', f"resolve --name user={name}"):
        assert run(line.split()) in (0, 2)
        printed = "".join(capsys.readouterr())
        assert name in printed
        assert SECRET not in printed


@pytest.mark.parametrize("name", ["$(touch marker)", "`touch marker`", "a;b", "a b", "*", "x\ny", "\x1b[31m", "-x"])
def test_completion_offers_nothing_that_a_shell_would_evaluate(name: str, folder: Path) -> None:
    """The script for zsh evaluates what it is given."""
    context: Any = SimpleNamespace(params={})
    (folder / "quotaform.yaml").write_text(json.dumps({"clusters": {"lab": {"snapshot": "a"}}}))
    assert complete_cluster(context, "") == ["lab"]
    (folder / "quotaform.yaml").write_text(
        json.dumps({"clusters": {"lab": {"snapshot": "a"}, name: {"snapshot": "a"}}})
    )
    assert complete_cluster(context, "") == []


@pytest.mark.slow
def test_a_package_of_the_same_name_in_the_current_directory_is_not_run(folder: Path) -> None:
    for name in ("quotaform/__init__.py", "quotaform/__main__.py", "yaml.py", "sitecustomize.py", "typer.py"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("open('marker', 'w')\n")
    (folder / "lab.pth").write_text("import os; open('marker', 'w')\n")
    script = Path(sys.executable).with_name("quotaform")
    for command in ([sys.executable, "-P", "-m", "quotaform"], [str(script)]):
        done = subprocess.run([*command, "validate"], cwd=folder, capture_output=True, text=True, check=False)
        assert "\nValid: " in f"\n{done.stdout}", done.stderr
        assert not (folder / "marker").exists()


def test_no_option_takes_a_password() -> None:
    names = {name for command in LEAVES.values() for each in command.params for name in each.opts}
    assert {name for name in names if "pass" in name or "secret" in name} == {"--password-file", "--password-env"}
