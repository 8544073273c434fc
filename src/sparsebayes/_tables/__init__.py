"""Tables in csv, tsv, parquet, feather and npy files: read, looked at, cleaned and written."""

from sparsebayes._tables.places import (
    check_folder,
    check_output,
    check_picture,
    is_parquet,
    open_table,
)
from sparsebayes._tables.reading import labels_of, read_labels, read_numbers, suggestion
from sparsebayes._tables.table import Table, TableError
from sparsebayes._tables.writing import write_table

__all__ = [
    "Table",
    "TableError",
    "check_folder",
    "check_output",
    "check_picture",
    "is_parquet",
    "labels_of",
    "open_table",
    "read_labels",
    "read_numbers",
    "suggestion",
    "write_table",
]
