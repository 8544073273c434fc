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


def test_breaks_are_noticed_or_not(tree, tmp_path):
    (tmp_path / "work").mkdir()
    copy = breaks.Copy(tree, tmp_path / "work")
    sound = (copy.path / "src/sparsebayes/sums.py").read_text()

    def of(tests, *places):
        return copy.outcome(breaks.breaking("room", "what", tests, *places), 60.0)

    found = of("sums*", ("gone", ""), ("2 * x", "3 * x"))
    assert (found.noticed, found.by) == ("noticed", "tests/test_sums.py::test_double")
    assert found.cpu > 0
    assert of("sums*", ("x / 2", "x / 3")).noticed == "NOT NOTICED"
    assert of("sums*", ("gone", "")).noticed == "NOT FOUND"
    assert of("other*", ("x / 2", "x / 3")).noticed == "NO TESTS"
    with pytest.raises(SyntaxError):
        of("sums*", ("x / 2", "x /"))
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


def test_a_test_that_fails_anyway_does_not_count(tree, tmp_path):
    (tmp_path / "work").mkdir()
    (tree / "tests" / "test_more.py").write_text("def test_always():\n    assert False\n")
    copy = breaks.Copy(tree, tmp_path / "work")
    fault = breaks.breaking("room", "what", "more* sums*", ("2 * x", "3 * x"))
    (found,) = copy.outcomes([fault], 60.0, whole=False)
    assert (found.noticed, found.by) == ("noticed", "tests/test_sums.py::test_double")
