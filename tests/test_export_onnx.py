"""ONNX files: a runtime that knows nothing of this package gives what Python gives."""

import json
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.gaussian_process import kernels
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler

from exportable_models import (
    CLASSIFIERS,
    COUNTS,
    REGRESSORS,
    classifier,
    count_regression,
    data,
    regression,
)
from sparsebayes import (
    RVC,
    RVR,
    SparseBayesClassifier,
    SparseBayesRegressor,
    denoise,
    export_onnx,
    load,
)
from sparsebayes.dictionaries import Linear, Operator, Wavelet
from sparsebayes.export import ExportError, OnnxExport
from sparsebayes.likelihoods import Poisson

# What rounding leaves, relative to the largest sum of terms without their signs.
AGREES = {"double": 1e-12, "single": 3e-6}
FLOATS = {"double": np.float64, "single": np.float32}
both = pytest.mark.parametrize("precision", ["double", "single"])


class Runtime:
    """A file as another program runs it."""

    def __init__(self, path, precision="double"):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
        self.dtype = FLOATS[precision]

    def __call__(self, X):
        names = [output.name for output in self.session.get_outputs()]
        values = self.session.run(None, {"X": np.asarray(X, dtype=self.dtype)})
        return dict(zip(names, values, strict=True))


@pytest.fixture
def exported(tmp_path):
    """Export a model and open the file."""

    def export(model, precision="double", **options):
        path = tmp_path / f"model-{precision}.onnx"
        export_onnx(model, path, precision=precision, **options)
        return Runtime(path, precision)

    return export


def unwrapped(model, X):
    """The estimator at the end of a pipeline, and its inputs."""
    return (model[-1], model[:-1].transform(X)) if hasattr(model, "steps") else (model, X)


def size_of_terms(model, X):
    """The largest that the sums in a prediction would be if their terms had one sign."""
    last, inputs = unwrapped(model, X)
    posterior = last.posterior_
    terms = np.abs(posterior.offset)
    if posterior.atoms.size:
        m = len(posterior.norm)
        values = posterior.atoms.evaluate(inputs)[:, getattr(posterior, "atom", slice(None))]
        center = np.abs(posterior.center).reshape(m, -1)[:, 0]
        terms = terms + (np.abs(values) + center) @ np.abs(posterior.weights).reshape(m, -1)
    return terms.max()


class TestEveryModel:
    @both
    @pytest.mark.parametrize("name", REGRESSORS)
    def test_of_regression(self, exported, name, precision):
        _, _, T = data()
        model = regression(name)
        found = exported(model, precision)(T)
        mean, std = model.predict(T, return_std=True)
        tolerance = AGREES[precision] * size_of_terms(model, T)
        np.testing.assert_allclose(found["mean"], mean, rtol=0, atol=tolerance)
        np.testing.assert_allclose(found["std"], std, rtol=0, atol=tolerance)
        last, inputs = unwrapped(model, T)
        function_std = last.predict_distribution(inputs).function_std
        np.testing.assert_allclose(found["function_std"], function_std, rtol=0, atol=tolerance)
        assert {found[key].shape for key in found} == {mean.shape}

    @both
    @pytest.mark.parametrize("name", CLASSIFIERS)
    def test_of_classification(self, exported, name, precision):
        _, _, T = data()
        model = classifier(name)
        found = exported(model, precision)(T)
        probabilities = model.predict_proba(T)
        tolerance = {"double": 1e-9, "single": 1e-4}[precision]
        np.testing.assert_allclose(found["probabilities"], probabilities, rtol=0, atol=tolerance)
        np.testing.assert_allclose(found["probabilities"].sum(axis=1), 1.0, atol=1e-6)
        best = np.sort(probabilities, axis=1)
        clear = best[:, -1] - best[:, -2] > 2 * tolerance
        assert clear.sum() > 20 or name.startswith("nothing")
        assert (found["label"] == model.predict(T))[clear].all()

    @both
    @pytest.mark.parametrize("name", COUNTS)
    def test_of_counts(self, exported, name, precision):
        _, _, T = data()
        model = count_regression(name)
        found = exported(model, precision)(T)
        mean, std = model.predict(T, return_std=True)
        rtol = {"double": 1e-10, "single": 1e-4}[precision]
        np.testing.assert_allclose(found["mean"], mean, rtol=rtol)
        np.testing.assert_allclose(found["std"], std, rtol=rtol)
        forecast = model.predict_distribution(T)
        np.testing.assert_allclose(found["log_rate"], forecast.log_rate, rtol=rtol, atol=rtol)
        np.testing.assert_allclose(found["log_rate_std"], forecast.log_rate_std, rtol=rtol)


