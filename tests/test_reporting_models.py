"""Reports of every kind of model; no text breaks out of its place; wrong input is refused."""

import re

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from report_page import Page, page_of
from sparsebayes import RVR, SparseBayesClassifier, SparseBayesRegressor
from sparsebayes.dictionaries import Bias, Kernel, Linear, Wavelet
from sparsebayes.likelihoods import Gaussian, Poisson
from sparsebayes.reporting import Report, make_report


class TestKindsOfModels:
    @pytest.mark.parametrize("dictionary", [Bias() + Linear() + Kernel(gamma=0.5), Linear()])
    def test_dictionaries(self, dictionary):
        rng = np.random.default_rng(0)
        X = rng.uniform(-3, 3, size=(60, 2))
        y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=60)
        model = SparseBayesRegressor(dictionary).fit(X, y)
        page = page_of(model.report(X, y, training=(X, y)))
        assert len(page.tables["atom-list"]) == 1 + len(model.relevance_)
        assert "x1" in page.column("atom-list", "atom")

    def test_wavelets_are_drawn_at_their_positions(self):
        x = np.arange(64.0)[:, None]
        y = np.sin(x[:, 0] / 6) + 0.1 * np.random.default_rng(0).normal(size=64)
        page = page_of(SparseBayesRegressor(Wavelet("haar")).fit(x, y).report(x[:20], y[:20]))
        assert page.marks("curve") == 20
        assert "wavelets haar" in page.text

    def test_precomputed_and_sparse(self):
        import scipy.sparse as sp

        rng = np.random.default_rng(0)
        X = rng.normal(size=(40, 2))
        y = X[:, 0] + 0.1 * rng.normal(size=40)
        K = np.exp(-0.5 * np.square(X[:, None] - X[None]).sum(-1))
        page = page_of(RVR("precomputed").fit(K, y).report(K[:9], y[:9]))
        assert "kernel matrix" in page.text
        S = sp.csr_matrix(X * (np.abs(X) > 0.5))
        model = SparseBayesRegressor().fit(S, y)
        page_of(model.report(S[:9], y[:9], training=(S, y)))

    def test_pipelines(self, wave):
        _, data, new = wave
        pipeline = make_pipeline(StandardScaler(), RVR(gamma=1.0)).fit(data.X, data.y)
        page = page_of(make_report(pipeline, new.X, new.y, training=(data.X, data.y)))
        assert "StandardScaler first" in page.text
        mean = pipeline.predict(new.X)
        shown = [float(text) for text in page.column("target-0-rows", "predicted")]
        np.testing.assert_allclose(shown, mean, rtol=1e-3, atol=1e-12)

    def test_known_noise_as_a_likelihood(self, wave):
        _, data, new = wave
        model = RVR(gamma=0.1, likelihood=Gaussian(0.01)).fit(data.X, data.y)
        page = page_of(model.report(new.X, new.y))
        assert "Gaussian likelihood" in page.text
        assert page.marks("target-0-calibration") == 10

    def test_a_likelihood_of_ones_own_need_not_have_intervals(self, wave):
        _, data, new = wave

        class Bare:
            def __init__(self, counts):
                self.mean, self.std, self.logpmf = counts.mean, counts.std, counts.logpmf

        class Own(Poisson):
            def predictive(self, mean, covariance):
                return Bare(super().predictive(mean, covariance))

        rng = np.random.default_rng(0)
        model = RVR(gamma=0.1, likelihood=Own()).fit(data.X, rng.poisson(3.0, len(data.y)))
        page = page_of(model.report(new.X, rng.poisson(3.0, len(new.y))))
        assert "the band two standard deviations" in page.text
        assert "Inside 90 % intervals" not in page.text
        assert page.marks("target-0-fit") == len(new.y)

    @pytest.mark.parametrize("unit", [1e-150, 1e150])
    def test_units(self, wave, unit):
        _, data, new = wave
        page = page_of(RVR(gamma=0.1).fit(data.X, unit * data.y).report(new.X, unit * new.y))
        assert page.marks("target-0-fit") == 200

    def test_one_row_and_equal_targets(self, wave):
        model, _, new = wave
        assert "undefined" in page_of(model.report(new.X[:1], new.y[:1])).text
        assert "undefined" in page_of(model.report(new.X[:5], np.ones(5))).text


