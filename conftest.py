"""Pictures of tests, pages and examples in docstrings: no windows, and none stays open.

The head of a run says what rounds: the kernels that BLAS and NumPy use. Its end says what was
skipped, a line for each reason.
"""

import gc
import os
import sys
from collections import defaultdict

import pytest

os.environ["MPLBACKEND"] = "agg"
gc.disable()  # what is imported and collected stays: looking through it again and again is in vain


def pytest_collection_finish():
    """Look for garbage from here on, and never among what was collected."""
    gc.freeze()
    gc.enable()


def pytest_report_header():
    """Say which kernels of BLAS and NumPy are in use."""
    from kernels import in_use

    return f"kernels: {in_use()}"


def pytest_terminal_summary(terminalreporter):
    """Say why tests were skipped, how many, and where they are."""
    reasons = defaultdict(list)
    for report in terminalreporter.stats.get("skipped", ()):
        if not hasattr(report, "wasxfail"):
            reasons[report.longrepr[2].removeprefix("Skipped: ")].append(
                report.nodeid.split("::")[0]
            )
    if reasons:
        terminalreporter.section("skipped")
    for reason, places in sorted(reasons.items()):
        terminalreporter.line(f"{len(places)}: {reason} ({', '.join(sorted(set(places)))})")


@pytest.fixture(autouse=True)
def _no_picture_stays_open():
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
