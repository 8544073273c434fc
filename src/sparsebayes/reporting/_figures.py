"""The pictures of a report, each with the table whose rows explain its points."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sparsebayes.reporting._html import Html, cut, name, number, percent, tag
from sparsebayes.reporting._quality import ClassQuality, NumberQuality
from sparsebayes.reporting._subject import Rows, Subject
from sparsebayes.reporting._svg import Plot, bars
from sparsebayes.reporting._tables import Column, table

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = [
    "calibration",
    "drawn_rows",
    "evidence_path",
    "predicted_and_observed",
    "relevance",
    "reliability_diagram",
]

MOST_POINTS = 400
_STEPS = 200  # of the path of a fit
_FEWEST_STEPS = 4
_INPUTS = 30
_USUAL = 2.0  # standard deviations that 19 of 20 errors stay within


def figure(key: str, picture: Html, caption: str, rows: str, near: str = "xy") -> Html:
    """Put a picture and its caption together.

    Parameters
    ----------
    key : str
        Its id.
    picture : Html
        The drawing.
    caption : str
        What it shows.
    rows : str
        Id of the table whose rows explain its marks, in their order.
    near : {"xy", "x", "y"}
        By which coordinate the mark next to a pointer is found.

    Returns
    -------
    Html
        The figure.
    """
    return tag(
        "figure",
        tag("figcaption", caption),
        tag("div", picture, class_="stage"),
        id=key,
        class_="plot",
        data_table=rows,
        data_near=near,
    )


def drawn_rows(n: int, most: int = MOST_POINTS) -> IndexArray:
    """Which of many rows are drawn: all, or a sample that is always the same.

    Parameters
    ----------
    n : int
        How many there are.
    most : int, default=400
        How many may be drawn.

    Returns
    -------
    ndarray
        Their positions, in order.

    Examples
    --------
    >>> drawn_rows(3), len(drawn_rows(50_000))
    (array([0, 1, 2]), 400)
    """
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, most, replace=False))


def predicted_and_observed(
    key: str, title: Html, quality: NumberQuality, rows: Rows, most: int
) -> tuple[list[Html], Html]:
    """Draw predictions beside observations, and their errors.

    Parameters
    ----------
    key : str
        Beginning of the ids.
    title : Html
        Name of the target.
    quality : NumberQuality
        Predictions and observations.
    rows : Rows
        The rows they are of.
    most : int
        How many may be drawn.

    Returns
    -------
    pictures : list of Html
        Two figures.
    table : Html
        The rows drawn.
    """
    chosen = drawn_rows(quality.n, most)
    y, mean, std = (v[chosen] for v in (quality.observed, quality.predicted, quality.std))
    low, high = quality.low[chosen], quality.high[chosen]
    surprise = quality.surprise[chosen]
    both = Plot(y, np.concatenate([low, high, y]), ("observed", "predicted"))
    ends = np.array([max(both.x.low, both.y.low), min(both.x.high, both.y.high)])
    both.line(ends, ends, "dashed")
    both.spans(y, low, high)
    both.points(y, mean)
    limit = max(3.0, min(float(np.abs(surprise).max(initial=0.0)), 10.0))
    errors = Plot(mean, [-limit, limit], ("predicted", "error / standard deviation"))
    across = np.array([errors.x.low, errors.x.high])
    errors.line(across, np.zeros(2), "solid")
    for side in (-_USUAL, _USUAL):
        errors.line(across, np.full(2, side), "dashed")
    errors.points(mean, np.clip(surprise, -limit, limit))
    clipped = " Larger errors stand at the edge." if np.abs(surprise).max() > limit else ""
    pictures = [
        figure(
            f"{key}-fit",
            both.svg("Predicted against observed values of held-out rows"),
            Html(
                f"<b>Predicted against observed</b> {title}, with {quality.reach}. "
                f"The dashed line is a perfect prediction."
                f"{sampled(len(chosen), quality.n)}"
            ),
            f"{key}-rows",
        ),
        figure(
            f"{key}-errors",
            errors.svg("Errors in standard deviations against predicted values"),
            Html(
                f"<b>Errors</b> of {title}: observed minus predicted, in standard deviations. "
                f"About 19 in 20 should lie between the dashed lines, without a pattern.{clipped}"
            ),
            f"{key}-rows",
        ),
    ]
    columns = [Column(head) for head in ("observed", "predicted", "standard deviation", "error")]
    content = table(
        f"{key}-rows",
        Html(f"Held-out rows drawn, {title}{rows.counted}"),
        [Column("row", numeric=False), *columns, Column("error / standard deviation")],
        (
            (name(rows.label(row), 24), *map(float, values))
            for row, *values in zip(chosen, y, mean, std, y - mean, surprise, strict=True)
        ),
        folded=f"The {len(chosen)} points drawn, as a table",
    )
    return pictures, content


def calibration(key: str, title: Html, quality: NumberQuality) -> tuple[Html, Html]:
    """Draw how many observations intervals hold, beside how many they should.

    Parameters
    ----------
    key : str
        Beginning of the ids.
    title : Html
        Name of the target.
    quality : NumberQuality
        Predictions and observations.

    Returns
    -------
    picture, table : Html
        The figure, and its numbers.
    """
    levels = np.array(list(quality.curve))
    shares = np.array(list(quality.curve.values()))
    chance = 2 * np.sqrt(levels * (1 - levels) / quality.n)
    plot = Plot([0.0, 1.0], [0.0, 1.0], ("stated", "found"), margin=0.03)
    plot.band(levels, levels - chance, levels + chance)
    plot.line(np.array([0.0, 1.0]), np.array([0.0, 1.0]), "dashed")
    plot.line(levels, shares, "solid")
    plot.points(levels, shares)
    counts = " Intervals of counts hold at least what they state." if quality.discrete else ""
    picture = figure(
        f"{key}-calibration",
        plot.svg("Share of held-out rows inside intervals of stated probability"),
        Html(
            f"<b>Calibration of intervals</b> of {title}: the share of held-out rows inside "
            "intervals of a stated probability. Points below the dashed line mean error bars that "
            f"are too small; the band is what chance allows.{counts}"
        ),
        f"{key}-intervals",
    )
    rows = ((percent(a, 0), percent(b)) for a, b in quality.curve.items())
    columns = [Column("stated"), Column("found")]
    numbers = table(
        f"{key}-intervals",
        Html(f"Coverage of intervals, {title}"),
        columns,
        rows,
        folded="Coverage of intervals, as a table",
    )
    return picture, numbers


def reliability_diagram(quality: ClassQuality) -> tuple[Html, Html]:
    """Draw how often a class was observed beside the probability that was stated.

    Parameters
    ----------
    quality : ClassQuality
        Predictions and observations.

    Returns
    -------
    picture, table : Html
        The figure, and its numbers.
    """
    two = len(quality.classes) == 2
    what = Html(
        f"the probability of class {name(quality.classes[1], 40)}"
        if two
        else "the probability of the predicted class"
    )
    bins = quality.bins
    stated, share = (np.array([getattr(b, k) for b in bins]) for k in ("stated", "share"))
    plot = Plot([0.0, 1.0], [0.0, 1.0], ("stated probability", "found share"), margin=0.03)
    plot.line(np.array([0.0, 1.0]), np.array([0.0, 1.0]), "dashed")
    plot.spans(stated, np.array([b.least for b in bins]), np.array([b.most for b in bins]))
    plot.line(stated, share, "solid")
    largest = max(b.rows for b in bins)
    plot.points(stated, share, radius=[3 + 4 * (b.rows / largest) ** 0.5 for b in bins])
    picture = figure(
        "reliability",
        plot.svg("Share of held-out rows against the probability that was stated"),
        Html(
            f"<b>Reliability</b>: {what} against how often it was right, in ten bins. Bars are "
            f"{percent(0.95, 0)} intervals of the share, larger points hold more rows, and the "
            "dashed line is perfect."
        ),
        "reliability-bins",
    )
    rows = [
        (
            f"{b.low:.1f} to {b.high:.1f}",
            b.rows,
            percent(b.stated),
            percent(b.share),
            f"{percent(b.least)} to {percent(b.most)}",
        )
        for b in bins
    ]
    columns = [
        Column("probability", numeric=False),
        Column("rows"),
        Column("stated on average"),
        Column("found"),
        Column(f"{percent(0.95, 0)} interval"),
    ]
    numbers = table(
        "reliability-bins",
        "Reliability of probabilities",
        columns,
        rows,
        folded="Reliability, as a table",
    )
    return picture, numbers


def relevance(given: Subject) -> tuple[Html, Html] | None:
    """Draw which inputs the kernel sees most of.

    Parameters
    ----------
    given : Subject
        What the report is about.

    Returns
    -------
    (picture, table) or None
        None where the model has no relevances, or one input.
    """
    shares = getattr(given.model, "feature_relevance_", None)
    if shares is None or len(shares) < 2:
        return None
    order = np.argsort(-shares, kind="stable")[:_INPUTS]
    names = [given.feature_names[k] for k in order]
    gamma = getattr(given.model, "gamma_", None)
    widths = (
        np.broadcast_to(np.asarray(gamma, dtype=np.float64), shares.shape)
        if gamma is not None and not isinstance(gamma, list)
        else None
    )
    more = len(shares) - len(order)
    few = f" The {len(order)} most relevant of {len(shares)} are shown." if more else ""
    picture = figure(
        "relevance",
        bars(
            [cut(title) for title in names],
            [float(shares[k]) for k in order],
            "Relevance of inputs",
            ends=[percent(float(shares[k])) for k in order],
        ),
        Html(
            "<b>Relevance of inputs</b>: the share of each in what the kernel sees of the data, "
            f"gamma times the variance of the input (times its spread, where the kernel is one of "
            f"distances).{few}"
        ),
        "relevance-inputs",
        near="y",
    )
    columns = [Column("input", numeric=False), Column("share")]
    rows = [
        (name(title), percent(float(shares[k]), 2), *([] if widths is None else [float(widths[k])]))
        for title, k in zip(names, order, strict=True)
    ]
    if widths is not None:
        columns.append(Column("gamma"))
    numbers = table(
        "relevance-inputs",
        "Relevance of inputs",
        columns,
        rows,
        sorted_by=1,
        folded="Relevance of inputs, as a table",
    )
    return picture, numbers


def evidence_path(given: Subject) -> tuple[Html, Html] | None:
    """Draw how the objective rose while the model was fitted.

    Parameters
    ----------
    given : Subject
        What the report is about.

    Returns
    -------
    (picture, table) or None
        None where the trace is not known, as of a loaded model, or a few steps long.
    """
    solution = getattr(given.model, "solution_", None)
    trace = [line for line in getattr(solution, "trace", ()) if np.isfinite(line.objective)]
    if solution is None or len(trace) < _FEWEST_STEPS:
        return None
    steps = np.unique(np.linspace(0, len(trace) - 1, min(_STEPS, len(trace))).round().astype(int))
    # Solvers see targets in a unit of their own, which shifts the objective by a constant.
    shift = given.model.log_posterior_ - solution.state.objective
    at = steps.astype(np.float64)
    height = np.array([trace[k].objective + shift for k in steps])
    plot = Plot(at, height, ("step", "objective, in nats"))
    plot.line(at, height, "solid")
    plot.points(at, height, radius=2.2)
    few = f" {len(steps)} of {len(trace)} steps are drawn." if len(steps) < len(trace) else ""
    picture = figure(
        "path",
        plot.svg("Objective over the steps of the fit"),
        Html(
            "<b>Path of the fit</b>: log evidence plus the log prior of the variances, as the "
            f"solver reported it. Searches for a better optimum may begin lower again.{few}"
        ),
        "path-steps",
        near="x",
    )
    columns = [
        Column("step"),
        Column("phase", numeric=False),
        Column("atoms"),
        Column("objective"),
        Column("best gain left"),
    ]
    rows = (
        (
            int(k),
            trace[k].phase,
            int(trace[k].n_active),
            number(float(h), 7),
            number(float(trace[k].max_gain)),
        )
        for k, h in zip(steps, height, strict=True)
    )
    numbers = table(
        "path-steps", "Steps of the fit", columns, rows, folded="Steps of the fit, as a table"
    )
    return picture, numbers


def sampled(chosen: int, n: int) -> str:
    """What to say where some of many rows are drawn."""
    return "" if chosen == n else f" A random {chosen} of {n} are drawn."


def in_pairs(pictures: Sequence[Html]) -> Html:
    """Put pictures side by side where there is room.

    Parameters
    ----------
    pictures : sequence of Html
        Figures.

    Returns
    -------
    Html
        Nothing where there are none.
    """
    return tag("div", *pictures, class_="plots") if pictures else Html("")
