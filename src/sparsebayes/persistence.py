"""Model files: arrays and JSON in one zip, no pickle, so that loading one runs no code.

A model file is a zip archive without compression that holds

``model.json``
    the format and its version, the version of sparsebayes that wrote it, the estimator's class
    (from a fixed list), its constructor parameters, fitted scalars, the classes and the likelihood
    of a classifier, and the posterior's description;
``arrays/NAME.npy``
    one file in NumPy's own format for each array of the posterior: active atoms only, so the size
    depends neither on the number of training rows nor on the size of the dictionary.

Constructor parameters come back as they were if they are numbers, strings, short arrays, lists,
dictionaries or hyperpriors, likelihoods and dictionaries of this package. Others (a
``RandomState``, a long array of centers) are recorded by their ``repr`` for the reader and have
their default value after loading: predictions do not depend on them, only a new ``fit`` would. Of a
prior that is lost in this way `save` warns.
What belongs to one run alone (a callback, a checkpoint and whether to resume from it) is left out.
"""

from __future__ import annotations

import dataclasses
import os
import warnings
from functools import partial
from typing import Any

import numpy as np

import sparsebayes
from sparsebayes._archive import (
    HOSTILE,
    ArchiveError,
    ArchiveReader,
    shortened,
    texts,
    write_archive,
)
from sparsebayes._labels import labels_from_json, labels_to_json
from sparsebayes._parameters import NotStorableError, decode, encode
from sparsebayes._versions import is_newer, understood

__all__ = ["ModelFile", "ModelFileError", "load", "read_model", "save"]

_FORMAT = "sparsebayes-model"
_FORMAT_VERSION = 1
_ESTIMATORS = ("RVC", "RVR", "SparseBayesClassifier", "SparseBayesRegressor")
_CLASSIFIERS = ("RVC", "SparseBayesClassifier")
_RELEVANCE = "relevance"
_OF_ONE_RUN = ("callback", "checkpoint", "resume")
_UPGRADE = "pip install --upgrade sparsebayes"
_OPTIONAL_SCALARS = ("log_posterior_", "degrees_of_freedom_")  # version 0.1.0 wrote none
_KEYS = (
    "sparsebayes_version",
    "estimator",
    "parameters",
    "target_names",
    "fitted",
    "posterior",
    "arrays",
)


class ModelFileError(ValueError):
    """A file is not a model file, is damaged, or was written by a newer version.

    Examples
    --------
    >>> import sparsebayes.persistence as persistence
    >>> try:
    ...     persistence.load(persistence.__file__)
    ... except persistence.ModelFileError as error:
    ...     print(error)
    /.../persistence.py is not a sparsebayes model file
    """


@dataclasses.dataclass(frozen=True)
class ModelFile:
    """What a model file holds.

    Parameters
    ----------
    model : estimator
        The fitted estimator.
    target_names : tuple of str or None
        Names of the columns of y, where the writer knew them.
    version : str
        The version of sparsebayes that wrote the file.
    format_version : int, default=1
        The version of the format that it is in.

    Examples
    --------
    >>> from sparsebayes.persistence import ModelFile
    >>> ModelFile(model=None, target_names=("price",), version="0.1.0").target_names
    ('price',)
    """

    model: Any
    target_names: tuple[str, ...] | None
    version: str
    format_version: int = _FORMAT_VERSION


