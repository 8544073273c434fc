"""The noise of an orthonormal problem: the global maximum of its profile.

With orthonormal atoms the best variance of each is known once the noise is, so the objective is a
function of the noise alone. With e = p / noise, p the squared correlation of an atom with the
targets (summed over T of them), and h(e) = e up to T + 2 c, where the atom enters, and
T e / (e - 2 c) beyond it,

    2 dF / d log noise = rest / noise + sum h(p / noise) - T n.

h rises to its cusp and falls behind it: the profile may have many maxima. Between two cusps the
slope is convex in the noise, so each piece holds at most one of them; few atoms are searched piece
by piece. Of many, a grid of noises shows where the slope changes its sign, and the maxima worth it
are located exactly. Powers are sorted once, so that those of atoms that are out come first.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft

FloatArray = NDArray[np.float64]

__all__ = ["Profile", "best_noise"]

_FEW = 96  # atoms up to which every piece is searched
_CELLS = 4.0  # of the grid in the width of a cusp
_COARSEST = 0.04
_MOST_CELLS = 2**15
_FAR = 8.0  # log of the power, relative to the noise, beyond which an atom bends nothing
_NOTHING = 1e-10  # slopes below this fraction of what they are sums of are rounding
_DOUBT = 0.01  # nats per degree of freedom by which the grid may misjudge a maximum
_SHORT = 2**15
_ROOT_STEPS = 100
_LAST_STEP = 1e-8  # the error after a step of Newton's method is about its square
_EPS = float(np.finfo(float).eps)
_ROUNDING = 64 * _EPS


class Group(NamedTuple):
    """Atoms of one price, by their power."""

    power: FloatArray  # (m,) ascending
    c: float

    def sums_before(self, places: NDArray[np.intp]) -> FloatArray:
        """Sums of the powers before each of some ascending places, of 0..m."""
        if self.power.size <= _SHORT:
            sums = np.zeros(self.power.size + 1)
            np.cumsum(self.power, out=sums[1:])
            return sums[places]
        # Of many without an array of their length.
        starts = np.unique(np.append(0, places))
        inside = starts[starts < self.power.size]
        sums = np.zeros(inside.size + 1)
        np.cumsum(np.add.reduceat(self.power, inside), out=sums[1:])
        return sums[np.searchsorted(inside, places)]


@dataclass(frozen=True)
class Profile:
    """What the objective depends on, once every atom has the best variance for its noise.

    Parameters
    ----------
    groups : tuple of Group
        The atoms.
    rest : float
        Sum of squared targets that no atom explains.
    n : float
        Residual degrees of freedom of an empty model, of each target.
    n_targets : int
        Number of targets T.

    Examples
    --------
    Two of a hundred atoms carry a signal; nothing is left beside them but the noise.

    >>> import numpy as np
    >>> profile = Profile.of(np.array([50.0, 40.0]), 0.0, rest=98.0, n=100.0)
    >>> round(best_noise(profile, 1e-9), 9)
    1.0
    """

    groups: tuple[Group, ...]
    rest: float
    n: float
    n_targets: int = 1

    @classmethod
    def of(
        cls, power: FloatArray, c: float | FloatArray, rest: float, n: float, n_targets: int = 1
    ) -> "Profile":
        """Sort atoms by price and power.

        Parameters
        ----------
        power : ndarray of shape (M,)
            Squared correlation of each atom of unit norm with the targets, summed over targets.
        c : float or ndarray of shape (M,)
            Price of a degree of freedom; zero for a flat hyperprior.
        rest, n, n_targets
            As in the class.

        Returns
        -------
        Profile
            The profile.
        """
        if np.ndim(c) == 0:
            return cls((Group(np.sort(power), float(c)),), rest, n, n_targets)
        groups = [Group(np.sort(power[c == price]), float(price)) for price in np.unique(c)]
        return cls(tuple(groups), rest, n, n_targets)

    @property
    def size(self) -> int:
        """Number of atoms M."""
        return sum(group.power.size for group in self.groups)

    @property
    def total(self) -> float:
        """Sum of squared targets."""
        return self.rest + sum(float(group.power.sum()) for group in self.groups)

    def entry(self, group: Group) -> float:
        """Power in units of the noise at which an atom enters."""
        return self.n_targets + 2.0 * group.c

    def value(self, noise: float) -> float:
        """Objective at the best variances, up to constants.

        What is linear in the power of active atoms cancels, so nothing large is subtracted.
        """
        T = self.n_targets
        left = self.rest / noise
        for group in self.groups:
            first = int(np.searchsorted(group.power, self.entry(group) * noise, side="right"))
            y = group.power[first:] / noise
            y -= 2.0 * group.c
            left += float(group.power[:first].sum()) / noise + self.entry(group) * y.size
            left += T * (float(np.log(y).sum()) - y.size * math.log(T))
        return -0.5 * (T * self.n * math.log(noise) + left)

    def slope(self, noise: float) -> tuple[float, float]:
        """Twice the derivative in log noise, and its own derivative there."""
        T = self.n_targets
        out, paid, bend = self.rest / noise, -self.n, 0.0
        for group in self.groups:
            first = int(np.searchsorted(group.power, self.entry(group) * noise, side="right"))
            out += float(group.power[:first].sum()) / noise
            y = group.power[first:] / noise
            y -= 2.0 * group.c
            np.divide(2.0 * group.c, y, out=y)
            bent = float(y.sum())
            paid += y.size + bent
            bend += bent + float(y @ y)
        return out + T * paid, T * bend - out


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
    >>> bic = Profile.of(power, float(0.5 * np.log(10_000)), 0.0, 10_000.0)
    >>> round(best_noise(bic, 1e-9), 2)
    0.97
    """
    T, n = profile.n_targets, profile.n
    everything = profile.total
    ceiling = everything / (T * n)  # the noise of the empty model: beyond it the slope is negative
    if not ceiling > floor:
        return floor
    if profile.rest <= _ROUNDING * everything:
        profile = Profile(profile.groups, 0.0, n, T)
    found = _on_grid(profile, floor, ceiling)
    if found is None:
        found = _piecewise(profile, floor, ceiling)
    return found[0] if len(found) == 1 else max(found, key=profile.value)


