import dataclasses
import json
import os
import stat
import warnings
import zipfile
from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import sparsebayes
from sparsebayes import RVC, RVR, SparseBayesClassifier, SparseBayesRegressor
from sparsebayes.datasets import friedman1, sinc, sparse_linear
from sparsebayes.dictionaries import Bias, Kernel, Linear
from sparsebayes.hyperpriors import Flat, Smoothness
from sparsebayes.likelihoods import Gaussian, Poisson
from sparsebayes.persistence import load, read_model, save

SINC = sinc(60, random_state=0)
LINEAR = sparse_linear(80, 20, 3, random_state=0)
COUNTS = np.random.default_rng(0).poisson(np.exp(2 * SINC.y))
CLASSES = np.array(["high", "low", "middle"])[np.digitize(SINC.y, [-0.05, 0.4])]
TWO_TARGETS = np.column_stack([SINC.y, -2 * SINC.y + 1])

MODELS = {
    "rbf": (RVR(), SINC.X, SINC.y),
    "one-gamma-per-input": (
        RVR(gamma=np.full(10, 0.1)),
        friedman1(60, random_state=0).X,
        friedman1(60, random_state=0).y,
    ),
    "polynomial": (RVR("polynomial", gamma=0.05, degree=4, coef0=1.0), SINC.X, SINC.y),
    "laplacian": (RVR("laplacian", gamma=0.3), SINC.X, SINC.y),
    "centers": (RVR(centers=np.linspace(-8, 8, 15)[:, None], gamma=0.1), SINC.X, SINC.y),
    "k-means": (RVR(centers=12, gamma=0.1, random_state=3), SINC.X, SINC.y),
    "no-intercept": (RVR(fit_intercept=False, prior=0.5), SINC.X, SINC.y),
    "fixed-noise": (RVR(noise_variance=0.01, prior=Smoothness(1.5)), SINC.X, SINC.y),
    "two-targets": (RVR(gamma=0.1, prior=Flat()), SINC.X, TWO_TARGETS),
    "linear": (SparseBayesRegressor(), LINEAR.X, LINEAR.y),
    "sparse": (SparseBayesRegressor(), sp.csr_array(LINEAR.X * (LINEAR.X > 0)), LINEAR.y),
    "union": (
        SparseBayesRegressor(Bias() + Linear() + Kernel("rbf", gamma=0.2), fit_intercept=False),
        SINC.X,
        SINC.y + 0.3 * SINC.X[:, 0],
    ),
    "constant-target": (RVR(), SINC.X, np.full(60, 3.5)),
    "counts": (RVR(gamma=0.1, likelihood="poisson"), SINC.X, COUNTS),
    "a-likelihood": (SparseBayesRegressor(likelihood=Poisson()), LINEAR.X[:60], COUNTS),
    "known-noise": (RVR(gamma=0.1, likelihood=Gaussian(0.01)), SINC.X, SINC.y),
    "two-classes": (RVC(gamma=0.1), SINC.X, SINC.y > 0.2),
    "text": (RVC(gamma=0.1), SINC.X, CLASSES),
    "text-as-objects": (SparseBayesClassifier(), LINEAR.X[:60], CLASSES.astype(object)),
    "integers": (SparseBayesClassifier(), LINEAR.X, np.sign(LINEAR.y).astype(np.int8)),
    "whole-floats": (SparseBayesClassifier(), LINEAR.X, np.sign(LINEAR.y)),
    "shared": (RVC(gamma=0.1, shared=True), SINC.X, CLASSES),
    "class-weights": (
        RVC(gamma=0.1, class_weight={True: 2, False: 1}, fit_intercept=False),
        SINC.X,
        SINC.y > 0.2,
    ),
    "union-of-classes": (
        SparseBayesClassifier(Bias() + Linear() + Kernel("rbf", gamma=0.2), prior="bic"),
        SINC.X,
        CLASSES,
    ),
    "no-atoms": (RVC(), np.ones((60, 1)), CLASSES),
}


FITTED = (
    "classes_",
    "coef_",
    "covariance_",
    "intercept_",
    "prior_variance_",
    "relevance_",
    "relevance_vectors_",
    "weights_",
)


def predictions(model, X):
    if hasattr(model, "classes_"):
        return model.predict(X), model.predict_proba(X), model.decision_function(X, plug_in=True)
    return model.predict(X, return_std=True)


def fitted(model, X, y):
    with warnings.catch_warnings():
        # Whether a fit is good is tested elsewhere; here it is stored.
        warnings.simplefilter("ignore")
        return clone(model).fit(X, y)


