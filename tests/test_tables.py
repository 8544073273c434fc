import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparsebayes import _tables
from sparsebayes._tables import TableError, delimited, open_table, read_numbers, write_table


@pytest.fixture
def csv_of(tmp_path):
    def make(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return make


def read(path, *names):
    table = open_table(path)
    return read_numbers(table, list(names) or table.names)


@pytest.mark.parametrize(
    "content",
    [
        "a,b\n1,2\n3,4\n",
        "a,b\r\n1,2\r\n3,4",
        "\ufeffa,b\n1,2\n\n3,4\n\n",
        'a;b\n1;2\n"3";4\n',
        "a\tb\n1\t2\n3\t4\n",
        " a , b \n 1, 2\n3e0,4.\n",
        "a|b\n1|2\n3|4\n",
    ],
    ids=["plain", "windows", "bom-and-blank-lines", "semicolons", "tabs", "spaces", "bars"],
)
def test_csv_dialects(csv_of, content):
    path = csv_of(content)
    assert open_table(path).names == ["a", "b"]
    np.testing.assert_array_equal(read(path), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(read(path, "b"), [[2], [4]])


def test_csv_in_blocks_equals_csv_at_once(csv_of, monkeypatch):
    numbers = np.random.default_rng(0).normal(size=(25, 3))
    path = csv_of("a,b,c\n" + "\n".join(",".join(map(repr, row)) for row in numbers.tolist()))
    whole = read(path)
    monkeypatch.setattr(delimited, "_BLOCK_ROWS", 4)
    np.testing.assert_array_equal(read(path), whole)
    np.testing.assert_array_equal(whole, numbers)


def test_row_and_line_are_right_in_later_blocks(csv_of, monkeypatch):
    monkeypatch.setattr(delimited, "_BLOCK_ROWS", 2)
    path = csv_of("a,b\n1,2\n\n3,4\n5,6\n7,oops\n")
    with pytest.raises(TableError, match=r"column 'b', row 4 \(line 6\): 'oops' is not a number"):
        read(path)
    path = csv_of("a,b\n1,2\n\n3,4\n5,6,7\n")
    with pytest.raises(TableError, match=r"row 3 \(line 5\) has 3 fields, the header has 2"):
        read(path)


def test_truth_values_are_numbers(csv_of):
    np.testing.assert_array_equal(read(csv_of("a\nTrue\nfalse\n2\n")), [[1], [0], [2]])


@pytest.mark.parametrize("word", ["", "NA", "nan", "NaN", "null", "None", " n/a "])
def test_missing_values_are_counted(csv_of, word):
    path = csv_of(f"a,b\n1,2\n1,{word}\n1,{word}\n")
    with pytest.raises(TableError, match="column 'b' has 2 missing values, the first in row 2:"):
        read(path)
    np.testing.assert_array_equal(read(path, "a"), [[1], [1], [1]])


def test_several_columns_with_gaps(csv_of):
    path = csv_of("a,b,c\n,,1\n1,,1\n")
    with pytest.raises(TableError, match=r"'a' has 1 missing value, .*\(and 1 more column with"):
        read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        ("a,b\n", "no rows of data"),
        ("a,a\n1,2\n", "column 'a' appears more than once"),
        ("a,b\n1,2,3\n", r"row 1 \(line 2\) has 3 fields, the header has 2"),
        ("a,b\n1\n", r"row 1 \(line 2\) has 1 fields, the header has 2"),
        ("a,b\n1,inf\n", "column 'b', row 1: inf is not a finite number"),
        ("a,b\n1,1e999\n", "column 'b', row 1: inf is not a finite number"),
        ('a,b\n1,"1,5"\n', "'1,5' is not a number: write decimals with a point"),
        ("a\n1+2j\n", r"'1\+2j' is complex: give real and imaginary parts"),
        ("a\n(1 - 2e-3i)\n", "is complex"),
        ("a\ni\n", "'i' is not a number$"),
        ("a\n" + "x" * 99 + "\n", r"'x{37}\.\.\.' is not a number"),
        (b"a\n\xff\xfe\n", "not UTF-8 text"),
        (b"\xff\xfea\x00,\x00b\x00\n\x00", "not UTF-8 text"),
        ("a\n" + "1" * 200_000 + "\n", "not a csv file"),
    ],
)
def test_bad_csv(csv_of, content, message):
    path = csv_of(content)
    with pytest.raises(TableError, match=message) as caught:
        read(path)
    assert str(caught.value).startswith(path)
    assert "\n" not in str(caught.value)


