"""The classifiers among others: scikit-learn's tools, data of every kind, kernels of every kind."""

import pickle
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import kernels as gp
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr, get_tags

from pairwise import pairwise
from sparsebayes import RVC, SparseBayesClassifier
from sparsebayes.dictionaries import Kernel, Linear
from test_classifiers import blobs
from test_interoperability import STORAGES, reachable_bytes

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X2, Y2 = blobs(2)
X3, Y3 = blobs(3)
TREES = np.array(["ash", "birch", "oak"])
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)


# scikit-learn's tools


def test_one_versus_rest():
    model = OneVsRestClassifier(RVC(gamma=0.5)).fit(X3, TREES[Y3])
    assert [type(part) for part in model.estimators_] == [RVC] * 3
    assert model.score(X3, TREES[Y3]) > 0.8
    assert_allclose(model.predict_proba(X3).sum(axis=1), 1)
    joint = RVC(gamma=0.5).fit(X3, TREES[Y3])
    assert np.mean(joint.predict(X3) == model.predict(X3)) > 0.85
    pairs = OneVsOneClassifier(SparseBayesClassifier()).fit(X3, TREES[Y3])
    assert pairs.score(X3, TREES[Y3]) > 0.8


def test_several_labels():
    Y = np.stack([Y2, X2[:, 2] > 0], axis=1)
    model = OneVsRestClassifier(SparseBayesClassifier()).fit(X2, Y)
    assert model.predict(X2).shape == (len(X2), 2)
    both = MultiOutputClassifier(SparseBayesClassifier()).fit(X2, Y)
    assert np.mean(both.predict(X2) == Y) > 0.9


def test_searches_and_pipelines():
    search = GridSearchCV(
        make_pipeline(StandardScaler(), SparseBayesClassifier(Kernel())),
        {"sparsebayesclassifier__dictionary__gamma": [1e-3, 0.5, 1e3]},
        scoring="neg_log_loss",
        cv=FOLDS,
    )
    search.fit(X2, TREES[Y2])
    assert search.best_params_["sparsebayesclassifier__dictionary__gamma"] < 1e3
    assert search.best_estimator_.score(X2, TREES[Y2]) > 0.85
    assert search.best_estimator_.predict_proba(X2[:3]).shape == (3, 2)
    assert cross_val_score(SparseBayesClassifier(), X3, TREES[Y3], cv=FOLDS).mean() > 0.7
    auc = cross_val_score(SparseBayesClassifier(), X2, Y2, cv=FOLDS, scoring="roc_auc")
    assert auc.mean() > 0.9


def test_out_of_sample_probabilities():
    X, labels = X3, TREES[Y3]
    model = SparseBayesClassifier()
    p = cross_val_predict(model, X, labels, cv=FOLDS, method="predict_proba")
    assert p.shape == (len(X), 3)
    assert log_loss(labels, p) < 0.7
    log_p = cross_val_predict(model, X, labels, cv=FOLDS, method="predict_log_proba")
    assert_allclose(np.exp(log_p), p)
    f = cross_val_predict(model, X, labels, cv=FOLDS, method="decision_function")
    assert_array_equal(f.argmax(axis=1), p.argmax(axis=1))
    two = SparseBayesClassifier().fit(X2, TREES[Y2])
    scores = two.decision_function(X2), two.predict_proba(X2)[:, 1]
    first, second = (roc_auc_score(TREES[Y2] == two.classes_[1], each) for each in scores)
    assert first == second


def test_calibration_and_ensembles():
    X, labels = X3, TREES[Y3]
    calibrated = CalibratedClassifierCV(SparseBayesClassifier(), cv=FOLDS).fit(X, labels)
    assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1)
    assert calibrated.score(X, labels) > 0.8
    bag = BaggingClassifier(SparseBayesClassifier(), n_estimators=3, random_state=0).fit(X, labels)
    assert bag.score(X, labels) > 0.8
    vote = VotingClassifier(
        [("ours", SparseBayesClassifier()), ("theirs", LogisticRegression())], voting="soft"
    ).fit(X, labels)
    assert vote.score(X, labels) > 0.8


