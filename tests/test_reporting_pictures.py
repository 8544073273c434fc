"""Pictures of reports: marks, bars and bands are where the numbers on the axes say."""

import re

import numpy as np
import pytest

from report_page import Page
from sparsebayes import RVC, RVR
from sparsebayes._calibration import reliability, wilson
from sparsebayes.datasets import mixtures, sinc
from sparsebayes.reporting._svg import Plot, Scale, bars, ticks

RESOLUTION = 0.2  # places, and those of ticks, are written to a tenth of a unit


class Picture:
    """An SVG: where its marks are, in the units of its axes."""

    def __init__(self, document, figure):
        (svg,) = re.findall(rf'<figure id="{figure}".*?(<svg.*?</svg>)', document, re.DOTALL)
        labels = re.findall(
            r'<text x="([-.\d]+)" y="([-.\d]+)" text-anchor="(\w+)" class="tick">(.*?)</text>', svg
        )
        across = [(float(x), float(text)) for x, _, anchor, text in labels if anchor == "middle"]
        # The baseline of a number is 4.5 units below the place it is for.
        upward = [(float(y) - 4.5, float(text)) for _, y, anchor, text in labels if anchor == "end"]
        self.x, self.y = (np.polyfit(*zip(*pairs, strict=True), 1) for pairs in (across, upward))
        assert self.x[0] > 0, "values do not rise to the right"
        assert self.y[0] < 0, "values do not rise upward"
        self.svg = svg

    @property
    def unit(self):
        """What one unit of the picture is worth, across and upward."""
        return abs(self.x[0]), abs(self.y[0])

    def values(self, places):
        places = np.array(places, dtype=float)
        return np.polyval(self.x, places[:, 0]), np.polyval(self.y, places[:, 1])

    @property
    def points(self):
        (group,) = re.findall(r'<g class="points marks">(.*?)</g>', self.svg)
        return self.values(re.findall(r'<circle cx="([-.\d]+)" cy="([-.\d]+)"', group))

    @property
    def spans(self):
        (path,) = re.findall(r'd="([^"]*)" class="spans"', self.svg)
        found = np.array(re.findall(r"M([-.\d]+) ([-.\d]+)V([-.\d]+)", path), dtype=float)
        at, low = self.values(found[:, :2])
        return at, low, self.values(found[:, ::2])[1]

    def line(self, kind):
        (path,) = re.findall(rf'd="([^"]*)" class="{kind}"', self.svg)
        return self.values(re.findall(r"([-.\d]+) ([-.\d]+)", path))

    def close(self, found, x, y):
        np.testing.assert_allclose(found[0], x, atol=RESOLUTION * self.unit[0] + 1e-9)
        np.testing.assert_allclose(found[1], y, atol=RESOLUTION * self.unit[1] + 1e-9)


@pytest.fixture(scope="module")
def wave():
    data, new = sinc(60, noise=0.1, random_state=0), sinc(90, noise=0.1, random_state=1)
    model = RVR(gamma=0.1).fit(data.X, data.y)
    return model, data, new, model.report(new.X, new.y).html


def test_predicted_against_observed(wave):
    model, _, new, html = wave
    found = model.predict_distribution(new.X)
    picture = Picture(html, "target-0-fit")
    picture.close(picture.points, new.y, found.mean)
    at, low, high = picture.spans
    picture.close((at, low), new.y, found.interval(0.95)[0])
    picture.close((at, high), new.y, found.interval(0.95)[1])
    x, y = picture.line("line dashed")
    np.testing.assert_allclose(x, y, atol=RESOLUTION * sum(picture.unit))


def test_errors(wave):
    model, _, new, html = wave
    mean, std = model.predict(new.X, return_std=True)
    picture = Picture(html, "target-0-errors")
    picture.close(picture.points, mean, (new.y - mean) / std)


