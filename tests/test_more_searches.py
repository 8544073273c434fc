"""Searches that are made once more where they cost little beside what came before."""

import numpy as np

from sparsebayes import SparseBayesClassifier
from sparsebayes.datasets import mixtures
from sparsebayes.dictionaries import Kernel
from sparsebayes.solvers import relinearize, rounds


def test_atoms_of_classes_are_exchanged_among_all_samples(monkeypatch):
    data = mixtures(12_000, random_state=3)
    model = SparseBayesClassifier(Kernel("rbf", gamma=1.0, centers=data.X[:300]))
    evidence = model.fit(data.X, data.y).log_marginal_likelihood_
    assert model.converged_
    monkeypatch.setattr(relinearize, "_LEFT_OUT", np.inf)
    before = model.fit(data.X, data.y).log_marginal_likelihood_
    assert evidence > before + 5.0


def test_a_search_that_breaks_off_loses_nothing(monkeypatch):
    data = mixtures(9000, random_state=1)
    model = SparseBayesClassifier(Kernel("rbf", gamma=1.0, centers=data.X[:300]))
    monkeypatch.setattr(relinearize, "_LEFT_OUT", np.inf)
    spent = model.fit(data.X, data.y).n_iter_
    evidence = model.log_marginal_likelihood_
    monkeypatch.undo()
    model.set_params(max_iter=spent + 30).fit(data.X, data.y)  # too few for what comes after
    assert model.converged_
    assert model.log_marginal_likelihood_ >= evidence - 1e-6


def test_a_fit_on_rows_that_cannot_go_on_keeps_what_was_certified(monkeypatch):
    data = mixtures(30_000, random_state=0)
    model = SparseBayesClassifier(
        Kernel("rbf", gamma=1.0, centers=data.X[:300]), memory="200MB", random_state=0
    )
    elsewhere, tried, stopped = rounds.Following.elsewhere, [], []

    def worse(worker, found):
        tried.append(elsewhere(worker, found))
        point = found.point
        return point._replace(v=1e-3 * point.v) if len(tried) == 1 else None

    def stuck(worker, found, tol):
        if not tried:
            return onward(worker, found, tol)
        stopped.append(found)
        return None

    onward = rounds.Following.onward
    monkeypatch.setattr(rounds.Following, "elsewhere", worse)
    monkeypatch.setattr(rounds.Following, "onward", stuck)
    model.fit(data.X, data.y)
    assert stopped
    assert model.converged_
    assert model.certificate_.holds(1e-6)
