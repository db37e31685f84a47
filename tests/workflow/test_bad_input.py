"""Files that are wrong: each mistake with its place, its remedy and the exit code, and nothing written."""

from __future__ import annotations

import json

import pytest

from tests.workflow.command import Cluster, Repository

pytestmark = pytest.mark.workflow


def entry(match: str, values: str = "producer_byte_rate: 1MiB/s") -> str:
    return f"quotas:\n  - match: {match}\n    values: {{{values}}}\n"


def value(text: str, key: str = "producer_byte_rate") -> str:
    return entry("{user: a}", f"{key}: {text}")


def bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    return "\n".join([*lines, "quotas: *a9"]) + "\n"


NAME = "quotas.d/quotas.yaml:2:19"
VALUE = "quotas.d/quotas.yaml:3:34"

BAD_FILES: dict[str, tuple[str | bytes, str, str]] = {
    # what: (content, where it is told to be, fragments of what is said)
    "broken-yaml": ("quotas:\n  - match: {user: a\n    values: {}\n", "quotas.d/quotas.yaml:3:11", "not valid YAML"),
    "tab": ("quotas:\n\t- match: {user: a}\n", "quotas.d/quotas.yaml:2:1", "indent with spaces"),
    "duplicate-key": (
        "quotas:\n  - match: {user: a}\n    values: {producer_byte_rate: 1}\n    values: {producer_byte_rate: 2}\n",
        "quotas.d/quotas.yaml:4:5",
        'the key "values" is written twice; it is also at quotas.d/quotas.yaml:3:5',
    ),
    "duplicate-quota-key": (
        entry("{user: a}", "producer_byte_rate: 1, producer_byte_rate: 2"),
        "quotas.d/quotas.yaml:3:37",
        'the key "producer_byte_rate" is written twice',
    ),
    "two-documents": (
        f"{entry('{user: a}')}---\n{entry('{user: b}')}",
        "quotas.d/quotas.yaml:4:1",
        "second YAML document",
    ),
    "null-name": (entry("{user: null}"), NAME, "user has no name||write <default> for the default"),
    "no-name": (
        entry("{user: }"),
        "quotas.d/quotas.yaml:2:",
        "user has no name, perhaps because",
    ),
    "tilde-name": (entry("{user: ~}"), NAME, '"~" if that is the name'),
    "empty-name": (entry('{user: ""}'), NAME, "user has an empty name"),
    "octal-name": (entry("{user: 007}"), NAME, 'write "007"'),
    "number-name": (entry("{user: 12}"), NAME, 'YAML reads 12 as a number, not as a user name; write "12"'),
    "yes-name": (entry("{user: yes}"), NAME, 'YAML reads yes as a boolean, not as a user name; write "yes"'),
    "date-name": (entry("{client-id: 2026-12-31}"), "quotas.d/quotas.yaml:2:24", 'write "2026-12-31"'),
    "list-in-list": (entry("{user: [[a]]}"), "quotas.d/quotas.yaml:2:20", "a list cannot contain lists"),
    "empty-list": (entry("{user: []}"), NAME, "the list of user names is empty"),
    "unknown-field": (
        "quotas:\n  - match: {user: a}\n    values: {producer_byte_rate: 1}\n    onwer: team\n",
        "quotas.d/quotas.yaml:4:5",
        'unknown field "onwer"; did you mean owner?',
    ),
    "unknown-root-field": ("quota: []\n", "quotas.d/quotas.yaml:1:1", 'unknown field "quota"; did you mean quotas?'),
    "misspelt-key": (
        value("1MiB/s", "producer_byterate"),
        "quotas.d/quotas.yaml:3:14",
        'user=a||unknown quota key "producer_byterate"||did you mean producer_byte_rate?',
    ),
    "camel-case-key": (
        value("1", "requestPercentage"),
        "quotas.d/quotas.yaml:3:14",
        "did you mean request_percentage?",
    ),
    "misspelt-type": (entry("{client_id: a}"), "quotas.d/quotas.yaml:2:13", "did you mean client-id?"),
    "wrong-unit": (value("10MiBps"), VALUE, "user=a||producer_byte_rate||10MiBps||did you mean 10MiB/s?"),
    "bits": (value("10Mbit/s"), VALUE, "bits"),
    "fraction-of-a-byte": (value("1.5 B/s"), VALUE, "1.5 B/s||is not a whole number of bytes per second"),
    "fraction-of-a-kibibyte": (value("0.0001KiB/s"), VALUE, "is not a whole number"),
    "nan": (value("NaN"), VALUE, "user=a||producer_byte_rate||NaN||write unlimited"),
    "dot-nan": (value(".nan"), VALUE, "user=a||producer_byte_rate||.nan||write unlimited"),
    "infinity": (value(".inf"), VALUE, "write unlimited"),
    "zero": (
        value("0"),
        VALUE,
        "user=a||producer_byte_rate||not above 0||write unlimited for no limit, or omit the key to inherit one",
    ),
    "negative": (value("-1"), VALUE, "user=a||producer_byte_rate||-1||write unlimited"),
    "too-large": (value("1e400"), VALUE, "user=a||producer_byte_rate||1e400"),
    "beyond-long": (value("9223372036854775809"), VALUE, "user=a||producer_byte_rate||9223372036854775809"),
    "not-a-double": (value("9007199254740993"), VALUE, "user=a||producer_byte_rate||9007199254740993"),
    "null-value": (value("null"), VALUE, "there is no value; omit the key to inherit one, or write unlimited"),
    "boolean-value": (value("on"), VALUE, "on is a boolean, not a limit"),
    "hexadecimal-value": (value("0x10"), VALUE, "write it in plain digits"),
    "list-value": (value("[1]"), VALUE, "a list is not a limit"),
    "no-values": (entry("{user: a}", ""), "quotas.d/quotas.yaml:3:13", "user=a||has no values"),
    "nothing-declared": ("quotas:\n  - match: {user: a}\n", "quotas.d/quotas.yaml:2:5", "user=a||declares no values"),
    "no-match": ("quotas:\n  - values: {producer_byte_rate: 1}\n", "quotas.d/quotas.yaml:2:5", "has no match"),
    "absent-with-values": (
        f"{entry('{user: a}')}    state: absent\n",
        "quotas.d/quotas.yaml:3:5",
        "user=a||has state: absent, which does not allow values",
    ),
    "no-day": (f"{entry('{user: a}')}    expires: soon\n", "quotas.d/quotas.yaml:4:14", "write it as in 2026-12-31"),
    "no-such-day": (f"{entry('{user: a}')}    expires: 2026-02-30\n", "quotas.d/quotas.yaml:4:14", "is not a date"),
    "unknown-profile": (
        "quotas:\n  - match: {user: a}\n    profile: gold\n",
        "quotas.d/quotas.yaml:3:14",
        'unknown profile "gold"',
    ),
    "user-with-ip": (
        entry("{user: a, ip: 10.0.0.1}"),
        "quotas.d/quotas.yaml:2:22",
        "ip cannot be combined with user or client-id",
    ),
    "connections-of-a-user": (
        value("5", "connection_creation_rate"),
        "quotas.d/quotas.yaml:3:14",
        "connection_creation_rate is not valid for user=a",
    ),
    "bytes-of-an-ip": (
        entry("{ip: 10.0.0.1}"),
        "quotas.d/quotas.yaml:3:14",
        "producer_byte_rate is not valid for ip=10.0.0.1",
    ),
    "network": (
        entry("{ip: 10.0.0.0/8}", "connection_creation_rate: 5"),
        "quotas.d/quotas.yaml:2:17",
        "10.0.0.0/8 is a network",
    ),
    "host": (
        entry("{ip: localhost}", "connection_creation_rate: 5"),
        "quotas.d/quotas.yaml:2:17",
        "localhost is not an IP address",
    ),
    "mapped-address": (
        entry('{ip: "::ffff:10.0.0.1"}', "connection_creation_rate: 5"),
        "quotas.d/quotas.yaml:2:17",
        "write 10.0.0.1",
    ),
    "long-name": (
        entry(f"{{user: {'x' * 40_000}}}"),
        NAME,
        "this user name has 40000 bytes; Kafka's protocol allows at most 32767",
    ),
    "escaped-surrogate": (
        entry('{user: "a\\ud800"}'),
        "quotas.d/quotas.yaml:2:",
        "half of a surrogate pair is not a character",
    ),
    "surrogate-bytes": (b"quotas:\n  - match: {user: \xed\xa0\x80}\n", "quotas.d/quotas.yaml", "not UTF-8"),
    "latin-1": ("quotas:\n  - match: {user: é}\n".encode("latin-1"), "quotas.d/quotas.yaml", "not UTF-8||as UTF-8"),
    "utf-16": (entry("{user: a}").encode("utf-16"), "quotas.d/quotas.yaml", "UTF-16||as UTF-8"),
    "raw-control": ("quotas:\n  - match: {user: a\x07b}\n", "quotas.d/quotas.yaml:2:20", 'write it as "\\u0007"'),
    "alias-bomb": (bomb(), "quotas.d/quotas.yaml:", "the aliases of this file expand to more than"),
    "recursive-alias": ("quotas: &a [*a]\n", "quotas.d/quotas.yaml:1:13", "is part of the value that it refers to"),
    "unknown-alias": (entry("{user: *nobody}"), "quotas.d/quotas.yaml:2:19", "has no anchor &nobody before it"),
    "deep": (f"quotas: {'[' * 200}{']' * 200}\n", "quotas.d/quotas.yaml:1:", "levels deep"),
    "template": (
        entry("{user: {{ name }}}"),
        "quotas.d/quotas.yaml:2:",
        "is {{ … }} a template that was not rendered?",
    ),
    "tag": (entry("{user: !!python/name:os.system x}"), "quotas.d/quotas.yaml:2:", "is not supported"),
    "list-file": ("- a\n", "quotas.d/quotas.yaml", "must be a mapping"),
}


