"""The Laplace approximation in textbook form: dense, slow and plain; the fast path must equal it.

Latent functions f_k(x_n) = c_k + sum of phi_a(x_n) w_i over the active columns i = (a, k), as one
long vector f = A theta of N K entries with theta = (w, c). Weights w_i have the prior N(0, v_i),
intercepts c a flat one in the directions Z that the likelihood can see. Nothing is centered,
normalized, projected or whitened: intercepts are columns like others, without a prior precision.
"""

from typing import NamedTuple

import numpy as np


class Laplace(NamedTuple):
    w: np.ndarray  # (m,) weights at the mode
    c: np.ndarray  # (K,) intercepts at the mode
    f: np.ndarray  # (N, K) latent functions at the mode
    slope: np.ndarray  # (N, K) of the weighted log-likelihood
    B: np.ndarray  # (N K, N K) minus its Hessian: block diagonal
    gradient: np.ndarray  # (m + r,) of the log posterior of (w, c) at the mode: zero
    covariance: np.ndarray  # (m + r, m + r) of (w, c), inverse of minus the Hessian
    log_evidence: float
    S: np.ndarray  # (M K,) of every column a K + k
    Q: np.ndarray


def column(Phi, atom, latent, K):
    """(N K,): how a column enters the latent functions."""
    return np.outer(Phi[:, atom], np.eye(K)[latent]).ravel()


def expansion(likelihood, t, f, weights):
    """Value, slope (N, K) and B (N K, N K) of the weighted log-likelihood."""
    (N, K), weights = f.shape, np.ones(len(t)) if weights is None else weights
    value, slope, curvature = likelihood.expand(t, f)
    B = np.zeros((N, K, N, K))
    B[np.arange(N), :, np.arange(N), :] = weights[:, None, None] * curvature
    return np.sum(weights * value), weights[:, None] * slope, B.reshape(N * K, N * K)


def visible(likelihood, t):
    """(K, r): orthonormal directions of the intercepts in which the likelihood is not flat."""
    K = likelihood.n_latent
    C = likelihood.expand(t, np.zeros((len(t), K))).curvature.sum(axis=0)
    size, Z = np.linalg.eigh(C)
    return Z[:, size > 1e-10 * size.max()]


def laplace(Phi, t, weights, likelihood, columns, v, intercept):
    """`columns`: active pairs (atom, latent); `v`: prior variances of atoms as given."""
    (N, M), K, m, v = Phi.shape, likelihood.n_latent, len(columns), np.asarray(v, dtype=float)
    Z = visible(likelihood, t) if intercept else np.zeros((K, 0))
    A = np.column_stack([column(Phi, a, k, K) for a, k in columns] + [np.tile(Z, (N, 1))])
    precision = np.append(1 / v, np.zeros(Z.shape[1]))

    def posterior(theta):
        value, slope, B = expansion(likelihood, t, (A @ theta).reshape(N, K), weights)
        log_joint = value - 0.5 * np.sum(precision * theta**2)
        return log_joint, A.T @ slope.ravel() - precision * theta, slope, B

    theta = np.zeros(m + Z.shape[1])
    for _ in range(1000):  # damped Newton; a full step from the mode changes nothing but rounding
        value, gradient, slope, B = posterior(theta)
        hessian = A.T @ B @ A + np.diag(precision)
        scale = 1 / np.sqrt(np.diag(hessian))
        step = scale * np.linalg.solve(scale[:, None] * hessian * scale, scale * gradient)
        length = 1.0
        while posterior(theta + length * step)[0] < value - 1e-13 * abs(value) and length > 1e-12:
            length /= 2
        theta = theta + length * step
        if np.abs(step / scale).max(initial=0.0) < 1e-13 * (
            1 + np.abs(theta / scale).max(initial=0.0)
        ):
            break
    value, gradient, slope, B = posterior(theta)
    hessian = A.T @ B @ A + np.diag(precision)
    covariance = np.linalg.inv(hessian)
    log_evidence = value - 0.5 * np.sum(np.log(2 * np.pi * v))
    log_evidence += 0.5 * (len(theta) * np.log(2 * np.pi) - np.linalg.slogdet(hessian)[1])
    rest = B - B @ A @ covariance @ A.T @ B
    every = np.column_stack([column(Phi, a, k, K) for a in range(M) for k in range(K)])
    S, Q = np.sum(every * (rest @ every), axis=0), every.T @ slope.ravel()
    f = (A @ theta).reshape(N, K)
    return Laplace(
        theta[:m], Z @ theta[m:], f, slope, B, gradient, covariance, float(log_evidence), S, Q
    )
