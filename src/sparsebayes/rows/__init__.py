"""Rows of data that need not fit in memory, and sums over them."""

from sparsebayes.rows.blocks import Block, Chosen, ChunkError, Meter, Rows, Sums, plus
from sparsebayes.rows.local import LocalRows
from sparsebayes.rows.sources import is_streamed, open_source
from sparsebayes.rows.summary import gather, summarize

__all__ = [
    "Block",
    "Chosen",
    "ChunkError",
    "LocalRows",
    "Meter",
    "Rows",
    "Sums",
    "gather",
    "is_streamed",
    "open_source",
    "plus",
    "summarize",
]
