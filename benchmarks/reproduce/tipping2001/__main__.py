"""``python -m benchmarks.reproduce.tipping2001 --classification``."""

from __future__ import annotations

from benchmarks._harness import argument_parser
from benchmarks.reproduce.tipping2001 import classification


def main() -> None:
    parser = argument_parser("The benchmark tables of Tipping 2001", 1)
    table = parser.add_mutually_exclusive_group(required=True)
    table.add_argument("--classification", action="store_true", help="section 4.4, eight data sets")
    parser.add_argument("--only", nargs="+", metavar="DATASET", choices=classification.DATASETS)
    parser.add_argument(
        "--quick", action="store_true", help="three splits, few widths, part of USPS: no verdicts"
    )
    parser.add_argument("--no-svm", action="store_true", help="leave out the SVMs measured here")
    classification.run(parser.parse_args())


if __name__ == "__main__":
    main()
