"""One BLAS thread.

NumPy's and SciPy's wheels each carry an OpenBLAS with its own spinning threads. A fit alternates
products and factorisations of a few dozen rows, and two pools that spin cost more than a second
thread gains. Fits in parallel are the better use of cores: joblib, or n_jobs of a search.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
from threadpoolctl import ThreadpoolController


@lru_cache(maxsize=1)
def _pools() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be found)

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit NumPy's and SciPy's BLAS to one thread each, and leave NumPy's settings as they were.

    An interrupt that comes while `numpy.errstate` is entered or left keeps what it has set.
    """
    before = np.geterr()
    try:
        with _pools().limit(limits=1):
            yield
    finally:
        np.seterr(**before)
