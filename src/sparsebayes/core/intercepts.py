"""Intercepts of latent functions, or of targets, with a flat prior: they are projected out."""

import math

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.tolerances import TOLERANCES

FloatArray = NDArray[np.float64]

__all__ = ["Intercepts"]


class Intercepts:
    """What projecting out the intercepts needs: C, its pseudo-inverse and its determinant.

    ``curvature``, (N, K, K), is that of the likelihood at each sample, or sums of it.
    """

    def __init__(self, curvature: FloatArray, center: bool) -> None:
        self.C: FloatArray = curvature.sum(axis=0)  # (K, K)
        self.root: FloatArray = np.zeros_like(self.C)  # root @ root.T is the covariance
        self.log_volume = 0.0  # log integral of exp(-c'Cc / 2) over identifiable c
        if center and len(self.C) > 1:
            self._invert()
        elif center and self.C[0, 0] > TOLERANCES.no_curvature:
            self.root[0, 0] = 1.0 / math.sqrt(self.C[0, 0])
            self.log_volume = 0.5 * math.log(2 * math.pi / self.C[0, 0])
        self.covariance: FloatArray = self.root @ self.root.T

    @property
    def saturated(self) -> bool:
        """Whether an intercept has no curvature left, so that its covariance says nothing."""
        return not bool((self.C.diagonal() > TOLERANCES.no_curvature).all())

    def trusted_root(self, totals: FloatArray | None) -> FloatArray:
        """Root of the covariance, without the variance that no posterior of the intercepts has.

        Under the exact posterior the expected number of rows of a class is the weight n of that
        class, as an intercept's score is zero on average. Averaged over a Gaussian around the
        mode it is about n exp(variance / 2), and the variance grows as 1 / n: where n is below
        one, the lighter a class is the more probable it would become. Excess is trusted up to a
        factor of 1 / (1 - n), which sets no limit from a whole row on.

        ``totals`` are the weights of each class (two or K of them) or of all events, where known.
        """
        root, K = self.root, len(self.root)
        if totals is None:
            return root
        for k in np.flatnonzero((totals > 0) & (totals < 1)):
            contrast = np.ones(1)
            if K > 1:  # a class against the others, each as far as it has weight
                contrast = -totals / (totals.sum() - totals[k])
                contrast[k] = 1.0
            spread = contrast @ root
            variance, most = float(spread @ spread), -2.0 * math.log1p(-float(totals[k]))
            if variance > most:
                less = (1.0 - math.sqrt(most / variance)) / variance
                root = root - less * np.outer(root @ spread, spread)
        return root

    def _invert(self) -> None:
        K, own = len(self.C), self.C.diagonal()
        firm = np.flatnonzero(own > TOLERANCES.no_curvature)
        if firm.size == 0:
            return
        # Where a shift of all latents changes nothing, that of the firmest class is held at zero.
        invariant = bool((np.abs(self.C.sum(axis=1)) <= TOLERANCES.invariant * own.max()).all())
        if invariant:
            firm = firm[firm != np.argmax(own)]
        # Classes that are separated from the others have curvatures smaller by any factor.
        scale = 1.0 / np.sqrt(own[firm])
        correlation = scale[:, None] * self.C[firm[:, None], firm] * scale
        values, vectors = np.linalg.eigh(correlation)
        kept = values > TOLERANCES.rounding
        half = vectors[:, kept] / np.sqrt(values[kept])
        self.root[firm, : half.shape[1]] = scale[:, None] * half
        self.log_volume = 0.5 * float(np.log(2 * np.pi / values[kept]).sum())
        self.log_volume += float(np.log(scale).sum())
        if invariant:
            # ... and then their mean: the determinant over the rest is K times that of the others.
            self.root -= self.root.mean(axis=0)
            self.log_volume -= 0.5 * float(np.log(K))
