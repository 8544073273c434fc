"""The posterior of atoms that are known by their products only: solves, draws, a determinant.

With active atoms of unit norm, prior variances v and R = diag(sqrt(v / noise)), the matrix
B = I + R G R is never formed. Systems with it are solved by conjugate gradients, several at once,
with the diagonal 1 + v / noise as preconditioner: what is left is as well conditioned as the
active atoms themselves, however small the noise.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.stored import StoredQuadratic
from sparsebayes.design import ArrayDesign, Design
from sparsebayes.operator_design import OperatorDesign

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["Draws", "Implicit", "Matrix", "SampledState", "matrix_of", "shrunk"]


class Matrix(Protocol):
    """The matrix of all atoms as a pair of adjoint functions; vectors travel as rows."""

    def synthesize(self, weights: FloatArray) -> FloatArray:
        """Sums of atoms: (k, M) to (k, N)."""
        ...

    def analyze(self, rows: FloatArray) -> FloatArray:
        """Inner products with all atoms: (k, N) to (k, M)."""
        ...


@dataclass(frozen=True, eq=False)
class _Stored:
    design: ArrayDesign

    def synthesize(self, weights: FloatArray) -> FloatArray:
        return np.ascontiguousarray((self.design.Phi @ weights.T).T)

    def analyze(self, rows: FloatArray) -> FloatArray:
        return self.design.correlate(rows)


@dataclass(frozen=True, eq=False)
class _Unit:
    """The same atoms at unit norm; void atoms are zero."""

    matrix: Matrix
    inverse_norm: FloatArray

    def synthesize(self, weights: FloatArray) -> FloatArray:
        return self.matrix.synthesize(weights * self.inverse_norm)

    def analyze(self, rows: FloatArray) -> FloatArray:
        return self.matrix.analyze(rows) * self.inverse_norm


def matrix_of(quad: StoredQuadratic) -> tuple[Matrix, Matrix]:
    """Products with the atoms of a quadratic: as given, and at unit norm.

    Parameters
    ----------
    quad : StoredQuadratic
        Without weights of rows and without an intercept.

    Returns
    -------
    given, unit : Matrix
        Pairs of adjoint products.
    """
    design: Design = quad.products.design
    given: Matrix
    if isinstance(design, OperatorDesign):
        given = design.products
    elif isinstance(design, ArrayDesign):
        given = _Stored(design)
    else:
        raise TypeError(f"no products with single vectors are known of a {type(design).__name__}.")
    return given, _Unit(given, quad.unit)


@dataclass(frozen=True)
class SampledState:
    """One point of a fit that was found with products alone: nothing in it is m x m.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.ones(1)
    >>> state = SampledState(
    ...     np.array([3]), 9 * one, 1.0, -2.0, -2.0, 0.1, 2 * one[:, None], 0.9 * one
    ... )
    >>> state.dof
    array([0.9])
    """

    active: IndexArray  # (m,) atoms in the model, of 0..M-1
    v: FloatArray  # (m,) prior variances of unit-norm atoms
    noise_var: float
    log_evidence: float  # its determinant is estimated
    objective: float  # log evidence + log hyperprior
    log_evidence_error: float  # standard error of both
    mu: FloatArray  # (m, 1) posterior mean of the weights
    variance: FloatArray  # (m,) their posterior variance, estimated

    @property
    def dof(self) -> FloatArray:
        """Degrees of freedom 1 - Sigma_jj / v_j of each active atom, shape (m,)."""
        return 1.0 - self.variance / self.v


class Draws(NamedTuple):
    """Draws from the posterior about its mean, and what they tell about every atom."""

    whitened: FloatArray  # (k, m) with covariance W = B^-1; times sqrt(v) they are draws of weights
    quality: FloatArray  # (k, M) with covariance Phi'C^-1 Phi: S is their mean square


@dataclass(frozen=True, eq=False)
class Implicit:
    """The posterior of active atoms at given variances.

    Parameters
    ----------
    matrix : Matrix
        Products with all atoms, at unit norm.
    size : int
        Number of atoms M.
    active : ndarray of shape (m,)
        Atoms in the model.
    v : ndarray of shape (m,)
        Their variances, positive.
    noise_var : float
        Noise variance.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.core.stored import weighted_quadratic
    >>> from sparsebayes.design import ArrayDesign
    >>> quad = weighted_quadratic(ArrayDesign(np.eye(2)), np.array([[3.0], [0.1]]))
    >>> posterior = Implicit(matrix_of(quad)[1], 2, np.array([0]), np.array([8.0]), 1.0)
    >>> z, _ = posterior.mean(quad.g[:, 0])
    >>> np.sqrt(posterior.v) * z
    array([2.66666667])
    """

    matrix: Matrix
    size: int
    active: IndexArray
    v: FloatArray
    noise_var: float

    @property
    def root(self) -> FloatArray:
        """Diagonal of R."""
        return np.sqrt(self.v / self.noise_var)

    @property
    def diagonal(self) -> FloatArray:
        """Diagonal of B."""
        return 1.0 + self.v / self.noise_var

    def fitted(self, whitened: FloatArray) -> FloatArray:
        """Phi R times whitened weights, (k, m) to (k, N)."""
        weights = np.zeros((len(whitened), self.size))
        weights[:, self.active] = whitened * self.root
        return self.matrix.synthesize(weights)

    def apply(self, whitened: FloatArray) -> FloatArray:
        """B times each row, (k, m)."""
        back = self.matrix.analyze(self.fitted(whitened))[:, self.active]
        return np.asarray(whitened + self.root * back)

    def solve(
        self, right: FloatArray, start: FloatArray | None, tol: float, max_iter: int
    ) -> tuple[FloatArray, int]:
        """Solve B z = right for each row by conjugate gradients.

        Parameters
        ----------
        right : ndarray of shape (k, m)
            Right-hand sides.
        start : ndarray of shape (k, m) or None
            Where to start; zero where it is None.
        tol : float
            Residual, relative to the right-hand side, in the norm of the preconditioner.
        max_iter : int
            Most iterations.

        Returns
        -------
        z : ndarray of shape (k, m)
            Solutions.
        n_iter : int
            Iterations, each of two products for every row.
        """
        D = self.diagonal
        z = np.zeros_like(right) if start is None else start.copy()
        r = right - self.apply(z) if start is not None else right.copy()
        y = r / D
        p = y.copy()
        now = _dots(r, y)
        enough = tol**2 * _dots(right, right / D)
        for n_iter in range(max_iter):
            busy = np.flatnonzero(now > enough)
            if busy.size == 0:
                return z, n_iter
            q = self.apply(p[busy])
            step = (now[busy] / _dots(p[busy], q))[:, None]
            z[busy] += step * p[busy]
            r[busy] -= step * q
            y = r[busy] / D
            after = _dots(r[busy], y)
            p[busy] = y + (after / now[busy])[:, None] * p[busy]
            now[busy] = after
        return z, max_iter

    def mean(
        self,
        g: FloatArray,
        start: FloatArray | None = None,
        tol: float = 1e-8,
        max_iter: int = 1000,
    ) -> tuple[FloatArray, int]:
        """Whitened posterior mean, shape (m,), and the iterations it took.

        Parameters
        ----------
        g : ndarray of shape (M,)
            Products of all atoms with the targets.
        start : ndarray of shape (m,) or None
            Where to start.
        tol, max_iter : float, int
            As in `solve`.

        Returns
        -------
        z : ndarray of shape (m,)
            sqrt(v) z is the mean of the weights.
        n_iter : int
            Iterations.
        """
        h = self.root * g[self.active] / np.sqrt(self.noise_var)
        z, n_iter = self.solve(h[None], None if start is None else start[None], tol, max_iter)
        return z[0], n_iter

    def draw(
        self,
        rng: np.random.RandomState,
        k: int,
        n_rows: int,
        tol: float = 1e-3,
        max_iter: int = 1000,
    ) -> Draws:
        """Draw from the posterior: perturb the data and the prior, and solve.

        Parameters
        ----------
        rng : RandomState
            Source of randomness.
        k : int
            Number of draws.
        n_rows : int
            Number of rows N.
        tol, max_iter : float, int
            As in `solve`.

        Returns
        -------
        Draws
            Draws about the mean. For weights R e2 and noise e1 made up by chance, the error of
            their posterior mean is a draw, d = B^-1 (e2 - R Phi'e1), and C^-1 times the targets
            made of them is (Phi R d + e1) / noise^(1/2).
        """
        e1 = rng.standard_normal((k, n_rows))
        e2 = rng.standard_normal((k, self.active.size))
        back = self.matrix.analyze(e1)
        if self.active.size:
            e2, _ = self.solve(e2 - self.root * back[:, self.active], None, tol, max_iter)
            back = self.matrix.analyze(self.fitted(e2) + e1)
        back /= np.sqrt(self.noise_var)
        return Draws(e2, back)

    def log_det(
        self, rng: np.random.RandomState, probes: int, steps: int = 100
    ) -> tuple[float, float]:
        """Log determinant of B and its standard error, by Lanczos quadrature.

        Parameters
        ----------
        rng : RandomState
            Source of random signs.
        probes : int
            Vectors of random signs.
        steps : int, default=100
            Most Lanczos steps from each.

        Returns
        -------
        value, error : float
            The diagonal is taken out exactly, so that only the coupling of the atoms is estimated.
        """
        m = self.active.size
        if m == 0:
            return 0.0, 0.0
        root = 1.0 / np.sqrt(self.diagonal)
        q = rng.choice([-1.0, 1.0], size=(probes, m)) / np.sqrt(m)
        steps = min(steps, m)
        basis = np.zeros((steps, probes, m)) if 8 * steps * probes * m <= _BASIS_BYTES else None
        alpha, beta = np.zeros((steps, probes)), np.zeros((steps, probes))
        previous, values = np.zeros_like(q), np.full(probes, np.inf)
        for i in range(steps):
            r = root * self.apply(root * q)
            if i:
                r -= beta[i - 1][:, None] * previous
            alpha[i] = _dots(q, r)
            r -= alpha[i][:, None] * q
            if basis is not None:  # full orthogonality, where memory allows it
                basis[i] = q
                done = basis[: i + 1]
                r -= np.einsum("ikm,ik->km", done, np.einsum("ikm,km->ik", done, r))
            beta[i] = np.sqrt(_dots(r, r))
            before = values
            values = m * np.array(
                [_quadrature(alpha[: i + 1, k], beta[:i, k]) for k in range(probes)]
            )
            # Enough steps where the scatter of the probes is larger than what a step changes.
            enough = max(_ENOUGH, 0.05 * float(values.std()))
            if (beta[i] <= _SPENT).all() or np.abs(values - before).max() <= enough:
                break
            previous, q = q, r / np.maximum(beta[i], 1e-300)[:, None]
        error = float(values.std(ddof=1) / np.sqrt(probes)) if probes > 1 else float("inf")
        return float(np.log(self.diagonal).sum() + values.mean()), error


_BASIS_BYTES = 2**28
_ENOUGH = 1e-3  # nats
_SPENT = 1e-10  # length of a Lanczos vector that is rounding


def _quadrature(alpha: FloatArray, beta: FloatArray) -> float:
    """First entry of the logarithm of a tridiagonal matrix."""
    last = np.flatnonzero(beta <= _SPENT)
    if last.size:
        alpha, beta = alpha[: last[0] + 1], beta[: last[0]]
    T = np.diag(alpha) + np.diag(beta, 1) + np.diag(beta, -1)
    values, vectors = np.linalg.eigh(T)
    return float(np.square(vectors[0]) @ np.log(np.maximum(values, 1e-300)))


def shrunk(squares: FloatArray, probes: float) -> FloatArray:
    """Draw estimated squares together, as far as they scatter no more than estimates do.

    Parameters
    ----------
    squares : ndarray of shape (M,)
        Mean squares of so many probes: of relative variance 2 / probes if they were all equal.
    probes : float
        Number of probes.

    Returns
    -------
    ndarray of shape (M,)
        Weighted means of each one and of all; zeros are known to be zeros.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.RandomState(0)
    >>> estimates = (rng.standard_normal((64, 1000)) ** 2).mean(axis=0)
    >>> bool(estimates.std() > 0.1), bool(shrunk(estimates, 64).std() < 0.02)
    (True, True)
    """
    there = squares > 0
    mean = float(squares[there].mean()) if there.any() else 1.0
    scatter = 2.0 / probes
    spread = float(np.square(squares[there] / mean - 1.0).mean()) if there.any() else 0.0
    excess = max(spread - scatter, 0.0) / (1.0 + scatter)
    share = excess / (excess + scatter)
    return np.where(there, share * squares + (1.0 - share) * mean, 0.0)


def _dots(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->i", a, b))
