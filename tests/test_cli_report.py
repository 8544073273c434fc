"""`sparsebayes report`: a model and a table to a page."""

import json

import numpy as np
import pandas as pd
import pytest

import sparsebayes
from report_page import Page
from sparsebayes import RVR, SparseBayesClassifier
from sparsebayes.persistence import save


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two models, and tables of rows that they were not fitted to."""
    place = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(-3, 3, size=(120, 2)), columns=["size", "age"])
    frame["price"] = np.sin(frame["size"]) + 0.1 * rng.normal(size=120)
    frame["kind"] = np.where(frame["size"] + 0.3 * rng.normal(size=120) > 0, "big", "small")
    old, new = frame[:80], frame[80:].copy()
    X = old[["size", "age"]]
    save(RVR(gamma=0.5).fit(X, old["price"]), place / "price.model", target_names=("price",))
    save(SparseBayesClassifier().fit(X, old["kind"]), place / "kind.model", target_names=("kind",))
    old.to_csv(place / "old.csv", index=False)
    new.to_csv(place / "new.csv", index=False)
    new.loc[[85, 90], "age"] = np.nan
    new.to_csv(place / "gaps.csv", index=False)
    new.drop(columns=["price", "kind"]).to_csv(place / "inputs.csv", index=False)
    return place


def text_of(path):
    return Page(path.read_text(encoding="utf-8")).text


def test_a_regression(run, folder, tmp_path):
    path = tmp_path / "price.html"
    model, data = folder / "price.model", folder / "new.csv"
    code, out, err = run("report", model, data, "--output", path, "--note", "Two years old.")
    assert (code, err) == (0, "")
    frame = pd.read_csv(data)
    mean = sparsebayes.load(model).predict(frame[["size", "age"]])
    error = np.sqrt(np.mean((mean - frame["price"]) ** 2))
    assert f"RMSE {error:.4g}, R2 0.9" in out
    assert str(path) in out
    text = text_of(path)
    for words in ("price: a regression by RVR", "Two years old.", f"RMSE{error:.4g}", "size"):
        assert words in text


def test_a_classification_as_json(run, folder, tmp_path):
    path = tmp_path / "kind.html"
    arguments = ("report", folder / "kind.model", folder / "new.csv", "--output", path, "--json")
    code, out, err = run(*arguments, "--training", folder / "old.csv", "--title", "<Kinds>")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["held_out_rows"] == 40
    assert found["quality"]["accuracy"] > 0.7
    assert found["warnings"] == []
    assert found["report"] == str(path)
    text = text_of(path)
    assert "<Kinds>" in text
    assert "It was fitted to 80 rows." in text


def test_rows_with_gaps_are_left_out_and_the_others_keep_their_numbers(run, folder, tmp_path):
    path = tmp_path / "gaps.html"
    code, _, err = run("report", folder / "price.model", folder / "gaps.csv", "--output", path)
    assert code == 0
    assert "2 rows with missing values left out" in err
    page = Page(path.read_text(encoding="utf-8"))
    assert "2 rows with missing values left out" in page.text
    rows = [int(row) for row in page.column("target-0-rows", "row")]
    assert rows == [row for row in range(1, 41) if row not in (6, 11)]
    shown = [float(value) for value in page.column("target-0-rows", "observed")]
    prices = pd.read_csv(folder / "gaps.csv")["price"].to_numpy()
    np.testing.assert_allclose(shown, prices[np.array(rows) - 1], rtol=1e-3, atol=1e-12)


def test_without_targets_or_data(run, folder, tmp_path):
    path = tmp_path / "price.html"
    model = folder / "price.model"
    code, _, err = run("report", model, folder / "inputs.csv", "--output", path)
    assert code == 0
    assert "no column of the target" in err
    assert "without their targets" in text_of(path)
    code, out, err = run("report", model, "--output", path, "--quiet")
    assert (code, out, err) == (0, "", "")
    assert "No held-out data were given" in text_of(path)


def test_stdin_and_stdout(run, folder, stdin):
    stdin((folder / "new.csv").read_bytes())
    code, out, err = run("report", folder / "price.model", "-", "--output", "-")
    assert code == 0
    assert "RMSE" in Page(out).text
    assert "quality" in err


def test_errors(fails, folder, tmp_path):
    out = ("--output", tmp_path / "report.html")
    model, data = folder / "price.model", folder / "new.csv"
    fails("report", tmp_path / "no.model", data, *out, words=["no.model"])
    fails("report", tmp_path, data, *out, words=["is a directory"])
    fails("report", data, data, *out, words=["not a sparsebayes model file"])
    fails("report", model, tmp_path / "no.csv", *out, words=["no.csv: no such file"])
    fails("report", model, data, *out, "--target", "prize", words=["prize", "'price'"])
    fails("report", model, folder / "gaps.csv", *out, "--strict", words=["age", "missing", "row 6"])
    fails("report", model, data, "--output", data, words=["would be overwritten"])
    fails("report", model, data, "--output", tmp_path / "no" / "x.html", words=["no such folder"])
    (tmp_path / "other.csv").write_text("size,height\n1,2\n3,4\n")
    fails("report", model, tmp_path / "other.csv", *out, words=["'age'", "price.model"])
    assert not (tmp_path / "report.html").exists()


def test_stdin_can_be_read_once(fails, folder, tmp_path):
    options = ("-", "--training", "-", "--output", tmp_path / "price.html")
    words = ["stdin can be read once: DATA and --training are both -"]
    fails("report", folder / "price.model", *options, words=words)
