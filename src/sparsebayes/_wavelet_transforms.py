"""Wavelet transforms of signals and images of any size, as pairs of adjoint operators."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import pywt
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

MODES = ("periodization", "zero")
# Filters of PyWavelets are printed with finitely many digits: symlets are off by up to 1e-11, the
# truncated Meyer filter, which is not orthonormal, by 2e-3.
_ORTHONORMAL = 1e-9


class Block(NamedTuple):
    """A run of coefficients: their level (1 is the finest), kind, place and arrangement.

    Kinds are "a" and "d" for approximation and detail of signals, two such letters for images,
    one for each axis; "aside" and "strip" for what an odd length leaves over.
    """

    level: int
    orientation: str
    slice: slice
    shape: tuple[int, ...]


class _Filters(NamedTuple):
    synthesis: Any
    adjoint: Any
    orthonormal: bool


class _Strip(NamedTuple):
    axis: int
    transform: Transform | None
    scaling: slice
    details: slice


class _Step(NamedTuple):
    strips: tuple[_Strip, ...]
    axes: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    details: tuple[tuple[str, slice], ...]


@lru_cache(maxsize=1)
def names() -> frozenset[str]:
    """Names of all discrete wavelets of PyWavelets."""
    return frozenset(pywt.wavelist(kind="discrete"))


@lru_cache(maxsize=256)
def _filters(name: str) -> _Filters:
    wavelet = pywt.Wavelet(name)
    # The adjoint of a synthesis is an analysis by the reversed synthesis filters.
    adjoint = pywt.Wavelet(f"{name} adjoint", filter_bank=wavelet.inverse_filter_bank)
    orthonormal = _orthonormality_defect(wavelet.rec_lo, wavelet.rec_hi) < _ORTHONORMAL
    return _Filters(wavelet, wavelet if orthonormal else adjoint, orthonormal)


def _orthonormality_defect(low: ArrayLike, high: ArrayLike) -> float:
    low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    n = len(low)
    identity = np.zeros(2 * n - 1)
    identity[n - 1] = 1.0
    even = slice((n - 1) % 2, None, 2)  # shifts by an even number of samples
    pairs = ((low, low, identity), (high, high, identity), (low, high, 0 * identity))
    return max(float(np.abs(np.correlate(a, b, "full") - c)[even].max()) for a, b, c in pairs)


def checked_name(name: Any) -> str:
    """Check the name of a discrete wavelet, which is returned in PyWavelets' spelling."""
    if not isinstance(name, str):
        raise TypeError(f"a wavelet is given by its name, such as 'sym8', but it is {name!r}")
    if name.lower() not in names():
        raise ValueError(
            f"unknown discrete wavelet {name!r}; pywt.wavelist(kind='discrete') names all of them, "
            "such as haar, db4, sym8, coif3 and bior4.4"
        )
    return name.lower()


