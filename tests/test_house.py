"""The drawing of the house: sizes, chains of imports, and walks through a fit."""

import pytest

from benchmarks import house
from sparsebayes import denoise

SOURCES = {
    "__init__.py": "from sparsebayes.low import f\n",
    "low.py": "_A = 1.5\n_B = -2 * 3\n_C = 8 * _A\n_NAMES = (1, 2)\n_FLAG = True\ndef f(): ...\n",
    "deep/__init__.py": "from sparsebayes.deep import inner\n",
    "deep/inner.py": "from .. import low\nfrom .other import g\n\nclass T:\n    x: float = 0.5\n",
    "deep/other.py": (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from sparsebayes.deep import inner\n"
        "def g():\n    from sparsebayes import last\n"
    ),
    "last.py": "import numpy\n",
}


@pytest.fixture
def modules(tmp_path):
    for name, text in SOURCES.items():
        path = tmp_path / "src" / "sparsebayes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return house.modules_of(tmp_path)


def test_imports_are_read_from_the_source(modules):
    edges = {
        name.removeprefix("sparsebayes").lstrip("."): {m.removeprefix("sparsebayes.") for m in to}
        for name, to in house.graph(modules, inside=True).items()
    }
    assert edges == {
        "": {"low"},
        "low": set(),
        "deep": {"deep.inner"},
        "deep.inner": {"low", "deep.other"},
        "deep.other": {"last"},
        "last": set(),
    }
    assert house.graph(modules, inside=False)["sparsebayes.deep.other"] == set()
    assert house.single(house.graph(modules, inside=True)) == {
        "sparsebayes.deep.inner",
        "sparsebayes.deep.other",
        "sparsebayes.last",
    }


def test_the_longest_chain(modules):
    chain = house.longest_chain(house.graph(modules, inside=True))
    names = ["deep", "deep.inner", "deep.other", "last"]
    assert chain == [f"sparsebayes.{name}" for name in names]
    assert house.longest_chain({"a": {"b"}, "b": {"a"}}) == ["a", "b"]


def test_sizes(modules):
    whole, rooms, _ = house.sizes(modules, [])
    assert [row["room"] for row in rooms] == ["(root)", "deep", "all"]
    assert [row["numbers"] for row in rooms] == [3, 0, 3]
    assert [row["in fields"] for row in rooms] == [0, 1, 1]
    figures = {row[""]: row["figure"] for row in whole}
    assert figures["lines"] == sum(text.count("\n") for text in SOURCES.values())
    assert figures["classes"] == 1


def test_a_walk_lists_modules_in_order():
    def job():
        denoise([0.0, 1.0, 0.0, 2.0] * 8, noise_variance=1.0)

    job()
    found = house.Walk().run(job)
    assert found["modules"][0] == "sparsebayes.signals"
    assert all(name.startswith("sparsebayes.") for name in found["modules"])
    # Every module but the first is entered from another one.
    assert found["hops"] >= len(found["modules"]) - 1
    assert found["calls"] >= found["hops"]


def test_the_house_is_drawn_as_a_page(tmp_path, modules):
    walked = {"a call": {"modules": ["sparsebayes.x", "sparsebayes.y"], "hops": 1, "calls": 2}}
    page = house.drawing(tmp_path, walked, markdown=True)
    assert "| a call | 2 | 1 | 2 |" in page
    assert "`x` → `y`" in page
    rooms = [line.split("|")[1:-1] for line in page if line.startswith(("| (root)", "| all "))]
    assert int(rooms[0][2]) < int(rooms[1][2])
