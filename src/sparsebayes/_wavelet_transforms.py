"""Wavelet transforms of signals and images of any size, as pairs of adjoint operators."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral
from typing import Any

import numpy as np
import pywt
from numpy.typing import ArrayLike

from sparsebayes._wavelet_plans import Block, Floats, Plan, deepest, filters, plan
from sparsebayes._wavelet_plans import analyze as _analyze
from sparsebayes._wavelet_plans import synthesize as _synthesize
from sparsebayes._wavelet_variances import squared_norms as sums_over_positions
from sparsebayes._wavelet_variances import variances as sums_over_atoms

MODES = ("periodization", "zero")


@lru_cache(maxsize=1)
def names() -> frozenset[str]:
    """Names of all discrete wavelets of PyWavelets."""
    return frozenset(pywt.wavelist(kind="discrete"))


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
        shape = checked_shape(self.shape)
        if self.mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, but it is {self.mode!r}")
        name = checked_name(self.name)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "shape", shape)
        level = checked_level(self.level, shape)
        if level is None:
            level = deepest(shape) if self.mode == "periodization" else advised_level(name, shape)
        object.__setattr__(self, "level", level)

    @property
    def size(self) -> int:
        """Number of coefficients M."""
        return self._plan.size

    @property
    def orthonormal(self) -> bool:
        """Whether the matrix of the transform is orthogonal."""
        return self.mode == "periodization" and filters(self.name).orthonormal

    @property
    def scaling(self) -> slice:
        """Place of the coefficients that are not those of wavelets: the first ones."""
        return slice(0, self._plan.scaling)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """How the coefficients are laid out, the coarsest first."""
        return self._plan.blocks

    @property
    def _plan(self) -> Plan:
        return plan(self.name, self.shape, self.level or 0, self.mode)

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
        a = real(arrays)
        check_array(a.shape, self.shape)
        return _analyze(self._plan, a)

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
        c = real(coefficients)
        check_array(c.shape, (self._plan.size,))
        return _synthesize(self._plan, c)

    def squared_analysis(self, rows: Floats) -> Floats:
        """Sums of squares of each atom over positions with weights: (..., *shape) to (..., M)."""
        check_array(rows.shape, self.shape)
        if rows.ndim == len(self.shape):
            return sums_over_positions(self._plan, rows)
        found = [sums_over_positions(self._plan, row) for row in rows]
        return np.array(found).reshape(len(rows), self.size)

    def squared_synthesis(self, variances: Floats) -> Floats:
        """Sum of all atoms squared, with weights: (M,) to the transform's shape."""
        return sums_over_atoms(self._plan, variances)


def checked_shape(shape: Any) -> tuple[int, ...]:
    """Check the shape of a signal or image; one integer is the length of a signal."""
    sizes = (shape,) if isinstance(shape, Integral) else shape
    whole = isinstance(sizes, (tuple, list)) and all(
        isinstance(n, Integral) and not isinstance(n, bool) and int(n) >= 1 for n in sizes
    )
    if not whole or len(sizes) not in (1, 2):
        raise ValueError(f"shape must be one or two positive integers, but it is {shape!r}")
    return tuple(int(n) for n in sizes)


def checked_level(level: Any, shape: tuple[int, ...]) -> int | None:
    """Check the number of levels; None, for a default, stays."""
    if level is None:
        return None
    most = deepest(shape)
    if isinstance(level, bool) or not isinstance(level, Integral) or int(level) < 0:
        raise ValueError(f"level must be None or an integer, 0 or more, but it is {level!r}")
    if int(level) > most:
        size = " x ".join(map(str, shape))
        raise ValueError(f"level is {level}, but {size} samples have no more than {most} levels")
    return int(level)


def advised_level(name: str, shape: tuple[int, ...]) -> int:
    """Levels whose wavelets are no longer than the signal; PyWavelets' advice."""
    taps = filters(name).synthesis.rec_len
    return min((pywt.dwt_max_level(n, taps) for n in shape if n > 1), default=0)


def check_array(shape: tuple[int, ...], own: tuple[int, ...]) -> None:
    """Refuse an array whose shape is neither `own` nor has one axis more in front."""
    if shape not in (own, (*shape[:1], *own)):
        sizes = ", ".join(map(str, own))
        raise ValueError(
            f"expected an array of shape ({sizes}) or (k, {sizes}), but its shape is {shape}"
        )


def real(values: ArrayLike) -> Floats:
    """Real numbers as float64, without a copy where they are."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"real numbers are needed, but the array is of type {array.dtype}")
    return array.astype(np.float64, copy=False)


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
        The sum of ``variances[j] * atom_j ** 2``, without forming the atoms.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes._wavelet_transforms import Transform, squared_synthesis
    >>> squared_synthesis(Transform("haar", (4,)), [1.0, 0.0, 2.0, 0.0])
    array([1.25, 1.25, 0.25, 0.25])
    """
    v = _not_negative(variances, (transform.size,), "variances")
    return transform.squared_synthesis(v)


def squared_analysis(transform: Transform, weights: ArrayLike) -> Floats:
    """Squared norms of all atoms where samples have weights: the adjoint of `squared_synthesis`.

    Parameters
    ----------
    transform : Transform
        The transform.
    weights : array of the transform's shape
        Of the samples, none negative; zero where one is missing.

    Returns
    -------
    array of shape (M,)
        The sums of ``weights * atom_j ** 2``, without forming the atoms.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes._wavelet_transforms import Transform, squared_analysis
    >>> squared_analysis(Transform("haar", (4,)), [1.0, 1.0, 1.0, 0.0])
    array([0.75, 0.75, 1.  , 0.5 ])
    """
    w = _not_negative(weights, transform.shape, "weights")
    return transform.squared_analysis(w)


def _not_negative(values: ArrayLike, shape: tuple[int, ...], name: str) -> Floats:
    found = real(values)
    if found.shape != shape or not (found >= 0).all() or not np.isfinite(found).all():
        raise ValueError(f"{name} must be finite, not negative and of shape {shape}")
    return found
