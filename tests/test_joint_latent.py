"""EM and MacKay's updates where the likelihood is not Gaussian: mode and update in turn."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pairwise import in_turn
from random_latent_problems import LIKELIHOODS, blobs, latent_cases
from random_problems import examples, random_case
from sparsebayes import RVC, RVR, SparseBayesClassifier, SparseBayesRegressor
from sparsebayes.design import ArrayDesign
from sparsebayes.hyperpriors import Flat, Gamma, Smoothness, gain
from sparsebayes.laplace import Latent
from sparsebayes.likelihoods import Bernoulli, Gaussian, Multinomial, Poisson
from sparsebayes.problem import Problem, Status
from sparsebayes.solvers import joint, relinearize
from sparsebayes.solvers.expand import UNIT_NOISE, Fit, LatentProblem, Point, expand, inched, settle

BOTH = pytest.mark.parametrize("update", ["em", "mackay"])
NONE = np.empty(0, dtype=np.intp)


class TestFormulas:
    """Tipping 2001, section 3: the Gaussian updates with the mode and the curvature there."""

    @examples(30)
    @given(latent_cases(), st.sampled_from(["em", "mackay"]))
    def test_one_step_is_that_of_the_textbook(self, case, update):
        assume(case.active.size)
        problem = LatentProblem(case.latent(), Flat())
        model = joint._model(problem, Point(case.active, case.v))
        assume(model.point.active.size == case.active.size)
        m, group = case.columns.size, case.group
        square, spread = case.dense.w**2, np.diag(case.dense.covariance)[:m]
        dof = 1 - spread / case.v_columns
        square, spread, dof = (x.reshape(-1, group).sum(axis=1) for x in (square, spread, dof))
        assume(dof.min() > 1e-5)  # the dense form loses the digits of smaller ones
        expected = (square + spread) / group if update == "em" else square / dof
        found = joint._updated(model, UNIT_NOISE, update, NONE).point
        np.testing.assert_array_equal(found.active, case.active)
        np.testing.assert_allclose(found.v, expected, rtol=1e-4)

    def test_worthless_atoms_are_left_out_of_the_next_point(self):
        case = blobs(0, Bernoulli())
        problem = LatentProblem(case.latent(), Flat())
        model = joint._model(problem, Point(np.arange(60), np.where(np.arange(60) % 10, 1e-6, 1.0)))
        gone, _ = joint._worthless(Flat(), model.state)
        assert 0 < gone.size < 60
        found = joint._updated(model, UNIT_NOISE, "em", gone).point
        whole = joint._updated(model, UNIT_NOISE, "em", NONE).point
        np.testing.assert_array_equal(found.active, np.setdiff1d(np.arange(60), gone))
        assert whole.active.size == 60

    def test_all_atoms_start_with_the_same_share(self):
        case = blobs(0, Multinomial(3), center=False)
        point = joint._first_point(LatentProblem(case.latent(), Flat()), UNIT_NOISE, None)
        assert point.active.tolist() == list(range(180))
        power = (case.Phi**2).mean(axis=0)
        shares = point.v.reshape(60, 3) * power[:, None]
        np.testing.assert_allclose(shares.sum(axis=0), 4.0)
        np.testing.assert_allclose(shares, shares[0, 0])

    def test_a_start_is_gone_on_from(self):
        case = blobs(0, Bernoulli())
        start = Point(np.array([7, 3]), np.array([2.0, 5.0]))
        assert joint._first_point(LatentProblem(case.latent(), Flat()), UNIT_NOISE, start) == start
        whole = joint._first_point(LatentProblem(case.latent(), Gamma(1.0, 1.0)), UNIT_NOISE, start)
        assert whole.active.size == 60
        assert (whole.v[7], whole.v[3]) == (2.0, 5.0)


def certified(case, solution, quad, prior):
    """Gradient and gains at the end, by dense definitions of the Laplace approximation."""
    state = solution.state
    norm = quad.norm[state.active * quad.group]
    end = case.at(state.active, state.v / norm**2)
    dense = end.dense
    density = prior.log_density(state.v, 1.0).sum()
    assert state.objective == pytest.approx(dense.log_evidence + density, rel=1e-6, abs=1e-6)
    slope = 0.5 * end.v_columns * (dense.Q**2 - dense.S)[end.columns]
    slope = slope.reshape(-1, end.group).sum(axis=1) + prior.log_derivatives(state.v, 1.0).u
    assert np.abs(slope).max(initial=0.0) < 2e-3
    if end.group > 1:
        return
    out = np.setdiff1d(np.arange(dense.S.size), end.columns)
    usable = dense.S[out] > 1e-6 * quad.norm[out] ** 2
    s, q2 = dense.S[out][usable], dense.Q[out][usable] ** 2
    unit = quad.norm[out][usable] ** 2
    s, q2 = s / unit, q2 / unit
    best = prior.best_variance(s, q2, 1.0)
    assert gain(prior, s, q2, best, 1.0).max(initial=0.0) < 2e-6


@BOTH
class TestWhereItEnds:
    @in_turn(name=[*LIKELIHOODS], prior=[Flat(), Smoothness(2.0)])
    def test_the_certificate_of_the_last_expansion_holds(self, update, name, prior):
        case = blobs(1, LIKELIHOODS[name], n=20)
        solution = joint.solve(LatentProblem(case.latent(), prior), update=update)
        assert solution.status is Status.CONVERGED
        assert solution.trace[0].phase == update
        certified(case, solution, solution.quad, prior)

    @pytest.mark.parametrize("prior", [Smoothness(2.0), Gamma(0.1, 0.1)], ids=repr)
    def test_shared_variances(self, update, prior):
        case = blobs(2, Multinomial(3), n=12, shared=True)
        solution = joint.solve(LatentProblem(case.latent(), prior), update=update)
        assert solution.status is Status.CONVERGED
        certified(case, solution, solution.quad, prior)

    @pytest.mark.parametrize("likelihood", [Bernoulli(), Multinomial(3), Poisson()], ids=repr)
    def test_under_a_gamma_prior_every_column_stays(self, update, likelihood):
        case = blobs(3, likelihood, n=18, gamma=0.2)
        prior = Gamma(0.1, 0.1)
        solution = joint.solve(LatentProblem(case.latent(), prior), update=update)
        assert solution.status is Status.CONVERGED
        assert solution.state.active.size == 18 * likelihood.n_latent
        certified(case, solution, solution.quad, prior)

    def test_a_gaussian_likelihood_is_gaussian_noise(self, update):
        case = random_case(0, n=60, m=12, noise=0.3)
        latent = Latent(ArrayDesign(case.Phi), case.t[:, 0], None, Gaussian(0.09), False)
        one = joint.solve(LatentProblem(latent, Smoothness(2.0)), update=update)
        two = joint.solve(Problem(case.quad(), Smoothness(2.0), noise_var=0.09), update=update)
        assert sorted(one.state.active) == sorted(two.state.active)
        assert one.state.objective == pytest.approx(two.state.objective, abs=1e-5)


class TestTrace:
    def test_em_never_falls_where_laplace_is_exact(self):
        case = random_case(1, n=60, m=12, noise=0.3)
        latent = Latent(ArrayDesign(case.Phi), case.t[:, 0], None, Gaussian(0.09), False)
        solution = joint.solve(LatentProblem(latent, Flat()), update="em")
        heights = [line.objective for line in solution.trace if line.phase == "em"]
        assert len(heights) > 5
        assert np.diff(heights).min() > -1e-9 * abs(heights[-1])

    @pytest.mark.parametrize("likelihood", [Bernoulli(), Multinomial(3), Poisson()], ids=repr)
    def test_em_hardly_falls_elsewhere(self, likelihood):
        case = blobs(0, likelihood, n=30)
        solution = joint.solve(LatentProblem(case.latent(), Flat()), update="em")
        heights = [line.objective for line in solution.trace if line.phase == "em"]
        assert heights[-1] > heights[0] + 1
        assert np.diff(heights).min() > -0.05

    @BOTH
    @pytest.mark.parametrize("max_iter", [1, 2, 7])
    def test_max_iter(self, update, max_iter):
        case = blobs(0, Bernoulli())
        told = []
        problem = LatentProblem(case.latent(), Flat())
        solution = joint.solve(problem, update=update, max_iter=max_iter, report=told.append)
        assert solution.status is Status.MAX_ITER
        assert solution.n_iter == max_iter
        assert [line.iteration for line in told] == list(range(1, max_iter + 1))
        assert told == list(solution.trace)

    def test_an_unknown_rule_is_refused(self):
        with pytest.raises(ValueError, match="update must be one of"):
            joint.solve(LatentProblem(blobs(0, Bernoulli()).latent(), Flat()), update="fast")

    def test_too_many_columns_are_refused(self):
        class Wide:
            shape = (10, 5000)

        latent = Latent(Wide(), np.zeros(10), None, Multinomial(3), True)
        with pytest.raises(ValueError, match="starts with all 15000 atoms"):
            joint.solve(LatentProblem(latent, Flat()))

    def test_without_a_start_the_default_solver_refuses_what_it_cannot_begin_with(self):
        with pytest.raises(ValueError, match="no atom could ever be left out"):
            relinearize.solve(LatentProblem(blobs(0, Bernoulli()).latent(), Gamma(1.0, 1.0)))


class TestStepsOfTheFinish:
    """Faint atoms fade out in short steps, but not where the prior keeps them."""

    def setup_method(self):
        self.case = blobs(0, Bernoulli(), n=30)
        self.prior = Gamma(0.5, 1e-5)
        latent = self.case.latent()
        at = expand(latent, self.prior, Point(np.arange(30), np.ones(30)))
        self.faint = 1e-5 / at.quad.norm**2  # for unit norm

    def test_a_short_step_may_end_below_what_is_faint(self):
        for prior, least in ((self.prior, 1e-5), (Flat(), 1e-3)):
            point = Point(np.arange(30), 2 * self.faint)
            at = expand(self.case.latent(), prior, point)
            target = Point(np.arange(30), np.full(30, 1e-9) / at.quad.norm**2)
            reached = inched(at, target, longest=20.0)
            unit = reached.v * at.quad.norm[reached.active] ** 2
            assert np.all(unit < 1e-8) if prior is self.prior else np.all(unit >= least * 0.99)

    def test_settling_keeps_every_atom(self):
        fit = Fit(self.case.latent(), self.prior, 100, None)
        point = settle(fit, fit.latent, Point(np.arange(30), self.faint), 1e-6, short=True)
        assert point.active.size == 30
        flat = Fit(self.case.latent(), Flat(), 100, None)
        point = settle(flat, flat.latent, Point(np.arange(30), self.faint), 1e-6, short=True)
        assert point.active.size < 30


@dataclass(frozen=True)
class Logistic(Bernoulli):
    """A likelihood of a user's own: numbers above zero, or not."""

    def check(self, y):
        return (np.asarray(y) > 0).astype(float)


