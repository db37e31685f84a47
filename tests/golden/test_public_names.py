"""What `import quotaform` promises: these names, functions with these signatures, and a sentence about wrong calls.

Most wrong calls ended in an `AttributeError` or another error from within, some of them after the cluster was asked.
"""

from __future__ import annotations

from ast import Assign, literal_eval, parse, unparse
from collections.abc import Iterator
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import quotaform
from quotaform.cluster.broker import split_alterations
from quotaform.model.errors import ClusterError
from tests.golden.conftest import Golden
from tests.golden.table import check_told
from tests.scripted_gateway import ScriptedGateway


def test_the_public_names_and_signatures(golden: Golden) -> None:
    assert sorted(set(quotaform.__all__)) == quotaform.__all__
    # A list that was computed gave type checkers no names after `from quotaform import *`.
    body = parse(Path(quotaform.__file__).read_text(encoding="utf-8")).body
    [listed] = [each.value for each in body if isinstance(each, Assign) and unparse(each.targets[0]) == "__all__"]
    assert literal_eval(listed) == quotaform.__all__
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


class Checked(ScriptedGateway):
    """Refuses what a running cluster refuses before it sends."""

    def alter(self, alterations: Any, **more: Any) -> Any:
        split_alterations(alterations)
        return super().alter(alterations, **more)


def test_wrong_calls_are_refused_in_these_words_and_nothing_is_sent(golden: Golden) -> None:
    def of_call(text: str) -> Iterator[str]:
        """Yield the error of an expression; `admin` is open, and `closed` is not any more."""
        gateway = Checked({})
        closed = quotaform.QuotaAdmin(Checked({}))
        closed.close()
        names = {name: getattr(quotaform, name) for name in quotaform.__all__}
        names |= {"admin": quotaform.QuotaAdmin(gateway), "closed": closed, "ALICE": quotaform.Entity(user="alice")}
        try:
            yield f"returns {eval(text, names)!r}"  # noqa: S307 (our own)
        except (TypeError, ValueError, ClusterError) as error:
            if gateway.log or "canary" in str(error):
                raise
            yield f"{type(error).__name__}: {error}"

    check_told(golden, "public-calls.txt", of_call)
