"""`python -m tests.mutants`: change decisions of the code, one at a time, and see whether a test fails.

The sample in tests/data/mutants.json is fixed. A mutant is the qualified name of a function, the source of a statement
or an expression in it, how often that stands in the function before, and what stands there instead. Functions may move
to other files (`file` and `operator` are for people). When one is renamed, its mutants are found by their source; when
a name in the source changes, `renamed` in the sample maps the old word to the new one.

A clone of HEAD in build/mutants is changed, never the files here. The first run of a commit records which functions
each test executes. Tests that need a broker, Spark or the installed command are left out, and slow ones.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
WORK: Final = ROOT / "build/mutants"
PYTEST: Final = (
    *(sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "tests.executed_functions", "-p", "no:cacheprovider"),
    *("-m", "not kafka and not spark and not workflow and not slow and not prove"),
    *(f"--ignore=tests/{folder}" for folder in ("kafka", "spark", "workflow", "browser", "fuzz")),
    *("--hypothesis-profile=quotaform-fast", "--hypothesis-seed=0"),
)
MEMORY: Final = 6 << 30
"""Bytes of address space of a test run: a mutant may allocate without end."""

Place = tuple["Function", ast.expr | ast.stmt]
Test = tuple[float, int, str]
"""Seconds of a test, how many functions it executes, and its name."""


class Function(NamedTuple):
    """A function of a module or a method of a class; what is nested in it belongs to it."""

    path: str
    name: str
    node: ast.FunctionDef


def load_sample() -> list[dict[str, Any]]:
    sample = json.loads((ROOT / "tests/data/mutants.json").read_text())

    def today(text: str) -> str:
        return re.sub(r"\w+", lambda word: str(sample["renamed"].get(word[0], word[0])), text)

    words = "function", "before", "after"
    return [{**mutant, **{name: today(mutant[name]) for name in words}} for mutant in sample["mutants"]]


def functions_of(root: Path) -> list[Function]:
    """Return every function of the package, in the order of the files."""
    found: list[Function] = []

    def visit(node: ast.AST, path: str, outer: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                found.append(Function(path, outer + child.name, child))
            else:
                visit(child, path, f"{outer}{child.name}." if isinstance(child, ast.ClassDef) else outer)

    for file in sorted((root / "src").rglob("*.py")):
        visit(ast.parse(file.read_bytes()), file.relative_to(root).as_posix(), "")
    return found


@cache
def places(function: ast.FunctionDef) -> Mapping[str, list[ast.expr | ast.stmt]]:
    """Return the statements and expressions of a function by their source, the outermost ones, in order."""
    found: dict[str, dict[tuple[int, int], ast.expr | ast.stmt]] = defaultdict(dict)
    for node in ast.walk(function):
        if isinstance(node, ast.expr | ast.stmt):
            found[ast.unparse(node)].setdefault((node.lineno, node.col_offset), node)
    return {source: [nodes[place] for place in sorted(nodes)] for source, nodes in found.items()}


def find(mutant: Mapping[str, Any], functions: Sequence[Function]) -> Place | None:
    """Find the place of a mutant: in the function of its name, or in the only other one where its source stands."""
    last = mutant["function"].rpartition(".")[2]
    for among in (
        [each for each in functions if each.name == mutant["function"]],
        [each for each in functions if each.name.rpartition(".")[2] == last],
        functions,
    ):
        found = [(each, nodes) for each in among if (nodes := places(each.node).get(mutant["before"]))]
        if len(found) == 1 and len(found[0][1]) > mutant["occurrence"]:
            return found[0][0], found[0][1][mutant["occurrence"]]
    return None


def changed(text: bytes, node: ast.expr | ast.stmt, after: str) -> bytes:
    """Return the text of a module with other source in place of a node."""
    lines = text.splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: (node.end_lineno or 0) - 1])) + (node.end_col_offset or 0)
    return text[:start] + (after if isinstance(node, ast.stmt) else f"({after})").encode() + text[end:]


def clone(commit: str, name: str) -> Path:
    tree = WORK / name
    if not tree.exists():
        subprocess.run(["git", "clone", "-q", "--shared", "--no-checkout", ROOT, tree], check=True)
    subprocess.run(["git", "checkout", "-q", "--force", "--detach", commit], cwd=tree, check=True)
    return tree


def run_tests(tree: Path, *arguments: str, limit: float | None = None, **variables: str) -> tuple[int, str]:
    """Run pytest in a clone; return its exit code (of a killed process, when it took too long) and what it printed."""
    process = subprocess.Popen(
        [*PYTEST, *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / "src"), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )
    try:
        printed = process.communicate(timeout=limit)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        printed = process.communicate()[0]
    return process.returncode, printed


def tests_by_function(tree: Path, commit: str) -> dict[str, list[Test]]:
    """Return the tests that execute each function, the fastest first; recorded once per commit."""
    file = WORK / f"tests-{commit}.json"
    if not file.exists():
        print("Recording which functions each test executes (minutes).", flush=True)
        code, printed = run_tests(tree, QUOTAFORM_RECORD_FUNCTIONS=str(file.with_suffix(".part")))
        print(printed[-2000:], flush=True)
        if code not in (0, 1):
            sys.exit("The tests cannot be recorded.")
        file.with_suffix(".part").rename(file)
    tests: dict[str, list[Test]] = json.loads(file.read_text())
    return tests


def judge(tree: Path, place: Place, after: str, tests: Sequence[Test]) -> list[str]:
    """Apply a mutant, run tests until one fails, and restore the file; return the verdict, and what it rests on."""
    # Most mutants are noticed by a few tests of the function itself, and importing the files of all takes long.
    closest = [name for _, _, name in sorted(tests, key=lambda test: test[1])[:30]]
    others = [name for _, _, name in tests if name not in closest]
    limit = 120 + 3 * sum(seconds for seconds, _, _ in tests)
    function, node = place
    path, listed = tree / function.path, tree.with_suffix(".json")
    text, times = path.read_bytes(), path.stat()
    path.write_bytes(changed(text, node, after))
    try:
        for some in filter(None, (closest, others)):
            listed.write_text(json.dumps(some))
            files = dict.fromkeys(name.partition("::")[0] for name in some)
            variables = {"QUOTAFORM_RUN_TESTS": str(listed), "PYTHONDONTWRITEBYTECODE": "1"}
            code, printed = run_tests(tree, "-x", *files, limit=limit, **variables)
            if code == -signal.SIGKILL:
                return ["timed out", ""]
            if code not in (0, 5):  # 5: none of these tests was found
                failed = re.search(r"^(?:FAILED|ERROR|ImportError while loading) (\S+)", printed, re.MULTILINE)
                return ["killed", failed[1]] if failed else sys.exit(f"pytest ended with {code}:\n{printed[-2000:]}")
        return ["survived", f"{len(tests)} tests"]
    finally:
        path.write_bytes(text)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # what is compiled stays valid


def shown(number: int, mutant: Mapping[str, Any], verdict: Sequence[str]) -> str:
    """Return the lines about a mutant and its verdict."""
    head = f"{number:3} {' '.join(verdict)}  {mutant['function']}"
    return head if verdict[0] == "killed" else f"{head}\n      - {mutant['before']}\n      + {mutant['after']}"


def main() -> int:
    """Judge the mutants that have no verdict for this commit; print those that live, and the total."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", type=int, metavar="N", help="judge this mutant, even if it has a verdict")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time (default: 1)")
    parser.add_argument("--find", action="store_true", help="only say which mutants are not found in the files here")
    options = parser.parse_args()
    sample = load_sample()
    if options.find:
        functions = functions_of(ROOT)
        places = [find(mutant, functions) for mutant in sample]
        print(*(shown(i, sample[i], ["not found"]) for i, place in enumerate(places) if place is None), sep="\n")
        return 1 if None in places else 0

    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip()
    trees: SimpleQueue[Path] = SimpleQueue()
    for job in range(options.jobs):
        trees.put(clone(commit, f"tree-{job}"))
    tests = tests_by_function(WORK / "tree-0", commit)
    functions = functions_of(WORK / "tree-0")

    def verdict_of(number: int) -> list[str]:
        if (place := find(sample[number], functions)) is None:
            return ["not found"]
        covering = tests.get(f"{place[0].path}:{place[0].name}", [])
        tree = trees.get()
        try:
            return judge(tree, place, sample[number]["after"], covering)
        finally:
            trees.put(tree)

    file = WORK / f"verdicts-{commit}.json"
    verdicts: dict[str, list[str]] = json.loads(file.read_text()) if file.exists() else {}
    keys = [json.dumps([mutant[name] for name in ("function", "before", "occurrence", "after")]) for mutant in sample]
    numbers = [i for i, key in enumerate(keys) if key not in verdicts] if options.only is None else [options.only]
    with ThreadPoolExecutor(options.jobs) as pool:
        for number, verdict in zip(numbers, pool.map(verdict_of, numbers), strict=True):
            verdicts[keys[number]] = verdict
            file.write_text(json.dumps(verdicts, indent=1))
            print(shown(number, sample[number], verdict), flush=True)

    known = {number: verdicts[key] for number, key in enumerate(keys) if key in verdicts}
    print("\nNot killed:")
    print(*(shown(i, sample[i], each) for i, each in known.items() if each[0] not in ("killed", "timed out")), sep="\n")
    print(
        f"\n{len(known)} of {len(sample)} judged at {commit[:12]}:", dict(Counter(each[0] for each in known.values()))
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
