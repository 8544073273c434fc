import csv
import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sparsebayes
from sparsebayes import RVR, SparseBayesRegressor
from sparsebayes._tables import open_table
from sparsebayes.datasets import sinc, sparse_linear

SINC = sinc(60, random_state=0)


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.csv"
    pd.DataFrame({"x": SINC.X[:, 0], "y": SINC.y, "z": 2 * SINC.y + 1}).to_csv(path, index=False)
    return path


@pytest.fixture
def model(tmp_path, data, run):
    path = tmp_path / "sinc.model"
    code, _, err = run(
        "fit", data, "--target", "y", "--drop", "z", "--gamma", 0.1, "--output", path
    )
    assert (code, err) == (0, "")
    return path


def table(text):
    rows = list(csv.reader(io.StringIO(text)))
    return rows[0], np.array(rows[1:], dtype=float)


# ---------------------------------------------------------------------------- what works


def test_fit_and_predict_equal_the_estimator(run, data, model):
    code, out, err = run("predict", model, data)
    assert (code, err) == (0, "")
    names, numbers = table(out)
    assert names == ["prediction", "std"]
    expected = RVR(gamma=0.1).fit(SINC.X, SINC.y).predict(SINC.X, return_std=True)
    np.testing.assert_allclose(numbers.T, expected, rtol=1e-12)


def test_summary(run, data, tmp_path):
    code, out, err = run("fit", data, "--target", "y", "--features", "x", "--gamma", "0.1")
    assert (code, err) == (0, "")
    reference = RVR(gamma=0.1).fit(SINC.X, SINC.y)
    assert f"{len(reference.relevance_)} of 60" in out
    assert f"{np.sqrt(reference.noise_variance_):.4g}" in out
    assert f"{reference.log_marginal_likelihood_:.3f}" in out
    assert "nats" in out
    assert "not saved" in out
    assert list(tmp_path.iterdir()) == [data]


def test_quiet(run, data, tmp_path):
    output = tmp_path / "m.model"
    options = ["--features", "x", "--output", output, "--quiet"]
    assert run("fit", data, "--target", "y", *options) == (0, "", "")
    assert output.exists()


def test_options_reach_the_estimator(run, data, tmp_path):
    path = tmp_path / "m.model"
    options = "--kernel polynomial --gamma 0.05 --degree 5 --prior 1.5 --noise-variance 0.02"
    options += " --solver sequential --seed 7"
    code, _, _ = run("fit", data, "--target", "y", *options.split(), "--output", path)
    assert code == 0
    loaded = sparsebayes.load(path)
    assert isinstance(loaded, RVR)
    assert (
        loaded.get_params()
        == RVR(
            "polynomial",
            gamma=0.05,
            degree=5,
            prior=1.5,
            noise_variance=0.02,
            solver="sequential",
            random_state=7,
            verbose=1,
        ).get_params()
    )
    assert loaded.feature_names_in_.tolist() == ["x", "z"]


def test_one_gamma_for_each_feature(run, data, tmp_path):
    path = tmp_path / "m.model"
    code, _, err = run("fit", data, "--target", "y", "--gamma", "0.1,0.001", "--output", path)
    assert (code, err) == (0, "")
    assert list(sparsebayes.load(path).gamma) == [0.1, 0.001]


def test_linear(run, tmp_path):
    problem = sparse_linear(80, 12, 3, random_state=0)
    names = [f"f{j}" for j in range(12)]
    path = tmp_path / "linear.parquet"
    pd.DataFrame(problem.X, columns=names).assign(target=problem.y).to_parquet(path)
    output = tmp_path / "m.model"
    code, out, err = run("fit", path, "--target", "target", "--kernel", "none", "--output", output)
    assert (code, err) == (0, "")
    assert "of 12" in out
    loaded = sparsebayes.load(output)
    assert type(loaded) is SparseBayesRegressor
    np.testing.assert_array_equal(loaded.coef_ != 0, problem.weights != 0)


