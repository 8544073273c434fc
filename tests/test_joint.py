"""EM and MacKay's updates: the formulas of Tipping (2001), what they promise, where they end."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import oracle
from pairwise import in_turn, pairwise
from random_problems import cases, examples, random_case
from sparsebayes import RVR, SparseBayesRegressor
from sparsebayes.core.quadratic import Gram
from sparsebayes.core.stored import weighted_quadratic
from sparsebayes.design import ArrayDesign
from sparsebayes.engine import refresh
from sparsebayes.hyperpriors import Flat, Gamma, LogDerivatives, Smoothness, gain
from sparsebayes.noise_priors import LogGamma
from sparsebayes.problem import Problem, Status
from sparsebayes.solvers import joint, search, sequential, updates
from sparsebayes.solvers.expand import Point
from sparsebayes.solvers.newton import Noise

BOTH = pytest.mark.parametrize("update", ["em", "mackay"])


@dataclass(frozen=True)
class Own:
    """A hyperprior of a user's: it prefers variances of about the noise, and lets atoms out."""

    strength: float = 1.5

    def log_density(self, v, noise_var):
        x = v / noise_var
        return self.strength * (np.log1p(x) - 0.5 * x)

    def log_derivatives(self, v, noise_var):
        x = v / noise_var
        first = self.strength * (x / (1 + x) - 0.5 * x)
        second = self.strength * (x / (1 + x) ** 2 - 0.5 * x)
        return LogDerivatives(first, second, -first, -second, second)

    def best_variance(self, s, q2, noise_var, n_targets=1):
        grid = noise_var * np.logspace(-3, 2, 60)
        worths = [gain(self, s, q2, np.full(s.shape, v), noise_var, n_targets) for v in grid]
        best = np.argmax(worths, axis=0)
        return np.where(np.max(worths, axis=0) > 0, grid[best], 0.0)


PRIORS = [Flat(), Gamma(0.0, 0.3), Gamma(1.5, 0.2), Smoothness(0.5), Smoothness(6.0), Own()]
some_priors = st.sampled_from(PRIORS)


def textbook(case, before):
    """mu^2 and Sigma_jj summed over targets, |t - Phi mu|^2 and numbers, by definition."""
    Phi, t, v, noise, center = case.at()
    Phi, v = Phi[:, case.active], v[case.active]
    mu, Sigma = oracle.posterior(Phi, t, v, noise, center)
    residual = t - Phi @ mu
    if center:
        residual = residual - residual.mean(axis=0)
    n_targets = t.shape[1]
    spread = n_targets * np.diag(Sigma)
    return {
        "square": np.sum(mu**2, axis=1),
        "spread": spread,
        "dof": n_targets - spread / v,  # summed over targets
        "misfit": np.sum(residual**2) + 2 * before.h,
        "n": n_targets * (len(t) - center) + 2 * before.c,
        "T": n_targets,
    }


def setting(case, before, prior, estimated=True):
    weights = None if case.weights is None else case.weights.astype(float)
    quad = weighted_quadratic(ArrayDesign(case.Phi), case.t, weights, case.center, before)
    state = refresh(quad, prior, case.active, case.v_a, case.noise)
    return quad.gram(case.active), Noise(case.noise, estimated, 0.0), state


noise_priors = st.sampled_from([LogGamma(0.0, 0.0), LogGamma(2.5, 0.3)])


