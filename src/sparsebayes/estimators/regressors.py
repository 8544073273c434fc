"""Regressors: one number to predict, or several that share their atoms."""

from typing import Any

from sparsebayes.estimators._base import OnDictionary, OnKernel
from sparsebayes.estimators._regressing import Regressing

__all__ = ["RVR", "SparseBayesRegressor"]


class SparseBayesRegressor(Regressing, OnDictionary):
    """Sparse Bayesian regression on any dictionary of atoms.

    From the atoms of the dictionary it keeps the few that the data support, estimates the noise,
    gives error bars, needs no cross-validation, and certifies its answer: ``certificate_`` says how
    much any single change of the model could still gain.

    Parameters
    ----------
    dictionary : "linear" or a dictionary, default="linear"
        Candidate atoms: the columns of X, or e.g. ``Linear() + Kernel("rbf", gamma=0.5)``.
    fit_intercept : bool, default=True
        Whether to fit an intercept, jointly with the weights and with a flat prior.
    prior : {"auto", "flat", "aic", "bic", "ric"}, float or Hyperprior, default="auto"
        Prior of each atom's variance. A number (or its name) is the price in nats of a degree of
        freedom: "aic" 1, "bic" log(n_samples) / 2, "ric" log(number of atoms). "auto" is "flat",
        the relevance vector machine of the papers, for kernels, and "ric" for every other
        dictionary, where a flat prior keeps one irrelevant atom in three. ``Gamma(a, b)`` of the
        precisions keeps every atom, and is for the solvers "em" and "mackay".
    noise_variance : float or None, default=None
        Variance of the noise; None estimates it.
    noise_prior : None, (g, h), InverseGamma or Gamma, default=None
        Inverse-gamma prior of a noise variance that is estimated, worth 2 (g + 1) observations
        whose squares sum to 2 h, in units of y squared. None is a flat prior; Schmolck & Everson
        (2007) take (1e-4, 1e-4). ``Gamma(c, d)`` of the noise precision is worth 2 c observations
        whose squares sum to 2 d.
    likelihood : {"gaussian", "poisson"} or Likelihood, default="gaussian"
        How targets vary around the function: with normal noise; as counts whose rate is the
        exponential of the function; or as an object of `sparsebayes.likelihoods`, or one of your
        own, with one latent function says. All but "gaussian" are fitted by Laplace's
        approximation, to one target, and have no ``noise_variance``.
    solver : {"auto", "working-set", "sequential", "sequential-random", "sequential-cyclic", "em", \
"mackay", "orthonormal"}, default="auto"
        "sequential" is Tipping & Faul (2003), for comparison, with the greatest increase, a random
        atom or the next in order as its next move. "em" and "mackay" are Tipping (2001): all atoms
        start in the model, at a cost of their number cubed, and fixed-point updates prune them;
        the last steps are Newton's, until the certificate holds. "orthonormal" is the closed form
        for a dictionary that is orthonormal on X, and stays so where an intercept is fitted: the
        global maximum, in a time proportional to the number of atoms. "auto" is "orthonormal" where
        that applies, else "working-set"; in a union with a part that is orthonormal it also starts
        from what the parts would keep alone, and the better solution counts.
    tol : float, default=1e-6
        Gain, in nats, that the certificate may leave on the table.
    max_iter : int, default=10_000
        Most iterations.
    n_restarts : int, default=0
        Further random searches for a better optimum (working-set solver). Among more than 768
        atoms with three times as many rows, where they cost little, there are always three.
    warm_start : bool, default=False
        Whether ``fit`` starts from the last solution, if the dictionary is of the same size.
    random_state : int, RandomState or None, default=None
        For k-means centers, for the sample of a large dictionary in which a fit begins, and for
        restarts. None draws the centers at random and the others from a fixed seed.
    verbose : int, default=0
        1 prints progress to stderr now and then, 2 prints every step.
    memory : int, str or None, default=None
        What a fit may allocate beyond the data as given: bytes, or a text such as "500MB" or
        "2GiB". Atoms are then evaluated in blocks of rows, and never kept. None does the same
        within 1 GiB where X is no array in memory, or the matrix of atoms would take over 2 GiB.
    checkpoint : path or None, default=None
        A file in which a fit keeps where it stands after every screen of the dictionary.
    resume : bool, default=False
        Whether to go on from the checkpoint, if there is one.
    callback : callable or None, default=None
        Called with a `sparsebayes.progress.FitProgress` as the fit goes on; the fit ends like one
        that is interrupted if it returns True.
    on_interrupt : {"raise", "return"}, default="raise"
        What Ctrl-C does: "return" ends the fit with the last model it had, and a warning.
    screened : float, default=1.0
        Fraction of the atoms that is looked at, drawn at random, where a dictionary is too large to
        look at all of it; the certificate is then of this fraction, and says so. Any of these six
        makes a fit read its rows in blocks.

    Attributes
    ----------
    relevance_ : ndarray of shape (n_active,)
        Positions of the active atoms in the dictionary, the intercept excluded.
    relevance_vectors_ : ndarray of shape (n_active, n_features)
        Centers of the active atoms; only if all atoms are of one kernel.
    weights_ : ndarray of shape (n_active,) or (n_active, n_targets)
        Posterior mean of their weights.
    prior_variance_ : ndarray of shape (n_active,)
        Prior variance of their weights, for the atoms as given.
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Weights of all columns of X, zeros included; only for a linear dictionary.
    intercept_ : float or ndarray of shape (n_targets,)
        Intercept.
    noise_variance_ : float
        Variance of the noise; only for the likelihood "gaussian".
    likelihood_ : Likelihood
        Likelihood of the targets; only for others than "gaussian".
    covariance_ : ndarray of shape (n_active, n_active)
        Posterior covariance of the weights.
    log_marginal_likelihood_ : float
        Log evidence, the intercept integrated out with a flat prior; by Laplace's approximation
        unless the likelihood is "gaussian".
    log_posterior_ : float
        What was maximized: the log evidence, plus the log of the prior of each active atom's
        variance, plus that of the noise variance where it has one. Schmolck & Everson (2007, eq.
        60) also subtract ``Smoothness(c).log_normalizer(noise)`` for each active atom.
    degrees_of_freedom_ : float
        Trace of the matrix that smooths a target, the intercept's one not counted: how many weights
        the data determine.
    gamma_ : float, ndarray of shape (n_features,) or list of these
        Inverse squared width of the kernel, given or learned; a list for several kernels. Only for
        kernels that are known by name and have one.
    kernel_ : kernel object or list of these
        Kernel object with the parameters found; only for `sklearn.gaussian_process` kernels.
    feature_relevance_ : ndarray of shape (n_features,)
        Share of each input in what the kernel sees of the data: gamma times the variance of the
        input, divided by their sum. Only if there is one kernel that has widths.
    certificate_ : Certificate
        ``max_gain``, ``gradient_norm`` and ``max_curvature`` over the whole dictionary.
    converged_ : bool
        Whether the certificate holds to ``tol``.
    n_iter_ : int
        Iterations used.
    solution_ : Solution
        State, status and trace of the fit.
    posterior_ : Posterior or LatentPosterior
        What predictions need, in units of its own; its size depends on neither the number of
        samples nor that of atoms.
    n_samples_seen_ : int
        Number of rows of positive weight in all calls of `partial_fit`; only after it.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, if X had any.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes import SparseBayesRegressor
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(100, 300))
    >>> y = 3 + 2 * X[:, 7] - X[:, 42] + 0.1 * rng.normal(size=100)
    >>> model = SparseBayesRegressor().fit(X, y)
    >>> model.relevance_, model.weights_.round(1), round(model.intercept_, 1)
    (array([ 7, 42]), array([ 2., -1.]), 3.0)
    >>> mean, std = model.predict(X[:1], return_std=True)
    >>> bool(0.08 < std[0] < 0.12), model.certificate_.max_gain < 1e-6
    (True, True)

    Counts:

    >>> counts = rng.poisson(np.exp(1 + X[:, 7]))
    >>> model = SparseBayesRegressor(likelihood="poisson").fit(X, counts)
    >>> model.relevance_, model.weights_.round(1)
    (array([7]), array([1.]))
    """

    def __init__(
        self,
        dictionary: Any = "linear",
        *,
        fit_intercept: bool = True,
        prior: Any = "auto",
        noise_variance: float | None = None,
        noise_prior: Any = None,
        likelihood: Any = "gaussian",
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 10_000,
        n_restarts: int = 0,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
        memory: int | str | None = None,
        checkpoint: Any = None,
        resume: bool = False,
        callback: Any = None,
        on_interrupt: str = "raise",
        screened: float = 1.0,
    ) -> None:
        self.dictionary = dictionary
        self.fit_intercept = fit_intercept
        self.prior = prior
        self.noise_variance = noise_variance
        self.noise_prior = noise_prior
        self.likelihood = likelihood
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_restarts = n_restarts
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.memory = memory
        self.checkpoint = checkpoint
        self.resume = resume
        self.callback = callback
        self.on_interrupt = on_interrupt
        self.screened = screened


