"""Pictures of signals: what is drawn, where, and what is said without matplotlib."""

import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsebayes import RVR, EvidenceSearch, SparseBayesRegressor, denoise, reconstruct
from sparsebayes.datasets import friedman1
from sparsebayes.dictionaries import Kernel, Linear
from sparsebayes.plotting import (
    plot_parts,
    plot_relevance,
    plot_shrinkage,
    plot_signal,
    plot_uncertainty,
)


@pytest.fixture(autouse=True)
def _closed():
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.fixture
def found():
    x = np.linspace(0, 1, 128)
    noisy = np.sin(7 * x) + (x > 0.4) + 0.1 * np.random.default_rng(0).standard_normal(128)
    return denoise(noisy)


def lines(ax):
    return {line.get_label(): line for line in ax.get_lines()}


def test_a_signal_its_data_and_its_band(found):
    ax = plot_signal(found, truth=np.zeros(128), x=np.linspace(0, 1, 128), band=3.0)
    drawn = lines(ax)
    np.testing.assert_array_equal(drawn["signal"].get_ydata(), found.signal)
    np.testing.assert_array_equal(drawn["data"].get_ydata(), found.data)
    np.testing.assert_array_equal(drawn["signal"].get_xdata(), np.linspace(0, 1, 128))
    assert not np.any(drawn["truth"].get_ydata())
    (band,) = ax.collections
    corners = band.get_paths()[0].vertices
    assert corners[:, 1].max() == pytest.approx((found.signal + 3 * found.std).max())
    assert corners[:, 1].min() == pytest.approx((found.signal - 3 * found.std).min())
    assert f"{found.n_atoms} of 128 atoms" in ax.get_title()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "3 standard deviations" in labels


def test_axes_that_are_given_are_drawn_into(found):
    _, ax = plt.subplots()
    assert plot_signal(found, ax, band=0) is ax
    assert not ax.collections
    assert found.plot(ax) is ax
    assert found.plot().figure is not ax.figure


def test_an_image(found):
    noisy = np.outer(np.arange(12) > 5, np.ones(16)) + 0.1 * np.random.default_rng(0).normal(
        size=(12, 16)
    )
    clean = denoise(noisy, "haar")
    ax = plot_signal(clean)
    np.testing.assert_array_equal(ax.get_images()[0].get_array(), clean.signal)
    assert len(ax.figure.axes) == 2  # with the bar of its grays
    (panel,) = plot_parts(clean)
    np.testing.assert_array_equal(panel.get_images()[0].get_array(), clean.parts[0])
    assert plot_shrinkage(clean).get_ylabel() == "posterior mean"


def test_what_was_reconstructed():
    signal = np.repeat([0.0, 3.0, -1.0, 2.0], 16) + 0.01 * np.random.default_rng(0).normal(size=64)
    mask = np.random.default_rng(0).random(64) < 0.6
    rebuilt = reconstruct(signal[mask], mask, "haar")
    drawn = lines(plot_signal(rebuilt))
    np.testing.assert_array_equal(drawn["signal"].get_ydata(), rebuilt.signal)
    assert np.isnan(drawn["data"].get_ydata()).sum() == (~mask).sum()


def test_uncertainty_is_a_line_or_a_map(found):
    x = np.linspace(0, 1, 128)
    line = plot_uncertainty(found, x=x).get_lines()[0]
    np.testing.assert_array_equal(line.get_ydata(), found.std)
    np.testing.assert_array_equal(line.get_xdata(), x)
    noisy = np.random.default_rng(0).normal(size=(8, 8)) + 9 * np.eye(8)
    clean = denoise(noisy, "haar", noise_variance=1.0)
    _, ax = plt.subplots()
    assert plot_uncertainty(clean, ax) is ax
    np.testing.assert_array_equal(ax.get_images()[0].get_array(), clean.std)


def test_parts_below_each_other():
    t = np.arange(60.0)
    noisy = t + 9 * np.exp(-((t - 20) ** 2)) + np.random.default_rng(0).standard_normal(60)
    found = denoise(noisy, Linear() + Kernel("rbf", gamma=1.0))
    panels = plot_parts(found, labels=["trend", "peak"], x=t / 60)
    assert [panel.get_title(loc="left") for panel in panels] == ["trend", "peak"]
    for panel, part in zip(panels, found.parts, strict=True):
        np.testing.assert_array_equal(panel.get_lines()[0].get_ydata(), part)
        np.testing.assert_array_equal(panel.get_lines()[0].get_xdata(), t / 60)
    colors = {panel.get_lines()[0].get_color() for panel in panels}
    assert len(colors) == 2
    _, given = plt.subplots(2, 1)
    assert list(plot_parts(found, given)) == list(given)
    with pytest.raises(ValueError, match="one Axes for each of 2 parts, got 1"):
        plot_parts(found, given[0])
    with pytest.raises(ValueError, match="each of 2 parts, got 1"):
        plot_parts(found, labels=["trend"])


