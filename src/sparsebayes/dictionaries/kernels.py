"""Kernel atoms: functions of the distance or the inner product with a center."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import kernel_metrics

from sparsebayes.dictionaries._kernel_parameters import (
    OWN,
    KernelLike,
    checked_centers,
    checked_coef0,
    checked_degree,
    checked_gamma,
    checked_kernel,
    checked_learned,
    checked_params,
    distinct_columns,
    given_gamma,
    is_gp_kernel,
    refuse_sparse,
)
from sparsebayes.dictionaries._protocol import (
    Addable,
    Arrays,
    Floats,
    Matrix,
    Positions,
    Spec,
    check_columns,
    checked_theta,
    is_sparse,
    positions,
    room,
    spec_array,
    spec_positions,
    spec_value,
)
from sparsebayes.dictionaries._width_bounds import width_bounds
from sparsebayes.dictionaries.kernel_derivatives import pull_widths
from sparsebayes.dictionaries.kernel_functions import (
    INVERSE_DISTANCE,
    WITH_GAMMA,
    Formula,
    foreign,
    formula,
)
from sparsebayes.dictionaries.linear import PrecomputedAtoms

_CSR = ("data", "indices", "indptr")


class Kernel(Addable, BaseEstimator):
    """One atom ``K(x, z)`` for each center z, by default for each training row.

    Parameters
    ----------
    kernel : str, callable or kernel object, default="rbf"
        With D = sum_k gamma_k (x_k - z_k)^2:

        - ``"rbf"``: exp(-D);
        - ``"laplacian"``: exp(-sum_k gamma_k ``|x_k - z_k|``);
        - ``"poly"`` (or ``"polynomial"``): (sum_k gamma_k x_k z_k + coef0)^degree;
        - ``"sigmoid"``: tanh(sum_k gamma_k x_k z_k + coef0);
        - ``"linear"``: the inner product; ``"cosine"``: that of the rows at unit length;
        - ``"lspline"``: the linear spline of Tipping (2001), a product over inputs that are
          divided by r, with gamma = 1/r^2;
        - ``"tps"``: the thin-plate spline (d/r)^2 log(d/r) = D log(D) / 2, with gamma = 1/r^2;
        - any other name known to `sklearn.metrics.pairwise.pairwise_kernels`, such as
          ``"chi2"`` and ``"additive_chi2"``;
        - ``"precomputed"``: X is the kernel matrix, and its columns are the atoms;
        - a function ``K(X, Z, **kernel_params)`` of two matrices that returns an array (n, m);
        - an object of `sklearn.gaussian_process.kernels`, used as it is.

        A kernel need not be positive definite, nor symmetric.
    gamma : float, array of shape (n_features,), or a word, default="scale"
        Inverse squared width, or one for each input ("rbf", "laplacian", "poly", "sigmoid",
        "lspline", "tps"). ``"scale"`` is ``1 / (n_features * X.var())``, ``"auto"`` is ``1 /
        n_features``. ``"pooled"`` is found before a fit, which holds it: the width that
        maximizes the evidence of the Gaussian process with the kernel as covariance (with that of
        a sum of the atoms, where a kernel is none); about that of "scale" where the targets say
        nothing. ``"pooled-ard"`` is one for each input. Both need targets, so only an estimator
        finds them; "pooled" is the default of `RVR`. A kernel without a width, and a kernel object,
        stays as it is. A fit learns gamma where it is ``"evidence"``, or ``"ard"``, one
        for each input, under a prior around those; an input that is constant then has zero. For a
        kernel object either word means its own parameters, those that are not fixed, from their
        values on and within their bounds.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    kernel_params : dict, default=None
        Further arguments of a callable, or of a kernel that scikit-learn evaluates.
    centers : array of shape (n_centers, n_features), int or None, default=None
        None for the training rows (equal rows give one atom), an array, or a number of k-means
        centers: of all rows, or of a sample of 20 000 distinct ones, or ten for each center, where
        there are more.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Kernel
    >>> atoms = Kernel("rbf", gamma=0.5).bind(np.array([[0.0], [1.0], [1.0]]))
    >>> atoms.index
    array([0, 1])
    >>> atoms.evaluate(np.array([[0.0], [2.0]])).round(3)
    array([[1.   , 0.607],
           [0.135, 0.607]])
    """

    def __init__(
        self,
        kernel: KernelLike = "rbf",
        *,
        gamma: float | ArrayLike | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        kernel_params: Mapping[str, Any] | None = None,
        centers: ArrayLike | int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.centers = centers

    def check_parameters(self) -> None:
        """Refuse parameters that are wrong whatever X is; `bind` refuses the others too.

        Examples
        --------
        >>> from sparsebayes.dictionaries import Kernel
        >>> Kernel("rbf", gamma=0.5).check_parameters()
        """
        kernel = checked_kernel(self.kernel)
        checked_params(self.kernel_params, kernel)
        checked_degree(self.degree)
        checked_coef0(self.coef0)
        given_gamma(self.gamma)

    def bind(
        self, X: Matrix, *, sample_weight: Floats | None = None, random_state: Any = None
    ) -> KernelAtoms | PrecomputedAtoms:
        """Choose the centers and the width on the rows of X.

        Parameters
        ----------
        X : float64 array or CSR matrix of shape (n_samples, n_features)
            Training rows.
        sample_weight : array of shape (n_samples,), default=None
            A weight counts as that many copies of its row, for "scale" and for k-means.
        random_state : int, RandomState or None, default=None
            For k-means.

        Returns
        -------
        KernelAtoms or PrecomputedAtoms
            One atom for each distinct center.
        """
        check_columns(X, None)
        if X.shape[0] == 0 or X.shape[1] == 0:
            raise ValueError(f"X must have rows and columns, but its shape is {X.shape}")
        if sample_weight is not None and np.shape(sample_weight) != (X.shape[0],):
            raise ValueError(
                f"sample_weight has shape {np.shape(sample_weight)}, but X has {X.shape[0]} rows"
            )
        kernel = checked_kernel(self.kernel)
        params = checked_params(self.kernel_params, kernel)
        degree, coef0 = checked_degree(self.degree), checked_coef0(self.coef0)
        learned = checked_learned(self.gamma, kernel, params)
        gamma = checked_gamma(self.gamma, kernel, X, sample_weight)
        if isinstance(kernel, str) and kernel == "precomputed":
            if self.centers is not None:
                raise ValueError(
                    "centers must be None when kernel='precomputed': the columns of X are the atoms"
                )
            return PrecomputedAtoms(distinct_columns(X), X.shape[1])
        refuse_sparse(kernel, X)
        centers, index, count = checked_centers(self.centers, gamma, X, sample_weight, random_state)
        refuse_sparse(kernel, centers)
        atoms = KernelAtoms(kernel, gamma, degree, coef0, params, centers, index, count)
        if not learned:
            return atoms
        if gamma is None:
            return replace(atoms, learned=learned)
        limits = width_bounds(X, sample_weight, gamma, kernel in INVERSE_DISTANCE)
        return replace(atoms, learned=learned, limits=limits)


@dataclass(frozen=True, eq=False)
class KernelAtoms:
    """Kernel functions with their centers; every parameter is a number by now."""

    kernel: KernelLike
    gamma_: float | Floats | None  # None where the kernel has no gamma
    degree: int
    coef0: float
    kernel_params: Mapping[str, Any] = field(repr=False)
    centers: Matrix = field(repr=False)  # (M, d), dense or CSR
    index: Positions = field(repr=False)  # (M,)
    count: int
    orthonormal: bool = False
    learned: str = ""  # what a fit is to learn: nothing, "evidence" or "ard"
    limits: Floats | None = field(default=None, repr=False)  # (P, 2) of the log widths to learn

    @property
    def size(self) -> int:
        """Number of atoms."""
        return len(self.index)

    @property
    def n_features_in(self) -> int:
        """Columns that X must have."""
        return int(self.centers.shape[1])

    @property
    def theta(self) -> Floats:
        """Logarithms of the widths to learn, or theta of a kernel object: (P,), empty if none."""
        if not self.learned:
            return np.empty(0)
        if self.gamma_ is None:
            return np.array(self.kernel.theta, dtype=np.float64)
        widths = np.atleast_1d(np.asarray(self.gamma_, dtype=np.float64))
        return np.log(widths[widths > 0])

    @property
    def bounds(self) -> Floats:
        """Lowest and highest theta, (P, 2)."""
        if not self.learned:
            return np.empty((0, 2))
        if self.limits is not None:
            return self.limits
        with np.errstate(divide="ignore"):  # a lower bound of zero
            return np.array(self.kernel.bounds, dtype=np.float64)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the entries of theta."""
        if not self.learned:
            return ()
        if self.gamma_ is None:
            from sparsebayes.dictionaries._gp_derivatives import theta_labels

            return theta_labels(self.kernel)
        if np.ndim(self.gamma_) == 0:
            return ("gamma",)
        return tuple(f"gamma[{k}]" for k in np.flatnonzero(self.gamma_))

    def with_theta(self, theta: ArrayLike) -> KernelAtoms:
        """The same centers with other widths."""
        values = checked_theta(theta, self.labels)
        if not self.learned:
            return self
        if self.gamma_ is None:
            return replace(self, kernel=self.kernel.clone_with_theta(values))
        if np.ndim(self.gamma_) == 0:
            return replace(self, gamma_=float(np.exp(values[0])))
        gamma = np.array(self.gamma_)
        gamma[gamma > 0] = np.exp(values)
        return replace(self, gamma_=gamma)

    def pullback(self, X: Matrix, D: Floats) -> Floats:
        """Sums over D (n, M) times derivatives of the kernel in theta, (P,)."""
        check_columns(X, self.n_features_in)
        refuse_sparse(self.kernel, X)
        if D.shape != (X.shape[0], self.size):
            raise ValueError(f"D has shape {D.shape}, not {(X.shape[0], self.size)}")
        theta = self.theta
        if theta.size == 0 or D.size == 0:
            return np.zeros(theta.size)
        if self.gamma_ is None:
            from sparsebayes.dictionaries._gp_derivatives import pull_theta

            return pull_theta(self.kernel, X, D, self.centers)
        if self.kernel not in WITH_GAMMA:  # chi2: exp(-gamma distance), as of scikit-learn
            K = self.evaluate(X)
            return np.array([np.vdot(D, xlogy(K, K))])
        pulled = pull_widths(
            self.kernel,
            X,
            D,
            self.centers,
            gamma=self.gamma_,
            degree=self.degree,
            coef0=self.coef0,
        )
        return pulled[np.atleast_1d(self.gamma_) > 0]

    def evaluate(self, X: Matrix, out: Floats | None = None) -> Floats:
        """Kernel values of the rows of X and the centers, (n, M); in `out` where it is given."""
        check_columns(X, self.n_features_in)
        refuse_sparse(self.kernel, X)
        out = room(out, (X.shape[0], self.size))
        if out.size == 0:
            return out
        sparse = is_sparse(X) or is_sparse(self.centers)
        self._formula(sparse).evaluate(X, out, same=self._at_centers(X))
        return out

    def _at_centers(self, X: Matrix) -> bool:
        """Whether the rows of X, dense, are the centers."""
        if is_sparse(X) or is_sparse(self.centers):
            return False
        return X is self.centers or np.array_equal(X, self.centers)

    def is_symmetric(self, X: Matrix) -> bool:
        """Whether the values at X are a matrix that is its own transpose."""
        return self._at_centers(X) and self._formula(sparse=False).symmetric

    @property
    def is_bounded(self) -> bool:
        """Whether no value can be below zero or above one."""
        return isinstance(self.kernel, str) and self.kernel in ("rbf", "laplacian")

    def has_unit_diagonal(self, X: Matrix) -> bool:
        """Whether the kernel is positive definite with K(x, x) = 1, and the inputs are dense."""
        return (
            isinstance(self.kernel, str)
            and self.kernel == "rbf"
            and not is_sparse(X)
            and not is_sparse(self.centers)
        )

    def between(self, X: Matrix, Z: Matrix) -> Floats:
        """The same kernel at other centers: of the rows of X and of Z, (n, m)."""
        return replace(self, centers=Z, index=np.arange(Z.shape[0])).evaluate(X)

    def restrict(self, indices: ArrayLike) -> KernelAtoms:
        """Only the atoms at `indices`, with a copy of their centers."""
        chosen = positions(indices, self.size)
        return replace(self, centers=self.centers[chosen], index=self.index[chosen])

    def _formula(self, sparse: bool) -> Formula:
        if not isinstance(self.kernel, str):
            function, label = partial(self.kernel, **self.kernel_params), repr(self.kernel)
            return foreign(self.centers, function, label)
        gamma = 1.0 if self.gamma_ is None else self.gamma_
        if self.kernel in OWN:
            return formula(
                self.kernel,
                self.centers,
                gamma=gamma,
                degree=self.degree,
                coef0=self.coef0,
                sparse=sparse,
            )
        function = kernel_metrics()[self.kernel]
        known = {"gamma": gamma, "degree": self.degree, "coef0": self.coef0}
        taken = inspect.signature(function).parameters
        arguments = {k: v for k, v in known.items() if k in taken} | dict(self.kernel_params)
        return foreign(self.centers, partial(function, **arguments), repr(self.kernel))

    def to_spec(self) -> tuple[Spec, Arrays]:
        """Names, numbers and centers; a ValueError for a callable."""
        spec: Spec = {
            "kind": "kernel",
            "kernel": self._stored_kernel(),
            "gamma": self.gamma_ if self.gamma_ is None or np.ndim(self.gamma_) == 0 else "array",
            "degree": self.degree,
            "coef0": self.coef0,
            "kernel_params": dict(self.kernel_params),
            "count": self.count,
            "n_features_in": self.n_features_in,
            "sparse": bool(is_sparse(self.centers)),
        }
        try:
            json.dumps(spec, allow_nan=False)
        except (TypeError, ValueError):
            raise ValueError(
                f"kernel_params={dict(self.kernel_params)!r} cannot be stored without pickle: "
                "only numbers, strings and lists of them can"
            ) from None
        arrays: Arrays = {"index": self.index}
        if spec["gamma"] == "array":
            arrays["gamma"] = np.asarray(self.gamma_)
        if spec["sparse"]:
            arrays |= {f"centers_{key}": getattr(self.centers, key) for key in _CSR}
        else:
            arrays["centers"] = self.centers
        return spec, arrays

    def _stored_kernel(self) -> Any:
        if isinstance(self.kernel, str):
            return self.kernel
        if is_gp_kernel(self.kernel):
            from sparsebayes.dictionaries._gp_kernels import to_tree

            return to_tree(self.kernel)
        raise ValueError(
            f"the kernel function {self.kernel!r} cannot be stored without pickle: use a kernel "
            "name or a sklearn.gaussian_process kernel, or compute the kernel matrix yourself "
            "and fit with kernel='precomputed'"
        )

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> KernelAtoms:
        """Rebuild the atoms that `to_spec` described; a ValueError for anything unexpected."""
        kernel = spec_value(spec, "kernel", (str, dict))
        if isinstance(kernel, dict):
            from sparsebayes.dictionaries._gp_kernels import from_tree

            kernel = from_tree(kernel)
        elif kernel not in OWN | kernel_metrics().keys():
            raise ValueError(f"stored kernel {kernel!r} is unknown to this version")
        d, count = spec_value(spec, "n_features_in", int), spec_value(spec, "count", int)
        gamma = spec.get("gamma")
        if gamma == "array":
            gamma = spec_array(arrays, "gamma", (d,))
        elif gamma is not None:
            gamma = float(spec_value(spec, "gamma", (int, float)))
        needed = isinstance(kernel, str) and kernel in WITH_GAMMA
        if needed and not (gamma is not None and np.isfinite(gamma).all() and np.min(gamma) >= 0):
            raise ValueError(f"stored kernel {kernel!r} has no valid gamma, but {gamma!r}")
        index = spec_positions(arrays, "index", None, count)
        if spec_value(spec, "sparse", bool):
            centers = _csr_from(arrays, (len(index), d))
        else:
            centers = np.ascontiguousarray(spec_array(arrays, "centers", (len(index), d)))
        return cls(
            kernel,
            gamma,
            checked_degree(spec_value(spec, "degree", int)),
            checked_coef0(spec_value(spec, "coef0", (int, float))),
            checked_params(spec_value(spec, "kernel_params", dict), kernel),
            centers,
            index,
            count,
        )


def _csr_from(arrays: Mapping[str, NDArray[Any]], shape: tuple[int, int]) -> Matrix:
    indptr = spec_array(arrays, "centers_indptr", (shape[0] + 1,), kind="i")
    data = spec_array(arrays, "centers_data", (None,))
    indices = spec_positions(arrays, "centers_indices", len(data), shape[1])
    if indptr[0] != 0 or indptr[-1] != len(data) or (np.diff(indptr) < 0).any():
        raise ValueError("stored atoms: array 'centers_indptr' is malformed")
    return sp.csr_matrix((data, indices, indptr), shape=shape)
