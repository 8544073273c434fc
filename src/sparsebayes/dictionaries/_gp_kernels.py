"""Kernels of `sklearn.gaussian_process` as JSON and back, from a fixed list of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels

CLASSES = {
    cls.__name__: cls
    for cls in (
        kernels.ConstantKernel,
        kernels.DotProduct,
        kernels.Exponentiation,
        kernels.ExpSineSquared,
        kernels.Matern,
        kernels.Product,
        kernels.RationalQuadratic,
        kernels.RBF,
        kernels.Sum,
        kernels.WhiteKernel,
    )
}
_DEEPEST = 50


def to_tree(kernel: Any) -> dict[str, Any]:
    """Describe a kernel as nested dicts of its class's name and its parameters."""
    name = type(kernel).__name__
    if CLASSES.get(name) is not type(kernel):
        raise ValueError(
            f"a {name} kernel cannot be stored without pickle; the kernels that can are "
            f"{', '.join(CLASSES)}, and their sums, products and powers"
        )
    params = kernel.get_params(deep=False)
    return {"class": name, "params": {key: _to_json(value) for key, value in params.items()}}


def _to_json(value: Any) -> Any:
    if isinstance(value, kernels.Kernel):
        return to_tree(value)
    return value if isinstance(value, str) else _numbers(np.asarray(value).tolist())


def _numbers(value: Any) -> Any:
    # JSON has no infinity, but Matern(nu=inf) and open bounds have.
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return value if np.isfinite(value) else repr(value)


def from_tree(tree: Any, depth: int = 0) -> Any:
    """Rebuild the kernel that `to_tree` described; a ValueError for anything else."""
    name = tree.get("class") if isinstance(tree, dict) else None
    params = tree.get("params") if isinstance(tree, dict) else None
    if not isinstance(name, str) or name not in CLASSES or not isinstance(params, dict):
        raise ValueError(f"stored kernel is malformed, or of an unknown class: {name!r}")
    if depth > _DEEPEST:
        raise ValueError(f"stored kernel is nested more than {_DEEPEST} deep")
    values = {key: _from_json(key, value, depth) for key, value in params.items()}
    try:
        return CLASSES[name](**values)
    except TypeError as error:
        raise ValueError(f"stored kernel {name} is malformed: {error}") from None


def _from_json(key: Any, value: Any, depth: int) -> Any:
    if isinstance(value, dict):
        return from_tree(value, depth + 1)
    if value == "fixed" or type(value) in (int, float):
        return value
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if numbers.size == 0 or np.isnan(numbers).any():
        raise ValueError(f"stored kernel parameter {key!r} is malformed")
    return float(numbers) if numbers.ndim == 0 else numbers
