"""A fitted model as plain numbers and named formulas: what every export writes down.

Here it is also decided, once for all languages, which models cannot be exported, and why.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from sparsebayes.dictionaries._gp_kernels import CLASSES
from sparsebayes.dictionaries._kernel_parameters import OWN, is_gp_kernel
from sparsebayes.dictionaries._protocol import is_sparse
from sparsebayes.dictionaries.bias import BiasAtoms
from sparsebayes.dictionaries.kernels import KernelAtoms
from sparsebayes.dictionaries.linear import LinearAtoms, PrecomputedAtoms
from sparsebayes.dictionaries.operators import MatrixAtoms
from sparsebayes.dictionaries.union import UnionAtoms
from sparsebayes.dictionaries.wavelets import WaveletAtoms
from sparsebayes.estimators import RVC, RVR, SparseBayesClassifier, SparseBayesRegressor
from sparsebayes.export._errors import ExportError
from sparsebayes.export._pipeline import Inputs, unfold
from sparsebayes.latent_posterior import LatentPosterior
from sparsebayes.likelihoods import Gaussian, Poisson
from sparsebayes.posterior import Posterior

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["Columns", "Constant", "KernelPart", "Part", "Plan", "plan_of"]

KERNELS = OWN | {"chi2", "additive_chi2"}
MATERN_ORDERS = (0.5, 1.5, 2.5, np.inf)  # where it is an exponential times a polynomial


@dataclass(frozen=True, eq=False)
class Constant:
    """The atom that is 1 everywhere."""

    places: IndexArray  # among all atoms


@dataclass(frozen=True, eq=False)
class Columns:
    """Atoms that are inputs."""

    places: IndexArray
    index: IndexArray  # which input each is


@dataclass(frozen=True, eq=False)
class KernelPart:
    """Atoms of one kernel: of a name in `KERNELS`, or of `sklearn.gaussian_process`."""

    places: IndexArray
    kernel: Any
    gamma: float | FloatArray  # one for all inputs, or one for each; 1 where there is none
    degree: int
    coef0: float
    centers: FloatArray  # (n_atoms, n_inputs)


Part: TypeAlias = Constant | Columns | KernelPart


@dataclass(frozen=True, eq=False)
class Plan:
    """How predictions follow from inputs, as numbers.

    The atoms phi_a at the inputs are evaluated by `parts`. Column i is
    ``u_i = phi[atom[i]] - center[i]``, and belongs to the function ``latent[i]``.

    - "regression": function 0 alone, with T targets. The mean of target t is ``constant[t] +
      scale * sum_i weight[i, t] u_i``; the variance of the function is ``scale**2 * (spread[0, 0] +
      |half|**2)`` with ``half = sum_i u_i root[i]``, and that of a target has ``scale**2 * noise``
      more.
    - "classes" and "counts": K latent functions (one for two classes and for counts). The mean of
      function k is ``constant[k] + sum_i weight[i, 0] u_i`` over its own columns, and the
      covariance of functions k and l is ``spread[k, l] + half_k . half_l`` with ``half_k =
      fixed[k] + sum_i u_i root[i]`` over the columns of k.

    ``root`` is lower triangular: entries right of the diagonal are zero. Columns are ordered by
    function and, in each, by atom.
    """

    task: Literal["regression", "classes", "counts"]
    estimator: Any
    inputs: Inputs  # those that the atoms depend on, in the order of the atoms' formulas
    parts: tuple[Part, ...]
    n_atoms: int
    atom: IndexArray  # (m,)
    latent: IndexArray  # (m,)
    center: FloatArray  # (m,)
    weight: FloatArray  # (m, T)
    root: FloatArray  # (m, m)
    constant: FloatArray  # (T,) or (K,)
    spread: FloatArray  # (1, 1) or (K, K)
    fixed: FloatArray  # (1, m) or (K, m)
    noise: float
    scale: float
    labels: tuple[Any, ...]  # of the classes, as plain objects; else empty

    @property
    def n_columns(self) -> int:
        """Number of columns m."""
        return len(self.atom)


def plan_of(model: Any) -> Plan:
    """Write a fitted model down as numbers; an ExportError, with the reason, where that fails.

    Parameters
    ----------
    model : RVR, RVC, SparseBayesRegressor, SparseBayesClassifier, Pipeline or search
        Fitted.

    Returns
    -------
    Plan
        The numbers.

    Examples
    --------
    >>> from sparsebayes import RVR
    >>> from sparsebayes.datasets import sinc
    >>> data = sinc(50, random_state=0)
    >>> plan = plan_of(RVR(gamma=1 / 9).fit(data.X, data.y))
    >>> plan.task, plan.parts[0].kernel, plan.inputs.names
    ('regression', 'rbf', ('x0',))
    """
    estimator, inputs = unfold(model)
    if not isinstance(estimator, RVC | RVR | SparseBayesClassifier | SparseBayesRegressor):
        raise ExportError(
            f"a {type(estimator).__name__} is not exported: only RVR, RVC, SparseBayesRegressor "
            "and SparseBayesClassifier are, alone or at the end of a pipeline"
        )
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        raise ExportError(
            f"this {type(estimator).__name__} is not fitted: fit it before its export"
        ) from None
    posterior = estimator.posterior_
    parts = tuple(_parts(posterior.atoms, np.arange(posterior.atoms.size)))
    used = _used(parts, len(inputs.index))
    shared = {
        "estimator": estimator,
        "inputs": inputs.chosen(used),
        "parts": tuple(_restricted(part, used) for part in parts),
        "n_atoms": posterior.atoms.size,
    }
    if isinstance(posterior, LatentPosterior):
        return _latent_plan(estimator, posterior, shared)
    return _regression_plan(posterior, shared)


def _regression_plan(posterior: Posterior, shared: dict[str, Any]) -> Plan:
    m = len(posterior.norm)
    root = np.diag(posterior.root) if posterior.root.ndim == 1 else posterior.root
    return Plan(
        task="regression",
        atom=np.arange(m),
        latent=np.zeros(m, dtype=np.intp),
        center=posterior.center,
        weight=posterior.mean / posterior.norm[:, None],
        root=_triangular(root) / posterior.norm[:, None],
        constant=posterior.offset,
        spread=np.full((1, 1), posterior.offset_variance),
        fixed=np.zeros((1, m)),
        noise=posterior.noise_variance,
        scale=posterior.scale,
        labels=(),
        **shared,
    )


def _latent_plan(estimator: Any, posterior: LatentPosterior, shared: dict[str, Any]) -> Plan:
    classes, likelihood = getattr(estimator, "classes_", None), estimator.likelihood_
    known: dict[type, Literal["regression", "counts"]] = {Gaussian: "regression", Poisson: "counts"}
    if classes is None and type(likelihood) not in known:  # subclasses are own code
        raise ExportError(
            f"the likelihood {type(likelihood).__name__} is code of your own, which an export "
            "cannot translate: those of normal noise, counts and classes are exported"
        )
    m, K = len(posterior.norm), posterior.n_latent
    columns = np.arange(m)
    order = np.lexsort((posterior.atom, posterior.latent))
    atom, latent = posterior.atom[order], posterior.latent[order]
    root = _triangular(posterior.root[order]) / posterior.norm[order, None]
    center = posterior.center[order]
    others = -center
    others[columns, latent] = 0.0
    weights = posterior.weights[order]
    return Plan(
        task="classes" if classes is not None else known[type(likelihood)],
        atom=atom,
        latent=latent,
        center=center[columns, latent],
        weight=weights[:, None],
        root=root,
        constant=posterior.offset + others.T @ weights,
        spread=posterior.offset_root @ posterior.offset_root.T,
        fixed=(others.T @ root).reshape(K, m),
        noise=float(getattr(likelihood, "noise_var", 0.0)),
        scale=1.0,
        labels=() if classes is None else tuple(classes.tolist()),
        **shared,
    )


def _triangular(root: FloatArray) -> FloatArray:
    """Lower triangular L with L L' = root root', by rotations of the columns."""
    if len(root) == 0:
        return root
    return np.ascontiguousarray(scipy.linalg.qr(root.T, mode="r", check_finite=False)[0].T)


def _parts(atoms: Any, places: IndexArray) -> list[Part]:
    """Atoms of unions in a row, those of each kind with their places among all."""
    if len(places) == 0:
        return []
    match atoms:
        case UnionAtoms():
            found: list[Part] = []
            for part, columns in zip(atoms.parts, atoms.columns, strict=True):
                found += _parts(part, places[columns])
            return found
        case BiasAtoms():
            return [Constant(places)]
        case LinearAtoms():
            return [Columns(places, atoms.index)]
        case KernelAtoms():
            return [_kernel_part(atoms, places)]
    raise ExportError(_refusal(atoms))


def _refusal(atoms: Any) -> str:
    match atoms:
        case PrecomputedAtoms():
            return (
                'kernel="precomputed" is not exported: the model knows columns of your kernel '
                "matrix, but not the kernel; give its name and the inputs"
            )
        case WaveletAtoms():
            return (
                "wavelets are not exported: their atoms are known on the grid of the training "
                "positions, where `predict` or `denoise` gives all values at once"
            )
        case MatrixAtoms():
            return (
                "an Operator is not exported: its atoms are known at its own rows alone, and no "
                "formula gives them at new inputs"
            )
    return (
        f"the dictionary's {type(atoms).__name__} is code of your own, which an export cannot "
        "translate: Bias, Linear, Kernel and their unions are exported"
    )


def _kernel_part(atoms: KernelAtoms, places: IndexArray) -> KernelPart:
    kernel, gamma = atoms.kernel, atoms.gamma_
    if is_gp_kernel(kernel):
        _check_tree(kernel)
    elif not isinstance(kernel, str):
        name = getattr(kernel, "__name__", repr(kernel))
        raise ExportError(
            f"the kernel {name} is a Python function, which an export cannot translate: use a "
            "kernel's name or an object of sklearn.gaussian_process.kernels"
        )
    elif kernel not in KERNELS:
        raise ExportError(
            f"kernel {kernel!r} is not exported; those that are: {', '.join(sorted(KERNELS))}"
        )
    gamma = atoms.kernel_params.get("gamma", gamma)
    centers = atoms.centers.toarray() if is_sparse(atoms.centers) else np.asarray(atoms.centers)
    if gamma is None:
        gamma = 1.0
    elif np.ndim(gamma) == 0:
        gamma = float(gamma)
    return KernelPart(places, kernel, gamma, atoms.degree, atoms.coef0, centers)


def _check_tree(kernel: Any) -> None:
    """Refuse kernels, and parts of kernels, that are no formula of a few lines."""
    if CLASSES.get(type(kernel).__name__) is not type(kernel):
        raise ExportError(
            f"a {type(kernel).__name__} kernel is not exported; those that are: "
            f"{', '.join(CLASSES)}"
        )
    if "nu" in kernel.get_params(deep=False) and kernel.nu not in MATERN_ORDERS:
        raise ExportError(
            f"Matern(nu={kernel.nu:g}) is not exported, as it needs a Bessel function: use nu 0.5, "
            "1.5, 2.5 or infinity"
        )
    for part in kernel.get_params(deep=False).values():
        if is_gp_kernel(part):
            _check_tree(part)


def _used(parts: tuple[Part, ...], d: int) -> IndexArray:
    """Inputs that the atoms depend on, in order."""
    used = np.zeros(d, dtype=bool)
    for part in parts:
        if isinstance(part, Columns):
            used[part.index] = True
        elif isinstance(part, KernelPart):
            used |= np.broadcast_to(part.gamma, d) > 0 if isinstance(part.kernel, str) else True
    return np.flatnonzero(used)


def _restricted(part: Part, used: IndexArray) -> Part:
    """The same with inputs counted among the used ones."""
    match part:
        case Columns():
            return replace(part, index=np.searchsorted(used, part.index))
        case KernelPart():
            gamma = part.gamma[used] if isinstance(part.gamma, np.ndarray) else part.gamma
            return replace(part, gamma=gamma, centers=part.centers[:, used])
    return part
