"""`schemas/`: the JSON Schemas of all files and documents, as `quotaform schema --output` writes them.

`make schemas` writes them (`python -m tools.schema_files schemas`); a test says when they are out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from quotaform.model.records.schema import render_schema
from quotaform.report.format import SCHEMAS, schema_builder

_SUFFIX = ".schema.json"


def main() -> None:
    """Write all schemas into the folder that is given, and remove those that are no more."""
    folder = Path(sys.argv[1])
    files = render_files()
    for stale in {path.name for path in folder.glob(f"*{_SUFFIX}")} - files.keys():
        (folder / stale).unlink()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def render_files() -> dict[str, str]:
    """Return the content of each file by its name."""
    return {f"{name}{_SUFFIX}": render_schema(schema_builder(name)) for name in SCHEMAS}


if __name__ == "__main__":
    main()
