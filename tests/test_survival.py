"""Long fits survive: kill -9, Ctrl-C, a callback that stops them, chunks that break under way."""

import os
import shutil
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sparsebayes import SparseBayesClassifier, SparseBayesRegressor
from sparsebayes.checkpoints import CheckpointError
from sparsebayes.dictionaries import Kernel
from sparsebayes.problem import Status
from sparsebayes.rows import ChunkError

N, M = 5000, 900
MEMORY = "64MiB"  # too little for the Gram matrix of all atoms: screens and rounds
LONG = 600.0  # seconds that a busy machine may take
KINDS = ("regression", "classification")
FRESH = np.random.default_rng(1).uniform(-4, 4, (300, 2))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data in files: X, and y of both kinds."""
    home = tmp_path_factory.mktemp("survival")
    rng = np.random.default_rng(0)
    X = rng.uniform(-4, 4, (N, 2))
    f = np.sin(1.5 * X[:, 0]) * np.cos(2 * X[:, 1])
    np.save(home / "X.npy", X)
    np.save(home / "regression.npy", f + rng.normal(0, 0.5, N))
    np.save(
        home / "classification.npy", np.where(rng.uniform(size=N) < 1 / (1 + np.exp(-2 * f)), 1, 0)
    )
    return home


def read(folder, kind):
    return np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / f"{kind}.npy", mmap_mode="r")


def estimator(X, kind="regression", **settings):
    estimators = {"regression": SparseBayesRegressor, "classification": SparseBayesClassifier}
    # Kernels with a kink: smooth ones are of low rank, and one pass would be enough.
    dictionary = Kernel("laplacian", gamma=1.0, centers=np.array(X[:M]) + 0.01)
    return estimators[kind](dictionary, **{"memory": MEMORY} | settings)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The checkpoint of a regression that nothing happened to."""
    return tmp_path_factory.mktemp("done") / "regression.checkpoint"


@pytest.fixture(scope="module")
def undisturbed(folder, done):
    """What fits find that nothing happens to."""
    found = {}
    for kind in KINDS:
        X, y = read(folder, kind)
        kept = {"checkpoint": done} if kind == "regression" else {}
        found[kind] = estimator(X, kind, **kept).fit(X, y)
        assert found[kind].converged_
    return found


def answers(model):
    X = FRESH
    if hasattr(model, "feature_names_in_"):
        X = pytest.importorskip("pandas").DataFrame(X, columns=model.feature_names_in_)
    if hasattr(model, "classes_"):
        return model.predict_proba(X)
    return np.concatenate(model.predict(X, return_std=True))


def assert_same(model, expected):
    np.testing.assert_allclose(answers(model), answers(expected), rtol=0, atol=1e-8)
    evidence = expected.log_marginal_likelihood_
    assert abs(model.log_marginal_likelihood_ - evidence) <= 1e-8 * abs(evidence)
    np.testing.assert_array_equal(model.relevance_, expected.relevance_)
    assert model.converged_
    assert model.certificate_.holds(model.tol)
    assert model.certificate_.fraction == 1
    np.testing.assert_allclose(
        model.certificate_.max_curvature, expected.certificate_.max_curvature, rtol=1e-6
    )


def until(screens):
    """A callback that ends a fit when so many screens are done."""
    return lambda found: found.screens == screens


@pytest.fixture(scope="module")
def stopped(folder, tmp_path_factory):
    """Fits that a callback stopped after two screens: models, checkpoints, what was told."""
    found = {}
    for kind in KINDS:
        X, y = read(folder, kind)
        kept, seen = tmp_path_factory.mktemp("stopped") / f"{kind}.checkpoint", []

        def stop(progress, seen=seen):
            seen.append(progress)
            return progress.screens == 2

        model = estimator(X, kind, checkpoint=kept, callback=stop, on_interrupt="return")
        with pytest.warns(ConvergenceWarning, match="the fit was interrupted"):
            model.fit(X, y)
        found[kind] = model, kept, seen
    return found


CHILD = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from test_survival import estimator, read

def act(found):
    if found.screens == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)

