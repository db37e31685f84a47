"""Option groups: one parameter of a command that stands for several options.

A group is a dataclass whose fields are options. A command that takes a parameter of that type has the options of the
group in its place, in `--help`, in the documentation and in completion, and is called with them as one value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def with_option_groups(command: Callable[..., int]) -> Callable[..., int]:
    """Return a command as typer reads it: every parameter that is a group is replaced by the options of the group."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[Parameter] = []
    groups: dict[str, type[Any]] = {}
    for name, parameter in signature(command).parameters.items():
        if is_dataclass(hints[name]):
            groups[name] = hints[name]
            parameters += _options(hints[name])
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=Parameter.KEYWORD_ONLY))

    @wraps(command)
    def run(**values: Any) -> int:
        for name, group in groups.items():
            values[name] = group(**{option.name: values.pop(option.name) for option in fields(group)})
        return command(**values)

    run.__signature__ = Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {"return": int}
    return run


def _options(group: type[Any]) -> Iterator[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for option in fields(group):
        default = Parameter.empty if option.default is MISSING else option.default
        yield Parameter(option.name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[option.name])