def test_importance_of_columns():
    model = SparseBayesClassifier().fit(X2, Y2)
    found = permutation_importance(model, X2, Y2, n_repeats=3, random_state=0)
    assert found.importances_mean.argmax() == 0


def test_clone_and_nested_parameters():
    model = SparseBayesClassifier(Linear() + Kernel(gamma=0.5), class_weight={0: 2})
    twin = clone(model).set_params(dictionary__1__gamma=2.0)
    assert repr(clone(model)) == repr(model)
    assert model.dictionary.parts[1].gamma == 0.5
    assert twin.class_weight == {0: 2}
    assert not hasattr(clone(model.fit(X2, Y2)), "classes_")
    assert is_classifier(model)
    assert get_tags(model).classifier_tags.multi_class


def test_parameters_and_data_are_left_alone():
    weight, centers = {0: 2.0, 1: 0.5}, np.zeros((2, 4))
    model = RVC(gp.RBF(1.0), class_weight=weight, centers=centers, shared=True)
    X, y, w = X2.copy(), Y2.copy(), 1 + np.arange(len(X2)) / 60
    model.fit(X, y, sample_weight=w).predict_proba(X)
    assert model.class_weight is weight
    assert model.centers is centers
    assert weight == {0: 2.0, 1: 0.5}
    assert_array_equal(X, X2)
    assert_array_equal(y, Y2)
    assert_array_equal(w, 1 + np.arange(len(X2)) / 60)


def test_html():
    assert "SparseBayesClassifier" in estimator_html_repr(SparseBayesClassifier(Kernel()))
    assert "RVC" in estimator_html_repr(RVC(gamma=0.5).fit(X2, Y2))


def test_not_fitted():
    for call in (
        "predict",
        "predict_proba",
        "predict_log_proba",
        "decision_function",
        "predict_distribution",
    ):
        with pytest.raises(NotFittedError):
            getattr(RVC(), call)(X2)
    with pytest.raises(NotFittedError):
        SparseBayesClassifier().save("nowhere")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_fitted_models_are_small(n_classes):
    model = SparseBayesClassifier()
    few, many = blobs(n_classes, 60), blobs(n_classes, 3000)
    small = len(pickle.dumps(model.fit(*few)))
    large = pickle.dumps(model.fit(*many))
    assert len(large) < small + 20_000
    assert reachable_bytes(vars(model)) < 40_000
    again = pickle.loads(large)
    assert_array_equal(again.predict_proba(few[0]), model.predict_proba(few[0]))
    assert_array_equal(again.classes_, model.classes_)


def test_a_relevance_vector_machine_is_small():
    model = RVC(gamma=0.5).fit(*blobs(2, 400))
    assert reachable_bytes(vars(model)) < 60_000
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X2), model.predict(X2))


# Data of every kind


@cache
def _in_memory(model, n_classes):
    X, y = blobs(n_classes, 30)
    X = X.astype(np.float32).astype(np.float64)
    X[np.abs(X) < 0.5] = 0
    return X, y, model.fit(X, y).predict_proba(X)


@pairwise(
    storage=list(STORAGES),
    n_classes=[2, 3],
    model={"linear": SparseBayesClassifier(), "rbf": RVC(gamma=0.05)},
)
def test_storage_makes_no_difference(model, n_classes, storage):
    X, y, want = _in_memory(model, n_classes)
    other = STORAGES[storage](X)
    got = model.fit(other, y).predict_proba(other)
    assert got.dtype == np.float64
    assert_allclose(got, want, atol=1e-4)
    assert_array_equal(got.argmax(axis=1), model.predict(other))


@pytest.mark.parametrize("library", [pd, pl])
def test_feature_names(library):
    frame = library.DataFrame({name: X2[:, j] for j, name in enumerate("abcd")})
    model = SparseBayesClassifier().fit(frame, library.Series(TREES[Y2]))
    assert model.feature_names_in_.tolist() == list("abcd")
    assert_array_equal(model.classes_, ["ash", "birch"])
    assert model.predict_proba(frame).shape == (len(X2), 2)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(library.DataFrame({name: X2[:, j] for j, name in enumerate("abcz")}))


