"""A git repository with a quotas directory, and a clone of it, in which nothing of the tester's own git counts."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_NAME": "someone" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "someone@example.org" for who in ("AUTHOR", "COMMITTER")},
}


@dataclass(frozen=True)
class GitRepository:
    path: Path

    @classmethod
    def init(cls, path: Path, *options: str) -> GitRepository:
        path.mkdir(parents=True)
        made = cls(path)
        made.git("init", "-q", "-b", "main", *options)
        return made

    def git(self, *arguments: str, stdin: bytes | None = None) -> str:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run(
            ["git", *arguments], cwd=self.path, env=kept | ENVIRONMENT, input=stdin, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    def write(self, name: str, text: str | bytes) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    def declare(self, name: str, *users: str, more: str = "values: {producer_byte_rate: 1MiB/s}") -> None:
        items = "".join(f"  - match: {{user: {user}}}\n    {more}\n" for user in users)
        self.write(f"quotas.d/{name}", f"quotas:\n{items}" if items else "quotas: []\n")

    def commit(self) -> str:
        """Commit everything and return the id."""
        self.git("add", "-A", "-f")
        self.git("commit", "-q", "--allow-empty", "-m", "change")
        return self.git("rev-parse", "HEAD")

    def clone(self, path: Path, *options: str) -> GitRepository:
        self.git("clone", "-q", *options, f"file://{self.path}", str(path))
        return GitRepository(path)
