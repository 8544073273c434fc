"""partial_fit and merge: the model of all rows, however they came."""

import copy
import pickle
from functools import partial

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics.pairwise import rbf_kernel

from pairwise import in_turn
from sparsebayes import RVC, RVR, SparseBayesRegressor, load
from sparsebayes.dictionaries import Bias, Kernel, Linear, Wavelet
from sparsebayes.dictionaries.linear import LinearAtoms
from sparsebayes.hyperpriors import Gamma
from sparsebayes.likelihoods import Gaussian
from sparsebayes.rows import Chunks

RNG = np.random.default_rng(3)
X = RNG.uniform(-5, 5, (90, 3))
Y = 2 + np.sinc(X[:, 0]) + 0.5 * X[:, 2] + 0.1 * RNG.normal(size=90)
TWO = np.c_[Y, X[:, 1] + 0.1 * RNG.normal(size=90)]
WEIGHTS = RNG.choice([0.0, 0.5, 1.0, 2.0], 90)
CENTERS = RNG.uniform(-5, 5, (25, 3))
KERNEL = Kernel("rbf", gamma=0.2, centers=CENTERS)


class Squares(BaseEstimator):
    """A dictionary of one's own, whose atoms depend on no data."""

    bound = True

    def bind(self, X, *, sample_weight=None, random_state=None):
        return SquareAtoms(np.arange(X.shape[1]), X.shape[1])


class SquareAtoms(LinearAtoms):
    def evaluate(self, X, out=None):
        return super().evaluate(X, out=out) ** 2


def grown(model, cuts, X=X, y=Y, weights=None):
    """The model, fed with some rows at a time."""
    for rows in np.split(np.arange(len(y)), list(cuts)):
        model.partial_fit(X[rows], y[rows], None if weights is None else weights[rows])
    return model


def assert_equal_models(one, other, rows=X, rtol=1e-8):
    assert_array_equal(one.relevance_, other.relevance_)
    for name in ("log_marginal_likelihood_", "log_posterior_", "noise_variance_"):
        assert_allclose(getattr(one, name), getattr(other, name), rtol=rtol, err_msg=name)
    for mine, yours in zip(
        one.predict(rows, return_std=True), other.predict(rows, return_std=True), strict=True
    ):
        assert mine.shape == yours.shape
        assert_allclose(mine, yours, rtol=rtol)
    assert one.converged_ == other.converged_
    assert one.solution_.status is other.solution_.status
    for figure in ("max_gain", "gradient_norm", "max_curvature"):
        mine, yours = (getattr(m.certificate_, figure) for m in (one, other))
        assert_allclose(mine, yours, atol=1e-6)
    assert hasattr(one, "feature_relevance_") == hasattr(other, "feature_relevance_")
    if hasattr(one, "feature_relevance_"):
        assert_allclose(one.feature_relevance_, other.feature_relevance_, rtol=1e-10)


MODELS = {
    "linear": SparseBayesRegressor(),
    "linear, no intercept": SparseBayesRegressor(fit_intercept=False),
    "linear, flat": SparseBayesRegressor(prior="flat"),
    "given noise": SparseBayesRegressor(noise_variance=0.01, prior="bic"),
    "prior of noise": SparseBayesRegressor(noise_prior=(1.0, 0.05)),
    "bias": SparseBayesRegressor(Bias() + Linear(), fit_intercept=False),
    "kernel": RVR(gamma=0.2, centers=CENTERS),
    "kernel, auto": RVR(gamma="auto", centers=CENTERS, prior="bic"),
    "inputs of their own": RVR(gamma=[0.3, 0.01, 0.2], centers=CENTERS),
    "kernel without width": RVR("linear", centers=CENTERS),
    "kernel object": RVR(gp.RBF(2.0), centers=CENTERS),
    "kernel function": RVR(partial(rbf_kernel, gamma=0.2), centers=CENTERS),
    "union": SparseBayesRegressor(Linear() + KERNEL),
    "own": SparseBayesRegressor(Linear() + Squares()),
    "sequential": SparseBayesRegressor(KERNEL, solver="sequential"),
    "em": SparseBayesRegressor(Linear(), solver="em"),
    "mackay": SparseBayesRegressor(Linear(), solver="mackay"),
    "gamma prior": SparseBayesRegressor(solver="em", prior=Gamma(1e-2, 1e-2)),
    "restarts": SparseBayesRegressor(KERNEL, n_restarts=2, random_state=0),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_any_split_gives_the_model_of_all_rows(name):
    # After few rows a model may be one to be warned of; after all rows none is.
    whole = clone(MODELS[name]).fit(X, Y)
    assert whole.converged_
    model = grown(clone(MODELS[name]), [1, 50])
    assert_equal_models(model, whole)
    assert model.n_samples_seen_ == 90
    assert model.n_features_in_ == 3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["linear", "kernel"])
