"""How command lines name entities: by address, or by --name, --default, --any, --prefix and --not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from quotaform.cli.option.common import REQUIRED, argument, complete_from, flag, option
from quotaform.model.entity import (
    DEFAULT_WORD,
    ENTITY_TYPES,
    IP,
    Entity,
    ip_problem,
    meant_type,
    parse_address,
    read_name,
)
from quotaform.model.errors import UsageError, as_usage_error
from quotaform.model.filter import EntityFilter, FilterComponent, Rule
from quotaform.model.text import did_you_mean, inert, quote


def read_address(text: str) -> Entity:
    """Read an address, wherever a command takes one."""
    try:
        return parse_address(text)
    except ValueError as error:
        hint = "; a shell needs the single quotes" if str(error).endswith("'") else ""
        raise UsageError(f"{error}{hint}") from None


complete_entity_type: Final = complete_from(ENTITY_TYPES)
complete_name: Final = complete_from(ENTITY_TYPES, "=")
"""Names are not known without asking a cluster."""

_ADDRESS: Final = "Address as printed in results, e.g. user=alice or 'user=alice,client-id=<default>'."
ONE_ENTITY: Final = argument("ENTITY", _ADDRESS, REQUIRED, parser=read_address, complete=complete_name)
ANY_ENTITY: Final = argument("ENTITY", _ADDRESS, parser=read_address, complete=complete_name)
ENTITIES: Final = argument("[ENTITY]...", f"{_ADDRESS} [default: all]", parser=read_address, complete=complete_name)
FORMER_NAME: Final = option("--name", "", hidden=True)


# What the options that name entities say: `--name`, `--default`, `--any`, `--prefix` and `--not`.
#
# Each option is one `type=name`, may be repeated, and takes the name as it is: a comma or an `=` in it means nothing. A
# name may also be written as plans and other results print it, in double quotes with JSON's escapes.


def read_pair(option: str, text: str) -> tuple[str, str]:
    """Read `type=name`.

    Raises `UsageError` if it is no pair, or it says `<default>`, which may mean two things.
    """
    entity_type, separator, name = text.partition("=")
    if not separator or not entity_type:
        raise UsageError(f"{option} {quote(text)} is not TYPE=NAME; write for example {option} user=alice")
    _require_known(option, entity_type)
    if name == DEFAULT_WORD and option == "--not":
        raise UsageError(
            f"{option} {quote(text)}: --not leaves out a name and keeps the default; "
            f"to leave it out give --prefix {entity_type}="
        )
    if name == DEFAULT_WORD:
        raise UsageError(
            f"{option} {quote(text)}: for the default write --default {entity_type}; for the literal name "
            f"{DEFAULT_WORD} write it in double quotes, {option} '{entity_type}=\"{name}\"'"
        )
    if not name.startswith('"') and (second := next((kind for kind in ENTITY_TYPES if f",{kind}=" in name), None)):
        first, _, rest = name.partition(f",{second}=")
        raise UsageError(
            f"{option} {quote(text)} contains two names; write {option} {entity_type}={inert(first)} "
            f"{option} {second}={inert(rest)}, or {option} '{entity_type}={quote(name)}' for one name with a comma"
        )
    return entity_type, read_name(name)


def _require_known(option: str, entity_type: str) -> None:
    """Refuse what is not an entity type of Kafka: a broker refuses it too, in words that name no option."""
    if entity_type in ENTITY_TYPES:
        return
    meant = meant_type(entity_type)
    guess = f"; did you mean {meant}?" if meant is not None else did_you_mean(entity_type, ENTITY_TYPES)
    raise UsageError(
        f"{option}: {quote(entity_type)} is not an entity type{guess or '.'} "
        f"The types are {', '.join(ENTITY_TYPES)}; kafka-client-quotas also takes types that only the broker knows"
    )


def read_entity(
    names: Iterable[str] | None, defaults: Iterable[str] | None = None, *, entity: Entity | None = None
) -> Entity:
    """Return the entity that the argument is, or that `--name` and `--default` say; without parts if none is given."""
    if entity is not None:
        for entity_type in entity.types:
            _require_known(entity.address, entity_type)
        return entity
    parts: dict[str, str | None] = {}
    pairs: list[tuple[str, str | None]] = [read_pair("--name", text) for text in names or ()]
    pairs += [(_read_type("--default", text), None) for text in defaults or ()]
    for entity_type, name in pairs:
        if entity_type in parts:
            raise UsageError(f"{quote(entity_type)} is given twice; an entity has one name or the default per type")
        parts[entity_type] = name
    return Entity(parts)


def require_address(entity: Entity) -> None:
    """Make sure that the name of an ip is an address as brokers spell it."""
    name = entity.names.get(IP)
    if name is not None and (problem := ip_problem(name)):
        raise UsageError(f"{entity.address}: {problem}")


def _read_type(option: str, text: str) -> str:
    if not text or "=" in text:
        raise UsageError(f"{option} {quote(text)} is not an entity type; write for example {option} user")
    _require_known(option, text)
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The entities that a command is about: one, or those that all options ask for together."""

    entity: Entity | None = ANY_ENTITY
    name: list[str] | None = option(
        "--name TYPE=NAME",
        "Entities with this name of an entity type (user, client-id or ip). Repeatable, once per type.",
        complete=complete_name,
    )
    default: list[str] | None = option(
        "--default TYPE", "Entities with the default of an entity type. Repeatable.", complete=complete_entity_type
    )
    any_name: list[str] | None = option(
        "--any TYPE", "Any name of an entity type, including its default. Repeatable.", complete=complete_entity_type
    )
    prefix: list[str] | None = option("--prefix TYPE=TEXT", "Names with this prefix. Repeatable.")
    other: list[str] | None = option("--not TYPE=NAME", "All names except this one, including the default. Repeatable.")
    strict: bool = flag("--strict", "Only entities without other entity types.")

    def read(self) -> EntityFilter:
        with as_usage_error():
            components = [
                FilterComponent(entity_type, Rule.DEFAULT if name is None else Rule.EXACT, name)
                for entity_type, name in read_entity(self.name, self.default, entity=self.entity).parts
            ]
            components += [FilterComponent(_read_type("--any", text), Rule.ANY) for text in self.any_name or ()]
            for option_name, rule, texts in (("--prefix", Rule.PREFIX, self.prefix), ("--not", Rule.NOT, self.other)):
                for entity_type, name in (read_pair(option_name, text) for text in texts or ()):
                    components.append(FilterComponent(entity_type, rule, name))
        return EntityFilter(tuple(components), self.strict or self.entity is not None)
