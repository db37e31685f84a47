"""What an apply did, as machines read it."""

from __future__ import annotations

from json import dumps

from quotaform.core.receipt import Receipt, receipt_document


def render_receipt_json(receipt: Receipt) -> str:
    """Return a receipt as JSON, one line per entity."""
    document = receipt_document(receipt)
    lines = []
    for name, value in document.items():
        if name == "results" and value:
            lines.append(f'  "{name}": [\n    ' + ",\n    ".join(dumps(item) for item in value) + "\n  ]")
        else:
            lines.append(f'  "{name}": {dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"
