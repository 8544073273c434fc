"""The classifiers: what a fit leaves behind, labels of every type, probabilities, weights."""

from datetime import date
from decimal import Decimal
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, log_softmax, softmax
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from pairwise import in_turn
from sparsebayes import RVC, SparseBayesClassifier, load
from sparsebayes.dictionaries import Bias, Kernel, Linear
from sparsebayes.likelihoods import Bernoulli, Multinomial

# Whether fits settle is tested with the solvers, and below where it matters.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N = 60
BOTH = pytest.mark.parametrize("solver", ["working-set", "sequential"])
MODELS = {
    "linear": SparseBayesClassifier(),
    "no intercept": SparseBayesClassifier(prior="aic", fit_intercept=False),
    "kernel": RVC(gamma=0.5),
    "union": SparseBayesClassifier(Linear() + Kernel(gamma=0.5), prior="bic"),
    "sequential": SparseBayesClassifier(prior="flat", solver="sequential"),
}


def blobs(n_classes, n=N, seed=0, spread=1.0):
    """Classes around the corners of a polygon, which overlap; two columns of noise beside."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    angle = 2 * np.pi * y / n_classes
    X = np.stack([2 * np.cos(angle), 2 * np.sin(angle), 0 * angle, 0 * angle], axis=1)
    return X + spread * rng.normal(size=X.shape), y


X2, Y2 = blobs(2)
X3, Y3 = blobs(3)


# Attributes


def test_fitted_attributes_for_two_classes():
    model = SparseBayesClassifier(prior="flat")
    assert model.fit(X2, Y2) is model
    m = len(model.relevance_)
    assert m > 0
    assert model.relevance_.dtype == np.intp
    assert_array_equal(model.relevance_, np.unique(model.relevance_))
    assert model.weights_.shape == model.prior_variance_.shape == (m,)
    assert model.covariance_.shape == (m, m)
    assert model.coef_.shape == (1, 4)
    assert model.intercept_.shape == (1,)
    assert_array_equal(model.coef_[0, model.relevance_], model.weights_)
    assert_array_equal(np.flatnonzero(model.coef_[0]), model.relevance_)
    assert_array_equal(model.classes_, [0, 1])
    assert model.likelihood_ == Bernoulli()
    f = X2 @ model.coef_[0] + model.intercept_[0]
    assert_allclose(model.decision_function(X2, plug_in=True), f, atol=1e-10)
    assert type(model.log_marginal_likelihood_) is float
    assert model.converged_ is True
    assert model.certificate_.holds(model.tol)
    assert model.solution_.status.name == "CONVERGED"
    assert not hasattr(model, "relevance_vectors_")
    assert not hasattr(model, "noise_variance_")


def test_fitted_attributes_for_three_classes():
    model = SparseBayesClassifier(prior="flat").fit(X3, Y3)
    sizes = [len(relevance) for relevance in model.relevance_]
    assert len(sizes) == 3
    assert sum(sizes) >= 2
    for name in ("weights_", "prior_variance_"):
        assert [part.shape for part in getattr(model, name)] == [(size,) for size in sizes]
    assert model.covariance_.shape == (sum(sizes), sum(sizes))
    assert model.coef_.shape == (3, 4)
    assert model.intercept_.shape == (3,)
    assert model.likelihood_ == Multinomial(3)
    f = X3 @ model.coef_.T + model.intercept_
    got = model.decision_function(X3, plug_in=True)
    assert got.shape == (N, 3)
    assert_allclose(got, f, atol=1e-10)


@pytest.mark.parametrize(("X", "y"), [(X2, Y2), (X3, Y3)], ids=["two", "three"])
def test_fitted_attributes_of_kernels(X, y):
    model = RVC(gamma=0.5).fit(X, y)
    assert not hasattr(model, "coef_")
    parts = (model.relevance_, model.relevance_vectors_, model.weights_)
    latent = [parts] if len(model.classes_) == 2 else list(zip(*parts, strict=True))
    f = np.zeros((N, len(latent)))
    for k, (relevance, vectors, weights) in enumerate(latent):
        assert_array_equal(vectors, X[relevance])
        f[:, k] = rbf_kernel(X, vectors, gamma=0.5) @ weights if len(weights) else 0.0
    f += model.intercept_
    assert_allclose(model.decision_function(X, plug_in=True), f.squeeze(), atol=1e-9)
    assert model.score(X, y) > 0.8


def test_atoms_that_several_classes_use():
    model = RVC(gamma=0.3, prior=0.0).fit(*blobs(4, 80, spread=0.8))
    assert len(model.posterior_.atoms.index) <= len(model.posterior_.atom)
    stacked = np.concatenate(model.relevance_)
    assert_array_equal(model.posterior_.atoms.index[model.posterior_.atom], stacked)
    assert_array_equal(np.concatenate(model.weights_), model.posterior_.weights)


def test_attributes_of_another_fit_do_not_linger():
    model = SparseBayesClassifier().fit(X3, Y3)
    assert isinstance(model.relevance_, list)
    model.fit(X2, Y2)
    assert isinstance(model.relevance_, np.ndarray)
    model.set_params(dictionary=Kernel(gamma=0.5)).fit(X3, Y3)
    assert not hasattr(model, "coef_")
    assert isinstance(model.relevance_vectors_, list)
    model.set_params(dictionary=Linear() + Kernel(gamma=0.5)).fit(X3, Y3)
    assert not hasattr(model, "relevance_vectors_")


def test_no_intercept():
    for X, y in ((X2, Y2), (X3, Y3)):
        model = SparseBayesClassifier(fit_intercept=False, prior="flat").fit(X, y)
        assert_array_equal(model.intercept_, np.zeros_like(model.intercept_))
        assert_allclose(model.predict_proba(np.zeros((1, 4))), 1 / len(model.classes_))


def test_without_atoms_the_classes_have_their_shares():
    y = np.repeat(["a", "b", "c"], [40, 15, 5])
    for model in (SparseBayesClassifier(Bias()), SparseBayesClassifier()):
        model.fit(np.ones((N, 2)), y)
        found = model.predict_proba(np.ones((1, 2)), plug_in=True)[0]
        assert_allclose(found, [8 / 12, 3 / 12, 1 / 12], rtol=1e-6)
        assert_array_equal(model.predict(np.ones((2, 2))), ["a", "a"])
        assert [len(part) for part in model.relevance_] == [0, 0, 0]
        assert model.covariance_.shape == (0, 0)


# Labels


LABELS = {
    "text": np.array(["ash", "birch", "oak"]),
    "objects": np.array(["ash", "birch", "oak"], dtype=object),
    "integers": np.array([-3, 7, 10]),
    "bytes of integers": np.array([1, 2, 250], dtype=np.uint8),
    "whole floats": np.array([-1.0, 0.0, 2.0]),
    "boolean": np.array([False, True]),
    "integers as objects": np.array([0, 1, 2], dtype=object),
    "digits as text": np.array(["1", "10", "2"]),
    "integers beyond 64 bits": np.array([-1, 0, 10**30], dtype=object),
    "dates": np.array([date(2020, 2, 29), date(2021, 1, 1), date(2024, 2, 29)], dtype=object),
    "decimals": np.array([Decimal("0.1"), Decimal("0.2"), Decimal("3")], dtype=object),
    "bytes": np.array([b"ash", b"oak"]),
}


@cache
def of_numbers(n_classes):
    """A fit of the same classes, called 0, 1 and so on."""
    return SparseBayesClassifier().fit(*blobs(n_classes))


@pytest.mark.parametrize("name", LABELS)
def test_labels_of_any_type(name):
    labels = LABELS[name]
    X, y = blobs(len(labels))
    want = of_numbers(len(labels))
    got = SparseBayesClassifier().fit(X, labels[y])
    assert_array_equal(got.classes_, labels)
    assert got.classes_.dtype.kind == ("i" if "as objects" in name else labels.dtype.kind)
    assert_array_equal(got.predict_proba(X), want.predict_proba(X))
    assert_array_equal(got.predict(X), labels[want.predict(X)])
    assert got.predict(X).dtype == got.classes_.dtype
    weights = dict(zip(labels.tolist(), [1.0, 2.0, 5.0], strict=False))
    # A few steps are enough to tell one weight from another.
    heavy = SparseBayesClassifier(class_weight=weights, max_iter=5).fit(X, labels[y])
    again = SparseBayesClassifier(max_iter=5)
    again.fit(X, y, sample_weight=np.array([1.0, 2.0, 5.0])[y])
    assert_array_equal(heavy.predict_proba(X), again.predict_proba(X))


def test_integers_and_floats_together_are_floats():
    X, y = blobs(2)
    model = SparseBayesClassifier().fit(X, np.array([1, 2.0], dtype=object)[y])
    assert_array_equal(model.classes_, np.array([1.0, 2.0]), strict=True)
    large = np.array([1.0, 2**53 + 1], dtype=object)  # which no float is
    assert SparseBayesClassifier().fit(X, large[y]).classes_.tolist() == [1, 2**53 + 1]


def test_objects_as_labels_of_files(tmp_path):
    X, y = blobs(2)
    model = SparseBayesClassifier().fit(X, np.array([date(2020, 2, 29), date(2021, 1, 1)])[y])
    with pytest.raises(ValueError, match="labels of type date cannot be stored"):
        model.save(tmp_path / "dates.model")
    model = SparseBayesClassifier().fit(X, np.array([1, 10**30], dtype=object)[y])
    model.save(tmp_path / "large.model")
    assert_array_equal(load(tmp_path / "large.model").predict(X), model.predict(X))


def test_labels_in_other_containers():
    text = np.array(["ash", "birch", "oak"])[Y3]
    want = SparseBayesClassifier().fit(X3, text).predict(X3)
    series = pd.Series(text)
    for y in (text.tolist(), tuple(text), series, series.astype("category"), pl.Series(text)):
        model = SparseBayesClassifier().fit(X3, y)
        assert_array_equal(model.predict(X3), want)
        assert_array_equal(model.classes_, ["ash", "birch", "oak"])


def test_the_order_of_classes_is_a_convention():
    flipped = RVC(gamma=0.5).fit(X2, 1 - Y2)
    model = RVC(gamma=0.5).fit(X2, Y2)
    assert_allclose(flipped.predict_proba(X2)[:, ::-1], model.predict_proba(X2), atol=1e-6)
    order = np.array([2, 0, 1])
    model = RVC(gamma=0.5).fit(X3, Y3)
    turned = RVC(gamma=0.5).fit(X3, order[Y3])
    assert abs(turned.log_marginal_likelihood_ - model.log_marginal_likelihood_) < 2


# Probabilities


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_tie_is_the_same_tie_everywhere(fit_intercept):
    Z = np.zeros((2, 1))
    model = SparseBayesClassifier(fit_intercept=fit_intercept).fit(Z, [0, 1])
    assert_array_equal(model.decision_function(Z), 0.0)
    assert_array_equal(model.predict(Z), model.predict_proba(Z).argmax(axis=1))
    assert_array_equal(model.predict(Z), model.predict_distribution(Z).mode)


@in_turn(model=MODELS, n_classes=[3, 2])
def test_probabilities_agree_with_each_other(model, n_classes):
    X, y = blobs(n_classes)
    model.fit(X, y)
    K = len(model.classes_)
    for plug_in in (False, True):
        p = model.predict_proba(X, plug_in=plug_in)
        assert p.shape == (N, K)
        assert_allclose(p.sum(axis=1), 1, atol=1e-12)
        assert_array_equal(p, np.exp(model.predict_log_proba(X, plug_in=plug_in)))
        f = model.decision_function(X, plug_in=plug_in)
        assert f.shape == ((N,) if K == 2 else (N, K))
        assert_allclose(expit(f) if K == 2 else softmax(f, axis=1), p[:, 1] if K == 2 else p)
    assert_array_equal(model.predict(X), model.predict_proba(X).argmax(axis=1))
    forecast = model.predict_distribution(X)
    assert_array_equal(forecast.mode, model.predict(X))
    assert_array_equal(forecast.proba, model.predict_proba(X))
    assert_array_equal(forecast.classes, model.classes_)


@pytest.mark.parametrize(("X", "y"), [(X2, Y2), (X3, Y3)], ids=["two", "three"])
def test_probabilities_are_averages_over_the_posterior(X, y):
    model = RVC(gamma=0.5).fit(X, y)
    draws = model.posterior_.sample(X[:20], 20_000, np.random.RandomState(0))
    if draws.shape[1] == 1:
        draws = np.concatenate([np.zeros_like(draws), draws], axis=1)
    averaged = softmax(draws, axis=1).mean(axis=2)
    assert_allclose(model.predict_proba(X[:20]), averaged, atol=0.02)


def test_averages_are_less_extreme():
    model = SparseBayesClassifier().fit(X2, Y2)
    plain, sure = model.predict_proba(3 * X2), model.predict_proba(3 * X2, plug_in=True)
    assert (plain.max(axis=1) < sure.max(axis=1)).all()
    assert_array_equal(plain.argmax(axis=1), sure.argmax(axis=1))


def test_probabilities_far_away_stay_finite():
    for X, y in ((X2, Y2), (X3, Y3)):
        model = SparseBayesClassifier().fit(X, y)
        for size in (1e3, 1e8, 1e100):
            with np.errstate(all="raise", under="ignore"):
                assert np.isfinite(model.predict_log_proba(size * X)).all()
                assert np.isfinite(model.predict_log_proba(size * X, plug_in=True)).all()


def test_prediction_in_blocks_is_the_same(monkeypatch):
    from sparsebayes.estimators import classifiers

    model = RVC(gamma=0.5).fit(X3, Y3)
    whole = model.predict_proba(X3)
    monkeypatch.setattr(classifiers, "_BLOCK_CELLS", 50)
    assert_allclose(model.predict_proba(X3), whole, atol=1e-14)
    assert_allclose(model.predict_proba(sp.csr_array(X3)), whole, atol=1e-9)


# Weights


TWO_AND_THREE = pytest.mark.parametrize("n_classes", [2, 3])


def weighted(n_classes):
    X, y = blobs(n_classes)
    X = X.round(1)
    X[7] = X[3]  # equal rows of different classes
    w = np.random.default_rng(1).integers(0, 4, size=N)
    w[3], w[7] = 0, 2
    return X, y, w


def outcome(model, X):
    parts = [model.weights_, model.prior_variance_]
    if len(model.classes_) > 2:
        parts = [np.concatenate(part) for part in parts]
    return [*parts, model.covariance_, model.intercept_, model.log_marginal_likelihood_]


@in_turn(model=MODELS, n_classes=[2, 3])
def test_weights_equal_repetition(model, n_classes):
    X, y, w = weighted(n_classes)
    twice = np.repeat(np.arange(N), w)
    heavy = model.fit(X, y, sample_weight=w)
    want, proba = outcome(heavy, X), heavy.predict_proba(X)
    again = model.fit(X[twice], y[twice])
    for a, b in zip(outcome(again, X), want, strict=True):
        assert_array_equal(a, b)
    assert_array_equal(again.predict_proba(X), proba)
    rows = twice[np.random.default_rng(2).permutation(len(twice))]
    mixed = model.fit(X[rows], y[rows])
    assert_allclose(mixed.predict_proba(X), proba, atol=1e-9)


@TWO_AND_THREE
def test_balanced_weights_equal_repetition(n_classes):
    X, y, w = weighted(n_classes)
    w = w * 7
    twice = np.repeat(np.arange(N), w)
    model = RVC(gamma=0.5, class_weight="balanced")
    want = outcome(model.fit(X, y, sample_weight=w), X)
    for a, b in zip(outcome(model.fit(X[twice], y[twice]), X), want, strict=True):
        assert_array_equal(a, b)


def test_zero_and_one_leave_out():
    X, y, w = weighted(3)
    keep = w > 0
    model = RVC(gamma=0.5)
    want = model.fit(X, y, sample_weight=keep.astype(float)).predict_proba(X)
    assert_allclose(model.fit(X[keep], y[keep]).predict_proba(X), want, atol=1e-12)
    assert_array_equal(model.classes_, [0, 1, 2])


def test_relevance_counts_rows_as_the_user_does():
    X, y, w = weighted(3)
    model = RVC(gamma=0.5).fit(X, y, sample_weight=w)
    for relevance, vectors in zip(model.relevance_, model.relevance_vectors_, strict=True):
        assert_array_equal(X[relevance], vectors)
        assert (w[relevance] > 0).all()


def test_class_weights_multiply_sample_weights():
    X, y, w = weighted(3)
    w = 1.0 + w
    model = RVC(gamma=0.5, class_weight={0: 4, 2: 0.5})
    want = RVC(gamma=0.5).fit(X, y, sample_weight=w * np.array([4, 1, 0.5])[y])
    got = model.fit(X, y, sample_weight=w)
    assert_array_equal(got.predict_proba(X), want.predict_proba(X))
    ones = RVC(gamma=0.5, class_weight={}).fit(X, y)
    assert_array_equal(ones.predict_proba(X), RVC(gamma=0.5).fit(X, y).predict_proba(X))


def test_balanced_classes_have_equal_shares():
    y = np.repeat(["rare", "usual"], [5, 55])
    X = np.ones((N, 1))
    model = SparseBayesClassifier(class_weight="balanced").fit(X, y)
    assert_allclose(model.predict_proba(X[:1]), [[0.5, 0.5]], atol=1e-6)
    w = np.linspace(1, 3, N)
    model.fit(X, y, sample_weight=w)
    assert_allclose(model.predict_proba(X[:1]), [[0.5, 0.5]], atol=1e-6)
    shares = RVC(gamma=0.1).fit(X2[:, :1], y).predict_proba(X2[:, :1])[:, 0]
    even = RVC(gamma=0.1, class_weight="balanced").fit(X2[:, :1], y)
    assert even.predict_proba(X2[:, :1])[:, 0].mean() > shares.mean() + 0.2


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ("even", "class_weight must be None"),
        (2.0, "class_weight must be None"),
        ([1, 2], "class_weight must be None"),
        ({"oak": 2}, "'oak', which is no class of y: they are 0, 1"),
        ({0: -1}, "numbers >= 0, got -1 for class 0"),
        ({0: "many"}, "numbers >= 0"),
        ({0: np.nan}, "numbers >= 0"),
        ({0: None}, "numbers >= 0"),
        ({1: 0}, "class_weight leaves no sample of class 1"),
        ({0: 1e-9, 1: 1e-9}, "multiply the weights"),
    ],
    ids=str,
)
def test_class_weights_that_make_no_sense(class_weight, message):
    with pytest.raises(ValueError, match=message):
        RVC(class_weight=class_weight).fit(X2, Y2)


def test_weights_that_remove_a_class():
    for class_weight in (None, "balanced"):
        model = RVC(class_weight=class_weight)
        with pytest.raises(ValueError, match="sample_weight leaves no sample of class 1: leave"):
            model.fit(X3, Y3, sample_weight=(Y3 != 1).astype(float))


# How a fit runs


def test_shared_variances():
    X, y = blobs(4, 80)
    model = RVC(gamma=0.5, shared=True).fit(X, y)
    assert model.certificate_.holds(1e-6)
    assert len(model.relevance_[0]) > 0
    for relevance in model.relevance_[1:]:
        assert_array_equal(relevance, model.relevance_[0])
    assert_allclose(np.ptp(model.prior_variance_, axis=0), 0, atol=1e-9)
    assert model.score(X, y) > 0.8
    assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    two = RVC(gamma=0.5, shared=True).fit(X2, Y2)
    assert_array_equal(two.predict_proba(X2), RVC(gamma=0.5).fit(X2, Y2).predict_proba(X2))
    with pytest.raises(ValueError, match="shared=True forbids: use solver='working-set'"):
        RVC(shared=True, solver="sequential").fit(X, y)


@pytest.mark.parametrize(("solver", "n_classes"), [("working-set", 3), ("sequential", 2)])
def test_warm_start(solver, n_classes):
    X, y = blobs(n_classes)
    model = RVC(gamma=0.5, warm_start=True, solver=solver).fit(X, y)
    first, evidence = model.n_iter_, model.log_marginal_likelihood_
    model.fit(X, y)
    assert model.n_iter_ < first
    assert model.log_marginal_likelihood_ >= evidence - 1e-5
    # Other data of the same size: a start, not a constraint.
    other = blobs(n_classes, seed=1)
    assert model.fit(*other).certificate_.holds(1e-6)
    # Another number of classes, another size: a fresh start.
    for again in (blobs(5 - n_classes), blobs(n_classes, 45)):
        cold = RVC(gamma=0.5, solver=solver).fit(*again)
        assert_array_equal(model.fit(*again).predict_proba(X), cold.predict_proba(X))


def test_a_warm_start_minds_what_is_shared():
    model = RVC(gamma=0.5, warm_start=True).fit(X3, Y3)
    shared = model.set_params(shared=True).fit(X3, Y3)
    cold = RVC(gamma=0.5, shared=True).fit(X3, Y3)
    assert_array_equal(shared.predict_proba(X3), cold.predict_proba(X3))


@BOTH
@pytest.mark.parametrize("verbose", [1, 2])
def test_progress_goes_to_stderr(verbose, solver, capsys):
    RVC(gamma=0.5, verbose=verbose, solver=solver).fit(X3, Y3)
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = printed.err.splitlines()
    assert all(line.startswith("[RVC]") for line in lines)
    assert "converged" in lines[-1]
    assert "noise" not in printed.err
    if verbose == 2:
        assert len(lines) > 2


def test_warnings_are_deserved():
    with pytest.warns(ConvergenceWarning, match="RVC: max_iter was reached") as caught:
        model = RVC(gamma=0.5, max_iter=1).fit(X3, Y3)
    assert not model.converged_
    assert caught[0].filename == __file__


def test_both_solvers_find_much_the_same():
    for X, y in ((X2, Y2), (X3, Y3)):
        fits = [RVC(gamma=0.5, solver=s).fit(X, y) for s in ("working-set", "sequential")]
        assert fits[0].log_marginal_likelihood_ > fits[1].log_marginal_likelihood_ - 3


def test_iris():
    X, y = load_iris(return_X_y=True)
    model = RVC(gamma=0.2).fit(X, y)
    assert model.score(X, y) > 0.95
    assert sum(map(len, model.relevance_)) < 15
    loss = -log_softmax(model.decision_function(X), axis=1)[np.arange(150), y].mean()
    assert loss < 0.15
