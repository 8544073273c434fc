"""Experiments of the papers: what the command prints, and that it is what the papers say."""

import json
import subprocess
import sys

import numpy as np
import pytest

from sparsebayes.cli import main
from sparsebayes.reproduce import (
    PAPERS,
    reproduce,
    schmolck_everson2007,
    smooth_table,
    thesis,
    tipping2001,
    tipping_faul2003,
)

QUICK = "faul-tipping2002"


@pytest.fixture(scope="module")
def findings():
    """All papers, with fewer draws and smaller sizes than users get."""
    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tipping2001, "_DRAWS", 2)
        sizes = dict.fromkeys(tipping_faul2003._SIZES, (100, 200))
        patch.setattr(tipping_faul2003, "_SIZES", sizes)
        patch.setattr(tipping_faul2003, "SHOWN", 200)
        patch.setattr(thesis, "_DRAWS", 1)
        patch.setattr(thesis, "_PIXELS", 32)
        found = {name: reproduce(name, told.append) for name in PAPERS}
    assert len(told) >= len(PAPERS)
    return found


def figures(findings, paper):
    return {entry.what: entry for entry in findings[paper].entries}


@pytest.mark.parametrize("paper", PAPERS)
def test_findings_are_finite_and_said(findings, paper):
    found = findings[paper]
    assert len({entry.what for entry in found.entries}) == len(found.entries) >= 5
    assert all(np.isfinite(entry.measured) for entry in found.entries)
    assert found.remarks
    assert found.pictures


@pytest.mark.parametrize("paper", PAPERS)
def test_pictures_are_drawn_without_pyplot(findings, paper):
    pytest.importorskip("matplotlib")
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    for picture in findings[paper].pictures:
        drawn = picture.figure()
        assert any(axes.has_data() for axes in drawn.axes)
        drawn.canvas.draw()
    assert pyplot.get_fignums() == before


def test_figure_1_of_2001_is_reached(findings):
    found = figures(findings, "tipping2001")
    for name in ("figure 1, no noise: vectors", "figure 1: largest error"):
        assert found[name].measured <= found[name].printed


def test_result_iii_of_2002_fails_and_the_others_hold(findings):
    found = figures(findings, QUICK)
    assert found["result II: atoms wrongly in or out"].measured == 0
    assert found["eq. 17: largest error of log alpha"].measured < 1e-5
    assert found["its largest curvature"].measured == pytest.approx(0.0277, abs=1e-4)
    better = found["log evidence of the default solver"].measured
    assert better > found["log evidence there"].measured + 0.17


def test_table_1_of_2007_is_within_two_printed_deviations(findings):
    entries = [e for e in findings["schmolck-everson2007"].entries if e.spread is not None]
    assert len(entries) == 12
    for entry in entries:
        decimals = int(entry.form[1])
        assert abs(round(entry.measured, decimals) - entry.printed) <= 2 * entry.spread + 1e-9


def test_blocks_and_sinc_are_separated(findings):
    found = figures(findings, "schmolck-everson2007")
    assert found["Blocks beside sinc: MSE"].measured <= found["Blocks beside sinc: MSE"].printed
    atoms = found["Blocks beside sinc: atoms"]
    assert atoms.measured <= atoms.printed
    assert found["share of Blocks that Haar wavelets explain"].measured > 0.95
    assert found["share of sinc that splines explain"].measured > 0.95


def test_wavelets_of_the_table_have_the_closed_form():
    data = schmolck_everson2007._BUMPS.draw(0)
    view, noise_var, c = smooth_table.Wavelets.of(data), 0.1, 2.0
    found = view.ours(c, noise_var)
    z2 = view.g**2 / noise_var
    # S&E eq. 33 on orthonormal atoms: in the model where z^2 > 1 + 2c.
    np.testing.assert_array_equal(found.v > 0, z2 > 1 + 2 * c)
    kept = found.v > 0
    shrinkage = found.v[kept] / (found.v[kept] + noise_var)
    np.testing.assert_allclose(shrinkage, 1 - 1 / (z2[kept] - 2 * c), rtol=1e-9)


def test_an_unknown_paper_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="no paper 'newton1687'; there are tipping2001, "):
        reproduce("newton1687")


# The command


def test_without_a_paper_they_are_listed(capsys):
    assert main(["reproduce"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed and title in printed for name, title in PAPERS.items())
    assert main(["reproduce", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["papers"] == PAPERS


def test_an_unknown_paper_is_wrong_usage(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "newton1687"])
    assert stop.value.code == 2
    assert all(name in capsys.readouterr().err for name in list(PAPERS)[:1])


def test_text_and_json_say_the_same(findings, monkeypatch, capsys, tmp_path):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("sparsebayes.reproduce.reproduce", lambda paper, tell: findings[paper])
    folder = tmp_path / "new"
    assert main(["reproduce", "schmolck-everson2007", "--json", "--output", str(folder)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert main(["reproduce", "schmolck-everson2007"]) == 0
    text = capsys.readouterr().out
    for entry, original in zip(
        told["entries"], findings["schmolck-everson2007"].entries, strict=True
    ):
        assert entry["measured"] == pytest.approx(original.measured)
        assert all(cell in text for cell in original.cells)
    assert told["paper"] == "schmolck-everson2007"
    written = sorted(str(path) for path in folder.iterdir())
    assert written == sorted(told["pictures"])
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in folder.iterdir())
    assert main(["reproduce", QUICK, "--quiet"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("file", "is a file, a folder is needed"),
        ("missing/folder", "no such folder"),
        ("-", "pictures cannot go to stdout"),
    ],
)
def test_bad_folders_are_refused_before_the_work(output, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()

    def work(paper, tell):
        raise AssertionError("began")

    monkeypatch.setattr("sparsebayes.reproduce.reproduce", work)
    assert main(["reproduce", QUICK, "--output", output]) == 1
    told = capsys.readouterr()
    assert message in told.err
    assert told.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_without_a_paper_is_refused(capsys):
    assert main(["reproduce", "--output", "somewhere"]) == 1
    assert "--output needs a PAPER" in capsys.readouterr().err


def test_no_matplotlib_is_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["reproduce", QUICK, "--output", str(tmp_path)]) == 1
    assert 'pip install "sparsebayes[plot]"' in capsys.readouterr().err


def test_help_imports_no_numpy():
    program = (
        "import sys; from sparsebayes.commands import parser; parser(); "
        "sys.exit('numpy' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
