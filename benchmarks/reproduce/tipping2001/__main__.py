"""``python -m benchmarks.reproduce.tipping2001``."""

from __future__ import annotations

from pathlib import Path

from benchmarks._harness import Report, argument_parser
from benchmarks.reproduce.tipping2001 import classification, figures, regression

PARTS = {
    "figures": (figures, tuple(figures.FIGURES)),
    "regression": (regression, regression.DATASETS),
    "classification": (classification, classification.DATASETS),
}


def main() -> None:
    parser = argument_parser("Figures 1 to 4 and the tables of Tipping 2001, section 4", 1)
    parser.add_argument("--figures", action="store_true", help="only figures 1 to 4, tables 1, 2")
    parser.add_argument("--regression", action="store_true", help="only the regression benchmarks")
    parser.add_argument(
        "--classification", action="store_true", help="only the classification benchmarks"
    )
    every = [name for _, names in PARTS.values() for name in names]
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=every, help=" ".join(every))
    parser.add_argument(
        "--quick", action="store_true", help="few draws, splits and widths, part of USPS"
    )
    parser.add_argument("--no-svm", action="store_true", help="leave out the SVMs measured here")
    parser.add_argument(
        "--every-width",
        nargs="+",
        metavar="NAME",
        default=[],
        choices=classification.DATASETS,
        help="data sets of classes to test at every width, as a bound",
    )
    parser.add_argument(
        "--selection-rows",
        type=int,
        default=1500,
        metavar="N",
        help="training rows of USPS of which folds choose its widths (up to 7291, for hours)",
    )
    parser.add_argument("--solver", default="auto", help="solver of the classifications")
    parser.add_argument("--restarts", type=int, default=0, help="their n_restarts")
    parser.add_argument("--draw", type=Path, metavar="FOLDER", help="pictures of the figures there")
    args = parser.parse_args()
    if args.selection_rows < 500:
        parser.error(f"--selection-rows must be at least 500, got {args.selection_rows}")
    chosen = [part for part in PARTS if getattr(args, part)] or list(PARTS)
    report = Report.open("Tipping 2001", args.threads)
    for part in chosen:
        module, names = PARTS[part]
        wanted = [name for name in names if not args.only or name in args.only]
        if wanted:
            module.run(report, args, wanted)
    report.close(args)


if __name__ == "__main__":
    main()
