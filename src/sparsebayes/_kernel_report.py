"""What a fitted model says of its kernels: their widths, and which inputs these make matter."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes.dictionaries._kernel_parameters import is_gp_kernel
from sparsebayes.dictionaries._protocol import Matrix
from sparsebayes.dictionaries._rows import column_variances
from sparsebayes.dictionaries.kernel_functions import INVERSE_DISTANCE
from sparsebayes.dictionaries.kernels import KernelAtoms
from sparsebayes.dictionaries.union import UnionAtoms

FloatArray = NDArray[np.float64]

__all__ = ["feature_relevance", "held_parameters", "kernel_attributes", "relevance_of"]


def _kernels(atoms: Any) -> list[KernelAtoms]:
    parts = atoms.parts if isinstance(atoms, UnionAtoms) else (atoms,)
    return [part for part in parts if isinstance(part, KernelAtoms)]


def kernel_attributes(atoms: Any) -> dict[str, Any]:
    """Fitted attributes of an estimator: ``gamma_`` or ``kernel_`` of its only kernel.

    Parameters
    ----------
    atoms : Atoms
        Of a posterior.

    Returns
    -------
    dict
        ``gamma_``, a number or one for each input, of a kernel that is known by name;
        ``kernel_``, a kernel object with the parameters found. Of several kernels, lists.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Kernel, Linear
    >>> X = np.eye(2)
    >>> kernel_attributes(Kernel("rbf", gamma=2.0).bind(X))
    {'gamma_': 2.0}
    >>> kernel_attributes((Kernel(gamma=2.0) + Kernel(gamma=[1.0, 3.0])).bind(X))
    {'gamma_': [2.0, array([1., 3.])]}
    >>> kernel_attributes(Linear().bind(X))
    {}
    """
    kernels = _kernels(atoms)
    found: dict[str, list[Any]] = {
        "gamma_": [k.gamma_ for k in kernels if k.gamma_ is not None],
        "kernel_": [k.kernel for k in kernels if is_gp_kernel(k.kernel)],
    }
    return {
        name: values[0] if len(values) == 1 else values for name, values in found.items() if values
    }


def feature_relevance(
    atoms: Any, X: Matrix, weights: FloatArray | None
) -> NDArray[np.float64] | None:
    """Share of each input in what the kernel sees of the spread of the data.

    Parameters
    ----------
    atoms : Atoms
        Bound to X.
    X : float64 array or CSR matrix of shape (N, d)
        Training rows.
    weights : ndarray of shape (N,) or None
        Their weights.

    Returns
    -------
    ndarray of shape (d,) or None
        As of `relevance_of`.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Kernel
    >>> X = np.array([[0.0, 0.0], [2.0, 20.0]])
    >>> feature_relevance(Kernel("rbf", gamma=[3.0, 0.01]).bind(X), X, None)
    array([0.75, 0.25])
    """
    if _widths_of_one(atoms) is None:
        return None
    with np.errstate(over="ignore", under="ignore"):
        variances = column_variances(X, weights)
    return relevance_of(atoms, variances)


def relevance_of(atoms: Any, variances: FloatArray) -> FloatArray | None:
    """The same where X is not in memory.

    Parameters
    ----------
    atoms : Atoms
        Atoms.
    variances : ndarray of shape (d,)
        Variance of each input.

    Returns
    -------
    ndarray of shape (d,) or None
        ``gamma_k var(x_k)``, divided by their sum; it has no unit. (Of "laplacian" and "chi2",
        which see distances and not their squares, ``gamma_k std(x_k)``.) None where there is not
        exactly one kernel, or one without widths.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Kernel
    >>> relevance_of(Kernel("rbf", gamma=[3.0, 0.01]).bind(np.eye(2)), np.array([1.0, 100.0]))
    array([0.75, 0.25])
    """
    widths = _widths_of_one(atoms)
    if widths is None:
        return None
    kernel = _kernels(atoms)[0]
    with np.errstate(over="ignore", under="ignore"):
        distance = kernel.gamma_ is not None and kernel.kernel in INVERSE_DISTANCE
        spread = np.sqrt(variances) if distance else variances
        shares = np.broadcast_to(widths, spread.shape) * spread
        largest = shares.max(initial=0.0)
        if not 0 < largest < np.inf:
            return None
        shares = shares / largest
    return np.asarray(shares / shares.sum())


def _widths_of_one(atoms: Any) -> FloatArray | None:
    """Widths of the kernel, where there is exactly one."""
    kernels = _kernels(atoms)
    return _inverse_widths(kernels[0]) if len(kernels) == 1 else None


def _inverse_widths(atoms: KernelAtoms) -> FloatArray | None:
    """One for all inputs, or one for each; None for a kernel that has none, or several."""
    if atoms.gamma_ is not None:
        return np.asarray(atoms.gamma_, dtype=np.float64)
    if not is_gp_kernel(atoms.kernel):
        return None
    scales = [
        value
        for name, value in atoms.kernel.get_params().items()
        if name.split("__")[-1] == "length_scale"
    ]
    return np.asarray(scales[0], dtype=np.float64) ** -2.0 if len(scales) == 1 else None


def held_parameters(held: tuple[str, ...]) -> str:
    """Say of which learned parameters a bound is active, and what to do.

    Examples
    --------
    >>> held_parameters(("gamma[1]",))[:61]
    'the learned gamma[1] is at its bound: the objective would go '
    """
    named = ", ".join(held)
    verb = "is at its bound" if len(held) == 1 else "are at their bounds"
    return (
        f"the learned {named} {verb}: the objective would go on rising beyond, as it does at the "
        "narrow end where kernels explain single samples, noise and all, and at the wide end "
        "where the function is a straight line. If narrow, use a stronger prior "
        '(prior="bic") or give gamma; if wide, Linear() + Kernel(...); of a kernel object, other '
        "bounds."
    )