class TestFormulas:
    """Tipping 2001, section 2.3 and appendix A, on several targets and weighted rows."""

    @examples(30)
    @given(cases(), st.sampled_from([Gamma(0, 0), Gamma(1.5, 0.2)]), noise_priors)
    def test_em(self, case, prior, before):
        assume(case.active.size)
        gram, noise, state = setting(case, before, prior)
        book = textbook(case, before)
        found = updates.em(gram, prior, state.v, noise, state.white)
        alpha = (book["T"] + 2 * prior.a) / (book["square"] + book["spread"] + 2 * prior.b)
        np.testing.assert_allclose(found.v, 1 / alpha, rtol=1e-6)
        expected = (book["misfit"] + case.noise * book["dof"].sum()) / book["n"]
        assert found.noise_var == pytest.approx(expected, rel=1e-6)

    @examples(30)
    @given(cases(), st.sampled_from([Gamma(0, 0), Gamma(1.5, 0.2)]), noise_priors)
    def test_mackay(self, case, prior, before):
        assume(case.active.size)
        gram, noise, state = setting(case, before, prior)
        book = textbook(case, before)
        assume(book["dof"].min() > 1e-6)  # the dense form loses the digits of smaller ones
        found = updates.mackay(gram, prior, state.v, noise, state.white)
        alpha = (book["dof"] + 2 * prior.a) / (book["square"] + 2 * prior.b)
        np.testing.assert_allclose(found.v * alpha, 1.0, rtol=1e-5)
        expected = book["misfit"] / (book["n"] - book["dof"].sum())
        assert found.noise_var == pytest.approx(expected, rel=1e-6)

    @examples(30)
    @given(cases())
    def test_flat_is_no_gamma(self, case):
        assume(case.active.size)
        for rule in (updates.em, updates.mackay):
            gram, noise, state = setting(case, None, Flat())
            one = rule(gram, Flat(), state.v, noise, state.white)
            two = rule(gram, Gamma(0, 0), state.v, noise, state.white)
            np.testing.assert_array_equal(one.v, two.v)
            assert one.noise_var == two.noise_var

    @pytest.mark.parametrize("rule", [updates.em, updates.mackay])
    def test_a_given_noise_stays(self, rule):
        case = random_case(0)
        quad = case.quad()
        state = refresh(quad, Smoothness(1.0), np.arange(5), np.ones(5), 0.3)
        gram, noise = quad.gram(np.arange(5)), Noise(0.3, False, 1e-9)
        found = rule(gram, Smoothness(1.0), state.v, noise, state.white)
        assert found.noise_var == 0.3

    @pytest.mark.parametrize("rule", [updates.em, updates.mackay])
    def test_the_noise_has_a_floor(self, rule):
        case = random_case(0)
        quad = case.quad()
        state = refresh(quad, Flat(), np.arange(20), np.full(20, 1e3), 1e-9)
        noise = Noise(1e-9, True, 5.0)
        found = rule(quad.gram(np.arange(20)), Flat(), state.v, noise, state.white)
        assert found.noise_var == 5.0


