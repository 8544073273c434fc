"""Pictures of pages are those that the pages' own code draws."""

import re
import runpy
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

ROOT = Path(__file__).parents[1]
SAVING = [page for page in sorted((ROOT / "docs").glob("*.md")) if "savefig(" in page.read_text()]


@pytest.fixture(scope="module")
def draw():
    return runpy.run_path(str(ROOT / "docs" / "draw.py"))


@pytest.mark.parametrize("page", SAVING, ids=lambda page: page.stem)
def test_a_picture_that_a_page_saves_is_kept_and_shown(page, draw):
    assert draw["drawing"]()[page.stem] == page
    saved = re.findall(r'savefig\(\s*"([\w-]+\.png)"', draw["code"](page))
    assert saved
    for name in saved:
        assert (draw["IMAGES"] / name).stat().st_size > 1000
        assert f"](images/{name})" in page.read_text()


def test_code_of_a_page_is_run_in_its_folder(draw, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\n```python\nimport matplotlib.pyplot as plt\n\nx = [1, 2]\nprint(x)\n```\n\n"
        "```text\n[1, 2]\n```\n\n```python\nplt.plot(x)\nplt.savefig('line.png')\n```\n"
    )
    folder = tmp_path / "scratch"
    folder.mkdir()
    assert draw["draw"]("page", page, folder) == [folder / "line.png"]
    assert Path.cwd() != folder
    assert capsys.readouterr().out == ""


def test_examples_whose_picture_is_kept_exist(draw):
    for name, picture in draw["OF_EXAMPLES"].items():
        assert (ROOT / "examples" / f"{name}.py").exists()
        assert (draw["IMAGES"] / picture).exists()