@cache
def fit_of(name):
    """One of the models, fitted once: no test may change it."""
    return fitted(*MODELS[name])


@pytest.mark.parametrize("name", MODELS)
def test_round_trip(name, tmp_path):
    model, X = fit_of(name), MODELS[name][1]
    save(model, tmp_path / "a.model")
    same = load(str(tmp_path / "a.model"))
    assert type(same) is type(model)
    for want, got in zip(predictions(model, X), predictions(same, X), strict=True):
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype
    names = ["n_features_in_", "converged_", "n_iter_"]
    names += [name for name in ("noise_variance_", "likelihood_") if hasattr(model, name)]
    for attribute in names:
        assert getattr(same, attribute) == getattr(model, attribute)
        assert type(getattr(same, attribute)) is type(getattr(model, attribute))
    assert same.log_marginal_likelihood_ == model.log_marginal_likelihood_
    assert vars(same.certificate_) == pytest.approx(vars(model.certificate_), rel=0, nan_ok=True)
    for attribute in FITTED:
        assert hasattr(same, attribute) == hasattr(model, attribute)
        want, got = getattr(model, attribute, []), getattr(same, attribute, [])
        assert type(got) is type(want)
        for a, b in zip(want, got, strict=True) if isinstance(want, list) else [(want, got)]:
            np.testing.assert_array_equal(a, b)
    # Stored again, the same bytes: nothing was lost on the way.
    save(same, tmp_path / "b.model")
    assert (tmp_path / "a.model").read_bytes() == (tmp_path / "b.model").read_bytes()


@pytest.mark.parametrize("name", MODELS)
def test_parameters_come_back(name, tmp_path):
    model, X, y = MODELS[name]
    save(fit_of(name), tmp_path / "a.model")
    same = load(tmp_path / "a.model")
    assert repr(same) == repr(model)
    again = fitted(same, X, y)
    np.testing.assert_array_equal(predictions(again, X)[1], predictions(fit_of(name), X)[1])


def test_parameters_that_cannot_be_stored_are_recorded(tmp_path):
    rng = np.random.RandomState(0)
    model = RVR(gamma=0.1, centers=np.random.default_rng(0).normal(size=(2000, 1)))
    save(fitted(model.set_params(random_state=rng), SINC.X, SINC.y), tmp_path / "a.model")
    same = load(tmp_path / "a.model")
    assert same.random_state is None
    assert same.centers is None
    assert same.gamma == 0.1
    with zipfile.ZipFile(tmp_path / "a.model") as archive:
        header = json.loads(archive.read("model.json"))
    assert set(header["parameters_not_stored"]) == {"centers", "random_state"}
    assert "RandomState" in header["parameters_not_stored"]["random_state"]


class Own(Smoothness):
    """A prior of a user's."""


def test_a_prior_that_cannot_be_stored_is_warned_of(tmp_path):
    model = fitted(RVR(gamma=0.1, prior=Own(2.0)), SINC.X, SINC.y)
    with pytest.warns(UserWarning, match=r"the prior .*Own\(c=2.0\) cannot be stored") as found:
        model.save(tmp_path / "a.model")
    assert found[0].filename == __file__
    same = load(tmp_path / "a.model")
    assert same.prior == "auto"
    np.testing.assert_array_equal(same.predict(SINC.X), model.predict(SINC.X))


def test_rows_of_weight_zero_keep_their_count(tmp_path):
    weight = np.ones(60)
    weight[::3] = 0
    model = RVR(gamma=0.1).fit(SINC.X, SINC.y, sample_weight=weight)
    model.save(tmp_path / "a.model")
    same = load(tmp_path / "a.model")
    np.testing.assert_array_equal(SINC.X[same.relevance_], same.relevance_vectors_)
    np.testing.assert_array_equal(same.relevance_, model.relevance_)


