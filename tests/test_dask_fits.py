"""Fits of dask arrays and dataframes: the same as of rows in memory, however they are divided."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sparsebayes import RVR, SparseBayesRegressor, _journey, _row_regression
from sparsebayes.datasets import sinc
from sparsebayes.dictionaries import Kernel, Linear
from sparsebayes.rows import ChunkError
from sparsebayes.solvers import rounds

SINC = sinc(600, noise=0.1, dim=2, random_state=0)
CENTERS = SINC.X[::4]
WEIGHTS = np.random.default_rng(1).integers(0, 3, size=600).astype(float)


@pytest.fixture(autouse=True)
def threads():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


@pytest.fixture
def in_rounds(monkeypatch):
    """Rounds of screens even of a few rows and atoms, as of millions of rows."""
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


@pytest.mark.parametrize("chunks", [600, 200, 77, 1])
def test_regression_in_chunks_of_any_size(chunks):
    X = da.from_array(SINC.X, chunks=(chunks, 1))
    model = machine().fit(X, da.from_array(SINC.y, chunks=97))
    assert_same(model, machine().fit(SINC.X, SINC.y))


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
    assert model.predict(SINC.X).shape == (600, 2)


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
