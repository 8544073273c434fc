"""Learned widths on the command line: passed on, summed up, stored, and refused in one line."""

import re

import numpy as np
import pandas as pd
import pytest

import sparsebayes
from sparsebayes import RVC, RVR
from sparsebayes.datasets import friedman1, mixtures, sinc

SINC = sinc(60, random_state=0)
HILLS = friedman1(120, random_state=1)
NAMES = [f"f{j}" for j in range(10)]


@pytest.fixture
def curve(tmp_path):
    path = tmp_path / "curve.csv"
    pd.DataFrame({"x": SINC.X[:, 0], "y": SINC.y}).to_csv(path, index=False)
    return path


@pytest.fixture
def hills(tmp_path):
    path = tmp_path / "hills.csv"
    pd.DataFrame(HILLS.X, columns=NAMES).assign(y=HILLS.y).to_csv(path, index=False)
    return path


def test_one_learned_width(run, curve, tmp_path):
    model = tmp_path / "m.model"
    options = ("--target", "y", "--gamma", "evidence", "--output", model)
    code, out, err = run("fit", curve, *options)
    assert (code, err) == (0, "")
    reference = RVR(gamma="evidence").fit(SINC.X, SINC.y)
    assert f"gamma found   {reference.gamma_:.4g}\n" in out
    loaded = sparsebayes.load(model)
    assert loaded.gamma == "evidence"
    assert loaded.gamma_ == pytest.approx(reference.gamma_, rel=1e-12)
    code, out, err = run("predict", model, curve)
    assert (code, err) == (0, "")
    mean = np.array([line.split(",")[0] for line in out.splitlines()[1:]], dtype=float)
    np.testing.assert_allclose(mean, reference.predict(SINC.X), rtol=1e-9)


def test_relevant_features_are_named_first(run, hills):
    code, out, err = run("fit", hills, "--target", "y", "--gamma", "ard")
    assert code == 0
    assert "warning" not in err  # a slow machine prints progress
    reference = RVR(gamma="ard").fit(HILLS.X, HILLS.y)
    first = np.argsort(-reference.feature_relevance_)[:6]
    lines = out.splitlines()
    start = next(place for place, line in enumerate(lines) if "relevance" in line)
    shown = [line.replace("relevance", "").split() for line in lines[start : start + 6]]
    assert [words[0] for words in shown] == [NAMES[place] for place in first]
    assert [words[1] for words in shown] == [
        f"{share:.1%}" for share in reference.feature_relevance_[first]
    ]
    assert [words[3] for words in shown] == [f"{g:.4g}" for g in reference.gamma_[first]]
    assert {NAMES[place] for place in first[:5]} == set(NAMES[:5])  # the others do nothing
    rest = 1 - reference.feature_relevance_[first].sum()
    assert lines[start + 6].split() == ["4", "others,", f"{rest:.1%}", "together"]


def test_one_feature_is_named_without_others(run, curve):
    code, out, err = run("fit", curve, "--target", "y", "--gamma", "ard")
    assert (code, err) == (0, "")
    assert "x  100.0%  gamma" in out
    assert "other" not in out


def test_classes(run, tmp_path):
    data = mixtures(100, random_state=1)
    path = tmp_path / "classes.csv"
    frame = pd.DataFrame(data.X, columns=["a", "b"]).assign(c=np.where(data.y, "yes", "no"))
    frame.to_csv(path, index=False)
    code, out, _ = run("fit", path, "--target", "c", "--gamma", "evidence")
    assert code == 0
    reference = RVC(gamma="evidence", random_state=0).fit(data.X, data.y)
    assert f"gamma found   {reference.gamma_:.4g}\n" in out


def test_a_given_width_is_not_called_found(run, curve):
    code, out, _ = run("fit", curve, "--target", "y", "--gamma", "0.1")
    assert code == 0
    assert "gamma" not in out
    assert "relevance" not in out


@pytest.mark.parametrize("solver", ["em", "mackay"])
def test_the_original_solvers(run, curve, tmp_path, solver):
    model = tmp_path / "m.model"
    options = ("--target", "y", "--gamma", 0.1, "--solver", solver, "--output", model)
    code, _, err = run("fit", curve, *options)
    assert (code, err) == (0, "")
    assert sparsebayes.load(model).solver == solver


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gamma", "ARD"], "gamma must be .*'ARD'"),
        (["--gamma", "evidence", "--kernel", "linear"], "--gamma .* --kernel linear has none"),
        (["--gamma", "ard", "--kernel", "cosine"], "--gamma .* --kernel cosine has none"),
        (["--gamma", "0.5", "--kernel", "linear"], "--gamma .* --kernel linear has none"),
        (["--degree", "5"], "--degree is for --kernel poly, and --kernel rbf has none"),
        (["--degree", "5", "--kernel", "none"], "--degree is for kernels"),
        (["--kernel", "nonsense", "--degree", "5"], "unknown kernel 'nonsense'"),
        (["--solver", "newton"], "solver must be one of"),
    ],
)
def test_errors_are_one_line(run, curve, options, message):
    code, out, err = run("fit", curve, "--target", "y", *options)
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert re.search(message, err)


@pytest.mark.parametrize("word", ["evidence", "ard", "scale", "0.5"])
def test_features_themselves_have_no_width_to_learn(run, curve, word):
    code, out, err = run("fit", curve, "--target", "y", "--kernel", "none", "--gamma", word)
    assert code != 0
    assert out == ""
    assert "--gamma is for kernels, and --kernel none has none" in err
    assert err.count("\n") == 1
