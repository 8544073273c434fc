"""One regression on rows that need not fit in memory, from a source to a posterior.

Few atoms, or few rows: one pass gives all of G, and the rest is an ordinary fit. Else structure is
sought in a hundredth of the rows and in a tenth, and then rounds (`solvers.rounds`) on all rows
make it right; the certificate is of all rows always.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._conclusions import Regression, Start, Units, check_norms, conclude, in_units
from sparsebayes._journey import (
    ALL_ROWS,
    IN_ROUNDS,
    REFERENCE,
    ROUGH,
    SEED,
    STRUCTURE,
    TENTH,
    Journey,
    sampling,
)
from sparsebayes._row_views import RowViews
from sparsebayes._samples import hyperprior_in_units, unit_of_range
from sparsebayes._settings import resolve_prior
from sparsebayes._threads import one_blas_thread
from sparsebayes.checkpoints import Saved
from sparsebayes.core.quadratic import AnyQuadratic
from sparsebayes.core.stored import weighted_quadratic
from sparsebayes.core.sums import InCoordinates
from sparsebayes.design import make_design
from sparsebayes.dictionaries import Atoms
from sparsebayes.engine import State
from sparsebayes.fit.widths import hold_widths, is_pooled, sampled_block
from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.problem import Problem, Solution, Status, certify
from sparsebayes.rows.binding import bind_rows
from sparsebayes.rows.blocks import Chosen, Rows, weighted_rows
from sparsebayes.rows.gaussian import sample_means
from sparsebayes.rows.kept import kept
from sparsebayes.rows.quadratics import row_quadratic
from sparsebayes.rows.span import Span, find_span
from sparsebayes.rows.steps import Standardized
from sparsebayes.rows.summary import Gathered, Summary, gather, summarize
from sparsebayes.solvers import rounds
from sparsebayes.solvers.expand import Point
from sparsebayes.solvers.rounds import Ended, Exact, Screened, View

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
Solve = Callable[[Problem, Start | None], Solution]

__all__ = ["regress_rows"]

_FEW_ATOMS = 256  # whose Gram matrix costs no more than their values
_FEW_PRODUCTS = 2e11  # N M^2 up to which all of G takes seconds
# Where nothing is lost by a pass that is not resumed, it is faster than rounds up to so many atoms,
# and its optima are those of a fit in memory.
_ONE_PASS = 2304, 2.5e13  # atoms, and N M^2 for each core
_CONFIRMED = 1e-9  # differences of sums, for atoms and targets of unit norm, that do no harm


def regress_rows(
    rows: Rows,
    dictionary: Any,
    journey: Journey,
    *,
    fit_intercept: bool,
    prior: Any,
    noise_variance: float | None,
    noise_prior: Any,
    solver: str,
    solve: Solve,
    last: Regression | None,
    random_state: np.random.RandomState,
    tol: float,
    max_iter: int,
) -> tuple[Regression, Summary]:
    """Fit the targets of rows with the atoms of a dictionary.

    Parameters
    ----------
    rows : Rows
        Rows as given, checked when they are read.
    dictionary : Dictionary
        Candidate atoms.
    journey : Journey
        Memory, checkpoint, progress and interruption.
    fit_intercept : bool
        Whether to integrate out an intercept.
    prior : str, float or Hyperprior
        As in the estimators.
    noise_variance : float or None
        As in the estimators.
    noise_prior : None, pair of floats, InverseGamma or Gamma
        As in the estimators.
    solver : str
        As in the estimators.
    solve : callable
        Takes a problem and where to start, or None; returns a solution.
    last : Regression or None
        An earlier fit to start from.
    random_state : RandomState
        For k-means centers.
    tol : float
        What the certificate is held to.
    max_iter : int
        Most Newton steps.

    Returns
    -------
    regression : Regression
        Posterior and solution.
    summary : Summary
        What a first look at the rows has found.
    """
    journey.watch.stage("first look")
    summary = summarize(rows)
    assert summary.targets is not None
    known = summary.targets
    shift, scale, constant = unit_of_range(known.low, known.high, known.mean, fit_intercept)
    units = in_units(shift, scale, bool(constant.all()), noise_variance, noise_prior)
    journey.watch.scale = units.scale
    if is_pooled(dictionary):
        some = rows.fold(sampled_block)
        explained = units.explained(constant, fit_intercept)
        dictionary = hold_widths(dictionary, some, len(units.shift), explained)
    atoms = bind_rows(dictionary, rows, summary, random_state, journey.budget.centers_bytes)
    saved = journey.resume(summary, atoms)
    fit = _Fit(
        rows.mapped(Standardized(units.shift, units.scale, constant)),
        atoms,
        dictionary,
        fit_intercept,
        prior,
        units,
        summary,
        journey,
    )
    with one_blas_thread():
        fit.seek_span()
        drawn = random_state.get_state()
        while True:
            if fit.is_dense(solver):
                fit.run_dense(solve, last)
            else:
                fit.run(solve, last, saved, tol, max_iter)
            if fit.is_confirmed():
                break
            fit.span, saved = None, None
            random_state.set_state(drawn)  # of the solver: the same search again
    solution, view, quad = fit.good
    found = conclude(
        solution,
        quad,
        atoms.restrict(view.atoms),
        units,
        view.problem.hyperprior,
        summary.n_targets == 0,
    )
    state = solution.state
    whole = replace(solution, state=replace(state, active=view.atoms[state.active]))
    return replace(found, solution=whole, size=atoms.size), summary


@dataclass
class _Fit:
    """One fit: rows, atoms, and the best that is known about them."""

    rows: Rows  # with targets in their unit
    atoms: Atoms
    dictionary: Any
    center: bool
    prior: Any
    units: Units
    summary: Summary
    journey: Journey
    span: Span | None = None
    _good: tuple[Solution, View, AnyQuadratic] | None = None
    _sample: Gathered | None = None
    _spent: int = 0  # iterations of stages that have ended

    @property
    def good(self) -> tuple[Solution, View, AnyQuadratic]:
        """The last good model, and what it is of."""
        assert self._good is not None
        return self._good

    def seek_span(self) -> None:
        """Look for few atoms that all others are sums of, where that may pay."""
        if self.journey.seeks_span(self.summary.n, self.atoms.size):
            self.span = find_span(self.atoms, self.sample.X, self.center)

    def is_confirmed(self) -> bool:
        """Whether sums of the active atoms are those that were found by way of a few others."""
        solution, view, quad = self.good
        if not isinstance(quad.products, InCoordinates):
            return True
        active = np.unique(_state(solution).active)
        if not active.size or solution.status is Status.INTERRUPTED:
            return True
        true = self.quadratic(self.rows, view.atoms[active], np.arange(active.size), direct=True)
        G, few = quad.gram(active).G, true.gram(np.arange(active.size))
        wrong = np.abs(quad.norm[active] / true.norm - 1.0).max()
        wrong = max(wrong, np.abs(G - few.G).max(), np.abs(quad.g[active] - few.g).max())
        return bool(wrong <= _CONFIRMED)

    def is_dense(self, solver: str) -> bool:
        """Whether all of G is computed in one pass."""
        M, budget = self.atoms.size, self.journey.budget
        holds = budget.holds_gram(M)
        if solver not in IN_ROUNDS:
            if not holds:
                raise ValueError(
                    f"solver={solver!r} needs the Gram matrix of all {M} atoms, which does not fit "
                    f"into memory={budget.memory}: use solver='auto', or allow more memory."
                )
            return True
        size = M if self.span is None else self.span.rank
        products = self.summary.n * size**2
        most, each = _ONE_PASS
        if not self.journey.lasting and size <= most and products <= each * self.rows.cores:
            return holds
        return holds and (size <= _FEW_ATOMS or products <= _FEW_PRODUCTS)

    def hyperprior(self, count: int) -> Hyperprior:
        """Prior of the variances where there are so many atoms to choose from."""
        found = resolve_prior(self.prior, self.dictionary, self.summary.weight, count)
        return hyperprior_in_units(found, self.units.scale)

    def reference(self, indices: IndexArray) -> FloatArray:
        """About where the means of atoms are."""
        if not self.center:
            return np.zeros(indices.size)
        return sample_means(self.atoms.restrict(indices), self.sample.X)

    @property
    def sample(self) -> Gathered:
        """A few rows."""
        if self._sample is None:
            self._sample = gather(self.rows, min(1.0, REFERENCE / self.summary.n), SEED)
        return self._sample

    def quadratic(
        self, rows: Rows, indices: IndexArray, prefetch: IndexArray, direct: bool = False
    ) -> AnyQuadratic:
        """The quadratic of some atoms on some rows; ``direct``: by way of no others."""
        span = None if self.span is None or direct else self.span.restrict(indices)
        quad = row_quadratic(
            rows,
            self.atoms.restrict(indices) if indices.size < self.atoms.size else self.atoms,
            self.center,
            self.units.before,
            self.reference(indices) if span is None else None,
            prefetch,
            span,
        )
        check_norms(quad)
        return quad

    def view(self, quad: AnyQuadratic, indices: IndexArray, count: int | None = None) -> View:
        """The problem of some atoms."""
        known = int(np.count_nonzero(quad.diag)) if count is None else count
        problem = Problem(quad, self.hyperprior(known), self.units.noise_var)
        return View(problem, indices, quad.norm)

    def run_dense(self, solve: Solve, last: Regression | None) -> None:
        """One pass, and an ordinary fit."""
        self.journey.watch.stage(ALL_ROWS)
        everything = np.arange(self.atoms.size)
        quad = self.quadratic(self.rows, everything, everything)
        view = self.view(quad, everything)
        start = None if last is None else last.start(quad, self.units.scale)
        solution = solve(view.problem, start)
        self._good = solution, view, quad

    def run(
        self, solve: Solve, last: Regression | None, saved: Saved | None, tol: float, max_iter: int
    ) -> None:
        """Structure in a hundredth of the rows, a tenth of them, and all."""
        try:
            self._stages(solve, last, saved, tol, max_iter)
        except KeyboardInterrupt:
            if not self.journey.returns or self._good is None:
                raise
            solution, view, quad = self._good
            stopped = replace(solution, status=Status.INTERRUPTED, converged=False)
            self._good = stopped, view, quad

    def _stages(
        self, solve: Solve, last: Regression | None, saved: Saved | None, tol: float, max_iter: int
    ) -> None:
        known, budget = self.summary, self.journey.budget
        plan = sampling(known.n_used, self.atoms.size, budget, known.width)
        stage, turn, subset = STRUCTURE, 0, 0
        near: IndexArray | None = np.empty(0, dtype=np.intp)
        place = self._warm(last)
        if saved is not None:
            place = Point(saved.arrays["active"], saved.arrays["v"], saved.numbers["noise_var"])
            stage, turn, subset = saved.stage, saved.turn, int(saved.numbers["subset"])
            near = saved.arrays.get("near")  # it is there where the stage was yet to begin
        elif place is not None:
            stage = ALL_ROWS
        else:
            place, near = self._structure(solve, plan.structure, plan.atoms)
            stage = TENTH if plan.tenth is not None else ALL_ROWS
        if stage == TENTH:
            rough = max(tol, ROUGH)
            ended = self._rounds(
                stage, plan.tenth or 1.0, place, near, rough, max_iter, turn, subset
            )
            place, near = ended.last.point, ended.near
            turn, subset = 0, 0
            del ended  # and with it the rows in memory
        self._rounds(ALL_ROWS, 1.0, place, near, tol, max_iter, turn, subset)

    def _warm(self, last: Regression | None) -> Point | None:
        """Where an earlier fit ended, in the unit of these targets."""
        if last is None or last.size != self.atoms.size or not last.solution.state.active.size:
            return None
        ratio, state = last.posterior.scale / self.units.scale, last.solution.state
        if not 1e-3 < ratio < 1e3 or not isinstance(state, State):
            return None
        order = np.argsort(self.atoms.index[state.active], kind="stable")  # that of a posterior
        v = last.posterior.prior_variance / last.posterior.norm**2
        return Point(state.active[order], v * ratio**2, state.noise_var * ratio**2)

    def _structure(
        self, solve: Solve, fraction: float, indices: IndexArray
    ) -> tuple[Point, IndexArray]:
        """An ordinary fit of some rows and atoms, in memory."""
        self.journey.watch.stage(STRUCTURE)
        X, t, weights = gather(self._chosen(fraction))
        atoms = self.atoms.restrict(indices)
        design = make_design(atoms, X, self.journey.budget.memory)
        quad = weighted_quadratic(design, t, weights, self.center, self.units.before)
        view = self.view(quad, indices)
        solution = solve(view.problem, None)
        self._good = solution, view, quad
        self._spent = solution.n_iter
        state = _state(solution)
        _, statistics = certify(view.problem, state, solution.noise)
        most = self.journey.budget.gram_size
        close = rounds.nearest(view.problem, state, statistics, most, rounds.NEAR)
        place = view.point(state)
        if solution.status in (Status.COLLAPSED, Status.NOISE_FLOOR):
            place = Point(place.active[:0], place.v[:0], view.problem.noise().var)
        return place, indices[close]

    def _chosen(self, fraction: float) -> Rows:
        """A fraction of the rows of positive weight."""
        return self.rows.mapped(Chosen(fraction, SEED)).mapped(weighted_rows)

    def _some(self, fraction: float) -> Rows:
        """Some of the rows; in memory, if they are few enough."""
        if fraction >= 1:
            self.rows.meter.length = self.summary.n
            return self.rows
        some = self._chosen(fraction)
        columns = self.rows.n_features + len(self.units.shift)
        few = fraction * self.summary.n_used <= self.journey.budget.rows_kept(columns)
        return kept(some, self.journey.budget) if few else some

    def _keep(
        self, stage: str, turn: int, subset: int, place: Point, more: dict[str, IndexArray]
    ) -> None:
        numbers = {"noise_var": place.noise_var, "subset": float(subset)}
        arrays = {"active": place.active, "v": place.v, **more}
        self.journey.keep(stage, turn, numbers, arrays)

    def _rounds(
        self,
        stage: str,
        fraction: float,
        place: Point,
        near: IndexArray | None,
        tol: float,
        max_iter: int,
        turn: int,
        subset: int,
    ) -> Ended:
        watch = self.journey.watch
        watch.stage(stage)
        if near is not None:
            self._keep(stage, turn, subset, place, {"near": near})
        views = RowViews(self, self._some(fraction))

        def keep(screened: Screened) -> None:
            here = screened.point
            self._keep(stage, screened.turn, screened.subset, here, {})
            noise = screened.problem.noise()._replace(var=here.noise_var)
            found, certificate = screened.state, screened.certificate
            status, turns = Status.INTERRUPTED, screened.turn
            interrupted = Solution(found, noise, status, certificate, False, turns)
            self._good = interrupted, screened.at, views.quad

        ended = rounds.solve(
            Exact(views, max_iter),
            place,
            tol=tol,
            near=near,
            turn=turn,
            subset=subset,
            report=watch.screened,
            keep=keep,
        )
        certificate = replace(ended.solution.certificate, fraction=views.screened / self.atoms.size)
        self._spent += ended.solution.n_iter
        solution = replace(ended.solution, certificate=certificate, n_iter=self._spent)
        self._good = solution, ended.last.at, views.quad
        return replace(ended, solution=solution)


def _state(solution: Solution) -> State:
    assert isinstance(solution.state, State)
    return solution.state
