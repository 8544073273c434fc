"""What is told of a long fit, to whom, how often, and how it is stopped."""

import io
import math
import os
import select
import sys

import numpy as np
import pytest

from sparsebayes.problem import Progress
from sparsebayes.progress import FitProgress, Interrupted, Watch, about
from sparsebayes.rows import Block, LocalRows, Meter, Sums


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def line(gain, atoms=5, noise=0.5):
    return Progress("screen", 3, atoms, -12.5, noise, gain)


def test_a_callback_hears_what_was_read_screened_and_found(clock):
    heard = []
    watch = Watch("RVR", callback=heard.append, clock=clock)
    watch.scale = 2.0
    meter = Meter(length=1000, listen=watch.read)
    watch.stage("all rows")
    meter.begin()
    clock.now += 3.0
    meter.read(400)
    assert heard[-1] == FitProgress("all rows", 400, 1000, 1, seconds=3.0)
    assert heard[-1].fraction == 0.4
    watch.screened(line(7.5))
    assert heard[-1] == FitProgress("all rows", 400, 1000, 1, 1, 5, -12.5, 2.0, 7.5, 3.0)
    clock.now += 1.0
    watch(line(1.0, atoms=6))  # a step of a solver on few candidates: its gain is not the screen's
    assert (heard[-1].atoms, heard[-1].max_gain, heard[-1].screens) == (6, 7.5, 1)


def test_a_callback_hears_every_screen_and_few_of_many_blocks(clock):
    heard = []
    watch = Watch("RVR", callback=heard.append, clock=clock)
    meter = Meter(length=10_000, listen=watch.read)
    meter.begin()
    for _ in range(1000):  # a second in all
        clock.now += 0.001
        meter.read(1)
    assert 9 <= len(heard) <= 11
    heard.clear()
    for _ in range(20):
        watch.screened(line(1.0))
    assert [found.screens for found in heard] == list(range(1, 21))


@pytest.mark.parametrize("answer", [True, np.True_])
def test_true_stops_the_fit(answer):
    watch = Watch("RVR", callback=lambda found: answer)
    with pytest.raises(Interrupted, match="the callback stopped the fit"):
        watch.screened(line(1.0))
    with pytest.raises(KeyboardInterrupt):
        watch.screened(line(1.0))


@pytest.mark.parametrize("answer", [None, False, np.False_, 1, "yes", [1]])
def test_nothing_else_stops_it(answer):
    watch = Watch("RVR", callback=lambda found: answer)
    watch.screened(line(1.0))
    assert watch.now.screens == 1


def test_exceptions_of_the_callback_reach_the_user():
    def fails(found):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        Watch("RVR", callback=fails).screened(line(1.0))


class Ten:
    """A source of ten rows in blocks of one."""

    n_features = 1

    def chunks(self, block_rows):
        for row in range(10):
            yield Block(np.full((1, 1), float(row)), np.zeros(1), None, row, f"row {row}")


def one(block):
    return Sums()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_callback_stops_a_pass_over_the_data(threads, clock):
    def stop(found):
        clock.now += 1.0
        return found.rows == 4

    watch = Watch("RVR", callback=stop, clock=clock)
    rows = LocalRows(Ten(), 1, threads, meter=Meter(listen=watch.read))
    with pytest.raises(Interrupted):
        rows.fold(one)
    assert rows.meter.current == 4
    watch.callback = None
    rows.fold(one)  # nothing of the pass before is left over
    assert rows.meter.current == 10


def decaying(clock, watch, gains, seconds):
    for gain in gains:
        clock.now += seconds
        watch.screened(line(gain))


def test_time_left_follows_gains_that_decay(clock):
    watch = Watch("RVR", tol=1e-6, clock=clock)
    decaying(clock, watch, [1e2], 10.0)
    assert watch.now.seconds_left is None  # of one screen nothing follows
    decaying(clock, watch, [1e1, 1.0, 1e-1], 10.0)
    assert watch.now.seconds_left == pytest.approx(50.0)  # 1e-2 to 1e-6 are five screens
    clock.now += 4.0
    watch(line(1e-3))
    assert watch.now.seconds_left == pytest.approx(46.0)
    decaying(clock, watch, [1e-7], 6.0)
    assert watch.now.seconds_left <= 10.0  # a subset of the dictionary that has nothing to add


@pytest.mark.parametrize("gains", [[1.0, 1.0], [1.0, 2.0], [math.inf, 1.0], [0.5, math.inf]])
def test_nothing_is_said_where_gains_do_not_fall(clock, gains):
    watch = Watch("RVR", clock=clock)
    decaying(clock, watch, gains, 1.0)
    assert watch.now.seconds_left is None


def test_slow_gains_give_a_bounded_time(clock):
    watch = Watch("RVR", clock=clock)
    decaying(clock, watch, [1.0, 1.0 - 1e-12], 1.0)
    assert watch.now.seconds_left == pytest.approx(200.0)


def test_another_stage_has_other_screens(clock):
    watch = Watch("RVR", clock=clock)
    decaying(clock, watch, [10.0, 1.0], 1.0)
    assert watch.now.seconds_left is not None
    watch.stage("all rows")
    assert watch.now.seconds_left is None
    decaying(clock, watch, [10.0], 1.0)
    assert watch.now.seconds_left is None


