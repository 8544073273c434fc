"""One fit of latent functions, from checked arrays to a posterior in the units of its user."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._counting import is_kernel_machine, is_pairwise, recount, sits_on_rows
from sparsebayes._samples import gather
from sparsebayes._settings import resolve_prior
from sparsebayes._threads import one_blas_thread
from sparsebayes.core.quadratic import AnyQuadratic, members
from sparsebayes.design import Design, make_design
from sparsebayes.dictionaries import Atoms, Tunable
from sparsebayes.engine import State, inverse_factor
from sparsebayes.fit.learned_kernels import LatentModel, fit_kernels
from sparsebayes.fit.widths import Targets, hold_widths, is_pooled, learns, sampled, samples_of
from sparsebayes.laplace import Latent
from sparsebayes.latent_posterior import LatentPosterior
from sparsebayes.likelihoods import Likelihood, totals_of
from sparsebayes.problem import Solution
from sparsebayes.solvers.expand import LatentProblem, Point

FloatArray = NDArray[np.float64]
Solve = Callable[[LatentProblem, Point | None], Solution]

__all__ = [
    "Inference",
    "candidates",
    "count_norms",
    "first_step",
    "infer",
    "learning_prior",
    "posterior_of",
]

_SMALLEST_NORM, _LARGEST_NORM = 1e-140, 1e150  # whose squares are not yet lost


@dataclass(frozen=True)
class Inference:
    """What a fit leaves: nothing in it is as long as the data or the dictionary."""

    posterior: LatentPosterior
    solution: Solution
    log_evidence: float
    size: int  # atoms there were to choose from, times latent functions
    point: Point  # where it ended, for a warm start
    theta: FloatArray  # parameters of kernels that were learned

    def start(self, size: int) -> Point | None:
        """Where a new fit may start; None where the dictionary is another one."""
        return self.point if self.size == size and self.point.active.size else None


def infer(
    X: Any,
    t: FloatArray,
    weights: FloatArray | None,
    dictionary: Any,
    *,
    likelihood: Likelihood,
    shared: bool,
    fit_intercept: bool,
    prior: Any,
    solve: Solve,
    last: Inference | None,
    random_state: np.random.RandomState,
    tol: float = 1e-6,
) -> Inference:
    """Fit the latent functions of a likelihood with the atoms of a dictionary.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (N, d)
        Inputs.
    t : ndarray of shape (N,)
        Targets as ``likelihood.check`` gives them.
    weights : ndarray of shape (N,) or None
        Weight of each row, as `checked_weights` gives them.
    dictionary : Dictionary
        Candidate atoms.
    likelihood : Likelihood
        Likelihood of the targets.
    shared : bool
        Whether latent functions share the variance of each atom.
    fit_intercept : bool
        Whether each latent function has an intercept.
    prior : str, float or Hyperprior
        As in the estimators.
    solve : callable
        Takes a problem and where to start, or None; returns a solution.
    last : Inference or None
        An earlier fit to start from.
    random_state : RandomState
        For k-means centers.
    tol : float, default=1e-6
        What the certificate is held to; ``solve`` knows it too.

    Returns
    -------
    Inference
        Posterior and solution.
    """
    n = int(X.shape[0])
    kind = {"pairwise": is_pairwise(dictionary), "ordered": sits_on_rows(dictionary)}
    samples = gather(X, t[:, None], weights, **kind)
    X, weights = samples.X, samples.weights
    explained = first_step(likelihood, fit_intercept)
    if is_pooled(dictionary):
        dictionary = hold_widths(dictionary, sampled(X, samples.y, weights), 1, explained)
    atoms = dictionary.bind(X, sample_weight=weights, random_state=random_state)
    K = likelihood.n_latent

    def latent_of(atoms: Atoms) -> Latent:
        design = make_design(atoms, X)
        return Latent(design, samples.y[:, 0], weights, likelihood, fit_intercept, shared)

    with one_blas_thread():
        latent = latent_of(atoms)
        count = candidates(latent.design, dictionary, weights, fit_intercept)
        prior = learning_prior(prior, atoms)
        hyperprior = resolve_prior(prior, dictionary, samples.total, count * (1 if shared else K))
        start = None if last is None else last.start(atoms.size * K)
        if learns(atoms):
            model = LatentModel(X, hyperprior, latent_of, solve)
            del latent  # its design is as large as those with other parameters
            some, values, shares = samples_of(sampled(X, samples.y, weights), 1)
            targets = explained(values, shares)
            theta = None if last is None else last.theta
            atoms, fit, solution = fit_kernels(model, atoms, some, targets, tol, start, theta)
            quad = fit.quad
        else:
            found = solve(LatentProblem(latent, hyperprior), start)
            solution, quad = replace(found, quad=None), found.quad
    counted = atoms if samples.rows is None else recount(dictionary, atoms, samples.rows, n)
    state = solution.state
    assert isinstance(state, State)  # orthonormal atoms have a closed form for Gaussian noise only
    norm = quad.norm[state.active * quad.group]
    return Inference(
        posterior_of(state, quad, counted, totals_of(likelihood, samples.y[:, 0], weights)),
        solution,
        solution.log_evidence,
        atoms.size * K,
        Point(state.active, state.v / norm**2),
        atoms.theta if isinstance(atoms, Tunable) else np.empty(0),
    )


def first_step(
    likelihood: Likelihood, fit_intercept: bool
) -> Callable[[FloatArray, FloatArray | None], Targets]:
    """What widths are to explain: the first Newton step from zero, for each latent function.

    From the best constant, a class that a sample lacks would have no end. Of classes these are
    least squares of their indicators.
    """

    def explained(t: FloatArray, weights: FloatArray | None) -> Targets:
        _, slope, curvature = likelihood.expand(t[:, 0], np.zeros((len(t), likelihood.n_latent)))
        step = slope / np.maximum(np.einsum("nkk->nk", curvature), _SMALLEST_NORM)
        unit = float(np.abs(step).max(initial=0.0))
        return Targets(step / unit if unit > 0 else step, weights, fit_intercept, None)

    return explained


def learning_prior(prior: Any, atoms: Atoms) -> Any:
    """What "auto" is where kernels are learned: a price of one nat for a degree of freedom.

    Laplace's evidence of variances that are all fitted rises with their number, and narrow kernels
    have more of them: under a flat prior the widths of classes shrink to those of single samples.
    """
    named = isinstance(prior, str) and prior == "auto"
    return "aic" if named and learns(atoms) else prior


def candidates(design: Design, dictionary: Any, weights: FloatArray | None, center: bool) -> int:
    """Number of atoms that are not constant; all of them count in a kernel machine."""
    kernels = is_kernel_machine(dictionary)
    count = count_norms(design.moments(weights, center).norm, kernels)
    return design.shape[1] if kernels else count


def count_norms(norms: FloatArray, kernels: bool = False) -> int:
    """Number of atoms that are not constant.

    Parameters
    ----------
    norms : ndarray of shape (M,)
        Norms of the atoms; zero where they are constant.
    kernels : bool, default=False
        Whether they are those of a kernel machine, some of which may be far from all data.

    Returns
    -------
    int
        How many; an error where squares of their values leave the range of float64.
    """
    present = norms[norms != 0]
    if present.size:
        least = present.max() if kernels else present.min()  # one that is near some data will do
        if not (least >= _SMALLEST_NORM and present.max() <= _LARGEST_NORM):
            raise ValueError(
                "the atoms have values whose squares leave the range of float64: give X in other "
                "units."
            )
    return int(present.size)


def posterior_of(
    state: State, quad: AnyQuadratic, atoms: Atoms, totals: FloatArray | None
) -> LatentPosterior:
    """Keep the active columns, in the order of latent functions and then of the dictionary.

    Parameters
    ----------
    state : State
        Active columns.
    quad : AnyQuadratic
        What they are columns of.
    atoms : Atoms
        All its atoms.
    totals : ndarray or None
        Weights of the classes or of all events, as `likelihoods.totals_of` gives them.

    Returns
    -------
    LatentPosterior
        What a fitted estimator keeps.
    """
    group = quad.group
    columns = members(state.active, group)
    v = np.repeat(state.v, group)
    a, k = quad.atom(columns), quad.latent(columns)
    order = np.lexsort((atoms.index[a], k))
    root = np.zeros((0, 0))
    if columns.size:
        root = np.sqrt(v)[:, None] * inverse_factor(state.white).T
    distinct = np.unique(a)
    distinct = distinct[np.argsort(atoms.index[distinct], kind="stable")]
    place = np.empty(atoms.size, dtype=np.intp)
    place[distinct] = np.arange(distinct.size)
    return LatentPosterior(
        atoms=atoms.restrict(distinct),
        atom=place[a][order],
        latent=k[order],
        norm=quad.norm[columns][order],
        center=quad.centers(columns)[order],
        mean=state.mu[order, 0],
        root=root[order],
        prior_variance=v[order],
        offset=quad.offset,
        offset_root=quad.intercepts.trusted_root(totals),
    )
