"""Classifiers: two classes, or several with one latent function each."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from sparsebayes._kernel_report import feature_relevance, relevance_of
from sparsebayes._labels import class_weights, plain, present, separated, shown
from sparsebayes._latent import Inference
from sparsebayes._samples import checked_weights
from sparsebayes._settings import check_settings
from sparsebayes.estimators._base import OnDictionary, OnKernel, linear_atoms
from sparsebayes.estimators._lazy import lazily
from sparsebayes.estimators._streaming import Streaming
from sparsebayes.latent_integrals import plug_in as log_proba_at
from sparsebayes.latent_posterior import LatentPosterior
from sparsebayes.likelihoods import Bernoulli, Likelihood, Multinomial, totals_of
from sparsebayes.predictive import Categorical
from sparsebayes.rows.steps import Coded
from sparsebayes.rows.summary import summarize

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["RVC", "SparseBayesClassifier"]

_BLOCK_CELLS = 2**20  # entries of covariances at a time when predicting: eight megabytes


class _Classifier(ClassifierMixin, Streaming):
    """What both classifiers do."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the atoms that the data support.

        Parameters
        ----------
        X : array-like, scipy.sparse matrix, or rows to be read, of shape (n_samples, n_features)
            Inputs; a square matrix where the kernel is "precomputed". Rows that need not fit in
            memory: `numpy.memmap`, zarr or HDF5 array, dask array or dataframe, path of parquet
            files, `sparsebayes.rows.Parquet` or `sparsebayes.rows.Chunks`.
        y : array-like of shape (n_samples,), or the name of a column
            Labels of any type that can be sorted; at least two different ones. A name for parquet
            files, None for chunks.
        sample_weight : array-like of shape (n_samples,) or None
            Weights; a weight of two equals a row given twice, a weight of zero one left out. Every
            class must keep a sample of positive weight.

        Returns
        -------
        self
            The fitted estimator.
        """
        check_settings(self)
        if self._reads_rows(X):
            return self._fit_rows(X, y, sample_weight)
        dictionary, X, y = self._checked_pair(X, present(y))
        labels = plain(y)
        classes, codes = separated(labels)
        # scikit-learn knows of few types which can be sorted; floats it may find continuous.
        check_classification_targets(labels if labels.dtype.kind == "f" else codes)
        weights = self._weights(classes, codes, sample_weight)
        likelihood, shared = self._kind(classes)
        result = self._infer(X, codes.astype(np.float64), weights, dictionary, likelihood, shared)
        relevance = feature_relevance(result.posterior.atoms, X, weights)
        self._keep_classes(result, classes, likelihood, relevance)
        self._warn(result.solution)
        return self

    def _fit_rows(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Fit rows that are read piece by piece."""
        dictionary = self._dictionary()
        rows, journey = self._opened(X, y, sample_weight, numeric_y=False)
        with journey.watch as watch:
            watch.stage("first look")
            summary = summarize(rows, numeric_y=False)
            labels = summary.labels
            assert labels is not None
            classes, codes = separated(labels.classes)
            _check_presence("sample_weight", classes, codes, labels.weights)
            of_class = class_weights(self.class_weight, classes, codes, labels.weights)
            rows = rows.mapped(Coded(classes, of_class))
            if of_class is not None:
                _check_presence("class_weight", classes, codes, of_class * labels.weights)
                summary = replace(summarize(rows), labels=labels)
            likelihood, shared = self._kind(classes)
            counts = labels.counts.astype(np.float64)
            weights = labels.weights if of_class is None else of_class * labels.weights
            totals = totals_of(likelihood, codes.astype(np.float64), weights)
            result = self._infer_rows(
                rows, summary, dictionary, journey, likelihood, shared, counts, totals
            )
            assert summary.inputs is not None
            relevance = relevance_of(result.posterior.atoms, summary.inputs.variance)
            self._keep_classes(result, classes, likelihood, relevance)
        self._warn(result.solution)
        return self

    def _kind(self, classes: NDArray[Any]) -> tuple[Likelihood, bool]:
        """Likelihood of so many classes, and whether they share the variance of each atom."""
        K = classes.size
        return (Bernoulli() if K == 2 else Multinomial(K)), bool(self.shared) and K > 2

    def _keep_classes(
        self,
        result: Inference,
        classes: NDArray[Any],
        likelihood: Likelihood,
        relevance: FloatArray | None,
    ) -> None:
        fitted = {
            "classes_": classes,
            "likelihood_": likelihood,
            "log_marginal_likelihood_": result.log_evidence,
            "log_posterior_": result.solution.state.objective,
        }
        self._keep(result.solution, result.posterior, fitted, relevance)

    def _weights(
        self, classes: NDArray[Any], codes: IndexArray, sample_weight: ArrayLike | None
    ) -> FloatArray | None:
        """Weights of the samples, times those of their classes."""
        weights = checked_weights(sample_weight, codes.size)
        _check_presence("sample_weight", classes, codes, weights)
        of_class = class_weights(self.class_weight, classes, codes, weights)
        if of_class is None:
            return weights
        product = of_class[codes] if weights is None else of_class[codes] * weights
        _check_presence("class_weight", classes, codes, product)
        return checked_weights(product, codes.size)

    def _restore(self, posterior: LatentPosterior, fitted: dict[str, Any]) -> None:
        for name in ("coef_", "relevance_vectors_"):
            self.__dict__.pop(name, None)  # of another fit
        super()._restore(posterior, fitted)
        self.relevance_ = self._by_class(posterior.atoms.index[posterior.atom])
        self.weights_ = self._by_class(posterior.weights)
        self.prior_variance_ = self._by_class(posterior.weight_variance)
        self.covariance_ = posterior.covariance
        self.intercept_ = posterior.intercept
        if hasattr(posterior.atoms, "centers"):
            self.relevance_vectors_ = self._by_class(posterior.atoms.centers[posterior.atom])

    @cached_property
    def coef_(self) -> FloatArray:
        """Weights of the columns of X, made when they are asked for: there may be many zeros."""
        atoms, posterior = linear_atoms(self), self.posterior_
        coef = np.zeros((len(posterior.offset), atoms.count))
        coef[posterior.latent, atoms.index[posterior.atom]] = posterior.weights
        return coef

    def _by_class(self, values: Any) -> Any:
        """One array for two classes, else a list with one for each class."""
        latent, K = self.posterior_.latent, len(self.posterior_.offset)
        return values if K == 1 else [values[latent == k] for k in range(K)]

    @lazily
    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the most probable class.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels, out of ``classes_``.
        """
        X = self._checked(X)
        if len(self.classes_) > 2:
            codes = self._log_proba(X, False).argmax(axis=1)
        else:  # the same answer as of the probabilities, without the covariances that these take
            codes = (self.posterior_.predict(X)[:, 0] > 0).astype(np.intp)
        return np.asarray(self.classes_[codes])

    @lazily
    def predict_proba(self, X: ArrayLike, plug_in: bool = False) -> FloatArray:
        """Predict the probabilities of the classes.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
            Inputs.
        plug_in : bool, default=False
            Whether to take the most probable weights for the true ones, as the papers do. Otherwise
            probabilities are averaged over the posterior of the weights, which makes them less
            extreme where the weights are uncertain.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of ``classes_``.
        """
        return np.exp(self.predict_log_proba(X, plug_in))

    @lazily
    def predict_log_proba(self, X: ArrayLike, plug_in: bool = False) -> FloatArray:
        """Predict the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
            Inputs.
        plug_in : bool, default=False
            As in `predict_proba`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Log probabilities, precise also for the least probable classes.
        """
        return self._log_proba(self._checked(X), plug_in)

    def _log_proba(self, X: Any, plug_in: bool) -> FloatArray:
        if plug_in:
            return log_proba_at(self.posterior_.predict(X))
        log_proba = np.empty((int(X.shape[0]), len(self.classes_)))
        for rows in _blocks(len(log_proba), len(self.posterior_.offset)):
            found = self.likelihood_.predictive(*self.posterior_.spread(X[rows]))
            log_proba[rows] = found.log_proba
        return log_proba

    @lazily
    def decision_function(self, X: ArrayLike, plug_in: bool = False) -> FloatArray:
        """Log odds: what the sigmoid or the softmax turns into the probabilities.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
            Inputs.
        plug_in : bool, default=False
            As in `predict_proba`: whether to return the latent functions at the most probable
            weights, which need not order the inputs as the averaged probabilities do.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes one number, positive where the second one of ``classes_`` is more
            probable; else one for each class, of which only differences have a meaning.
        """
        X = self._checked(X)
        two = len(self.classes_) == 2
        if plug_in:
            mean: FloatArray = self.posterior_.predict(X)
            return mean[:, 0] if two else mean
        log_proba = self._log_proba(X, False)
        return log_proba[:, 1] - log_proba[:, 0] if two else log_proba

    def predict_distribution(self, X: ArrayLike) -> Categorical:
        """Predict the distribution of the class.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        Categorical
            With ``proba``, ``log_proba``, ``mode``, ``entropy``, ``logpmf`` and ``sample``.
        """
        return Categorical(self.predict_log_proba(X), self.classes_)


class SparseBayesClassifier(_Classifier, OnDictionary):
    """Sparse Bayesian classification on any dictionary of atoms.

    From the atoms of the dictionary it keeps the few that the data support, and gives probabilities
    that know how uncertain the weights are. It needs no cross-validation, and certifies its answer:
    ``certificate_`` says how much any single change of the model could still gain.

    Two classes have one latent function f with the probability 1 / (1 + exp(-f)) of the second
    class. More have one latent function for each class, and the probabilities are their softmax.
    The posterior of the weights is Laplace's approximation.

    Parameters
    ----------
    dictionary : "linear" or a dictionary, default="linear"
        Candidate atoms: the columns of X, or e.g. ``Linear() + Kernel("rbf", gamma=0.5)``.
    fit_intercept : bool, default=True
        Whether each latent function has an intercept, with a flat prior.
    prior : {"auto", "flat", "aic", "bic", "ric"}, float or Hyperprior, default="auto"
        Prior of each atom's variance, as in `SparseBayesRegressor`: "auto" is "flat" for kernels
        and "ric" for every other dictionary; ``Gamma(a, b)`` is for solver="em" and "mackay".
    shared : bool, default=False
        Whether classes share the prior variance of each atom, which then is in the model for all
        of them or for none. Without effect on two classes.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, by which those of their samples are multiplied; a class that a dict
        does not name has the weight one. "balanced" is n_samples / (n_classes * samples of the
        class): probabilities are then those of a world where all classes are equally frequent.
    solver : {"auto", "working-set", "sequential", "sequential-random", "sequential-cyclic", "em", \
"mackay"}, default="auto"
        "auto" is "working-set"; "sequential" is Tipping & Faul (2003), for comparison, and not for
        ``shared``; "em" and "mackay" are Tipping (2001), with all atoms in the model at the start.
    tol : float, default=1e-6
        Gain, in nats, that the certificate may leave on the table.
    max_iter : int, default=10_000
        Most iterations.
    n_restarts : int, default=0
        Further random searches for a better optimum (working-set solver).
    warm_start : bool, default=False
        Whether ``fit`` starts from the last solution, if the dictionary is of the same size.
    random_state : int, RandomState or None, default=None
        For k-means centers, for the sample of a large dictionary in which a fit begins, and for
        restarts. None draws the centers at random and the others from a fixed seed.
    verbose : int, default=0
        1 prints progress to stderr now and then, 2 prints every step.
    memory, checkpoint, resume, callback, on_interrupt, screened
        As in `SparseBayesRegressor`: for rows that are read in blocks.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    relevance_ : ndarray of shape (n_active,) or list of ndarray
        Positions of the active atoms in the dictionary, the intercept excluded. A list with one
        array for each class if there are more than two, as are the next three.
    relevance_vectors_ : ndarray of shape (n_active, n_features) or list of ndarray
        Centers of the active atoms; only if all atoms are of one kernel.
    weights_ : ndarray of shape (n_active,) or list of ndarray
        Most probable weights of the active atoms.
    prior_variance_ : ndarray of shape (n_active,) or list of ndarray
        Prior variance of their weights, for the atoms as given.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights of all columns of X, zeros included; only for a linear dictionary.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    covariance_ : ndarray of shape (n_active, n_active)
        Posterior covariance of the weights, those of the first class first.
    likelihood_ : Likelihood
        Bernoulli for two classes, else Multinomial.
    log_marginal_likelihood_ : float
        Log evidence by Laplace's approximation, intercepts integrated out with a flat prior.
    log_posterior_ : float
        What was maximized: the log evidence plus the log prior of each active atom's variance.
    degrees_of_freedom_ : float
        How many weights the data determine, the intercepts not counted.
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
    posterior_ : LatentPosterior
        What predictions need; its size depends on neither the number of samples nor that of atoms.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, if X had any.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes import SparseBayesClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 50))
    >>> y = np.where(3 * X[:, 7] - 2 * X[:, 42] + rng.logistic(size=200) > 0, "yes", "no")
    >>> model = SparseBayesClassifier().fit(X, y)
    >>> model.classes_, model.relevance_
    (array(['no', 'yes'], dtype='<U3'), array([ 7, 42]))
    >>> model.predict_proba(np.eye(50)[[7, 42]]).round(1)
    array([[0.1, 0.9],
           [0.8, 0.2]])
    """

    def __init__(
        self,
        dictionary: Any = "linear",
        *,
        fit_intercept: bool = True,
        prior: Any = "auto",
        shared: bool = False,
        class_weight: Any = None,
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
        self.shared = shared
        self.class_weight = class_weight
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


class RVC(_Classifier, OnKernel):
    """Relevance vector classification, spelled as scikit-learn's SVC.

    A kernel is centered at every training row (or at ``centers``); the fit keeps the few that the
    data support, the relevance vectors, and gives probabilities of the classes. Several classes are
    one model, not a machine for each pair or each class.

    The kernel matrix is stored up to 2 GiB, about 16 000 rows; a larger one is never held but
    evaluated in blocks of rows, which is slower.

    Parameters
    ----------
    kernel, gamma, degree, coef0, kernel_params, centers
        As in `RVR`.
    fit_intercept, prior, shared, class_weight, solver, tol, max_iter, n_restarts, warm_start, \
