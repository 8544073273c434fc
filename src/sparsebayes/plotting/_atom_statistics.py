"""Sparsity and quality of one atom of a fitted model, found again from its training data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes._counting import is_pairwise, recount, sits_on_rows
from sparsebayes._latent import candidates, learning_prior
from sparsebayes._pipelines import last_step, through
from sparsebayes._samples import Samples, checked_weights, gather, hyperprior_in_units
from sparsebayes._settings import resolve_prior
from sparsebayes._threads import one_blas_thread
from sparsebayes.core.stored import weighted_quadratic
from sparsebayes.design import ArrayDesign, make_design
from sparsebayes.dictionaries import Atoms, Tunable
from sparsebayes.dictionaries._protocol import is_sparse
from sparsebayes.dictionaries.kernels import KernelAtoms
from sparsebayes.engine import Breakdown, State, directions, refresh, screen, without_self
from sparsebayes.estimators._base import seeded
from sparsebayes.fit.learned_kernels import with_same
from sparsebayes.fit.widths import as_found, is_pooled
from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.laplace import Latent, find_mode, quadratic_at
from sparsebayes.latent_posterior import LatentPosterior

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["AtomStatistics", "atom_statistics"]

_SAME = 1e-4  # relative difference between what the data say of the weights and what they are
_OTHERS = (
    "X and y are not the training data of this model (or sample_weight is missing): they give "
    "other weights than it has."
)
_COLLINEAR = (
    "the active atoms of this model are so nearly collinear that double precision cannot tell what "
    "one of them is worth beside the others."
)


class AtomStatistics(NamedTuple):
    """What the evidence of one atom's variance depends on, for an atom of unit norm."""

    atom: int  # position in the dictionary as its user counts
    s: FloatArray  # (1,), or (K,) where K latent functions share the variance
    q2: FloatArray  # the same shape; summed over targets
    n_targets: int
    hyperprior: Hyperprior
    noise_var: float
    unit: float  # variances of the atom as given, by those of the atom of unit norm
    v: float  # its variance in the model, zero where it is out


def atom_statistics(
    estimator: Any, X: Any, y: Any, atom: int | None, label: Any, sample_weight: Any
) -> AtomStatistics:
    """Sparsity and quality of an atom, out of its own model (T&F eq. 23).

    Parameters
    ----------
    estimator : estimator
        A fitted one, or a pipeline or search that ends with one.
    X, y : array-like
        Its training data.
    atom : int or None
        Position of the atom in the dictionary, as ``relevance_`` counts; None for the one in the
        model whose weight is most certain not to be zero.
    label : object
        Of the class whose latent function is meant, where there are more than two; None for the
        one in which the atom has the largest weight.
    sample_weight : array-like of shape (n_samples,) or None
        Weights of the fit.

    Returns
    -------
    AtomStatistics
        What was found.
    """
    model = last_step(estimator)
    samples, n = _samples(model, through(estimator, X), y, sample_weight)
    posterior = model.posterior_
    if atom is None:
        atom = _clearest(posterior)
    dictionary = model._dictionary()
    place = np.flatnonzero(posterior.atoms.index == atom)
    active = posterior.atoms.evaluate(samples.X)
    Phi = active.toarray() if is_sparse(active) else np.asarray(active)
    whole = None
    if place.size == 0:
        whole = _bound(model, dictionary, samples, n)
        own = _column(posterior.atoms, whole, Phi, samples.X, atom)
        Phi, position = np.column_stack([Phi, own]), Phi.shape[1]
    else:
        position = int(place[0])
    with one_blas_thread():
        if not isinstance(posterior, LatentPosterior):
            return _gaussian(model, samples, Phi, position, atom)
        if whole is None:
            whole = _bound(model, dictionary, samples, n)
        return _latent(model, samples, Phi, position, atom, whole, label)


