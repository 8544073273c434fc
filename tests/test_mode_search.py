"""Newton's method to a mode, on landscapes of which not even the values can be trusted."""

from dataclasses import dataclass, field

import numpy as np

from sparsebayes.mode_search import Newton, Normal


@dataclass
class Peak:
    """A peak whose slope promises more: a step is taken where it changes no digit of the height."""

    looks: int = 0
    center: bool = False
    root: np.ndarray = field(default_factory=lambda: np.ones(1))
    k: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=np.intp))
    mean: np.ndarray = field(default_factory=lambda: np.zeros(1))

    def first(self, places, near):
        return 0, self.look(places[0])

    def look(self, place, before=None):
        self.looks += 1
        z = place[0]
        return Seen(-2e5 - 50.0 * float(np.abs(z).sum()), z)

    def mode(self, w, place, look):
        return w


@dataclass
class Seen:
    """A look at it."""

    value: float
    z: np.ndarray
    moved: float = 1.0
    peak: float = 1.0

    def normal(self):
        one = np.zeros(1)
        return Normal(self.z + 30.0, one, np.zeros((1, 1)), one[:, None], np.ones((1, 1, 1)))


def test_ends_where_only_rounding_takes_a_step():
    peak = Peak()
    Newton(peak, 1).climb([])
    assert peak.looks < 60 * 4  # three steps, each halved up to 60 times; it would go on and on
