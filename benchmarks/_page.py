"""What a benchmark found as a page of the documentation, with its command, date and machine."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks._harness import Report

OUTPUTS = ("--json", "--page")  # options that say where results go, not what is measured


def command(argv: Sequence[str]) -> str:
    """Return the command line that repeats a run: ``python -m`` and what was measured."""
    words = list(argv[1:])
    for option in OUTPUTS:
        while option in words:
            place = words.index(option)
            del words[place : place + 2]
    kept = [word for word in words if not word.startswith(tuple(f"{o}=" for o in OUTPUTS))]
    return shlex.join(["python", *kept])


def line(cells: Iterable[str]) -> str:
    """One row of a table; a bar would end a cell."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, text: int = 1) -> list[str]:
    """Return a table whose first ``text`` columns are text and whose others are figures."""
    rule = ["---" if i < text else "---:" for i in range(len(header))]
    return [line(header), line(rule), *map(line, rows)]


def page(report: Report, argv: Sequence[str], today: str) -> str:
    """Return the page: how it was measured, the tables, the targets."""
    env = report.env
    packages = ", ".join(f"{name} {v}" for name, v in env["packages"].items() if v)
    lines = [
        f"# {report.title}",
        "",
        "Written by the command itself; how to read it is on the page of",
        "[benchmarks](../benchmarks.md).",
        "",
        *("```sh", command(argv), "```", ""),
        f"- Measured on {today}, with {env['threads']} BLAS thread{'s' * (env['threads'] > 1)}",
        f"- {env['cpu']}, {env['system']}",
        f"- Python {env['python']}, {packages}",
    ]
    lines += [f"- {note[:1].upper()}{note[1:]}" for note in report.notes]
    for heading, (header, *cells) in report.tables:
        text = 1 + max((i for i, name in enumerate(header) if not figures(cells, i)), default=-1)
        lines += ["", f"## {heading}", "", *table(header, cells, text=text)]
    if report.targets:
        judged = [
            ("reached" if t.reached else "**missed**", t.claim, t.figure) for t in report.targets
        ]
        lines += ["", "## Targets", "", *table(("", "target", "measured"), judged, text=3)]
    return "\n".join(lines) + "\n"


def figures(cells: Sequence[Sequence[str]], column: int) -> bool:
    """Whether a column holds numbers, so that it is set flush right."""
    return all(not row[column] or row[column][0] in "-+0123456789" for row in cells)


def tables_of(text: str) -> dict[str, str]:
    """Return the tables of a page by their headings."""
    found = re.findall(r"^## (.+)\n\n((?:\|.*\n)+)", text, re.MULTILINE)
    return dict(found)


def refreshed(text: str, results: Path) -> str:
    """Return a page whose tables below marks are those that were measured last.

    A mark is a comment such as ``<!-- sparse: Pure noise -->``: a page of results and how one of
    its headings begins.
    """

    def replace(mark: re.Match[str]) -> str:
        path = results / f"{mark['page']}.md"
        tables = tables_of(path.read_text()) if path.exists() else {}
        found = [table for heading, table in tables.items() if heading.startswith(mark["heading"])]
        if len(found) != 1:
            raise LookupError(f"{mark['mark'].strip()}: {len(found)} tables of {path.name} fit")
        return f"{mark['mark']}\n{found[0]}"

    pattern = r"^(?P<mark><!-- (?P<page>[\w-]+): (?P<heading>.+) -->\n)(?:\n(?:\|.*\n)+)?"
    return re.sub(pattern, replace, text, flags=re.MULTILINE)


def write(report: Report, path: Path) -> None:
    """Write the page of a run of this process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(report, sys.orig_argv, datetime.now(UTC).date().isoformat()))
    print(f"\n{path}: written")
