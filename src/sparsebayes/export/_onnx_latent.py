"""Class probabilities averaged over normally distributed latent values, as ONNX operators.

They follow `sparsebayes.latent_integrals`, from which the points of the softmax come.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparsebayes import latent_integrals
from sparsebayes.export._onnx_graph import Graph

__all__ = ["mean_sigmoid", "mean_softmax"]

FloatArray = NDArray[np.float64]

# The rule of mean_sigmoid: smallest scale, largest |m| in units of the scale, distance of the next
# crossing, and where the integrand is below 1e-16.
_SCALE, _REACH, _PERIOD, _TOP = 3.0, 10.0, 24.0, 30.0
# Coefficients of algorithm AS 241, from the constant up: numerator and denominator.
_MIDDLE = np.array(
    [
        [
            3.3871328727963666080,
            133.14166789178437745,
            1971.5909503065514427,
            13731.693765509461125,
            45921.953931549871457,
            67265.770927008700853,
            33430.575583588128105,
            2509.0809287301226727,
        ],
        [
            1.0,
            42.313330701600911252,
            687.18700749205790830,
            5394.1960214247511077,
            21213.794301586595867,
            39307.895800092710610,
            28729.085735721942674,
            5226.4952788528545610,
        ],
    ]
)
_TAIL = np.array(
    [
        [
            1.42343711074968357734,
            4.63033784615654529590,
            5.76949722146069140550,
            3.64784832476320460504,
            1.27045825245236838258,
            0.241780725177450611770,
            2.27238449892691845833e-2,
            7.74545014278341407640e-4,
        ],
        [
            1.0,
            2.05319162663775882187,
            1.67638483018380384940,
            0.689767334985100004550,
            0.148103976427480074590,
            1.51986665636164571966e-2,
            5.475938084995344946e-4,
            1.05075007164441684324e-9,
        ],
    ]
)
_TIE = {"double": latent_integrals.TIE, "single": 1e-4}
_NEGLIGIBLE = {"double": latent_integrals.NEGLIGIBLE, "single": 1e-6}


def mean_sigmoid(graph: Graph, mean: str, variance: str) -> str:
    """Add what averages 1 / (1 + exp(f)) and 1 / (1 + exp(-f)) over normal f.

    A normal variable less a logistic one is positive with the probability wanted. Its
    characteristic function is a product of elementary ones, and the midpoint rule integrates it to
    1e-14 for every variance, without the error function, which few runtimes have in double.

    Parameters
    ----------
    graph : Graph
        The graph so far.
    mean, variance : str
        Values of shape (rows, 1).

    Returns
    -------
    str
        Probabilities of shape (rows, 2).
    """
    step = 2 * np.pi / _PERIOD
    tau = (np.arange(int(np.ceil(_TOP / step))) + 0.5) * step
    # As in latent_integrals: p(m) = 1 - p(-m) and p(m) = exp(m + v/2) p(-m - v) leave means where
    # p is not small.
    m = graph("Neg", graph("Abs", mean))
    beyond = graph("Add", m, variance)
    middle = graph("Add", m, graph("Mul", variance, 0.5))
    direct = graph("GreaterOrEqual", middle, 0.0)
    reduced = graph("Where", direct, m, graph("Neg", graph("Abs", beyond)))
    s = graph("Sqrt", variance)
    scale = graph("Max", s, _SCALE)
    a = graph("Clip", graph("Div", reduced, scale), -_REACH, 0.0)
    decay = graph("Mul", graph("Div", s, scale), tau[None])
    decay = graph("Exp", graph("Mul", graph("Mul", decay, decay), -0.5))
    # (pi / S) / sinh(pi tau / S) by the hyperbolic tangent of half the argument
    half = graph("Div", 0.5 * np.pi, scale)
    t = graph("Tanh", graph("Mul", half, tau[None]))
    shape = graph("Mul", half, graph("Sub", graph("Reciprocal", t), t))
    waves = graph("Mul", graph("Sin", graph("Mul", a, tau[None])), graph("Mul", decay, shape))
    total = graph("ReduceSum", waves, [1])
    p = graph("Add", graph("Mul", total, step / np.pi), 0.5)
    p = graph("Max", p, 0.0)
    flipped = graph("Where", graph("Less", beyond, 0.0), graph("Sub", 1.0, p), p)
    tail = graph("Mul", graph("Exp", graph("Min", middle, 0.0)), flipped)
    smaller = graph("Min", graph("Where", direct, p, tail), 0.5)
    larger = graph("Sub", 1.0, smaller)
    negative = graph("Less", mean, 0.0)
    first = graph("Where", negative, larger, smaller)
    second = graph("Where", negative, smaller, larger)
    return graph("Concat", first, second, axis=1)


def mean_softmax(graph: Graph, mean: str, covariance: str, K: int) -> str:
    """Add what averages the softmax over normal latent values.

    Parameters
    ----------
    graph : Graph
        The graph so far.
    mean : str
        A value of shape (rows, K).
    covariance : str
        A value of shape (rows, K, K).
    K : int
        Number of classes, at least three.

    Returns
    -------
    str
        Probabilities of shape (rows, K).
    """
    contrast = graph("Sub", covariance, graph("ReduceMean", covariance, axes=[1]))
    contrast = graph("Sub", contrast, graph("ReduceMean", contrast, axes=[2]))
    largest = graph("ReduceMax", _diagonal(graph, contrast, K), axes=[1])
    root = _pivoted_root(graph, contrast, mean, largest, K)
    largest = graph("Squeeze", largest, [1])
    # Row by row: all points of all rows at once would take gigabytes.
    row = Graph(graph.precision, graph)
    one_mean, one_root, one_size = (row.fresh() for _ in range(3))
    shapes: dict[str, list[int]] = {one_mean: [K], one_root: [K, K - 1], one_size: []}
    lattices = latent_integrals.softmax_lattices(K)
    rules = [(limit, _half_of_points(graph, lattice)) for limit, lattice in lattices]
    p = _average(row, one_mean, one_root, one_size, rules)
    inputs = [row.input(name, shape) for name, shape in shapes.items()]
    body = row.body("row", inputs, [row.input(p, [K])])
    return graph("Scan", mean, root, largest, body=body, num_scan_inputs=3)


def _average(row: Graph, mean: str, root: str, largest: str, rules: list[tuple[float, str]]) -> str:
    """Average over the points that a row with this largest variance takes."""
    points = rules[-1][1]
    for limit, fewer in reversed(rules[:-1]):
        then, other = Graph(row.precision, row), Graph(row.precision, row)
        chosen, rest = then("Identity", fewer), other("Identity", points)
        points = row(
            "If",
            row("LessOrEqual", largest, limit),
            then_branch=then.body("few", [], [then.input(chosen, ["points", "directions"])]),
            else_branch=other.body("more", [], [other.input(rest, ["points", "directions"])]),
        )
    apart = row("MatMul", root, row("Transpose", points, perm=[1, 0]))
    center = row("Unsqueeze", mean, [1])
    f = row("Concat", row("Add", center, apart), row("Sub", center, apart), axis=1)
    p = row("ReduceMean", row("Softmax", f, axis=0), axes=[1], keepdims=0)
    return row("Div", p, row("ReduceSum", p, [0]))


def _half_of_points(graph: Graph, lattice: latent_integrals.Lattice) -> str:
    """Points of a lattice without their opposites, made where the model runs: a small file."""
    n = len(lattice.points)
    odd = graph("Add", graph("Mul", graph("Range", 0, n // 2, 1), 2), 1)
    turned = graph("Mod", graph("Mul", graph("Unsqueeze", odd, [1]), lattice.steps[None]), 2 * n)
    u = graph("Div", graph("Cast", turned, to=graph.kind), 2.0 * n)
    return graph("MatMul", _quantile(graph, u), lattice.whitening)


def _quantile(graph: Graph, u: str) -> str:
    """Quantiles of the standard normal, Wichura's algorithm AS 241, for 1e-11 < u < 1 - 1e-11."""
    d = graph("Sub", u, 0.5)
    middle = graph("Mul", d, _ratio(graph, graph("Sub", 0.180625, graph("Mul", d, d)), _MIDDLE))
    log = graph("Log", graph("Min", u, graph("Sub", 1.0, u)))
    tail = _ratio(graph, graph("Sub", graph("Sqrt", graph("Neg", log)), 1.6), _TAIL)
    near = graph("LessOrEqual", graph("Abs", d), 0.425)
    return graph("Where", near, middle, graph("Mul", graph("Sign", d), tail))


