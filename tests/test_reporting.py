"""Reports say what is true, of every kind of model, and no text breaks out of its place."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, r2_score

from report_page import page_of
from sparsebayes import RVR, SparseBayesClassifier, SparseBayesRegressor, load
from sparsebayes.datasets import sinc
from sparsebayes.dictionaries import Kernel, Wavelet
from sparsebayes.metrics import log_predictive_density
from sparsebayes.reporting import make_report
from sparsebayes.reporting._atoms import Kept
from sparsebayes.reporting._quality import measure


class TestRegression:
    def test_quality_is_that_of_scikit_learn(self, wave):
        model, _, new = wave
        page = page_of(model.report(new.X, new.y))
        found = measure(model, new.X, new.y)
        mean = model.predict(new.X)
        assert found["rmse"] == pytest.approx(np.sqrt(np.mean((new.y - mean) ** 2)))
        assert found["r2"] == pytest.approx(r2_score(new.y, mean))
        assert found["log_density"] == pytest.approx(log_predictive_density(model, new.X, new.y))
        low, high = model.predict_distribution(new.X).interval(0.9)
        inside = np.mean((low <= new.y) & (new.y <= high))
        assert found["coverage_90"] == pytest.approx(inside)
        assert f"RMSE{found['rmse']:.4g}" in page.text
        assert f"Inside 90 % intervals{100 * inside:.1f} %90 % is right. Inside 50" in page.text
        assert f"Inside 95 % ones: {100 * found['coverage_95']:.1f} %." in page.text

    def test_rows_drawn_are_rows_of_the_data(self, wave):
        model, _, new = wave
        page = page_of(model.report(new.X, new.y))
        rows = [int(row) for row in page.column("target-0-rows", "row")]
        assert rows == list(range(200))
        mean, std = model.predict(new.X, return_std=True)
        for head, values in (
            ("observed", new.y),
            ("predicted", mean),
            ("standard deviation", std),
            ("error", new.y - mean),
        ):
            shown = [float(text) for text in page.column("target-0-rows", head)]
            np.testing.assert_allclose(shown, values, rtol=1e-3, atol=1e-12)
        assert page.marks("target-0-fit") == page.marks("target-0-errors") == 200
        worst = int(page.column("target-0-misses", "row")[0])
        assert worst == np.abs((new.y - mean) / std).argmax()

    def test_atoms_are_those_of_the_model(self, wave):
        model, _, new = wave
        page = page_of(model.report(new.X, new.y))
        std = np.sqrt(np.diag(model.covariance_))
        order = np.argsort(-np.abs(model.weights_) / std)
        names = page.column("atom-list", "atom")
        assert names == [f"center {k}" for k in model.relevance_[order]]
        for head, values in (
            ("weight", model.weights_),
            ("standard error", std),
            ("prior variance", model.prior_variance_),
            ("x0", model.relevance_vectors_[:, 0]),
        ):
            shown = [float(text) for text in page.column("atom-list", head)]
            np.testing.assert_allclose(shown, values[order], rtol=1e-3)
        dof = [float(text) for text in page.column("atom-list", "determined by data")]
        assert sum(dof) == pytest.approx(model.degrees_of_freedom_, abs=0.01)

    def test_sentences(self, wave):
        model, _, new = wave
        text = page_of(model.report(new.X, new.y, notes=["3 rows were left out."])).text
        assert f"Of 60 candidate atoms it keeps {len(model.relevance_)} Gaussian (rbf)" in text
        assert "It was fitted to 60 rows." in text
        assert "3 rows were left out." in text
        assert f"standard deviation {model.noise_variance_**0.5:.4g}" in text
        assert f"Log evidence: {model.log_marginal_likelihood_:.6g} nats" in text
        assert f"would gain more than {model.certificate_.max_gain:.2g} nats" in text

    def test_without_held_out_data(self, wave):
        model, _, new = wave
        text = page_of(model.report()).text
        assert "No held-out data were given" in text
        assert "RMSE" not in text
        assert "without their targets" in page_of(model.report(new.X)).text

    def test_a_loaded_model(self, wave, tmp_path):
        model, _, new = wave
        model.save(tmp_path / "wave.model")
        page = page_of(load(tmp_path / "wave.model").report(new.X, new.y))
        assert "path of the fit is not known" in page.text
        assert page.tables["atom-list"] == page_of(model.report(new.X, new.y)).tables["atom-list"]
        assert page.marks("curve") == 200

    def test_the_path_ends_at_the_objective(self, wave):
        _, data, _ = wave
        model = RVR(gamma=0.1).fit(data.X, 100 * data.y)  # solvers have another unit
        page = page_of(model.report())
        heights = [float(text) for text in page.column("path-steps", "objective")]
        assert heights[-1] == pytest.approx(model.log_posterior_, rel=1e-5)
        assert page.marks("path") == len(heights)

    def test_many_rows(self, wave):
        model, _, _ = wave
        new = sinc(50_000, noise=0.1, random_state=2)
        report = model.report(new.X, new.y)
        page = page_of(report)
        assert len(report.html.encode()) < 200_000
        assert "50000 rows that the model was not fitted to" in page.text
        assert "A random 400 of 50000 are drawn." in page.text
        rows = np.array([int(row) for row in page.column("target-0-rows", "row")])
        shown = [float(text) for text in page.column("target-0-rows", "observed")]
        np.testing.assert_allclose(shown, new.y[rows], rtol=1e-3, atol=1e-12)

    def test_many_atoms(self):
        x = np.arange(600.0)[:, None]
        y = np.random.default_rng(0).normal(size=600)
        model = SparseBayesRegressor(Wavelet("haar"), noise_variance=1e-6, prior="flat").fit(x, y)
        report = model.report(x[:50], y[:50])
        page = page_of(report)
        kept = len(model.relevance_)
        assert kept > 550
        assert len(page.tables["atom-list"]) == 501
        assert f"The table shows the 500 of {kept} entries" in page.text
        assert any(f"keeps {kept} of 600 candidate atoms" in line for line in report.warnings)
        assert len(report.html.encode()) < 200_000

    def test_several_targets(self, wave):
        _, data, new = wave
        Y, new_Y = np.c_[data.y, 3 * data.y + 1], np.c_[new.y, 3 * new.y + 1]
        model = RVR(gamma=0.1).fit(data.X, Y)
        report = make_report(model, new.X, new_Y, target_names=["a", "b"])
        page = page_of(report)
        errors = np.sqrt(np.mean((new_Y - model.predict(new.X)) ** 2, axis=0))
        assert page.column("targets", "target") == ["a", "b"]
        shown = [float(text) for text in page.column("targets", "RMSE")]
        np.testing.assert_allclose(shown, errors, rtol=1e-3)
        assert [float(w) for w in page.column("atom-list", "weight of b")] == pytest.approx(
            model.weights_[np.argsort(-Kept(model).certainty), 1], rel=1e-3
        )
        assert page.marks("target-1-fit") == 200

    def test_counts(self, wave):
        _, data, new = wave
        rng = np.random.default_rng(0)
        counts = rng.poisson(2 + np.abs(data.X[:, 0]))
        model = RVR(gamma=0.1, likelihood="poisson").fit(data.X, counts)
        page = page_of(model.report(new.X, rng.poisson(2 + np.abs(new.X[:, 0]))))
        assert "Poisson likelihood" in page.text
        assert "At least 90 % is right" in page.text

    def test_row_names(self, wave):
        model, _, new = wave
        names = [f"r{k}" for k in range(200)]
        page = page_of(make_report(model, new.X, new.y, row_names=names))
        assert page.column("target-0-rows", "row") == names


class TestClasses:
    def test_quality_is_that_of_scikit_learn(self, clouds):
        model, _, new = clouds
        labels = np.where(new.y, "yes", "no")
        page = page_of(model.report(new.X, labels))
        proba = model.predict_proba(new.X)
        found = measure(model, new.X, labels)
        assert found["accuracy"] == pytest.approx(accuracy_score(labels, model.predict(new.X)))
        assert found["log_loss"] == pytest.approx(log_loss(labels, proba))
        assert found["brier"] == pytest.approx(
            brier_score_loss(labels, proba[:, 1], pos_label="yes")
        )
        table = page.tables["confusion"]
        predicted = model.predict(new.X)
        for row, observed in zip(table[1:], ("no", "yes"), strict=True):
            assert row[0] == observed
            for cell, claimed in zip(row[1:3], ("no", "yes"), strict=True):
                assert int(cell) == np.sum((labels == observed) & (predicted == claimed))
        assert sum(int(rows) for rows in page.column("reliability-bins", "rows")) == 400
        assert float(page.column("surprises", "probability of the observed class")[0]) == (
            pytest.approx(proba[np.arange(400), (labels == "yes").astype(int)].min(), rel=1e-3)
        )

    def test_more_classes(self):
        rng = np.random.default_rng(0)
        y = rng.integers(0, 3, 150)
        X = rng.normal(size=(150, 2)) + 2 * np.eye(3)[y][:, :2]
        model = SparseBayesClassifier().fit(X[:100], y[:100])
        page = page_of(model.report(X[100:], y[100:]))
        assert len(page.tables["confusion"]) == 4
        entries = sum(len(weights) for weights in model.weights_)
        assert len(page.tables["atom-list"]) == 1 + entries
        of_class = [int(label) for label in page.column("atom-list", "class")]
        assert np.bincount(of_class, minlength=3).tolist() == [len(w) for w in model.weights_]

    def test_many_classes_have_no_table_of_pairs(self):
        rng = np.random.default_rng(0)
        y = np.repeat(np.arange(25), 4)
        X = np.c_[y % 5, y // 5] + 0.05 * rng.normal(size=(100, 2))
        model = SparseBayesClassifier(Kernel("rbf", gamma=2.0, centers=X[::4]), tol=1.0).fit(X, y)
        page = page_of(model.report(X, y))
        assert page.tables["confusion"][0][:3] == ["class", "rows", "right"]
        assert len(page.tables["confusion"]) == 26

    def test_a_label_that_the_model_does_not_know(self, clouds):
        model, _, new = clouds
        labels = np.where(new.y, "yes", "no").astype(object)
        labels[7] = "perhaps"
        report = model.report(new.X, labels)
        assert "infinite" in page_of(report).text
        assert any("such as perhaps" in line for line in report.warnings)
