"""What was fitted and what is certain about it, in sentences."""

import math
from typing import Any

import numpy as np

from sparsebayes.problem import Status
from sparsebayes.reporting._atoms import Kept, kernels_of, kinds_of
from sparsebayes.reporting._html import Html, cut, listed, name, number, tag, text
from sparsebayes.reporting._subject import Subject
from sparsebayes.reporting._tables import Column, table

__all__ = ["about_certificate", "about_evidence", "about_model", "about_noise", "settings"]

_NAMES_SHOWN = 8
_WIDTHS = {
    "scale": '"scale": taken from the spread of the inputs, not learned',
    "auto": '"auto": one over the number of inputs, not learned',
    "pooled": "found in the data before the fit, which held it",
    "pooled-ard": "found in the data before the fit, which held them",
    "evidence": "learned from the data",
    "ard": "learned from the data",
}


def about_model(given: Subject) -> list[Html]:
    """Say in sentences what was fitted to what."""
    model = given.model
    names = given.feature_names
    shown = [name(title, 40) for title in names[:_NAMES_SHOWN]]
    inputs = listed(shown, len(names) - len(shown))
    said = [
        Html(f"{_kind(given)} predicts {_targets(given)} from {_counted_inputs(names)}{inputs}.")
    ]
    if given.steps:
        passed = listed([name(step, 40) for step in given.steps])
        said.append(
            Html(f"Inputs pass through {passed} first; below they are in the units it makes.")
        )
    if given.training is not None:
        said.append(text(f"It was fitted to {given.training.n} rows."))
    said.append(_selection(model))
    said += _widths(given)
    return said


def _kind(given: Subject) -> Html:
    model = given.model
    kind = tag("code", type(model).__name__)
    if given.classifies:
        return Html(f"This sparse Bayesian classifier ({kind})")
    if given.gaussian:
        return Html(f"This sparse Bayesian regression ({kind})")
    likelihood = name(type(model.likelihood_).__name__)
    return Html(f"This sparse Bayesian regression ({kind}, {likelihood} likelihood)")


def _targets(given: Subject) -> Html:
    names = listed(
        [name(title, 60) for title in given.target_names[:_NAMES_SHOWN]],
        max(len(given.target_names) - _NAMES_SHOWN, 0),
    )
    if not given.classifies:
        return names
    labels = given.model.classes_.tolist()
    shown = [name(label, 40) for label in labels[:_NAMES_SHOWN]]
    which = listed(shown, len(labels) - len(shown))
    return Html(f"the class of {names}, one of {which},")


def _counted_inputs(names: list[str]) -> str:
    return "1 input: " if len(names) == 1 else f"{len(names)} inputs: "


def _selection(model: Any) -> Html:
    atoms = model.posterior_.atoms
    if atoms.size == 0:
        return text(
            f"None of {atoms.count} candidate atoms was worth its price, so it predicts the same "
            "everywhere."
        )
    entries = len(Kept(model).weights)
    more = f", with {entries} weights in all" if entries > atoms.size else ""
    return Html(f"Of {atoms.count} candidate atoms it keeps {kinds_of(atoms)}{more}.")


def _widths(given: Subject) -> list[Html]:
    """What is known of gamma, where it is one number or one for each input."""
    kernels = kernels_of(given.model.posterior_.atoms)
    if len(kernels) != 1 or kernels[0].gamma_ is None:
        return []
    spelled = getattr(given.model, "gamma", None)
    how = _WIDTHS.get(spelled, "given") if isinstance(spelled, str) else "given"
    found = kernels[0].gamma_
    if np.ndim(found) == 0:
        return [text(f"The inverse squared width gamma of its kernel is {number(found)} ({how}).")]
    return [text(f"Its kernel has one inverse squared width gamma for each input ({how}).")]