def _ratio(graph: Graph, r: str, coefficients: FloatArray) -> str:
    """Ratio of two polynomials of r."""
    powers = graph("Pow", graph("Unsqueeze", r, [2]), np.arange(8.0))
    values = graph("MatMul", powers, coefficients.T)
    top, bottom = (graph("Gather", values, place, axis=2) for place in (0, 1))
    return graph("Div", top, bottom)


def _diagonal(graph: Graph, matrices: str, K: int) -> str:
    return graph("ReduceSum", graph("Mul", matrices, np.eye(K)[None]), [2], keepdims=0)


def _pivoted_root(graph: Graph, covariance: str, mean: str, largest: str, K: int) -> str:
    """Root (rows, K, K - 1) of the covariances, as `latent_integrals` takes it."""
    least = graph("Mul", largest, _NEGLIGIBLE[graph.precision])
    one = Graph(graph.precision, graph)
    rest = one.input(one.fresh(), ["rows", K, K])
    done = one.input(one.fresh(), ["rows", K])
    last = one.input(one.fresh(), [])
    # 1 where a class waits for its turn, 0 where it has had it
    variances = _diagonal(one, rest.name, K)
    waiting = one("Less", done.name, 0.5)
    left = one("Where", waiting, variances, -np.inf)
    most = one("Mul", one("ReduceMax", left, axes=[1]), 1.0 - _TIE[graph.precision])
    either = one("Or", one("GreaterOrEqual", left, most), one("Greater", last.name, 0.5))
    choice = one("Where", one("And", waiting, either), mean, -np.inf)
    pivot = one("ArgMax", choice, axis=1)
    chosen = one("Cast", one("Equal", pivot, np.arange(K)[None]), to=graph.kind)
    others = one("Sub", 1.0, chosen)
    size = one("ReduceSum", one("Mul", variances, chosen), [1])
    positive = one("Greater", size, least)
    root = one("Sqrt", one("Where", positive, size, 1.0))
    scale = one("Where", positive, one("Reciprocal", root), 0.0)
    along = one("Mul", rest.name, one("Unsqueeze", chosen, [1]))
    column = one("Mul", one("ReduceSum", along, [2], keepdims=0), scale)
    square = one("Mul", one("Unsqueeze", column, [2]), one("Unsqueeze", column, [1]))
    kept = one("Mul", one("Unsqueeze", others, [2]), one("Unsqueeze", others, [1]))
    next_rest = one("Mul", one("Sub", rest.name, square), kept)
    next_done = one("Add", done.name, chosen)
    body = one.body(
        "pivot",
        [rest, done, last],
        [
            one.input(next_rest, ["rows", K, K]),
            one.input(next_done, ["rows", K]),
            one.input(column, ["rows", K]),
        ],
    )
    nobody = graph("Mul", mean, 0.0)
    turns = np.zeros(K - 1)
    turns[-1] = 1.0  # the last two always have the same variance left: the mean decides
    names = [graph.fresh() for _ in range(3)]
    graph.several("Scan", covariance, nobody, turns, names=names, body=body, num_scan_inputs=1)
    return graph("Transpose", names[2], perm=[1, 2, 0])