@pytest.mark.parametrize("mistake", BAD_FILES)
def test_a_mistake_in_a_file_is_told_with_its_place(offline: Repository, mistake: str) -> None:
    content, where, told = BAD_FILES[mistake]
    offline.write("quotas.d/quotas.yaml", content)
    seen = offline("validate")
    assert (seen.code, seen.err) == (3, ""), seen
    lines = [line for line in seen.out.splitlines() if all(part in line for part in told.split("||"))]
    assert lines, seen.out
    assert lines[0].startswith(where), seen.out
    assert ": error: " in lines[0]
    assert seen.last.endswith("found.")
    assert len(seen.out) < 3000, "a message does not repeat what is wrong with it at length"


@pytest.mark.parametrize("command", [["plan"], ["apply", "--auto-approve"], ["drift"], ["import"]], ids=" ".join)
def test_all_problems_of_all_files_stop_every_command(
    repository: Repository, cluster: Cluster, command: list[str]
) -> None:
    for number, (content, _, _) in enumerate(BAD_FILES.values()):
        repository.write(f"quotas.d/bad{number:02}.yaml", content)
    repository.quotas("  - match: {user: good}\n    values: {producer_byte_rate: 1MiB/s}\n", "good.yaml")
    seen = repository(*command)
    assert (seen.code, seen.out) == (3, "")
    assert seen.err.rstrip().endswith("problems found; nothing was sent to any cluster.")
    for number in range(len(BAD_FILES)):
        assert f"bad{number:02}.yaml" in seen.err
    assert cluster.read() == {}
    assert repository.receipts == []