class TestEM:
    @examples(75)
    @given(cases(), some_priors)
    def test_a_step_never_lowers_the_objective(self, case, prior):
        assume(case.active.size)
        gram, noise, state = setting(case, None, prior)
        found = updates.em(gram, prior, state.v, noise, state.white)
        before = oracle.objective(*case.at(), prior)
        v = case.v.copy()
        v[case.active] = found.v
        after = oracle.objective(*case.at(v, found.noise_var), prior)
        assert after >= before - 1e-8 * (1 + abs(before))

    @examples(30)
    @given(cases(), st.sampled_from([Smoothness(0.5), Smoothness(6.0), Own()]))
    def test_what_it_climbs_is_the_expected_log_likelihood(self, case, prior):
        """Stationary in each variance at the old noise, then in the noise at the new variances."""
        assume(case.active.size)
        gram, noise, state = setting(case, None, prior)
        book = textbook(case, LogGamma(0.0, 0.0))
        v, noise_var = updates.em(gram, prior, state.v, noise, state.white)
        moment = book["square"] + book["spread"]
        slope = 0.5 * (moment / v - book["T"]) + prior.log_derivatives(v, case.noise).u
        np.testing.assert_allclose(slope, 0.0, atol=1e-5 * (1 + (moment / v).max()))
        left = book["misfit"] + case.noise * book["dof"].sum()
        slope = 0.5 * (left / noise_var - book["n"])
        slope += prior.log_derivatives(v, noise_var).rho.sum()
        assert slope == pytest.approx(0.0, abs=1e-5 * (1 + left / noise_var))

    @in_turn(
        prior=[*PRIORS, Gamma(1e-3, 1e-3)],
        kind=[{}, {"center": True}, {"n_targets": 3}, {"n": 15, "m": 40}],
    )
    def test_the_trace_rises(self, prior, kind):
        problem = Problem(random_case(1, **kind).quad(), prior)
        solution = joint.solve(problem, update="em", max_iter=300)
        heights = [line.objective for line in solution.trace if line.phase == "em"]
        assert len(heights) > 5
        assert np.diff(heights).min() >= -1e-12 * abs(heights[-1])
        assert solution.state.objective >= heights[-1] - 1e-9 * abs(heights[-1])

    def test_the_trace_is_that_of_the_textbook(self):
        """Ten steps of EM written down densely, from the same start."""
        case = random_case(3, n=12, m=5)
        Phi, t = case.rows
        problem = Problem(case.quad(), Flat())
        solution = joint.solve(problem, update="em", max_iter=10)
        v, noise = np.full(5, problem.power * 12 / 5), 0.1 * problem.power
        for line in solution.trace[:10]:
            mu, Sigma = oracle.posterior(Phi, t, v, noise, False)
            misfit = np.sum((t - Phi @ mu) ** 2)
            noise = (misfit + noise * np.sum(1 - np.diag(Sigma) / v)) / 12
            v = mu[:, 0] ** 2 + np.diag(Sigma)
            assert line.phase == "em"
            assert line.n_active == 5
            assert line.noise_var == pytest.approx(noise, rel=1e-8)
            assert line.objective == pytest.approx(
                oracle.log_evidence(Phi, t, v, noise, False), rel=1e-9
            )


class TestWhereItEnds:
    @BOTH
    @in_turn(
        prior=[*PRIORS, Gamma(1e-3, 1e-3)],
        kind=[{}, {"center": True}, {"n_targets": 3}, {"m": 1, "k": 1}],
    )
    def test_no_gradient_no_gain_no_saddle(self, update, prior, kind):
        case = random_case(2, **kind)
        problem = Problem(case.quad(), prior)
        solution = joint.solve(problem, update=update)
        state = solution.state
        if isinstance(prior, Own):  # its best variance is known on a grid only
            assert solution.certificate.gradient_norm < 1e-3
            return
        assert solution.status is Status.CONVERGED
        assert solution.converged
        v = np.zeros(case.Phi.shape[1])
        v[state.active] = state.v
        at = case.at(v, state.noise_var)
        assert state.objective == pytest.approx(oracle.objective(*at, prior), rel=1e-9)
        unit, t = case.rows
        few = unit[:, state.active], t, state.v, state.noise_var, case.center, prior
        assert np.abs(oracle.gradient(*few)).max() < 1e-4
        assert np.linalg.eigvalsh(oracle.hessian(*few)).max() < 1e-4
        s, q = oracle.without_self(*at)
        q2, n_targets = np.sum(q**2, axis=1), t.shape[1]
        best = prior.best_variance(s, q2, state.noise_var, n_targets)
        inside = v > 0
        gains = gain(prior, s, q2, best, state.noise_var, n_targets, v)
        assert gains[inside].max(initial=0.0) < 1e-5
        if isinstance(prior, Gamma):
            assert inside.all()
        else:
            assert gains.max() < 1e-5

    @BOTH
    @pytest.mark.parametrize("seed", range(3))
    def test_the_optimum_is_that_of_other_solvers_where_there_is_one(self, update, seed):
        problem = Problem(random_case(seed, n=60, m=12, noise=0.3).quad(), Smoothness(2.0))
        one, two = joint.solve(problem, update=update), search.solve(problem)
        three = sequential.solve(problem)
        for other in (two, three):
            assert one.state.objective == pytest.approx(other.state.objective, abs=1e-6)
            assert sorted(one.state.active) == sorted(other.state.active)

    @BOTH
    def test_atoms_pruned_too_early_are_put_back(self, update, monkeypatch):
        problem = Problem(random_case(5, n=60, m=12, noise=0.3).quad(), Flat())
        expected = joint.solve(problem, update=update).state.objective
        updated = joint._updated

        def hasty(model, noise, update, gone):
            active, v = model.point.active, model.point.v
            if active.size > 4:
                return joint._model(problem, model.point._replace(active=active[8:], v=v[8:]))
            return updated(model, noise, update, gone)

        monkeypatch.setattr(joint, "_updated", hasty)
        solution = joint.solve(problem, update=update)
        assert solution.status is Status.CONVERGED
        assert solution.state.objective == pytest.approx(expected, abs=1e-6)

    def test_under_a_gamma_prior_an_atom_leaps_to_its_higher_maximum(self):
        """Started in the lower one of two, which updates and Newton steps never leave."""
        prior = Gamma(1.0, 0.01)
        gram = Gram(np.eye(1), np.array([[30.0**0.5]]), tt=40.0, n=10.0, spread=4.0)
        low, high = (v[0] for v in prior.maxima(np.ones(1), np.full(1, 30.0)))
        start = (np.array([0]), np.array([low]), 1.0)
        solution = joint.solve(Problem(gram, prior, noise_var=1.0), start=start)
        assert solution.state.v[0] == pytest.approx(high, rel=1e-4)
        assert solution.status is Status.CONVERGED