@dataclass(frozen=True)
class Transform:
    """A discrete wavelet transform of signals of one length or images of one shape.

    `synthesize` turns coefficients into a signal and `analyze` is its adjoint, which for an
    orthonormal transform is its inverse. Periodized, the transform of an orthonormal wavelet is
    orthonormal whatever the length: where a level has an odd length, its last sample is set aside
    as a coefficient of its own. (In an image it is the last row or column that is set aside, and
    transformed along the other axis.)

    Parameters
    ----------
    name : str
        A discrete wavelet of PyWavelets.
    shape : tuple of one or two ints
        Of the signal or image.
    level : int, default=None
        Number of levels; None for as many as there are, with "zero" as many as PyWavelets advises.
    mode : {"periodization", "zero"}, default="periodization"
        What is beyond the ends: the signal again, or zeros. The latter has more coefficients than
        samples.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes._wavelet_transforms import Transform
    >>> transform = Transform("sym8", (100,))
    >>> signal = np.sin(np.arange(100.0))
    >>> coefficients = transform.analyze(signal)
    >>> coefficients.shape, transform.orthonormal
    ((100,), True)
    >>> bool(np.allclose(transform.synthesize(coefficients), signal))
    True
    """

    name: str
    shape: tuple[int, ...]
    level: int | None = None
    mode: str = "periodization"

    def __post_init__(self) -> None:
        shape = _checked_shape(self.shape)
        if self.mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, but it is {self.mode!r}")
        name = checked_name(self.name)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "level", _checked_level(self.level, name, shape, self.mode))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.shape, self.level, self.mode)

    @property
    def size(self) -> int:
        """Number of coefficients M."""
        return self._plan[1]

    @property
    def orthonormal(self) -> bool:
        """Whether the matrix of the transform is orthogonal."""
        return self.mode == "periodization" and _filters(self.name).orthonormal

    @property
    def scaling(self) -> slice:
        """Place of the coefficients that are not those of wavelets: the first ones."""
        return slice(0, self._plan[2])

    @property
    def blocks(self) -> tuple[Block, ...]:
        """How the coefficients are laid out, the coarsest first."""
        return self._plan[3]

    @cached_property
    def _plan(self) -> tuple[tuple[_Step, ...], int, int, tuple[Block, ...]]:
        return _planned(self)

    def analyze(self, arrays: ArrayLike) -> Floats:
        """Correlate signals with all atoms: the adjoint of `synthesize`.

        Parameters
        ----------
        arrays : array of the transform's shape, or one axis more in front
            Signals or images.

        Returns
        -------
        array of shape (M,) or (k, M)
            Coefficients.
        """
        a = _real(arrays)
        lead = self._lead(a.shape, self.shape)
        steps, size, _, _ = self._plan
        wavelet = _filters(self.name).adjoint
        out = np.empty((*lead, size))
        d = len(self.shape)
        for step in steps:
            for strip in step.strips:
                last, a = _split(a, strip.axis - d)
                if strip.transform is None:
                    out[..., strip.scaling.start] = last
                else:
                    c = strip.transform.analyze(last)
                    cut = strip.scaling.stop - strip.scaling.start
                    out[..., strip.scaling] = c[..., :cut]
                    out[..., strip.details] = c[..., cut:]
            parts = [a]
            for axis in step.axes:
                parts = [
                    half for p in parts for half in pywt.dwt(p, wavelet, self.mode, axis=axis - d)
                ]
            a = parts[0]
            for (_, where), detail in zip(step.details, parts[1:], strict=True):
                out[..., where] = detail.reshape((*lead, -1))
        start = steps[-1].after if steps else self.shape
        out[..., : int(np.prod(start))] = a.reshape((*lead, -1))
        return out

    def synthesize(self, coefficients: ArrayLike) -> Floats:
        """Add up atoms with the given coefficients.

        Parameters
        ----------
        coefficients : array of shape (M,) or (k, M)
            One for each atom.

        Returns
        -------
        array of the transform's shape, or with an axis of k in front
            Signals or images.
        """
        c = _real(coefficients)
        steps, size, _, _ = self._plan
        lead = self._lead(c.shape, (size,))
        wavelet = _filters(self.name).synthesis
        d = len(self.shape)
        start = steps[-1].after if steps else self.shape
        a = c[..., : int(np.prod(start))].reshape((*lead, *start))
        for step in reversed(steps):
            parts = [a] + [c[..., s].reshape((*lead, *step.after)) for _, s in step.details]
            for axis in reversed(step.axes):
                parts = [
                    pywt.idwt(low, high, wavelet, self.mode, axis=axis - d)
                    for low, high in zip(parts[::2], parts[1::2], strict=True)
                ]
            a = parts[0]
            if self.mode == "zero":
                whole: tuple[Any, ...] = (..., *(slice(n) for n in step.before))
                a = a[whole]
            for strip in reversed(step.strips):
                if strip.transform is None:
                    last = c[..., strip.scaling.start]
                else:
                    both = (c[..., strip.scaling], c[..., strip.details])
                    last = strip.transform.synthesize(np.concatenate(both, axis=-1))
                a = _joined(a, last, strip.axis - d)
        return np.array(a) if not steps else a

    def _lead(self, shape: tuple[int, ...], own: tuple[int, ...]) -> tuple[int, ...]:
        lead = shape[: max(len(shape) - len(own), 0)]
        if shape[len(lead) :] != own or len(lead) > 1:
            sizes = ", ".join(map(str, own))
            raise ValueError(
                f"expected an array of shape ({sizes}) or (k, {sizes}), but its shape is {shape}"
            )
        return lead


