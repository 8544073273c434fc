"""Classes and counts that weigh less than one row: less weight makes them less probable."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sparsebayes import RVC, RVR, SparseBayesClassifier, load
from sparsebayes.core.intercepts import Intercepts
from sparsebayes.likelihoods import Bernoulli, Gaussian, Multinomial, Poisson, totals_of

N = 100
WEIGHTS = [1.0, 0.7, 0.5, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-6]
MACHINES = pytest.mark.parametrize("machine", [RVC, SparseBayesClassifier])


def table(rare=1, seed=0):
    X = np.random.default_rng(seed).normal(size=(N, 2))
    return X, (np.arange(N) < rare).astype(int)


def some_covariance(K, weights):
    """Curvature of K classes at their shares, as at the mode of a model of intercepts alone."""
    p = np.asarray(weights) / np.sum(weights)
    if K == 1:
        return Intercepts(np.array([[[np.sum(weights) * p[0] * p[1]]]]), center=True)
    return Intercepts(np.sum(weights) * (np.diag(p) - np.outer(p, p))[None], center=True)


# One row against all others has no Gaussian posterior to settle at, and some fits say so.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@MACHINES
@pytest.mark.parametrize("rare", [1, 3])
def test_less_weight_is_less_probable(machine, rare):
    X, y = table(rare)
    means = []
    for weight in WEIGHTS:
        model = machine().fit(X, y, sample_weight=np.where(y == 1, weight / rare, 1.0))
        means.append(model.predict_proba(X)[:, 1].mean())
        exact = weight / (weight + N - rare)  # of a model without atoms, by its exact posterior
        if weight <= 0.3:  # with more there may be atoms, which are uncertain too
            assert means[-1] < 1.5 * exact / (1 - weight)
    # Of one sample alone against all others Laplace's evidence has several optima, and the most
    # probable of them need not be of the largest weight.
    assert (np.diff(means[3:]) < 0).all()
    assert min(means[:3]) > 2 * means[3]
    assert_allclose(means[-1], exact, rtol=1e-5)


def test_weights_of_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    y = (X[:, 0] + rng.normal(size=N) > 0).astype(int)
    means = [
        RVC(class_weight={1: weight}).fit(X, y).predict_proba(X)[:, 1].mean()
        for weight in (1.0, 0.1, 0.01, 0.001, 1e-5)
    ]
    assert (np.diff(means) < 0).all()
    assert_allclose(means[-1], 1e-5 * y.sum() / (N - y.sum()), rtol=1e-2)


@pytest.mark.parametrize("shared", [False, True])
def test_one_class_of_three(shared):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(N, 2)), rng.integers(0, 3, N)
    means = np.array(
        [
            RVC(class_weight={2: weight}, shared=shared).fit(X, y).predict_proba(X).mean(axis=0)
            for weight in (1.0, 0.1, 1e-4)
        ]
    )
    assert (np.diff(means[:, 2]) < 0).all()
    counts = np.bincount(y)
    assert_allclose(means[-1, 2], 1e-4 * counts[2] / (counts[0] + counts[1]), rtol=0.3)
    # The two others are as uncertain as without the third.
    two = RVC().fit(X[y < 2], y[y < 2]).predict_proba(X).mean(axis=0)
    assert_allclose(means[-1, :2], two, atol=0.02)


def test_few_events():
    X, _ = table()
    y = np.zeros(N)
    y[0] = 3
    for weight in (0.1, 0.01, 1e-4):
        w = np.where(y > 0, weight, 1.0)
        model = RVR(likelihood="poisson").fit(X, y, sample_weight=w)
        assert model.predict_distribution(X).mean.mean() < 1.5 * 3 * weight / w.sum()


def test_rows_in_blocks_and_files_agree(tmp_path):
    X, y = table(3)
    weights = np.where(y == 1, 0.01, 1.0)
    for settings, w in (({}, weights), ({"class_weight": {1: 0.01}}, None)):
        model = SparseBayesClassifier(**settings).fit(X, y, sample_weight=w)
        proba = model.predict_proba(X)
        blocks = SparseBayesClassifier(memory="64MiB", **settings).fit(X, y, sample_weight=w)
        assert_allclose(blocks.predict_proba(X), proba, rtol=1e-9)
        model.save(tmp_path / "light.model")
        assert_array_equal(load(tmp_path / "light.model").predict_proba(X), proba)
    counts = {"likelihood": "poisson", "gamma": 0.5}
    model = RVR(**counts).fit(X, 2 * y, sample_weight=weights)
    blocks = RVR(memory="64MiB", **counts).fit(X, 2 * y, sample_weight=weights)
    assert_allclose(blocks.posterior_.offset_root, model.posterior_.offset_root, rtol=1e-9)


@pytest.mark.parametrize("K", [1, 3, 5])
def test_whole_rows_change_nothing(K):
    weights = np.arange(1.0, max(K, 2) + 1)
    intercepts = some_covariance(K, weights)
    assert intercepts.trusted_root(weights) is intercepts.root
    assert intercepts.trusted_root(None) is intercepts.root


@pytest.mark.parametrize("light", [0.9, 0.3, 0.01, 1e-9])
@pytest.mark.parametrize("K", [1, 3, 5])
def test_only_what_is_too_uncertain_is_taken_away(K, light):
    weights = np.arange(1.0, max(K, 2) + 1) * 7
    weights[-1] = light
    intercepts = some_covariance(K, weights)
    root = intercepts.trusted_root(weights)
    contrast = np.ones(1) if K == 1 else np.append(-weights[:-1] / weights[:-1].sum(), 1.0)
    variance = contrast @ intercepts.covariance @ contrast
    assert_allclose(
        contrast @ root @ root.T @ contrast, min(variance, -2 * np.log1p(-light)), rtol=1e-6
    )
    removed = intercepts.covariance - root @ root.T
    values = np.linalg.eigvalsh(removed)
    assert values[0] >= -1e-12 * variance
    assert_allclose(values[:-1], 0, atol=1e-12 * variance)  # of one direction alone
    for a in range(len(contrast) - 1):
        for b in range(a):  # what tells the other classes apart stays
            apart = np.zeros(K)
            apart[a], apart[b] = 1.0, -1.0
            assert_allclose(
                np.linalg.norm(apart @ root), np.linalg.norm(apart @ intercepts.root), rtol=1e-6
            )


def test_totals():
    t, w = np.array([0.0, 2.0, 2.0, 1.0]), np.array([1.0, 0.5, 0.25, 3.0])
    assert_array_equal(totals_of(Multinomial(4), t, w), [1.0, 3.0, 0.75, 0.0])
    assert_array_equal(totals_of(Multinomial(3), t, None), [1.0, 1.0, 2.0])
    assert_array_equal(totals_of(Bernoulli(), t[[0, 3]], w[[0, 3]]), [1.0, 3.0])
    assert_array_equal(totals_of(Poisson(), t, w), [4.5])
    assert totals_of(Gaussian(1.0), t, w) is None
