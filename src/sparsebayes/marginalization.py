"""Predictions averaged over the variances and the noise, instead of taken at the best ones.

Each draw of `hyperparameters.draw` is a model with the same atoms, so that atoms are evaluated once
for all of them. The mean is that of the draws' means; the variance, by the law of total variance,
the mean of the draws' variances and the variance of their means.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtrs

from sparsebayes._threads import one_blas_thread
from sparsebayes.augmentation import AugmentedFit, TrainingData
from sparsebayes.hyperparameters import Draws, Optimum, draw, weights_at
from sparsebayes.posterior import Posterior
from sparsebayes.predictive_mixture import Mixture

FloatArray = NDArray[np.float64]

__all__ = ["marginal_covariance", "marginal_mixture", "marginal_spread"]

_MOST_ATOMS = 1000  # thousands of factorizations of a matrix of that many rows take a minute


class _Points(NamedTuple):
    optimum: Optimum
    draws: Draws


_KNOWN: "WeakKeyDictionary[Posterior, _Points]" = WeakKeyDictionary()


class _Model(NamedTuple):
    """One draw: what its predictions need, in units of the optimum's variances and noise."""

    L: FloatArray  # (m, m)
    root: FloatArray  # (m,) of its variances
    mean: FloatArray  # (m, T) of the weights
    noise: float

    def half(self, U: FloatArray) -> FloatArray:
        """Atoms (b, m) to (m, b), whose columns have the variances of the function there."""
        if not len(self.root):
            return np.empty((0, len(U)))
        half, _ = dtrtrs(self.L, self.root[:, None] * U.T, lower=1)
        return np.asarray(half)

    def back(self, half: FloatArray) -> FloatArray:
        """Solve with the other factor: the covariance is root L^-T L^-1 root."""
        if not len(self.root):
            return half
        solved, _ = dtrtrs(self.L, half, lower=1, trans=1)
        return np.asarray(solved)


def _points(posterior: Posterior) -> _Points:
    """Draws for a posterior, made once."""
    known = _KNOWN.get(posterior)
    if known is not None:
        return known
    evidence, m = posterior.evidence, len(posterior.norm)
    if evidence is None:
        raise ValueError(
            "marginalize needs what this model does not hold: it was stored or pickled by a "
            "version of sparsebayes that did not keep it; fit the model again."
        )
    if evidence.hyperprior is None:
        raise ValueError(
            "marginalize needs the hyperprior, which the model file could not hold because it is "
            "none of sparsebayes.hyperpriors; fit the model again, or pickle it."
        )
    if m > _MOST_ATOMS:
        raise ValueError(
            f"marginalize takes at most {_MOST_ATOMS} active atoms, and this model has {m}: with "
            "so many the draws would take minutes."
        )
    optimum = Optimum.of(
        posterior.mean,
        posterior.root,
        posterior.prior_variance,
        posterior.noise_variance,
        evidence,
        evidence.hyperprior,
    )
    with one_blas_thread():
        known = _KNOWN[posterior] = _Points(optimum, draw(optimum))
    return known


def _models(points: _Points) -> Iterator[_Model]:
    optimum, draws = points
    n_targets = optimum.x.shape[1]
    for v, noise in zip(draws.v, draws.noise.tolist(), strict=True):
        if not len(v):
            yield _Model(np.empty((0, 0)), v, np.empty((0, n_targets)), noise)
            continue
        found = weights_at(optimum, v, noise)
        if found is None:  # no chain stays where there is no factor
            raise ArithmeticError("a draw of the variances cannot be factorized")
        L, y = found
        root = np.sqrt(v)
        x, _ = dtrtrs(L, y, lower=1, trans=1)
        yield _Model(L, root, root[:, None] * x, noise)


class _Block(NamedTuple):
    """Predictions of all draws at some rows, in the posterior's own units."""

    rows: slice
    means: FloatArray  # (b, T, K)
    variances: FloatArray  # (b, K) of the function


