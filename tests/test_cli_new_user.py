"""As a new user would: a file with all that real files have, in one command, with its report."""

import csv
import datetime
import json

import numpy as np
import pytest

import sparsebayes

N = 6_000
GAPS = N // 100 + 1  # rows without a value of some feature


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Dates, text, gaps, a constant, a column that is mostly empty, copies and an odd word."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 3))
    area = rng.lognormal(5, 1, N)
    y = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] + 0.3 * np.log(area) + 0.2 * rng.normal(size=N)
    path = tmp_path_factory.mktemp("user") / "houses.csv"
    first = datetime.date(2015, 1, 1)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        names = ["sold", "town", "country", "a", "b", "c", "area", "pool", "price"]
        writer.writerow(names)
        for i in range(N):
            writer.writerow(
                [
                    first + datetime.timedelta(days=i % 3000),
                    ("Zürich", "Oslo", "São Paulo")[i % 3],
                    1,
                    *x[i].round(6),
                    "unknown" if i == 17 else round(area[i], 2),
                    "" if i % 3 else 1.5,
                    "" if i % 1000 == 5 else round(y[i], 6),
                ][: len(names)]
                if i % 100
                else ["", "Oslo", 1, "", *x[i, 1:], area[i], "", y[i]]
            )
    return path


def test_each_problem_gets_a_sentence(run, file, tmp_path):
    model, report = tmp_path / "m.model", tmp_path / "report.html"
    options = ["--target", "price", "--centers", 30, "--test", 0.2, "--json"]
    code, out, err = run("fit", file, *options, "--output", model, "--report", report)
    assert code == 0
    assert "Traceback" not in err
    facts = json.loads(out)
    assert facts["features"] == ["a", "b", "c", "area"]
    words = [
        ["column 'area', row 18 (line 19): 'unknown' is not a number: taken as missing"],
        ["column 'sold' holds dates (row 2 (line 3): '2015-01-02'): left out"],
        ["column 'town' holds text (row 1 (line 2): 'Oslo'): left out"],
        [f"column 'pool' has no value in {N // 1500}", f"of {N} rows: left out"],
        ["column 'country' is constant: left out"],
        [f"{N // 1000} rows have no target ('price'), the first row 6: left out"],
        [f"{GAPS} of {N} rows have missing values, most of them in column 'a' ({GAPS - 1}): left"],
        ["scales of features differ", "'area'", "each has its own gamma"],
    ]
    assert len(facts["notes"]) == len(words)
    for note, expected in zip(facts["notes"], words, strict=True):
        assert f"sparsebayes: note: {note}\n" in err
        for word in expected:
            assert word in note
    assert facts["rows"] + facts["test"]["rows"] == N - N // 1000 - GAPS
    assert facts["test"]["rows"] == pytest.approx(0.2 * (N - N // 1000 - GAPS), abs=1)
    assert facts["test"]["r2"] > 0.5
    html = report.read_text(encoding="utf-8")
    assert html.startswith("<!DOCTYPE html>")
    assert "holds dates" in html
    loaded = sparsebayes.load(model)
    assert loaded.feature_names_in_.tolist() == ["a", "b", "c", "area"]
    output = tmp_path / "out.csv"
    assert run("predict", model, file, "--output", output, "--quiet") == (0, "", "")
    with open(output, encoding="utf-8") as lines:
        rows = list(csv.reader(lines))
    assert len(rows) == N + 1
    assert sum(row[0] == "" for row in rows) == GAPS


def test_many_rows_get_fewer_basis_functions(fitted, monkeypatch):
    from linear_tables import frame
    from sparsebayes.commands import _fit_model

    monkeypatch.setattr(_fit_model, "_MOST_ROWS", 30)
    monkeypatch.setattr(_fit_model, "_CENTERS", 12)
    monkeypatch.setattr(_fit_model, "_CENTERS_OF_CLASSES", 24)
    facts, _, _ = fitted(frame())
    assert facts["of_atoms"] == 12
    (note,) = facts["notes"]
    assert "more than 30 rows (40): 12 basis functions are at centers of clusters" in note
    kinds = frame()["y"].rank() // 14
    facts, _, _ = fitted(frame(y=kinds), "--task", "classification")
    assert facts["of_atoms"] == 24 // 3
    facts, _, _ = fitted(frame(y=kinds > 1))
    assert facts["of_atoms"] == 24
    facts, _, _ = fitted(frame(), "--centers", 20)
    assert (facts["of_atoms"], facts["notes"]) == (20, [])
    facts, _, _ = fitted(frame(), "--kernel", "none")
    assert facts["notes"] == []
