"""State of a fit and the statistics of Tipping & Faul, computed from a quadratic.

Everything here is a function of a quadratic, a hyperprior, the active atoms, their variances ``v``
and the noise. The matrix that is factorised is ``B = I + R G R``, ``R = diag(sqrt(v / noise))``:
its eigenvalues are at least one, whatever the scale of atoms, targets or variances. With
``W = B^-1`` and ``z = P^(1/2) mu`` (P = 1/v), Sigma = V^(1/2) W V^(1/2) and mu = V^(1/2) z.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dgeqrf, dpotrf, dpotri, dtrtri, dtrtrs

from sparsebayes.core.quadratic import Gram, LeastSquares, Quadratic, Root, members
from sparsebayes.core.tolerances import COLLINEAR, EPS
from sparsebayes.hyperpriors import Flat, Hyperprior, best_variance, gain

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = [
    "EPS",
    "Breakdown",
    "Screen",
    "State",
    "Whitened",
    "directions",
    "refresh",
    "resolved",
    "screen",
    "triangle",
    "whiten",
]


_TRIANGLE = 48  # rows of the blocks in which a triangular matrix is inverted,
_FASTER = 80, 500  # if it has so many, between which LAPACK is slower
# The rounding of G, magnified by the condition of B scaled to a unit diagonal, enters the evidence.
_UNSCORABLE = 1e-2
_LARGE = 256  # columns of a triangular matrix from which its zeros are left out of products
# Nats that squares may cost the evidence. What is left of the certificate's 1e-6 is ample, and
# fits whose atoms overlap no more than at twice their width beside noise of 1 % never come near.
_SQUARED = 1e-7
# S of an atom as a fraction of diag(H) that products with the root tell and squares may not.
_DOUBTFUL = 1e-6
_CHUNK_CELLS = 2**17  # entries of columns that are held at a time: a megabyte
_ROUNDED = 1e-13  # of the targets' squares: error of their sum


class Breakdown(ArithmeticError):
    """The model is so ill-conditioned that float64 cannot factorise or score it."""


class Whitened(NamedTuple):
    """The posterior in whitened weights, for atoms of one Gram matrix."""

    L: FloatArray  # (m, m) lower Cholesky factor of B
    W: FloatArray  # (m, m) inverse of B
    z: FloatArray  # (m, T) whitened posterior mean
    log_evidence: float
    residual: float  # |t - Phi mu|^2 over all targets
    condition: float  # how far rounding is magnified: sum of B_jj W_jj, or its root (`Gram.root`)
    rounding: float = 0.0  # error of the evidence that comes of it, in nats
    rotated: bool = False  # whether it is that of columns themselves, not of their squares


@dataclass(frozen=True)
class State:
    """One consistent point of a fit: replaced as a whole, never torn."""

    active: IndexArray  # (m,) atoms in the model, of 0..M-1
    v: FloatArray  # (m,) prior variances of unit-norm atoms
    noise_var: float
    white: Whitened
    objective: float  # log evidence + log hyperprior

    @property
    def log_evidence(self) -> float:
        """Log marginal likelihood."""
        return self.white.log_evidence

    @property
    def _v_columns(self) -> FloatArray:
        """Variances of columns: several where they share one."""
        return per_column(self.v, len(self.white.z))

    @property
    def mu(self) -> FloatArray:
        """Posterior mean of the weights, shape (m, T)."""
        return np.sqrt(self._v_columns)[:, None] * self.white.z

    @property
    def Sigma(self) -> FloatArray:
        """Posterior covariance of the weights, shape (m, m)."""
        root = np.sqrt(self._v_columns)
        return root[:, None] * self.white.W * root

    @property
    def dof(self) -> FloatArray:
        """Degrees of freedom 1 - Sigma_jj / v_j of each active atom, shape (m,)."""
        return 1.0 - self.white.W.diagonal()


def per_column(v: FloatArray, columns: int) -> FloatArray:
    """Variances of columns, of which each atom has the same number."""
    return v if len(v) == columns else np.repeat(v, columns // len(v))


class Screen(NamedTuple):
    """Statistics of every atom of the dictionary at one state."""

    S: FloatArray  # (M,); (M, K) for atoms of K columns that share their variance
    Q: FloatArray  # (M, T), one row for each column
    gains: FloatArray  # (M,) best gain of changing this atom alone, in nats
    v: FloatArray  # (M,) the variance that gains it
    X: FloatArray  # (m, M) L^-1 R G_a. : S = (diag(G) - |X|^2) / noise
    least: float = COLLINEAR  # fraction of diag(H) below which S counts as zero
    basis: "Basis | None" = None  # where products with columns themselves were used

    def products(self, quad: Quadratic, indices: IndexArray) -> FloatArray:
        """Products of what the model leaves of some columns with each other, times the noise.

        Parameters
        ----------
        quad : Quadratic
            The quadratic that was screened.
        indices : ndarray of shape (k,)
            Atoms.

        Returns
        -------
        ndarray of shape (k, k)
            Phi_c' C^-1 Phi_c times the noise.
        """
        own = members(indices, quad.group)
        if self.basis is not None:
            _, rest, held = self.basis.left(own)
            return np.asarray(rest.T @ rest + held.T @ held)
        X = self.X[:, own]
        return quad.gram(indices).G - X.T @ X


class Basis(NamedTuple):
    """An orthonormal basis of ``[Phi_a R; I]``, in which a model is told from what it leaves."""

    rows: LeastSquares
    U: FloatArray  # (q, m)
    V: FloatArray  # (m, m)

    def left(self, columns: IndexArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Columns along the basis, (m, k), and what is left of them: (q, k) and (m, k)."""
        D = self.rows.columns(columns)
        X = self.U.T @ D
        D -= self.U @ X
        return X, D, -(self.V @ X)


