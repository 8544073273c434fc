"""Classification from the command line."""

import csv
import io

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

import sparsebayes
from sparsebayes import RVC, SparseBayesClassifier
from sparsebayes._tables import TableError, open_table, read_labels

IRIS = load_iris(as_frame=True)
NAMES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
FRAME = pd.DataFrame(IRIS.data.to_numpy(), columns=NAMES)
SPECIES = IRIS.target_names[IRIS.target]


@pytest.fixture(params=[".csv", ".tsv", ".parquet"])
def data(request, tmp_path):
    path = tmp_path / f"iris{request.param}"
    write(FRAME.assign(species=SPECIES), path)
    return path


@pytest.fixture
def model(tmp_path, run):
    write(FRAME.assign(species=SPECIES), tmp_path / "train.csv")
    path = tmp_path / "iris.model"
    arguments = "--target species --kernel none --quiet --output"
    assert run("fit", tmp_path / "train.csv", *arguments.split(), path) == (0, "", "")
    return path


def write(frame, path):
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


FORMULAS = ["=cmd|' /C calc'!A0", "@SUM(A1)", "-1+2", "+x"]


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", None])
def test_labels_are_no_formulas(run, tmp_path, kind):
    rng = np.random.default_rng(0)
    x, codes = rng.normal(size=80), np.arange(80) % 4
    frame = pd.DataFrame({"x": x + 10 * codes, "name": np.array(FORMULAS)[codes]})
    frame["=id"], frame["low"], frame["sign"] = frame["name"], "-1.5", "-"
    write(frame, tmp_path / "train.csv")
    path = tmp_path / "evil.model"
    arguments = "--target name --features x --kernel none --quiet --output"
    assert run("fit", tmp_path / "train.csv", *arguments.split(), path)[0] == 0
    output = [] if kind is None else ["--output", tmp_path / f"out.{kind}"]
    keep = ["--no-std", "--keep", "=id", "low", "sign"]
    code, out, err = run("predict", path, tmp_path / "train.csv", *keep, *output)
    assert code == 0
    if kind == "parquet":
        table = pd.read_parquet(output[1])
        assert "formula" not in err
        assert set(table["prediction"]) <= set(FORMULAS)
        assert list(table["=id"]) == list(frame["=id"])
        return
    text = out if kind is None else output[1].read_text()
    assert "formula in a spreadsheet" in err
    assert "note: 161 texts" in err  # 80 labels, 80 copies, one name of a column
    table = list(csv.DictReader(io.StringIO(text), delimiter="\t" if kind == "tsv" else ","))
    assert [row["'=id"] for row in table] == [f"'{name}" for name in frame["=id"]]
    assert {row["prediction"] for row in table} <= {f"'{name}" for name in FORMULAS}
    assert {(row["low"], row["sign"]) for row in table} == {("-1.5", "-")}


def test_text_means_classes(run, data, tmp_path):
    path = tmp_path / "iris.model"
    code, out, err = run("fit", data, "--target", "species", "--kernel", "none", "--output", path)
    assert code == 0
    classes, copies = err.splitlines()
    assert classes == "sparsebayes: note: 'species' is text, so its values are taken for classes"
    assert copies.endswith(f"{data}: 1 row is a copy of another: they count like any row")
    for word in ("'setosa', 'versicolor', 'virginica'", "accuracy 0.9", "of 4", "nats"):
        assert word in out
    assert "noise" not in out
    loaded = sparsebayes.load(path)
    assert type(loaded) is SparseBayesClassifier
    assert loaded.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert loaded.feature_names_in_.tolist() == NAMES


