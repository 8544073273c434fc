"""What real files have goes through ``fit``: a sentence each, and never a guess."""

import csv
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparsebayes
from linear_tables import EXPECTED, LINEAR, A, B, N, Y, assert_same_model, fit_file, frame
from sparsebayes._tables import open_table

# ---------------------------------------------------------------------------- columns


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pd.date_range("2024-01-30", periods=N), ["'c' holds dates", "'2024-01-30'"]),
        ([f"{1 + i % 28}.12.2023 08:15" for i in range(N)], ["'c' holds dates", "'1.12.2023"]),
        (["Rome", "Oslo"] * (N // 2), ["'c' holds text", "row 1 (line 2): 'Rome'"]),
        ([f"{i} %" for i in range(N)], ["'c' holds percentages", "'0 %'", "take the % signs away"]),
        ([7.5] * N, ["'c' is constant"]),
        ([None] * N, ["'c' has no values"]),
        ([1.5, 2.5] + [None] * (N - 2), ["'c' has no value in 38 of 40 rows"]),
        (["low", "high"] + [str(i) for i in range(8)] * ((N - 2) // 8) + ["x"] * 6, ["holds text"]),
        (["1,234", "2,345"] * (N // 2), ["'c' may be read in two ways", "--decimal point"]),
    ],
    ids=["dates", "clock", "text", "percent", "constant", "empty", "gaps", "mixed", "ambiguous"],
)
def test_columns_that_are_left_out(fitted, run, tmp_path, column, words):
    facts, err, model = fitted(frame(c=column), *LINEAR)
    assert_same_model(model)
    (note,) = facts["notes"]
    assert err == f"sparsebayes: note: {note}\n"
    for word in [str(tmp_path / "data.csv"), "left out", *words]:
        assert word in note
    code, out, err = run("fit", tmp_path / "data.csv", "--target", "y", "--strict", *LINEAR)
    strictly_fine = words[0] == "'c' is constant"  # it always went through
    assert code == (0 if strictly_fine else 1)
    assert strictly_fine or (out == "" and err.count("\n") == 1)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (["Rome", "Oslo"] * (N // 2), ["column 'c', row 1 (line 2): 'Rome' is not a number"]),
        (pd.date_range("2024-01-30", periods=N), ["dates", "days since"]),
        ([None] * N, ["'c' has no values"]),
        (["1,234", "2,345"] * (N // 2), ["'1,234'", "--decimal"]),
    ],
)
def test_named_columns_are_not_left_out(fails, tmp_path, column, words):
    frame(c=column).to_csv(tmp_path / "d.csv", index=False)
    options = ["--target", "y", "--features", "a", "c"]
    fails("fit", tmp_path / "d.csv", *options, words=["d.csv", *words])


def test_named_columns_may_have_most_values_missing(fitted):
    column = np.where(np.arange(N) < 10, A, np.nan)
    facts, err, model = fitted(frame(c=column), "--features", "a", "b", "c", *LINEAR)
    assert facts["rows"] == 10
    (warning,) = facts["warnings"]
    assert "30 of 40 rows have missing values, most of them in column 'c' (30)" in warning
    assert "--drop c" in warning
    assert f"sparsebayes: warning: {warning}\n" in err
    assert model.n_features_in_ == 3


def test_numbers_of_two_readings_are_not_predicted_from(fitted, fails, tmp_path):
    fitted(frame(), *LINEAR)
    new = tmp_path / "new.csv"
    new.write_text("a;b\n0,5;1.234\n")  # beside a decimal comma, 1.234 or 1234
    words = ["'b', row 1: '1.234' may be read in two ways", "--decimal"]
    fails("predict", tmp_path / "m.model", new, words=words)


def test_columns_that_are_constant_cost_no_rows(fitted):
    gaps = np.where(np.arange(N) % 3, 5.0, np.nan)
    late = np.where(np.arange(N) < 2, 1.0, 0.0)
    data = frame(gaps=gaps, late=late)
    data.loc[[0, 1], "a"] = np.nan
    facts, _, _ = fitted(data, *LINEAR)
    assert facts["rows"] == N - 2
    first, _, second = facts["notes"]
    assert first.endswith("column 'gaps' is constant: left out")
    assert second.endswith("column 'late' is constant in these rows: left out")


def test_lists_are_no_values(fails, run, tmp_path):
    path = tmp_path / "d.parquet"
    frame(c=[[1, 2]] * N).to_parquet(path)
    words = ["the target, column 'c'", "'[1, 2]'", "neither numbers nor text"]
    fails("fit", path, "--target", "c", words=words)
    code, _, err = run("fit", path, "--target", "y", *LINEAR)
    assert code == 0
    assert "column 'c' holds neither numbers nor text (row 1: '[1, 2]'" in err


def test_nothing_is_left(fails, tmp_path):
    pd.DataFrame({"t": ["u", "v"], "y": [1, 2]}).to_csv(tmp_path / "d.csv", index=False)
    fails("fit", tmp_path / "d.csv", "--target", "y", words=["no column is left", "holds text"])
    pd.DataFrame({"t": [1, 1], "y": [1, 2]}).to_csv(tmp_path / "d.csv", index=False)
    fails("fit", tmp_path / "d.csv", "--target", "y", words=["no column is left", "constant"])
    (tmp_path / "d.csv").write_text("a,b,y\n1,,1\n,2,2\n3,,3\n,4,4\n")
    words = ["0 rows without gaps", "at least 2", "column 'a' has gaps in 2 of 4"]
    fails("fit", tmp_path / "d.csv", "--target", "y", words=words)


# ---------------------------------------------------------------------------- rows and values


def test_rows_with_gaps(fitted):
    data = frame(c=1.0 * (np.arange(N) % 2))
    data.loc[[3, 7], "a"] = np.nan
    data.loc[[7, 9], "y"] = np.nan
    facts, _, model = fitted(data, *LINEAR, na_rep="NA")
    assert facts["rows"] == N - 3
    targets, rows = facts["notes"]
    assert "2 rows have no target ('y'), the first row 8, 'NA': left out" in targets
    assert "1 of 40 rows has missing values, most of them in column 'a' (1): left out" in rows
    whole = np.isfinite(data).all(axis=1)
    want = sparsebayes.SparseBayesRegressor().fit(data.loc[whole, ["a", "b", "c"]], Y[whole])
    np.testing.assert_allclose(model.coef_, want.coef_, rtol=1e-9)


def test_words_and_infinities_among_numbers(fitted):
    data = frame().astype(object)
    data.loc[4, "b"] = "broken"
    data.loc[6, "a"] = "-inf"
    facts, _, _ = fitted(data, *LINEAR)
    assert facts["rows"] == N - 2
    word, infinite, rows = facts["notes"]
    assert "column 'b', row 5 (line 6): 'broken' is not a number: taken as missing" in word
    assert "column 'a': 1 infinite value, the first -inf in row 7: taken as missing" in infinite
    assert "2 of 40 rows have missing values" in rows


def test_copies_are_counted(fitted):
    facts, _, _ = fitted(pd.concat([frame(), frame().head(3)]), *LINEAR)
    assert facts["rows"] == N + 3
    assert "3 rows are copies of others: they count like any row" in facts["notes"][0]


@pytest.mark.parametrize("grouped", [False, True])
def test_decimal_commas(fitted, grouped):
    def written(value):
        text = f"{abs(value * 1e4):,.7f}" if grouped else f"{abs(value * 1e4):.7f}"
        return ("-" if value < 0 else "") + text.translate(str.maketrans(",.", ".,"))

    lines = [";".join(map(written, row)) for row in np.stack([A, B, Y], axis=1)]
    facts, _, model = fitted("a;b;y\n" + "\n".join(lines), *LINEAR)
    assert len(facts["notes"]) == 3
    assert (
        f"has decimal commas: '{written(A[0])}' in row 1 (line 2) is read as" in facts["notes"][0]
    )
    np.testing.assert_allclose(model.coef_, EXPECTED, rtol=1e-6)


def test_separators_of_thousands(fitted):
    scaled = np.rint(np.stack([A, B, Y], axis=1) * 1e7)
    lines = [",".join(f'"{int(value):,}"' for value in row) for row in scaled]
    facts, _, model = fitted("a,b,y\n" + "\n".join(lines), *LINEAR)
    assert all("separators of thousands" in note for note in facts["notes"])
    np.testing.assert_allclose(model.coef_, EXPECTED, rtol=1e-6)


@pytest.mark.parametrize("space", [" ", "\u202f", "'"])
def test_spaces_and_apostrophes_between_thousands(fitted, space):
    whole = np.round(4000 + 1000 * A).astype(int)
    texts = [f"{value:,}".replace(",", space) for value in whole]
    facts, _, model = fitted(frame(a=texts), *LINEAR)
    expected = sparsebayes.SparseBayesRegressor("linear").fit(np.stack([whole, B], axis=1), Y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)
    (note,) = facts["notes"]
    assert "column 'a' has separators of thousands" in note
    assert f"is read as {float(whole[0])}" in note


def test_a_point_among_decimal_commas_is_doubted(fitted, fails, tmp_path):
    text = "a;b;y\n1,5;1.234;1\n2,5;2.345;2\n3,5;1.111;3\n4,5;9.999;5\n"
    facts, _, model = fitted(text, *LINEAR)
    assert model.feature_names_in_.tolist() == ["a"]
    assert any("'b' may be read in two ways" in note for note in facts["notes"])
    for mark, largest in ("comma", 9999.0), ("point", 9.999):
        column = open_table(str(tmp_path / "data.csv"), strict=False, mark=mark).look(["b"])[0]
        assert column.numbers.max() == largest
    path = tmp_path / "data.csv"
    fails("fit", path, "--target", "b", words=["the target, column 'b'", "--decimal"])


@pytest.mark.parametrize(
    ("encoding", "words"),
    [("latin-1", "Windows-1252"), ("utf-16", "UTF-16"), ("utf-8-sig", None), ("utf-8", None)],
)
def test_encodings(fitted, encoding, words):
    text = frame().rename(columns={"a": "Größe"}).to_csv(index=False)
    facts, _, model = fitted(text, *LINEAR, encoding=encoding)
    assert_same_model(model, ["Größe", "b"])
    assert bool(facts["notes"]) == bool(words)
    assert words is None or words in facts["notes"][0]


def test_headers(fitted, run, tmp_path):
    bare = frame().to_csv(index=False, header=False)
    (tmp_path / "bare.csv").write_text(bare)
    facts, _, model = fit_file(run, tmp_path / "bare.csv", "2")
    assert_same_model(model, ["x0", "x1"])
    assert "the first line holds numbers" in facts["notes"][0]
    facts, _, model = fitted(frame().rename(columns={"b": "a"}).to_csv(index=False), *LINEAR)
    assert_same_model(model, ["a", "a_2"])
    assert "column 'a' appears more than once: the second is named 'a_2'" in facts["notes"][0]
    facts, _, model = fitted(frame().to_csv(index=True), *LINEAR)
    assert_same_model(model)
    assert "column 1 has no name: left out" in facts["notes"][0]
    years = frame().rename(columns={"a": "2019", "b": "2020", "y": "2021"}).to_csv(index=False)
    path = tmp_path / "years.csv"
    path.write_text(years)
    code, out, err = run("fit", path, "--target", "2021", *LINEAR, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["features"] == ["2019", "2020"]


def test_ragged_rows_and_quotes(fitted, fails, tmp_path):
    lines = frame(c='"x"').to_csv(index=False, quoting=csv.QUOTE_NONE, quotechar="'").splitlines()
    lines[5] = lines[5].replace('"x"', '"two\nlines"')
    lines.insert(8, "1,2")
    facts, _, model = fitted("\n".join(lines), *LINEAR)
    assert_same_model(model)
    quotes, ragged = facts["notes"][:2]
    assert "run over several lines, the first from line 6" in quotes
    assert "row 8 (line 10) has 2 fields, the header has 4: it is taken as missing" in ragged
    path = tmp_path / "ragged.csv"
    path.write_text("a,y\n1,2,\n3,4,\n5,6,\n")
    words = ["row 1 (line 2) has 3 fields, the header has 2, and so have 3 of 3 rows"]
    fails("fit", path, "--target", "y", words=words)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"PK\x03\x04 and so on", "spreadsheet"),
        (b"\x1f\x8b\x08 and so on", "gzip"),
        (b"PAR1 and so on", "--format parquet"),
        (b"a,y\n\x00\x00\x00\n", "zero bytes"),
    ],
)
def test_what_is_no_text(fails, tmp_path, content, word):
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    fails("fit", path, "--target", "y", words=[path, "not a text file", word])


# ---------------------------------------------------------------------------- targets


def test_a_target_of_names_is_no_class(fails, tmp_path):
    many = pd.concat([frame(y=[f"{part} {i}" for i in range(N)]) for part in range(3)])
    many.to_csv(tmp_path / "d.csv", index=False)
    words = ["'y'", "text with 120 different values in 120 rows", "'0 0'"]
    fails("fit", tmp_path / "d.csv", "--target", "y", words=words)
    frame(y=pd.date_range("2024-01-30", periods=N)).to_csv(tmp_path / "d.csv", index=False)
    fails("fit", tmp_path / "d.csv", "--target", "y", words=["the target", "'y'", "dates"])


def test_labels_with_gaps(fitted):
    kinds = np.where(Y > 0, "+", "-").astype(object)
    kinds[4] = None
    facts, _, model = fitted(frame(y=kinds), *LINEAR)
    assert model.classes_.tolist() == ["+", "-"]
    assert facts["task"] == "classification"
    assert facts["rows"] == N - 1
    assert "row 5 has no target ('y'): left out" in facts["notes"][1]


@pytest.mark.parametrize("suffix", ["csv", "parquet", "feather"])
def test_a_word_for_nothing_in_a_target_is_shown(run, tmp_path, suffix):
    kinds = np.where(Y > 1, "none", np.where(Y > 0, "mild", "severe"))
    path = tmp_path / f"data.{suffix}"
    written = frame(y=kinds)
    if suffix == "csv":
        written.to_csv(path, index=False)
    else:
        getattr(written, f"to_{suffix}")(path)
    facts, _, model = fit_file(run, path, "y")
    assert model.classes_.tolist() == ["mild", "severe"]
    first, count = np.argmax(Y > 1) + 1, np.sum(Y > 1)
    (note,) = [note for note in facts["notes"] if "no target" in note]
    assert f"{count} rows have no target ('y'), the first row {first}, 'none': left out" in note
    assert note.endswith("; if 'none' is a class, give it another name")


def test_words_of_files_that_are_read_in_blocks_are_doubted(run, tmp_path):
    kinds = np.where(Y > 1, "None", np.where(Y > 0, "mild", "severe"))
    (tmp_path / "data").mkdir()
    frame(y=kinds).to_parquet(tmp_path / "data" / "1.parquet")
    facts, err, model = fit_file(run, tmp_path / "data", "y")
    assert model.classes_.tolist() == ["None", "mild", "severe"]
    (warning,) = facts["warnings"]
    assert warning.endswith("'None' is a class here; if it is a gap, remove those rows")
    assert f"sparsebayes: warning: {warning}\n" in err


def test_a_constant_target_is_no_perfect_fit(fitted):
    facts, err, _ = fitted(frame(y=3.0), *LINEAR)
    assert facts["r2"] is None
    (warning,) = facts["warnings"]
    assert "the target, column 'y', is constant in these rows: there is nothing" in warning
    assert f"sparsebayes: warning: {warning}\n" in err


def test_a_constant_target_in_blocks(run, tmp_path):
    (tmp_path / "data").mkdir()
    frame(y=3.0).to_parquet(tmp_path / "data" / "1.parquet")
    code, out, _ = run("fit", tmp_path / "data", "--target", "y", *LINEAR)
    assert code == 0
    assert "R2 not defined, the target is constant, on these rows" in out


@pytest.mark.parametrize("options", [[], ["--strict"], ["--decimal", "comma"]], ids=str)
def test_the_minus_sign_of_typesetters(fitted, options):
    signs = str.maketrans("-.", "\u2212,") if "comma" in options else str.maketrans("-", "\u2212")
    columns = {"a": A, "b": B, "y": Y}
    texts = {name: [f"{v:.12f}".translate(signs) for v in x] for name, x in columns.items()}
    _, _, model = fitted(frame(**texts), *LINEAR, *options)
    np.testing.assert_allclose(model.coef_, EXPECTED, rtol=1e-9)


def test_percentages(fitted, fails, tmp_path):
    facts, _, _ = fitted(frame(share=[f"{100 * a:.1f} %" for a in A]), *LINEAR)
    assert facts["features"] == ["a", "b"]
    assert (
        "column 'share' holds percentages (row 1 (line 2): '12.6 %'): left out; "
        in (facts["notes"][0])
    )
    assert facts["notes"][0].endswith("to use them take the % signs away")
    frame(y=[f"{100 * y:.1f}%" for y in Y]).to_csv(tmp_path / "p.csv", index=False)
    fails("fit", tmp_path / "p.csv", "--target", "y", words=["the target", "percentages"])


def decimals(values, digits=6, precision=12):
    texts = [Decimal(f"{value:.{digits}f}") for value in values]
    return pa.array(texts, pa.decimal128(precision, digits))


@pytest.mark.parametrize("in_blocks", [False, True])
def test_decimals_of_databases(run, tmp_path, in_blocks):
    path = tmp_path / ("data" if in_blocks else "data.parquet")
    if in_blocks:
        path.mkdir()
    columns = {"a": A, "b": decimals(B), "y": decimals(Y), "k": decimals(Y > 0, 2)}
    pq.write_table(pa.table(columns), path / "1.parquet" if in_blocks else path)
    options = ["--target", "y", "--drop", "k", *LINEAR, "--output", tmp_path / "y.model"]
    assert run("fit", path, *options)[0] == 0
    model = sparsebayes.load(tmp_path / "y.model")
    np.testing.assert_allclose(model.coef_, EXPECTED, rtol=1e-4)
    options = ["--target", "k", "--drop", "y", *LINEAR, "--output", tmp_path / "k.model"]
    assert run("fit", path, *options, "--task", "classification")[0] == 0
    assert sparsebayes.load(tmp_path / "k.model").classes_.tolist() == [0.0, 1.0]


def test_decimals_of_too_many_digits_are_no_labels_in_blocks(fails, tmp_path):
    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"a": A, "k": decimals(Y > 0, 0, 38)}), tmp_path / "data" / "1.parquet")
    options = ["--target", "k", "--task", "classification", *LINEAR]
    fails("fit", tmp_path / "data", *options, words=["decimal128(38, 0)", "more digits", "cast"])


def test_numbers_and_text_in_a_target(fitted):
    few = np.where(Y > 0, "1", "2").astype(object)
    few[3] = "other"
    facts, _, model = fitted(frame(y=few), *LINEAR)
    assert model.classes_.tolist() == ["1", "2", "other"]
    assert "'y' is text, so its values are taken for classes" in facts["notes"]
    many = Y.astype(object)
    many[3] = "broken"
    facts, _, model = fitted(frame(y=many), *LINEAR)
    assert facts["task"] == "regression"
    assert facts["rows"] == N - 1
    assert "row 4 (line 5): 'broken' is not a number: taken as missing" in facts["notes"][0]


@pytest.mark.parametrize(
    "kinds", [("01234", "1234"), ("20000000000000000001", "20000000000000000002"), ("inf", "1")]
)
def test_labels_that_numbers_would_merge_or_change_stay_text(fitted, run, tmp_path, kinds):
    labels = np.where(Y > 0, *kinds)
    _, _, model = fitted(frame(y=labels), *LINEAR, "--task", "classification")
    assert model.classes_.tolist() == sorted(kinds)
    code, out, _ = run("predict", tmp_path / "m.model", tmp_path / "data.csv", "--no-std")
    assert code == 0
    assert np.mean(np.array(out.splitlines()[1:]) == labels) > 0.8


@pytest.mark.parametrize("kinds", [("1", "2"), ("TRUE", "FALSE")])
def test_a_label_that_is_new_does_not_make_the_others_unknown(fitted, run, tmp_path, kinds):
    labels = np.where(Y > 0, *kinds).astype(object)
    strange, new = labels.copy(), tmp_path / "new.csv"
    strange[0] = "other"
    frame(y=strange).to_csv(new, index=False)
    options = [*LINEAR, "--task", "classification", "--test-file", new]
    facts, _, _ = fitted(frame(y=labels), *options)
    assert 0.8 < facts["test"]["accuracy"] <= 1 - 1 / N
    page = tmp_path / "r.html"
    code, out, _ = run("report", tmp_path / "m.model", new, "--output", page, "--json")
    assert code == 0
    assert json.loads(out)["quality"]["accuracy"] == facts["test"]["accuracy"]
    assert json.loads(out)["warnings"][0].startswith("1 held-out row")


def test_counts(fitted, run, tmp_path):
    counts = np.random.default_rng(1).poisson(np.exp(1 + 0.5 * A))
    facts, _, model = fitted(frame(y=counts), *LINEAR, "--likelihood", "poisson", "--test", 0.25)
    assert model.likelihood == "poisson"
    assert facts["task"] == "regression"
    assert facts["test"]["rows"] == 10
    options = ["--likelihood", "poisson", "--task", "classification"]
    code, _, err = run("fit", tmp_path / "data.csv", "--target", "y", *options)
    assert code == 1
    assert "counts" in err
