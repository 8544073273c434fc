"""What an estimator must know of its dictionary: which atoms belong to rows, what X may be."""

import numbers
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from sparsebayes.dictionaries import Atoms, Bias, Kernel, Linear, Union
from sparsebayes.dictionaries._kernel_parameters import checked_kernel, refuse_sparse, takes_gamma

IndexArray = NDArray[np.intp]

__all__ = [
    "is_bound",
    "is_kernel_machine",
    "is_pairwise",
    "n_kernel_atoms",
    "recount",
    "sits_on_rows",
    "takes_sparse",
]

_SPARSE = csr_matrix((1, 1))


def is_pairwise(dictionary: Any) -> bool:
    """Whether X is a kernel matrix: one column, as one row, for each sample.

    Parameters
    ----------
    dictionary : object
        The dictionary of an estimator.

    Returns
    -------
    bool
        True if a kernel of it is "precomputed".

    Examples
    --------
    >>> from sparsebayes.dictionaries import Bias, Kernel
    >>> is_pairwise(Bias() + Kernel("precomputed")), is_pairwise("linear")
    (True, False)
    """
    if isinstance(dictionary, Union):
        return any(is_pairwise(part) for part in dictionary.parts)
    return (
        isinstance(dictionary, Kernel)
        and isinstance(dictionary.kernel, str)
        and dictionary.kernel == "precomputed"
    )


def takes_sparse(dictionary: Any) -> bool:
    """Whether X may be a scipy.sparse matrix.

    Parameters
    ----------
    dictionary : object
        The dictionary of an estimator.

    Returns
    -------
    bool
        False if a kernel of it needs dense data.

    Examples
    --------
    >>> from sparsebayes.dictionaries import Kernel, Linear
    >>> takes_sparse(Linear() + Kernel("rbf")), takes_sparse(Kernel("lspline"))
    (True, False)
    """
    if isinstance(dictionary, Union):
        return all(takes_sparse(part) for part in dictionary.parts)
    if not isinstance(dictionary, Kernel) or is_pairwise(dictionary):
        return True
    try:
        refuse_sparse(checked_kernel(dictionary.kernel), _SPARSE)
    except (TypeError, ValueError):
        return False
    return True


def is_bound(dictionary: Any) -> bool:
    """Whether the atoms are the same whatever the data are, the number of inputs given.

    Parameters
    ----------
    dictionary : object
        The dictionary of an estimator.

    Returns
    -------
    bool
        True for columns of X, for kernels of known width at given centers, for unions of these,
        and for a dictionary of your own that says so by an attribute ``bound = True``.

    Examples
    --------
    >>> from sparsebayes.dictionaries import Kernel, Linear
    >>> is_bound(Linear() + Kernel(gamma=2.0, centers=[[0.0], [1.0]]))
    True
    >>> is_bound(Kernel(gamma=2.0)), is_bound(Kernel(centers=[[0.0], [1.0]]))
    (False, False)
    """
    if isinstance(dictionary, Union):
        parts = dictionary.parts
        return isinstance(parts, list | tuple) and bool(parts) and all(map(is_bound, parts))
    if isinstance(dictionary, Kernel):
        return _given(dictionary.centers) and not is_pairwise(dictionary) and _has_width(dictionary)
    if isinstance(dictionary, str):
        return dictionary == "linear"
    return isinstance(dictionary, Linear | Bias) or getattr(dictionary, "bound", False) is True


def _given(centers: Any) -> bool:
    return centers is not None and not isinstance(centers, numbers.Number | str)


def _has_width(dictionary: Kernel) -> bool:
    """Whether a kernel has a width that depends on no data, or none at all."""
    if not isinstance(dictionary.gamma, str) or dictionary.gamma == "auto":
        return True
    try:
        kernel = checked_kernel(dictionary.kernel)
    except (TypeError, ValueError):
        return False
    return dictionary.gamma in ("scale", "pooled") and not takes_gamma(kernel)


def is_kernel_machine(dictionary: Any) -> bool:
    """Whether every atom, but for a bias, is a kernel.

    Parameters
    ----------
    dictionary : object
        The dictionary of an estimator.

    Returns
    -------
    bool
        True for a relevance vector machine.

    Examples
    --------
    >>> from sparsebayes.dictionaries import Bias, Kernel, Linear
    >>> is_kernel_machine(Bias() + Kernel("rbf")), is_kernel_machine(Linear() + Kernel("rbf"))
    (True, False)
    """
    if not isinstance(dictionary, Union):
        return isinstance(dictionary, Kernel)
    parts = [part for part in dictionary.parts if not isinstance(part, Bias)]
    return bool(parts) and all(is_kernel_machine(part) for part in parts)