def test_several_targets(run, data, tmp_path):
    path = tmp_path / "m.model"
    code, _, err = run("fit", data, "--target", "y", "z", "--output", path)
    assert (code, err) == (0, "")
    names, numbers = table(run("predict", path, data)[1])
    assert names == ["prediction_y", "std_y", "prediction_z", "std_z"]
    loaded = sparsebayes.load(path)
    frame = pd.DataFrame({"x": SINC.X[:, 0]})
    np.testing.assert_array_equal(numbers[:, [0, 2]], loaded.predict(frame))
    names, _ = table(run("predict", path, data, "--no-std")[1])
    assert names == ["prediction_y", "prediction_z"]


def test_columns_are_found_by_name(run, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc"))
    frame["y"] = 3 * frame["a"] - frame["c"] + 0.1 * rng.normal(size=40)
    frame.to_csv(tmp_path / "train.csv", index=False)
    mixed = frame[["y", "c", "b", "a"]].assign(name="text is ignored")
    mixed.to_csv(tmp_path / "mixed.csv", index=False)
    path = tmp_path / "m.model"
    run("fit", tmp_path / "train.csv", "--target", "y", "--kernel", "none", "--output", path)
    same = [run("predict", path, tmp_path / name)[1] for name in ("train.csv", "mixed.csv")]
    assert same[0] == same[1]
    assert len(same[0].splitlines()) == 41


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_output_files(run, data, model, tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    assert run("predict", model, data, "--output", path) == (0, "", "")
    written = open_table(str(path))
    assert written.names == ["prediction", "std"]
    _, numbers = table(run("predict", model, data)[1])
    np.testing.assert_array_equal(written.columns(written.names), numbers)


def test_model_without_feature_names(run, data, tmp_path):
    RVR(gamma=0.1).fit(SINC.X, SINC.y).save(tmp_path / "m.model")
    pd.DataFrame({"anything": SINC.X[:, 0]}).to_csv(tmp_path / "one.csv", index=False)
    code, out, err = run("predict", tmp_path / "m.model", tmp_path / "one.csv")
    assert code == 0
    assert err.startswith("sparsebayes: note: ")
    assert len(out.splitlines()) == 61
    code, out, err = run("predict", tmp_path / "m.model", data)
    assert (code, out) == (1, "")
    assert "3 columns, but the model was fitted to 1 feature without names" in err


def test_demo(run, tmp_path):
    picture = tmp_path / "demo.png"
    code, out, err = run("demo", "--output", picture)
    assert (code, err) == (0, "")
    assert picture.read_bytes().startswith(b"\x89PNG")
    for word in ("of 100", "true: 0.1", "log evidence", "nats", "RMSE 0.0", " s\n", str(picture)):
        assert word in out
    assert run("demo", "--output", picture, "--seed", 1)[1] != out


def test_demo_without_matplotlib(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = run("demo", "--output", tmp_path / "demo.png")
    assert (code, err) == (0, "")
    assert 'pip install "sparsebayes[plot]"' in out
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------------- usage


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["predict", "-h"]])
def test_help(run, arguments):
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    assert "examples:\n" in out
    assert max(map(len, out.splitlines())) <= 82


def test_version(run):
    assert run("--version") == (0, f"sparsebayes {sparsebayes.__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "COMMAND"),
        (["paint"], "paint"),
        (["fit", "data.csv"], "--target"),
        (["fit", "--target", "y", "data.csv"], "put DATA before --target"),
        (["fit", "d.csv", "--target", "y", "--noise-variance", "-1"], "'-1' is not a number above"),
        (["fit", "d.csv", "--target", "y", "--noise-variance", "x"], "'x' is not a number above"),
        (["fit", "d.csv", "--target", "y", "--degree", "x"], "--degree"),
        (["fit", "d.csv", "--target", "y", "--seed", "-3"], "--seed"),
        (["fit", "d.csv", "--target", "y", "--gamma", "1,x"], "'1,x' is not a list of numbers"),
        (["predict", "m.model"], "DATA"),
        (["demo", "--seed", "1.5"], "'1.5' is not an integer"),
    ],
)
def test_wrong_usage(run, arguments, word):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("usage: ")
    assert word in err


