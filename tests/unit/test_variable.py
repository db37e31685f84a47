"""`${env:NAME}` is read in one way wherever it is allowed."""

from __future__ import annotations

import ast
from pathlib import Path
from time import process_time

import pytest

import quotaform
from quotaform.model.variable import OwnSecret, ReferenceProblem, expand, problem_text

VARIABLES = {"HOST": "b1", "PORT": "9092", "NESTED": "${env:HOST}", "QUOTAFORM_ENV": "HOST, PORT,NESTED,OTHER"}


def test_a_value_does_not_show_in_a_representation() -> None:
    assert "b1" not in repr(expand("${env:HOST}", VARIABLES))


def test_many_openings_take_no_time() -> None:
    """`${` 200,000 times took over 15 s in client properties: each opening was followed to the end of the text."""
    start = process_time()
    expand("${" * 200_000, VARIABLES)
    assert process_time() - start < 20


@pytest.mark.parametrize("environment", [{}, {"AWS_SECRET_ACCESS_KEY": "s3cr3t"}])
def test_a_variable_that_the_operator_does_not_allow_is_not_read(environment: dict[str, str]) -> None:
    """A pull request chose which variables of the CI machine were read; now the answer does not say which exist."""
    expansion = expand("${env:AWS_SECRET_ACCESS_KEY}", environment)
    assert expansion.text == "${env:AWS_SECRET_ACCESS_KEY}"
    [(problem, name)] = expansion.problems
    assert problem_text(problem, name) == (
        "the environment variable AWS_SECRET_ACCESS_KEY may not be read; the operator must list it in QUOTAFORM_ENV: "
        "set the environment variable QUOTAFORM_ENV=AWS_SECRET_ACCESS_KEY (names separated by commas)"
    )


@pytest.mark.parametrize("name", ["hunter2", "Hunter2", "QUOTAFORM_hunter2"])
@pytest.mark.parametrize("problem", ReferenceProblem)
def test_a_value_in_the_place_of_a_name_is_not_repeated(problem: ReferenceProblem, name: str) -> None:
    assert "hunter2" not in problem_text(problem, name).lower()


@pytest.mark.parametrize("name", OwnSecret)
def test_a_secret_that_is_no_part_of_a_connection_is_never_expanded(name: str) -> None:
    """A file could send the token of comments, or that of Prometheus, to a broker of its choice."""
    found = expand(f"${{env:{name}}}.example:9092", {name: "hunter2", "QUOTAFORM_ENV": name})
    assert found.problems == ((ReferenceProblem.NOT_ALLOWED, name),)
    assert "hunter2" not in found.text
    assert "contains a secret that is not part of a connection" in problem_text(ReferenceProblem.NOT_ALLOWED, name)


@pytest.mark.exhaustive
def test_each_secret_of_our_own_is_named_in_the_table_alone() -> None:
    """The four variables of Prometheus were read by their own names, and missing where expansion is refused."""
    folder = Path(quotaform.__file__).parent
    elsewhere = []
    for path in sorted(folder.rglob("*.py")):
        if path == folder / "model" / "variable.py":
            continue
        texts = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        words = ("TOKEN", "SECRET", "PASSWORD")
        named = {text for text in texts if isinstance(text, str) and text.isupper() and text.isidentifier()}
        elsewhere += [text for text in named if text in set(OwnSecret) or text.endswith(words)]
    # That there is one is said, and its value never read.
    assert sorted(elsewhere) == ["CI_JOB_TOKEN"]
