"""The public surface: complete, sorted, documented, and cheap to import."""

import importlib
import inspect
import subprocess
import sys

import pytest

import sparsebayes
import sparsebayes.estimators

MODULES = [
    "sparsebayes",
    "sparsebayes.datasets",
    "sparsebayes.dictionaries",
    "sparsebayes.estimators",
    "sparsebayes.export",
    "sparsebayes.hyperpriors",
    "sparsebayes.metrics",
    "sparsebayes.model_selection",
    "sparsebayes.plotting",
    "sparsebayes.predictive",
    "sparsebayes.reconstruction",
    "sparsebayes.reporting",
    "sparsebayes.rows",
    "sparsebayes.sensing",
    "sparsebayes.signals",
]


@pytest.mark.parametrize("module", MODULES)
def test_exported_names(module):
    home = importlib.import_module(module)
    # As ruff sorts them: capitals, classes, then the rest.
    in_order = sorted(home.__all__, key=lambda name: (not name.isupper(), name))
    assert home.__all__ == in_order
    assert home.__doc__
    for name in home.__all__:
        thing = getattr(home, name)
        assert isinstance(thing, str) or inspect.getdoc(thing), f"{module}.{name} has no docstring"
        assert name in dir(home)
    visible = {
        name
        for name, value in vars(home).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith(module)
    }
    assert visible <= set(home.__all__)


def test_names_that_users_rely_on():
    names = {"RVC", "RVR", "SparseBayesClassifier", "SparseBayesRegressor", "__version__", "load"}
    assert names <= set(sparsebayes.__all__)
    assert {"EvidenceSearch", "denoise", "reconstruct"} <= set(sparsebayes.__all__)
    for name in names - {"__version__", "load"}:
        assert getattr(sparsebayes.estimators, name) is getattr(sparsebayes, name)
    assert {"Bias", "Kernel", "Linear", "Union"} <= set(sparsebayes.dictionaries.__all__)
    assert {"Flat", "Smoothness"} <= set(sparsebayes.hyperpriors.__all__)


@pytest.mark.parametrize("name", sorted(sparsebayes.estimators.__all__))
def test_every_parameter_and_method_is_documented(name):
    estimator = getattr(sparsebayes, name)
    text = inspect.getdoc(estimator)
    for parameter in inspect.signature(estimator).parameters:
        assert parameter in text
    classifier = hasattr(estimator, "predict_proba")
    y = [0, 1, 0, 1] if classifier else [0.1, 1.0, 2.2, 3.9]
    model = estimator().fit([[0.0], [1.0], [2.0], [4.0]], y)
    fitted = [a for a in vars(model) if a.endswith("_") and not a.startswith("_")]
    for attribute in fitted:
        assert attribute in text, f"{name}.{attribute} is not documented"
    methods = ["sample_y", "partial_fit", "merge"]
    if classifier:
        methods = ["predict_proba", "predict_log_proba", "decision_function"]
    for method in ("fit", "predict", "predict_distribution", "report", "save", *methods):
        assert "Parameters" in inspect.getdoc(getattr(estimator, method))


def test_an_unknown_name():
    with pytest.raises(AttributeError, match="no attribute 'RVC2'"):
        _ = sparsebayes.RVC2


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, sparsebayes; print([m for m in ('sklearn', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
