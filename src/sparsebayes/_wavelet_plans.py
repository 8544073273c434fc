"""How a wavelet transform of a given size is computed: its levels, what is set aside, its layout.

Everything here takes checked arguments; `_wavelet_transforms.Transform` is the way in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pywt
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

# Filters of PyWavelets are printed with finitely many digits: symlets are off by up to 1e-11, the
# truncated Meyer filter, which is not orthonormal, by 2e-3.
_ORTHONORMAL = 1e-9
# The coarsest levels of a signal are one small matrix: a call of PyWavelets costs as much as a
# product with 32 x 32 numbers.
_SMALL = 32


class Block(NamedTuple):
    """A run of coefficients: their level (1 is the finest), kind, place and arrangement.

    Kinds are "a" and "d" for approximation and detail of signals, two such letters for images,
    one for each axis; "aside" and "strip" for what an odd length leaves over.
    """

    level: int
    orientation: str
    slice: slice
    shape: tuple[int, ...]


class Filters(NamedTuple):
    """The wavelet that synthesizes, the one whose analysis is the adjoint, and its claim."""

    synthesis: Any
    adjoint: Any
    orthonormal: bool


class Strip(NamedTuple):
    """The last samples along an axis of odd length, set aside, and where they go.

    In a signal it is one sample and has no plan; in an image it is a row or column.
    """

    axis: int
    plan: Plan | None
    scaling: slice
    details: slice


class Step(NamedTuple):
    """One level: what is set aside, and the shapes before and after halving what is left."""

    strips: tuple[Strip, ...]
    axes: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    details: tuple[tuple[str, slice], ...]


class Tail(NamedTuple):
    """The levels of a signal after the first `cut` as one matrix, (samples, coefficients)."""

    cut: int
    matrix: Floats
    scaling: slice
    details: slice


@dataclass(frozen=True, eq=False)
class Plan:
    """Steps from the finest level on, and the layout: scaling first, then the coarsest details."""

    name: str
    shape: tuple[int, ...]
    mode: str
    steps: tuple[Step, ...]
    size: int
    scaling: int
    blocks: tuple[Block, ...]
    coarsest: tuple[int, ...]
    tail: Tail | None = None


@lru_cache(maxsize=256)
def filters(name: str) -> Filters:
    """Filters of a discrete wavelet of PyWavelets."""
    wavelet = pywt.Wavelet(name)
    # The adjoint of a synthesis is an analysis by the reversed synthesis filters.
    adjoint = pywt.Wavelet(f"{name} adjoint", filter_bank=wavelet.inverse_filter_bank)
    return Filters(wavelet, adjoint, _defect(wavelet.rec_lo, wavelet.rec_hi) < _ORTHONORMAL)


def _defect(low: ArrayLike, high: ArrayLike) -> float:
    """Largest inner product that a pair of orthonormal filters would not have."""
    low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    n = len(low)
    unit = np.zeros(2 * n - 1)
    unit[n - 1] = 1.0
    even = slice((n - 1) % 2, None, 2)
    pairs = ((low, low, unit), (high, high, unit), (low, high, 0.0))
    return max(float(np.abs(np.correlate(a, b, "full") - c)[even].max()) for a, b, c in pairs)


def deepest(shape: tuple[int, ...]) -> int:
    """Number of levels after which nothing can be halved any more."""
    return max(shape).bit_length() - 1


@lru_cache(maxsize=128)
def plan(name: str, shape: tuple[int, ...], levels: int, mode: str) -> Plan:
    """Plan a transform of `levels` levels.

    Parameters
    ----------
    name : str
        A discrete wavelet of PyWavelets.
    shape : tuple of one or two ints
        Of the signal or image.
    levels : int
        No more than `deepest`.
    mode : {"periodization", "zero"}
        What is beyond the ends.

    Returns
    -------
    Plan
        For `analyze` and `synthesize`.

    Examples
    --------
    >>> from sparsebayes._wavelet_plans import plan
    >>> [(b.level, b.orientation, b.shape) for b in plan("haar", (7,), 2, "periodization").blocks]
    [(2, 'a', (1,)), (2, 'aside', (1,)), (1, 'aside', (1,)), (2, 'd', (1,)), (1, 'd', (3,))]
    """
    d = len(shape)
    halve = _periodized if mode == "periodization" else _extended
    sketch = []
    current = shape
    for level in range(1, levels + 1):
        sketch.append(halve(name, current, levels - level + 1))
        current = sketch[-1][3]

    blocks: list[Block] = []

    def reserve(level: int, orientation: str, shape: tuple[int, ...]) -> slice:
        start = blocks[-1].slice.stop if blocks else 0
        where = slice(start, start + math.prod(shape))
        if where.stop > where.start:
            blocks.append(Block(level, orientation, where, shape))
        return where

    reserve(levels, "a" * d, current)
    asides = {}
    for level in range(levels, 0, -1):
        for axis, own in sketch[level - 1][0]:
            count = own.scaling if own else 1
            asides[level, axis] = reserve(level, "aside", (count,))
    scaling = blocks[-1].slice.stop
    steps = []
    for level in range(levels, 0, -1):
        strips, axes, before, after = sketch[level - 1]
        kept = []
        for axis, own in strips:
            details = reserve(level, "strip", (own.size - own.scaling if own else 0,))
            kept.append(Strip(axis, own, asides[level, axis], details))
        kinds = ["".join(k) for k in product(*("ad" if i in axes else "a" for i in range(d)))]
        found = tuple((kind, reserve(level, kind, after)) for kind in kinds[1:])
        steps.append(Step(tuple(kept), axes, before, after, found))
    whole = Plan(
        name,
        shape,
        mode,
        tuple(steps[::-1]),
        blocks[-1].slice.stop,
        scaling,
        tuple(blocks),
        current,
    )
    return _with_tail(whole) if d == 1 and mode == "periodization" else whole


_Sketch = tuple[list[tuple[int, Plan | None]], tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _periodized(name: str, shape: tuple[int, ...], left: int) -> _Sketch:
    axes = tuple(axis for axis, n in enumerate(shape) if n > 1)
    strips: list[tuple[int, Plan | None]] = []
    for axis in axes:
        if shape[axis] % 2:
            rest = shape[:axis] + shape[axis + 1 :]
            depth = min(left, deepest(rest)) if rest else 0
            strips.append((axis, plan(name, rest, depth, "periodization") if rest else None))
            shape = tuple(n - (i == axis) for i, n in enumerate(shape))
    return strips, axes, shape, tuple(n // 2 if n > 1 else 1 for n in shape)


def _extended(name: str, shape: tuple[int, ...], left: int) -> _Sketch:
    axes = tuple(axis for axis, n in enumerate(shape) if n > 1)
    length = filters(name).synthesis.rec_len
    return [], axes, shape, tuple((n + length - 1) // 2 if n > 1 else 1 for n in shape)


def _with_tail(whole: Plan) -> Plan:
    cut = next((i for i, s in enumerate(whole.steps) if s.before[0] <= _SMALL), len(whole.steps))
    if len(whole.steps) - cut < 2:
        return whole
    n = whole.steps[cut - 1].after[0] if cut else whole.shape[0]
    if cut == 0:
        tail = Tail(0, analyze(whole, np.eye(n)), slice(0, whole.scaling), slice(whole.scaling, n))
    else:
        own = plan(whole.name, (n,), len(whole.steps) - cut, whole.mode)
        details = slice(whole.scaling, whole.scaling + n - own.scaling)
        tail = Tail(cut, analyze(own, np.eye(n)), slice(0, own.scaling), details)
    return replace(whole, tail=tail)


def analyze(plan: Plan, a: Floats) -> Floats:
    """Coefficients (..., M) of signals or images (..., *shape)."""
    d, mode, tail = len(plan.shape), plan.mode, plan.tail
    lead = a.shape[: a.ndim - d]
    wavelet = filters(plan.name).adjoint
    out = np.empty((*lead, plan.size))
    for step in plan.steps if tail is None else plan.steps[: tail.cut]:
        for strip in step.strips:
            last, a = _split(a, strip.axis - d)
            if strip.plan is None:
                out[..., strip.scaling.start] = last
            else:
                c = analyze(strip.plan, last)
                out[..., strip.scaling] = c[..., : strip.plan.scaling]
                out[..., strip.details] = c[..., strip.plan.scaling :]
        if d == 1:
            a, detail = pywt.dwt(a, wavelet, mode, -1)
            out[..., step.details[0][1]] = detail
            continue
        parts = [a]
        for axis in step.axes:
            parts = [half for part in parts for half in pywt.dwt(part, wavelet, mode, axis - d)]
        a = parts[0]
        for (_, where), detail in zip(step.details, parts[1:], strict=True):
            out[..., where] = detail.reshape((*lead, -1))
    if tail is None:
        out[..., : math.prod(plan.coarsest)] = a.reshape((*lead, -1))
    else:
        c = a @ tail.matrix
        out[..., tail.scaling] = c[..., : tail.scaling.stop]
        out[..., tail.details] = c[..., tail.scaling.stop :]
    return out


def synthesize(plan: Plan, c: Floats) -> Floats:
    """Signals or images (..., *shape) with the coefficients (..., M)."""
    d, mode, tail = len(plan.shape), plan.mode, plan.tail
    lead = c.shape[:-1]
    wavelet = filters(plan.name).synthesis
    if tail is None:
        a = c[..., : math.prod(plan.coarsest)].reshape((*lead, *plan.coarsest))
        steps = plan.steps
        if not steps:
            return a.copy()
    else:
        a = np.concatenate((c[..., tail.scaling], c[..., tail.details]), axis=-1) @ tail.matrix.T
        steps = plan.steps[: tail.cut]
    for step in reversed(steps):
        if d == 1:
            a = pywt.idwt(a, c[..., step.details[0][1]], wavelet, mode, -1)
        else:
            parts = [a] + [c[..., where].reshape((*lead, *step.after)) for _, where in step.details]
            for axis in reversed(step.axes):
                pairs = zip(parts[::2], parts[1::2], strict=True)
                parts = [pywt.idwt(low, high, wavelet, mode, axis - d) for low, high in pairs]
            a = parts[0]
        if mode == "zero":
            # An odd length comes back one longer.
            whole: tuple[Any, ...] = (..., *(slice(n) for n in step.before))
            a = a[whole]
        for strip in reversed(step.strips):
            if strip.plan is None:
                last = c[..., strip.scaling.start]
            else:
                own = np.concatenate((c[..., strip.scaling], c[..., strip.details]), axis=-1)
                last = synthesize(strip.plan, own)
            a = _joined(a, last, strip.axis - d)
    return a


def _split(a: Floats, axis: int) -> tuple[Floats, Floats]:
    if axis == -1:
        return a[..., -1], a[..., :-1]
    return a[..., -1, :], a[..., :-1, :]


def _joined(a: Floats, last: Floats, axis: int) -> Floats:
    shape = list(a.shape)
    shape[axis] += 1
    out = np.empty(shape)
    if axis == -1:
        out[..., :-1], out[..., -1] = a, last
    else:
        out[..., :-1, :], out[..., -1, :] = a, last
    return out