class TestInputs:
    def test_one_row_or_many(self, exported):
        _, _, T = data()
        for model in (regression("rbf"), classifier("three")):
            runtime = exported(model)
            whole = runtime(T)
            for name, values in whole.items():
                single = np.concatenate([runtime(row[None])[name] for row in T])
                if values.dtype.kind == "f":
                    np.testing.assert_allclose(single, values, rtol=1e-12)
                else:
                    assert (single == values).all()

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_what_predict_refuses_has_no_number(self, exported, bad):
        _, _, T = data()
        T = T.copy()
        T[3, 0] = bad
        models = [
            regression(name) for name in ("rbf", "lspline", "cosine", "columns", "rbf-widths")
        ]
        models += [count_regression("kernel"), classifier("rbf"), classifier("three")]
        for model in models:
            with pytest.raises(ValueError, match=r"NaN|infinity"):
                model.predict(T)
            for values in exported(model)(T).values():
                if values.dtype.kind == "f":
                    assert np.isnan(values[3]).all()
                    assert np.isfinite(np.delete(values, 3, axis=0)).all()

    def test_inputs_that_are_not_used_are_not_looked_at(self, exported):
        _, _, T = data()
        broken = T.copy()
        broken[:, 1] = np.nan
        for model in (regression("rbf-widths"), regression("degree-2"), classifier("nothing")):
            runtime = exported(model)
            for a, b in zip(runtime(T).values(), runtime(broken).values(), strict=True):
                np.testing.assert_array_equal(a, b)

    def test_negative_inputs_of_chi2(self, exported):
        T = np.ones((2, 4))
        T[1, 0] = -0.1
        for name in ("chi2", "additive_chi2"):
            mean = exported(regression(name))(T)["mean"]
            assert np.isfinite(mean[0])
            assert np.isnan(mean[1])

    @both
    @pytest.mark.parametrize("name", ["rbf", "rbf-widths", "laplacian", "sigmoid", "gp-matern-5/2"])
    def test_far_away(self, exported, name, precision):
        model = regression(name)
        far = {"double": 1e300, "single": 1e30}[precision]
        if name.startswith("gp"):  # scikit-learn itself gives NaN beyond
            far = {"double": 1e150, "single": 1e18}[precision]
        T = np.full((4, 4), far) * [[1.0], [-1.0], [1e-10], [1e-20]]
        T[0, 1] = -far
        mean, std = model.predict(T, return_std=True)
        found = exported(model, precision)(T)
        tolerance = AGREES[precision] * size_of_terms(model, T)
        np.testing.assert_allclose(found["mean"], mean, rtol=0, atol=tolerance)
        np.testing.assert_allclose(found["std"], std, rtol=0, atol=tolerance)

    def test_at_the_end_of_the_range_of_floats(self, exported):
        X, y, _ = data()
        runtime = exported(RVR(gamma=50.0, noise_variance=0.02).fit(X, y))
        near, far = (runtime(x * np.array([[1.0, -1.0, 1.0, -1.0]])) for x in (1e6, 1.7e308))
        assert np.isfinite(far["mean"]).all()
        assert far == near

    def test_where_scikit_learn_gives_no_number(self, exported):
        runtime = exported(regression("gp-matern-5/2"))
        near, far = (runtime(np.full((1, 4), x)) for x in (1e100, 1e200))
        assert np.isfinite(far["mean"]).all()
        assert far == near

    def test_zeros_of_chi2(self, exported):
        X, y, T = data()
        X, T = (np.where(inputs > 0.8, inputs, 0.0) for inputs in (X, T))
        for name in ("chi2", "additive_chi2"):
            model = RVR(name, noise_variance=0.05).fit(X, y)
            found = exported(model)(T)["mean"]
            np.testing.assert_allclose(found, model.predict(T), atol=1e-10)

    def test_one_input(self, exported):
        """A runtime may merge factors into products: of one input that must lose nothing."""
        X, y, T = data()
        for kernel in ("linear", "poly", "sigmoid", "rbf", "tps"):
            steps = make_pipeline(StandardScaler(), RVR(kernel, gamma=0.7, noise_variance=0.05))
            model = steps.fit(X[:, :1], y)
            tolerance = AGREES["double"] * size_of_terms(model, T[:, :1])
            expected = model.predict(T[:, :1])
            found = exported(model)(T[:, :1])["mean"]
            np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)

    def test_centers_far_from_the_origin(self, exported):
        X, y, T = data()
        model = RVR(gamma=0.5, noise_variance=0.02).fit(X + 1e6, y)
        found = exported(model)(T + 1e6)
        np.testing.assert_allclose(found["mean"], model.predict(T + 1e6), atol=1e-7)


