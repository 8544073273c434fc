"""Atoms at the rows of the input, as ONNX operators."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes.dictionaries.kernel_functions import FEW_INPUTS, SPREAD, squared_norms
from sparsebayes.export._onnx_graph import Graph
from sparsebayes.export._plan import Columns, Constant, KernelPart, Part, Plan

__all__ = ["columns_at", "differences", "filled", "inner_products", "times"]

FloatArray = NDArray[np.float64]

# Scaled inputs beyond have an rbf of zero, and their squares may leave the range of floats.
_FARTHEST = {"double": 1e150, "single": 1e15}


def columns_at(graph: Graph, X: str, plan: Plan) -> str:
    """Add what evaluates the columns of a model, centered.

    Parameters
    ----------
    graph : Graph
        The graph so far.
    X : str
        Inputs of the atoms' formulas, a value of shape (rows, d).
    plan : Plan
        The model, of at least one column.

    Returns
    -------
    str
        A value of shape (rows, columns).
    """
    values = [_part(graph, X, part) for part in plan.parts]
    together = graph("Concat", *values, axis=1) if len(values) > 1 else values[0]
    place = np.empty(plan.n_atoms, dtype=np.intp)
    place[np.concatenate([part.places for part in plan.parts])] = np.arange(plan.n_atoms)
    order = place[plan.atom]
    if not np.array_equal(order, np.arange(plan.n_atoms)):
        together = graph("Gather", together, order, axis=1)
    return graph("Sub", together, plan.center[None]) if plan.center.any() else together


def filled(graph: Graph, X: str, row: FloatArray) -> str:
    """Repeat the same (1, k) numbers in every row."""
    rows = graph("Slice", graph("Shape", X), [0], [1])
    return graph("Expand", row, graph("Concat", rows, [row.shape[1]], axis=0))


def _part(graph: Graph, X: str, part: Part) -> str:
    match part:
        case Constant():
            return filled(graph, X, np.ones((1, len(part.places))))
        case Columns():
            return graph("Gather", X, part.index, axis=1)
    return _kernel(graph, X, part)


def _kernel(graph: Graph, X: str, part: KernelPart) -> str:
    Z, width = part.centers, part.gamma
    match part.kernel:
        case "rbf":
            distance = _squared_distance(graph, X, Z, width, _FARTHEST[graph.precision])
            return graph("Exp", graph("Neg", distance))
        case "laplacian":
            apart = graph("Abs", differences(graph, X, Z))
            return graph("Exp", graph("Neg", _summed(graph, graph("Mul", apart, width))))
        case "poly":
            value = graph("Add", inner_products(graph, X, Z * width), part.coef0)
            return graph("Pow", value, float(part.degree))
        case "sigmoid":
            return graph("Tanh", graph("Add", inner_products(graph, X, Z * width), part.coef0))
        case "linear":
            return inner_products(graph, X, Z)
        case "cosine":
            return _cosine(graph, X, Z)
        case "lspline":
            return _spline(graph, X, Z, np.sqrt(width))
        case "tps":
            return _thin_plate(graph, _squared_distance(graph, X, Z, width))
        case "chi2":
            return graph("Exp", graph("Mul", _chi2_distance(graph, X, Z), -np.float64(width)))
        case "additive_chi2":
            return graph("Neg", _chi2_distance(graph, X, Z))
    from sparsebayes.export._onnx_gp_kernels import gp_kernel_at

    return gp_kernel_at(graph, X, Z, part.kernel)


def differences(graph: Graph, X: str, Z: FloatArray) -> str:
    """Differences of rows and centers in each input, (rows, centers, d)."""
    return graph("Sub", graph("Unsqueeze", X, [1]), Z[None])


def inner_products(graph: Graph, X: str, Z: FloatArray) -> str:
    """Inner products of rows and centers, (rows, centers)."""
    return times(graph, X, np.ascontiguousarray(Z.T))


def times(graph: Graph, values: str, matrix: FloatArray) -> str:
    """Rows of values times a matrix."""
    # onnxruntime merges a product with one number into the next matrix product, where it rounds
    # that number to single precision: with one row there shall be no matrix product.
    return graph("MatMul" if len(matrix) > 1 else "Mul", values, matrix)


def _summed(graph: Graph, values: str) -> str:
    return graph("ReduceSum", values, [-1], keepdims=0)


def _squared_distance(
    graph: Graph, X: str, Z: FloatArray, width: Any, farthest: float = np.inf
) -> str:
    """Sum over the inputs of width (x - z)^2, (rows, centers)."""
    origin = Z.mean(axis=0)
    root = np.broadcast_to(np.sqrt(width), origin.shape)  # as in times: not one number
    U = graph("Mul", graph("Sub", X, origin), root)
    if np.isfinite(farthest):
        U = graph("Clip", U, -farthest, farthest)
    V = (Z - origin) * root
    norms = squared_norms(V)
    if graph.precision == "single" or Z.shape[1] <= FEW_INPUTS or norms.max() > SPREAD:
        return graph("ReduceSumSquare", differences(graph, U, V), axes=[2], keepdims=0)
    # |u|^2 + |v|^2 - 2 u.v needs no room for every difference; near the origin it loses nothing.
    squares = graph("Add", graph("ReduceSumSquare", U, axes=[1]), norms[None])
    distance = graph("Sub", squares, inner_products(graph, U, 2.0 * V))
    return graph("Max", distance, 0.0)


def _thin_plate(graph: Graph, distance: str) -> str:
    logs = graph("Log", graph("Max", distance, graph.tiny))
    return graph("Mul", graph("Mul", distance, logs), 0.5)


def _cosine(graph: Graph, X: str, Z: FloatArray) -> str:
    lengths = np.sqrt(squared_norms(Z))
    unit = Z / np.where(lengths > 0, lengths, 1.0)[:, None]
    length = graph("ReduceL2", X, axes=[1])
    shrink = graph("Reciprocal", graph("Where", graph("Greater", length, 0.0), length, 1.0))
    return inner_products(graph, graph("Mul", X, shrink), unit)


def _spline(graph: Graph, X: str, Z: FloatArray, root: Any) -> str:
    """Product over the inputs of ((3 b - a) a / 6 + b) a + 1, a and b the lower and higher."""
    U, V = graph("Unsqueeze", graph("Mul", X, root), [1]), (Z * root)[None]
    low, high = graph("Min", U, V), graph("Max", U, V)
    factor = graph("Mul", graph("Sub", graph("Mul", high, 3.0), low), low)
    factor = graph("Add", graph("Mul", factor, 1.0 / 6.0), high)
    factor = graph("Add", graph("Mul", factor, low), 1.0)
    return graph("ReduceProd", factor, axes=[2], keepdims=0)


def _chi2_distance(graph: Graph, X: str, Z: FloatArray) -> str:
    """Sum over the inputs of (x - z)^2 / (x + z), 0 / 0 being 0."""
    # Prediction refuses negative inputs, for which this is no kernel: no number here.
    X = graph("Where", graph("Less", X, 0.0), np.nan, X)
    total = graph("Add", graph("Unsqueeze", X, [1]), Z[None])
    safe = graph("Where", graph("Equal", total, 0.0), 1.0, total)
    apart = differences(graph, X, Z)
    return _summed(graph, graph("Mul", apart, graph("Div", apart, safe)))
