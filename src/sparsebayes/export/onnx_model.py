"""Models for every runtime of ONNX."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import sparsebayes
from sparsebayes._files import atomic_write
from sparsebayes.export._errors import ExportError
from sparsebayes.export._onnx_atoms import columns_at, filled, times
from sparsebayes.export._onnx_graph import OPSET, Graph
from sparsebayes.export._onnx_latent import mean_sigmoid, mean_softmax
from sparsebayes.export._plan import Plan, plan_of
from sparsebayes.export._rounding import check_single

__all__ = ["OnnxExport", "export_onnx"]

_LARGEST = 2_000_000_000  # a file of protobuf messages cannot hold more
_PRECISIONS = ("double", "single")
_WHAT = {
    "regression": "mean and standard deviation of the target",
    "classes": "the most probable class and the probabilities of all",
    "counts": "mean and standard deviation of a count",
}


class OnnxExport(NamedTuple):
    """What was written.

    Parameters
    ----------
    path : str
        The file.
    file_bytes : int
        Its size.
    precision : str
        "double" or "single", of the input and of all floats.
    opset : int
        Version of the operators that a runtime must know.
    inputs : tuple of str
        Names of the columns of the input ``X``, in order.
    outputs : tuple of str
        Names of the outputs.

    Examples
    --------
    >>> from sparsebayes.export import OnnxExport
    >>> OnnxExport("fan.onnx", 3100, "single", 17, ("speed",), ("label", "probabilities")).opset
    17
    """

    path: str
    file_bytes: int
    precision: str
    opset: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def export_onnx(
    model: Any,
    path: str | os.PathLike[str],
    *,
    precision: str = "double",
    name: str = "model",
    target_names: Sequence[str] | None = None,
) -> OnnxExport:
    """Write a fitted model as an ONNX file.

    It has one input, ``X`` of shape (rows, features), and these outputs:

    - of a regression ``mean``, ``std`` (of the target, noise included) and ``function_std``
      (without the noise), of shape (rows,) or (rows, targets);
    - of a classifier ``label`` of shape (rows,) and ``probabilities`` of shape (rows, classes),
      averaged over the posterior of the weights as `predict_proba` does;
    - of counts ``mean`` and ``std``, as `predict` has them, and ``log_rate`` and ``log_rate_std``,
      which determine the distribution, of shape (rows,).

    Where an input that the model uses is NaN or infinite, or a kernel leaves the range of numbers,
    which `predict` refuses, the outputs of floats are NaN or infinite, and the label means nothing.
    There must be a row at least.

    Parameters
    ----------
    model : RVR, RVC, SparseBayesRegressor, SparseBayesClassifier, Pipeline or search
        Fitted. Scalers and selectors of columns in front of it become part of the file.
    path : str or path
        Where to write; an existing file is replaced.
    precision : {"double", "single"}, default="double"
        Of the input and of all floats. "double" gives what Python gives to about 1e-12 of the
        largest term in a sum, "single" to about 1e-6; it is refused where that would be more than
        the error bars.
    name : str, default="model"
        Name of the graph.
    target_names : sequence of str or None, default=None
        Names of the columns of y, for the metadata.

    Returns
    -------
    OnnxExport
        Size, names of inputs and outputs, and what a runtime must know.

    Raises
    ------
    ExportError
        If the model holds what ONNX cannot express, such as a function of your own.
    ImportError
        If the package onnx is not installed.

    Examples
    --------
    >>> import os, tempfile
    >>> from sparsebayes import RVR, export_onnx
    >>> from sparsebayes.datasets import sinc
    >>> data = sinc(50, random_state=0)
    >>> model = RVR(gamma=1 / 9).fit(data.X, data.y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = export_onnx(model, os.path.join(folder, "sinc.onnx"))
    >>> written.outputs, written.file_bytes < 5000
    (('mean', 'std', 'function_std'), True)
    """
    if precision not in _PRECISIONS:
        raise ValueError(f'precision must be "double" or "single", got {precision!r}')
    if not isinstance(name, str) or not name:
        raise ValueError(f"name must be a text that is not empty, got {name!r}")
    plan = plan_of(model)
    if precision == "single":
        check_single(plan)
    targets = _checked_targets(plan, target_names)
    graph = Graph(precision)
    outputs = _outputs(graph, plan)
    if graph.bytes_of_constants > _LARGEST:
        raise ExportError(
            f"the model has {plan.n_columns} columns of weights, and their covariance is more than "
            "the 2 GB that an ONNX file can hold"
        )
    file = graph.model(
        name,
        [graph.input("X", ["rows", len(plan.inputs.names)])],
        outputs,
        f"{type(plan.estimator).__name__} of sparsebayes: {_WHAT[plan.task]}",
        _metadata(plan, precision, targets),
        sparsebayes.__version__,
    )
    content = file.SerializeToString()
    with atomic_write(path) as stream:
        stream.write(content)
    return OnnxExport(
        os.fspath(path),
        len(content),
        precision,
        OPSET,
        plan.inputs.names,
        tuple(output.name for output in outputs),
    )


def _checked_targets(plan: Plan, names: Sequence[str] | None) -> list[str] | None:
    if names is None:
        return None
    found = [str(name) for name in names]
    count = plan.weight.shape[1] if plan.task == "regression" else 1
    if isinstance(names, str) or len(found) != count:
        raise ValueError(f"target_names must be a list of {count}, got {names!r}")
    return found


def _metadata(plan: Plan, precision: str, targets: list[str] | None) -> dict[str, str]:
    """What a reader may ask; lists as JSON, as names may hold any character."""
    found = {
        "estimator": type(plan.estimator).__name__,
        "task": plan.task,
        "precision": precision,
        "features": json.dumps(plan.inputs.names),
        "atoms": str(plan.n_atoms),
    }
    if targets is not None:
        found["target"] = json.dumps(targets)
    if plan.labels:
        found["classes"] = json.dumps(plan.labels)
    return found


def _outputs(graph: Graph, plan: Plan) -> list[Any]:
    """Add everything, and describe the outputs."""
    columns = None
    doubt = filled(graph, "X", np.zeros((1, 1)))
    if plan.n_columns:
        X = _used_inputs(graph, plan)
        # NaN where any of them is NaN or infinite, else zero.
        doubt = graph("ReduceSum", graph("Mul", X, 0.0), [1])
        columns = columns_at(graph, _scaled(graph, X, plan), plan)
    match plan.task:
        case "regression":
            return _regression(graph, plan, columns, doubt)
        case "counts":
            return _counts(graph, plan, columns, doubt)
    return _classes(graph, plan, columns, doubt)


def _used_inputs(graph: Graph, plan: Plan) -> str:
    index = plan.inputs.index
    if np.array_equal(index, np.arange(len(plan.inputs.names))):
        return "X"
    return graph("Gather", "X", index, axis=1)


def _scaled(graph: Graph, X: str, plan: Plan) -> str:
    """Inputs as the model knows them, behind the scalers of its pipeline."""
    inputs = plan.inputs
    if inputs.shift.any():
        X = graph("Sub", X, inputs.shift[None])
    if (inputs.factor != 1.0).any():
        X = graph("Mul", X, inputs.factor[None])
    return graph("Add", X, inputs.add[None]) if inputs.add.any() else X


def _regression(graph: Graph, plan: Plan, columns: str | None, doubt: str) -> list[Any]:
    n_targets = plan.weight.shape[1]
    single = getattr(plan.estimator.posterior_, "single", True)
    shape = ["rows"] if single else ["rows", n_targets]
    # In units of the scale to the end: runtimes take constants below 1e-45 for zero, and merge a
    # factor right behind a matrix product into it in single precision.
    constant = plan.constant[None] / plan.scale
    if columns is None:
        mean = filled(graph, "X", constant)
        variance = filled(graph, "X", plan.spread)
    else:
        mean = graph("Add", times(graph, columns, plan.weight), constant)
        variance = _variance(graph, plan, columns)
    found = {"mean": graph("Mul", mean, plan.scale)}
    for name, extra in ("std", plan.noise), ("function_std", 0.0):
        std = graph("Sqrt", graph("Add", variance, extra) if extra else variance)
        std = graph("Mul", std, plan.scale)
        # The same for every target.
        found[name] = std if n_targets == 1 else graph("Mul", std, np.ones((1, n_targets)))
    return [_given(graph, value, name, shape, doubt) for name, value in found.items()]


def _counts(graph: Graph, plan: Plan, columns: str | None, doubt: str) -> list[Any]:
    log_rate, variance = _latent(graph, plan, columns)
    rate = graph("Exp", log_rate)
    # Of the counts at a known rate, and of the rate: exp(2 f + v) (exp(v) - 1)
    middle = graph("Add", log_rate, graph("Mul", variance, 0.5))
    growth = graph("Max", _expm1(graph, variance), graph.tiny)
    of_rate = graph("Exp", graph("Add", graph("Mul", middle, 2.0), graph("Log", growth)))
    std = graph("Sqrt", graph("Add", graph("Exp", middle), of_rate))
    found = {"mean": rate, "std": std, "log_rate": log_rate}
    found["log_rate_std"] = graph("Sqrt", variance)
    return [_given(graph, value, name, ["rows"], doubt) for name, value in found.items()]


def _expm1(graph: Graph, value: str) -> str:
    """exp(x) - 1 of x >= 0, which does not cancel where x is small."""
    # tanh(x/2) (exp(x) + 1)
    slope = graph("Tanh", graph("Mul", value, 0.5))
    return graph("Mul", slope, graph("Add", graph("Exp", value), 1.0))


def _classes(graph: Graph, plan: Plan, columns: str | None, doubt: str) -> list[Any]:
    mean, covariance = _latent(graph, plan, columns)
    K = len(plan.labels)
    if K == 2:
        p = mean_sigmoid(graph, mean, covariance)
        code = graph("Cast", graph("Greater", mean, 0.0), to=graph.onnx.TensorProto.INT64)
        code = graph("Squeeze", code, [1])
    else:
        p = mean_softmax(graph, mean, covariance, K)
        code = graph("ArgMax", p, axis=1, keepdims=0)
    labels, kind = _labels(graph, plan.labels)
    graph("Gather", labels, code, name="label")
    return [
        graph.input("label", ["rows"], kind),
        _given(graph, p, "probabilities", ["rows", K], doubt),
    ]


def _labels(graph: Graph, labels: tuple[Any, ...]) -> tuple[str, int]:
    """Labels as a constant of their own type, and ONNX's number for it."""
    tensor = graph.onnx.TensorProto
    kinds = {type(label) for label in labels}
    if kinds == {str}:
        return graph.constant(np.array(labels, dtype=object)), tensor.STRING
    if kinds == {bool}:
        return graph.constant(np.array(labels)), tensor.BOOL
    if kinds == {float}:
        return graph.constant(np.array(labels), exact=True), tensor.DOUBLE
    if kinds == {int} and all(-(2**63) <= label < 2**63 for label in labels):
        return graph.constant(np.array(labels, dtype=np.int64)), tensor.INT64
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise ExportError(
        f"labels of type {names} cannot be written to an ONNX file: texts, booleans, numbers and "
        "integers of 64 bits can, if all are of one type"
    )


def _variance(graph: Graph, plan: Plan, columns: str) -> str:
    """Variance of one function, (rows, 1)."""
    half = times(graph, columns, plan.root)
    if plan.fixed.any():
        half = graph("Add", half, plan.fixed)
    return graph("Add", graph("ReduceSumSquare", half, axes=[1]), plan.spread)


def _latent(graph: Graph, plan: Plan, columns: str | None) -> tuple[str, str]:
    """Mean (rows, K) and covariance of the latent functions: (rows, K, K), or (rows, 1) of one."""
    K, m = len(plan.constant), plan.n_columns
    if columns is None:
        mean = filled(graph, "X", plan.constant[None])
        covariance = filled(graph, "X", plan.spread.reshape(1, -1))
        return mean, covariance if K == 1 else graph("Reshape", covariance, [-1, K, K])
    own = (plan.latent[None] == np.arange(K)[:, None]).astype(np.float64)  # (K, m)
    mean = times(graph, columns, plan.weight * own.T)
    mean = graph("Add", mean, plan.constant[None])
    if K == 1:
        return mean, _variance(graph, plan, columns)
    parts = graph("Mul", graph("Unsqueeze", columns, [1]), own[None])
    half = graph("Add", times(graph, parts, plan.root), plan.fixed.reshape(1, K, m))
    square = graph("MatMul", half, graph("Transpose", half, perm=[0, 2, 1]))
    return mean, graph("Add", square, plan.spread[None])


def _given(graph: Graph, value: str, name: str, shape: list[Any], doubt: str) -> Any:
    """An output: the value, or NaN in rows that no model should have been given."""
    value = graph("Add", value, doubt)
    if len(shape) == 1:
        graph("Squeeze", value, [1], name=name)
    else:
        graph("Identity", value, name=name)
    return graph.input(name, shape)
