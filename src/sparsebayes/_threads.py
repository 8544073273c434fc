"""One BLAS at a time.

NumPy's and SciPy's wheels each carry an OpenBLAS with its own spinning threads. A loop that
alternates large NumPy products with small SciPy factorisations keeps both pools awake and loses a
hundred times what it gains. Products of the size of the data keep NumPy's threads; factorisations
of the size of the model take one of SciPy's.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from threadpoolctl import ThreadpoolController


@lru_cache(maxsize=1)
def _scipy_pools() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be found)

    found = ThreadpoolController()
    paths = [
        library["filepath"]
        for library in found.info()
        if library["user_api"] == "blas" and "scipy" in library["filepath"]
    ]
    return found.select(filepath=paths)


@contextmanager
def one_lapack_thread() -> Iterator[None]:
    """Limit SciPy's own BLAS to one thread, if it is not the one that NumPy uses."""
    with _scipy_pools().limit(limits=1):
        yield
