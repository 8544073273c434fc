"""The two ways to reconstruct: the default solver on a matrix, or products alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from sparsebayes._conclusions import Regression, Start
from sparsebayes._regression import regress
from sparsebayes._samples import noise_in_units, prior_in_units, standardized
from sparsebayes._sensing_forms import Matrix, Picks, Sensing
from sparsebayes._settings import resolve_noise_prior, resolve_prior
from sparsebayes._threads import one_blas_thread
from sparsebayes.core.stored import StoredQuadratic, weighted_quadratic
from sparsebayes.dictionaries import Operator
from sparsebayes.dictionaries._products import SomeRows, blocks, columns_of
from sparsebayes.dictionaries._protocol import Products
from sparsebayes.dictionaries.operators import OperatorAtoms, OperatorProducts
from sparsebayes.estimators._base import Reporter
from sparsebayes.implicit import Implicit, SampledState, matrix_of, shrunk
from sparsebayes.operator_design import OperatorDesign
from sparsebayes.problem import Problem, Solution
from sparsebayes.solvers import matrix_free, search

FloatArray = NDArray[np.float64]

__all__ = ["Measured", "Recovered", "Settings", "exactly", "implicitly"]

_DENSE = 2**20  # entries of a matrix that is formed though it has fast products
_STORED = 2**27  # entries of a matrix that is formed where it has none
_PROBES = 64  # random signs, for norms that nothing else tells
_DRAWS_AT_ONCE = 2**21  # entries of draws that are solved for together


class Settings(NamedTuple):
    """What a user may choose, checked."""

    prior: Any
    noise_variance: float | None
    noise_prior: Any
    tol: float | None
    max_iter: int | None
    n_draws: int
    random_state: Any
    verbose: int


class Spread(NamedTuple):
    """Posterior standard deviations."""

    coefficients: FloatArray  # (M,)
    signal: FloatArray  # (N,)


class Recovered(NamedTuple):
    """What is known of a signal, in its own units."""

    coefficients: FloatArray  # (M,)
    noise_variance: float
    log_evidence: float
    dof: float
    solution: Solution
    spread: Callable[[], Spread]


@dataclass(frozen=True, eq=False)
class Measured:
    """Atoms of a basis as they are measured: products with the n x M matrix, never formed.

    Parameters
    ----------
    sensing : Sensing
        Measures signals of N samples.
    basis : Products
        Atoms at all samples, N x M.
    """

    sensing: Sensing
    basis: Products

    @property
    def shape(self) -> tuple[int, int]:
        """Measurements and atoms."""
        return self.sensing.n_measurements, self.basis.shape[1]

    def synthesize(self, weights: FloatArray) -> FloatArray:
        """Measurements of sums of atoms: (k, M) to (k, n)."""
        signals = self.basis.synthesize(weights).reshape(len(weights), *self.sensing.shape)
        return np.ascontiguousarray(self.sensing.measure(signals))

    def analyze(self, rows: FloatArray) -> FloatArray:
        """Inner products with the atoms as measured: (k, n) to (k, M)."""
        return self.basis.analyze(self.sensing.adjoint(rows).reshape(len(rows), -1))

    def norms(self) -> FloatArray | None:
        """Norms of all atoms where samples are measured themselves; else None."""
        if not isinstance(self.sensing, Picks):
            return None
        return OperatorDesign(SomeRows(self.basis, self.sensing.places)).moments(None, False).norm

    def dense(self) -> FloatArray | None:
        """The matrix, where it is small or has no fast products; else None."""
        n, m = self.shape
        stored = isinstance(self.sensing, Matrix) and not _is_fast(self.sensing.products)
        stored |= not _is_fast(self.basis)
        if n * m > (_STORED if stored else _DENSE):
            return None
        matrix = np.empty((n, m))
        for part in blocks(n, max(m, self.basis.shape[0])):
            unit = np.zeros((part.stop - part.start, n))
            unit[np.arange(len(unit)), np.arange(part.start, part.stop)] = 1.0
            matrix[part] = self.analyze(unit)
        return matrix

    def operator(self) -> LinearOperator:
        """The same as SciPy has it."""
        return LinearOperator(
            self.shape,
            matvec=lambda w: self.synthesize(np.reshape(w, (1, -1)))[0],
            rmatvec=lambda r: self.analyze(np.reshape(r, (1, -1)))[0],
            matmat=lambda w: self.synthesize(np.ascontiguousarray(w.T)).T,
            rmatmat=lambda r: self.analyze(np.ascontiguousarray(r.T)).T,
            dtype=np.float64,
        )


@dataclass(frozen=True, eq=False)
class _Columns:
    """The atoms as they are measured, as a dictionary whose norms are taken at their word.

    An atom with next to nothing where samples are measured counts as one with nothing: a claim that
    `Operator` would not believe.
    """

    measured: Measured

    def bind(self, X: Any, *, sample_weight: Any = None, random_state: Any = None) -> OperatorAtoms:
        norms, m = self.measured.norms(), self.measured.shape[1]
        squares = None if norms is None else np.square(norms)
        return OperatorAtoms(self.measured.operator(), squares, np.arange(m, dtype=np.intp), m)


def _is_fast(products: Any) -> bool:
    return not (
        isinstance(products, OperatorProducts) and not isinstance(products.A, LinearOperator)
    )


def exactly(
    y: FloatArray, measured: Measured, settings: Settings, rng: Any, *, twice: bool = False
) -> Recovered:
    """Fit the measurements by the default solver, whose certificate is exact.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Measurements.
    measured : Measured
        Atoms as they are measured.
    settings : Settings
        Prior, noise and settings of the solver.
    rng : RandomState
        Source of randomness.
    twice : bool, default=False
        Whether to start a second time from what the matrix-free solver finds, and keep the better.

    Returns
    -------
    Recovered
        Coefficients and how sure they are.
    """
    matrix = measured.dense()
    dictionary = Operator(matrix) if matrix is not None else _Columns(measured)
    result = regress(
        np.arange(len(y), dtype=np.float64)[:, None],
        y[:, None],
        None,
        dictionary,
        single=True,
        fit_intercept=False,
        prior=settings.prior,
        noise_variance=settings.noise_variance,
        noise_prior=settings.noise_prior,
        solver="working-set",
        solve=partial(_solve_exactly, settings, rng, twice),
        last=None,
        random_state=rng,
    )
    posterior, state = result.posterior, result.solution.state
    coefficients = np.zeros(measured.shape[1])
    coefficients[posterior.atoms.index] = posterior.weights
    return Recovered(
        coefficients,
        posterior.noise_variance * posterior.scale**2,
        result.log_evidence,
        float(state.dof.sum()),
        result.solution,
        partial(_exact_spread, measured.basis, result),
    )


def _solve_exactly(
    settings: Settings,
    rng: np.random.RandomState,
    twice: bool,
    problem: Problem,
    start: Start | None,
) -> Solution:
    reporter = Reporter("reconstruct", settings.verbose, True) if settings.verbose else None
    solve = partial(
        search.solve,
        problem,
        tol=1e-6 if settings.tol is None else settings.tol,
        max_iter=10_000 if settings.max_iter is None else settings.max_iter,
        random_state=rng,
        report=reporter,
    )
    solution = solve(start=start)
    if twice:
        # Greedy growth and thresholding from above fail on different problems.
        other = matrix_free.solve(problem, random_state=rng).state
        if other.active.size:
            second = solve(start=(other.active, other.v, other.noise_var))
            # Evidence does not order models that collapse.
            solution = max(
                solution,
                second,
                key=lambda s: (not problem.is_collapsed(s.state), s.state.objective),
            )
    if reporter is not None:
        reporter.close(solution)
    return solution


def _exact_spread(basis: Products, result: Regression) -> Spread:
    """Posterior standard deviation of every coefficient and every sample."""
    posterior = result.posterior
    coefficients, variance = np.zeros(basis.shape[1]), np.zeros(basis.shape[0])
    root = posterior.root / posterior.norm[:, None] * posterior.scale  # (m, m)
    if len(root):
        index = posterior.atoms.index
        coefficients[index] = np.sqrt(np.einsum("ij,ij->i", root, root))
        atoms = columns_of(basis, index)  # (m, N)
        for part in blocks(atoms.shape[1], len(root)):
            half = atoms[:, part].T @ root
            variance[part] = np.einsum("ij,ij->i", half, half)
    return Spread(coefficients, np.sqrt(variance))


def implicitly(y: FloatArray, measured: Measured, settings: Settings, rng: Any) -> Recovered:
    """Fit the measurements with products alone.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Measurements.
    measured : Measured
        Atoms as they are measured.
    settings : Settings
        Prior, noise and settings of the solver.
    rng : RandomState
        Source of randomness.

    Returns
    -------
    Recovered
        Coefficients, and estimates of how sure they are.
    """
    t, _, scale = standardized(y[:, None], None, False)
    before = resolve_noise_prior(settings.noise_prior)
    typical = settings.noise_variance or (0.0 if before is None else before.h)
    if typical and not t.any():
        scale = float(typical) ** 0.5
    before = None if before is None else prior_in_units(before, scale, "the measurements")
    noise_var = None
    if settings.noise_variance is not None:
        noise_var = noise_in_units(settings.noise_variance, scale, "the measurements")
    with one_blas_thread():
        quad = weighted_quadratic(OperatorDesign(_normed(measured, rng)), t, None, False, before)
        hyperprior = resolve_prior(settings.prior, None, len(y), int((quad.diag > 0).sum()))
        reporter = Reporter("reconstruct", settings.verbose, True) if settings.verbose else None
        solution = matrix_free.solve(
            Problem(quad, hyperprior, noise_var),
            tol=1e-3 if settings.tol is None else settings.tol,
            max_iter=60 if settings.max_iter is None else settings.max_iter,
            random_state=rng,
            report=reporter,
        )
        if reporter is not None:
            reporter.close(solution)
    state = solution.state
    assert isinstance(state, SampledState)
    coefficients = np.zeros(quad.size)
    coefficients[state.active] = state.mu[:, 0] * (scale / quad.norm[state.active])
    of_noise, n_before = 0.0, 0.0
    if before is not None:
        of_noise, n_before = before.log_density(state.noise_var), before.observations(1).n
    evidence = state.log_evidence - of_noise - (quad.n - n_before) * math.log(scale)
    seed = int(rng.randint(2**31))
    return Recovered(
        coefficients,
        state.noise_var * scale**2,
        evidence,
        float(state.dof.sum()),
        solution,
        partial(_sampled_spread, measured.basis, quad, state, scale, settings.n_draws, seed),
    )


def _normed(measured: Measured, rng: np.random.RandomState) -> Products:
    """Products that know the norms of all atoms, without a look at every single one."""
    sensing, basis = measured.sensing, measured.basis
    if isinstance(sensing, Picks) and hasattr(basis, "squares"):
        return SomeRows(basis, sensing.places)
    return _Estimated(measured, rng)


@dataclass(frozen=True, eq=False)
class _Estimated:
    """Products whose norms are estimated by probes, where only all columns would tell them.

    Norms serve as units of the prior and as a preconditioner, and an error of a tenth matters to
    neither.
    """

    measured: Measured
    rng: np.random.RandomState

    @property
    def shape(self) -> tuple[int, int]:
        return self.measured.shape

    def synthesize(self, weights: FloatArray) -> FloatArray:
        return self.measured.synthesize(weights)

    def analyze(self, rows: FloatArray) -> FloatArray:
        return self.measured.analyze(rows)

    def squared_norms(self) -> None:
        """Not known: `squares` estimates them."""
        return

    def squares(self, rows: FloatArray) -> FloatArray:
        """Products of rows with the squares of all atoms, whose expectations these are."""
        n, m = self.shape
        total = np.zeros((len(rows), m))
        root = np.sqrt(rows)
        for part in blocks(_PROBES, max(n, m)):
            signs = self.rng.choice([-1.0, 1.0], size=(part.stop - part.start, n))
            for own, weights in zip(total, root, strict=True):
                found = self.analyze(signs * weights)
                own += np.einsum("kj,kj->j", found, found)
        return np.stack([shrunk(own / _PROBES, _PROBES) for own in total])


def _sampled_spread(
    basis: Products,
    quad: StoredQuadratic,
    state: SampledState,
    scale: float,
    n_draws: int,
    seed: int,
) -> Spread:
    """Root mean squares of draws from the posterior about its mean."""
    rng = np.random.RandomState(seed)
    size = quad.size
    posterior = Implicit(matrix_of(quad)[1], size, state.active, state.v, state.noise_var)
    squares, variance = np.zeros(size), np.zeros(basis.shape[0])
    at_once = max(1, min(n_draws, _DRAWS_AT_ONCE // max(size, 1)))
    unit = scale * np.sqrt(state.v) / quad.norm[state.active]
    with one_blas_thread():
        for start in range(0, n_draws, at_once):
            k = min(at_once, n_draws - start)
            draws = posterior.draw(rng, k, quad.products.design.shape[0])
            weights = np.zeros((k, size))
            weights[:, state.active] = draws.whitened * unit
            squares += np.einsum("kj,kj->j", weights, weights)
            signals = basis.synthesize(weights)
            variance += np.einsum("ki,ki->i", signals, signals)
    return Spread(np.sqrt(squares / n_draws), np.sqrt(variance / n_draws))
