"""The command line on folders of parquet files, with a limit of memory and checkpoints."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from sparsebayes import load

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

N = 600


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    a, b, c = rng.uniform(-3, 3, (3, N))
    y = np.sin(a) + 0.5 * b + rng.normal(0, 0.1, N)
    kind = np.array(["low", "middle", "high"])[np.digitize(y, [-0.7, 0.7])]
    return pd.DataFrame({"a": a, "b": b, "c": c, "y": y, "z": 3 - 2 * y, "kind": kind})


@pytest.fixture(scope="module")
def folder(frame, tmp_path_factory):
    home = tmp_path_factory.mktemp("parts")
    for part, rows in enumerate(np.array_split(np.arange(N), 3)):
        frame.iloc[rows].to_parquet(home / f"part-{part}.parquet", index=False)
    return home


@pytest.fixture(scope="module")
def file(frame, tmp_path_factory):
    path = tmp_path_factory.mktemp("file") / "all.parquet"
    frame.to_parquet(path, index=False)
    return path


def line(out, name):
    (found,) = [text for text in out.splitlines() if text.split()[:1] == [name]]
    return found


@pytest.mark.parametrize("targets", [["y"], ["y", "z"]])
def test_a_folder_is_fitted_like_a_file(run, folder, file, tmp_path, targets):
    options = ["--target", *targets, "--drop", "kind", *{"y", "z"}.difference(targets)]
    options += ["--centers", 40, "--gamma", 0.2, "--seed", 0]
    found = {}
    for data in (folder, file):
        path = tmp_path / f"{data.name}.model"
        code, out, err = run("fit", data, *options, "--output", path)
        assert (code, err) == (0, "")
        found[data] = load(path)
        assert line(out, "rows").split() == ["rows", str(N)]
        assert "of 40" in line(out, "atoms")
        found[data, "fit"] = line(out, "fit")
        assert ("--test-file FILE" in out) == (data == folder)  # only a table can be split
    assert found[folder, "fit"] == found[file, "fit"]  # R2 from blocks, and from memory
    X = pd.read_parquet(file)[["a", "b", "c"]]
    np.testing.assert_allclose(found[folder].predict(X), found[file].predict(X), atol=1e-8)


def test_classes_of_a_folder(run, folder, file, tmp_path):
    options = ["--target", "kind", "--drop", "y", "z", "--kernel", "none"]
    found = {}
    for data in (folder, file):
        path = tmp_path / f"{data.name}.model"
        code, out, err = run("fit", data, *options, "--output", path)
        assert code == 0
        assert err == "sparsebayes: note: 'kind' is text, so its values are taken for classes\n"
        assert "'high', 'low', 'middle'" in line(out, "classes")
        found[data] = line(out, "fit"), load(path)
    assert found[folder][0] == found[file][0]
    X = pd.read_parquet(file)[["a", "b", "c"]]
    proba = found[file][1].predict_proba(X)
    np.testing.assert_allclose(found[folder][1].predict_proba(X), proba, atol=1e-8)


def test_a_limit_of_memory_and_a_checkpoint_of_tables(run, file, frame, tmp_path):
    table = tmp_path / "all.csv"
    frame.to_csv(table, index=False)
    options = ["--target", "y", "--features", "a", "b", "--kernel", "none", "--memory", "200 MB"]
    for data in (file, table):
        kept = tmp_path / f"{data.suffix}.checkpoint"
        code, out, err = run("fit", data, *options, "--checkpoint", kept, "--resume")
        assert (code, err) == (0, "")
        assert "no single change" in line(out, "certificate")


def test_what_cannot_be_fitted(fails, run, folder, file, tmp_path):
    few = tmp_path / "few"
    few.mkdir()
    fails("fit", few, "--target", "y", words=["no parquet file", few])
    fails("fit", folder, "--target", "why", words=[folder, "no column 'why'", "it has: a, b"])
    words = ["kind", "numbers", "part-0.parquet"]
    fails("fit", folder, "--target", "y", "--strict", words=words)
    halves = ["--target", "y", "--test", 0.5]
    fails("fit", folder, *halves, words=["--test splits a table in memory", "--test-file"])
    linear = ["--target", "y", "--drop", "kind", "z", "--kernel", "none"]
    fails("fit", folder, *linear, "--resume", words=["--resume", "--checkpoint"])
    fails("fit", folder, *linear, "--memory", "much", words=["memory", "'much'"])
    fails("fit", folder, *linear, "--memory", "1kB", words=["memory", "too little"])
    fails("fit", folder, *linear, "--checkpoint", tmp_path, words=["checkpoint", "is a directory"])
    fails("fit", folder, *linear, "--centers", 5, words=["--centers is for kernels"])
    fails("predict", file, folder, words=["all.parquet is not a sparsebayes model file"])
    code, _, err = run("fit", folder, *linear, "--centers", "many")
    assert code == 2
    assert "not an integer above zero" in err
    (few / "a.parquet").write_bytes(b"PAR1 but nothing else")
    fails("fit", few, "--target", "y", words=["a.parquet", "not a parquet file"])


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
def test_an_interrupted_command_is_resumed(run, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-4, 4, (6000, 2))
    y = np.sin(1.5 * X[:, 0]) * np.cos(2 * X[:, 1]) + rng.normal(0, 0.3, 6000)
    parts = tmp_path / "parts"
    parts.mkdir()
    for part in range(2):
        rows = slice(3000 * part, 3000 * (part + 1))
        frame = pd.DataFrame({"a": X[rows, 0], "b": X[rows, 1], "y": y[rows]})
        frame.to_parquet(parts / f"part-{part}.parquet")
    kept = tmp_path / "fit.checkpoint"
    command = [sys.executable, "-m", "sparsebayes", "fit", str(parts), "--target", "y"]
    command += ["--gamma", "1", "--centers", "900", "--seed", "0", "--memory", "64MiB"]
    command += ["--checkpoint", str(kept)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        ended = time.monotonic() + 600
        while not kept.exists() and child.poll() is None and time.monotonic() < ended:
            time.sleep(0.005)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=600)
    finally:
        child.kill()
    assert child.returncode == 130, err
    # A busy machine may have told progress before.
    assert err.endswith(f"sparsebayes: interrupted: with --resume a fit goes on from {kept}\n")
    code, out, err = run(*command[3:], "--resume")
    assert code == 0, err
    assert "no single change of an atom gains more" in out