random_state, verbose, memory, checkpoint, resume, callback, on_interrupt, screened
        As in `SparseBayesClassifier`; here prior="auto" is "flat".

    Attributes
    ----------
    relevance_ : ndarray of shape (n_active,) or list of ndarray
        Rows of X (or of the centers) that became relevance vectors; a list with one array for each
        class if there are more than two.
    relevance_vectors_ : ndarray of shape (n_active, n_features) or list of ndarray
        The relevance vectors.
    classes_, weights_, prior_variance_, intercept_, covariance_, likelihood_, \
log_marginal_likelihood_, log_posterior_, degrees_of_freedom_, gamma_, kernel_, \
feature_relevance_, certificate_, converged_, n_iter_, \
solution_, posterior_, n_features_in_, feature_names_in_
        As in `SparseBayesClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sparsebayes import RVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RVC(gamma=0.2).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> sum(len(relevance) for relevance in model.relevance_) < 20
    True
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        kernel_params: dict[str, Any] | None = None,
        centers: Any = None,
        fit_intercept: bool = True,
        prior: Any = "auto",
        shared: bool = False,
        class_weight: Any = None,
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
        self.shared = shared
        self.class_weight = class_weight
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


def _check_presence(
    name: str, classes: NDArray[Any], codes: IndexArray, weights: FloatArray | None
) -> None:
    if weights is None:
        return
    absent = np.bincount(codes, weights, minlength=classes.size) == 0
    if absent.any():
        raise ValueError(
            f"{name} leaves no sample of class {shown(classes[absent])}: leave the rows of such "
            "classes out of X and y."
        )


def _blocks(n: int, K: int) -> Iterator[slice]:
    step = max(1, _BLOCK_CELLS // K**2)
    return (slice(start, start + step) for start in range(0, n, step))
