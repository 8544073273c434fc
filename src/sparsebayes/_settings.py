"""What the parameters of an estimator may be."""

import numbers
from typing import Any

import numpy as np

from sparsebayes._counting import is_kernel_machine
from sparsebayes._hyperprior import refuse_if_never_out
from sparsebayes._memory import resolve_memory
from sparsebayes.hyperpriors import Flat, Gamma, Hyperprior, InverseGamma, Smoothness
from sparsebayes.likelihoods import Bernoulli, Likelihood, Multinomial, Poisson
from sparsebayes.noise_priors import NoisePrior

__all__ = [
    "check_settings",
    "is_count",
    "is_positive",
    "resolve_likelihood",
    "resolve_noise_prior",
    "resolve_prior",
]

_PRIORS = ("auto", "flat", "aic", "bic", "ric")
_SOLVERS = (
    "auto",
    "working-set",
    "sequential",
    "sequential-random",
    "sequential-cyclic",
    "em",
    "mackay",
    "orthonormal",
)
_JOINT = ("em", "mackay")
_FLAGS = ("fit_intercept", "warm_start")
_COUNTS = {"max_iter": 1, "n_restarts": 0}


def check_settings(model: Any) -> None:
    """Refuse parameters that make no sense, with an error that names the first of them.

    Parameters
    ----------
    model : estimator
        Its parameters are read, never changed.

    Examples
    --------
    >>> from sparsebayes import RVR
    >>> try:
    ...     check_settings(RVR(tol=0))
    ... except ValueError as error:
    ...     print(error)
    tol must be a number > 0, got 0.
    """
    for name in _FLAGS:
        if not isinstance(getattr(model, name), bool | np.bool_):
            raise TypeError(f"{name} must be True or False, got {getattr(model, name)!r}.")
    for name, least in _COUNTS.items():
        if not is_count(getattr(model, name), least):
            raise ValueError(f"{name} must be an integer >= {least}, got {getattr(model, name)!r}.")
    if not isinstance(model.verbose, bool | np.bool_) and not is_count(model.verbose, 0):
        raise ValueError(f"verbose must be 0, 1 or 2, got {model.verbose!r}.")
    if not is_positive(model.tol):
        raise ValueError(f"tol must be a number > 0, got {model.tol!r}.")
    if not isinstance(model.solver, str) or model.solver not in _SOLVERS:
        raise ValueError(f"solver must be one of {_SOLVERS}, got {model.solver!r}.")
    _check_rows(model)
    prior = resolve_prior(model.prior, None, 1.0, 1)
    if model.solver not in _JOINT:
        refuse_if_never_out(prior, f"solver={model.solver!r}")
    if hasattr(model, "class_weight"):
        _check_classes(model)
    else:
        _check_noise(model)


def _check_rows(model: Any) -> None:
    """Check what is for fits that read their rows in blocks."""
    resolve_memory(model.memory)
    if model.callback is not None and not callable(model.callback):
        raise TypeError(f"callback must be None or a function, got {model.callback!r}.")
    if model.on_interrupt not in ("raise", "return"):
        raise ValueError(f'on_interrupt must be "raise" or "return", got {model.on_interrupt!r}.')
    if not is_positive(model.screened) or model.screened > 1:
        raise ValueError(f"screened must be a number > 0 and <= 1, got {model.screened!r}.")
    if not isinstance(model.resume, bool | np.bool_):
        raise TypeError(f"resume must be True or False, got {model.resume!r}.")
    if model.resume and model.checkpoint is None:
        raise ValueError("resume=True needs the checkpoint to go on from: give checkpoint=path.")


def _check_noise(model: Any) -> None:
    if model.noise_variance is not None and not is_positive(model.noise_variance):
        raise ValueError(
            "noise_variance must be None (estimated) or a number > 0, "
            f"got {model.noise_variance!r}."
        )
    if resolve_noise_prior(model.noise_prior) is not None and model.noise_variance is not None:
        raise ValueError(
            f"noise_prior={model.noise_prior!r} is for a noise that is estimated: with "
            f"noise_variance={model.noise_variance!r} it must be None."
        )
    if model.noise_variance is not None and resolve_likelihood(model.likelihood) is not None:
        raise ValueError(
            f"noise_variance={model.noise_variance!r} is for likelihood='gaussian': with "
            f"likelihood={model.likelihood!r} it must be None."
        )
    if resolve_likelihood(model.likelihood) is not None:
        if model.noise_prior is not None:
            raise ValueError(
                f"noise_prior={model.noise_prior!r} is for likelihood='gaussian': with "
                f"likelihood={model.likelihood!r} it must be None."
            )
        _refuse_orthonormal(model, f"likelihood={model.likelihood!r}")


def _refuse_orthonormal(model: Any, reason: str) -> None:
    if model.solver == "orthonormal":
        raise ValueError(
            f"solver='orthonormal' is for Gaussian noise, whose atoms stay orthonormal: with "
            f"{reason} use solver='auto'."
        )