def test_rows_that_are_slower_than_before_count(clock):
    watch = Watch("RVR", tol=1e-6, clock=clock)
    decaying(clock, watch, [1.0, 1e-4], 1.0)  # one more round, of a second
    assert watch.now.seconds_left == pytest.approx(1.0)
    meter = Meter(length=1000, listen=watch.read)
    meter.begin()
    for _ in range(5):
        clock.now += 2.0
        meter.read(100)
    assert watch.now.seconds_left == pytest.approx(10.0)  # 500 rows of 20 ms each
    for _ in range(5):
        clock.now += 2.0
        meter.read(100)
    assert watch.now.seconds_left == 0.0


def test_the_first_block_of_the_first_pass_has_a_speed(clock):
    watch = Watch("RVR", tol=1e-6, clock=clock)
    meter = Meter(length=200, listen=watch.read)
    meter.begin()
    clock.now += 5.0
    meter.read(100)
    assert watch._forecast.row_seconds == pytest.approx(0.05)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def watched(watch, clock, steps=30, seconds=0.5):
    meter = Meter(length=steps * 10, listen=watch.read)
    with watch:
        watch.stage("all rows")
        meter.begin()
        for _ in range(steps):
            clock.now += seconds
            meter.read(10)
        watch.screened(line(2.5))


def test_a_bar_on_a_terminal(clock, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "70")
    watched(Watch("RVR", 1, clock=clock), clock)
    drawn = sys.stderr.getvalue()
    assert drawn.endswith("\n")
    assert drawn.count("\n") == 1  # one line, drawn again and again
    frames = drawn.strip().split("\r")[1:]
    assert len(frames) >= 30
    assert all(len(frame.removesuffix("\x1b[K")) < 70 for frame in frames)
    assert "[RVR] |######------| 50 % of pass 1, 0 atoms, all rows" in drawn
    assert "|############| 100 % of pass 1, 0 atoms, all rows" in drawn


def test_a_bar_is_finished_when_a_fit_fails(clock, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    watch = Watch("RVR", 1, lambda found: 1 / 0, clock=clock)
    with pytest.raises(ZeroDivisionError), watch:
        watch.stage("all rows")
    assert sys.stderr.getvalue().endswith("\n")


def test_a_log_has_a_line_in_a_few_seconds(clock, capsys):
    watched(Watch("RVR", 1, clock=clock), clock)  # of 15 seconds
    lines = capsys.readouterr().err.splitlines()
    assert 3 <= len(lines) <= 4
    assert "\r" not in "".join(lines)
    assert lines[1].startswith("[RVR]     5.0 s  all rows, pass 1: 33 % of 300 rows, 0 screens")


def test_a_log_in_detail_has_every_line_of_the_solver(clock, capsys):
    watch = Watch("RVR", 2, clock=clock)
    for gain in (3.0, 2.0):
        watch(line(gain))
        watch.screened(line(gain))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert "2 screens, 5 atoms, best gain 2, about 1 s left, objective -12.5" in lines[-1]


def test_silence_unless_asked(clock, capsys):
    watched(Watch("RVR", 0, clock=clock), clock)
    assert capsys.readouterr() == ("", "")


def test_a_program_without_a_console_is_no_error(clock, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    watch = Watch("RVR", 1, clock=clock)
    watched(watch, clock)
    assert watch.now.screens == 1


def test_words_of_progress_before_the_number_of_rows_is_known():
    assert str(FitProgress("summary", rows=70, passes=1)) == (
        "summary, pass 1: 70 rows, 0 screens, 0 atoms"
    )
    assert FitProgress("summary", rows=70, passes=1).fraction == 0.0
    late = FitProgress("all rows", 9, 9, 2, 3, 1, seconds_left=4000.0, max_gain=0.25)
    assert str(late).endswith("3 screens, 1 atom, best gain 0.25, about 67 min left")


def test_a_bar_tells_first_what_matters_most():
    late = FitProgress("all rows", 1, 2, 12, 3, 17, seconds_left=200.0, max_gain=0.25)
    assert late.bar() == (
        "|######------| 50 % of pass 12, about 3 min left, 17 atoms, best gain 0.25, all rows"
    )


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0, "about 1 s"), (89, "about 89 s"), (120, "about 2 min"), (8e5, "about 9 days")],
)
def test_times_in_words(seconds, words):
    assert about(seconds) == words


def _read_to_newline(terminal: int) -> str:
    """What a terminal shows, which arrives in pieces: up to a newline, or until no more comes."""
    shown = b""
    while not shown.endswith(b"\n") and select.select([terminal], [], [], 10.0)[0]:
        shown += os.read(terminal, 100_000)
    return shown.decode()


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no terminals")
def test_a_bar_on_a_real_terminal(clock, monkeypatch):
    inner, outer = os.openpty()
    with os.fdopen(outer, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        watched(Watch("RVR", 1, clock=clock), clock, steps=3)
        monkeypatch.undo()
        shown = _read_to_newline(inner)
    os.close(inner)
    assert "\r[RVR] |" in shown
    assert shown.endswith("\n")