def test_predictions_equal_the_estimator(run, data, model):
    code, out, err = run("predict", model, data)
    assert (code, err) == (0, "")
    found = rows(out)
    assert list(found[0]) == [
        "prediction",
        "probability_setosa",
        "probability_versicolor",
        "probability_virginica",
    ]
    want = SparseBayesClassifier(verbose=1).fit(FRAME, SPECIES)
    assert [row["prediction"] for row in found] == want.predict(FRAME).tolist()
    numbers = np.array([[float(text) for text in list(row.values())[1:]] for row in found])
    np.testing.assert_allclose(numbers, want.predict_proba(FRAME), rtol=1e-9)
    code, out, _ = run("predict", model, data, "--no-std")
    assert out.splitlines()[0] == "prediction"
    assert out.splitlines()[1:] == want.predict(FRAME).tolist()


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_output_files(run, model, tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    assert run("predict", model, tmp_path / "train.csv", "--output", path) == (0, "", "")
    table = open_table(str(path))
    assert table.is_text("prediction")
    assert set(read_labels(table, "prediction")) == set(IRIS.target_names)
    p = table.columns(table.names[1:])
    np.testing.assert_allclose(p.sum(axis=1), 1)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_numbers_as_classes(run, tmp_path, suffix):
    path, output = tmp_path / f"numbers{suffix}", tmp_path / "m.model"
    write(FRAME.assign(kind=IRIS.target + 5), path)
    code, out, err = run("fit", path, "--target", "kind", "--kernel", "none", "--output", output)
    assert code == 0
    assert "'kind' holds only 5, 6, 7, which are taken as numbers; --task classification" in err
    assert "R2" in out
    options = ["--kernel", "none", "--task", "classification", "--output", output]
    code, out, err = run("fit", path, "--target", "kind", *options)
    assert code == 0
    assert "taken as numbers" not in err
    assert "classes       5, 6, 7" in out
    classes = sparsebayes.load(output).classes_
    assert classes.dtype == np.int64
    assert {row["prediction"] for row in rows(run("predict", output, path)[1])} == set("567")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_true_and_false_are_classes(run, tmp_path, suffix):
    path, output = tmp_path / f"flags{suffix}", tmp_path / "m.model"
    write(FRAME.assign(versicolor=SPECIES == "versicolor"), path)
    options = ["--kernel", "rbf", "--gamma", 0.2, "--output", output]
    code, _, err = run("fit", path, "--target", "versicolor", *options)
    assert code == 0
    assert "taken for classes" in err
    loaded = sparsebayes.load(output)
    assert type(loaded) is RVC
    assert loaded.gamma == 0.2
    assert loaded.classes_.dtype == bool
    assert list(rows(run("predict", output, path)[1])[0]) == [
        "prediction",
        "probability_False",
        "probability_True",
    ]
    options = ["--task", "regression", "--kernel", "none", "--quiet"]
    assert run("fit", path, "--target", "versicolor", *options) == (0, "", "")


def test_what_does_not_fit_together(fails, tmp_path):
    path = tmp_path / "iris.csv"
    write(FRAME.assign(species=SPECIES), path)
    text = ["fit", path, "--target", "species"]
    fails(*text, "--task", "regression", words=["'species'", "'setosa' is not a number"])
    fails(*text, "--noise-variance", 1, "--quiet", words=["--noise-variance is for regression"])
    both = ["fit", path, "--target", "species", "sepal_width"]
    fails(*both, "--task", "classification", words=["takes one --target"])
    fails(*both, words=["'setosa' is not a number"])
    continuous = ["fit", path, "--target", "sepal_width", "--task", "classification"]
    fails(*continuous, "--drop", "species", "--quiet", words=["continuous"])
    write(FRAME.assign(species="setosa"), path)
    fails(*text, "--quiet", words=["only one class, 'setosa'"])
    gaps = SPECIES.astype(object)
    gaps[3:5] = None
    write(FRAME.assign(species=gaps), path)
    words = ["'species' has 2 missing values, the first in row 4"]
    fails(*text, "--quiet", "--strict", words=words)


def test_an_unknown_task(run):
    code, out, err = run("fit", "d.csv", "--target", "y", "--task", "guess")
    assert (code, out) == (2, "")
    assert "'guess'" in err


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        (["b", "a"], ["b", "a"]),
        (["1", "2"], [1, 2]),
        (["1", "a"], ["1", "a"]),
        (["1.5", "2"], [1.5, 2.0]),
        (["true", "False"], [True, False]),
        (["true", "1"], ["true", "1"]),
        ([" a ", "b"], ["a", "b"]),
        (["99999999999999999999", "1"], ["99999999999999999999", "1"]),
    ],
)
def test_labels_of_a_csv_file(tmp_path, texts, labels):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{i},{text}\n" for i, text in enumerate(texts)))
    found = read_labels(open_table(str(path)), "y")
    assert found.tolist() == labels
    assert found.dtype.kind == np.array(labels).dtype.kind


def test_labels_of_a_table_without_rows(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n")
    table = open_table(str(tmp_path / "t.csv"))
    assert not table.is_text("y")
    with pytest.raises(TableError, match="no rows"):
        read_labels(table, "y")


def test_categories_of_a_parquet_file(run, tmp_path):
    path = tmp_path / "t.parquet"
    write(FRAME.assign(species=pd.Categorical(SPECIES)), path)
    code, out, _ = run("fit", path, "--target", "species", "--kernel", "none")
    assert code == 0
    assert "'setosa', 'versicolor', 'virginica'" in out