class TestFile:
    def test_what_it_says_of_itself(self, tmp_path):
        path = tmp_path / "model.onnx"
        model = regression("two-targets")
        written = export_onnx(model, path, name="plant", target_names=["heat", "power"])
        assert written == OnnxExport(
            str(path),
            path.stat().st_size,
            "double",
            17,
            ("x0", "x1", "x2", "x3"),
            ("mean", "std", "function_std"),
        )
        file = onnx.load(path)
        onnx.checker.check_model(file, full_check=True)
        assert file.graph.name == "plant"
        assert (file.producer_name, file.producer_version) == ("sparsebayes", "0.1.0")
        assert [(opset.domain, opset.version) for opset in file.opset_import] == [("", 17)]
        about = {entry.key: entry.value for entry in file.metadata_props}
        assert about == {
            "estimator": "RVR",
            "task": "regression",
            "precision": "double",
            "features": '["x0", "x1", "x2", "x3"]',
            "atoms": str(model.relevance_.size),
            "target": '["heat", "power"]',
        }
        rows = file.graph.input[0].type.tensor_type.shape.dim[0]
        assert rows.dim_param == "rows"

    @both
    def test_labels_keep_their_type(self, exported, precision):
        X, y, T = data()
        high = y > np.median(y)
        for labels in (
            np.array(["<b>nö</b>", 'a"\n\u202etxt\0'])[high * 1],
            np.array(["a", "b"], dtype=object)[high * 1],
            high,
            np.where(high, -(2**62) - 1, 5),
            np.where(high, 3.0, 16777217.0),
        ):
            model = SparseBayesClassifier(prior="flat").fit(X, labels)
            found = exported(model, precision)(T)["label"]
            assert found.tolist() == model.predict(T).tolist()
            assert type(found.tolist()[0]) is type(labels.tolist()[0])

    def test_labels_without_a_type(self, tmp_path):
        X, y, _ = data()
        labels = np.where(y > np.median(y), np.uint64(2**63 + 1), np.uint64(3))
        model = SparseBayesClassifier(prior="flat").fit(X, labels)
        with pytest.raises(ExportError, match="integers of 64 bits"):
            export_onnx(model, tmp_path / "model.onnx")
        assert not list(tmp_path.iterdir())

    def test_names_of_any_kind(self, tmp_path):
        pandas = pytest.importorskip("pandas")
        X, y, T = data()
        names = ['<script>"', "wind\n[m/s]", "\u202eabc", "x" * 5000]
        frame = pandas.DataFrame(X, columns=names)
        model = make_pipeline(StandardScaler(), SparseBayesRegressor()).fit(frame, y)
        path = tmp_path / "model.onnx"
        written = export_onnx(model, path, target_names=["\0 heat"])
        assert written.inputs == tuple(names)
        about = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
        assert json.loads(about["features"]) == names
        assert json.loads(about["target"]) == ["\0 heat"]
        expected = model.predict(pandas.DataFrame(T, columns=names))
        np.testing.assert_allclose(Runtime(path)(T)["mean"], expected, rtol=1e-12)

    def test_the_same_model_gives_the_same_bytes(self, tmp_path):
        for name in ("a.onnx", "b.onnx"):
            export_onnx(classifier("three"), tmp_path / name)
        assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()

    def test_a_model_from_a_file_gives_the_same_bytes(self, tmp_path):
        for model in (regression("union"), classifier("three"), count_regression("kernel")):
            model.save(tmp_path / "model")
            export_onnx(model, tmp_path / "a.onnx")
            export_onnx(load(tmp_path / "model"), tmp_path / "b.onnx")
            assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()

    def test_another_runtime(self, tmp_path):
        """The reference implementation of ONNX agrees: nothing is peculiar to one runtime."""
        _, _, T = data()
        path = tmp_path / "model.onnx"
        for model in (regression("union"), regression("tps"), classifier("rbf")):
            export_onnx(model, path)
            outputs = ReferenceEvaluator(onnx.load(path)).run(None, {"X": T})
            for found, expected in zip(outputs, Runtime(path)(T).values(), strict=True):
                if found.dtype.kind == "f":
                    np.testing.assert_allclose(found, expected, rtol=1e-8)
                else:
                    assert (found == expected).all()

    def test_size_does_not_grow_with_rows(self, tmp_path):
        X, y, _ = data()
        small = SparseBayesRegressor().fit(X, y)
        large = SparseBayesRegressor().fit(np.tile(X, (20, 1)), np.tile(y, 20))
        sizes = [export_onnx(m, tmp_path / "m.onnx").file_bytes for m in (small, large)]
        assert abs(sizes[0] - sizes[1]) < 200


class TestPipelines:
    def test_search_over_scalers_and_a_choice_of_columns(self, exported):
        X, y, T = data()
        steps = make_pipeline(
            SelectKBest(f_regression, k=2), MinMaxScaler(), RVR(noise_variance=0.02)
        )
        search = GridSearchCV(steps, {"rvr__gamma": [0.5, 2.0]}, cv=2).fit(X * 1e4, y)
        found = exported(search)(T * 1e4)
        np.testing.assert_allclose(found["mean"], search.predict(T * 1e4), atol=1e-10)

    def test_other_steps(self, tmp_path):
        X, y, _ = data()
        model = make_pipeline(PolynomialFeatures(2), SparseBayesRegressor()).fit(X, y)
        with pytest.raises(ExportError, match="PolynomialFeatures, which is not exported"):
            export_onnx(model, tmp_path / "model.onnx")


