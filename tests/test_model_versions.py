"""Model files of other versions: older and newer ones are read, or refused with what to do.

The files in tests/data were written by the first revisions that could: ``first-kernel`` and
``first-union`` when there were regressors only, ``first-classes`` and ``first-counts`` with the
first classifiers. What these predicted is beside them.
"""

import io
import json
import re
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process import kernels

import sparsebayes
from sparsebayes import RVC, RVR, SparseBayesRegressor
from sparsebayes.dictionaries import (
    Bias,
    Kernel,
    Linear,
    Operator,
    StationaryWavelet,
    Wavelet,
)
from sparsebayes.persistence import ModelFileError, load, read_model, save

DATA = Path(__file__).parent / "data"
FIRST = sorted(path.stem for path in DATA.glob("first-*.model"))


@pytest.fixture(scope="module")
def before():
    return json.loads((DATA / "first-models.json").read_text())


def predictions(model, X):
    """What a model says, under the names in the file beside the models."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        if hasattr(model, "classes_"):
            return {
                "plug_in": model.predict_proba(X, plug_in=True),
                "averaged": model.predict_proba(X),
            }
        forecast = model.predict_distribution(X)
        return {"mean": forecast.mean, "std": forecast.std}


def agree(found, expected):
    """Compare predictions of two versions."""
    assert found.keys() == expected.keys()
    for key, values in found.items():
        # Averages over the weights of several classes have become more precise.
        error = 1e-3 if key == "averaged" else 1e-12
        np.testing.assert_allclose(values, expected[key], rtol=1e-9, atol=error)


def rewritten(source, target, change):
    """Copy a model file; `change` works on the header and the members."""
    with zipfile.ZipFile(source) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["model.json"])
    change(header, members)
    members["model.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return target


def test_there_are_files_of_every_kind():
    assert FIRST == ["first-classes", "first-counts", "first-kernel", "first-union"]


@pytest.mark.parametrize("name", FIRST)
def test_the_first_files_are_read(name, before, tmp_path):
    stored = read_model(DATA / f"{name}.model")
    assert (stored.version, stored.format_version) == ("0.1.0", 1)
    agree(predictions(stored.model, before["inputs"]), before[name])
    # A file of today's kind holds the same.
    save(stored.model, tmp_path / "again.model", target_names=stored.target_names)
    again = read_model(tmp_path / "again.model")
    assert again.target_names == stored.target_names
    found, expected = (
        predictions(model, before["inputs"]) for model in (again.model, stored.model)
    )
    for key in expected:
        np.testing.assert_array_equal(found[key], expected[key])


def test_what_the_first_files_say_besides():
    stored = read_model(DATA / "first-kernel.model")
    assert stored.target_names == ("heat",)
    assert stored.model.feature_names_in_.tolist() == ["speed", "load [kg]"]
    assert stored.model.gamma == 0.5
    assert len(stored.model.relevance_) == 13
    assert stored.model.certificate_.max_gain < 1e-12
    assert stored.model.certificate_.fraction == 1.0
    assert not hasattr(stored.model, "log_posterior_")
    assert load(DATA / "first-classes.model").classes_.tolist() == ["0", "1", "2"]


def of_the_future(header, members):
    """What a newer version of the same format may add."""
    header["sparsebayes_version"] = "0.7.1.dev3"
    header["written_on"] = {"day": 3}
    header["fitted"]["surprise_"] = [1, 2]
    header["fitted"]["certificate_"]["surprise"] = 0.5
    header["posterior"]["surprise"] = "x"
    header["posterior"]["atoms"]["surprise"] = None
    header["arrays"].append("surprise")
    buffer = io.BytesIO()
    np.save(buffer, np.arange(3.0))
    members["arrays/surprise.npy"] = buffer.getvalue()


@pytest.mark.parametrize("name", FIRST)
def test_a_newer_version_that_adds_something(name, before, tmp_path):
    path = rewritten(DATA / f"{name}.model", tmp_path / "newer.model", of_the_future)
    stored = read_model(path)
    assert stored.version == "0.7.1.dev3"
    agree(predictions(stored.model, before["inputs"]), before[name])


def with_new_parameters(header, members):
    header["parameters"]["swiftness"] = 3
    header["parameters"]["prior"] = {"$": "Horseshoe", "parameters": {"scale": 1.0}}


def test_parameters_of_a_newer_version_are_left_out_with_a_warning(before, tmp_path):
    def change(header, members):
        of_the_future(header, members)
        with_new_parameters(header, members)

    path = rewritten(DATA / "first-kernel.model", tmp_path / "newer.model", change)
    with pytest.warns(UserWarning, match=r"0\.7\.1\.dev3, .* does not know prior, swiftness") as w:
        model = load(path)
    assert len(w) == 1
    assert model.prior == "auto"
    agree(predictions(model, before["inputs"]), before["first-kernel"])


@pytest.mark.parametrize("version", [sparsebayes.__version__, "0.0.9", "", None, 7, "newest"])
def test_such_parameters_of_a_version_that_is_not_newer_are_damage(tmp_path, version):
    def change(header, members):
        header["sparsebayes_version"] = version
        with_new_parameters(header, members)

    path = rewritten(DATA / "first-kernel.model", tmp_path / "odd.model", change)
    with pytest.raises(ModelFileError, match="is damaged") as caught:
        load(path)
    assert "upgrade" not in str(caught.value)


def unknown_atoms(header, members):
    header["posterior"]["atoms"]["kind"] = "splines"


def unknown_estimator(header, members):
    header["estimator"] = "SparseBayesRanker"


def unknown_likelihood(header, members):
    header["fitted"]["likelihood_"] = {"$": "Weibull", "parameters": {}}


@pytest.mark.parametrize("change", [unknown_atoms, unknown_estimator, unknown_likelihood])
def test_what_only_a_newer_version_can_read(change, tmp_path):
    def newer(header, members):
        header["sparsebayes_version"] = "1.2"
        change(header, members)

    path = rewritten(DATA / "first-counts.model", tmp_path / "newer.model", newer)
    with pytest.raises(ModelFileError) as caught:
        load(path)
    text = str(caught.value)
    assert text.startswith(str(path))
    assert text.endswith("it is of sparsebayes 1.2: pip install --upgrade sparsebayes")
    assert "\n" not in text


def described(header):
    """Names of everything in a header but parameters of constructors and texts of users."""
    yield from header
    yield from header["fitted"]
    yield from header["fitted"]["certificate_"]
    yield from header["fitted"].get("classes_") or {}
    yield from header["posterior"]
    yield from header["posterior"].get("evidence") or {}
    atoms = [header["posterior"]["atoms"]]
    for some in atoms:
        atoms += some.get("parts", [])
        yield from some
        yield some["kind"]
        yield from some["kernel"] if isinstance(some.get("kernel"), dict) else ()
    for name in header["arrays"]:
        yield name.rpartition(".")[2]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_page_describes_every_name_in_a_file(tmp_path):
    page = Path(__file__).parents[1] / "docs" / "model-files.md"
    known = set(re.findall(r"`\"?([\w-]+)\"?`", page.read_text()))
    grid = np.arange(16.0)[:, None]
    signal = np.sin(grid[:, 0]) + np.random.default_rng(0).normal(size=16)
    models = [
        RVR().fit(grid, signal),
        RVR(kernels.RBF(2.0), gamma="evidence", noise_variance=1.0).fit(grid, signal),
        RVR(gamma=[0.1], noise_variance=1.0).fit(sp.csr_matrix(grid), signal),
        RVC(kernel="precomputed").fit(grid @ grid.T + 1, np.arange(16) % 3),
        SparseBayesRegressor(Bias() + Linear() + Kernel()).fit(grid, signal),
        SparseBayesRegressor(Wavelet("haar")).fit(grid, signal),
        SparseBayesRegressor(StationaryWavelet("haar")).fit(grid, signal),
        SparseBayesRegressor(Operator(np.eye(16) + 0.1)).fit(grid, signal),
        SparseBayesRegressor(likelihood="poisson").fit(grid, np.arange(16) % 4),
    ]
    for model in models:
        save(model, tmp_path / "any.model")
        with zipfile.ZipFile(tmp_path / "any.model") as archive:
            header = json.loads(archive.read("model.json"))
        assert set(described(header)) <= known
