"""``sparsebayes info``: what a model file holds."""

from __future__ import annotations

import argparse
import os
import tempfile
from typing import TYPE_CHECKING, Any

from sparsebayes.commands._options import RawText
from sparsebayes.commands._summary import Summary, add_summary_options

if TYPE_CHECKING:
    from sparsebayes.persistence import ModelFile

_NAMES_SHOWN = 8
_LONGEST_NAME = 40

_EPILOG = """\
examples:
  sparsebayes info houses.model
  sparsebayes info houses.model --json | python -m json.tool

A model file is arrays and text, not a program: opening a stranger's runs no code.
"""


def add(commands: Any) -> None:
    """Add the command to a parser.

    Parameters
    ----------
    commands : subparsers of argparse
        Of the program's parser.
    """
    info = commands.add_parser(
        "info",
        help="tell what a model file holds",
        description="Tell what a model file holds: what was fitted, to which columns, what was\n"
        "found, and what it can be exported to.",
        epilog=_EPILOG,
        formatter_class=RawText,
    )
    info.add_argument("model", metavar="MODEL", help="file written by sparsebayes fit")
    add_summary_options(info)


def run(arguments: argparse.Namespace) -> None:
    """Run ``sparsebayes info``.

    Parameters
    ----------
    arguments : Namespace
        From the parser.
    """
    from sparsebayes import persistence
    from sparsebayes.commands.fit import summarize

    stored = persistence.read_model(arguments.model)
    model = stored.model
    found = Summary(_title(arguments.model, stored))
    found.line("estimator", " ".join(repr(model).split()))
    _describe_columns(found, stored)
    summarize(found, model, int(model.posterior_.atoms.count))
    if hasattr(model, "degrees_of_freedom_"):
        freedom = float(model.degrees_of_freedom_)
        found.line("freedom", f"{freedom:.4g} degrees of freedom", degrees_of_freedom=freedom)
    _describe_exports(found, model)
    found.line(
        "written by",
        f"sparsebayes {stored.version}, in format {stored.format_version}",
        sparsebayes_version=stored.version,
        format_version=stored.format_version,
    )
    size = os.path.getsize(arguments.model)
    found.line("size", f"{size} bytes", model=arguments.model, file_bytes=size)
    found.show(arguments)


def _title(path: str, stored: ModelFile) -> str:
    """What kind of model it is, and of what."""
    task = _task(stored.model)
    kind = "regression of counts" if task == "counts" else task
    targets = " and ".join(map(_shown, stored.target_names or ()))
    return f"{path}: {kind}" + (f", {targets}" if targets else "")


def _task(model: Any) -> str:
    from sparsebayes.likelihoods import Poisson

    if hasattr(model, "classes_"):
        return "classification"
    return "counts" if isinstance(getattr(model, "likelihood_", None), Poisson) else "regression"


def _describe_columns(found: Summary, stored: ModelFile) -> None:
    model = stored.model
    names = getattr(model, "feature_names_in_", None)
    targets = stored.target_names
    found.facts(task=_task(model))
    if targets is not None:
        found.line("target", ", ".join(map(_shown, targets)))
    d = int(model.n_features_in_)
    text = f"{d}, without names"
    if names is not None:
        text = ", ".join(_shown(name) for name in names[:_NAMES_SHOWN])
        if d > _NAMES_SHOWN:
            text += f" and {d - _NAMES_SHOWN} more"
    found.line(
        "features",
        text,
        target=targets,
        n_features=d,
        features=None if names is None else names.tolist(),
    )


def _shown(name: str) -> str:
    """Give a name that a terminal can show on one line."""
    text = name if name.isprintable() else repr(name)
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 3] + "..."


def _describe_exports(found: Summary, model: Any) -> None:
    """Try every export, as only that tells for certain."""
    from sparsebayes.export import ExportError, export_c, export_onnx

    sizes: dict[str, int | None] = {}
    reasons: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        for name, export in (("C", export_c), ("ONNX", export_onnx)):
            try:
                export(model, path)
                sizes[name] = os.path.getsize(path)
            except (ExportError, ImportError) as error:
                sizes[name] = None
                reasons[name] = " ".join(str(error).split())
    texts = [f"{name}, {size} bytes" for name, size in sizes.items() if size is not None]
    if len(reasons) == len(sizes) and len(set(reasons.values())) == 1:
        reasons = {" or ".join(sizes): reasons["C"]}
    texts += [f"not to {name}: {reason}" for name, reason in reasons.items()]
    for place, text in enumerate(texts):
        found.line("export" if place == 0 else "", text)
    found.facts(exports={name.lower(): size for name, size in sizes.items()})
