"""Kernels as sums of a few of them: sums over rows are those of all, or the way is not taken."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pairwise import pairwise
from sparsebayes import SparseBayesClassifier, SparseBayesRegressor, _row_latent, _row_regression
from sparsebayes.core.sums import Rooted
from sparsebayes.datasets import mixtures, sinc
from sparsebayes.dictionaries import Bias, Kernel, Linear
from sparsebayes.engine import EPS
from sparsebayes.hyperpriors import Flat
from sparsebayes.laplace import find_mode
from sparsebayes.likelihoods import Bernoulli, Multinomial, Poisson
from sparsebayes.rows import LocalRows, open_source
from sparsebayes.rows.gaussian import sample_means
from sparsebayes.rows.latent import RowLatent
from sparsebayes.rows.quadratics import row_quadratic
from sparsebayes.rows.span import find_span
from sparsebayes.solvers.expand import Part, Point, expand

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(900, 2))
WIDE = Kernel("rbf", gamma=0.1, centers=X[:300])


def test_atoms_are_sums_of_few():
    atoms = WIDE.bind(X)
    span = find_span(atoms, X)
    assert span.rank < 150
    assert_allclose(span.few.evaluate(X) @ span.T, atoms.evaluate(X), rtol=0, atol=2e-13)
    assert_allclose(span.means, atoms.evaluate(X).mean(axis=0), atol=1e-12)
    some = np.arange(0, 300, 3)
    assert span.restrict(some[: span.rank]) is None
    assert_allclose(span.restrict(np.arange(250)).T, span.T[:, :250])


def test_other_columns_of_a_union_are_kept():
    atoms = (Bias() + Linear() + Kernel("poly", gamma=1.0, degree=3, centers=X[:300])).bind(X)
    span = find_span(atoms, X)
    assert span.rank == 1 + 2 + 4  # third powers of sums of two variables
    assert_allclose(span.few.evaluate(X) @ span.T, atoms.evaluate(X), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    ("kernel", "rows"),
    [
        (Kernel("laplacian", gamma=3.0, centers=X[:300]), X),  # of full rank
        (Kernel("sigmoid", gamma=1.0, coef0=-1.0, centers=X[:300]), X),  # of no sign
        (WIDE, 2 * X),  # rows far from all centers
        (Kernel("rbf", gamma=0.5, centers=X[:200]), X),  # few
        (Linear(), RNG.normal(size=(50, 300))),
    ],
    ids=["full rank", "indefinite", "far rows", "few atoms", "no kernels"],
)
def test_where_it_is_not_so_nothing_is_found(kernel, rows):
    bound = kernel.bind(X if rows.shape[1] == 2 else rows)
    assert find_span(bound, rows) is None


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("weights", [None, RNG.uniform(0.1, 3.0, size=900)])
def test_gaussian_sums(center, weights):
    t = RNG.normal(size=(900, 2))
    atoms = WIDE.bind(X)
    span = find_span(atoms, X[:100], center)
    rows = LocalRows(open_source(X, t, weights), block_rows=70)
    some, all_of_them = np.array([3, 200, 7]), np.arange(300)
    direct = row_quadratic(rows, atoms, center, None, sample_means(atoms, X[:100]), some)
    passes = rows.meter.passes
    for prefetch in (some, all_of_them):
        quad = row_quadratic(rows, atoms, center, None, None, prefetch, span)
        for name in ("norm", "mean", "g", "diag", "tt"):
            assert_allclose(getattr(quad, name), getattr(direct, name), rtol=1e-10, atol=1e-11)
        assert_allclose(quad.columns(some), direct.columns(some), rtol=0, atol=1e-11)
        assert rows.meter.passes == passes + 1
        others = np.array([5, 99, 200])
        assert_allclose(
            quad.columns(others)[:, some], direct.columns(some)[:, others].T, atol=1e-11
        )
        assert_allclose(quad.gram(some).G, direct.gram(some).G, rtol=0, atol=1e-11)
        passes = rows.meter.passes


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize(
    ("likelihood", "shared"),
    [(Bernoulli(), False), (Poisson(), False), (Multinomial(3), False), (Multinomial(3), True)],
    ids=["two classes", "counts", "three classes", "shared"],
)
def test_latent_sums(likelihood, shared, center):
    K = likelihood.n_latent
    y = RNG.integers(0, 2 if K == 1 else 3, size=900).astype(float)
    atoms = Kernel("rbf", gamma=0.05, centers=X[:600]).bind(X)
    rows = LocalRows(open_source(X, y), block_rows=128)
    reference = sample_means(atoms, X[:100])
    direct = RowLatent(rows, atoms, likelihood, center, shared, reference, 900)
    spanned = replace(direct, span=find_span(atoms, X[:100], center).turned(X[:300]))
    active = np.array([2, 31, 400])
    columns = (active[:, None] * K + np.arange(K)).ravel()
    mode = find_mode(direct, columns, np.full(columns.size, 0.3))
    one, two = direct.quadratic(mode), spanned.quadratic(mode)
    assert isinstance(two.products, Rooted)
    for name in ("norm", "g", "mean", "blocks", "log_offset"):
        assert_allclose(getattr(two, name), getattr(one, name), rtol=1e-9, atol=1e-9)
    some = np.array([1, 2, 590])
    assert_allclose(two.columns(some), one.columns(some), rtol=0, atol=1e-9)
    assert_allclose(two.gram(some).G, one.gram(some).G, rtol=0, atol=1e-9)
    passes = rows.meter.passes
    assert two.columns(np.arange(40)).shape == (40 * two.group, 600 * K)
    assert rows.meter.passes == passes


KINDS = {
    "two classes": (Bernoulli(), False),
    "three classes": (Multinomial(3), False),
    "shared": (Multinomial(3), True),
}


def both(name, center=True, n_atoms=600, union=False):
    """Rows with and without their span."""
    likelihood, shared = KINDS[name]
    y = RNG.integers(0, max(likelihood.n_latent, 2), size=900).astype(float)
    dictionary = Kernel("rbf", gamma=0.05, centers=X[:n_atoms])
    atoms = (Bias() + Linear() + dictionary if union else dictionary).bind(X)
    span = find_span(atoms, X, center).turned(X)
    rows = LocalRows(open_source(X, y), block_rows=128)
    spanned = RowLatent(rows, atoms, likelihood, center, shared, span.means, 900, span=span)
    return replace(spanned, span=None), spanned


@pairwise(name=list(KINDS), union=[False, True], active=[[], [5, 31, 400]], alone=[False, True])
def test_expansions_in_coordinates_are_those_of_columns(name, alone, active, union):
    direct, spanned = both(name, union=union)
    per_atom = 1 if direct.shared else direct.K
    point = Point(np.array(active, dtype=np.intp) * per_atom, np.full(len(active), 0.3))
    one, two = (expand(latent, Flat(), point, alone=alone) for latent in (direct, spanned))
    assert two.state.objective == pytest.approx(one.state.objective, rel=1e-10)
    assert_allclose(two.mode.w, one.mode.w, atol=1e-7)
    assert_allclose(two.mode.c, one.mode.c, atol=1e-7)
    if not alone:
        assert_allclose(two.quad.norm, one.quad.norm, rtol=1e-7, atol=1e-10)
        assert_allclose(two.quad.g, one.quad.g, atol=1e-7)
    elif active:
        assert_allclose(two.state.Sigma, one.state.Sigma, rtol=1e-7)


def test_more_atoms_than_coordinates_are_active_and_wrong_sums_are_noticed():
    direct, spanned = both("two classes")
    active = np.arange(0, 600, 4)
    assert active.size > spanned.span.rank
    point = Point(active, np.full(active.size, 0.1))
    one, two = (expand(latent, Flat(), point) for latent in (direct, spanned))
    assert isinstance(two.quad.products, Rooted)
    assert two.state.objective == pytest.approx(one.state.objective, rel=1e-9)
    wrong = 1 + 1e-6 * np.cos(np.arange(600))
    off = replace(spanned, span=replace(spanned.span, A=spanned.span.A * wrong))
    assert not isinstance(off.quadratic(two.mode).products, Rooted)


def test_fewer_atoms_than_coordinates_stand_for_all_rows_too():
    _, spanned = both("two classes")
    few = spanned.restrict(np.arange(0, 600, 40))
    assert few.coordinates().E is not None
    at = expand(few, Flat(), Point(np.array([2, 5]), np.full(2, 0.3)))
    assert isinstance(at.quad.products, Rooted)
    assert few.resembled(at.quad, np.arange(15), few.rows) is None


@pytest.mark.parametrize("shared", [False, True])
def test_classes_that_have_nothing_to_do_with_the_rows(shared):
    rng = np.random.default_rng(7)
    X, y = rng.uniform(-1, 1, size=(6000, 2)), rng.integers(0, 3 if shared else 2, size=6000)
    dictionary = Kernel("rbf", gamma=0.3, centers=X[:300])
    model = SparseBayesClassifier(dictionary, prior="bic", shared=shared, memory="200MB")
    model.fit(X, y)
    assert model.converged_
    assert np.size(model.relevance_) == 0
    share = np.bincount(y) / len(y)
    assert_allclose(model.predict_proba(X[:5]), np.tile(share, (5, 1)), atol=1e-3)


@pytest.mark.parametrize("center", [True, False])
def test_evidence_where_weights_almost_cancel(center):
    # w'G w is then a small difference of huge terms: one G must stand in all of the evidence.
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(4000, 1))
    y = (rng.uniform(size=4000) < 1 / (1 + np.exp(-4 * np.sin(4 * X[:, 0])))).astype(float)
    atoms = Kernel("rbf", gamma=0.5, centers=X[:400]).bind(X)
    span = find_span(atoms, X[:100], center).turned(X[:100])
    rows, reference = LocalRows(open_source(X, y), block_rows=512), span.means
    latent = RowLatent(rows, atoms, Bernoulli(), center, False, reference, 4000, span=span)
    active = np.argsort(X[:400, 0])[np.linspace(20, 380, 7).astype(int)]
    point = Point(np.sort(active), np.full(7, 1e8))
    some = np.union1d(np.sort(active), np.arange(0, 400, 2))
    views = [(latent, point), (latent.restrict(some), Part(latent, some).inside(point))]
    for view, here in views:
        whole, alone = (expand(view, Flat(), here, alone=alone) for alone in (False, True))
        assert isinstance(whole.quad.products, Rooted)
        assert whole.state.white.condition > 1e4
        # Two factorizations of this condition differ by its rounding, the faults above by nats.
        error = 100 * EPS * whole.state.white.condition
        assert error < 1e-8
        assert whole.state.objective == pytest.approx(alone.state.objective, rel=0, abs=error)


@pytest.fixture
def spans(monkeypatch):
    """What fits have found."""
    found = []

    def seek(atoms, X, center):
        found.append(find_span(atoms, X, center))
        return found[-1]

    monkeypatch.setattr(_row_regression, "find_span", seek)
    monkeypatch.setattr(_row_latent, "find_span", seek)
    return found


def test_regressions_are_those_in_memory(spans):
    data = sinc(1500, noise=0.1, random_state=0)
    model = SparseBayesRegressor(Kernel("rbf", gamma=0.16, centers=300), random_state=0)
    whole = model.fit(data.X, data.y)
    mean, deviation = whole.predict(data.X[:200], return_std=True)
    evidence = whole.log_marginal_likelihood_
    model.set_params(memory="200MB").fit(data.X, data.y)
    assert spans[0].rank < 50
    assert model.certificate_.holds(1e-6)
    assert_allclose(model.log_marginal_likelihood_, evidence, rtol=1e-8)
    again, spread = model.predict(data.X[:200], return_std=True)
    assert_allclose(again, mean, atol=1e-8)
    assert_allclose(spread, deviation, rtol=1e-8)


def test_classes_are_those_in_memory(spans):
    data = mixtures(1500, random_state=0)
    model = SparseBayesClassifier(Kernel("rbf", gamma=1.0, centers=300), random_state=0)
    whole = model.fit(data.X, data.y)
    p, evidence = whole.predict_proba(data.X[:200]), whole.log_marginal_likelihood_
    model.set_params(memory="200MB").fit(data.X, data.y)
    assert spans[0].rank < 120
    assert model.certificate_.holds(1e-6)
    assert_allclose(model.log_marginal_likelihood_, evidence, rtol=1e-8)
    assert_allclose(model.predict_proba(data.X[:200]), p, atol=1e-8)


def slightly_wrong(atoms, X, center):
    span = find_span(atoms, X, center)
    wrong = 1 + 1e-7 * np.arange(atoms.size)
    return replace(span, T=span.T * wrong, A=span.A * wrong)


@pytest.mark.parametrize("kind", ["regression", "classes"])
def test_sums_that_are_not_the_atoms_at_all_rows_are_noticed(kind, monkeypatch):
    if kind == "regression":
        data, estimator = sinc(1500, noise=0.1, random_state=0), SparseBayesRegressor
        monkeypatch.setattr(_row_regression, "find_span", slightly_wrong)
    else:
        data, estimator = mixtures(1500, random_state=0), SparseBayesClassifier
        monkeypatch.setattr(_row_latent, "find_span", slightly_wrong)
    gamma = 0.16 if kind == "regression" else 1.0
    model = estimator(Kernel("rbf", gamma=gamma, centers=300), random_state=0)
    evidence = model.fit(data.X, data.y).log_marginal_likelihood_
    model.set_params(memory="200MB").fit(data.X, data.y)
    assert_allclose(model.log_marginal_likelihood_, evidence, rtol=1e-8)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_wrong_sums_are_noticed_where_more_atoms_are_active_than_the_span_has(monkeypatch):
    def wrong(atoms, X, center):
        span = find_span(atoms, X, center)
        found.append(span.rank)
        return replace(span, T=span.T * (1 + 1e-6 * np.cos(np.arange(atoms.size))))

    found = []
    monkeypatch.setattr(_row_regression, "find_span", wrong)
    data = sinc(600, noise=0.1, random_state=0)
    model = SparseBayesRegressor(
        Kernel("rbf", gamma=0.16, centers=data.X[::2]), solver="em", max_iter=3
    )
    mean = model.fit(data.X, data.y).predict(data.X[:50])
    model.set_params(memory="200MB").fit(data.X, data.y)
    assert found[0] < 0.75 * len(model.relevance_)
    assert_allclose(model.predict(data.X[:50]), mean, rtol=0, atol=1e-9)
