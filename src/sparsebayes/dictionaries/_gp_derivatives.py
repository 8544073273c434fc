"""Derivatives of kernels of `sklearn.gaussian_process` in their own theta, contracted."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsebayes.dictionaries._protocol import Floats

_TILE = 256  # rows, and centers, of which all pairs are differentiated at a time


def theta_labels(kernel: Any) -> tuple[str, ...]:
    """Names of the entries of `kernel.theta`."""
    labels: list[str] = []
    for parameter in kernel.hyperparameters:
        if parameter.fixed:
            continue
        one = parameter.n_elements == 1
        labels += (
            [parameter.name]
            if one
            else [f"{parameter.name}[{k}]" for k in range(parameter.n_elements)]
        )
    return tuple(labels)


def pull_theta(kernel: Any, X: Floats, D: Floats, Z: Floats) -> Floats:
    """Sum D[n, m] dK(x_n, z_m) / d theta over pairs, shape (P,)."""
    total = np.zeros(len(kernel.theta))
    for i in range(0, len(X), _TILE):
        for j in range(0, len(Z), _TILE):
            rows, centers = X[i : i + _TILE], Z[j : j + _TILE]
            # Kernels give their gradient among one set of rows only: the part across is ours.
            _, gradient = kernel(np.vstack([rows, centers]), eval_gradient=True)
            across = gradient[: len(rows), len(rows) :]
            total += np.einsum("nm,nmp->p", D[i : i + _TILE, j : j + _TILE], across)
    return total
