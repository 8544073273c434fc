"""Textbook definitions with dense N x N matrices, slow and plain: the fast path must equal them.

All rests on C = noise I + Phi V Phi', the covariance of the targets. An intercept with a flat prior
is integrated out by its own integral: of C^-1 is left what a constant cannot explain. Several
targets are several draws from the same C. A row of weight k is that row given k times (`repeated`).
Nothing here is centered, normalized, factorized or whitened.
"""

import numpy as np

STEP = 1e-100  # of complex-step derivatives, which are exact: f'(x) = Im f(x + i h) / h


def repeated(array, weights):
    return array if weights is None else np.repeat(array, weights, axis=0)


def covariance(Phi, v, noise):
    return noise * np.eye(len(Phi)) + (Phi * v) @ Phi.T


def precision(Phi, v, noise, center):
    K = np.linalg.inv(covariance(Phi, v, noise))
    ones = K.sum(axis=1)
    return K - np.outer(ones, ones) / ones.sum() if center else K


def log_evidence(Phi, t, v, noise, center):
    sign, log_det = np.linalg.slogdet(covariance(Phi, v, noise))
    log_det = log_det + (np.log(sign) if np.iscomplexobj(sign) else 0.0)
    n, n_targets = t.shape
    if center:  # the integral over the intercept is sqrt(2 pi / (1' C^-1 1)) times a density
        log_det = log_det + np.log(np.linalg.inv(covariance(Phi, v, noise)).sum())
        n = n - 1
    misfit = np.sum(t * (precision(Phi, v, noise, center) @ t))
    return -0.5 * (n_targets * (n * np.log(2 * np.pi) + log_det) + misfit)


def objective(Phi, t, v, noise, center, prior):
    inside = v != 0
    return log_evidence(Phi, t, v, noise, center) + np.sum(prior.log_density(v[inside], noise))


def posterior(Phi, t, v, noise, center):
    """mu and Sigma of the weights, as a Gaussian conditioned on the targets."""
    K = precision(Phi, v, noise, center)
    VPhi = v[:, None] * Phi.T
    return VPhi @ K @ t, np.diag(v) - VPhi @ K @ VPhi.T


def statistics(Phi, t, v, noise, center):
    """S_j = phi_j' C^-1 phi_j and Q_j = phi_j' C^-1 t (T&F eq. 22)."""
    K = precision(Phi, v, noise, center)
    return np.sum(Phi * (K @ Phi), axis=0), Phi.T @ K @ t


def without_self(Phi, t, v, noise, center):
    """The same with atom j really taken out of the model: s_j and q_j (T&F eq. 19)."""
    each = []
    for j in range(len(v)):
        S, Q = statistics(Phi, t, np.where(np.arange(len(v)) == j, 0.0, v), noise, center)
        each.append((S[j], Q[j]))
    return np.array([s for s, _ in each]), np.array([q for _, q in each])


def value(s, q2, v, n_targets):
    """l(v), what variance v adds to the log evidence (T&F eq. 18)."""
    return 0.5 * (v * q2 / (1 + v * s) - n_targets * np.log1p(v * s))


def gradient(Phi, t, v, noise, center, prior):
    """Of the objective in (log v, log noise): -1/2 [T tr(K dC) - t' K dC K t]."""
    K, n_targets = precision(Phi, v, noise, center), t.shape[1]
    S, Q = np.sum(Phi * (K @ Phi), axis=0), Phi.T @ K @ t
    in_v = -0.5 * v * (n_targets * S - np.sum(Q**2, axis=1))
    in_noise = -0.5 * noise * (n_targets * np.trace(K) - np.sum((K @ t) ** 2))
    slope = prior.log_derivatives(v, noise)
    return np.append(in_v + slope.u, in_noise + np.sum(slope.rho))


def hessian(Phi, t, v, noise, center, prior):
    def row(k):
        factor = np.exp(1j * STEP * (np.arange(len(v) + 1) == k))
        return gradient(Phi, t, v * factor[:-1], noise * factor[-1], center, prior).imag / STEP

    return np.array([row(k) for k in range(len(v) + 1)])


def predictive(Phi, t, v, noise, center, Phi_new):
    """Mean and covariance of the noise-free function at new rows, the intercept's doubt in it."""
    C_inv = np.linalg.inv(covariance(Phi, v, noise))
    between = (Phi_new * v) @ Phi.T
    constant, doubt = np.zeros(t.shape[1]), 0.0
    if center:
        constant = np.sum(C_inv @ t, axis=0) / C_inv.sum()
        left = 1 - np.sum(between @ C_inv, axis=1)
        doubt = np.outer(left, left) / C_inv.sum()
    mean = constant + between @ C_inv @ (t - constant)
    return mean, (Phi_new * v) @ Phi_new.T - between @ C_inv @ between.T + doubt
