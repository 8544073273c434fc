"""Laplace's approximation: Newton's method to the mode, and the quadratic there."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.expanded import ActiveColumns, active_quadratic
from sparsebayes.core.quadratic import AnyQuadratic
from sparsebayes.core.stored import expanded_quadratic, weighted_gram
from sparsebayes.design import Design
from sparsebayes.likelihoods import Expansion, Likelihood
from sparsebayes.mode_search import Landscape, Newton, Normal, Place, Start, height, highest

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

M = TypeVar("M")

__all__ = [
    "SOME_ROWS",
    "Latent",
    "LatentData",
    "Mode",
    "Start",
    "find_mode",
    "quadratic_at",
]

SOME_ROWS = 1024
"""Samples in which structure is sought, of more than twice as many."""


@dataclass(frozen=True)
class Latent:
    """Data and a likelihood of latent functions: what is expanded around a mode.

    Parameters
    ----------
    design : Design
        Atoms evaluated at the data.
    t : ndarray of shape (N,)
        Targets as the likelihood checked them.
    weights : ndarray of shape (N,) or None
        Weight of each sample.
    likelihood : Likelihood
        Likelihood of the targets.
    center : bool
        Whether each latent function has an intercept, with a flat prior.
    shared : bool, default=False
        Whether the latent functions share the variance of each atom.
    """

    design: Design
    t: FloatArray
    weights: FloatArray | None
    likelihood: Likelihood
    center: bool
    shared: bool = False

    @property
    def K(self) -> int:
        """Number of latent functions."""
        return self.likelihood.n_latent

    def expand(self, f: FloatArray) -> Expansion:
        """Expansion of the likelihood at f, sample weights included."""
        value, slope, curvature = self.likelihood.expand(self.t, f)
        return Expansion(value, slope, curvature).weighted(self.weights)

    def restrict(self, atoms: IndexArray) -> "Latent":
        """The same data with some of the atoms."""
        return replace(self, design=self.design.restrict(atoms))

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return self.design.shape[1]

    @property
    def n_rows(self) -> int:
        """Number of samples."""
        return len(self.t)

    def take(self, rows: IndexArray) -> "Latent":
        """Some of the samples, with the same atoms."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, design=self.design.take(rows), t=self.t[rows], weights=weights)

    def draw(self, rng: np.random.RandomState) -> IndexArray | None:
        """Rows drawn at random, more of rare targets; None where there are not too many."""
        n = len(self.t)
        if n <= 2 * SOME_ROWS:
            return None
        _, kind, count = np.unique(self.t, return_inverse=True, return_counts=True)
        # At least as many of each kind as if there were ten times fewer of all; rare ones are kept.
        wanted = np.maximum(SOME_ROWS * count / n, SOME_ROWS / (10.0 * count.size))
        drawn = rng.uniform(size=n) * count[kind] < wanted[kind]
        return np.flatnonzero(drawn)

    def landscape(self, columns: IndexArray, v: FloatArray) -> "_StoredLandscape":
        """The log likelihood as a function of the weights of some columns."""
        return _StoredLandscape(self, columns, v)

    def quadratic(self, mode: "Mode", alone: bool = False) -> AnyQuadratic:
        """Expand the likelihood around a mode, over all atoms or those that are active there."""
        if alone and mode.look is not None:
            return mode.look.quadratic(mode)
        _, slope, B = mode.expansion
        f = mode.f
        drawn = B[:, 0] * f if self.K == 1 else np.einsum("nkl,nl->nk", B, f)
        met = float(np.vdot(slope, f)) + 0.5 * float(np.vdot(drawn, f))
        value = mode.log_likelihood - met
        return expanded_quadratic(self.design, B, drawn + slope, self.center, self.shared, value)


class Mode(NamedTuple):
    """The maximum of the posterior of the weights, at given variances."""

    w: FloatArray  # (m,) weights of atoms as given
    c: FloatArray  # (K,) intercepts
    f: FloatArray  # (N, K) latent functions
    expansion: Expansion
    penalty: float  # sum of w^2 / (2 v)
    look: "_StoredLook | None" = None  # where it was found

    @property
    def log_likelihood(self) -> float:
        """Log likelihood at the mode."""
        return float(self.expansion.value.sum())


class LatentData(Protocol[M]):
    """Data and a likelihood, wherever the samples are: in memory, or rows kept elsewhere."""

    @property
    def likelihood(self) -> Likelihood:
        """Likelihood of the targets."""

    @property
    def center(self) -> bool:
        """Whether each latent function has an intercept."""

    @property
    def shared(self) -> bool:
        """Whether the latent functions share the variance of each atom."""

    @property
    def K(self) -> int:
        """Number of latent functions."""

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""

    @property
    def n_rows(self) -> int:
        """Number of samples."""

    def restrict(self, atoms: IndexArray) -> Self:
        """The same data with some of the atoms."""
        ...

    def draw(self, rng: np.random.RandomState) -> Any:
        """Some samples that `take` takes, drawn at random; None where there are not too many."""
        ...

    def take(self, rows: Any) -> Latent:
        """These samples, in memory."""
        ...

    def landscape(self, columns: IndexArray, v: FloatArray) -> Landscape[Any, M]:
        """The log likelihood as a function of the weights of some columns."""
        ...

    def quadratic(self, mode: M, alone: bool = False) -> AnyQuadratic:
        """Expand the likelihood around a mode, as `quadratic_at` says."""
        ...


