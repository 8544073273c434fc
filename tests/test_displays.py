"""What every display promises, at the size of a phone too; fits, classes, paths, reliability."""

import dataclasses
import itertools
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer, StandardScaler
from sklearn.svm import SVC

from sparsebayes import RVC, RVR, EvidenceSearch, SparseBayesRegressor, denoise, load, reconstruct
from sparsebayes.datasets import friedman1, mixtures, sinc
from sparsebayes.dictionaries import Kernel, Linear, Wavelet
from sparsebayes.hyperpriors import Smoothness
from sparsebayes.plotting import (
    AtomEvidenceDisplay,
    DecisionDisplay,
    EvidencePathDisplay,
    FitDisplay,
    RelevanceDisplay,
    ReliabilityDisplay,
    ShrinkageDisplay,
    SignalDisplay,
)

PHONE = (3.5, 3.0)
TOUCHING = 1.0  # pixels by which boxes of text may touch


class Models:
    """Fits that several tests look at, each made once."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.data = sinc(60, noise=0.1, random_state=0)
        self.fit = RVR(gamma=1 / 9).fit(self.data.X, self.data.y)
        self.times = np.linspace(0, 4, 50)[:, None]
        self.counts = rng.poisson(np.exp(1 + np.sin(2 * self.times[:, 0])))
        self.rate = RVR(likelihood="poisson", gamma=0.8).fit(self.times, self.counts)
        self.points = mixtures(100, random_state=0)
        self.classes = RVC(gamma=4.0).fit(self.points.X, self.points.y)
        iris = load_iris()
        self.petals, self.kinds = iris.data[:, 2:], iris.target_names[iris.target]
        self.iris = make_pipeline(StandardScaler(), RVC(gamma=0.5)).fit(self.petals, self.kinds)
        many = friedman1(80, random_state=0)
        self.widths = RVR(gamma=np.linspace(1.0, 0.1, 10)).fit(many.X, many.y)
        self.linear = SparseBayesRegressor(prior="aic").fit(many.X, many.y)
        x = np.linspace(0, 1, 128)
        noisy = np.sin(7 * x) + (x > 0.4) + 0.1 * rng.standard_normal(128)
        self.signal = denoise(noisy)
        self.union = denoise(noisy[:60], Linear() + Kernel("rbf", gamma=0.01))
        self.image = denoise(np.eye(16) + 0.1 * rng.standard_normal((16, 16)), "haar")
        self.gaps = reconstruct(noisy[::2], np.arange(0, 128, 2), shape=128)


@pytest.fixture(scope="module")
def models():
    return Models()


DRAW = {
    "fit": lambda m, ax: FitDisplay.from_estimator(
        m.fit, m.data.X, m.data.y, truth=m.data.truth, ax=ax
    ),
    "counts": lambda m, ax: FitDisplay.from_estimator(m.rate, m.times, m.counts, ax=ax),
    "two classes": lambda m, ax: DecisionDisplay.from_estimator(
        m.classes, m.points.X, m.points.y, grid_resolution=40, ax=ax
    ),
    "three classes": lambda m, ax: DecisionDisplay.from_estimator(
        m.iris, m.petals, m.kinds, grid_resolution=40, ax=ax
    ),
    "path": lambda m, ax: EvidencePathDisplay.from_estimator(m.fit, ax=ax),
    "path of classes": lambda m, ax: EvidencePathDisplay.from_estimator(m.classes, ax=ax),
    "path of gaps": lambda m, ax: EvidencePathDisplay.from_solution(m.gaps.solution, ax=ax),
    "atom inside": lambda m, ax: AtomEvidenceDisplay.from_estimator(
        m.fit, m.data.X, m.data.y, ax=ax
    ),
    "atom outside": lambda m, ax: AtomEvidenceDisplay.from_statistics(
        1.0, 3.0, hyperprior=Smoothness(3.5), ax=ax
    ),
    "shrinkage": lambda m, ax: ShrinkageDisplay.from_result(m.signal, ax=ax),
    "shrinkage of weights": lambda m, ax: ShrinkageDisplay.from_estimator(m.linear, ax=ax),
    "relevance": lambda m, ax: RelevanceDisplay.from_estimator(m.widths, log=True, ax=ax),
    "weights": lambda m, ax: RelevanceDisplay.from_estimator(m.linear, ax=ax),
    "reliability": lambda m, ax: ReliabilityDisplay.from_estimator(
        m.classes, m.points.X, m.points.y, ax=ax
    ),
    "reliability of three": lambda m, ax: ReliabilityDisplay.from_estimator(
        m.iris, m.petals, m.kinds, ax=ax
    ),
    "coverage": lambda m, ax: ReliabilityDisplay.from_estimator(m.fit, m.data.X, m.data.y, ax=ax),
    "signal": lambda m, ax: SignalDisplay.from_result(m.signal, truth=m.signal.data, ax=ax),
    "uncertainty": lambda m, ax: SignalDisplay.from_result(m.signal, kind="std", ax=ax),
    "parts": lambda m, ax: SignalDisplay.from_result(m.union, kind="parts", ax=ax),
    "image": lambda m, ax: SignalDisplay.from_result(m.image, ax=ax),
    "map": lambda m, ax: SignalDisplay.from_result(m.image, kind="std", ax=ax),
    "gaps": lambda m, ax: SignalDisplay.from_result(m.gaps, ax=ax),
}
every_display = pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)


@every_display
def test_a_display_keeps_what_it_draws_and_where(draw, models):
    open_before = plt.get_fignums()
    figure = Figure(layout="constrained")  # none of pyplot's: it must not be asked for anything
    ax = figure.add_subplot()
    display = draw(models, ax)
    assert display.ax_ is ax
    assert display.figure_ is figure
    assert plt.get_fignums() == open_before
    given = {f.name: getattr(display, f.name) for f in dataclasses.fields(display) if f.init}
    again = type(display)(**given)
    for name, value in given.items():
        assert getattr(again, name) is value
    assert not hasattr(again, "ax_")
    assert again.plot() is again
    assert again.figure_ is plt.gcf()
    assert again.figure_ is not figure
    before = len(figure.axes)
    assert display.plot(ax) is display  # over the first
    colorbars = sum(hasattr(each, "_colorbar") for each in figure.axes)
    twins = int(getattr(display, "counts_ax_", None) is not None)
    assert len(figure.axes) <= before + colorbars + twins


def boxes(figure):
    """Boxes of all text outside of the drawings, and of the legends, in pixels, by name."""
    found = {}
    for number, ax in enumerate(figure.axes):
        named = [("title", ax.title), ("left title", ax._left_title)]
        named += [(f"{axis.axis_name} label", axis.label) for axis in (ax.xaxis, ax.yaxis)]
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in axis.get_major_ticks():
                if low <= tick.get_loc() <= high:
                    labels = (tick.label1, tick.label2)
                    named += [
                        (f"{axis.axis_name} tick {label.get_text()}", label) for label in labels
                    ]
        if ax.get_legend() is not None:
            named += [("legend", ax.get_legend())]
        if not ax.axison:
            named = named[:2]
        for name, artist in named:
            text = getattr(artist, "get_text", lambda: "legend")()
            if artist.get_visible() and text.strip():
                found[f"{number} {name}"] = artist.get_window_extent()
    return found


def overlaps(one, other):
    return (
        min(one.x1, other.x1) - max(one.x0, other.x0) > TOUCHING
        and min(one.y1, other.y1) - max(one.y0, other.y0) > TOUCHING
    )


@every_display
def test_nothing_written_overlaps_or_leaves_the_figure_of_a_phone(draw, models):
    figure, ax = plt.subplots(figsize=PHONE, layout="constrained")
    draw(models, ax)
    figure.canvas.draw()
    found = boxes(figure)
    assert found
    for (name, one), (other_name, other) in itertools.combinations(found.items(), 2):
        assert not overlaps(one, other), f"{name} overlaps {other_name}"
    for name, box in found.items():
        inside = box.x0 > -TOUCHING and box.y0 > -TOUCHING
        inside &= box.x1 < figure.bbox.x1 + TOUCHING and box.y1 < figure.bbox.y1 + TOUCHING
        assert inside, f"{name} leaves the figure"
    drawings = [each.bbox for each in figure.axes if each.axison]
    for name, box in found.items():
        if "legend" in name:
            assert not any(overlaps(box, drawing) for drawing in drawings)
    assert max(drawing.height for drawing in drawings) > 0.1 * figure.bbox.height


@pytest.mark.parametrize("name", ["fit", "three classes", "path"])
def test_a_figure_that_makes_no_room_has_its_legend_inside(name, models):
    figure, ax = plt.subplots(figsize=(8, 5))
    display = DRAW[name](models, ax)
    figure.canvas.draw()
    last = getattr(display, "axes_", [ax])[-1]
    box = last.get_legend().get_window_extent()
    assert box.x0 >= last.bbox.x0
    assert box.x1 <= last.bbox.x1


def test_many_long_and_hostile_names_have_room():
    rng = np.random.default_rng(0)
    names = [
        "$x_{$",
        "<script>alert(1)</script>",
        "a\nb",
        "x" * 300,
        "\u05e9\u05dc\u05d5\u05dd",
        "",
    ]
    X = pd.DataFrame(rng.normal(size=(60, 6)), columns=names)
    model = RVR(gamma=np.full(6, 0.1)).fit(X, X.iloc[:, 0] + 0.1 * rng.normal(size=60))
    labels = np.where(X.iloc[:, 0] > 0, "$\\frac{$" * 9, "<b>\n</b>")
    classes = RVC(gamma=0.5).fit(X.iloc[:, :2], labels)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # fonts lack letters of some languages
        for draw in (
            lambda ax: RelevanceDisplay.from_estimator(model, ax=ax),
            lambda ax: DecisionDisplay.from_estimator(
                classes, X.iloc[:, :2], labels, grid_resolution=20, ax=ax
            ),
        ):
            figure, ax = plt.subplots(figsize=PHONE, layout="constrained")
            draw(ax)
            figure.canvas.draw()
            assert ax.bbox.width > 0.2 * figure.bbox.width


def test_a_fit_is_what_the_model_predicts(models):
    data, model = models.data, models.fit
    display = FitDisplay.from_estimator(model, data.X, data.y, level=0.9, grid_resolution=50)
    grid = display.line_.get_xdata()
    assert grid.size == 50
    assert (grid[0], grid[-1]) == (-11.0, 11.0)
    forecast = model.predict_distribution(grid[:, None])
    np.testing.assert_array_equal(display.line_.get_ydata(), forecast.mean)
    for band, std in (
        (display.target_band, forecast.std),
        (display.function_band, forecast.function_std),
    ):
        np.testing.assert_allclose(band[1] - band[0], 2 * 1.6448536269514722 * std)
        np.testing.assert_allclose(band[0] + band[1], 2 * forecast.mean, atol=1e-12)
    corners = display.target_band_.get_paths()[0].vertices
    assert corners[:, 1].max() == pytest.approx(display.target_band[1].max())
    np.testing.assert_array_equal(display.data_.get_xdata(), data.X[:, 0])
    np.testing.assert_array_equal(display.data_.get_ydata(), data.y)
    np.testing.assert_array_equal(display.vectors_.get_xdata(), model.relevance_vectors_[:, 0])
    np.testing.assert_array_equal(display.vectors_.get_ydata(), data.y[model.relevance_])
    assert display.truth_ is None
    wavy = FitDisplay.from_estimator(model, data.X, truth=lambda X: np.sinc(X / np.pi))
    np.testing.assert_allclose(wavy.truth_.get_ydata(), np.sinc(wavy.grid / np.pi))
    assert wavy.data_ is None


def test_a_fit_of_counts_has_bands_of_counts_and_of_their_rate(models):
    display = FitDisplay.from_estimator(models.rate, models.times, models.counts)
    np.testing.assert_array_equal(display.prediction, models.rate.predict(display.grid[:, None]))
    low, high = display.target_band
    np.testing.assert_array_equal(low, np.floor(low))
    assert (low >= 0).all()
    below, above = display.function_band
    assert (below > 0).all()
    assert (below < display.prediction).all()
    assert (display.prediction < above).all()
    assert (above <= high + 1).all()


def test_a_fit_through_a_pipeline_has_its_vectors_in_the_inputs_of_the_user(models):
    data = models.data
    frame = pd.DataFrame({"time in s": 1000 + 50 * data.X[:, 0]})
    target = pd.Series(data.y, name="height")
    model = make_pipeline(StandardScaler(), RVR(gamma=4.0)).fit(frame, target)
    display = FitDisplay.from_estimator(model, frame, target)
    assert (display.x_label, display.y_label) == ("time in s", "height")
    at = np.sort(frame.to_numpy()[model[-1].relevance_, 0])
    np.testing.assert_allclose(display.vectors[0], at)
    np.testing.assert_array_equal(
        np.sort(display.vectors[1]), np.sort(data.y[model[-1].relevance_])
    )
    table = pl.DataFrame({"time in s": frame["time in s"].to_numpy()})
    same = FitDisplay.from_estimator(model, table, data.y)
    np.testing.assert_array_equal(same.prediction, display.prediction)
    search = EvidenceSearch(model, {"rvr__gamma": [1.0, 4.0]}).fit(frame, data.y)
    assert FitDisplay.from_estimator(search, frame, data.y).vectors_ is not None
    steps = make_pipeline(PowerTransformer(), StandardScaler(), RVR()).fit(data.X, data.y)
    steps.steps[0] = ("opaque", _Opaque(steps.steps[0][1]))
    assert FitDisplay.from_estimator(steps, data.X, data.y).vectors_ is None


class _Opaque:
    """A step that cannot be undone."""

    def __init__(self, step):
        self.step = step

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return self.step.transform(X)

    def __sklearn_is_fitted__(self):
        return True


def test_fits_of_other_kinds_of_models(models):
    data = models.data
    both = np.stack([data.y, -data.y], axis=1)
    several = RVR(gamma=1 / 9).fit(data.X, both)
    second = FitDisplay.from_estimator(several, data.X, both, target=1)
    np.testing.assert_array_equal(second.prediction, several.predict(second.grid[:, None])[:, 1])
    np.testing.assert_array_equal(second.y, -data.y)
    places = np.arange(64.0)[:, None]
    stairs = np.arange(64) // 16 + 0.1 * np.random.default_rng(0).normal(size=64)
    waves = SparseBayesRegressor(Wavelet("haar")).fit(places, stairs)
    drawn = FitDisplay.from_estimator(waves, places)
    np.testing.assert_array_equal(drawn.grid, np.arange(64))
    straight = SparseBayesRegressor().fit(data.X, 2 * data.X[:, 0] + data.y)
    assert FitDisplay.from_estimator(straight, data.X).vectors_ is None
    wide = FitDisplay.from_estimator(models.fit, data.X, data.y, margin=3.0, augment=True)
    narrow = FitDisplay.from_estimator(models.fit, data.X, data.y, margin=3.0)
    reach = [np.diff(each.target_band, axis=0)[0, 0] for each in (wide, narrow)]
    assert reach[0] > 1.5 * reach[1]
    mixed = FitDisplay.from_estimator(models.fit, data.X, data.y, marginalize=True)
    assert mixed.target_band_ is not None


def test_the_probability_of_the_second_class_and_where_it_is_one_half(models):
    display = DecisionDisplay.from_estimator(
        models.classes, models.points.X, models.points.y, grid_resolution=30
    )
    x0, x1 = np.meshgrid(display.x0, display.x1)
    proba = models.classes.predict_proba(np.stack([x0.ravel(), x1.ravel()], axis=1))
    np.testing.assert_array_equal(display.surface_.get_array().ravel(), proba[:, 1])
    (line,) = display.boundaries_
    corners = np.concatenate([path.vertices for path in line.get_paths()])
    halves = models.classes.predict_proba(corners)[:, 1]
    assert np.abs(halves - 0.5).max() < 0.05
    for level, path in zip(display.levels_.levels, display.levels_.get_paths(), strict=True):
        assert np.abs(models.classes.predict_proba(path.vertices)[:, 1] - level).max() < 0.05
    for label, points in enumerate(display.points_):
        np.testing.assert_array_equal(
            points.get_xydata(), models.points.X[models.points.y == label]
        )
    drawn = display.vectors_.get_xydata()
    np.testing.assert_array_equal(drawn, np.unique(models.classes.relevance_vectors_, axis=0))
    assert len({points.get_marker() for points in display.points_}) == 2


def test_the_most_probable_of_three_classes(models):
    display = DecisionDisplay.from_estimator(
        models.iris, models.petals, models.kinds, grid_resolution=30
    )
    x0, x1 = np.meshgrid(display.x0, display.x1)
    proba = models.iris.predict_proba(np.stack([x0.ravel(), x1.ravel()], axis=1))
    np.testing.assert_array_equal(display.probability.reshape(-1, 3), proba)
    colors = display.surface_.get_array().reshape(-1, 3)
    sure = proba.max(axis=1) > 0.9
    assert len(np.unique(colors[sure].argmax(axis=1))) > 1
    pale = colors.min(axis=1)
    order = np.argsort(proba.max(axis=1))
    assert pale[order[:50]].mean() > pale[order[-50:]].mean()
    # Rings are in the inputs of the user, not in those behind the scaler.
    assert (display.vectors >= models.petals.min(axis=0) - 1e-9).all()
    assert (display.vectors <= models.petals.max(axis=0) + 1e-9).all()


def test_classifiers_of_others_are_drawn_too(models):
    frame = pd.DataFrame(models.points.X, columns=["a", "b"])
    model = RVC(gamma=4.0).fit(frame, models.points.y)
    assert DecisionDisplay.from_estimator(model, frame, grid_resolution=10).labels == ("a", "b")
    other = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame, models.points.y)
    display = DecisionDisplay.from_estimator(other, frame, models.points.y, grid_resolution=10)
    assert display.vectors_ is None


def test_the_path_is_the_trace_of_the_solver(models):
    trace = models.fit.solution_.trace
    display = EvidencePathDisplay.from_estimator(models.fit)
    best = max(line.objective for line in trace)
    objective, atoms, noise = display.lines_
    np.testing.assert_array_equal(objective.get_xdata(), [line.iteration for line in trace])
    np.testing.assert_array_equal(objective.get_ydata(), [line.objective - best for line in trace])
    np.testing.assert_array_equal(atoms.get_ydata(), [line.n_active for line in trace])
    assert noise.get_ydata()[-1] == pytest.approx(models.fit.noise_variance_**0.5)
    for name, marks in display.phases_[1].items():
        drawn = [line.n_active for line in trace if line.phase == name]
        np.testing.assert_array_equal(marks.get_ydata(), drawn)
    assert len(EvidencePathDisplay.from_estimator(models.classes).axes_) == 2
    known = RVR(gamma=1 / 9, noise_variance=0.01).fit(models.data.X, models.data.y)
    assert len(EvidencePathDisplay.from_estimator(known).axes_) == 2


def test_a_model_from_a_file_has_no_path(models, tmp_path):
    models.fit.save(tmp_path / "model")
    with pytest.raises(ValueError, match="does not know the path of its fit: it was loaded"):
        EvidencePathDisplay.from_estimator(load(tmp_path / "model"))
    with pytest.raises(TypeError, match="solution of one fit, got tuple"):
        EvidencePathDisplay.from_solution((models.signal.solution,))


def test_reliability_of_two_classes_in_bins():
    rng = np.random.default_rng(0)
    probability = rng.uniform(size=500) ** 2
    happened = rng.uniform(size=500) < probability
    display = ReliabilityDisplay.from_predictions(happened, probability, n_bins=5)
    place = np.minimum((5 * probability).astype(int), 4)
    for k in range(5):
        here = place == k
        assert display.counts[k] == here.sum()
        assert display.stated[k] == pytest.approx(probability[here].mean())
        assert display.share[k] == pytest.approx(happened[here].mean())
        assert display.low[k] < display.share[k] < display.high[k]
    np.testing.assert_array_equal(display.points_[0].get_ydata(), display.share)
    np.testing.assert_array_equal([bar.get_height() for bar in display.bars_], display.counts)
    brier = np.mean((probability - happened) ** 2)
    loss = -np.mean(np.log(np.where(happened, probability, 1 - probability)))
    assert display.ax_.get_title() == f"500 rows: Brier {brier:.3g}, log loss {loss:.3g}"
    text = np.where(happened, "yes", "no")
    both = np.stack([1 - probability, probability], axis=1)
    same = ReliabilityDisplay.from_predictions(text, both, n_bins=5)
    np.testing.assert_array_equal(same.share, display.share)


def test_reliability_of_a_model_is_that_of_its_probabilities(models):
    X, y = models.points.X, models.points.y
    mine = ReliabilityDisplay.from_estimator(models.classes, X, y)
    theirs = ReliabilityDisplay.from_predictions(y, models.classes.predict_proba(X)[:, 1])
    np.testing.assert_allclose(mine.stated, theirs.stated)
    np.testing.assert_array_equal(mine.share, theirs.share)
    several = ReliabilityDisplay.from_estimator(models.iris, models.petals, models.kinds)
    right = models.iris.predict(models.petals) == models.kinds
    assert several.counts @ several.share == pytest.approx(right.sum())
    assert several.counts.sum() == len(right)
    one_class = models.points.y == 1  # rows of one class alone are known to be of two
    assert len(ReliabilityDisplay.from_estimator(models.classes, X[one_class], y[one_class]).share)


def test_reliability_of_a_regression_is_the_share_of_targets_in_intervals(models):
    new = sinc(500, noise=0.1, random_state=1)
    display = ReliabilityDisplay.from_estimator(models.fit, new.X, new.y)
    forecast = models.fit.predict_distribution(new.X)
    for level, share in zip(display.stated, display.share, strict=True):
        low, high = forecast.interval(level)
        assert share == np.mean((low <= new.y) & (new.y <= high))
    assert display.bars_ is None
    both = np.stack([new.y, -new.y], axis=1)
    several = RVR(gamma=1 / 9).fit(new.X, both)
    second = ReliabilityDisplay.from_estimator(several, new.X, both, target=1)
    low, high = several.predict_distribution(new.X).interval(0.9)
    at = list(second.stated).index(0.9)
    assert second.share[at] == np.mean((low[:, 1] <= -new.y) & (-new.y <= high[:, 1]))
    assert len(ReliabilityDisplay.from_estimator(models.rate, models.times, models.counts).share)


REFUSED = {
    "not fitted": (
        NotFittedError,
        "not fitted",
        lambda m: FitDisplay.from_estimator(RVR(), m.data.X),
    ),
    "no estimator": (
        TypeError,
        "a fitted estimator, got 3",
        lambda m: FitDisplay.from_estimator(3, m.data.X),
    ),
    "a class": (
        TypeError,
        "a fitted estimator",
        lambda m: FitDisplay.from_estimator(RVR, m.data.X),
    ),
    "a classifier": (
        TypeError,
        "draws regressors of sparsebayes, and RVC is none",
        lambda m: FitDisplay.from_estimator(m.classes, m.points.X),
    ),
    "another regressor": (
        TypeError,
        "draws regressors of sparsebayes, and LinearRegression is none",
        lambda m: FitDisplay.from_estimator(LinearRegression().fit(m.data.X, m.data.y), m.data.X),
    ),
    "too many inputs": (
        ValueError,
        r"functions of one input: X must have the shape \(n, 1\), got \(100, 2\)",
        lambda m: FitDisplay.from_estimator(m.fit, m.points.X),
    ),
    "a line of inputs": (
        ValueError,
        r"X must have the shape \(n, 1\), got \(60,\)",
        lambda m: FitDisplay.from_estimator(m.fit, m.data.X[:, 0]),
    ),
    "text": (ValueError, "X must be numbers", lambda m: FitDisplay.from_estimator(m.fit, [["a"]])),
    "NaN": (ValueError, "no NaN", lambda m: FitDisplay.from_estimator(m.fit, [[np.nan]])),
    "targets missing": (
        ValueError,
        "one target for each of 60 rows",
        lambda m: FitDisplay.from_estimator(m.fit, m.data.X, m.data.y[:5]),
    ),
    "more targets than the model has": (
        ValueError,
        "one target for each of 60 rows",
        lambda m: FitDisplay.from_estimator(m.fit, m.data.X, np.stack([m.data.y] * 2, axis=1)),
    ),
    "truth missing": (
        ValueError,
        "truth must give one value for each of 60 rows",
        lambda m: FitDisplay.from_estimator(m.fit, m.data.X, truth=[1.0]),
    ),
    "a level": (
        ValueError,
        "level must lie",
        lambda m: FitDisplay.from_estimator(m.fit, m.data.X, level=95),
    ),
    "a text as level": (
        ValueError,
        "level must lie",
        lambda m: FitDisplay.from_estimator(m.fit, m.data.X, level="95 %"),
    ),
    "a target": (
        ValueError,
        "target must be one",
        lambda m: FitDisplay.from_estimator(m.fit, m.data.X, target=1),
    ),
    "a grid": (
        ValueError,
        "grid_resolution must be an integer >= 2",
        lambda m: FitDisplay.from_estimator(m.fit, m.data.X, grid_resolution=1.5),
    ),
    "a margin": (
        ValueError,
        "margin must be",
        lambda m: FitDisplay.from_estimator(m.fit, m.data.X, margin=-1),
    ),
    "an ax": (
        TypeError,
        "ax must be one matplotlib Axes",
        lambda m: FitDisplay.from_estimator(m.fit, m.data.X, ax=3),
    ),
    "no probabilities": (
        TypeError,
        r"probabilities of classes \(predict_proba\), and RVR has none",
        lambda m: DecisionDisplay.from_estimator(m.fit, m.data.X),
    ),
    "no probabilities of others": (
        TypeError,
        "and SVC has none",
        lambda m: DecisionDisplay.from_estimator(SVC().fit(m.points.X, m.points.y), m.points.X),
    ),
    "one input": (
        ValueError,
        "functions of 2 inputs",
        lambda m: DecisionDisplay.from_estimator(m.classes, m.data.X),
    ),
    "a strange label": (
        ValueError,
        "y holds 7, which is none of the classes",
        lambda m: DecisionDisplay.from_estimator(m.classes, m.points.X, m.points.y + 7),
    ),
    "labels missing": (
        ValueError,
        "one label for each of 100 rows",
        lambda m: DecisionDisplay.from_estimator(m.classes, m.points.X, [0, 1]),
    ),
    "no path": (
        TypeError,
        "needs the posterior of a fit by sparsebayes, and LinearRegression has none",
        lambda m: EvidencePathDisplay.from_estimator(LinearRegression().fit(m.data.X, m.data.y)),
    ),
    "no distribution": (
        TypeError,
        "needs probabilities of classes or a predictive distribution",
        lambda m: ReliabilityDisplay.from_estimator(
            LinearRegression().fit(m.data.X, m.data.y), m.data.X, m.data.y
        ),
    ),
    "no probability": (
        ValueError,
        "y_prob must lie between 0 and 1",
        lambda m: ReliabilityDisplay.from_predictions([0, 1], [0.5, 1.5]),
    ),
    "probabilities that miss one": (
        ValueError,
        "sum to one",
        lambda m: ReliabilityDisplay.from_predictions([0, 1], [[0.5, 0.4], [0.5, 0.5]]),
    ),
    "NaN as probability": (
        ValueError,
        "y_prob must lie",
        lambda m: ReliabilityDisplay.from_predictions([0, 1], [0.5, np.nan]),
    ),
    "text as probability": (
        ValueError,
        "y_prob must be probabilities",
        lambda m: ReliabilityDisplay.from_predictions([0, 1], ["a", "b"]),
    ),
    "too few labels": (
        ValueError,
        "y_true must be 2 labels",
        lambda m: ReliabilityDisplay.from_predictions([0], [0.5, 0.5]),
    ),
    "too many classes": (
        ValueError,
        "of 2 classes, and there are 3: give classes=",
        lambda m: ReliabilityDisplay.from_predictions([0, 1, 2], [0.5, 0.5, 0.5]),
    ),
    "an unknown class": (
        ValueError,
        "y_true holds 2, which is none of the classes",
        lambda m: ReliabilityDisplay.from_predictions([0, 2], [0.5, 0.5], classes=[0, 1]),
    ),
    "bins": (
        ValueError,
        "n_bins must be an integer >= 1",
        lambda m: ReliabilityDisplay.from_predictions([0, 1], [0.5, 0.5], n_bins=0),
    ),
}


@pytest.mark.parametrize(("error", "message", "draw"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_drawn_is_refused_in_a_line(error, message, draw, models):
    with pytest.raises(error, match=message) as caught:
        draw(models)
    assert error is NotFittedError or "\n" not in str(caught.value)
    assert plt.get_fignums() == []
