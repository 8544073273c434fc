"""Sources of rows: the same rows whatever they come from, and errors that say where and why."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from sparsebayes.rows import ChunkError, Chunks, LocalRows, Parquet, is_streamed, open_source
from sparsebayes.rows.summary import gather

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N, D = 103, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D))
Y = RNG.normal(size=N)
W = RNG.integers(0, 3, N).astype(float)
NAMES = ["a", "b", "c"]


def frame(rows=slice(None)):
    table = {name: X[rows, k] for k, name in enumerate(NAMES)}
    return pd.DataFrame(table | {"y": Y[rows], "w": W[rows], "note": "text"})


def mapped(tmp_path, values, name):
    path = tmp_path / f"{name}.npy"
    np.save(path, values)
    return np.load(path, mmap_mode="r")


def in_memory(tmp_path):
    return X, Y, W


def as_lists(tmp_path):
    return X.tolist(), Y.tolist(), W.tolist()


def from_memmaps(tmp_path):
    return tuple(mapped(tmp_path, v, k) for k, v in enumerate((X, Y, W)))


def from_views_of_memmaps(tmp_path):
    wide = np.zeros((2 * N + 9, D + 2))
    wide[9::2, 1:-1] = X
    return mapped(tmp_path, wide, "wide")[9::2, 1:-1], Y, mapped(tmp_path, W, "w")


def from_columns_of_a_memmap(tmp_path):
    both = np.asfortranarray(np.column_stack([X, Y, W]))
    both = mapped(tmp_path, both, "both")
    return both[:, :D], both[:, D], both[:, D + 1]


def from_zarr(tmp_path):
    group = zarr.open_group(tmp_path / "z", mode="w")
    for name, values, chunks in (("X", X, (10, 2)), ("y", Y, (7,)), ("w", W, (50,))):
        group.create_array(name, shape=values.shape, dtype=values.dtype, chunks=chunks)[:] = values
    return group["X"], group["y"], group["w"]


def from_hdf5(tmp_path):
    file = h5py.File(tmp_path / "data.h5", "w")
    file.create_dataset("X", data=X, chunks=(10, D), compression="gzip")
    return file["X"], file.create_dataset("y", data=Y), file.create_dataset("w", data=W)


def from_a_file(tmp_path):
    frame().to_parquet(tmp_path / "one.parquet", row_group_size=30)
    return tmp_path / "one.parquet", "y", "w"


def from_a_folder(tmp_path):
    folder = tmp_path / "parts"
    (folder / "b").mkdir(parents=True)
    frame(slice(0, 40)).to_parquet(folder / "a.parquet")
    frame(slice(40, 41)).to_parquet(folder / "b" / "0.parquet")
    frame(slice(41, None)).to_parquet(folder / "b" / "1.pq", row_group_size=11)
    (folder / "_SUCCESS").touch()
    (folder / "_temporary.parquet").touch()
    (folder / "b" / ".hidden.parquet").touch()
    return str(folder), "y", "w"


def from_a_list_of_files(tmp_path):
    frame(slice(0, 40)).to_parquet(tmp_path / "z.parquet")
    frame(slice(40, None)).to_parquet(tmp_path / "a.parquet")
    files = [tmp_path / "z.parquet", str(tmp_path / "a.parquet")]
    return Parquet(files, target="y", columns=NAMES, weight="w"), None, None


def pieces(step=20):
    for i in range(0, N, step):
        yield X[i : i + step], Y[i : i + step], W[i : i + step]


def from_a_function(tmp_path):
    return Chunks(pieces), None, None


def from_a_list_of_chunks(tmp_path):
    empty = (X[:0], Y[:0], W[:0])
    items = [empty, *pieces(1), empty]
    return Chunks(items), None, None


class Frames:
    def __iter__(self):
        for i in range(0, N, 31):
            part = frame(slice(i, i + 31))
            yield part[NAMES], part["y"], part["w"]


def from_frames(tmp_path):
    return Chunks(Frames()), None, None


KINDS = [
    in_memory,
    as_lists,
    from_memmaps,
    from_views_of_memmaps,
    from_columns_of_a_memmap,
    from_zarr,
    from_hdf5,
    from_a_file,
    from_a_folder,
    from_a_list_of_files,
    from_a_function,
    from_a_list_of_chunks,
    from_frames,
]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


@every_kind
@pytest.mark.parametrize("block_rows", [1, 7, 20, 1000])
def test_every_source_gives_the_same_rows_every_time(kind, block_rows, tmp_path):
    source = open_source(*kind(tmp_path))
    assert source.n_features == D
    for _ in range(2):
        blocks = list(source.chunks(block_rows))
        assert max(block.n for block in blocks) <= block_rows
        assert_array_equal([b.start for b in blocks], np.cumsum([0] + [b.n for b in blocks])[:-1])
        assert all(b.X.dtype == np.float64 and b.X.flags.c_contiguous for b in blocks)
        assert_array_equal(np.concatenate([block.X for block in blocks]), X)
        assert_array_equal(np.concatenate([block.y for block in blocks]), Y)
        assert_array_equal(np.concatenate([block.weights for block in blocks]), W)
    assert source.n_rows == N


@every_kind
def test_which_data_are_streamed(kind, tmp_path):
    assert is_streamed(kind(tmp_path)[0]) == (kind not in (in_memory, as_lists))
    assert not any(map(is_streamed, (frame(), sp.csr_matrix(X), [], ["no", "path"], None, 3)))


@pytest.mark.parametrize("kind", [from_a_file, from_a_folder, from_a_list_of_files, from_frames])
def test_names_of_columns(kind, tmp_path):
    assert open_source(*kind(tmp_path)).feature_names == tuple(NAMES)


def test_names_of_columns_of_arrays():
    assert open_source(frame()[NAMES], Y).feature_names == tuple(NAMES)
    assert open_source(X, Y).feature_names is None
    assert open_source(pd.DataFrame(X), Y).feature_names is None


def test_sparse_rows_stay_sparse():
    S = sp.random(50, 4, density=0.3, format="csc", random_state=0, dtype=np.float32)
    blocks = list(open_source(S, np.arange(50)).chunks(8))
    assert all(sp.issparse(b.X) and b.X.format == "csr" and b.X.dtype == float for b in blocks)
    assert_array_equal(sp.vstack([b.X for b in blocks]).toarray(), S.toarray())
    again = gather(LocalRows(open_source(Chunks([(S, np.arange(50))]), None), 8))
    assert_array_equal(again.X.toarray(), S.toarray())


def test_blocks_of_stored_arrays_end_where_their_chunks_do(tmp_path):
    for kind in (from_zarr, from_hdf5):
        source = open_source(*kind(tmp_path))
        assert [block.n for block in source.chunks(25)] == [20] * 5 + [3]
        assert [block.n for block in source.chunks(4)] == [4] * 25 + [3]


def test_several_targets_and_numbers_of_any_type(tmp_path):
    both = np.column_stack([Y, -Y])
    assert next(open_source(X, both).chunks(9)).y.shape == (9, 2)
    table = frame().assign(z=-Y, k=np.arange(N, dtype=np.int8), f=np.arange(N) > 4)
    table.to_parquet(tmp_path / "t.parquet")
    source = open_source(Parquet(str(tmp_path / "t.parquet"), columns=["k", "f"]), ["y", "z"])
    block = next(source.chunks(N))
    assert_array_equal(block.y, both)
    assert_array_equal(block.X, np.column_stack([np.arange(N), np.arange(N) > 4]))
    block = next(open_source(X.astype(np.float32), np.arange(N), 2).chunks(N))
    assert (block.X.dtype, block.y.dtype, block.weights.tolist()) == (float, float, [2.0] * N)


def test_frames_of_several_types():
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 0] > 0, "c": pd.array([1] * N, dtype="Int64")})
    y, w = pd.Series(Y).astype("Float64"), pd.Series(W).astype("Int64")
    assert np.asarray(table).dtype == object
    for args in ((table, y, w), (Chunks([(table, y, w)]),)):
        block = next(open_source(*args).chunks(N))
        assert_array_equal(block.X, table.to_numpy(dtype=float))
        assert_array_equal(block.y, Y)
        assert_array_equal(block.weights, W)
    table.loc[5, "c"] = pd.NA
    with pytest.raises(ChunkError, match=r"X has NaN in column 2 \('c'\), row 5"):
        read(open_source(table, y))
    with pytest.raises(ChunkError, match="X must be numbers, but holds objects"):
        read(open_source(table.assign(c="1.5"), y))
    labels = next(open_source(X, w, numeric_y=False).chunks(N)).y
    assert labels.tolist() == W.astype(int).tolist()


def test_weights_beside_parquet_files(tmp_path):
    path, _, _ = from_a_folder(tmp_path)
    for weights in (W, mapped(tmp_path, W, "w")):
        source = open_source(Parquet(path, "y", NAMES), None, weights)
        assert_array_equal(np.concatenate([b.weights for b in source.chunks(9)]), W)
    source = open_source(Parquet(path, "y", NAMES), None, 2.5)
    assert_array_equal(np.concatenate([b.weights for b in source.chunks(9)]), np.full(N, 2.5))


@pytest.mark.parametrize("dtype", [object, "U", "category"])
def test_labels_of_any_type(dtype, tmp_path):
    labels = np.array(["yes", "no"])[np.arange(N) % 2]
    series = pd.Series(labels).astype("category" if dtype == "category" else object)
    table = frame().assign(y=series)
    table.to_parquet(tmp_path / "t.parquet")
    with h5py.File(tmp_path / "t.h5", "w") as file:
        stored = file.create_dataset("y", data=labels.astype(object), dtype=h5py.string_dtype())
        given = [
            (X, series if dtype != "U" else labels),
            (X, stored),
            (Parquet(str(tmp_path / "t.parquet"), "y", NAMES), None),
            (Chunks([(X, series)]), None),
        ]
        for inputs, y in given:
            blocks = list(open_source(inputs, y, numeric_y=False).chunks(10))
            assert np.concatenate([block.y for block in blocks]).tolist() == labels.tolist()


def test_labels_of_zarr(tmp_path):
    labels = np.array(["yes", "no"])[np.arange(N) % 2]
    stored = zarr.create_array(tmp_path / "y", shape=(N,), dtype="int8", chunks=(9,))
    stored[:] = np.arange(N) % 2
    blocks = open_source(X, stored, numeric_y=False).chunks(10)
    assert_array_equal(labels[np.concatenate([b.y for b in blocks])], labels)


def read(source, block_rows=10):
    return list(source.chunks(block_rows))


def with_bad(row, value, column=1):
    bad = X.copy()
    bad[row, column] = value
    return bad


class TestBadArrays:
    @pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (-np.inf, "infinity")])
    def test_values_that_are_not_finite(self, value, word):
        where = rf"^chunk 4 \(rows 40 to 49\): X has {word} in column 1, row 44\.$"
        with pytest.raises(ChunkError, match=where):
            read(open_source(with_bad(44, value), Y))
        with pytest.raises(ChunkError, match=where):
            read(open_source(sp.csr_matrix(with_bad(44, value)), Y))
        with pytest.raises(ChunkError, match=rf"rows 100 to 102\): y has {word} in row 101\.$"):
            read(open_source(X, np.where(np.arange(N) == 101, value, Y)))
        many = np.column_stack([Y, np.where(np.arange(N) == 7, value, Y)])
        with pytest.raises(ChunkError, match=rf"chunk 0 .*y has {word} in row 7\.$"):
            read(open_source(X, many))

    def test_finite_values_with_an_infinite_sum(self):
        huge = np.full((4, 2), 1e308)
        assert_array_equal(read(open_source(huge, huge[:, 0]))[0].X, huge)

    def test_names_of_bad_columns(self):
        with pytest.raises(ChunkError, match=r"column 1 \('b'\), row 44"):
            read(open_source(pd.DataFrame(with_bad(44, np.nan), columns=NAMES), Y))

    @pytest.mark.parametrize(
        ("values", "word"),
        [
            (X.astype(str), "text"),
            (X.astype(complex), "complex numbers"),
            (X.astype(object), "objects"),
            (X.astype("M8[s]"), "dates"),
        ],
    )
    def test_types(self, values, word):
        with pytest.raises(ChunkError, match=rf"chunk 0 .*: X must be numbers, but holds {word}"):
            read(open_source(values, Y))
        with pytest.raises(ChunkError, match=rf"chunk 0 .*: y must be numbers, but holds {word}"):
            read(open_source(X, values[:, 0]))
        with pytest.raises(ChunkError, match=f"sample_weight must be numbers, but holds {word}"):
            read(open_source(X, Y, values[:, 0]))

    @pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
    def test_weights(self, value):
        with pytest.raises(ChunkError, match=r"chunk 3 .*sample_weight is \S+ in row 33; weights"):
            read(open_source(X, Y, np.where(np.arange(N) == 33, value, 1.0)))

    @pytest.mark.parametrize("gap", [None, np.nan, pd.NA, pd.NaT], ids=str)
    def test_missing_labels(self, gap):
        labels = np.array(["no", "yes"], dtype=object)[np.arange(N) % 2]
        labels[57] = gap
        with pytest.raises(ChunkError, match=r"chunk 5 .*row 57 has no label but \S+\.$"):
            read(open_source(X, labels, numeric_y=False))

    @pytest.mark.parametrize("gap", [np.nan, np.inf])
    def test_labels_that_are_not_finite(self, gap):
        labels = np.where(np.arange(N) == 57, gap, 1.0)
        with pytest.raises(ChunkError, match=rf"chunk 5 .*row 57 has no label but {gap}\.$"):
            read(open_source(X, labels, numeric_y=False))

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            ((X, Y[:-1]), r"X has 103 rows, but y has shape \(102,\)"),
            ((X, Y, W[:-1]), r"X has 103 rows, but sample_weight has shape \(102,\)"),
            ((X, Y, W[:, None]), r"sample_weight has shape \(103, 1\)"),
            ((X[0], Y), r"X must have two dimensions, but its shape is \(3,\)"),
            ((X[:0], Y[:0]), r"rows and columns, but its shape is \(0, 3\)"),
            ((X[:, :0], Y), r"rows and columns, but its shape is \(103, 0\)"),
            ((X, Y[:, None, None]), r"y has shape \(103, 1, 1\)"),
            ((X, np.empty((N, 0))), r"y has shape \(103, 0\)"),
            ((X, 3.0), r"y has shape \(\)"),
            ((X, None), "y is missing"),
            ((None, Y), "X is missing"),
            (([[1.0], [1.0, 2.0]], [0, 1]), "X is no array: its rows differ in length"),
        ],
    )
    def test_shapes(self, args, message):
        with pytest.raises(ValueError, match=message):
            open_source(*args)

    def test_files_of_arrays_are_no_arrays(self, tmp_path):
        with h5py.File(tmp_path / "t.h5", "w") as file:
            assert is_streamed(file)
            with pytest.raises(TypeError, match=r"X is a File, .* as in file\['X'\]"):
                open_source(file, Y)
        with pytest.raises(TypeError, match="X is a Group"):
            open_source(zarr.open_group(tmp_path / "z", mode="w"), Y)


class TestStoresThatBreak:
    def test_a_chunk_of_zarr_that_is_damaged(self, tmp_path):
        source = open_source(*from_zarr(tmp_path))
        next(tmp_path.glob("z/X/c/4/0")).write_bytes(b"nonsense")
        with pytest.raises(ChunkError, match=r"chunk 4 \(rows 40 to 49\): X cannot be read \(.+\)"):
            read(source)

    def test_a_closed_hdf5_file(self, tmp_path):
        values = from_hdf5(tmp_path)
        source = open_source(*values)
        values[0].file.close()
        with pytest.raises(ChunkError, match=r"chunk 0 \(rows 0 to 9\): X cannot be read \(.+\)"):
            read(source)

    def test_a_memmap_whose_file_is_gone_or_cut(self, tmp_path):
        source = open_source(mapped(tmp_path, X, "X"), mapped(tmp_path, Y, "Y"))
        os.truncate(tmp_path / "Y.npy", 300)
        with pytest.raises(ChunkError, match=r"chunk 0 .*: y cannot be read: .*Y.npy has 300 by"):
            read(source)
        os.remove(tmp_path / "X.npy")
        with pytest.raises(ChunkError, match=r"chunk 0 .*: X cannot be read: .*X.npy is gone"):
            read(source)

    def test_what_was_written_to_a_private_copy_is_kept(self, tmp_path):
        np.save(tmp_path / "X.npy", X)
        private = np.load(tmp_path / "X.npy", mmap_mode="c")
        private[:] = 7.0
        for _ in range(2):
            assert all((block.X == 7.0).all() for block in read(open_source(private, Y)))

    def test_what_was_written_to_a_shared_map_is_read(self, tmp_path):
        np.save(tmp_path / "X.npy", X)
        shared = np.load(tmp_path / "X.npy", mmap_mode="r+")
        shared[3] = 7.0
        for _ in range(2):
            assert (read(open_source(shared, Y))[0].X[3] == 7.0).all()


MEASURE = """
import re, sys
import numpy as np
from sparsebayes.rows import LocalRows, open_source, summarize

