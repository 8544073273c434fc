"""The posterior that an estimator keeps: active atoms only, of a size independent of N and M."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes.dictionaries import Atoms, atoms_from_spec
from sparsebayes.dictionaries._products import blocks, columns_of, products_at
from sparsebayes.dictionaries._protocol import Products, evaluate_into, of_unit_norm
from sparsebayes.dictionaries.kernels import KernelAtoms
from sparsebayes.hyperparameters import Evidence
from sparsebayes.operator_design import has_products, sums_of_atoms

FloatArray = NDArray[np.float64]

__all__ = ["Posterior"]

_BLOCK_CELLS = 2**17  # entries evaluated at a time when predicting: one megabyte
_FAST_CELLS = 2**23  # the same where few rows take a transform as long as all of them
_LARGE_CENTER = 1e3  # in units of the norm: a sum of atoms as given would lose digits
_TINY_NORM = 1e-100  # below, weights of atoms as given may overflow
_ARRAYS = ("norm", "center", "mean", "root", "prior_variance", "offset")
_SCALARS = ("offset_variance", "noise_variance", "scale")


@dataclass(frozen=True, eq=False)
class Posterior:
    """Gaussian posterior of the weights, and how to evaluate it anywhere.

    Everything is kept for atoms that are centered and of unit norm and for targets in units of
    ``scale``, where no sensible problem leaves the range of float64; ``weights``, ``covariance``
    and ``weight_variance`` give the same for atoms and targets as the user knows them.
    """

    atoms: Atoms
    norm: FloatArray  # (m,) norm of each centered atom
    center: FloatArray  # (m,) mean of each atom; zero without an intercept
    mean: FloatArray  # (m, T)
    root: FloatArray  # (m, m) with root @ root.T the covariance; (m,) where that is diagonal
    prior_variance: FloatArray  # (m,)
    offset: FloatArray  # (T,) in the targets' own units
    offset_variance: float
    noise_variance: float
    scale: float
    single: bool  # y was one-dimensional
    evidence: Evidence | None = None  # what other variances are scored by; old files have none

    @property
    def weights(self) -> FloatArray:
        """Weights of the atoms as given, shape (m,) or (m, T)."""
        return self.shaped(self.mean / self.norm[:, None] * self.scale)

    @property
    def covariance(self) -> FloatArray:
        """Covariance of these weights, shape (m, m)."""
        if self.root.ndim == 1:
            return np.diag(np.square(self.root / self.norm * self.scale))
        root = self.root / self.norm[:, None] * self.scale
        return root @ root.T

    @property
    def weight_variance(self) -> FloatArray:
        """Prior variances of these weights, shape (m,)."""
        return np.square(np.sqrt(self.prior_variance) / self.norm * self.scale)

    @property
    def intercept(self) -> Any:
        """Intercept for atoms as given: a float, or one per target."""
        values = self.offset - self.scale * (self.center / self.norm) @ self.mean
        return float(values[0]) if self.single else values

    def through_root(self, U: FloatArray) -> FloatArray:
        """Take products with the root of the covariance.

        Parameters
        ----------
        U : ndarray of shape (n, m)
            Combinations of the weights.

        Returns
        -------
        ndarray of shape (n, m)
            ``U @ root``, whose rows have the variances and covariances of U @ w.
        """
        return U * self.root if self.root.ndim == 1 else U @ self.root

    def shaped(self, values: FloatArray) -> FloatArray:
        """Values for each target as the user knows them: without that axis where y had none.

        Parameters
        ----------
        values : ndarray of shape (n, T, ...)
            Values.

        Returns
        -------
        ndarray of shape (n, ...) or (n, T, ...)
            The same.
        """
        return values[:, 0] if self.single else values

    def unit_atoms(self, X: Any) -> Iterator[tuple[slice, FloatArray]]:
        """Evaluate the atoms, centered and of unit norm, a block of rows at a time.

        Parameters
        ----------
        X : ndarray or scipy.sparse matrix of shape (n, d)
            Inputs.

        Yields
        ------
        rows : slice
            Which rows of X.
        U : ndarray of shape (k, m)
            Atoms there, until the next block takes their place.
        """
        for rows, U in self._evaluated(X):
            yield rows, of_unit_norm(U, self.center, self.norm, out=U)

    def _evaluated(self, X: Any) -> Iterator[tuple[slice, FloatArray]]:
        """Rows, and the atoms as given there, in an array that the next block overwrites."""
        n, m = int(X.shape[0]), len(self.norm)
        cells = _FAST_CELLS if has_products(self.atoms) else _BLOCK_CELLS
        step = max(1, cells // m) if m else max(n, 1)
        buffer = np.empty((min(step, n), m))
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            out = buffer[: rows.stop - start]
            if m:
                evaluate_into(self.atoms, X[rows], out)
            yield rows, out

    def _sums(self, X: Any, weights: FloatArray) -> FloatArray:
        """Sums of centered atoms of unit norm at the rows of X, shapes (m, k) to (n, k)."""
        large = (np.abs(self.center) > _LARGE_CENTER * self.norm).any()
        if not large and has_products(self.atoms):
            own = weights / self.norm[:, None]
            given = sums_of_atoms(self.atoms, X, np.ascontiguousarray(own.T))
            return np.asarray(given.T - self.center @ own)
        sums = np.empty((int(X.shape[0]), weights.shape[1]))
        if not self._as_given:
            for rows, U in self.unit_atoms(X):
                np.matmul(U, weights, out=sums[rows])
            return sums
        own = weights / self.norm[:, None]
        for rows, K in self._evaluated(X):
            np.matmul(K, own, out=sums[rows])
        sums -= self.center @ own
        return sums

    @property
    def _as_given(self) -> bool:
        """Whether sums of atoms as given neither overflow nor lose digits: two passes less."""
        if not isinstance(self.atoms, KernelAtoms) or not self.atoms.is_bounded:
            return False
        return bool((self.norm > np.maximum(np.abs(self.center), _TINY_NORM)).all())

    def _uncorrelated(self, products: Products) -> FloatArray:
        """Variance of the sum of atoms whose weights are uncorrelated, at n rows: shape (n,)."""
        n, m = products.shape
        variance = np.zeros(n)
        for some in blocks(m, max(n, m)):
            rows = columns_of(products, np.arange(m)[some])
            rows -= self.center[some, None]
            rows *= (self.root / self.norm)[some, None]
            variance += np.einsum("ij,ij->j", rows, rows)
        return variance

    def predict(self, X: Any) -> FloatArray:
        """Mean of the target at the rows of X.

        Parameters
        ----------
        X : ndarray or scipy.sparse matrix of shape (n, d)
            Inputs.

        Returns
        -------
        ndarray of shape (n,) or (n, T)
            Posterior mean.
        """
        return self._finished(self._sums(X, self.mean))

    def _finished(self, mean: FloatArray) -> FloatArray:
        """Sums of atoms, (n, T), in the units of the targets; in place."""
        mean *= self.scale
        mean += self.offset
        return self.shaped(mean)

    def spread(self, X: Any, *, noise: bool) -> tuple[FloatArray, FloatArray]:
        """Mean of the target, and the standard deviation of the target or of the function.

        Parameters
        ----------
        X : ndarray or scipy.sparse matrix of shape (n, d)
            Inputs.
        noise : bool
            Whether the noise is included: of the target, or of the function without it.

        Returns
        -------
        mean, std : ndarray of shape (n,) or (n, T)
            Nothing else of their length is held.
        """
        n, n_targets = int(X.shape[0]), len(self.offset)
        floor = self.offset_variance + (self.noise_variance if noise else 0.0)
        std = np.empty((n, n_targets))
        products = products_at(self.atoms, X) if self.root.ndim == 1 else None
        if products is not None:
            std[:] = self.scale * np.sqrt(floor + self._uncorrelated(products))[:, None]
            return self.predict(X), self.shaped(std)
        mean, given = np.empty((n, n_targets)), self._as_given
        own = self.mean / self.norm[:, None] if given else self.mean
        for rows, K in self._evaluated(X):
            if given:
                np.matmul(K, own, out=mean[rows])
            U = of_unit_norm(K, self.center, self.norm, out=K)
            if not given:
                np.matmul(U, own, out=mean[rows])
            std[rows] = (self.scale * _length(self.through_root(U), floor))[:, None]
        if given:
            mean -= self.center @ own
        return self._finished(mean), self.shaped(std)

    def contribution(self, X: Any, chosen: NDArray[np.bool_]) -> FloatArray:
        """What some of the atoms, centered as they are, add to the mean at the rows of X.

        Parameters
        ----------
        X : ndarray or scipy.sparse matrix of shape (n, d)
            Inputs.
        chosen : ndarray of bool of shape (m,)
            Which atoms.

        Returns
        -------
        ndarray of shape (n,) or (n, T)
            Added up over atoms that exclude each other and `offset` it gives `predict`.
        """
        mean = np.where(chosen[:, None], self.mean, 0.0)
        return self.shaped(self.scale * self._sums(X, mean))

    def target_covariance(self, X: Any) -> FloatArray:
        """Covariance of the target at the rows of X, noise included; the same for every target.

        Parameters
        ----------
        X : ndarray or scipy.sparse matrix of shape (n, d)
            Inputs.

        Returns
        -------
        ndarray of shape (n, n)
            Symmetric, positive definite.
        """
        n, m = int(X.shape[0]), len(self.norm)
        half = np.empty((n, m + 1))
        half[:, m] = np.sqrt(self.offset_variance)
        for rows, U in self.unit_atoms(X):
            half[rows, :m] = self.through_root(U)
        covariance = half @ half.T
        covariance.flat[:: n + 1] += self.noise_variance
        return covariance * self.scale**2

    def sample(
        self, X: Any, n_samples: int, random_state: np.random.RandomState, *, noise: bool
    ) -> FloatArray:
        """Draw functions, or with ``noise`` targets, at the rows of X.

        Parameters
        ----------
        X : ndarray or scipy.sparse matrix of shape (n, d)
            Inputs.
        n_samples : int
            Number of draws.
        random_state : RandomState
            Source of randomness.
        noise : bool
            Whether to add noise, independent in each row.

        Returns
        -------
        ndarray of shape (n, n_samples) or (n, T, n_samples)
            Draws.
        """
        n, m, n_targets = int(X.shape[0]), len(self.norm), len(self.offset)
        normal = random_state.standard_normal((m + 1, n_targets * n_samples))
        drawn = self.root[:, None] * normal[:m] if self.root.ndim == 1 else self.root @ normal[:m]
        weights = np.repeat(self.mean, n_samples, axis=1) + drawn
        level = np.sqrt(self.offset_variance) * normal[m]
        draws: FloatArray = self._sums(X, weights)
        draws += level
        if noise:
            draws += np.sqrt(self.noise_variance) * random_state.standard_normal(draws.shape)
        draws = draws.reshape(n, n_targets, n_samples) * self.scale + self.offset[:, None]
        return draws[:, 0] if self.single else draws

    def to_spec(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Describe the posterior by a JSON-able dict and named arrays.

        Returns
        -------
        spec : dict
            Numbers, and the description of the atoms.
        arrays : dict of str to ndarray
            Arrays by name.
        """
        atoms, arrays = self.atoms.to_spec()
        named = {f"atoms.{name}": value for name, value in arrays.items()}
        named |= {name: getattr(self, name) for name in _ARRAYS}
        spec: dict[str, Any] = {name: float(getattr(self, name)) for name in _SCALARS}
        if self.evidence is not None:
            spec["evidence"] = self.evidence.to_spec()
        return spec | {"single": self.single, "atoms": atoms}, named

    @classmethod
    def from_spec(cls, spec: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Posterior:
        """Rebuild what `to_spec` described; a ValueError for anything unexpected.

        Parameters
        ----------
        spec : dict
            From `to_spec`.
        arrays : dict of str to ndarray
            From `to_spec`.

        Returns
        -------
        Posterior
            The posterior.
        """
        own = {
            name.removeprefix("atoms."): value
            for name, value in arrays.items()
            if name.startswith("atoms.")
        }
        atoms = atoms_from_spec(spec["atoms"], own)
        m, n_targets = atoms.size, np.size(arrays.get("offset", ()))
        shapes = {
            "norm": (m,),
            "center": (m,),
            "mean": (m, n_targets),
            "root": (m,) if np.ndim(arrays.get("root", ())) == 1 else (m, m),
            "prior_variance": (m,),
            "offset": (n_targets,),
        }
        for name, shape in shapes.items():
            value = arrays.get(name)
            if value is None or value.dtype != np.float64 or value.shape != shape:
                raise ValueError(f"stored posterior: array {name!r} is missing or malformed")
            if not np.isfinite(value).all():
                raise ValueError(f"stored posterior: array {name!r} holds NaN or infinity")
        numbers = {name: float(spec[name]) for name in _SCALARS}
        if not all(np.isfinite(value) and value >= 0 for value in numbers.values()):
            raise ValueError("stored posterior: a variance or scale is negative or not finite")
        single = spec["single"] is True
        if n_targets == 0 or (single and n_targets != 1):
            raise ValueError("stored posterior: the number of targets contradicts itself")
        if (arrays["norm"] <= 0).any():
            raise ValueError("stored posterior: an atom has no norm")
        fields: dict[str, Any] = {name: arrays[name] for name in _ARRAYS} | numbers
        if "evidence" in spec:
            fields["evidence"] = Evidence.from_spec(spec["evidence"])
        return cls(atoms, single=single, **fields)


def _length(rows: FloatArray, more: float) -> FloatArray:
    """Root of each row's sum of squares and of `more`, shapes (n, m) to (n,)."""
    with np.errstate(over="ignore"):
        squares = np.einsum("ij,ij->i", rows, rows)
    length: FloatArray = np.sqrt(more + squares)
    far = ~np.isfinite(squares)
    if far.any():
        unit = np.abs(rows[far]).max(axis=1)
        inside = np.square(rows[far] / unit[:, None]).sum(axis=1)
        length[far] = unit * np.sqrt(inside + more / unit / unit)
    return length