def test_sparse_entries_stored_in_parts():
    X = sp.csr_array(X2 * (np.abs(X2) > 0.5))
    parts = sp.csr_array(
        (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape
    )
    want = SparseBayesClassifier().fit(X, Y2).predict_proba(X)
    assert_array_equal(SparseBayesClassifier().fit(parts, Y2).predict_proba(parts), want)


# Kernels of every kind


@pytest.mark.parametrize(("X", "y"), [(X2, Y2), (X3, Y3)], ids=["two", "three"])
def test_precomputed_kernels(X, y):
    K = rbf_kernel(X, gamma=0.5)
    want = RVC(gamma=0.5).fit(X, y)
    for model in (RVC("precomputed"), SparseBayesClassifier(Kernel("precomputed"))):
        assert get_tags(model).input_tags.pairwise
        model.fit(K, y)
        for got, expected in zip(model.relevance_, want.relevance_, strict=True):
            assert_array_equal(got, expected)
        new = rbf_kernel(X[:7] + 0.1, X, gamma=0.5)
        assert_allclose(model.predict_proba(new), want.predict_proba(X[:7] + 0.1), atol=1e-4)
        with pytest.raises(ValueError, match="square"):
            model.fit(K[:, :20], y)
    assert cross_val_score(RVC("precomputed"), K, y, cv=FOLDS).mean() > 0.7


def test_precomputed_kernels_with_weights():
    K, w = rbf_kernel(X3, gamma=0.5), np.arange(len(X3)) % 4
    model = RVC("precomputed").fit(K, Y3, sample_weight=w)
    keep = np.flatnonzero(w)
    small = RVC("precomputed").fit(K[np.ix_(keep, keep)], Y3[keep], sample_weight=w[keep])
    assert_allclose(model.predict_proba(K), small.predict_proba(K[:, keep]), atol=1e-9)
    for relevance in model.relevance_:
        assert (w[relevance] > 0).all()


def test_kernels_by_function_and_object():
    want = RVC(gamma=0.5).fit(X2, Y2).predict_proba(X2)
    of_function = RVC(lambda X, Z: rbf_kernel(X, Z, gamma=0.5)).fit(X2, Y2)
    assert_allclose(of_function.predict_proba(X2), want, atol=1e-4)
    assert_allclose(RVC(gp.RBF(1.0)).fit(X2, Y2).predict_proba(X2), want, atol=1e-4)


def test_centers():
    grid = np.random.default_rng(0).normal(size=(12, 4))
    given = RVC(gamma=0.2, centers=grid).fit(X3, Y3)
    for relevance, vectors in zip(given.relevance_, given.relevance_vectors_, strict=True):
        assert_array_equal(vectors, grid[relevance])
    means = RVC(gamma=0.2, centers=10, random_state=0).fit(X3, Y3)
    assert max(part.max(initial=0) for part in means.relevance_) < 10
    assert min(given.score(X3, Y3), means.score(X3, Y3)) > 0.7


@pytest.mark.parametrize("kind", ["boolean", "Int64", "string", "category"])
def test_labels_of_nullable_columns(kind):
    """Labels keep their type, and a gap is told."""
    X, y = blobs(2, 30)
    plain = (
        y.astype(bool) if kind == "boolean" else y if kind == "Int64" else np.array(["a", "b"])[y]
    )
    column = pd.Series(plain, dtype=kind)
    model = SparseBayesClassifier().fit(X, column)
    assert_array_equal(model.classes_, np.unique(plain), strict=kind in ("boolean", "Int64"))
    assert model.score(X, column) == np.mean(model.predict(X) == plain)
    gap = column.copy()
    gap[3] = None
    with pytest.raises(ValueError, match="1 of 30 labels are missing"):
        SparseBayesClassifier().fit(X, gap)
