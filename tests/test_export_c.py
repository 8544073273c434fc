"""C headers: what a compiler makes of them gives what Python gives."""

import re
import runpy
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.gaussian_process import kernels
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from compiled import Program, needs_gcc
from exportable_models import (
    CLASSIFIERS,
    COUNTS,
    NAMED,
    REGRESSORS,
    classifier,
    count_regression,
    data,
    regression,
)
from sparsebayes import RVC, RVR, SparseBayesClassifier, SparseBayesRegressor, export_c
from sparsebayes.dictionaries import Linear, Operator, Wavelet
from sparsebayes.export import CExport, ExportError
from sparsebayes.latent_integrals import log_mean_sigmoid, log_mean_softmax
from sparsebayes.likelihoods import Poisson

# What rounding leaves, relative to the largest sum of terms without their signs.
AGREES = {"double": 1e-12, "single": 2e-6}
PRECISIONS = ("double", "single")
both = pytest.mark.parametrize("precision", PRECISIONS)


def unwrapped(model, X):
    """The estimator at the end of a pipeline, and its inputs."""
    return (model[-1], model[:-1].transform(X)) if hasattr(model, "steps") else (model, X)


def size_of_terms(model, X):
    """The largest that the sums in a prediction would be if their terms had one sign."""
    last, inputs = unwrapped(model, X)
    posterior = last.posterior_
    if len(posterior.norm) == 0:
        return 1.0
    atoms = np.abs(np.asarray(posterior.atoms.evaluate(inputs))).max(axis=0)
    atoms = atoms[getattr(posterior, "atom", slice(None))]
    return 1.0 + (np.abs(posterior.weights.reshape(len(atoms), -1)) * atoms[:, None]).sum()


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Every exportable model in both precisions, compiled into one program."""
    program = Program(tmp_path_factory.mktemp("all"))
    X = data()[2]
    kinds = {"regression": regression, "classes": classifier, "counts": count_regression}
    names = {"regression": REGRESSORS, "classes": CLASSIFIERS, "counts": COUNTS}
    for kind, made in kinds.items():
        for name in names[kind]:
            for precision in PRECISIONS:
                program.add((kind, name, precision), made(name), X, precision)
    return program.run()


@needs_gcc
class TestEveryModel:
    @both
    @pytest.mark.parametrize("name", REGRESSORS)
    def test_of_regression(self, answers, name, precision):
        X = data()[2]
        model = regression(name)
        found = answers["regression", name, precision]
        last, inputs = unwrapped(model, X)
        forecast = last.predict_distribution(inputs)
        mean, std, function_std = (
            values.reshape(len(X), -1)
            for values in (forecast.mean, forecast.std, forecast.function_std)
        )
        rules = {"rtol": 0, "atol": AGREES[precision] * size_of_terms(model, X)}
        np.testing.assert_allclose(found["predict"], mean, **rules)
        np.testing.assert_allclose(found["predict_std"][:, :-1], mean, **rules)
        np.testing.assert_allclose(found["predict_function_std"][:, :-1], mean, **rules)
        for of, expected in (("predict_std", std), ("predict_function_std", function_std)):
            one = found[of][:, -1:]
            np.testing.assert_allclose(np.broadcast_to(one, mean.shape), expected, **rules)

    @both
    @pytest.mark.parametrize("name", CLASSIFIERS)
    def test_of_classification(self, answers, name, precision):
        X = data()[2]
        model = classifier(name)
        found = answers["classes", name, precision]
        last, inputs = unwrapped(model, X)
        proba = last.predict_proba(inputs)
        atol = {"double": 1e-10, "single": 2e-5}[precision]
        np.testing.assert_allclose(found["predict_proba"], proba, rtol=0, atol=atol)
        plug_in = last.predict_proba(inputs, plug_in=True)
        np.testing.assert_allclose(found["predict_proba_plug_in"], plug_in, rtol=0, atol=atol)
        best = np.sort(proba, axis=1)
        clear = best[:, -1] - best[:, -2] > 2 * atol
        assert clear.sum() > 20 or name.startswith("nothing")
        codes = found["predict"][:, 0].astype(int)
        assert (last.classes_[codes] == last.predict(inputs))[clear].all()

    @both
    @pytest.mark.parametrize("name", COUNTS)
    def test_of_counts(self, answers, name, precision):
        X = data()[2]
        model = count_regression(name)
        found = answers["counts", name, precision]
        mean, std = model.predict(X, return_std=True)
        rtol = {"double": 1e-12, "single": 1e-5}[precision]
        np.testing.assert_allclose(found["predict"][:, 0], mean, rtol=rtol)
        np.testing.assert_allclose(found["predict_std"], np.stack([mean, std], 1), rtol=rtol)
        averaged = model.predict_distribution(X).mean
        np.testing.assert_allclose(found["predict_mean"][:, 0], averaged, rtol=rtol)


HOSTILE = [
    "*/ int main(void) { return 1; } /*",
    "??/\n#error",
    "\u202eevil\u2066 \x00\x1b[31m",
    "päßwort 漢字 \U0001f600 \\",
    "x" * 5000,
]


FAR = np.array([[1e6, 0.1, 1e6, 0.0], [1e12, 1e12, 1e12, 1e12], [0.0, 0.0, 0.0, 0.0]])
SOME = {
    ("union", "double"): regression,
    ("rbf", "single"): regression,
    ("gp-matern-5/2", "single"): regression,
    ("two-targets", "double"): regression,
    ("laplacian", "double"): classifier,
    ("columns", "double"): classifier,
    ("three", "double"): classifier,
    ("three-columns", "single"): classifier,
    ("kernel", "double"): count_regression,
}


def compare(program):
    """Run models at inputs near and far, and compare."""
    rows = np.concatenate([data()[2][:3], FAR])
    for (name, precision), made in SOME.items():
        program.add((name, precision), made(name), rows, precision)
    found = program.run()
    for (name, precision), made in SOME.items():
        here, model = found[name, precision], made(name)
        if "predict_proba" in here:
            atol = {"double": 1e-10, "single": 2e-5}[precision]
            proba = model.predict_proba(rows)
            np.testing.assert_allclose(here["predict_proba"], proba, rtol=0, atol=atol)
            codes = here["predict"][:, 0].astype(int)
            assert (model.classes_[codes] == model.predict(rows)).all()
        else:
            expected = model.predict(rows).reshape(len(rows), -1)
            atol = AGREES[precision] * 50 * (1.0 + np.abs(expected).max())
            np.testing.assert_allclose(here["predict"], expected, rtol=0, atol=atol)
    return found


@needs_gcc
class TestOtherCompilers:
    """Sanitizers, optimization and C++, which see what a plain run does not."""

    def test_sanitizers(self, tmp_path):
        flags = ("-fsanitize=undefined,address", "-fno-sanitize-recover=all")
        program = Program(tmp_path, flags)
        unknown = np.full((4, 4), np.nan)
        unknown[1:, :3] = 1.0
        unknown[2:, 3] = np.inf, -np.inf
        known = [name for name in NAMED if name != "linear"] + ["gp-matern-5/2", "gp-periodic"]
        for name in known:
            program.add(name, regression(name), unknown)
        program.add("classes", classifier("rbf"), unknown)
        program.add("several", classifier("three"), unknown)
        program.add("negative", regression("chi2"), -np.ones((1, 4)))
        found = compare(program)
        for name in known:
            for answer in found[name].values():
                assert np.isnan(answer).all(), name
        assert np.isnan(found["classes"]["predict_proba"]).all()
        assert (found["classes"]["predict"] == -1).all()
        assert (found["several"]["predict"] == -1).all()
        assert np.isnan(found["negative"]["predict"]).all()

    @pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
    def test_the_other_language(self, tmp_path):
        compare(Program(tmp_path, (), "g++", "c++11"))

    def test_hostile_names_and_labels(self, tmp_path):
        import pandas as pd

        X = data()[0]
        frame = pd.DataFrame(np.column_stack([X, X[:, 0]]), columns=HOSTILE)
        labels = np.array(['"; *(int *)0 = 1; //', 'a\\"\n??/', "päß 漢字"])
        model = SparseBayesClassifier(prior="flat").fit(frame, labels[np.arange(len(X)) % 3])
        program = Program(tmp_path)
        program.add("model", model, frame.to_numpy()[:2])
        text = (tmp_path / "m0.h").read_text(encoding="utf-8")
        program.run()
        comment = text.split("*/")[0]
        assert comment.count("/*") == 1
        assert "int main(void) { return 1; } / *" in comment
        assert "päßwort 漢字" in comment
        assert "x[4]  xxxxxxxxxx" in comment
        assert max(map(len, comment.split("\n"))) < 120
        assert not set("\u202e\u2066\x00\x1b") & set(text)
        (tmp_path / "labels.c").write_text(
            '#include <stdio.h>\n#include <string.h>\n#include "m0.h"\nint main(void)\n'
            "{ int k; for (k = 0; k < m0_n_classes; k++) "
            "{ fwrite(m0_labels[k], 1, strlen(m0_labels[k]) + 1, stdout); } return 0; }\n"
        )
        program._call(["gcc", *program.flags, "labels.c", "-o", "labels", "-lm"])
        said = program._call([str(tmp_path / "labels")]).split("\0")[:-1]
        assert said == model.classes_.tolist()


@needs_gcc
class TestIntegrals:
    """Averages over latent values of any mean and variance, by the functions of a header."""

    def called(self, folder, model, precision, call, inputs, outputs):
        """Results of a C expression at rows of numbers r, filling out."""
        program = Program(folder)
        export_c(model, folder / "model.h", precision=precision)
        (folder / "rows.bin").write_bytes(np.ascontiguousarray(inputs).tobytes())
        n, d = inputs.shape
        (folder / "call.c").write_text(
            '#include <stdio.h>\n#include "model.h"\n'
            f"static double rows[{n * d}];\nint main(void)\n{{\n"
            f"    model_real r[{d}], out[{outputs}];\n    int i, k;\n"
            '    FILE *file = fopen("rows.bin", "rb");\n'
            "    if (!file || fread(rows, sizeof(rows), 1, file) != 1) return 1;\n"
            f"    for (i = 0; i < {n}; i++) {{\n"
            f"        for (k = 0; k < {d}; k++) r[k] = (model_real)rows[{d} * i + k];\n"
            f"        {call};\n"
            f'        for (k = 0; k < {outputs}; k++) printf("%.17g ", (double)out[k]);\n'
            "    }\n    return 0;\n}\n"
        )
        program._call(["gcc", *program.flags, "-O1", "call.c", "-o", "call", "-lm"])
        values = program._call([str(folder / "call")]).split()
        return np.array(values, dtype=float).reshape(n, outputs)

    @both
    def test_of_the_sigmoid(self, tmp_path, precision):
        means = np.r_[0.0, 1e-3, 0.5, 2.0, 7.0, 20.0, 60.0, 150.0, 1e4]
        variances = np.r_[0.0, 1e-6, 0.1, 0.8, 1.0, 5.0, 15.9, 16.1, 50.0, 400.0, 1e4, 1e8]
        grid = np.array([(m, v) for m in means for v in variances])
        call = "out[0] = model_mean_sigmoid(r[0], r[1])"
        found = self.called(tmp_path, classifier("rbf"), precision, call, grid, 1)[:, 0]
        exact = np.exp(log_mean_sigmoid(grid[:, 0], grid[:, 1])).min(axis=1)
        least, rtol = {"double": (1e-290, 1e-9), "single": (1e-30, 2e-5)}[precision]
        some = exact > least
        assert some.sum() > 80
        np.testing.assert_allclose(found[some], exact[some], rtol=rtol)
        assert (found[~some] <= 1.01 * least).all()

    @both
    @pytest.mark.parametrize(("name", "K"), [("three", 3), ("seven", 7)])
    def test_of_the_softmax(self, tmp_path, name, K, precision):
        rng = np.random.default_rng(K)
        rows = []
        for scale in (0.0, 1e-3, 0.1, 0.5, 1.0, 3.0, 20.0):
            for _ in range(6):
                root = scale * rng.normal(size=(K, K))
                rows.append(np.r_[rng.normal(size=K) * 2, (root @ root.T).ravel()])
        rows.append(np.r_[np.arange(K), np.eye(K).ravel()])  # equal variances: the mean decides
        rows.append(np.r_[1e3 * np.arange(K), 50 * np.eye(K).ravel()])
        for _ in range(4):  # nothing is uncertain but one direction
            direction = rng.normal(size=K)
            rows.append(np.r_[rng.normal(size=K), 3 * np.outer(direction, direction).ravel()])
        rows = np.array(rows)
        call = f"model_mean_softmax(r, r + {K}, out)"
        found = self.called(tmp_path, classifier(name), precision, call, rows, K)
        exact = np.exp(log_mean_softmax(rows[:, :K], rows[:, K:].reshape(-1, K, K)))
        atol = {"double": 1e-10, "single": 1e-4}[precision]
        np.testing.assert_allclose(found, exact, rtol=0, atol=atol)
        np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-6)


class TestSizes:
    def test_of_a_small_classifier(self, tmp_path):
        """Ten atoms of eight inputs: tables below 4 kB, as numbers and as text."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(80, 8))
        model = RVC(gamma=0.2).fit(X, np.sin(2 * X[:, 0]) + np.cos(2 * X[:, 1]) * X[:, 2] > 0)
        posterior = model.posterior_
        first = {name: getattr(posterior, name)[:10] for name in ("norm", "center", "mean")}
        model.posterior_ = replace(
            posterior,
            atoms=posterior.atoms.restrict(posterior.atom[:10]),
            atom=np.arange(10),
            latent=posterior.latent[:10],
            root=posterior.root[:10, :10],
            prior_variance=posterior.prior_variance[:10],
            **first,
        )
        sizes = {p: export_c(model, tmp_path / f"{p}.h", precision=p) for p in PRECISIONS}
        assert sizes["single"].data_bytes < sizes["double"].data_bytes < 1500
        for precision, written in sizes.items():
            text = (tmp_path / f"{precision}.h").read_text()
            assert "atoms: 10 of the kernel rbf" in text
            assert written.source_bytes == len(text.encode())
            assert f"{written.data_bytes} bytes" in text
            assert f"{written.stack_bytes} bytes" in text
            tables = re.findall(r"^static const.*?^};", text, re.MULTILINE | re.DOTALL)
            assert sum(map(len, tables)) < 4096

    @needs_gcc
    def test_data_are_as_large_as_stated(self, tmp_path):
        model = classifier("three")
        written = export_c(model, tmp_path / "model.h")
        names = [
            line.split("[")[0].split()[-1]
            for line in (tmp_path / "model.h").read_text().splitlines()
            if line.startswith("static const") and line.endswith("= {")
        ]
        sizes = " + ".join(f"sizeof({name})" for name in names)
        (tmp_path / "size.c").write_text(
            '#include <stdio.h>\n#include <string.h>\n#include "model.h"\nint main(void)\n'
            f"{{ size_t n = {sizes}; int k; for (k = 0; k < model_n_classes; k++) "
            'n += strlen(model_labels[k]) + 1; printf("%lu", (unsigned long)n); return 0; }\n'
        )
        program = Program(tmp_path)
        program._call(["gcc", *program.flags, "size.c", "-o", "size", "-lm"])
        assert int(program._call([str(tmp_path / "size")])) == written.data_bytes

    def test_inputs_without_effect_take_no_room(self, tmp_path):
        narrow = export_c(regression("rbf-widths"), tmp_path / "narrow.h")
        text = (tmp_path / "narrow.h").read_text()
        assert "x[1]  x1  (not used by the model)" in text
        plan_atoms = len(regression("rbf-widths").weights_)
        assert f"_centers0[{3 * plan_atoms}]" in text
        assert narrow.functions == (
            "model_predict",
            "model_predict_std",
            "model_predict_function_std",
        )


