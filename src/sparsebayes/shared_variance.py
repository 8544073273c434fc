"""Where to begin with the parameters of kernels: all atoms in the model, with one variance.

Which atoms are active depends on the widths of their kernels, and which widths are best depends on
the atoms: begun anywhere, the two soon confirm each other. With one variance for all atoms there is
nothing to choose. The evidence is that of a Gaussian process of low rank, a function of the widths,
the variance and the noise alone, smooth, and too poor in parameters to overfit; its maximum is
where the search for sparse models begins. A sample of rows and atoms tells as much.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sparsebayes._width_search import Guarded, lowest
from sparsebayes.design import make_design
from sparsebayes.dictionaries._protocol import Matrix, is_sparse
from sparsebayes.dictionaries._rows import row_keys
from sparsebayes.dictionaries.kernels import KernelAtoms
from sparsebayes.dictionaries.union import UnionAtoms
from sparsebayes.engine import State, whiten
from sparsebayes.evidence_gradient import gaussian_gradient
from sparsebayes.hyperpriors import Flat
from sparsebayes.noise_priors import NoisePrior
from sparsebayes.quadratic import DesignQuadratic
from sparsebayes.solvers.newton import Noise, derivatives

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["Targets", "first_theta", "some_rows"]

_ROWS = 4000  # rows sampled, of more
_ATOMS, _MANY_ATOMS = 100, 200  # atoms sampled of each part: for few parameters, for many
_FEW = 2  # parameters
_DIGITS = 6  # of targets that tell rows apart
_SHIFTS = np.log(8.0) * np.array([0.0, -3.0, -2.0, -1.0, 1.0, 2.0])  # of all log parameters
_TRIES = 2  # searches besides one from the widest, for many parameters
_INWARD = np.log(8.0) * np.array([-1.0, -2.0])  # from the highest log parameters
_RANGE = 20.0  # how far log variances may go
_NOISE = 1e-9, 2.0  # noise variances, as fractions of the power of the targets
_BEGIN = 0.1  # the one to begin with


class Targets(NamedTuple):
    """Targets, or numbers that stand for them, and how they are weighted."""

    t: FloatArray  # (N, T)
    weights: FloatArray | None  # (N,)
    center: bool
    noise_var: float | None  # None to estimate it
    noise_prior: NoisePrior | None = None


def first_theta(
    atoms: Any,
    X: Matrix,
    targets: Targets,
    pull: FloatArray | None = None,
) -> FloatArray:
    """Parameters of the atoms that explain the targets best where all variances are equal.

    Parameters
    ----------
    atoms : Tunable atoms
        Bound to X, with at least one parameter to learn; the search starts from their own.
    X : float64 array or CSR matrix of shape (N, d)
        Training rows.
    targets : Targets
        What is to be explained.
    pull : ndarray of shape (P,) or None, default=None
        Precisions of a normal prior of the parameters around their own; None for no prior.

    Returns
    -------
    ndarray of shape (P,)
        Within the bounds; the parameters as they are where the targets are constant.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Kernel
    >>> X = np.linspace(-10, 10, 100)[:, None]
    >>> t = np.sinc(X / np.pi) + 0.1 * np.random.RandomState(0).normal(size=X.shape)
    >>> atoms = Kernel("rbf", gamma="evidence").bind(X)
    >>> targets = Targets(t - t.mean(), None, True, None)
    >>> theta = first_theta(atoms, X, targets)
    >>> bool(1.5 < np.exp(theta[0]) ** -0.5 < 4)
    True
    """
    X, targets = some_rows(X, targets, _ROWS)
    wanted = _ATOMS if len(atoms.theta) <= _FEW else _MANY_ATOMS
    chosen, part = _some_atoms(atoms, wanted)
    few, n_parts = atoms.restrict(chosen), int(part.max(initial=0)) + 1
    begin = _quadratic(few, X, targets)
    power = begin.tt / (targets.t.shape[1] * max(begin.n, 1.0))
    if not power > 0:
        return np.asarray(atoms.theta)
    sums = np.bincount(part, begin.norm**2, n_parts)
    # Variances with which each part has the power of the targets.
    v = np.log(power * max(begin.n, 1.0) / np.where(sums > 0, sums, 1.0))
    estimated = targets.noise_var is None
    noise = np.log(power * np.array([_BEGIN, *_NOISE]))
    if targets.noise_var is not None:
        noise = np.full(3, np.log(targets.noise_var))
    start = np.concatenate([v, noise[:1], few.theta])
    tight = np.zeros(len(few.theta)) if pull is None else pull

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        now = few.with_theta(parameters[n_parts + 1 :])
        every = np.arange(len(part))
        noise_var = float(np.exp(parameters[n_parts]))
        quad = _quadratic(now, X, targets)
        v = np.exp(parameters[:n_parts])[part] * quad.norm**2
        white = whiten(gram := quad.gram(every), v, noise_var)
        state = State(every, v, noise_var, white, white.log_evidence)
        of_theta = now.pullback(X, gaussian_gradient(quad, state, Flat(), targets.t))
        slopes = derivatives(gram, Flat(), v, Noise(noise_var, estimated, 0.0), white).gradient
        own = np.bincount(part, slopes[: len(part)], n_parts)
        rise = slopes[len(part) :] if estimated else np.zeros(1)
        moved = parameters[n_parts + 1 :] - start[n_parts + 1 :]
        height = white.log_evidence - 0.5 * float(tight @ moved**2)
        return -height, -np.concatenate([own, rise, of_theta - tight * moved])

    near = few.theta[:, None] + [-_RANGE, _RANGE]
    limits = np.where(np.isfinite(few.bounds), few.bounds, near)
    ranges = np.concatenate([v[:, None] + [-_RANGE, _RANGE], noise[None, 1:], limits])
    # Far too narrow, all widths are alike, and a gradient leads nowhere: look around first.
    # The bounds know how near neighbors are, which one outlier can hide from the start.
    shifts = np.where(np.arange(start.size) > n_parts, _SHIFTS[:, None], 0.0)
    narrow = np.where(np.arange(start.size) > n_parts, ranges[:, 1] + _INWARD[:, None], start)
    starts = np.clip(np.concatenate([start + shifts, narrow]), *ranges.T)
    order = np.argsort([Guarded(loss)(one)[0] for one in starts], kind="stable").tolist()
    tries = order[:1]
    if len(few.theta) > _FEW:  # from the widest, inputs that matter come in one by one
        tries = list(dict.fromkeys([*order[:_TRIES], int(np.argmin(_SHIFTS))]))
    return lowest(loss, starts[tries], ranges)[n_parts + 1 :]


def _quadratic(atoms: Any, X: Matrix, targets: Targets) -> DesignQuadratic:
    t, weights, center, _, noise_prior = targets
    return DesignQuadratic(make_design(atoms, X), t, weights, center, noise_prior)


def some_rows(X: Any, targets: Targets, limit: int) -> tuple[Any, Targets]:
    """A sample that does not depend on the order of the rows."""
    rows = np.arange(len(targets.t))
    if targets.weights is not None:
        rows = rows[targets.weights > 0]
    if len(rows) > limit:
        # The mean that was subtracted has rounding that depends on the order of the rows.
        t = np.round(targets.t / np.abs(targets.t).max(initial=np.finfo(np.float64).tiny), _DIGITS)
        if is_sparse(X):
            joined: Matrix = sp.hstack([X, sp.csr_matrix(t)], format="csr")[rows]
        else:
            joined = np.column_stack([X, t])[rows]
        rows = np.sort(rows[np.argsort(row_keys(joined), kind="stable")[:limit]])
    weights = targets.weights
    if weights is not None:
        # Copies of a sample seem to prove that there is no noise, and would ask for narrow kernels.
        weights = weights[rows] * min(1.0, len(rows) / float(weights[rows].sum()))
    some = X[rows] if is_sparse(X) else np.ascontiguousarray(X[rows])
    return some, targets._replace(t=targets.t[rows], weights=weights)


def _some_atoms(atoms: Any, wanted: int) -> tuple[IndexArray, IndexArray]:
    """Some atoms of each part of a union, and the numbers of their parts: one variance each."""
    united = isinstance(atoms, UnionAtoms)
    parts = list(zip(atoms.parts, atoms.columns, strict=True)) if united else [(atoms, slice(None))]
    every = np.arange(atoms.size)
    chosen = [every[columns][_sampled(part, wanted)] for part, columns in parts]
    number = np.repeat(np.arange(len(chosen)), [own.size for own in chosen])
    return np.concatenate(chosen), number


def _sampled(part: Any, wanted: int) -> IndexArray:
    """Atoms of a part, of kernels by their centers: the order of these does not matter."""
    if part.size <= wanted:
        return np.arange(part.size)
    if isinstance(part, KernelAtoms):
        return np.sort(np.argsort(row_keys(part.centers), kind="stable")[:wanted])
    return np.unique(np.linspace(0, part.size - 1, wanted).astype(np.intp))
