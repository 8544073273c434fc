"""A small table, the linear model of it, and tables that must give the same model."""

import json

import numpy as np
import pandas as pd

import sparsebayes

RNG = np.random.default_rng(0)
N = 40
A, B = RNG.normal(size=(2, N))
Y = 2 * A - B + 0.1 * RNG.normal(size=N)
LINEAR = ["--kernel", "none"]


def frame(**more):
    return pd.DataFrame({"a": A, "b": B, "y": Y}).assign(**more)


EXPECTED = sparsebayes.SparseBayesRegressor("linear").fit(np.stack([A, B], axis=1), Y).coef_


def assert_same_model(model, features=("a", "b")):
    assert model.feature_names_in_.tolist() == list(features)
    np.testing.assert_allclose(model.coef_, EXPECTED, rtol=1e-9)


def fit_file(run, path, target):
    """Fit a file, beside which the model is written; gives facts, stderr and the model."""
    output = path.with_suffix(".model")
    code, out, err = run("fit", path, "--target", target, *LINEAR, "--json", "--output", output)
    assert code == 0, err
    return json.loads(out), err, sparsebayes.load(output)