@needs_gcc
class TestPipelines:
    def test_scalers_searches_and_selections(self, tmp_path):
        X, y, T = data()
        X, T = X * [1, 10, 100, 1] + [0, 5, 1000, 0], T * [1, 10, 100, 1] + [0, 5, 1000, 0]
        program = Program(tmp_path)
        models = {
            "robust": make_pipeline(RobustScaler(), RVR(noise_variance=0.02)),
            "max-abs": make_pipeline(MaxAbsScaler(), RVR(noise_variance=0.02)),
            "min-max": make_pipeline(MinMaxScaler(), RVR(noise_variance=0.02)),
            "plain": make_pipeline(
                StandardScaler(with_mean=False, with_std=False), SparseBayesRegressor()
            ),
            "no-mean": make_pipeline(StandardScaler(with_mean=False), RVR(noise_variance=0.02)),
            "no-std": make_pipeline(StandardScaler(with_std=False), SparseBayesRegressor()),
            "nested": make_pipeline(
                make_pipeline("passthrough", StandardScaler()),
                SelectKBest(f_regression, k=2),
                MinMaxScaler((2, 3)),
                RVR(noise_variance=0.02),
            ),
            "search": GridSearchCV(
                make_pipeline(StandardScaler(), RVR(noise_variance=0.02)),
                {"rvr__gamma": [0.2]},
                cv=2,
            ),
        }
        for name, model in models.items():
            program.add(name, model.fit(X, y), T)
        found = program.run()
        for name, model in models.items():
            np.testing.assert_allclose(found[name]["predict"][:, 0], model.predict(T), rtol=1e-9)