# ---------------------------------------------------------------------------- trouble with data


def test_bad_files(fails, tmp_path, data):
    missing = tmp_path / "missing.csv"
    fails("fit", missing, "--target", "y", words=[missing, "no such file"])
    fails("fit", tmp_path, "--target", "y", words=[tmp_path, "no parquet file"])
    empty = tmp_path / "empty.csv"
    empty.touch()
    fails("fit", empty, "--target", "y", words=[empty, "empty"])
    book = tmp_path / "book.xlsx"
    book.touch()
    fails("fit", book, "--target", "y", words=[book, ".xlsx", ".parquet"])


def test_bad_columns(fails, tmp_path, data):
    fails("fit", data, "--target", "Y", words=["--target", "'Y'", "did you mean 'y'?"])
    fails("fit", data, "--target", "price", words=["'price'", "it has: x, y, z"])
    fails(
        "fit", data, "--target", "y", "--features", "x", "zz", words=["--features", "'zz'", "'z'"]
    )
    fails("fit", data, "--target", "y", "--drop", "q", words=["--drop", "'q'"])
    fails("fit", data, "--target", "y", "y", words=["'y' twice"])
    fails("fit", data, "--target", "y", "--features", "y", words=["both --features and --target"])
    fails("fit", data, "--target", "x", "y", "z", words=["no column is left"])
    twice = tmp_path / "twice.csv"
    twice.write_text("a,a,y\n1,2,3\n4,5,6\n")
    strictly = ["--target", "y", "--strict"]
    fails("fit", twice, *strictly, words=[twice, "'a' appears more than once"])
    index = tmp_path / "index.csv"
    pd.DataFrame({"a": [1.0, 2], "y": [1.0, 2]}).to_csv(index)
    fails("fit", index, *strictly, words=[index, "column 1 has no name", "--drop"])


def test_bad_values(fails, run, tmp_path, model):
    text = tmp_path / "text.csv"
    text.write_text("x,name,y\n1,2,3\n4,Anna,6\n")
    strictly = ["--target", "y", "--strict"]
    fails("fit", text, *strictly, words=[text, "'name'", "row 2", "line 3", "'Anna'"])
    assert run("fit", text, *strictly, "--drop", "name")[0] == 0
    gaps = tmp_path / "gaps.csv"
    gaps.write_text("x,y\n1,1\n,2\n,3\n4,4\n")
    fails("fit", gaps, *strictly, words=[gaps, "'x' has 2 missing values", "row 2"])
    fails("predict", model, gaps, "--strict", words=[gaps, "'x' has 2 missing values"])
    fails("fit", gaps, "--target", "x", "--strict", words=["'x' has 2 missing values"])
    one = tmp_path / "one.csv"
    one.write_text("x,y\n1,1\n")
    fails("fit", one, "--target", "y", words=[one, "1 row of data", "at least 2"])
    none = tmp_path / "none.csv"
    none.write_text("x,y\n")
    fails("fit", none, "--target", "y", words=[none, "no rows"])
    fails("predict", model, none, words=[none, "no rows"])


def test_bad_model_options(fails, data):
    fails("fit", data, "--target", "y", "--kernel", "rfb", words=["kernel", "rfb"])
    fails("fit", data, "--target", "y", "--prior", "strong", words=["prior", "strong"])
    fails("fit", data, "--target", "y", "--solver", "magic", words=["solver", "magic"])
    fails("fit", data, "--target", "y", "--gamma", "wide", words=["gamma", "wide"])
    fails("fit", data, "--target", "y", "--gamma", "-1", words=["gamma", "-1"])


