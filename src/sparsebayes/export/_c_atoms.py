"""Atoms in C: inputs, kernels by name, and kernels of `sklearn.gaussian_process`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes.export._c_text import Source
from sparsebayes.export._plan import Columns, Constant, KernelPart, Plan

FloatArray = NDArray[np.float64]

__all__ = ["write_atoms"]

_LAST_EXPONENT = {True: 100.0, False: 740.0}  # exp of minus this is zero, or nearly
_LOOP = """
    static inline R @@label@(const R *u, const R *z)
    {
        R sum = 0;
        int k;
        for (k = 0; k < @d@; k++) {
            @each@
        }
        @last@
    }
"""
_SQUARES = "const R e = @scale@(u[k] - z[k]);\nsum += e * e;"
_DISTANCES = "sum += @scale@fabs(u[k] - z[k]);"
_PRODUCTS = "sum += @scale@u[k] * z[k];"
_EACH = {
    "rbf": _SQUARES,
    "tps": _SQUARES,
    "laplacian": _DISTANCES,
    "poly": _PRODUCTS,
    "sigmoid": _PRODUCTS,
    "linear": _PRODUCTS,
}
# Scikit-learn refuses negative inputs here; C has no errors, but no number is better than a wrong.
_CHI2 = """const R total = u[k] + z[k];
if (!(u[k] >= 0)) {
    return (R)NAN;
}
if (total > 0) {
    sum += (u[k] - z[k]) * (u[k] - z[k]) / total;
}"""


def write_atoms(source: Source, plan: Plan) -> int:
    """Write the function that evaluates all atoms, ``NAME_atoms(x, phi)``.

    Parameters
    ----------
    source : Source
        What it is added to.
    plan : Plan
        The model; with at least one atom.

    Returns
    -------
    int
        Numbers that it keeps on the stack.
    """
    gathered = _write_inputs(source, plan)
    d, lines = len(plan.inputs.index), []
    for number, part in enumerate(plan.parts):
        phi = _target(source, part.places, number)
        if isinstance(part, Constant):
            lines.append(f"phi[{part.places[0]}] = 1;")
            continue
        n = len(part.places)
        if isinstance(part, Columns):
            index = source.indices(f"columns{number}", part.index, "Inputs that are atoms.")
            value = f"u[{index}[i]]"
        else:
            function = f"{source.name}_kernel{number}"
            kept = _write_kernel(source, part, f"kernel{number}", d)
            centers = source.table(f"centers{number}", kept, "Centers of kernels, one in a row.")
            value = f"{function}(u, {centers} + {d} * i)"
        lines += [f"for (i = 0; i < {n}; i++) {{", f"    {phi} = {value};", "}"]
    constants = d == 0
    start = ["(void)x;"] if constants else ["R unknown = 0;", "int i;"]
    if gathered:
        start += [f"R u[{d}];", "@inputs(x, u);"]
    elif not constants:
        start += ["const R *u = x;"]
    if not constants:
        # Some kernels would give a number for what is none: zero times it is NaN, whatever they do.
        lines += [
            f"for (i = 0; i < {d}; i++) {{ /* NaN if an input is not finite */",
            "    unknown += 0 * u[i];",
            "}",
            "phi[0] += unknown;",
        ]
    body = "".join(f"    {line}\n" for line in [*start, *lines])
    source.function("static inline void @atoms(const R *x, R *phi)\n{\n" + body + "}")
    return d if gathered else 0


def _target(source: Source, places: NDArray[np.intp], number: int) -> str:
    """Where the values of a part go: side by side, or each to its own place."""
    if (np.diff(places) == 1).all():
        return f"phi[i + {places[0]}]" if places[0] else "phi[i]"
    return f"phi[{source.indices(f'places{number}', places, 'Places of these atoms.')}[i]]"


def _write_inputs(source: Source, plan: Plan) -> bool:
    """Write how the model's inputs follow from the user's; whether they are not the same."""
    inputs = plan.inputs
    d = len(inputs.index)
    same = np.array_equal(inputs.index, np.arange(len(inputs.names)))
    if d == 0 or (same and not inputs.scaled):
        return False
    value = "x[k]"
    if not same:
        value = f"x[{source.indices('used', inputs.index, 'Inputs that the model uses.')}[k]]"
    if inputs.shift.any():
        shift = source.table("shift", inputs.shift, "Subtracted from these inputs.")
        value = f"({value} - {shift}[k])"
    if (inputs.factor != 1.0).any():
        value += f" * {source.table('factor', inputs.factor, 'They are multiplied by this.')}[k]"
    if inputs.add.any():
        value += f" + {source.table('add', inputs.add, 'And this is added.')}[k]"
    source.function(
        """
        static inline void @inputs(const R *x, R *u)
        {
            int k;
            for (k = 0; k < @d@; k++) {
                u[k] = @value@;
            }
        }
        """,
        d=d,
        value=value,
    )
    return True


def _write_kernel(source: Source, part: KernelPart, label: str, d: int) -> FloatArray:
    """Write the function of one kernel; the centers as that function takes them."""
    if not isinstance(part.kernel, str):
        leaves = _Leaves(source, label, d)
        value = leaves.expression(part.kernel)
        unused = "" if f"{label}_" in value else "    (void)u;\n    (void)z;\n"
        source.function(
            f"static inline R @{label}(const R *u, const R *z)\n{{\n{unused}    return {value};\n}}"
        )
        return part.centers
    match part.kernel:
        case "cosine":
            return _write_cosine(source, part, label, d)
        case "lspline":
            return _write_spline(source, part, label, d)
        case "chi2" | "additive_chi2":
            negative = "-sum"
            if part.kernel == "chi2":
                negative = f"exp(-{source.number(part.gamma)} * sum)"
            _write_loop(source, label, d, _CHI2, f"return {negative};")
            return part.centers
    scale, value = "", "sum"
    if isinstance(part.gamma, np.ndarray):
        squares = _EACH[part.kernel] is _SQUARES
        about = "Square roots of gamma, one for each input." if squares else "Gamma of each input."
        gamma = np.sqrt(part.gamma) if squares else part.gamma
        scale = f"{source.table(f'{label}_gamma', gamma, about)}[k] * "
    elif part.gamma != 1.0:
        value = f"{source.number(part.gamma)} * sum"
    last = _last_line(source, part, value)
    _write_loop(source, label, d, _EACH[part.kernel].replace("@scale@", scale), last)
    return part.centers


def _last_line(source: Source, part: KernelPart, value: str) -> str:
    match part.kernel:
        case "rbf" | "laplacian":
            return f"return exp(-({value}));"
        case "tps":
            return f"sum = {value};\nreturn sum > 0 ? 0.5 * sum * log(sum) : 0;"
        case "sigmoid":
            return f"return tanh({value} + {source.number(part.coef0)});"
        case "poly":
            if part.degree == 0:
                return "(void)sum;\nreturn 1;"
            base = f"sum = {value} + {source.number(part.coef0)};\n"
            return f"{base}return {_power(part.degree)};"
    return f"return {value};"


def _power(degree: int) -> str:
    """The sum to a power."""
    return " * ".join(["sum"] * degree) if degree <= 4 else f"pow(sum, {degree}.0)"


def _write_loop(source: Source, label: str, d: int, each: str, last: str) -> None:
    source.function(_LOOP, label=label, each=each, last=last, d=d)


def _write_cosine(source: Source, part: KernelPart, label: str, d: int) -> FloatArray:
    source.function(
        """
        static inline R @@label@(const R *u, const R *z)
        {
            R sum = 0, square = 0;
            int k;
            for (k = 0; k < @d@; k++) {
                sum += u[k] * z[k];
                square += u[k] * u[k];
            }
            return square > 0 ? sum / sqrt(square) : 0;
        }
        """,
        label=label,
        d=d,
    )
    length = np.sqrt(np.square(part.centers).sum(axis=1, keepdims=True))
    return part.centers / np.where(length > 0, length, 1.0)


def _write_spline(source: Source, part: KernelPart, label: str, d: int) -> FloatArray:
    root = np.sqrt(part.gamma)
    if np.ndim(root):
        scale = f"{source.table(f'{label}_gamma', root, 'Square roots of gamma.')}[k] * "
    else:
        scale = "" if root == 1.0 else f"{source.number(root)} * "
    source.function(
        """
        static inline R @@label@(const R *u, const R *z)
        {
            R product = 1;
            int k;
            for (k = 0; k < @d@; k++) {
                const R v = @scale@u[k];
                const R low = v < z[k] ? v : z[k];
                const R high = v < z[k] ? z[k] : v;
                product *= ((3 * high - low) * low / 6 + high) * low + 1;
            }
            return product;
        }
        """,
        label=label,
        d=d,
        scale=scale,
    )
    return np.asarray(part.centers * root)


class _Leaves:
    """Kernels that others are sums, products and powers of, each a function."""

    def __init__(self, source: Source, label: str, d: int) -> None:
        self.source, self.label, self.d = source, label, d
        self.count = 0

    def expression(self, kernel: Any) -> str:
        """The kernel as an expression in u and z."""
        number = self.source.number
        match type(kernel).__name__:
            case "Sum":
                return f"({self.expression(kernel.k1)} + {self.expression(kernel.k2)})"
            case "Product":
                return f"{self.expression(kernel.k1)} * {self.expression(kernel.k2)}"
            case "Exponentiation":
                return f"pow({self.expression(kernel.kernel)}, {number(kernel.exponent)})"
            case "ConstantKernel":
                return number(kernel.constant_value)
            case "WhiteKernel":
                return "0"  # between different sets of rows
            case "DotProduct":
                return self._leaf(_PRODUCTS, f"return sum + {number(kernel.sigma_0**2)};")
            case "RationalQuadratic":
                width = number(1.0 / (2 * kernel.alpha * kernel.length_scale**2))
                return self._leaf(
                    _SQUARES, f"return pow(1 + {width} * sum, -{number(kernel.alpha)});"
                )
            case "ExpSineSquared":
                return self._leaf(
                    _SQUARES,
                    f"sum = sin({number(np.pi / kernel.periodicity)} * sqrt(sum)) * "
                    f"{number(1.0 / kernel.length_scale)};\nreturn exp(-2 * sum * sum);",
                )
            case "RBF":
                return self._scaled(kernel.length_scale, "return exp(-sum / 2);")
        return self._matern(kernel)

    def _matern(self, kernel: Any) -> str:
        number = self.source.number
        if kernel.nu == np.inf:
            return self._scaled(kernel.length_scale, "return exp(-sum / 2);")
        factor = number(np.sqrt(2 * kernel.nu))
        polynomial = {0.5: "1", 1.5: "(1 + sum)", 2.5: "(1 + sum + sum * sum / 3)"}[kernel.nu]
        far = number(_LAST_EXPONENT[self.source.single])
        return self._scaled(
            kernel.length_scale,
            f"sum = {factor} * sqrt(sum);\nreturn sum < {far} ? {polynomial} * exp(-sum) : 0;",
        )

    def _scaled(self, length: Any, last: str) -> str:
        """A leaf of squared distances over squared lengths."""
        if np.size(length) == 1:
            factor = self.source.number(1.0 / float(np.ravel(length)[0]))
            return self._leaf(_SQUARES, last, f"{factor} * ")
        name = f"{self.label}_{self.count}_lengths"
        table = self.source.table(name, 1.0 / np.asarray(length), "One over each length scale.")
        return self._leaf(_SQUARES, last, f"{table}[k] * ")

    def _leaf(self, each: str, last: str, scale: str = "") -> str:
        name = f"{self.label}_{self.count}"
        self.count += 1
        _write_loop(self.source, name, self.d, each.replace("@scale@", scale), last)
        return f"@{name}(u, z)"
