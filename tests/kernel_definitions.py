"""Kernels by their formulas, plain and slow, for widths that may be complex.

A complex step gives derivatives to the last digit: f'(x) = Im f(x + i h) / h.
"""

import numpy as np

from oracle import STEP


def differences(X, Z):
    return X[:, None, :] - Z[None, :, :]  # (n, M, d)


def products(X, Z):
    return X[:, None, :] * Z[None, :, :]


def tps(D):
    some = D != 0
    return np.where(some, 0.5 * D * np.log(np.where(some, D, 1.0)), 0.0)


def lspline(X, Z, widths):
    low, high = (pick(X[:, None, :], Z[None, :, :]) for pick in (np.minimum, np.maximum))
    product, cubic = low * high * widths, low**2 * (3 * high - low) / 6 * widths**1.5
    return np.prod(1 + product + cubic, axis=-1)


def chi2(X, Z, width):
    total = X[:, None, :] + Z[None, :, :]
    distance = np.sum(differences(X, Z) ** 2 / np.where(total > 0, total, 1.0), axis=-1)
    return np.exp(-width[..., 0] * distance)


def kernel(name, X, Z, widths, degree=3, coef0=0.0):
    """Values (n, M); `widths` is an array (d,), or (1,) for one width."""
    match name:
        case "rbf":
            return np.exp(-np.sum(widths * differences(X, Z) ** 2, axis=-1))
        case "laplacian":
            return np.exp(-np.sum(widths * np.abs(differences(X, Z)), axis=-1))
        case "poly":
            return (np.sum(widths * products(X, Z), axis=-1) + coef0) ** degree
        case "sigmoid":
            return np.tanh(np.sum(widths * products(X, Z), axis=-1) + coef0)
        case "tps":
            return tps(np.sum(widths * differences(X, Z) ** 2, axis=-1))
        case "lspline":
            return lspline(X, Z, widths)
        case "chi2":
            return chi2(X, Z, widths)
    raise ValueError(name)


def slope(function, theta):
    """Gradient of a function of theta, shape (P,), by complex steps."""
    steps = 1j * STEP * np.eye(len(theta))
    return np.array([function(theta + step).imag / STEP for step in steps])


def gentle_slope(function, theta, step=1e-3):
    """The same by differences of fourth order, for functions of real numbers only."""

    def along(way):
        near = function(theta + step * way) - function(theta - step * way)
        far = function(theta + 2 * step * way) - function(theta - 2 * step * way)
        return (8 * near - far) / (12 * step)

    return np.array([along(way) for way in np.eye(len(theta))])
