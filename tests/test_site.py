"""The documentation site: every page is in its navigation, every public name in its reference."""

import importlib
import re
import runpy
from fnmatch import fnmatch
from pathlib import Path

import pytest

from test_public_api import MODULES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GENERATED = {"gallery", "project"}  # folders that a build fills
REFERENCE = sorted((DOCS / "api").glob("*.rst"))
# Users import from these as well, though not as their first step.
PUBLIC = sorted(
    {
        *MODULES,
        "sparsebayes.checkpoints",
        "sparsebayes.likelihoods",
        "sparsebayes.persistence",
        "sparsebayes.problem",
        "sparsebayes.progress",
        "sparsebayes.testing",
    }
)


def written_pages():
    """Pages that are not generated, as toctrees name them."""
    paths = [*DOCS.rglob("*.md"), *DOCS.rglob("*.rst")]
    names = {path.relative_to(DOCS).with_suffix("").as_posix() for path in paths}
    return {
        name
        for name in names
        if name.split("/")[0] not in {*GENERATED, "_templates"}
        and not name.startswith(("api/generated/", "api/examples/"))
    }


def toctrees():
    """Entries of all toctrees of the pages."""
    entries = []
    for path in DOCS.glob("*.md"):
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```$", path.read_text(), re.S | re.M):
            entries += [line for line in block.splitlines() if line and not line.startswith(":")]
    return entries


def documented():
    """Names of the reference, with their modules."""
    found = []
    for page in REFERENCE:
        module, listing = "", False
        for line in page.read_text().splitlines():
            if line.startswith(".. currentmodule:: "):
                module = line.split()[-1]
            elif line.startswith(".. "):
                listing = line == ".. autosummary::"
            elif listing and re.fullmatch(r"   \w+", line):
                found.append((module, line.strip()))
    return found


def test_every_page_is_in_the_navigation_once():
    entries = toctrees()
    for name in written_pages() - {"index"}:
        places = [entry for entry in entries if entry == name]
        places = places or [entry for entry in entries if fnmatch(name, entry)]
        assert len(places) == 1, f"docs/{name} is in {len(places)} toctrees"


def test_the_navigation_has_no_dead_entries():
    pages = written_pages()
    for entry in toctrees():
        if entry.split("/")[0] not in GENERATED:
            assert any(fnmatch(name, entry) for name in pages), entry


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_in_the_reference(module):
    home = importlib.import_module(module)
    there = {id(getattr(importlib.import_module(place), name)) for place, name in documented()}
    missing = [
        name
        for name in home.__all__
        if name != "__version__" and id(getattr(home, name)) not in there
    ]
    assert missing == [], "add them to a page of docs/api"


def test_every_name_of_the_reference_is_public_and_there_once():
    names = documented()
    assert len(names) > 60
    for module, name in names:
        assert name in importlib.import_module(module).__all__
    things = [id(getattr(importlib.import_module(module), name)) for module, name in names]
    assert len(set(things)) == len(things), "a name is documented twice"


@pytest.mark.parametrize(
    ("link", "folder", "place"),
    [
        ("notation.md#symbols", "docs", "/notation.md#symbols"),
        ("docs/notation.md", ".", "/notation.md"),
        ("../examples/denoise.py", "docs", "/gallery/denoise.rst"),
        ("examples", ".", "/gallery/index.rst"),
        ("../ARCHITECTURE.md#invariants", "docs", "/project/architecture.md#invariants"),
        ("../README.md#measured", "benchmarks", "/index.md"),
        ("images/sinc.png", "docs", "/images/sinc.png"),
        ("#invariants", "docs", "#invariants"),
        ("https://example.org/a.md", "docs", "https://example.org/a.md"),
    ],
)
def test_links_of_the_repository_lead_to_the_same_page_of_the_site(link, folder, place):
    settings = runpy.run_path(str(DOCS / "conf.py"))
    assert settings["on_site"](link, folder) == place
    assert settings["with_links"](f"see [x]({link})", folder) == f"see [x]({place})"
    code = f"```python\nx = a[0]({link!r})\n```\n"
    assert settings["with_links"](code, folder) == code


def test_broken_links_of_a_built_site_are_found(tmp_path):
    check = runpy.run_path(str(DOCS / "check_links.py"))["check"]
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">1</a><a href="b.html#there">2</a><a href="c.html">3</a>'
        '<a href="#top">4</a><img src="d.png"><a href="https://example.org/">5</a>'
    )
    (tmp_path / "b.html").write_text('<h1 id="here">b</h1><a href="a.html">a</a>')
    broken, external = check(tmp_path)
    assert broken == [
        "a.html: #top (no such anchor)",
        "a.html: b.html#there (no such anchor)",
        "a.html: c.html",
        "a.html: d.png",
    ]
    assert external == {"https://example.org/"}
    assert check(tmp_path / "empty")[0] == [f"{tmp_path / 'empty'}: no pages"]
