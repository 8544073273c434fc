"""How much memory a fit of rows may use, and what follows from it."""

import math
import re
from dataclasses import dataclass
from numbers import Integral
from typing import Any

__all__ = ["DEFAULT_MEMORY", "SMALLEST_MEMORY", "Budget", "resolve_memory"]

DEFAULT_MEMORY = 2**30
"""Bytes that a fit of rows uses where its user has not said."""

SMALLEST_MEMORY = 2**26
"""Bytes below which no fit of rows is tried."""

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_ROOM = 384  # active atoms and candidates for which there is room in a screen
_LARGEST_BLOCK = 2**15  # rows: more in a block would leave cores idle at the end of a pass


def resolve_memory(memory: Any) -> int:
    """Bytes that a setting stands for.

    Parameters
    ----------
    memory : int, str or None
        Bytes, a text such as "500 MB" or "2GiB", or None for the default.

    Returns
    -------
    int
        Bytes.

    Examples
    --------
    >>> resolve_memory("1.5 GB"), resolve_memory("1GiB") == resolve_memory(None)
    (1500000000, True)
    """
    if memory is None:
        return DEFAULT_MEMORY
    allowed = 'memory must be None, a number of bytes or a text such as "500MB" or "2GiB"'
    if isinstance(memory, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([kmgt]?)(i?)b?\s*", memory, re.IGNORECASE)
        if found is None or (found[3] and not found[2]):
            raise ValueError(f"{allowed}, got {memory!r}.")
        units = _BINARY if found[3] else _UNITS
        size = int(float(found[1]) * units[found[2].lower()])
    elif isinstance(memory, Integral) and not isinstance(memory, bool):
        size = int(memory)
    else:
        raise TypeError(f"{allowed}, got {memory!r}.")
    if size < SMALLEST_MEMORY:
        raise ValueError(
            f"memory={memory!r} is too little: a fit of rows needs at least 64MiB "
            f"({SMALLEST_MEMORY} bytes)."
        )
    return size


@dataclass(frozen=True)
class Budget:
    """Shares of the memory that a fit of rows may use.

    Parameters
    ----------
    memory : int
        Bytes in all.
    threads : int
        Blocks that are worked on at a time.

    Examples
    --------
    >>> budget = Budget(2**30, threads=2)
    >>> budget.block_rows(n_columns=10)
    32768
    >>> budget.holds_gram(2000), budget.holds_gram(20_000)
    (True, False)
    """

    memory: int
    threads: int

    def block_rows(self, n_columns: int) -> int:
        """Rows of a block: a quarter of the memory is for blocks being read or worked on."""
        held = self.threads + 2
        # read, converted and checked: three copies at worst
        return max(1, min(_LARGEST_BLOCK, self.memory // (4 * held * 24 * (n_columns + 2))))

    @property
    def gram_size(self) -> int:
        """Atoms of which all of G may be kept: in the cache, in sums of every thread, in copies."""
        return math.isqrt(self.memory // (16 * (self.threads + 6)))

    def holds_gram(self, size: int) -> bool:
        """Whether G of so many atoms may be kept."""
        return size <= self.gram_size

    def subset(self, columns: int = 1) -> int:
        """Atoms of so many columns that can be screened at a time, beside those that are active."""
        # per atom and active one: kept columns twice over, a copy, L^-1 R G, sums of every thread
        each = 8 * columns**2 * (_ROOM * (self.threads + 7) + 32)
        return max(256, self.memory // (2 * each))

    def sample(self, atoms: int, rows: int) -> tuple[int, int]:
        """Rows and atoms of a design that is kept while structure is sought: (rows, atoms)."""
        cells = self.memory // 32
        atoms = min(atoms, max(256, cells // max(min(rows, 2000), 1)))
        return min(rows, max(200, cells // atoms)), atoms

    def rows_kept(self, n_columns: int) -> int:
        """Rows of X and y that may be kept in memory."""
        return self.memory // (4 * 8 * (n_columns + 2))

    @property
    def centers_bytes(self) -> int:
        """Bytes of centers of kernels."""
        return self.memory // 8