X, y = read(Path(sys.argv[2]), "regression")
estimator(X, checkpoint=sys.argv[3], resume=True, callback=act).fit(X, y)
"""


def start(folder, checkpoint, *, dies_at):
    """Begin a fit in a process of its own, which dies when so many screens are done."""
    command = [sys.executable, "-c", CHILD, os.path.dirname(__file__), folder, checkpoint]
    command = [str(word) for word in (*command, dies_at)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(child):
    """Wait for a process; gives how it ended and what it printed."""
    try:
        _, err = child.communicate(timeout=LONG)
    finally:
        child.kill()
    return child.returncode, err


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
def test_a_fit_goes_on_after_it_was_killed(folder, undisturbed, tmp_path):
    X, y = read(folder, "regression")
    kept = tmp_path / "fit.checkpoint"
    # It dies when a screen is done and nobody has been told what it found.
    code, err = finish(start(folder, kept, dies_at=2))
    assert code == -signal.SIGKILL, err
    assert kept.stat().st_size < 10_000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = estimator(X, checkpoint=kept, resume=True).fit(X, y)
    assert model.solution_.status is Status.CONVERGED
    assert_same(model, undisturbed["regression"])


def test_an_interrupt_returns_the_last_good_model_where_that_was_asked_for(
    folder, undisturbed, tmp_path
):
    X, y = read(folder, "regression")

    def interrupt(found):
        if found.screens == 2:
            signal.raise_signal(signal.SIGINT)

    model = estimator(X, checkpoint=tmp_path / "fit.checkpoint", callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert not hasattr(model, "posterior_")
    model.set_params(resume=True, on_interrupt="return")
    with pytest.warns(ConvergenceWarning, match="the fit was interrupted") as warned:
        model.fit(X, y)
    assert len(warned) == 1
    assert model.solution_.status is Status.INTERRUPTED
    assert not model.converged_
    assert model.certificate_.max_gain > 1e-6
    np.testing.assert_allclose(answers(model), answers(undisturbed["regression"]), atol=0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_callback_stops_a_fit_like_an_interrupt(folder, undisturbed, stopped, tmp_path, kind):
    X, y = read(folder, kind)
    model, checkpoint, seen = stopped[kind]
    assert model.solution_.status is Status.INTERRUPTED
    assert not model.converged_
    assert np.isfinite(answers(model)).all()
    assert [found.screens for found in seen[-2:]] == [1, 2]
    assert seen[-1].n_rows == N
    assert seen[-1].atoms > 10
    assert seen[-1].max_gain > 0
    kept = shutil.copy(checkpoint, tmp_path / "fit.checkpoint")
    again = estimator(X, kind, checkpoint=kept, resume=True).fit(X, y)
    assert_same(again, undisturbed[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_interrupted_before_all_rows_were_seen_nothing_is_certain(folder, kind):
    X, y = read(folder, kind)
    model = estimator(X, kind, callback=until(1), on_interrupt="return")
    with pytest.warns(ConvergenceWarning, match="the fit was interrupted"):
        model.fit(X, y)
    assert model.solution_.status is Status.INTERRUPTED
    assert not model.converged_


@pytest.mark.parametrize("kind", KINDS)
def test_interrupted_before_there_is_a_model_it_is_an_interrupt(folder, kind):
    X, y = read(folder, kind)
    model = estimator(X, kind, callback=lambda found: True, on_interrupt="return")
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)


def test_a_fit_that_is_done_is_resumed_at_once(folder, undisturbed, done, tmp_path):
    X, y = read(folder, "regression")
    kept, seen = shutil.copy(done, tmp_path / "fit.checkpoint"), []
    changed = {"memory": "80MiB", "tol": 1e-7, "callback": seen.append}
    model = estimator(X, checkpoint=kept, resume=True, **changed).fit(X, y)
    assert seen[-1].screens == 1
    assert_same(model, undisturbed["regression"])


@pytest.fixture(scope="module", params=KINDS)
def subsets(request, folder):
    """Fits of more atoms than are screened at once, and what an undisturbed one finds."""
    X, y = read(folder, request.param)
    centers, seen = np.random.default_rng(2).uniform(-4, 4, (4500, 2)), []

    def fit(**settings):
        model = estimator(X, request.param, **settings)
        model.set_params(dictionary=Kernel("rbf", gamma=1.0, centers=centers))
        return model.fit(X[:1500], y[:1500])

    expected = fit(callback=seen.append)
    assert seen[-1].screens > 6
    return fit, expected


def test_a_fit_in_subsets_of_the_dictionary_goes_on_too(subsets, tmp_path):
    fit, expected = subsets
    kept = tmp_path / "fit.checkpoint"
    with pytest.raises(KeyboardInterrupt):
        fit(checkpoint=kept, callback=until(5))
    assert_same(fit(checkpoint=kept, resume=True), expected)
    more = fit(checkpoint=kept, resume=True, memory="120MiB")  # fewer subsets than before
    assert more.converged_
    assert more.certificate_.fraction == 1


@pytest.mark.parametrize("change", ["targets", "inputs", "dictionary", "prior", "rows", "centers"])
def test_a_checkpoint_of_another_fit_is_refused(folder, stopped, tmp_path, change):
    X, y = read(folder, "regression")
    kept = shutil.copy(stopped["regression"][1], tmp_path / "fit.checkpoint")
    model = estimator(X, checkpoint=kept, resume=True)
    X, y = np.array(X), np.array(y)
    if change == "targets":
        y[5] += 1.0
    elif change == "inputs":
        X[5] += 1.0
    elif change == "dictionary":
        model.set_params(dictionary=Kernel("rbf", gamma=1.1, centers=model.dictionary.centers))
    elif change == "prior":
        model.set_params(prior="bic")
    elif change == "rows":
        X, y = X[:-1], y[:-1]
    else:
        centers = model.dictionary.centers.copy()
        centers[3, 1] += 0.1
        model.set_params(dictionary=Kernel("rbf", gamma=1.0, centers=centers))
    before = kept.read_bytes()
    with pytest.raises(CheckpointError, match="another fit .*resume=False") as caught:
        model.fit(X, y)
    assert "\n" not in str(caught.value)
    assert kept.read_bytes() == before


def test_a_checkpoint_that_cannot_be_written_is_refused_before_the_fit(folder, tmp_path):
    X, y = read(folder, "regression")
    seen = []
    model = estimator(X, checkpoint=tmp_path / "missing" / "fit", callback=seen.append)
    with pytest.raises(CheckpointError, match="no such folder"):
        model.fit(X, y)
    assert seen == []


# ------------------------------------------------------------------------ chunks that break


def damage(path, frame, how):
    """Damage one file of a folder."""
    if how == "missing value":
        frame = frame.copy()
        frame.loc[7, "b"] = np.nan
        frame.to_parquet(path, index=False)
    else:
        path.unlink()


def test_a_chunk_that_breaks_is_named_and_the_checkpoint_stays(folder, undisturbed, tmp_path):
    pd, _ = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    X, y = read(folder, "regression")
    parts, whole = tmp_path / "parts", tmp_path / "whole.parquet"
    parts.mkdir()
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y})
    for part in range(4):
        rows = frame[2000 * part : 2000 * (part + 1)].reset_index(drop=True)
        rows.to_parquet(parts / f"part-{part}.parquet", index=False)
    broken = parts / "part-2.parquet"
    shutil.copy(broken, whole)
    for how in ("missing value", "gone"):
        harmed, kept = [], tmp_path / f"{how}.checkpoint"

        def harm(found, how=how, harmed=harmed):
            if found.screens == 1 and not harmed:
                harmed.append(found)
                damage(broken, pd.read_parquet(whole), how)

        model = estimator(X, checkpoint=kept, callback=harm)
        with pytest.raises(ChunkError, match=r"^chunk \d+ \(.*part-2.parquet\): ") as caught:
            model.fit(parts, "y")
        assert "\n" not in str(caught.value)
        assert kept.exists()
        shutil.copy(whole, broken)
    model.set_params(callback=None, resume=True).fit(parts, "y")
    assert_same(model, undisturbed["regression"])
