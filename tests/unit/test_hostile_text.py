"""One hostile text in every place where a user, a repository or a cluster can put one: no output forges anything.

What went wrong: newlines, escapes of terminals and commands of CI runners came out raw from many messages and tables,
so that a pull request, or whoever names a client-id, could write lines of its own into the log of a pipeline.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from inspect import Parameter, signature
from itertools import product
from pathlib import Path
from typing import Any, Final
from unittest.mock import Mock

import pytest
import yaml

from quotaform.cli.client_quotas import build_parser
from quotaform.cli.client_quotas import run as run_client_quotas
from quotaform.cli.console import make_harmless
from quotaform.cli.main import run
from quotaform.cluster.gateway import dump_snapshot
from quotaform.model import errors
from quotaform.model.entity import Entity
from quotaform.model.errors import ClusterError, EngineError, QuotaformError
from quotaform.model.finding import Finding, Location, Severity
from quotaform.model.quotas import Snapshot
from quotaform.model.text import is_annotation
from quotaform.plan.receipt import RECEIPT_LISTS
from quotaform.plan.records import PLAN_LISTS
from quotaform.report.format import FORMATS
from tests import builder
from tests.builder import CONSUMER, PRODUCER
from tests.command_line import COMMANDS, LEAVES, REQUIRED
from tests.markdown import ROOT, read_markdown
from tests.scripted_gateway import Answer, ScriptedGateway
from tests.unit.test_model import error_classes

pytestmark = pytest.mark.exhaustive

HOSTILE: Final = "x\n::error::boom\r\x1b[31m\u202e\x85##[error]"
OTHERS: Final = [
    "a|b", r"a\|b", "`", "```", "@here", "@org/team", "<!--", "-->", "[a](http://b)", "</details>", "%0A::x",
]  # fmt: skip
"""What Markdown, commands of CI runners and JSON take for more than a name."""
SHAPES: Final = ("{}", "user={}", f"{PRODUCER}={{}}", "{}=1", "json={}")
"""How a value of an option may hold it."""

ALLOWED: Final = "--allow change-factor --allow to-unlimited --allow delete=9 --allow update=9 --allow default-entity"
"""What lets a cluster be changed, whatever the change is."""

STARTS_KAFKA: Final = ("quotaform sandbox start", "quotaform demo")

CONFIG, QUOTAS = (
    yaml.safe_load((ROOT / f"tests/data/hostile/{name}.yaml").read_text()) for name in ("quotaform", "quotas")
)
LIVE: Final = {
    Entity(user="a"): {PRODUCER: 1.0},
    Entity(user=HOSTILE): {PRODUCER: 2.0, HOSTILE: 3.0},
    Entity(client_id=HOSTILE): {PRODUCER: 2.0},
    Entity({HOSTILE: HOSTILE}): {PRODUCER: 2.0},
    Entity(user="=1+1"): {PRODUCER: 4.0},
}


@dataclass
class Place:
    """A folder, and the cluster that everything talks to.

    The safety net at the output is taken away: messages and views have to be inert by themselves.
    """

    path: Path
    gateway: ScriptedGateway
    capsys: pytest.CaptureFixture[str]
    printed: str = ""

    def run(self, *arguments: str) -> int:
        """Run a command and look at everything that it printed."""
        code = run([*arguments])
        self.require_inert(arguments)
        return code

    def require_inert(self, arguments: object) -> None:
        printed = self.capsys.readouterr()
        self.printed = printed.out
        wants_commands = isinstance(arguments, tuple) and "github" in arguments
        for line in (printed.out + printed.err).split("\n"):
            assert line.isprintable(), (arguments, line)
            is_meant = wants_commands and is_annotation(line) and "::boom" not in line.partition(" ")[0]
            assert is_meant or not line.strip().startswith("::"), (arguments, line)
        # In JSON it is broken at the output alone, where documents and files would not be the same text otherwise.
        assert "##[" not in make_harmless(printed.out + printed.err), arguments
        assert "internal error" not in printed.err, (arguments, printed.err)

    def write(self, name: str, content: object) -> None:
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Place:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PW", "correct horse")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("quotaform.cli.console.make_harmless", lambda text, **_: text)
    gateway = ScriptedGateway({Entity(user="a"): {PRODUCER: 1.0}})
    monkeypatch.setattr("quotaform.cluster.kafka.KafkaGateway.connect", lambda *_, **__: gateway)
    # Not `open_scram`: a module that is imported first in such a test would keep it.
    unreachable = Mock(side_effect=ClusterError(f"no {HOSTILE}"))
    monkeypatch.setattr("quotaform.cluster.scram.ScramGateway.connect", unreachable)
    # Six commands started a session per option: what they print of one is for tests/spark.
    monkeypatch.setattr("quotaform.fleet.session.classic_session", Mock(side_effect=EngineError(f"no {HOSTILE}")))
    here = Place(tmp_path, gateway, capsys)
    here.write("quotaform.yaml", CONFIG)
    here.write("quotas.d/a.yaml", QUOTAS)
    here.write("client.properties", "security.protocol=PLAINTEXT\n")
    taken = Snapshot(cluster_name="old", cluster_id="id", captured_at="2026-11-20T09:12:44Z", quotas={})
    here.write("old.json", dump_snapshot(taken))
    assert here.run("validate") == 0
    return here


@pytest.mark.parametrize("path", [path for path in LEAVES if path not in STARTS_KAFKA])
def test_an_argument_forges_no_output(path: str, place: Place) -> None:
    """Every option and argument of every command, in every shape; a new option is covered by itself."""
    run_with_each_option(path, place, SHAPES)


def run_with_each_option(path: str, place: Place, shapes: Sequence[str]) -> None:
    words = path.split()[1:]
    required = REQUIRED.get(path, ())
    cluster = ("--cluster", "old") if any("--cluster" in each.opts for each in LEAVES[path].params) else ()
    place.run(*words, *required, *cluster, f"--{HOSTILE}")
    place.run(*words, *required, *cluster, HOSTILE)
    for parameter in LEAVES[path].params:
        if getattr(parameter, "is_flag", False):
            place.run(*words, *required, f"{parameter.opts[0]}={HOSTILE}")
            continue
        is_argument = parameter.param_type_name == "argument"
        for shape in shapes:
            given = [shape.format(HOSTILE)] if is_argument else [f"{parameter.opts[0]}={shape.format(HOSTILE)}"]
            kept = () if is_argument or parameter.name == "cluster" else cluster
            place.run(*words, *([] if is_argument else required), *kept, *given)


def test_an_unknown_command_forges_no_output(place: Place) -> None:
    assert place.run(HOSTILE) == 64
    groups = [path for path in COMMANDS if path not in LEAVES]
    for path in groups:
        assert place.run(*path.split()[1:], HOSTILE) == 64
        assert place.run(*path.split()[1:], f"--{HOSTILE}") == 64


def test_an_argument_of_kafka_client_quotas_forges_no_output(place: Place) -> None:
    options = [name for action in build_parser()._actions for name in action.option_strings]
    for option, shape, operation in product(options, SHAPES, ("--describe", "--resolve", "--alter")):
        arguments = ["--bootstrap-server", "127.0.0.1:1", operation, f"{option}={shape.format(HOSTILE)}"]
        run_client_quotas(arguments)
        place.require_inert(arguments)
    run_client_quotas([f"--{HOSTILE}", HOSTILE])
    place.require_inert("unknown")


def spoilt(document: Any) -> Iterator[Any]:
    """Yield the document once for each text and key in it, which is replaced by the hostile text."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield {(HOSTILE if each == key else each): document[each] for each in document}
            yield from ({**document, key: each} for each in spoilt(value))
    elif isinstance(document, list):
        for index, value in enumerate(document):
            yield from ([*document[:index], each, *document[index + 1 :]] for each in spoilt(value))
    elif isinstance(document, str):
        yield HOSTILE
        yield f"{document}{HOSTILE}"