def _samples(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Samples, int]:
    """Samples as the fit saw them, and how many its user gave."""
    X = model._checked(X)
    n = int(X.shape[0])
    if np.shape(y)[:1] != (n,):
        raise ValueError(f"y must have one target for each of {n} rows, got {np.shape(y)}.")
    if hasattr(model, "classes_"):
        known = {label: code for code, label in enumerate(model.classes_.tolist())}
        labels = np.asarray(y).tolist()
        if not set(labels) <= set(known):
            raise ValueError(_OTHERS)
        codes = np.array([known[label] for label in labels], dtype=np.intp)
        weights = model._weights(model.classes_, codes, sample_weight)
        t = codes.astype(np.float64)[:, None]
    else:
        weights = checked_weights(sample_weight, n)
        if isinstance(model.posterior_, LatentPosterior):
            t = model.likelihood_.check(y)[:, None]
        else:
            t = np.asarray(y, dtype=np.float64).reshape(n, -1)
    dictionary = model._dictionary()
    kind = {"pairwise": is_pairwise(dictionary), "ordered": sits_on_rows(dictionary)}
    return gather(X, t, weights, **kind), n


def _clearest(posterior: Any) -> int:
    if len(posterior.norm) == 0:
        raise ValueError("this model kept no atom: say by atom= which one of the others to draw.")
    root = posterior.root
    std = root if root.ndim == 1 else np.sqrt(np.einsum("ij,ij->i", root, root))
    size = np.abs(posterior.mean)
    clear = (size if size.ndim == 1 else size.max(axis=1)) / std
    first = int(np.argmax(clear))
    which = posterior.atom[first] if isinstance(posterior, LatentPosterior) else first
    return int(posterior.atoms.index[which])


def _bound(model: Any, dictionary: Any, samples: Samples, n: int) -> Atoms:
    """All atoms of the dictionary, as the fit had them."""
    rng = seeded(model.random_state)
    if is_pooled(dictionary):
        dictionary = as_found(dictionary, model.posterior_.atoms)
    atoms = dictionary.bind(samples.X, sample_weight=samples.weights, random_state=rng)
    kept = model.posterior_.atoms
    if isinstance(atoms, KernelAtoms) and isinstance(kept, KernelAtoms):
        # Learned widths, which a model file keeps without saying that they were.
        atoms = replace(kept, centers=atoms.centers, index=atoms.index, count=atoms.count)
    elif isinstance(atoms, Tunable) and isinstance(kept, Tunable):
        atoms = with_same(atoms, kept.theta)
    return atoms if samples.rows is None else recount(dictionary, atoms, samples.rows, n)


def _column(kept: Atoms, whole: Atoms, Phi: FloatArray, X: Any, atom: int) -> FloatArray:
    """An atom that is out of the model at the rows, the others being those of the fit."""
    if not 0 <= atom < whole.count:
        raise ValueError(f"atom must lie between 0 and {whole.count - 1}, got {atom}.")
    at = {int(index): position for position, index in enumerate(whole.index)}
    if atom not in at:
        raise ValueError(f"atom {atom} is none of its own: its row equals an earlier one.")
    known = [at.get(int(index), -1) for index in kept.index]
    same = -1 not in known
    if same and known:
        again = whole.restrict(known).evaluate(X)
        again = again.toarray() if is_sparse(again) else np.asarray(again)
        same = bool(np.allclose(again, Phi, rtol=1e-8, atol=1e-8 * float(np.abs(Phi).max())))
    if not same:
        raise ValueError(
            "the atoms of this model cannot be made again from X: X is not the training data, or "
            "its centers were drawn at random (give random_state). An atom of relevance_ can be "
            "drawn."
        )
    own = whole.restrict([at[atom]]).evaluate(X)
    column: FloatArray = (own.toarray() if is_sparse(own) else np.asarray(own))[:, 0]
    return column


