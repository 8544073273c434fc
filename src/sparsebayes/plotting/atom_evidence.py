"""What the evidence says of the prior variance of one atom, all others being what they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsebayes._hyperprior import lets_out
from sparsebayes._settings import is_count, is_positive
from sparsebayes.hyperpriors import Flat, Hyperprior, best_variance
from sparsebayes.plotting._atom_statistics import AtomStatistics, atom_statistics
from sparsebayes.plotting._canvas import BLUE, GRAY, ORANGE, Display, axes_for, ink, legend, title
from sparsebayes.plotting._models import checked_model

FloatArray = NDArray[np.float64]

__all__ = ["AtomEvidenceDisplay"]

_SIZE = (6.0, 4.0)  # inches
_DECADES = 3.5  # on both sides of the best variance
_POINTS = 400


@dataclass(eq=False, kw_only=True, repr=False)
class AtomEvidenceDisplay(Display):
    """Log evidence as a function of one atom's prior variance v (F&T fig. 1).

    l(v) = (-log(1 + v s) + v q^2 / (1 + v s)) / 2, with the sparsity s and the quality q of the
    atom out of its own model (T&F eq. 18). It is zero at v = 0, where the atom is out, falls to
    minus infinity where v grows, and has one maximum in between if q^2 > s. A hyperprior adds its
    own curve. Use `from_estimator` or `from_statistics`; the parameters are what is drawn.

    Parameters
    ----------
    v : ndarray of shape (n,)
        Variances.
    evidence : ndarray of shape (n,)
        l(v), in nats above an atom that is out.
    objective : ndarray of shape (n,) or None
        The same with the log hyperprior; None where it is flat.
    best : tuple of float
        The best variance, zero where the atom is best out of the model, and its value in nats.
    current : tuple of float or None
        Variance in a model, and its value.
    s, q2 : float
        Sparsity, and quality squared; sums over what shares the variance.
    lets_out : bool
        Whether the prior lets the atom be out of the model; a ``Gamma`` prior does not.
    caption : str
        The title.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    evidence_, objective_ : matplotlib Line2D or None
        The curves.
    best_ : matplotlib Line2D
        The maximum; at the left edge where the atom is best out of the model.
    current_ : matplotlib Line2D or None
        The variance in the model.
    zero_ : matplotlib Line2D or None
        The value of an atom that is out.

    Examples
    --------
    >>> from sparsebayes.plotting import AtomEvidenceDisplay
    >>> display = AtomEvidenceDisplay.from_statistics(s=1.0, q=3.0)
    >>> display.best[0], round(display.best[1], 3)
    (8.0, 2.901)
    """

    v: FloatArray
    evidence: FloatArray
    best: tuple[float, float]
    objective: FloatArray | None = None
    current: tuple[float, float] | None = None
    s: float
    q2: float
    lets_out: bool = True
    caption: str = ""
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)
    evidence_: Any = field(init=False, default=None)
    objective_: Any = field(init=False, default=None)
    best_: Any = field(init=False, default=None)
    current_: Any = field(init=False, default=None)
    zero_: Any = field(init=False, default=None)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        atom: int | None = None,
        label: Any = None,
        sample_weight: ArrayLike | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw l(v) of one atom of a fitted model, whether it is in the model or not.

        Parameters
        ----------
        estimator : estimator
            A fitted one of this package, or a pipeline or search that ends with one.
        X, y : array-like
            Its training data.
        atom : int or None, default=None
            Position in the dictionary, as ``relevance_`` counts: the row of a kernel, the column of
            a linear atom. None takes the atom in the model whose weight is most certain not to be
            zero.
        label : object, default=None
            Class whose latent function is meant, where there are more than two; None takes the one
            in which the atom has the largest weight.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the fit.
        ax : matplotlib Axes or None, default=None
            Where to draw; a new figure where it is None.

        Returns
        -------
        AtomEvidenceDisplay
            The display, drawn. Variances are those of the atom as given, in units of y squared.

        Examples
        --------
        >>> from sparsebayes import RVR
        >>> from sparsebayes.datasets import sinc
        >>> from sparsebayes.plotting import AtomEvidenceDisplay
        >>> data = sinc(50, noise=0.1, random_state=0)
        >>> model = RVR(gamma=0.1).fit(data.X, data.y)
        >>> inside = AtomEvidenceDisplay.from_estimator(model, data.X, data.y)
        >>> bool(abs(inside.best[0] / inside.current[0] - 1) < 1e-2)
        True
        >>> AtomEvidenceDisplay.from_estimator(model, data.X, data.y, atom=0).best
        (0.0, 0.0)
        """
        needs = "the posterior of a fit by sparsebayes"
        checked_model(estimator, "posterior_", cls.__name__, needs)
        if atom is not None and not is_count(atom, 0):
            raise ValueError(f"atom must be an integer >= 0, got {atom!r}.")
        found = atom_statistics(estimator, X, y, atom, label, sample_weight)
        return cls._drawn(found, f"atom {found.atom}: ", ax)

    @classmethod
    def from_statistics(
        cls,
        s: ArrayLike,
        q: ArrayLike,
        *,
        hyperprior: Hyperprior | None = None,
        noise_variance: float = 1.0,
        ax: Any = None,
    ) -> Self:
        """Draw l(v) for given sparsity and quality.

        Parameters
        ----------
        s : float or array-like of shape (K,)
            Sparsity of the atom out of its own model; K numbers in the directions of what shares
            the variance.
        q : float or array-like of shape (K,)
            Quality. Several for one s are those of several targets.
        hyperprior : Hyperprior or None, default=None
            Prior of the variance, such as ``Smoothness(3.5)``; None for a flat one.
        noise_variance : float, default=1.0
            What such a prior compares the variance of an atom of unit norm with.
        ax : matplotlib Axes or None, default=None
            Where to draw; a new figure where it is None.

        Returns
        -------
        AtomEvidenceDisplay
            The display, drawn.

        Examples
        --------
        >>> from sparsebayes.hyperpriors import Smoothness
        >>> from sparsebayes.plotting import AtomEvidenceDisplay
        >>> AtomEvidenceDisplay.from_statistics(1.0, 2.0, hyperprior=Smoothness(3.5)).best
        (0.0, 0.0)
        """
        try:
            sparsity = np.atleast_1d(np.asarray(s, dtype=np.float64))
            quality = np.atleast_1d(np.asarray(q, dtype=np.float64))
        except (TypeError, ValueError):
            raise ValueError("s and q must be numbers.") from None
        fits = sparsity.ndim == quality.ndim == 1 and sparsity.size in (1, quality.size)
        if not fits or not np.isfinite(quality).all() or not (sparsity > 0).all():
            raise ValueError(
                "s must be positive, one number or one for each q, and q finite, got "
                f"s={s!r}, q={q!r}."
            )
        if not np.isfinite(sparsity).all():
            raise ValueError(f"s must be finite, got {s!r}.")
        prior = Flat() if hyperprior is None else hyperprior
        if not isinstance(prior, Hyperprior) or isinstance(prior, type):
            raise TypeError(f"hyperprior must be None or a hyperprior, got {hyperprior!r}.")
        if not is_positive(noise_variance):
            raise ValueError(f"noise_variance must be a number > 0, got {noise_variance!r}.")
        targets = quality.size if sparsity.size == 1 else 1
        q2 = np.array([np.sum(quality**2)]) if sparsity.size == 1 else quality**2
        given = AtomStatistics(0, sparsity, q2, targets, prior, float(noise_variance), 1.0, 0.0)
        return cls._drawn(given, "", ax)

    @classmethod
    def _drawn(cls, found: AtomStatistics, named: str, ax: Any) -> Self:
        flat, lone = isinstance(found.hyperprior, Flat), found.s.size == 1
        s, q2 = (found.s, found.q2) if lone else (found.s[None], found.q2[None])
        usable = bool((found.s > 0).any()) and found.unit > 0
        best = 0.0
        if usable:
            best = float(
                best_variance(found.hyperprior, s, q2, found.noise_var, found.n_targets)[0]
            )
        middle = best or found.v or (1.0 / float(found.s.max()) if usable else 1.0)
        # At small v the evidence is v (q^2 - s) / 2: begin where that is next to nothing.
        steep = float(found.q2.sum())
        least = 0.02 / steep if best > 0 else np.inf
        start = np.log10(min(middle * 10.0**-_DECADES, max(least, middle * 1e-8)))
        v = np.logspace(start, np.log10(middle) + _DECADES, _POINTS)
        evidence = _evidence(found, v)
        prior = found.hyperprior.log_density(v, found.noise_var)
        marks = np.array([value for value in (best, found.v) if value > 0])
        heights = _evidence(found, marks)
        if not flat:
            heights = heights + found.hyperprior.log_density(marks, found.noise_var)
        told = dict(zip(marks.tolist(), heights.tolist(), strict=True))
        total, needed = float(found.q2.sum()), found.n_targets * float(found.s.sum())
        sign = ">" if total > needed else "\u2264"
        verdict = "in" if best > 0 else "out of"
        unit = found.unit or 1.0
        return cls(
            v=v * unit,
            evidence=evidence,
            objective=None if flat else evidence + prior,
            best=(best * unit, told.get(best, 0.0)),
            current=(found.v * unit, told[found.v]) if found.v > 0 else None,
            s=float(found.s.sum()) / unit,
            q2=total / unit,
            lets_out=lets_out(found.hyperprior),
            caption=f"{named}$q^2$ {sign} $s$, best {verdict} the model",
        ).plot(ax)

    def _axes(self, ax: Any) -> Any:
        return axes_for(ax, _SIZE)

    def _draw(self, ax: Any) -> None:
        ax.set_xscale("log")
        style = {"color": GRAY, "linewidth": 1.0, "linestyle": ":"}
        if self.lets_out:
            self.zero_ = ax.axhline(0.0, label="out of the model", **style)
        (self.evidence_,) = ax.plot(self.v, self.evidence, color=BLUE, label="log evidence")
        if self.objective is not None:
            (self.objective_,) = ax.plot(
                self.v, self.objective, "--", color=ORANGE, label="with the prior"
            )
        at, value = self.best
        (self.best_,) = ax.plot(
            [at if at > 0 else self.v[0]],
            [value if at > 0 else 0.0],
            "o" if at > 0 else "<",
            color=ink(ax),
            markersize=7,
            clip_on=False,
            linestyle="none",
            label="best" if at > 0 else "best: v = 0",
        )
        if self.current is not None:
            style = {"markersize": 11, "markerfacecolor": "none", "markeredgecolor": ink(ax)}
            (self.current_,) = ax.plot(
                [self.current[0]], [self.current[1]], "s", label="in this model", **style
            )
        ax.set_xlim(self.v[0], self.v[-1])
        self._limit(ax)
        ax.set_xlabel("prior variance $v$")
        ax.set_ylabel("nats")
        title(ax, self.caption)
        legend(ax)

    def _limit(self, ax: Any) -> None:
        """Show the maximum and the way down, which has no end."""
        curves = [self.evidence] + ([] if self.objective is None else [self.objective])
        high = max(max(float(curve.max()) for curve in curves), 0.0)
        low = min(min(float(curve[np.isfinite(curve)].min()) for curve in curves), 0.0)
        low = max(low, -max(0.5 * high, 3.0))
        reach = max(high - low, 1e-6)
        ax.set_ylim(low - 0.05 * reach, high + 0.08 * reach)


def _evidence(found: AtomStatistics, v: FloatArray) -> FloatArray:
    """T&F eq. 18, summed over what shares the variance."""
    vs = v[:, None] * found.s
    worth = v[:, None] * found.q2 / (1.0 + vs) - found.n_targets * np.log1p(vs)
    return np.asarray(0.5 * worth.sum(axis=1))