class RVR(Regressing, OnKernel):
    """Relevance vector regression, spelled as scikit-learn's SVR.

    A kernel is centered at every training row (or at ``centers``); the fit keeps the few that the
    data support, the relevance vectors, estimates the noise and gives error bars.

    The kernel matrix is stored up to 2 GiB, about 16 000 rows; a larger one is never held but
    evaluated in blocks of rows, which is slower.

    Parameters
    ----------
    kernel : str, callable or kernel object, default="rbf"
        "rbf", "laplacian", "poly", "sigmoid", "linear", "lspline", "tps", any name that
        scikit-learn's ``pairwise_kernels`` knows, "precomputed", a function ``K(X, Z)``, or an
        object of ``sklearn.gaussian_process.kernels``. It need not be positive definite.
    gamma : float, array-like of shape (n_features,) or str, default="pooled"
        Inverse squared width, for all inputs or for each. "pooled" finds one before the fit, which
        holds it, "pooled-ard" one for each input: those that maximize the evidence of the Gaussian
        process with the kernel as covariance (with that of a sum of the atoms, where a kernel is
        none); near that of "scale" where the targets say nothing. "scale" is
        1 / (n_features * X.var()) and "auto" 1 / n_features. "evidence" learns one width with the
        atoms, under a prior around that of "pooled", "ard" one for each input; of a kernel object,
        which else stays as it is, both learn the parameters that are not fixed, within their
        bounds.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    kernel_params : dict or None, default=None
        Further parameters of a callable or a scikit-learn kernel.
    centers : None, int or array-like of shape (n_centers, n_features), default=None
        Where kernels sit: the training rows, that many k-means centers, or these points.
    fit_intercept, prior, noise_variance, noise_prior, likelihood, solver, tol, max_iter, \
n_restarts, warm_start, random_state, verbose, memory, checkpoint, resume, callback, \
on_interrupt, screened
        As in `SparseBayesRegressor`; here prior="auto" is "flat".

    Attributes
    ----------
    relevance_ : ndarray of shape (n_active,)
        Rows of X (or of the centers) that became relevance vectors.
    relevance_vectors_ : ndarray of shape (n_active, n_features)
        The relevance vectors.
    weights_, prior_variance_, intercept_, noise_variance_, likelihood_, covariance_, \
log_marginal_likelihood_, log_posterior_, degrees_of_freedom_, gamma_, kernel_, \
feature_relevance_, certificate_, converged_, n_iter_, \
solution_, posterior_, n_samples_seen_, n_features_in_, feature_names_in_
        As in `SparseBayesRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes import RVR
    >>> from sparsebayes.datasets import sinc
    >>> data = sinc(100, noise=0.1, random_state=0)
    >>> model = RVR(gamma=1 / 9).fit(data.X, data.y)
    >>> len(model.relevance_) < 12
    True
    >>> bool(abs(model.noise_variance_**0.5 - 0.1) < 0.02)
    True
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: Any = "pooled",
        degree: int = 3,
        coef0: float = 0.0,
        kernel_params: dict[str, Any] | None = None,
        centers: Any = None,
        fit_intercept: bool = True,
        prior: Any = "auto",
        noise_variance: float | None = None,
        noise_prior: Any = None,
        likelihood: Any = "gaussian",
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 10_000,
        n_restarts: int = 0,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
        memory: int | str | None = None,
        checkpoint: Any = None,
        resume: bool = False,
        callback: Any = None,
        on_interrupt: str = "raise",
        screened: float = 1.0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.centers = centers
        self.fit_intercept = fit_intercept
        self.prior = prior
        self.noise_variance = noise_variance
        self.noise_prior = noise_prior
        self.likelihood = likelihood
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_restarts = n_restarts
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.memory = memory
        self.checkpoint = checkpoint
        self.resume = resume
        self.callback = callback
        self.on_interrupt = on_interrupt
        self.screened = screened
