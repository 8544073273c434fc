"""Regressions on rows that are read in blocks: the same answer as in memory, within its memory."""

import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from pairwise import in_turn
from sparsebayes import RVR, SparseBayesRegressor, _journey, _row_regression
from sparsebayes._journey import Journey, sampling
from sparsebayes._memory import SMALLEST_MEMORY, Budget, resolve_memory
from sparsebayes._row_regression import regress_rows
from sparsebayes.core.stored import weighted_quadratic
from sparsebayes.datasets import sinc
from sparsebayes.design import make_design
from sparsebayes.dictionaries import Bias, Kernel, Linear
from sparsebayes.estimators import _streaming
from sparsebayes.hyperpriors import Flat, InverseGamma
from sparsebayes.problem import Problem, Status, certify
from sparsebayes.progress import Watch
from sparsebayes.rows import Block, Chosen, Chunks, LocalRows, open_source
from sparsebayes.rows.quadratics import row_quadratic
from sparsebayes.rows.steps import Standardized
from sparsebayes.solvers import rounds, search
from sparsebayes.solvers.expand import Point


def plane(n, random_state=0):
    data = sinc(n, noise=0.1, dim=2, random_state=random_state)
    return data.X, data.y


def in_blocks(
    X, y, block_rows, *, threads=1, weights=None, memory=2**28, dictionary=None, **changed
):
    """A fit of rows with every setting at hand."""
    rows = LocalRows(open_source(X, y, weights), block_rows, threads)
    watch = Watch("test")
    settings = {
        "fit_intercept": True,
        "prior": "flat",
        "noise_variance": None,
        "noise_prior": None,
        "solver": "auto",
        "last": None,
        "tol": 1e-6,
        "max_iter": 10_000,
    }
    screened = changed.pop("screened", 1.0)
    found, _ = regress_rows(
        rows,
        Kernel("rbf", gamma=0.16, centers=60) if dictionary is None else dictionary,
        Journey(Budget(memory, threads), watch, None, {}, screened=screened),
        solve=lambda problem, start: search.solve(problem, start=start),
        random_state=np.random.RandomState(0),
        **(settings | changed),
    )
    return found, rows


@pytest.fixture
def staged(monkeypatch):
    """Let small problems go the way of large ones."""
    monkeypatch.setattr(_row_regression, "_ONE_PASS", (0, 0))
    monkeypatch.setattr(_row_regression, "_FEW_ATOMS", 0)
    monkeypatch.setattr(_row_regression, "_FEW_PRODUCTS", 0.0)
    monkeypatch.setattr(_journey, "_STRUCTURE", (0.05, 60, 2000))
    monkeypatch.setattr(_journey, "_TENTH", (0.3, 10**6))


DICTIONARIES = {
    "kernel": Kernel("rbf", gamma=0.16, centers=40),
    "rows": Kernel("rbf", gamma=0.16),
    "linear": "linear",
    "union": Bias() + Linear() + Kernel("laplacian", gamma="scale", centers=30),
}


@pytest.mark.parametrize("block_rows", [1, 7, 64, 1000])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_the_quadratic_of_blocks_is_the_one_in_memory(block_rows, center, weighted):
    rng = np.random.RandomState(0)
    X, y = plane(150)
    t = np.column_stack([y, rng.randn(150)])
    weights = rng.uniform(0, 3, 150) if weighted else None
    atoms = Kernel("rbf", gamma=0.16, centers=X[:30]).bind(X)
    whole = weighted_quadratic(make_design(atoms, X), t, weights, center)
    rows = LocalRows(open_source(X, t, weights), block_rows)
    quad = row_quadratic(rows, atoms, center, reference=atoms.evaluate(X[:9]).mean(0), prefetch=[4])
    assert rows.meter.passes == 1
    for name in ("g", "norm", "mean", "diag", "tt", "n", "spread", "log_offset", "offset"):
        assert_allclose(getattr(quad, name), getattr(whole, name), rtol=1e-12, atol=1e-13)
    quad.columns(np.array([4]))
    assert rows.meter.passes == 1
    some = np.array([4, 9, 20])
    assert_allclose(quad.columns(some), whole.columns(some), rtol=1e-11, atol=1e-13)
    assert_allclose(quad.gram(some[::-1]).G, whole.gram(some[::-1]).G, rtol=1e-11, atol=1e-13)
    some = np.array([3, 9, 25, 29])
    assert_allclose(quad.gram(some).G, whole.gram(some).G, rtol=1e-11, atol=1e-13)
    every = row_quadratic(rows, atoms, center, prefetch=np.arange(30))
    passes = rows.meter.passes
    assert_allclose(every.gram(some).G, whole.gram(some).G, rtol=1e-11, atol=1e-13)
    assert rows.meter.passes == passes


