"""What is made of each text, or said about it: `texts-*.txt` hold what somebody wrote and, below it, what came of it.

A line of input begins with `> `. What cannot be written so is one line of `>> ` with a Python literal, text or bytes.
Lines that begin with `#` say why a case is there. A new case is its input; `make golden` adds the rest.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from csv import reader as csv_rows
from dataclasses import astuple, fields
from datetime import date, timedelta
from io import StringIO
from json import dumps, loads
from pathlib import Path
from re import MULTILINE, split
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from quotaform.apply.report import render_receipt
from quotaform.cli.client_quotas import read_properties
from quotaform.cli.console import make_harmless
from quotaform.cluster.client.reader import from_properties
from quotaform.cluster.gateway import dump_snapshot, load_snapshot
from quotaform.cluster.report import render_quotas_csv
from quotaform.desired.approval import read_approvals
from quotaform.desired.config import Cluster, Config, choose_clusters, read_config
from quotaform.desired.format import format_source, respell
from quotaform.desired.loader import load_file
from quotaform.desired.policy.policy import check_policies
from quotaform.desired.policy.reader import read_policy
from quotaform.desired.tree import Layout, SourceFile
from quotaform.desired.writer import check_writable, render_quotas, spell_scalar, writable_values
from quotaform.desired.yaml.document import is_text
from quotaform.desired.yaml.reader import read_document
from quotaform.model import errors, rule
from quotaform.model.alteration import AlterResult, AlterRow, Outcome
from quotaform.model.entity import Entity, canonical_ip, desanitize, ip_problem, parse_address, sanitize
from quotaform.model.errors import InvalidFilesError, QuotaformError
from quotaform.model.finding import Finding
from quotaform.model.precedence import level_of
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Entry, check_pinned_id
from quotaform.model.rule import read_allowances
from quotaform.model.scope import Selection
from quotaform.model.server import parse_servers
from quotaform.model.settings import Capacity, LintSettings
from quotaform.model.units import is_writable, parse_value, render_value, spell_value
from quotaform.model.variable import expand
from quotaform.plan.check.lint import LintFacts, check_lints
from quotaform.plan.receipt import Result
from quotaform.plan.validate import check_users
from quotaform.report.text import csv_cell
from quotaform.repository.repository import Repository
from quotaform.repository.revision import WORK_TREE
from quotaform.resolve.report import render_explained
from quotaform.resolve.run import explain_entity
from quotaform.sandbox.configuration import render_properties
from tests.builder import PRODUCER, REQUEST, described, plan_of, receipt_of, result_of
from tests.command_line import COMMANDS
from tests.golden.conftest import Golden
from tests.golden.table import Lines, Text, check_told, tables_of
from tests.loading import check
from tests.markdown import markdown_of

TODAY = date(2026, 6, 1)
PROFILES = {"gold": {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0}, "silver": {}}
KNOWN = {"svc-orders", "svc-etl", "svc\n::error::order"}
COMMON = "quotas:\n  - match: {user: a}\n    values: {producer_byte_rate: 1, consumer_byte_rate: 2}\n"


def of_quotas(text: Text) -> Lines:
    """Yield what is wrong with a file of quotas, else what it declares."""
    desired, findings = check([SourceFile("f.yaml", text)], {}, TODAY)
    return findings or [f"{entity} {dict(entry.values)}" for entity, entry in desired.items()]


def of_layer(text: Text) -> Lines:
    """Return what is wrong with the file of a cluster, next to a common one that declares two values of user=a."""
    return check([SourceFile("a.yaml", COMMON), SourceFile("prod/a.yaml", text, "prod")], {}, TODAY)[1]


def files_in(text: Text) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each file of several, each of which has `--- NAME` above it."""
    parts = split(r"^--- (.*)\n", f"--- f.yaml\n{text!s}", flags=MULTILINE)[1:]
    return ((name, part) for name, part in zip(parts[::2], parts[1::2], strict=True) if part)