def test_one_row_at_a_time(name):
    model = grown(clone(MODELS[name]), range(1, 20), X[:20], Y[:20])
    assert_equal_models(model, clone(MODELS[name]).fit(X[:20], Y[:20]))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@in_turn(name=["linear", "linear, no intercept", "union"], cuts=[[30, 31], [1, 2, 3, 4, 5, 80]])
def test_weights_and_several_targets(name, cuts):
    model = grown(clone(MODELS[name]), cuts, X, TWO, WEIGHTS)
    assert_equal_models(model, clone(MODELS[name]).fit(X, TWO, WEIGHTS))
    assert model.n_samples_seen_ == np.count_nonzero(WEIGHTS)
    column = grown(clone(MODELS[name]), cuts, X, Y[:, None], WEIGHTS)
    assert_equal_models(column, clone(MODELS[name]).fit(X, Y[:, None], WEIGHTS))


@pytest.mark.parametrize("name", ["linear", "kernel", "union"])
def test_sparse_rows(name):
    S = sp.random(90, 3, density=0.4, random_state=0, format="csr")
    y = S[:, 0].toarray().ravel() + 0.1 * RNG.normal(size=90)
    model = grown(clone(MODELS[name]), [30, 60], S, y)
    assert_equal_models(model, clone(MODELS[name]).fit(S, y), rows=S)
    assert_allclose(model.predict(S.toarray()), model.predict(S))


def test_a_large_dictionary_takes_the_same_path():
    """Above 768 atoms structure is sought in a sample of them."""
    Z = RNG.uniform(-10, 10, (1500, 2))
    t = np.sinc(np.hypot(*Z.T) / np.pi) + 0.1 * RNG.normal(size=1500)
    model = RVR(gamma=0.16, centers=RNG.uniform(-10, 10, (900, 2)))
    whole = clone(model).fit(Z, t)
    assert_equal_models(grown(model, [400, 1000], Z, t), whole, rows=Z)
    assert 10 < len(model.relevance_) < 100


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("offset", [1e8, -1e10])
def test_inputs_and_targets_far_from_zero(offset):
    """The sums are as exact as if the offset had never been there."""
    near = np.round(np.c_[X, TWO] * 2**10) / 2**10  # offsets are added without rounding
    model = grown(SparseBayesRegressor(), [1, 2, 50], near[:, :3] + offset, near[:, 3:] + offset)
    want = SparseBayesRegressor().fit(near[:, :3], near[:, 3:])
    assert_array_equal(model.relevance_, want.relevance_)
    for name in ("log_marginal_likelihood_", "weights_", "noise_variance_", "prior_variance_"):
        assert_allclose(getattr(model, name), getattr(want, name), rtol=1e-9)
    found = model.predict(near[:, :3] + offset) - offset
    assert_allclose(found, want.predict(near[:, :3]), atol=1e-14 * abs(offset))


def test_any_unit():
    for unit in (1e-140, 1e140):
        model = grown(SparseBayesRegressor(), [30], X, Y * unit)
        want = SparseBayesRegressor().fit(X, Y)
        assert_array_equal(model.relevance_, want.relevance_)
        assert_allclose(model.predict(X) / unit, want.predict(X), rtol=1e-9)
    Z = X * [1e-145, 1e145, 1.0]
    assert_equal_models(
        grown(RVR("linear", centers=np.eye(3)), [30]), RVR("linear", centers=np.eye(3)).fit(X, Y)
    )
    assert_equal_models(
        grown(SparseBayesRegressor(), [30], Z), SparseBayesRegressor().fit(Z, Y), rows=Z
    )


def test_constant_targets_and_void_atoms():
    Z = np.c_[X, np.zeros(90), np.ones(90)]
    for y, model in (
        (np.full(90, 3.7), SparseBayesRegressor(noise_variance=0.1)),
        (np.zeros(90), SparseBayesRegressor(noise_variance=1e-40)),
        (np.zeros(90), SparseBayesRegressor(noise_variance=1e-40, fit_intercept=False)),
    ):
        found, want = grown(clone(model), [10], Z, y), clone(model).fit(Z, y)
        assert_array_equal(found.relevance_, want.relevance_)
        assert_allclose(found.predict(Z), y)
        assert_allclose(found.log_marginal_likelihood_, want.log_marginal_likelihood_)


