"""Sums over partitions of Dask: the same as over local blocks, of whatever the partitions are."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from sparsebayes.dictionaries import Kernel
from sparsebayes.rows import Chosen, ChunkError, LocalRows, Sums, plus
from sparsebayes.rows.dask_rows import DaskRows, _merged, is_dask, open_dask
from sparsebayes.rows.products import Screens, Weighted
from sparsebayes.rows.sources import open_source

N = 257
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, 3))
Y = X[:, 0] - 2 * X[:, 1] + 0.1 * RNG.normal(size=N)
WEIGHTS = RNG.uniform(0.5, 2, size=N)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])


@pytest.fixture(autouse=True)
def threads():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


@dataclass(frozen=True)
class Found(Sums):
    largest = ("last",)
    n: int
    last: int
    products: np.ndarray
    y: np.ndarray


def found(block):
    weights = np.ones(block.n) if block.weights is None else block.weights
    return Found(
        block.n, block.start + block.n, (block.X.T * weights) @ block.X, weights @ block.y[:, None]
    )


def local(X=X, y=Y, weights=None, **rules):
    return LocalRows(open_source(X, y, weights, **rules), 50)


def assert_same(rows, other):
    one, two = rows.fold(found), other.fold(found)
    assert (one.n, one.last) == (two.n, two.last)
    assert_allclose(one.products, two.products, rtol=1e-12)
    assert_allclose(one.y, two.y, rtol=1e-12)


def in_parts(values, *sizes):
    """A dask array of these chunks of rows, without knowing them."""
    frame = dd.concat(
        [
            dd.from_pandas(pd.DataFrame(part), npartitions=1)
            for part in np.split(values, np.cumsum(sizes))
        ]
    )
    unknown = frame.to_dask_array()
    assert np.isnan(unknown.chunks[0]).all()
    return unknown


# equality with local blocks


@pytest.mark.parametrize("chunks", [N, 100, 7, 1])
def test_chunks_of_any_size(chunks):
    rows = open_dask(da.from_array(X, chunks=(chunks, 2)), da.from_array(Y, chunks=chunks))
    assert isinstance(rows, DaskRows)
    assert_same(rows, local())


@pytest.mark.parametrize(("scheduler", "workers"), [("sync", 1), ("threads", 2), ("processes", 1)])
def test_every_scheduler(scheduler, workers):
    rows = open_dask(da.from_array(X, chunks=(60, 3)), Y, WEIGHTS)
    with dask.config.set(scheduler=scheduler, num_workers=workers):
        assert_same(rows, local(weights=WEIGHTS))


@pytest.mark.parametrize(
    "give",
    [
        lambda values: values,
        lambda values: values.tolist(),
        lambda values: pd.Series(values),
        lambda values: da.from_array(values, chunks=33),
        lambda values: dd.from_pandas(pd.Series(values), npartitions=4),
        lambda values: dd.from_pandas(pd.Series(values), npartitions=9),
        lambda values: in_parts(values[:, None], 3, 0, 200)[:, 0],
    ],
)
@pytest.mark.parametrize(
    "lazy_X",
    [
        da.from_array(X, chunks=(100, 1)),
        dd.from_pandas(FRAME, npartitions=4),
        in_parts(X, 5, 0, 0, 100),
    ],
)
def test_targets_and_weights_need_not_be_divided_like_inputs(lazy_X, give):
    assert_same(open_dask(lazy_X, give(Y), give(WEIGHTS)), local(weights=WEIGHTS))


def test_several_targets():
    both = np.column_stack([Y, X[:, 2]])
    rows = open_dask(da.from_array(X, chunks=(100, 3)), da.from_array(both, chunks=(60, 1)))
    frame = dd.from_pandas(pd.DataFrame(both), npartitions=3)
    whole = both.sum(axis=0)
    assert_allclose(rows.fold(total_of_targets).y, whole, rtol=1e-12)
    rows = open_dask(da.from_array(X, chunks=(100, 3)), frame)
    assert_allclose(rows.fold(total_of_targets).y, whole, rtol=1e-12)


def total_of_targets(block):
    return Found(block.n, 0, np.zeros(1), block.y.sum(axis=0))


def test_one_number_is_the_weight_of_every_row():
    assert_same(open_dask(da.from_array(X, chunks=(100, 3)), Y, 2), local(weights=np.full(N, 2.0)))


def test_inputs_of_other_types_than_float64():
    whole = np.round(10 * X)
    for lazy in (
        da.from_array(whole.astype(np.int16), chunks=(50, 3)),
        da.from_array(whole.astype(np.float32), chunks=(50, 3)),
        dd.from_pandas(pd.DataFrame(whole).convert_dtypes(), npartitions=3),
        dd.from_pandas(pd.DataFrame(whole).astype({0: "int8", 1: "float32"}), npartitions=3),
    ):
        assert_same(open_dask(lazy, Y), local(whole))
    assert_same(open_dask(da.from_array(X > 0, chunks=(50, 3)), Y), local((X > 0).astype(float)))


def test_sparse_chunks_stay_sparse():
    sparse = np.where(np.abs(X) > 1, X, 0)
    lazy = da.from_array(sparse, chunks=(50, 3)).map_blocks(sp.csr_matrix)
    rows = open_dask(lazy, Y)
    kinds = rows.fold(lambda block: {type(block.X).__name__}, lambda one, other: one | other)
    assert kinds == {"csr_matrix"}
    counts = rows.fold(lambda block: block.X.sum(), lambda one, other: one + other)
    assert_allclose(counts, sparse.sum(), rtol=1e-12)


def test_atoms_and_rows_drawn_at_random():
    atoms = Kernel("rbf", gamma=0.5, centers=X[::9]).bind(X)
    statistic = Screens(atoms, np.full(atoms.size, 0.25), Weighted(), np.array([3, 5]))
    rows = open_dask(da.from_array(X, chunks=(41, 3)), Y[:, None], WEIGHTS)
    beside = local(y=Y[:, None], weights=WEIGHTS)
    for seed in (0, 1):
        step = Chosen(0.4, seed)
        one, two = rows.mapped(step).fold(statistic), beside.mapped(step).fold(statistic)
        for name in vars(one):
            assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-12, err_msg=name)
    assert rows.steps == ()


def test_labels_are_left_as_they_are():
    labels = np.where(Y > 0, "yes", "no")
    for lazy in (
        da.from_array(labels, chunks=40),
        dd.from_pandas(pd.Series(labels), npartitions=4),
        labels,
    ):
        rows = open_dask(da.from_array(X, chunks=(100, 3)), lazy, numeric_y=False)
        seen = rows.fold(lambda block: block.y.tolist(), lambda one, other: one + other)
        assert seen == labels.tolist()


# what a pass is


def test_rows_come_in_order_however_large_the_tree():
    lazy = da.from_array(X, chunks=(2, 3))
    rows = open_dask(lazy, np.arange(N))
    assert len(rows.parts.lengths) == 129  # two levels of eights and a third
    merged = rows.fold(lambda block: block.y.tolist(), lambda one, other: one + other)
    assert merged == list(range(N))


def test_a_pass_is_repeatable_bit_for_bit():
    rows = open_dask(da.from_array(X, chunks=(13, 3)), Y, WEIGHTS)
    first = rows.fold(found)
    for _ in range(5):
        assert_array_equal(rows.fold(found).products, first.products)


def test_merging_leaves_the_sums_of_partitions_alone():
    # A lost worker may have them asked for again.
    sums = [Found(1, 1, np.ones((2, 2)), np.ones(2)) for _ in range(3)]
    total = _merged((None, (), None, plus), True, None, *sums, None)
    assert_array_equal(total.products, np.full((2, 2), 3.0))
    for each in sums:
        assert_array_equal(each.products, np.ones((2, 2)))


def test_the_meter_counts_rows_and_passes():
    rows = open_dask(da.from_array(X, chunks=(60, 3)), Y)
    rows.fold(found)
    rows.mapped(Chosen(0.5, 0)).fold(found)
    assert (rows.meter.passes, rows.meter.rows, rows.meter.length) == (2, 2 * N, N)


def test_rows_are_heard_of_while_a_pass_is_under_way():
    rows = open_dask(da.from_array(X, chunks=(60, 3)), Y)
    told = []
    rows.meter.listen = lambda meter: told.append(meter.current)
    rows.fold(found)
    assert len(told) == 5
    assert told == sorted(told)
    assert told[-1] == N

    def enough(meter):
        raise KeyboardInterrupt

    rows.meter.listen = enough
    with pytest.raises(KeyboardInterrupt):
        rows.fold(found)
    rows.meter.listen = None
    assert_same(rows, local())


def test_names_of_columns():
    rows = open_dask(dd.from_pandas(FRAME, npartitions=3), Y)
    assert (rows.feature_names, rows.n_features, rows.n_rows) == (("a", "b", "c"), 3, N)
    assert open_dask(da.from_array(X), Y).feature_names is None
    assert open_dask(dd.from_pandas(pd.DataFrame(X), npartitions=3), Y).feature_names is None


def test_what_dask_is():
    assert is_dask(da.ones((3, 2)))
    assert is_dask(dd.from_pandas(FRAME, npartitions=1))
    assert is_dask(dd.from_pandas(FRAME, npartitions=1)["a"])
    assert not any(is_dask(other) for other in (X, FRAME, "data.parquet", None, [[1.0]]))


# what is refused


def wrong(values, row, column, value):
    values = np.array(values)
    values[row, column] = value
    return values


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (wrong(X, 130, 1, np.nan), "X has NaN in column 1, row 130"),
        (wrong(X, 130, 1, np.inf), "X has infinity in column 1, row 130"),
    ],
)
def test_a_partition_that_cannot_be_used_is_named(bad, reason):
    rows = open_dask(da.from_array(bad, chunks=(50, 3)), Y)
    with pytest.raises(ChunkError) as caught:
        rows.fold(found)
    assert str(caught.value) == f"partition 2 (rows 100 to 149): {reason}."


def test_missing_numbers_of_a_nullable_column_are_nan():
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).convert_dtypes()
    frame.loc[130, "b"] = pd.NA
    rows = open_dask(dd.from_pandas(frame, npartitions=1), Y)
    with pytest.raises(ChunkError, match=r"NaN in column 1 \('b'\), row 130"):
        rows.fold(found)


def changed_after_the_first(change, part, block_info=None):
    return change(part) if block_info[0]["chunk-location"][0] == 2 else part


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda part: part[:, :2], "it has 2 columns, the first one has 3"),
        (lambda part: part.astype(str), "X must be numbers, but holds text"),
        (lambda part: part + 1j, "X must be numbers, but holds complex numbers"),
        (lambda part: part[:-1], "it has 49 rows, but 50 when they were counted"),
        (lambda part: 1 / 0, "it cannot be computed (division by zero)"),
        (
            lambda part: Path("gone.csv").read_text(),
            "it cannot be computed ([Errno 2] No such",
        ),
    ],
)
def test_a_partition_that_is_not_what_was_promised_is_named(change, reason):
    lazy = da.from_array(X, chunks=(50, 3)).map_blocks(
        partial(changed_after_the_first, change), dtype=float, meta=np.zeros((0, 0))
    )
    rows = open_dask(lazy, Y)
    with pytest.raises(ChunkError) as caught:
        rows.fold(found)
    assert str(caught.value).startswith(f"partition 2 (rows 100 to 149): {reason}")
    assert "\n" not in str(caught.value)


def test_targets_and_weights_that_cannot_be_used():
    lazy = da.from_array(X, chunks=(50, 3))
    with pytest.raises(ChunkError, match=r"partition 0 \(rows 0 to 49\): y has NaN in row 3"):
        open_dask(lazy, wrong(Y[:, None], 3, 0, np.nan)[:, 0]).fold(found)
    with pytest.raises(ChunkError, match="partition 0 .*: sample_weight is -1 in row 3"):
        open_dask(lazy, Y, wrong(WEIGHTS[:, None], 3, 0, -1)[:, 0]).fold(found)
    with pytest.raises(ChunkError, match="partition . .*: y must be numbers, but holds text"):
        open_dask(lazy, Y.astype(str)).fold(found)


def test_an_error_of_the_statistic_is_its_own():
    rows = open_dask(da.from_array(X, chunks=(50, 3)), Y)
    with pytest.raises(ZeroDivisionError):
        rows.fold(lambda block: 1 / 0)


def test_collections_that_are_no_rows():
    lazy = da.from_array(X, chunks=(50, 3))
    text = dd.from_pandas(FRAME.assign(b="x"), npartitions=2)
    for call, error, words in [
        (lambda: open_dask(lazy[:, 0], Y), ValueError, "X must have two dimensions"),
        (lambda: open_dask(lazy, None), ValueError, "y must be given"),
        (lambda: open_dask(lazy, Y[:-1]), ValueError, "X has 257 rows, but y has 256"),
        (lambda: open_dask(lazy, Y, Y[:-1]), ValueError, "257 rows, but sample_weight has 256"),
        (lambda: open_dask(lazy, lazy[:-1, 0]), ValueError, "X has 257 rows, but y has 256"),
        (lambda: open_dask(lazy, Y, X), ValueError, "sample_weight must have at most 1 dim"),
        (lambda: open_dask(lazy, 1.0), ValueError, "y must have at most 2 dimensions, not 0"),
        (lambda: open_dask(lazy.astype(str), Y), ValueError, "X must be numbers, but holds"),
        (lambda: open_dask(lazy * 1j, Y), ValueError, "X must be numbers, but holds complex128"),
        (lambda: open_dask(text, Y), ValueError, "in column 'b'"),
        (lambda: open_dask(lazy[:0], Y[:0]), ValueError, "X has no rows"),
        (lambda: open_dask(lazy[:, :0], Y), ValueError, "X has no columns"),
        (lambda: open_dask(lazy[:, lazy[0] > 0], Y), ValueError, "columns of X must be known"),
        (lambda: open_dask(dask.delayed(X), Y), TypeError, "X must be a dask array or dataframe"),
        (lambda: open_dask(text["a"], Y), TypeError, "X must be a dask array or dataframe"),
        (lambda: open_dask(lazy, dask.delayed(Y)), TypeError, "y must be a dask array, series"),
    ]:
        with pytest.raises(error, match=words):
            call()


def test_no_rows_that_are_left():
    rows = open_dask(da.from_array(X, chunks=(50, 3)), Y)
    with pytest.raises(ValueError, match="no rows are left to fit"):
        rows.mapped(Chosen(0.0, 0)).fold(found)


def test_without_a_cluster_the_cores_are_those_of_this_machine(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert open_dask(da.ones((10, 2), chunks=(4, 2)), da.arange(10)).cores == 1