def of_sources(text: Text) -> Lines:
    """Yield what is wrong with some files, and what they declare and where.

    `--- NAME` is above each file, `--- LAYER/NAME` above one of a cluster; a file that is alone needs none, and
    quotaform.yaml may say the scope. Who reads them first makes no difference.
    """
    files = dict(files_in(text))
    scope = read_config(SourceFile("quotaform.yaml", files.pop("quotaform.yaml", "")), Path())[0].scope
    sources = [SourceFile(name, part, name.rpartition("/")[0] or None) for name, part in files.items()]
    desired, findings = check(sources, PROFILES, TODAY, scope)
    for finding in findings:
        assert finding.location
        assert finding.location.line
    yield from findings
    for entity, entry in desired.items():
        said = {"owner": entry.owner, "reason": entry.reason, "expires": entry.expires}
        more = "".join(f", {field} {value}" for field, value in said.items() if value)
        profile = entry.profile
        names = {profile.location: profile.name} if profile else {}
        places = {key: f"{names.get(each, '')}@{each}" for key, each in entry.provenances().items()}
        values = ", ".join(f"{key} {value!r} {places.get(key, '')}".rstrip() for key, value in entry.values.items())
        yield f"{entity} at {entry.location}: {entry.absent or values}{more}"
    again = check(sources[::-1], PROFILES, TODAY, scope)[0]
    assert {entity: entry.values for entity, entry in again.items()} == {
        entity: entry.values for entity, entry in desired.items()
    }


def of_unit(text: Text) -> Lines:
    """Yield which values of files probably lack a unit."""
    sources = [SourceFile(name, part, name.rpartition("/")[0] or None) for name, part in files_in(text)]
    desired = check(sources, PROFILES, TODAY)[0]
    facts = LintFacts(desired=desired, settings=LintSettings(), capacity=Capacity(), today=TODAY)
    return [found for found in check_lints(facts).findings if found.rule == "suspicious-unit"]


def of_explained(text: Text) -> Lines:
    """Yield what `explain` says of an entity with the files of a repository, and of which clusters it cannot.

    The address of the entity and names of clusters follow `--- `, without a file.
    """
    with TemporaryDirectory() as folder:
        asked = ""
        for name, part in files_in(f"{text!s}\n"):
            asked = name
            if part.strip():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(part, encoding="utf-8")
        address, *clusters = asked.split()
        repository = Repository.at(Path(folder, "quotas.d"), None)
        try:
            explained = explain_entity(repository, parse_address(address), clusters, TODAY)
        except QuotaformError as error:
            said = str(error).splitlines()
        else:
            failures = [f"{failed.cluster} failed: {failed.error}" for failed in explained.failed]
            said = "\n".join([render_explained(explained), *failures]).splitlines()
        yield from (line.replace(f"{folder}/", "") for line in said if line)


def of_users(text: Text) -> Lines:
    """Return what is said about the users of a file on a cluster where few users can log in."""
    return check_users("lab", check([SourceFile("f.yaml", text)], {}, TODAY)[0], KNOWN)


def of_config(text: Text) -> Lines:
    return read_config(SourceFile("quotaform.yaml", text), Path())[1]


def of_settings(text: Text) -> Lines:
    """Yield what a configuration says that has no mistakes, field by field, but for what is the default."""
    config, problems, *_ = read_config(SourceFile("quotaform.yaml", text), Path("FOLDER"))
    yield from problems
    for cluster in config.clusters.values():
        yield "cluster " + ", ".join(f"{field}={value!r}" for field, value in differing(cluster, Cluster(name="")))
        yield from (f"  source {astuple(source)}" for source in cluster.metrics.sources)
        yield from (f"  {url}" for url in [cluster.metrics.prometheus] if url)
    yield from (f"{field}: {value!r}" for field, value in differing(config, Config()) if field != "clusters")
    yield from (f"  {finding}" for finding in config.lints.profile_findings)


def differing(record: Any, default: Any) -> Iterator[tuple[str, object]]:
    """Yield the fields of a record in which it differs from another one."""
    for field in fields(record):
        value = getattr(record, field.name)
        if field.repr and value != getattr(default, field.name):
            yield field.name, str(value) if isinstance(value, Path) else value


def of_snapshot(text: Text) -> Lines:
    """Return what is wrong with a file of a snapshot, else the file as it is written."""
    return dump_snapshot(load_snapshot(str(text), "lab.json")).splitlines()


def of_scope(text: Text) -> Lines:
    """Yield for each entity whether it is in a scope, and in a selection of addresses."""
    document = yaml.safe_load(text)
    config, problems, *_ = read_config(SourceFile("quotaform.yaml", yaml.safe_dump(document["config"])), Path())
    yield from problems
    selection = Selection(select=tuple(document.get("select", ())), exclude=tuple(document.get("exclude", ())))
    assert selection.is_partial == bool({"select", "exclude"} & document.keys())
    for address in document["of"]:
        entity = parse_address(address)
        is_in = config.scope.contains(entity) and selection.contains(entity)
        yield f"{address} is {'in' if is_in else 'out'}"