class TestPruning:
    def model(self, quad, prior, v, noise_var=1.0):
        problem = Problem(quad, prior, noise_var)
        return joint._model(problem, Point(np.arange(len(v)), np.asarray(v), noise_var))

    def test_faded_atoms_go_and_the_objective_rises(self):
        case = random_case(0, n=50, m=10)
        model = self.model(case.quad(), Flat(), np.full(10, 1e-7))
        gone, _ = joint._worthless(Flat(), model.state)
        s, q = oracle.without_self(*case.rows, model.state.v, 1.0, False)
        assert sorted(gone) == np.flatnonzero(q[:, 0] ** 2 <= s).tolist()
        assert 0 < gone.size < 10
        after = joint._updated(model, Noise(1.0, False, 0.0), "em", gone)
        whole = joint._updated(model, Noise(1.0, False, 0.0), "em", gone[:0])
        assert after.state.objective > whole.state.objective > model.state.objective
        np.testing.assert_array_equal(after.point.active, np.setdiff1d(np.arange(10), gone))

    def test_atoms_that_have_not_faded_stay(self):
        model = self.model(random_case(0, n=50, m=10).quad(), Flat(), np.full(10, 1e3))
        assert joint._worthless(Flat(), model.state)[0].size == 0

    def test_two_copies_do_not_go_together(self):
        """Each is worth nothing beside the other; both deleted would be a fall."""
        gram = Gram(np.ones((2, 2)), np.full((2, 1), 3.0), tt=9.5, n=9.0, spread=0.1)
        model = self.model(gram, Flat(), np.full(2, 40.0))
        after = joint._updated(model, Noise(1.0, False, 0.0), "em", np.array([0, 1]))
        assert after.point.active.tolist() == [1]
        assert after.gram.size == 1
        assert after.state.objective > model.state.objective

    def test_gains_are_those_of_the_definition(self):
        case = random_case(1, n=50, m=6)
        model = self.model(case.quad(), Smoothness(1.0), np.full(6, 0.5), 0.2)
        _, largest = joint._worthless(Smoothness(1.0), model.state)
        s, q = oracle.without_self(*case.rows, model.state.v, 0.2, False)
        best = Smoothness(1.0).best_variance(s, q[:, 0] ** 2, 0.2)
        expected = gain(Smoothness(1.0), s, q[:, 0] ** 2, best, 0.2, v_now=model.state.v).max()
        assert largest == pytest.approx(expected, rel=1e-6)


