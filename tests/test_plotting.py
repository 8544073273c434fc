"""Pictures of signals, shrinkage and relevant inputs: what is drawn, and where."""

import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsebayes import (
    RVR,
    EvidenceSearch,
    SparseBayesClassifier,
    SparseBayesRegressor,
    denoise,
    reconstruct,
)
from sparsebayes.datasets import friedman1, sparse_linear
from sparsebayes.dictionaries import Kernel, Linear
from sparsebayes.plotting import RelevanceDisplay, ShrinkageDisplay, SignalDisplay


@pytest.fixture(scope="module")
def found():
    x = np.linspace(0, 1, 128)
    noisy = np.sin(7 * x) + (x > 0.4) + 0.1 * np.random.default_rng(0).standard_normal(128)
    return denoise(noisy)


@pytest.fixture(scope="module")
def partial(found):
    return reconstruct(found.data[::2], np.arange(0, 128, 2), shape=128)


@pytest.fixture(scope="module")
def clean():
    steps = np.outer(np.arange(12) > 5, np.ones(16))
    return denoise(steps + 0.1 * np.random.default_rng(0).normal(size=(12, 16)), "haar")


@pytest.fixture(scope="module")
def union():
    t = np.arange(60.0)
    noisy = t + 9 * np.exp(-((t - 20) ** 2)) + np.random.default_rng(0).standard_normal(60)
    return denoise(noisy, Linear() + Kernel("rbf", gamma=1.0))


def names_of(display):
    return [label.get_text() for label in display.ax_.get_yticklabels()]


def test_a_signal_its_data_and_its_band(found):
    x = np.linspace(0, 1, 128)
    display = SignalDisplay.from_result(found, truth=np.zeros(128), x=x, band=3.0)
    np.testing.assert_array_equal(display.line_.get_ydata(), found.signal)
    np.testing.assert_array_equal(display.line_.get_xdata(), x)
    np.testing.assert_array_equal(display.data_.get_ydata(), found.data)
    assert not np.any(display.truth_.get_ydata())
    corners = display.band_.get_paths()[0].vertices
    assert corners[:, 1].max() == pytest.approx((found.signal + 3 * found.std).max())
    assert corners[:, 1].min() == pytest.approx((found.signal - 3 * found.std).min())
    assert f"{found.n_atoms} of 128 atoms" in display.ax_.get_title()
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert sorted(labels) == ["3 standard deviations", "data", "signal", "truth"]


def test_a_result_draws_itself(found, partial):
    _, ax = plt.subplots()
    assert SignalDisplay.from_result(found, band=0, ax=ax).band_ is None
    assert not ax.collections
    for result in (found, partial):
        assert result.plot(ax) is ax
        assert result.plot().figure is not ax.figure


def test_an_image_and_the_map_of_its_uncertainty(clean):
    display = SignalDisplay.from_result(clean)
    np.testing.assert_array_equal(display.image_.get_array(), clean.signal)
    assert len(display.figure_.axes) == 2  # with the bar of its grays
    map_of = SignalDisplay.from_result(clean, kind="std")
    np.testing.assert_array_equal(map_of.image_.get_array(), clean.std)
    only = SignalDisplay.from_result(clean, kind="parts")
    np.testing.assert_array_equal(only.part_lines_[0].get_array(), clean.parts[0])
    assert ShrinkageDisplay.from_result(clean).points_.get_xdata().size == clean.signal.size


def test_what_was_reconstructed(partial):
    display = SignalDisplay.from_result(partial)
    np.testing.assert_array_equal(display.line_.get_ydata(), partial.signal)
    assert np.isnan(display.data_.get_ydata()).sum() == 64


def test_uncertainty_is_a_line(found):
    x = np.linspace(0, 1, 128)
    display = SignalDisplay.from_result(found, kind="std", x=x)
    np.testing.assert_array_equal(display.line_.get_ydata(), found.std)
    np.testing.assert_array_equal(display.line_.get_xdata(), x)
    assert display.ax_.get_ylim()[0] == 0