def of_policy(text: Text) -> Lines:
    return read_policy(SourceFile("p.json", text))[1]


def of_violation(text: Text) -> Lines:
    """Return what a policy refuses of an entry whose request_percentage is unlimited, or why it is none."""
    policy, problems, _ = read_policy(SourceFile("p.json", text))
    alice = Entity(user="a")
    entry = Entry(alice, {PRODUCER: 1048576.0, REQUEST: 2147483647.0}, owner="crew")
    return problems if policy is None else check_policies({alice: entry}, [policy], "lab")


def of_approval(text: Text) -> Lines:
    """Return what is wrong with a file of approvals, or what it approves."""
    approvals, problems = read_approvals(SourceFile("approvals.yaml", text), TODAY)
    rows = approvals.items()
    return problems or [f"{at} {each.rule} of {each.target}: {each}, {dict(each.values)}" for each, at in rows]


def of_provenance(text: Text) -> Lines:
    """Yield where each value of a file comes from, which is the same when a mistake has the file read with details."""
    profiles = {"gold": {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0}}
    broken = f"{text!s}  - match: {{user: 007}}\n    values: {{producer_byte_rate: 1}}\n"
    found, again = (
        [
            f"{entry.entity} {key}: {each}{' by gold' if entry.profile and each == entry.profile.location else ''}"
            for entry in load_file(SourceFile("a.yaml", one), profiles).entries
            for key, each in entry.provenances().items()
        ]
        for one in (str(text), broken)
    )
    assert found == again
    return found


def of_receipt(text: str) -> Lines:
    """Yield what is said of an apply with these results; `SIGTERM` interrupted it."""
    words = text.split()
    results = [Result(word) for word in words if not word.isupper()]
    interrupted_by = next((word for word in words if word.isupper()), None)
    plan = plan_of({Entity(user=f"u{number}"): {PRODUCER: 1.0} for number in range(7)}, {})
    entities = [result_of(each, result) for each, result in zip(plan.changes, results, strict=False)]
    receipt = replace(receipt_of(plan), results=tuple(entities), interrupted_by=interrupted_by)
    done = receipt.digest
    yield f"complete {receipt.is_complete}, wrote {done.wrote_anything}, created {done.counts['create']}"
    yield f"exit code {done.exit_code}"
    yield from filter(None, render_receipt(receipt).splitlines())
    yield from (f"markdown: {line}" for line in markdown_of("receipt", receipt).splitlines() if "**" in line)


def of_yaml(text: Text) -> Lines:
    return read_document(SourceFile("f.yaml", str(text))).findings.all()


def of_tree(text: Text) -> Lines:
    """Yield the plain values of a file, and what is wrong with it."""
    document = read_document(SourceFile("f.yaml", str(text)))
    yield repr(document.root)
    yield from document.findings.all()


def of_written(text: Text) -> Lines:
    """Yield the file that is written of live quotas, and what is said about the others."""
    quotas = [(Entity(names), {key: float(value) for key, value in values.items()}) for names, values in loads(text)]
    written, findings = render_quotas(dict(quotas))
    yield from (f"| {line}".rstrip() for line in written.splitlines())
    yield from (f"{finding.address}: {finding.rule}" for finding in findings)


def of_formatted(text: Text) -> Lines:
    """Return a file as it is formatted, once and for all, or why it stays as it is; line ends but `\\n` are shown."""
    file = format_source(SourceFile("f.yaml", text))
    if file.problems:
        assert not file.is_changed
        return file.problems
    assert format_source(SourceFile("f.yaml", file.after)).after == file.after
    lines = [f"| {line}".rstrip(" ").replace("\r", "\\r") for line in file.after.removesuffix("\n").split("\n")]
    return lines if file.is_changed else ["is as it should be"]


def of_respelled(text: str) -> Lines:
    """Return how a value of a key is spelled when its file is formatted."""
    key, _, value = text.partition(" ")
    return [respell(key, value)]


def of_scalar(text: str) -> Lines:
    """Yield what YAML reads, what others take it for, and whether it is a text to all of them."""
    document = read_document(SourceFile("f.yaml", f"- {text}\n"))
    read = document.root[0] if isinstance(document.root, list) else None
    oddity = document.oddity(document.root, 0)
    yield f"{type(read).__name__} {read}{f'; others read {oddity}' if oddity else ''}"
    if is_text(text):
        yield "a text to every reader"


