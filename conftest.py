"""Pictures of tests, pages and examples in docstrings: no windows, and none stays open."""

import os
import sys

import pytest

os.environ["MPLBACKEND"] = "agg"


@pytest.fixture(autouse=True)
def _no_picture_stays_open():
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