@pytest.mark.parametrize(
    ("name", "document", "lines"),
    [
        ("quotaform.yaml", CONFIG, ["validate", "plan --cluster lab", "apply --cluster tls --auto-approve"]),
        ("quotas.d/a.yaml", QUOTAS, ["validate", "plan --cluster old", "explain user=a"]),
    ],
)
def test_a_file_of_a_repository_forges_no_output(name: str, document: Any, lines: list[str], place: Place) -> None:
    for content in spoilt(document):
        place.write(name, content)
        for line in lines:
            place.run(*line.split())


def test_what_is_no_yaml_forges_no_output(place: Place) -> None:
    for form in ("quotas: [{}", "a: b: {}", "quotas: !{} []", "&{}", "a: \x1b", "? {}"):
        for name in ("quotas.d/a.yaml", "quotaform.yaml"):
            place.write(name, form.format(HOSTILE))
            place.run("validate")
            place.run("plan", "--cluster", "old")


def test_names_of_files_and_folders_forge_no_output(place: Place) -> None:
    place.write(f"quotas.d/{HOSTILE}.yaml", QUOTAS)
    place.write(f"{HOSTILE}/quotaform.yaml", CONFIG)
    place.write(f"{HOSTILE}/b.yaml", QUOTAS)
    place.write(f"quotas.d/{HOSTILE}/b.yaml", QUOTAS)
    place.write("::error::d/b.yaml", {"quotas": [{"match": {"usr": 1}}]})
    place.write(f"{HOSTILE}.json", {"kind": HOSTILE})
    for directory in ((), (HOSTILE,), ("::error::d",)):
        for command in ("validate", "plan", "drift", "explain user=a"):
            place.run(*command.split(), *directory, "--cluster", "old")
    for command in ("show", "apply", "resolve --name user=a --plan", "plan --snapshot"):
        place.run(*command.split(), f"{HOSTILE}.json")
    (place.path / f"quotas.d/{HOSTILE}.yaml").unlink()
    for path in (place.path / f"quotas.d/{HOSTILE}").iterdir():
        path.unlink()
    (place.path / f"quotas.d/{HOSTILE}").rmdir()
    for written in ("snapshot --output", "import --output", "plan --out", "apply --auto-approve --receipt"):
        place.run(*written.split(), f"{HOSTILE}.out", "--cluster", "lab")