def test_a_reference_far_from_the_means_costs_a_pass_and_no_digits():
    rng = np.random.RandomState(1)
    X = 1e8 + rng.randn(200, 3)
    t = (X - 1e8) @ [[1.0], [0.0], [-2.0]]
    atoms = Linear().bind(X)
    rows = LocalRows(open_source(X, t), 32)
    quad = row_quadratic(rows, atoms, True, prefetch=[0])
    assert rows.meter.passes == 2
    whole = weighted_quadratic(make_design(atoms, X), t, None, True)
    assert_allclose(quad.norm, whole.norm, rtol=1e-7)
    assert_allclose(quad.g, whole.g, rtol=1e-6, atol=1e-6)


def test_a_constant_column_is_no_atom_in_blocks_either():
    X = np.column_stack([np.full(50, 0.1), np.arange(50.0)])
    rows = LocalRows(open_source(X, np.ones((50, 1))), 7)
    quad = row_quadratic(rows, Linear().bind(X), True, reference=np.array([0.1, 20.0]))
    assert quad.diag.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("name", "prior"),
    [("kernel", "flat"), ("kernel", "ric"), ("rows", "bic"), ("linear", "flat"), ("union", "ric")],
)
def test_memory_changes_nothing_but_memory(name, prior):
    X, y = plane(300)
    settings = {"prior": prior, "random_state": 0}
    whole = SparseBayesRegressor(DICTIONARIES[name], **settings).fit(X, y)
    blocked = SparseBayesRegressor(DICTIONARIES[name], memory="64MiB", **settings).fit(X, y)
    assert_allclose(
        blocked.log_marginal_likelihood_, whole.log_marginal_likelihood_, rtol=1e-8, atol=1e-8
    )
    assert_allclose(blocked.log_posterior_, whole.log_posterior_, rtol=1e-8, atol=1e-8)
    for one, other in zip(
        blocked.predict(X, return_std=True), whole.predict(X, return_std=True), strict=True
    ):
        assert_allclose(one, other, rtol=0, atol=1e-8)
    assert blocked.relevance_.tolist() == whole.relevance_.tolist()
    assert blocked.certificate_.holds(1e-6)


@in_turn(
    weighted=[False, True],
    block_rows=[7, 64, 299, 1, 5000],
    threads=[1, 2, 2, 1, 3],
)
def test_every_division_into_blocks_gives_one_model(block_rows, threads, weighted):
    X, y = plane(300)
    weights = np.random.RandomState(2).randint(0, 3, 300).astype(float) if weighted else None
    whole, _ = in_blocks(X, y, 300, weights=weights)
    found, _ = in_blocks(X, y, block_rows, threads=threads, weights=weights)
    assert_allclose(found.log_evidence, whole.log_evidence, rtol=1e-8)
    assert_allclose(found.posterior.predict(X), whole.posterior.predict(X), atol=1e-8)


@pytest.mark.parametrize(
    "settings",
    [
        {"noise_variance": 0.02},
        {"noise_prior": InverseGamma(2.0, 0.03)},
        {"fit_intercept": False},
        {"solver": "sequential", "tol": 1e-4},
        {"solver": "mackay"},
        {"prior": "aic"},
    ],
)
def test_settings_mean_the_same_in_blocks(settings):
    X, y = plane(200)
    model = SparseBayesRegressor(Kernel("rbf", gamma=0.16, centers=X[:40]), **settings)
    whole, blocked = model.fit(X, y).predict(X), model.set_params(memory=10**8).fit(X, y).predict(X)
    assert_allclose(blocked, whole, atol=1e-8)