def given(path):
    if path.endswith("parquet"):
        return path, "y"
    X = np.load(path, mmap_mode="r")
    return X, X[:, 0]

def peak():  # the ru_maxrss of a new process begins at that of its parent
    return int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1])

def look(paths):
    for path in paths:
        summarize(LocalRows(open_source(*given(path)), 10_000))

half = len(sys.argv) // 2 + 1
look(sys.argv[1:half])
before = peak()
look(sys.argv[half:])
print(peak() - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="peak memory is not known")
def test_a_pass_over_a_file_leaves_it_on_disk(tmp_path):
    paths = []
    for size, n in (("small", 20_000), ("large", 2_400_000)):
        values = np.random.default_rng(0).random((n, 3))
        paths += [str(tmp_path / f"{size}.{suffix}") for suffix in ("npy", "parquet")]
        np.save(paths[-2], values)
        columns = dict(zip(["a", "b", "y"], values.T, strict=True))
        pq.write_table(pa.table(columns), paths[-1], row_group_size=n)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *paths], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 20_000  # KiB, of files of 56 000 each


class TestBadParquet:
    def parts(self, tmp_path, n=4, rows=10):
        for k in range(n):
            frame(slice(k * rows, (k + 1) * rows)).to_parquet(tmp_path / f"part-{k}.parquet")
        return tmp_path

    def change(self, path, **columns):
        pd.read_parquet(path).assign(**columns).to_parquet(path)

    def test_a_missing_value(self, tmp_path):
        self.parts(tmp_path)
        values = pd.read_parquet(tmp_path / "part-2.parquet")["b"].to_numpy().copy()
        values[7] = np.nan
        self.change(tmp_path / "part-2.parquet", b=values)
        where = (
            r"^chunk 5 \(rows 5 to 9 of part-2.parquet\): X has NaN in column 1 \('b'\), row 7\.$"
        )
        with pytest.raises(ChunkError, match=where):
            read(open_source(Parquet(tmp_path, "y", NAMES)), 5)
        self.change(tmp_path / "part-2.parquet", b=pd.array([1, None] * 5, dtype="Int64"))
        with pytest.raises(ChunkError, match=r"chunk 4 \(rows 0 to 4 .*column 1 \('b'\), row 1"):
            read(open_source(Parquet(tmp_path, "y", NAMES)), 5)

    def test_columns_of_a_later_file(self, tmp_path):
        self.parts(tmp_path)
        path = tmp_path / "part-2.parquet"
        self.change(path, b="text")
        with pytest.raises(ChunkError, match=r"part-2.parquet: column 'b' must be numbers, but ho"):
            open_source(tmp_path, "y")
        pd.read_parquet(path).drop(columns="b").to_parquet(path)
        with pytest.raises(ChunkError, match=r"part-2.parquet: it has no column 'b'; it has a, c"):
            open_source(tmp_path, "y")
        self.change(path, b=1.0, more=2.0)
        with pytest.raises(ChunkError, match=r"part-2.parquet: it has a column 'more', the first"):
            open_source(tmp_path, "y")
        assert len(read(open_source(Parquet(tmp_path, "y", NAMES)))) == 4

    def test_files_that_change_after_they_were_opened(self, tmp_path):
        source = open_source(self.parts(tmp_path), "y")
        path = tmp_path / "part-2.parquet"
        whole = path.read_bytes()
        path.write_bytes(whole[:-100])
        with pytest.raises(ChunkError, match=r"chunk 2 \(part-2.parquet\): the file cannot be rea"):
            read(source)
        path.write_bytes(b"PAR1" + bytes(len(whole) // 2) + whole[4 + len(whole) // 2 :])
        with pytest.raises(ChunkError, match=r"chunk 2 \(.*part-2.parquet\): the file cannot be"):
            read(source)
        path.unlink()
        with pytest.raises(ChunkError, match=r"chunk 2 \(part-2.parquet\): the file is gone\.$"):
            read(source)
        with pytest.raises(ChunkError) as caught:
            read(source)
        assert isinstance(caught.value.__cause__, FileNotFoundError)
        path.write_bytes(whole)
        assert sum(block.n for block in read(source)) == 40
        pd.read_parquet(path).drop(columns="b").to_parquet(path)
        with pytest.raises(ChunkError, match=r"chunk 2 \(.*part-2.parquet\): it has no column 'b'"):
            read(source)
        frame(slice(20, 30)).assign(b="five").to_parquet(path)
        with pytest.raises(ChunkError, match=r"chunk 2 \(.*part-2.parquet\): .*must be numbers"):
            read(source)
        frame(slice(20, 35)).to_parquet(path)
        with pytest.raises(ChunkError, match=r"chunk 4 \(part-3.parquet\): it has more rows than"):
            read(source)
        frame(slice(20, 25)).to_parquet(path)
        with pytest.raises(ChunkError, match="it is missing: there were 40 rows, now 35"):
            read(source)

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            (("nowhere", "y"), "there is no file or folder 'nowhere'"),
            ((["nowhere.parquet"], "y"), "nowhere.parquet: no such file"),
            (("empty", "y"), "there is no parquet file in the folder 'empty'"),
            (("some.csv", "y"), r"some.csv: the file cannot be read as parquet \(.+\)"),
            (("some.npy", "y"), r"give np.load\(path, mmap_mode='r'\) as X"),
            (("part-0.parquet", None), "the target is missing"),
            (("part-0.parquet", []), "the target is missing"),
            (("part-0.parquet", "z"), "part-0.parquet: it has no column 'z'; it has a, b, c, y, w"),
            (("part-0.parquet", "note"), "column 'note' must be numbers, but holds"),
            ((Parquet("part-0.parquet", "y"), "y"), "the target is named both"),
            ((Parquet("part-0.parquet", "y", ["y"]), None), "column 'y' is named twice"),
            ((Parquet("part-0.parquet", "y", ["note"]), None), "'note' must be numbers"),
            ((Parquet("part-0.parquet", "y", []), None), "no column of numbers beside"),
            (("part-0.parquet", "y", np.ones(3)), r"sample_weight has shape \(3,\)"),
            ((Parquet("part-0.parquet", "y", weight="w"), None, "w"), "weights are named both"),
            ((Parquet("part-0.parquet", "y", weight="w"), None, np.ones(10)), "weights are given"),
        ],
    )
    def test_what_cannot_be_opened(self, args, message, tmp_path, monkeypatch):
        monkeypatch.chdir(self.parts(tmp_path, 1))
        (tmp_path / "empty").mkdir()
        (tmp_path / "some.csv").write_text("a,y\n1,2\n")
        np.save("some.npy", X)
        with pytest.raises(ValueError, match=message):
            open_source(*args)

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            (("part-0.parquet", Y), "y must be the name of the target's column"),
            ((Parquet(3, "y"), None), "a path, or a list of parquet files, is needed, but it is"),
            ((Parquet("part-0.parquet", "y", [0]), None), "must be names of columns"),
            ((Parquet("part-0.parquet", 3), None), "must be names of columns"),
        ],
    )
    def test_arguments_of_another_type(self, args, message, tmp_path, monkeypatch):
        monkeypatch.chdir(self.parts(tmp_path, 1))
        with pytest.raises(TypeError, match=message):
            open_source(*args)

    def test_a_column_that_is_there_twice(self, tmp_path):
        table = pa.table([[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]], names=["a", "a", "y"])
        pq.write_table(table, tmp_path / "t.parquet")
        with pytest.raises(ChunkError, match="column 'a' more than once"):
            open_source(tmp_path / "t.parquet", "y")