def _gaussian(
    model: Any, samples: Samples, Phi: FloatArray, position: int, atom: int
) -> AtomStatistics:
    p = model.posterior_
    m = len(p.norm)
    t = (samples.y - p.offset) / p.scale
    quad = weighted_quadratic(ArrayDesign(Phi), t, samples.weights, bool(model.fit_intercept))
    hyperprior = None if p.evidence is None else p.evidence.hyperprior
    if hyperprior is None:  # a file of the first version
        given = resolve_prior(model.prior, model._dictionary(), samples.total, p.atoms.count)
        hyperprior = hyperprior_in_units(given, p.scale)
    try:
        state = refresh(quad, hyperprior, np.arange(m), p.prior_variance, p.noise_variance)
    except Breakdown:
        raise ValueError(_COLLINEAR) from None
    if state.mu.shape != p.mean.shape or not np.allclose(
        state.mu, p.mean, rtol=_SAME, atol=_SAME * float(np.abs(p.mean).max(initial=1e-300))
    ):
        raise ValueError(_OTHERS)
    s, q2 = _out_of_itself(quad, hyperprior, state, position)
    unit = (p.scale / float(quad.norm[position])) ** 2 if quad.norm[position] else 0.0
    v = float(p.prior_variance[position]) if position < m else 0.0
    return AtomStatistics(atom, s, q2, len(p.offset), hyperprior, p.noise_variance, unit, v)


def _latent(
    model: Any,
    samples: Samples,
    Phi: FloatArray,
    position: int,
    atom: int,
    whole: Atoms,
    label: Any,
) -> AtomStatistics:
    p, likelihood = model.posterior_, model.likelihood_
    K, center = p.n_latent, bool(model.fit_intercept)
    shared = bool(getattr(model, "shared", False)) and K > 2
    dictionary = model._dictionary()
    count = candidates(make_design(whole, samples.X), dictionary, samples.weights, center)
    prior = learning_prior(model.prior, whole)
    hyperprior = resolve_prior(prior, dictionary, samples.total, count * (1 if shared else K))
    t = samples.y[:, 0]
    latent = Latent(ArrayDesign(Phi), t, samples.weights, likelihood, center, shared)
    columns = p.atom * K + p.latent
    order = np.argsort(columns)
    columns, raw = columns[order], p.weight_variance[order]
    mode = find_mode(latent, columns, raw)
    if not np.allclose(
        mode.w, p.weights[order], rtol=_SAME, atol=_SAME * float(np.abs(p.weights).max(initial=0))
    ):
        raise ValueError(_OTHERS)
    quad = quadratic_at(latent, mode)
    active = columns[::K] // K if shared else columns
    v = (raw * quad.norm[columns] ** 2)[:: K if shared else 1]
    state = refresh(quad, hyperprior, active, v, 1.0)
    if shared or K == 1:
        column = position
    else:
        column = position * K + _class_of(model, label, p, atom)
    s, q2 = _out_of_itself(quad, hyperprior, state, column)
    norm = float(quad.norm[column * (K if shared else 1)])
    inside = np.flatnonzero(active == column)
    now = float(v[inside[0]]) if inside.size else 0.0
    return AtomStatistics(atom, s, q2, 1, hyperprior, 1.0, norm**-2.0 if norm else 0.0, now)


def _class_of(model: Any, label: Any, posterior: LatentPosterior, atom: int) -> int:
    if label is not None:
        known = model.classes_.tolist()
        if label not in known:
            raise ValueError(f"label must be one of the classes {known}, got {label!r}.")
        return int(known.index(label))
    own = np.flatnonzero(posterior.atoms.index[posterior.atom] == atom)
    if own.size == 0:
        return 0
    return int(posterior.latent[own[np.argmax(np.abs(posterior.mean[own]))]])


def _out_of_itself(
    quad: Any, hyperprior: Hyperprior, state: State, position: int
) -> tuple[FloatArray, FloatArray]:
    """Sparsity and squared quality of an atom, in the model or out of it."""
    inside = np.flatnonzero(state.active == position)
    if inside.size:
        s, q2 = without_self(state.v, state.white)
        return np.atleast_1d(s[inside[0]]), np.atleast_1d(q2[inside[0]])
    found = screen(quad, hyperprior, state)
    S = np.atleast_1d(found.S[position])
    if S.size == 1:
        return S, np.atleast_1d(float(np.sum(found.Q[position] ** 2)))
    s, q2 = directions(quad, found.X, found.Q, state.noise_var, 0.0)
    return np.asarray(s[position]), np.asarray(q2[position])