def basis_of(quad: Quadratic, state: State, rows: LeastSquares) -> Basis:
    """The basis of a state with atoms."""
    D = rows.columns(members(state.active, quad.group))
    scale = np.sqrt(per_column(state.v, D.shape[1]) / state.noise_var)
    basis, R = np.linalg.qr(np.concatenate([D * scale, np.eye(scale.size)]))
    basis *= np.sign(R.diagonal())
    return Basis(rows, basis[: len(D)], basis[len(D) :])


def log_evidence_constant(quad: Quadratic, noise_var: float) -> float:
    """Log evidence of the empty model."""
    n_targets = quad.g.shape[1]
    return float(
        quad.log_offset
        - 0.5 * n_targets * quad.n * math.log(2 * math.pi * noise_var)
        - 0.5 * quad.tt / noise_var
    )


def factorize(
    gram: Gram, v: FloatArray, noise_var: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Lower Cholesky factor of B = I + R G R, the diagonal of R and that of B."""
    m = len(gram.g)
    root = np.sqrt(per_column(v, m) / noise_var)
    if gram.root is not None:
        return triangle(gram.root.D * root).L, root, 1.0 + gram.diag * root * root
    B = np.empty((m, m))
    np.multiply(gram.G, root, out=B)
    B *= root[:, None]
    diagonal = B.reshape(-1)[:: m + 1]
    diagonal += 1.0
    own = diagonal.copy()
    L, info = dpotrf(B.T, lower=1, clean=1, overwrite_a=1)
    if info != 0:
        raise Breakdown
    return L, root, own


class Triangle(NamedTuple):
    """Lower factor of I + D'D, and what it leaves of targets."""

    L: FloatArray  # (m, m) of positive diagonal
    y: FloatArray  # (m, T) L^-1 D't: the targets along its columns
    left: float  # sum of squares of what is left of them: t't - y'y


def triangle(D: FloatArray, t: FloatArray | None = None) -> Triangle:
    """Factorize I + D'D without its square, by Householder's rotations.

    Parameters
    ----------
    D : ndarray of shape (q, m)
        Columns.
    t : ndarray of shape (q, T) or None, default=None
        Targets.

    Returns
    -------
    Triangle
        The factor, and what it makes of the targets.

    Examples
    --------
    >>> import numpy as np
    >>> found = triangle(np.full((1, 1), 0.75), np.ones((1, 1)))
    >>> found.L, found.y, round(found.left, 12)
    (array([[1.25]]), array([[0.6]]), 0.64)
    """
    q, m = D.shape
    count = 0 if t is None else t.shape[1]
    stacked = np.zeros((q + m, m + count), order="F")
    stacked[:q, :m] = D
    stacked[q:, :m] = np.eye(m)
    if t is not None:
        stacked[:q, m:] = t
    found, _, _, info = dgeqrf(stacked, overwrite_a=1)
    if info != 0 or not np.isfinite(found[:m]).all():
        raise Breakdown
    below = np.triu(found[m:, m:])
    found = found[:m] * np.sign(found.diagonal()[:m])[:, None]
    left = float(np.vdot(below, below))
    return Triangle(np.asfortranarray(np.tril(found[:, :m].T)), found[:, m:], left)


def whiten(gram: Gram, v: FloatArray, noise_var: float) -> Whitened:
    """Posterior of the atoms of ``gram`` at variances ``v``, from its definition.

    Of squares, that is by Cholesky's factor of B, as long as they hold it to `_SQUARED`; of the
    columns themselves, by Householder's rotations, where they do not and the root of G can be made.

    Parameters
    ----------
    gram : Gram
        Quadratic of the active atoms.
    v : ndarray of shape (m,)
        Prior variances.
    noise_var : float
        Noise variance.

    Returns
    -------
    Whitened
        Factor, whitened covariance and mean, and the log evidence (S&E eq. 59, sign corrected).
    """
    m, n_targets = gram.g.shape
    if m == 0:
        empty = np.zeros((0, 0))
        return Whitened(
            empty,
            empty,
            np.zeros((0, n_targets)),
            log_evidence_constant(gram, noise_var),
            gram.tt,
            1.0,
            EPS * gram.tt / noise_var,
        )
    if gram.root is not None:
        return _rotated(gram, gram.root, v, noise_var)
    found = None
    try:
        found = _squared(gram, v, noise_var)
    except Breakdown:
        if gram.later is None:
            raise
    if gram.later is not None and (found is None or found.rounding > _SQUARED):
        root = gram.later()
        if root is not None:
            return _rotated(gram, root, v, noise_var)
    if found is None:
        raise Breakdown
    return found


def _squared(gram: Gram, v: FloatArray, noise_var: float) -> Whitened:
    """The posterior, of G."""
    n_targets = gram.g.shape[1]
    L, root, own = factorize(gram, v, noise_var)
    W = _inverse(L)
    diagonal = W.diagonal()
    condition = float(own @ diagonal)
    if not condition * EPS < _UNSCORABLE:
        raise Breakdown
    h = gram.g * (root / math.sqrt(noise_var))[:, None]
    # Not W @ h: through the inverse the evidence loses the digits of B's condition number.
    y, _ = dtrtrs(L, h, lower=1)
    z, _ = dtrtrs(L, y, lower=1, trans=1)
    explained = float(np.vdot(y, y))
    log_det = 2.0 * float(np.add.reduce(np.log(L.diagonal())))
    evidence = log_evidence_constant(gram, noise_var) + 0.5 * (explained - n_targets * log_det)
    # |t - Phi mu|^2 = t't - h'z noise - mu'P mu noise, as H mu = b - P mu.
    residual = gram.tt - noise_var * (explained + float(np.vdot(z, z)))
    if gram.tt > 0 and residual < -noise_var - _ROUNDED * gram.tt:
        raise Breakdown  # no squares have a negative sum: rounding has made up evidence
    # Rounding of B enters its determinant by its trace with W, but the fit by z.
    weighed = float(np.vdot(z, z * own[:, None]))
    rounding = EPS * (condition + weighed + gram.tt / noise_var)
    return Whitened(L, W, z, evidence, max(residual, 0.0), condition, rounding)


def _rotated(gram: Gram, root: Root, v: FloatArray, noise_var: float) -> Whitened:
    """The posterior, of the columns that G is made of: B is never formed."""
    m, n_targets = gram.g.shape
    scale = np.sqrt(per_column(v, m) / noise_var)
    own = 1.0 + gram.diag * scale * scale
    L, y, left = triangle(root.D * scale, root.t / math.sqrt(noise_var))
    W = _inverse(L)
    condition = math.sqrt(float(own @ W.diagonal()))
    if not condition * root.error < _UNSCORABLE:
        raise Breakdown
    z, _ = dtrtrs(L, y, lower=1, trans=1)
    rest = gram.tt - float(np.vdot(root.t, root.t)) if root.rest is None else root.rest
    misfit = left + rest / noise_var  # |t - Phi mu|^2 / noise + mu'P mu
    log_det = 2.0 * float(np.add.reduce(np.log(L.diagonal())))
    evidence = gram.log_offset - 0.5 * n_targets * gram.n * math.log(2 * math.pi * noise_var)
    evidence -= 0.5 * (misfit + n_targets * log_det)
    residual = noise_var * (misfit - float(np.vdot(z, z)))
    # An error of the columns moves the fit by z, and what is left of the targets along with it.
    moved = math.sqrt(float(own @ np.einsum("ij,ij->i", z, z)) + gram.tt / noise_var)
    rounding = root.error * (condition + moved * math.sqrt(max(left, 0.0)))
    return Whitened(L, W, z, evidence, max(residual, 0.0), condition, rounding, True)


def _inverse(L: FloatArray) -> FloatArray:
    """(L L')^-1 of a lower factor with zeros above its diagonal."""
    half, info = dpotri(L, lower=1)
    if info != 0:
        raise Breakdown
    W = half + half.T
    W.ravel(order="K")[:: len(W) + 1] *= 0.5
    return np.asarray(W)


def resolved(quad: Quadratic, white: Whitened) -> float:
    """Fraction of diag(H) above which S is surely more than rounding.

    S is a difference of numbers of the size of diag(H); their relative error is that of float64
    times the condition of B, but where it comes from rotations.
    """
    return quad.collinear if white.rotated else max(quad.collinear, EPS * white.condition)


def log_hyperprior(hyperprior: Hyperprior, v: FloatArray, noise_var: float) -> float:
    """Sum of the log hyperprior over active atoms."""
    if isinstance(hyperprior, Flat):
        return 0.0
    return float(hyperprior.log_density(v, noise_var).sum())


def refresh(
    quad: Quadratic, hyperprior: Hyperprior, active: IndexArray, v: FloatArray, noise_var: float
) -> State:
    """Compute a state from definitions, from nothing but the parameters.

    Parameters
    ----------
    quad : Quadratic
        The quadratic of all atoms.
    hyperprior : Hyperprior
        Prior of the variances.
    active : ndarray of shape (m,)
        Atoms in the model.
    v : ndarray of shape (m,)
        Their variances, positive.
    noise_var : float
        Noise variance.

    Returns
    -------
    State
        The state; raises `Breakdown` if float64 cannot hold it.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.hyperpriors import Flat
    >>> gram = Gram(np.eye(2), np.array([[3.0], [0.1]]), tt=9.5, n=10.0, spread=1.0)
    >>> state = refresh(gram, Flat(), np.array([0]), np.array([8.0]), noise_var=1.0)
    >>> state.mu.ravel(), state.Sigma.ravel()
    (array([2.66666667]), array([0.88888889]))
    """
    white = whiten(quad.gram(active), v, noise_var)
    if not np.isfinite(white.log_evidence):
        raise Breakdown
    prior = log_hyperprior(hyperprior, v, noise_var)
    return State(active, v, noise_var, white, white.log_evidence + prior)


def inverse_factor(white: Whitened) -> FloatArray:
    """L^-1, shape (m, m)."""
    return inverse_triangle(white.L)


def inverse_triangle(L: FloatArray) -> FloatArray:
    """Inverse of a lower triangular matrix, shape (m, m), with zeros above.

    In blocks, for the speed of matrix products: LAPACK's own takes up to twice as long. Below a
    block stands -(X22 L21) L11^-1, a triangular solve: with the inverse of L11 in its place, that
    of an ill-conditioned L would not be one from the left, which is how it is used.
    """
    m = len(L)
    if not _FASTER[0] < m < _FASTER[1]:
        return np.asarray(dtrtri(L, lower=1)[0]) if m else L  # LAPACK complains of an empty matrix
    inverse = np.zeros((m, m), order="F")
    for start in reversed(range(0, m, _TRIANGLE)):
        end = min(start + _TRIANGLE, m)
        own = L[start:end, start:end]
        inverse[start:end, start:end] = dtrtri(own, lower=1)[0]
        if end < m:
            below = inverse[end:, end:] @ L[end:, start:end]
            inverse[end:, start:end] = dtrsm(-1.0, own, below, side=1, lower=1)
    return inverse


def without_self(v: FloatArray, white: Whitened) -> tuple[FloatArray, FloatArray]:
    """Sparsity s and squared quality q2 of active atoms, each out of its own model.

    s = 1/Sigma_jj - 1/v_j and q = mu_j / Sigma_jj: accurate where alpha S / (alpha - S)
    (T&F eq. 23) loses its sign.
    """
    m, columns = len(v), len(white.z)
    if columns != m:  # atoms of several columns, in the directions in which these do not interact
        group = columns // m
        own = white.W.reshape(m, group, m, group)[np.arange(m), :, np.arange(m)]
        d, directions = np.linalg.eigh(own)
        z = np.einsum("akl,ak->al", directions, white.z.reshape(m, group))
        d, v = np.maximum(d, EPS), v[:, None]
        return np.maximum(1.0 - d, EPS) / (d * v), z * z / (d * d * v)
    d = white.W.diagonal()
    Sigma_jj = d * v
    s = 1.0 - d
    np.maximum(s, EPS, out=s)  # W_jj may round to above one
    s /= Sigma_jj
    q2 = np.einsum("ij,ij->i", white.z, white.z)
    Sigma_jj *= d
    q2 /= Sigma_jj
    return s, q2


def screen(
    quad: Quadratic,
    hyperprior: Hyperprior,
    state: State,
    collinear: float | None = None,
    sharp: bool = False,
) -> Screen:
    """S, Q and the best single change for every atom of the dictionary (T&F eqs. 24, 25).

    Parameters
    ----------
    quad : Quadratic
        The quadratic of all atoms; columns of the active ones are asked of it.
    hyperprior : Hyperprior
        Prior of the variances.
    state : State
        Current state.
    collinear : float or None, default=None
        Fraction of diag(H) below which S counts as zero: the atom is in the span of the model. The
        quadratic's own where it is None, or what its root resolves where that is used.
    sharp : bool, default=False
        Whether atoms nearly in that span are told from it by products with columns themselves,
        where squares of them do not tell. It is always so where the state needed columns.

    Returns
    -------
    Screen
        Statistics, gains and proposed variances. Atoms collinear with the model gain nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.hyperpriors import Flat
    >>> gram = Gram(np.eye(2), np.array([[3.0], [0.1]]), tt=9.5, n=10.0, spread=1.0)
    >>> empty = refresh(gram, Flat(), np.empty(0, dtype=np.intp), np.empty(0), noise_var=1.0)
    >>> screen(gram, Flat(), empty).v
    array([8., 0.])
    """
    noise_var, n_targets = state.noise_var, quad.g.shape[1]
    diag = quad.diag
    least = quad.collinear if collinear is None else collinear
    basis: Basis | None = None
    rows = None
    if state.active.size and (state.white.rotated or quad.collinear < COLLINEAR):
        rows = quad.least_squares()
    if rows is not None:
        basis = basis_of(quad, state, rows)
        X = rows.along(basis.U.T)
        target = rows.t - basis.U @ (basis.U.T @ rows.t)
        S, Q = diag - np.einsum("ij,ij->j", X, X), rows.along(target.T).T / noise_var
    elif state.active.size:
        columns = quad.columns(state.active)
        root = np.sqrt(per_column(state.v, len(columns)) / noise_var)
        X = _lower_product(inverse_factor(state.white) * root, columns)
        # where columns share their variance, S is a matrix for each atom: `directions`
        S = diag if quad.group > 1 else diag - np.einsum("ij,ij->j", X, X)
        Q = quad.g - columns.T @ state.mu
        Q /= noise_var
    else:
        X = np.zeros((0, len(quad.g)))
        S, Q = diag.copy(), quad.g / noise_var
    if quad.group == 1 and state.active.size and (sharp or basis is not None):
        basis = _sharpened(quad, state, basis, S, Q, X)
    if basis is not None:
        least = basis.rows.least
    collinear = least
    some_spanned = False
    if quad.group > 1:
        S, q2 = directions(quad, X, Q, noise_var, collinear)
        s = S
    else:
        spanned = np.logical_not(S > collinear * diag)
        S /= noise_var
        s, q2 = S, np.einsum("ij,ij->i", Q, Q)
        some_spanned = bool(np.logical_or.reduce(spanned))
        if some_spanned:
            s, q2 = np.where(spanned, 1.0, S), np.where(spanned, 0.0, q2)
    v = best_variance(hyperprior, s, q2, noise_var, n_targets)
    if some_spanned:
        v[spanned] = 0.0  # whatever the prior would make of them
    gains = gain(hyperprior, s, q2, v, noise_var, n_targets)
    if state.active.size:
        s_a, q2_a = without_self(state.v, state.white)
        v_a = best_variance(hyperprior, s_a, q2_a, noise_var, n_targets)
        v[state.active] = v_a
        gains[state.active] = gain(hyperprior, s_a, q2_a, v_a, noise_var, n_targets, state.v)
    return Screen(S, Q, gains, v, X, least, basis)


def _lower_product(L: FloatArray, columns: FloatArray) -> FloatArray:
    """Product of a lower triangular matrix with columns, of a large one without most zeros."""
    m = len(L)
    if m <= _LARGE:
        return np.asarray(L @ columns)
    product = np.empty((m, columns.shape[1]))
    for start in range(0, m, _LARGE // 2):
        end = min(start + _LARGE // 2, m)
        np.matmul(L[start:end, :end], columns[:end], out=product[start:end])
    return product


def _sharpened(
    quad: Quadratic,
    state: State,
    basis: Basis | None,
    S: FloatArray,
    Q: FloatArray,
    X: FloatArray,
) -> Basis | None:
    """Correct, in place, S, Q and X of atoms of which the model leaves little.

    There a difference of squares does not tell S; the square of a difference does.
    """
    doubt = max(_DOUBTFUL, 1e3 * EPS * state.white.condition)
    doubtful = (S <= doubt * quad.diag) & (quad.diag > 0)
    doubtful[state.active] = False
    few = np.flatnonzero(doubtful)
    if basis is None:
        rows = quad.least_squares() if few.size else None
        if rows is None:
            return None
        basis = basis_of(quad, state, rows)
    t = basis.rows.t
    y = basis.U.T @ t
    t = (t - basis.U @ y) / state.noise_var
    held = basis.V.T @ (basis.V @ y) / state.noise_var  # U't, for U is not orthogonal to t
    step = max(16, _CHUNK_CELLS // len(t))
    for start in range(0, few.size, step):
        part = few[start : start + step]
        X[:, part], left, kept = basis.left(part)
        S[part] = np.einsum("ij,ij->j", left, left) + np.einsum("ij,ij->j", kept, kept)
        Q[part] = left.T @ t + X[:, part].T @ held
    return basis


def directions(
    quad: Quadratic, X: FloatArray, Q: FloatArray, noise_var: float, collinear: float
) -> tuple[FloatArray, FloatArray]:
    """Sparsities and squared qualities of atoms of several columns, shapes (M, K).

    S_a = (G_aa - X_a'X_a) / noise is a matrix; in its eigenvectors the columns of an atom do not
    interact, and its gain is a sum. Directions in the span of the model gain nothing.
    """
    group, M = quad.group, quad.size
    own = X.reshape(len(X), M, group).transpose(1, 0, 2)
    S = (quad.blocks - own.transpose(0, 2, 1) @ own) / noise_var
    s, directions = np.linalg.eigh(S)
    q = np.einsum("akl,ak->al", directions, Q.reshape(M, group))
    largest = quad.diag.reshape(M, group).max(axis=1, keepdims=True)
    free = s * noise_var > collinear * largest
    return np.where(free, s, 0.0), np.where(free, q * q, 0.0)
