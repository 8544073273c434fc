"""Pictures of signals, their parts and their uncertainty, and of relevant inputs; by matplotlib."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["plot_parts", "plot_relevance", "plot_shrinkage", "plot_signal", "plot_uncertainty"]

# Okabe & Ito's colors, which people of any color vision tell apart.
_BLUE, _ORANGE, _GREEN = "#0072B2", "#D55E00", "#009E73"
_PALETTE = (_BLUE, _ORANGE, _GREEN, "#CC79A7", "#E69F00", "#56B4E9")
_SIGNAL, _IMAGE, _SQUARE = (8.0, 4.0), (5.5, 4.5), (4.5, 4.5)  # sizes of figures, in inches
_LEAST_SHARE = 1e-4  # of the relevance of inputs, on a logarithmic axis
_MANY = 5000  # points that are drawn as a picture of themselves in files of lines


def plot_signal(
    result: Any,
    ax: Any = None,
    *,
    x: ArrayLike | None = None,
    truth: ArrayLike | None = None,
    band: float = 2.0,
) -> Any:
    """Draw data, signal and a band of its uncertainty; of an image the signal itself.

    Parameters
    ----------
    result : Denoised or Reconstruction
        What `denoise` or `reconstruct` returned, for one signal or image.
    ax : matplotlib Axes or None
        Where to draw; a new figure where it is None.
    x : array-like of shape (n,), default=None
        Positions of the samples; their numbers by default. For signals.
    truth : array-like of shape (n,), default=None
        A signal to compare with. For signals.
    band : float, default=2.0
        Half the width of the band, in posterior standard deviations; 0 for no band.

    Returns
    -------
    matplotlib Axes
        The axes drawn into.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes import denoise
    >>> from sparsebayes.plotting import plot_signal
    >>> noise = 0.1 * np.random.default_rng(0).standard_normal(100)
    >>> found = denoise(np.sin(np.arange(100.0) / 9) + noise)
    >>> plot_signal(found).get_title()
    '16 of 100 atoms, noise 0.089'
    """
    signal = _one(_of(result, "signal"))
    ax = _axes(ax, _IMAGE if signal.ndim == 2 else _SIGNAL)
    if signal.ndim == 2:
        _draw_image(ax, signal, "gray")
    else:
        at = _positions(x, signal)
        data = getattr(result, "data", None)
        dense = signal.size > _MANY
        if data is not None and np.shape(data) == signal.shape:
            style = {"markersize": 2.5, "color": "0.6", "rasterized": dense}
            ax.plot(at, data, ".", label="data", zorder=1, **style)
        if band:
            edge = band * result.std
            ax.fill_between(
                at,
                signal - edge,
                signal + edge,
                color=_BLUE,
                alpha=0.3,
                linewidth=0,
                zorder=2,
                rasterized=dense,
                label=f"{band:g} standard deviations",
            )
        if truth is not None:
            ax.plot(at, np.asarray(truth), "--", color="black", linewidth=1, label="truth")
        style = {"color": _BLUE, "linewidth": 1.2, "rasterized": dense}
        ax.plot(at, signal, zorder=3, label="signal", **style)
        ax.margins(x=0)
        # The best place is looked for among all points, which takes a minute for a million.
        ax.legend(fontsize="small", frameon=False, loc="upper right" if dense else "best")
    ax.set_title(_caption(result))
    return ax


def plot_uncertainty(result: Any, ax: Any = None, *, x: ArrayLike | None = None) -> Any:
    """Draw the posterior standard deviation: a line, or the map of an image.

    Parameters
    ----------
    result : Denoised or Reconstruction
        What `denoise` or `reconstruct` returned, for one signal or image.
    ax : matplotlib Axes or None
        Where to draw; a new figure where it is None.
    x : array-like of shape (n,), default=None
        Positions of the samples; their numbers by default. For signals.

    Returns
    -------
    matplotlib Axes
        The axes drawn into.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes import denoise
    >>> from sparsebayes.plotting import plot_uncertainty
    >>> noisy = np.eye(16) + 0.1 * np.random.default_rng(0).standard_normal((16, 16))
    >>> plot_uncertainty(denoise(noisy, "haar")).get_title()
    'posterior standard deviation'
    """
    std = _one(_of(result, "std"))
    ax = _axes(ax, _IMAGE if std.ndim == 2 else _SIGNAL)
    if std.ndim == 2:
        _draw_image(ax, std, "viridis")
    else:
        ax.plot(_positions(x, std), std, color=_BLUE, linewidth=1.2)
        ax.margins(x=0)
        ax.set_ylim(bottom=0)
    ax.set_title("posterior standard deviation")
    return ax


def plot_parts(
    result: Any,
    ax: Any = None,
    *,
    x: ArrayLike | None = None,
    labels: Any = None,
) -> Any:
    """Draw what each part of a union contributes, one below the other.

    Parameters
    ----------
    result : Denoised
        What `denoise` returned for one signal or image and a union of dictionaries.
    ax : array of matplotlib Axes or None
        One for each part; a new figure where it is None.
    x : array-like of shape (n,), default=None
        Positions of the samples; their numbers by default. For signals.
    labels : list of str or None
        Names of the parts.

    Returns
    -------
    ndarray of matplotlib Axes
        One for each part.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes import denoise
    >>> from sparsebayes.dictionaries import Kernel, Linear
    >>> from sparsebayes.plotting import plot_parts
    >>> t = np.arange(40.0)
    >>> noisy = t + 9 * np.exp(-((t - 20) ** 2)) + np.random.default_rng(0).standard_normal(40)
    >>> found = denoise(noisy, Linear() + Kernel("rbf", gamma=1.0))
    >>> len(plot_parts(found, labels=["trend", "peak"]))
    2
    """
    parts = [_one(part) for part in _of(result, "parts")]
    names = [f"part {k + 1}" for k in range(len(parts))] if labels is None else list(labels)
    if len(names) != len(parts):
        raise ValueError(f"labels must name each of {len(parts)} parts, got {len(names)}.")
    image = parts[0].ndim == 2
    if ax is None:
        rows, columns = (1, len(parts)) if image else (len(parts), 1)
        size = (4.0 * columns, 4.0) if image else (8.0, 2.2 * rows)
        figure = _figure(size)
        ax = figure.subplots(rows, columns, sharex=True, squeeze=False).ravel()
    panels = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    if len(panels) != len(parts):
        raise ValueError(f"ax must be one Axes for each of {len(parts)} parts, got {len(panels)}.")
    for k, (panel, part) in enumerate(zip(panels, parts, strict=True)):
        if image:
            _draw_image(panel, part, "gray")
        else:
            color = _PALETTE[k % len(_PALETTE)]
            panel.plot(_positions(x, part), part, color=color, linewidth=1.2)
            panel.margins(x=0)
        panel.set_title(names[k], fontsize="medium", loc="left")
    return panels


def plot_shrinkage(result: Any, ax: Any = None, *, limit: float | None = None) -> Any:
    """Draw the posterior mean of each coefficient against its least squares estimate.

    Points on the diagonal are coefficients that are kept as they are, points on the horizontal
    axis those that are taken for noise (S&E fig. 6).

    Parameters
    ----------
    result : Denoised
        What `denoise` returned for an orthonormal wavelet.
    ax : matplotlib Axes or None
        Where to draw; a new figure where it is None.
    limit : float or None
        Largest coefficient drawn; by default four times the least one that is kept.

    Returns
    -------
    matplotlib Axes
        The axes drawn into.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes import denoise
    >>> from sparsebayes.plotting import plot_shrinkage
    >>> noise = 0.1 * np.random.default_rng(0).standard_normal(100)
    >>> found = denoise(np.sin(np.arange(100.0) / 9) + noise)
    >>> plot_shrinkage(found).get_xlabel()
    'least squares'
    """
    before, after = _of(result, "least_squares").ravel(), result.coefficients.ravel()
    if limit is None:
        kept = np.abs(before[(after != 0) & (after != before)])
        limit = 4.0 * float(kept.min(initial=np.inf))
        limit = limit if np.isfinite(limit) else float(np.abs(before).max(initial=0.0)) or 1.0
    elif not limit > 0:
        raise ValueError(f"limit must be a number > 0, got {limit!r}.")
    ax = _axes(ax, _SQUARE)
    ax.axline((0, 0), slope=1, color="0.7", linewidth=0.8, zorder=0)
    ax.axhline(0, color="0.7", linewidth=0.8, zorder=0)
    dense = before.size > _MANY
    ax.plot(before, after, ".", markersize=3, color=_BLUE, rasterized=dense)
    ax.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal")
    ax.set_xlabel("least squares")
    ax.set_ylabel("posterior mean")
    ax.set_title(_caption(result))
    return ax


def plot_relevance(
    model: Any,
    ax: Any = None,
    feature_names: Sequence[str] | None = None,
    *,
    most: int = 30,
    log: bool = False,
) -> Any:
    """Draw how much of a kernel hangs on each input: a bar for each, the longest on top.

    Parameters
    ----------
    model : estimator
        Fitted, with ``feature_relevance_``: an `RVR` or `RVC` with a width for each input, learned
        (``gamma="ard"``) or given; or a pipeline or search that ends with one.
    ax : matplotlib Axes or None
        Where to draw; a new figure where it is None.
    feature_names : sequence of str, default=None
        Names of the inputs; by default those of the data frame that was fitted, else x0, x1, ...
    most : int, default=30
        Most bars that are drawn; those of less relevant inputs are left out.
    log : bool, default=False
        Whether the axis is logarithmic, from one in ten thousand: it tells inputs along which the
        function is nearly straight, whose widths are large, from those that do nothing.

    Returns
    -------
    matplotlib Axes
        The axes drawn into.

    Examples
    --------
    >>> from sparsebayes import RVR
    >>> from sparsebayes.datasets import sinc
    >>> from sparsebayes.plotting import plot_relevance
    >>> data = sinc(50, noise=0.1, random_state=0)
    >>> ax = plot_relevance(RVR(gamma=[0.1]).fit(data.X, data.y), feature_names=["time"])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['time']
    """
    share, names = _relevance(model, feature_names)
    if not (isinstance(most, numbers.Integral) and most >= 1):
        raise ValueError(f"most must be an integer >= 1, got {most!r}.")
    drawn = np.argsort(-share, kind="stable")[: int(most)]
    ax = _axes(ax, (6.0, 1.2 + 0.22 * drawn.size))
    ax.barh(np.arange(drawn.size), share[drawn], color=_BLUE, height=0.7)
    ax.set_yticks(np.arange(drawn.size), [names[place] for place in drawn])
    ax.invert_yaxis()
    ax.set_xscale("log" if log else "linear")
    ax.set_xlim(_LEAST_SHARE if log else 0.0, 1.05 * float(share.max()))
    ax.set_xlabel("share of relevance")
    shown = "" if drawn.size == share.size else f", {drawn.size} of {share.size}"
    ax.set_title(f"relevance of inputs{shown}")
    return ax


def _relevance(model: Any, feature_names: Sequence[str] | None) -> tuple[Any, list[str]]:
    from sparsebayes._pipelines import input_names, last_step

    last = last_step(model)
    if not hasattr(last, "feature_relevance_"):
        raise ValueError(
            f"this {type(last).__name__} has no feature_relevance_: fit it with gamma='ard', or "
            "with one gamma for each input."
        )
    share = np.asarray(last.feature_relevance_)
    names = input_names(model) if feature_names is None else [str(name) for name in feature_names]
    if len(names) != share.size:
        raise ValueError(
            f"feature_names must name each of {share.size} inputs of the kernel, got {len(names)}."
        )
    return share, names


def _caption(result: Any) -> str:
    active = int(np.sum(result.n_atoms))
    noise = np.asarray(result.noise_variance)
    sigma = f", noise {float(noise) ** 0.5:.2g}" if noise.ndim == 0 else ""
    return f"{active} of {result.coefficients.size} atoms{sigma}"


def _of(result: Any, name: str) -> Any:
    """Return what a result has, or refuse what is no such result."""
    known = hasattr(type(result), name) or hasattr(result, name)
    if not (known and hasattr(result, "coefficients")):
        makers = "`denoise` or `reconstruct`" if name in ("signal", "std") else "`denoise`"
        raise TypeError(f"result must be what {makers} returned, got {type(result).__name__}.")
    return getattr(result, name)


def _one(values: Any) -> NDArray[np.float64]:
    array = np.asarray(values)
    if array.ndim not in (1, 2):
        raise ValueError(f"one signal or image can be drawn, got an array of shape {array.shape}.")
    return array


def _positions(x: ArrayLike | None, signal: NDArray[np.float64]) -> NDArray[Any]:
    at = np.arange(signal.size) if x is None else np.asarray(x)
    if at.shape != signal.shape:
        raise ValueError(f"x must have the shape {signal.shape} of the signal, got {at.shape}.")
    return at


def _figure(size: tuple[float, float]) -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError(
            "pictures need matplotlib: pip install matplotlib, or 'sparsebayes[plot]'."
        ) from None
    return pyplot.figure(figsize=size, layout="constrained")


def _draw_image(ax: Any, values: NDArray[np.float64], colors: str) -> None:
    image = ax.imshow(values, cmap=colors, interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, shrink=0.8)
    ax.set_xticks([])
    ax.set_yticks([])


def _axes(ax: Any, size: tuple[float, float]) -> Any:
    return _figure(size).add_subplot() if ax is None else ax
