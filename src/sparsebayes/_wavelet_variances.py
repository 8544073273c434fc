"""Squares of all atoms of a wavelet transform, added up: error bars of every sample."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsebayes._wavelet_plans import Floats, Plan, Step, filters, synthesize

_CHUNK = 1 << 13  # samples whose covariances are worked out at a time: they stay in the cache


def squares(plan: Plan, v: Floats) -> Floats:
    """Sum over all atoms of ``v[j] * atom_j ** 2``, of the transform's shape."""
    if len(plan.shape) == 1 and plan.mode == "periodization":
        return _of_signal(plan, v)
    return _of_tensor(plan, v)


# Signals: from level to level travels a band of the covariance matrix, B[d, i] = cov(a_i, a_i+d)
# with i + d modulo the length. An entry of the next band needs only entries at most half a filter
# off the diagonal, so this is exact, and linear in the length whatever that is.


def _of_signal(plan: Plan, v: Floats) -> Floats:
    wavelet = filters(plan.name).synthesis
    low, high = np.array(wavelet.rec_lo), np.array(wavelet.rec_hi)
    widths = [0]
    for _ in plan.steps:
        widths.append((widths[-1] + len(low) - 1) // 2)
    n, width = plan.blocks[0].shape[0], widths[-1]
    band = np.zeros((width + 1, n))
    band[::n] = v[plan.blocks[0].slice]  # a lag of a whole period is no lag
    for step, width in zip(reversed(plan.steps), reversed(widths[:-1]), strict=True):
        band = _finer(band, v[step.details[0][1]], low, high, width)
        for strip in step.strips:
            band = _with_aside(band, float(v[strip.scaling.start]))
    variances: Floats = np.maximum(band[0], 0.0)
    return variances


def _finer(band: Floats, detail: Floats, low: Floats, high: Floats, width: int) -> Floats:
    """Band, of the given width, of one synthesis step: x_i = sum_k low[i - 2k + o] a_k + ..."""
    taps, n = len(low), band.shape[1]
    o = taps // 2 - 1
    most = len(band) - 1
    reach = taps + most  # how far from a position its terms are, in samples of `band`
    alike = _shifted(high, width, n)
    out = np.zeros((width + 1, n, 2))
    around = np.arange(-reach, n + reach) % n
    for start in range(0, n, _CHUNK):
        stop = min(start + _CHUNK, n)
        near = around[start : stop + 2 * reach]
        upper = band[:, near]
        detailed = detail[near]
        m = stop - start + 2 * taps
        first = most  # of `near`, so that lags down to -most are within it
        both = np.empty((2 * most + 1, m))  # cov(a_p, a_p+lag) for lags -most..most
        both[most:] = upper[:, first : first + m]
        for lag in range(1, most + 1):
            both[most - lag] = upper[lag, first - lag : first - lag + m]
        cross = np.zeros((width + taps, m))  # cov(a_p, x_2p+j) for j = -o..width + taps - 1 - o
        for t in range(taps):
            # j + o = t, t + 2, ... and below t: the lag is (j + o - t) / 2.
            rows = np.arange(t % 2, width + taps, 2)
            lags = (rows - t) // 2
            cross[rows[0] :: 2] += low[t] * both[lags[0] + most : lags[-1] + most + 1]
        for r in range(2):
            target = out[:, start:stop, r]
            for t in range((r + o) % 2, taps, 2):
                shift = taps + (r + o - t) // 2
                here = slice(shift, shift + stop - start)
                target += low[t] * cross[t : t + width + 1, here]
                where = slice(first + here.start, first + here.stop)
                target += (high[t] * alike[t])[:, None] * detailed[where]
    return out.reshape(width + 1, 2 * n)


def _shifted(high: Floats, width: int, n: int) -> Floats:
    """high[t + d] for all t and d = 0..width, and those a whole period of n details away."""
    taps = len(high)
    index = np.add.outer(np.arange(taps), np.arange(width + 1))
    total = np.zeros(index.shape)
    periods = (taps + width) // (2 * n)
    for period in range(-periods, periods + 1):
        other = index - 2 * n * period
        total += np.where((other >= 0) & (other < taps), high[np.clip(other, 0, taps - 1)], 0.0)
    return total


def _with_aside(band: Floats, variance: float) -> Floats:
    """Band after one independent sample is appended."""
    n = band.shape[1]
    out = np.zeros((len(band), n + 1))
    i = np.arange(n)
    for d in range(len(band)):
        j = (i + d) % (n + 1)
        old = j < n
        out[d, :-1][old] = band[(j - i)[old] % n, i[old]]
    out[:: n + 1, n] = variance
    return out


# Images, and signals with zeros beyond their ends: atoms are products of atoms along each axis.


def _of_tensor(plan: Plan, v: Floats) -> Floats:
    out = np.zeros(plan.shape)
    atoms = [sp.identity(n, format="csr") for n in plan.shape]
    for step in plan.steps:
        atoms = _strips(plan, step, atoms, v, out)
        halves = [
            _one_level(plan, step, axis) if axis in step.axes else {"a": None}
            for axis in range(len(plan.shape))
        ]
        made = [
            {kind: whole if half is None else whole @ half for kind, half in pair.items()}
            for whole, pair in zip(atoms, halves, strict=True)
        ]
        for kinds, where in step.details:
            pair = [own[kind] for own, kind in zip(made, kinds, strict=True)]
            out += _spread(pair, v[where].reshape(step.after))
        atoms = [own["a"] for own in made]
    top = plan.blocks[0]
    return out + _spread(atoms, v[top.slice].reshape(top.shape))


def _spread(atoms: list[Any], v: Floats) -> Floats:
    result = atoms[0].power(2) @ v
    return result if len(atoms) == 1 else np.ascontiguousarray((atoms[1].power(2) @ result.T).T)


def _strips(plan: Plan, step: Step, atoms: list[Any], v: Floats, out: Floats) -> list[Any]:
    atoms = list(atoms)
    for strip in step.strips:
        own, axis = strip.plan, strip.axis
        assert own is not None
        last = atoms[axis][:, -1].toarray().ravel() ** 2
        atoms[axis] = atoms[axis][:, :-1]
        along = atoms[1 - axis]
        variances = np.concatenate((v[strip.scaling], v[strip.details]))
        total = np.zeros(plan.shape[1 - axis])
        for rows in _batches(own, variances):
            total += np.square(along @ rows.T).sum(axis=1)
        out += np.multiply.outer(last, total) if axis == 0 else np.multiply.outer(total, last)
    return atoms


def _batches(plan: Plan, v: Floats) -> Iterator[Floats]:
    used = np.flatnonzero(v)
    for i in range(0, len(used), 256):
        some = used[i : i + 256]
        coefficients = np.zeros((len(some), plan.size))
        coefficients[np.arange(len(some)), some] = np.sqrt(v[some])
        yield synthesize(plan, coefficients)


def _one_level(plan: Plan, step: Step, axis: int) -> dict[str, Any]:
    """Matrices of one synthesis step along an axis, (before, after), of both filters."""
    wavelet = filters(plan.name).synthesis
    taps, n, half = wavelet.rec_len, step.before[axis], step.after[axis]
    periodic = plan.mode == "periodization"
    k, t = (grid.ravel() for grid in np.mgrid[:half, :taps])
    i = 2 * k + t - (taps // 2 - 1 if periodic else taps - 2)
    inside = np.ones(len(i), dtype=bool) if periodic else (i >= 0) & (i < n)
    i, k, t = i[inside] % n, k[inside], t[inside]
    return {
        kind: sp.csr_matrix((np.array(taps_of)[t], (i, k)), shape=(n, half))
        for kind, taps_of in (("a", wavelet.rec_lo), ("d", wavelet.rec_hi))
    }
