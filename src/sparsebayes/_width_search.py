"""The search for widths of kernels, before there is a sparse model to learn them by."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize

from sparsebayes.dictionaries._protocol import OutOfRange
from sparsebayes.engine import Breakdown

FloatArray = NDArray[np.float64]
Loss = Callable[[FloatArray], tuple[float, FloatArray]]

__all__ = ["Guarded", "lowest"]

_STEPS = 100
_ENOUGH = 0.01  # nats per unit of log parameter: the sparse model has its own optimum
_WALL = 1e100  # where float64 cannot tell


def lowest(loss: Loss, starts: FloatArray, ranges: FloatArray) -> FloatArray:
    """Where the lowest of some searches ends.

    Parameters
    ----------
    loss : callable
        From parameters to a number and its slope; may raise where float64 cannot tell.
    starts : ndarray of shape (k, P)
        Where they begin.
    ranges : ndarray of shape (P, 2)
        Lowest and highest parameters.

    Returns
    -------
    ndarray of shape (P,)
        Within the ranges.

    Examples
    --------
    >>> import numpy as np
    >>> lowest(lambda x: (float(x @ x), 2 * x), np.ones((1, 1)), np.array([[0.5, 2.0]]))
    array([0.5])
    """
    ends = []
    for start in starts:
        search = Guarded(loss)
        ends.append(
            minimize(
                search,
                start,
                jac=True,
                method="L-BFGS-B",
                bounds=Bounds(*ranges.T),
                callback=search.accept,
                options={"maxiter": _STEPS, "gtol": _ENOUGH, "ftol": 1e-7},
            )
        )
    return np.asarray(min(ends, key=lambda end: float(end.fun)).x)


class Guarded:
    """A loss with a slope, for a line search that may come to where float64 cannot tell.

    There it is as much above the last point as it was to fall below it, and the search comes back
    by about a quarter. From a wall of any height it would come back all the way, and end.
    """

    def __init__(self, loss: Loss) -> None:
        self.loss = loss
        self.seen: tuple[FloatArray, float, FloatArray] | None = None
        self.last: tuple[FloatArray, float, FloatArray] | None = None

    def __call__(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        try:
            value, slope = self.loss(parameters)
        except (Breakdown, OutOfRange):
            if self.last is None:
                return _WALL, np.zeros_like(parameters)
            place, value, slope = self.last
            rise = float(np.abs(slope) @ np.abs(parameters - place))
            return value + rise, np.zeros_like(parameters)
        self.seen = parameters.copy(), value, slope
        self.last = self.last or self.seen
        return value, slope

    def accept(self, xk: FloatArray) -> None:
        """Go on from the point that was seen last: the search has taken it."""
        self.last = self.seen
