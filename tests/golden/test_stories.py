"""What commands do in a git repository: `story-*.txt` hold what was done there and what was said.

A line is one of the words of `Story`; `@1` is the first commit that was made, `<1>` where it is printed. The block that
begins with `each:` is what every later story of the file begins with.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir, closing
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256
from io import TextIOWrapper
from pathlib import Path
from socket import AI_NUMERICHOST, create_server, getaddrinfo
from time import monotonic
from typing import Any

import pyarrow
import pytest
from jsonschema import Draft7Validator
from msgspec import structs
from pyarrow import parquet

from quotaform.apply.ledger import cluster_lock
from quotaform.cli.client_quotas import run as client_quotas
from quotaform.cli.main import run
from quotaform.model.entity import Entity, parse_address
from quotaform.model.errors import ClusterError
from quotaform.model.quotas import Values
from quotaform.model.records.record import ClusterRecord
from quotaform.plan.plan import PlanOptions, PlanSource
from quotaform.plan.receipt import Result
from quotaform.plan.receipt_file import last_receipt_base, receipt_path, write_receipt
from quotaform.repository.repository import Repository
from quotaform.system.process import TerminatedError
from quotaform.usage.table.schema import USAGE
from tests.builder import HEADER, PRODUCER, dumped_receipt, plan_of, receipt_of
from tests.git_repository import ENVIRONMENT, GitRepository
from tests.golden.conftest import Golden
from tests.golden.table import check_told
from tests.golden.test_comments import EMPTY
from tests.http_server import HttpServer, Received, answer
from tests.loading import load_schema
from tests.markdown import ROOT
from tests.pull_request_server import TOKEN as COMMENT_TOKEN
from tests.pull_request_server import FakeGitHub
from tests.scripted_gateway import FINE, Answer, ScriptedGateway
from tests.terraform_tools import ATLANTIS_CHANGES, ATLANTIS_NO_CHANGES, read_apply, read_plan

MIB = 1048576
CONFIG = "clusters: {lab: {snapshot: lab.json}}\n"
CheckStory = Callable[[str, Callable[..., "Story"]], None]
SOON = (datetime.now(UTC) + timedelta(9)).date().isoformat()
LATEST = (datetime.now(UTC) + timedelta(30)).date().isoformat()
"""The last day that an approval may have."""
TOKEN = "T0K3N"
"""A part of the address of a webhook, which no command may print."""
TODAY = f"{datetime.now(UTC):%Y%m%d}"
ALLOWED = "--allow=delete=9 --allow=to-unlimited --allow=change-factor --allow=update=9"
MOMENTS = {
    "receipt": "quotaform.apply.ledger.ReceiptKeeper.keep",
    "replace": "pathlib.Path.replace",
    "settle": "quotaform.apply.ledger.note_end",
}
"""Before the receipt is completed, before the completed one takes its name, and before the started one is settled."""


class Killed(BaseException):
    """What nothing catches, as nothing catches SIGKILL."""


def numeric_only(*arguments: Any, **more: Any) -> Any:
    """Look up addresses; a name server of an attacker would be asked for the value of a variable."""
    assert more["flags"] & AI_NUMERICHOST
    return getaddrinfo(*arguments, **more)


def raise_gone() -> None:
    raise ClusterError("the connection was lost")


@cache
def validator_of(kind: str) -> Draft7Validator:
    return Draft7Validator(load_schema(kind))


def values_of(text: str) -> Values:
    """Return MiB/s, or several values by their keys."""
    if "=" not in text:
        return {PRODUCER: float(text) * MIB}
    return {key: float(value) for key, value in (each.split("=") for each in text.split(";"))}


def quotas_of(*said: str) -> dict[Entity, Values]:
    """Return quotas such as `a=1`, or by address, `user=a,client-id=b:1`, and by key, `user=a:KEY=5;KEY=1`."""
    quotas: dict[Entity, Values] = {}
    for each in said:
        name, _, values = each.rpartition(":" if ":" in each else "=")
        quotas[parse_address(name) if ":" in each else Entity(user=name)] = values_of(values)
    return quotas


def is_signed(received: Received) -> bool:
    """Return whether a notification has the signature of the key `key`."""
    moment, _, signature = received.headers.get("x-quotaform-signature", "").removeprefix("t=").partition(",v1=")
    return signature == hmac.new(b"key", f"{moment}.".encode() + received.body, sha256).hexdigest()


class Story:
    """A repository, and what is done there."""

    def __init__(
        self, path: Path, capsys: pytest.CaptureFixture[str], environment: pytest.MonkeyPatch, stack: ExitStack
    ) -> None:
        self.made = GitRepository.init(path / "repository")
        self.path, self.capsys, self.environment, self.stack = self.made.path, capsys, environment, stack
        self.hook: HttpServer | None = None
        self.commits: list[str] = []
        self.digests: dict[str, int] = {}
        self.expected = ""
        self.gateways: dict[str, ScriptedGateway] = {}
        self.addresses: dict[str, str] = {}
        self.file("quotaform.yaml", CONFIG)
        self.file(".gitignore", "*.json\n.quotaform/\n")
        environment.setattr("quotaform.apply.run._SETTLE_PAUSE", 0)
        self.live()

    def tell(self, line: str) -> Iterator[str]:
        word, _, rest = line.partition(" ")
        rest = re.sub(r"@(\d)", lambda found: self.commits[int(found[1]) - 1], rest)
        if self.hook is not None:
            rest = rest.replace("HOOK", f"{self.hook.url}/{TOKEN}")
        rest = rest.replace("EXPECTED", self.expected)
        words = {"ALLOWED": ALLOWED, "HERE": str(self.path), "RECEIPT": self.newest(), **self.addresses}
        for shown, stands_for in words.items():
            rest = re.sub(rf"\b{shown}\b", stands_for, rest)
        yield from getattr(self, word)(*shlex.split(rest)) or ()

    def file(self, name: str, text: str) -> None:
        r"""`file NAME 'TEXT\n'`; DAY is a day soon."""
        self.made.write(name, text.replace("\\n", "\n").replace("\\r", "\r").replace("DAY", SOON))

    def deep(self, name: str) -> None:
        """`deep NAME`: a file of very many lists in lists."""
        self.file(name, "[" * 100_000)

    def config(self, *lines: str) -> None:
        """`config LINE...`: a quotaform.yaml of one cluster, and these lines."""
        self.file("quotaform.yaml", CONFIG + "".join(f"{line}\n" for line in lines))

    def quotas(self, *users: str) -> None:
        """`quotas a=1 'b=state: absent'`: what the files declare, MiB/s or what an entry says; `FILE:` is another."""
        name = users[0][:-1] if users and users[0].endswith(":") else "all.yaml"
        said = (each.split("=", 1) for each in users if not each.endswith(":"))
        items = "".join(
            f"  - {{match: {{user: {user}}}, {f'values: {{{PRODUCER}: {what}MiB/s}}' if what.isdigit() else what}}}\n"
            for user, what in said
        )
        self.made.write(f"quotas.d/{name}", f"quotas:\n{items}" if items else "quotas: []\n")

    def live(self, *users: str) -> None:
        """`live a=1`: what the cluster holds."""
        quotas = [
            {"entity": {"user": user}, "values": {PRODUCER: int(what) * MIB}}
            for user, what in (each.split("=") for each in users)
        ]
        head = {"format_version": "1.0", "kind": "quotaform.snapshot", "captured_at": "2026-11-20T09:12:44Z"}
        self.made.write("lab.json", json.dumps({**head, "cluster": {"name": "lab", "id": "id"}, "quotas": quotas}))

    def snapshot(self, name: str, *users: str) -> None:
        """`snapshot NAME a=1`: what another cluster holds, with its name as its id."""
        self.live(*users)
        text = (self.made.path / "lab.json").read_text()
        self.file(f"{name}.json", text.replace('"lab"', f'"{name}"').replace('"id": "id"', f'"id": "{name}"'))

    def commit(self) -> None:
        """`commit`: commit everything but the snapshots."""
        self.made.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "change")

    def git(self, *arguments: str) -> None:
        self.made.git(*arguments)
        if arguments[0] in ("commit", "merge"):
            self.commits.append(self.made.git("rev-parse", "HEAD"))

    def move(self, source: str, target: str) -> None:
        (self.path / target).parent.mkdir(exist_ok=True)
        (self.path / source).rename(self.path / target)

    def remove(self, name: str) -> None:
        path = self.path / name
        path.rmdir() if path.is_dir() else path.unlink()

    def bytes(self, name: str, text: str, encoding: str) -> None:
        """`bytes NAME TEXT ENCODING`: a file in another encoding."""
        self.made.write(name, text.encode(encoding))

    def mode(self, name: str, mode: str) -> None:
        (self.path / name).chmod(int(mode, 8))

    def pack(self, name: str) -> None:
        """`pack NAME`: the policy of the examples is the only one."""
        self.file("quotaform.yaml", f"{CONFIG}policies: [policies/{name}.schema.json]\n")
        self.copy(f"policies/{name}.schema.json", "examples/policies")

    def copy(self, path: str, folder: str = "") -> None:
        """`copy PATH`: a file of this repository."""
        self.made.write(path, (ROOT / (folder or Path(path).parent) / Path(path).name).read_bytes())

    def link(self, name: str, target: str) -> None:
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).symlink_to(target)

    def stdin(self, text: str, terminal: str = "") -> None:
        r"""`stdin 'TEXT\n'`: what later commands read; `stdin 'TEXT\n' terminal`: what a person types."""
        path = self.path.parent / "stdin"
        path.write_text(text.replace("\\n", "\n"), encoding="utf-8")
        typed = self.stack.enter_context(TextIOWrapper(path.open("rb")))
        self.environment.setattr(typed, "isatty", lambda: bool(terminal))
        self.environment.setattr("sys.stdin", typed)

    def webhook(self, status: str, *header: str) -> None:
        """`webhook 200`: from now on HOOK is the address of a webhook that answers so, as in `302 Location=URL`."""
        named = dict(each.split("=", 1) for each in header)
        self.hook = self.stack.enter_context(HttpServer(lambda _: answer(int(status), **named)))
        self.environment.setattr("quotaform.drift.alert._TOTAL", 0.1)

    def notified(self) -> Iterator[str]:
        """`notified`: tell what arrived at the webhook since the last time."""
        assert self.hook is not None
        for received in self.hook.received:
            document = received.json()
            signed = ", signed" if is_signed(received) else ""
            yield f"notified{signed}: {document['event']} of {[each['address'] for each in document['items']]}"
        self.hook.received.clear()

    def limit(self, name: str, value: str) -> None:
        """`limit plan.source.MAX_COMMITS 1`: the code has another number for one of its limits."""
        self.environment.setattr(f"quotaform.{name}", int(value))

    def clone(self, *options: str) -> None:
        """`clone --depth=1`: go on in a clone, of a cluster that holds the same."""
        made = self.made.clone(self.path.parent / "clone", *options)
        made.write("lab.json", (self.made.path / "lab.json").read_bytes())
        self.made = made

    def env(self, name: str, value: str) -> None:
        self.environment.setenv(name, value)

    def event(self, text: str) -> None:
        """`event JSON`: this is a workflow on GitHub, and this its event."""
        self.file("event.json", text)
        self.env("GITHUB_ACTIONS", "true")
        self.env("GITHUB_EVENT_PATH", str(self.path / "event.json"))

    def hub(self, *authors: str) -> None:
        """`hub AUTHOR`: GitHub is a server where these wrote a comment with the marker of lab."""
        hub = FakeGitHub()
        for author in authors:
            hub.add(EMPTY, login=author.replace("\\n", "\n"))
        server = self.stack.enter_context(hub.server())
        for name, value in {"API_URL": server.url, "REPOSITORY": "acme/quotas", "TOKEN": COMMENT_TOKEN}.items():
            self.env(f"GITHUB_{name}", value)

    def cd(self, folder: str) -> None:
        """`cd FOLDER`: go on in this folder, which is made if there is none; `.` is that of the repository."""
        self.made = GitRepository(self.path / folder)
        self.made.path.mkdir(parents=True, exist_ok=True)

    def broker(self, *users: str) -> None:
        """`broker a=1`: every cluster holds this, with the id `id`; `broker eu: a=1`: one does, with its name as id."""
        name = users[0][:-1] if users and users[0].endswith(":") else ""
        self.gateways[name] = ScriptedGateway(quotas_of(*users[bool(name) :]), cluster_id=name or "id")

        def connect(*_: object, name: str = "", **_more: object) -> ScriptedGateway:
            gateway = self.gateways.get(name) or self.gateways[""]
            if isinstance(gateway, BaseException):
                raise gateway
            gateway.name = name or "lab"
            return gateway

        self.environment.setattr("quotaform.cluster.kafka.KafkaGateway.connect", connect)

    def down(self, name: str, *words: str) -> None:
        """`down eu`: nobody can connect to the cluster; `down eu later`: it is gone when it is read.

        `down eu closing`: it is gone when all was done; `down eu interrupted`: Ctrl-C comes while it is connected to;
        `down eu altering`: Ctrl-C comes while it is altered or asked to validate.
        """
        if words == ("closing",):
            self.environment.setattr(self.gateways[name], "close", raise_gone)
        elif words == ("interrupted",):
            self.gateways[name] = KeyboardInterrupt()  # type: ignore[assignment]
        elif words == ("altering",):
            self.gateways[name]._writes = [Answer(raises=KeyboardInterrupt())]
            self.gateways[name]._validates = [Answer(raises=KeyboardInterrupt())]
        elif words:
            self.gateways[name]._reads.append(ClusterError("gone"))
        else:
            self.gateways[name] = ClusterError("down")  # type: ignore[assignment]

    def same(self, name: str, other: str) -> None:
        """`same us eu`: two names are those of one cluster."""
        self.gateways[name] = self.gateways[other]

    def refuse(self, name: str, address: str, code: str, words: str, when: str = "validates") -> None:
        """`refuse eu user=a 40 WORDS`: the cluster refuses an entity when it is asked to validate, or (`writes`)."""
        answer = Answer(refused={parse_address(address): (int(code), words)})
        getattr(self.gateways[name], f"_{when}").append(answer)

    def reachable(self) -> Iterator[tuple[str, ScriptedGateway]]:
        for name, gateway in self.gateways.items():
            if isinstance(gateway, ScriptedGateway):
                yield name or "every cluster", gateway

    def killed(self, moment: str, *arguments: str) -> None:
        """`killed 2 ARGUMENTS`: a command whose process ends after two requests, or where it calls one of `MOMENTS`."""

        def end(*_: object, **__: object) -> None:
            raise Killed

        with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):  # noqa: PT012
            if moment.isdigit():
                for gateway in self.gateways.values():
                    gateway._chunk_size = 1
                    gateway._writes = [FINE] * int(moment) + [Answer(applies=False, raises=Killed())]
            else:
                patch.setattr(MOMENTS[moment], end)
            self.command(*arguments)

    def newest(self) -> str:
        """Return where the newest receipt is."""
        found = sorted(self.made.path.glob(".quotaform/receipts/*.json"))
        return found[-1].relative_to(self.made.path).as_posix() if found else "RECEIPT"

    def interrupted(self, place: str, *arguments: str, by: BaseException | None = None) -> Iterator[str]:
        """`interrupted PLACE ARGUMENTS`: a command that is interrupted where it calls a function of quotaform.

        `interrupted PLACE=WORDS ARGUMENTS`: where it calls it with these words; all that it prints is told.
        """
        place, _, words = place.partition("=")
        interrupted: list[float] = []

        def interrupt(*given: object, **__: object) -> None:
            if not words or words in given:
                interrupted.append(monotonic())
                raise by or KeyboardInterrupt

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(f"quotaform.{place}", interrupt)
            yield from (self.say if words else self.run)(*arguments)
        assert monotonic() - interrupted[0] < 9, "a connection is given up after 10 seconds"

    def terminated(self, *arguments: str) -> Iterator[str]:
        """`terminated PLACE ARGUMENTS`: the same by SIGTERM."""
        yield from self.interrupted(*arguments, by=TerminatedError("SIGTERM"))

    def full(self, *arguments: str) -> Iterator[str]:
        """`full ARGUMENTS`: a command while the disk is full."""

        def fail(_: int) -> None:
            raise OSError(28, "No space left on device")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("quotaform.system.files.os.fsync", fail)
            yield from self.run(*arguments)

    def unseen(self, *arguments: str) -> Iterator[str]:
        """`unseen ARGUMENTS`: a command whose output cannot be written, since the device is full."""
        before = sys.stdout
        with open("/dev/full", "w", encoding="utf-8") as stream:  # noqa: PTH123
            sys.stdout = stream
            try:
                said = [*self.say(*arguments)]
            finally:
                sys.stdout = before
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        yield from said

    def locked(self, cluster_id: str, *arguments: str) -> Iterator[str]:
        """`locked ID ARGUMENTS`: a command while an apply to the cluster runs."""
        with cluster_lock(self.made.path, "lab", cluster_id):
            yield from self.run(*arguments)

    def often(self, times: str, *arguments: str) -> None:
        """`often 25 ARGUMENTS`: run a command so many times; N in it is the number."""
        for number in range(int(times)):
            self.command(*(each.replace("N", str(number)) for each in arguments))

    def attacker(self) -> None:
        """`attacker`: a host of somebody else, ATTACKER, which waits for connections; `untouched`: none came.

        The environment holds nothing of ours and no proxy, and names are not looked up.
        """
        for name in [name for name in os.environ if name.startswith("QUOTAFORM_") or name.lower().endswith("_proxy")]:
            self.environment.delenv(name)
        self.listening = self.stack.enter_context(create_server(("127.0.0.1", 0)))
        self.listening.setblocking(False)
        self.addresses["ATTACKER"] = f"127.0.0.1:{self.listening.getsockname()[1]}"
        self.addresses["PORT"] = str(self.listening.getsockname()[1])
        self.environment.setattr("quotaform.cluster.wire.broker_connection.socket.getaddrinfo", numeric_only)

    def untouched(self) -> None:
        with closing(self.listening), pytest.raises(BlockingIOError):
            self.listening.accept()

    def fifo(self, name: str) -> None:
        os.mkfifo(self.path / name)

    def sent(self) -> Iterator[str]:
        """`sent`: tell what each cluster was asked to validate and to write."""
        yield from (f"{name}: validated {each.validated}, wrote {each.sent}" for name, each in self.reachable())

    def holds(self) -> Iterator[str]:
        """`holds`: tell what each cluster holds."""
        for name, gateway in self.reachable():
            held = {entity.address: dict(values) for entity, values in gateway.quotas.items()}
            yield f"{name}: {held}"

    def files(self) -> Iterator[str]:
        """`files`: tell all files below the folder."""
        found = (path.relative_to(self.made.path).as_posix() for path in self.made.path.rglob("*") if path.is_file())
        yield f"files: {', '.join(sorted(name for name in found if not name.startswith('.')))}"

    def table(self, path: str, *columns: str) -> None:
        """`table PATH COLUMN...`: a file of Parquet; `usage` stands for the columns of usage. There is no Java."""
        (self.path / path).parent.mkdir(parents=True, exist_ok=True)
        names = USAGE.names if columns == ("usage",) else columns
        parquet.write_table(pyarrow.table({name: [1] for name in names}), self.path / path)
        self.environment.setattr("quotaform.fleet.session._active_session", lambda: None)
        self.env("JAVA_HOME", "/nowhere")
        self.env("PATH", "")

    def step(self, folder: str) -> None:
        """`step FOLDER`: go on in this folder, in a step of GitHub Actions."""
        self.made = GitRepository(self.path / folder)
        for name in ("output", "summary"):
            (self.path / name).touch()
            self.env({"output": "GITHUB_OUTPUT", "summary": "GITHUB_STEP_SUMMARY"}[name], str(self.path / name))
        self.env("GITHUB_ACTIONS", "true")
        self.env("GITHUB_WORKSPACE", str(self.path))
        self.env("GITHUB_SERVER_URL", "https://github.com")
        self.env("GITHUB_REPOSITORY", "o/r")
        self.env("GITHUB_RUN_ID", "7")

    def receipt(self, name: str, *users: str) -> None:
        """`receipt NAME a b`: of an apply that created the first of these users; `day-19` is kept as that of a day.

        `cluster=ID`, `name=CLUSTER`, `commit=ID`, `finished=TIME`, `result=RESULT`, `select=PATTERN` and `revert=PLAN`
        are other than usual; `state=started` is one that was begun only.
        """
        said = dict(each.split("=", 1) for each in users if "=" in each)
        first, *others = (Entity(user=each) for each in users if "=" not in each)
        held = {each: {PRODUCER: 1.0} for each in others}
        header = structs.replace(
            HEADER,
            cluster=ClusterRecord(name=said.get("name", "lab"), id=said.get("cluster", "id")),
            source=PlanSource(directory="quotas.d", commit=said.get("commit", "4f2c1d9"), dirty=False),
            options=PlanOptions(select=tuple(filter(None, [said.get("select")])), revert=said.get("revert")),
        )
        plan = plan_of({first: {PRODUCER: float(MIB)}, **held}, held, header=header)
        finished = said.get("finished", "2026-11-20T09:00:01Z")
        result = Result.UNKNOWN if "state" in said else Result(said.get("result", "applied"))
        receipt = receipt_of(plan, result, finished_at=finished, is_started="state" in said)
        if not name.startswith("day-"):
            self.file(name, dumped_receipt(receipt))
            return
        path = receipt_path(plan.digest, self.place)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_receipt(path.with_name(f"202611{name[4:]}T090000Z-{path.name.partition('-')[2]}"), receipt)

    @property
    def place(self) -> Repository:
        return Repository(directory=self.path / "quotas.d", config_path=self.path / "quotaform.yaml")

    def last(self, cluster_id: str) -> Iterator[str]:
        """`last ID`: tell which receipt of a cluster says what was declared, or why none does, and what is ignored."""
        found, problem, ignored = last_receipt_base(self.place, cluster_id)
        said = problem
        if found is not None:
            declared = ", ".join(sorted(each.address for each in found.unvalued))
            said = f"{Path(found.base.ref).name}; declared: {declared}"
        yield self.masked(f"last {cluster_id}: {said}")
        yield from (self.masked(f"  ignored: {each}") for each in ignored)

    def edit(self, pattern: str, old: str, new: str) -> None:
        """`edit PATTERN OLD NEW`: put another text into the file that matches."""
        (path,) = self.path.glob(pattern)
        path.write_text(path.read_text().replace(old, new.replace("\\n", "\n")))

    def plan(self, *arguments: str) -> Iterator[str]:
        """`plan ARGUMENTS`: tell its exit code, what it changes and finds, and what it says on stderr."""
        code, out, err = self.command("plan", "--format", "json", *arguments)
        yield from map(self.masked, self.said(shlex.join(("plan", *arguments)), code, out, err))

    def source(self) -> Iterator[str]:
        """`source`: tell which commit a plan names, and whether its files differ from it."""
        _, out, _ = self.command("plan", "--format", "json")
        found = json.loads(out)["source"]
        yield self.masked(f"commit {found['commit']}, dirty {found['dirty']}")

    def run(self, *arguments: str) -> Iterator[str]:
        """`run ARGUMENTS`: tell the exit code of a command, its annotations, stderr, and the outputs of its step."""
        (self.path / "output").write_text("")
        code, out, err = self.command(*arguments)
        yield f"{shlex.join(arguments)}: exit {code}"
        yield from (f"  on stdout: {line}" for line in out.splitlines() if line.startswith("::"))
        yield from (f"  {self.masked(line)}" for line in err.splitlines())
        outputs = re.findall(r"^(\w+)<<(.+)\n((?:.*\n)*?)\2\n", (self.path / "output").read_text(), re.MULTILINE)
        yield from ("  " + self.masked(f"{name}={text.strip()}".replace("\n", ", ")) for name, _, text in outputs)

    def command(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command in the folder; return its code, and what it printed on stdout and stderr."""
        self.capsys.readouterr()
        with chdir(self.made.path):
            try:
                code = run(list(arguments))
            except SystemExit as end:  # A shell that completes a command is answered so.
                code = int(end.code or 0)
        out, err = self.capsys.readouterr()
        assert TOKEN not in out + err
        assert COMMENT_TOKEN not in err
        return code, out, err

    def say(self, *arguments: str) -> Iterator[str]:
        """`say ARGUMENTS`: tell the exit code of a command and all that it prints; JSON is as its schema says."""
        code, out, err = self.command(*arguments)
        if out.startswith("{"):
            document = json.loads(out)
            for each in (document, *(outcome["result"] for outcome in document.get("outcomes", ()))):
                if each is not None:
                    validator_of(each["kind"].removeprefix("quotaform.")).validate(each)
        yield self.masked(f"{shlex.join(arguments)}: exit {code}")
        yield from (f"  {self.masked(line)}".rstrip() for line in (out + err).splitlines() if line)

    def script(self, *arguments: str) -> Iterator[str]:
        """`script ARGUMENTS`: tell what `kafka-client-quotas` prints, where `broker` says what the cluster holds."""
        self.capsys.readouterr()
        code = client_quotas(["--bootstrap-server", "b:1", *arguments])
        out, err = self.capsys.readouterr()
        yield f"{shlex.join(arguments)}: exit {code}"
        yield from (f"  {line}" for line in (out + err).splitlines())

    def print(self, pattern: str, *arguments: str) -> Iterator[str]:
        """`print PATTERN ARGUMENTS`: tell the exit code of a command, and the lines that match of what it prints."""
        yield from (line for line in self.say(*arguments) if not line.startswith("  ") or re.search(pattern, line[2:]))

    def terraform(self, *arguments: str) -> Iterator[str]:
        """`terraform ARGUMENTS`: tell what tfcmt and Atlantis read of what a command prints."""
        _, out, err = self.command(*arguments)
        found = (read_apply if arguments[0] == "apply" else read_plan)(out + err)
        said = [name for name, value in vars(found).items() if value is True]
        yield f"{shlex.join(arguments)}: {', '.join(said) or 'is read'}"
        yield from (f"  result: {self.masked(line)}" for line in found.result.splitlines() if line)
        for name in ("created", "updated", "deleted"):
            if entities := getattr(found, name):
                yield f"  {name}: {'; '.join(entities)[:200]}"
        if counts := ATLANTIS_CHANGES.search(out + err):
            yield f"  Atlantis: {', '.join(counts.group(2, 3, 4))}"
        elif ATLANTIS_NO_CHANGES.search(out + err):
            yield "  Atlantis: no changes"

    def complete(self, shell: str, *words: str) -> Iterator[str]:
        """`complete bash WORD...`: tell what a shell is offered for the last word of `quotaform WORD...`."""
        line = " ".join(("quotaform", *words))
        asked = {"_QUOTAFORM_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line}
        asked |= {"COMP_WORDS": line, "COMP_CWORD": str(len(words)), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in asked.items():
                patch.setenv(name, value)
            code, out, err = self.command("--version")
        assert (code, err) == (0, "")
        yield f"{shell}: {shlex.join(words)}: {out.replace(chr(9), ' | ').split(chr(10))}"

    def coloured(self, *arguments: str) -> Iterator[str]:
        """`coloured ARGUMENTS`: tell whether a command prints colours."""
        _, out, err = self.command(*arguments)
        assert "\x1b" not in err
        yield f"{shlex.join(arguments)}: " + ("coloured" if "\x1b" in out else "plain")

    def expect(self, name: str) -> None:
        """`expect FILE`: EXPECTED is the id of this plan."""
        self.expected = json.loads((self.path / name).read_text())["plan_id"]

    def audit(self, name: str) -> Iterator[str]:
        """`audit FILE`: tell what each line of an audit log says."""
        for line in map(json.loads, (self.path / name).read_text().splitlines()):
            validator_of("audit").validate(line)
            said = {key: line.get(key) for key in ("address", "key", "before", "after", "result", "outcome", "reason")}
            words = [f"{key} {value}".partition("\n")[0] for key, value in said.items() if value is not None]
            by = f" by {line['run']['actor']} in {line['run']['url']}" if line.get("run") else ""
            yield self.masked(f"{line['event']}{by}: {', '.join(words)}")

    def show(self, name: str, pattern: str) -> Iterator[str]:
        """`show FILE PATTERN`: tell the lines of a file that match."""
        path = self.made.path / name
        if not path.exists():
            yield f"{name}: there is none"
            return
        found = (line for line in path.read_text().splitlines() if re.search(pattern, line))
        yield from (f"{self.masked(name)}: {self.masked(line)}" for line in found)

    def said(self, command: str, code: int, out: str, err: str) -> Iterator[str]:
        document = json.loads(out or "{}")
        base = document.get("source", {}).get("base")
        on = f", base {base['ref']} @ {base['commit']}{' (receipt)' * ('receipt' in base)}" if base else ""
        yield f"{command}: exit {code}{on}"
        for change in document.get("changes", ()):
            more = "; ".join(filter(None, (change[name] for name in ("origin", "owner", "reason"))))
            yield f"  {change['action']} {change['address']}{f' ({more})' if more else ''}"
        for found in document.get("findings", ()):
            words = "blocks" if found["blocking"] else found["severity"], found["rule"], found.get("address")
            yield f"  {' '.join(filter(None, words))}: {found['message']}"
        yield from (f"  {line}" for line in err.splitlines())

    def masked(self, line: str) -> str:
        for shown, address in self.addresses.items():
            line = line.replace(address, shown)
        for number, commit in enumerate(self.commits, 1):
            line = line.replace(commit, f"<{number}>").replace(commit[:7], f"<{number}>")
        for digest in re.findall("sha256:[0-9a-f]{64}", line):
            number = self.digests.setdefault(digest, len(self.digests) + 1)
            line = line.replace(digest, f"<digest {number}>")
        if self.hook is not None:
            line = line.replace(f"{self.hook.url}/{TOKEN}", "HOOK").replace(self.hook.url, "URL")
        line = line.replace(f"{self.path}/", "").replace(str(self.path), "HERE").replace(SOON, "DAY")
        line = re.sub(rf"{TODAY}T\d{{6}}Z-(\w+)-[0-9a-f]{{8}}(-\d+)?", r"NOW-\1-...", line)
        line = re.sub(rf"{TODAY[:4]}-{TODAY[4:6]}-{TODAY[6:]}T[:\d]+Z", "NOW", line)
        line = line.replace(LATEST, "THE LATEST DAY")
        line = re.sub(r"reverts plan [0-9a-f]{12}", "reverts plan ...", line)
        line = re.sub(r"\b\d+d(?: \d+h)?(?= ago| in the future)", "SOME TIME", line)
        line = re.sub(r" 1\.\d+e\+09$", " NOW", line)
        return re.sub(r"(\d{8}T\d{6}Z-\w+)-[0-9a-f]{8}", r"\1-...", line)


SHORT = (
    "fleet approvals policy principals removed dirty refused roots clusters snapshots said init each unknown valid fmt"
    " adopt describe alter script policies audit guarded revert several scram completed hosts addresses unseen"
    " terraform wrong-usage"
)
LONG = "base prune guards dry many ci receipts tables import resolve files notify applied killed"
"""Those that take half a second and more."""


@pytest.fixture
def check_story(
    golden: Golden, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CheckStory:
    """Compare the golden file of stories with what they tell; each is made anew, without the tester's own git or CI."""

    def check(file: str, make: Callable[..., Story]) -> None:
        for name in [name for name in os.environ if name.startswith(("GIT_", "CI_", "GITHUB_", "GITLAB_"))]:
            monkeypatch.delenv(name)
        for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"):
            monkeypatch.setenv(name, ENVIRONMENT[name])
        beginning: list[str] = []

        def tell(text: str | bytes) -> Iterator[str]:
            lines = str(text).splitlines()
            if lines[0] == "each:":
                beginning[:] = lines[1:]
                return
            with monkeypatch.context() as environment, ExitStack() as stack:
                story = make(tmp_path / os.urandom(8).hex(), capsys, environment, stack)
                for line in (*beginning, *lines):
                    yield from story.tell(line)

        check_told(golden, file, tell)

    return check


@pytest.mark.parametrize(
    "name", [*SHORT.split(), *(pytest.param(name, marks=pytest.mark.exhaustive) for name in LONG.split())]
)
def test_this_is_said_after_all_that(check_story: CheckStory, name: str) -> None:
    check_story(f"story-{name}.txt", Story)
