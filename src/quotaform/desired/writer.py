"""Writes quotas as a quotas file that reads back bit for bit, and says what of a live entity no file can hold.

A broker may hold what no file may: a NaN, a fraction of a byte, a host name as an ip. Such an entity is
shown and left alone; it is never written half.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from json import dumps
from math import isnan
from re import compile as regex
from shlex import quote as quote_for_shell
from typing import Final

from quotaform.desired.yaml.document import is_text
from quotaform.model import rule
from quotaform.model.entity import (
    DEFAULT_WORD,
    ENTITY_TYPES,
    IP,
    Entity,
    address_of,
    can_combine,
    ip_problem,
    is_sendable,
    spell_name,
)
from quotaform.model.filter import Described
from quotaform.model.finding import Finding, Severity
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.quotas import Desired, Quotas, Values
from quotaform.model.rule import FindingRule
from quotaform.model.text import option_of, quote
from quotaform.model.units import UNLIMITED, is_writable, plain, readable, spell_value

SCHEMA: Final = "../schemas/quotas.schema.json"
"""Where editors find the schema, seen from quotas.d."""

MOST_COLUMNS: Final = 100
"""How long a line of a file may be that could be several."""

_PLAIN = regex(r"[A-Za-z0-9_][A-Za-z0-9_.@/=+-]*").fullmatch


def render_quotas(quotas: Quotas, *, schema: str | None = SCHEMA) -> tuple[str, list[Finding]]:
    """Return quotas as the text of a quotas.d file, sorted by address, and what files cannot say.

    An entity with anything that files cannot say is left out. `schema`: where editors find it; `None` leaves that out.
    """
    lines = [f"# yaml-language-server: $schema={schema}"] if schema else []
    findings: list[Finding] = []
    entries: list[str] = []
    for entity, values in sorted(quotas.items(), key=lambda item: item[0].address):
        findings += check_writable(entity, values)
        written = writable_values(entity, values)
        if written is not None:
            # As `quotaform fmt` leaves them.
            entries += ["", *match_lines(entity), "    values:"]
            keys = sorted(written, key=key_order)
            entries += [f"      {name}: {spell_value(QUOTA_KEYS[name], written[name])}" for name in keys]
    lines += ["quotas:", *entries[1:]] if entries else ["quotas: []"]
    return "\n".join(lines) + "\n", findings


def render_quotas_yaml(described: Described) -> str:
    """Return quotas as the text of a quotas.d file, without what files cannot say."""
    return render_quotas(described.quotas)[0]


def match_lines(entity: Entity) -> list[str]:
    """Return the lines with which an entry begins."""
    literal = f'{{name: "{DEFAULT_WORD}"}}'
    names = [
        f"{kind}: {DEFAULT_WORD if name is None else literal if name == DEFAULT_WORD else spell_scalar(name)}"
        for kind, name in entity.parts
    ]
    match = [f"  - match: {{{', '.join(names)}}}"]
    return match if len(match[0]) <= MOST_COLUMNS else ["  - match:", *(f"      {name}" for name in names)]


def spell_scalar(text: str) -> str:
    r"""Return a text as a YAML scalar that every parser reads as this text.

    >>> print(spell_scalar("svc-a"), spell_scalar("007"), spell_scalar("yes"), spell_scalar("a: b\n"))
    svc-a "007" "yes" "a: b\n"
    """
    return text if _PLAIN(text) and is_text(text) else quote_scalar(text)


def quote_scalar(text: str) -> str:
    """Return a text in double quotes, in which everything is escaped that cannot be seen."""
    quoted = dumps(text, ensure_ascii=False)  # Its escapes are escapes of YAML.
    return "".join([each if each.isprintable() else f"\\U{ord(each):08x}" for each in quoted])


_KNOWN: Final = frozenset(ENTITY_TYPES)


def check_writable(entity: Entity, values: Values) -> list[Finding]:
    """Return what files cannot write of an entity, with what to do. An unknown key, which stands in no way, is a note.

    >>> [finding.rule for finding in check_writable(Entity(ip="localhost"), {"connection_creation_rate": 1.0})]
    ['ip-name']
    """
    types = entity.types
    problems: list[tuple[str | None, FindingRule, str]] = [(None, *problem) for problem in _name_problems(entity)]
    found = [(name, _value_problem(types, name, values[name])) for name in sorted(values, key=key_order)]
    problems += [(name, *problem) for name, problem in found if problem]
    return [
        broken.finding(
            text,
            severity=Severity.NOTE if broken is rule.UNKNOWN_KEY else Severity.WARNING,
            address=entity.address,
            key=name,
        )
        for name, broken, text in problems
    ]


def writable_values(entity: Entity, values: Values) -> Values | None:
    """Return the part of an entity's values that files can write; `None` when they cannot write the entity.

    Unknown keys are no part of it and do not stand in the way.

    >>> writable_values(Entity(user="a"), {"request_percentage": 5.0, "future_rate": 1.0})
    {'request_percentage': 5.0}
    """
    known = {name: value for name, value in values.items() if name in QUOTA_KEYS}
    if not known or any(finding.severity is not Severity.NOTE for finding in check_writable(entity, values)):
        return None
    return known


def is_out_of_reach(entity: Entity) -> bool:
    """Whether neither files nor quotaform can name an entity: it has an empty name, or a type that is not known.

    >>> is_out_of_reach(Entity(user="")), is_out_of_reach(Entity(ip="localhost"))
    (True, False)
    """
    return any(name == "" or entity_type not in _KNOWN for entity_type, name in entity.parts)


def is_removable(entity: Entity, values: Values) -> bool:
    """Whether an entity can be deleted although no file declares it: it has a known key, and files could declare it.

    Which values it has does not matter; a key that does not fit its types is one that brokers do not remove.

    >>> is_removable(Entity(user="a"), {"request_percentage": -1.0}), is_removable(Entity(user=""), {"x_rate": 1.0})
    (True, False)
    """
    known = [QUOTA_KEYS[name] for name in values if name in QUOTA_KEYS]
    types = entity.types
    return bool(known) and all(key.entity_types.issuperset(types) for key in known) and not _name_problems(entity)


def _name_problems(entity: Entity) -> list[tuple[FindingRule, str]]:
    problems: list[tuple[FindingRule, str]] = []
    for entity_type, name in entity.parts:
        if entity_type not in _KNOWN:
            text = f"the entity type {quote(entity_type)} is not known to this version; it is left unchanged"
            problems.append((rule.UNKNOWN_TYPE, text))
        elif name == "":
            text = "has an empty name, which no broker changes or removes (KAFKA-16411); it is left unchanged"
            problems.append((rule.EMPTY_NAME, f"{entity_type} {text}"))
        elif name is None:
            continue
        elif entity_type == IP:
            if problem := ip_problem(name):
                remove = f"quotaform alter {quote_for_shell(entity.address)} {option_of('delete')} KEY"
                text = f"{problem}. It is left unchanged; remove it with {remove} and declare the address"
                problems.append((rule.IP_NAME, text))
        elif not is_sendable(name):
            problems.append((rule.BAD_NAME, f"the {entity_type} name cannot be sent to a broker; it is left unchanged"))
    if not problems and (not entity.parts or not can_combine(entity.types)):
        problems.append((rule.BAD_SHAPE, "no broker resolves this combination of types; it is left unchanged"))
    return problems


def _value_problem(types: tuple[str, ...], name: str, value: float) -> tuple[FindingRule, str] | None:
    key = QUOTA_KEYS.get(name)
    if key is None:
        return rule.UNKNOWN_KEY, f"{quote(name)} is not known to this version; it is left unchanged"
    if not key.entity_types.issuperset(types) and _KNOWN.issuperset(types):
        fitting = ", ".join(name for name, other in QUOTA_KEYS.items() if other.entity_types.issuperset(types))
        text = f"{name} is not valid for this entity, which can have {fitting or 'no key'}; it is left unchanged"
        return rule.MISFIT_KEY, text
    if is_writable(key, value):
        return None
    kinds = f"{'whole numbers' if key.is_whole else 'numbers'} of {key.measures}"
    reason = f"and files hold {kinds} above 0, up to {plain(key.maximum)} ({UNLIMITED})"
    if isnan(value):
        reason = "which limits nothing for some requests and blocks others"
    text = f"{name} is {readable(value)}, {reason}; the entity is left unchanged until the files declare it"
    return rule.NAN_VALUE if isnan(value) else rule.INEXACT_VALUE, text


def check_live(
    actual: Quotas, desired: Desired | None = None, pruned: Collection[Entity] = frozenset()
) -> list[Finding]:
    """Return what files cannot write of a cluster's quotas, and addresses that have several entities.

    Of a declared entity, and of one that is pruned, only notes are returned, about what is never touched: the rest is
    replaced.
    """
    declared = desired or {}
    findings: list[Finding] = []
    for entity, values in actual.items():
        entry = declared.get(entity)
        # What is as the files write it can be written: that is nearly all, and checking it takes longer than the rest.
        if entry is None or entry.values != values:
            found = check_writable(entity, values)
            is_left = entry is None and entity not in pruned
            findings += [finding for finding in found if is_left or finding.severity is Severity.NOTE]
    # A broker enforces ip entities as addresses: of several that are one, the last one written wins (KIP-612).
    spellings: dict[str, list[str]] = defaultdict(list)
    for entity in actual:
        kind, name = entity.parts[0] if len(entity.parts) == 1 else (None, None)
        if kind == IP and name and (address := address_of(name)):
            spellings[address].append(spell_name(name))
    return findings + [
        rule.IP_ALIAS.finding(
            f"{', '.join(sorted(names))} are one address to a broker: the last one written applies, and "
            f"removing any of them lifts the limit; keep only {address}",
            address=Entity(ip=address).address,
        )
        for address, names in spellings.items()
        if len(names) > 1
    ]