def of_name(text: str) -> Lines:
    return [spell_scalar(text)]


def of_value(text: str) -> Lines:
    key, _, written = text.partition(" ")
    return [parse_value(QUOTA_KEYS[key], written)]


def of_double(text: str) -> Lines:
    """Yield how a value of a key is written in a file, if it can be, and how it is shown."""
    key, _, value = text.partition(" ")
    row = QUOTA_KEYS.get(key)
    if row is not None:
        spelled = spell_value(row, float(value))
        assert is_writable(row, float(value)) == (spelled is not None)
        yield f"written {spelled}"
    yield f"shown {render_value(row, float(value))}"


def of_allowance(text: str) -> Lines:
    """Return what `--allow` allows, given once for each word, or why it does not."""
    return read_allowances(text.split() or [""])


def of_address(text: str) -> Lines:
    return [repr(parse_address(text))]


def of_ip(text: str) -> Lines:
    return [canonical_ip(text), ip_problem(text) or "is good"]


def of_entity(text: str) -> Lines:
    """Yield the address of an entity, and its place in the table of precedence, if it has one."""
    entity = Entity(loads(text))
    assert str(entity) == entity.address
    yield f"address {entity.address}"
    if level := level_of(entity):
        yield f"{level.number} {level.source}: the same {level.named}, the default for {level.defaults}"


def of_sanitized(text: str) -> Lines:
    """Yield how Kafka prints a name, and which name somebody means who gives it."""
    return [f"printed {sanitize(text)}", f"meant {desanitize(text)!r}"]


def of_server(text: str) -> Lines:
    """Return what is read as one server wherever it is written, or why it is none in each of the places.

    `[fe80::1%eth0]:9092` passed validate and not plan; `PLAINTEXT://b1:9092` the other way round.
    """
    config = SourceFile("f.yaml", f"clusters: {{lab: {{bootstrap_servers: [{dumps(text)}]}}}}")
    try:
        servers = parse_servers(text)
    except ValueError as error:
        with pytest.raises(InvalidFilesError, match="is not host:port"):
            from_properties({"bootstrap.servers": text})
        return [error, *read_config(config, Path())[1]]
    assert parse_servers(read_config(config, Path())[0].clusters["lab"].bootstrap_servers) == servers
    assert parse_servers(from_properties({"bootstrap.servers": text}).bootstrap_servers) == servers
    assert parse_servers(map(str, servers)) == servers
    return [f"{server.host!r} {server.port}" for server in servers]


def of_choice(text: str) -> Lines:
    """Return which clusters are chosen, of those behind the bar; `ALL` chooses all, nothing the only one."""
    asked, _, names = text.partition("|")
    config = Config(clusters={name: Cluster(name=name) for name in names.split()})
    patterns = asked.split()
    takes_all = patterns == ["ALL"]
    return [each.name for each in choose_clusters(config, [] if takes_all else patterns, takes_all=takes_all)]


def of_cell(text: str) -> Lines:
    """Return how a name is written in a table of comma-separated values, in which it stays on one line."""
    name = text
    table = render_quotas_csv(described({Entity(user=name): {PRODUCER: 1.0}}))
    [_, row] = csv_rows(StringIO(table))
    assert row[1] == csv_cell(name)
    assert table.count("\n") == 2
    assert "##[" not in table
    return [row[1]]


def of_completed(text: str) -> Lines:
    """Return what a shell is offered for the beginning of a value: `COMMAND | OPTION BEGINNING`."""
    path, _, typed = text.partition(" | ")
    option, _, begun = typed.partition(" ")
    command = COMMANDS[f"quotaform {path}"]
    [parameter] = [each for each in command.params if each.name == option]
    context = command.make_context(path, [], resilient_parsing=True)
    return [" ".join(item.value for item in parameter.shell_complete(context, begun))]


def of_pairs(text: str) -> Lines:
    """Return the properties of lists of pairs, in which commas may belong to a value."""
    return [read_properties(loads(text))]


def of_written_property(text: str) -> Lines:
    """Return a line of a properties file, which is ASCII, of a value."""
    return [render_properties({"a": loads(text)}).removesuffix("\n")]


def of_output(text: str) -> Lines:
    """Yield what is written of a text, and what is where colours are allowed; to escape it again changes nothing."""
    harmless = make_harmless(text)
    assert make_harmless(harmless) == harmless
    return [repr(harmless), repr(make_harmless(text, allows_colour=True))]


