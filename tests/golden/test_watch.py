"""What a process that goes on comparing logs: `story-watch.txt` holds what happens to it, in the words of `Story`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from re import search
from shlex import split

from quotaform.model.entity import Entity
from quotaform.model.errors import ClusterError
from quotaform.model.quotas import Quotas
from tests.builder import PRODUCER
from tests.git_repository import GitRepository
from tests.golden.conftest import Golden
from tests.golden.table import check_told
from tests.unit.test_watch import DRIFT, SYNC, World


def broken() -> Quotas:
    raise ZeroDivisionError("oops")


STATES: dict[str, Quotas | ClusterError | Callable[[], Quotas]] = {
    "sync": SYNC,
    "drift": DRIFT,
    "both": {**SYNC, Entity(user="bob"): {PRODUCER: 1.0}},
    "down": ClusterError("it is down"),
    "broken": broken,
}


class Story:
    """What happens to a process that watches, and what it logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True)

    def watch(self, *said: str) -> None:
        """`watch eu=sync base=HEAD`: begin to watch clusters."""
        live = dict(each.split("=") for each in said)
        base = live.pop("base", None)
        self.world = World(self.folder, {name: STATES[state] for name, state in live.items()}, base=base)

    def live(self, name: str, state: str) -> None:
        self.world.live[name] = STATES[state]

    def clusters(self, *names: str) -> None:
        """`clusters eu us 'more=...'`: quotaform.yaml has these, and this line."""
        more = [each.removeprefix("more=") + "\n" for each in names if each.startswith("more=")]
        self.world.configure(*(each for each in names if "=" not in each), more="".join(more))

    def file(self, name: str, text: str) -> None:
        self.world.write(name, f"{text}\n" if text else "")

    def remove(self, name: str) -> None:
        (self.folder / name).unlink()

    def folder_of(self, name: str) -> None:
        (self.folder / name).mkdir()

    def metrics(self, name: str) -> None:
        self.world.metrics = self.folder / name
        self.world.watch.is_alone = True

    def git(self, *arguments: str) -> None:
        GitRepository(self.folder).git(*arguments)

    def wait(self, seconds: str) -> None:
        self.world.clock.seconds += float(seconds)

    def run(self, rounds: str) -> Iterator[str]:
        self.world.asked.clear()
        lines = self.world.run(int(rounds)) or ["(nothing)"]
        yield f"{rounds} rounds:"
        yield from (f"  {line}".replace(f"{self.folder}/", "") for line in lines)

    def asked(self) -> Iterator[str]:
        yield f"asked: {dict(sorted(Counter(self.world.asked).items()))}"

    def sample(self, name: str, *labels: str) -> Iterator[str]:
        yield f"{name} of {', '.join(labels)}: {self.world.sample(name, *labels)}"

    def show(self, name: str, pattern: str) -> Iterator[str]:
        yield from (line for line in (self.folder / name).read_text().splitlines() if search(pattern, line))

    def health(self) -> Iterator[str]:
        is_alive, found = self.world.watch.health()
        clusters = {name: each["status"] for name, each in found["clusters"].items()}
        yield f"{'health' if is_alive else 'failing'}: {found['status']}, files {found['files']}, {clusters}"


def test_what_a_watch_logs(golden: Golden, tmp_path: Path) -> None:
    numbers = count()

    def tell(text: str | bytes) -> Iterator[str]:
        story = Story(tmp_path / str(next(numbers)) / "one")
        for line in str(text).splitlines():
            word, *arguments = split(line)
            yield from getattr(story, "folder_of" if word == "folder" else word)(*arguments) or ()

    check_told(golden, "story-watch.txt", tell)
