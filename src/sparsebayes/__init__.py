"""Sparse Bayesian learning: the few basis functions the data support, with error bars."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "RVC",
    "RVR",
    "EvidenceSearch",
    "SparseBayesClassifier",
    "SparseBayesRegressor",
    "__version__",
    "denoise",
    "export_c",
    "export_onnx",
    "load",
    "reconstruct",
]

if TYPE_CHECKING:
    from sparsebayes.estimators import RVC, RVR, SparseBayesClassifier, SparseBayesRegressor
    from sparsebayes.export import export_c, export_onnx
    from sparsebayes.model_selection import EvidenceSearch
    from sparsebayes.persistence import load
    from sparsebayes.reconstruction import reconstruct
    from sparsebayes.signals import denoise

# Imported on first use: scikit-learn takes seconds to import, `sparsebayes --help` must not.
_HOMES = {
    "EvidenceSearch": "model_selection",
    "RVC": "estimators",
    "RVR": "estimators",
    "SparseBayesClassifier": "estimators",
    "SparseBayesRegressor": "estimators",
    "denoise": "signals",
    "export_c": "export",
    "export_onnx": "export",
    "load": "persistence",
    "reconstruct": "reconstruction",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
