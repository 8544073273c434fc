"""A function of one input, drawn with its error bars and the data."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes.dictionaries.bias import BiasAtoms
from sparsebayes.dictionaries.kernels import KernelAtoms
from sparsebayes.dictionaries.linear import LinearAtoms
from sparsebayes.reporting._atoms import parts_of
from sparsebayes.reporting._figures import drawn_rows, figure, sampled
from sparsebayes.reporting._html import Html, cut, name
from sparsebayes.reporting._quality import NumberQuality, error_bars
from sparsebayes.reporting._subject import Subject
from sparsebayes.reporting._svg import Plot

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["curve"]

_GRID = 201


def curve(given: Subject, quality: NumberQuality | None) -> Html | None:
    """Draw a function of one input with its error bars, and the data.

    Parameters
    ----------
    given : Subject
        What the report is about.
    quality : NumberQuality or None
        Predictions of held-out rows, where they are known.

    Returns
    -------
    Html or None
        The figure; None where there is more than one input or target.
    """
    at = _positions(given)
    if at is None:
        return None
    model = given.model
    mean = np.ravel(model.predict(at[:, None]))
    band = error_bars(model.predict_distribution(at[:, None]), mean)
    low, high = np.ravel(band.low), np.ravel(band.high)
    shown = [low, high]
    held_out, training = given.held_out, given.training
    chosen = drawn_rows(quality.n) if quality is not None else np.empty(0, dtype=np.intp)
    if quality is not None:
        shown.append(quality.observed[chosen])
    old: tuple[FloatArray, FloatArray] | None = None
    if training is not None and training.y is not None:
        some = drawn_rows(training.n)
        old = _column(training.X, some), training.y[some, 0]
        shown.append(old[1])
    plot = Plot(at, np.concatenate(shown), (cut(given.feature_names[0], 40), "target"))
    plot.band(at, low, high)
    said = f"The line is the mean, the band {band.reach}, noise included."
    if old is not None:
        plot.crosses(*old)
        said += " Crosses are training rows."
    if quality is not None and held_out is not None:
        plot.points(_column(held_out.X, chosen), quality.observed[chosen])
        said += f" Points are held-out rows.{sampled(len(chosen), quality.n)}"
    plot.line(at, mean, "solid")
    vectors = getattr(model, "relevance_vectors_", None)
    if isinstance(vectors, np.ndarray) and len(vectors):
        inside = vectors[(vectors[:, 0] >= plot.x.low) & (vectors[:, 0] <= plot.x.high), 0]
        plot.points(inside, np.ravel(model.predict(inside[:, None])), "rings", radius=6)
        said += " Rings are the kernels kept."
    title = name(given.target_names[0], 40)
    return figure(
        "curve",
        plot.svg("Function of one input with its error band, and the data"),
        Html(f"<b>The function</b>: {title} against {name(given.feature_names[0], 40)}. {said}"),
        "target-0-rows" if quality is not None else "",
    )


def _positions(given: Subject) -> FloatArray | None:
    """Where to evaluate a function of one input."""
    model = given.model
    if given.classifies or len(given.target_names) > 1 or model.n_features_in_ != 1:
        return None
    known = [_column(rows.X) for rows in (given.held_out, given.training) if rows is not None]
    vectors = getattr(model, "relevance_vectors_", None)
    if isinstance(vectors, np.ndarray) and len(vectors):
        known.append(vectors[:, 0])
    if not known:
        return None
    places = np.concatenate(known)
    smooth = (KernelAtoms, LinearAtoms, BiasAtoms)
    if all(isinstance(part, smooth) for part, _ in parts_of(model.posterior_.atoms)):
        low, high = float(places.min()), float(places.max())
        return np.linspace(low, high, _GRID) if high > low else None
    # Wavelets and operators are known at their own positions alone.
    found = np.unique(places)
    return found[drawn_rows(len(found))] if len(found) > 1 else None


def _column(X: Any, rows: IndexArray | None = None) -> FloatArray:
    chosen = X if rows is None else X[rows]
    dense = chosen.toarray() if hasattr(chosen, "toarray") else chosen
    return np.asarray(dense, dtype=np.float64)[:, 0]