def test_the_same_entity_in_two_files_is_told_with_both_places(offline: Repository) -> None:
    offline.quotas(entry("{user: a}"), "one.yaml")
    offline.quotas(entry("{user: [b, a]}"), "two.yaml")
    seen = offline("validate")
    assert seen.code == 3
    assert "quotas.d/two.yaml:2:5: error: user=a is declared twice; it is also at quotas.d/one.yaml:2:5" in seen.out
    assert seen.last == "1 problem found."


def test_problems_are_machine_readable(offline: Repository) -> None:
    offline.quotas(value("0"))
    seen = offline("validate", "--format", "json")
    assert seen.code == 3
    document = json.loads(seen.out)
    assert document["valid"] is False
    (problem,) = document["problems"]
    assert problem["location"] == {"file": "quotas.d/quotas.yaml", "line": 3, "column": 34}
    assert (problem["rule"], problem["severity"], problem["address"]) == ("bad-value", "error", "user=a")


def test_a_literal_default_needs_its_own_spelling(offline: Repository) -> None:
    offline.quotas(
        'quotas:\n  - match: {user: {name: "<default>"}}\n    values: {producer_byte_rate: 1}\n'
        '  - match: {user: "<default>"}\n    values: {producer_byte_rate: 2}\n'
    )
    offline.write("empty.json", EMPTY_SNAPSHOT)
    seen = offline("plan", "--snapshot", "empty.json", "--allow", "default-entity")
    assert seen.code == 0
    assert '# user="<default>" will be created' in seen.out
    assert "# user=<default> will be created" in seen.out


EMPTY_SNAPSHOT = json.dumps(
    {
        "format_version": "1.0",
        "kind": "quotaform.snapshot",
        "cluster": {"name": "lab", "id": "AAAAAAAAAAAAAAAAAAAAAA"},
        "captured_at": "2026-01-01T00:00:00Z",
        "quotas": [],
    }
)