class TestHostileText:
    NAMES = (
        "<script>alert(1)</script>",
        "a\"b'c&amp;",
        "x" * 5000,
        "\u202eאבגד",
        "nul\x00\x1b[31m",
        " \n",
    )

    def test_names_and_labels_are_shown_as_text(self):
        pd = pytest.importorskip("pandas")
        rng = np.random.default_rng(0)
        X = pd.DataFrame(rng.normal(size=(80, 6)), columns=self.NAMES)
        high, low = "<img src=x onerror=alert(1)>", "</td></table><h1>"
        y = pd.Series(np.where(X.sum(axis=1) > 0, high, low), name="</title><script>")
        model = SparseBayesClassifier().fit(X, y)
        page = page_of(model.report(X, y, notes=["</ul><script>alert(3)</script>"]))
        assert [tag for tag, _ in page.tags].count("script") == 1
        for part in (self.NAMES[0], self.NAMES[1], high, low, "alert(3)", "nul\ufffd\ufffd[31m"):
            assert part in page.text
        assert "x" * 50 in page.text
        assert "x" * 100 not in page.text
        assert "</title><script>: a classification" in page.text

    def test_names_stay_apart_from_their_surroundings(self, wave):
        report = make_report(wave[0], wave[2].X, wave[2].y, target_names="\u202eאבג")
        assert report.html.count("\u202e") == report.html.count("<bdi>\u202eאבג") + len(
            re.findall("<title>\u202e", report.html)
        )

    def test_halves_of_surrogate_pairs(self, wave, tmp_path):
        model, _, _ = wave
        report = model.report(title="half \ud800", path=tmp_path / "half.html")
        assert "half \ufffd" in report.html
        assert (tmp_path / "half.html").read_text(encoding="utf-8") == report.html

    def test_a_frame_for_notebooks(self, wave):
        frame = wave[0].report(title="a \"quoted\" 'title'")._repr_html_()
        page = Page(frame)
        ((tag, given),) = page.tags
        assert (tag, given["sandbox"]) == ("iframe", "allow-scripts")
        assert given["srcdoc"].startswith("<!DOCTYPE html>")


class TestFilesAndErrors:
    def test_saving(self, wave, tmp_path):
        model, _, new = wave
        report = model.report(new.X, new.y, title="Sinc", path=tmp_path / "sinc.html")
        assert isinstance(report, Report)
        assert (tmp_path / "sinc.html").read_text(encoding="utf-8") == report.html
        assert repr(report).startswith("Report('Sinc', ")
        with pytest.raises(ValueError, match="no such folder"):
            report.save(tmp_path / "missing" / "sinc.html")

    def test_the_model_is_left_as_it_was(self):
        pd = pytest.importorskip("pandas")
        X = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["a", "b"])
        model = SparseBayesRegressor(noise_variance=0.1).fit(X, X["a"])
        before = set(vars(model))
        model.report(X, X["a"])
        model.report(X.to_numpy(), X["a"])
        assert set(vars(model)) == before
        with pytest.raises(ValueError, match="feature names"):
            model.report(X[["b", "a"]], X["a"])

    def test_bad_input(self, wave, clouds):
        model, _, new = wave
        for arguments, message in (
            ((None, new.y), "without X_test"),
            ((new.X[:, [0, 0]], new.y), "2 features"),
            ((new.X, new.y[:3]), "200 rows"),
            ((new.X, ["a"] * 200), "must hold numbers"),
            ((new.X, np.full(200, np.nan)), "200 rows with missing"),
            ((new.X, np.c_[new.y, new.y]), "2 targets"),
        ):
            with pytest.raises(ValueError, match=message):
                model.report(*arguments)
        with pytest.raises(ValueError, match="not fitted"):
            RVR().report()
        with pytest.raises(TypeError, match="got LinearRegression"):
            make_report(LinearRegression())
        with pytest.raises(TypeError, match="training must be"):
            model.report(training=new.X)
        with pytest.raises(TypeError, match="notes must be"):
            model.report(notes=3)
        with pytest.raises(TypeError, match="target_names must be"):
            make_report(model, target_names=3)
        with pytest.raises(ValueError, match="2 names"):
            make_report(model, target_names=["a", "b"])
        with pytest.raises(ValueError, match="1 names"):
            make_report(model, new.X, new.y, row_names=["a"])
        with pytest.raises(ValueError, match="one label for each row"):
            clouds[0].report(clouds[2].X, np.zeros((400, 2)))
