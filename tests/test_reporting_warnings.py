"""Reports warn of what matters, and of nothing else."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from report_page import page_of
from sparsebayes import RVR, SparseBayesClassifier, SparseBayesRegressor, load
from sparsebayes.datasets import sinc


class TestWarnings:
    def test_nothing_to_warn_of(self, clouds):
        model, data, _ = clouds
        report = model.report(data.X, np.where(data.y, "yes", "no"))
        assert report.warnings == ()
        assert "found anything to warn of" in page_of(report).text

    def said(self, report, *words):
        text = page_of(report).text
        found = [" ".join(line.split()) for line in report.warnings]
        assert all(line in text for line in found)
        return any(all(word in line for word in words) for line in found)

    def test_error_bars(self, wave):
        model, _, new = wave
        assert not any("Error bars" in line for line in model.report(new.X, new.y).warnings)
        noisy = new.y + 0.12 * np.random.default_rng(0).normal(size=200)
        assert self.said(model.report(new.X, noisy), "bars are too small", "90 % hold only")
        quiet = model.predict(new.X)
        assert self.said(model.report(new.X, quiet), "wider than needed", "100.0 % of 200")

    def test_rows_out_of_reach(self, wave):
        model, _, new = wave
        report = model.report(new.X + 100, new.y)
        assert self.said(report, "200 of 200", "outside the range of the training rows", "x0")
        assert self.said(report, "200 of 200", "out of reach of every kernel", "augment=True")
        assert self.said(report, "worse on held-out rows than their mean")

    def test_rows_that_a_linear_model_is_not_sure_of(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(50, 3))
        model = SparseBayesRegressor().fit(X, X[:, 0] + 0.1 * rng.normal(size=50))
        new = X.copy()
        new[:3] *= 1000.0
        assert self.said(model.report(new, new[:, 0]), "For 3 of 50", "uncertain beyond the noise")

    def test_scales(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60, 2)) * [1.0, 1000.0]
        y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)
        assert self.said(RVR().fit(X, y).report(X, y), "Scales of inputs differ", "x1", "x0")
        own = RVR(gamma=1 / X.var(axis=0)).fit(X, y)
        assert not any("Scales" in line for line in own.report(X, y).warnings)

    def test_rare_classes(self):
        rng = np.random.default_rng(0)
        y = np.arange(300) < 6
        X = rng.normal(size=(300, 2)) + 3 * y[:, None]
        report = SparseBayesClassifier().fit(X, y).report(training=(X, y))
        assert self.said(report, "only 6 of 300 training rows", "True")

    def test_probabilities_that_are_too_sure(self, clouds):
        model, _, new = clouds
        drawn = np.random.default_rng(0).random(400) < 0.3
        labels = np.where(np.where(drawn, 1 - new.y, new.y), "yes", "no")
        assert self.said(model.report(new.X, labels), "too sure", "of 400 held-out rows")

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_a_fit_that_did_not_end_well(self, wave, tmp_path):
        _, data, _ = wave
        model = RVR(gamma=0.1, max_iter=1).fit(data.X, data.y)
        assert self.said(model.report(), "max_iter was reached")
        model.save(tmp_path / "short.model")
        assert self.said(load(tmp_path / "short.model").report(), "certificate did not hold")

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_widths_at_their_bounds(self):
        data = sinc(100, noise=0.1, random_state=0)
        kernel = RBF(0.7, length_scale_bounds=(0.5, 1.0))
        model = RVR(kernel, gamma="evidence").fit(data.X, data.y)
        assert self.said(model.report(), "learned length_scale is at its bound")

    def test_no_atoms(self):
        rng = np.random.default_rng(0)
        model = SparseBayesRegressor().fit(rng.normal(size=(50, 5)), rng.normal(size=50))
        assert model.relevance_.size == 0
        assert self.said(model.report(), "no atom at all")
