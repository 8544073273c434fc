"""Memory of a Dask worker while it works on a block.

Dask starts its workers with MALLOC_TRIM_THRESHOLD_, so that freed memory goes back to the system at
once. Then each temporary array is mapped anew, page by page, which takes a third of the time of a
pass. Here what is freed is kept for the next temporary, and may go back at the end of the block.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

__all__ = ["kept_memory"]

_SETTING = "MALLOC_TRIM_THRESHOLD_"
_TRIM, _MAP = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
_USUAL_MAP = 2**17  # glibc's own, where it is not left to adapt
_LARGE_TRIM, _LARGE_MAP = 2**28, 2**25  # the latter is the most that glibc takes


@contextmanager
def kept_memory() -> Iterator[None]:
    """Keep freed memory until the end, in a process that would give it back at once."""
    trim = os.environ.get(_SETTING, "")
    library = _allocator() if trim.isdigit() else None
    if library is None:
        yield
        return
    library.mallopt(_TRIM, _LARGE_TRIM)
    library.mallopt(_MAP, _LARGE_MAP)
    try:
        yield
    finally:
        library.mallopt(_TRIM, int(trim))
        library.mallopt(_MAP, _USUAL_MAP)


@lru_cache(maxsize=1)
def _allocator() -> Any:
    """The C library, if it is glibc."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") else None
