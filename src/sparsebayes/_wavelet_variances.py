"""Products with the squares of all atoms of a wavelet transform, which are never formed.

One way they give the variance of every sample from those of the coefficients, the other way the
norm of every atom where samples have weights or are missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsebayes import _wavelet_bands
from sparsebayes._wavelet_plans import Floats, Plan, Step, Strip, filters, synthesize

_BLOCK = 256  # atoms of a strip at a time


def variances(plan: Plan, v: Floats) -> Floats:
    """Sum over all atoms of ``v[j] * atom_j ** 2``, of the transform's shape."""
    if len(plan.shape) == 1 and plan.mode == "periodization":
        return _wavelet_bands.variances(plan, v)
    return _of_tensor(plan, v)


def squared_norms(plan: Plan, w: Floats) -> Floats:
    """Sum over all positions of ``w[i] * atoms[:, i] ** 2``, one for each atom."""
    if len(plan.shape) == 1 and plan.mode == "periodization":
        return _wavelet_bands.squared_norms(plan, w)
    return _norms_of_tensor(plan, w)


# Images, and signals with zeros beyond their ends: atoms are products of atoms along each axis.


def _of_tensor(plan: Plan, v: Floats) -> Floats:
    out = np.zeros(plan.shape)
    for where, squares in _squared_atoms(plan):
        if isinstance(where, Strip):
            own = np.concatenate((v[where.scaling], v[where.details]))
            total = sum((rows @ own[some] for some, rows in squares[1]), np.zeros(1))
            pair = (squares[0], total)
            out += np.multiply.outer(*pair[:: 1 if where.axis == 0 else -1])
        else:
            out += _spread(squares, v[where].reshape([own.shape[1] for own in squares]))
    return out


def _norms_of_tensor(plan: Plan, w: Floats) -> Floats:
    out = np.empty(plan.size)
    for where, squares in _squared_atoms(plan):
        if isinstance(where, Strip):
            along = w.T @ squares[0] if where.axis == 0 else w @ squares[0]
            own = np.concatenate([along @ rows for _, rows in squares[1]])
            cut = where.scaling.stop - where.scaling.start
            out[where.scaling], out[where.details] = own[:cut], own[cut:]
        else:
            out[where] = _spread([own.T for own in squares], w).ravel()
    return out


def _spread(squares: list[Any], v: Floats) -> Floats:
    result = squares[0] @ v
    return result if len(squares) == 1 else np.ascontiguousarray((squares[1] @ result.T).T)


def _squared_atoms(plan: Plan) -> Iterator[tuple[Any, Any]]:
    """Places of coefficients, with the squares of their atoms along each axis.

    A strip comes with those along its axis, one column, and along the other one in blocks.
    """
    atoms: list[Any] = [sp.identity(n, format="csr") for n in plan.shape]
    for step in plan.steps:
        for strip in step.strips:
            last = atoms[strip.axis][:, -1].toarray().ravel() ** 2
            atoms[strip.axis] = atoms[strip.axis][:, :-1]
            yield strip, (last, _blocks(strip, atoms[1 - strip.axis]))
        made = []
        for axis, whole in enumerate(atoms):
            halves = _one_level(plan, step, axis) if axis in step.axes else {"a": sp.identity(1)}
            made.append({kind: whole @ half for kind, half in halves.items()})
        for kinds, where in step.details:
            yield where, [own[kind].power(2) for own, kind in zip(made, kinds, strict=True)]
        atoms = [own["a"] for own in made]
    yield plan.blocks[0].slice, [own.power(2) for own in atoms]


def _blocks(strip: Strip, along: Any) -> Iterator[tuple[slice, Floats]]:
    own = strip.plan
    assert own is not None  # the strips of an image are signals
    for i in range(0, own.size, _BLOCK):
        some = slice(i, min(i + _BLOCK, own.size))
        unit = np.zeros((some.stop - i, own.size))
        unit[np.arange(len(unit)), np.arange(i, some.stop)] = 1.0
        yield some, np.square(along @ synthesize(own, unit).T)


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
