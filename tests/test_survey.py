"""Screens of a whole dictionary in parts, and glances between them."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from random_latent_problems import blobs
from random_problems import PRIORS
from sparsebayes import RVC, SparseBayesClassifier, engine
from sparsebayes.design import ArrayDesign
from sparsebayes.engine import Breakdown, screen
from sparsebayes.likelihoods import Bernoulli, Multinomial
from sparsebayes.problem import Certificate, Status, certify
from sparsebayes.solvers import relinearize, survey
from sparsebayes.solvers.expand import NOTHING, UNIT_NOISE, Fit, LatentProblem, Point, expand
from sparsebayes.solvers.structure import Found

kinds = pytest.mark.parametrize("shared", [True, False], ids=["shared", "own"])
priors = pytest.mark.parametrize("prior", PRIORS, ids=repr)


def expanded(shared, prior, n=60):
    latent = blobs(3, Multinomial(3), n=n, gamma=1.0, shared=shared).latent()
    active = np.array([2, 7, 31])
    return latent, expand(latent, prior, Point(active, np.array([0.5, 3.0, 20.0])))


@kinds
@priors
@pytest.mark.parametrize("weighted", [True, False])
def test_parts_find_what_the_whole_finds(shared, prior, weighted, monkeypatch):
    latent, at = expanded(shared, prior)
    if weighted:
        rng = np.random.default_rng(0)
        latent = type(latent)(
            latent.design, latent.t, rng.uniform(0.2, 3, 60), Multinomial(3), True, shared
        )
        at = expand(latent, prior, at.point)
    whole = survey.survey(latent, at)
    certificate, _ = certify(at.problem, at.state, UNIT_NOISE)
    assert whole.certificate == certificate
    monkeypatch.setattr(survey, "_CELLS", 1)
    monkeypatch.setattr(survey, "_FEWEST", 7)
    parts = survey.survey(latent, at)
    for name in ("max_gain", "gradient_norm", "max_curvature"):
        expected = getattr(certificate, name)
        assert getattr(parts.certificate, name) == pytest.approx(expected, rel=1e-6, abs=1e-9)
    for name in ("worth", "S", "norm"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(parts.active, whole.active)


@kinds
@priors
def test_a_glance_where_the_survey_was_made_sees_the_same_gains(shared, prior):
    latent, at = expanded(shared, prior)
    seen = survey.survey(latent, at)
    gains = survey.glance(latent, prior, at.mode, seen)
    assert (gains[seen.active] == 0).all()
    others = np.setdiff1d(np.arange(latent.n_atoms), seen.active)
    assert seen.worth[others].max() > 0.1
    np.testing.assert_allclose(gains[others], seen.worth[others], rtol=1e-6, atol=1e-8)


@kinds
def test_a_glance_elsewhere_is_about_right(shared):
    latent, at = expanded(shared, PRIORS[0])
    seen = survey.survey(latent, at)
    moved = expand(latent, PRIORS[0], at.point._replace(v=1.1 * at.point.v))
    exact = survey.survey(latent, moved).worth
    gains = survey.glance(latent, PRIORS[0], moved.mode, seen)
    others = np.setdiff1d(np.arange(latent.n_atoms), seen.active)
    assert np.abs(gains - exact)[others].max() < 0.1 * exact[others].max()


@kinds
def test_products_of_a_large_factor_leave_zeros_out(shared, monkeypatch):
    _, at = expanded(shared, PRIORS[0])
    whole = screen(at.quad, PRIORS[0], at.state)
    monkeypatch.setattr(engine, "_LARGE", 4)
    blocks = screen(at.quad, PRIORS[0], at.state)
    for name in ("S", "Q", "gains", "v", "X"):
        one, other = getattr(whole, name), getattr(blocks, name)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_columns_of_shared_variances_are_those_of_blocks():
    latent, at = expanded(True, PRIORS[0])
    every = np.arange(latent.n_atoms)
    columns = at.quad.columns(every)
    np.testing.assert_allclose(columns, at.quad.gram(every).G, rtol=1e-9, atol=1e-12)


@kinds
def test_a_fit_by_glances_has_its_certificate_over_all_atoms(shared, monkeypatch):
    monkeypatch.setattr(relinearize, "_WORK", 64)  # as if there were thousands of atoms
    monkeypatch.setattr(relinearize, "_CANDIDATES", 16)
    monkeypatch.setattr(survey, "_CELLS", 2**14)
    monkeypatch.setattr(survey, "_FEWEST", 16)
    surveys, glances = [], []

    def counted(kept, function):
        return lambda *args: kept.append(1) or function(*args)

    monkeypatch.setattr(relinearize, "survey", counted(surveys, survey.survey))
    monkeypatch.setattr(relinearize, "glance", counted(glances, survey.glance))
    X, y = load_digits(n_class=5, return_X_y=True)
    model = RVC(gamma=0.001, shared=shared, random_state=0).fit(X[:250], y[:250])
    assert model.converged_
    assert len(glances) >= len(surveys) - 1 > 0
    state, solution = model.solution_.state, model.solution_
    assert solution.certificate.holds(1e-6)
    assert state.active.size < 60


@kinds
def test_the_certificate_of_a_fit_is_that_of_the_whole_dictionary(shared, monkeypatch):
    monkeypatch.setattr(relinearize, "_WORK", 20)
    monkeypatch.setattr(survey, "_CELLS", 1)
    monkeypatch.setattr(survey, "_FEWEST", 9)
    latent = blobs(1, Multinomial(3), n=60, gamma=1.0, shared=shared).latent()
    solution = relinearize.solve(LatentProblem(latent, PRIORS[0]))
    quad = solution.quad
    point = Point(
        solution.state.active,
        solution.state.v / quad.norm[solution.state.active * quad.group] ** 2,
    )
    at = expand(latent, PRIORS[0], point)
    certificate, _ = certify(at.problem, at.state, UNIT_NOISE)
    assert solution.converged
    assert certificate.holds(1e-6)
    assert solution.certificate.max_curvature == pytest.approx(certificate.max_curvature, rel=1e-4)


@kinds
@pytest.mark.parametrize("parts", [True, False])
def test_a_model_without_atoms_is_surveyed(shared, parts, monkeypatch):
    if parts:
        monkeypatch.setattr(survey, "_CELLS", 1)
        monkeypatch.setattr(survey, "_FEWEST", 7)
    latent = blobs(3, Multinomial(3), n=60, gamma=1.0, shared=shared).latent()
    at = expand(latent, PRIORS[0], NOTHING)
    seen = survey.survey(latent, at)
    exact, statistics = certify(at.problem, at.state, UNIT_NOISE)
    assert seen.certificate.max_gain == pytest.approx(exact.max_gain)
    np.testing.assert_allclose(seen.worth, statistics.gains.reshape(60, -1).max(axis=1), rtol=1e-9)
    np.testing.assert_allclose(
        survey.glance(latent, PRIORS[0], at.mode, seen), seen.worth, rtol=1e-6, atol=1e-8
    )


def test_many_columns_of_noise_leave_no_atom():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 1100)), rng.integers(0, 3, 60)
    model = SparseBayesClassifier(shared=True, prior=20.0, random_state=0).fit(X, y)
    assert model.converged_
    assert sum(map(len, model.relevance_)) == 0


@kinds
def test_a_breakdown_with_nothing_yet_is_a_status(shared, monkeypatch):
    def broken(*_, **__):
        raise Breakdown

    latent = blobs(3, Multinomial(3), n=60, gamma=1.0, shared=shared).latent()
    monkeypatch.setattr(relinearize, "explore", lambda *_: Found(NOTHING))
    monkeypatch.setattr(relinearize, "converge", broken)
    solution = relinearize.solve(LatentProblem(latent, PRIORS[0]))
    assert solution.status is Status.BREAKDOWN
    assert solution.certificate.max_gain > 1


@kinds
def test_glances_beside_the_mode_know_that_intercepts_are_free(shared):
    case = blobs(3, Multinomial(3), n=60, gamma=1.0, shared=shared)
    point = Point(np.array([2, 7, 31]), np.array([0.5, 3.0, 20.0]))
    seen = []
    for offset in (0.0, 1e5):
        latent = case.latent(ArrayDesign(case.Phi + offset))
        exact = expand(latent, PRIORS[0], point)
        beside = expand(latent, PRIORS[0], point, loose=1e-2)
        gains = survey.glance(latent, PRIORS[0], beside.mode, survey.survey(latent, exact))
        seen.append(gains)
    np.testing.assert_allclose(seen[0], seen[1], rtol=0.05, atol=0.05)


@pytest.fixture
def large(monkeypatch):
    """Sixty atoms as if they were thousands: points surveyed, work sets, and what was active."""
    seen = {"surveyed": [], "sets": [], "active": set()}
    monkeypatch.setattr(relinearize, "_WORK", 20)
    monkeypatch.setattr(relinearize, "_CANDIDATES", 4)
    converge = relinearize.converge

    def surveyed(latent, at):
        seen["surveyed"].append(at.point)
        return survey.survey(latent, at)

    def converged(fit, latent, point, *rest, **options):
        per_atom = 1 if latent.shared else latent.K
        rows = latent.design.Phi[0]  # values at one row tell kernels apart
        seen["active"] |= set(rows[np.unique(point.active // per_atom)])
        seen["sets"].append((set(rows), set(seen["active"])))
        return converge(fit, latent, point, *rest, **options)

    monkeypatch.setattr(relinearize, "survey", surveyed)
    monkeypatch.setattr(relinearize, "converge", converged)
    return seen


@kinds
def test_atoms_that_were_in_the_model_stay_in_the_work_set(shared, large, monkeypatch):
    monkeypatch.setattr(relinearize, "explore", lambda *_: Found(NOTHING))
    monkeypatch.setattr(relinearize, "_WORK", 4)
    latent = blobs(1, Multinomial(3), n=60, gamma=4.0, shared=shared).latent()
    relinearize.solve(LatentProblem(latent, PRIORS[0]))
    assert len(large["sets"]) > 3
    assert all(active <= offered for offered, active in large["sets"])


@kinds
def test_work_that_leads_nowhere_ends_without_another_survey(shared, large, monkeypatch):
    monkeypatch.setattr(
        relinearize,
        "converge",
        lambda fit, latent, point, *_, **__: expand(latent, PRIORS[0], point),
    )
    latent = blobs(1, Multinomial(3), n=60, gamma=4.0, shared=shared).latent()
    solution = relinearize.solve(LatentProblem(latent, PRIORS[0]))
    assert not solution.converged
    assert len(large["surveyed"]) == 1


@pytest.mark.parametrize("holds", [(True, True), (True, False), (False, False), (False, True)])
def test_a_higher_end_is_not_taken_for_one_that_was_certified(holds, monkeypatch):
    latent = blobs(1, Bernoulli(), n=60, gamma=4.0, shared=False).latent()
    points = [Point(np.array([3, 40]), np.array([v, v])) for v in (1e-3, 1.0)]
    low, high = sorted(
        (expand(latent, PRIORS[0], point) for point in points), key=lambda at: at.state.objective
    )
    ends = [
        relinearize.Ending(at, Certificate(0.0 if held else 1.0, 0.0, -1.0))
        for at, held in zip((low, high), holds, strict=True)
    ]
    monkeypatch.setattr(relinearize, "exchanged_often", lambda *_, **__: high)
    monkeypatch.setattr(relinearize, "_finish", lambda *_: ends[1])
    fit = Fit(latent, PRIORS[0], 100, None)
    found = relinearize._elsewhere(fit, latent, ends[0], 1e-6, np.random.RandomState(0))
    assert found is (ends[0] if holds == (True, False) else ends[1])
