"""Names that have several spellings, which are addresses: the canonical one, by expressions where that is enough.

Nearly every name is written as `Precedence.canonical` would return it, and a regular expression tells that. Only names
that it does not match go through that function, in Python, batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from quotaform.model.entity import IP
from quotaform.model.precedence import PRECEDENCES

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame

CANONICAL: Final[dict[str, Callable[[str], str | None]]] = {
    entity_type: function for precedence in PRECEDENCES for entity_type, function in precedence.canonical.items()
}
"""Entity type to the function that returns the canonical spelling of a name."""


def _address_pattern() -> str:
    octet = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
    group = "[1-9a-f][0-9a-f]{0,3}"
    any_group = f"(?:0|{group})"
    forms = (
        rf"{octet}(?:\.{octet}){{3}}",
        # Of two zeros in a row, or of ffff after "::" (IPv4 in IPv6), there is another spelling.
        rf"(?!(?:.*:)?0:0(?![^:])){any_group}(?::{any_group}){{7}}",
        rf"(?!::ffff:{group}:{group}(?![^:]))::(?:{group}(?::{group}){{0,5}})?",
        rf"{group}(?::{group}){{0,5}}::",
        *(rf"{group}(?::{group}){{{left}}}::{group}(?::{group}){{0,{4 - left}}}" for left in range(5)),
    )
    # "$" would also match before a line break at the end.
    return rf"^(?:{'|'.join(forms)})(?![\s\S])"


PLAIN: Final = {IP: _address_pattern()}
"""Entity type to a regular expression, for Java and for Python: what it matches is in canonical spelling.

It need not match all that is.
"""


def is_plain(entity_type: str, name: Column) -> Column:
    """Return whether a name is known to be in canonical spelling without asking `CANONICAL`."""
    return name.rlike(PLAIN[entity_type]) if entity_type in PLAIN else f.lit(False)


def with_canonical(rows: DataFrame, entity_type: str, column: str, canonical: str) -> DataFrame:
    """Return rows with a further column: the canonical spelling of a name, or the name itself when it has none.

    The rows are read twice, and no row of the first reading goes through Python.

    Args:
        column: The column that has the names; null stays null.
        canonical: What the new column is called.
    """
    name = f.col(column)
    is_done = name.isNull() | is_plain(entity_type, name)
    schema = StructType([*rows.schema.fields, StructField(canonical, StringType())])
    respell = _respelling(CANONICAL[entity_type], column, canonical)
    return rows.where(is_done).withColumn(canonical, name).unionAll(rows.where(~is_done).mapInArrow(respell, schema))


def _respelling(
    canonical_of: Callable[[str], str | None], column: str, canonical: str
) -> Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    def respell(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        for batch in batches:
            names = batch.column(column).dictionary_encode()
            spelled = pyarrow.array([canonical_of(name) or name for name in names.dictionary.to_pylist()], "string")
            yield batch.append_column(canonical, spelled.take(names.indices))

    return respell