def test_kernels_far_from_the_rows_seen_so_far_wait_for_theirs():
    """Of sorted rows the first are so far from most centers that float64 holds no square there."""
    line = np.linspace(-10, 10, 300)[:, None]
    t = np.sin(line[:, 0]) + 0.1 * RNG.normal(size=300)
    for dictionary in (
        Kernel("rbf", gamma=2.9, centers=line[::6]),
        Linear() + Kernel("rbf", gamma=2.9, centers=line[::6]),
    ):
        model = SparseBayesRegressor(dictionary, prior="bic")
        values = dictionary.bind(line).evaluate(line[:50])
        assert ((values.max(axis=0) > 0) & (values.max(axis=0) < 1e-290)).any()
        whole = clone(model).fit(line, t)
        assert_equal_models(grown(model, [50, 100, 200], line, t), whole, rows=line)
    with pytest.raises(ValueError, match="give X in other units"):
        SparseBayesRegressor().partial_fit(X * [1e-300, 1.0, 1.0], Y)


# merge


def pieces(model, y=Y, weights=None):
    thirds = [np.arange(i, 90, 3) for i in range(3)]
    return [
        clone(model).partial_fit(X[r], y[r], None if weights is None else weights[r])
        for r in thirds
    ]


@in_turn(
    name=["linear", "kernel", "union", "prior of noise"],
    weights={"plain": None, "weighted": WEIGHTS},
)
def test_merge_in_any_order(name, weights):
    whole = clone(MODELS[name]).fit(X, Y, weights)
    parts = pieces(MODELS[name], weights=weights)
    for order in ([0, 1, 2], [2, 0, 1]):
        a, b, c = (copy.deepcopy(parts[i]) for i in order)
        assert a.merge(b) is a
        assert_equal_models(a.merge(c), whole)
    a, b, c = parts
    assert_equal_models(a.merge(b.merge(c)), whole)
    assert a.n_samples_seen_ == (90 if weights is None else np.count_nonzero(weights))


def test_the_other_model_is_not_changed_and_both_go_on():
    a, b, c = pieces(MODELS["union"])
    before = pickle.dumps(b)
    a.merge(b)
    assert pickle.dumps(b) == before
    a.merge(c).partial_fit(X[:5], Y[:5])
    twice = np.r_[np.arange(90), np.arange(5)]
    assert_equal_models(a, clone(MODELS["union"]).fit(X[twice], Y[twice]))
    b.merge(c)
    rest = np.flatnonzero(np.arange(90) % 3)
    assert_equal_models(b, clone(MODELS["union"]).fit(X[rest], Y[rest]))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prior": "bic"}, r"prior \('auto' and 'bic'\)"),
        ({"noise_variance": 0.1}, r"noise_variance \(None and 0.1\)"),
        ({"noise_prior": (1.0, 1.0)}, "noise_prior"),
        ({"fit_intercept": False}, r"fit_intercept \(True and False\)"),
        ({"tol": 1e-3}, "tol"),
        ({"solver": "em"}, "solver"),
        ({"gamma": 0.3}, r"gamma \(0.2 and 0.3\)"),
        ({"gamma": [0.2, 0.2, 0.3]}, "gamma cannot"),
        ({"centers": CENTERS[:-1]}, "centers cannot"),
        ({"centers": CENTERS + 1e-9}, "centers cannot"),
        ({"kernel": "laplacian"}, r"kernel \('rbf' and 'laplacian'\)"),
        ({"kernel": partial(rbf_kernel, gamma=0.2)}, "kernel cannot"),
    ],
)
def test_models_of_something_else_are_refused_by_what_differs(changes, words):
    model = RVR(gamma=0.2, centers=CENTERS).partial_fit(X, Y)
    other = RVR(**{"gamma": 0.2, "centers": CENTERS} | changes).partial_fit(X, Y)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=f"models that differ in.*{words}"):
        model.merge(other)
    assert pickle.dumps(model) == before