def test_several_targets_and_targets_far_from_zero():
    X, y = plane(250)
    Y = np.column_stack([1e6 + y, -3 * y])
    model = RVR(gamma=0.16)
    whole, blocked = model.fit(X, Y), RVR(gamma=0.16, memory=10**8).fit(X, Y)
    assert blocked.predict(X).shape == (250, 2)
    assert_allclose(blocked.predict(X), whole.predict(X), rtol=0, atol=1e-7)
    assert_allclose(blocked.log_marginal_likelihood_, whole.log_marginal_likelihood_, rtol=1e-8)


def test_constant_targets():
    X, _ = plane(60)
    model = RVR(gamma=0.16, noise_variance=0.25, memory=10**8).fit(X, np.full(60, 3.7))
    assert model.relevance_.size == 0
    assert_allclose(model.predict(X), 3.7)


@pytest.mark.parametrize(("block_rows", "threads"), [(5, 1), (77, 2), (10_000, 1)])
def test_rounds_give_one_model_however_rows_are_divided(staged, block_rows, threads):
    X, y = plane(900)
    whole, rows = in_blocks(X, y, 900)
    assert whole.solution.status is Status.CONVERGED
    assert rows.meter.passes > 3
    found, _ = in_blocks(X, y, block_rows, threads=threads)
    assert_allclose(found.log_evidence, whole.log_evidence, rtol=1e-8)
    assert_allclose(found.posterior.predict(X), whole.posterior.predict(X), atol=1e-8)


def test_rounds_end_near_the_best_optimum_with_a_certificate_that_is_true(staged):
    X, y = plane(1500)
    dictionary = Kernel("rbf", gamma=0.16, centers=300)
    found, _ = in_blocks(X, y, 200, dictionary=dictionary)
    whole = SparseBayesRegressor(dictionary, random_state=0).fit(X, y)
    assert found.log_evidence > whole.log_marginal_likelihood_ - 5
    assert found.solution.certificate.holds(1e-6)
    assert found.size == 300


def test_subsets_of_the_dictionary_end_with_a_certificate_of_all_of_it(staged, monkeypatch):
    X, y = plane(800)
    dictionary = Kernel("rbf", gamma=0.16, centers=X[:200])
    monkeypatch.setattr(Budget, "subset", lambda self, columns=1: 45)
    monkeypatch.setattr(rounds, "POOL", 5)
    found, _ = in_blocks(X, y, 100, dictionary=dictionary)
    assert found.solution.status is Status.CONVERGED
    atoms = dictionary.bind(X)
    scale = found.posterior.scale
    t = (y - y.mean())[:, None] / scale
    quad = weighted_quadratic(make_design(atoms, X), t, None, True)
    state = found.solution.state
    place = Point(
        state.active[np.argsort(state.active)],
        found.posterior.weight_variance / scale**2,
        state.noise_var,
    )
    view = rounds.View(Problem(quad, Flat()), np.arange(200), quad.norm)
    here = view.state(place)
    certificate, _ = certify(view.problem, here, view.problem.noise()._replace(var=here.noise_var))
    assert certificate.holds(1e-6)
    assert_allclose(here.log_evidence, state.log_evidence, rtol=1e-9)


def test_a_fraction_of_the_dictionary_is_certified_and_said_to_be(staged):
    X, y = plane(500)
    found, _ = in_blocks(X, y, 100, dictionary=Kernel("rbf", gamma=0.16), screened=0.3)
    assert found.solution.converged
    assert 0.2 < found.solution.certificate.fraction < 0.4
    model = RVR(gamma=0.16, screened=0.3).fit(X, y)
    assert model.certificate_.fraction == found.solution.certificate.fraction


