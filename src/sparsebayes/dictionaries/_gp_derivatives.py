"""Derivatives of kernels of `sklearn.gaussian_process` in their own theta, contracted.

Such kernels give their gradient among one set of rows only, as an array (n, n, P). Between rows and
centers the chain rule needs no such array: a matrix D that is to be summed with the derivatives of
a product is, for one factor, D times the other factor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gamma as gamma_function
from scipy.special import kv
from sklearn.gaussian_process import kernels

from sparsebayes.dictionaries._protocol import Floats, OutOfRange
from sparsebayes.dictionaries.kernel_derivatives import contract_squares, pull_widths, row_blocks

_TILE = 256  # rows, and centers, of which all pairs are differentiated at a time
_STEP = 1e-3  # in theta, of differences of fourth order


def theta_labels(kernel: Any) -> tuple[str, ...]:
    """Names of the entries of `kernel.theta`."""
    labels: list[str] = []
    for parameter in kernel.hyperparameters:
        if parameter.fixed:
            continue
        many = range(parameter.n_elements) if parameter.n_elements > 1 else []
        labels += [f"{parameter.name}[{k}]" for k in many] or [parameter.name]
    return tuple(labels)


def pull_theta(kernel: Any, X: Floats, D: Floats, Z: Floats) -> Floats:
    """Sum D[n, m] dK(x_n, z_m) / d theta over pairs, for any kernel object.

    Parameters
    ----------
    kernel : object of sklearn.gaussian_process.kernels
        Its parameters that are not fixed count.
    X : array of shape (n, d)
        Rows.
    D : array of shape (n, M)
        Derivative of some number in the values of the kernel.
    Z : array of shape (M, d)
        Centers.

    Returns
    -------
    ndarray of shape (P,)
        Derivatives of that number in theta.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF, ConstantKernel
    >>> X, Z = np.array([[0.0], [2.0]]), np.array([[1.0]])
    >>> pull_theta(ConstantKernel(2.0) * RBF(1.0), X, np.ones((2, 1)), Z).round(3)
    array([2.426, 2.426])
    """
    total = np.zeros(len(kernel.theta))
    for rows in row_blocks(len(X), len(Z)):
        with np.errstate(over="ignore", under="ignore"):
            total += _pull(kernel, X[rows], np.asarray(D[rows], dtype=np.float64), Z)
    if not np.isfinite(total).all():
        raise OutOfRange(f"kernel {kernel} has derivatives that are not finite on this X")
    return total


def _pull(kernel: Any, X: Floats, D: Floats, Z: Floats) -> Floats:
    # By exact class: one that inherits may compute something else.
    if not len(kernel.theta):
        return np.empty(0)
    kind = type(kernel)
    if kind is kernels.Sum:
        return np.append(_pull(kernel.k1, X, D, Z), _pull(kernel.k2, X, D, Z))
    if kind is kernels.Product:
        first, second = kernel.k1(X, Z), kernel.k2(X, Z)
        return np.append(_pull(kernel.k1, X, D * second, Z), _pull(kernel.k2, X, D * first, Z))
    if kind is kernels.Exponentiation:
        return _pull_power(kernel, X, D, Z)
    if kind is kernels.RBF:
        widths = 0.5 / _length_scale(kernel) ** 2
        return -2.0 * pull_widths("rbf", X, D, Z, gamma=widths, degree=0, coef0=0.0)
    if kind is kernels.Matern:
        return _pull_matern(kernel, X, D, Z)
    if kind in _PAIRED:
        each = _PAIRED[kind](kernel, X, Z)
        free = [p for p in kernel.hyperparameters if not p.fixed]
        return np.array([np.vdot(D, each[p.name]) for p in free])
    if kind is kernels.PairwiseKernel:
        return _pull_differences(kernel, X, D, Z)
    return _pull_tiles(kernel, X, D, Z)


def _pull_power(kernel: Any, X: Floats, D: Floats, Z: Floats) -> Floats:
    base, power = kernel.kernel(X, Z), kernel.exponent
    with np.errstate(divide="ignore"):
        slope = power * base ** (power - 1.0)
    return _pull(kernel.kernel, X, np.where(np.isfinite(slope), D * slope, 0.0), Z)


def _pull_matern(kernel: Any, X: Floats, D: Floats, Z: Floats) -> Floats:
    """In log l_k the derivative is slope(r) (x_k - z_k)^2 / l_k^2, with r^2 their sum."""
    scale = _length_scale(kernel)
    distance = cdist(X / scale, Z / scale)
    nu = kernel.nu
    if nu == np.inf:
        slope = np.exp(-0.5 * distance**2)
    else:
        # K = c r^nu K_nu(r) with r = sqrt(2 nu) distance; d/dr of r^nu K_nu is -r^nu K_(nu - 1).
        r = np.sqrt(2.0 * nu) * np.where(distance > 0, distance, 1.0)
        slope = 2.0 * nu * 2.0 ** (1.0 - nu) / gamma_function(nu) * _bessel(nu, r)
        slope = np.where(distance > 0, slope, 0.0)
    A = D * slope
    if scale.ndim == 0:
        return np.array([np.vdot(A, distance**2)])
    return contract_squares(Z, 1.0 / scale**2)(X, A) / scale**2


def _length_scale(kernel: Any) -> Floats:
    # One in a list is one for all inputs, to scikit-learn.
    return np.squeeze(np.asarray(kernel.length_scale, dtype=np.float64))


def _bessel(nu: float, r: Floats) -> Floats:
    """r^(nu - 1) K_(nu - 1)(r), in closed form where it is one."""
    if nu in (0.5, 1.5, 2.5):
        rest = {0.5: 1.0 / r, 1.5: 1.0, 2.5: r + 1.0}[nu]
        return np.asarray(np.sqrt(0.5 * np.pi) * np.exp(-r) * rest)
    return np.asarray(r ** (nu - 1.0) * kv(nu - 1.0, r))


def _constant(kernel: Any, X: Floats, Z: Floats) -> dict[str, Floats]:
    return {"constant_value": np.full((len(X), len(Z)), kernel.constant_value)}


def _dot_product(kernel: Any, X: Floats, Z: Floats) -> dict[str, Floats]:
    return {"sigma_0": np.full((len(X), len(Z)), 2.0 * kernel.sigma_0**2)}


def _white(kernel: Any, X: Floats, Z: Floats) -> dict[str, Floats]:
    # Noise of a row is none of an atom's, also where the row is its center.
    return {"noise_level": np.zeros((len(X), len(Z)))}


def _rational_quadratic(kernel: Any, X: Floats, Z: Floats) -> dict[str, Floats]:
    ratio = cdist(X, Z, "sqeuclidean") / (2.0 * kernel.length_scale**2)
    base = 1.0 + ratio / kernel.alpha
    K = base**-kernel.alpha
    return {
        "alpha": K * (ratio / base - kernel.alpha * np.log1p(ratio / kernel.alpha)),
        "length_scale": K * 2.0 * ratio / base,
    }


def _exp_sine_squared(kernel: Any, X: Floats, Z: Floats) -> dict[str, Floats]:
    phase = np.pi * cdist(X, Z) / kernel.periodicity
    sine, scale = np.sin(phase), 4.0 / kernel.length_scale**2
    K = np.exp(-0.5 * scale * sine**2)
    return {
        "length_scale": scale * sine**2 * K,
        "periodicity": scale * phase * np.cos(phase) * sine * K,
    }


_PAIRED = {
    kernels.ConstantKernel: _constant,
    kernels.DotProduct: _dot_product,
    kernels.WhiteKernel: _white,
    kernels.RationalQuadratic: _rational_quadratic,
    kernels.ExpSineSquared: _exp_sine_squared,
}


def _pull_differences(kernel: Any, X: Floats, D: Floats, Z: Floats) -> Floats:
    # scikit-learn's own gradient of this one is a one-sided difference, right to six digits.
    theta = kernel.theta

    def total(k: int, step: float) -> float:
        moved = theta + step * (np.arange(len(theta)) == k)
        return float(np.vdot(D, kernel.clone_with_theta(moved)(X, Z)))

    def slope(k: int) -> float:
        near, far = total(k, _STEP) - total(k, -_STEP), total(k, 2 * _STEP) - total(k, -2 * _STEP)
        return (8.0 * near - far) / (12.0 * _STEP)

    return np.array([slope(k) for k in range(len(theta))])


def _pull_tiles(kernel: Any, X: Floats, D: Floats, Z: Floats) -> Floats:
    """For a kernel of others: of its gradient among rows and centers, the part across."""
    total = np.zeros(len(kernel.theta))
    for i in range(0, len(X), _TILE):
        for j in range(0, len(Z), _TILE):
            rows, centers = X[i : i + _TILE], Z[j : j + _TILE]
            _, gradient = kernel(np.vstack([rows, centers]), eval_gradient=True)
            across = gradient[: len(rows), len(rows) :]
            total += np.einsum("nm,nmp->p", D[i : i + _TILE, j : j + _TILE], across)
    return total