def test_other_data_are_refused_by_what_differs():
    model = SparseBayesRegressor().partial_fit(X, Y)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    for other, words in (
        (SparseBayesRegressor().partial_fit(X[:, :2], Y), r"the number of features \(3 and 2\)"),
        (SparseBayesRegressor().partial_fit(frame, Y), "the names of features"),
        (SparseBayesRegressor().partial_fit(X, TWO), "targets.*one-dimensional.*of 2 columns"),
        (SparseBayesRegressor().partial_fit(X, Y[:, None]), "targets.*of 1 columns"),
        (SparseBayesRegressor(Bias()).partial_fit(X, Y), r"dictionary \(Linear and Bias\)"),
        (SparseBayesRegressor(Linear() + Bias()).partial_fit(X, Y), "dictionary"),
    ):
        with pytest.raises(ValueError, match=f"differ in.*{words}.*cannot be merged"):
            model.merge(other)
    with pytest.raises(TypeError, match="another SparseBayesRegressor, got RVR"):
        model.merge(RVR(gamma=0.2, centers=CENTERS).partial_fit(X, Y))
    with pytest.raises(TypeError, match="got list"):
        model.merge([model])
    with pytest.raises(ValueError, match="count twice"):
        model.merge(model)
    with pytest.raises(ValueError, match="the other one has none"):
        model.merge(SparseBayesRegressor().fit(X, Y))
    with pytest.raises(ValueError, match="this model has none"):
        SparseBayesRegressor().fit(X, Y).merge(model)


def test_what_a_fit_is_run_by_may_differ():
    model = SparseBayesRegressor().partial_fit(X[:45], Y[:45])
    other = SparseBayesRegressor("linear", verbose=False, random_state=7, max_iter=500)
    model.merge(other.partial_fit(X[45:], Y[45:]))
    spelled = SparseBayesRegressor(Linear()).partial_fit(X[:5], Y[:5])
    assert model.merge(spelled).n_samples_seen_ == 95


def test_dictionaries_are_compared_by_what_they_are_made_of():
    for dictionary in (
        Linear() + Kernel("rbf", gamma=[0.1, 0.2, 0.3], centers=CENTERS.tolist()),
        Kernel(gp.RBF(2.0), centers=CENTERS),
        Kernel(partial(rbf_kernel, gamma=0.2), centers=CENTERS),
        Kernel("rbf", gamma=0.2, centers=sp.csr_matrix(CENTERS)),
        Linear() + Squares(),
    ):
        a, b, _ = pieces(SparseBayesRegressor(dictionary))
        assert a.merge(pickle.loads(pickle.dumps(b))).n_samples_seen_ == 60


# where they are


@pytest.mark.parametrize(
    "model",
    [
        RVR(),
        RVR(gamma=0.2),
        RVR(gamma=0.2, centers=10),
        RVR(gamma="scale", centers=CENTERS),
        RVR(gamma="evidence", centers=CENTERS),
        RVR(gp.RBF(2.0), gamma="ard", centers=CENTERS),
        RVR("precomputed"),
        RVR("no such kernel", centers=CENTERS),
        RVR(gamma=0.2, centers=CENTERS, likelihood="poisson"),
        SparseBayesRegressor(likelihood=Gaussian(0.1)),
        SparseBayesRegressor(Linear() + Kernel(gamma=0.2)),
        SparseBayesRegressor(Wavelet()),
        SparseBayesRegressor("quadratic"),
        SparseBayesRegressor(None),
        RVC(gamma=0.2, centers=CENTERS),
    ],
    ids=repr,
)
def test_models_whose_rows_do_not_add_up_have_neither(model):
    for name in ("partial_fit", "merge"):
        assert not hasattr(model, name)


def test_the_reason_is_told():
    with pytest.raises(AttributeError) as caught:
        _ = RVR().partial_fit
    assert "gamma=<number> and centers=<array>" in str(caught.value.__cause__)
    with pytest.raises(AttributeError) as caught:
        _ = SparseBayesRegressor(likelihood="poisson").merge
    assert "likelihood='poisson'" in str(caught.value.__cause__)


# what is kept


def test_fit_forgets():
    model = SparseBayesRegressor().partial_fit(X[:50], Y[:50]).fit(X[:40], Y[:40])
    assert not hasattr(model, "n_samples_seen_")
    model.partial_fit(X[40:], Y[40:])
    assert model.n_samples_seen_ == 50
    assert_equal_models(model, SparseBayesRegressor().fit(X[40:], Y[40:]))


