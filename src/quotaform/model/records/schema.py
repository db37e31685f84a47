"""JSON Schemas: their nodes, and the definitions that several schemas share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from json import dumps
from re import compile as regex
from typing import Any, Final, TypeAlias

from msgspec.json import schema_components

from quotaform.model.entity import ENTITY_TYPES
from quotaform.model.finding import Severity
from quotaform.model.quotas import Action
from quotaform.model.records.document import DocumentKind
from quotaform.model.records.record import Record, schema_of
from quotaform.model.rule import RULES

Node: TypeAlias = dict[str, Any]

_REF: Final = "#/definitions/"

_LARGEST_COUNT: Final = 2**53 - 1
"""The largest integer that every reader of JSON takes exactly (RFC 8259)."""


MOMENT: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{6})?Z$"
"""A time with its fraction, if it has one, as `quotaform.model.moment.spell_moment` writes it."""


def number(description: str) -> Node:
    """Return the schema of a measured number, which is never below 0."""
    return {"description": description, "type": "number", "minimum": 0}


def text(description: str, *examples: str, **more: Any) -> Node:
    """Return the schema of a text."""
    return {"description": description, "type": "string", **more, **_examples(examples)}


def maybe_text(description: str, *examples: str, **more: Any) -> Node:
    """Return the schema of a text or null."""
    return {"description": description, "type": ["string", "null"], **more, **_examples(examples)}


def boolean(description: str) -> Node:
    """Return the schema of true or false."""
    return {"description": description, "type": "boolean"}


def count(description: str) -> Node:
    """Return the schema of a number of things."""
    return {"description": description, "type": "integer", "minimum": 0, "maximum": _LARGEST_COUNT}


def choice(description: str, values: Iterable[str | None]) -> Node:
    """Return the schema of one of several words."""
    return {"description": description, "enum": list(values)}


def items(description: str, item: Node, **more: Any) -> Node:
    """Return the schema of a list."""
    return {"description": description, "type": "array", "items": item, **more}


def record(description: str, fields: Mapping[str, Node], optional: Iterable[str] = ()) -> Node:
    """Return the schema of an object that quotaform writes: it has these fields, and a newer version may add some."""
    required = [name for name in fields if name not in set(optional)]
    return {"description": description, "type": "object", "required": required, "properties": dict(fields)}


def mapping(description: str, value: Node, *examples: Any, **more: Any) -> Node:
    """Return the schema of an object from any name to values of one kind."""
    return {"description": description, "type": "object", **more, "additionalProperties": value, **_examples(examples)}


def closed(description: str, fields: Mapping[str, Node], **more: Any) -> Node:
    """Return the schema of an object that people write: a field that is not listed is an error."""
    return {
        "description": description,
        "type": "object",
        **more,
        "additionalProperties": False,
        "properties": dict(fields),
    }


def ref(name: str, description: str = "") -> Node:
    """Return a reference to a shared definition, with a description of its own if there is one."""
    pointer = {"$ref": f"#/definitions/{name}"}
    # Draft 7 ignores what stands beside a $ref.
    return {"allOf": [pointer], "description": description} if description else pointer


def maybe(node: Node, description: str) -> Node:
    """Return the schema of something or null."""
    return {"description": description, "anyOf": [node, {"type": "null"}]}


def _examples(examples: Iterable[Any]) -> Node:
    listed = list(examples)
    return {"examples": listed} if listed else {}


TIMESTAMP: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"
DAY: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
DIGEST: Final = "^sha256:[0-9a-f]{64}$"
IN_SYNC: Final = "Declared entities without differences."


def timestamp(description: str) -> Node:
    """Return the schema of a moment."""
    return text(f"{description}, as ISO 8601 in UTC.", pattern=TIMESTAMP)


def digest(description: str) -> Node:
    """Return the schema of a digest."""
    return text(description, pattern=DIGEST)


def titled(title: str, schema: Node) -> Node:
    """Return a schema with what editors call it."""
    return {"title": f"quotaform: {title}", **schema}


def document(kind: DocumentKind, description: str, fields: Mapping[str, Node], optional: Iterable[str] = ()) -> Node:
    """Return the schema of a document: its kind and version, and its own fields."""
    head = {
        "format_version": text("Minor versions only add fields.", pattern=rf"^{kind.major}\.[0-9]+$"),
        "kind": {"description": "The kind of this document.", "const": kind.kind},
    }
    return titled(kind.name, record(description, {**head, **fields}, optional))


_CAPITAL: Final = regex("(?<!^)(?=[A-Z])")


def record_definitions(*kinds: type[Record]) -> dict[str, Node]:
    """Return the definitions of records and of those that they refer to, e.g. `cluster_backtest`."""

    def renamed(item: Any) -> Any:
        if isinstance(item, list):
            return list(map(renamed, item))
        if not isinstance(item, dict):
            return item
        if len(item.get("enum", ())) == 1:
            item = {**item, "const": item["enum"][0]}
            del item["enum"]
        if isinstance(item.get("properties"), dict) and "description" in item:
            item = {**item, "description": item["description"].partition("\n\n    >>>")[0]}
        if isinstance(fields := item.get("properties"), dict) and "required" in item:
            # A field with a default is always written, unlike one that may be left out.
            required = [name for name, field in fields.items() if name in item["required"] or "default" in field]
            item = {**item, "required": required}
        return {
            name: _REF + _definition(value.removeprefix(_REF)) if name == "$ref" else renamed(value)
            for name, value in item.items()
            if name not in {"title", "default"} or isinstance(value, dict)
        }

    _, found = schema_components(kinds, ref_template=_REF + "{name}", schema_hook=schema_of)
    return {_definition(name): renamed(schema) for name, schema in found.items()}


def _definition(name: str) -> str:
    return _CAPITAL.sub("_", name.removesuffix("Record")).lower()


def document_of(kind: type[Record]) -> tuple[Node, dict[str, Node]]:
    """Return the schema of a document that is a record, and its definitions."""
    definitions = record_definitions(kind)
    schema = definitions.pop(_definition(kind.__name__))
    return titled(schema["properties"]["kind"]["const"].removeprefix("quotaform."), schema), definitions


def address(*examples: str) -> Node:
    """Return the schema of an entity on one line."""
    return text("The address of the entity: unique, and safe to print.", *examples, minLength=1)


def quota_key() -> Node:
    """Return the schema of the name of a quota key, which may be one that only the broker knows."""
    return text("The quota key.", "producer_byte_rate", minLength=1)


def globs(description: str) -> Node:
    """Return the schema of globs over addresses."""
    return items(description, {"type": "string"})


def _action() -> Node:
    return choice(
        "create: no value before; update: another value before; delete: no value after.",
        (action.value for action in Action),
    )


def _entity() -> Node:
    return mapping(
        f"Entity type ({', '.join(ENTITY_TYPES)} or one that only the broker knows) to name; null is the default of "
        "the type.",
        {"type": ["string", "null"]},
        {"user": "svc-orders"},
        {"user": None, "client-id": "etl"},
        minProperties=1,
    )


def _value() -> Node:
    return {
        "description": "The exact decimal of an IEEE-754 double; NaN and infinities are strings.",
        "anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}],
        "examples": [10485760, 12.5, 9223372036854775808, "NaN"],
    }


def _finding() -> Node:
    return record(
        "A finding about a file, an entity or a plan.",
        {
            "rule": text("The id of its rule; docs/rules.md lists them.", *RULES, minLength=1),
            "severity": choice("The severity; only errors stop the command.", (each.value for each in Severity)),
            "blocking": boolean("Whether it prevents a plan from being applied."),
            "address": maybe_text("The address of the entity, or null."),
            "key": maybe_text("The quota key, or null."),
            "message": text("The problem and its remedy."),
            "override": maybe_text("What allows it, or null: an option, or an approval."),
            "allowance": record(
                "The smallest allowance that allows it (--allow RULE or RULE=N); omitted if none does.",
                {
                    "rule": text("The id of the rule.", minLength=1),
                    "number": maybe({"type": "integer", "minimum": 0}, "The number, for a rule that counts."),
                },
            ),
            "value": ref("value", "The value or effective limit that an approval may be for; omitted if none."),
            "allowed_by": text("The option or the approval that allows it; omitted otherwise.", "--allow delete=8"),
            "location": ref("maybe_location"),
        },
        optional=("allowance", "value", "allowed_by"),
    )


def _cluster() -> Node:
    return record(
        "The cluster.",
        {
            "name": text("The name in quotaform.yaml, or the bootstrap servers."),
            "id": text("The cluster id."),
        },
    )


def _snapshot_file() -> Node:
    return record(
        "The snapshot that was read instead of a running cluster.",
        {
            "path": text("The file, as it was given.", "snapshots/lab.json"),
            "captured_at": text("When the cluster was read, as the snapshot says: ISO 8601 in UTC."),
        },
    )


def _location() -> Node:
    return record(
        "A location in the files.",
        {
            "file": text("The path, as given.", "quotas.d/teams.yaml"),
            "line": count("The line, from 1 on; 0 means the file as a whole."),
            "column": count("The column, from 1 on; 0 means the line as a whole."),
        },
    )


SHARED: Final[dict[str, Callable[[], Node]]] = {
    "cluster": _cluster,
    "snapshot_file": _snapshot_file,
    "action": _action,
    "address": lambda: address("user=svc-orders"),
    "entity": _entity,
    "value": _value,
    "maybe_value": lambda: maybe(ref("value"), "A value, or null if there is none."),
    "values": lambda: mapping(
        "Quota key to value.",
        ref("value"),
        {"producer_byte_rate": 10485760, "request_percentage": 150},
        minProperties=1,
    ),
    "maybe_values": lambda: maybe(ref("values"), "All values of an entity, or null if it does not exist."),
    "location": _location,
    "maybe_location": lambda: maybe(ref("location"), "A location in the files, or null."),
    "finding": _finding,
}
"""The shared definitions; a schema holds those that it refers to."""


Builder: TypeAlias = Callable[[], tuple[Node, dict[str, Node]]] | type[Record]
"""A record, or what returns a schema and its own definitions."""


@cache
def make_schema(build: Builder) -> dict[str, Any]:
    """Return a schema with the definitions that it refers to; do not change it."""
    schema, definitions = document_of(build) if isinstance(build, type) else build()
    draft = "http://json-schema.org/draft-07/schema#"
    return {"$schema": draft, **schema, "definitions": _used(schema, definitions)}


def render_schema(build: Builder) -> str:
    """Return a schema as files hold it."""
    return dumps(make_schema(build), indent=2) + "\n"


def _used(schema: Node, own: Mapping[str, Node]) -> dict[str, Node]:
    """Return the definitions that a schema refers to, its own and shared ones, in the order of their first use."""
    used: dict[str, Node] = {}
    todo: list[Any] = [schema]
    while todo:
        item = todo.pop(0)
        if isinstance(item, list):
            todo += item
        elif isinstance(item, dict):
            name = str(item.get("$ref", "")).rpartition("/")[2]
            if name and name not in used:
                used[name] = own[name] if name in own else SHARED[name]()
                todo.append(used[name])
            todo += item.values()
    return used