def product(X, Z):
    return X @ Z.T


class OwnPoisson(Poisson):
    pass


class OwnScaler(StandardScaler):
    def transform(self, X, copy=None):
        return super().transform(X, copy) ** 2


class OwnLinear(Linear):
    def bind(self, X, *, sample_weight=None, random_state=None):
        atoms = super().bind(X)
        return OwnAtoms(atoms.index, atoms.n_features_in)


class OwnAtoms:
    orthonormal = False

    def __init__(self, index, n_features_in):
        self.index, self.n_features_in = index, n_features_in
        self.size, self.count = len(index), n_features_in

    def evaluate(self, X, out=None):
        values = X[:, self.index]
        if out is None:
            return values
        out[...] = values
        return out

    def restrict(self, indices):
        return OwnAtoms(self.index[indices], self.n_features_in)

    def to_spec(self):
        raise ValueError("not stored")


def _refused():
    X, y, _ = data()
    grid, wave = np.arange(32.0)[:, None], np.repeat([0.0, 3.0], 16) + 0.1 * y[:32]
    labels, counts = y > 1, np.arange(len(y)) % 4
    fitted = {
        "is a Python function": RVR(product, noise_variance=0.02).fit(X, y),
        'kernel="precomputed"': RVR("precomputed", noise_variance=0.02).fit(X @ X.T, y),
        "wavelets are not exported": SparseBayesRegressor(Wavelet("haar")).fit(grid, wave),
        "an Operator is not": SparseBayesRegressor(Operator(X)).fit(np.arange(40.0)[:, None], y),
        "OwnAtoms is code of your own": SparseBayesRegressor(OwnLinear()).fit(X, y),
        "OwnPoisson is code": RVR(likelihood=OwnPoisson()).fit(X, counts),
        "needs a Bessel function": RVR(kernels.Matern(nu=0.7), noise_variance=0.02).fit(X, y),
        "PairwiseKernel kernel": RVR(kernels.PairwiseKernel(metric="rbf"), noise_variance=0.1).fit(
            X, y
        ),
        "holds a PCA": make_pipeline(PCA(2), RVC()).fit(X, labels),
        "OwnScaler": make_pipeline(OwnScaler(), RVC()).fit(X, labels),
        "clip=True": make_pipeline(MinMaxScaler(clip=True), RVC()).fit(X, labels),
        "a LinearRegression is not": LinearRegression().fit(X, y),
        "RVR is not a fitted": RVR(),
        "str is not a fitted": "model.bin",
        "zero character": RVC().fit(X, np.where(labels, "a", "b\0c").astype(object)),
    }
    return fitted.items()


