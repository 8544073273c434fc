"""What ``fit`` chooses by the data: scales, clusters, and rows to judge the model by."""

import numpy as np
import pandas as pd
import pytest

from linear_tables import LINEAR, B, N, Y, frame
from sparsebayes import RVR, load

# ---------------------------------------------------------------------------- scales and centers


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_standardized_features_equal_a_scaler(fitted, kernel):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    data = frame(b=1000 * B)
    facts, _, model = fitted(data, "--kernel", kernel, "--gamma", "scale")
    X = data[["a", "b"]].to_numpy()
    want = make_pipeline(StandardScaler(), RVR(kernel, gamma="scale")).fit(X, Y)
    np.testing.assert_allclose(
        model.predict(data[["a", "b"]], return_std=True),
        want.predict(X, return_std=True),
        rtol=1e-6,
    )
    assert "differ by a factor of" in facts["notes"][0]
    assert "from 'a'" in facts["notes"][0]
    facts, _, model = fitted(data, "--kernel", kernel, "--no-standardize")
    assert (facts["notes"], model.gamma) == ([], "pooled")
    facts, _, model = fitted(frame(), "--kernel", kernel, "--standardize", "--gamma", 0.3)
    want = make_pipeline(StandardScaler(), RVR(kernel, gamma=0.3)).fit(X, Y)
    np.testing.assert_allclose(
        model.predict(frame()[["a", "b"]]), want.predict(X), rtol=1e-6, atol=1e-9
    )


def test_widths_that_are_found_unasked(fitted):
    data = frame(b=1000 * B)
    facts, _, model = fitted(data)
    want = RVR(gamma="pooled-ard", random_state=0).fit(data[["a", "b"]].to_numpy(), Y)
    assert model.gamma == "pooled-ard"
    np.testing.assert_allclose(facts["gamma"], want.gamma_, rtol=1e-9)
    assert "each has its own gamma, found before the fit" in facts["notes"][0]
    assert fitted(data, "--gamma", "pooled-ard")[0]["notes"] == []
    for options in ["--features", "a"], ["--kernel", "tps"]:
        assert fitted(frame(), *options)[2].gamma == "pooled"
    assert fitted(frame(), "--standardize")[2].gamma != "pooled-ard"
    kinds = frame(y=np.where(Y > 0, "up", "down"))
    assert fitted(kinds)[2].gamma == "scale"


def test_scales_that_a_kernel_is_not_told(fitted, fails, tmp_path):
    data = frame(b=1000 * B)
    facts, _, _ = fitted(data, "--gamma", "evidence")
    assert "--gamma ard" in facts["notes"][0]
    facts, _, _ = fitted(data, "--kernel", "linear")
    assert "differ by a factor of" in facts["notes"][0]
    assert "--gamma" not in facts["notes"][0]
    for options in ["--kernel", "poly"], ["--gamma", "ard"], ["--gamma", "1,2"]:
        arguments = ["--target", "y", "--standardize", *options]
        fails("fit", tmp_path / "data.csv", *arguments, words=["--standardize is for"])
    arguments = ["--target", "y", "--standardize", "--kernel", "none"]
    fails("fit", tmp_path / "data.csv", *arguments, words=["--standardize is for kernels"])


def test_clusters_are_those_of_standardized_features(fitted, tmp_path):
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 2, 400)
    data = pd.DataFrame(
        {"a": groups + 0.01 * rng.normal(size=400), "b": 1e4 * rng.normal(size=400)}
    )
    facts, _, model = fitted(data.assign(y=groups + 0.1 * data["a"]), "--centers", 6)
    assert facts["of_atoms"] == 6
    # Clusters of b alone would have a center halfway between the groups of a.
    assert np.abs(model.relevance_vectors_[:, 0] - 0.5).min() > 0.25


# ---------------------------------------------------------------------------- tests of models


