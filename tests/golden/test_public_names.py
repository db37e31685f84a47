"""What `import quotaform` promises: these names, and functions with these signatures."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import Parameter, signature

import quotaform
from tests.golden.conftest import Golden


def test_the_public_names_and_signatures(golden: Golden) -> None:
    assert sorted(set(quotaform.__all__)) == quotaform.__all__
    golden("public-names.txt", "".join(f"{line}\n" for name in quotaform.__all__ for line in lines_of(name)))


def lines_of(name: str) -> Iterator[str]:
    value = getattr(quotaform, name)
    if isinstance(value, type) or not callable(value):
        yield name
        return
    yield f"{name}("
    has_star = False
    for parameter in signature(value).parameters.values():
        if parameter.kind is Parameter.KEYWORD_ONLY and not has_star:
            yield "    *,"
            has_star = True
        has_star = has_star or parameter.kind is Parameter.VAR_POSITIONAL
        default = "" if parameter.default is Parameter.empty else f" = {shown(parameter.default)}"
        star = "*" if parameter.kind is Parameter.VAR_POSITIONAL else ""
        yield f"    {star}{parameter.name}: {parameter.annotation}{default},"
    yield f") -> {signature(value).return_annotation}"


def shown(default: object) -> str:
    """A default without an address in memory."""
    return getattr(default, "__name__", None) or (
        repr(default) if " at 0x" not in repr(default) else type(default).__name__
    )
