"""The pages of measured results in docs/results: which there are, and how to measure them again.

``python -m benchmarks.pages`` lists them with the day of their last run; names run those again,
one after the other, and ``all`` every one: some hours, on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"

RUNS = {
    "comparison": "comparison",
    "fast2003": "fast2003",
    "fast2003-classes": "fast2003 --classification --draws 5 --sizes 100 300 1000 2000",
    "sparse": "sparse",
    "predict": "predict",
    "wavelets": "wavelets",
    "compressive": "compressive --only phase noise --sizes 256 512 --seeds 5",
    "pictures": "compressive --only pictures",
    "optimum": "optimum",
    "optimum-smooth": "optimum --smooth",
    "calibration": "calibration",
    "coverage": "coverage --quick",
    "new-weight": "new_weight",
    "selection": "selection",
    "kernel-learning": "kernel_learning --draws 2",
    "kernel-default": "kernel_learning --default --draws 1",
    "usps": "usps --only SVC 'RVC, multinomial'",
    "million": "million",
    "million-dask": "million --dask",
    "tipping2001-figures": "reproduce.tipping2001 --figures",
    "tipping2001-regression": "reproduce.tipping2001 --regression",
    "tipping2001-classification": "reproduce.tipping2001 --classification",
    "srvm2007": "reproduce.srvm2007",
}


def arguments(name: str) -> list[str]:
    """Return the arguments of Python that measure one page."""
    module, *options = shlex.split(RUNS[name])
    return ["-m", f"benchmarks.{module}", *options]


def last_run(name: str) -> str:
    """Return the day of a page, or a dash."""
    path = RESULTS / f"{name}.md"
    found = re.search(r"^- Measured on (\S+),", path.read_text(), re.M) if path.exists() else None
    return found[1] if found else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure pages of docs/results again")
    parser.add_argument("name", nargs="*", metavar="NAME", help=f"{' '.join(RUNS)}, or all")
    names = parser.parse_args().name
    unknown = [name for name in names if name not in RUNS and name != "all"]
    if unknown:
        parser.error(f"no page is called {unknown[0]!r}; there are {', '.join(RUNS)} and all")
    if not names:
        for name in RUNS:
            print(f"{name:27} {last_run(name):11} {shlex.join(['python', *arguments(name)])}")
        return
    for name in RUNS if "all" in names else names:
        print(f"== {name}", flush=True)
        page = ["--page", str(RESULTS / f"{name}.md")]
        subprocess.run([sys.executable, *arguments(name), *page], check=True, cwd=ROOT)


if __name__ == "__main__":
    main()