def test_a_function_of_one_input(wave):
    model, data, new, html = wave
    picture = Picture(html, "curve")
    picture.close(picture.points, new.X[:, 0], new.y)
    x, y = picture.line("line solid")
    assert (x[0], x[-1]) == pytest.approx((-10.0, 10.0), abs=0.02)
    grid = np.linspace(-10.0, 10.0, len(x))
    picture.close((x, y), grid, model.predict(grid[:, None]))
    low, high = model.predict_distribution(grid[:, None]).interval(0.95)
    picture.close(picture.line("band"), np.r_[grid, grid[::-1]], np.r_[low, high[::-1]])
    rings = re.findall(r'<g class="points rings">(.*?)</g>', picture.svg)[0]
    places = picture.values(re.findall(r'cx="([-.\d]+)" cy="([-.\d]+)"', rings))
    vectors = model.relevance_vectors_
    picture.close(places, vectors[:, 0], model.predict(vectors))
    assert len(re.findall("h6m-3 -3v6", picture.svg)) == len(data.y)


def test_calibration(wave):
    model, _, new, html = wave
    picture = Picture(html, "target-0-calibration")
    levels = np.r_[np.arange(0.1, 0.95, 0.1), 0.95]
    forecast = model.predict_distribution(new.X)
    ends = [forecast.interval(level) for level in levels]
    inside = [np.mean((low <= new.y) & (new.y <= high)) for low, high in ends]
    picture.close(picture.points, levels, inside)


def test_path(wave):
    model, *_, html = wave
    picture = Picture(html, "path")
    objective = [line.objective for line in model.solution_.trace]
    shift = model.log_posterior_ - model.solution_.state.objective
    picture.close(picture.points, np.arange(len(objective)), np.array(objective) + shift)


def test_reliability_diagram():
    data, new = mixtures(100, random_state=0), mixtures(300, random_state=1)
    model = RVC(gamma=4.0).fit(data.X, data.y)
    picture = Picture(model.report(new.X, new.y).html, "reliability")
    bins = reliability(model.predict_proba(new.X)[:, 1], new.y == 1)
    picture.close(picture.points, [b.stated for b in bins], [b.share for b in bins])
    _, low, high = picture.spans
    picture.close((low, high), [b.least for b in bins], [b.most for b in bins])


def test_bins():
    rng = np.random.default_rng(0)
    probability = rng.random(5000)
    bins = reliability(probability, rng.random(5000) < probability)
    assert sum(b.rows for b in bins) == 5000
    assert all(b.low <= b.stated <= b.high for b in bins)
    assert np.mean([b.least <= b.stated <= b.most for b in bins]) > 0.7
    assert reliability(np.array([1.0, 0.0]), np.array([True, False]))[-1].high == 1.0
    # The interval is where a share is no further from the truth than 1.96 of its deviations.
    for end in wilson(0.3, 50):
        assert abs(end - 0.3) / np.sqrt(end * (1 - end) / 50) == pytest.approx(1.959964)
    assert wilson(0.0, 5)[0] == 0.0
    assert wilson(1.0, 5)[1] == 1.0


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (-3.0, 14.0), (1e-9, 3e-9), (1e6, 1e6 + 1), (-1e300, 1e300)]
)
def test_ticks(low, high):
    found = ticks(low, high)
    assert 2 <= len(found) <= 7
    assert all(low <= value <= high for value in found)
    np.testing.assert_allclose(np.diff(found), found[1] - found[0], rtol=1e-6)


def test_axes_of_odd_values():
    assert Scale([], (0.0, 1.0)).low < Scale([], (0.0, 1.0)).high
    flat = Scale([7.0, 7.0], (0.0, 100.0))
    assert flat(7.0) == pytest.approx(50.0)
    endless = Scale([0.0, np.inf, np.nan, 1.0], (0.0, 100.0), margin=0.0)
    assert (endless.low, endless.high) == (0.0, 1.0)
    assert endless(np.inf) == 100.0
    plot = Plot([1e6, 1e6 + 1e-3], [0.0, 1.0], ("x", "y"))
    labels = re.findall(r'text-anchor="middle" class="tick">(.*?)<', plot.svg("x"))
    assert len(set(labels)) == len(labels) >= 2


def test_bars():
    svg = bars(["<a>", "b" * 50, "c"], [0.75, 0.25, 0.0], "shares", ends=["75", "25", "0"])
    page = Page(svg)
    widths = [float(given["width"]) for tag, given in page.tags if tag == "rect"]
    assert widths[0] / widths[1] == pytest.approx(3.0, abs=0.01)
    assert 0 < widths[2] < 2
    assert "<a>" in page.text
    assert "b" * 50 not in page.text