def test_feature_names(tmp_path):
    frame = pd.DataFrame({"angle": SINC.X[:, 0], "zero": 0.0})
    model = RVR().fit(frame, SINC.y)
    model.save(tmp_path / "a.model")
    same = sparsebayes.load(tmp_path / "a.model")
    assert same.feature_names_in_.tolist() == ["angle", "zero"]
    np.testing.assert_array_equal(same.predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        same.predict(frame.rename(columns={"angle": "radius"}))


def test_target_names_and_version(tmp_path):
    save(fitted(*MODELS["two-targets"]), tmp_path / "a.model", target_names=("x", "y"))
    stored = read_model(tmp_path / "a.model")
    assert stored.target_names == ("x", "y")
    assert stored.version == sparsebayes.__version__


def test_size_does_not_grow_with_the_data(tmp_path):
    sizes = []
    for n in (100, 1600):
        data = sinc(n, random_state=0)
        model = fitted(RVR(gamma=0.1), data.X, data.y)
        save(model, tmp_path / "a.model")
        sizes.append(os.path.getsize(tmp_path / "a.model"))
        assert len(model.relevance_) < 30
    assert max(sizes) < 30_000


def test_what_cannot_be_saved(tmp_path):
    path = tmp_path / "a.model"
    with pytest.raises(NotFittedError):
        save(RVR(), path)
    with pytest.raises(TypeError, match="save.. takes a fitted RVC or RVR or .*, got Ridge"):
        save(Ridge().fit(SINC.X, SINC.y), path)
    with pytest.raises(TypeError, match="got Pipeline; of a pipeline"):
        save(make_pipeline(RVR()).fit(SINC.X, SINC.y), path)

    class Sub(RVR):
        pass

    Sub.__name__ = "RVR"
    with pytest.raises(TypeError):
        save(Sub().fit(SINC.X, SINC.y), path)
    with pytest.raises(ValueError, match="kernel"):
        save(RVR(lambda a, b: np.exp(-((a - b.T) ** 2))).fit(SINC.X, SINC.y), path)
    assert list(tmp_path.iterdir()) == []


def test_labels_that_cannot_be_saved(tmp_path):
    days = np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]")
    model = RVC(gamma=0.1).fit(SINC.X, (SINC.y > 0.2).astype(int))
    for classes in (days, days.astype(object)):
        model.classes_ = classes
        with pytest.raises(ValueError, match="labels of type .* cannot be stored without pickle"):
            save(model, tmp_path / "a.model")
    assert list(tmp_path.iterdir()) == []


def test_an_old_file_survives_a_failed_save(tmp_path, monkeypatch):
    path = tmp_path / "a.model"
    save(fitted(*MODELS["rbf"]), path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "disk full")))
    with pytest.raises(OSError, match="disk full"):
        save(fitted(*MODELS["linear"]), path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.model"]


def test_links_and_modes(tmp_path):
    old = os.umask(0o027)
    try:
        (tmp_path / "real").mkdir()
        os.symlink(tmp_path / "real" / "a.model", tmp_path / "link.model")
        save(fitted(*MODELS["rbf"]), tmp_path / "link.model")
    finally:
        os.umask(old)
    assert (tmp_path / "link.model").is_symlink()
    mode = stat.S_IMODE((tmp_path / "real" / "a.model").stat().st_mode)
    assert mode == 0o640


def test_devices_are_written_to_and_not_replaced(tmp_path):
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        save(fitted(*MODELS["rbf"]), fifo)
        (tmp_path / "a.model").write_bytes(os.read(reader, 1_000_000))
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    load(tmp_path / "a.model").predict(SINC.X)


def test_places_that_cannot_be_read_or_written(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.model")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)
    with pytest.raises(IsADirectoryError):
        save(fitted(*MODELS["rbf"]), tmp_path)
    with pytest.raises(FileNotFoundError):
        save(fitted(*MODELS["rbf"]), tmp_path / "nowhere" / "a.model")


def tell(found):
    return None


def test_what_belongs_to_one_run_is_not_stored(tmp_path):
    kept, path = tmp_path / "fit.checkpoint", tmp_path / "sinc.model"
    model = RVR(gamma=0.1, memory="200MB", checkpoint=kept, resume=True, callback=tell)
    model.set_params(on_interrupt="return", screened=0.5).fit(SINC.X, SINC.y)
    save(model, path)
    same = load(path)
    assert (same.checkpoint, same.resume, same.callback) == (None, False, None)
    assert (same.memory, same.on_interrupt, same.screened) == ("200MB", "return", 0.5)
    assert same.certificate_ == model.certificate_
    np.testing.assert_array_equal(same.predict(SINC.X), model.predict(SINC.X))
    with zipfile.ZipFile(path) as archive:
        assert b"checkpoint" not in archive.read("model.json")


def test_the_fraction_of_a_certificate_is_stored(tmp_path):
    model = RVR(gamma=0.1).fit(SINC.X, SINC.y)
    model.certificate_ = dataclasses.replace(model.certificate_, fraction=0.25)
    model.save(tmp_path / "part.model")
    assert load(tmp_path / "part.model").certificate_.fraction == 0.25
