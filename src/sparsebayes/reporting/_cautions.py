"""Warnings that matter: what a reader should know before trusting the rest of the report."""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._kernel_report import held_parameters
from sparsebayes.dictionaries._protocol import is_sparse
from sparsebayes.reporting._atoms import kernels_of, parts_of
from sparsebayes.reporting._facts import advice
from sparsebayes.reporting._html import Html, name, number, percent, text
from sparsebayes.reporting._quality import ClassQuality, NumberQuality
from sparsebayes.reporting._subject import Rows, Subject, column_range, column_spread

FloatArray = NDArray[np.float64]

__all__ = ["cautions"]

_MOST_KEPT = 0.5  # share of the candidates
_FEWEST = 20  # candidates below which that share says nothing
_BEYOND = 0.25  # of the range of an input in training
_FAINT = 0.01  # of a kernel's height: nothing of it is left
_LOCAL = ("rbf", "laplacian")
_SCALES = 100.0
_RARE = 0.05  # share of a class
_OFF = 0.05  # of the coverage, or of probabilities, that matters
_SIGMAS = 3.0  # beyond which a difference is no chance
_SURE = 4.0  # standard deviations that hardly any row should miss by
_LONE = 5.0  # times the usual uncertainty of the function
_BLOCK_CELLS = 2**20


def cautions(
    given: Subject, numbers: list[NumberQuality], classes: ClassQuality | None
) -> list[Html]:
    """Find what a reader should be warned of.

    Parameters
    ----------
    given : Subject
        What the report is about.
    numbers : list of NumberQuality
        Of each target, where held-out targets are known.
    classes : ClassQuality or None
        The same of a classifier.

    Returns
    -------
    list of Html
        A sentence or two each, the gravest first.
    """
    said = [*_of_fit(given.model)]
    if classes is not None:
        said += _of_classes(classes)
    for title, quality in zip(given.target_names, numbers, strict=False):
        said += _of_numbers(name(title, 40) if len(numbers) > 1 else None, quality)
    if given.held_out is not None:
        said += _of_places(given, given.held_out, numbers)
    said += _of_balance(given, classes)
    return said + [*_of_scales(given)]


def _of_fit(model: Any) -> Iterator[Html]:
    found = advice(model)
    if found is not None:
        yield text(f"The fit: {found}")
    held = getattr(getattr(model, "solution_", None), "held", ())
    if held:
        yield text(f"The fit: {held_parameters(held)}")
    atoms = model.posterior_.atoms
    if atoms.count >= _FEWEST and atoms.size > _MOST_KEPT * atoms.count:
        yield text(
            f"The model keeps {atoms.size} of {atoms.count} candidate atoms, more than half: it is "
            'hardly sparse and may follow the noise. Try a stronger prior (prior="bic" or "ric").'
        )
    if atoms.size == 0:
        yield text("The model keeps no atom at all: it found nothing that predicts the target.")


def _of_numbers(title: Html | None, quality: NumberQuality) -> Iterator[Html]:
    of = Html(f" of {title}") if title is not None else Html("")
    n, level = quality.n, 0.9
    shared = ""
    if title is not None:
        shared = " All targets share one noise variance: bring them to units of like noise."
    if level in quality.coverage:
        share = quality.coverage[level]
        chance = _SIGMAS * math.sqrt(level * (1 - level) / n)
        if share < level - max(_OFF, chance):
            yield Html(
                f"Error bars{of} are too small: intervals of {percent(level, 0)} hold only "
                f"{percent(share)} of {n} held-out rows.{shared}"
            )
        elif share > level + max(_OFF, chance) and not quality.discrete:
            yield Html(
                f"Error bars{of} are wider than needed: intervals of {percent(level, 0)} hold "
                f"{percent(share)} of {n} held-out rows."
            )
    far = np.flatnonzero(np.abs(quality.surprise) > _SURE)
    # One row in 16 000 is so far out by chance.
    if len(far) > max(1.0, 10 * 6.3e-5 * n):
        yield Html(
            f"{len(far)} of {n} held-out rows{of} miss by more than {_SURE:.0f} standard "
            "deviations: look at them below, they may be outliers or of another kind."
        )
    if quality.r2 is not None and quality.r2 < -_OFF:
        yield Html(
            f"Predictions{of} are worse on held-out rows than their mean would be "
            f"(R2 is {number(quality.r2, 3)})."
        )


def _of_classes(quality: ClassQuality) -> Iterator[Html]:
    n = quality.n
    if len(quality.unknown):
        rows = int((quality.codes < 0).sum())
        yield Html(
            f"{rows} held-out row{'s have a label' if rows > 1 else ' has a label'} that the model "
            f"was not fitted to, such as {name(quality.unknown[0], 40)}: it cannot predict it."
        )
    stated, right = float(quality.confidence.mean()), quality.accuracy
    chance = _SIGMAS * math.sqrt(float((quality.confidence * (1 - quality.confidence)).mean()) / n)
    if stated - right > max(_OFF, chance):
        yield text(
            f"Probabilities are too sure: the predicted class has {percent(stated)} on average and "
            f"is right in {percent(right)} of {n} held-out rows."
        )
    if right - stated > max(_OFF, chance):
        yield text(
            f"Probabilities are not sure enough: the predicted class has {percent(stated)} on "
            f"average and is right in {percent(right)} of {n} held-out rows."
        )
    if right < quality.naive_accuracy:
        yield text(
            f"It is right less often ({percent(right)}) than the most frequent class alone would "
            f"be ({percent(quality.naive_accuracy)})."
        )


