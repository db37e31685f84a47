"""JSON Schemas: the nodes of those of people's files, those that are made of records, and what fits them.

The one module that imports the JSON Schema library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import islice
from json import dumps
from re import compile as regex
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct
from msgspec.inspect import StructType, type_info
from msgspec.json import schema_components
from msgspec.structs import astuple

from quotaform.model.records.record import Record, left_out, schema_of

if TYPE_CHECKING:
    from jsonschema_rs import Validator as Validator

Node: TypeAlias = dict[str, Any]

_REF: Final = "#/definitions/"
_IN_CODE: Final = "in_code"
_TABLES: Final = regex(r"\n\n +(?:\||>>>)")


def text(description: str, *examples: str, **more: Any) -> Node:
    """Return the schema of a text."""
    given = {"examples": list(examples)} if examples else {}
    return {"description": description, "type": "string", **more, **given}


def choice(description: str, values: Iterable[str | None]) -> Node:
    """Return the schema of one of several words."""
    return {"description": description, "enum": list(values)}


def items(description: str, item: Node, **more: Any) -> Node:
    """Return the schema of a list."""
    return {"description": description, "type": "array", "items": item, **more}


def mapping(description: str, value: Node, **more: Any) -> Node:
    """Return the schema of an object from any name to values of one kind."""
    return {"description": description, "type": "object", "additionalProperties": value, **more}


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
    # Draft 7 ignores what is next to a $ref.
    return {"allOf": [pointer], "description": description} if description else pointer


def in_code(node: Node, left: Node) -> Node:
    """Return the schema of what code checks and says better; `left` is what the schema checks of it in people's files.

    Where schemas are published, the whole of it stands.
    """
    return {**node, _IN_CODE: left}


DAY: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"


def titled(title: str, schema: Node, **definitions: Node) -> Node:
    """Return the whole schema of a file or a document, with what editors call it and all that it refers to."""
    draft = "http://json-schema.org/draft-07/schema#"
    return {"$schema": draft, "title": f"quotaform: {title}", **schema, "definitions": definitions}


_CAPITAL: Final = regex("(?<!^)(?=[A-Z])")


def record_definitions(kind: type[Record]) -> dict[str, Node]:
    """Return the definitions of a record and of those that it refers to, e.g. `cluster_backtest`."""

    def renamed(item: Any) -> Any:
        if isinstance(item, list):
            return list(map(renamed, item))
        if not isinstance(item, dict):
            return item
        if len(item.get("enum", ())) == 1:
            item = {**item, "const": item["enum"][0]}
            del item["enum"]
        if isinstance(fields := item.get("properties"), dict) and "required" in item:
            optional = left_out(classes[item["title"]]) if item.get("title") in classes else {}
            required = [name for name in fields if name not in optional]
            given = {name: _given(fields[name]) for name, default in optional.items() if default is None}
            item = {**item, "required": required, "properties": fields | given}
        return {
            name: _REF + _definition(value.removeprefix(_REF)) if name == "$ref" else renamed(value)
            for name, value in item.items()
            if name not in {"title", "default"} or (isinstance(value, dict) and value)
        }

    classes = _records_in(kind)
    _, found = schema_components((kind,), ref_template=_REF + "{name}", schema_hook=schema_of)
    definitions = {_definition(name): renamed(schema) for name, schema in found.items()}
    for schema in definitions.values():
        if "description" in schema:  # The docstring; tables and examples are for people who read the code.
            schema["description"] = " ".join(_TABLES.split(schema["description"])[0].split())
    return definitions


def _records_in(kind: type[Record]) -> dict[str, Any]:
    """Return a record and those that it refers to, by name."""
    found: dict[str, Any] = {}
    todo: list[Any] = [type_info(kind)]
    for here in todo:
        if isinstance(here, StructType):
            if here.cls.__name__ in found:
                continue
            found[here.cls.__name__] = here.cls
        todo += astuple(here) if isinstance(here, Struct) else here if isinstance(here, tuple) else ()
    return found


def _given(field: Node) -> Node:
    """Return the schema of a field that is left out instead of null."""
    some = [each for each in field.get("anyOf", ()) if each != {"type": "null"}]
    rest = {name: value for name, value in field.items() if name != "anyOf"}
    if not some:
        return field
    return {**rest, "anyOf": some} if len(some) > 1 else {**rest, **some[0]}


def _definition(name: str) -> str:
    return _CAPITAL.sub("_", name.removesuffix("Record")).lower()


Builder: TypeAlias = Callable[[], Node] | type[Record]
"""A record, or what returns a schema."""


@cache
def make_schema(build: Builder, *, is_shape: bool = False) -> dict[str, Any]:
    """Return a schema; do not change it.

    `is_shape`: without what code checks (`in_code`).
    """
    if isinstance(build, type):
        definitions = record_definitions(build)
        schema = definitions.pop(_definition(build.__name__))
        return titled(schema["properties"]["kind"]["const"].removeprefix("quotaform."), schema, **definitions)
    settled: Node = _settled(build(), is_shape=is_shape)
    return settled


def _settled(node: Any, *, is_shape: bool) -> Any:
    if isinstance(node, list):
        return [_settled(each, is_shape=is_shape) for each in node]
    if not isinstance(node, dict):
        return node
    if is_shape and _IN_CODE in node:
        node = node[_IN_CODE]
    return {name: _settled(each, is_shape=is_shape) for name, each in node.items() if name != _IN_CODE}


def nodes_of(schema: Any, path: Iterable[str | int]) -> list[Node]:
    """Return the mappings on the way to a keyword of a schema, as far as there is one."""
    here, nodes = schema, []
    for step in path:
        if isinstance(here, dict) and step in here:
            nodes.append(here)
            here = here[step]
        elif isinstance(here, list) and isinstance(step, int) and step < len(here):
            here = here[step]
        else:
            break
    return nodes


def render_schema(build: Builder) -> str:
    """Return a schema as files hold it."""
    return dumps(make_schema(build), indent=2) + "\n"


# Whether a document fits its schema, and why not.


_PATTERN_BYTES: Final = 1 << 18
"""How much memory a compiled pattern of a foreign schema may take."""
_MOST_REFUSALS: Final = 10_000


def refusals(schema: Validator, document: Any, most: int = _MOST_REFUSALS) -> list[tuple[tuple[str | int, ...], Any]]:
    """Return where a document does not satisfy a compiled schema, up to a number of places, each with the library's
    `ValidationError`.
    """
    errors = islice(schema.iter_errors(document), most)
    return [(_place(document, error.instance_path, error.instance), error) for error in errors]


def _place(document: Any, steps: Iterable[str | int], value: Any) -> tuple[str | int, ...]:
    """Return where a value is: the library takes a key of digits for an index, and leaves out an empty one."""
    here = document
    path: list[str | int] = []
    for step in steps:
        if isinstance(here, dict) and step not in here:
            if isinstance(step, int):
                step = next((key for key in here if key.isascii() and key.isdigit() and int(key) == step), "")
            elif "" in here:
                path.append("")
                here = here[""]
        path.append(step)
        here = here[step]
    if isinstance(here, dict) and here.get("") == value != here:
        path.append("")
    return tuple(path)


@cache
def gate(build: Builder, *, is_shape: bool = False) -> Validator:
    """Return a schema of our own, compiled; see `make_schema`."""
    from jsonschema_rs import Draft7Validator

    return Draft7Validator(make_schema(build, is_shape=is_shape))


def make_policy_gate(schema: dict[str, Any], *, is_old: bool) -> Validator:
    """Compile a schema from an untrusted source: nothing is fetched, and patterns are matched in linear time.

    `is_old` says whether it is one of draft-07; else it is one of draft 2020-12. Raises `ValueError` if it is no
    schema, or refers to something outside of itself: with the fields and indexes that lead there, and what the
    validator says, which may quote the schema.
    """
    from jsonschema_rs import Draft7Validator, Draft202012Validator, RegexOptions, ValidationError

    make = Draft7Validator if is_old else Draft202012Validator
    options = RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES)
    try:
        return make(schema, pattern_options=options, offline=True, validate_formats=True, ignore_unknown_formats=False)
    except ValidationError as error:
        raise ValueError(error.instance_path, error.message) from None
    except ValueError as error:
        raise ValueError((), str(error)) from None
