"""One BLAS thread.

NumPy's and SciPy's wheels each carry an OpenBLAS with its own spinning threads. A fit alternates
products and factorisations of a few dozen rows, and two pools that spin cost more than a second
thread gains. Fits in parallel are the better use of cores: joblib, or n_jobs of a search.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController


@lru_cache(maxsize=1)
def _pools() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be found)

    return ThreadpoolController().select(user_api="blas")


class _Limit:
    """The limit as a whole process has it: set by the first that asks, lifted by the last.

    Threads that each set it and put back what they had found would undo each other's.
    """

    def __init__(self) -> None:
        self.lock, self.users, self.limiter = Lock(), 0, None

    def enter(self) -> None:
        with self.lock:
            if not self.users:
                self.limiter: Any = _pools().limit(limits=1)
            self.users += 1

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if not self.users:
                self.limiter.restore_original_limits()


_LIMIT = _Limit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit NumPy's and SciPy's BLAS to one thread each, until the last of those who ask leaves."""
    _LIMIT.enter()
    try:
        yield
    finally:
        _LIMIT.leave()
