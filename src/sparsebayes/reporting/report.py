"""A report of a fitted model: what it is, how good, and what to watch out for, in one file."""

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import sparsebayes
from sparsebayes._files import atomic_write, check_place
from sparsebayes.reporting import _facts, _sections
from sparsebayes.reporting._cautions import cautions
from sparsebayes.reporting._html import bare, paragraph
from sparsebayes.reporting._page import Section, framed, page
from sparsebayes.reporting._quality import judge_classes, judge_numbers
from sparsebayes.reporting._subject import UNNAMED, Subject, subject

__all__ = ["Report", "make_report"]


class Report:
    """A report as an HTML document, which notebooks show and files keep.

    Parameters
    ----------
    html : str
        The document.
    title : str
        Its title.
    warnings : sequence of str, default=()
        What the report warns of, as plain sentences.

    Examples
    --------
    >>> from sparsebayes import RVR
    >>> from sparsebayes.datasets import sinc
    >>> data = sinc(50, random_state=0)
    >>> report = RVR(gamma=0.1).fit(data.X, data.y).report(title="Sinc")
    >>> report.title, report.html.startswith("<!DOCTYPE html>")
    ('Sinc', True)
    """

    def __init__(self, html: str, title: str, warnings: Sequence[str] = ()) -> None:
        self.html = html
        self.title = title
        self.warnings = tuple(warnings)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the document to a file, whole or not at all.

        Parameters
        ----------
        path : str or path
            Where to write; an existing file is replaced.
        """
        check_place(path)
        with atomic_write(path) as file:
            file.write(self.html.encode("utf-8"))

    def _repr_html_(self) -> str:
        return framed(self.html, self.title)

    def __repr__(self) -> str:
        return f"Report({self.title!r}, {len(self.html.encode('utf-8')) / 1000:.0f} kB)"


def make_report(
    model: Any,
    X_test: Any = None,
    y_test: Any = None,
    *,
    title: str | None = None,
    notes: Iterable[str] = (),
    target_names: Any = None,
    training: Any = None,
    row_names: Sequence[Any] | None = None,
) -> Report:
    """Report what was fitted, how good it is on held-out data, and what to watch out for.

    Parameters
    ----------
    model : estimator
        A fitted one of this package, also from a file, or a pipeline or search that ends with one.
    X_test : array-like or scipy.sparse matrix of shape (n_samples, n_features) or None
        Rows that the model was not fitted to.
    y_test : array-like of shape (n_samples,) or (n_samples, n_targets) or None
        Their targets.
    title : str or None, default=None
        Title of the report.
    notes : iterable of str, default=()
        Sentences about what was done to the data before, shown near the top.
    target_names : str, iterable of str or None, default=None
        Names of the targets; by default those of y_test, if it is a data frame or a series.
    training : (X, y) or None, default=None
        The data that the model was fitted to. Then the report also says how many they are, and
        which held-out rows lie outside. Kernel regressions that were fitted in this process know
        theirs.
    row_names : sequence of length n_samples or None, default=None
        What the rows of X_test are called; by default the index of a data frame, else numbers from
        0.

    Returns
    -------
    Report
        One document that needs no other file.

    Examples
    --------
    >>> from sparsebayes import RVC
    >>> from sparsebayes.datasets import mixtures
    >>> from sparsebayes.reporting import make_report
    >>> data, new = mixtures(100, random_state=0), mixtures(500, random_state=1)
    >>> report = make_report(RVC(gamma=4.0).fit(data.X, data.y), new.X, new.y, title="Mixtures")
    >>> "Confusion table" in report.html
    True
    """
    given = subject(model, X_test, y_test, training, target_names, row_names)
    if not isinstance(notes, Iterable):
        raise TypeError(f"notes must be sentences, got {type(notes).__name__}.")
    remarks = [notes] if isinstance(notes, str) else [str(note) for note in notes]
    heading = _title(given) if title is None else str(title)
    written = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    lead = paragraph(
        f"Written by sparsebayes {sparsebayes.__version__}, {written}.", class_="muted"
    )
    footer = paragraph(
        "This file is complete in itself and loads nothing. Numbers are rounded to four digits."
    )
    sections, warned = _all_sections(given, remarks)
    return Report(page(heading, lead, sections, footer), heading, warned)


def _all_sections(given: Subject, notes: list[str]) -> tuple[list[Section], list[str]]:
    """The parts of the report, and what it warns of."""
    rows = given.held_out
    numbers, classes = [], None
    if rows is None or rows.y is None:
        quality = _sections.not_held_out(given)
    elif given.classifies:
        classes = judge_classes(given.model, rows.X, rows.y)
        quality = _sections.classes_held_out(given, classes, rows)
    else:
        numbers = judge_numbers(given.model, rows.X, rows.y)
        quality = _sections.numbers_held_out(given, numbers, rows)
    warned = cautions(given, numbers, classes)
    parts = [
        _sections.fitted(given, notes),
        _sections.caution_list(warned),
        quality,
        _sections.atoms(given),
        _sections.certainty(given),
        Section("settings-list", "Settings", _facts.settings(given)),
    ]
    return parts, [bare(sentence) for sentence in warned]


def _title(given: Subject) -> str:
    task = "classification" if given.classifies else "regression"
    kind = f"{task} by {type(given.model).__name__}"
    if given.target_names == [UNNAMED]:
        return f"A {kind}"
    return f"{', '.join(given.target_names[:3])}: a {kind}"
