"""What single precision does to a model whose weights cancel each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes.dictionaries._protocol import is_sparse
from sparsebayes.dictionaries.kernels import KernelAtoms
from sparsebayes.dictionaries.union import UnionAtoms
from sparsebayes.export._errors import ExportError
from sparsebayes.export._plan import Plan

FloatArray = NDArray[np.float64]

__all__ = ["check_single"]

_HALF_DIGIT = 2.0**-24  # relative rounding of float
_LATENT = 0.1  # of latent functions: a tenth of a nat of the log odds, or of a rate


def check_single(plan: Plan) -> None:
    """Refuse a model whose predictions float would round by more than their error bars.

    Smooth kernels that overlap may have weights of 1e6 and more that cancel almost completely. The
    sizes of the terms are taken at the centers of the kernels, which are training rows.

    Parameters
    ----------
    plan : Plan
        The model.

    Raises
    ------
    ExportError
        If rounding would be larger than the standard deviation of a prediction.
    """
    values = _at_centers(plan)
    if values is None:
        return
    u = np.abs(values)[:, plan.atom] + np.abs(plan.center)
    of_mean = float((u @ np.abs(plan.weight)).max())
    of_spread = float(np.abs(u @ np.abs(plan.root)).max())
    rounding = _HALF_DIGIT * max(of_mean, of_spread)
    allowed = np.sqrt(plan.noise + plan.spread[0, 0]) if plan.task == "regression" else _LATENT
    if rounding > allowed:
        unit = plan.scale
        raise ExportError(
            f"in single precision the terms of this model, of up to {unit * of_mean:.2g}, would be "
            f"rounded by about {unit * rounding:.2g}, which is more than its predictions are "
            f'uncertain by, {unit * allowed:.2g}: use precision="double"'
        )


def _at_centers(plan: Plan) -> FloatArray | None:
    """All atoms at the centers of the kernels, if there are any."""
    atoms = plan.estimator.posterior_.atoms
    centers = _centers(atoms)
    if not centers:
        return None
    return np.asarray(atoms.evaluate(np.concatenate(centers)), dtype=np.float64)


def _centers(atoms: Any) -> list[FloatArray]:
    if isinstance(atoms, UnionAtoms):
        return [centers for part in atoms.parts for centers in _centers(part)]
    if not isinstance(atoms, KernelAtoms) or atoms.size == 0:
        return []
    return [atoms.centers.toarray() if is_sparse(atoms.centers) else atoms.centers]
