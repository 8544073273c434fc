"""Parametrization by pairs holds every pair, in turn every value: in far fewer rows than all."""

import itertools

import pytest

from pairwise import _rows, in_turn, pairwise


@pytest.mark.parametrize("sizes", [(2, 2), (3, 4), (2, 2, 2), (4, 3, 3, 2, 2), (5, 4, 2, 1)])
def test_every_pair_is_there(sizes):
    rows = _rows(sizes)
    assert len(set(rows)) == len(rows)
    for a, b in itertools.combinations(range(len(sizes)), 2):
        met = {(row[a], row[b]) for row in rows}
        assert met == set(itertools.product(range(sizes[a]), range(sizes[b])))
    largest, second = sorted(sizes)[:-3:-1]
    assert largest * second <= len(rows) <= 1.5 * largest * second


def test_values_have_names():
    mark = pairwise(one={"first": 1.5, "second": None}, other=[len, "text"])
    assert mark.args[0] == ["one", "other"]
    assert sorted(mark.kwargs["ids"]) == [
        "first-'text'",
        "first-len",
        "second-'text'",
        "second-len",
    ]
    assert [1.5, len] in mark.args[1]


def test_every_value_has_its_turn():
    mark = in_turn(one="abc", other=[1, 2])
    assert mark.args[1] == [["a", 1], ["b", 2], ["c", 1]]