def _blocks(
    posterior: Posterior, points: _Points, X: Any, data: TrainingData | None
) -> Iterator[_Block]:
    """Predictions of all draws, a block of rows at a time; augmented where there are data."""
    count, n_targets = len(points.draws.noise), len(posterior.offset)
    # the mean of the targets is known to noise / N
    offset = posterior.offset_variance * points.draws.noise
    for rows, new in _rows(posterior, points, X, data):
        means = np.empty((len(new.U), n_targets, count))
        variances = np.empty((len(new.U), count))
        with one_blas_thread():
            for k, model in enumerate(_models(points)):
                means[:, :, k], variances[:, k] = _predict(points.optimum, model, new)
        yield _Block(rows, means, variances + offset)


class _Rows(NamedTuple):
    """What all draws share at some rows, in units of the optimum's variances and noise."""

    U: FloatArray  # (b, m) active atoms
    new: "_New | None" = None


class _New(NamedTuple):
    """Atoms that are added at these rows, one for each, and what the best point makes of them."""

    own: FloatArray  # (b,) at their own rows
    products: FloatArray  # (m, b) with the active atoms
    fitted: FloatArray  # (m, b) weights that the model gives each, had it been its targets
    left: FloatArray  # (b,) sum of squares that these leave of it
    q: FloatArray  # (b, T) products with the residual
    v: float  # prior variance of its weight


def _rows(
    posterior: Posterior, points: _Points, X: Any, data: TrainingData | None
) -> Iterator[tuple[slice, _Rows]]:
    scale, noise = np.sqrt(posterior.prior_variance), posterior.noise_variance
    if data is None:
        for rows, U in posterior.unit_atoms(X):
            yield rows, _Rows(U * scale)
        return
    fit = AugmentedFit(posterior, data)
    for rows in fit.blocks(int(X.shape[0])):
        here, own, atoms, fitted = fit.new_atoms(X[rows])
        left = atoms - fit.U @ fitted
        new = _New(
            own=own,
            products=scale[:, None] * (fit.U.T @ data.weighted(atoms)) / noise,
            fitted=fitted / scale[:, None],
            left=np.einsum("ij,ij->j", data.weighted(left), left) / noise,
            q=data.weighted(atoms).T @ fit.residual / noise,
            v=fit.v_new,
        )
        yield rows, _Rows(here * scale, new)


def _predict(optimum: Optimum, model: _Model, rows: _Rows) -> tuple[FloatArray, FloatArray]:
    """Mean (b, T) and variance (b,) of the function, its level apart, in one draw."""
    U, new = rows
    half = model.half(U)
    mean, variance = U @ model.mean, np.einsum("ij,ij->j", half, half)
    if new is None:
        return mean, variance
    # e, q and s of `augmentation` at this draw, by what changes from those at the best point
    solved = model.half(new.products.T)
    fitted = model.root[:, None] * model.back(solved) / model.noise
    d = fitted - new.fitted
    left = new.left + np.einsum("ij,ij->j", d, optimum.J @ d - 2.0 * new.fitted)
    s = np.maximum(left, 0.0) / model.noise
    s += np.einsum("ij,ij->j", fitted, fitted / np.square(model.root)[:, None])
    q = (new.q - new.products.T @ (model.mean - optimum.x)) / model.noise
    e = new.own - np.einsum("ij,ji->i", U, fitted)
    share = e * (new.v / (1.0 + new.v * s))
    return mean + share[:, None] * q, variance + share * e