def test_shrinkage_is_posterior_mean_against_least_squares(found):
    ax = plot_shrinkage(found)
    points = ax.get_lines()[-1]
    np.testing.assert_array_equal(points.get_xdata(), found.least_squares)
    np.testing.assert_array_equal(points.get_ydata(), found.coefficients)
    shrunk = np.abs(points.get_ydata()) <= np.abs(points.get_xdata()) + 1e-12
    assert shrunk.all()
    assert plot_shrinkage(found, limit=0.5).get_xlim() == (-0.5, 0.5)
    with pytest.raises(ValueError, match="limit must be"):
        plot_shrinkage(found, limit=0)
    fitted = denoise(found.data, Kernel("rbf", gamma=0.01))
    with pytest.raises(ValueError, match="orthonormal"):
        plot_shrinkage(fitted)


def test_what_has_no_atoms_has_a_picture_too():
    flat = denoise(np.ones(16))
    assert "0 of 16 atoms" in plot_signal(flat).get_title()
    assert plot_shrinkage(flat).get_xlim() == (-1.0, 1.0)


def test_shapes_that_cannot_be_drawn(found):
    with pytest.raises(ValueError, match="x must have the shape"):
        plot_signal(found, x=[1.0, 2.0])
    lines_of_three = denoise(np.random.default_rng(0).normal(size=(3, 4, 64)), axis=-1)
    with pytest.raises(ValueError, match="one signal or image can be drawn"):
        plot_signal(lines_of_three)


def test_what_is_no_result_is_refused(found):
    for plot in (plot_signal, plot_uncertainty, plot_parts, plot_shrinkage):
        with pytest.raises(TypeError, match="result must be what .* returned, got ndarray"):
            plot(found.data)
    partial = reconstruct(found.data[:50], np.arange(50), shape=len(found.data))
    for plot in (plot_parts, plot_shrinkage):
        with pytest.raises(TypeError, match="what `denoise` returned, got Reconstruction"):
            plot(partial)


def test_relevance_is_a_bar_for_each_input_the_longest_on_top():
    data = friedman1(80, random_state=0)
    gamma = np.array([1.0, 0.5, 0.2, 0.3, 0.1, 0.0, 0.0, 0.0, 0.0, 0.05])
    frame = pd.DataFrame(data.X, columns=[f"input {k}" for k in range(10)])
    model = RVR(gamma=gamma).fit(frame, data.y)
    share = gamma * data.X.var(axis=0)
    share /= share.sum()
    ax = plot_relevance(model)
    order = np.argsort(-share, kind="stable")
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], share[order])
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == [f"input {k}" for k in order]
    assert ax.yaxis_inverted()
    _, given = plt.subplots()
    assert plot_relevance(model, given, list("abcdefghij"), most=3) is given
    assert [label.get_text() for label in given.get_yticklabels()] == ["a", "b", "d"]
    assert given.get_title() == "relevance of inputs, 3 of 10"
    assert given.get_xscale() == "linear"
    assert plot_relevance(model, log=True).get_xlim()[0] == 1e-4


def test_relevance_through_pipelines_and_searches():
    data = friedman1(80, random_state=0)
    frame = pd.DataFrame(data.X, columns=list("abcdefghij"))
    falling = np.arange(10.0, 0.0, -1.0)  # widths that sort the inputs as they are named
    grid = {"rvr__gamma": [0.002 * falling, 0.01 * falling]}
    search = EvidenceSearch(make_pipeline(StandardScaler(), RVR()), grid).fit(frame, data.y)
    for model in (search, search.best_estimator_):
        ax = plot_relevance(model)
        assert [label.get_text() for label in ax.get_yticklabels()] == list("abcdefghij")
        np.testing.assert_allclose([bar.get_width() for bar in ax.patches], falling / 55)
    plain = make_pipeline(StandardScaler(), RVR(gamma=0.01 * falling)).fit(data.X, data.y)
    assert plot_relevance(plain).get_yticklabels()[0].get_text() == "x0"


def test_what_has_no_relevance_is_refused():
    data = friedman1(80, random_state=0)
    with pytest.raises(ValueError, match="SparseBayesRegressor has no feature_relevance_: fit"):
        plot_relevance(SparseBayesRegressor().fit(data.X, data.y))
    model = RVR(gamma=np.ones(10)).fit(data.X, data.y)
    with pytest.raises(ValueError, match="each of 10 inputs of the kernel, got 2"):
        plot_relevance(model, feature_names=["a", "b"])
    with pytest.raises(ValueError, match="most must be"):
        plot_relevance(model, most=0)


def test_without_matplotlib(found, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        plot_signal(found)
