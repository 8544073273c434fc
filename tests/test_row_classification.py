"""Classes and counts of rows that are read piece by piece: the same models as in memory."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sparsebayes import RVC, RVR, SparseBayesClassifier, SparseBayesRegressor, _journey
from sparsebayes.dictionaries import Bias, Kernel, Linear
from sparsebayes.engine import Breakdown
from sparsebayes.hyperpriors import Flat
from sparsebayes.likelihoods import Bernoulli, Gaussian, Multinomial
from sparsebayes.problem import Status, certify
from sparsebayes.rows import ChunkError, Chunks, LocalRows, open_source
from sparsebayes.rows.gaussian import sample_means
from sparsebayes.rows.latent import RowLatent
from sparsebayes.solvers import rounds
from sparsebayes.solvers.expand import NOTHING, UNIT_NOISE, Point, expand

NAMES = np.array(["apple", "pear", "a much longer name"])


def classes(n=240, K=2, seed=0):
    rng = np.random.RandomState(seed)
    kind = rng.randint(0, K, n)
    kind[:K] = np.arange(K)
    angle = 2 * np.pi * kind / K
    X = rng.standard_normal((n, 2)) + 1.3 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return X, NAMES[kind]


def counts(n=240, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, 2))
    return X, rng.poisson(np.exp(np.sin(2 * X[:, 0])))


def cut(X, y, w=None, sizes=(1, 1, 70)):
    """Chunks of these sizes, and an uneven tail."""
    ends = np.cumsum([0, *sizes, len(y)])
    ends = ends[ends <= len(y)]
    ends = np.append(ends, len(y)) if ends[-1] < len(y) else ends
    arrays = [X, y] if w is None else [X, y, w]
    return Chunks([tuple(array[a:b] for array in arrays) for a, b in pairwise(ends)])


def assert_same(one, two, X, to=1e-8):
    """The same evidence, atoms and predictions."""
    assert one.converged_
    assert one.log_marginal_likelihood_ == pytest.approx(two.log_marginal_likelihood_, abs=to)
    assert one.log_posterior_ == pytest.approx(two.log_posterior_, abs=to)
    predict = "predict_proba" if hasattr(two, "predict_proba") else "predict"
    np.testing.assert_allclose(getattr(one, predict)(X), getattr(two, predict)(X), rtol=0, atol=to)
    np.testing.assert_allclose(one.intercept_, two.intercept_, rtol=0, atol=to)
    np.testing.assert_allclose(one.degrees_of_freedom_, two.degrees_of_freedom_, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "K"),
    [
        ({}, 2),
        ({}, 3),
        ({"fit_intercept": False}, 2),
        ({"class_weight": "balanced"}, 3),
        ({"class_weight": {"pear": 2.5}}, 2),
        ({"shared": True, "prior": "bic"}, 3),
    ],
)
def test_classes_are_those_in_memory(K, settings):
    X, y = classes(K=K)
    model = SparseBayesClassifier(Kernel(centers=25), random_state=0, **settings)
    slow = model.fit(X, y)
    fast = clone(model).fit(cut(X, y))
    assert_same(fast, slow, X)
    np.testing.assert_array_equal(fast.classes_, slow.classes_)
    assert fast.classes_.dtype == slow.classes_.dtype
    assert fast.n_features_in_ == 2
    np.testing.assert_array_equal(fast.predict(X), slow.predict(X))
    np.testing.assert_allclose(fast.gamma_, slow.gamma_, rtol=1e-12)


@pytest.mark.parametrize("size", [1, 120])
def test_any_size_of_chunks_and_weights(size):
    X, y = classes(n=120, K=3)
    w = np.random.RandomState(1).uniform(0.2, 2.0, len(y))
    w[::9] = 0.0
    model = RVC(gamma=0.5, centers=X[:12], class_weight="balanced")
    slow = clone(model).fit(X, y, w)
    fast = model.fit(cut(X, y, w, [size] * (len(y) // size)))
    assert_same(fast, slow, X)
    repeated = RVC(gamma=0.5, centers=X[:12], memory="100MB").fit(np.repeat(X, 2, axis=0), [*y, *y])
    assert repeated.converged_


@pytest.mark.parametrize("size", [1, 50])
def test_counts_are_those_in_memory(size):
    X, y = counts()
    for dictionary in (Kernel(gamma=1.0, centers=20), Linear() + Bias()):
        model = SparseBayesRegressor(dictionary, likelihood="poisson", random_state=0)
        slow = clone(model).fit(X, y)
        fast = model.fit(cut(X, y, None, [size] * (len(y) // size)))
        assert_same(fast, slow, X)
        assert fast.likelihood_ == slow.likelihood_


def test_a_likelihood_of_ones_own():
    X, y = counts()
    y = np.sin(X[:, 0]) + 0.3 * np.random.RandomState(0).standard_normal(len(y))
    model = RVR(gamma=0.5, centers=15, likelihood=Gaussian(0.09), random_state=0)
    slow = clone(model).fit(X, y)
    assert_same(model.fit(cut(X, y)), slow, X)


def test_labels_of_other_types():
    X, y = classes(n=90, K=3)
    _, codes = np.unique(y, return_inverse=True)
    slow = RVC(gamma=0.5, centers=10, random_state=0)
    for labels in (codes, codes.astype(float) - 1, codes > 0, NAMES[codes].astype(object)):
        slow.fit(X, labels)
        fast = RVC(gamma=0.5, centers=10, random_state=0).fit(cut(X, labels))
        assert_same(fast, slow, X)
        np.testing.assert_array_equal(fast.classes_, slow.classes_)


@pytest.fixture
def small_samples(monkeypatch):
    """Structure is sought in 60 rows, then in 300, then in all."""
    monkeypatch.setattr(_journey, "_STRUCTURE", (0.01, 60, 60))
    monkeypatch.setattr(_journey, "_TENTH", (0.25, 1_000_000))


def long_classes(K):
    X, y = classes(n=800, K=K, seed=3)
    return X, y, SparseBayesClassifier(Kernel(gamma=0.7, centers=40), random_state=0)


def whole(model, X, y):
    """An expansion of all rows and atoms in memory, where the model has ended."""
    _, codes = np.unique(y, return_inverse=True)
    K = len(model.classes_)
    likelihood = Bernoulli() if K == 2 else Multinomial(K)
    atoms = model.dictionary.bind(X, random_state=np.random.RandomState(0))
    rows = LocalRows(open_source(X, codes.astype(float)), 500)
    latent = RowLatent(rows, atoms, likelihood, True, False, sample_means(atoms, X), len(y))
    return latent, model._last.point


@pytest.mark.parametrize("K", [2, 3])
def test_stages_end_with_a_certificate_of_all_rows(K, small_samples):
    X, y, model = long_classes(K)
    stages = []
    model.set_params(callback=lambda p: stages.append((p.phase, p.screens, p.max_gain)) and None)
    model.fit(X, y)
    assert model.converged_
    phases = list(dict.fromkeys(phase for phase, _, _ in stages))
    assert phases[-2:] == ["a tenth of the rows", "all rows"]
    latent, point = whole(model, X, y)
    at = expand(latent, Flat(), point)
    certificate, _ = certify(at.problem, at.state, UNIT_NOISE)
    assert certificate.holds(1e-6)
    assert at.state.log_evidence == pytest.approx(model.log_marginal_likelihood_, abs=1e-7)
    slow = SparseBayesClassifier(Kernel(gamma=0.7, centers=40), random_state=0).fit(X, y)
    assert model.log_marginal_likelihood_ > slow.log_marginal_likelihood_ - 3.0


@pytest.mark.parametrize("K", [2, 3])
def test_subsets_of_the_dictionary(K):
    X, y, model = long_classes(K)
    _, codes = np.unique(y, return_inverse=True)
    atoms = model.dictionary.bind(X, random_state=0)
    rows = LocalRows(open_source(X, codes.astype(float)), 500)
    likelihood = Bernoulli() if K == 2 else Multinomial(K)
    latent = RowLatent(rows, atoms, likelihood, True, False, sample_means(atoms, X), len(y))
    every = np.arange(40)
    seen = []
    subsets = [every[i::3] for i in range(3)]
    worker = rounds.Following(latent, Flat(), subsets, max_iter=10_000)
    ended = rounds.solve(worker, NOTHING, tol=1e-6, keep=seen.append)
    assert ended.solution.status is Status.CONVERGED
    assert [s.turn for s in seen] == list(range(1, len(seen) + 1))
    assert [s.subset for s in seen] == [i % 3 for i in range(len(seen))]
    # The last three screens are of one and the same model.
    assert len({s.point.v.round(12).tobytes() for s in seen[-3:]}) == 1
    at = expand(latent, Flat(), ended.last.point)
    certificate, _ = certify(at.problem, at.state, UNIT_NOISE)
    assert certificate.holds(1e-6)
    assert certificate.max_gain <= ended.solution.certificate.max_gain * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize("failures", [1, 1000])
def test_a_screen_that_float64_cannot_hold_goes_on_with_less(failures, monkeypatch):
    left = [failures]

    def edgy(latent, hyperprior, point, **options):
        if point.active.size and latent.n_atoms == 30 and left[0]:
            left[0] -= 1
            raise Breakdown
        return expand(latent, hyperprior, point, **options)

    monkeypatch.setattr(rounds, "expand", edgy)
    X, y = classes()
    atoms = Kernel("rbf", gamma=0.5, centers=X[:30]).bind(X)
    rows = LocalRows(open_source(X, (y == y[0]).astype(float)), 100)
    latent = RowLatent(rows, atoms, Bernoulli(), True, False, sample_means(atoms, X), len(y))
    start = Point(np.array([3, 17]), np.ones(2))
    every = [np.arange(30)]
    worker = rounds.Following(latent, Flat(), every, max_iter=1000)
    ended = rounds.solve(worker, start, tol=1e-6)
    assert np.isfinite(ended.solution.state.objective)
    if failures == 1:
        assert ended.solution.status is Status.CONVERGED
        assert ended.solution.certificate.holds(1e-6)


def test_part_of_the_dictionary_is_said_to_be_a_part():
    X, y, model = long_classes(2)
    model.set_params(screened=0.5).fit(X, y)
    assert model.converged_
    assert 0.3 < model.certificate_.fraction < 0.7


def test_a_fit_goes_on_from_its_checkpoint(small_samples, tmp_path):
    X, y, model = long_classes(3)
    through = clone(model).set_params(memory="200MB").fit(X, y)
    for screen in (1, 2):
        path = tmp_path / f"state {screen}"
        stopped = clone(model)
        stopped.set_params(checkpoint=path, callback=lambda p, last=screen: p.screens == last)
        with pytest.raises(KeyboardInterrupt):
            stopped.fit(X, y)
        again = clone(model)
        again.set_params(checkpoint=path, resume=True)
        again.fit(cut(X, y, None, (100, 100)))  # the same rows, otherwise divided
        assert_same(again, through, X)
    other = clone(model)
    other.set_params(checkpoint=path, resume=True, class_weight="balanced")
    with pytest.raises(ValueError, match="class_weight"):
        other.fit(X, y)


def assert_interrupted(model, X, y):
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model.fit(X, y)
    assert model.solution_.status is Status.INTERRUPTED
    assert not model.converged_
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("screen", [1, 2])
def test_an_interrupted_fit_returns_what_it_had(screen, small_samples):
    X, y, model = long_classes(2)
    model.set_params(on_interrupt="return", callback=lambda p: p.screens == screen)
    assert_interrupted(model, X, y)


def test_an_interruption_before_the_first_screen_returns_the_structure(small_samples, monkeypatch):
    def interrupted(*args, **settings):
        raise KeyboardInterrupt

    X, y, model = long_classes(2)
    monkeypatch.setattr(rounds, "solve", interrupted)
    assert_interrupted(model.set_params(on_interrupt="return"), X, y)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(on_interrupt="raise", memory="200MB").fit(X, y)


def test_a_warm_start_needs_no_structure():
    X, y, model = long_classes(2)
    model.set_params(memory="200MB", warm_start=True).fit(X, y)
    first = model.log_marginal_likelihood_
    phases = set()
    model.set_params(callback=lambda p: phases.add(p.phase)).fit(X, y)
    assert "structure in a sample" not in phases
    assert model.log_marginal_likelihood_ == pytest.approx(first, abs=1e-6)


def test_other_solvers_need_all_rows_in_memory(small_samples, monkeypatch):
    X, y, model = long_classes(2)
    with pytest.raises(ValueError, match="solver='em' looks at all rows"):
        model.set_params(solver="em", memory="200MB").fit(X, y)
    monkeypatch.undo()
    model.set_params(solver="em", prior="flat").fit(X[:200], y[:200])
    plain = SparseBayesClassifier(Kernel(gamma=0.7, centers=40), solver="em", random_state=0)
    assert_same(model, plain.fit(X[:200], y[:200]), X)


def bad(X, y):
    return RVC(gamma=0.5, centers=5).fit(Chunks([(X[:50], y[:50]), (X[50:], y[50:])]))


def test_bad_labels_are_refused():
    X, y = classes(n=100)
    with pytest.raises(ValueError, match="y has only one class, 'apple'"):
        bad(X, np.full(100, "apple"))
    mixed = y.astype(object)
    mixed[70] = 3
    with pytest.raises(ValueError, match="labels that cannot be sorted"):
        bad(X, mixed)
    with pytest.raises(ValueError, match="Unknown label type"):
        bad(X, X[:, 0])
    w = (y == "apple").astype(float)
    with pytest.raises(ValueError, match="sample_weight leaves no sample of class 'pear'"):
        RVC(gamma=0.5, centers=5, memory="100MB").fit(X, y, w)
    with pytest.raises(ValueError, match="class_weight leaves no sample of class 'pear'"):
        RVC(gamma=0.5, centers=5, memory="100MB", class_weight={"pear": 0}).fit(X, y)
    with pytest.raises(ValueError, match="'plum', which is no class of y"):
        RVC(gamma=0.5, centers=5, memory="100MB", class_weight={"plum": 1}).fit(X, y)


def test_labels_that_change_between_passes_are_noticed():
    X, y = classes(n=100)
    reads = []

    def make():
        reads.append(len(reads))
        yield X[:50], y[:50]
        yield X[50:], np.full(50, "plum") if len(reads) > 3 else y[50:]

    with pytest.raises(ChunkError, match=r"chunk 1 .*'plum', which no chunk had"):
        RVC(gamma=0.5, centers=5).fit(Chunks(make))


def test_bad_counts_name_their_chunk():
    X, y = counts(n=100)
    model = RVR(gamma=0.5, centers=5, likelihood="poisson")
    wrong = y.astype(float)
    wrong[77] = 2.5
    with pytest.raises(ChunkError, match=r"chunk 1 \(rows 50 to 99\).*counts, which are integers"):
        model.fit(Chunks([(X[:50], wrong[:50]), (X[50:], wrong[50:])]))
    with pytest.raises(ValueError, match="no count above zero"):
        model.fit(Chunks([(X, 0 * y)]))
    with pytest.raises(ChunkError, match="only the Gaussian likelihood"):
        model.fit(Chunks([(X, np.column_stack([y, y]))]))


@pytest.mark.parametrize("kind", ["classes", "counts"])
def test_a_sample_is_of_rows_that_count(kind, monkeypatch):
    monkeypatch.setattr(_journey, "_STRUCTURE", (0.05, 40, 40))
    X, y = classes(600) if kind == "classes" else counts(600)
    weights = np.zeros(600)
    weights[::20] = 1.0
    make = SparseBayesClassifier if kind == "classes" else SparseBayesRegressor
    model = make(**({} if kind == "classes" else {"likelihood": "poisson"}))
    slow = model.fit(X[::20], y[::20])
    fast = clone(model).set_params(memory=10**8).fit(X, y, weights)
    assert_same(fast, slow, X)
