"""Estimators on orthonormal dictionaries: when the closed form applies, and that it is the same."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pairwise import pairwise
from sparsebayes import RVR, SparseBayesRegressor, load
from sparsebayes._regression import orthonormal_form
from sparsebayes.core.stored import weighted_quadratic
from sparsebayes.design import ArrayDesign
from sparsebayes.diagonal import DiagonalState
from sparsebayes.dictionaries import Linear, Operator, Wavelet
from sparsebayes.engine import State
from sparsebayes.posterior import Posterior

N = 64
ROWS = np.arange(float(N))[:, None]


def orthogonal(seed=0, m=N, constant=False):
    """Random orthonormal columns; the first may be constant, and then no other has a mean."""
    A = np.random.RandomState(seed).standard_normal((N, m))
    if constant:
        A[:, 0] = 1.0
    return np.linalg.qr(A)[0]


def tilted():
    """Two of the atoms share the constant."""
    turn = np.eye(N)
    turn[:2, :2] = [[0.8, -0.6], [0.6, 0.8]]
    return orthogonal(constant=True) @ turn


def targets(A, n_targets=1, seed=1):
    rng = np.random.RandomState(seed)
    w = np.zeros((A.shape[1], n_targets))
    w[[0, 3, 4, 5, 6, 7]] = rng.choice([-4.0, 4.0], (6, n_targets))
    y = A @ w + 0.3 * rng.standard_normal((N, n_targets))
    return y[:, 0] if n_targets == 1 else y


def is_closed_form(model):
    return isinstance(model.solution_.state, DiagonalState)


CASES = {
    "no intercept": (orthogonal(), {"fit_intercept": False}),
    "constant atom": (orthogonal(constant=True), {}),
    "fewer atoms": (orthogonal(m=40), {"fit_intercept": False}),
    "one atom with a mean": (tilted()[:, 1:], {}),
}


@pairwise(
    name=list(CASES),
    prior=["aic", "bic", "ric", 3.0],
    noise=[{}, {"noise_variance": 0.1}, {"noise_prior": (2.0, 0.3)}],
    n_targets=[1, 2],
)
def test_the_closed_form_is_what_the_matrix_gives(name, prior, noise, n_targets):
    A, options = CASES[name]
    y = targets(A, n_targets) + (5.0 if options == {} else 0.0)
    settings = options | noise | {"prior": prior}
    exact = SparseBayesRegressor(Operator(A, orthonormal=True), **settings).fit(ROWS, y)
    assert is_closed_form(exact)
    plain = SparseBayesRegressor(Operator(A), **settings).fit(ROWS, y)
    assert isinstance(plain.solution_.state, State)
    assert exact.certificate_.holds(1e-6)
    assert exact.log_posterior_ >= plain.log_posterior_ - 1e-6
    if plain.log_posterior_ < exact.log_posterior_ - 1e-6:
        return  # another optimum
    assert_allclose(exact.relevance_, plain.relevance_)
    assert_allclose(exact.weights_, plain.weights_, rtol=1e-3, atol=1e-4)
    assert exact.noise_variance_ == pytest.approx(plain.noise_variance_, rel=1e-4)
    assert exact.log_marginal_likelihood_ == pytest.approx(plain.log_marginal_likelihood_, abs=1e-3)
    assert exact.degrees_of_freedom_ == pytest.approx(plain.degrees_of_freedom_, rel=1e-3)
    assert_allclose(exact.intercept_, plain.intercept_, atol=1e-6)
    assert_allclose(exact.covariance_, plain.covariance_, rtol=1e-3, atol=1e-6)
    for got, want in zip(
        exact.predict(ROWS, return_std=True), plain.predict(ROWS, return_std=True), strict=True
    ):
        assert_allclose(got, want, rtol=1e-3, atol=1e-4)
    one, other = (model.predict(ROWS, return_cov=True)[1] for model in (exact, plain))
    assert_allclose(one, other, rtol=1e-3, atol=1e-5)


def test_other_solvers_get_the_matrix():
    A = orthogonal(constant=True)
    y = targets(A)
    exact = SparseBayesRegressor(Operator(A, orthonormal=True), prior="bic").fit(ROWS, y)
    for solver in ("working-set", "sequential", "sequential-random", "sequential-cyclic"):
        model = SparseBayesRegressor(Operator(A, orthonormal=True), prior="bic", solver=solver).fit(
            ROWS, y
        )
        assert isinstance(model.solution_.state, State)
        assert model.log_posterior_ <= exact.log_posterior_ + 1e-6
    asked = SparseBayesRegressor(
        Operator(A, orthonormal=True), prior="bic", solver="orthonormal"
    ).fit(ROWS, y)
    assert is_closed_form(asked)
    assert asked.log_posterior_ == exact.log_posterior_


def test_draws_of_a_diagonal_posterior_have_its_covariance():
    A = orthogonal()
    settings = {"fit_intercept": False, "prior": "bic"}
    model = SparseBayesRegressor(Operator(A, orthonormal=True), **settings).fit(ROWS, targets(A))
    assert model.posterior_.root.ndim == 1
    some = ROWS[:5]
    draws = model.sample_y(some, n_samples=40_000)
    expected = model.predict(some, return_cov=True)[1] - model.noise_variance_ * np.eye(5)
    assert_allclose(np.cov(draws), expected, atol=0.05 * expected.max())
    assert_allclose(draws.mean(axis=1), model.predict(some), atol=0.01)


@pytest.mark.parametrize("name", ["haar", "sym8", "db3"])
def test_wavelets_of_full_depth_lose_only_the_constant_one(name):
    n = 256
    x = np.arange(float(n))[:, None]
    y = 7.0 + np.sign(x[:, 0] - 100) + 0.1 * np.random.RandomState(0).standard_normal(n)
    for fit_intercept in (True, False):
        settings = {"fit_intercept": fit_intercept, "prior": "bic"}
        model = SparseBayesRegressor(Wavelet(name), **settings).fit(x, y)
        assert is_closed_form(model)
        other = SparseBayesRegressor(Wavelet(name), **settings, solver="working-set").fit(x, y)
        assert model.log_posterior_ >= other.log_posterior_ - 1e-6
        if model.log_posterior_ < other.log_posterior_ + 1e-6:
            assert_allclose(model.predict(x), other.predict(x), atol=1e-4)
    shallow = Wavelet(name, level=3)
    assert is_closed_form(SparseBayesRegressor(shallow, fit_intercept=False).fit(x, y))
    assert not is_closed_form(SparseBayesRegressor(shallow).fit(x, y))
    with pytest.raises(ValueError, match="without their means, which fit_intercept=True takes"):
        SparseBayesRegressor(shallow, solver="orthonormal").fit(x, y)


def test_where_it_does_not_apply():
    A = orthogonal()
    y = targets(A)
    needs = r"solver='orthonormal' does not apply: .*{}.*; use solver='auto'"
    with pytest.raises(ValueError, match=needs.format("not orthonormal on X")):
        SparseBayesRegressor(Operator(A), solver="orthonormal").fit(ROWS, y)
    with pytest.raises(ValueError, match=needs.format("not orthonormal on X")):
        RVR(solver="orthonormal").fit(ROWS, y)
    model = SparseBayesRegressor(Operator(A, orthonormal=True), solver="orthonormal")
    with pytest.raises(ValueError, match=needs.format("without their means")):
        model.fit(ROWS, y)
    model.set_params(fit_intercept=False)
    with pytest.raises(ValueError, match=needs.format("sample weights")):
        model.fit(ROWS, y, sample_weight=np.arange(N) + 1.0)
    with pytest.raises(ValueError, match="orthonormal"):
        model.fit(ROWS[:50], y[:50])  # a part of the rows: the dictionary's claim no longer holds
    model.fit(ROWS[::-1], y[::-1])
    assert is_closed_form(model)
    assert not is_closed_form(SparseBayesRegressor().fit(ROWS, y))


def test_a_permutation_of_rows_changes_nothing_and_a_warm_start_does_no_harm():
    A = orthogonal(constant=True)
    y = targets(A)
    model = SparseBayesRegressor(Operator(A, orthonormal=True), prior="bic", warm_start=True)
    first = model.fit(ROWS, y).predict(ROWS)
    order = np.random.RandomState(0).permutation(N)
    assert_allclose(model.fit(ROWS[order], y[order]).predict(ROWS), first, atol=1e-9)
    assert is_closed_form(model.fit(ROWS, y))


def test_no_signal_at_all():
    A = orthogonal(constant=True)
    model = SparseBayesRegressor(Operator(A, orthonormal=True))
    with pytest.warns(UserWarning, match="noise estimate reached its floor"):
        model.fit(ROWS, np.full(N, 3.0))
    assert len(model.relevance_) == 0
    assert_allclose(model.predict(ROWS), 3.0)
    assert model.covariance_.shape == (0, 0)


def test_a_flat_prior_warns_of_its_collapse():
    A = orthogonal(constant=True)
    model = SparseBayesRegressor(Operator(A, orthonormal=True), prior="flat")
    with pytest.warns(UserWarning, match="noise estimate has collapsed"):
        model.fit(ROWS, targets(A))


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_model_files(tmp_path, fit_intercept):
    x = np.arange(128.0)[:, None]
    y = np.sin(x[:, 0] / 9) + 0.1 * np.random.RandomState(0).standard_normal(128)
    model = SparseBayesRegressor(Wavelet("sym8"), fit_intercept=fit_intercept).fit(x, y)
    model.save(tmp_path / "model")
    same = load(tmp_path / "model")
    assert same.posterior_.root.shape == (len(model.relevance_),)
    for got, want in zip(
        same.predict(x, return_std=True), model.predict(x, return_std=True), strict=True
    ):
        assert_allclose(got, want, rtol=1e-12)
    assert_allclose(same.covariance_, model.covariance_)
    assert (tmp_path / "model").stat().st_size < 40_000  # a diagonal is stored as one


def stored(model):
    spec, arrays = model.posterior_.to_spec()
    return spec, dict(arrays)


@pytest.mark.parametrize(
    "damage",
    [
        lambda root: root[:-1],
        lambda root: np.append(root, 1.0),
        lambda root: root[:, None],
        lambda root: np.full_like(root, np.nan),
        lambda root: np.full_like(root, np.inf),
        lambda root: root.astype(np.float32),
        lambda root: root.astype(complex),
        lambda root: np.array(1.0),
        lambda root: np.empty(0),
        lambda root: np.ones((2, 2, 2)),
    ],
)
def test_damaged_roots_are_refused(damage):
    A = orthogonal()
    settings = {"fit_intercept": False, "prior": "bic"}
    model = SparseBayesRegressor(Operator(A, orthonormal=True), **settings).fit(ROWS, targets(A))
    spec, arrays = stored(model)
    assert Posterior.from_spec(spec, arrays).root.ndim == 1
    arrays["root"] = damage(arrays["root"])
    with pytest.raises(ValueError, match="array 'root'"):
        Posterior.from_spec(spec, arrays)


# What centering does to orthonormal atoms


def test_the_quadratic_without_a_matrix_is_the_quadratic():
    A, t = orthogonal(constant=True), np.random.RandomState(0).standard_normal((N, 2)) + 4
    full = weighted_quadratic(ArrayDesign(A), t, center=True)
    simple = orthonormal_form(full)
    assert simple.void.tolist() == [True] + [False] * (N - 1)
    G = full.gram(np.arange(N)).G
    inside = ~simple.void
    assert_allclose(G[inside][:, inside], np.eye(N - 1), atol=1e-12)
    assert_allclose(simple.g[inside], full.g[inside])
    assert not simple.g[0].any()
    assert (simple.tt, simple.n, simple.spread) == (full.tt, full.n, full.spread)
    assert simple.log_offset == full.log_offset


def test_one_atom_with_a_mean_is_made_of_unit_norm_and_two_are_refused():
    both = tilted()
    t = np.random.RandomState(0).standard_normal((N, 1))
    assert orthonormal_form(weighted_quadratic(ArrayDesign(both), t, center=True)) is None
    one = weighted_quadratic(ArrayDesign(both[:, 1:]), t, center=True)
    simple = orthonormal_form(one)
    assert not simple.void.any()
    assert_allclose(one.gram(np.arange(N - 1)).G, np.eye(N - 1), atol=1e-12)
    assert_allclose(simple.g, one.g)


def test_of_a_constant_atom_centering_leaves_nothing_but_rounding():
    """Filters are known to twelve digits: what is left of the constant is no atom."""
    A = orthogonal(constant=True)
    A[:, 0] += 1e-10 * A[:, 1]
    simple = orthonormal_form(weighted_quadratic(ArrayDesign(A), targets(A)[:, None], center=True))
    assert simple.void.tolist() == [True] + [False] * (N - 1)
    assert simple.g[0, 0] == 0


def test_linear_dictionaries_make_no_such_claim():
    assert not Linear().bind(orthogonal()).orthonormal