def _of_places(given: Subject, held_out: Rows, numbers: list[NumberQuality]) -> Iterator[Html]:
    """Held-out rows where the model was not taught anything."""
    n = held_out.n
    outside = _outside(given, held_out)
    if outside is not None and outside[0]:
        rows, feature, low, high = outside
        yield Html(
            f"{rows} of {n} held-out rows lie outside the range of the training rows by more than "
            f"{percent(_BEYOND, 0)} of it, most often in {name(given.feature_names[feature], 40)} "
            f"(training: {number(low)} to {number(high)}). Predictions there are guesses."
        )
    lost = _unreached(given.model, held_out.X)
    if lost:
        widen = (
            " predict(augment=True) widens them."
            if given.gaussian and kernels_of(given.model.posterior_.atoms)
            else ""
        )
        yield text(
            f"{lost} of {n} held-out rows are out of reach of every kernel kept: there the model "
            f"predicts its intercept, and its error bars are too small.{widen}"
        )
    vague = _vague(given, numbers)
    if vague:
        yield text(
            f"For {vague} of {n} held-out rows the weights are uncertain beyond the noise, "
            f"{_LONE:.0f} times more than usual: the training rows say little about such inputs."
        )


def _outside(given: Subject, held_out: Rows) -> tuple[int, int, float, float] | None:
    if given.training is None or is_sparse(held_out.X) or is_sparse(given.training.X):
        return None
    low, high = column_range(given.training.X)
    room = _BEYOND * (high - low)
    strange = (held_out.X < low - room) | (held_out.X > high + room)
    worst = int(strange.sum(axis=0).argmax())
    return int(strange.any(axis=1).sum()), worst, float(low[worst]), float(high[worst])


def _unreached(model: Any, X: Any) -> int:
    """Rows where all atoms are local kernels that have faded away."""
    parts = [part for part, columns in parts_of(model.posterior_.atoms) if len(columns)]
    local = [part for part in kernels_of(model.posterior_.atoms) if part.size]
    if not local or len(local) < len(parts):
        return 0
    if not all(isinstance(part.kernel, str) and part.kernel in _LOCAL for part in local):
        return 0
    n, lost = int(X.shape[0]), 0
    step = max(1, _BLOCK_CELLS // sum(part.size for part in local))
    for start in range(0, n, step):
        rows = X[start : start + step]
        reach = np.max([part.evaluate(rows).max(axis=1) for part in local], axis=0)
        lost += int((reach < _FAINT).sum())
    return lost


def _vague(given: Subject, numbers: list[NumberQuality]) -> int:
    """Rows where it is not the noise that makes error bars wide; the same of every target."""
    function_std = numbers[0].function_std if numbers else None
    if function_std is None or not len(given.model.posterior_.norm):
        return 0
    mostly = 2 * function_std**2 > numbers[0].std ** 2
    return int((mostly & (function_std > _LONE * float(np.median(function_std)))).sum())


def _of_balance(given: Subject, quality: ClassQuality | None) -> Iterator[Html]:
    if not given.classifies:
        return
    if given.training is not None and given.training.y is not None:
        labels, what = given.training.y, "training"
    elif quality is not None:
        labels, what = quality.labels, "held-out"
    else:
        return
    values = Counter(labels.tolist())
    counts = {label: values[label] for label in given.model.classes_.tolist()}
    rare = min(counts, key=lambda label: counts[label])
    total = values.total()
    share = counts[rare] / total
    if share < min(_RARE, 0.5 / len(counts)):
        yield Html(
            f"Classes are not balanced: only {counts[rare]} of {total} {what} rows "
            f"({percent(share)}) are of class {name(rare, 40)}. Accuracy says little about it; "
            "look at its row of the confusion table."
        )


def _of_scales(given: Subject) -> Iterator[Html]:
    rows = given.training or given.held_out
    one_width = any(
        part.gamma_ is not None and np.ndim(part.gamma_) == 0
        for part in kernels_of(given.model.posterior_.atoms)
    )
    if rows is None or not one_width:
        return
    spread = column_spread(rows.X)
    seen = np.flatnonzero(spread > 0)
    if len(seen) < 2:
        return
    wide, narrow = seen[spread[seen].argmax()], seen[spread[seen].argmin()]
    ratio = spread[wide] / spread[narrow]
    if ratio >= _SCALES:
        yield Html(
            f"Scales of inputs differ by a factor of {number(float(ratio), 2)}: "
            f"{name(given.feature_names[wide], 40)} varies most, "
            f"{name(given.feature_names[narrow], 40)} least, and a kernel of one width hardly sees "
            'the latter. Standardize the inputs, or use gamma="pooled-ard" or "ard".'
        )
