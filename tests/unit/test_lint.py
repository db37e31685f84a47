"""Lints: what each finds and what it does not, and how findings are ignored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from quotaform.desired.tree import SourceFile
from quotaform.model.entity import Entity
from quotaform.model.errors import InvalidFilesError
from quotaform.model.finding import Location
from quotaform.model.quotas import Desired, Entry, Quotas, Values
from quotaform.model.scope import ALL, Pattern, Selection
from quotaform.model.settings import Capacity, LintIgnore, LintSettings
from quotaform.plan.check.check import with_findings
from quotaform.plan.check.facts import Facts, LintRequest
from quotaform.plan.check.lint import Linted, LintFacts, check_lints, declared_quotas, unused_ignores
from tests.builder import CONNECTION, CONSUMER, MUTATION, PRODUCER, REQUEST, declare, findings_of, plan_of
from tests.loading import load, load_config

MIB = 1048576.0
MAX = 2.0**63
TODAY = date(2026, 11, 22)
A, ETL = Entity(user="a"), Entity(client_id="etl")
ANY_USER, ANY_CLIENT = Entity(user=None), Entity(client_id=None)
ANY_PAIR = Entity(user=None, client_id=None)
NO_BROKERS = LintSettings(broker_principals=())


def lint(
    desired: Mapping[Entity, Values] | Mapping[Entity, Entry],
    quotas: Quotas | None = None,
    settings: LintSettings = NO_BROKERS,
    capacity: Values | None = None,
    selection: Selection = ALL,
) -> Linted:
    entries: Desired = {
        entity: said if isinstance(said, Entry) else declare({entity: said})[entity] for entity, said in desired.items()
    }
    return check_lints(
        LintFacts(
            desired=entries,
            quotas=declared_quotas(entries) if quotas is None else quotas,
            settings=settings,
            capacity=Capacity(values=capacity or {}),
            today=TODAY,
            selection=selection,
        )
    )


def found(linted: Linted, row: str) -> list[str]:
    return [f"{each.address}: {each.message}" for each in linted.findings if each.rule == row]


# shadowed-entry


@pytest.mark.parametrize(
    ("entity", "others", "winner"),
    [
        (ETL, [ANY_USER], "user=<default>"),
        (ETL, [ANY_USER, ANY_PAIR], "user=<default>,client-id=<default>"),
        (ETL, [Entity(user=None, client_id="other"), ANY_CLIENT, A, Entity(user="a", client_id="etl")], None),
        (A, [Entity(user="a", client_id=None)], None),  # A request with an empty client-id has it.
        (Entity(client_id="<default>"), [ANY_CLIENT], None),
    ],
)
def test_an_entry_is_shadowed_when_another_wins_for_all_of_its_requests(
    entity: Entity, others: list[Entity], winner: str | None
) -> None:
    linted = lint({entity: {PRODUCER: 1 * MIB}} | {other: {PRODUCER: 2 * MIB} for other in others})

    messages = [text for text in found(linted, "shadowed-entry") if text.startswith(f"{entity.address}: ")]
    if winner is None:
        assert messages == []
    else:
        assert messages == [
            f"{entity.address}: {PRODUCER} never applies: every request that {entity.address} matches has its value "
            f"from {winner}; remove it here or there"
        ]


def test_only_the_keys_that_both_have_are_shadowed() -> None:
    linted = lint({ETL: {PRODUCER: MIB, CONSUMER: MIB}, ANY_USER: {PRODUCER: MIB, REQUEST: 50.0}})

    (finding,) = [each for each in linted.findings if each.rule == "shadowed-entry"]
    assert (finding.key, finding.message.split(" never")[0]) == (PRODUCER, PRODUCER)
    assert str(finding.location) == "quotas.d/all.yaml:2:5"


def test_a_live_entry_that_no_file_declares_shadows_as_well() -> None:
    desired = declare({ETL: {PRODUCER: MIB}})

    assert found(lint(desired, {**declared_quotas(desired), ANY_USER: {PRODUCER: MIB}}), "shadowed-entry")


# renamable-client-id


@pytest.mark.parametrize(
    ("quotas", "said"),
    [
        (
            {ETL: 1},
            f"{PRODUCER} unlimited instead of 1 MiB/s; limit the user, or set {PRODUCER} of client-id=<default>",
        ),
        (
            {ETL: 1, ANY_CLIENT: 2},
            f"{PRODUCER} 2 MiB/s from client-id=<default> instead of 1 MiB/s; limit the user, or set {PRODUCER} of "
            "client-id=<default>",
        ),
        ({Entity(user="a", client_id="x"): 1, A: 1}, None),
        (
            {Entity(user="a", client_id="x"): 1, A: 2},
            f"{PRODUCER} 2 MiB/s from user=a instead of 1 MiB/s; limit the user, or set {PRODUCER} of "
            "user=a,client-id=<default>",
        ),
        (
            {Entity(user="a", client_id="x"): 1, A: None},
            f"{PRODUCER} unlimited from user=a instead of 1 MiB/s; limit the user, or set {PRODUCER} of "
            "user=a,client-id=<default>",
        ),
        (
            {Entity(user=None, client_id="x"): 1},
            f"{PRODUCER} unlimited instead of 1 MiB/s; limit the user, or set {PRODUCER} of "
            "user=<default>,client-id=<default>",
        ),
    ],
)
def test_a_client_escapes_its_limit_by_another_client_id_only_to_a_higher_one(
    quotas: dict[Entity, int | None], said: str | None
) -> None:
    linted = lint({entity: {PRODUCER: MAX if value is None else value * MIB} for entity, value in quotas.items()})

    messages = [text.partition(": ")[2] for text in found(linted, "renamable-client-id")]
    assert messages == ([] if said is None else [f"a client that changes its client-id has {said}"])


def test_a_shadowed_client_id_is_not_renamable() -> None:
    assert found(lint({ETL: {PRODUCER: MIB}, ANY_USER: {PRODUCER: 2 * MIB}}), "renamable-client-id") == []


# default-user-brokers


def test_without_principals_the_lint_names_the_field() -> None:
    linted = lint({ANY_USER: {REQUEST: 50.0}}, settings=LintSettings())

    assert found(linted, "default-user-brokers") == [
        "user=<default>: it also limits the brokers' own principals, unless they have entries of their own; list "
        "them in principals.brokers of quotaform.yaml, so that this can be checked"
    ]
    assert found(lint({A: {REQUEST: 50.0}}, settings=LintSettings()), "default-user-brokers") == []
    assert found(lint({ANY_USER: {PRODUCER: MAX}}, settings=LintSettings()), "default-user-brokers") == []


@pytest.mark.parametrize(
    ("others", "keys"),
    [
        ({}, f"{PRODUCER}, {REQUEST}"),
        ({Entity(user="kafka"): {REQUEST: 2147483647.0}}, PRODUCER),
        ({Entity(user="kafka"): {REQUEST: 9.0, PRODUCER: MIB}}, None),
        ({Entity(user="kafka", client_id=None): {REQUEST: 9.0}}, PRODUCER),
        ({Entity(user="kafka", client_id="1"): {REQUEST: 9.0}}, f"{PRODUCER}, {REQUEST}"),
        ({Entity(client_id=None): {REQUEST: 9.0}}, f"{PRODUCER}, {REQUEST}"),
    ],
)
def test_a_broker_principal_needs_its_own_value_for_each_key(others: dict[Entity, Values], keys: str | None) -> None:
    settings = LintSettings(broker_principals=("kafka",))

    messages = found(
        lint({ANY_USER: {PRODUCER: MIB, REQUEST: 5.0}, **others}, settings=settings), "default-user-brokers"
    )

    assert messages == (
        []
        if keys is None
        else [
            f"user=<default>: it also limits the broker principal kafka ({keys}); declare user=kafka with values of "
            "its own, such as unlimited"
        ]
    )


# suspicious-unit


def read(text: str, layer: str | None = None) -> Desired:
    return load([SourceFile("quotas.d/a.yaml", text, layer)], {}, TODAY)


def entry(value: str, key: str = PRODUCER, more: str = "") -> str:
    return f"quotas:\n  - match: {{user: a}}\n    values: {{{key}: {value}}}\n{more}"


@pytest.mark.parametrize(
    ("value", "warns"),
    [
        ("1", True),
        ("1023", True),
        ('"10"', True),
        ("10.0", True),
        ("1e2", True),
        ("1024", False),
        ("10B/s", False),
        ("0.5KiB/s", False),
        ("1KiB/s", False),
        ("unlimited", False),
    ],
)
@pytest.mark.parametrize("more", ["", "    reason: x\n    profile: p\n"], ids=["plain", "profile"])
def test_a_small_byte_rate_without_a_unit_is_suspicious(value: str, warns: bool, more: str) -> None:
    source = SourceFile("quotas.d/a.yaml", entry(value, more=more))
    desired = load([source], {"p": {CONSUMER: 5.0, PRODUCER: 6.0}}, TODAY)

    findings = [each for each in lint(desired).findings if each.rule == "suspicious-unit"]

    assert [(each.key, str(each.location)) for each in findings] == (
        [(PRODUCER, "quotas.d/a.yaml:3:14")] if warns else []
    )


@pytest.mark.parametrize("key", [REQUEST, MUTATION])
def test_other_keys_are_small_numbers(key: str) -> None:
    assert found(lint(read(entry("10", key))), "suspicious-unit") == []


def test_the_value_of_the_last_layer_counts() -> None:
    def layers(common: str, own: str) -> list[str]:
        sources = [
            SourceFile("quotas.d/a.yaml", entry(common)),
            SourceFile("quotas.d/lab/a.yaml", entry(own, PRODUCER if own[-1] != "%" else REQUEST), "lab"),
        ]
        linted = lint(load(sources, {}, TODAY))
        return [str(each.location) for each in linted.findings if each.rule == "suspicious-unit"]

    assert layers("10", "10B/s") == []
    assert layers("10B/s", "10") == ["quotas.d/lab/a.yaml:3:14"]
    assert layers("10", "5%") == ["quotas.d/a.yaml:3:14"]


# expires-soon


@pytest.mark.parametrize(
    ("expires", "left"),
    [
        (date(2026, 11, 23), "in 1 day"),
        (date(2026, 12, 6), "in 14 days"),
        (date(2026, 12, 7), None),
    ],
)
def test_an_entry_that_expires_within_two_weeks_is_announced(expires: date, left: str | None) -> None:
    messages = found(lint(declare({A: {PRODUCER: MIB}}, expires=expires)), "expires-soon")

    assert messages == (
        []
        if left is None
        else [f"user=a: it expires {expires}, {left}, and is deleted from then on; set a later date if it is to stay"]
    )


def test_how_soon_is_a_setting() -> None:
    desired = declare({A: {PRODUCER: MIB}}, expires=date(2026, 12, 22))

    assert found(lint(desired, settings=LintSettings(expires_within_days=29)), "expires-soon") == []
    assert found(lint(desired, settings=LintSettings(expires_within_days=30)), "expires-soon") != []


# iam-session


SESSION = "arn:aws:sts::123456789012:assumed-role/orders/botocore-session-1774984046"


@pytest.mark.parametrize(
    ("entity", "instead"),
    [
        (Entity(user=SESSION), "user=<default>,client-id=NAME"),
        (Entity(user=SESSION, client_id=None), "user=<default>,client-id=NAME"),
        (Entity(user=SESSION, client_id="etl"), "user=<default>,client-id=etl"),
        (Entity(user=SESSION.replace(":aws:", ":aws-us-gov:")), "user=<default>,client-id=NAME"),
    ],
)
def test_a_quota_of_a_session_of_aws_stops_applying(entity: Entity, instead: str) -> None:
    (message,) = found(lint({entity: {PRODUCER: MIB}}), "iam-session")

    assert message == (
        f'{entity.address}: it stops applying when the session "botocore-session-1774984046" of the AWS role ends, '
        f"for example at the next deployment; declare {instead}, or set awsRoleSessionName in the client and ignore "
        "this finding"
    )


@pytest.mark.parametrize("name", ["sts::123456789012:assumed-role/orders", "iam::123456789012:role/teams/orders"])
def test_no_client_is_a_role_of_aws(name: str) -> None:
    (message,) = found(lint({Entity(user=f"arn:aws:{name}"): {PRODUCER: MIB}}), "iam-session")
    assert "it applies to nobody: a client with this role is the user arn:aws:sts::ACCOUNT:assumed-role/" in message


@pytest.mark.parametrize(
    "entity",
    [
        ANY_USER,
        Entity(user=None, client_id="etl"),
        Entity(client_id=SESSION),
        Entity(user="arn:aws:sts::123456789012:assumed-role/orders/*"),
        Entity(user="arn:aws:iam::123456789012:user/orders"),
        Entity(user=f"User:{SESSION}"),
        Entity(ip="10.0.0.1"),
    ],
)
def test_a_name_that_stays_is_no_session(entity: Entity) -> None:
    assert found(lint({entity: {CONNECTION if entity.types == ("ip",) else PRODUCER: 10.0}}), "iam-session") == []


# over-capacity


@pytest.mark.parametrize(
    ("desired", "capacity", "said"),
    [
        ({A: {PRODUCER: MIB}, Entity(user="b"): {PRODUCER: MIB}}, {PRODUCER: 2 * MIB}, None),
        (
            {A: {PRODUCER: MIB}, Entity(user="b"): {PRODUCER: MIB}},
            {PRODUCER: 1.5 * MIB},
            "of 2 entries adds up to 2 MiB/s per broker, above the declared capacity of 1.5 MiB/s",
        ),
        ({A: {PRODUCER: MIB}}, {CONSUMER: 1.0}, None),
        (
            {A: {PRODUCER: 5 * MIB}, ANY_USER: {PRODUCER: MIB}, Entity(user="c"): {PRODUCER: MAX}},
            {PRODUCER: 5 * MIB},
            "of 2 entries adds up to 6 MiB/s per broker, above the declared capacity of 5 MiB/s (1 of them for each "
            "user, client-id or address without its own, counted once, 1 unlimited not counted); lower some",
        ),
        # Each client-id of a has a bucket of its own.
        (
            {Entity(user="a", client_id=None): {PRODUCER: 2 * MIB}},
            {PRODUCER: MIB},
            "of 1 entry adds up to 2 MiB/s per broker, above the declared capacity of 1 MiB/s (1 of them for each",
        ),
        # What never applies takes no part.
        ({ETL: {PRODUCER: 9 * MIB}, ANY_USER: {PRODUCER: MIB}}, {PRODUCER: MIB}, None),
        ({A: {MUTATION: 7.0}}, {MUTATION: 5.0}, "adds up to 7/s per cluster, above the declared capacity of 5/s"),
        ({Entity(ip="10.0.0.1"): {CONNECTION: 7.0}}, {CONNECTION: 5.0}, "adds up to 7/s per broker"),
    ],
)
def test_limits_above_the_capacity_are_announced(
    desired: dict[Entity, Values], capacity: Values, said: str | None
) -> None:
    messages = found(lint(desired, capacity=capacity), "over-capacity")

    assert len(messages) == (said is not None)
    assert said is None or said in messages[0]


# Ignoring.


@pytest.mark.parametrize(
    ("ignore", "is_ignored"),
    [
        (LintIgnore(rule="shadowed-entry", reason="r"), True),
        (LintIgnore(rule="shadowed-entry", reason="r", address="client-id=etl"), True),
        (LintIgnore(rule="shadowed-entry", reason="r", address="client-id=e"), False),
        (LintIgnore(rule="shadowed-entry", reason="r", match=Pattern((("client-id", "e*"),))), True),
        (LintIgnore(rule="shadowed-entry", reason="r", match=Pattern((("user", "*"),))), False),
        (LintIgnore(rule="expires-soon", reason="r"), False),
        (LintIgnore(rule="shadowed-entry", reason="r", expires=date(2026, 11, 23)), True),
        (LintIgnore(rule="shadowed-entry", reason="r", expires=TODAY), False),
    ],
)
def test_an_ignore_is_about_a_lint_and_its_entities_until_it_expires(ignore: LintIgnore, is_ignored: bool) -> None:
    settings = LintSettings(ignores=(ignore,), broker_principals=())

    linted = lint({ETL: {PRODUCER: MIB}, ANY_USER: {PRODUCER: MIB}}, settings=settings)

    assert found(linted, "shadowed-entry") == [] if is_ignored else found(linted, "shadowed-entry") != []
    assert linted.used == (frozenset({ignore}) if is_ignored else frozenset())
    expired = ignore.expires is not None and ignore.expires <= TODAY
    assert len(found(linted, "lint-ignore-expired")) == expired
    assert len(list(unused_ignores(settings.ignores, linted.used, TODAY))) == (not is_ignored and not expired)


def test_an_ignore_of_some_entities_does_not_ignore_the_cluster_as_a_whole() -> None:
    desired = {A: {PRODUCER: MIB}}
    some = LintIgnore(rule="over-capacity", reason="r", match=Pattern((("user", "*"),)))

    assert found(lint(desired, capacity={PRODUCER: 1.0}, settings=LintSettings(ignores=(some,))), "over-capacity")
    all_of_it = LintSettings(ignores=(replace(some, match=None),))
    assert not found(lint(desired, capacity={PRODUCER: 1.0}, settings=all_of_it), "over-capacity")


def test_each_lint_shows_a_hundred_findings_and_that_there_are_more() -> None:
    desired = declare({Entity(user=f"u{n}"): {PRODUCER: MIB} for n in range(150)}, expires=date(2026, 11, 23))
    ignore = LintIgnore(rule="expires-soon", reason="r", match=Pattern((("user", "u1*"),)))

    linted = lint({**desired, **declare({ETL: {PRODUCER: MIB}})})
    assert len(found(linted, "expires-soon")) == 100
    assert found(linted, "more-warnings") == ["None: and more: only the first 100 findings of expires-soon are shown"]
    assert len(found(linted, "renamable-client-id")) == 1, "one lint does not crowd out another"
    assert len(found(lint(desired, settings=LintSettings(ignores=(ignore,))), "expires-soon")) == 89


def test_only_selected_entities_are_reported() -> None:
    desired = declare({A: {PRODUCER: MIB}, Entity(user="b"): {PRODUCER: MIB}}, expires=date(2026, 11, 23))

    linted = lint(desired, selection=Selection(("user=b",)))

    assert [each.address for each in linted.findings] == ["user=b"]


def test_a_plan_is_linted_as_the_cluster_will_be() -> None:
    desired = {**declare({ETL: {PRODUCER: MIB}}), **declare({ANY_USER: {}})}
    actual: Quotas = {ANY_USER: {PRODUCER: MIB}, ANY_CLIENT: {PRODUCER: MIB}}
    request = LintRequest(settings=LintSettings(), capacity=Capacity(), today=TODAY)
    facts = Facts(desired=desired, actual=actual, lints=request)

    assert findings_of(plan_of(desired, actual), facts) == (), "the default user goes, the default client-id stays"
    assert findings_of(plan_of(desired, actual), replace(facts, lints=None)) == ()
    stays = replace(facts, desired=declare({ETL: {PRODUCER: MIB}}))
    plan = plan_of(stays.desired, actual)
    assert with_findings(plan, stays).plan_id == plan.plan_id, "a lint is no part of the plan id"
    assert [each.rule for each in findings_of(plan_of(stays.desired, actual), stays)] == ["shadowed-entry"]


def test_a_plan_has_the_lints_of_what_it_changes_and_the_number_of_the_others() -> None:
    # A reviewer of two lines was shown eighty warnings about entries that had been there for years.
    desired = declare({ETL: {PRODUCER: 2 * MIB}, Entity(client_id="old"): {PRODUCER: MIB}, ANY_USER: {PRODUCER: MIB}})
    actual = {entity: {PRODUCER: MIB} for entity in desired}
    facts = Facts(
        desired=desired,
        actual=actual,
        lints=LintRequest(
            settings=LintSettings(broker_principals=("kafka",)), capacity=Capacity(values={PRODUCER: 1.0}), today=TODAY
        ),
    )

    findings = findings_of(plan_of(desired, actual), facts)

    assert [(each.rule, each.address) for each in findings] == [
        ("over-capacity", None),
        ("shadowed-entry", "client-id=etl"),
        ("other-warnings", None),
    ]
    assert findings[-1].message.startswith("2 warnings about entries that this plan does not change")


@pytest.mark.parametrize(
    ("others", "number"),
    [([ANY_USER], "1 note"), ([ANY_USER, ETL], "1 warning and 1 note"), ([ANY_USER, ANY_PAIR], "2 notes")],
)
def test_a_note_about_another_entry_is_not_counted_as_a_warning(others: list[Entity], number: str) -> None:
    # The plan said "2 warnings" where `validate` showed one warning and one note.
    actual: Quotas = {entity: {PRODUCER: MIB} for entity in others}
    desired = declare({**actual, Entity(user="new"): {PRODUCER: MIB}})
    request = LintRequest(settings=LintSettings(), capacity=Capacity(), today=TODAY)

    findings = findings_of(plan_of(desired, actual), Facts(desired=desired, actual=actual, lints=request))

    assert [each.message for each in findings] == [
        f"{number} about entries that this plan does not change; quotaform validate lists them"
    ]


# quotaform.yaml


def config_problems(folder: Path, text: str) -> list[str]:
    path = folder / "quotaform.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidFilesError) as caught:
        load_config(path)
    return [str(problem).replace(f"{path.as_posix()}:", "") for problem in caught.value.problems]


def test_the_settings_are_read(tmp_path: Path) -> None:
    path = tmp_path / "quotaform.yaml"
    text = """\
