"""How much of each weight its prior takes away."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparsebayes._settings import is_positive
from sparsebayes.plotting._canvas import BLUE, GRAY, MANY, Display, axes_for, title
from sparsebayes.plotting._models import checked_model
from sparsebayes.plotting._results import caption, checked_result

FloatArray = NDArray[np.float64]

__all__ = ["ShrinkageDisplay"]

_SQUARE = (4.5, 4.5)  # inches
_OWN = "without its own prior"


@dataclass(eq=False, kw_only=True, repr=False)
class ShrinkageDisplay(Display):
    """Weights after shrinkage against the same weights before it (S&E fig. 6).

    Points on the diagonal are weights that are kept as they are, points on the horizontal axis
    those that are taken for noise. Use `from_result` or `from_estimator`; the parameters are what
    is drawn.

    Parameters
    ----------
    before : ndarray of shape (m,)
        Weights without shrinkage.
    after : ndarray of shape (m,)
        Posterior means.
    limit : float
        Largest weight drawn.
    x_label : str
        What ``before`` is.
    caption : str
        The title.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    points_ : matplotlib Line2D
        The weights.
    diagonal_ : matplotlib AxLine
        Where nothing is taken away.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes import denoise
    >>> from sparsebayes.plotting import ShrinkageDisplay
    >>> noise = 0.1 * np.random.default_rng(0).standard_normal(100)
    >>> found = denoise(np.sin(np.arange(100.0) / 9) + noise)
    >>> ShrinkageDisplay.from_result(found).ax_.get_xlabel()
    'least squares'
    """

    before: FloatArray
    after: FloatArray
    limit: float
    x_label: str = "least squares"
    caption: str = ""
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)
    points_: Any = field(init=False, default=None)
    diagonal_: Any = field(init=False, default=None)

    @classmethod
    def from_result(cls, result: Any, *, limit: float | None = None, ax: Any = None) -> Self:
        """Draw the coefficients of what `denoise` or `reconstruct` returned.

        Of an orthonormal wavelet transform these are all coefficients, before it their least
        squares estimates. Of any other result they are those of the atoms that were kept, before it
        what each would be without its own prior, those of the others being what they are.

        Parameters
        ----------
        result : Denoised or Reconstruction
            The result, for one signal or image.
        limit : float or None, default=None
            Largest coefficient drawn; by default four times the least one that is kept.
        ax : matplotlib Axes or None, default=None
            Where to draw; a new figure where it is None.

        Returns
        -------
        ShrinkageDisplay
            The display, drawn.
        """
        after = np.asarray(checked_result(result, "coefficients")).ravel()
        if getattr(result, "_least_squares", None) is not None:
            before, label = np.asarray(result.least_squares).ravel(), "least squares"
        else:
            if isinstance(result.solution, tuple):
                raise ValueError("shrinkage along an axis is drawn for orthonormal wavelets alone.")
            state = result.solution.state
            after = np.asarray(state.mu, dtype=np.float64)[:, 0]
            before, label = _undone(after, np.asarray(state.dof)), _OWN
        shown = _checked_limit(limit, before, after)
        return cls(
            before=before, after=after, limit=shown, x_label=label, caption=caption(result)
        ).plot(ax)

    @classmethod
    def from_estimator(cls, estimator: Any, *, limit: float | None = None, ax: Any = None) -> Self:
        """Draw the weights that a model kept against what each would be without its own prior.

        A weight is dof times what it would be if its own prior were flat, the priors of the others
        being what they are; dof = 1 - Sigma_jj / v_j. Weights are those of atoms of unit norm, so
        that they can be compared.

        Parameters
        ----------
        estimator : estimator
            A fitted one of this package, or a pipeline or search that ends with one.
        limit : float or None, default=None
            Largest weight drawn; all by default.
        ax : matplotlib Axes or None, default=None
            Where to draw; a new figure where it is None.

        Returns
        -------
        ShrinkageDisplay
            The display, drawn.

        Examples
        --------
        >>> from sparsebayes import RVR
        >>> from sparsebayes.datasets import sinc
        >>> from sparsebayes.plotting import ShrinkageDisplay
        >>> data = sinc(50, noise=0.1, random_state=0)
        >>> display = ShrinkageDisplay.from_estimator(RVR(gamma=0.1).fit(data.X, data.y))
        >>> bool((abs(display.after) < abs(display.before)).all())
        True
        """
        last = checked_model(estimator, "posterior_", cls.__name__, "a posterior of weights")
        posterior = last.posterior_
        root = posterior.root
        variance = root**2 if root.ndim == 1 else np.einsum("ij,ij->i", root, root)
        dof = 1.0 - variance / posterior.prior_variance
        mean = posterior.mean * getattr(posterior, "scale", 1.0)
        after = mean.ravel()
        before = _undone(mean, dof if mean.ndim == 1 else dof[:, None]).ravel()
        if limit is None and after.size:
            limit = 1.1 * float(np.abs(before).max())
        shown = _checked_limit(limit, before, after)
        told = f"{len(dof)} weights, {dof.sum():.1f} degrees of freedom"
        return cls(before=before, after=after, limit=shown, x_label=_OWN, caption=told).plot(ax)

    def _axes(self, ax: Any) -> Any:
        return axes_for(ax, _SQUARE)

    def _draw(self, ax: Any) -> None:
        self.diagonal_ = ax.axline((0, 0), slope=1, color=GRAY, linewidth=0.8, zorder=0)
        ax.axhline(0, color=GRAY, linewidth=0.8, zorder=0)
        dense = self.before.size > MANY
        style = {"markersize": 4, "color": BLUE, "markeredgewidth": 0, "rasterized": dense}
        (self.points_,) = ax.plot(self.before, self.after, "o", **style)
        ax.set(xlim=(-self.limit, self.limit), ylim=(-self.limit, self.limit), aspect="equal")
        ax.set_xlabel(self.x_label)
        ax.set_ylabel("posterior mean")
        title(ax, self.caption)


def _undone(after: FloatArray, dof: FloatArray) -> FloatArray:
    # T&F eqs. 20 and 23: mu = q v / (1 + v s), and without the prior q / s; dof = v s / (1 + v s).
    return np.asarray(after / np.maximum(dof, np.finfo(np.float64).tiny))


def _checked_limit(limit: float | None, before: FloatArray, after: FloatArray) -> float:
    if limit is not None:
        if not is_positive(limit):
            raise ValueError(f"limit must be a number > 0, got {limit!r}.")
        return float(limit)
    kept = np.abs(before[(after != 0) & (after != before)])
    found = 4.0 * float(kept.min(initial=np.inf))
    return found if np.isfinite(found) else float(np.abs(before).max(initial=0.0)) or 1.0