HOSTILE = ["a\n::error::x", "%0A::error file=a::x", "a\x1b[31mb", "a\rb", "a\u2028b", "a\u202eb", "a\x00b"]


def test_hostile_names_are_inert_in_every_output(offline: Repository) -> None:
    names = ", ".join(json.dumps(name) for name in HOSTILE)
    offline.quotas(
        f"  - match: {{user: [{names}]}}\n    values: {{producer_byte_rate: 1}}\n"
        '    owner: "team\\n::error::x"\n    reason: "why\\x1b[31m\\n::warning::y"\n'
    )
    offline.write("empty.json", EMPTY_SNAPSHOT)
    for command in (
        ["validate"],
        ["validate", "--format", "json"],
        ["plan", "--snapshot", "empty.json", "--out", "plan.json"],
        ["plan", "--snapshot", "empty.json", "--format", "json"],
        ["drift", "--snapshot", "empty.json"],
        ["drift", "--snapshot", "empty.json", "--format", "json"],
        ["show", "plan.json"],
    ):
        seen = offline(*command)
        assert seen.code in (0, 2), seen
        assert not any(line.lstrip().startswith("::") for line in seen.said.splitlines())
        assert all(character == "\n" or character.isprintable() for character in seen.said), command


def test_a_hostile_file_name_is_inert(offline: Repository) -> None:
    offline.quotas(value("0"), "a\n::error::x.yaml")
    seen = offline("validate")
    assert seen.code == 3
    assert "\n::error" not in seen.out


BAD_CONFIGS = {
    "broken": ("clusters: {", "quotaform.yaml:", "not valid YAML"),
    "unknown-field": ("cluster: {}\n", "quotaform.yaml:1:1", 'unknown field "cluster"; did you mean clusters?'),
    "no-servers": ("clusters: {lab: {}}\n", "quotaform.yaml:1:12", "neither bootstrap_servers nor snapshot"),
    "bad-server": ("clusters: {lab: {bootstrap_servers: [b1]}}\n", "quotaform.yaml:1:38", '"b1" is not HOST:PORT'),
    "bad-port": ("clusters: {lab: {bootstrap_servers: ['b1:99999']}}\n", "quotaform.yaml:1:38", "is not HOST:PORT"),
    "bad-name": ("clusters: {'a b': {bootstrap_servers: ['b:1']}}\n", "quotaform.yaml:1:12", "the cluster name"),
    "bad-prune": ("prune: everything\n", "quotaform.yaml:1:8", "prune must be"),
    "misplaced": ("capacity: {request_percentage: 5}\n", "quotaform.yaml:1:1", "it belongs to clusters.NAME"),
    "variable": (
        "clusters: {lab: {snapshot: x, cluster_id: '${env:QUOTAFORM_X}'}}\n",
        "quotaform.yaml:1:",
        "${env:NAME} is expanded only in bootstrap_servers and command_config",
    ),
    "bad-profile": ("profiles: {gold: {producer_byte_rate: 0}}\n", "quotaform.yaml:1:39", "0 is not above 0"),
}


@pytest.mark.parametrize("mistake", BAD_CONFIGS)
def test_a_mistake_in_the_configuration_is_told_with_its_place(offline: Repository, mistake: str) -> None:
    content, where, told = BAD_CONFIGS[mistake]
    offline.quotas(entry("{user: a}"))
    offline.config(content)
    seen = offline("validate")
    assert seen.code == 3, seen
    assert any(line.startswith(where) and told in line for line in seen.out.splitlines()), seen.out


def test_a_directory_must_be_there_and_hold_files(offline: Repository) -> None:
    missing = offline("validate")
    assert missing.code == 3
    assert "quotas.d: error: the quotas directory does not exist" in missing.out
    (offline.path / "quotas.d").mkdir()
    empty = offline("validate")
    assert empty.code == 3
    assert "the quotas directory contains no YAML file" in empty.out
    named = offline("validate", "elsewhere")
    assert named.code == 3
    assert "elsewhere: error: the quotas directory does not exist" in named.out
    a_file = offline.write("file.txt", "x")
    assert "this is a file; give the quotas directory" in offline("validate", a_file.name).out
    offline.write("empty.json", EMPTY_SNAPSHOT)
    drift = offline("drift", "--snapshot", "empty.json")
    assert (drift.code, drift.out) == (3, "")
    assert "the quotas directory contains no YAML file" in drift.err
    planned = offline("plan", "--snapshot", "empty.json")
    assert planned.code == 4
    assert "contains no YAML file" in planned.out
    assert "Allow: --allow empty" in planned.out


