"""The training of Tipping 2001, stopped as was usual then, to compare optima with.

All weights, the bias among them, begin with a variance of N^2 and the noise with a hundredth of the
targets' variance. MacKay's updates (section 2.3) are repeated until no log precision changes by
more than 1e-3, or 500 times; weights of precisions beyond 1e9 are pruned for good. The paper prints
none of these numbers: they are typical of programs of its time, and they matter, since on many
problems the updates are far from an optimum of the evidence where they stop. Nothing of the library
is used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.spatial.distance import cdist

Array = NDArray[np.float64]

ITERATIONS, SETTLED, PRUNED = 500, 1e-3, 1e9


class Original:
    """An estimator with a Gaussian kernel of width r, as far as the benchmark needs one."""

    def __init__(self, width: float) -> None:
        self.width = width

    def _atoms(self, X: Array, Z: Array) -> Array:
        kernel = np.exp(-cdist(X, Z, "sqeuclidean") / self.width**2)
        return np.column_stack([np.ones(len(X)), kernel])

    def fit(self, X: Array, y: Array) -> Original:
        Phi = self._atoms(X, X)
        N, M = Phi.shape
        log_precision = np.full(M, -2 * np.log(N))
        noise = y.var() / 100
        used = np.arange(M)
        for self.n_iter_ in range(1, ITERATIONS + 1):
            A = Phi[:, used]
            precision = np.exp(log_precision[used])
            root = cholesky(A.T @ A / noise + np.diag(precision), lower=True)
            mu = cho_solve((root, True), A.T @ y / noise)
            inverse = solve_triangular(root, np.eye(len(used)), lower=True)
            dof = 1 - precision * np.square(inverse).sum(axis=0)
            with np.errstate(divide="ignore"):
                new = np.log(np.maximum(dof, 1e-12)) - np.log(mu**2)
            noise = float(np.sum((y - A @ mu) ** 2) / (N - dof.sum()))
            stays = new < np.log(PRUNED)
            change = np.abs(new - log_precision[used])[stays].max(initial=0.0)
            log_precision[used] = new
            if change < SETTLED or self.n_iter_ == ITERATIONS:
                break
            used = used[stays]
        self.weights_, self.noise_variance_ = mu, noise
        self.has_bias_ = bool(used[:1] == 0)
        self.relevance_ = used[used > 0] - 1
        self.vectors_ = X[self.relevance_]
        return self

    def predict(self, X: Array) -> Array:
        atoms = self._atoms(X, self.vectors_)[:, 0 if self.has_bias_ else 1 :]
        return np.asarray(atoms @ self.weights_)
