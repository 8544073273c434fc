"""Structure: which atoms are in a model whose likelihood is not Gaussian, roughly.

It is sought from nothing or, with one latent function and no price on an atom, from a crowd of
atoms of which most leave; there pairs of atoms in the end slide to where they serve better.
"""

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes._hyperprior import is_flat
from sparsebayes.engine import Breakdown
from sparsebayes.laplace import LatentData
from sparsebayes.solvers.climb import climb
from sparsebayes.solvers.expand import (
    FINE,
    NOTHING,
    UNIT_NOISE,
    Expanded,
    Fit,
    Part,
    Point,
    converge,
    expand,
    settle,
)
from sparsebayes.solvers.pairs import slide_pairs
from sparsebayes.solvers.search import SETTINGS, improved

IndexArray = NDArray[np.intp]

__all__ = ["Found", "better", "exchanged", "exchanged_often", "explore"]

_ROUGH = 0.05  # nats left on the table while structure is sought
_LOOKS = 6  # expansions while structure is sought
_SLIDES = 4  # most expansions on which pairs of atoms slide
_WORTHWHILE = 0.3  # nats that one must gain for another one
_SMALL = 256  # atoms up to which everything is tried
_FEW = 6  # atoms that sliding pairs alone bring to where they belong
_EXCHANGES = 12  # most exchanges in a row
_CROWD = 64  # atoms that are in the model at once where a descent begins
_STRENGTH = 4.0  # variance of a latent function there, about
_SURPLUS = 1.5  # atoms per row that are many: a bias beside a kernel at each row is no surplus
_MARGIN = 0.02  # nats by which an exchange must be better to be kept


class Found(NamedTuple):
    """A point, and the expansion at its very mode if it is known."""

    point: Point
    known: Expanded | None = None


