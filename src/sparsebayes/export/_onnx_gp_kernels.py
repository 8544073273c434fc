"""Kernels of `sklearn.gaussian_process` between inputs and centers, as ONNX operators."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import kernels

from sparsebayes.export._errors import ExportError
from sparsebayes.export._onnx_atoms import differences, filled, inner_products
from sparsebayes.export._onnx_graph import Graph

__all__ = ["gp_kernel_at"]

FloatArray = NDArray[np.float64]


def gp_kernel_at(graph: Graph, X: str, Z: FloatArray, kernel: Any) -> str:
    """Add what evaluates a kernel object.

    Parameters
    ----------
    graph : Graph
        The graph so far.
    X : str
        Inputs, a value of shape (rows, d).
    Z : ndarray of shape (m, d)
        Centers.
    kernel : sklearn.gaussian_process.kernels.Kernel
        One that `plan_of` lets pass.

    Returns
    -------
    str
        A value of shape (rows, m).
    """
    # Matern is a subclass of RBF, and so may be classes of users: the type itself decides.
    kind = type(kernel)
    if kind in (kernels.Sum, kernels.Product):
        left, right = (gp_kernel_at(graph, X, Z, part) for part in (kernel.k1, kernel.k2))
        return graph("Add" if kind is kernels.Sum else "Mul", left, right)
    if kind is kernels.Exponentiation:
        base = gp_kernel_at(graph, X, Z, kernel.kernel)
        return graph("Pow", base, float(kernel.exponent))
    if kind is kernels.ConstantKernel:
        return filled(graph, X, np.full((1, len(Z)), float(kernel.constant_value)))
    if kind is kernels.WhiteKernel:  # noise of the rows themselves, which centers do not share
        return filled(graph, X, np.zeros((1, len(Z))))
    if kind is kernels.DotProduct:
        return graph("Add", inner_products(graph, X, Z), float(kernel.sigma_0) ** 2)
    if kind is kernels.RBF:
        squares = _squared_distance(graph, X, Z, kernel.length_scale)
        return graph("Exp", graph("Mul", squares, -0.5))
    if kind is kernels.Matern:
        return _matern(graph, X, Z, kernel)
    if kind is kernels.RationalQuadratic:
        squares = _squared_distance(graph, X, Z, kernel.length_scale)
        base = graph("Add", graph("Mul", squares, 0.5 / float(kernel.alpha)), 1.0)
        return graph("Pow", base, -float(kernel.alpha))
    if kind is kernels.ExpSineSquared:
        distance = graph("Sqrt", _squared_distance(graph, X, Z, 1.0))
        wave = graph("Sin", graph("Mul", distance, np.pi / float(kernel.periodicity)))
        ratio = graph("Mul", wave, 1.0 / float(kernel.length_scale))
        return graph("Exp", graph("Mul", graph("Mul", ratio, ratio), -2.0))
    raise ExportError(f"ONNX has no formula of the kernel {kernel!r}")


def _squared_distance(graph: Graph, X: str, Z: FloatArray, length: Any) -> str:
    scaled = graph("Div", differences(graph, X, Z), np.asarray(length, dtype=np.float64))
    return graph("ReduceSumSquare", scaled, axes=[2], keepdims=0)


def _matern(graph: Graph, X: str, Z: FloatArray, kernel: Any) -> str:
    squares = _squared_distance(graph, X, Z, kernel.length_scale)
    if kernel.nu == np.inf:
        return graph("Exp", graph("Mul", squares, -0.5))
    distance = graph("Mul", graph("Sqrt", squares), float(np.sqrt(2 * kernel.nu)))
    decay = graph("Exp", graph("Neg", distance))
    if kernel.nu == 0.5:
        return decay
    factor = graph("Add", distance, 1.0)
    if kernel.nu == 2.5:
        factor = graph("Add", factor, graph("Mul", graph("Mul", distance, distance), 1.0 / 3.0))
    # Far away the factor may be infinite where the decay is zero.
    near = graph("Greater", decay, 0.0)
    return graph("Where", near, graph("Mul", factor, decay), 0.0)
