"""A fitted model as one C99 header, for devices that have neither Python nor a heap."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

import sparsebayes
from sparsebayes._files import atomic_write
from sparsebayes.export._c_functions import write_functions
from sparsebayes.export._c_text import Source, as_comment
from sparsebayes.export._errors import ExportError
from sparsebayes.export._plan import Columns, Constant, Plan, plan_of
from sparsebayes.export._rounding import check_single

__all__ = ["CExport", "export_c"]

_PRECISIONS = ("double", "single")
_LONGEST_NAME = 40
_MOST_NAMES = 64  # inputs that are all named; of more, those that the model uses
_MOST_STACK = 2**22
_ANSWERS = {  # what functions return and fill, besides taking x
    "regression": {
        "predict": ("void", "mean"),
        "predict_std": ("void", "mean, std"),
        "predict_function_std": ("void", "mean, std"),
    },
    "counts": {
        "predict": ("void", "mean"),
        "predict_std": ("void", "mean, std"),
        "predict_mean": ("void", "mean"),
    },
    "classes": {
        "predict": ("int", ""),
        "predict_proba": ("void", "proba"),
        "predict_proba_plug_in": ("void", "proba"),
    },
}


@dataclass(frozen=True)
class CExport:
    """What `export_c` wrote, and how large it is.

    Parameters
    ----------
    path : str
        The header.
    functions : tuple of str
        Functions that it offers.
    source_bytes : int
        Size of the file.
    data_bytes : int
        Size of its tables in the memory of a device, where all of its functions are called.
    stack_bytes : int
        Size of the arrays that its functions have on the stack.

    Examples
    --------
    >>> CExport("model.h", ("model_predict",), 5000, 900, 80).data_bytes
    900
    """

    path: str
    functions: tuple[str, ...]
    source_bytes: int
    data_bytes: int
    stack_bytes: int


def export_c(
    model: Any,
    path: str | os.PathLike[str],
    *,
    precision: str = "double",
    name: str = "model",
) -> CExport:
    """Write a fitted model as one C99 header that depends on ``math.h`` alone.

    It allocates no memory and has no state; its functions may be called from several threads. They
    take one row of inputs, in the order that the model was fitted with, and reproduce `predict`:
    in double precision to about 1e-10, in single precision to what its seven digits allow.

    Parameters
    ----------
    model : RVR, RVC, SparseBayesRegressor, SparseBayesClassifier, Pipeline or search
        Fitted. Of a pipeline, scalers (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)
        and selectors of columns become part of the header.
    path : str or path
        Where to write; an existing file is replaced.
    precision : {"double", "single"}, default="double"
        Whether all numbers are ``double`` or ``float``.
    name : str, default="model"
        What all names in the header begin with, so that a program can hold several models.

    Returns
    -------
    CExport
        The functions written, and sizes in bytes.

    Raises
    ------
    ExportError
        If the model has parts that C code cannot express: kernels that are Python functions,
        precomputed kernels, wavelets, operators, your own dictionaries and likelihoods, other steps
        of a pipeline. In single precision also if its weights cancel each other so far that
        rounding would be larger than the error bars.

    Examples
    --------
    >>> import os, tempfile
    >>> from sparsebayes import RVR, export_c
    >>> from sparsebayes.datasets import sinc
    >>> data = sinc(50, random_state=0)
    >>> model = RVR(gamma=1 / 9).fit(data.X, data.y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = export_c(model, os.path.join(folder, "sinc.h"), name="sinc")
    >>> written.functions
    ('sinc_predict', 'sinc_predict_std', 'sinc_predict_function_std')
    """
    if precision not in _PRECISIONS:
        raise ValueError(f'precision must be "double" or "single", got {precision!r}.')
    if (
        not isinstance(name, str)
        or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name)
        or len(name) > _LONGEST_NAME
    ):
        raise ValueError(
            f"name must be a C identifier of up to {_LONGEST_NAME} letters, digits and "
            f"underscores that begins with a letter, got {name!r}."
        )
    plan = plan_of(model)
    if precision == "single":
        check_single(plan)
    source = Source(name, precision)
    stack_bytes = write_functions(source, plan) * source.item_bytes
    if stack_bytes > _MOST_STACK:
        raise ExportError(
            f"the functions of this model would need {stack_bytes} bytes of stack, for "
            f"{plan.n_columns} columns of atoms and {len(plan.constant)} latent functions: too "
            "much for most machines"
        )
    if plan.labels:
        labels = [str(label) for label in plan.labels]
        source.strings("labels", labels, "Labels of the classes, UTF-8.")
    text = _header(source, plan, stack_bytes).encode("utf-8")
    with atomic_write(path) as file:
        file.write(text)
    functions = tuple(f"{name}_{answer}" for answer in _ANSWERS[plan.task])
    return CExport(os.fspath(path), functions, len(text), source.table_bytes, stack_bytes)


def _header(source: Source, plan: Plan, stack_bytes: int) -> str:
    name = source.name
    guard = f"SPARSEBAYES_{name}_H"
    sizes = {"inputs": len(plan.inputs.names)}
    sizes["classes" if plan.labels else "targets"] = len(plan.labels) or len(plan.constant)
    listed = ", ".join(f"{name}_n_{what} = {count}" for what, count in sizes.items())
    return "\n\n".join(
        [
            _comment(source, plan, stack_bytes),
            f"#ifndef {guard}\n#define {guard}\n\n#include <math.h>",
            '#ifdef __cplusplus\nextern "C" {\n#endif',
            f"typedef {source.type_name} {source.real};\n\nenum {{ {listed} }};",
            *source.tables,
            *source.functions,
            f"#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {guard} */\n",
        ]
    )


def _comment(source: Source, plan: Plan, stack_bytes: int) -> str:
    count = len(plan.inputs.names)
    functions = [
        f"    {returned} {source.name}_{function}(x{', ' if filled else ''}{filled});"
        for function, (returned, filled) in _ANSWERS[plan.task].items()
    ]
    lines = [
        f"{type(plan.estimator).__name__}, written by sparsebayes {sparsebayes.__version__}.",
        f"{_what(plan)}.",
        "",
        *functions,
        "",
        f"x points to {count} finite numbers of type {source.real}, the other arguments to room",
        "for results. An input that is not finite gives NaN; where numbers overflow, results are",
        "NaN or infinite.",
        "Needs C99 and math.h (-lm). Allocates no memory, has no state.",
        f"Tables: {source.table_bytes} bytes, if all functions are called. Stack: arrays of "
        f"{stack_bytes} bytes,",
        "and a few hundred more for the calls.",
        "",
        "Inputs:",
        *_names(plan),
    ]
    return "/* " + "\n".join(f"   {line}".rstrip() for line in lines).lstrip() + "\n*/"


def _what(plan: Plan) -> str:
    """A sentence on the model."""
    outcome = f"{len(plan.constant)} target" + ("s" if len(plan.constant) > 1 else "")
    if plan.task == "counts":
        outcome = "counts"
    elif plan.labels:
        outcome = f"{len(plan.labels)} classes"
    kinds = []
    for part in plan.parts:
        if isinstance(part, Constant):
            kinds.append("the constant")
        elif isinstance(part, Columns):
            kinds.append(f"{len(part.places)} inputs")
        else:
            kernel = part.kernel if isinstance(part.kernel, str) else str(part.kernel)
            kinds.append(f"{len(part.places)} of the kernel {as_comment(kernel)}")
    atoms = f"atoms: {', '.join(kinds)}" if kinds else "no atoms, the intercept alone"
    return f"Predicts {outcome}; {atoms}"


def _names(plan: Plan) -> list[str]:
    names, used = plan.inputs.names, np.unique(plan.inputs.index).tolist()
    shown = range(len(names)) if len(names) <= _MOST_NAMES else used[:_MOST_NAMES]
    lines = [
        f"    x[{place}]  {as_comment(names[place])}"
        + ("" if place in used else "  (not used by the model)")
        for place in shown
    ]
    if len(names) > _MOST_NAMES:
        more = len(used) - len(shown)
        lines.append(f"    {'and ' + str(more) + ' more; ' if more else ''}others are not used")
    return lines
