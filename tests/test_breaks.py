"""Deliberate breaks: put into a copy of a checkout, and told apart by whether a test fails."""

import pytest

from benchmarks import breaks

TESTS = """
from sparsebayes.sums import double, half

def test_double():
    assert double(2) == 4
"""


@pytest.fixture
def tree(tmp_path):
    files = {
        "src/sparsebayes/__init__.py": "",
        "src/sparsebayes/sums.py": (
            "def double(x):\n    return 2 * x\n\n\ndef half(x):\n    return x / 2\n"
        ),
        "tests/test_sums.py": TESTS,
    }
    for name, text in files.items():
        path = tmp_path / "given" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "given"


def test_breaks_are_noticed_or_not(tree, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:zarr -p no:hypothesispytest")  # which take long
    (tree / "tests" / "test_more.py").write_text("def test_failing_anyway():\n    assert False\n")
    (tmp_path / "work").mkdir()
    copy = breaks.Copy(tree, tmp_path / "work")
    sound = (copy.path / "src/sparsebayes/sums.py").read_text()
    faults = [
        breaks.breaking("room", "", "more* sums*", ("gone", ""), ("2 * x", "3 * x")),
        breaks.breaking("room", "", "sums*", ("x / 2", "x / 3")),
        breaks.breaking("room", "", "sums*", ("gone", "")),
        breaks.breaking("room", "", "other*", ("x / 2", "x / 3")),
    ]
    found = copy.outcomes(faults, 60.0, whole=False)
    noticed = ["noticed", "NOT NOTICED", "NOT FOUND", "NO TESTS"]
    assert [one.noticed for one in found] == noticed
    assert found[0].by == "tests/test_sums.py::test_double"
    assert found[0].cpu > 0
    with pytest.raises(SyntaxError):
        copy.outcome(breaks.breaking("room", "", "sums*", ("x / 2", "x /")), 60.0)
    assert (copy.path / "src/sparsebayes/sums.py").read_text() == sound
    assert (tree / "src/sparsebayes/sums.py").read_text() == sound


def test_what_was_noticed_is_counted_by_room():
    one, two = breaks.BREAKS[0], breaks.BREAKS[-1]
    outcomes = [(one, "noticed"), (two, "noticed"), (two, "NOT NOTICED"), (two, "NOT FOUND")]
    told = breaks.summary((fault, breaks.Outcome(noticed)) for fault, noticed in outcomes)
    assert told == [
        f"{one.room}: 1 of 1 noticed",
        f"{two.room}: 1 of 3 noticed",
        "all: 2 of 4 noticed",
        "NOT FOUND: 1, to be brought up to date",
    ]


def test_breaks_are_many_and_spread_over_the_rooms():
    assert len(breaks.BREAKS) >= 30
    assert len({fault.room for fault in breaks.BREAKS}) >= 12
    assert len({fault.what for fault in breaks.BREAKS}) == len(breaks.BREAKS)
    for fault in breaks.BREAKS:
        assert all(before != after for before, after in fault.places), fault.what
    assert breaks.chosen(["export: C"]) == [
        fault for fault in breaks.BREAKS if fault.what.startswith("C:")
    ]
