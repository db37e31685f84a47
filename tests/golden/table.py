"""Golden files that are tables: what somebody wrote and, below it, what comes of it.

A line of input begins with `> `. What cannot be written so is one line of `>> ` with a Python literal, text or bytes.
Lines that begin with `#` say why a case is there. A new case is its input; `make golden` adds the rest: the lines of a
function, or the words of what it raises.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from quotaform.model.errors import InvalidFilesError, QuotaformError
from tests.golden.conftest import FOLDER, Golden

Text = str | bytes
Lines = Iterable[object]
Make = Callable[[Any], Lines]
"""Makes lines of an input: of the text of all its lines, or of one line if its parameter is a `str`."""


def tables_of(module: Mapping[str, Any]) -> dict[str, Make]:
    """Return the functions of a module whose names begin with `of_`, by the rest of their names."""
    own = {name: each for name, each in module.items() if name.startswith("of_")}
    return {name.removeprefix("of_").replace("_", "-"): each for name, each in own.items()}


def told(golden_text: str, make: Make) -> Iterator[str]:
    """Yield the lines of a golden file anew, from what was written in it."""
    is_line = "str" in getattr(make, "__annotations__", {}).values()
    gap = ""
    for kind, group in groupby(golden_text.split("\n"), lambda line: line[:1] if line[:1] in ("#", ">") else ""):
        lines = list(group)
        if kind == "#":
            yield from [gap, *lines]
        elif kind == ">":
            yield from lines if gap == "#" else ["", *lines]
            text: Text = "".join(f"{line[2:]}\n" for line in lines)
            if lines[0].startswith(">>"):
                text = literal_eval(lines[0][3:])
            elif is_line:
                text = lines[0][2:]
            found = [*made(make, text)]
            assert all(each.isprintable() for each in found)
            yield from found or ["(nothing)"]
        gap = kind


def made(make: Make, text: Text) -> Iterator[str]:
    try:
        yield from map(str, make(text))
    except InvalidFilesError as error:
        yield from (f"{problem.location}: {problem.message}" for problem in error.problems)
    except (ValueError, QuotaformError) as error:
        yield str(error)


def check_told(golden: Golden, file: str, make: Make) -> None:
    """Compare a golden file with what is made of its inputs."""
    text = (FOLDER / file).read_text(encoding="utf-8")
    golden(file, "\n".join(told(text, make)).lstrip("\n") + "\n")
