"""A sparse Gaussian process with inducing inputs (Titsias 2009), as a competitor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from sklearn.cluster import KMeans
from sklearn.metrics.pairwise import rbf_kernel

Array = NDArray[np.float64]
JITTER = 1e-8


@dataclass
class SGPR:
    """Regression by the collapsed bound, inducing inputs at k-means centers.

    Width, amplitude and noise maximize the bound; the inputs stay where they are. Their gradient
    would gain a little more, at many times the cost.
    """

    n_inducing: int = 100

    def fit(self, X: Array, t: Array) -> Self:
        """Climb in three logarithms, by finite differences."""
        self.mean_ = t.mean()
        self.Z_ = KMeans(self.n_inducing, n_init=1, random_state=0).fit(X).cluster_centers_
        start = np.log([1 / (X.shape[1] * X.var()), t.var(), 0.1 * t.var()])
        found = minimize(lambda u: -self._bound(u, X, t - self.mean_)[0], start, method="L-BFGS-B")
        self.gamma_, self.amplitude_, self.noise_variance_ = np.exp(found.x)
        _, self._L, self._LB, self._c = self._bound(found.x, X, t - self.mean_)
        return self

    def _bound(self, log_parameters: Array, X: Array, t: Array) -> tuple[float, Array, Array, Any]:
        """Titsias' bound on the evidence, and the factors that predictions need."""
        gamma_, amplitude, noise_var = np.exp(log_parameters)
        m = len(self.Z_)
        K_zz = amplitude * (rbf_kernel(self.Z_, gamma=gamma_) + JITTER * np.eye(m))
        L = cholesky(K_zz, lower=True)
        A = solve_triangular(L, amplitude * rbf_kernel(self.Z_, X, gamma=gamma_), lower=True)
        A /= np.sqrt(noise_var)
        LB = cholesky(np.eye(m) + A @ A.T, lower=True)
        c = solve_triangular(LB, A @ t, lower=True) / np.sqrt(noise_var)
        N = len(t)
        bound = -0.5 * N * np.log(2 * np.pi * noise_var) - np.log(np.diag(LB)).sum()
        bound += 0.5 * (c @ c - t @ t / noise_var)
        bound -= 0.5 * (N * amplitude / noise_var - np.square(A).sum())
        return float(bound), L, LB, c

    def predict(self, X: Array, return_std: bool = False) -> Any:
        """Mean and standard deviation of new targets."""
        K = self.amplitude_ * rbf_kernel(self.Z_, X, gamma=self.gamma_)
        a = solve_triangular(self._L, K, lower=True)
        b = solve_triangular(self._LB, a, lower=True)
        mean = self.mean_ + b.T @ self._c
        if not return_std:
            return mean
        var = self.amplitude_ - np.square(a).sum(axis=0) + np.square(b).sum(axis=0)
        return mean, np.sqrt(np.maximum(var, 0.0) + self.noise_variance_)
