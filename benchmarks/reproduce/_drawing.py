"""What the pictures of all papers share: a canvas, colors, small files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from sparsebayes.plotting._canvas import BLUE, GRAY, ORANGE

__all__ = ["BLUE", "GRAY", "ORANGE", "canvas", "save"]


def canvas(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    """A figure and its axes as an array of rows and columns."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def save(figure: Any, path: Path) -> None:
    """Write a picture in few colors, which is all that lines need."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    with io.BytesIO() as raw:
        figure.savefig(raw, format="png", dpi=100)
        with Image.open(raw) as picture:
            few = picture.convert("RGB").quantize(64, dither=Image.Dither.NONE)
            few.save(path, optimize=True)
    print(f"  {path}: {path.stat().st_size / 1024:.0f} kB", flush=True)