def test_pickles_and_copies_go_on_and_model_files_do_not(tmp_path):
    model = clone(MODELS["union"]).partial_fit(X[:40], Y[:40])
    model.save(tmp_path / "model")
    read = load(tmp_path / "model")
    assert_array_equal(read.predict(X), model.predict(X))
    for call in (lambda: read.partial_fit(X, Y), lambda: read.merge(model)):
        with pytest.raises(ValueError, match="read from a file, which holds no sums"):
            call()
    with pytest.raises(ValueError, match="the other one has none"):
        copy.deepcopy(model).merge(read)
    want = clone(MODELS["union"]).fit(X, Y)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert_equal_models(twin.partial_fit(X[40:], Y[40:]), want)
    assert model.n_samples_seen_ == 40
    assert read.fit(X, Y).partial_fit(X, Y).n_samples_seen_ == 90


def test_the_size_does_not_depend_on_the_rows():
    few = len(pickle.dumps(SparseBayesRegressor(KERNEL).partial_fit(X[:40], Y[:40])))
    many = SparseBayesRegressor(KERNEL)
    for _ in range(20):
        many.partial_fit(X, Y)
    assert len(pickle.dumps(many)) < 1.5 * few
    assert "_training" not in vars(many)
    with pytest.raises(ValueError, match="augment=.*X, y"):
        many.predict(X, augment=True)
    assert many.predict(X[:2], augment=(X, Y, np.full(90, 20))).shape == (2,)


def test_later_rows_must_be_like_the_first():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = SparseBayesRegressor().partial_fit(frame, Y)
    assert_array_equal(model.feature_names_in_, ["a", "b", "c"])
    before = pickle.dumps(model)
    for bad, y, words in (
        (frame[["a", "b"]], Y, "feature names"),
        (frame[["c", "b", "a"]], Y, "same order"),
        (frame, TWO, "y is of 2 columns, but in the rows seen before it was one-dimensional"),
        (frame, Y[:, None], "of 1 columns.*one-dimensional"),
        (frame, Y[:-1], "inconsistent numbers of samples"),
        (frame, np.where(np.arange(90) == 5, np.nan, Y), "NaN"),
        (frame, Y * 1e200, "range of float64"),
    ):
        with pytest.raises(ValueError, match=words):
            model.partial_fit(bad, y)
    with pytest.raises(ValueError, match="sample_weight"):
        model.partial_fit(frame, Y, sample_weight=-np.ones(90))
    assert pickle.dumps(model) == before
    with pytest.raises(ValueError, match="X has 2 features, but SparseBayesRegressor is expecting"):
        SparseBayesRegressor().partial_fit(X, Y).partial_fit(X[:, :2], Y)


def test_another_dictionary_is_refused_and_other_parameters_are_not():
    centers = CENTERS.copy()
    model = RVR(gamma=0.2, centers=centers).partial_fit(X[:50], Y[:50])
    with pytest.raises(ValueError, match=r"has changed.* in gamma \(0.2 and 0.3\)"):
        model.set_params(gamma=0.3).partial_fit(X[50:], Y[50:])
    with pytest.raises(ValueError, match=r"in gamma \(0.2 and 0.3\)"):
        model.merge(RVR(gamma=0.3, centers=centers).partial_fit(X, Y))
    model.set_params(gamma=0.2, prior="bic", fit_intercept=False)
    want = RVR(gamma=0.2, centers=CENTERS, prior="bic", fit_intercept=False).fit(X, Y)
    assert_equal_models(model.partial_fit(X[50:], Y[50:]), want)
    centers[0] += 1
    with pytest.raises(ValueError, match="in centers: sums"):
        model.partial_fit(X, Y)


def test_one_row_is_not_enough_to_predict():
    model = SparseBayesRegressor(noise_variance=1.0).partial_fit(X[:1], Y[:1])
    assert model.n_samples_seen_ == 1
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(NotFittedError):
        model.save("nowhere")
    model.partial_fit(X[1:2], Y[1:2])
    assert_allclose(
        model.predict(X), SparseBayesRegressor(noise_variance=1.0).fit(X[:2], Y[:2]).predict(X)
    )


def test_rows_of_no_weight():
    with pytest.raises(ValueError, match="zero for every sample"):
        SparseBayesRegressor().partial_fit(X, Y, np.zeros(90))
    model = SparseBayesRegressor().partial_fit(X, Y)
    solution = model.solution_
    model.partial_fit(X, 1e3 * Y, np.zeros(90))
    assert model.solution_ is solution
    small = SparseBayesRegressor(noise_variance=1.0).partial_fit(X[:9], Y[:9], np.full(9, 0.2))
    assert not hasattr(small, "posterior_")  # weights that sum to less than two
    assert small.partial_fit(X[9:], Y[9:]).converged_