@pytest.mark.parametrize("kind", ["plan", "snapshot", "receipt"])
def test_a_document_forges_no_output(kind: str, place: Place) -> None:
    assert place.run("plan", "--cluster", "lab", "--out", "plan.json", *ALLOWED.split()) == 0
    assert place.run("snapshot", "--cluster", "lab", "--output", "snapshot.json") == 0
    assert place.run("apply", "plan.json", "--receipt", "receipt.json", "--auto-approve") == 0
    lines = {
        "plan": ("show plan.json",),
        "snapshot": ("describe --snapshot snapshot.json --cluster lab", "plan --snapshot snapshot.json --cluster lab"),
        "receipt": ("show receipt.json", "plan --revert receipt.json"),
    }
    document = json.loads((place.path / f"{kind}.json").read_text())
    for content in spoilt(document):
        place.write(f"{kind}.json", content if kind == "snapshot" else sealed(content))
        for line in lines[kind]:
            place.run(*line.split())


def sealed(document: dict[str, Any]) -> Any:
    """Return a plan or a receipt as whoever changed it would hand it on: with the digest of what it holds now."""
    try:
        return builder.sealed(document, {*PLAN_LISTS, *RECEIPT_LISTS})
    except (TypeError, ValueError, KeyError, AttributeError):
        return document


def test_client_properties_forge_no_output(place: Place) -> None:
    escaped = json.dumps(HOSTILE)[1:-1]
    names = """
        security.protocol sasl.mechanism ssl.truststore.location ssl.truststore.type client.id sasl.jaas.config
        request.timeout.ms ssl.enabled.protocols ssl.cipher.suites bootstrap.servers
    """
    keys = (escaped, *names.split())
    for key, protocol in product(keys, ("SSL", "SASL_SSL")):
        place.write("client.properties", f"security.protocol={protocol}\n{key}={escaped}\n")
        place.run("plan", "--cluster", "tls")


FORMATS_OF: Final[Mapping[str, str]] = {
    "plan": "plan",
    "drift": "drift",
    "describe": "describe",
    "resolve --name user=b": "resolve",
    "resolve --from requests.csv": "resolve",
    "alter user=a --add producer_byte_rate=5": "alter",
    "alter user=a --add producer_byte_rate=5 --validate-only": "alter",
    f"apply --auto-approve {ALLOWED}": "receipt",
}


@pytest.mark.parametrize("line", FORMATS_OF)
def test_what_is_on_a_cluster_forges_no_output(line: str, place: Place) -> None:
    """Names, keys, ids, and the words in which a broker refuses."""
    place.write("requests.csv", 'user,client_id\n"=1+1",x\n"a\n::error::b",y\n')
    for form in FORMATS[FORMATS_OF[line]]:
        place.gateway.quotas = dict(LIVE)
        place.gateway._cluster_id = "3JxQ0v7pT2a"
        place.run(*line.split(), "--format", form, "--cluster", "lab")
        place.gateway._cluster_id = HOSTILE
        place.run(*line.split(), "--format", form, "--cluster", "lab")
        place.run(*line.split(), "--format", form, "--cluster", "tls", "-v")


