"""Fixtures of several test files: the command line, run in this process; models to report on."""

import io
import json
import signal
import sys

import numpy as np
import pytest

import sparsebayes
from sparsebayes import RVC, RVR, cli
from sparsebayes.datasets import mixtures, sinc


@pytest.fixture(scope="session", autouse=True)
def interruptible():
    """Let processes that tests start hear Ctrl-C, also where tests run in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def run(capsys):
    """Run the command line here; gives exit code, stdout and stderr."""

    def main(*arguments):
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as exit_:
            code = exit_.code
        out, err = capsys.readouterr()
        return code, out, err

    return main


@pytest.fixture
def fails(run):
    """Run what must fail with exit code 1 and one line on stderr that has these words."""

    def main(*arguments, words):
        code, out, err = run(*arguments)
        assert code == 1, err
        assert out == ""
        assert err.startswith("sparsebayes: error: ")
        assert err.count("\n") == 1
        assert err.endswith("\n")
        for word in words:
            assert str(word) in err
        return err

    return main


@pytest.fixture
def fitted(run, tmp_path):
    """Fit column y of a frame or a text; gives facts, stderr and the model."""

    def fit(data, *options, name="data.csv", encoding="utf-8", **written):
        path = tmp_path / name
        if isinstance(data, str):
            path.write_bytes(data.encode(encoding))
        else:
            data.to_csv(path, index=False, **written)
        output = tmp_path / "m.model"
        arguments = ["--target", "y", "--json", "--output", output, *options]
        code, out, err = run("fit", path, *arguments)
        assert code == 0, err
        return json.loads(out), err, sparsebayes.load(output)

    return fit


@pytest.fixture
def stdin(monkeypatch):
    """Put text or bytes into stdin."""

    def give(content):
        content = content if isinstance(content, bytes) else content.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return give


@pytest.fixture(scope="session")
def wave():
    """A regression, its data, and rows that it has not seen."""
    data, new = sinc(60, noise=0.1, random_state=0), sinc(200, noise=0.1, random_state=1)
    return RVR(gamma=0.1).fit(data.X, data.y), data, new


@pytest.fixture(scope="session")
def clouds():
    """The same of a classification."""
    data, new = mixtures(150, random_state=0), mixtures(400, random_state=1)
    return RVC(gamma=4.0).fit(data.X, np.where(data.y, "yes", "no")), data, new
