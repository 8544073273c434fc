"""Pages of measured results: what a benchmark writes, and what is kept of it."""

import json
import re
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks import _page, pages
from benchmarks._harness import Report, environment

KEPT = sorted(path for path in pages.RESULTS.glob("*.md") if path.stem != "index")
ROOT = Path(__file__).parents[1]


@pytest.fixture
def report():
    report = Report("Two machines | compared", environment(1))
    report.note("one draw")
    rows = [
        {"": "ours", "kind": "sparse", "s": 0.25, "error": 0.1},
        {"": "a|b", "kind": "-", "s": None, "error": float("nan")},
    ]
    report.show("N = 100", rows, {"": "", "kind": "", "s": ".3f", "error": ".1e"})
    report.judge("faster", True, "2 times")
    report.judge("better", False, "0.9 times")
    return report


def test_a_page_has_command_date_machine_tables_and_targets(report):
    argv = ["/usr/bin/python3", "-m", "benchmarks.sparse", "--page", "x.md", "--seeds", "3"]
    text = _page.page(report, [*argv, "--json=y.json", "--only", "two words"], "2030-01-02")
    lines = text.splitlines()
    assert lines[0] == "# Two machines | compared"
    assert "python -m benchmarks.sparse --seeds 3 --only 'two words'" in lines
    assert "- Measured on 2030-01-02, with 1 BLAS thread" in lines
    assert f"- {report.env['cpu']}, {report.env['system']}" in lines
    assert "- One draw" in lines
    assert "|  | kind | s | error |" in lines
    assert "| --- | --- | ---: | ---: |" in lines
    assert "| ours | sparse | 0.250 | 1.0e-01 |" in lines
    assert r"| a\|b | - | - | - |" in lines
    assert "| reached | faster | 2 times |" in lines
    assert "| **missed** | better | 0.9 times |" in lines


def test_files_are_written_where_they_were_asked_for(report, tmp_path, capsys):
    report.close(Namespace(json=tmp_path / "x.json", page=tmp_path / "new" / "x.md"))
    stored = json.loads((tmp_path / "x.json").read_text())
    assert [row[""] for row in stored["rows"]] == ["ours", "a|b"]
    assert stored["rows"][1]["error"] is None
    assert re.search(r"Measured on \d{4}-\d\d-\d\d", (tmp_path / "new" / "x.md").read_text())
    assert "MISSED   better: 0.9 times" in capsys.readouterr().out
    report.close(Namespace(json=None, page=None))


def test_an_unknown_page_is_an_error_in_words():
    asked = [sys.executable, "-m", "benchmarks.pages", "fast2004"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no page is called 'fast2004'" in done.stderr


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_kept_page_is_of_its_own_command(path):
    text = path.read_text()
    assert path.stem in pages.RUNS
    assert f"python {' '.join(pages.arguments(path.stem))}" in text.replace("'", "")
    assert pages.last_run(path.stem) >= "2026-11-16"


def test_the_list_of_pages_is_up_to_date():
    assert (pages.RESULTS / "index.md").read_text() == pages.index()


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.stem)
def test_tables_below_a_mark_are_those_measured_last(path):
    assert path.read_text() == _page.refreshed(path.read_text(), pages.RESULTS)


def test_a_table_below_its_mark_is_replaced(report, tmp_path):
    (tmp_path / "two.md").write_text(_page.page(report, ["python"], "2030-01-02"))
    text = "# X\n\n<!-- two: N = -->\n\n| old |\n|---|\n| 1 |\n\nText\n"
    new = _page.refreshed(text, tmp_path)
    assert "old" not in new
    assert "<!-- two: N = -->\n\n|  | kind | s | error |\n" in new
    assert new.endswith("| - |\n\nText\n")
    assert _page.refreshed(new, tmp_path) == new
    assert _page.refreshed("<!-- two: N = -->\n\nText\n", tmp_path).endswith("| - |\n\nText\n")
    with pytest.raises(LookupError, match="three.md"):
        _page.refreshed("<!-- three: N -->\n", tmp_path)


def test_every_page_can_be_measured():
    for name in pages.RUNS:
        path = ROOT / pages.arguments(name)[1].replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), name