def of_live(text: str) -> Lines:
    """Yield what files cannot say of a live entity, and what they can."""
    names, values = loads(f"[{text}]")
    entity, held = Entity(names), {key: float(value) for key, value in values.items()}
    for finding in check_writable(entity, held):
        assert finding.address == entity.address
        yield f"{finding.rule} ({finding.severity}): {finding.message}"
    yield f"files hold {writable_values(entity, held)}"


def of_layout(text: str) -> Lines:
    """Yield which files of a directory count for a cluster, and what is wrong with where they are.

    The text is the files, then the clusters, the first of which is the one that is asked about (`-` for none). A file
    that begins with `?` is a link that leads nowhere.
    """
    names, _, clusters = text.partition(" | ")
    with TemporaryDirectory() as folder:
        directory = Path(folder) / "DIR"
        for name in names.split():
            path = directory / name.removeprefix("?")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to("nowhere") if name.startswith("?") else path.write_text("")
        asked, *others = clusters.split()
        layout = Layout(WORK_TREE.read_tree(directory), [name for name in (asked, *others) if name != "-"])
        cluster = None if asked == "-" else asked
        for source in (*layout.layer(None), *(layout.layer(cluster) if cluster else ())):
            yield f"{source.name.replace(f'{folder}/', '')} for {source.layer or 'all'}"
        yield from (str(problem).replace(f"{folder}/", "") for problem in layout.problems(cluster))


def of_reference(text: str) -> Lines:
    """Yield a text with its variables expanded, and why others are not."""
    variables = {"HOST": "b1", "PORT": "9092", "NESTED": "${env:HOST}", "QUOTAFORM_ENV": "HOST, PORT,NESTED,OTHER"}
    expansion = expand(text, variables)
    yield expansion.text
    yield from (f"{row.id}: {problem}" for row, problem in expansion.problems)


TABLES = tables_of(globals())


@pytest.mark.parametrize("name", TABLES)
def test_each_text_is_read_or_refused_in_these_words(golden: Golden, name: str) -> None:
    check_told(golden, f"texts-{name}.txt", TABLES[name])


ALICE, BOB = Entity(user="alice"), Entity(user="bob")
FINDING = Finding(rule="cluster-id", message="No.", blocking=True)


def test_each_error_says_and_carries_this_and_comes_whole_from_another_process(golden: Golden) -> None:
    names = {**vars(errors), "timedelta": timedelta, "Finding": Finding, "check_pinned_id": check_pinned_id}
    names |= {"ALICE": ALICE, "FINDING": FINDING, "DELETE": rule.DELETE}
    kinds: set[type] = set()

    def of_error(text: str) -> Iterator[str]:
        error = eval(text, names)  # noqa: S307 (our own)
        kinds.update(type(error).__mro__)
        again = pickle.loads(pickle.dumps(error))  # noqa: S301
        assert type(again) is type(error)
        assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))
        yield from f"{type(error).__name__} ({error.exit_code:d}): {error}".splitlines()
        yield from (f"  {name}: {value!r}" for name, value in vars(error).items())

    check_told(golden, "errors.txt", of_error)
    assert {kind for kind in vars(errors).values() if isinstance(kind, type) and "__init__" in vars(kind)} <= kinds


def test_an_error_with_more_words_keeps_what_it_carries() -> None:
    error = errors.AuthorizationError("you may not", remedy="grant it", cluster="lab")
    more = error.with_more(" (again)")
    assert type(more) is errors.AuthorizationError
    assert (str(more), vars(more)) == (f"{error} (again)", vars(error))


def test_refused_entities_and_their_code_are_in_the_error() -> None:
    rows = (
        AlterRow(ALICE, Outcome.OK),
        AlterRow(BOB, Outcome.REFUSED, 44, "too much"),
        AlterRow(ALICE, Outcome.NOT_SENT, None, "not sent"),
    )
    with pytest.raises(errors.PolicyError, match=r"^user=bob: too much \(and 1 more\)$") as caught:
        AlterResult(rows).raise_for_errors()
    assert (caught.value.code, caught.value.entities) == (44, (BOB, ALICE))


def test_a_changed_file_is_stale_and_is_a_saved_file() -> None:
    changed = errors.SavedFileChangedError("plan.json", "digest", "make a new plan")
    assert isinstance(changed, errors.SavedFileError)
    assert isinstance(changed, errors.StaleError)
