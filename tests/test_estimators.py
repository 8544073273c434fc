"""The regressors: what a fit leaves behind, in which units, and how it runs."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from pairwise import in_turn
from sparsebayes import RVR, SparseBayesRegressor
from sparsebayes.core.quadratic import Gram
from sparsebayes.datasets import sinc, sparse_linear
from sparsebayes.dictionaries import Bias, Kernel, Linear, Union
from sparsebayes.hyperpriors import Flat, Smoothness

SINC = sinc(120, noise=0.1, random_state=0)
WIDE = sparse_linear(80, 120, 4, random_state=1)
BOTH = pytest.mark.parametrize("solver", ["working-set", "sequential"])


def kernel_model(**parameters):
    return RVR(gamma=1 / 9, **parameters)


# Attributes


def test_fitted_attributes_of_a_linear_model():
    X, y = WIDE.X, WIDE.y
    model = SparseBayesRegressor()
    assert model.fit(X, y) is model
    m = len(model.relevance_)
    assert model.relevance_.dtype == np.intp
    assert_array_equal(model.relevance_, np.unique(model.relevance_))
    assert set(np.flatnonzero(WIDE.weights)) <= set(model.relevance_)
    assert model.weights_.shape == model.prior_variance_.shape == (m,)
    assert model.covariance_.shape == (m, m)
    assert model.coef_.shape == (X.shape[1],)
    assert_array_equal(np.flatnonzero(model.coef_), model.relevance_)
    assert_array_equal(model.coef_[model.relevance_], model.weights_)
    assert_allclose(X @ model.coef_ + model.intercept_, model.predict(X), atol=1e-12)
    for name in ("intercept_", "noise_variance_", "log_marginal_likelihood_"):
        assert type(getattr(model, name)) is float
    assert type(model.n_iter_) is int
    assert model.converged_ is True
    assert model.certificate_.holds(model.tol)
    assert model.n_features_in_ == X.shape[1]
    assert not hasattr(model, "relevance_vectors_")
    assert model.solution_.status.name == "CONVERGED"


def test_fitted_attributes_of_a_kernel_model():
    X, y = SINC.X, SINC.y
    model = kernel_model().fit(X, y)
    assert_array_equal(model.relevance_vectors_, X[model.relevance_])
    assert not hasattr(model, "coef_")
    Phi = rbf_kernel(X, model.relevance_vectors_, gamma=1 / 9)
    assert_allclose(Phi @ model.weights_ + model.intercept_, model.predict(X), atol=1e-12)
    assert model.score(X, y) > 0.9


def test_attributes_of_another_fit_do_not_linger():
    model = SparseBayesRegressor().fit(SINC.X, SINC.y)
    assert hasattr(model, "coef_")
    model.set_params(dictionary=Kernel(gamma=1 / 9)).fit(SINC.X, SINC.y)
    assert not hasattr(model, "coef_")
    assert hasattr(model, "relevance_vectors_")
    model.set_params(dictionary=Linear() + Kernel(gamma=1 / 9)).fit(SINC.X, SINC.y)
    assert not hasattr(model, "relevance_vectors_")


def test_positions_in_a_union():
    X = np.random.default_rng(0).normal(size=(80, 2))
    y = 2 * X[:, 1] + np.exp(-((X - X[5]) ** 2).sum(axis=1)) * 3
    y += 0.05 * np.random.default_rng(1).normal(size=80)
    model = SparseBayesRegressor(Linear() + Kernel(gamma=1.0)).fit(X, y)
    assert {1, 2 + 5} <= set(model.relevance_.tolist())


def test_several_targets_share_their_atoms():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 20))
    W = np.zeros((20, 3))
    W[[2, 7]] = rng.normal(size=(2, 3)) + 2
    Y = X @ W + [1.0, -2.0, 30.0] + 0.1 * rng.normal(size=(100, 3))
    model = SparseBayesRegressor().fit(X, Y)
    m = len(model.relevance_)
    assert {2, 7} <= set(model.relevance_.tolist())
    assert model.weights_.shape == (m, 3)
    assert model.prior_variance_.shape == (m,)
    assert model.coef_.shape == (3, 20)
    assert model.intercept_.shape == (3,)
    assert_allclose(X @ model.coef_.T + model.intercept_, model.predict(X), atol=1e-10)
    assert_allclose(model.coef_, W.T, atol=0.1)
    one = SparseBayesRegressor().fit(X, Y[:, :1])
    flat = SparseBayesRegressor().fit(X, Y[:, 0])
    assert one.predict(X).shape == (100, 1)
    assert one.coef_.shape == (1, 20)
    assert_array_equal(one.predict(X)[:, 0], flat.predict(X))
    assert one.log_marginal_likelihood_ == flat.log_marginal_likelihood_


def test_equal_targets_are_as_good_as_one():
    # Two copies: the same atoms, twice the evidence for each.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    y = X[:, 1] + 0.1 * rng.normal(size=60)
    one = SparseBayesRegressor(prior="flat", noise_variance=0.01).fit(X, y)
    two = SparseBayesRegressor(prior="flat", noise_variance=0.01).fit(X, np.stack([y, y], axis=1))
    assert_array_equal(one.relevance_, two.relevance_)
    assert_allclose(two.predict(X)[:, 1], one.predict(X), atol=1e-8)
    assert_allclose(2 * one.log_marginal_likelihood_, two.log_marginal_likelihood_, rtol=1e-9)


def test_the_intercept_is_fitted_jointly():
    rng = np.random.default_rng(0)
    X = rng.normal(3, 1, size=(200, 2))
    y = 10 + 5 * X[:, 0] + 0.1 * rng.normal(size=200)
    model = SparseBayesRegressor().fit(X, y)
    assert abs(model.intercept_ - 10) < 0.1
    assert abs(y.mean() - 25) < 1
    assert SparseBayesRegressor(fit_intercept=False).fit(X, y).intercept_ == 0.0


def test_noise_given_or_estimated():
    estimated = kernel_model().fit(SINC.X, SINC.y)
    assert 0.08 < estimated.noise_variance_**0.5 < 0.12
    given = kernel_model(noise_variance=0.123).fit(SINC.X, SINC.y)
    assert given.noise_variance_ == 0.123
    same = kernel_model(noise_variance=estimated.noise_variance_).fit(SINC.X, SINC.y)
    assert_allclose(same.log_marginal_likelihood_, estimated.log_marginal_likelihood_, atol=0.1)
    assert given.log_marginal_likelihood_ < estimated.log_marginal_likelihood_


def test_priors_by_name_number_and_object():
    X, y = WIDE.X, WIDE.y
    n, m = X.shape
    same = [
        ("flat", Flat(), None),
        ("aic", Smoothness(1.0), 1),
        ("bic", Smoothness(np.log(n) / 2), np.log(n) / 2),
        ("ric", Smoothness(np.log(m)), np.log(m)),
        ("auto", "ric", "ric"),
    ]
    for name, thing, number in same[1:]:
        fits = [
            SparseBayesRegressor(prior=prior).fit(X, y).predict(X)
            for prior in (name, thing, number)
        ]
        assert_array_equal(fits[0], fits[1])
        assert_array_equal(fits[0], fits[2])
    auto = kernel_model().fit(SINC.X, SINC.y)
    for prior in ("flat", Flat()):
        other = kernel_model(prior=prior).fit(SINC.X, SINC.y)
        assert_array_equal(auto.predict(SINC.X), other.predict(SINC.X))
    union = SparseBayesRegressor(Union([Bias(), Union([Kernel(gamma=1 / 9)])]), prior="auto")
    flat = clone(union).set_params(prior="flat")
    assert_array_equal(
        union.fit(SINC.X, SINC.y).predict(SINC.X), flat.fit(SINC.X, SINC.y).predict(SINC.X)
    )


def test_a_void_atom_costs_nothing():
    # "ric" pays for atoms that could enter; constant columns cannot beside an intercept.
    X = np.hstack([WIDE.X, np.ones((80, 300))])
    want = SparseBayesRegressor().fit(WIDE.X, WIDE.y)
    got = SparseBayesRegressor().fit(X, WIDE.y)
    assert_array_equal(got.relevance_, want.relevance_)
    assert_allclose(got.log_marginal_likelihood_, want.log_marginal_likelihood_, rtol=1e-9)


# Units


@in_turn(
    unit=[(1, 1e6), (1e-6, 0), (1e6, 0), (1e-150, 0), (1e150, 0), (-3.7, 11.0), (1e-9, 1e-3)],
    solver=["working-set", "sequential"],
)
def test_targets_in_other_units(unit, solver):
    scale, shift = unit
    X, y = SINC.X, SINC.y
    want = kernel_model(solver=solver).fit(X, y)
    got = kernel_model(solver=solver).fit(X, scale * y + shift)
    assert_array_equal(got.relevance_, want.relevance_)
    mean, std = want.predict(X, return_std=True)
    new_mean, new_std = got.predict(X, return_std=True)
    lost = 1e-7 + 1e-15 * abs(shift / scale)  # what rounding y + shift has taken away
    assert_allclose((new_mean - shift) / scale, mean, rtol=0, atol=10 * lost)
    assert_allclose(new_std / abs(scale), std, rtol=10 * lost)
    assert_allclose(got.noise_variance_ / scale**2, want.noise_variance_, rtol=10 * lost)
    assert_allclose(
        got.log_marginal_likelihood_ + (len(y) - 1) * np.log(abs(scale)),
        want.log_marginal_likelihood_,
        atol=1e-6 + 1e4 * lost,
    )
    # v' = v scale^2, for the atoms as given
    assert_allclose(got.prior_variance_ / scale**2, want.prior_variance_, rtol=1e-4 + 1e3 * lost)


def test_given_noise_in_other_units():
    X, y = SINC.X, SINC.y
    want = kernel_model(noise_variance=0.01).fit(X, y)
    for scale in (1e-150, 1e-6, 1e6, 1e140):
        got = kernel_model(noise_variance=0.01 * scale**2).fit(X, scale * y)
        assert_allclose(got.predict(X) / scale, want.predict(X), atol=1e-7)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_columns_in_other_units(fit_intercept, storage):
    X, y = WIDE.X, WIDE.y
    unit = 10.0 ** np.random.default_rng(0).integers(-150, 150, size=X.shape[1])
    unit[np.flatnonzero(WIDE.weights)] = [1e-150, 1e150, 1e-12, -1e12]
    want = SparseBayesRegressor(fit_intercept=fit_intercept).fit(X, y)
    got = SparseBayesRegressor(fit_intercept=fit_intercept).fit(storage(X * unit), y)
    assert_array_equal(got.relevance_, want.relevance_)
    assert_allclose(got.coef_ * unit, want.coef_, atol=1e-9)
    scales = unit[got.relevance_]
    with np.errstate(over="ignore"):
        assert_allclose((np.sqrt(got.prior_variance_) * np.abs(scales)) ** 2, want.prior_variance_)
    assert_allclose(got.predict(storage(X * unit)), want.predict(X), atol=1e-9)
    assert_allclose(got.log_marginal_likelihood_, want.log_marginal_likelihood_)
    assert np.isfinite(got.covariance_).all()


def test_inputs_shifted():
    X, y = SINC.X, SINC.y
    for dictionary in (Kernel(gamma=1 / 9), Kernel("laplacian", gamma=0.1)):
        model = SparseBayesRegressor(dictionary)
        mean, std = model.fit(X, y).predict(X, return_std=True)
        far_mean, far_std = model.fit(X + 1e6, y).predict(X + 1e6, return_std=True)
        assert_allclose(far_mean, mean, atol=1e-6)
        assert_allclose(far_std, std, atol=1e-6)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_columns_shifted(storage):
    # The intercept takes the shift; only what rounding took from X + shift is lost.
    X, y = WIDE.X, WIDE.y
    want = SparseBayesRegressor().fit(X, y)
    mean, std = want.predict(X, return_std=True)
    for shift in (1e3, -1e6, 1e8):
        far = storage(X + shift)
        got = SparseBayesRegressor().fit(far, y)
        assert_array_equal(got.relevance_, want.relevance_)
        lost = 1e-9 + 1e-14 * abs(shift)
        assert_allclose(got.coef_, want.coef_, atol=lost)
        far_mean, far_std = got.predict(far, return_std=True)
        assert_allclose(far_mean, mean, atol=10 * lost)
        assert_allclose(far_std, std, atol=lost)


# How a fit runs


@BOTH
def test_warm_start(solver):
    X, y = SINC.X, SINC.y
    model = kernel_model(warm_start=True, solver=solver).fit(X, y)
    first, mean = model.n_iter_, model.predict(X)
    evidence = model.log_marginal_likelihood_
    model.fit(X, y)
    assert model.n_iter_ < first / 4
    assert_allclose(model.predict(X), mean, atol=1e-5)
    assert model.log_marginal_likelihood_ >= evidence - 1e-6
    # Other data of the same size: a start, not a constraint.
    other = sinc(120, noise=0.1, random_state=1)
    cold = kernel_model(solver=solver).fit(other.X, other.y)
    assert model.fit(other.X, other.y).certificate_.holds(1e-6)
    assert abs(model.log_marginal_likelihood_ - cold.log_marginal_likelihood_) < 10
    # Hardly other targets, whose internal unit is twice as large.
    y = y * (0.999 / np.abs(y - y.mean()).max())
    model = kernel_model(warm_start=True, solver=solver).fit(X, y)
    unit, first = model.posterior_.scale, model.n_iter_
    model.fit(X, 1.002 * y)
    assert model.posterior_.scale == 2 * unit
    assert model.n_iter_ < first
    trace = model.solution_.trace
    if solver == "working-set":  # it begins where the last fit ended, in the new unit
        assert trace[-1].objective - trace[0].objective < 0.01
    # Another size, or targets of another world: a fresh start, the same as without.
    for change in (lambda X, y: (X[:70], y[:70]), lambda X, y: (X, 1e9 * y)):
        cold = kernel_model(solver=solver).fit(*change(X, y))
        warm = kernel_model(solver=solver, warm_start=True).fit(X, y).fit(*change(X, y))
        assert_array_equal(warm.predict(X), cold.predict(X))


def test_a_warm_start_keeps_the_users_units():
    last = kernel_model(warm_start=True).fit(SINC.X, SINC.y)._last
    state, unit = last.solution.state, last.posterior.scale
    same_size = Gram(np.eye(120), np.zeros((120, 1)), tt=1.0, n=119.0, spread=1.0)
    active, v, noise_var = last.start(same_size, 4 * unit)
    assert_array_equal(active, state.active)
    assert_allclose(v * 16, state.v)
    assert_allclose(noise_var * 16, state.noise_var)
    assert last.start(same_size.gram(np.arange(60)), unit) is None


def test_warm_start_on_nothing():
    model = SparseBayesRegressor(warm_start=True)
    with pytest.warns(ConvergenceWarning):
        model.fit(WIDE.X, np.ones(80))
    assert len(model.fit(WIDE.X, WIDE.y).relevance_) >= 4


@BOTH
@pytest.mark.parametrize("verbose", [1, 2, True])
def test_progress_goes_to_stderr(verbose, solver, capsys):
    model = kernel_model(verbose=verbose, solver=solver).fit(SINC.X, SINC.y)
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = printed.err.splitlines()
    assert all(line.startswith("[RVR]") for line in lines)
    assert f"{len(model.relevance_)} atoms" in lines[-1]
    assert "converged" in lines[-1]
    if verbose == 2:
        assert len(lines) > 3


def test_silent_by_default(capfd):
    SparseBayesRegressor().fit(WIDE.X, np.tile([0.0, 1.0], 40))
    printed = capfd.readouterr()
    assert printed.out == printed.err == ""


def test_random_state_repeats():
    X, y = SINC.X, SINC.y
    fits = [
        kernel_model(n_restarts=3, centers=30, random_state=state).fit(X, y).predict(X)
        for state in (0, 0, np.random.RandomState(0))
    ]
    assert_array_equal(fits[0], fits[1])
    assert_array_equal(fits[0], fits[2])


def test_restarts_do_not_harm():
    X, y = SINC.X, SINC.y
    plain = kernel_model().fit(X, y)
    more = kernel_model(n_restarts=3, random_state=0).fit(X, y)
    assert more.log_marginal_likelihood_ >= plain.log_marginal_likelihood_ - 0.02


def test_warnings_are_deserved():
    with pytest.warns(ConvergenceWarning, match="max_iter was reached.*increase max_iter"):
        model = kernel_model(max_iter=1).fit(SINC.X, SINC.y)
    assert not model.converged_
    with pytest.warns(ConvergenceWarning, match="RVR: .*noise") as caught:
        RVR(gamma=1e4).fit(SINC.X, SINC.y)
    assert caught[0].filename == __file__