def _negligible(profile: Profile, noise: float) -> float:
    """Slopes up to this are rounding."""
    largest = profile.rest / noise
    largest += sum(profile.entry(group) * group.power.size for group in profile.groups)
    return _NOTHING * max(largest, profile.n_targets * profile.n)


def _piecewise(profile: Profile, floor: float, ceiling: float) -> list[float]:
    """All maxima: between two cusps the slope is convex in the noise."""
    cusps = np.concatenate([group.power / profile.entry(group) for group in profile.groups])
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
    x = low * (1 + 8 * _EPS)  # on the right side of the cusp
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


def _on_grid(profile: Profile, floor: float, ceiling: float) -> list[float] | None:
    """Maxima that may be the highest, located roughly on a grid and then exactly.

    None where so few atoms ever enter that every piece can be searched.
    """
    T = profile.n_targets
    entries = [profile.entry(group) for group in profile.groups]
    span = math.log(ceiling / floor)
    width = max(min(_COARSEST, T / (_CELLS * max(entries))), (span + _FAR) / _MOST_CELLS)
    count = int(span / width) + 2  # nodes up to the ceiling and one beyond
    cells = count + int(_FAR / width)
    nodes = np.exp(width * np.arange(cells + 1))
    nodes *= floor
    firsts = [
        np.searchsorted(group.power, entry * nodes, side="right")
        for group, entry in zip(profile.groups, entries, strict=True)
    ]
    if profile.size - sum(int(first[0]) for first in firsts) <= _FEW:
        return None
    nodes = nodes[:count]
    spectrum: NDArray[np.complex128] | None = None
    out, inside = np.full(count, profile.rest), np.full(count, profile.size - profile.n)
    size = fft.next_fast_len(cells + count, real=True)
    for group, first in zip(profile.groups, firsts, strict=True):
        out += group.sums_before(first[:count])
        inside -= first[:count]
        if group.c > 0:
            # Atoms behind their cusps: a correlation, as powers and noises are in log units.
            own = fft.rfft(np.diff(first), size)
            own *= _bend(group.c, T, width, cells, size)
            spectrum = own if spectrum is None else spectrum + own
    if spectrum is not None:
        inside += fft.irfft(spectrum, size)[:count]
    slope = out / nodes
    slope += T * inside
    slope[np.abs(slope) <= 10 * _negligible(profile, ceiling)] = 0.0
    rises = slope > 0
    falls = np.flatnonzero(rises[:-1] > rises[1:])
    height = np.cumsum(slope)
    peak = 0.5 * width * (height[falls] - 0.5 * (slope[falls] + slope[0]))
    doubt = _DOUBT * T * profile.size * (width * max(entries) / T) ** 2 + 1.0
    least = max(peak.max(initial=-np.inf), -np.inf if rises[0] else 0.0) - doubt
    found = [floor] if not rises[0] and least <= 0 else []
    for k in falls[peak >= least].tolist():
        share = float(slope[k] / (slope[k] - slope[k + 1]))
        found.append(_polish(profile, float(nodes[k]) * math.exp(share * width), width))
    return found


@lru_cache(maxsize=64)
def _bend(c: float, n_targets: int, width: float, cells: int, size: int) -> NDArray[np.complex128]:
    """Spectrum of 2 c / (e - 2 c) at the middle of cells behind the cusp, as a correlation's."""
    e = (n_targets + 2.0 * c) * np.exp(width * (np.arange(cells) + 0.5))
    found: NDArray[np.complex128] = np.conj(fft.rfft(2.0 * c / (e - 2.0 * c), size))
    return found


def _polish(profile: Profile, guess: float, width: float) -> float:
    """Exact place of a maximum near a guess, which is good to a part of ``width`` in log noise."""
    low, high = guess * math.exp(-4 * width), guess * math.exp(4 * width)
    x = guess
    for _ in range(_ROOT_STEPS):
        first, second = profile.slope(x)
        if first > 0:
            low = x
        else:
            high = x
        move = -first / second if second < 0 else math.inf  # in log noise
        if high <= low * (1 + 2 * _EPS):
            break
        following = x * math.exp(move) if abs(move) < width else 0.0
        x = following if low <= following <= high else math.sqrt(low * high)
        if abs(move) <= _LAST_STEP:
            break
    return x
