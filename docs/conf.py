"""Settings of the documentation site: `make docs` builds it into build/docs."""

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath

import sparsebayes

HERE = Path(__file__).parent
ROOT = HERE.parent

project = "sparsebayes"
author = "The sparsebayes developers"
copyright = "the sparsebayes developers, BSD-3-Clause"
version = release = sparsebayes.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_templates", "gallery/*.ipynb", "gallery/*.py", "**/sg_execution_times.rst"]
templates_path = ["_templates"]
default_role = "code"
smartquotes = False  # quotes of code are to be copied
nitpicky = True
suppress_warnings = ["config.cache"]  # functions among the settings of the gallery

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist"]
myst_heading_anchors = 4

# Types stand in the docstrings; annotations would repeat them, with links that lead nowhere.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
autosummary_generate = True
autosummary_generate_overwrite = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = f"sparsebayes {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_search_summary = False  # fetched, which a browser refuses to pages opened from a disk
html_theme_options = {
    "logo": {"text": f"sparsebayes {version}"},
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "back_to_top_button": True,
}
html_sidebars = {"index": []}
html_context = {"default_mode": "auto"}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

GALLERY = [  # first steps, what it can do, then trades
    "sinc_error_bars",
    "class_probabilities",
    "sparse_linear",
    "learned_scales",
    "denoise",
    "displays",
    "honest_error_bars",
    "merge_statistics",
    "own_dictionary",
    "spectra_calibration",
    "identify_lorenz",
    "source_localization",
    "polynomial_chaos",
    "ecg_compression",
    "image_inpainting",
]


def place_in_gallery(name: str) -> tuple[int, str]:
    """Files by the list above, others behind it by name."""
    stem = Path(name).stem
    return (GALLERY.index(stem) if stem in GALLERY else len(GALLERY), stem)


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": place_in_gallery,
    "backreferences_dir": "api/examples",
    "doc_module": ("sparsebayes",),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 600,
    "plot_gallery": "True",
}

# Pages of the repository that are no pages of this folder, by their place on the site.
PROJECT = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "benchmarks/README.md": "project/benchmarks.md",
}


def on_site(target: str, folder: str) -> str:
    """Where a link of a page of the repository, which is in `folder`, leads on the site."""
    path, hash_, anchor = target.partition("#")
    if not path or re.match(r"[a-z]+:|/", path):
        return target
    place = PurePosixPath(normpath(f"{folder}/{path}"))
    if place.as_posix() in PROJECT:
        return f"/{PROJECT[place.as_posix()]}{hash_}{anchor}"
    if place.as_posix() == "README.md":
        return "/index.md"
    if place.parts[0] == "docs":
        return f"/{place.relative_to('docs')}{hash_}{anchor}"
    if place.parts[0] == "examples":
        return f"/gallery/{place.stem if place.suffix else 'index'}.rst"
    return target


def with_links(text: str, folder: str) -> str:
    """A page of the repository with links that work on the site; code is left alone."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
    parts[::2] = [
        re.sub(r"\]\(([^)\s]+)\)", lambda link: f"]({on_site(link[1], folder)})", part)
        for part in parts[::2]
    ]
    return "".join(parts)


def bring_pages(app, config) -> None:
    """Copy the pages of the project; those that did not change keep their date."""
    for source, place in PROJECT.items():
        text = with_links((ROOT / source).read_text(), str(PurePosixPath(source).parent))
        page = HERE / place
        page.parent.mkdir(exist_ok=True)
        if not page.exists() or page.read_text() != text:
            page.write_text(text)


def read_page(app, docname, source) -> None:
    """Links of the pages of this folder."""
    if (HERE / f"{docname}.md").exists() and not docname.startswith("project/"):
        source[0] = with_links(source[0], f"docs/{PurePosixPath(docname).parent}")


def skip_member(app, what, name, thing, skip, options) -> bool | None:
    """Leave out what scikit-learn documents, and fields of named tuples, which have sections."""
    home = getattr(thing, "__module__", None) or ""
    if home.startswith("sklearn.") or re.fullmatch(r"set_\w+_request", name):
        return True
    return True if type(thing).__name__ == "_tuplegetter" else None


def setup(app) -> None:
    app.connect("config-inited", bring_pages)
    app.connect("source-read", read_page)
    app.connect("autodoc-skip-member", skip_member)
