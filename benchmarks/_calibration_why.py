"""Where our log-loss is above a peer's, and why: the width, odds too bold or shy, or neither.

Two figures tell. The first is the log-loss with a width of our own instead of the one that suits
the SVC. The second is the log-loss after the log odds were scaled and shifted so that the test rows
suit best. That looks at the test labels and is a bound, not a method; it is done to the peer too.
What remains of the gap is no fault of calibration: ours tells the classes apart less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from benchmarks._classification import Array, Labels

COLUMNS = {
    "": "",
    "peer": "",
    "log-loss - peer's": "+.4f",
    "+-": ".4f",
    "with own width": "+.4f",
    "own width +-": ".4f",
    "both rescaled": "+.4f",
    "rescaled +-": ".4f",
    "slope": ".2f",
    "peer's slope": ".2f",
    "vectors": ".1f",
    "why": "",
}

Gap = tuple[float, float]  # a difference of log-losses and its standard error


def rescaled(proba: list[Array], y: list[Labels]) -> tuple[list[Array], float]:
    """Probabilities whose log odds were scaled and shifted as suits all rows best; the scale.

    More than two classes are scaled only. A scale below one: the odds were too bold.
    """
    logs = [np.log(np.maximum(p, np.finfo(float).tiny)) for p in proba]
    joint, labels = np.vstack(logs), np.concatenate(y)
    two = joint.shape[1] == 2

    def scaled(log_proba: Array, setting: Array) -> Array:
        moved = setting[0] * log_proba
        if two:
            moved[:, 1] += setting[1]
        return np.asarray(log_softmax(moved, axis=1))

    def loss(setting: Array) -> float:
        return float(-scaled(joint, setting)[np.arange(len(labels)), labels].mean())

    start = np.array([1.0, 0.0]) if two else np.array([1.0])
    best = minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-7}).x
    return [np.exp(scaled(part, best)) for part in logs], float(best[0])


def reason(gap: Gap, own: Gap | None, even: Gap, slopes: tuple[float, float]) -> str:
    """What accounts for a gap; nothing has to, up to two of its standard errors."""

    def closed(rest: Gap) -> bool:
        return rest[0] <= 2 * rest[1]

    if closed(gap):
        return "within two standard errors"
    if own is not None and closed(own):
        return "the width suits the SVC: not worse with a width of its own"
    mine, theirs = slopes
    if closed(even) or even[0] < gap[0] / 2:
        kind = "bold" if mine < 1 else "shy"
        return f"log odds too {kind}: their best scale is {mine:.2f}, the peer's {theirs:.2f}"
    share = 100 * even[0] / gap[0]
    return f"tells the classes apart less: {share:.0f} % of the gap remains, both rescaled"


def line(
    name: str,
    peer: str,
    found: dict[str, Any],
    gap_of: Callable[[Any, Any], Gap],
    ours: str,
    own: str,
) -> dict[str, Any] | None:
    """One row of the table, or None where ours is not worse than that peer."""
    gap = gap_of(found[ours], found[peer])
    if gap[0] <= 0:
        return None
    with_own = gap_of(found[own], found[peer]) if own in found else None
    even, slopes = [], []
    for answer in (found[ours], found[peer]):
        proba, slope = rescaled(answer.proba, answer.y)
        even.append(type(answer)(proba, answer.y, answer.cpu))
        slopes.append(slope)
    rest = gap_of(*even)
    return {
        "": name,
        "peer": peer,
        "log-loss - peer's": gap[0],
        "+-": gap[1],
        "with own width": with_own and with_own[0],
        "own width +-": with_own and with_own[1],
        "both rescaled": rest[0],
        "rescaled +-": rest[1],
        "slope": slopes[0],
        "peer's slope": slopes[1],
        "vectors": float(np.mean(found[ours].vectors)),
        "why": reason(gap, with_own, rest, (slopes[0], slopes[1])),
    }