def test_what_would_be_ignored_is_refused(offline: Repository) -> None:
    offline.quotas(entry("{user: a}"))
    offline.write("quotas.d/quotas.json", "{}")
    offline.write("quotas.d/prod/quotas.yaml", entry("{user: b}"))
    seen = offline("validate")
    assert seen.code == 3
    assert "quotas.d/quotas.json: error: only .yaml and .yml files are read" in seen.out
    assert 'the directory "prod" is not the name of a cluster and would be ignored' in seen.out


def test_a_file_that_cannot_be_read_is_told(offline: Repository) -> None:
    offline.quotas(entry("{user: a}"))
    (offline.path / "quotas.d" / "gone.yaml").symlink_to(offline.path / "nowhere.yaml")
    seen = offline("validate")
    assert seen.code == 3
    assert "quotas.d/gone.yaml: error: cannot be read: it is a link to a file that does not exist" in seen.out


def test_configuration_that_is_a_folder_cannot_be_read(offline: Repository) -> None:
    offline.quotas(entry("{user: a}"))
    (offline.path / "quotaform.yaml").mkdir()
    seen = offline("validate")
    assert seen.code == 3
    assert "quotaform.yaml: error: cannot be read: Is a directory" in seen.out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["plan", "--bogus"], "No such option: --bogus"),
        (["plan", "--cluster"], "requires an argument"),
        (["plan", "a", "b"], "unexpected extra argument"),
        (["plan", "--format", "xml"], "unknown format 'xml'; choose text, json"),
        (["plan", "--out", "xml=plan.xml"], "unknown format 'xml'"),
        (["plan", "--out", "json="], "a path is missing"),
        (["plan", "--color", "sometimes"], "unknown color 'sometimes'; choose auto, always or never"),
        (["plan", "--engine", "abacus"], "unknown engine 'abacus'; choose local, spark or auto"),
        (["plan", "--cluster", "lob"], 'unknown cluster "lob"; did you mean lab?'),
        (["apply", "--cluster", "lob", "--auto-approve"], 'unknown cluster "lob"; did you mean lab?'),
        (["validate", "--cluster", "lob"], 'unknown cluster "lob"; did you mean lab?'),
        (["plan", "--bootstrap-server", "127.0.0.1:1", "--snapshot", "x.json"], "cannot be combined; give one of them"),
        (["plan", "--command-config", "x"], "--command-config requires --bootstrap-server"),
        (["plan", "--bootstrap-server", "nonsense"], "nonsense"),
        (["import", "--split", "letters"], "unknown split 'letters'; choose none or prefix"),
        (["schema", "nothing"], "unknown schema 'nothing'; choose alter, "),
        (["show"], "Missing argument"),
        (["drift", "--exit-one"], "No such option: --exit-one"),
    ],
    ids=lambda item: " ".join(item) if isinstance(item, list) else "",
)
def test_wrong_usage_ends_with_64(offline: Repository, arguments: list[str], told: str) -> None:
    offline.config("clusters: {lab: {bootstrap_servers: ['127.0.0.1:1']}}\n")
    offline.quotas(entry("{user: a}"))
    seen = offline(*arguments)
    assert (seen.code, seen.out) == (64, ""), seen
    assert told in seen.err
    assert seen.err.startswith("Error: ")
    assert seen.err.count("\n") == 1, "one line"


def test_without_a_configuration_there_is_no_cluster(offline: Repository) -> None:
    offline.quotas(entry("{user: a}"))
    assert offline("validate").code == 0
    for command in (["plan"], ["apply", "--auto-approve"], ["drift"], ["import"], ["snapshot"]):
        seen = offline(*command)
        assert (seen.code, seen.out) == (64, ""), seen
        assert f"no cluster is given: {offline.path.resolve()}/quotaform.yaml does not exist" in seen.err


@pytest.mark.parametrize(("out", "code"), [("nowhere/plan.json", 1), ("quotas.d", 64), ("json=quotas.d/", 64)])
def test_a_plan_that_cannot_be_written_is_an_error(offline: Repository, out: str, code: int) -> None:
    offline.quotas(entry("{user: a}"))
    offline.write("empty.json", EMPTY_SNAPSHOT)
    seen = offline("plan", "--snapshot", "empty.json", "--out", out)
    assert seen.code == code, seen
    assert out.removeprefix("json=").rstrip("/") in seen.err
    assert not (offline.path / "nowhere").exists()
