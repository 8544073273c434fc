"""What is found must not hang on the last bit, nor on the order of rows and atoms."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks import robustness
from benchmarks._certificates import HIDDEN, compared, fitted, truth
from benchmarks._robustness_fits import Case
from sparsebayes import RVC, RVR, SparseBayesRegressor
from sparsebayes.core.quadratic import Gram
from sparsebayes.datasets import friedman1, mixtures, sinc
from sparsebayes.dictionaries import Kernel, Linear
from sparsebayes.solvers.draws import by_score, drawn
from sparsebayes.solvers.search import SETTINGS, likely


def gram(seed: int, n: int, m: int, order: np.ndarray | None = None, targets: int = 1) -> Gram:
    """Linear problem whose columns are of unit norm, and those of `order` where it is given."""
    rng = np.random.default_rng(seed)
    Phi = rng.normal(size=(n, m))
    Phi /= np.linalg.norm(Phi, axis=0)
    t = rng.normal(size=(n, targets))
    if order is not None:
        Phi = Phi[:, order]
    return Gram(Phi.T @ Phi, Phi.T @ t, float((t * t).sum()), n, 1.0)


def rng() -> np.random.RandomState:
    return np.random.RandomState(0)


@pytest.mark.parametrize("targets", [1, 3])
def test_atoms_are_drawn_in_any_order_of_them(targets):
    order = np.random.default_rng(1).permutation(200)
    one, other = gram(0, 50, 200, targets=targets), gram(0, 50, 200, order, targets)
    assert_array_equal(order[drawn(other, 80, rng())], drawn(one, 80, rng()))


def test_the_sample_of_a_large_dictionary_is_the_same_in_any_order_of_its_atoms():
    order = np.random.default_rng(2).permutation(1000)
    one, other = gram(3, 40, 1000), gram(3, 40, 1000, order)
    found = likely(other, rng())
    assert found.size == SETTINGS.crowd
    assert_array_equal(np.sort(order[found]), likely(one, rng()))


def test_draws_do_not_see_the_last_bits_nor_units_nor_signs():
    g = np.random.default_rng(4).normal(size=(500, 2))
    order = by_score(g, rng())
    noise = 1e-14 * np.random.default_rng(5).normal(size=g.shape)
    for same in (g + noise, 3.7e20 * g, -g, g * [1.0, -1.0]):
        assert_array_equal(by_score(same, rng()), order)


def test_every_atom_is_drawn_about_as_often_as_any_other():
    quad, random = gram(6, 30, 50), rng()
    count = np.zeros(50)
    for _ in range(1000):
        count[drawn(quad, 10, random)] += 1
    # binomial: mean 200, standard deviation 12.6
    assert 200 - 5 * 12.6 < count.min() < count.max() < 200 + 5 * 12.6


def test_void_atoms_are_not_drawn_and_equal_ones_follow_one_another():
    g = np.array([[0.5], [0.0], [0.2], [0.5], [0.1]])
    quad = Gram(np.diag([1.0, 0.0, 1.0, 1.0, 1.0]), g, 1.0, 10.0, 0.1)
    for seed in range(5):
        order = drawn(quad, 5, np.random.RandomState(seed)).tolist()
        assert sorted(order) == [0, 2, 3, 4]
        assert order.index(3) == order.index(0) + 1


def test_draws_of_nothing():
    quad = Gram(np.eye(3), np.zeros((3, 1)), 1.0, 10.0, 0.1)
    assert drawn(quad, 2, rng()).tolist() == [0, 1]
    assert drawn(quad, 2, rng(), np.empty(0, dtype=np.intp)).size == 0


@pytest.mark.parametrize(
    "model",
    [
        RVR(gamma=0.5),
        RVR(gamma="evidence"),
        RVR(gamma="pooled"),
        RVR(gamma=0.5, centers=20, random_state=0),
        SparseBayesRegressor(Linear() + Kernel(gamma=0.5), prior="bic"),
        RVR(gamma=0.5, memory="64MiB"),
    ],
    ids=str,
)
def test_a_regression_is_the_same_in_any_order_of_its_rows(model):
    data = friedman1(80, random_state=1)
    X, y = data.X[:, :5].copy(), data.y
    order = np.random.default_rng(2).permutation(80)
    one = model.fit(X, y)
    found = one.relevance_, getattr(one, "relevance_vectors_", None)
    evidence, mean = one.log_marginal_likelihood_, one.predict(X)
    other = model.fit(X[order], y[order])
    given = model.get_params()
    at_rows = given.get("centers") is None
    if at_rows and given.get("memory") is None:  # else sums have other last bits
        assert other.log_marginal_likelihood_ == evidence
    assert_allclose(other.log_marginal_likelihood_, evidence, rtol=1e-9)
    assert_allclose(other.predict(X), mean, rtol=1e-6, atol=1e-8)
    if found[1] is not None and at_rows:
        assert_array_equal(np.sort(order[other.relevance_]), found[0])  # which ascend
        assert_array_equal(X[found[0]], found[1])


@pytest.mark.parametrize("gamma", [2.0, "evidence"])
def test_classes_are_the_same_in_any_order_of_rows(gamma):
    data = mixtures(80, random_state=3)
    order = np.random.default_rng(4).permutation(80)
    one = RVC(gamma=gamma).fit(data.X, data.y)
    other = RVC(gamma=gamma).fit(data.X[order], data.y[order])
    assert other.log_marginal_likelihood_ == one.log_marginal_likelihood_
    assert_allclose(other.predict_proba(data.X), one.predict_proba(data.X), atol=1e-11)


def test_kernels_at_rows_are_tried_in_an_order_of_columns_too():
    data = friedman1(100, random_state=5)
    columns = np.random.default_rng(6).permutation(10)
    one = RVR(gamma=0.3).fit(data.X, data.y)
    other = RVR(gamma=0.3).fit(data.X[:, columns], data.y)
    assert_array_equal(other.relevance_, one.relevance_)
    assert_allclose(other.log_marginal_likelihood_, one.log_marginal_likelihood_, atol=1e-5)


def test_equal_rows_and_sparse_ones_keep_their_first_place():
    data = sinc(60, random_state=7)
    X = np.repeat(np.round(data.X, 1), 2, axis=0)
    y = np.repeat(data.y, 2) + 0.01 * np.random.default_rng(8).normal(size=120)
    order = np.random.default_rng(9).permutation(120)
    for make in (np.asarray, sp.csr_matrix):
        one = RVR(gamma=0.1).fit(make(X), y)
        other = RVR(gamma=0.1).fit(make(X[order]), y[order])
        found = [np.sort(rows[m.relevance_], axis=0) for m, rows in ((one, X), (other, X[order]))]
        assert_array_equal(*found)
        assert other.log_marginal_likelihood_ == one.log_marginal_likelihood_
        for model, rows in ((one, X), (other, X[order])):
            for row in model.relevance_:
                assert not (rows[:row] == rows[row]).all(axis=1).any()  # the first of its kind


# Kernels wide beside the noise: with the noise found, and given far below what would be found.
HARD = [
    (40, 0.1, 0.0, 0),
    (60, 0.1, 1e-5, 1),
    (60, 0.01, 1e-3, 2),
    (60, 0.03, 0.0, 3),
    (60, 0.01, 1e-3, 4),
]


@pytest.mark.parametrize(("size", "gamma", "noise", "draw"), HARD)
def test_no_certificate_hides_a_gain(size, gamma, noise, draw):
    """Gains of atoms that are in the span of the model but for 1e-10 to 1e-12 of them, too."""
    row = compared(fitted(size, gamma, noise, draw))
    assert row["hidden"] <= HIDDEN, row
    assert row["evidence beyond"] <= HIDDEN, row
    assert row["float64"] == pytest.approx(row["long double"], rel=0.05, abs=HIDDEN)


def test_independent_code_notices_what_is_wrong():
    """It is a test of certificates only if it sees models that are none."""
    fit = fitted(40, 0.1, 1e-2, 0)
    assert truth(fit, np.longdouble).max_gain < 1e-6
    evidence = truth(fit, np.longdouble).evidence
    assert evidence == pytest.approx(fit.model.log_marginal_likelihood_, abs=1e-7)
    fit.model.prior_variance_ = fit.model.prior_variance_ * 1.5
    wrong = truth(fit, np.longdouble)
    assert wrong.max_gain > 1e-3
    assert wrong.evidence < evidence - 1e-3


def test_the_benchmark_tells_fits_that_differ_from_those_that_do_not():
    X = np.zeros((2, 1))
    noisy = Case("one", "noisy", None, X, X[:, 0], X)
    free = Case("one", "free", None, X, X[:, 0], X, free=True)
    same = {"status": "CONVERGED", "evidence": 5.0, "mean": [1.0, 2.0], "std": [0.5, 0.5]}
    far = same | {"evidence": 4.5, "mean": [1.0, 3.0]}
    floor = same | {"status": "NOISE_FLOOR", "evidence": 900.0}
    runs = [("native", 0), ("Haswell", 0)]
    results = {("native", 0, case.key): same for case in (noisy, free)}
    results |= {("Haswell", 0, noisy.key): far, ("Haswell", 0, free.key): floor}
    row = robustness.row_of("one", [noisy, free], results, runs)
    assert (row["evidence, nats"], row["predictions, std"]) == (0.5, 2.0)
    assert (row["other optimum"], row["answered"], row["runs"]) == (1, 4, 4)
    assert (row["converged, %"], row["at the floor, %"]) == (75.0, 25.0)
    (listed,) = robustness.apart([noisy, free], results)
    assert (listed["fit"], listed["by kernel, nats"]) == (noisy.key, 0.5)
    failed = results | {("Haswell", 0, noisy.key): {"status": "ValueError: no"}}
    row = robustness.row_of("one", [noisy], failed, runs)
    assert (row["answered"], row["other optimum"]) == (1, 1)
    assert row["ended otherwise"] == "ValueError: no 1"
    assert not robustness.converged(noisy, floor)