def save(
    model: Any,
    path: str | os.PathLike[str],
    *,
    target_names: tuple[str, ...] | None = None,
) -> None:
    """Write a fitted estimator to a model file.

    The file is written beside its final place and then moved there: an interruption leaves the old
    one as it was.

    Parameters
    ----------
    model : RVR, RVC, SparseBayesRegressor or SparseBayesClassifier
        A fitted estimator.
    path : str or path
        Where to write; an existing file is replaced.
    target_names : tuple of str or None, default=None
        Names of the columns of y, which ``sparsebayes predict`` writes above its columns.

    Raises
    ------
    TypeError
        If `model` is no estimator of this package.
    ValueError
        If it holds what cannot be stored without code, such as a kernel given as a function or a
        likelihood of your own.

    Warns
    -----
    UserWarning
        If the prior is one of your own, which is left out: a loaded model predicts the same, but
        a new fit of it has the default prior.

    Examples
    --------
    >>> import os, tempfile
    >>> from sparsebayes import RVR
    >>> from sparsebayes.datasets import sinc
    >>> from sparsebayes.persistence import load, save
    >>> data = sinc(50, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "sinc.model")
    ...     save(RVR(gamma=1 / 9).fit(data.X, data.y), path)
    ...     load(path).predict([[0.0]]).round(1)
    array([1.])
    """
    from sklearn.utils.validation import check_is_fitted

    name = type(model).__name__
    if name not in _ESTIMATORS or type(model) is not _estimator_class(name):
        raise TypeError(
            f"save() takes a fitted {' or '.join(_ESTIMATORS)}, got {name}; "
            "of a pipeline or a search, save the final estimator"
        )
    check_is_fitted(model)
    parameters, not_stored = {}, {}
    for key, value in model.get_params(deep=False).items():
        if key in _OF_ONE_RUN:
            continue
        try:
            parameters[key] = encode(value)
        except NotStorableError:
            not_stored[key] = shortened(repr(value))
    if "prior" in not_stored:
        warnings.warn(
            f"the prior {not_stored['prior']} cannot be stored without its code: predictions of "
            "the loaded model are the same, but a new fit of it has the default prior",
            UserWarning,
            stacklevel=3,  # the line that calls the estimator's method
        )
    posterior, arrays = model.posterior_.to_spec()
    arrays |= {_RELEVANCE: np.asarray(model.posterior_.atoms.index)}
    header = {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        "sparsebayes_version": sparsebayes.__version__,
        "estimator": name,
        "parameters": parameters,
        "parameters_not_stored": not_stored,
        "target_names": None if target_names is None else list(target_names),
        "fitted": _fitted_scalars(model),
        "posterior": encode(posterior),
    }
    write_archive(path, header, arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a fitted estimator from a model file; nothing in the file is executed.

    Parameters
    ----------
    path : str or path
        A file written by `save`.

    Returns
    -------
    RVR, RVC, SparseBayesRegressor or SparseBayesClassifier
        The fitted estimator, ready to predict.

    Raises
    ------
    ModelFileError
        If the file is not a model file, is damaged, or is of a newer format.
    OSError
        If it cannot be opened.

    Examples
    --------
    >>> import os, tempfile
    >>> from sparsebayes import SparseBayesRegressor
    >>> from sparsebayes.datasets import sparse_linear
    >>> from sparsebayes.persistence import load, save
    >>> data = sparse_linear(60, 20, 3, random_state=0)
    >>> model = SparseBayesRegressor().fit(data.X, data.y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "linear.model")
    ...     save(model, path)
    ...     same = load(path)
    >>> bool((same.predict(data.X) == model.predict(data.X)).all())
    True
    """
    return read_model(path).model


def read_model(path: str | os.PathLike[str]) -> ModelFile:
    """Read a model file with what belongs to it besides the estimator.

    Parameters
    ----------
    path : str or path
        A file written by `save`.

    Returns
    -------
    ModelFile
        The estimator, the target names and the version that wrote them.

    Examples
    --------
    >>> import os, tempfile
    >>> from sparsebayes import RVR
    >>> from sparsebayes.datasets import sinc
    >>> from sparsebayes.persistence import read_model, save
    >>> data = sinc(50, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "sinc.model")
    ...     save(RVR().fit(data.X, data.y), path, target_names=("height",))
    ...     read_model(path).target_names
    ('height',)
    """
    header: dict[str, Any] = {}
    with open(path, "rb") as file:
        try:
            archive = ArchiveReader(file)
            header = archive.header()
            _check_format(header)
            return _read(archive, header)
        except (ArchiveError, *HOSTILE) as error:
            finding = str(error)
            if not isinstance(error, ArchiveError):
                finding = f"is damaged ({shortened(error) or type(error).__name__})"
            version = header.get("sparsebayes_version")
            if is_newer(version) and header.get("format_version") == _FORMAT_VERSION:
                finding += f"; it is of sparsebayes {shortened(version, 20)}: {_UPGRADE}"
            raise ModelFileError(f"{os.fspath(path)} {finding}") from None


def _read(archive: ArchiveReader, header: dict[str, Any]) -> ModelFile:
    name = header["estimator"]
    if name not in _ESTIMATORS:
        raise ArchiveError(f"holds an estimator unknown to this version: {shortened(name)}")
    arrays = archive.arrays(header)
    relevance = arrays.pop(_RELEVANCE, None)  # the first files had none
    fitted = _restored_scalars(header["fitted"], name in _CLASSIFIERS)
    posterior = _restored_posterior(decode(header["posterior"]), arrays, fitted)
    if posterior.atoms.n_features_in not in (None, fitted["n_features_in_"]):
        raise ArchiveError("is damaged (its number of features contradicts itself)")
    if relevance is not None and not (
        relevance.dtype.kind == "i" and np.array_equal(relevance, posterior.atoms.index)
    ):
        raise ArchiveError("is damaged (its atoms contradict themselves)")
    kind, version = _estimator_class(name), header["sparsebayes_version"]
    complete = not header.get("parameters_not_stored")
    check = partial(_check_parameters, kernels=complete)
    model = kind(**understood(header["parameters"], kind, version, check))
    model._restore(posterior, fitted)
    targets = header["target_names"]
    return ModelFile(
        model,
        None if targets is None else tuple(texts(targets)),
        shortened(version),
        header["format_version"],
    )


def _check_parameters(model: Any, kernels: bool) -> None:
    """Refuse parameters that no fit can have had.

    Those of kernels belong together, and only tell where all of them were stored.
    """
    from sparsebayes._settings import check_settings
    from sparsebayes.dictionaries import Kernel, Union
    from sparsebayes.estimators._base import seeded

    check_settings(model)
    seeded(model.random_state)
    waiting = [model._dictionary()] if kernels else []
    while waiting:
        part = waiting.pop()
        if isinstance(part, Union):
            waiting.extend(part.parts)
        if isinstance(part, Kernel):
            part.check_parameters()


def _check_format(header: dict[str, Any]) -> None:
    if header.get("format") != _FORMAT:
        raise ArchiveError("is not a sparsebayes model file")
    version = header.get("format_version")
    if type(version) is not int or version < 1:
        raise ArchiveError("is damaged (its format version is no number)")
    if version > _FORMAT_VERSION:
        raise ArchiveError(
            f"was written by sparsebayes {shortened(header.get('sparsebayes_version'))} in format "
            f"{version}; version {sparsebayes.__version__} reads formats up to {_FORMAT_VERSION}: "
            f"{_UPGRADE}"
        )
    for key in _KEYS:
        if key not in header:
            raise ArchiveError(f"is damaged (model.json lacks {key!r})")


def _fitted_scalars(model: Any) -> dict[str, Any]:
    certificate = model.certificate_
    names = getattr(model, "feature_names_in_", None)
    stored: dict[str, Any] = {
        "n_features_in_": int(model.n_features_in_),
        "feature_names_in_": None if names is None else [str(name) for name in names],
        "log_marginal_likelihood_": encode(float(model.log_marginal_likelihood_)),
        "converged_": bool(model.converged_),
        "n_iter_": int(model.n_iter_),
        "certificate_": {
            field.name: encode(float(getattr(certificate, field.name)))
            for field in dataclasses.fields(certificate)
        },
    }
    for name in _OPTIONAL_SCALARS:
        if hasattr(model, name):
            stored[name] = encode(float(getattr(model, name)))
    if hasattr(model, "noise_variance_"):
        stored["noise_variance_"] = encode(float(model.noise_variance_))
    if hasattr(model, "likelihood_"):
        stored["likelihood_"] = _stored_likelihood(model.likelihood_)
    if hasattr(model, "classes_"):
        stored["classes_"] = labels_to_json(model.classes_)
    if hasattr(model, "feature_relevance_"):
        stored["feature_relevance_"] = [float(share) for share in model.feature_relevance_]
    return stored


def _stored_likelihood(likelihood: Any) -> Any:
    try:
        return encode(likelihood)
    except NotStorableError:
        raise ValueError(
            f"the likelihood {shortened(repr(likelihood))} cannot be stored without its code: "
            "model files hold those of sparsebayes.likelihoods; pickle the estimator instead, for "
            "readers who trust you"
        ) from None


def _restored_posterior(spec: Any, arrays: Any, fitted: dict[str, Any]) -> Any:
    """The posterior, of a kind that the other fitted attributes agree with."""
    from sparsebayes.latent_posterior import LatentPosterior
    from sparsebayes.likelihoods import Likelihood
    from sparsebayes.posterior import Posterior

    if "likelihood_" not in fitted:
        return Posterior.from_spec(spec, arrays)
    likelihood, classes = fitted["likelihood_"], fitted.get("classes_")
    if not isinstance(likelihood, Likelihood):
        raise ArchiveError("is damaged (its likelihood is none)")
    posterior = LatentPosterior.from_spec(spec, arrays)
    n_latent = 1 if classes is None or len(classes) == 2 else len(classes)
    if not n_latent == likelihood.n_latent == len(posterior.offset):
        raise ArchiveError("is damaged (its number of classes contradicts itself)")
    return posterior


def _restored_scalars(stored: dict[str, Any], classifier: bool) -> dict[str, Any]:
    from sparsebayes.problem import Certificate

    figures = {field.name for field in dataclasses.fields(Certificate)}
    certificate = {
        key: float(decode(value)) for key, value in stored["certificate_"].items() if key in figures
    }
    fitted: dict[str, Any] = {
        "n_features_in_": int(stored["n_features_in_"]),
        "log_marginal_likelihood_": float(decode(stored["log_marginal_likelihood_"])),
        "converged_": bool(stored["converged_"]),
        "n_iter_": int(stored["n_iter_"]),
        "certificate_": Certificate(**certificate),
    }
    for name in _OPTIONAL_SCALARS:
        if name in stored:
            fitted[name] = float(decode(stored[name]))
    if classifier:
        fitted["classes_"] = labels_from_json(stored["classes_"])
    if classifier or "likelihood_" in stored:
        fitted["likelihood_"] = decode(stored["likelihood_"])
    else:
        fitted["noise_variance_"] = float(decode(stored["noise_variance_"]))
    if stored.get("feature_relevance_") is not None:
        shares = np.array(stored["feature_relevance_"], dtype=np.float64)
        if shares.shape != (fitted["n_features_in_"],) or not ((shares >= 0) & (shares <= 1)).all():
            raise ArchiveError("is damaged (its feature relevances are none)")
        fitted["feature_relevance_"] = shares
    names = stored.get("feature_names_in_")
    if names is not None:
        fitted["feature_names_in_"] = np.array(texts(names), dtype=object)
        if len(names) != fitted["n_features_in_"]:
            raise ArchiveError("is damaged (its number of features contradicts itself)")
    return fitted


def _estimator_class(name: str) -> Any:
    from sparsebayes import estimators

    return getattr(estimators, name)
