"""``python -m benchmarks.reproduce.srvm2007``."""

from __future__ import annotations

from pathlib import Path

from benchmarks._harness import Report, argument_parser
from benchmarks.reproduce.srvm2007 import blocks_sinc, figures, table1


def main() -> None:
    parser = argument_parser("Smooth relevance vector machine, Schmolck & Everson 2007", 1)
    parser.add_argument("--runs", type=int, default=10, help="draws of the noise for each row")
    parser.add_argument(
        "--figures", type=Path, metavar="FOLDER", help="draw the figures there, and nothing else"
    )
    parser.add_argument(
        "--only", choices=("table1", "blocks-sinc"), help="one half of what is measured"
    )
    parser.add_argument(
        "--collapsed",
        action="store_true",
        help="also the plain RVM on BlocksSinc with its noise estimated, a minute or two",
    )
    args = parser.parse_args()
    if args.runs < 2:
        parser.error("--runs: a standard deviation needs two draws or more")
    report = Report.open("Schmolck & Everson 2007", args.threads)
    if args.figures is not None:
        figures.run(report, args.figures)
    else:
        if args.only != "blocks-sinc":
            table1.run(report, args.runs)
        if args.only != "table1":
            blocks_sinc.run(report, args.runs, args.collapsed)
    report.close(args)


if __name__ == "__main__":
    main()