def test_rows_held_out(fitted, run, tmp_path):
    data = pd.concat([frame(), frame().head(10)])
    facts, _, model = fitted(data, *LINEAR, "--test", 0.2, "--seed", 3)
    assert facts["rows"] + facts["test"]["rows"] == N + 10
    assert 8 <= facts["test"]["rows"] <= 12
    assert facts["test"]["r2"] > 0.98
    assert 0 <= facts["test"]["coverage_90"] <= 1
    again, _, same = fitted(data, *LINEAR, "--test", 0.2, "--seed", 3)
    assert again["test"] == facts["test"]
    np.testing.assert_array_equal(same.coef_, model.coef_)
    assert fitted(data, *LINEAR, "--test", 0.2, "--seed", 4)[0]["test"] != facts["test"]
    code, out, _ = run("fit", tmp_path / "data.csv", "--target", "y", "--test", 0.2, *LINEAR)
    assert code == 0
    assert "held out      R2 0.9" in out


def test_a_file_of_rows_to_test(fitted, fails, run, tmp_path):
    new = frame(note="text").head(12)
    new.loc[0, "a"] = np.nan
    new.to_csv(tmp_path / "test.csv", index=False)
    facts, _, model = fitted(frame(), *LINEAR, "--test-file", tmp_path / "test.csv")
    assert facts["rows"] == N
    assert facts["test"]["rows"] == 11
    rest = new.iloc[1:]
    errors = rest["y"] - model.predict(rest[["a", "b"]])
    assert facts["test"]["rmse"] == pytest.approx(float(np.sqrt((errors**2).mean())))
    assert "test.csv: 1 row with missing values: left out" in facts["notes"][0]
    data = ["fit", tmp_path / "data.csv", "--target", "y"]
    both = ["--test", 0.5, "--test-file", tmp_path / "test.csv"]
    fails(*data, *both, words=["give one of them"])
    fails(*data, "--test", 0.001, words=["--test 0.001", "leaves no rows"])
    new.drop(columns="b").to_csv(tmp_path / "test.csv", index=False)
    words = ["test.csv", "no column 'b'"]
    fails(*data, "--quiet", "--test-file", tmp_path / "test.csv", words=words)
    for bad in "0", "1", "nan", "half":
        assert run(*data, "--test", bad)[0] == 2


def test_rows_that_cannot_test_a_model_do_not_cost_it(fails, tmp_path):
    frame().to_csv(tmp_path / "data.csv", index=False)
    frame().assign(a=np.nan).to_csv(tmp_path / "test.csv", index=False)
    output = tmp_path / "kept.model"
    files = [tmp_path / "data.csv", "--test-file", tmp_path / "test.csv", "--output", output]
    words = ["test.csv", "no row without missing values to test"]
    fails("fit", *files, "--target", "y", *LINEAR, "--quiet", words=words)
    assert load(output).predict(frame()[["a", "b"]]).shape == (N,)


def test_classes_that_look_like_numbers_in_the_test_file(fitted, tmp_path):
    kinds = np.where(Y > 0, "1", "2").astype(object)
    kinds[:4] = "b"
    frame(y=kinds).iloc[4:].to_csv(tmp_path / "test.csv", index=False)
    facts, _, _ = fitted(frame(y=kinds), *LINEAR, "--test-file", tmp_path / "test.csv")
    assert facts["test"]["accuracy"] > 0.9


def test_each_class_gives_its_share_to_the_test(fitted):
    kinds = np.where(np.arange(N) < 5, "rare", np.where(Y > 0, "up", "down"))
    facts, _, model = fitted(frame(y=kinds), *LINEAR, "--test", 0.4)
    assert set(model.classes_) == {"rare", "up", "down"}
    assert 14 <= facts["test"]["rows"] <= 18


def test_a_test_file_is_looked_at_before_the_fit(fails, tmp_path):
    frame().to_csv(tmp_path / "data.csv", index=False)
    frame()[["a", "y"]].to_csv(tmp_path / "lacks.csv", index=False)
    for name, words in (("none.csv", "no such file"), ("lacks.csv", "no column 'b'")):
        # The solver is refused by the fit: this file must have been refused before.
        arguments = ["--target", "y", "--solver", "none", "--test-file", tmp_path / name]
        fails("fit", tmp_path / "data.csv", *arguments, words=[name, words])
