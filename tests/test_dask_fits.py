"""Fits of dask arrays and dataframes: the same as of rows in memory, however they are divided."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from pairwise import in_turn
from sparsebayes import (
    RVC,
    RVR,
    SparseBayesClassifier,
    SparseBayesRegressor,
    _journey,
    _row_regression,
)
from sparsebayes.datasets import sinc
from sparsebayes.dictionaries import Kernel, Linear
from sparsebayes.rows import ChunkError
from sparsebayes.solvers import rounds

SINC = sinc(400, noise=0.1, dim=2, random_state=0)
CENTERS = SINC.X[::4]
WEIGHTS = np.random.default_rng(1).integers(0, 3, size=400).astype(float)


@pytest.fixture(autouse=True)
def threads():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


@pytest.fixture
def in_rounds(monkeypatch):
    """Rounds of screens even of a few rows and atoms, as of millions of rows."""
    monkeypatch.setattr(_row_regression, "_ONE_PASS", (0, 0))
    monkeypatch.setattr(_row_regression, "_FEW_ATOMS", 0)
    monkeypatch.setattr(_row_regression, "_FEW_PRODUCTS", 0)
    monkeypatch.setattr(_journey, "_STRUCTURE", (0.1, 60, 60))
    monkeypatch.setattr(rounds, "NEAR", (4, 0))
    monkeypatch.setattr(rounds, "POOL", 4)


def machine(**parameters):
    return SparseBayesRegressor(Kernel("rbf", gamma=0.16, centers=CENTERS), **parameters)


def assert_same(model, other, X=SINC.X):
    assert model.converged_
    assert other.converged_
    assert model.certificate_.max_gain < 1e-6
    assert_allclose(model.log_marginal_likelihood_, other.log_marginal_likelihood_, rtol=1e-8)
    for one, two in zip(
        model.predict(X, return_std=True), other.predict(X, return_std=True), strict=True
    ):
        assert_allclose(one, two, rtol=1e-8, atol=1e-8)


def test_regression_in_chunks_of_any_size():
    beside = machine().fit(SINC.X, SINC.y)
    for chunks in (400, 77, 2):
        X = da.from_array(SINC.X, chunks=(chunks, 1))
        assert_same(machine().fit(X, da.from_array(SINC.y, chunks=97)), beside)


def test_regression_in_rounds(in_rounds):
    X, y = da.from_array(SINC.X, chunks=(77, 2)), da.from_array(SINC.y, chunks=77)
    assert_same(machine().fit(X, y), machine(memory="100MB").fit(SINC.X, SINC.y))


def test_weights():
    X = da.from_array(SINC.X, chunks=(77, 2))
    beside = machine().fit(SINC.X, SINC.y, WEIGHTS)
    for weights in (WEIGHTS, da.from_array(WEIGHTS, chunks=50)):
        assert_same(machine().fit(X, SINC.y, weights), beside)


def test_several_targets():
    y = np.column_stack([SINC.y, 1e3 * SINC.y[::-1]])
    model = SparseBayesRegressor().fit(da.from_array(SINC.X, chunks=(77, 2)), y)
    assert_same(model, SparseBayesRegressor().fit(SINC.X, y))
    assert model.predict(SINC.X).shape == (400, 2)


def test_frames():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.normal(size=(300, 6)), columns=list("abcdef"))
    frame["t"] = 3 + 2 * frame["b"] - frame["e"] + 0.1 * rng.normal(size=300)
    lazy = dd.from_pandas(frame, npartitions=5)
    inputs = list("abcdef")
    model = SparseBayesRegressor().fit(lazy[inputs], lazy["t"])
    beside = SparseBayesRegressor().fit(frame[inputs], frame["t"])
    assert_same(model, beside, frame[inputs])
    assert_array_equal(model.feature_names_in_, beside.feature_names_in_)
    assert_array_equal(model.relevance_, [1, 4])
    assert_allclose(model.predict(lazy[inputs]).compute(), beside.predict(frame[inputs]), rtol=1e-8)


def test_centers_by_k_means_are_the_same():
    X = da.from_array(SINC.X, chunks=(77, 2))
    given = {"gamma": 0.16, "centers": 40, "random_state": 0}
    assert_same(RVR(**given).fit(X, SINC.y), RVR(**given).fit(SINC.X, SINC.y))


def test_what_the_data_say_of_the_dictionary():
    X = da.from_array(SINC.X, chunks=(77, 2))
    dictionary = Linear() + Kernel("rbf", centers=CENTERS)  # gamma="scale"
    model = SparseBayesRegressor(dictionary).fit(X, SINC.y)
    assert_same(model, SparseBayesRegressor(dictionary).fit(SINC.X, SINC.y))


def test_a_partition_that_cannot_be_used_is_named():
    bad = SINC.X.copy()
    bad[100, 1] = np.inf
    with pytest.raises(ChunkError, match=r"partition 1 \(rows 77 to 153\): X has infinity in col"):
        machine().fit(da.from_array(bad, chunks=(77, 2)), SINC.y)


def test_a_checkpoint_is_continued_when_a_bad_partition_is_good_again(in_rounds, tmp_path):
    path, good = tmp_path / "fit.checkpoint", tmp_path / "good"
    X = da.from_array(SINC.X, chunks=(77, 2)).map_blocks(spoiled, path, good)
    beside = machine().fit(X, SINC.y)
    with pytest.raises(ChunkError, match=r"partition . .*: X has NaN in column 0"):
        machine(checkpoint=path).fit(X, SINC.y)
    assert path.exists()
    good.touch()
    assert_same(machine(checkpoint=path, resume=True).fit(X, SINC.y), beside)


def spoiled(part, path, good):
    """A partition that spoils once there is a checkpoint."""
    if good.exists() or not path.exists():
        return part
    part = part.copy()
    part[0, 0] = np.nan
    return part


# classes and counts


RNG = np.random.default_rng(7)
INPUTS = RNG.normal(size=(300, 5))
SCORE = 2 * INPUTS[:, 0] - INPUTS[:, 3]
TWO = np.where(SCORE + RNG.logistic(size=300) > 0, "yes", "no")
THREE = np.digitize(SCORE + RNG.logistic(size=300), [-1, 1])
COUNTS = RNG.poisson(np.exp(0.3 * SCORE))


def assert_same_classes(model, other):
    assert model.converged_
    assert other.converged_
    assert_allclose(model.log_marginal_likelihood_, other.log_marginal_likelihood_, rtol=1e-8)
    assert_array_equal(model.classes_, other.classes_)
    assert_allclose(model.predict_proba(INPUTS), other.predict_proba(INPUTS), atol=1e-8)


@in_turn(labels={"two": TWO, "three": THREE}, chunks=[41, 300])
def test_classification(labels, chunks):
    X = da.from_array(INPUTS, chunks=(chunks, 3))
    beside = SparseBayesClassifier().fit(INPUTS, labels)
    for y in (
        labels,
        da.from_array(labels, chunks=50),
        dd.from_pandas(pd.Series(labels), npartitions=4),
    ):
        assert_same_classes(SparseBayesClassifier().fit(X, y), beside)


def test_classification_in_chunks_of_one_row():
    X = da.from_array(INPUTS[:60], chunks=(1, 5))
    beside = SparseBayesClassifier().fit(INPUTS[:60], TWO[:60])
    assert_same_classes(SparseBayesClassifier().fit(X, TWO[:60]), beside)


def test_weights_of_samples_and_classes():
    X = da.from_array(INPUTS, chunks=(41, 5))
    weights = RNG.integers(0, 3, size=300).astype(float)
    model = SparseBayesClassifier(class_weight="balanced", shared=True)
    beside = clone(model).fit(INPUTS, THREE, weights)
    assert_same_classes(model.fit(X, THREE, da.from_array(weights, chunks=99)), beside)


def test_relevance_vector_classification():
    X = da.from_array(INPUTS, chunks=(41, 5))
    given = {"gamma": 0.2, "centers": INPUTS[:60]}
    assert_same_classes(RVC(**given).fit(X, TWO), RVC(**given).fit(INPUTS, TWO))


def test_counts():
    X = da.from_array(INPUTS, chunks=(41, 5))
    model = SparseBayesRegressor(likelihood="poisson").fit(X, COUNTS)
    assert_same(model, SparseBayesRegressor(likelihood="poisson").fit(INPUTS, COUNTS), INPUTS)


def test_one_label_alone_is_refused():
    X = da.from_array(INPUTS, chunks=(41, 5))
    with pytest.raises(ValueError, match="class"):
        SparseBayesClassifier().fit(X, np.full(300, "yes"))


def test_a_label_that_is_missing_is_named():
    labels = TWO.astype(object)
    labels[50] = None
    with pytest.raises(ChunkError, match=r"partition 1 \(rows 41 to 81\): row 50 has no label"):
        SparseBayesClassifier().fit(da.from_array(INPUTS, chunks=(41, 5)), labels)
