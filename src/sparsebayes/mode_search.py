"""Newton's method to the mode of weights, for samples in memory or rows kept elsewhere.

It asks a landscape for sums over samples, and for nothing that is as long as the data.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from sparsebayes.core.intercepts import Intercepts
from sparsebayes.core.roots import root_of
from sparsebayes.engine import Breakdown, triangle

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
Place = tuple[FloatArray, FloatArray]  # whitened weights, (m,), and intercepts, (K,)
_Step = tuple[FloatArray, FloatArray, float]  # of both, and what it promises
M_co = TypeVar("M_co", covariant=True)

__all__ = ["Landscape", "Look", "Newton", "Normal", "Place", "Start", "height", "highest"]

_STEPS = 500
_HALVINGS = 60
_TINY, _STUCK = 2.0**-20, 3  # steps in a row, this short beside Newton's, that only rounding takes
_DONE = 1e-9  # nats that the last step promises, relative to the log posterior
_STILL = 1e-4  # change of the latent functions below which Newton's method is at its end
_NEAR = 1.0  # nats that a step may promise where it is the mode's neighborhood
_LEAST = 1e-30  # nats: a mode at infinity is approached no further
_ARMIJO = 1e-4
_ROUNDING = 1e-12  # of the log posterior, a sum over all samples


class Start(NamedTuple):
    """Weights of some columns and intercepts, for Newton's method to start from."""

    columns: IndexArray
    w: FloatArray  # weights of these columns, for atoms as given
    c: FloatArray  # (K,) intercepts

    def of(self, columns: IndexArray) -> FloatArray:
        """Weights of other columns: zero for those without one here."""
        if not self.columns.size:
            return np.zeros(columns.size)
        order = np.argsort(self.columns, kind="stable")
        found = np.searchsorted(self.columns, columns, sorter=order)
        place = order[np.minimum(found, order.size - 1)]
        return np.where(self.columns[place] == columns, self.w[place], 0.0)


class Normal(NamedTuple):
    """What a Newton step needs, summed over samples; U are the whitened columns, or others."""

    gradient: FloatArray  # (m,) U' slope
    pull: FloatArray  # (K,) sum of slopes
    gram: FloatArray  # (m, m) U'B U
    cross: FloatArray  # (m, K) U'B
    curvature: FloatArray  # (n, K, K) whose sum is that of B
    mix: FloatArray | None = None  # (q, m): the sums are of q columns whose weights are mix @ z


class Look(Protocol):
    """The log likelihood and its derivatives at one place, summed over samples."""

    @property
    def value(self) -> float:
        """Log likelihood."""

    @property
    def moved(self) -> float:
        """Largest change of a latent function since the look before."""

    @property
    def peak(self) -> float:
        """Largest absolute value of a latent function."""

    def normal(self) -> Normal:
        """Sums of first and second derivatives."""
        ...


L = TypeVar("L", bound=Look)


class Landscape(Protocol[L, M_co]):
    """The log likelihood as a function of whitened weights z = w / sqrt(v) and intercepts."""

    @property
    def center(self) -> bool:
        """Whether there are intercepts."""

    @property
    def root(self) -> FloatArray:
        """Square roots of the variances, (m,)."""

    @property
    def k(self) -> IndexArray:
        """Latent function of each column, (m,)."""

    @property
    def mean(self) -> FloatArray:
        """What is taken off each column, and put to the intercepts, (m,)."""

    def first(self, places: list[Place], near: Callable[[Place, L], bool]) -> tuple[int, L]:
        """The `highest` of some places, or one that is ``near`` the mode, and the look there."""
        ...

    def look(self, place: Place, before: tuple[Place, L] | None = None) -> L:
        """Look at one place, coming from another one."""
        ...

    def mode(self, w: FloatArray, place: Place, look: L) -> M_co:
        """What is kept of the place where Newton's method ends; ``w`` are weights as given."""
        ...


def highest(heights: list[float]) -> int:
    """Position of the highest place to start from; any other than one at infinity.

    Parameters
    ----------
    heights : list of float
        Log posteriors, of which some may not be finite.

    Returns
    -------
    int
        The first of the highest.

    Examples
    --------
    >>> highest([-5.0, -3.0, -3.0]), highest([float("nan"), -9.0])
    (1, 1)
    """
    best = 0
    for i, height in enumerate(heights):
        if height > heights[best] or not np.isfinite(heights[best]):
            best = i
    return best


def height(z: FloatArray, look: Look) -> float:
    """Log posterior of whitened weights, but for a constant."""
    return look.value - 0.5 * float(z @ z)


