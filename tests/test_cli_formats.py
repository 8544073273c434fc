"""Formats, pipes and predictions: one row of output for each of input."""

import csv
import datetime
import io
import json

import numpy as np
import pandas as pd
import pytest

import sparsebayes
from linear_tables import LINEAR, N, Y, assert_same_model, fit_file, frame
from sparsebayes._tables import open_table

# ---------------------------------------------------------------------------- formats and pipes


@pytest.mark.parametrize("suffix", ["tsv", "parquet", "feather", "arrow", "npy"])
def test_formats(fitted, run, tmp_path, suffix):
    path = tmp_path / f"data.{suffix}"
    data = frame()
    target = "y"
    if suffix == "tsv":
        data.to_csv(path, sep="\t", index=False)
    elif suffix == "npy":
        np.save(path, data.to_numpy())
        target = "-1"
    else:
        getattr(data, "to_parquet" if suffix == "parquet" else "to_feather")(path)
    facts, err, model = fit_file(run, path, target)
    assert err == ""
    assert_same_model(model, facts["features"])
    out = tmp_path / f"out.{suffix}"
    assert run("predict", path.with_suffix(".model"), path, "--output", out) == (0, "", "")
    written = open_table(str(out))
    found = written.columns(written.names)
    model_frame = data[["a", "b"]].set_axis(facts["features"], axis=1)
    np.testing.assert_allclose(found.T, model.predict(model_frame, return_std=True), rtol=1e-12)


def test_pipes(run, stdin, tmp_path, monkeypatch):
    stdin(frame().to_csv(index=False))
    model = tmp_path / "m.model"
    code, out, err = run("fit", "-", "--target", "y", *LINEAR, "--output", model)
    assert (code, err) == (0, "")
    assert out.startswith("y from 2 features of stdin\n")
    stdin(frame().to_csv(index=False))
    code, out, err = run("predict", model, "-", "--output", "-")
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == N + 1
    for kind in "parquet", "feather":
        content = io.BytesIO()
        getattr(frame(), f"to_{kind}")(content)
        stdin(content.getvalue())
        assert run("predict", model, "-", "--format", kind) == (0, out, "")
    stdin("")
    assert run("predict", model, "-") == (1, "", "sparsebayes: error: stdin: the file is empty\n")


def test_a_model_on_stdout(tmp_path, capfdbinary, stdin):
    from sparsebayes.cli import main

    path = tmp_path / "d.csv"
    frame().to_csv(path, index=False)
    assert main(["fit", str(path), "--target", "y", *LINEAR, "--output", "-"]) == 0
    out, err = capfdbinary.readouterr()
    assert err.startswith(b"y from 2 features")
    (tmp_path / "m.model").write_bytes(out)
    assert_same_model(sparsebayes.load(tmp_path / "m.model"))


def test_records(run, tmp_path):
    path = tmp_path / "r.npy"
    np.save(path, frame().to_records(index=False))
    facts, err, model = fit_file(run, path, "y")
    assert err == ""
    assert_same_model(model)
    assert facts["features"] == ["a", "b"]


@pytest.mark.parametrize(
    ("array", "word"),
    [
        (np.zeros((2, 2, 2)), "3 dimensions"),
        (np.array([["a", "b"]]), "column 'x0' holds <U1"),
        (np.zeros((2, 2), dtype=complex), "complex128"),
        (np.array([[None]]), "objects, not numbers"),
    ],
)
def test_arrays_that_are_no_tables(fails, tmp_path, array, word):
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    fails("fit", tmp_path / "a.npy", "--target", "x0", words=["a.npy", word])
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY and nothing else")
    fails("fit", tmp_path / "a.npy", "--target", "x0", words=["a.npy", "not a npy file"])


# ---------------------------------------------------------------------------- predictions


@pytest.fixture
def model(fitted, tmp_path):
    fitted(frame(), *LINEAR)
    return tmp_path / "m.model"