@pytest.mark.parametrize("storage", [np.array, sp.csr_array])
def test_chunks_may_be_read_into_the_same_arrays_again(storage):
    inputs, targets, weights = storage(X[:20]), Y[:20].copy(), W[:20].copy()
    stored = inputs.data if sp.issparse(inputs) else inputs.reshape(-1)

    def refilled():
        for start in range(0, 100, 20):
            rows = slice(start, start + 20)
            stored[:] = X[rows].ravel()
            targets[:], weights[:] = Y[rows], W[rows]
            yield inputs, targets, weights

    blocks = list(open_source(Chunks(refilled)).chunks(20))
    for k, values in enumerate((X, Y, W)):
        found = [b[k].toarray() if sp.issparse(b[k]) else b[k] for b in blocks]
        assert_array_equal(np.concatenate(found), values[:100])


class TestBadChunks:
    def test_what_can_be_read_only_once(self):
        for once in (pieces(), iter([1]), zip(X, Y, strict=True)):
            with pytest.raises(TypeError, match=r"can be read only once: give a function that"):
                Chunks(once)
            with pytest.raises(TypeError, match=r"a \w+ can be read only once"):
                open_source(once)
        kept = pieces()
        with pytest.raises(TypeError, match="what the function returns can be read only once"):
            open_source(Chunks(lambda: kept))

    def test_a_function_that_goes_on_where_it_was(self):
        kept = pieces()
        source = open_source(Chunks(lambda: (item for item in kept)))
        with pytest.raises(ChunkError, match="chunk 0: it is another one than when it was first"):
            read(source)

    def test_chunks_that_become_fewer_or_more(self):
        items = list(pieces())
        source = open_source(Chunks(items))
        read(source)
        last = items.pop()
        with pytest.raises(ChunkError, match=r"chunk 5: it is missing: there were 103 rows .* 100"):
            read(source)
        items += [last, last]
        with pytest.raises(ChunkError, match=r"chunk 6: there were 103 rows before, now more"):
            read(source)
        items.clear()
        with pytest.raises(ChunkError, match="must be the same every time that they are read"):
            read(source)

    @pytest.mark.parametrize(
        ("item", "reason"),
        [
            ((X[:4, :2], Y[:4]), "it has 2 columns, the first one has 3"),
            ((X[:4], Y[:3]), r"X has 4 rows, but y has shape \(3,\)"),
            ((X[:4], Y[:4], W[:3]), r"X has 4 rows, but sample_weight has shape \(3,\)"),
            ((X[:4], Y[:4, None]), "y has 1 columns, that of the first one has one dimension"),
            ((X[0], Y[:3]), r"X must have two dimensions, but its shape is \(3,\)"),
            ((X[:4], None), "y is missing"),
            ((X[:4] + 1j, Y[:4]), "X must be numbers, but holds complex numbers"),
            ((X[:4].astype(str), Y[:4]), "X must be numbers, but holds text"),
            ((with_bad(2, np.nan), Y), r"X has NaN in column 1, row 42"),
            (([[1, 2, 3], [1, 2]], Y[:2]), r"X is no array \(.+\)"),
            (X[:4], r"it must be \(X, y\) or \(X, y, sample_weight\), not ndarray"),
            ((X[:4],), "not 1 things"),
            ({"X": X, "y": Y}, "not dict"),
            (None, "not NoneType"),
        ],
    )
    def test_a_bad_chunk(self, item, reason):
        source = open_source(Chunks([*list(pieces())[:2], item]))
        with pytest.raises(ChunkError, match=rf"^chunk 2\b.*: .*{reason}") as caught:
            read(source)
        assert "\n" not in str(caught.value)

    def test_other_columns(self):
        items = [(frame()[NAMES], Y), (frame()[NAMES[::-1]], Y)]
        with pytest.raises(ChunkError, match="chunk 1: its columns are c, b, a, those of the fir"):
            read(open_source(Chunks(items)))

    def test_code_that_fails_in_the_middle(self):
        def make():
            yield X, Y
            raise FileNotFoundError("part-1.bin")

        with pytest.raises(ChunkError, match=r"chunk 1: it cannot be made \(part-1.bin") as caught:
            read(open_source(Chunks(make)))
        assert isinstance(caught.value.__cause__, FileNotFoundError)

        def stopped():
            raise KeyboardInterrupt
            yield

        with pytest.raises(KeyboardInterrupt):
            open_source(Chunks(stopped))

    def test_no_chunks(self):
        for items in ([], [(X[:0], Y[:0])]):
            with pytest.raises(ValueError, match="there are no chunks with rows in them"):
                open_source(Chunks(items))

    def test_arguments(self):
        with pytest.raises(TypeError, match="chunks must be a list of .* but they are int"):
            Chunks(3)
        with pytest.raises(TypeError, match="must return an iterator .* returned NoneType"):
            open_source(Chunks(lambda: None))
        with pytest.raises(ValueError, match="y must be None where X is Chunks"):
            open_source(Chunks([(X, Y)]), Y)
        with pytest.raises(ValueError, match="sample_weight must be None where X is Chunks"):
            open_source(Chunks([(X, Y)]), None, W)

    def test_repr(self):
        assert repr(Chunks([])) == "Chunks([])"


def test_a_function_that_fails_at_once_is_refused_as_a_chunk():
    def make():
        raise OSError("no connection")

    with pytest.raises(ChunkError, match=r"^chunk 0: it cannot be made \(.*no connection"):
        open_source(Chunks(make))


def test_an_hdf5_file_that_is_closed_is_refused_in_words(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "data.h5", "w") as file:
        X = file.create_dataset("X", data=np.ones((4, 2)))
        assert open_source(X, np.arange(4.0)).n_features == 2
    with pytest.raises(ValueError, match="the HDF5 file of X is closed"):
        open_source(X, np.arange(4.0))
