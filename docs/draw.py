"""Draw the pictures of the pages: ``python docs/draw.py``, or with names of pages or examples.

The code of a page that saves a picture is run in a scratch folder, and what it saved is copied to
docs/images. So every picture is what the code beside it draws. Of some examples the last picture
is kept as well; ``sparsebayes demo --output docs/images/sinc.png`` draws that of the first page.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shutil
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

DOCS = Path(__file__).resolve().parent
IMAGES = DOCS / "images"
EXAMPLES = DOCS.parent / "examples"

# Pictures of examples that pages show.
OF_EXAMPLES = {
    "class_probabilities": "classes.png",
    "denoise": "denoise.png",
    "honest_error_bars": "error-bars.png",
    "learned_scales": "relevance.png",
}


def code(page: Path) -> str:
    """All Python of a page."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.S | re.M))


def drawing() -> dict[str, Path]:
    """What draws: pages that save pictures, and the examples above."""
    pages = {page.stem: page for page in sorted(DOCS.glob("*.md")) if "savefig(" in code(page)}
    return pages | {name: EXAMPLES / f"{name}.py" for name in OF_EXAMPLES}


def draw(name: str, source: Path, folder: Path) -> list[Path]:
    """Run a page or an example in a folder, and return the pictures that are there then."""
    script = folder / f"{source.stem}.py"
    script.write_text(code(source) if source.suffix == ".md" else source.read_text())
    before = Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(str(script))
    finally:
        os.chdir(before)
    if name in OF_EXAMPLES and source.suffix == ".py":
        plt.savefig(folder / OF_EXAMPLES[name], dpi=100)
    plt.close("all")
    return sorted(folder.glob("*.png"))


def main() -> None:
    sources = drawing()
    names = sys.argv[1:] or list(sources)
    unknown = [name for name in names if name not in sources]
    if unknown:
        sys.exit(f"{unknown[0]!r} draws nothing; there are {', '.join(sources)}")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            for picture in draw(name, sources[name], Path(folder)):
                shutil.copy(picture, IMAGES)
                print(f"docs/images/{picture.name}: {picture.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