def marginal_spread(
    posterior: Posterior, X: Any, data: TrainingData | None = None
) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of the target, averaged over variances and noise.

    Parameters
    ----------
    posterior : Posterior
        Posterior of a fit.
    X : ndarray or CSR matrix of shape (n, d)
        Inputs.
    data : TrainingData or None, default=None
        What the model was fitted to, to augment each draw by an atom at each row.

    Returns
    -------
    mean, std : ndarray of shape (n,) or (n, T)
        Noise included; nothing else of their length is held.

    Examples
    --------
    >>> from sparsebayes import RVR
    >>> from sparsebayes.datasets import sinc
    >>> data = sinc(30, noise=0.1, random_state=0)
    >>> model = RVR(gamma=1 / 9).fit(data.X, data.y)
    >>> mean, std = marginal_spread(model.posterior_, data.X)
    >>> bool(std.mean() > model.predict(data.X, return_std=True)[1].mean())
    True
    """
    points = _points(posterior)
    n, n_targets = int(X.shape[0]), len(posterior.offset)
    mean, variance = np.empty((n, n_targets)), np.empty((n, n_targets))
    noise = posterior.noise_variance * float(points.draws.noise.mean())
    for rows, means, variances in _blocks(posterior, points, X, data):
        mean[rows] = means.mean(axis=-1)
        variance[rows] = means.var(axis=-1) + variances.mean(axis=-1)[:, None] + noise
    mean = posterior.offset + posterior.scale * mean
    std = posterior.scale * np.sqrt(variance)
    return posterior.shaped(mean), posterior.shaped(std)


def marginal_mixture(posterior: Posterior, X: Any, data: TrainingData | None = None) -> Mixture:
    """Distribution of the target: the mixture of those of all draws.

    Parameters
    ----------
    posterior : Posterior
        Posterior of a fit.
    X : ndarray or CSR matrix of shape (n, d)
        Inputs.
    data : TrainingData or None, default=None
        What the model was fitted to, to augment each draw by an atom at each row.

    Returns
    -------
    Mixture
        One for each row (and target).

    Examples
    --------
    >>> from sparsebayes import RVR
    >>> from sparsebayes.datasets import sinc
    >>> data = sinc(30, noise=0.1, random_state=0)
    >>> model = RVR(gamma=1 / 9).fit(data.X, data.y)
    >>> marginal_mixture(model.posterior_, data.X).means.shape
    (30, 128)
    """
    points = _points(posterior)
    count, n_targets = len(points.draws.noise), len(posterior.offset)
    shape = (int(X.shape[0]), n_targets, count)
    means, stds, function_stds = np.empty(shape), np.empty(shape), np.empty(shape)
    noise = posterior.noise_variance * points.draws.noise
    for rows, own, variances in _blocks(posterior, points, X, data):
        means[rows] = posterior.offset[:, None] + posterior.scale * own
        stds[rows] = (posterior.scale * np.sqrt(variances + noise))[:, None]
        function_stds[rows] = (posterior.scale * np.sqrt(variances))[:, None]
    return Mixture(*(posterior.shaped(values) for values in (means, stds, function_stds)))


def marginal_covariance(posterior: Posterior, X: Any) -> FloatArray:
    """Covariance of the target at the rows of X, noise included, by the law of total covariance.

    Parameters
    ----------
    posterior : Posterior
        Posterior of a fit, to one target: several would have a matrix each.
    X : ndarray or CSR matrix of shape (n, d)
        Inputs.

    Returns
    -------
    ndarray of shape (n, n)
        Symmetric, positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes import RVR
    >>> from sparsebayes.datasets import sinc
    >>> data = sinc(30, noise=0.1, random_state=0)
    >>> posterior = RVR(gamma=1 / 9).fit(data.X, data.y).posterior_
    >>> covariance = marginal_covariance(posterior, data.X)
    >>> np.allclose(covariance.diagonal(), marginal_spread(posterior, data.X)[1] ** 2)
    True
    """
    if len(posterior.offset) > 1:
        raise ValueError(
            "return_cov with marginalize is for one target: the covariance is another for each."
        )
    points = _points(posterior)
    n, count = int(X.shape[0]), len(points.draws.noise)
    U = np.empty((n, len(posterior.norm)))
    for rows, block in posterior.unit_atoms(X):
        U[rows] = block * np.sqrt(posterior.prior_variance)
    covariance, means = np.zeros((n, n)), np.empty((n, count))
    with one_blas_thread():
        for k, model in enumerate(_models(points)):
            half = model.half(U)
            means[:, k] = U @ model.mean[:, 0]
            covariance += half.T @ half
    means -= means.mean(axis=1)[:, None]
    covariance += means @ means.T
    covariance /= count
    level = float(points.draws.noise.mean())
    covariance += posterior.offset_variance * level
    covariance.flat[:: n + 1] += posterior.noise_variance * level
    return covariance * posterior.scale**2
