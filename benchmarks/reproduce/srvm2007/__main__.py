"""``python -m benchmarks.reproduce.srvm2007``."""

from __future__ import annotations

from benchmarks._harness import Report, argument_parser
from benchmarks.reproduce.srvm2007 import table1


def main() -> None:
    parser = argument_parser("Smooth relevance vector machine, Schmolck & Everson 2007", 1)
    parser.add_argument("--runs", type=int, default=10, help="draws of the noise for each row")
    args = parser.parse_args()
    report = Report.open("Schmolck & Everson 2007", args.threads)
    table1.run(report, args.runs)
    report.close(args.json)


if __name__ == "__main__":
    main()