def explore(fit: Fit, rng: np.random.RandomState, anew: bool = False) -> Found:
    """Find the structure, in a sample of many rows and many atoms.

    ``anew``: look elsewhere, in half of few atoms too. It is `NOTHING` where all that was tried
    broke down: the whole dictionary may do better.
    """
    rows = fit.latent.draw(rng)
    sample = _some_atoms(fit, rng)
    if anew and sample.size == fit.latent.n_atoms:
        sample = np.sort(rng.choice(sample, (sample.size + 1) // 2, replace=False))
    plain, whole = _is_plain(fit), sample.size == fit.latent.n_atoms
    point, at = NOTHING, None
    with suppress(Breakdown):
        # Of several functions, or where an atom has its price, a descent costs more than it finds.
        # Few rows of many cost little: another crowd may do better.
        crowds = (1 if rows is None else 2) if plain else 0
        down = [_descended(fit, sample, rows, rng) for _ in range(crowds)]
        few = down[0] if rows is None and crowds else None
        if few is not None and sample.size > _SMALL and 1 < few.active.size <= _FEW:
            at = _slid(fit, few, rng, _FEW)
            if at is not None and whole:  # where exchanges cost little
                further = exchanged_often(fit, fit.latent, at)
                if further is not at:  # beside its mode, an expansion is for comparisons alone
                    return Found(further.point)
        if at is None:
            point = _sought(fit, sample, rows, down)
            at = _slid(fit, point, rng) if plain else None
    return Found(point) if at is None else Found(at.point, at)


def _sought(fit: Fit, sample: IndexArray, rows: Any, down: list[Point | None]) -> Point:
    """Go on from descents, grow or both, then exchange atoms, in a sample of them."""
    whole = sample.size == fit.latent.n_atoms
    part = Part(fit.latent, sample)
    latent = part.data if rows is None else part.data.take(rows)
    found = []
    for point in down:
        if point is not None:
            with suppress(Breakdown):
                found.append(converge(fit, latent, part.inside(point), _ROUGH, "descend", _LOOKS))
    if not found or (whole and rows is None):
        found.append(converge(fit, latent, NOTHING, _ROUGH, "climb", _LOOKS))
    at = max(found, key=lambda one: one.state.objective)
    # Rows left out will move the optimum anyway: there one exchange is enough.
    often = rows is None and (whole or not _is_plain(fit))
    point = exchanged_often(fit, latent, at, _EXCHANGES if often else 1).point
    if rows is not None:  # the same atoms, with all rows
        point = settle(fit, part.data, point, _ROUGH)
        if not _is_plain(fit):  # else pairs slide among all atoms next, and others come in
            point = converge(fit, part.data, point, _ROUGH, "climb", _LOOKS).point
    return part.outside(point)


def exchanged_often(
    fit: Fit,
    latent: LatentData[Any],
    at: Expanded,
    most: int = _EXCHANGES,
    thorough: bool = False,
) -> Expanded:
    """Exchange atoms as long as that is better; ``at`` itself where nothing is."""
    for _ in range(most):
        trial = exchanged(fit, latent, at, thorough)
        if trial is None:
            break
        at = trial
    return at


def _descended(fit: Fit, sample: IndexArray, rows: Any, rng: np.random.RandomState) -> Point | None:
    """Begin with a crowd of atoms, of which most leave; None where that fails.

    Growth from nothing stops where no single atom gains. Classes often need two that pull against
    each other, of which each alone is worth nothing.
    """
    atoms = sample
    if atoms.size > _CROWD:
        atoms = np.sort(rng.choice(atoms, _CROWD, replace=False))
    part = Part(fit.latent, atoms)
    few = part.data if rows is None else part.data.take(rows)
    norm = expand(few, fit.hyperprior, NOTHING).quad.norm
    present = np.flatnonzero(norm)
    if not present.size:
        return None
    # Norms are weighted by the curvature, which for classes is a quarter at most.
    v = _STRENGTH * few.n_rows / (4 * present.size * norm[present] ** 2)
    try:
        return part.outside(settle(fit, few, Point(present, v), _ROUGH))
    except Breakdown:
        return None


def _slid(
    fit: Fit, point: Point, rng: np.random.RandomState, most: int | None = None
) -> Expanded | None:
    """Slide pairs of atoms to where they serve better, one expansion after the other.

    Nothing depends on it: at a breakdown the last good expansion is kept. None where there is none,
    or where more atoms than ``most`` want to be in the model.
    """
    latent, at = fit.latent, None
    with suppress(Breakdown):
        at = expand(latent, fit.hyperprior, point)
        for _ in range(_SLIDES):
            run = fit.held(at.problem)
            state = climb(run, at.state, UNIT_NOISE, _ROUGH, "slide")
            if most is not None and state.active.size > most:
                return None
            run.max_iter = fit.max_iter  # pairs stay near: they may go on
            state = slide_pairs(run, state, UNIT_NOISE, 0.1 * _ROUGH, rng)
            fit.iterations = run.iterations
            if state.objective <= at.state.objective + _MARGIN:
                break
            trial = expand(latent, fit.hyperprior, settle(fit, latent, at.moved(state), _ROUGH, at))
            gained = trial.state.objective - at.state.objective
            at = trial if gained > _MARGIN else at
            if gained < _WORTHWHILE:
                break
    return at


def _is_plain(fit: Fit) -> bool:
    """Whether there is one latent function, and no price on an atom."""
    return fit.latent.K == 1 and is_flat(fit.hyperprior)


def _some_atoms(fit: Fit, rng: np.random.RandomState) -> IndexArray:
    """Atoms drawn at random; where far more than rows, half that correlate best with the targets.

    Among kernels at the rows neighbors replace each other, and any sample will do.
    """
    n, m = fit.latent.n_rows, fit.latent.n_atoms
    if m <= 2 * SETTINGS.crowd:
        return np.arange(m)
    best = np.empty(0, dtype=np.intp)
    if m > _SURPLUS * n:
        quad = expand(fit.latent, fit.hyperprior, NOTHING).quad
        power = np.square(quad.g).reshape(m, quad.K).max(axis=1)
        best = np.argpartition(-power, SETTINGS.crowd // 2)[: SETTINGS.crowd // 2]
    rest = np.setdiff1d(np.arange(m), best)
    drawn = rng.choice(rest, SETTINGS.crowd - best.size, replace=False)
    return np.sort(np.concatenate([best, drawn]))


def exchanged(
    fit: Fit, latent: LatentData[Any], at: Expanded, thorough: bool = False
) -> Expanded | None:
    """Exchange atoms on one expansion; None unless that is better on its own.

    ``thorough``: try all ways of exchanging atoms of a large dictionary, too.
    """
    if latent.shared:  # the table of swaps knows atoms of one column only
        return None
    run = fit.run(at.problem)
    run.large = run.large and not thorough
    state = improved(run, at.state, UNIT_NOISE)
    fit.iterations = run.iterations
    if state.objective <= at.state.objective + _MARGIN:
        return None
    try:
        trial = converge(
            fit, latent, settle(fit, latent, at.moved(state), _ROUGH, at), _ROUGH, "exchange"
        )
    except Breakdown:
        return None
    return trial if trial.state.objective > at.state.objective + _MARGIN else None


def better(fit: Fit, one: Point, other: Point) -> Point:
    """The better of two points, each with what the whole dictionary adds to it.

    It is ``one`` where they cannot be compared.
    """
    try:
        first, second = (
            converge(fit, fit.latent, point, FINE, "restart", _LOOKS) for point in (one, other)
        )
    except Breakdown:
        return one
    return (first if first.state.objective >= second.state.objective else second).point