def _check_classes(model: Any) -> None:
    if not isinstance(model.shared, bool | np.bool_):
        raise TypeError(f"shared must be True or False, got {model.shared!r}.")
    _refuse_orthonormal(model, "classes")
    if model.shared and model.solver.startswith("sequential"):
        raise ValueError(
            f"solver={model.solver!r} moves the variance of one class at a time, which shared=True "
            "forbids: use solver='working-set'."
        )
    weight = model.class_weight
    named = isinstance(weight, str) and weight == "balanced"
    if not (weight is None or named or isinstance(weight, dict)):
        raise ValueError(
            'class_weight must be None, "balanced" or a dict from classes to weights, '
            f"got {weight!r}."
        )


def is_count(value: Any, least: int) -> bool:
    """Whether a value is an integer, not a bool, of at least so much."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return whole and int(value) >= least


def is_positive(value: Any) -> bool:
    """Whether a value is a finite number above zero."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return real and 0 < float(value) < np.inf


def resolve_prior(prior: Any, dictionary: Any, n: float, m: int) -> Hyperprior:
    """Turn the parameter ``prior`` into a hyperprior.

    Parameters
    ----------
    prior : str, float or Hyperprior
        As given.
    dictionary : Dictionary
        What "auto" depends on.
    n : float
        Number of samples.
    m : int
        Number of atoms that are not void.

    Returns
    -------
    Hyperprior
        The hyperprior.

    Examples
    --------
    >>> from sparsebayes.dictionaries import Kernel, Linear
    >>> resolve_prior("auto", Kernel("rbf"), 100, 100)
    Flat()
    >>> resolve_prior("bic", Linear(), 100, 20)
    Smoothness(c=2.302585092994046)
    """
    allowed = f"prior must be one of {_PRIORS}, a number >= 0 or a hyperprior"
    if isinstance(prior, str):
        if prior not in _PRIORS:
            raise ValueError(f"{allowed}, got {prior!r}.")
        if prior == "auto":
            prior = "flat" if is_kernel_machine(dictionary) else "ric"
        if prior == "flat":
            return Flat()
        price = {"aic": 1.0, "bic": 0.5 * np.log(max(n, 1.0)), "ric": np.log(max(m, 1))}[prior]
        return Smoothness(float(price))
    if isinstance(prior, numbers.Real) and not isinstance(prior, bool):
        if not 0 <= float(prior) < np.inf:
            raise ValueError(f"{allowed}, got {prior!r}.")
        return Smoothness(float(prior))
    if isinstance(prior, Hyperprior) and not isinstance(prior, type):
        return Flat() if isinstance(prior, Gamma) and prior.b == 0 else prior
    raise TypeError(f"{allowed}, got {prior!r}.")


def resolve_noise_prior(noise_prior: Any) -> NoisePrior | None:
    """Turn the parameter ``noise_prior`` into a prior of the noise variance.

    Parameters
    ----------
    noise_prior : None, pair of floats, InverseGamma or Gamma
        As given.

    Returns
    -------
    InverseGamma, LogGamma or None
        The prior.

    Examples
    --------
    >>> resolve_noise_prior((1e-4, 1e-4))
    InverseGamma(g=0.0001, h=0.0001)
    >>> resolve_noise_prior(Gamma(2.0, 0.5))
    LogGamma(c=2.0, h=0.5)
    """
    if noise_prior is None or isinstance(noise_prior, InverseGamma):
        return noise_prior
    if isinstance(noise_prior, Gamma):
        return noise_prior.of_noise
    allowed = (
        "noise_prior must be None, a pair (g, h) of numbers >= 0, an InverseGamma or a Gamma, "
        f"got {noise_prior!r}."
    )
    if not isinstance(noise_prior, tuple | list) or len(noise_prior) != 2:
        raise TypeError(allowed)
    try:
        return InverseGamma(*noise_prior)
    except ValueError:
        raise ValueError(allowed) from None


def resolve_likelihood(likelihood: Any) -> Likelihood | None:
    """Turn the parameter ``likelihood`` of a regressor into a likelihood.

    Parameters
    ----------
    likelihood : str or Likelihood
        As given.

    Returns
    -------
    Likelihood or None
        The likelihood of one latent function; None for normal noise, which needs no approximation.

    Examples
    --------
    >>> resolve_likelihood("poisson")
    Poisson()
    >>> resolve_likelihood("gaussian") is None
    True
    """
    if isinstance(likelihood, str):
        if likelihood not in ("gaussian", "poisson"):
            raise ValueError(
                "likelihood must be 'gaussian', 'poisson' or an object of "
                f"sparsebayes.likelihoods, got {likelihood!r}."
            )
        return Poisson() if likelihood == "poisson" else None
    if isinstance(likelihood, type) or not isinstance(likelihood, Likelihood):
        raise TypeError(
            "likelihood must be 'gaussian', 'poisson' or an object with the methods of "
            f"sparsebayes.likelihoods.Likelihood, got {likelihood!r}."
        )
    if isinstance(likelihood, (Bernoulli, Multinomial)):
        raise ValueError(
            f"likelihood={likelihood!r} is one of classes, and a regressor predicts numbers: use "
            "SparseBayesClassifier or RVC."
        )
    if likelihood.n_latent != 1:
        raise ValueError(
            f"likelihood={likelihood!r} has {likelihood.n_latent} latent functions, a regressor "
            "has one."
        )
    return likelihood
