"""Pictures of tests, pages and examples in docstrings: no windows, and none stays open.

The head of a run says what rounds: the kernels that BLAS and NumPy use.
"""

import os
import sys

import pytest

os.environ["MPLBACKEND"] = "agg"


def pytest_report_header():
    """Say which kernels of BLAS and NumPy are in use."""
    from kernels import in_use

    return f"kernels: {in_use()}"


@pytest.fixture(autouse=True)
def _no_picture_stays_open():
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