def find_mode(
    latent: LatentData[M],
    columns: IndexArray,
    v: FloatArray,
    starts: tuple[Start, ...] = (),
    loose: float = 0.0,
) -> M:
    """Maximise the posterior of weights and intercepts by damped Newton steps.

    The log posterior is concave and every step is halved until it climbs, so any start will do.

    Parameters
    ----------
    latent : LatentData
        Data and likelihood.
    columns : ndarray of shape (m,)
        Active columns, ``a K + k``.
    v : ndarray of shape (m,)
        Prior variances of their weights, for atoms as given.
    starts : tuple of Start, default=()
        Where the mode may be; Newton's method starts from the best of them, or from zero.
    loose : float, default=0.0
        Nats that may be left to climb: an expansion holds beside the mode too.

    Returns
    -------
    Mode
        The mode; raises `Breakdown` where float64 cannot reach it.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.design import ArrayDesign
    >>> from sparsebayes.likelihoods import Poisson
    >>> design = ArrayDesign(np.zeros((4, 1)))
    >>> latent = Latent(design, np.array([1.0, 2, 3, 2]), None, Poisson(), center=True)
    >>> mode = find_mode(latent, np.empty(0, dtype=np.intp), np.empty(0))
    >>> np.exp(mode.f[0]).round(9)
    array([2.])
    """
    newton = Newton(latent.landscape(columns, v), latent.K)
    return newton.climb([(start.of(columns), start.c) for start in starts], loose)


class _StoredLandscape:
    """The landscape of samples in memory: all columns are kept."""

    def __init__(self, latent: Latent, columns: IndexArray, v: FloatArray) -> None:
        self.latent, K = latent, latent.K
        self.center, self.columns = latent.center, columns
        self.root = np.sqrt(v)
        self.k = columns % K
        atoms, which = np.unique(columns // K, return_inverse=True)
        rows = latent.design.columns(atoms) if atoms.size else np.zeros((0, len(latent.t)))
        self.mean = np.zeros(len(columns))
        if latent.center:  # a shift of an atom is taken up by the intercept; products keep digits
            mean = rows.mean(axis=1)
            rows -= mean[:, None]
            self.mean = mean[which]
        self.U = rows[which] * self.root[:, None]  # (m, N)
        self.members: list[Any] = [slice(None)]
        if K > 1:
            self.members = [np.flatnonzero(self.k == k) for k in range(K)]

    def first(
        self, places: list[Place], near: Callable[[Place, "_StoredLook"], bool]
    ) -> tuple[int, "_StoredLook"]:
        looks: dict[int, _StoredLook] = {}
        if len(places) > 1:  # where the mode is expected: no need to look elsewhere if it is there
            looks[1] = self.look(places[1])
            if np.isfinite(looks[1].value) and near(places[1], looks[1]):
                return 1, looks[1]
        found = [looks[i] if i in looks else self.look(place) for i, place in enumerate(places)]
        best = highest([height(z, look) for (z, _), look in zip(places, found, strict=True)])
        return best, found[best]

    def look(
        self, place: Place, before: "tuple[Place, _StoredLook] | None" = None
    ) -> "_StoredLook":
        z, c = place
        f = np.empty((self.U.shape[1], len(self.members)))
        for k, mine in enumerate(self.members):
            f[:, k] = c[k] + z[mine] @ self.U[mine]
        with np.errstate(over="ignore"):
            expansion = self.latent.expand(f)
            value = float(expansion.value.sum())
        return _StoredLook(self, f, expansion, value, None if before is None else before[1].f)

    def mode(self, w: FloatArray, place: Place, look: "_StoredLook") -> Mode:
        z, c = place
        return Mode(w, c, look.f, look.expansion, 0.5 * float(z @ z), look)


@dataclass(frozen=True)
class _StoredLook:
    """A look at samples in memory."""

    landscape: _StoredLandscape
    f: FloatArray  # (N, K)
    expansion: Expansion
    value: float
    before: FloatArray | None  # (N, K)

    @property
    def moved(self) -> float:
        """Largest change of a latent function since the look before."""
        return np.inf if self.before is None else float(np.abs(self.f - self.before).max(initial=0))

    @property
    def peak(self) -> float:
        """Largest absolute value of a latent function."""
        return float(np.abs(self.f).max(initial=0.0))

    def normal(self) -> Normal:
        """Sums of first and second derivatives."""
        return self._sums

    @cached_property
    def _sums(self) -> Normal:
        land, (_, slope, B) = self.landscape, self.expansion
        m, K = len(land.k), B.shape[1]
        gradient, D = np.zeros(m), np.zeros((m, K))
        gram = weighted_gram(land.U, land.k, B)
        for k, mine in enumerate(land.members):
            U = land.U[mine]
            gradient[mine] = U @ slope[:, k]
            D[mine] = U @ B[:, k]
        return Normal(gradient, slope.sum(axis=0), gram, D, B)

    def quadratic(self, mode: Mode) -> AnyQuadratic:
        """Expand the likelihood around a mode that was found here, for its own columns."""
        land, latent = self.landscape, self.landscape.latent
        active = ActiveColumns(land.columns, land.root, land.mean, latent.n_atoms)
        shift = np.bincount(land.k, mode.w * land.mean, minlength=latent.K)
        place = mode.w / land.root, mode.c + shift
        found = active, self._sums, place, self.value
        return active_quadratic(*found, latent.center, latent.shared)


def quadratic_at(latent: LatentData[M], mode: M, alone: bool = False) -> AnyQuadratic:
    """Expand the likelihood around a mode, over all atoms of the design.

    The quadratic's evidence, at the variances of the mode, is Laplace's: the log likelihood at the
    mode, plus the prior there, plus the volume of the posterior.

    Parameters
    ----------
    latent : LatentData
        Data and likelihood; it may have other atoms than the mode was found with.
    mode : Mode
        The mode.
    alone : bool, default=False
        Whether nobody will ask for other columns than those of the mode.

    Returns
    -------
    AnyQuadratic
        The quadratic, for columns of unit norm.
    """
    return latent.quadratic(mode, alone)