class TestRefusals:
    """One sentence with the reason, and no file."""

    def refuse(self, tmp_path, model, match, error=ExportError, **options):
        with pytest.raises(error, match=match) as caught:
            export_onnx(model, tmp_path / "model.onnx", **options)
        assert "\n" not in str(caught.value)
        assert not list(tmp_path.iterdir())

    def test_kernels(self, tmp_path):
        X, y, _ = data()
        self.refuse(tmp_path, RVR(lambda A, B: A @ B.T).fit(X, y), "Python function")
        self.refuse(tmp_path, RVR("precomputed").fit(X @ X.T, y), "precomputed")
        rough = RVR(kernels.Matern(nu=0.8), noise_variance=0.02).fit(X, y)
        self.refuse(tmp_path, rough, "nu=0.8")

    def test_dictionaries(self, tmp_path):
        rng = np.random.default_rng(0)
        grid = np.arange(32.0)[:, None]
        signal = np.sin(grid[:, 0] / 4) + 0.1 * rng.normal(size=32)
        self.refuse(tmp_path, SparseBayesRegressor(Wavelet()).fit(grid, signal), "wavelets")
        atoms = Operator(rng.normal(size=(32, 6)) + signal[:, None])
        self.refuse(tmp_path, SparseBayesRegressor(atoms).fit(grid, signal), "Operator")

        class Own:
            def bind(self, X, *, sample_weight=None, random_state=None):
                class OwnAtoms(type(Linear().bind(X)).__base__):
                    kind = "own"

                return OwnAtoms(np.arange(X.shape[1]), X.shape[1])

        X, y, _ = data()
        self.refuse(tmp_path, SparseBayesRegressor(Own()).fit(X, y), "code of your own")

    def test_likelihoods(self, tmp_path):
        X, y, _ = data()

        class Own(Poisson):
            pass

        class Other:
            n_latent = 1
            check, expand = Poisson().check, Poisson().expand
            predictive = Poisson().predictive

        counts = np.round(np.exp(y))
        model = SparseBayesRegressor(likelihood=Other(), prior="flat").fit(X, counts)
        self.refuse(tmp_path, model, "likelihood Other is code of your own")
        model = SparseBayesRegressor(likelihood=Own(), prior="flat").fit(X, counts)
        self.refuse(tmp_path, model, "likelihood Own is code of your own")

    @pytest.mark.parametrize(
        "thing", [RVR(), RVC(), make_pipeline(StandardScaler(), RVR()), StandardScaler(), 3, None]
    )
    def test_what_is_no_fitted_model(self, tmp_path, thing):
        self.refuse(tmp_path, thing, "fit|export")

    def test_denoised_signals(self, tmp_path):
        self.refuse(tmp_path, denoise(np.sin(np.arange(64.0))), "fit|export")

    def test_settings(self, tmp_path):
        model = regression("rbf")
        self.refuse(tmp_path, model, "precision must be", ValueError, precision="half")
        self.refuse(tmp_path, model, "name must be", ValueError, name="")
        self.refuse(tmp_path, model, "name must be", ValueError, name=3)
        self.refuse(tmp_path, model, "list of 1", ValueError, target_names=["a", "b"])
        self.refuse(tmp_path, model, "list of 1", ValueError, target_names="a")

    def test_weights_that_cancel_more_digits_than_single_precision_has(self, tmp_path):
        line = np.linspace(-5, 5, 50)[:, None]
        model = RVR(gamma=0.03, noise_variance=1e-6).fit(line, np.sin(line[:, 0]))
        self.refuse(tmp_path, model, 'use precision="double"', precision="single")

    @pytest.mark.parametrize("unit", [1e60, 1e-60])
    def test_numbers_out_of_the_range_of_single_precision(self, tmp_path, exported, unit):
        X, y, T = data()
        model = SparseBayesRegressor().fit(X, unit * y)
        self.refuse(tmp_path, model, "range of single precision", precision="single")
        found = exported(model)(T)
        np.testing.assert_allclose(found["mean"], model.predict(T), rtol=1e-12)

    def test_without_the_package(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "onnx", None)
        with pytest.raises(ImportError, match=r'pip install "sparsebayes\[onnx\]"'):
            export_onnx(regression("rbf"), tmp_path / "model.onnx")

    def test_a_folder(self, tmp_path):
        with pytest.raises(IsADirectoryError):
            export_onnx(regression("rbf"), tmp_path)
