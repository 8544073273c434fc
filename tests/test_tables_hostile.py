"""Tables of anything: an answer or one line, never a traceback and never a wrong number."""

import csv
import json
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparsebayes import cli
from sparsebayes._tables import TableError, open_table
from sparsebayes._tables.choosing import choose
from sparsebayes._tables.cleaning import clean
from sparsebayes._tables.delimited import Delimited
from sparsebayes._tables.numerals import Gathered, marks_of, parse
from sparsebayes._tables.texts import Source, separator_of

QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
FIELDS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True).map(repr),
    st.integers(-(10**6), 10**6).map(str),
    st.sampled_from(
        ["", " ", "NA", "nan", "-", "?", "true", "False", "1,5", "1.234,5", "1,234", "1 234", "1_0"]
        + ["2024-01-02", "3.4.2024", "12:30", "inf", "-Infinity", "1e999", '"', "x;y", "a\tb", "é"]
        + ["1'000", "0x10", "١٢", "--", "+", "1e", ".", ",", "\x00", "=1+1", "<b>", "1" * 400]
    ),
    st.text(max_size=6),
)
TABLES = st.lists(st.lists(FIELDS, min_size=1, max_size=4), min_size=1, max_size=12)


def refused(function, *arguments):
    """What a function gives, or None if it refuses in one line that names the file."""
    try:
        return function(*arguments)
    except TableError as error:
        message = str(error)
    assert message.startswith("fuzz.csv: ")
    assert "\n" not in message
    return None


def looked_at(content):
    table = Delimited(Source("fuzz.csv", content), strict=False)
    return table, table.look(table.names)


def cleaned(content):
    table = Delimited(Source("fuzz.csv", content), strict=False)
    return clean(table, *choose(table, ["y"], None, []))


@QUICK
@given(TABLES, st.sampled_from(",;\t|"), st.sampled_from(["utf-8", "utf-16", "latin-1"]))
def test_any_table_is_read_or_refused_in_one_line(rows, separator, encoding):
    text = "\n".join(separator.join(row) for row in rows)
    found = refused(looked_at, text.encode(encoding, errors="replace"))
    if found is None:
        return
    table, columns = found
    assert len(set(table.names)) == len(table.names)
    assert len({len(column.numbers) for column in columns}) == 1
    for column in columns:
        absent = int(np.isnan(column.numbers).sum())
        assert absent == column.missing + column.odd or column.kind == "ambiguous"
        assert (column.kind == "nothing") == (column.missing == len(column.numbers))


@QUICK
@given(TABLES)
def test_what_is_cleaned_is_finite(rows):
    text = "a,b,c,y\n" + "\n".join(",".join((row * 4)[:4]) for row in rows)
    found = refused(cleaned, text.encode("utf-8", errors="replace"))
    if found is None:
        return
    assert np.isfinite(found.X).all()
    assert found.X.shape == (len(found.y), len(found.features))
    assert found.classes or np.isfinite(found.y).all()
    assert (found.X != found.X[0]).any(axis=0).all()
    assert len(found.y) == found.rows or found.notes or found.warnings


@settings(QUICK, max_examples=20)
@given(st.binary(max_size=200))
def test_bytes(tmp_path, capsys, content):
    for suffix in "csv", "npy", "parquet", "feather":
        path = tmp_path / f"data.{suffix}"
        path.write_bytes(content)
        code = cli.main(["fit", str(path), "--target", "y", "--quiet"])
        out, err = capsys.readouterr()
        assert (code, out) == (1, "")
        assert err.startswith("sparsebayes: error: ")
        assert err.count("\n") == 1


@QUICK
@given(st.floats(-1e12, 1e12, allow_nan=False), st.sampled_from(["point", "comma"]), st.booleans())
def test_numbers_written_in_each_way_are_read_back(value, mark, grouped):
    text = f"{value:,.6f}" if grouped else f"{value:.6f}"
    want = float(text.replace(",", ""))
    if mark == "comma":
        text = text.translate(str.maketrans(",.", ".,"))
    assert parse(text, mark) == want
    other = parse(text, "point" if mark == "comma" else "comma")
    # Six decimals are no group of three: the other way of reading fails.
    assert math.isnan(other)


@QUICK
@given(st.text(max_size=12))
def test_texts(text):
    marks, matters = marks_of([text])
    by_point, by_comma = (parse(text, mark) for mark in ("point", "comma"))
    read = {"point": not math.isnan(by_point), "comma": not math.isnan(by_comma)}
    assert marks == {mark for mark in read if read[mark] and not all(read.values())}
    assert matters == (all(read.values()) and by_point != by_comma)
    found = Gathered("c")
    found.add([text], lambda row: f"row {row + 1}")
    column = found.column()
    assert column.missing + column.odd in (0, 1)


@pytest.mark.parametrize(
    ("lines", "separator"),
    [
        ("1,5;2,5;3\n1,2;3,4;5\n", ";"),
        ("a;b\n1,5;2,5\n", ";"),
        ("a,b\n1;2,3\n", ","),
        ('"x;y";b,c\n1;2\n', ";"),
        ("a|b|c\n1,2|3,4|5,6\n", "|"),
        ("word\nword\n", ","),
        ("a b\tc d\n1\t2\n", "\t"),
        ("name, first;age\nSmith, Jo;3\nX, Y;4\n", ";"),
    ],
)
def test_separators(lines, separator):
    assert separator_of(Source("s.csv", lines.encode()), "utf-8") == separator


@pytest.mark.parametrize(
    "names",
    [
        ['<script>alert("1")</script>', "y"],
        ["\u202eabc", "y"],
        ["a\x1b[31mred", "y"],
        ["x" * 5000, "y"],
        ["'; DROP TABLE", "y"],
        ["=cmd|' /C calc'!A0", "y"],
    ],
)
def test_hostile_names(run, tmp_path, names):
    rng = np.random.default_rng(0)
    path, model = tmp_path / "d.csv", tmp_path / "m.model"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*names, f"{names[0]} again"])
        writer.writerows([a, 2 * a + 0.1 * b, "text"] for a, b in rng.normal(size=(20, 2)))
    report = tmp_path / "r.html"
    options = ["--target", "y", "--kernel", "none", "--output", model, "--report", report]
    code, out, err = run("fit", path, *options, "--json")
    assert code == 0
    assert json.loads(out)["features"] == [names[0].strip()]
    assert "\x1b" not in err
    assert "<script>alert" not in report.read_text(encoding="utf-8")
    assert run("predict", model, path)[0] == 0


def test_fields_without_end(tmp_path):
    (tmp_path / "d.csv").write_text('a,y\n"' + "1,2\n" * 50_000)
    table = open_table(str(tmp_path / "d.csv"), strict=False)
    with pytest.raises(TableError, match="not a csv file"):
        table.look(["a"])