def test_rows_that_are_read(tmp_path):
    """All kinds of rows that fit takes, one after the other, in one model."""
    np.save(tmp_path / "x.npy", X[:40])
    frame = pd.DataFrame(np.c_[X, Y][40:60], columns=["a", "b", "c", "y"])
    frame.to_parquet(tmp_path / "some.parquet")
    model = SparseBayesRegressor(KERNEL)
    model.partial_fit(np.load(tmp_path / "x.npy", mmap_mode="r"), Y[:40])
    model.partial_fit(tmp_path / "some.parquet", "y")
    model.partial_fit(Chunks([(X[60:61], Y[60:61]), (X[61:70], Y[61:70])]))
    model.partial_fit(da.from_array(X[70:], chunks=(7, 2)), da.from_array(Y[70:], chunks=9))
    assert model.n_samples_seen_ == 90
    assert_equal_models(model, SparseBayesRegressor(KERNEL).fit(X, Y))
    before = pickle.dumps(model)
    for bad, y, words in (
        (
            Chunks([(X[:, :2], Y)]),
            None,
            "X has 2 features, but SparseBayesRegressor is expecting 3",
        ),
        (Chunks([(X, Y), (X * np.nan, Y)]), None, "chunk 1.*NaN"),
        (Chunks([(X, TWO)]), None, "y is of 2 columns"),
        (tmp_path / "none.parquet", "y", "none.parquet"),
    ):
        with pytest.raises(ValueError, match=words):
            model.partial_fit(bad, y)
    assert pickle.dumps(model) == before
    named = SparseBayesRegressor().partial_fit(tmp_path / "some.parquet", "y")
    assert_array_equal(named.feature_names_in_, ["a", "b", "c"])
    frame.rename(columns={"a": "d"}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(ValueError, match="named d, b, c, but those of the first rows a, b, c"):
        named.partial_fit(tmp_path / "other.parquet", "y")
    named.partial_fit(frame[["a", "b", "c"]], frame["y"])
    assert named.n_samples_seen_ == 40


def test_threads_and_blocks(monkeypatch):
    many = np.tile(X, (50, 1)) + 0.1 * RNG.normal(size=(4500, 3))
    t = np.tile(Y, 50)
    whole = SparseBayesRegressor(KERNEL).partial_fit(many, t)
    monkeypatch.setattr("sparsebayes.estimators._incremental.cores", lambda: 3)
    monkeypatch.setattr("sparsebayes._memory._LARGEST_BLOCK", 1000)
    assert_equal_models(SparseBayesRegressor(KERNEL).partial_fit(many, t), whole, rows=many)


def test_too_many_atoms():
    with pytest.raises(ValueError, match="products of 20000 atoms.*use fewer centers"):
        RVR(gamma=0.2, centers=RNG.normal(size=(20_000, 3))).partial_fit(X, Y)
    centers = RNG.normal(size=(1500, 3))
    with pytest.raises(ValueError, match="products of 1500 atoms.*set memory"):
        RVR(gamma=0.2, centers=centers, memory="64MiB").partial_fit(X, Y)
    RVR(gamma=0.2, centers=centers[:1000], memory="64MiB", prior="bic").partial_fit(X, Y)


def test_what_sums_do_not_have():
    class Learned(Squares):
        def bind(self, X, **rest):
            return Kernel("rbf", gamma="evidence", centers=CENTERS).bind(X)

    with pytest.raises(ValueError, match="cannot be learned from sums"):
        SparseBayesRegressor(Learned()).partial_fit(X, Y)
    with pytest.raises(ValueError, match="solver='orthonormal' does not apply"):
        SparseBayesRegressor(solver="orthonormal").partial_fit(X, Y)
    with pytest.raises(ValueError, match="tol must be"):
        SparseBayesRegressor(tol=-1).partial_fit(X, Y)


def test_warm_starts_go_on_from_the_last_model():
    cold = grown(SparseBayesRegressor(KERNEL), [60])
    warm = grown(SparseBayesRegressor(KERNEL, warm_start=True), [60])
    assert warm.certificate_.holds(1e-6)
    assert warm.n_iter_ < cold.n_iter_


def test_warnings_point_to_the_caller():
    with pytest.warns(ConvergenceWarning, match="SparseBayesRegressor: ") as caught:
        SparseBayesRegressor(prior="flat").partial_fit(X[:2], Y[:2])
    assert caught[0].filename == __file__
