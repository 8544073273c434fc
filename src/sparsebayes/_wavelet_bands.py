"""Squares of the atoms of a periodized wavelet transform of signals, in time linear in the length.

From level to level travels a band of a covariance matrix, B[d, i] = C[i, i + d] with i + d modulo
the length. An entry of the next band needs only entries at most half a filter off the diagonal, so
this is exact, whatever the length is.
"""

from __future__ import annotations

import numpy as np

from sparsebayes._wavelet_plans import Floats, Plan, filters, plan, synthesize

_CHUNK = 1 << 13  # samples whose covariances are worked out at a time: they stay in the cache


def _filters(name: str) -> tuple[Floats, Floats]:
    wavelet = filters(name).synthesis
    return np.array(wavelet.rec_lo), np.array(wavelet.rec_hi)


def variances(plan: Plan, v: Floats) -> Floats:
    """Sum over all atoms of ``v[j] * atom_j ** 2``, (N,)."""
    low, high = _filters(plan.name)
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
    total: Floats = np.maximum(band[0], 0.0)
    return total


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


def squared_norms(whole: Plan, w: Floats) -> Floats:
    """Sum over all positions of ``w[i] * atoms[:, i] ** 2``, (M,)."""
    low, high = _filters(whole.name)
    out = np.empty(whole.size)
    band = w[None, :]  # of A' diag(w) A, with A the scaling functions of a level
    # Where filters are about as long as the signal, bands would overlap.
    few = 4 * len(low)
    cut = next((k for k, s in enumerate(whole.steps) if s.before[0] <= few), len(whole.steps))
    for step in whole.steps[:cut]:
        for strip in step.strips:
            out[strip.scaling] = band[0, -1]
            band = _without_last(band)
        band, out[step.details[0][1]] = _coarser(band, low, high)
    if cut == len(whole.steps):
        out[whole.blocks[0].slice] = band[0]
        return out
    n = band.shape[1]
    rest = plan(whole.name, (n,), len(whole.steps) - cut, whole.mode)
    atoms = synthesize(rest, np.eye(n))
    i = np.arange(n)
    G = np.zeros((n, n))
    for d, diagonal in enumerate(band):
        G[i, (i + d) % n] = G[(i + d) % n, i] = diagonal
    norms = np.einsum("ij,ij->i", atoms @ G, atoms)
    out[: rest.scaling] = norms[: rest.scaling]
    out[whole.scaling : whole.scaling + n - rest.scaling] = norms[rest.scaling :]
    return out


def _without_last(band: Floats) -> Floats:
    """Band after the last sample is dropped: pairs around the end come one closer."""
    out = band[:, :-1].copy()
    n = out.shape[1]
    for d in range(1, len(band)):
        out[d, n - d :] = band[d + 1, n - d : n] if d + 1 < len(band) else 0.0
    return out


def _coarser(band: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Band of H' G H, and diagonal of D' G D, for the synthesis (H, D) of one level."""
    taps, width, n = len(low), len(band) - 1, band.shape[1]
    o = taps // 2 - 1
    half = n // 2
    most = (width + taps - 1) // 2
    out, diagonal = np.empty((most + 1, half)), np.empty(half)
    reach = taps + width
    around = np.arange(-2 * reach, n + 2 * reach) % n
    for start in range(0, half, _CHUNK):
        stop = min(start + _CHUNK, half)
        upper = band[:, around[2 * start : 2 * stop + 4 * reach]]
        m = 2 * (stop - start + reach)
        # G[i, i + lag] for lags -width..width, from sample 2 start - reach on.
        both = np.empty((2 * width + 1, m))
        both[width:] = upper[:, reach : reach + m]
        for lag in range(1, width + 1):
            both[width - lag] = upper[lag, reach - lag : reach - lag + m]
        for taps_of, rows in ((low, taps + width), (high, taps)):
            # (H'G)[k, 2k + j] for j = -o .. rows - 1 - o
            cross = np.zeros((rows, stop - start))
            for t in range(taps):
                first, last = max(t - width, 0), min(t + width + 1, rows)
                at = reach + t - o
                cross[first:last] += (
                    taps_of[t]
                    * both[first - t + width : last - t + width, at::2][:, : stop - start]
                )
            if taps_of is high:
                diagonal[start:stop] = high @ cross
                continue
            for e in range(most + 1):
                own = cross[2 * e : 2 * e + taps]
                out[e, start:stop] = low[: len(own)] @ own
    return out, diagonal
