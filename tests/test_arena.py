"""Memory that is kept during a block, in processes that would give it back at once."""

import os
import subprocess
import sys

import pytest

from sparsebayes.rows import arena
from sparsebayes.rows.arena import _allocator, kept_memory

pytestmark = pytest.mark.skipif(_allocator() is None, reason="needs glibc")

# The module alone: the package beside it imports scikit-learn, which is not needed here.
SCRIPT = """
import contextlib, resource, runpy, sys
import numpy as np
kept_memory = runpy.run_path(sys.argv[1])["kept_memory"]

def faults(context):
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        with context():
            for _ in range(50):
                np.ones(2**18)
        found = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return found

print(faults(contextlib.nullcontext), faults(kept_memory), faults(contextlib.nullcontext))
"""


def run(**settings):
    environment = {k: v for k, v in os.environ.items() if k != "MALLOC_TRIM_THRESHOLD_"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, arena.__file__],
        env=environment | settings,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return [int(number) for number in done.stdout.split()]


def test_temporaries_are_mapped_once_and_given_back_after_the_block():
    outside, inside, after = run(MALLOC_TRIM_THRESHOLD_="65536")
    assert inside < outside / 5
    assert after > outside / 2  # as before


def test_other_processes_are_left_alone(monkeypatch):
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    with kept_memory():
        pass
    outside, inside, after = run()
    assert max(outside, inside, after) < 5000
