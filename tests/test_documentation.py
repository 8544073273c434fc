"""The pages and the examples are true: code runs, links lead somewhere, names exist."""

import importlib
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

from sparsebayes.commands import parser
from sparsebayes.testing import check_dictionary

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "sparsebayes"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *DOCS, ROOT / "benchmarks" / "README.md"]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def name_of(path):
    return path.relative_to(ROOT).as_posix()


every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


def blocks(page, language):
    """Code blocks of a page with the numbers of their first lines."""
    text = page.read_text()
    for found in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield text[: found.start(1)].count("\n"), found[1]


def test_there_are_pages_and_examples():
    assert {"README.md", "ARCHITECTURE.md", "docs/algorithm.md"} <= {name_of(p) for p in PAGES}
    assert len(EXAMPLES) >= 3
    assert list(blocks(ROOT / "README.md", "python"))


def agrees(printed, shown):
    """Whether words and whole numbers are equal, and decimals up to one in their last digit."""
    number = re.compile(r"-?\d+(?:\.\d*)?(?:e[-+]?\d+)?")
    if " ".join(number.sub("#", printed).split()) != " ".join(number.sub("#", shown).split()):
        return False
    for got, want in zip(number.findall(printed), number.findall(shown), strict=True):
        mantissa, _, exponent = want.partition("e")
        decimals = len(mantissa.partition(".")[2])
        unit = 10.0 ** (int(exponent or 0) - decimals) if decimals or exponent else 0.0
        if abs(float(got) - float(want)) > 1.001 * unit:
            return False
    return True


@pytest.mark.parametrize("page", [ROOT / "README.md", *DOCS], ids=name_of)
def test_code_of_a_page_runs_and_prints_what_the_page_shows(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    program, ends = "", []
    for line, block in blocks(page, "python"):
        program += "\n" * (line - program.count("\n")) + block  # tracebacks show the page's lines
        ends.append(program.count("\n"))
        program += "print('=' * 99)\n"
    script = tmp_path / f"{page.stem}.py"
    script.write_text(program)
    runpy.run_path(str(script))
    printed = capsys.readouterr().out.split("=" * 99 + "\n")
    shown = dict(blocks(page, "text"))
    for end, output in zip(ends, printed, strict=False):
        # A fence, an empty line and another fence are between code and what it prints.
        assert agrees(output, shown.pop(end + 3, output)), f"above line {end} is printed:\n{output}"
    assert not shown, "there is output without code"


def test_the_demonstration_prints_what_the_page_shows(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ((_, session),) = blocks(ROOT / "docs" / "install.md", "console")
    command, _, shown = session.partition("\n")
    assert command == "$ sparsebayes demo"
    code, printed, _ = run("demo")
    assert code == 0
    took = re.compile(r"^  time +[\d.]+ s$", re.MULTILINE)
    assert took.sub("", printed) == took.sub("", shown)
    assert Path("sparsebayes-demo.png").exists()


def test_comparison_of_outputs():
    assert agrees("error 0.0251  7 atoms\n", "error 0.025 7 atoms")
    assert agrees("gain 3.2e-07", "gain 3e-07")
    assert not agrees("error 0.027", "error 0.025")
    assert not agrees("8 atoms", "7 atoms")
    assert not agrees("7 vectors", "7 atoms")
    assert not agrees("gain 3e-06", "gain 3e-07")
    assert not agrees("7", "7 7")


@every_page
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    inside = [target for target in targets if not re.match(r"https?:|mailto:|#", target)]
    missing = [target for target in inside if not (page.parent / target.split("#")[0]).exists()]
    assert missing == []
    for target in targets:
        path, _, anchor = target.partition("#")
        if anchor and not re.match("https?:", path):
            text = (page.parent / path if path else page).read_text()
            headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
            slugs = [
                re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings
            ]
            assert anchor in slugs, target


@every_page
def test_commands_exist(page):
    text = page.read_text()
    lines = [line for _, block in blocks(page, "sh") for line in block.splitlines()]
    for line in lines:
        words = shlex.split(line, comments=True)
        if words[:1] == ["sparsebayes"]:
            parser().parse_args(words[1:])
    inline = re.findall(r"`([^`\n]+)`", text)
    for target in re.findall(r"^make (?:\w+=\S+ )*(\w+)", "\n".join(lines + inline), re.MULTILINE):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target
    for module in re.findall(r"python -m benchmarks\.([\w.]*\w)", text):
        path = ROOT / "benchmarks" / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module


@every_page
def test_names_of_the_code_exist(page):
    modules = {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for path in PACKAGE.rglob("*.py")
        if path.stem != "__init__"
    } | {"dictionaries"}
    for dotted in re.findall(r"`([a-z_]+(?:\.\w+)+)`", page.read_text()):
        module = next((m for m in sorted(modules, reverse=True) if dotted.startswith(m + ".")), "")
        if module and not dotted.endswith(".py"):
            found = importlib.import_module(f"sparsebayes.{module}")
            for part in dotted.removeprefix(module + ".").split("."):
                found = getattr(found, part)


def test_architecture_names_every_module_once():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    listed = re.findall(r"^\| `([\w/]+\.py)` \|", text, re.MULTILINE)
    assert sorted(listed) == sorted(
        p.relative_to(PACKAGE).as_posix() for p in PACKAGE.rglob("*.py")
    )


@pytest.fixture
def plt(monkeypatch):
    """Where no window opens, and `plt.show()` does not warn of that."""
    monkeypatch.delenv("DISPLAY", raising=False)
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    yield pyplot
    pyplot.close("all")


@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_examples_run_print_and_draw(path, plt, monkeypatch, capsys):
    before = set(path.parent.iterdir())
    monkeypatch.setattr(sys, "argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) >= 3
    assert {p for p in path.parent.iterdir() if p.name != "__pycache__"} <= before
    if "matplotlib" in path.read_text():
        figures = [plt.figure(number) for number in plt.get_fignums()]
        assert figures, "the example imports matplotlib and draws nothing"
        drawn = [axes for figure in figures for axes in figure.axes if axes.axison]
        assert all(axes.has_data() for axes in drawn)


@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_examples_are_pages(path):
    text = path.read_text()
    title, underline, empty = text.splitlines()[:3]
    assert title.startswith('"""')
    assert set(underline) == {"="}
    assert len(underline) >= len(title) - 3
    assert empty == ""
    assert "\n# %%\n# " in text, "the gallery shows cells: a line '# %%', then a sentence"
    assert len(text.splitlines()) <= 80


def test_the_dictionary_of_the_example_keeps_its_promises(plt):
    import numpy as np

    example = runpy.run_path(str(ROOT / "examples" / "own_dictionary.py"))
    X = np.random.default_rng(0).uniform(size=(12, 1))
    check_dictionary(example["Waves"](highest=3), X)
    values = example["Waves"](highest=3).bind(X).evaluate(X)
    np.testing.assert_allclose(values[:, :2], np.c_[np.sin(2 * np.pi * X), np.cos(2 * np.pi * X)])