clusters:
  lab:
    snapshot: x
    capacity: {producer_byte_rate: 500MiB/s, request_percentage: 800%}
profiles: {tiny: {producer_byte_rate: 10, consumer_byte_rate: 10B/s}}
principals: {brokers: [kafka, ANONYMOUS]}
lints:
  expires_within_days: 30
  ignore:
    - {rule: shadowed-entry, address: client-id=etl, reason: agreed, expires: 2026-12-31}
    - {rule: expires-soon, match: {user: "perf-*"}, reason: tests}
"""
    path.write_text(text, encoding="utf-8")

    config = load_config(path)

    assert config.lints == LintSettings(
        ignores=(
            LintIgnore(rule="shadowed-entry", address="client-id=etl", reason="agreed", expires=date(2026, 12, 31)),
            LintIgnore(rule="expires-soon", match=Pattern((("user", "perf-*"),)), reason="tests"),
        ),
        expires_within_days=30,
        broker_principals=("kafka", "ANONYMOUS"),
    )
    assert config.lints.ignores[0].location == Location(path.as_posix(), 10, 7)
    capacity = config.clusters["lab"].capacity
    assert capacity.values == {PRODUCER: 500 * MIB, REQUEST: 800.0}
    assert capacity.places[REQUEST] == Location(path.as_posix(), 4, 46)
    (finding,) = config.lints.profile_findings
    assert (finding.rule, finding.key, finding.location) == (
        "suspicious-unit",
        PRODUCER,
        Location(path.as_posix(), 5, 39),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "lints: {ignore: [{rule: shadowd-entry, reason: x}]}",
            '1:25: error: unknown lint "shadowd-entry"; did you mean shadowed-entry? The lints are shadowed-entry, ',
        ),
        (
            "lints: {ignore: [{rule: policy, reason: x}]}",
            "1:25: error: policy is not a lint, and only lints can be ignored: shadowed-entry, renamable-client-id, ",
        ),
        (
            "lints: {ignore: [{rule: cluster-id, reason: x}]}",
            "1:25: error: cluster-id is not a lint, and only lints can be ignored: ",
        ),
        ("lints: {ignore: [{rule: expires-soon}]}", "1:18: error: item 1 of ignore has no reason; add it"),
        ("lints: {ignore: [{rule: expires-soon, reason: ''}]}", "1:47: error: reason must not be empty"),
        (
            "lints: {ignore: [{rule: expires-soon, reason: x, expires: 2026-02-30}]}",
            '1:59: error: expires: "2026-02-30" is not a date; write it as in 2026-12-31',
        ),
        ("lints: {ignore: [{reason: x}]}", "1:18: error: item 1 of ignore has no rule; add it"),
        ("lints: {ignores: []}", '1:9: error: unknown field "ignores"; did you mean ignore?'),
        ("lints: {expires_within_days: -1}", "1:30: error: expires_within_days must be from 0 to 3,650, not -1"),
        ("lints: {expires_within_days: 5000}", "1:30: error: expires_within_days must be from 0 to 3,650, not 5000"),
        ("lints: {expires_within_days: x}", '1:30: error: expires_within_days must be a whole number, not "x"'),
        ("principals: {brokers: []}", "1:23: error: brokers must not be empty"),
        (
            "principals: {brokers: ['User:kafka']}",
            "1:24: error: User:kafka begins with User:, but quotas use",
        ),
        ("principals: {broker: [a]}", '1:14: error: unknown field "broker"; did you mean brokers?'),
        (
            "clusters: {a: {snapshot: x, capacity: {producer_byte_rte: 1}}}",
            '1:40: error: unknown quota key "producer_byte_rte"; did you mean producer_byte_rate?',
        ),
        (
            "clusters: {a: {snapshot: x, capacity: {producer_byte_rate: 5MiB}}}",
            '1:60: error: producer_byte_rate: "5MiB" lacks "/s"; did you mean 5MiB/s?',
        ),
        ("clusters: {a: {snapshot: x, capacity: {}}}", "1:39: error: capacity must not be empty"),
        (
            "capacity: {request_percentage: 1%}",
            '1:1: error: unknown field "capacity"; it belongs to clusters.NAME. The fields',
        ),
        (
            "clusters: {a: {snapshot: x, policies: [p.json]}}",
            '1:29: error: unknown field "policies"; it belongs to the top of the file. The fields are ',
        ),
        (
            "brokers: [kafka]",
            '1:1: error: unknown field "brokers"; it belongs to clusters.NAME.metrics or principals. ',
        ),
        ("quotas: []", '1:1: error: unknown field "quotas"; it belongs to the top of a file of quotas.d. The fields'),
        ("lint: {}", '1:1: error: unknown field "lint"; did you mean lints?'),
    ],
)
def test_a_mistake_in_the_settings_is_named_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    found = config_problems(tmp_path, text)

    assert len(found) == 1, found
    assert found[0].startswith(said), found


def test_a_plan_shows_what_its_changes_do_to_entries_that_it_does_not_change() -> None:
    """A new default user took every client-id entry out of force, and the plan only counted that."""
    desired = declare({ETL: {PRODUCER: MIB}, ANY_USER: {PRODUCER: MIB}, Entity(client_id="app"): {CONSUMER: MIB}})
    actual: Quotas = {entity: entry.values for entity, entry in desired.items() if entity != ANY_USER}
    request = LintRequest(settings=NO_BROKERS, capacity=Capacity(), today=TODAY)

    found = findings_of(plan_of(desired, actual), Facts(desired=desired, actual=actual, lints=request))

    assert [(each.rule, each.address) for each in found] == [
        ("shadowed-entry", "client-id=etl"),
        ("other-warnings", None),
    ]