def test_bad_places(tmp_path):
    with pytest.raises(TableError, match="no such file"):
        open_table(str(tmp_path / "none.csv"))
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    with pytest.raises(TableError, match="is a directory"):
        open_table(str(folder))
    book = tmp_path / "book.xlsx"
    book.write_bytes(b"1")
    with pytest.raises(TableError, match="unknown suffix '.xlsx', use one of .csv"):
        open_table(str(book))


def test_unknown_columns(csv_of):
    path = csv_of("price,rooms\n1,2\n")
    with pytest.raises(TableError, match="no column 'Prices'; did you mean 'price'?"):
        read(path, "Prices")
    with pytest.raises(TableError, match="no column 'zzz'; it has: price, rooms$"):
        read(path, "zzz")
    with pytest.raises(TableError, match="is the header line missing"):
        read(csv_of("1.5,2\n3,4\n"), "y")


@pytest.fixture
def parquet_of(tmp_path):
    def make(columns, name="data.parquet"):
        path = str(tmp_path / name)
        pq.write_table(pa.table(columns), path)
        return path

    return make


def test_parquet_kinds_of_numbers(parquet_of):
    path = parquet_of(
        {
            "f": pa.array([1.5, 2.5], pa.float32()),
            "i": pa.array([1, 2], pa.int8()),
            "b": pa.array([True, False]),
            "d": pa.array([1, 2], pa.decimal128(5, 2)),
            "s": ["x", "y"],
        }
    )
    np.testing.assert_array_equal(read(path, "d", "b", "i", "f"), [[1, 1, 1, 1.5], [2, 0, 2, 2.5]])
    with pytest.raises(TableError, match="column 's', row 1: 'x' is not a number .*string"):
        read(path)


def test_parquet_gaps_and_text(parquet_of):
    path = parquet_of({"a": pa.array([1.0, None, 3.0]), "n": pa.array([None, None, None])})
    with pytest.raises(TableError, match="column 'a' has 1 missing value, the first in row 2"):
        read(path, "a")
    with pytest.raises(TableError, match="column 'n' has 3 missing values"):
        read(path, "n")
    path = parquet_of({"t": pa.array([None, "late"])})
    with pytest.raises(TableError, match="column 't', row 2: 'late' is not a number"):
        read(path)


def test_index_of_a_pandas_frame_is_no_column(tmp_path):
    import pandas as pd

    path = str(tmp_path / "frame.parquet")
    pd.DataFrame({"a": [1.0, 2.0]}, index=[5, 7]).to_parquet(path)
    assert open_table(path).names == ["a"]


def test_bad_parquet(tmp_path, parquet_of):
    path = tmp_path / "bad.parquet"
    path.write_bytes(b"PAR1 this is not")
    with pytest.raises(TableError, match="not a parquet file"):
        open_table(str(path))
    whole = Path(parquet_of({"a": np.arange(5000.0)}))
    path.write_bytes(whole.read_bytes()[:2000])
    with pytest.raises(TableError, match="not a parquet file"):
        open_table(str(path))


def test_without_pyarrow_the_message_says_what_to_install(parquet_of, monkeypatch):
    path = parquet_of({"a": [1.0]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(TableError, match=r'pip install "sparsebayes\[io\]"'):
        open_table(path)
    with pytest.raises(TableError, match=r'pip install "sparsebayes\[io\]"'):
        _tables.check_output(path)


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.parquet", "OUT.CSV"])
def test_what_is_written_reads_back_the_same(tmp_path, name):
    path = str(tmp_path / name)
    numbers = np.array([0.1, 1e-300, -1e300, np.pi])
    write_table(path, {"prediction": numbers, "std": numbers[::-1].copy()})
    table = open_table(path)
    assert table.names == ["prediction", "std"]
    np.testing.assert_array_equal(read_numbers(table, table.names).T, [numbers, numbers[::-1]])
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_bad_outputs(tmp_path):
    for path, message in [
        (tmp_path / "out.xlsx", "unknown suffix"),
        (tmp_path / "out", "the name has no suffix"),
        (tmp_path / "nowhere" / "out.csv", "no such folder"),
    ]:
        with pytest.raises(TableError, match=message):
            _tables.check_output(str(path))
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    with pytest.raises(TableError, match="is a directory"):
        _tables.check_output(str(folder))