class Newton(Generic[L, M_co]):
    """Newton's method in whitened weights z = w / sqrt(v), the intercepts eliminated.

    Parameters
    ----------
    landscape : Landscape
        The log likelihood of K latent functions.
    K : int
        Their number.
    """

    def __init__(self, landscape: Landscape[L, M_co], K: int) -> None:
        self.landscape, self.K = landscape, K

    def _shift(self, w: FloatArray) -> FloatArray:
        """What centering the atoms moves from their weights to the intercepts."""
        land = self.landscape
        return np.bincount(land.k, w * land.mean, minlength=self.K).astype(np.float64)

    def climb(self, starts: list[tuple[FloatArray, FloatArray]], loose: float = 0.0) -> M_co:
        """Go from the best start, or from zero, to the mode.

        Parameters
        ----------
        starts : list of pairs
            Weights and intercepts, for atoms as given; the first is the most likely one.
        loose : float, default=0.0
            Nats that may be left to climb.

        Returns
        -------
        object
            What the landscape keeps of the mode.
        """
        land = self.landscape
        places = [(np.zeros(len(land.k)), np.zeros(self.K))]
        places += [(w / land.root, c + self._shift(w)) for w, c in starts]
        forecasts: dict[int, _Step] = {}

        def near(place: Place, look: L) -> bool:
            step = forecasts[id(look)] = self._step(place[0], look)
            if not step[2] < _NEAR:
                return False
            # Nothing is promised where all samples are saturated, however far the mode is.
            return not land.center or not Intercepts(look.normal().curvature, True).saturated

        best, look = land.first(places, near)
        z, c = places[best]
        forecast = forecasts.get(id(look))
        top, stuck = height(z, look), 0
        for _ in range(_STEPS):
            dz, dc, promise = self._step(z, look) if forecast is None else forecast
            forecast = None
            if not promise > 2.0 * loose:
                break
            step = self._search((z, c), look, (dz, dc), top, promise)
            if step is None:
                break
            (z, c), look, top, scale = step
            stuck = stuck + 1 if scale < _TINY else 0
            if stuck == _STUCK:
                break
            # What is left is of the order of the square of the step; but a step that promises
            # nothing may be long, where samples are saturated.
            if promise < _LEAST or (
                promise < _DONE * (1.0 + abs(top))
                and look.moved < _STILL * (1.0 + 1e-6 * look.peak)
            ):
                break
        w = z * land.root
        return land.mode(w, (z, c - self._shift(w)), look)

    def _step(self, z: FloatArray, look: L) -> _Step:
        """Newton step in z and the intercepts, and half the increase it promises twice over."""
        m = len(z)
        products, pull, gram, D, curvature, mix = look.normal()
        gradient = (products if mix is None else mix.T @ products) - z
        covariance = Intercepts(curvature, self.landscape.center).covariance
        if m == 0:
            step = covariance @ pull
            return gradient, step, float(pull @ step)
        A = gram - D @ covariance @ D.T
        if mix is None:
            A.flat[:: m + 1] += 1.0
            factor, info = dpotrf(A.T, lower=1, overwrite_a=1)
            if info != 0:
                raise Breakdown
        else:
            factor, D = _factor(A, mix), mix.T @ D
        right = gradient - D @ (covariance @ pull)
        dz, _ = dpotrs(factor, right, lower=1)
        dc = covariance @ (pull - D.T @ dz)
        if not self.landscape.center:
            return dz, np.zeros(len(pull)), float(gradient @ dz)
        return dz, dc, float(gradient @ dz + pull @ dc)

    def _search(
        self, place: Place, look: L, step: Place, top: float, promise: float
    ) -> tuple[Place, L, float, float] | None:
        """The place that halving a step leads to, the look and height there, and its scale."""
        scale, rounding = 1.0, _ROUNDING * (1.0 + abs(top))
        for _ in range(_HALVINGS):
            there = place[0] + scale * step[0], place[1] + scale * step[1]
            found = self.landscape.look(there, (place, look))
            reached = height(there[0], found)
            if reached >= top + _ARMIJO * scale * promise:
                return there, found, reached, scale
            if promise < rounding and reached > top - max(rounding, 1e-9):
                return there, found, reached, scale  # the change is below rounding
            scale *= 0.5
        return None


def _factor(A: FloatArray, mix: FloatArray) -> FloatArray:
    """Lower factor of I + mix'A mix, which may be definite where A is not."""
    with suppress(Breakdown):
        return triangle(root_of(A) @ mix).L
    B = mix.T @ A @ mix
    B.flat[:: len(B) + 1] += 1.0
    factor, info = dpotrf(B.T, lower=1, overwrite_a=1)
    if info != 0:
        raise Breakdown
    return np.asarray(factor)
