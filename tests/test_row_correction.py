"""A sample of the rows that stands for all of them around a mode."""

from dataclasses import replace

import numpy as np
import pytest

from sparsebayes import SparseBayesClassifier, SparseBayesRegressor, _journey, _row_latent
from sparsebayes._memory import Budget
from sparsebayes.core.sums import Rooted
from sparsebayes.datasets import mixtures
from sparsebayes.dictionaries import Kernel
from sparsebayes.engine import Breakdown
from sparsebayes.hyperpriors import Flat
from sparsebayes.likelihoods import Bernoulli, Multinomial, Poisson
from sparsebayes.rows import LocalRows, open_source
from sparsebayes.rows.blocks import Chosen
from sparsebayes.rows.gaussian import sample_means
from sparsebayes.rows.kept import sampled, transformed
from sparsebayes.rows.kinds import by_kind
from sparsebayes.rows.latent import RowLatent
from sparsebayes.rows.products import Functions, Looks
from sparsebayes.rows.span import find_span
from sparsebayes.rows.summary import gather
from sparsebayes.solvers.expand import NOTHING, Point, expand

LIKELIHOODS = {"classes": Bernoulli(), "three classes": Multinomial(3), "counts": Poisson()}


def problem(name, center=True, spanned=False):
    rng = np.random.RandomState(3)
    X = rng.uniform(-1, 1, (2000, 2))
    kinds = {"classes": 2, "three classes": 3}.get(name)
    t = rng.poisson(1.5, 2000) if kinds is None else rng.randint(0, kinds, 2000)
    t = np.where(X[:, 0] > 0.2, t, 0).astype(float)
    centers = rng.uniform(-1, 1, (300 if spanned else 12, 2))
    atoms = Kernel("rbf", gamma=0.1 if spanned else 2.0, centers=centers).bind(X)
    rows = LocalRows(open_source(X, t), 512)
    counts = None if kinds is None else np.bincount(t.astype(int)).astype(float)
    reference = sample_means(atoms, X)
    span = find_span(atoms, X, center) if spanned else None
    if span is not None:
        reference, span = span.means, span.turned(X)
    latent = RowLatent(rows, atoms, LIKELIHOODS[name], center, False, reference, 2000, counts, span)
    some = by_kind(np.bincount(t.astype(int)).astype(float), 400, 0)
    return latent, sampled(rows, some, Budget(2**26, 1))


@pytest.mark.parametrize("spanned", [False, True])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_sums_are_those_of_all_rows_up_to_third_order(name, center, spanned):
    latent, sample = problem(name, center, spanned)
    K = latent.K
    active = np.array([1, 4, 7]) * K
    at = expand(latent, Flat(), Point(active, np.full(3, 0.5)))
    assert isinstance(at.quad.products, Rooted) == spanned
    atoms = np.array([0, 1, 3, 4, 5, 7, 9])
    drawn = sample
    if spanned:
        own = latent.coordinates()
        drawn = transformed(sample, own.atoms, own.reference, Budget(2**26, 1))
    alike = latent.resembled(at.quad, atoms, drawn)
    fewer = np.array([1, 2, 3, 5])  # of these: the active ones and another
    few, local = alike.restrict(fewer), np.arange(4 * K)
    rng = np.random.RandomState(0)
    away = rng.standard_normal((4, K)), rng.standard_normal(K)
    functions = latent._functions(at.mode)
    whole = np.zeros((7, K))
    whole[np.searchsorted(atoms, functions.atoms)] = functions.weights
    here_atoms, left = latent.atoms.restrict(atoms[fewer]), []
    for size in (0.0, 0.02, 0.04):
        w = whole[fewer] + size * away[0]
        here = Functions(np.arange(4), w, functions.c + size * away[1] * center)
        reference, likelihood = few.reference, latent.likelihood
        look = Looks(here_atoms, reference, likelihood, here, local, (here,))
        true, own = latent.rows.fold(look), sample.fold(look)
        found = few.correction.applied(own, here, few.correction.E, local, (here,))
        assert found.elsewhere[0] == pytest.approx(found.value, rel=1e-12)
        left.append(
            [np.abs(found.value - true.value), np.abs(found.gradient - true.gradient).max()]
        )
        if size == 0:
            scale = np.abs(true.gram).max()
            assert own.gram != pytest.approx(true.gram, abs=1e-3 * scale)
            for part in ("value", "pull", "C", "gradient", "cross", "gram"):
                expected = getattr(true, part)
                assert getattr(found, part) == pytest.approx(expected, abs=1e-9 * scale), part
            looked = drawn.fold(Looks(few.atoms, reference, likelihood, here, local))
            assert looked.gram == pytest.approx(own.gram, abs=1e-9 * scale)
    _, near, far = np.array(left)
    # Twice as far: four times the error of the gradient, so that of the value is of third order.
    assert 3.5 < far[1] / near[1] < 4.5
    assert far[0] < 0.04 * far[1] * (np.abs(away[0]).sum() + np.abs(away[1]).sum())


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_an_expansion_of_a_sample_is_that_of_all_rows_at_its_mode(name):
    latent, sample = problem(name, spanned=True)
    point = Point(np.array([1, 4, 7]) * latent.K, np.full(3, 0.5))
    at = expand(latent, Flat(), point)
    own = latent.coordinates()
    coordinates = transformed(sample, own.atoms, own.reference, Budget(2**26, 1))
    atoms = np.arange(150)  # of more in three classes not all products are known
    alike = latent.resembled(at.quad, atoms, coordinates)
    other, g = expand(alike, Flat(), at.point), at.quad.g[: 150 * latent.K]
    assert other.state.objective == pytest.approx(at.state.objective, abs=1e-7)
    assert other.mode.c == pytest.approx(at.mode.c, abs=1e-7)
    assert other.quad.g == pytest.approx(g, abs=1e-6 * np.abs(g).max())


