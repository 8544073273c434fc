"""The posterior of latent functions that an estimator keeps: active columns only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes.dictionaries import Atoms, atoms_from_spec
from sparsebayes.dictionaries._protocol import check_range, is_sparse, of_unit_norm
from sparsebayes.operator_design import has_products

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["LatentPosterior"]

_BLOCK_CELLS = 2**18  # entries evaluated at a time when predicting: two megabytes
_FAST_CELLS = 2**23  # the same where few rows take a transform as long as all of them
_INDICES = ("atom", "latent")
_ARRAYS = ("norm", "center", "mean", "root", "prior_variance", "offset", "offset_root")


@dataclass(frozen=True, eq=False)
class LatentPosterior:
    """Gaussian posterior of the weights of K latent functions, and how to evaluate it anywhere.

    A column is an atom in one of the latent functions; an atom may be in several. Everything is
    kept for columns that are centered and of unit norm; ``weights``, ``covariance``,
    ``weight_variance`` and ``intercept`` give the same for atoms as the user knows them.
    """

    atoms: Atoms  # those of the active columns, each once
    atom: IndexArray  # (m,) which of them a column uses
    latent: IndexArray  # (m,) which latent function it belongs to
    norm: FloatArray  # (m,) of the centered columns
    center: FloatArray  # (m, K) column i at x is (phi(x) e_latent - center_i) / norm_i
    mean: FloatArray  # (m,)
    root: FloatArray  # (m, m) with root @ root.T the covariance: variances cannot be negative
    prior_variance: FloatArray  # (m,)
    offset: FloatArray  # (K,) intercepts of the centered columns
    offset_root: FloatArray  # (K, K) the same of their covariance; independent of the weights

    @property
    def n_latent(self) -> int:
        """Number of latent functions K."""
        return len(self.offset)

    @property
    def weights(self) -> FloatArray:
        """Weights of the atoms as given, shape (m,)."""
        return self.mean / self.norm

    @property
    def covariance(self) -> FloatArray:
        """Covariance of these weights, shape (m, m)."""
        root = self.root / self.norm[:, None]
        return root @ root.T

    @property
    def weight_variance(self) -> FloatArray:
        """Prior variances of these weights, shape (m,)."""
        return np.square(np.sqrt(self.prior_variance) / self.norm)

    @property
    def intercept(self) -> FloatArray:
        """Intercepts for atoms as given, shape (K,)."""
        return self.offset - self.weights @ self.center

    @property
    def _own(self) -> FloatArray:
        """Center of each column in its own latent function, shape (m,)."""
        return np.asarray(self.center[np.arange(len(self.latent)), self.latent])

    @property
    def _others(self) -> FloatArray:
        """What a column of unit norm adds to the other latent functions, everywhere: (m, K)."""
        constant = -self.center / self.norm[:, None]
        constant[np.arange(len(self.latent)), self.latent] = 0.0
        return constant

    def _blocks(
        self, X: Any, width: int
    ) -> Iterator[tuple[slice, list[tuple[IndexArray, FloatArray]]]]:
        """Rows, and for each latent function its columns and their values in it.

        A block of rows at a time, with about `width` entries of a result in each row.
        """
        n, m = int(X.shape[0]), len(self.norm)
        columns = [np.flatnonzero(self.latent == k) for k in range(self.n_latent)]
        own = self._own
        cells = _FAST_CELLS if has_products(self.atoms) else _BLOCK_CELLS
        step = max(1, cells // max(m + self.atoms.size, width)) if m else max(n, 1)
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            U: Any = self.atoms.evaluate(X[rows]) if m else np.empty((rows.stop - start, 0))
            U = U.toarray() if is_sparse(U) else np.asarray(U, dtype=np.float64)
            parts = [U[:, self.atom[c]] for c in columns]  # copies
            pairs = zip(columns, parts, strict=True)
            yield rows, [(c, of_unit_norm(V, own[c], self.norm[c], out=V)) for c, V in pairs]

    def predict(self, X: Any) -> FloatArray:
        """Mean of the latent functions at the rows of X.

        Parameters
        ----------
        X : ndarray or scipy.sparse matrix of shape (n, d)
            Inputs.

        Returns
        -------
        ndarray of shape (n, K)
            Posterior mean.
        """
        mean = np.empty((int(X.shape[0]), self.n_latent))
        constant = self.offset + self.mean @ self._others
        with np.errstate(over="ignore", invalid="ignore"):
            for rows, parts in self._blocks(X, self.n_latent):
                for k, (c, U) in enumerate(parts):
                    mean[rows, k] = constant[k] + U @ self.mean[c]
        check_range(np.isfinite(mean).all())
        return mean

    def spread(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Mean and covariance of the latent functions at each row of X by itself.

        Parameters
        ----------
        X : ndarray or scipy.sparse matrix of shape (n, d)
            Inputs.

        Returns
        -------
        mean : ndarray of shape (n, K)
            Posterior mean.
        covariance : ndarray of shape (n, K, K)
            Posterior covariance: symmetric, positive semidefinite. Where it would leave the range
            of float64, far from the data, a ValueError is raised.
        """
        n, m, K = int(X.shape[0]), len(self.norm), self.n_latent
        mean, covariance = np.empty((n, K)), np.empty((n, K, K))
        constant = self.offset + self.mean @ self._others
        fixed = self._others.T @ self.root
        of_offset = self.offset_root @ self.offset_root.T
        with np.errstate(over="ignore", invalid="ignore"):
            for rows, parts in self._blocks(X, K * (m + K)):
                half = np.empty((rows.stop - rows.start, K, m))
                for k, (c, U) in enumerate(parts):
                    mean[rows, k] = constant[k] + U @ self.mean[c]
                    half[:, k] = U @ self.root[c] + fixed[k]
                if K == 1:
                    covariance[rows, 0, 0] = np.einsum("nkm,nkm->n", half, half) + of_offset[0, 0]
                    continue
                block = half @ half.transpose(0, 2, 1) + of_offset
                covariance[rows] = 0.5 * (block + block.transpose(0, 2, 1))
        check_range(np.isfinite(mean).all(), np.isfinite(covariance).all())
        return mean, covariance

    def sample(
        self, X: Any, n_samples: int, random_state: np.random.RandomState | np.random.Generator
    ) -> FloatArray:
        """Draw latent functions, each the same function at all rows of X.

        Parameters
        ----------
        X : ndarray or scipy.sparse matrix of shape (n, d)
            Inputs.
        n_samples : int
            Number of draws.
        random_state : RandomState or Generator
            Source of randomness.

        Returns
        -------
        ndarray of shape (n, K, n_samples)
            Draws.
        """
        m, K = len(self.norm), self.n_latent
        normal = random_state.standard_normal((m + K, n_samples))
        weights = self.mean[:, None] + self.root @ normal[:m]
        constant = self.offset[:, None] + self.offset_root @ normal[m:] + self._others.T @ weights
        draws = np.empty((int(X.shape[0]), K, n_samples))
        with np.errstate(over="ignore", invalid="ignore"):
            for rows, parts in self._blocks(X, K * n_samples):
                for k, (c, U) in enumerate(parts):
                    draws[rows, k] = U @ weights[c] + constant[k]
        check_range(np.isfinite(draws).all())
        return draws

    def to_spec(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Describe the posterior by a JSON-able dict and named arrays.

        Returns
        -------
        spec : dict
            The description of the atoms.
        arrays : dict of str to ndarray
            Arrays by name.
        """
        atoms, arrays = self.atoms.to_spec()
        named = {f"atoms.{name}": value for name, value in arrays.items()}
        named |= {name: getattr(self, name) for name in (*_INDICES, *_ARRAYS)}
        return {"atoms": atoms}, named

    @classmethod
    def from_spec(cls, spec: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> LatentPosterior:
        """Rebuild what `to_spec` described; a ValueError for anything unexpected.

        Parameters
        ----------
        spec : dict
            From `to_spec`.
        arrays : dict of str to ndarray
            From `to_spec`.

        Returns
        -------
        LatentPosterior
            The posterior.
        """
        if not isinstance(spec, dict) or "atoms" not in spec:
            raise ValueError("stored posterior: the atoms are missing")
        own = {
            name.removeprefix("atoms."): value
            for name, value in arrays.items()
            if name.startswith("atoms.")
        }
        atoms = atoms_from_spec(spec["atoms"], own)
        m, K = np.size(arrays.get("norm", ())), np.size(arrays.get("offset", ()))
        shapes: dict[str, tuple[int, ...]] = {
            "norm": (m,),
            "center": (m, K),
            "mean": (m,),
            "root": (m, m),
            "prior_variance": (m,),
            "offset": (K,),
            "offset_root": (K, K),
        }
        fields: dict[str, Any] = {}
        for name in _ARRAYS:
            value = arrays.get(name)
            if value is None or value.dtype != np.float64 or value.shape != shapes[name]:
                raise ValueError(f"stored posterior: array {name!r} is missing or malformed")
            if not np.isfinite(value).all():
                raise ValueError(f"stored posterior: array {name!r} holds NaN or infinity")
            fields[name] = value
        for name, size in (("atom", atoms.size), ("latent", K)):
            value = arrays.get(name)
            if value is None or value.dtype.kind != "i" or value.shape != (m,):
                raise ValueError(f"stored posterior: array {name!r} is missing or malformed")
            if ((value < 0) | (value >= size)).any():
                raise ValueError(f"stored posterior: array {name!r} points outside")
            fields[name] = value.astype(np.intp, copy=False)
        if K == 0:
            raise ValueError("stored posterior: there is no latent function")
        if len(np.unique(fields["atom"])) != atoms.size:
            raise ValueError("stored posterior: the number of atoms contradicts itself")
        if len(np.unique(fields["atom"] * K + fields["latent"])) != m:
            raise ValueError("stored posterior: a column is there twice")
        if (fields["norm"] <= 0).any():
            raise ValueError("stored posterior: a column has no norm")
        if (fields["prior_variance"] < 0).any():
            raise ValueError("stored posterior: a variance is negative")
        return cls(atoms, **fields)
