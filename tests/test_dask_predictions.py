"""Predictions of dask collections: lazy, and the same as of rows in memory."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from sparsebayes import RVC, RVR, SparseBayesClassifier, SparseBayesRegressor
from sparsebayes.datasets import sinc
from sparsebayes.estimators._lazy import _without_history
from sparsebayes.rows import ChunkError

SINC = sinc(60, noise=0.1, random_state=0)
RNG = np.random.default_rng(2)
X = RNG.normal(size=(103, 4))
FRAME = pd.DataFrame(X, columns=list("abcd"))
SCORE = 2 * X[:, 0] - X[:, 3]
NOISY = SCORE + 0.3 * RNG.normal(size=len(X))
TWO = np.where(SCORE + RNG.logistic(size=len(X)) > 0, "yes", "no")
THREE = np.digitize(SCORE + RNG.logistic(size=len(X)), [-1, 1])


@pytest.fixture(autouse=True)
def threads():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


@pytest.fixture(scope="module")
def regressor():
    return SparseBayesRegressor().fit(X, NOISY)


@pytest.fixture(scope="module", params=["two classes", "three classes"])
def classifier(request):
    return SparseBayesClassifier().fit(X, TWO if request.param == "two classes" else THREE)


@pytest.mark.parametrize("chunks", [(103, 4), (20, 3), (1, 4)])
def test_regression(regressor, chunks):
    lazy = regressor.predict(da.from_array(X, chunks=chunks))
    assert isinstance(lazy, da.Array)
    assert lazy.chunks == da.from_array(X[:, 0], chunks=chunks[0]).chunks
    assert lazy.dtype == np.float64
    assert_allclose(lazy.compute(), regressor.predict(X), rtol=1e-12)


def test_error_bars_come_with_the_mean(regressor):
    calls = []
    given = da.from_array(X, chunks=(40, 4)).map_blocks(noted, calls, dtype=float, meta=X[:0])
    mean, std = regressor.predict(given, return_std=True)
    assert (mean.shape, std.shape) == ((103,), (103,))
    before = len(calls)
    found = dask.compute(mean, std, scheduler="sync")
    assert len(calls) - before == 3  # each partition once, for both
    for one, other in zip(found, regressor.predict(X, return_std=True), strict=True):
        assert_allclose(one, other, rtol=1e-12)


def noted(part, calls):
    calls.append(len(part))
    return part


def test_several_targets():
    model = SparseBayesRegressor().fit(X, np.column_stack([NOISY, NOISY + X[:, 1]]))
    mean, std = model.predict(da.from_array(X, chunks=(40, 4)), return_std=True)
    assert mean.shape == std.shape == (103, 2)
    for one, other in zip((mean, std), model.predict(X, return_std=True), strict=True):
        assert_allclose(one.compute(), other, rtol=1e-12)


def test_classification(classifier):
    given = da.from_array(X, chunks=(40, 2))
    labels = classifier.predict(given)
    assert labels.dtype == classifier.predict(X).dtype
    assert_array_equal(labels.compute(), classifier.predict(X))
    for name in ("predict_proba", "predict_log_proba", "decision_function"):
        method = getattr(classifier, name)
        for options in ({}, {"plug_in": True}):
            lazy = method(given, **options)
            assert lazy.shape == method(X, **options).shape
            assert_allclose(lazy.compute(), method(X, **options), rtol=1e-10, err_msg=name)


def test_frames():
    model = SparseBayesRegressor().fit(FRAME, NOISY)
    frame = dd.from_pandas(FRAME, npartitions=4)
    lazy = model.predict(frame)
    assert isinstance(lazy, da.Array)
    assert_allclose(lazy.compute(), model.predict(FRAME), rtol=1e-12)
    nullable = dd.from_pandas(FRAME.convert_dtypes(), npartitions=3)
    assert_allclose(model.predict(nullable).compute(), model.predict(FRAME), rtol=1e-12)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"a": "z"}))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(da.from_array(X))


def test_empty_partitions_and_unknown_lengths(regressor):
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=4)
    some = frame[frame[0] > 1.2]
    lazy = regressor.predict(some)
    assert np.isnan(lazy.shape[0])
    assert_allclose(lazy.compute(), regressor.predict(X[X[:, 0] > 1.2]), rtol=1e-12)
    none = frame[frame[0] > 1e9]
    assert regressor.predict(none).compute().shape == (0,)
    nowhere = regressor.predict(none.to_dask_array(lengths=True), return_std=True)
    assert [each.compute().shape for each in nowhere] == [(0,), (0,)]


def test_sparse_chunks(regressor):
    given = da.from_array(X, chunks=(40, 4)).map_blocks(sp.csr_matrix)
    assert_allclose(regressor.predict(given).compute(), regressor.predict(X), rtol=1e-12)


def test_kernels():
    model = RVR(gamma=1 / 9).fit(SINC.X, SINC.y)
    given = da.from_array(SINC.X, chunks=(25, 1))
    for options in ({"return_std": True}, {"return_std": True, "marginalize": True}):
        for one, other in zip(
            model.predict(given, **options), model.predict(SINC.X, **options), strict=True
        ):
            assert_allclose(one.compute(), other, rtol=1e-10)
    machine = RVC(gamma=0.5).fit(X, TWO)
    lazy = machine.predict_proba(da.from_array(X, chunks=(25, 4)))
    assert_allclose(lazy.compute(), machine.predict_proba(X), rtol=1e-10)


def test_scores(regressor):
    y = da.from_array(SCORE, chunks=50)
    given = da.from_array(X, chunks=(40, 4))
    assert_allclose(regressor.score(given, y), regressor.score(X, SCORE), rtol=1e-12)


def test_what_travels_is_as_small_as_the_model(regressor):
    light = _without_history(regressor)
    assert not {"solution_", "_last", "_training"} & set(vars(light))
    assert_array_equal(light.predict(X), regressor.predict(X))
    assert hasattr(regressor, "solution_")


# what is refused


def test_a_partition_that_cannot_be_used_is_named(regressor):
    bad = X.copy()
    bad[50, 1] = np.nan
    lazy = regressor.predict(da.from_array(bad, chunks=(40, 4)))
    with pytest.raises(ChunkError, match="partition 1: Input X contains NaN"):
        lazy.compute()


def test_inputs_of_another_shape(regressor):
    with pytest.raises(ValueError, match="X has 3 features, but .* is expecting 4"):
        regressor.predict(da.from_array(X[:, :3]))
    with pytest.raises(ValueError, match="a dask array with two dimensions"):
        regressor.predict(da.from_array(X[:, 0]))
    with pytest.raises(ValueError, match="a dask array with two dimensions .* not a Series"):
        regressor.predict(dd.from_pandas(FRAME, npartitions=2)["a"])
    with pytest.raises(ValueError, match="a dask array with two dimensions"):
        regressor.predict(dask.delayed(X))


def test_what_needs_rows_in_memory(regressor):
    given = da.from_array(X, chunks=(40, 4))
    with pytest.raises(ValueError, match="return_cov needs X in memory"):
        regressor.predict(given, return_cov=True)
    with pytest.raises(TypeError, match="X must be in memory here"):
        regressor.predict_distribution(given)
    with pytest.raises(TypeError, match="X must be in memory here"):
        regressor.sample_y(given)
    with pytest.raises(ValueError, match="augment=True needs the training data"):
        RVR(gamma=1.0).fit(SINC.X, SINC.y).predict(da.from_array(SINC.X), augment=True)
    with pytest.raises(NotFittedError):
        SparseBayesRegressor().predict(given)