def test_parts_below_each_other(union):
    t = np.arange(60.0)
    names = ["trend", "peak"]
    display = SignalDisplay.from_result(union, kind="parts", part_names=names, x=t / 60)
    assert [panel.get_title(loc="left") for panel in display.axes_] == names
    for line, part in zip(display.part_lines_, union.parts, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), part)
        np.testing.assert_array_equal(line.get_xdata(), t / 60)
    assert len({line.get_color() for line in display.part_lines_}) == 2
    assert len({line.get_linestyle() for line in display.part_lines_}) == 2
    _, given = plt.subplots(2, 1)
    assert list(display.plot(given).axes_) == list(given)
    _, three = plt.subplots(3, 1)
    with pytest.raises(ValueError, match="one Axes of a grid, or 2 of them, got 3"):
        display.plot(three)
    with pytest.raises(ValueError, match="each of 2 parts, got 1"):
        SignalDisplay.from_result(union, kind="parts", part_names=["trend"])


def test_shrinkage_is_posterior_mean_against_least_squares(found):
    points = ShrinkageDisplay.from_result(found).points_
    np.testing.assert_array_equal(points.get_xdata(), found.least_squares)
    np.testing.assert_array_equal(points.get_ydata(), found.coefficients)
    assert (np.abs(points.get_ydata()) <= np.abs(points.get_xdata()) + 1e-12).all()
    assert ShrinkageDisplay.from_result(found, limit=0.5).ax_.get_xlim() == (-0.5, 0.5)
    for limit in (0, -1.0, "large", np.inf):
        with pytest.raises(ValueError, match="limit must be"):
            ShrinkageDisplay.from_result(found, limit=limit)


def test_without_its_own_prior_a_wavelet_coefficient_is_its_least_squares_estimate():
    # The same orthonormal problem by two ways: the closed form, and a matrix of atoms.
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(40, 40)))[0]
    y = Q[:, :3] @ [9.0, -7.0, 5.0] + 0.5 * rng.normal(size=40)
    settings = {"fit_intercept": False, "noise_variance": 0.25, "prior": "bic"}
    model = SparseBayesRegressor(**settings).fit(Q, y)
    display = ShrinkageDisplay.from_estimator(model)
    np.testing.assert_allclose(display.before, Q[:, model.relevance_].T @ y, rtol=1e-9)
    np.testing.assert_allclose(display.after, model.weights_, rtol=1e-9)
    assert "degrees of freedom" in display.ax_.get_title()


def test_shrinkage_of_other_results_is_that_of_the_atoms_kept(partial, union):
    for result in (partial, union):
        display = ShrinkageDisplay.from_result(result)
        assert display.after.size == result.n_atoms
        assert display.ax_.get_xlabel() == "without its own prior"
        assert (np.abs(display.after) <= np.abs(display.before)).all()


def test_what_has_no_atoms_has_a_picture_too():
    flat = denoise(np.ones(16))
    assert "0 of 16 atoms" in SignalDisplay.from_result(flat).ax_.get_title()
    assert ShrinkageDisplay.from_result(flat).ax_.get_xlim() == (-1.0, 1.0)
    rng = np.random.default_rng(0)
    empty = SparseBayesRegressor(prior=50.0).fit(rng.normal(size=(30, 2)), rng.normal(size=30))
    assert empty.relevance_.size == 0
    assert ShrinkageDisplay.from_estimator(empty).after.size == 0
    assert RelevanceDisplay.from_estimator(empty).ax_.get_title() == "0 of 2 inputs kept"


def test_shapes_that_cannot_be_drawn(found):
    with pytest.raises(ValueError, match="x must have the shape"):
        SignalDisplay.from_result(found, x=[1.0, 2.0])
    with pytest.raises(ValueError, match="truth must have the shape"):
        SignalDisplay.from_result(found, truth=[1.0, 2.0])
    with pytest.raises(ValueError, match="kind must be one of"):
        SignalDisplay.from_result(found, kind="wave")
    with pytest.raises(ValueError, match="band must be a number"):
        SignalDisplay.from_result(found, band=-1)
    lines_of_three = denoise(np.random.default_rng(0).normal(size=(3, 4, 64)), axis=-1)
    with pytest.raises(ValueError, match="one signal or image can be drawn"):
        SignalDisplay.from_result(lines_of_three)


def test_what_is_no_result_is_refused(found, partial):
    for display in (SignalDisplay, ShrinkageDisplay):
        with pytest.raises(TypeError, match="what `denoise` or `reconstruct` returned, got nd"):
            display.from_result(found.data)
    with pytest.raises(TypeError, match="what `denoise` returned, got Reconstruction"):
        SignalDisplay.from_result(partial, kind="parts")