class TestRefusals:
    def test_with_the_reason(self, tmp_path):
        path = tmp_path / "model.h"
        for reason, model in _refused():
            with pytest.raises(ExportError) as caught:
                pytest.fail(f"not refused: {reason} {export_c(model, path)}")
            assert reason in str(caught.value)
            assert "\n" not in str(caught.value)
        assert list(tmp_path.iterdir()) == []

    def test_of_single_precision(self, tmp_path):
        X = np.linspace(-5, 5, 50)[:, None]
        model = RVR(gamma=0.03, noise_variance=1e-6).fit(X, np.sin(X[:, 0]))
        with pytest.raises(ExportError, match="in single precision the terms"):
            export_c(model, tmp_path / "model.h", precision="single")
        export_c(model, tmp_path / "model.h")
        large = SparseBayesRegressor().fit(X, 1e40 * X[:, 0] + 1e39 * np.sin(X[:, 0]))
        with pytest.raises(ExportError, match="outside the range of float"):
            export_c(large, tmp_path / "model.h", precision="single")

    def test_of_arguments(self, tmp_path):
        model = regression("columns")
        for wrong in ("", "2x", "a-b", "x" * 41, "ä", None):
            with pytest.raises(ValueError, match="name must be a C identifier"):
                export_c(model, tmp_path / "model.h", name=wrong)
        with pytest.raises(ValueError, match='"double" or "single"'):
            export_c(model, tmp_path / "model.h", precision="half")
        with pytest.raises(IsADirectoryError):
            export_c(model, tmp_path)
        assert list(tmp_path.iterdir()) == []