@BOTH
class TestEstimators:
    def test_two_classes(self, update):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(120, 2))
        y = np.where(X[:, 0] + 0.5 * rng.normal(size=120) > 0, "yes", "no")
        one = SparseBayesClassifier(solver=update, tol=1e-12).fit(X, y)
        two = SparseBayesClassifier(tol=1e-12).fit(X, y)
        np.testing.assert_array_equal(one.relevance_, two.relevance_)
        np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-6)

    @pytest.mark.parametrize("shared", [False, True])
    def test_three_classes(self, update, shared):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60, 2))
        y = (X[:, 0] > 0.5).astype(int) + (X[:, 0] + 0.4 * rng.normal(size=60) > -0.5)
        model = RVC(gamma=0.5, solver=update, shared=shared, centers=X[:12]).fit(X, y)
        assert model.converged_
        assert model.score(X, y) > 0.75

    def test_counts(self, update):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(150, 4))
        y = rng.poisson(np.exp(1 + X[:, 2]))
        one = SparseBayesRegressor(likelihood="poisson", solver=update, tol=1e-12).fit(X, y)
        two = SparseBayesRegressor(likelihood="poisson", tol=1e-12).fit(X, y)
        assert one.relevance_.tolist() == [2]
        np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-6)

    def test_weights_are_repetitions(self, update):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(40, 2))
        y, weights = (X[:, 0] + 0.5 * rng.normal(size=40) > 0), rng.integers(0, 3, 40)
        one = RVC(gamma=0.5, solver=update).fit(X, y, sample_weight=weights)
        two = RVC(gamma=0.5, solver=update).fit(np.repeat(X, weights, axis=0), y.repeat(weights))
        np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), rtol=1e-8)

    def test_a_warm_start_goes_on(self, update):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60, 2))
        y = X[:, 0] + 0.5 * rng.normal(size=60) > 0
        model = RVC(gamma=0.5, solver=update, warm_start=True).fit(X, y)
        steps, first = model.n_iter_, model.log_marginal_likelihood_
        model.fit(X, y)
        assert model.n_iter_ < steps
        assert model.log_marginal_likelihood_ == pytest.approx(first, abs=1e-3)

    def test_nothing_to_learn(self, update):
        rng = np.random.default_rng(1)
        X, y = rng.normal(size=(100, 3)), rng.integers(0, 2, 100)
        model = SparseBayesClassifier(solver=update).fit(X, y)
        assert model.relevance_.size == 0
        chances = model.predict_proba(X, plug_in=True)[:, 1]
        np.testing.assert_allclose(chances, y.mean(), atol=1e-6)

    def test_progress_is_told(self, update, capsys):
        X = np.random.default_rng(0).normal(size=(30, 2))
        RVC(solver=update, verbose=2).fit(X, X[:, 0] + 0.3 * X[:, 1] ** 2 > 0)
        assert f"{update:<8}  atoms    30" in capsys.readouterr().err

    def test_a_likelihood_of_ones_own(self, update):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(80, 2))
        y = X[:, 0] + 0.5 * rng.normal(size=80)
        model = RVC(gamma=0.5, solver=update).fit(X, y > 0)
        case = Latent(
            ArrayDesign(np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))),
            Logistic().check(y),
            None,
            Logistic(),
            True,
        )
        solution = joint.solve(LatentProblem(case, Flat()), update=update)
        assert solution.log_evidence == pytest.approx(model.log_marginal_likelihood_, abs=1e-6)


def test_counts_with_kernels_end_where_the_default_ends():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (100, 1))
    y = rng.poisson(np.exp(1 + np.sin(X[:, 0])))
    heights = [
        RVR(likelihood="poisson", solver=solver).fit(X, y).log_marginal_likelihood_
        for solver in ("auto", "em", "mackay")
    ]
    assert max(heights) - min(heights) < 1.0
