"""Error bars that grow away from the data: one more kernel atom, centered at the test point.

Far from its relevance vectors every local atom is zero, so that the model is sure of its intercept.
Rasmussen & Quinonero-Candela (2005) add the atom that is missing there, ``phi_*(x) = K(x, x_*)``,
with a weight of its own, for this prediction only. Nothing is fitted again. With the posterior of
the model, C the covariance of the training targets, and v_* the prior variance of the new weight,

    e_* = phi_*(x_*) - what the model would predict there, had phi_* been its targets
    q_* = phi_*' C^-1 t        s_* = phi_*' C^-1 phi_*
    mean     + e_* q_* / (1/v_* + s_*)
    variance + e_*^2   / (1/v_* + s_*)

which is the posterior of the larger model by the inverse of a bordered matrix. An intercept with a
flat prior is projected out: phi_* is centered by its mean over the training rows, as every atom is.

The prior variance v_* makes the new function as large at x_* as what kernels have to explain at the
training rows: v_* times the mean of ``K(x_n, x_n)^2`` is the mean of ``(y_n - f_0(x_n))^2``, where
f_0 is the model without its kernel atoms (the intercept, and the other parts of a union). f_0 is
where predictions end up far from all centers. With targets of mean zero, no intercept and a kernel
that is one at its center this is the variance of the targets.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes.dictionaries import Atoms
from sparsebayes.dictionaries._protocol import Matrix
from sparsebayes.dictionaries.kernels import KernelAtoms
from sparsebayes.dictionaries.linear import PrecomputedAtoms
from sparsebayes.dictionaries.union import UnionAtoms
from sparsebayes.posterior import Posterior

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = [
    "Augmented",
    "AugmentedFit",
    "KernelPart",
    "NewAtoms",
    "TrainingData",
    "augmented",
    "has_one_kernel",
    "kernel_part",
]

_BLOCK_CELLS = 2**20  # values of new atoms at training rows that are held at a time: 8 megabytes
_DIAGONAL_ROWS = 64  # K(x, x) is the diagonal of a small matrix: no kernel gives it alone
_SAME = 1e-6  # relative difference between what the data say of a model and what it says itself
_LOST = 100 * np.finfo(np.float64).eps


@dataclass(frozen=True, eq=False)
class TrainingData:
    """The samples of a fit: references, not copies, and no part of any file.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (N, d)
        Inputs.
    y : ndarray of shape (N, T)
        Targets, in the user's unit.
    weights : ndarray of shape (N,) or None
        Weight of each row.

    Examples
    --------
    >>> import numpy as np
    >>> data = TrainingData(np.zeros((3, 1)), np.ones((3, 1)), np.array([1.0, 2.0, 0.0]))
    >>> data.total, data.weighted(data.y).ravel()
    (3.0, array([1., 2., 0.]))
    """

    X: Matrix
    y: FloatArray
    weights: FloatArray | None

    @property
    def total(self) -> float:
        """Number of samples, weights counted."""
        return float(len(self.y) if self.weights is None else self.weights.sum())

    def weighted(self, values: FloatArray) -> FloatArray:
        """Rows times their weights; the array itself where all are one."""
        return values if self.weights is None else values * self.weights[:, None]


class KernelPart(NamedTuple):
    """The only kernel of some atoms."""

    atoms: KernelAtoms
    columns: IndexArray  # where its atoms stand among all


class Augmented(NamedTuple):
    """Predictions of the augmented models, one for each row."""

    mean: FloatArray  # (n,) or (n, T)
    std: FloatArray  # of the target, noise included
    function_std: FloatArray  # of the function without it


def kernel_part(atoms: Atoms) -> KernelPart:
    """Find the kernel whose atom can be centered at a test point.

    Parameters
    ----------
    atoms : Atoms
        Active atoms of a fit.

    Returns
    -------
    KernelPart
        The only kernel among them; a ValueError where there is none or more than one.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Kernel, Linear
    >>> X = np.array([[0.0], [1.0]])
    >>> kernel_part((Linear() + Kernel(gamma=1.0)).bind(X)).columns
    array([1, 2])
    >>> try:
    ...     kernel_part(Linear().bind(X))
    ... except ValueError as error:
    ...     print(error)
    augment needs atoms of a kernel, which can be centered at a test point: this model kept none.
    """
    found = _kernel_parts(atoms, np.arange(atoms.size))
    if len(found) == 1:
        return found[0]
    if found:
        raise ValueError(
            f"augment needs one kernel, and this model kept atoms of {len(found)}: which of them "
            "should be centered at a test point is not defined."
        )
    if _is_precomputed(atoms):
        raise ValueError(
            "augment needs the kernel itself, to center it at a test point: kernel='precomputed' "
            "gives its values between samples alone."
        )
    raise ValueError(
        "augment needs atoms of a kernel, which can be centered at a test point: this model kept "
        "none."
    )


def has_one_kernel(atoms: Atoms) -> bool:
    """Whether `kernel_part` finds one.

    Parameters
    ----------
    atoms : Atoms
        Active atoms of a fit.

    Returns
    -------
    bool
        True if exactly one kernel is among them.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Kernel, Linear
    >>> X = np.array([[0.0], [1.0]])
    >>> has_one_kernel(Kernel(gamma=1.0).bind(X)), has_one_kernel(Linear().bind(X))
    (True, False)
    """
    return len(_kernel_parts(atoms, np.arange(atoms.size))) == 1


def _kernel_parts(atoms: Atoms, columns: IndexArray) -> list[KernelPart]:
    if isinstance(atoms, KernelAtoms):
        return [KernelPart(atoms, columns)]
    if not isinstance(atoms, UnionAtoms):
        return []
    pairs = zip(atoms.parts, atoms.columns, strict=True)
    return [found for part, own in pairs for found in _kernel_parts(part, columns[own])]


def _is_precomputed(atoms: Atoms) -> bool:
    if isinstance(atoms, UnionAtoms):
        return any(_is_precomputed(part) for part in atoms.parts)
    return isinstance(atoms, PrecomputedAtoms)


def augmented(posterior: Posterior, data: TrainingData, X: Any) -> Augmented:
    """Predict with an atom of the kernel added at each row of X, a model for each.

    Memory does not depend on the number of rows of X: the active atoms at the training rows, N m
    numbers, are held, and blocks of new atoms beside them. Time is O(n N m).

    Parameters
    ----------
    posterior : Posterior
        Posterior of a fit.
    data : TrainingData
        What it was fitted to; a ValueError where that cannot be.
    X : ndarray or CSR matrix of shape (n, d)
        Inputs.

    Returns
    -------
    Augmented
        Means and standard deviations, in the user's unit.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes import RVR
    >>> X = np.linspace(-3, 3, 40)[:, None]
    >>> y = np.sin(X)
    >>> model = RVR(gamma=1.0, noise_variance=0.01).fit(X, y[:, 0])
    >>> far = augmented(model.posterior_, TrainingData(X, y, None), np.array([[100.0]]))
    >>> bool(far.std > 5 * model.predict([[100.0]], return_std=True)[1])
    True
    """
    fit = AugmentedFit(posterior, data)
    n, n_targets = int(X.shape[0]), len(posterior.offset)
    mean, variance = np.empty((n, n_targets)), np.empty(n)
    for rows in fit.blocks(n):
        mean[rows], variance[rows] = fit.predict(X[rows])
    with_noise = np.sqrt(variance + posterior.noise_variance)
    each = (1, n_targets)
    std = np.tile((posterior.scale * with_noise)[:, None], each)
    function_std = np.tile((posterior.scale * np.sqrt(variance))[:, None], each)
    mean = posterior.offset + posterior.scale * mean
    found = (mean, std, function_std)
    return Augmented(*((a[:, 0] for a in found) if posterior.single else found))


class NewAtoms(NamedTuple):
    """Atoms of the kernel centered at b rows, and the active atoms there."""

    here: FloatArray  # (b, m) active atoms, centered and of unit norm, at these rows
    own: FloatArray  # (b,) each new atom at its own row
    atoms: FloatArray  # (N, b) new atoms at the training rows
    fitted: FloatArray  # (m, b) weights that the model gives each, had it been its targets


class AugmentedFit:
    """A posterior with the active atoms and the residual at the training rows.

    Parameters
    ----------
    posterior : Posterior
        Posterior of a fit.
    data : TrainingData
        What it was fitted to; a ValueError where that cannot be.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes import RVR
    >>> X = np.linspace(-3, 3, 40)[:, None]
    >>> y = np.sin(X)
    >>> model = RVR(gamma=1.0, noise_variance=0.01, fit_intercept=False).fit(X, y[:, 0])
    >>> fit = AugmentedFit(model.posterior_, TrainingData(X, y, None))
    >>> bool(np.isclose(fit.v_new, np.mean(y**2)))
    True
    """

    def __init__(self, posterior: Posterior, data: TrainingData) -> None:
        self.posterior, self.data = posterior, data
        self.kernel, columns = kernel_part(posterior.atoms)
        self.centered = posterior.offset_variance > 0  # a flat intercept leaves noise / N
        self.U = _unit_atoms(posterior, data.X)  # (N, m)
        targets = (data.y - posterior.offset) / posterior.scale
        self.residual = targets - self.U @ posterior.mean
        self._check(targets)
        weights = posterior.mean[columns]
        level = (posterior.center / posterior.norm)[columns] @ weights
        to_explain = self.U[:, columns] @ weights + level + self.residual
        explained = float(np.mean(data.weighted(np.square(to_explain)).sum(axis=0)) / data.total)
        own = data.weighted(np.square(_diagonal(self.kernel, data.X))[:, None])
        size = float(own.sum() / data.total)
        if size == 0:
            raise ValueError(
                f"augment is not defined for kernel={self.kernel.kernel!r}, which is zero at its "
                "own center at every training row: such an atom says nothing where it is added."
            )
        self.v_new = explained / size

    def _check(self, targets: FloatArray) -> None:
        """Refuse data that are not those of the fit: they contradict what it kept of them."""
        p, data = self.posterior, self.data
        weighted = data.weighted(self.U)
        slopes = weighted.T @ self.residual / p.noise_variance  # = mu / v at the posterior mean
        claimed = p.mean / p.prior_variance[:, None]
        # Digits that a large mean of an atom or of the targets took when it was subtracted, ...
        lost = np.abs(p.center / p.norm).max(initial=0.0) + np.abs(p.offset).max() / p.scale
        same = _SAME + _LOST * lost
        # ... and those that large weights of atoms which nearly cancel leave in the residual.
        size = np.abs(weighted.T @ targets).max(initial=0.0) + same * np.abs(p.mean).max(initial=0)
        agree = [np.abs(slopes - claimed) <= same * (np.abs(claimed) + size / p.noise_variance)]
        if self.centered:
            middle = data.weighted(targets).sum(axis=0) / data.total
            agree += [
                np.abs(middle) <= same,
                np.isclose(p.noise_variance / p.offset_variance, data.total, rtol=_SAME),
            ]
        if not all(np.all(each) for each in agree):
            raise ValueError(
                "augment needs the training data of this model, and these are others: give the "
                "X, y and sample_weight of its fit as augment=(X, y) or (X, y, sample_weight)."
            )

    def blocks(self, n: int) -> Iterator[slice]:
        """Rows to take at a time, of n.

        Parameters
        ----------
        n : int
            Number of rows.

        Yields
        ------
        slice
            Some of them, so few that new atoms at all training rows are not too many numbers.
        """
        step = max(1, _BLOCK_CELLS // max(len(self.data.y), 1))
        for start in range(0, n, step):
            yield slice(start, min(start + step, n))

    def new_atoms(self, X: Any) -> NewAtoms:
        """Center an atom of the kernel at each row.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (b, d)
            Inputs.

        Returns
        -------
        NewAtoms
            Centered by their means over the training rows where there is an intercept.
        """
        p, data = self.posterior, self.data
        b = int(X.shape[0])
        new = replace(self.kernel, centers=X, index=np.arange(b), count=b)
        atoms = new.evaluate(data.X)
        own = _diagonal(self.kernel, X)
        if self.centered:
            middle = data.weighted(atoms).sum(axis=0) / data.total
            atoms -= middle
            own -= middle
        products = self.U.T @ data.weighted(atoms)
        fitted = self._through_covariance(products) / p.noise_variance
        return NewAtoms(_unit_atoms(p, X), own, atoms, fitted)

    def predict(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Predict with the atom added, in units of the posterior.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (b, d)
            Inputs.

        Returns
        -------
        mean, variance : ndarray of shape (b, T) and (b,)
            Of the centered function.
        """
        p, data = self.posterior, self.data
        here, own, atoms, fitted = self.new_atoms(X)
        q = data.weighted(atoms).T @ self.residual / p.noise_variance  # (b, T)
        e = own - np.einsum("ij,ji->i", here, fitted)
        # phi' C^-1 phi = |phi - Phi w|^2 / noise + w' V^-1 w there: nothing cancels.
        atoms -= self.U @ fitted
        s = np.einsum("ij,ij->j", data.weighted(atoms), atoms) / p.noise_variance
        s += np.einsum("ij,ij->j", fitted, fitted / p.prior_variance[:, None])
        left = e * (self.v_new / (1.0 + self.v_new * s))
        half = p.through_root(here)
        variance = p.offset_variance + np.einsum("ij,ij->i", half, half) + left * e
        return here @ p.mean + left[:, None] * q, variance

    def _through_covariance(self, rows: FloatArray) -> FloatArray:
        p = self.posterior
        if p.root.ndim == 1:
            return np.square(p.root)[:, None] * rows
        return np.asarray(p.root @ (p.root.T @ rows))


def _unit_atoms(posterior: Posterior, X: Any) -> FloatArray:
    U = np.empty((int(X.shape[0]), len(posterior.norm)))
    for rows, block in posterior.unit_atoms(X):
        U[rows] = block
    return U


def _diagonal(kernel: KernelAtoms, X: Any) -> FloatArray:
    """K(x, x) for every row, shape (n,)."""
    n = int(X.shape[0])
    values = np.empty(n)
    for start in range(0, n, _DIAGONAL_ROWS):
        rows = slice(start, min(start + _DIAGONAL_ROWS, n))
        block = X[rows]
        count = rows.stop - rows.start
        own = replace(kernel, centers=block, index=np.arange(count), count=count)
        values[rows] = own.evaluate(block).diagonal()
    return values