def test_relevance_is_a_bar_for_each_input_the_longest_on_top():
    data = friedman1(80, random_state=0)
    gamma = np.array([1.0, 0.5, 0.2, 0.3, 0.1, 0.0, 0.0, 0.0, 0.0, 0.05])
    frame = pd.DataFrame(data.X, columns=[f"input {k}" for k in range(10)])
    model = RVR(gamma=gamma).fit(frame, data.y)
    share = gamma * data.X.var(axis=0)
    share /= share.sum()
    display = RelevanceDisplay.from_estimator(model)
    order = np.argsort(-share, kind="stable")
    np.testing.assert_allclose([bar.get_width() for bar in display.bars_], share[order])
    assert names_of(display) == [f"input {k}" for k in order]
    assert display.ax_.yaxis_inverted()
    few = RelevanceDisplay.from_estimator(model, feature_names=list("abcdefghij"), most=3)
    assert names_of(few) == ["a", "b", "d"]
    assert few.ax_.get_title() == "relevance of inputs, 3 of 10"
    assert few.ax_.get_xscale() == "linear"
    assert RelevanceDisplay.from_estimator(model, log=True).ax_.get_xlim()[0] == 1e-4


def test_relevance_through_pipelines_and_searches():
    data = friedman1(80, random_state=0)
    frame = pd.DataFrame(data.X, columns=list("abcdefghij"))
    falling = np.arange(10.0, 0.0, -1.0)  # widths that sort the inputs as they are named
    grid = {"rvr__gamma": [0.002 * falling, 0.01 * falling]}
    search = EvidenceSearch(make_pipeline(StandardScaler(), RVR()), grid).fit(frame, data.y)
    for model in (search, search.best_estimator_):
        display = RelevanceDisplay.from_estimator(model)
        assert names_of(display) == list("abcdefghij")
        np.testing.assert_allclose([bar.get_width() for bar in display.bars_], falling / 55)
    plain = make_pipeline(StandardScaler(), RVR(gamma=0.01 * falling)).fit(data.X, data.y)
    assert names_of(RelevanceDisplay.from_estimator(plain))[0] == "x0"


def test_linear_models_have_weights_with_error_bars():
    data = sparse_linear(100, 20, 3, random_state=0)
    model = SparseBayesRegressor().fit(data.X, data.y)
    display = RelevanceDisplay.from_estimator(model)
    kept = [int(name[1:]) for name in names_of(display)]
    assert sorted(kept) == model.relevance_.tolist()
    line, _, (bars,) = display.bars_[0]
    np.testing.assert_array_equal(line.get_xdata(), model.coef_[kept])
    std = np.sqrt(np.diag(model.covariance_))
    ends = np.array([segment[:, 0] for segment in bars.get_segments()])
    half = np.array([2 * std[model.relevance_.tolist().index(k)] for k in kept])
    np.testing.assert_allclose(ends[:, 1] - ends[:, 0], 2 * half)
    assert (np.diff(np.abs(display.values) / display.errors) <= 0).all()


def test_weights_of_several_classes_have_a_mark_each():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    y = np.array(["a", "b", "c"])[np.argmax(X[:, :2] @ [[3, 0, -3], [0, 3, 0]], axis=1)]
    model = SparseBayesClassifier().fit(X, y)
    display = RelevanceDisplay.from_estimator(model)
    assert display.groups == ["a", "b", "c"]
    place = {name: row for row, name in enumerate(display.names)}
    for k, container in enumerate(display.bars_):
        drawn = sorted(container[0].get_xdata())
        np.testing.assert_array_equal(drawn, sorted(model.coef_[k][model.coef_[k] != 0]))
    assert len({container[0].get_marker() for container in display.bars_}) == 3
    assert set(place) <= {"x0", "x1", "x2"}


def test_what_has_no_relevance_is_refused():
    data = friedman1(80, random_state=0)
    union = SparseBayesRegressor(Kernel(gamma=0.5) + Kernel(gamma=2.0)).fit(data.X, data.y)
    with pytest.raises(ValueError, match="SparseBayesRegressor has no feature_relevance_: fit"):
        RelevanceDisplay.from_estimator(union)
    model = RVR(gamma=np.ones(10)).fit(data.X, data.y)
    with pytest.raises(ValueError, match="each of 10 inputs, got 2"):
        RelevanceDisplay.from_estimator(model, feature_names=["a", "b"])
    with pytest.raises(ValueError, match="most must be"):
        RelevanceDisplay.from_estimator(model, most=0)


def test_without_matplotlib(found, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "sparsebayes\[plot\]"'):
        SignalDisplay.from_result(found)