@pytest.mark.parametrize("name", [HOSTILE, *OTHERS])
def test_no_name_breaks_out_of_any_format(name: str, place: Place) -> None:
    """A name in the files and on the cluster, as an owner and a reason, in every format of every subject."""
    entry = {"match": {"user": name}, "values": {PRODUCER: 5}, "owner": name, "reason": name}
    place.write("quotas.d/a.yaml", {"quotas": [entry, {"match": {"user": "u", "client-id": name}, "state": "absent"}]})
    for line, subject in FORMATS_OF.items():
        if "requests.csv" in line:
            continue
        for form in FORMATS[subject]:
            place.gateway.quotas = {
                Entity(user="u", client_id=name): {PRODUCER: 1.0},
                Entity(user=name): {CONSUMER: 1.0},
            }
            place.run(*line.split(), "--format", form, "--cluster", "lab")
            if form == "markdown" and place.printed:
                document = read_markdown(place.printed)
                assert (document.html, document.links, document.references) == ([], [], [])
                assert all(len(set(table)) == 1 for table in document.tables)
            elif form in ("sarif", "gitlab", "json"):
                json.loads(place.printed)
    for form in FORMATS["validation"]:
        place.run("validate", "--format", form)


def test_what_is_read_from_a_cluster_forges_no_output(place: Place) -> None:
    place.gateway.quotas = dict(LIVE)
    for line in ("snapshot", "import --split prefix", "import --output another"):
        place.run(*line.split(), "--cluster", "lab")
    for line in ("--describe", "--resolve --names=user=a", "--describe --names=user=a"):
        run_client_quotas(["--bootstrap-server", "127.0.0.1:1", *line.split()])
        place.require_inert(line)


def test_the_words_of_a_broker_forge_no_output(place: Place) -> None:
    user = Entity(user="a")
    refused, unsure = Answer(refused={user: (42, HOSTILE)}), Answer(unsure={user: True})
    for answer in (refused, unsure):
        for line in FORMATS_OF:
            place.gateway._writes, place.gateway._validates = [answer], [answer]
            place.run(*line.split(), "--cluster", "lab")
            place.gateway._validates, place.gateway._writes = [], [answer]
            place.run(*line.split(), "--cluster", "lab")
            place.gateway._reads = [ClusterError(HOSTILE, remedy=HOSTILE, server=HOSTILE)]
            place.run(*line.split(), "--cluster", "lab")


FINDING: Final = Finding(rule="r", message=HOSTILE, severity=Severity.ERROR, location=Location(HOSTILE, 1, 2))
ARGUMENTS: Final[Mapping[str, Any]] = {
    "Finding": FINDING,
    "Sequence[Finding]": [FINDING],
    "Entity": Entity(user=HOSTILE),
    "Sequence[Entity]": [Entity(user=HOSTILE)],
    "Sequence[str]": [HOSTILE],
    "Mapping[str, str]": {HOSTILE: HOSTILE},
    "Mapping[Entity, str]": {Entity(user=HOSTILE): HOSTILE},
    "Mapping[Entity, Sequence[str]]": {Entity(user=HOSTILE): [HOSTILE]},
    "Mapping[tuple[Entity, str], str]": {(Entity(user=HOSTILE), HOSTILE): HOSTILE},
    "bool": True,
    "int": 7,
    "int | None": 7,
    "float": 7.0,
    "timedelta": timedelta(hours=7),
    "timedelta | None": timedelta(hours=7),
}
"""By the annotation of a parameter; any other takes a text."""


@pytest.mark.parametrize(
    "kind", [kind for kind in sorted(set(error_classes()), key=str) if kind.__module__ == errors.__name__]
)
def test_an_error_makes_its_own_attributes_inert(kind: type[QuotaformError]) -> None:
    """So no one who raises an error can forget it."""
    positional, named = [], {}
    for name, parameter in signature(kind).parameters.items():
        value = ARGUMENTS.get(str(parameter.annotation), HOSTILE)
        if parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.VAR_POSITIONAL):
            positional.append(value)
        else:
            named[name] = value
    for line in str(kind(*positional, **named)).split("\n"):
        assert line.isprintable()
        assert "##[" not in line
        assert not line.startswith("::")