def about_noise(given: Subject) -> Html:
    """Say what is known of the noise.

    Parameters
    ----------
    given : Subject
        What the report is about.

    Returns
    -------
    Html
        A sentence or two.
    """
    model = given.model
    if given.classifies:
        return text(
            "Noise: a classifier has no noise of its own. How far classes overlap is in the "
            "probabilities."
        )
    if not given.gaussian:
        return Html(
            f"Noise: that of the {name(type(model.likelihood_).__name__)} likelihood around the "
            "function; it has no variance of its own."
        )
    variance = float(model.noise_variance_)
    how = "given, not estimated" if model.noise_variance is not None else "estimated"
    shared = ", the same for all targets" if len(given.target_names) > 1 else ""
    return text(
        f"Noise: standard deviation {number(math.sqrt(variance))} (variance {number(variance)}), "
        f"{how}{shared}. Observations scatter by so much around the function; error bars of "
        "predictions include it."
    )


def about_evidence(given: Subject) -> list[Html]:
    """Say in sentences what the evidence is."""
    model = given.model
    how = "" if given.gaussian else ", by Laplace's approximation"
    said = [
        text(
            f"Log evidence: {number(model.log_marginal_likelihood_, 6)} nats{how}. This is the log "
            "probability of the training targets with the weights averaged out. It compares "
            "models of the same targets; 3 nats are a factor of 20."
        )
    ]
    entries, dof = len(Kept(model).weights), getattr(model, "degrees_of_freedom_", None)
    if dof is not None and entries:
        said.append(
            text(
                f"Degrees of freedom: the data determine {number(float(dof), 3)} of {entries} "
                f"weight{'s' if entries > 1 else ''}; the rest is left to the prior."
            )
        )
    return said


def about_certificate(given: Subject) -> list[Html]:
    """Say in sentences what is certain about the answer."""
    model = given.model
    found = model.certificate_
    steepness = (
        f"The objective's steepest slope is {number(found.gradient_norm, 2)}, its largest "
        f"curvature {number(found.max_curvature, 2)}"
    )
    if np.isfinite(found.max_curvature):
        steepness += " (below zero: a maximum, no saddle)" if found.max_curvature < 0 else ""
    gain = number(found.max_gain, 2)
    fraction = f" in {number(found.fraction, 3)} of the dictionary, drawn at random," * (
        found.fraction < 1
    )
    if model.converged_:
        first = (
            f"Certificate: it holds. No single change of the model{fraction} - an atom added, "
            f"removed or weighted anew - would gain more than {gain} nats."
        )
    else:
        first = (
            f"Certificate: it does not hold. A single change of the model{fraction} would still "
            f"gain {gain} nats, or the slope is not zero."
        )
    return [text(first), text(f"{steepness}.")]


def advice(model: Any) -> str | None:
    """What the fit itself warned of.

    Parameters
    ----------
    model : estimator
        Fitted, or loaded from a file, which does not hold the advice.

    Returns
    -------
    str or None
        The advice; None where all is well.
    """
    solution = getattr(model, "solution_", None)
    if solution is not None:
        good = (Status.CONVERGED, Status.SETTLED)
        return None if solution.status in good else str(solution.status.value)
    if model.converged_:
        return None
    return (
        "the certificate did not hold when the fit ended. Fit again to be told why: a loaded model "
        "does not know."
    )


def settings(given: Subject) -> Html:
    """List the parameters of the estimator.

    Parameters
    ----------
    given : Subject
        What the report is about.

    Returns
    -------
    Html
        A table of those that were changed first.
    """
    model = given.model
    default = type(model)().get_params(deep=False)
    rows = []
    for key, value in model.get_params(deep=False).items():
        shown = repr(value)
        changed = shown != repr(default[key])
        rows.append(
            (
                not changed,
                (
                    tag("code", key),
                    tag("code", name(cut(shown, 200), 200)),
                    "yes" if changed else "",
                ),
            )
        )
    rows.sort(key=lambda row: row[0])
    columns = [
        Column("parameter", numeric=False),
        Column("value", numeric=False),
        Column("changed", numeric=False),
    ]
    return table("settings", "Parameters of the estimator", columns, [row for _, row in rows])
