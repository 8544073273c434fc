"""Fixtures of several test files: the command line, run in this process."""

import pytest

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