def test_bad_models(fails, data, model, tmp_path):
    missing = tmp_path / "missing.model"
    fails("predict", missing, data, words=[missing, "No such file"])
    fails("predict", tmp_path, data, words=[tmp_path, "is a directory"])
    fails("predict", data, data, words=[data, "is not a sparsebayes model file"])
    short = tmp_path / "short.model"
    short.write_bytes(model.read_bytes()[:500])
    fails("predict", short, data, words=[short, "truncated"])
    newer = tmp_path / "newer.model"
    content = model.read_bytes()
    assert content.count(b'"format_version": 1,') == 1
    rewrite(model, newer, b'"format_version": 1,', b'"format_version": 3,')
    fails("predict", newer, data, words=[newer, "format 3", "pip install --upgrade sparsebayes"])


def rewrite(source, target, old, new):
    import zipfile

    with zipfile.ZipFile(source) as archive, zipfile.ZipFile(target, "w") as changed:
        for name in archive.namelist():
            changed.writestr(name, archive.read(name).replace(old, new))


def test_predict_needs_the_models_features(fails, model, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("X,y\n1,2\n")
    fails("predict", model, other, words=[other, "no column 'x'", model, "did you mean 'X'?"])


def test_bad_outputs(fails, run, data, model, tmp_path):
    nowhere = tmp_path / "nowhere" / "out"
    for path, word in [
        (nowhere.with_suffix(".csv"), "no such folder"),
        (tmp_path / "out.xlsx", "unknown suffix '.xlsx'"),
        (tmp_path / "out", "no suffix"),
    ]:
        fails("predict", model, data, "--output", path, words=[path, word])
    fails("fit", data, "--target", "y", "--output", nowhere, words=[nowhere, "no such folder"])
    fails("fit", data, "--target", "y", "--output", tmp_path, words=[tmp_path, "is a directory"])
    fails("demo", "--output", tmp_path / "demo.txt", words=["demo.txt", ".png"])
    fails("demo", "--output", nowhere.with_suffix(".png"), words=["no such folder"])


def test_failed_predictions_leave_the_old_file(fails, data, model, tmp_path, monkeypatch):
    path = tmp_path / "out.csv"
    path.write_text("old")

    def full(_):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(os, "fsync", full)
    fails("predict", model, data, "--output", path, words=[path, "No space left on device"])
    assert path.read_text() == "old"
    assert not list(tmp_path.glob(".*"))


# ---------------------------------------------------------------------------- as a process


def environment():
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}


def python(code, *arguments):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment())


def test_help_imports_nothing_heavy():
    code = """
import sys
from sparsebayes.cli import main
try:
    main(["--help"])
except SystemExit:
    print(sorted({"numpy", "scipy", "sklearn", "pandas"} & set(sys.modules)))
"""
    done = python(code)
    assert done.stderr == ""
    assert done.stdout.endswith("[]\n")


def test_the_installed_command(data, model, tmp_path):
    script = Path(sys.executable).with_name("sparsebayes")
    if not script.exists():
        pytest.skip("sparsebayes is not installed in this environment")
    done = subprocess.run([script, "predict", model, data], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 61
    done = subprocess.run([script, "predict", data, data], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1


BARE = """
import sys

class Absent:
    def find_spec(self, name, *_):
        if name.split(".")[0] in ("pandas", "pyarrow", "polars", "matplotlib"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
from sparsebayes.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_csv_needs_no_pandas_and_a_broken_pipe_is_no_error(model, tmp_path):
    path = tmp_path / "long.csv"
    pd.DataFrame({"x": np.linspace(-10, 10, 20_000)}).to_csv(path, index=False)
    process = subprocess.Popen(
        [sys.executable, "-c", BARE, "predict", str(model), str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout.readline() == b"prediction,std\n"
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 141
    assert errors == b""


def test_interruption(run, data, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(RVR, "fit", interrupt)
    assert run("fit", data, "--target", "y") == (130, "", "sparsebayes: interrupted\n")