def test_samples_are_nested_and_of_the_size_that_was_asked_for():
    X = np.arange(20_000.0)[:, None]
    block = Block(X, X[:, 0], None, 0, "all")
    small, large = Chosen(0.01, 3)(block), Chosen(0.1, 3)(block)
    assert np.isin(small.y, large.y).all()
    assert abs(large.n - 2000) < 150
    assert abs(np.corrcoef(np.arange(large.n), large.y)[0, 1]) > 0.999


@pytest.mark.parametrize("n", [50, 5_000, 10**6, 10**9])
@pytest.mark.parametrize("atoms", [10, 2_000, 10**6])
def test_a_first_sample_fits_into_its_share_of_memory(n, atoms):
    budget = Budget(2**28, 2)
    plan = sampling(n, atoms, budget)
    rows = plan.structure * n
    assert 8 * rows * plan.atoms.size <= budget.memory / 2
    assert rows >= min(n, 200) - 1e-6
    assert plan.tenth is None or plan.tenth * n >= 3 * rows


def test_a_first_sample_of_wide_rows_fits_into_memory_too():
    budget = Budget(2**26, 2)
    plan = sampling(10**6, 300, budget, width=2000)
    assert 100 < plan.structure * 10**6 < budget.memory / 4 / (8 * 2000)
    assert sampling(10**6, 300, budget).structure > 5 * plan.structure


def test_a_sample_is_of_rows_that_count(staged):
    X, y = plane(900)
    weights = np.zeros(900)
    weights[::30] = 1.0
    model = RVR(gamma=0.16, centers=X[::30], noise_variance=0.01)
    whole = model.fit(X[::30], y[::30]).predict(X)
    assert_allclose(model.set_params(memory=10**8).fit(X, y, weights).predict(X), whole, atol=1e-8)


def test_atoms_that_are_taken_along_leave_room_for_their_gram_matrix():
    X, y = plane(300)
    atoms = Kernel("rbf", gamma=0.16, centers=X).bind(X)
    quad = weighted_quadratic(make_design(atoms, X), (y - y.mean())[:, None], None, True)
    problem = Problem(quad, Flat())
    found = search.solve(replace(problem, quad=quad.gram(np.arange(30))))
    start = (found.state.active, found.state.v, found.state.noise_var)
    state = rounds.View(problem, np.arange(300), np.ones(300)).state(Point(*start))
    _, statistics = certify(problem, state, problem.noise()._replace(var=state.noise_var))
    every = rounds.nearest(problem, state, statistics, 300, rounds.NEAR)
    few = rounds.nearest(problem, state, statistics, 60, rounds.NEAR)
    assert every.size + state.active.size > 60 >= few.size + state.active.size > 20
    assert np.isin(few, every).all()


@pytest.mark.parametrize("centers", [2.5, "few", [[1.0, 2.0], [3.0]], {}])
@pytest.mark.parametrize("memory", [None, "64MiB"])
def test_centers_that_are_none_are_refused_in_words(centers, memory):
    X, y = plane(20)
    with pytest.raises((TypeError, ValueError), match="centers must be None, a number, or an arr"):
        RVR(gamma=0.16, centers=centers, memory=memory).fit(X, y)


def test_memory_is_kept(staged):
    n, memory = 15_500, "64MiB"
    X, y = plane(n)
    centers = X[:600]
    model = SparseBayesRegressor(Kernel("rbf", gamma=0.16, centers=centers), memory=memory)
    tracemalloc.start()
    try:
        model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 8 * n * 600 > 1.1 * resolve_memory(memory)  # what the matrix of atoms would take
    assert peak < resolve_memory(memory)
    assert model.certificate_.holds(1e-6)


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        ("lots", 'text such as "500MB"'),
        (1000, "at least 64MiB"),
        (-5, "at least 64MiB"),
        ("12 iB", "text such as"),
    ],
)
def test_memory_that_makes_no_sense(memory, message):
    with pytest.raises(ValueError, match=message):
        RVR(memory=memory).fit(np.ones((5, 1)), np.arange(5.0))


