"""One regression, from checked arrays to a posterior in the units of its user."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._conclusions import Regression, Start, check_norms, conclude, in_units
from sparsebayes._counting import is_pairwise, recount, sits_on_rows
from sparsebayes._samples import (
    copies,
    gather,
    hyperprior_in_units,
    standardized,
)
from sparsebayes._settings import resolve_prior
from sparsebayes._threads import one_blas_thread
from sparsebayes._union_search import Part, search_parts
from sparsebayes.core.quadratic import OrthonormalQuadratic, Quadratic
from sparsebayes.core.stored import StoredQuadratic, weighted_quadratic
from sparsebayes.design import make_design
from sparsebayes.dictionaries import Atoms
from sparsebayes.dictionaries.union import UnionAtoms
from sparsebayes.fit.learned_kernels import GaussianModel, fit_kernels
from sparsebayes.fit.widths import hold_widths, is_pooled, learns, sampled, samples_of
from sparsebayes.problem import Problem, Solution

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["orthonormal_form", "regress"]

_LOST = 1e-6  # of its norm: an atom that centering leaves less of was the constant one
_OVERLAP = 1e-8  # inner product of centered atoms of unit norm that is still none


def regress(
    X: Any,
    y: FloatArray,
    weights: FloatArray | None,
    dictionary: Any,
    *,
    single: bool,
    fit_intercept: bool,
    prior: Any,
    noise_variance: float | None,
    noise_prior: Any = None,
    solver: str = "auto",
    solve: Callable[[Problem, Start | None], Solution],
    last: Regression | None,
    random_state: np.random.RandomState,
    tol: float = 1e-6,
) -> Regression:
    """Fit the targets with the atoms of a dictionary.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (N, d)
        Inputs.
    y : ndarray of shape (N, T)
        Targets.
    weights : ndarray of shape (N,) or None
        Weight of each row, as `checked_weights` gives them.
    dictionary : Dictionary
        Candidate atoms.
    single : bool
        Whether the user's targets were one-dimensional.
    fit_intercept : bool
        Whether to integrate out an intercept.
    prior : str, float or Hyperprior
        As in the estimators.
    noise_variance : float or None
        As in the estimators.
    noise_prior : None, pair of floats, InverseGamma or Gamma, default=None
        As in the estimators.
    solver : str, default="auto"
        With "auto" and "orthonormal" a problem of orthonormal atoms has an
        `OrthonormalQuadratic`.
    solve : callable
        Takes a problem and where to start, or None; returns a solution.
    last : Regression or None
        An earlier fit to start from.
    random_state : RandomState
        For k-means centers.
    tol : float, default=1e-6
        What the certificate is held to; ``solve`` knows it too.

    Returns
    -------
    Regression
        Posterior and solution.
    """
    n = int(X.shape[0])
    kind = {"pairwise": is_pairwise(dictionary), "ordered": sits_on_rows(dictionary)}
    samples = gather(X, y, weights, **kind)
    X, weights = samples.X, samples.weights
    t, shift, scale = standardized(samples.y, weights, fit_intercept)
    units = in_units(shift, scale, not t.any(), noise_variance, noise_prior)
    scale, before, noise_var = units.scale, units.before, units.noise_var
    explained = units.explained((t == 0).all(axis=0), fit_intercept)
    if is_pooled(dictionary):
        found = sampled(X, samples.y, weights)
        dictionary = hold_widths(dictionary, found, len(shift), explained)
    atoms = dictionary.bind(X, sample_weight=weights, random_state=random_state)

    def quadratic(atoms: Atoms) -> StoredQuadratic:
        quad = weighted_quadratic(make_design(atoms, X), t, weights, fit_intercept, before)
        check_norms(quad)
        return quad

    with one_blas_thread():
        quad = quadratic(atoms)
        given: Quadratic = quad
        if solver in ("auto", "orthonormal"):
            given = _simplest(quad, atoms, solver == "orthonormal")
        hyperprior = resolve_prior(prior, dictionary, samples.total, int((given.diag > 0).sum()))
        hyperprior = hyperprior_in_units(hyperprior, scale)
        start = None if last is None else last.start(given, scale)
        if learns(atoms):
            del quad, given  # their design is as large as those with other parameters
            model = GaussianModel(X, t, hyperprior, noise_var, quadratic, solve)
            some, values, shares = samples_of(sampled(X, samples.y, weights), len(shift))
            targets = explained(values, shares)
            theta = None if last is None else last.theta
            atoms, fit, solution = fit_kernels(model, atoms, some, targets, tol, start, theta)
            quad = fit.quad
        else:
            problem = Problem(given, hyperprior, noise_var, copies(weights))
            solution = solve(problem, start)
            if start is None and solver == "auto":
                parts = _orthonormal_parts(quad, atoms)
                solution = search_parts(problem, parts, solve, solution)
    counted = atoms if samples.rows is None else recount(dictionary, atoms, samples.rows, n)
    return conclude(
        solution,
        quad,
        counted,
        units,
        hyperprior,
        single,
    )


def orthonormal_form(
    quad: StoredQuadratic, columns: IndexArray | slice = slice(None)
) -> OrthonormalQuadratic | None:
    """Quadratic of atoms that were orthonormal before they were centered; None if that broke it.

    Centering takes N mean_i mean_j from the inner product of two atoms: nothing, if at most one
    has a mean. Of wavelets of full depth only the constant one has.

    Parameters
    ----------
    quad : StoredQuadratic
        The quadratic, of rows without weights.
    columns : ndarray of shape (k,) or slice, default=slice(None)
        Which of its atoms; all by default.

    Returns
    -------
    OrthonormalQuadratic or None
        The same without a matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.design import ArrayDesign
    >>> haar, t = ArrayDesign(np.array([[1.0, 1.0], [1.0, -1.0]]) / 2**0.5), np.ones((2, 1))
    >>> orthonormal_form(weighted_quadratic(haar, t, center=True)).void
    array([ True, False])
    >>> points = weighted_quadratic(ArrayDesign(np.eye(3)), np.ones((3, 1)), center=True)
    >>> orthonormal_form(points) is None
    True
    """
    norm = quad.norm[columns]
    mean = np.abs(quad.mean[columns]) * np.sqrt(quad.products.design.shape[0])
    void = norm <= _LOST * mean
    void |= norm == 0
    overlap = np.sort(mean[~void] / norm[~void])[-2:]
    if overlap.size == 2 and overlap.prod() > _OVERLAP:
        return None
    g = np.where(void[:, None], 0.0, quad.g[columns])
    return OrthonormalQuadratic(g, quad.tt, quad.n, quad.spread, quad.log_offset, void)


def _orthonormal_parts(quad: StoredQuadratic, atoms: Atoms) -> list[Part]:
    """Parts of a union whose atoms are orthonormal, as long as there is another part."""
    if not isinstance(atoms, UnionAtoms) or len(atoms.parts) < 2:
        return []
    if quad.products.weights is not None:
        return []
    found = [
        (columns, orthonormal_form(quad, columns))
        for part, columns in zip(atoms.parts, atoms.columns, strict=True)
        if part.orthonormal
    ]
    return [(columns, form) for columns, form in found if form is not None]


def _simplest(quad: StoredQuadratic, atoms: Atoms, required: bool) -> Quadratic:
    """The quadratic without a matrix, where the atoms allow it or else the user insists."""
    found = orthonormal_form(quad) if atoms.orthonormal and quad.products.weights is None else None
    if found is not None or not required:
        return found or quad
    if not atoms.orthonormal:
        reason = "the atoms of this dictionary are not orthonormal on X"
    elif quad.products.weights is not None:
        reason = "sample weights (or rows given twice) leave the atoms orthonormal no more"
    else:
        reason = (
            "without their means, which fit_intercept=True takes, the atoms are not orthonormal"
        )
    raise ValueError(f"solver='orthonormal' does not apply: {reason}; use solver='auto'.")
