"""The table of quota keys in docs/files.md, from the table of the model.

`make docs` writes it (`python -m tools.key_table docs/files.md`); a test says when it is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from quotaform.model.quota_key import QUOTA_KEYS, QuotaKey

_BEGIN: Final = "<!-- quota keys: written by `make docs` -->\n\n"
_END: Final = "\n<!-- end of quota keys -->\n"


def main() -> None:
    """Rewrite the table in the page whose path is given."""
    page = Path(sys.argv[1])
    page.write_text(with_table(page.read_text(encoding="utf-8")), encoding="utf-8")


def with_table(page: str) -> str:
    """Return a page with the table as it should be."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}{render_table()}{_END}{after}"


def render_table() -> str:
    """Return the table."""
    return "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    yield "| key | values | limits | per |"
    yield "| --- | --- | --- | --- |"
    for key in QUOTA_KEYS.values():
        yield f"| `{key.name}` | {_examples(key)} | {_limits(key)} | {key.per} |"


def _examples(key: QuotaKey) -> str:
    return ", ".join(f"`{example}`" for example in key.examples)


def _limits(key: QuotaKey) -> str:
    return key.limits if len(key.entity_types) > 1 else f"{key.limits}; `{min(key.entity_types)}` only"


if __name__ == "__main__":
    main()