def _planned(transform: Transform) -> tuple[tuple[_Step, ...], int, int, tuple[Block, ...]]:
    shape, mode, name = transform.shape, transform.mode, transform.name
    d, levels = len(shape), transform.level or 0
    length = _filters(name).synthesis.dec_len
    fixed = tuple(axis for axis in range(d) if shape[axis] == 1)
    sketch: list[tuple[list[tuple[int, Transform | None]], tuple[int, ...], Any, Any]] = []
    current = shape
    for level in range(1, levels + 1):
        strips: list[tuple[int, Transform | None]] = []
        if mode == "periodization":
            axes = tuple(axis for axis in range(d) if current[axis] > 1)
            for axis in axes:
                if current[axis] % 2:
                    rest = current[:axis] + current[axis + 1 :]
                    depth = levels - level + 1
                    strips.append((axis, _strip_transform(name, rest, depth) if rest else None))
                    current = tuple(n - (i == axis) for i, n in enumerate(current))
            after = tuple(n // 2 if i in axes else n for i, n in enumerate(current))
        else:
            axes = tuple(axis for axis in range(d) if axis not in fixed)
            after = tuple(
                pywt.dwt_coeff_len(n, length, mode) if i in axes else n
                for i, n in enumerate(current)
            )
        sketch.append((strips, axes, current, after))
        current = after

    blocks: list[Block] = []
    place = 0

    def reserve(level: int, orientation: str, shape: tuple[int, ...]) -> slice:
        nonlocal place
        where = slice(place, place + int(np.prod(shape)))
        place = where.stop
        if where.stop > where.start:
            blocks.append(Block(level, orientation, where, shape))
        return where

    reserve(levels, "a" * d, current)
    asides: dict[tuple[int, int], slice] = {}
    for level in range(levels, 0, -1):
        for axis, strip in sketch[level - 1][0]:
            count = 1 if strip is None else strip.scaling.stop
            asides[level, axis] = reserve(level, "aside", (count,))
    scaling = place
    steps: list[_Step] = []
    for level in range(levels, 0, -1):
        strips, axes, before, after = sketch[level - 1]
        kept = []
        for axis, strip in strips:
            count = 0 if strip is None else strip.size - strip.scaling.stop
            details = reserve(level, "strip", (count,))
            kept.append(_Strip(axis, strip, asides[level, axis], details))
        kinds = ["".join(k) for k in product(*("ad" if i in axes else "a" for i in range(d)))]
        found = tuple((kind, reserve(level, kind, after)) for kind in kinds[1:])
        steps.append(_Step(tuple(kept), axes, before, after, found))
    return tuple(reversed(steps)), place, scaling, tuple(blocks)


def _strip_transform(name: str, shape: tuple[int, ...], depth: int) -> Transform:
    return Transform(name, shape, min(depth, deepest(shape)))


def deepest(shape: tuple[int, ...]) -> int:
    """Number of levels after which nothing can be halved any more."""
    return max(shape).bit_length() - 1


def _checked_shape(shape: Any) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, Integral) else shape
    whole = isinstance(sizes, (tuple, list)) and all(
        isinstance(n, Integral) and not isinstance(n, bool) and int(n) >= 1 for n in sizes
    )
    if not whole or len(sizes) not in (1, 2):
        raise ValueError(f"shape must be one or two positive integers, but it is {shape!r}")
    return tuple(int(n) for n in sizes)


def _checked_level(level: Any, name: str, shape: tuple[int, ...], mode: str) -> int:
    most = deepest(shape)
    if level is None:
        if mode == "periodization":
            return most
        length = _filters(name).synthesis.dec_len
        return min(pywt.dwt_max_level(n, length) for n in shape if n > 1) if most else 0
    if isinstance(level, bool) or not isinstance(level, Integral) or int(level) < 0:
        raise ValueError(f"level must be None or an integer, 0 or more, but it is {level!r}")
    if int(level) > most:
        size = " x ".join(map(str, shape))
        raise ValueError(f"level is {level}, but {size} samples have no more than {most} levels")
    return int(level)


def _real(values: ArrayLike) -> Floats:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"real numbers are needed, but the array is of type {array.dtype}")
    return array.astype(np.float64, copy=False)


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


_BATCH = 1 << 22  # entries of explicit atoms at a time: 32 MB


def squared_synthesis(transform: Transform, variances: ArrayLike) -> Floats:
    """Variance of the signal whose coefficients are independent: atoms squared, added up.

    Parameters
    ----------
    transform : Transform
        The transform.
    variances : array of shape (M,)
        Of the coefficients, none negative.

    Returns
    -------
    array of the transform's shape
        The sum of ``variances[j] * atom_j ** 2``.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes._wavelet_transforms import Transform, squared_synthesis
    >>> squared_synthesis(Transform("haar", (4,)), [1.0, 0.0, 2.0, 0.0])
    array([1.25, 1.25, 0.25, 0.25])
    """
    v = _real(variances)
    if v.shape != (transform.size,) or not (v >= 0).all():
        raise ValueError(f"variances must be {transform.size} numbers, none of them negative")
    out = np.zeros(transform.shape)
    used = np.flatnonzero(v)
    step = max(1, _BATCH // out.size)
    for i in range(0, len(used), step):
        some = used[i : i + step]
        coefficients = np.zeros((len(some), transform.size))
        coefficients[np.arange(len(some)), some] = np.sqrt(v[some])
        atoms = transform.synthesize(coefficients)
        out += np.einsum("k...,k...->...", atoms, atoms)
    return out