def test_memory_of_a_wrong_type():
    with pytest.raises(TypeError, match="a number of bytes"):
        RVR(memory=1.5e9).fit(np.ones((5, 1)), np.arange(5.0))


def test_units_of_memory():
    assert resolve_memory("1gib") == 2**30
    assert resolve_memory("70 M") == 70_000_000
    assert resolve_memory(str(SMALLEST_MEMORY)) == SMALLEST_MEMORY


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"screened": 0}, ValueError, "screened must be"),
        ({"screened": 1.5}, ValueError, "screened must be"),
        ({"on_interrupt": "stop"}, ValueError, "on_interrupt must be"),
        ({"callback": 3}, TypeError, "callback must be"),
        ({"resume": 1}, TypeError, "resume must be"),
        ({"resume": True}, ValueError, "needs the checkpoint"),
    ],
)
def test_settings_of_long_fits_that_make_no_sense(settings, error, message):
    with pytest.raises(error, match=message):
        RVR(**settings).fit(np.arange(5.0)[:, None], np.arange(5.0))


def test_solvers_that_need_the_whole_gram_matrix_say_when_it_does_not_fit():
    X, y = plane(3000)
    model = RVR(gamma=0.16, solver="em", memory="64MiB")
    with pytest.raises(ValueError, match="needs the Gram matrix of all 3000 atoms"):
        model.fit(X, y)


def test_learned_widths_need_rows_in_memory():
    X, y = plane(50)
    with pytest.raises(ValueError, match="gamma"):
        RVR(gamma="evidence", memory=10**8).fit(X, y)


def test_a_warm_start_goes_on_from_the_last_fit(staged):
    X, y = plane(700)
    model = RVR(gamma=0.16, centers=X[:150], memory=10**8, warm_start=True).fit(X, y)
    before, steps = model.predict(X), model.n_iter_
    assert_allclose(model.fit(X, y).predict(X), before, atol=1e-8)
    assert model.n_iter_ < steps


def test_targets_keep_their_unit_to_the_bit():
    block = Block(np.zeros((2, 1)), np.array([7.0, 13.0]), None, 0, "both")
    step = Standardized(np.array([10.0]), 4.0, np.array([False]))
    assert step(block).y.tolist() == [[-0.75], [0.75]]
    assert step(block._replace(y=np.array([10.0, 10.0]))).y.tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize("rows", ["data.parquet", Chunks([(np.ones((2, 1)), np.ones(2))])])
def test_predictions_are_of_arrays(rows):
    model = RVR(gamma=0.16).fit(np.arange(9.0)[:, None], np.sin(np.arange(9.0)))
    with pytest.raises(TypeError, match="a piece at a time"):
        model.predict(rows)


def test_rows_given_twice_count_twice():
    X, y = plane(120)
    twice = RVR(gamma=0.16, centers=X[:40], memory=10**8)
    once = RVR(gamma=0.16, centers=X[:40], memory=10**8)
    twice.fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    once.fit(X, y, sample_weight=np.full(120, 2.0))
    assert_allclose(once.predict(X), twice.predict(X), atol=1e-8)


def test_a_matrix_of_atoms_too_large_to_store_is_read_in_blocks(monkeypatch):
    X, y = plane(300)
    whole = RVR(gamma=0.16).fit(X, y)
    monkeypatch.setattr(_streaming, "STORED_BYTES", 10_000)
    blocked = RVR(gamma=0.16).fit(X, y)
    assert not hasattr(blocked, "_training")
    assert_allclose(blocked.predict(X), whole.predict(X), atol=1e-8)


@in_turn(gamma=[300.0, 1000.0], offset=[0.0, 1e6])
def test_models_at_the_edge_of_double_precision_are_no_traceback(gamma, offset):
    """What one Gram matrix can hold another, summed in blocks, may not."""
    X = np.random.RandomState(0).uniform(size=(500, 1))
    y = np.exp(-3 * X[:, 0]) * np.sin(6 * X[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = RVR(gamma=gamma, random_state=0, memory="64MiB").fit(X, offset + y)
    assert np.abs(model.predict(X) - offset - y).mean() < 0.01