def n_kernel_atoms(dictionary: Any, n: int) -> int:
    """Number of kernels that a fit of n rows would have, where it could read rows in blocks.

    Parameters
    ----------
    dictionary : object
        The dictionary of an estimator.
    n : int
        Number of rows.

    Returns
    -------
    int
        Zero for kernels whose widths are learned, and for a kernel matrix: these need all rows. And
        for what is refused when it is bound.

    Examples
    --------
    >>> from sparsebayes.dictionaries import Bias, Kernel
    >>> n_kernel_atoms(Bias() + Kernel("rbf"), 1000), n_kernel_atoms(Kernel(centers=20), 1000)
    (1000, 20)
    """
    if isinstance(dictionary, Union):
        return sum(n_kernel_atoms(part, n) for part in dictionary.parts)
    if not isinstance(dictionary, Kernel) or is_pairwise(dictionary):
        return 0
    if isinstance(dictionary.gamma, str) and dictionary.gamma in ("evidence", "ard"):
        return 0
    centers = dictionary.centers
    if centers is None or isinstance(centers, numbers.Integral):
        return n if centers is None else int(centers)
    try:
        shape = np.shape(centers)
    except ValueError:  # rows of several lengths, which are refused when they are bound
        return 0
    return int(shape[0]) if shape else 0


def sits_on_rows(dictionary: Any) -> bool:
    """Whether kernels of a dictionary sit at all rows.

    Parameters
    ----------
    dictionary : object
        The dictionary of an estimator.

    Returns
    -------
    bool
        False for a kernel matrix, and where there are centers.

    Examples
    --------
    >>> from sparsebayes.dictionaries import Bias, Kernel
    >>> sits_on_rows(Bias() + Kernel()), sits_on_rows(Kernel(centers=[[0.0]]))
    (True, False)
    """
    if isinstance(dictionary, Union):
        return any(sits_on_rows(part) for part in dictionary.parts)
    if not isinstance(dictionary, Kernel) or is_pairwise(dictionary):
        return False
    return dictionary.centers is None


def recount(dictionary: Any, atoms: Atoms, rows: IndexArray, n: int) -> Atoms:
    """Atoms bound to some of n rows, counted as if they were bound to all of them.

    Rows are left out, merged and sorted before a dictionary is bound; its user counts all of them
    where an atom belongs to a row: kernels at the training rows, and columns of a kernel matrix.

    Parameters
    ----------
    dictionary : Dictionary
        What the atoms were made by.
    atoms : Atoms
        Bound to ``X[rows]``, or to ``X[rows][:, rows]`` if X is a kernel matrix.
    rows : ndarray of shape (k,)
        Positions of these rows.
    n : int
        Number of all rows.

    Returns
    -------
    Atoms
        The same atoms, with ``index`` and ``count`` as in a dictionary bound to all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Kernel, Linear
    >>> X, rows = np.array([[0.0], [1.0], [2.0]]), np.array([0, 2])
    >>> dictionary = Linear() + Kernel(gamma=1.0)
    >>> recount(dictionary, dictionary.bind(X[rows]), rows, 3).index
    array([0, 1, 3])
    """
    bound: Any = atoms
    counted: Atoms = atoms
    if isinstance(dictionary, Union):
        pairs = zip(dictionary.parts, bound.parts, strict=True)
        parts = tuple(recount(part, own, rows, n) for part, own in pairs)
        starts = [0, *accumulate(part.count for part in parts)]
        index = np.concatenate([p.index + o for p, o in zip(parts, starts, strict=False)])
        columns = next((part.n_features_in for part in parts if part.n_features_in), None)
        counted = replace(bound, parts=parts, index=index, count=starts[-1], n_features_in=columns)
    elif is_pairwise(dictionary):
        counted = replace(bound, index=rows[bound.index], n_features_in=n)
    elif isinstance(dictionary, Kernel) and dictionary.centers is None:
        counted = replace(bound, index=rows[bound.index], count=n)
    return counted
