import io
import sys
import time
import warnings
from argparse import Namespace

import pytest
from sklearn.exceptions import ConvergenceWarning

from sparsebayes import _console, cli
from sparsebayes.commands._summary import Summary
from sparsebayes.problem import Progress
from sparsebayes.progress import Watch


def test_warnings_are_single_lines(capsys):
    with _console.warnings_as_lines():
        for _ in range(3):
            warnings.warn("first line\n  second line", ConvergenceWarning, stacklevel=1)
        warnings.warn("for programmers", DeprecationWarning, stacklevel=1)
    assert capsys.readouterr().err == "sparsebayes: warning: first line second line\n"


def test_nothing_that_a_file_says_commands_a_terminal(capsys, tmp_path):
    path = tmp_path / "data.csv"
    path.write_text('a,y\n1,1\n2,"\x1b[31m"\n3,3\n', encoding="utf-8")
    assert cli.main(["fit", str(path), "--target", "\x1b[31m"]) == 1
    _console.say("of a file: \x1b[31m\x9b31m \ud800 100\xa0%")
    found = Summary("title \x1b[2J")
    found.line("name", "text \x07")
    found.show(Namespace())
    out, err = capsys.readouterr()
    assert err.splitlines()[-1] == r"sparsebayes: of a file: \x1b[31m\x9b31m \ud800 100 %"
    assert out == "title \\x1b[2J\n\n  name          text \\x07\n"
    assert "\x1b" not in err


def test_no_progress_for_short_work(capsys):
    with _console.progress(delay=60):
        print("step 1", file=sys.stderr)
    assert capsys.readouterr().err == ""


def test_progress_in_a_pipe_is_thinned_out(capsys):
    with _console.progress(delay=0, interval=60):
        for step in range(100):
            print("step", step, file=sys.stderr)
    assert capsys.readouterr().err == "step 0\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_on_a_terminal_stays_on_one_line(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(_console, "_place", _console._Line)  # as where rich is not installed
    monkeypatch.setenv("COLUMNS", "20")
    with _console.progress(delay=0):
        for step in range(3):
            print("step", step, "of a long line that is cut", file=sys.stderr)
            time.sleep(0.11)
    assert sys.stderr is screen
    text = screen.getvalue()
    assert "\n" not in text
    assert text.count("\r") == 4
    assert text.endswith("\r\x1b[K")
    assert "\rstep 2 of a long li\x1b[K" in text


def test_a_bar_is_shown_on_a_terminal_and_thinned_out_elsewhere(monkeypatch, capsys):
    def draw():
        watch = Watch("RVR", verbose=1)
        for screen in range(3):
            watch.screened(Progress("screen", 1, 4, -1.0, 0.1, 10.0**-screen))
            time.sleep(0.12)
        watch.stage("all rows")

    with _console.progress(delay=0, interval=60):
        assert not sys.stderr.isatty()
        draw()
    assert capsys.readouterr().err.startswith("[RVR]     0.0 s  begin, 1 screen, 4 atoms")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(_console, "_place", _console._Line)
    monkeypatch.setenv("COLUMNS", "60")
    with _console.progress(delay=0):
        assert sys.stderr.isatty()
        draw()
    text = screen.getvalue()
    assert "\r[RVR] |------------| 0 % of pass 0, about 1 s left, 4 atoms\x1b[K" in text
    assert "\n" not in text
    assert text.endswith("\r\x1b[K")


def test_with_rich_a_terminal_shows_the_last_line_and_the_time(monkeypatch):
    pytest.importorskip("rich")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    with _console.progress(delay=0):
        print("[RVR] 17 [bold]atoms[/bold]", file=sys.stderr)
        time.sleep(0.15)
    text = screen.getvalue()
    assert "[RVR] 17 [bold]atoms[/bold]" in text  # brackets are no commands of rich's
    assert "0:00:00" in text
    assert text.endswith("\x1b[2K")  # nothing of it stays


def test_nothing_of_rich_is_asked_for_short_work(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with _console.progress(delay=60):
        print("step 1", file=sys.stderr)
    assert screen.getvalue() == ""
