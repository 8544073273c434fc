"""Rows of data that need not fit in memory, and sums over them."""

from sparsebayes.rows.blocks import Block, Chosen, ChunkError, Meter, Rows, Sums, plus, settled
from sparsebayes.rows.chunks import Chunks
from sparsebayes.rows.local import LocalRows
from sparsebayes.rows.parquet import Parquet
from sparsebayes.rows.sources import is_streamed, open_source
from sparsebayes.rows.summary import gather, summarize

__all__ = [
    "Block",
    "Chosen",
    "ChunkError",
    "Chunks",
    "LocalRows",
    "Meter",
    "Parquet",
    "Rows",
    "Sums",
    "gather",
    "is_streamed",
    "open_source",
    "plus",
    "settled",
    "summarize",
]