def test_what_is_returned(tmp_path):
    written = export_c(classifier("rbf"), tmp_path / "rvc.h", name="rvc")
    assert isinstance(written, CExport)
    assert written.path == str(tmp_path / "rvc.h")
    assert written.functions == ("rvc_predict", "rvc_predict_proba", "rvc_predict_proba_plug_in")
    text = (tmp_path / "rvc.h").read_text()
    assert all(f"{function}(const rvc_real *x" in text for function in written.functions)
    assert '"high", "low"' in text
    again = export_c(classifier("rbf"), tmp_path / "rvc.h", name="rvc")
    assert again == written
    assert (tmp_path / "rvc.h").read_text() == text


@needs_gcc
def test_the_program_of_the_page(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[1] / "docs" / "deployment.md").read_text(encoding="utf-8")
    code = re.search(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)[1]
    program = re.search(r"^```c\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)[1]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.py").write_text(code)
    names = runpy.run_path(str(tmp_path / "page.py"))
    capsys.readouterr()
    (tmp_path / "main.c").write_text(program)
    build = Program(tmp_path)
    build._call(["gcc", *build.flags, "main.c", "-o", "main", "-lm"])
    label, chance = build._call([str(tmp_path / "main")]).split(": ")
    flower = names["X"].iloc[:1].copy()
    flower.iloc[0] = [6.3, 2.8, 5.1, 1.5]
    assert label == str(names["model"].predict(flower)[0])
    assert float(chance) == pytest.approx(names["model"].predict_proba(flower)[0, 1], abs=1e-3)