def test_too_many_atoms_are_not_resembled():
    spanned, sample = problem("three classes", spanned=True)
    for latent in (spanned, replace(spanned, span=None)):
        at = expand(latent, Flat(), Point(np.array([3]), np.full(1, 0.5)))
        assert latent.resembled(at.quad, np.arange(300), sample) is None


@pytest.mark.parametrize(("name", "v"), [("classes", 10**-1.5), ("three classes", 0.3)])
def test_where_a_correction_leaves_no_curvature_is_a_breakdown(name, v):
    latent, _ = problem(name, center=False)
    at = expand(latent, Flat(), NOTHING)
    X, t, _ = gather(latent.rows)
    bold = LocalRows(open_source(X, t, np.full(len(t), 2.0)), 512)  # twice the curvature of all
    alike = latent.resembled(at.quad, np.arange(12), bold).restrict(np.arange(8))
    assert expand(alike, Flat(), NOTHING).state.objective == pytest.approx(at.state.objective)
    with pytest.raises(Breakdown):
        expand(alike, Flat(), Point(np.arange(1), np.full(1, v)))


@pytest.mark.parametrize("kinds", [False, True])
def test_a_sample_of_a_draw_is_the_same_in_all_blocks(kinds):
    X, t = np.arange(8000.0)[:, None], np.arange(8000) % 20 // 19.0
    weights = np.arange(8000) % 3.0
    counts = np.bincount(t.astype(int), weights > 0).astype(float)

    def draw(size):
        return by_kind(counts, size, 5) if kinds else Chosen(size / 8000, 5)

    found = []
    for block_rows in (300, 8000):
        rows = LocalRows(open_source(X, t, weights), block_rows)
        some = sampled(rows, draw(400), Budget(2**26, 1), draw(2000))
        found.append(gather(some))
        drawn = gather(rows.mapped(draw(2000)))
        assert np.isin(found[-1].X, drawn.X).all()
        assert found[-1].weights.sum() == pytest.approx(drawn.weights.sum(), rel=0.1)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_fit_needs_few_looks_at_all_rows(monkeypatch):
    monkeypatch.setattr(_journey, "_STRUCTURE", (0.01, 300, 300))
    passes, evidence = np.zeros(2), np.zeros((6, 2))
    for row, draw in enumerate(range(1, 7)):  # one of them may lead to another optimum
        data = mixtures(6_000, random_state=draw)
        for i, sample in enumerate((10**9, 1200)):
            monkeypatch.setattr(_row_latent, "_SAMPLE", sample)
            told = []
            dictionary = Kernel("rbf", gamma=1.0, centers=data.X[:120])
            model = SparseBayesClassifier(dictionary, memory="100MB", callback=told.append)
            model.fit(data.X, data.y)
            assert model.converged_
            assert model.certificate_.max_gain < 1e-6
            passes[i] += told[-1].passes
            evidence[row, i] = model.log_marginal_likelihood_
    assert np.median(evidence[:, 1] - evidence[:, 0]) > -1.0
    assert passes[1] < passes[0]


@pytest.mark.parametrize(("name", "kept"), [("counts", True), ("rare class", False)])
def test_weighted_rows_are_found_on_a_sample_as_well_in_little_memory_too(monkeypatch, name, kept):
    rng = np.random.RandomState(0)
    X, weights = rng.uniform(-2, 2, (12_000, 2)), rng.choice([0.0, 0.5, 1.0, 2.0], 12_000)
    f = 1.5 * np.sin(2 * X[:, 0]) * np.cos(X[:, 1])
    y = rng.poisson(np.exp(f)) if name == "counts" else f + 0.3 * rng.randn(12_000) > 1.35
    settings = {"dictionary": Kernel("rbf", gamma=1.0, centers=X[:60]), "memory": "100MB"}
    make = SparseBayesClassifier
    if name == "counts":
        make, settings = SparseBayesRegressor, settings | {"likelihood": "poisson"}
    monkeypatch.setattr(_journey, "_STRUCTURE", (0.01, 300, 300))
    monkeypatch.setattr(_journey, "_TENTH", (0.3, 10**6))
    if not kept:
        monkeypatch.setattr(Budget, "rows_kept", lambda budget, columns: 2000)
    models = []
    for sample in (10**9, 600):
        monkeypatch.setattr(_row_latent, "_SAMPLE", sample)
        models.append(make(**settings).fit(X, y, sample_weight=weights))
        assert models[-1].converged_
    assert models[1].log_marginal_likelihood_ > models[0].log_marginal_likelihood_ - 1.0
