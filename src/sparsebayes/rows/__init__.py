"""Rows of data that need not fit in memory, and sums over them."""

from sparsebayes.rows.blocks import Block, Chosen, ChunkError, Meter, Rows, Sums, plus
from sparsebayes.rows.local import LocalRows

__all__ = ["Block", "Chosen", "ChunkError", "LocalRows", "Meter", "Rows", "Sums", "plus"]
