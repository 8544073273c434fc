"""Rows on worker processes: the same sums and fits as here, also when a worker is killed."""

import logging
import multiprocessing
import os
import pickle
import signal
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from sparsebayes import (
    SparseBayesClassifier,
    SparseBayesRegressor,
    _journey,
    _memory,
    _row_regression,
)
from sparsebayes.datasets import sinc
from sparsebayes.dictionaries import Kernel
from sparsebayes.rows import ChunkError, LocalRows
from sparsebayes.rows.dask_rows import _merged, _of_partition, _opened, open_dask
from sparsebayes.rows.products import Screens, Weighted
from sparsebayes.rows.sources import open_source
from sparsebayes.rows.summary import gather

distributed = pytest.importorskip("distributed")

# On a busy machine a new process may take a minute to answer. Nothing here waits by the clock, but
# for what hangs: seconds after which the cluster is closed under a test.
LIMIT = 900
PATIENT = {
    "distributed.comm.timeouts.connect": "40s",  # so long a killed worker's address is tried again
    "distributed.comm.timeouts.tcp": f"{LIMIT}s",
    "distributed.scheduler.worker-ttl": f"{LIMIT}s",
}
RNG = np.random.default_rng(3)
X = RNG.normal(size=(3000, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=len(X))


def method_of_start():
    """Workers are forked from a process that imports what they need, where it is to be had."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return "spawn"
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        distributed.utils.get_mp_context()  # at the first call it says what is to be imported
    multiprocessing.set_forkserver_preload(
        ["distributed", "dask.array", "dask.dataframe", "sparsebayes.rows.dask_rows", __name__]
    )
    return "forkserver"


@pytest.fixture(scope="module")
def client():
    """Two worker processes with one thread each."""
    with (
        dask.config.set(PATIENT | {"distributed.worker.multiprocessing-method": method_of_start()}),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            memory_limit=0,
            silence_logs=logging.CRITICAL,  # workers that are killed are no news
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(autouse=True)
def watchdog(client):
    """Close the connection of a test that hangs, so that it fails."""
    timer = threading.Timer(LIMIT, partial(client.close, timeout=5))
    timer.daemon = True
    timer.start()
    client.wait_for_workers(2)  # that which the test before has killed is made again
    yield
    timer.cancel()


def lazily_given(rows=250):
    return da.from_array(X, chunks=(rows, 2))


def statistic(k=200):
    atoms = Kernel("rbf", gamma=0.5, centers=X[:k]).bind(X)
    return Screens(atoms, np.full(k, 0.1), Weighted(), np.arange(5))


def local_sums():
    return LocalRows(open_source(X, Y[:, None]), 400).fold(statistic())


def assert_same(one, other):
    for name in vars(one):
        assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-12, err_msg=name)


def pids_of(client):
    return set(client.run(os.getpid).values())


class Together:
    """A statistic that ends when two workers are at it: the processes that took part."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __call__(self, block):
        mine = Path(self.folder, str(os.getpid()))
        mine.touch()
        until = time.monotonic() + LIMIT
        while len(os.listdir(self.folder)) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        return {os.getpid()}


def slow(block):
    time.sleep(0.02)
    return {os.getpid()}


def united(one, other):
    return one | other


class KillOnce:
    """A statistic that kills the worker it is computed on, once."""

    def __init__(self, mark, statistic, start):
        self.mark, self.statistic, self.start = str(mark), statistic, start

    def __call__(self, block):
        if block.start == self.start:
            try:
                os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.statistic(block)


def test_sums_of_workers_are_those_of_local_blocks(client, tmp_path):
    rows = open_dask(lazily_given(), Y[:, None])
    assert_same(rows.fold(statistic()), local_sums())
    at_work = rows.fold(Together(tmp_path), united)
    assert at_work == pids_of(client)  # both, and this process did not


def test_partitions_in_the_memory_of_a_worker_share_a_task(client):
    kept = lazily_given(100).persist()
    distributed.wait(kept)
    rows = open_dask(kept, Y[:, None])
    assert sorted(part for lot in rows.parts.lots for part in lot) == list(range(30))
    assert len(rows.parts.lots) <= 4  # two for each worker
    assert_same(rows.fold(statistic()), local_sums())
    assert any(np.diff(lot).max(initial=0) > 1 for lot in rows.parts.lots)  # others in between
    assert_array_equal(gather(rows).y, Y[:, None])  # in the order of the rows all the same
    assert len(open_dask(lazily_given(60), Y[:, None]).parts.lots) == 50  # in no memory yet


def test_a_killed_worker_changes_nothing(client, tmp_path):
    # Workers hold the inputs, and targets were sent by this process: both may be lost.
    kept = client.persist(lazily_given() + 0.0)
    distributed.wait(kept)
    rows = open_dask(kept, Y[:, None])
    undisturbed = rows.fold(statistic())
    before, mark = pids_of(client), tmp_path / "killed"
    again = rows.fold(KillOnce(mark, statistic(), 1500))
    assert mark.exists()
    for name in vars(again):
        assert_array_equal(getattr(again, name), getattr(undisturbed, name), err_msg=name)
    client.wait_for_workers(2)
    assert len(before - pids_of(client)) == 1
    assert_same(rows.fold(statistic()), undisturbed)


def test_rows_are_heard_of_while_a_long_pass_is_under_way(client):
    rows = open_dask(lazily_given(), Y[:, None])
    told = []
    rows.meter.listen = lambda meter: told.append((meter.passes, meter.current))
    rows.fold(slow, united)
    assert told == [(1, 3000)]
    rows.pace.seconds = 60.0  # what the last pass is said to have taken
    begun = time.perf_counter()
    rows.fold(slow, united)
    assert told[1:] == [(2, 250 * i) for i in range(1, 13)]
    assert 0 < rows.pace.seconds < time.perf_counter() - begun


def test_who_is_told_may_end_a_pass(client):
    rows = open_dask(lazily_given(), Y[:, None])

    def enough(meter):
        if meter.current >= 750:
            raise KeyboardInterrupt

    rows.meter.listen, rows.pace.seconds = enough, 60.0
    with pytest.raises(KeyboardInterrupt):
        rows.fold(slow, united)
    assert rows.meter.current == 750
    rows.meter.listen = None
    assert_same(rows.fold(statistic()), local_sums())


class Spy:
    """Notes how many bytes each answer of the cluster has, once pickled."""

    def __init__(self, client, monkeypatch):
        self.sizes, self.gather = [], client.gather
        monkeypatch.setattr(client, "gather", self)

    def __call__(self, *args, **options):
        found = self.gather(*args, **options)
        self.sizes.append(len(pickle.dumps(found)))
        return found


def test_only_the_sum_returns(client, monkeypatch):
    rows = open_dask(lazily_given(25), Y[:, None])  # 120 partitions
    spy = Spy(client, monkeypatch)
    sums = rows.fold(statistic())
    assert len(spy.sizes) == 1
    assert spy.sizes[0] < len(pickle.dumps(sums)) + 1000


def test_what_a_pass_needs_is_in_the_graph_once(client):
    rows = open_dask(lazily_given(25), Y[:, None])
    size = 300_000
    root, _ = rows.parts.reduced(_opened, b"x" * size, _of_partition, _merged, 8)
    assert size < len(pickle.dumps(root.dask)) - len(pickle.dumps(rows.parts.graph)) < 1.5 * size


def test_a_corrupt_partition_is_named_by_the_worker_that_has_it(client):
    bad = X.copy()
    bad[1300, 1] = np.nan
    rows = open_dask(da.from_array(bad, chunks=(250, 2)), Y)
    with pytest.raises(ChunkError, match=r"^partition 5 \(rows 1250 to 1499\): X has NaN in colum"):
        rows.fold(counted_rows, united)


def test_a_file_that_is_gone_is_named(client, tmp_path):
    for number in range(4):
        np.save(tmp_path / f"{number}.npy", X[number * 10 : number * 10 + 10])
    lazy = da.concatenate(
        [
            da.from_delayed(delayed_load(tmp_path / f"{number}.npy"), (10, 2), dtype=float)
            for number in range(4)
        ]
    )
    rows = open_dask(lazy, Y[:40])
    rows.fold(counted_rows, united)
    (tmp_path / "2.npy").unlink()
    with pytest.raises(ChunkError, match=r"^partition 2 \(rows 20 to 29\): it cannot be computed"):
        rows.fold(counted_rows, united)


def counted_rows(block):
    return {block.start}


def delayed_load(path):
    import dask

    return dask.delayed(np.load)(Path(path))


# whole fits


SINC = sinc(4000, noise=0.1, dim=2, random_state=0)


@pytest.fixture
def in_rounds(monkeypatch):
    """Several screens even of a few rows and atoms, as of millions of rows."""
    monkeypatch.setattr(_row_regression, "_ONE_PASS", (0, 0))
    monkeypatch.setattr(_row_regression, "_FEW_ATOMS", 0)
    monkeypatch.setattr(_row_regression, "_FEW_PRODUCTS", 0)
    monkeypatch.setattr(_journey, "_STRUCTURE", (0.1, 200, 200))


def machine(centers=100, **parameters):
    dictionary = Kernel("rbf", gamma=0.16, centers=SINC.X[:centers])
    return SparseBayesRegressor(dictionary, **parameters)


def assert_same_fit(model, other):
    assert model.converged_
    assert model.certificate_.max_gain < 1e-6
    assert_allclose(model.log_marginal_likelihood_, other.log_marginal_likelihood_, rtol=1e-8)
    for one, two in zip(
        model.predict(SINC.X, return_std=True), other.predict(SINC.X, return_std=True), strict=True
    ):
        assert_allclose(one, two, rtol=1e-8, atol=1e-8)


def test_a_fit_on_workers_is_the_fit_here(client):
    X = da.from_array(SINC.X, chunks=(500, 2))
    model = machine().fit(X, da.from_array(SINC.y, chunks=500))
    assert_same_fit(model, machine().fit(SINC.X, SINC.y))
    lazy = model.predict(X)
    assert_allclose(lazy.compute(), model.predict(SINC.X), rtol=1e-12)


def test_where_partitions_are_changes_no_bit_of_a_fit(client, monkeypatch, in_rounds):
    monkeypatch.setattr(_memory, "_LARGEST_BLOCK", 1000)  # of rows here: the same blocks
    labels = (SINC.y > 0.3).astype(int)
    X = client.persist(da.from_array(SINC.X, chunks=(1000, 2)))
    y = client.persist(da.from_array(labels, chunks=1000))
    distributed.wait([X, y])
    dictionary = Kernel("rbf", gamma="scale", centers=30)
    machines = [
        SparseBayesRegressor(dictionary, memory="1GB", random_state=0),
        SparseBayesClassifier(dictionary, memory="1GB", prior="flat", random_state=0),
    ]
    for model in machines:
        there = clone(model).fit(X, y)
        here = clone(model).fit(SINC.X, labels)
        assert_array_equal(there.weights_, here.weights_)
        assert there.log_marginal_likelihood_ == here.log_marginal_likelihood_
        assert_array_equal(there.intercept_, here.intercept_)


def test_nothing_as_long_as_the_data_returns(client, monkeypatch, in_rounds):
    X = client.persist(da.from_array(SINC.X, chunks=(500, 2)))
    y = client.persist(da.from_array(SINC.y, chunks=500))
    spy = Spy(client, monkeypatch)
    model = machine(40).fit(X, y)
    assert model.converged_
    assert len(spy.sizes) >= 4  # passes
    # The longest is a sample of a thousand rows, however many there are.
    assert max(spy.sizes) < 8 * len(SINC.y)


class DiesOnce:
    """A partition whose reading kills the worker, the n-th time that it is read."""

    def __init__(self, folder, n):
        self.folder, self.n = str(folder), n

    def __call__(self, part):
        folder = Path(self.folder)
        (folder / uuid4().hex).touch()
        if len(list(folder.iterdir())) >= self.n:
            with suppress(FileExistsError):  # another worker may have counted as many just now
                folder.with_suffix(".died").touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        return part


def test_a_worker_that_is_killed_in_the_middle_of_a_fit_changes_nothing(
    client, tmp_path, in_rounds
):
    plain = da.from_array(SINC.X, chunks=(500, 2))
    beside = machine().fit(plain, SINC.y)
    before = pids_of(client)
    # Eight partitions, read once in each pass: this is in the middle of the third.
    X = plain.map_blocks(DiesOnce(tmp_path, 20), meta=np.empty((0, 2)))
    model = machine().fit(X, SINC.y)
    assert len(list(tmp_path.iterdir())) > 20
    client.wait_for_workers(2)
    assert len(before - pids_of(client)) == 1
    assert_same_fit(model, beside)
    assert_array_equal(model.relevance_, beside.relevance_)
    assert_array_equal(model.weights_, beside.weights_)  # to the last bit


def test_classification_on_workers_is_the_fit_here(client):
    rng = np.random.default_rng(8)
    labels = np.where(SINC.y + 0.2 * rng.logistic(size=len(SINC.y)) > 0.3, "high", "low")
    X = da.from_array(SINC.X, chunks=(500, 2))
    dictionary = Kernel("rbf", gamma=0.16, centers=SINC.X[:40])
    model = SparseBayesClassifier(dictionary).fit(X, da.from_array(labels, chunks=300))
    beside = SparseBayesClassifier(dictionary).fit(SINC.X, labels)
    assert model.converged_
    assert model.certificate_.max_gain < 1e-6
    assert_allclose(model.log_marginal_likelihood_, beside.log_marginal_likelihood_, rtol=1e-8)
    assert_allclose(model.predict_proba(SINC.X), beside.predict_proba(SINC.X), atol=1e-8)
    lazy = model.predict_proba(X)
    assert_allclose(lazy.compute(), model.predict_proba(SINC.X), rtol=1e-10)


def test_a_cluster_has_the_cores_of_its_workers(client):
    assert open_dask(da.from_array(X, chunks=(500, 2)), da.from_array(Y, chunks=500)).cores == 2
