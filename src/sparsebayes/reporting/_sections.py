"""The parts of a report, one function each."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparsebayes.reporting import _facts, _figures
from sparsebayes.reporting._atoms import MOST_ROWS, atom_table
from sparsebayes.reporting._curve import curve
from sparsebayes.reporting._html import (
    Html,
    joined,
    name,
    number,
    paragraph,
    percent,
    sentences,
    tag,
)
from sparsebayes.reporting._page import Section
from sparsebayes.reporting._quality import ClassQuality, NumberQuality
from sparsebayes.reporting._subject import Rows, Subject
from sparsebayes.reporting._tables import Column, figures, table

__all__ = ["atoms", "caution_list", "certainty", "classes_held_out", "fitted", "numbers_held_out"]

_DRAWN_TARGETS = 3
_MISSES = 10
_CLASSES = 20  # up to which a table of all pairs can be read
NO_ROWS = (
    "No held-out data were given, so nothing is said here about how good predictions are: what a "
    "model makes of the rows it was fitted to flatters it."
)


def fitted(given: Subject, notes: Sequence[str]) -> Section:
    """What was fitted, and what was done to the data before."""
    said = [paragraph(*_facts.about_model(given))]
    if notes:
        said.append(tag("h3", "What was done to the data"))
        said.append(sentences(*(tag("bdi", note) for note in notes)))
    picture = None
    if given.held_out is None or given.held_out.y is None:
        picture = curve(given, None)
    pictures = [] if picture is None else [picture]
    return Section("fitted", "What was fitted", joined([*said, _figures.in_pairs(pictures)]))


def caution_list(found: Sequence[Html]) -> Section:
    """What to watch out for."""
    if not found:
        content = paragraph("None of the checks of this report found anything to warn of.")
        return Section("cautions", "Warnings", content, "cautions none")
    return Section("cautions", "Warnings", sentences(*found), "cautions")


def not_held_out(given: Subject) -> Section:
    """Say that nothing is known about quality."""
    said = NO_ROWS
    if given.held_out is not None:
        said = (
            f"{given.held_out.n} held-out rows were given without their targets, so nothing is "
            "said here about how good predictions are."
        )
    return Section("quality", "Quality on held-out data", paragraph(said))


def numbers_held_out(given: Subject, found: Sequence[NumberQuality], rows: Rows) -> Section:
    """How good a regression is on rows it has not seen."""
    several = len(found) > 1
    parts = [paragraph(f"{rows.n} rows that the model was not fitted to were predicted.")]
    parts.append(_target_table(given, found) if several else _target_figures(found[0]))
    drawn = min(len(found), _DRAWN_TARGETS)
    if drawn < len(found):
        parts.append(paragraph(f"Pictures show the first {drawn} of {len(found)} targets."))
    picture = None if several else curve(given, found[0])
    first = [] if picture is None else [picture]
    for place, quality in enumerate(found[:drawn]):
        title = name(given.target_names[place], 40)
        key = f"target-{place}"
        pictures, listing = _figures.predicted_and_observed(
            key, title, quality, rows, _figures.MOST_POINTS // drawn
        )
        tables = [listing]
        if quality.curve:
            calibrated, coverage = _figures.calibration(key, title, quality)
            pictures.append(calibrated)
            tables.append(coverage)
        if several:
            parts.append(tag("h3", title))
        parts += [_figures.in_pairs([*first, *pictures]), *tables]
        parts.append(_misses(key, title, quality, rows))
        first = []
    return Section("quality", "Quality on held-out data", joined(parts))


def _target_figures(quality: NumberQuality) -> Html:
    r2 = "undefined" if quality.r2 is None else number(quality.r2)
    items = [
        (
            "RMSE",
            number(quality.rmse),
            f"Root of the mean squared error; always predicting the mean gives "
            f"{number(quality.naive)}.",
        ),
        (
            "R2",
            r2,
            "All held-out targets are equal."
            if quality.r2 is None
            else "Share of the variance explained: 1 is perfect, 0 is the mean.",
        ),
        ("Mean absolute error", number(quality.mae), "In the unit of the target."),
    ]
    if quality.log_density is not None:
        items.append(
            (
                "Mean log density",
                number(quality.log_density),
                "In nats for each row; higher is better. It judges error bars too.",
            )
        )
    if quality.coverage:
        items.append(_coverage(quality))
    return figures(items)


def _coverage(quality: NumberQuality) -> tuple[str, str, str]:
    """Coverage of the usual intervals in large letters, of the others below."""
    usual, least = 0.9, "At least " if quality.discrete else ""
    others = [
        f"Inside {percent(level, 0)} ones: {percent(share)}."
        for level, share in quality.coverage.items()
        if level != usual
    ]
    meaning = f"{least}{percent(usual, 0)} is right. {' '.join(others)}"
    return f"Inside {percent(usual, 0)} intervals", percent(quality.coverage[usual]), meaning


def _target_table(given: Subject, found: Sequence[NumberQuality]) -> Html:
    levels = list(found[0].coverage)
    columns = [
        Column("target", numeric=False),
        *(Column(head) for head in ("RMSE", "RMSE of the mean", "R2", "mean log density")),
        *(Column(f"inside {percent(level, 0)} intervals") for level in levels),
    ]
    rows = (
        (
            name(title, 60),
            quality.rmse,
            quality.naive,
            "undefined" if quality.r2 is None else number(quality.r2),
            quality.log_density,
            *(percent(quality.coverage[level]) for level in levels),
        )
        for title, quality in zip(given.target_names, found, strict=True)
    )
    return table("targets", "Quality of each target on held-out rows", columns, rows)


def _misses(key: str, title: Html, quality: NumberQuality, rows: Rows) -> Html:
    size = np.abs(quality.surprise)
    worst = np.argsort(-size, kind="stable")[: min(_MISSES, quality.n)]
    heads = ("observed", "predicted", "standard deviation", "error / standard deviation")
    return table(
        f"{key}-misses",
        Html(
            f"The {len(worst)} held-out rows that surprised the model most, {title}{rows.counted}"
        ),
        [Column("row", numeric=False), *(Column(head) for head in heads)],
        (
            (
                name(rows.label(row), 24),
                float(quality.observed[row]),
                float(quality.predicted[row]),
                float(quality.std[row]),
                float(quality.surprise[row]),
            )
            for row in worst.tolist()
        ),
    )


def classes_held_out(given: Subject, quality: ClassQuality, rows: Rows) -> Section:
    """How good a classifier is on rows it has not seen."""
    two = len(quality.classes) == 2
    items = [
        (
            "Accuracy",
            percent(quality.accuracy),
            f"Rows whose class was the most probable one; always the most frequent class gives "
            f"{percent(quality.naive_accuracy)}.",
        ),
        (
            "Log loss",
            number(quality.log_loss),
            "A label is unknown to the model."
            if len(quality.unknown)
            else f"In nats for each row, lower is better; class frequencies alone give "
            f"{number(quality.naive_log_loss)}.",
        ),
        (
            "Brier score",
            number(quality.brier),
            "Mean squared error of the probability"
            + (": 0 is perfect, 0.25 a coin." if two else ", summed over classes: 0 is perfect."),
        ),
    ]
    picture, bins = _figures.reliability_diagram(quality)
    parts = [
        paragraph(f"{rows.n} rows that the model was not fitted to were predicted."),
        figures(items),
        _confusion(quality),
        _figures.in_pairs([picture]),
        bins,
        _surprises(quality, rows),
    ]
    return Section("quality", "Quality on held-out data", joined(parts))


def _confusion(quality: ClassQuality) -> Html:
    labels = [name(label, 40) for label in quality.classes.tolist()]
    counts = quality.confusion
    total, right = counts.sum(axis=1), np.diag(counts)
    claimed = counts.sum(axis=0)

    def share(part: Any, whole: Any) -> str:
        return percent(part / whole) if whole else ""

    found = [share(right[k], total[k]) for k in range(len(labels))]
    trusted = [share(right[k], claimed[k]) for k in range(len(labels))]
    if len(labels) > _CLASSES:
        rows: Any = zip(labels, total.tolist(), right.tolist(), found, trusted, strict=True)
        heads = ("rows", "right", "found (recall)", "right when predicted (precision)")
        columns = [Column("class", numeric=False), *(Column(head) for head in heads)]
        return table("confusion", "Classes of held-out rows", columns, rows)
    columns = [
        Column("observed", numeric=False),
        *(Column(Html(f"predicted {label}")) for label in labels),
        Column("found (recall)"),
        Column("right when predicted (precision)"),
    ]
    rows = ((label, *counts[k].tolist(), found[k], trusted[k]) for k, label in enumerate(labels))
    return table("confusion", "Confusion table: held-out rows by class", columns, rows)


def _surprises(quality: ClassQuality, rows: Rows) -> Html:
    worst = np.argsort(quality.of_truth, kind="stable")[: min(_MISSES, quality.n)]
    heads = [Column(head, numeric=False) for head in ("row", "observed", "predicted")]
    return table(
        "surprises",
        f"The {len(worst)} held-out rows that surprised the model most{rows.counted}",
        [*heads, Column("probability of the observed class")],
        (
            (
                name(rows.label(row), 24),
                name(quality.labels[row], 40),
                name(quality.classes[quality.predicted[row]], 40),
                float(quality.of_truth[row]),
            )
            for row in worst.tolist()
        ),
    )


def atoms(given: Subject) -> Section:
    """Atoms kept, and which inputs matter."""
    listing, more = atom_table(given.model, given.feature_names, given.target_names)
    if not listing:
        return Section("atoms", "Atoms kept", paragraph("The model keeps no atoms."))
    several = "" if given.gaussian else " Weights are those of the latent function."
    if given.classifies and len(given.model.classes_) > 2:
        several = " Each class has such a latent function, with weights of its own."
    said = (
        "The function is an intercept plus the sum of weights times atoms."
        f"{several} The standard error is how uncertain a weight is; the prior variance is what "
        "the fit chose for it, and what it did not choose is zero. An atom is determined by data "
        "from 0 (by the prior alone) to 1 (by the data alone)."
    )
    parts = [paragraph(said), _intercept(given)]
    if more:
        parts.append(
            paragraph(
                f"The table shows the {MOST_ROWS} of {MOST_ROWS + more} entries whose weight is "
                "largest beside its standard error."
            )
        )
    parts.append(listing)
    found = _figures.relevance(given)
    if found is not None:
        parts += [_figures.in_pairs(found[:1]), found[1]]
    return Section("atoms", "Atoms kept", joined(parts))


def _intercept(given: Subject) -> Html:
    values = np.atleast_1d(np.asarray(given.model.intercept_, dtype=np.float64))
    if len(values) == 1:
        return paragraph(f"The intercept is {number(float(values[0]))}.")
    shown = ", ".join(number(float(value)) for value in values[:8])
    return paragraph(f"Intercepts are {shown}{', ...' if len(values) > 8 else ''}.")


def certainty(given: Subject) -> Section:
    """Noise, evidence and certificate, and how the fit came there."""
    parts = [
        paragraph(_facts.about_noise(given)),
        paragraph(*_facts.about_evidence(given)),
        paragraph(*_facts.about_certificate(given)),
    ]
    path = _figures.evidence_path(given)
    if path is None and not hasattr(given.model, "solution_"):
        parts.append(
            paragraph("The path of the fit is not known, as of every model that was loaded.")
        )
    elif path is not None:
        parts += [_figures.in_pairs(path[:1]), path[1]]
    return Section("certainty", "Noise, evidence, certificate", joined(parts))
