"""Fixtures of several test files: the command line, run in this process."""

import io
import json
import sys

import pytest

import sparsebayes
from sparsebayes import cli


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