def test_one_row_of_output_for_each_of_input(run, model, tmp_path):
    data = frame(id=[f"{i:03}" for i in range(N)], when=datetime.date(2024, 1, 1)).astype(object)
    data.loc[2, "a"] = None
    data.loc[5, "b"] = "broken"
    data.loc[6, "b"] = "inf"
    path = tmp_path / "new.csv"
    data.to_csv(path, index=False)
    code, out, err = run("predict", model, path, "--keep", "id", "when", "--interval", 0.5)
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == N
    assert list(rows[0]) == ["id", "when", "prediction", "std", "lower", "upper"]
    assert [row["id"] for row in rows] == data["id"].tolist()
    empty = [place for place, row in enumerate(rows) if row["prediction"] == ""]
    assert empty == [2, 5, 6]
    assert all(rows[2][name] == "" for name in ("prediction", "std", "lower", "upper"))
    assert "3 of 40 rows have missing values: their predictions are empty" in err
    assert "'broken' is not a number" in err
    good = sparsebayes.load(model).predict_distribution(frame()[["a", "b"]].iloc[[0]])
    assert float(rows[0]["prediction"]) == pytest.approx(good.mean[0], rel=1e-12)
    low, high = good.interval(0.5)
    assert [float(rows[0][end]) for end in ("lower", "upper")] == pytest.approx([low[0], high[0]])
    for suffix in "parquet", "feather", "csv":
        other = tmp_path / f"out.{suffix}"
        assert run("predict", model, path, "--quiet", "--output", other) == (0, "", "")
        written = open_table(str(other))
        assert np.flatnonzero(np.isnan(written.columns(["prediction"])[:, 0])).tolist() == empty
    strictly = run("predict", model, path, "--strict")
    assert strictly[0] == 1
    assert "'broken'" in strictly[2]


def test_labels_of_rows_with_gaps(fitted, run, tmp_path):
    for kinds in np.where(Y > 0, 7, 8), np.where(Y > 0, "up", "down"), Y > 0:
        fitted(frame(y=kinds), *LINEAR, "--task", "classification")
        data = frame()
        data.loc[1, "a"] = np.nan
        data.to_csv(tmp_path / "new.csv", index=False)
        code, out, _ = run("predict", tmp_path / "m.model", tmp_path / "new.csv")
        assert code == 0
        lines = out.splitlines()
        assert lines[2] == ",,"
        labels = {line.split(",")[0] for line in lines[1:]}
        assert labels == {"", *map(str, np.unique(kinds).tolist())}
        output = tmp_path / "o.parquet"
        run("predict", tmp_path / "m.model", tmp_path / "new.csv", "--output", output)
        assert pd.read_parquet(output)["prediction"].isna().sum() == 1


def test_rows_that_are_all_empty(run, model, tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("a,b\n1,\n,2\n")
    code, out, err = run("predict", model, path)
    assert (code, out) == (0, "prediction,std\n,\n,\n")
    assert "2 of 2 rows" in err


def test_columns_that_are_kept_are_copied_as_they_are(run, model, tmp_path):
    path, names = tmp_path / "new.csv", ["NA", "none", "007", " x", "", "-"]
    frame().head(len(names)).assign(id=names).to_csv(path, index=False)
    code, out, err = run("predict", model, path, "--keep", "id", "--no-std")
    assert (code, err) == (0, "")
    assert [row["id"] for row in csv.DictReader(io.StringIO(out))] == names


def test_what_predict_refuses(fails, run, model, fitted, tmp_path):
    path = tmp_path / "data.csv"
    fails("predict", model, path, "--keep", "idd", words=["--keep", "'idd'", "it has: a, b, y"])
    frame(prediction=1).to_csv(path, index=False)
    fails("predict", model, path, "--keep", "prediction", words=["'prediction' themselves"])
    fails("predict", model, path, "--output", path, words=[path, "would be overwritten"])
    frame(a="text").to_csv(path, index=False)
    fails("predict", model, path, words=["column 'a', row 1 (line 2): 'text' is not a number"])
    fitted(frame(y=np.where(Y > 0, "up", "down")), *LINEAR)
    frame().to_csv(path, index=False)
    fails("predict", model, path, "--interval", 0.9, words=["--interval is for numbers"])
    output = tmp_path / "o.npy"
    fails("predict", model, path, "--output", output, words=[output, "'prediction'", "csv"])
    assert not output.exists()
    assert run("predict", model, path, "--interval", "90")[0] == 2


def test_json_of_predictions(run, model, tmp_path):
    output = tmp_path / "o.csv"
    code, out, err = run("predict", model, tmp_path / "data.csv", "--output", output, "--json")
    assert (code, err) == (0, "")
    facts = json.loads(out)
    assert (facts["rows"], facts["predicted"], facts["output"]) == (N, N, str(output))
    code, out, err = run("predict", model, tmp_path / "data.csv", "--json")
    assert out.startswith("prediction,std\n")
    assert json.loads(err)["rows"] == N
