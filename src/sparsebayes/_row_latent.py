"""One fit of latent functions on rows that need not fit in memory, from rows to a posterior.

Structure is sought in a hundredth of the rows, in memory, and in a tenth; then rounds
(`solvers.rounds`) on all rows make it right. The certificate is of all rows always.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes._counting import is_kernel_machine
from sparsebayes._journey import (
    ALL_ROWS,
    IN_ROUNDS,
    REFERENCE,
    ROUGH,
    SEED,
    STRUCTURE,
    TENTH,
    Journey,
    Sampling,
    sampling,
)
from sparsebayes._latent import Inference, count_norms, first_step, posterior_of
from sparsebayes._settings import resolve_prior
from sparsebayes._threads import one_blas_thread
from sparsebayes.checkpoints import Saved
from sparsebayes.core.quadratic import AnyQuadratic
from sparsebayes.core.sums import Rooted
from sparsebayes.dictionaries import Atoms
from sparsebayes.engine import State
from sparsebayes.fit.widths import hold_widths, is_pooled, sampled_block
from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.laplace import Start
from sparsebayes.likelihoods import Likelihood
from sparsebayes.problem import Problem, Solution, Status, certify
from sparsebayes.rows.binding import bind_rows
from sparsebayes.rows.blocks import Chosen, Rows
from sparsebayes.rows.gaussian import Sizes, norms_of, sample_means
from sparsebayes.rows.kept import kept, sampled, transformed
from sparsebayes.rows.kinds import ByKind, by_kind
from sparsebayes.rows.latent import RowLatent
from sparsebayes.rows.local import LocalRows
from sparsebayes.rows.span import find_span
from sparsebayes.rows.summary import Summary, gather
from sparsebayes.solvers import rounds
from sparsebayes.solvers.expand import NOTHING, UNIT_NOISE, Expanded, LatentProblem, Part, Point
from sparsebayes.solvers.rounds import Following, Resembled, Screened

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
Solve = Callable[[LatentProblem, Point | None], Solution]

__all__ = ["infer_rows"]

_NONE = np.empty(0, dtype=np.intp)
_TOLD = 4000  # most rows at which coordinates are made orthonormal
_SAMPLE = 20_000  # rows that stand for all around a mode,
_MANY = 4  # where there are so many times more


def infer_rows(
    rows: Rows,
    summary: Summary,
    dictionary: Any,
    journey: Journey,
    *,
    likelihood: Likelihood,
    shared: bool,
    counts: FloatArray | None,
    totals: FloatArray | None,
    fit_intercept: bool,
    prior: Any,
    solver: str,
    solve: Solve,
    last: Inference | None,
    random_state: np.random.RandomState,
    tol: float,
    max_iter: int,
) -> Inference:
    """Fit the latent functions of a likelihood with the atoms of a dictionary.

    Parameters
    ----------
    rows : Rows
        Rows with targets as the likelihood takes them, and their final weights.
    summary : Summary
        What a first look at these rows has found.
    dictionary : Dictionary
        Candidate atoms.
    journey : Journey
        Memory, checkpoint, progress and interruption.
    likelihood : Likelihood
        Likelihood of the targets.
    shared : bool
        Whether latent functions share the variance of each atom.
    counts : ndarray of shape (classes,) or None
        Rows of positive weight of each class, where targets are classes.
    totals : ndarray or None
        Weights of the classes or of all events, as `likelihoods.totals_of` gives them.
    fit_intercept : bool
        Whether each latent function has an intercept.
    prior : str, float or Hyperprior
        As in the estimators.
    solver : str
        As in the estimators.
    solve : callable
        Takes data in memory, a hyperprior and where to start, or None; returns solution and
        quadratic.
    last : Inference or None
        An earlier fit to start from.
    random_state : RandomState
        For k-means centers.
    tol : float
        What the certificate is held to.
    max_iter : int
        Most Newton steps on the variances.

    Returns
    -------
    Inference
        Posterior and solution.
    """
    if is_pooled(dictionary):
        some = rows.fold(sampled_block)
        dictionary = hold_widths(dictionary, some, 1, first_step(likelihood, fit_intercept))
    atoms = bind_rows(dictionary, rows, summary, random_state, journey.budget.centers_bytes)
    saved = journey.resume(summary, atoms)
    plan = sampling(summary.n_used, atoms.size, journey.budget, summary.width)
    if solver not in IN_ROUNDS and (plan.structure < 1 or plan.atoms.size < atoms.size):
        raise ValueError(
            f"solver={solver!r} looks at all rows and atoms at every step, which takes them in "
            "memory: use solver='auto' for so many."
        )
    start = None if last is None else last.start(atoms.size * likelihood.n_latent)
    with one_blas_thread():
        fit = _Fit(rows, atoms, likelihood, fit_intercept, shared, counts, summary, journey)
        fit.prepare(prior, dictionary)
        found = fit.run(plan, solve, start, saved, tol, max_iter)
    state = found.solution.state
    assert isinstance(state, State)
    posterior = posterior_of(state, found.quad, atoms.restrict(found.atoms), totals)
    whole = replace(found.solution, state=replace(state, active=found.point.active))
    evidence = found.solution.log_evidence
    size = atoms.size * likelihood.n_latent
    return Inference(posterior, whole, evidence, size, found.point._replace(starts=()), np.empty(0))


class _Good(NamedTuple):
    """A model, and what it is of."""

    solution: Solution  # its state counts the atoms of the quadratic
    quad: AnyQuadratic
    atoms: IndexArray  # which these are, ascending
    point: Point  # where all atoms are counted, in the order of the state


class _Fit:
    """One fit: rows, atoms, and the best that is known about them."""

    hyperprior: Hyperprior

    def __init__(
        self,
        rows: Rows,
        atoms: Atoms,
        likelihood: Likelihood,
        center: bool,
        shared: bool,
        counts: FloatArray | None,
        summary: Summary,
        journey: Journey,
    ) -> None:
        self.counts, self.journey, self.n = counts, journey, summary.n_used
        self.weight, self.total = summary.weight, summary.n
        reference, span = np.zeros(atoms.size), None
        seeks = journey.seeks_span(summary.n, atoms.size)
        if center or seeks:
            room = journey.budget.rows_kept(rows.n_features)
            wanted = max(REFERENCE, min(2 * atoms.size, _TOLD, room) if seeks else 0)
            X, _, _ = gather(rows, min(1.0, wanted / summary.n), SEED)
            reference = sample_means(atoms, X)
            span = find_span(atoms, X, center) if seeks else None
            held = journey.budget.holds_gram
            if span is not None and shared and not held(span.rank * likelihood.n_latent):
                span = None
            if span is not None:
                reference, span = span.means, span.turned(X)
        self.latent = RowLatent(
            rows, atoms, likelihood, center, shared, reference, self.n, counts, span
        )
        self.per_atom = 1 if shared else likelihood.n_latent
        self._good: _Good | None = None

    def prepare(self, prior: Any, dictionary: Any) -> None:
        """Resolve the prior, which may depend on how many atoms there are to choose from."""
        count = self.latent.n_atoms
        if not is_kernel_machine(dictionary):
            count = sum(self._candidates(part) for part in self._subsets())
        self.hyperprior = resolve_prior(prior, dictionary, self.weight, count * self.per_atom)

    def _subsets(self) -> list[IndexArray]:
        return self.journey.subsets(self.latent.n_atoms, self.latent.K)

    def _candidates(self, indices: IndexArray) -> int:
        """Number of atoms that are not constant; one pass over the rows."""
        few = self.latent.restrict(indices)
        sums = few.rows.fold(Sizes(few.atoms, few.reference))
        _, norm, lost = norms_of(sums, few.reference, few.center)
        return count_norms(norm + lost)

    def run(
        self,
        plan: Sampling,
        solve: Solve,
        start: Point | None,
        saved: Saved | None,
        tol: float,
        max_iter: int,
    ) -> _Good:
        """Structure in a hundredth of the rows, a tenth of them, and all."""
        try:
            return self._stages(plan, solve, start, saved, tol, max_iter)
        except KeyboardInterrupt:
            if not self.journey.returns or self._good is None:
                raise
            solution = replace(self._good.solution, status=Status.INTERRUPTED, converged=False)
            return self._good._replace(solution=solution)

    def _stages(
        self,
        plan: Sampling,
        solve: Solve,
        start: Point | None,
        saved: Saved | None,
        tol: float,
        max_iter: int,
    ) -> _Good:
        stage, turn, subset = ALL_ROWS, 0, 0
        near: IndexArray | None = _NONE
        point = NOTHING if start is None else start
        if saved is not None:
            found = saved.arrays
            begin = Start(found["columns"], found["w"], found["c"])
            point = Point(found["active"], found["v"], starts=(begin,))
            stage, subset, near = saved.stage, int(saved.numbers["subset"]), None
            turn = max(saved.turn - 1, 0)  # its last screen is made again
        elif start is None:
            point, near = self._structure(solve, plan.structure, plan.atoms)
            stage = TENTH if plan.tenth is not None else ALL_ROWS
            if plan.structure >= 1:
                near = None  # it has converged on all rows
        if stage == TENTH and plan.tenth is not None:
            rough = max(tol, ROUGH)
            point, near = self._rounds(
                stage, plan.tenth, point, near, rough, max_iter, turn, subset
            )
            turn, subset = 0, 0
        self._rounds(ALL_ROWS, 1.0, point, near, tol, max_iter, turn, subset)
        assert self._good is not None
        return self._good

    def _some(self, fraction: float) -> Chosen | ByKind:
        """A step that keeps a fraction of the rows."""
        if self.counts is None or fraction >= 1:
            return Chosen(fraction, SEED)
        return by_kind(self.counts, fraction * self.n, SEED)

    def _structure(
        self, solve: Solve, fraction: float, indices: IndexArray
    ) -> tuple[Point, IndexArray]:
        """An ordinary fit of some rows and atoms, in memory."""
        self.journey.watch.stage(STRUCTURE)
        latent = self.latent.restrict(indices).take(
            self._some(fraction), self.journey.budget.memory
        )
        # Kernels are not counted before; of all others this was checked on all rows.
        count_norms(latent.design.moments(latent.weights, latent.center).norm, kernels=True)
        found = solve(LatentProblem(latent, self.hyperprior), None)
        solution, quad, state = replace(found, quad=None), found.quad, found.state
        assert isinstance(state, State)
        v = state.v / quad.norm[state.active * quad.group] ** 2
        point = Part(self.latent, indices).outside(Point(state.active, v))
        self._good = _Good(solution, quad, indices, point)
        problem = Problem(quad, self.hyperprior, 1.0)
        _, statistics = certify(problem, state, UNIT_NOISE)
        return point, indices[rounds.closest(problem, state, statistics, latent.K)]

    def _resembled(self, latent: RowLatent, within: Chosen | ByKind | None) -> Resembled | None:
        """What makes a sample of many rows stand for all of them around a mode.

        ``within`` is the step by which they are drawn whenever they are read, if they are.
        """
        budget, at = self.journey.budget, latent.coordinates()
        width = latent.rows.n_features + (0 if at is None else at.size)
        if latent.n_rows < _MANY * _SAMPLE or budget.rows_kept(width + 1) < _SAMPLE:
            return None
        rows, some = latent.rows, self._some(_SAMPLE / latent.n_rows)
        if within is not None:  # a second draw would depend on how they are divided into blocks
            rows, some = self.latent.rows, self._some(_SAMPLE / self.n)
        drawn: list[LocalRows] = []  # themselves, and their coordinates

        def resembled(here: Expanded, atoms: IndexArray) -> RowLatent | None:
            if not drawn:
                drawn.append(sampled(rows, some, budget, within))
            if not isinstance(here.quad.products, Rooted):
                return latent.resembled(here.quad, atoms, drawn[0])
            if len(drawn) == 1:
                assert at is not None
                drawn.append(transformed(drawn[0], at.atoms, at.reference, budget))
            return latent.resembled(here.quad, atoms, drawn[1])

        return resembled

    def _rounds(
        self,
        stage: str,
        fraction: float,
        point: Point,
        near: IndexArray | None,
        tol: float,
        max_iter: int,
        turn: int,
        subset: int,
    ) -> tuple[Point, IndexArray]:
        """Converge on a fraction of the rows: what is good, and what is closest to entering."""
        watch, latent, within = self.journey.watch, self.latent, None
        watch.stage(stage)
        if fraction < 1:
            n, some = int(fraction * self.n), self._some(fraction)
            rows: Rows = latent.rows.mapped(some)
            if n <= self.journey.budget.rows_kept(rows.n_features + 1):
                rows = kept(rows, self.journey.budget)
            else:
                within = some
            latent = replace(latent, rows=rows, n_rows=n)
        else:
            latent.rows.meter.length = self.total
        subsets, resembled = self._subsets(), self._resembled(latent, within)
        if resembled is not None and latent.span is not None:
            near = None  # a screen costs no more than a look at few atoms

        def keep(screened: Screened) -> None:
            here = screened.point
            (found,) = here.starts
            arrays = {"active": here.active, "v": here.v}
            arrays |= {"columns": found.columns, "w": found.w, "c": found.c}
            self.journey.keep(stage, screened.turn, {"subset": float(screened.subset)}, arrays)
            state, certificate = screened.state, screened.certificate
            status, turns = Status.INTERRUPTED, screened.turn
            stopped = Solution(state, UNIT_NOISE, status, certificate, False, turns)
            self._good = _Good(stopped, screened.at.quad, screened.atoms, here)

        ended = rounds.solve(
            Following(latent, self.hyperprior, subsets, max_iter, resembled),
            point,
            tol=tol,
            near=near,
            turn=turn,
            subset=subset,
            report=watch.screened,
            keep=keep,
        )
        covered = sum(part.size for part in subsets) / latent.n_atoms
        certificate = replace(ended.solution.certificate, fraction=covered)
        solution, last = replace(ended.solution, certificate=certificate), ended.last
        self._good = _Good(solution, last.at.quad, last.atoms, last.point)
        return last.point, ended.near
