"""Ctrl-C in earnest: a signal to a process that fits or writes leaves nothing half-written."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from sparsebayes import RVR
from sparsebayes.datasets import sinc

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
COMMAND = [sys.executable, "-m", "sparsebayes"]
LONG = 600.0  # seconds that a busy machine may take to get there


def started(*arguments):
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def interrupted(child, ready):
    """Send the signal as soon as `ready` is true; gives exit code, stdout and stderr."""
    try:
        end = time.monotonic() + LONG
        while not ready() and child.poll() is None and time.monotonic() < end:
            time.sleep(0.001)
        assert child.poll() is None, "it ended before it could be interrupted"
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=LONG)
    finally:
        child.kill()
        child.wait()
    return child.returncode, out, err


def test_during_a_fit(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 6))
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(constant=1.0, y=np.sin(X.sum(axis=1)))
    frame.to_csv(tmp_path / "data.csv", index=False)
    model, report = tmp_path / "old.model", tmp_path / "old.html"
    model.write_text("old model")
    report.write_text("old report")
    child = started(
        *("fit", tmp_path / "data.csv", "--target", "y", "--gamma", 5),
        *("--output", model, "--report", report),
    )
    note = child.stderr.readline()  # the last thing that is said before the fit begins
    assert "'constant' is constant" in note
    begin = time.monotonic() + 0.3
    code, out, err = interrupted(child, lambda: time.monotonic() > begin)
    assert (code, out) == (130, "")
    assert err.endswith("sparsebayes: interrupted\n")
    assert "Traceback" not in err
    assert (model.read_text(), report.read_text()) == ("old model", "old report")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv", "old.html", "old.model"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_during_a_write(tmp_path, suffix):
    data = sinc(60, random_state=0)
    RVR(gamma=0.1).fit(data.X, data.y).save(tmp_path / "m.model")
    count = 150_000 if suffix == "csv" else 600_000
    np.save(tmp_path / "data.npy", np.linspace(-3, 3, count)[:, np.newaxis])
    output = tmp_path / f"out.{suffix}"
    output.write_text("old predictions")
    child = started("predict", tmp_path / "m.model", tmp_path / "data.npy", "--output", output)

    def writing():
        return any(path.stat().st_size for path in tmp_path.glob(".*.tmp") if path.exists())

    code, out, err = interrupted(child, writing)
    assert (code, out) == (130, "")
    assert err.endswith("sparsebayes: interrupted\n")
    assert "Traceback" not in err
    assert output.read_text() == "old predictions"
    assert not list(tmp_path.glob(".*"))
