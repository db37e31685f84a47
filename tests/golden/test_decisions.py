"""What follows from quotas, in the form of `table`: `decided-*.txt`, whose inputs are YAML or a line of words.

`live`, `files` and `base` are quotas by the address of their entity. A name is taken as it is written, but for
`<default>`; `{}` among the files is `state: absent`.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import groupby
from json import loads
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy
import pytest
import yaml
from msgspec.structs import replace

from quotaform.apply.audit import read_run
from quotaform.apply.freshness import as_if_applied
from quotaform.apply.run import require_recent
from quotaform.apply.write import alter_entity
from quotaform.cluster.broker import (
    AlterClientQuotas,
    AlteredEntity,
    BrokerRelease,
    DescribeClientQuotas,
    refusal_of,
    service_hint,
    split_alterations,
)
from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.gateway import BrokerConfig, read_actual, read_settled
from quotaform.cluster.kafka import KafkaGateway
from quotaform.cluster.report import render_altered
from quotaform.cluster.wire.failure import UnansweredError
from quotaform.cluster.wire.message import DescribeResponse, MalformedError
from quotaform.desired.writer import is_removable
from quotaform.drift import alert as drift_alert
from quotaform.drift.alert import DriftReporter, Receiver
from quotaform.drift.drift import Drift, make_drift
from quotaform.drift.metric import MetricStore
from quotaform.drift.records import load_notify_state
from quotaform.drift.report import render_drift
from quotaform.http.client import HttpRequest, Response, Transport, Url, asked_wait
from quotaform.model.alteration import Alteration, AlterResult, AlterRow
from quotaform.model.entity import Entity, parse_address
from quotaform.model.errors import ClusterError, ConnectError, HttpError, QuotaformError, UsageError
from quotaform.model.filter import EntityFilter
from quotaform.model.finding import Finding
from quotaform.model.moment import duration_text, parse_duration
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Base, DeclaredBase, Quotas, Values
from quotaform.model.records.record import ClusterRecord
from quotaform.model.scope import Pattern, Scope
from quotaform.model.server import ALLOWED_HOSTS, Server
from quotaform.model.settings import Ignore, parse_source
from quotaform.plan.difference import diff, make_plan, removals
from quotaform.plan.receipt import RECEIPT_LISTS, load_receipt
from quotaform.plan.records import PLAN_LISTS, load_plan
from quotaform.plan.report import render_plan
from quotaform.plan.run import bulk_of_plan
from quotaform.report.comment import read_marker
from quotaform.resolve.effect import NO_EFFECT, Effect
from quotaform.resolve.index import Effective
from quotaform.resolve.quota_admin import QuotaAdmin
from quotaform.resolve.report import render_resolve
from quotaform.resolve.request_file import RequestFile
from quotaform.resolve.resolve import ResolveOptions
from quotaform.resolve.run import ResolveRun
from quotaform.review.run import find_pull_request
from quotaform.usage.bucket.bucket import RECORDED_LIMIT, RecordedBucket, SeriesBucket, bucket_rows
from quotaform.usage.prometheus import Prometheus
from quotaform.usage.recommend.demand import busiest_day, demand_of
from quotaform.usage.recommend.recommendation import Advice, Recommendation, entry_reason
from quotaform.usage.record.run import next_slot
from quotaform.usage.replay.replay import replay
from tests.builder import CONSUMER, HEADER, PRODUCER, declare, dumped_plan, dumped_receipt, plan_of, receipt_of, sealed
from tests.golden.conftest import Golden
from tests.golden.table import Lines, Text, check_told, tables_of
from tests.scripted_gateway import (
    ANSWER_LOST,
    NEVER_SHOWN,
    NO_CONNECTION,
    REQUEST_LOST,
    Answer,
    Clock,
    ScriptedConnection,
    ScriptedGateway,
)
from tests.unit.test_planfile import ORIGINAL, sealed_again, sealed_text
from tests.unit.test_receipt import PLAN as RECEIPT_PLAN
from tests.unit.test_wire_messages import answer as broker_answer

ORIGINAL_TEXT = dumped_plan(ORIGINAL)
RECEIPT_TEXT = dumped_receipt(receipt_of(RECEIPT_PLAN))


def entity_of(address: str) -> Entity:
    """Return an entity of any shape, whose names are as they are written."""
    parts = (part.partition("=") for part in address.split(","))
    return Entity({kind: None if name == "<default>" else name.removeprefix("\\") for kind, _, name in parts})


def quotas_of(written: Mapping[str, Mapping[str, float]] | None) -> Quotas:
    return {
        entity_of(address): {key: float(value) for key, value in values.items()}
        for address, values in (written or {}).items()
    }


def of_resolved(text: Text) -> Lines:
    """Yield what resolving says of requests (`ask`), with a `plan` as if it were applied, made `on` other quotas.

    `callbacks` are those of brokers by their id, and brokers that are `unasked` cannot be asked.
    """
    asked: dict[str, Any] = yaml.safe_load(text)
    live = quotas_of(asked.get("live"))
    entities = [entity_of(address) for address in asked["ask"]]
    plan = None
    if "plan" in asked:
        blocked = [Finding(rule="cluster-id", message="no", blocking=True)] if "blocked" in asked else []
        made_on = quotas_of(asked["on"]) if "on" in asked else live
        plan = as_if_applied(plan_of(quotas_of(asked["plan"]), made_on, findings=blocked))
    unasked = {broker: ConnectError("no connection") for broker in asked.get("unasked", ())}
    gateway = ScriptedGateway(
        live,
        config=BrokerConfig(asked.get("callbacks", {1: None}), unasked),
        is_live=asked.get("is_live", True),
        cluster_id=asked.get("cluster", HEADER.cluster.id),
    )
    detail = ResolveOptions(keys=tuple(asked.get("keys", ())), inherited=asked.get("inherited", True))
    try:
        found = ResolveRun(entities, gateway, plan, detail)
        rendered = "".join(render_resolve(found))
    except QuotaformError as error:
        return [f"{type(error).__name__}: {error}"]
    severities = [f"{finding.rule}: {finding.severity}" for finding in found.findings()]
    said = [line for line in rendered.splitlines() if line and not line.startswith(("Cluster ", "Per quota key"))]
    return [*said, f"({', '.join(severities)}; {', '.join(gateway.log)})"]


def limit_of(effective: Effective) -> str:
    return "no limit" if effective.value is None else f"{effective.value:g} of {effective.source}"


def effect_text(effect: Effect, key: str) -> str:
    """Return what a change does to who sends requests."""
    if effect == NO_EFFECT:
        return "no effect"
    unlimited = ", becomes unlimited" if effect.becomes_unlimited(key) else ""
    differs = f", differs for {dict(effect.differs)}" if effect.differs else ""
    limits = f"{limit_of(effect.before)} -> {limit_of(effect.after)}"
    return f"{limits}, {effect.direction(key)}{unlimited}{differs}"


def of_changed(text: Text) -> Lines:
    """Yield each change of a plan with its cause and effect, and what of it is drift or pending.

    With a `base`, what is not declared is pruned as well, and the values of entities that are `unvalued` in it are
    not known.
    """
    given: dict[str, Any] = yaml.safe_load(text)
    live, files = quotas_of(given.get("live")), declare(quotas_of(given.get("files")))
    base = None
    if "base" in given:
        unvalued = frozenset(map(entity_of, given.get("unvalued", ())))
        base = DeclaredBase(Base(ref="origin/main", commit="a91be02"), declare(quotas_of(given["base"])), unvalued)
    pruned = [entity for entity in live if entity not in files] if given.get("prune", "base" in given) else []
    plan = make_plan([*diff(files, live), *removals(pruned, live)], files, live, HEADER, base=base)
    for change in plan.changes:
        origin = f", by {change.origin}" if change.origin else ""
        yield f"{change.action} {change.entity} ({change.cause}{origin}): {change.direction}"
        for row, effect in zip(change.changes, change.effects, strict=True):
            values = " -> ".join("none" if each is None else f"{each!r}" for each in (row.before, row.after))
            shadow = effect.shadowed_by(row.entity, row.after) if row.after is not None else None
            shadowed = f", shadowed by {shadow}" if shadow else ""
            yield f"  {row.key} {values}: {effect_text(effect, row.key)}{shadowed}"
    yield f"{plan.unchanged} unchanged, {len(plan.unmanaged)} unmanaged"
    drift = make_drift(plan)
    for each in drift.entities:
        keys = ", ".join(change.key for change in each.keys)
        yield f"drift: {each.entity} is {each.drift_class} ({'declared' if each.is_declared else 'undeclared'}; {keys})"
    for waiting in drift.pending:
        yield f"pending: {waiting.action} {waiting.entity} ({'declared' if waiting.is_declared else 'undeclared'})"
    yield f"drift: {drift.status}, {drift.in_sync} in sync"
    yield from (line.partition(" Plan id ")[0] for line in "".join(render_plan(plan)).splitlines()[-3:] if line)
    yield render_drift(drift).splitlines()[-1]


def of_fingerprint(text: Text) -> Lines:
    """Yield the status of the drift of each line, and a number for each fingerprint; `ignore` are keys of perf-*."""
    numbers: dict[str, int] = {}
    for given in map(yaml.safe_load, str(text).splitlines()):
        live, files = quotas_of(given["live"]), declare(quotas_of(given["files"]), owner=given.get("owner"))
        base = None
        if "base" in given:
            base = DeclaredBase(Base(ref="origin/main", commit="a91be02"), declare(quotas_of(given["base"])))
        cluster = replace(HEADER.cluster, **given.get("cluster", {}))
        header = replace(HEADER, cluster=cluster, created_at=given.get("created_at", HEADER.created_at))
        plan = make_plan(diff(files, live), files, live, header, base=base)
        perf, keys = Scope(include=(Pattern((("user", "perf-*"),)),)), frozenset(given.get("ignore", ()))
        ignores = [Ignore(entities=perf, keys=keys, reason="load test", expires=date(2026, 12, 31))] if keys else []
        drift = make_drift(plan, ignores=ignores, today=date(2026, 11, 20))
        yield f"{drift.status}, fingerprint {numbers.setdefault(drift.fingerprint, len(numbers) + 1)}"


def of_asked(text: Text) -> Iterator[str]:
    """Yield what a file of requests asks for, or what is wrong with it."""
    rows = RequestFile(text if isinstance(text, bytes) else text.encode(), "asked")
    yield from map(repr, rows)
    kinds = [kind for kind, has in (("clients", rows.ips < len(rows)), ("ips", rows.ips)) if has]
    yield f"{len(rows)} of {' and '.join(kinds) or 'nobody'}, {rows.nameless} without a name"
    assert list(rows) == list(rows)


ALICE = Entity(user="alice")
IN_SYNC, DRIFTED, OTHER = (
    make_drift(plan_of({ALICE: {PRODUCER: 1.0}}, {ALICE: {PRODUCER: value}})) for value in (1.0, 2.0, 3.0)
)
FOUND: dict[str, Drift | None] = {
    "in-sync": IN_SYNC,
    "drifted": DRIFTED,
    "other": OTHER,
    "elsewhere": replace(DRIFTED, cluster=ClusterRecord(name="lab", id="another")),
    "failed": None,
}


def of_notified(text: str) -> Iterator[str]:
    """Yield what is posted after each run, each of which is a process of its own with the same file of its state.

    `failures` has failures notified; with `stateless` there is no file; `down` and `up` are the receiver, and `chat`
    is another one; `unwritable` takes the folder of the file away, and `damaged` breaks the file.
    """
    posted: list[str] = []
    flags: set[str] = set()

    def post(receiver: Receiver, body: bytes, **_: object) -> None:
        if "down" in flags:
            raise HttpError(receiver.url.origin, "answered with status 500", status=500)
        document = loads(body)
        posted.append(document.get("event") or document["text"].splitlines()[0])

    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(drift_alert, "post", post)
        for word in text.split():
            if word not in FOUND:
                flags = flags - {"down"} if word == "up" else flags | {word}
                continue
            urls = ["https://hooks.example/T0K3N", *(["slack=https://new.example/x"] if "chat" in flags else [])]
            path = Path(folder, *(["none"] if "unwritable" in flags else []), "state.json")
            if "damaged" in flags:
                path.write_text("{")
                flags.remove("damaged")
            alerts = DriftReporter(
                metrics=MetricStore(lambda _: None, posted.append),
                receivers=tuple(map(Receiver.parse, urls)),
                state_path=None if "stateless" in flags else path,
                notifies_failures="failures" in flags,
                clock=Clock(),
                warn=lambda said: posted.append(f"warning: {said}"),
            )
            found = FOUND[word]
            if found is not None:
                alerts.record("lab", found)
            alerts.notify("lab", found, "down" if found is None else None)
            yield f"{word}: {', '.join(posted) or 'nothing'}".replace(folder, "FOLDER")
            posted.clear()
            assert not path.exists() or "hooks" not in path.read_text()


def of_state(text: Text) -> Lines:
    """Return of which clusters the state of notifications is."""
    return [f"of {', '.join(load_notify_state(str(text))) or 'no cluster'}"]


def of_receiver(text: str) -> Lines:
    """Return how a receiver is notified; its address is shown nowhere."""
    receiver = Receiver.parse(text)
    assert "T0K3N" not in f"{receiver} {receiver!r} {receiver.id}"
    return [receiver.format]


def step_of(word: str) -> BaseException | Callable[[Sequence[Alteration]], list[AlteredEntity]]:
    """Return what a broker does with a request.

    `code:N` answers so for each entity, `missing` leaves one out, `twice` has each again.
    """
    raised: dict[str, BaseException] = {
        "lost": UnansweredError("b:1 went away."),
        "down": ConnectError("down"),
        "interrupt": KeyboardInterrupt(),
        "exit": SystemExit(143),
        "mistake": ZeroDivisionError(),
    }
    kind, _, code = word.partition(":")

    def respond(alterations: Sequence[Alteration]) -> list[AlteredEntity]:
        rows = reversed(alterations[1 if kind == "missing" else 0 :])
        answer: list[AlteredEntity] = [(list(each.entity.parts), int(code or 0), None) for each in rows]
        return answer * 2 if kind == "twice" else answer

    return raised.get(kind) or respond


def of_sent(text: str) -> Iterator[str]:
    """Yield what becomes of twelve alterations, four in a request, or of `one`, when brokers answer so.

    `validate` is a dry run.
    """
    words = text.split()
    flags = {"one", "validate"} & {*words}
    asked = [Alteration(Entity(user=f"u{number}"), {"k": 1.0}) for number in range(1 if "one" in flags else 12)]
    connection = ScriptedConnection([step_of(word) for word in words if word not in flags])
    rows: list[AlterRow] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quotaform.cluster.kafka.sleep", lambda seconds: None)
        patch.setattr("quotaform.cluster.kafka.split_alterations", partial(split_alterations, max_ops=4))
        try:
            for chunk in KafkaGateway(connection, name="lab").alter_chunks(asked, validate_only="validate" in flags):
                rows += chunk
        except (ClusterError, KeyboardInterrupt, SystemExit, ZeroDivisionError) as error:
            yield f"raised {error!r}"
    assert [row.entity for row in rows] == [each.entity for each in asked[: len(rows)]]
    for (outcome, code, message), group in groupby(rows, lambda row: (row.outcome, row.code, row.message)):
        yield f"{len([*group])} {outcome}, code {code}{f': {message}' if message else ''}"
    try:
        AlterResult(tuple(rows)).raise_for_errors()
    except ClusterError as error:
        yield f"{type(error).__name__}: {error}"
    yield f"{len(connection.requests)} requests, each waited for {max(map(round, connection.timeouts))} s"


def of_described(text: str) -> Iterator[str]:
    """Yield what a describe with so many seconds returns or says when brokers answer so, and how often it is sent."""
    words = text.split()
    quotas = {Entity(user=None): {"k": 0.1 + 0.2}}

    def step(word: str) -> BaseException | Callable[[object], DescribeResponse[Quotas]]:
        code = int(word.partition(":")[2] or 0)
        said = None if code == 31 else "words"
        return UnansweredError("b:1 went away.") if word == "lost" else lambda _: DescribeResponse(code, said, quotas)

    connection, pauses = ScriptedConnection(map(step, words[1:])), list[float]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quotaform.cluster.kafka.sleep", pauses.append)
        try:
            yield f"{KafkaGateway(connection, name='lab', config=ClientConfig(api_timeout=float(words[0]))).describe()}"
        except ClusterError as error:
            yield f"{type(error).__name__}: {error}"
    yield f"{len(connection.requests)} requests, pauses {pauses}"


CI: dict[str, dict[str, str]] = {
    "GITHUB": {
        "GITHUB_ACTIONS": "true",
        "GITHUB_REPOSITORY": "acme/quotas",
        "GITHUB_API_URL": "https://ghe.example/api/v3",
    },
    "GITLAB": {"GITLAB_CI": "true", "CI_PROJECT_ID": "42", "CI_API_V4_URL": "https://gitlab.example/api/v4"},
}


def of_pull_request(text: str) -> Lines:
    """Return which pull request a run is for, by options (lower case) and variables of its environment.

    `EVENT` is the content of a file of GitHub's; `[deep]` is a list of very many lists.
    """
    environ: dict[str, str] = {}
    options: dict[str, str] = {}
    with TemporaryDirectory() as folder:
        for word in text.split():
            name, _, value = word.partition("=")
            if name == "EVENT":
                path = Path(folder, "event.json")
                path.write_text(value.replace("deep", "[" * 100_000))
                environ["GITHUB_EVENT_PATH"] = str(path)
            elif name in CI:
                environ |= CI[name]
            else:
                (environ if name.isupper() else options)[name] = value
        platform = options.pop("platform", None)
        try:
            found = find_pull_request(environ, platform=platform, **options)
        except QuotaformError as error:
            return [f"{type(error).__name__}: {error}".replace(folder, "FOLDER")]
    if found is None:
        return []
    return [
        f"{found.platform.name.lower()} {found.repository} {found.number}, commit {found.commit}, {found.api.reveal()}"
    ]


HOST = Url.parse("https://api.example.com/")
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
LOST: dict[str, HttpError] = {
    "lost": HttpError(HOST.origin, "closed the connection", may_pass=True),
    "unreached": HttpError(HOST.origin, "cannot be reached", may_have_arrived=False, may_pass=True),
    "unencrypted": HttpError(HOST.origin, "would receive the token", may_have_arrived=False),
    "redirected": HttpError(HOST.origin, "redirects", status=302),
}


def answer_of(word: str) -> Response | HttpError:
    """Return what is answered: a status with, after `;`, a header or words of the body, or an error by its name."""
    if word in LOST:
        return LOST[word]
    status, _, more = word.partition(";")
    name, _, value = more.partition("=")
    headers, body = ({name: value}, b"") if value else ({}, more.replace("_", " ").encode())
    return Response(url=HOST, status=int(status), headers=headers, body=body)


def of_retried(text: str) -> Lines:
    """Return how often a request is sent, and how long it is waited for, when it is answered so, and then well.

    `PATCH!` is one that may be repeated; words with `:` are settings.
    """
    method, *words = text.split()
    given = dict(word.split(":") for word in words if ":" in word)
    answers = iter([*(answer_of(word) for word in words if ":" not in word), answer_of("200")])
    waits: list[float] = []
    sent: list[HttpRequest] = []

    class Scripted(Transport, frozen=True):
        def send_once(self, request: HttpRequest) -> Response:
            sent.append(request)
            answered = next(answers)
            if isinstance(answered, HttpError):
                raise answered
            return answered

    clock: Any = SimpleNamespace(
        sleep=waits.append, monotonic=lambda: sum(waits), now=lambda: NOON + timedelta(seconds=sum(waits))
    )
    transport = Scripted(
        clock=clock,
        attempts=int(given.get("attempts", 5)),
        patience=float(given.get("total", 120)),
        jitter=lambda: float(given.get("jitter", 0)),
    )
    request = HttpRequest(method=method.rstrip("!"), url=HOST, is_repeatable=method.endswith("!"))
    try:
        end = str(transport.send(request).status)
    except HttpError as error:
        end = str(error)
    return [f"sent {len(sent)}, waited {waits}: {end}"]


def of_wait(text: str) -> Lines:
    """Return how long a server asks to wait, by its headers."""
    headers = dict(each.split(": ", 1) for each in text.split("; ") if each)
    return [f"{asked_wait(Response(url=HOST, status=429, headers=headers, body=b''), NOON):g} s"]


def many(said: str) -> Quotas:
    """Return so many users, `NUMBER` or `NUMBER:RATE`."""
    number, _, rate = said.partition(":")
    return {Entity(user=f"u{each}"): {PRODUCER: float(rate or 1)} for each in range(int(number))}


def of_read(text: str) -> Iterator[str]:
    """Yield how often a cluster is read for a plan of `files`, or without them for what it holds.

    `reads` are the first ones, and `others` are users that no file declares.
    """
    asked = dict(word.partition("=")[::2] for word in text.split())
    others = {Entity(user=f"other{each}"): {PRODUCER: 1.0} for each in range(int(asked.get("others", 0)))}
    words = [word for said in asked.get("reads", "").split(",") if said for word in repeated(said)]
    reads = [None if word == "now" else ClusterError(word) if word == "gone" else many(word) for word in words]
    gateway = ScriptedGateway({**many(asked["live"]), **others}, reads=reads, is_live="snapshot" not in asked)
    clock = Clock()
    try:
        if "files" in asked:
            files = many(asked["files"])
            plan = read_settled(gateway, lambda actual: plan_of(files, actual), bulk_of_plan, clock=clock)
            yield f"{len(plan.changes)} changes"
        else:
            yield f"{len(read_actual(gateway, clock=clock))} entities"
    except ClusterError as error:
        yield f"{type(error).__name__}: {error}"
    pauses = sorted({round(pause, 2) for pause in clock.pauses})
    yield f"{len(gateway.log)} reads, pauses of {pauses} s, {sum(clock.pauses):.0f} s in all"


def repeated(said: str) -> list[str]:
    word, _, times = said.partition("*")
    return [word] * int(times or 1)


def of_url(text: str) -> Lines:
    return [Url.parse(text).reveal()]


def of_listed(text: str) -> Lines:
    """Return what is said of a host, asked at port 9092, when the list behind the bar is that of allowed hosts."""
    host, _, listed = text.partition(" | ")
    server = Server(host, 9092)
    assert server.problem({}) is None
    return [server.problem({ALLOWED_HOSTS: listed}) or "is asked"]


def of_source(text: str) -> Lines:
    """Return where measurements are read, without its address."""
    source = parse_source(text)
    assert "://" not in repr(source)
    return [f"broker {source.broker}, {'jmx' if source.is_jmx else 'exporter'}, {source.address}"]


def of_login(text: str) -> Iterator[str]:
    """Yield what a Prometheus is sent, by variables of the environment; `hidden` is a secret."""
    names = dict(word.split("=", 1) for word in loads(text))
    try:
        variables = {f"QUOTAFORM_PROMETHEUS_{name}": names[name] for name in names}
        login = Prometheus.at("https://prometheus.example.com", variables)
    except UsageError as error:
        if "hidden" in str(error):
            raise
        yield str(error)
    else:
        assert not any(value and value in repr(login) for name, value in names.items() if name != "TENANT")
        yield f"{ {name: secret.reveal() for name, secret in login.credentials.items()} } {login.headers}"


def of_replayed(text: str) -> Iterator[str]:
    """Yield how long requests would have waited, and after which delay, of samples: time, rate, seconds it covers."""
    key, limit, samples = loads(text)
    at, rate, window = (numpy.array(column, dtype=float) for column in zip(*samples, strict=True))
    micros = (at * 1e6).astype(numpy.int64)
    found = replay(micros, rate, window, limit, QUOTA_KEYS[key].enforcement)
    rows = {"stands for": found.step_s, "backlog": found.backlog_s, "episode": found.episode_s}
    for variant, wait in found.waits.items():
        rows |= {f"waited{variant}": wait.waited, f"delay{variant}": wait.delay}
    for name, values in rows.items():
        yield f"{name}: {' '.join(f'{value:.4g}' for value in values)}"


def of_busiest(text: str) -> Lines:
    """Return the busiest day of weeks from a Thursday on: the rate of Saturdays, weeks, a peak on the second Saturday.

    On all other days, the rate is 1. The last number is how many of the highest days of a weekday are left out.
    """
    saturday, weeks, peak, left_out = map(float, text.split())
    thursday = date(2026, 10, 22)
    days = {thursday + timedelta(place): saturday if place % 7 == 2 else 1.0 for place in range(7 * int(weeks))} | (
        {thursday + timedelta(9): peak} if peak else {}
    )
    return [str(busiest_day(days, int(left_out))).replace("datetime.", "")]


def of_used(text: str) -> Iterator[str]:
    """Yield what a bucket with a limit of 8 used of a broker: a percentile, then hours, rates and throttle times."""
    percentile, samples = loads(text)
    hour, rate, throttle = (numpy.array(column, dtype=float) for column in zip(*samples, strict=True))
    columns = {"at": (hour * 3.6e9).astype(numpy.int64), "rate": rate, "throttle_ms": throttle}
    columns |= {"window_s": numpy.full(len(hour), 11.5), RECORDED_LIMIT: numpy.full(len(hour), 8.0)}
    columns["series_id"] = numpy.zeros(len(hour), numpy.int64)
    series = SeriesBucket("b", 8.0, "User", "b", False, "b", 8.0, 8.0, "b")
    used = demand_of(RecordedBucket("lab", "1", PRODUCER, "b", [series], bucket_rows(columns)), percentile, 0)
    for name in ("busiest", "samples", "throttled", "hours", "first", "begin", "last", "last_used"):
        yield f"{name}: {getattr(used, name)}".replace("datetime.", "")


def of_slot(text: str) -> Lines:
    """Return when a source is asked next, see `next_slot`."""
    slot, interval, ended, took, failures = map(float, text.split())
    return [next_slot(int(slot), interval, ended, took, int(failures))]


def of_reason(text: str) -> Lines:
    """Return the reason of an entry with proposals for two keys, and for one of them later, where this is its own."""
    sized, unused = (
        Recommendation(
            cluster="prod", entity=Entity(user="a"), key=key, action=action, before=1.0, after=after, reason=of
        )
        for key, action, after, of in (
            (PRODUCER, Advice.UPDATE, 2.0, "p99 of 14 days, 6.1 MiB/s on Mondays, x 1.5"),
            (CONSUMER, Advice.DELETE, None, "not used for 30 days"),
        )
    )
    both = entry_reason(text, [sized, unused], date(2026, 11, 22))
    return [both, entry_reason(both, [sized], date(2026, 12, 1))]


def of_release(text: str) -> Lines:
    """Return the release of a broker that offers these versions of requests."""
    return [BrokerRelease.of({int(key): tuple(value) for key, value in loads(text).items()})]


def of_service(text: str) -> Lines:
    """Return what is said of a host of a service that manages quotas itself."""
    return [service_hint(["other", text])] if service_hint(["other", text]) else []


def of_effect(text: str) -> Lines:
    """Return what a change of a limit does to who sends requests."""
    key, *values = text.split()
    before, after = (Effective(None if value == "None" else float(value)) for value in values)
    effect = Effect(before, after)
    return [f"{effect.direction(key)}{', becomes unlimited' if effect.becomes_unlimited(key) else ''}"]


def of_duration(text: str) -> Lines:
    """Return the seconds of a duration, and how it is shown."""
    duration = parse_duration(text)
    return [f"{duration.total_seconds():g} s, shown as {duration_text(duration)}"]


def of_age(text: str) -> Lines:
    """Return why a plan of a time is too old a day after noon of the 19th, or with another `limit`."""
    created_at, _, limit = text.partition(" limit ")
    plan = plan_of({}, {}, header=replace(HEADER, created_at=created_at))
    noon = Mock(now=lambda: datetime(2026, 11, 20, 12, tzinfo=UTC))
    require_recent(plan, None if limit == "none" else timedelta(days=1), noon)
    return ["is accepted"]


def of_removable(text: str) -> Lines:
    """Return whether an entity, behind its keys, can be pruned."""
    keys, _, address = text.partition(" of ")
    return ["can be removed" if is_removable(entity_of(address), dict.fromkeys(keys.split(), 1.0)) else "is left"]


def of_job(text: str) -> Lines:
    """Return which job of a CI system variables tell, which are beside those of GitHub or in their place."""
    github = {"GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://github.example", "GITHUB_RUN_ID": "42"}
    return [f"{read_run({**github, 'GITHUB_REPOSITORY': 'acme/quotas', 'GITHUB_ACTOR': 'ann', **loads(text)})}"]


HELD: dict[Entity, Values] = {
    ALICE: {PRODUCER: 1.0, CONSUMER: 1.0},
    Entity(user="bob"): {PRODUCER: 7.0},
    Entity(user="x\n::error"): {"odd\nkey": 1.0, PRODUCER: 1.0},
}


def of_altered(text: str) -> Iterator[str]:
    """Yield what is said when one entity is altered, how often that was sent, and how long was waited.

    A key with `none` is removed. Brokers may lose the answer or the request, refuse, or accept and change nothing
    (`never`); then they hold what `now:KEY=VALUE` says, go away, or show the change `late`. `validate` is a dry run.
    """
    address, *words = text.split()
    entity = parse_address(address)
    pairs = [word.split("=") for word in words if "=" in word and not word.startswith("now:")]
    ops = {loads(f'"{key}"'): None if value == "none" else float(value) for key, value in pairs}
    now = dict(word.removeprefix("now:").split("=") for word in words if word.startswith("now:"))
    answers = {
        "lost": ANSWER_LOST,
        "request-lost": REQUEST_LOST,
        "no-connection": NO_CONNECTION,
        "never": NEVER_SHOWN,
        "refused": Answer(refused={entity: (42, "no\nway")}),
    }
    writes = [answers[word] for word in words if word in answers] or [NEVER_SHOWN] * bool(now)
    reads: list[Any] = [{entity: {key: float(value) for key, value in now.items()}}] * 200 if now else []
    reads += [ClusterError("gone")] * 200 if "gone" in words else []
    reads += [HELD, ClusterError("gone"), HELD] if "late" in words else []
    gateway, clock = ScriptedGateway(HELD, writes=writes, validates=writes, reads=[None, *reads]), Clock()
    try:
        done = alter_entity(QuotaAdmin(gateway), entity, ops, validate_only="validate" in words, clock=clock)
        yield from (line for line in render_altered(done).splitlines() if line)
        yield f"{done.before} -> {done.after}{', late' if done.is_late else ''}"
    except QuotaformError as error:
        yield f"{type(error).__name__} ({error.exit_code}, code {getattr(error, 'code', None)}): {error}"
    assert clock.pauses == sorted(clock.pauses)
    waited = f"{len(clock.pauses)} pauses, {sum(clock.pauses):.0f} s"
    yield f"sent {len(gateway.sent)} times; {waited}; {', '.join(dict.fromkeys(gateway.log))}"


RELEASES = (BrokerRelease((2, 8), has_zookeeper=True), BrokerRelease((3, 3)), BrokerRelease((4, 3)))


def of_refused(text: str) -> Iterator[str]:
    """Yield why an alteration is sent to no broker, by the release of brokers; `none` removes a key."""
    address, *values = text.split()
    pairs = (value.split("=") for value in values)
    asked = Alteration(entity_of(address), {key: None if value == "none" else float(value) for key, value in pairs})
    for words, group in groupby(RELEASES, lambda release: refusal_of(asked, release)):
        yield f"{', '.join(map(str, group))}: {words or 'left to the broker'}"


def of_answered(line: str) -> Lines:
    """Return what is read of an answer: of the rows of `describe VERSION ROWS`, of `alter`, or of bytes: `raw`.

    `many VERSION TYPES KEYS` is a row with so many entity types and quota keys.
    """
    kind, number, written = line.split(maxsplit=2)
    version, request = int(number), DescribeClientQuotas(EntityFilter())
    asked = AlterClientQuotas([Alteration(ALICE, {PRODUCER: 1.0})])
    fields: dict[str, Any] = {"throttle_time_ms": 0, "error_code": 0, "error_message": ""}
    if kind == "many":
        types, keys = map(int, written.split())
        fields["entries"] = [([(f"t{each}", "x") for each in range(types)], [(f"k{each}", 1) for each in range(keys)])]
    elif kind != "raw":
        fields["entries"] = literal_eval(written)
    try:
        if kind == "alter":
            rows = {"throttle_time_ms": 0, "entries": [(0, None, entity) for entity in fields["entries"]]}
            return [f"{asked.decode(broker_answer(asked, version, rows), version)[0]}"]
        whole = literal_eval(written) if kind == "raw" else broker_answer(request, version, fields)
        found = request.decode(whole, version)[0].found
        return [f"{len(entity.parts)} entity types, {len(values)} quota keys" for entity, values in found.items()]
    except MalformedError as error:
        return [f"malformed: {error}"]


def of_marker(text: str) -> Lines:
    """Return what the first line of a comment says of it."""
    marker = read_marker(text)
    is_empty = marker is not None and marker.changes == 0
    return [f"{marker}{', nothing to review' if is_empty else ''}"]


def edit(document: dict[str, Any], edits: Mapping[str, Any]) -> None:
    """Put values where their paths lead; `<gone>` removes one, `<again>` adds the first item of a list once more."""
    for path, value in edits.items():
        *steps, last = (int(step) if step.isdigit() else step for step in path.split("."))
        place: Any = document
        for step in steps:
            place = place[step]
        if value == "<gone>":
            del place[last]
        elif value == "<again>":
            place[last].append(place[last][0])
        else:
            place[last] = value


def replaced(given: Mapping[str, Any], text: str) -> str:
    content = given.get("content", text)
    for old, new in given.get("replace", ()):
        assert old in content
        content = content.replace(old, new, 1)
    return str(content)


def of_edited(text: Text) -> Lines:
    """Return what is said of a receipt that somebody edited, as in `tampered`, or cut after some characters."""
    given: dict[str, Any] = yaml.safe_load(text)
    try:
        if "edits" in given:
            document = loads(RECEIPT_TEXT)
            edit(document, given["edits"])
            content = sealed(document, RECEIPT_LISTS)
        else:
            content = replaced(given, RECEIPT_TEXT)[: given.get("cut")]
        load_receipt(content, "r.json")
    except QuotaformError as error:
        return [f"{type(error).__name__} ({error.exit_code}): {error}"]
    return ["is read"]


def of_tampered(text: Text) -> Lines:
    """Return what is said of a plan file that somebody edited, or of another `content`.

    `edits` are made by somebody who computed the digest again and the plan id, or the digest alone (`same_id`).
    `replace` puts one text in the place of another, and the digest is as it was unless it is `sealed`.
    """
    given: dict[str, Any] = yaml.safe_load(text)
    content = replaced(given, ORIGINAL_TEXT)
    if "edits" in given:
        document = loads(content)
        edit(document, given["edits"])
        content = sealed(document, PLAN_LISTS) if "same_id" in given else sealed_again(document)
    elif "sealed" in given:
        content = sealed_text(content.rpartition(',\n  "digest"')[0])
    try:
        plan = load_plan(content, "p.json")
    except QuotaformError as error:
        return [f"{type(error).__name__} ({error.exit_code}): {error}"]
    rows = "the same rows" if plan.rows == load_plan(ORIGINAL_TEXT, "p.json").rows else f"{plan.rows}"
    return [f"is read: {'the same plan' if dumped_plan(plan) == ORIGINAL_TEXT else rows}"]


TABLES = tables_of(globals())


@pytest.mark.parametrize("name", TABLES)
def test_this_follows_from_each_input(golden: Golden, name: str) -> None:
    check_told(golden, f"decided-{name}.txt", TABLES[name])