def sinc(n=100, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-10, 10, (n, 1))
    return X, np.sinc(X[:, 0] / np.pi) + 0.1 * rng.normal(size=n)


@BOTH
class TestEstimators:
    def test_sinc_is_the_default_solvers(self, update):
        X, y = sinc()
        model = RVR(gamma=1 / 9, solver=update).fit(X, y)
        other = RVR(gamma=1 / 9).fit(X, y)
        assert model.converged_
        assert model.certificate_.max_gain < 1e-6
        if abs(model.log_marginal_likelihood_ - other.log_marginal_likelihood_) < 1e-6:
            np.testing.assert_allclose(model.predict(X), other.predict(X), atol=1e-6)
        assert model.log_marginal_likelihood_ > other.log_marginal_likelihood_ - 3.0

    def test_pure_noise(self, update):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(100, 8)), rng.normal(size=100)
        model = SparseBayesRegressor(solver=update).fit(X, y)
        assert model.relevance_.size == 0
        assert model.noise_variance_ == pytest.approx(y.var(ddof=1), rel=1e-6)

    def test_constant_targets(self, update):
        X = np.random.default_rng(0).normal(size=(20, 3))
        with pytest.warns(match="noise estimate reached its floor"):
            model = SparseBayesRegressor(solver=update).fit(X, np.full(20, 3.0))
        np.testing.assert_array_equal(model.predict(X), np.full(20, 3.0))

    @pytest.mark.parametrize("prior", ["flat", "ric"])
    def test_duplicated_columns(self, update, prior):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60, 4))
        y = X[:, 1] + 0.2 * rng.normal(size=60)
        one = SparseBayesRegressor(prior=prior, solver=update).fit(np.c_[X, X, -2 * X], y)
        two = SparseBayesRegressor(prior=prior, solver=update).fit(X, y)
        assert one.converged_
        np.testing.assert_allclose(one.predict(np.c_[X, X, -2 * X]), two.predict(X), atol=0.05)

    def test_weights_are_repetitions(self, update):
        X, y = sinc(40)
        weights = np.random.default_rng(1).integers(0, 4, 40)
        one = RVR(gamma=1 / 9, solver=update).fit(X, y, sample_weight=weights)
        two = RVR(gamma=1 / 9, solver=update).fit(np.repeat(X, weights, axis=0), y.repeat(weights))
        np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-9, atol=1e-9)

    @pytest.mark.parametrize("unit", [2.0**-490, 2.0**490])
    def test_units_of_targets(self, update, unit):
        X, y = sinc(50)
        one, two = RVR(gamma=0.1, solver=update), RVR(gamma=0.1, solver=update)
        np.testing.assert_allclose(
            two.fit(X, unit * y).predict(X) / unit, one.fit(X, y).predict(X), rtol=1e-9
        )

    def test_more_atoms_than_rows(self, update):
        rng = np.random.default_rng(2)
        X = rng.normal(size=(40, 120))
        y = 3 * X[:, 5] - 2 * X[:, 77] + 0.1 * rng.normal(size=40)
        model = SparseBayesRegressor(solver=update).fit(X, y)
        assert model.converged_
        assert {5, 77} <= set(model.relevance_.tolist())

    def test_several_targets_share_their_atoms(self, update):
        X, y = sinc(60)
        Y = np.c_[y, 2 * y, -y]
        model = RVR(gamma=1 / 9, solver=update).fit(X, Y)
        single = RVR(gamma=1 / 9, solver="auto").fit(X, Y)
        assert model.converged_
        assert model.weights_.shape == (model.relevance_.size, 3)
        apart = (model.predict(X) - single.predict(X)) / np.array([1, 2, 1])
        assert np.sqrt(np.mean(apart**2)) < 0.03  # optima may differ

    def test_one_step(self, update):
        X, y = sinc(30)
        with pytest.warns(match="max_iter was reached"):
            model = RVR(gamma=1 / 9, solver=update, max_iter=1).fit(X, y)
        assert model.n_iter_ == 1
        assert not model.converged_
        assert np.isfinite(model.predict(X)).all()
        assert [line.phase for line in model.solution_.trace] == [update]

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_a_noise_that_is_tiny_beside_the_targets(self, update):
        """float64 cannot hold all atoms at full strength: they begin fainter, and fit the data."""
        X, y = sinc(30)
        model = RVR(gamma=1 / 9, solver=update, noise_variance=1e-20).fit(X, y)
        assert np.abs(model.predict(X) - y).max() < 0.5
        assert np.isfinite(model.log_marginal_likelihood_)

    def test_a_warm_start_goes_on(self, update):
        X, y = sinc()
        model = RVR(gamma=1 / 9, solver=update, warm_start=True).fit(X, y)
        first, steps = model.log_marginal_likelihood_, model.n_iter_
        model.fit(X, y)
        assert model.n_iter_ < steps / 2
        assert model.log_marginal_likelihood_ == pytest.approx(first, abs=1e-6)

    def test_progress_is_told(self, update, capsys):
        X, y = sinc(30)
        RVR(gamma=1 / 9, solver=update, verbose=2).fit(X, y)
        told = capsys.readouterr().err
        assert f"{update:<8}  atoms    30" in told
        assert "converged" in told

    def test_too_many_atoms_are_refused(self, update):
        with pytest.raises(ValueError, match=f"solver='{update}' starts with all 20000 atoms"):
            joint._check_size(20_000, update)

    def test_the_cost_is_no_more_memory_than_a_few_matrices(self, update):
        """400 columns of 60 rows: a fit, not an error."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60, 400))
        y = 5 * X[:, 3] + 0.1 * rng.normal(size=60)
        with pytest.warns(match="SparseBayesRegressor:"):  # more atoms than rows fit anything
            model = SparseBayesRegressor(prior="flat", solver=update, max_iter=3).fit(X, y)
        assert model.n_iter_ == 3
        assert model.solution_.trace[0].n_active == 400


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match="update must be one of"):
        joint.solve(Problem(random_case(0).quad(), Flat()), update="fast")


def test_a_dictionary_beyond_memory_is_refused_before_any_of_it_is_made():
    class Huge:
        size = 10**6

    with pytest.raises(ValueError, match="48000 gigabytes: use solver='auto'"):
        joint.solve(Problem(Huge(), Flat()))


def test_friedman_converges():
    from sparsebayes.datasets import friedman1

    train = friedman1(150, random_state=0)
    for update in ("em", "mackay"):
        model = RVR(solver=update).fit(train.X, train.y)
        assert model.converged_
        assert model.certificate_.max_gain < 1e-6


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pairwise(solver=["mackay", "em"], prior=["flat", "aic"], value=[3.0, 0.0, 0.1, 1e-300])
def test_constant_targets_need_no_atom(value, prior, solver):
    X = np.random.default_rng(0).normal(size=(40, 2))
    for y in (np.full(40, value), np.full((40, 2), value)):
        model = RVR(solver=solver, prior=prior).fit(X, y)
        assert model.relevance_.size == 0
        assert np.allclose(model.predict(X), value, rtol=1e-15, atol=0)
        assert model.solution_.status is Status.NOISE_FLOOR


@BOTH
def test_atoms_of_which_the_targets_hold_nothing_go(update):
    """Where the targets have no part in an atom at all, MacKay's rule gives it a variance of 0."""
    gram = Gram(np.eye(3), np.array([[3.0], [0.0], [0.0]]), tt=30.0, n=10.0, spread=1.0)
    solution = joint.solve(Problem(gram, Flat(), noise_var=1.0), update=update)
    assert solution.status is Status.CONVERGED
    assert solution.state.active.tolist() == [0]
