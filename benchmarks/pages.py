"""The pages of measured results in docs/results: which there are, and how to measure them again.

``python -m benchmarks.pages`` lists them with the day of their last run; names run those again,
one after the other, and ``all`` every one: some hours, on a machine that does nothing else. Pages
that show some of the tables, below a mark, get the new ones.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

from benchmarks import _page

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"

RUNS = {
    "comparison": ("comparison", "beside what people use today, on small problems"),
    "fast2003": ("fast2003", "time, evidence and error of regression as the rows grow"),
    "fast2003-classes": (
        "fast2003 --classification --draws 15",
        "time, evidence, error and log-loss of two classes as the rows grow",
    ),
    "interpreter": ("interpreter", "what compiled Newton steps would bring"),
    "sparse": ("sparse", "few true columns of many, wide data, pure noise"),
    "predict": ("predict", "time and memory of predictions"),
    "deploy": ("deploy", "one prediction in Python, ONNX and C: time and size"),
    "wavelets": ("wavelets", "denoising: time over that of the transform, errors"),
    "compressive": (
        "compressive --only phase noise --sizes 256 512 --seeds 5",
        "how many measurements are enough; noise",
    ),
    "pictures": ("compressive --only pictures", "images from a quarter of their numbers"),
    "optimum": ("optimum", "evidence reached, beside a long search and SparseBayes V2"),
    "optimum-smooth": ("optimum --smooth", "log posterior reached under priors with a price"),
    "calibration": ("calibration", "whether class probabilities can be believed"),
    "classes": ("classes", "several classes: variances of their own or shared, or one-vs-rest"),
    "coverage": ("coverage --quick", "whether error bars hold what they say"),
    "new-weight": ("new_weight", "how large the weight of an augmented kernel may be"),
    "selection": ("selection", "dictionaries chosen by evidence and by cross-validation"),
    "kernel-learning": ("kernel_learning --draws 2", "learned widths beside a Gaussian process"),
    "ablation": ("ablation", "what every part and number of the search is worth"),
    "robustness": ("robustness", "whether results hang on rounding or on the order of rows"),
    "kernel-default": ("kernel_learning --default --draws 4", "which width is found unasked"),
    "surrogates": ("surrogates", "functions with little noise, beside a Gaussian process"),
    "usps": (
        "usps --only SVC 'RVC, multinomial, shared'",
        "ten classes of digits: time and memory",
    ),
    "million": (
        "million --disk 1e7 --only sparsebayes 'Nystroem + Ridge, batches' "
        "'Nystroem + logistic' 'Nystroem + SGD, batches' LIBSVM",
        "many rows: time, memory and accuracy",
    ),
    "million-dask": ("million --dask", "many rows by local threads and by Dask"),
    "tipping2001-figures": ("reproduce.tipping2001 --figures", "Tipping 2001, figures 1 to 4"),
    "tipping2001-regression": (
        "reproduce.tipping2001 --regression",
        "Tipping 2001, the table of regressions",
    ),
    "tipping2001-classification": (
        "reproduce.tipping2001 --classification --only pima banana breast-cancer titanic "
        "waveform german image --every-width german",
        "Tipping 2001, the table of classifications",
    ),
    "tipping2001-usps-smoothed": (
        "reproduce.tipping2001 --classification --only usps-smoothed --selection-rows 3000",
        "Tipping 2001, ten classes of digits as its data had them",
    ),
    "tipping2001-usps": (
        "reproduce.tipping2001 --classification --only usps",
        "the same, digits as they are distributed today",
    ),
    "srvm2007": ("reproduce.srvm2007", "Schmolck & Everson 2007, table 1 and BlocksSinc"),
}


def arguments(name: str) -> list[str]:
    """Return the arguments of Python that measure one page."""
    module, *options = shlex.split(RUNS[name][0])
    return ["-m", f"benchmarks.{module}", *options]


def last_run(name: str) -> str:
    """Return the day of a page, or a dash."""
    path = RESULTS / f"{name}.md"
    found = re.search(r"^- Measured on (\S+),", path.read_text(), re.M) if path.exists() else None
    return found[1] if found else "-"


def index() -> str:
    """Return the page that lists those which were measured."""
    rows = [
        (f"[{name}]({name}.md)", shows, last_run(name))
        for name, (_, shows) in RUNS.items()
        if (RESULTS / f"{name}.md").exists()
    ]
    text = (
        "Written by `python -m benchmarks.pages`. How to read them: [benchmarks](../benchmarks.md)."
    )
    lines = ["# Results", "", text, "", *_page.table(("page", "shows", "measured"), rows, text=3)]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure pages of docs/results again")
    parser.add_argument("name", nargs="*", metavar="NAME", help=f"{' '.join(RUNS)}, or all")
    parser.add_argument(
        "--refresh", action="store_true", help="only write the list, and tables of other pages"
    )
    args = parser.parse_args()
    unknown = [name for name in args.name if name not in RUNS and name != "all"]
    if unknown:
        parser.error(f"no page is called {unknown[0]!r}; there are {', '.join(RUNS)} and all")
    for name in RUNS if "all" in args.name else args.name:
        print(f"== {name}", flush=True)
        page = ["--page", str(RESULTS / f"{name}.md")]
        subprocess.run([sys.executable, *arguments(name), *page], check=True, cwd=ROOT)
    if args.name or args.refresh:
        (RESULTS / "index.md").write_text(index())
        for path in sorted(RESULTS.parent.glob("*.md")):
            text = path.read_text()
            new = _page.refreshed(text, RESULTS)
            if new != text:
                path.write_text(new)
                print(f"docs/{path.name}: tables are those measured last")
        return
    for name in RUNS:
        print(f"{name:27} {last_run(name):11} {shlex.join(['python', *arguments(name)])}")


if __name__ == "__main__":
    main()
