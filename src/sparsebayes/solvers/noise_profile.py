"""The noise of an orthonormal problem: the global maximum of its profile.

With orthonormal atoms the best variance of each is known once the noise is, so the objective is a
function of the noise alone. With e = p / noise, p the squared correlation of an atom with the
targets (summed over T of them), and h(e) = e up to T + 2 c, where the atom enters, and
T e / (e - 2 c) beyond it,

    2 dF / d log noise = rest / noise + sum h(p / noise) - T n.

h rises to its cusp and falls behind it: the profile may have many maxima. Between two cusps the
slope is convex in the noise, so each piece holds at most one of them; few atoms are searched piece
by piece. Of many, a histogram of log p shows where the slope changes its sign, and the maxima worth
it are located exactly.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft

FloatArray = NDArray[np.float64]

__all__ = ["Profile", "best_noise"]

_FEW = 96  # atoms up to which every piece is searched
_CELLS = 4.0  # of the histogram in the width of a cusp
_COARSEST = 0.04
_MOST_CELLS = 2**15
_NOTHING = 1e-10  # slopes below this fraction of what they are sums of are rounding
_DOUBT = 0.01  # nats per degree of freedom by which the histogram may misjudge a maximum
_ROOT_STEPS = 100
_BLOCK = 2**15  # atoms binned at a time: they stay in the cache
_ROUNDING = 64 * float(np.finfo(float).eps)


@dataclass(frozen=True)
class Profile:
    """What the objective depends on, once every atom has the best variance for its noise.

    Parameters
    ----------
    power : ndarray of shape (M,)
        Squared correlation of each atom of unit norm with the targets, summed over targets.
    rest : float
        Sum of squared targets that no atom explains.
    n : float
        Residual degrees of freedom of an empty model, of each target.
    n_targets : int
        Number of targets T.
    c : float
        Price of a degree of freedom; zero for a flat hyperprior.

    Examples
    --------
    Two of a hundred atoms carry a signal; nothing is left beside them but the noise.

    >>> import numpy as np
    >>> profile = Profile(np.array([50.0, 40.0]), rest=98.0, n=100.0, n_targets=1, c=0.0)
    >>> round(best_noise(profile, 1e-9), 12)
    1.0
    """

    power: FloatArray
    rest: float
    n: float
    n_targets: int = 1
    c: float = 0.0

    @property
    def threshold(self) -> float:
        """Power in units of the noise at which an atom enters."""
        return self.n_targets + 2.0 * self.c

    def between(self, low: float) -> "Profile":
        """Return the same profile for noises from ``low`` up, without atoms that never enter."""
        enters = self.power > self.threshold * low
        inside = self.power[enters]
        rest = self.rest + float(self.power.sum(where=~enters))
        return Profile(inside, rest, self.n, self.n_targets, self.c)

    def value(self, noise: float) -> float:
        """Objective at the best variances, up to constants.

        What is linear in the power of active atoms cancels, so nothing large is subtracted.
        """
        T, c = self.n_targets, self.c
        e = self.power / noise
        y = e[e > self.threshold] - 2.0 * c
        out = self.rest / noise + float(e.sum(where=e <= self.threshold))
        paid = self.threshold * y.size + T * float(np.log(y / T).sum())
        return -0.5 * (T * self.n * math.log(noise) + out + paid)

    def slope(self, noise: float) -> tuple[float, float]:
        """Twice the derivative in log noise, and its own derivative there."""
        T, c = self.n_targets, self.c
        e = self.power / noise
        y = e[e > self.threshold] - 2.0 * c
        out = self.rest / noise + float(e.sum(where=e <= self.threshold))
        bent = 2.0 * c / y
        first = out + T * (y.size + float(bent.sum())) - T * self.n
        return first, T * float((bent * (1.0 + bent)).sum()) - out


def best_noise(profile: Profile, floor: float) -> float:
    """Noise variance at the global maximum of the profile, not below a floor.

    Parameters
    ----------
    profile : Profile
        The profile.
    floor : float
        Least noise variance. It is the answer where the objective only rises towards no noise:
        under a flat hyperprior with as many atoms as data, or where the atoms fit the data exactly.

    Returns
    -------
    float
        Noise variance.

    Examples
    --------
    >>> import numpy as np
    >>> power = np.random.RandomState(0).standard_normal(10_000) ** 2
    >>> bic = Profile(power, 0.0, 10_000.0, 1, 0.5 * np.log(10_000))
    >>> round(best_noise(bic, 1e-9), 2)
    0.97
    """
    T, n = profile.n_targets, profile.n
    everything = profile.rest + float(profile.power.sum())
    ceiling = everything / (T * n)  # the noise of the empty model: beyond it the slope is negative
    if not ceiling > floor:
        return floor
    if profile.rest <= _ROUNDING * everything:
        profile = Profile(profile.power, 0.0, n, T, profile.c)
    found = None
    if profile.power.size > _FEW:
        found = _histogram(profile, floor, ceiling)
    if found is None:
        profile = profile.between(floor)
        found = _piecewise(profile, floor, ceiling)
    if len(found) == 1:
        return found[0]
    return max(found, key=profile.between(min(found)).value)


def _negligible(profile: Profile, noise: float) -> float:
    """Slopes up to this are rounding."""
    largest = profile.rest / noise + profile.threshold * profile.power.size
    return _NOTHING * max(largest, profile.n_targets * profile.n)


def _piecewise(profile: Profile, floor: float, ceiling: float) -> list[float]:
    """All maxima: between two cusps the slope is convex in the noise."""
    cusps = profile.power / profile.threshold
    nodes = np.unique(np.append(cusps[(cusps > floor) & (cusps < ceiling)], [floor, ceiling]))
    falling = not profile.slope(floor)[0] > _negligible(profile, floor)
    found = [floor] if falling else []
    for low, high in zip(nodes[:-1].tolist(), nodes[1:].tolist(), strict=True):
        root = _first_fall(profile, low, high)
        if root is not None:
            found.append(root)
    return found


def _first_fall(profile: Profile, low: float, high: float) -> float | None:
    """Where a slope that is convex in the noise falls through zero; None where it does not.

    From where it is positive Newton's steps in the noise never pass the root; if there is none they
    pass the minimum, where the slope rises.
    """
    x = low * (1 + 8 * float(np.finfo(float).eps))  # on the right side of the cusp
    nothing = _negligible(profile, low)
    for step in range(_ROOT_STEPS):
        first, second = profile.slope(x)
        if (step == 0 and not first > nothing) or second >= 0:
            return None
        move = -first / second  # relative to the noise
        if abs(move) <= 1e-15:
            return x
        x *= 1.0 + move
        if x >= high:
            return high if profile.slope(high)[0] <= nothing else None
    return x


def _histogram(profile: Profile, floor: float, ceiling: float) -> list[float] | None:
    """Maxima that may be the highest, located roughly on a histogram and then exactly.

    None where so few atoms ever enter that each piece can be searched.
    """
    T, theta = profile.n_targets, profile.threshold
    bottom, last = math.log(floor), math.log(ceiling)
    top = max(last, math.log(float(profile.power.max()) / theta))
    width = max(min(_COARSEST, T / (_CELLS * theta)), (top - bottom) / _MOST_CELLS)
    cells = int((top - bottom) / width) + 3
    counts, below = _binned(profile.power, floor * theta, width, cells)
    entering = float(counts.sum())
    if entering < _FEW + 0.5:
        return None

    # The slope at every node is a correlation of the counts with h, as both are in log units.
    offset = width * np.arange(1 - cells, cells)
    e = theta * np.exp(offset)
    h = np.where(offset <= 0, e, T + T * 2.0 * profile.c / np.maximum(e - 2.0 * profile.c, T))
    size = fft.next_fast_len(3 * cells, real=True)
    spectrum = fft.rfft(counts, size) * fft.rfft(h[::-1], size)
    nodes = bottom + width * np.arange(int((last - bottom) / width) + 2)
    slope = fft.irfft(spectrum, size)[cells - 1 : cells - 1 + nodes.size]
    slope += (profile.rest + below) * np.exp(-nodes)
    slope -= T * profile.n
    slope[np.abs(slope) <= 10 * _negligible(profile, ceiling)] = 0.0

    height = np.cumsum(np.append(0.0, 0.25 * width * (slope[1:] + slope[:-1])))
    falls = np.flatnonzero((slope[:-1] > 0) & (slope[1:] <= 0))
    peak = np.maximum(height[falls], height[falls + 1])
    doubt = _DOUBT * T * entering * (width * theta / T) ** 2 + 1.0
    at_floor = slope[0] <= 0
    least = max(peak.max(initial=-np.inf), 0.0 if at_floor else -np.inf) - doubt
    found = [floor] if at_floor and least <= 0 else []
    for k in falls[peak >= least].tolist():
        share = slope[k] / (slope[k] - slope[k + 1])
        found.append(_polish(profile, math.exp(nodes[k] + share * width), width))
    return found


def _binned(power: FloatArray, least: float, width: float, cells: int) -> tuple[FloatArray, float]:
    """Atoms counted on nodes equally spaced in log power, each shared by its two neighbors.

    The power of those below the first node is returned beside them.
    """
    single, shared = np.zeros(cells), np.zeros(cells)
    below = 0.0
    for start in range(0, power.size, _BLOCK):
        block = power[start : start + _BLOCK]
        enters = block > least
        if not enters.all():
            below += float(block.sum(where=~enters))
            block = block[enters]
        # Single precision is enough to say where an atom is, and its logarithm is much faster.
        place = (block * (1.0 / least)).astype(np.float32)
        np.log(place, out=place)
        place *= np.float32(1.0 / width)
        node = place.astype(np.intp)
        place -= node
        single += np.bincount(node, minlength=cells)[:cells]
        shared += np.bincount(node, place, minlength=cells)[:cells]
    single -= shared
    single[1:] += shared[:-1]
    return single, below


def _polish(profile: Profile, guess: float, width: float) -> float:
    """Exact place of a maximum near a guess, which is good to a part of ``width`` in log noise."""
    low, high = guess * math.exp(-4 * width), guess * math.exp(4 * width)
    part = profile.between(low)
    x = guess
    for _ in range(_ROOT_STEPS):
        first, second = part.slope(x)
        if first > 0:
            low = x
        else:
            high = x
        move = -first / second if second < 0 else math.inf  # in log noise
        if abs(move) <= 1e-15:
            break
        following = x * math.exp(move) if abs(move) < width else 0.0
        if not low <= following <= high:
            following = math.sqrt(low * high)
        if high <= low * (1 + 4e-16):
            break
        x = following
    return x
