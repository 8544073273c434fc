"""Golden results: fits kept, and compared with those of a later revision."""

import json
import sys

import numpy as np
import pytest

from benchmarks import golden
from benchmarks._harness import Report, environment

OLD = {
    "family": "sinc",
    "fit": "a",
    "objective": 10.0,
    "error": 0.2,
    "coverage": 0.9,
    "atoms": 7,
    "CPU s": 2.0,
    "status": "CONVERGED",
    "messages": [],
}


def test_what_changed_is_told_by_family():
    worse = OLD | {"fit": "b", "objective": 7.0, "error": 0.3, "CPU s": 1.0, "status": "STALLED"}
    changes = [
        golden.compared(OLD, OLD | {"objective": 11.0}),
        golden.compared(OLD | {"fit": "b"}, worse),
    ]
    assert [golden.is_noted(change) for change in changes] == [True, True]
    assert changes[1]["status"] == "CONVERGED -> STALLED"
    row, everything = golden.of_families(changes)
    assert row == everything | {"family": "sinc"}
    assert (row["sum, nats"], row["worst"], row["best"]) == (-2.0, -3.0, 1.0)
    assert row["worst error ratio"] == pytest.approx(1.5)
    assert row["time ratio"] == pytest.approx(3 / 4)
    assert row["other status"] == 1


def test_the_same_results_are_not_noted():
    change = golden.compared(OLD, OLD)
    assert not golden.is_noted(change)
    assert (change["nats"], change["error ratio"], change["status"]) == (0.0, 1.0, "")


def test_a_fit_that_fails_is_noted():
    def job():
        raise ValueError("no")

    row = golden.measured(golden.Fit("sinc", "a", job, dict), 1)
    assert row["status"] == "ValueError: no"
    assert golden.is_noted(golden.compared(OLD, row))


def test_rows_read_are_counted(tmp_path):
    values = np.arange(20.0).reshape(10, 2)
    values.tofile(tmp_path / "X")
    X = golden.Counted(tmp_path / "X", np.float64, "r", shape=(10, 2))
    X.taken = 0
    for start in range(0, 10, 5):
        np.testing.assert_array_equal(X[start : start + 5][:2], values[start : start + 2])
    assert golden.with_passes(X, lambda _: {}, None) == {"passes": 1.0}
    assert X.taken == 0


def test_results_are_kept_and_compared(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Report, "open", lambda title, threads: Report(title, environment(threads)))
    file = tmp_path / "golden.json"

    def run(*options):
        monkeypatch.setattr(sys, "argv", ["golden", "--repeats", "1", *options])
        golden.main()
        return capsys.readouterr().out

    run("--only", "null", "counts", "--save", str(file))
    rows = json.loads(file.read_text())["rows"]
    assert {row["family"] for row in rows} == {"null", "counts"}
    assert all(row["status"] == "CONVERGED" and np.isfinite(row["objective"]) for row in rows)
    printed = run("--read", str(file), "--against", str(file))
    assert "Families: " in printed
    assert "Fits that changed" not in printed
    with pytest.raises(SystemExit, match="no family is called 'x'"):
        run("--only", "x")
