"""Widths of kernels learned with the model: a joint optimum, from any start, within bounds."""

import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import kernels as gp

from sparsebayes import RVC, RVR, SparseBayesRegressor, load
from sparsebayes._gaussian_kernels import GaussianModel
from sparsebayes._kernel_report import feature_relevance
from sparsebayes._latent_kernels import working_targets
from sparsebayes.datasets import friedman1, friedman3, mixtures, sinc
from sparsebayes.design import make_design
from sparsebayes.dictionaries import Bias, Kernel, Linear
from sparsebayes.engine import refresh
from sparsebayes.hyperpriors import Flat
from sparsebayes.kernel_learning import learn, projected, with_same
from sparsebayes.laplace import Latent
from sparsebayes.likelihoods import Bernoulli, Multinomial, Poisson
from sparsebayes.problem import Certificate, Status
from sparsebayes.quadratic import DesignQuadratic
from sparsebayes.shared_variance import Targets, first_theta
from sparsebayes.solvers import working_set
from sparsebayes.solvers.newton import newton


def gaussian_model(X, y, solve=working_set.solve):
    t = (y - y.mean())[:, None]

    def quadratic(atoms):
        return DesignQuadratic(make_design(atoms, X), t, None, center=True)

    targets = Targets(t, None, True, None)
    return GaussianModel(
        X, t, Flat(), None, quadratic, lambda p, start: solve(p, start=start)
    ), targets


def begin_with(X, targets, atoms):
    return first_theta(atoms, X, targets)


# --- where it begins -------------------------------------------------------------------------


def test_begins_at_the_maximum_of_the_evidence_with_one_variance():
    data = sinc(40, noise=0.1, random_state=3)
    t = data.y - data.y.mean()
    atoms = Kernel("rbf", gamma="evidence").bind(data.X)
    theta = first_theta(atoms, data.X, Targets(t[:, None], None, False, None))

    def best_evidence(log_width):
        Phi = atoms.with_theta([log_width]).evaluate(data.X)

        def loss(p):
            C = np.exp(p[0]) * Phi @ Phi.T + np.exp(p[1]) * np.eye(len(t))
            return -multivariate_normal(cov=C, allow_singular=True).logpdf(t)

        return -minimize(loss, [-2.0, -4.0], method="Nelder-Mead", options={"xatol": 1e-3}).fun

    here = best_evidence(theta[0])
    assert here > best_evidence(theta[0] - 0.3)
    assert here > best_evidence(theta[0] + 0.3)


def test_parts_of_a_union_begin_with_variances_of_their_own():
    rng = np.random.RandomState(0)
    X = rng.uniform(-10, 10, (80, 1))
    # Were there one variance for both parts, the large trend would choose the width.
    y = X[:, 0] + np.sinc(X[:, 0] / np.pi) + 0.05 * rng.normal(size=80)
    _model, targets = gaussian_model(X, y)
    atoms = (Linear() + Kernel("rbf", gamma="evidence")).bind(X)
    theta = begin_with(X, targets, atoms)
    assert 1.0 < np.exp(theta[0]) ** -0.5 < 5.0


def test_constant_targets_teach_nothing():
    X = np.linspace(0, 1, 10)[:, None]
    atoms = Kernel("rbf", gamma="evidence").bind(X)
    theta = first_theta(atoms, X, Targets(np.zeros((10, 1)), None, True, None))
    np.testing.assert_array_equal(theta, atoms.theta)
    with pytest.warns(ConvergenceWarning, match="floor"):
        model = RVR(gamma="evidence").fit(X, np.full(10, 3.0))
    assert len(model.relevance_) == 0
    np.testing.assert_allclose(model.predict(X), 3.0)


def test_many_rows_and_atoms_are_sampled():
    data = sinc(6000, noise=0.2, random_state=0)
    _model, targets = gaussian_model(data.X, data.y)
    atoms = Kernel("rbf", gamma="evidence").bind(data.X)
    theta = begin_with(data.X, targets, atoms)
    assert 1.5 < np.exp(theta[0]) ** -0.5 < 4.0
    # Weights are sampled with their rows: those of the garbage are zero.
    odd = np.arange(6000) % 2 == 1
    t = np.where(odd[:, None], 50.0 * np.sin(1e3 * targets.t), targets.t)
    weighted = begin_with(data.X, Targets(t, 1.0 - odd, True, None), atoms)
    np.testing.assert_allclose(weighted, theta, atol=0.5)


def test_begins_with_the_noise_that_is_given():
    data = sinc(100, noise=0.1, random_state=0)
    _model, targets = gaussian_model(data.X, data.y)
    atoms = Kernel("rbf", gamma="evidence").bind(data.X)
    # Told that there is no noise to speak of, narrow kernels explain what there is.
    narrow = begin_with(data.X, targets._replace(noise_var=1e-4), atoms)
    assert narrow[0] > begin_with(data.X, targets, atoms)[0] + 2.0


# --- the joint optimum -----------------------------------------------------------------------


def test_no_round_lowers_the_objective_and_the_end_is_a_joint_optimum():
    data = friedman1(100, random_state=0)
    reached, spent = [], []

    def solve(problem, start):
        solution = working_set.solve(problem, start=start)
        reached.append(solution.state.objective)
        spent.append(solution.n_iter)
        return solution

    model, targets = gaussian_model(data.X, data.y, solve)
    atoms = Kernel("rbf", gamma="ard").bind(data.X)
    learned = learn(model, atoms, [begin_with(data.X, targets, atoms)], 1e-6)
    assert len(reached) >= 3
    assert learned.n_iter == sum(spent)
    assert (np.diff(reached) > -1e-6).all()
    assert learned.slope <= 1e-3
    # Refitted with any width moved a little, the objective is lower.
    end = learned.objective
    for k in np.flatnonzero(learned.atoms.theta > learned.atoms.theta.max() - 6):
        for step in (-0.01, 0.01):  # farther off other atoms may come in
            theta = learned.atoms.theta.copy()
            theta[k] += step
            start = learned.fit.solution.state
            moved = model.fit(
                learned.atoms.with_theta(theta), (start.active, start.v, start.noise_var)
            )
            assert moved.solution.state.objective < end


def test_a_solver_that_falls_to_a_poorer_optimum_is_not_followed():
    data = sinc(100, noise=0.1, random_state=1)

    def solve(problem, start):  # a refit forgets all atoms but one
        solution = working_set.solve(problem)
        if start is None:
            return solution
        active, v, noise_var = start
        end = newton(
            problem.quad.gram(active[:1]),
            Flat(),
            v[:1],
            problem.noise()._replace(var=noise_var),
            tol=1e-9,
        )
        state = refresh(problem.quad, Flat(), active[:1][end.kept], end.v, end.noise_var)
        return replace(solution, state=state)

    model, _targets = gaussian_model(data.X, data.y, solve)
    atoms = Kernel("rbf", gamma="evidence").bind(data.X)
    first = model.fit(atoms, None).solution.state.objective
    assert learn(model, atoms, [atoms.theta], 1e-6).objective == first


@pytest.mark.parametrize("word", ["evidence", "ard"])
def test_ten_starts_end_alike(word):
    data = sinc(100, noise=0.1, random_state=1)
    rng = np.random.RandomState(0)
    X = np.column_stack([data.X[:, 0], rng.uniform(-10, 10, 100)]) if word == "ard" else data.X
    model, targets = gaussian_model(X, data.y)
    atoms = Kernel("rbf", gamma=word).bind(X)
    ends = []
    for _ in range(10):
        theta = atoms.theta + rng.uniform(-np.log(100), np.log(100), len(atoms.theta))
        theta = np.clip(theta, *atoms.bounds.T)
        begin = begin_with(X, targets, atoms.with_theta(theta))
        learned = learn(model, atoms, [begin], 1e-6)
        ends.append(learned.objective)
    assert np.ptp(ends) < 2.0  # nats: other atoms beside those found, as for a given width


def test_estimator_is_certified():
    data = sinc(100, noise=0.1, random_state=0)
    model = RVR(gamma="evidence").fit(data.X, data.y)
    assert model.converged_
    assert model.solution_.status is Status.CONVERGED
    assert 0 < model.certificate_.kernel_gradient < 1e-3
    # The evidence of a fit at the learned width is the same, and less at others.
    same = RVR(gamma=model.gamma_).fit(data.X, data.y)
    assert same.log_marginal_likelihood_ >= model.log_marginal_likelihood_ - 1e-6
    assert same.certificate_.kernel_gradient == 0.0
    for factor in (0.5, 2.0):
        other = RVR(gamma=factor * model.gamma_).fit(data.X, data.y)
        assert other.log_marginal_likelihood_ < model.log_marginal_likelihood_


def test_certificate_holds_widths_too():
    flat = Certificate(0.0, 0.0, -1.0)
    assert flat.holds(1e-6)
    assert not Certificate(0.0, 0.0, -1.0, kernel_gradient=0.01).holds(1e-6)


@pytest.mark.parametrize(
    "solver", ["working-set", "sequential", "em", "mackay"], ids=lambda name: name
)
def test_every_solver_learns_a_width(solver):
    data = sinc(60, noise=0.1, random_state=0)
    width = RVR(gamma="evidence").fit(data.X, data.y).gamma_
    model = RVR(gamma="evidence", solver=solver).fit(data.X, data.y)
    np.testing.assert_allclose(model.gamma_, width, rtol=0.6)  # other optima, widths much alike
    assert model.certificate_.kernel_gradient < 1e-3


# --- what is learned -------------------------------------------------------------------------


def test_irrelevant_inputs_are_found():
    data = friedman1(200, random_state=3)
    model = RVR(gamma="ard").fit(data.X, data.y)
    assert model.feature_relevance_.shape == (10,)
    np.testing.assert_allclose(model.feature_relevance_.sum(), 1.0)
    assert model.feature_relevance_[5:].max() < 1e-2 * model.feature_relevance_[:3].min()
    test = friedman1(500, noise=0.0, random_state=1)
    plain = RVR().fit(data.X, data.y)
    error = np.mean((model.predict(test.X) - test.y) ** 2)
    assert error < 0.3 * np.mean((plain.predict(test.X) - test.y) ** 2)


KERNELS = {
    "lspline": {"kernel": "lspline"},
    "laplacian": {"kernel": "laplacian"},
    "matern": {"kernel": gp.Matern(3.0)},
    "sum": {"kernel": gp.ConstantKernel(1.0) * gp.RBF(3.0) + gp.RationalQuadratic()},
}


@pytest.mark.parametrize("settings", KERNELS.values(), ids=KERNELS.keys())
def test_other_kernels_learn(settings):
    data = sinc(80, noise=0.1, random_state=0)
    model = RVR(**settings, gamma="evidence").fit(data.X, data.y)
    assert model.converged_
    start = RVR(**settings, gamma="scale").fit(data.X, data.y)
    assert model.log_marginal_likelihood_ > start.log_marginal_likelihood_


def test_kernel_objects_stay_as_given_and_keep_what_is_fixed():
    data = sinc(80, noise=0.1, random_state=0)
    kernel = gp.ConstantKernel(1.0, "fixed") * gp.RBF(3.0)
    model = RVR(kernel, gamma="evidence").fit(data.X, data.y)
    assert kernel.k2.length_scale == 3.0
    assert model.kernel_.k1.constant_value == 1.0
    assert 1.0 < model.kernel_.k2.length_scale < 2.9
    assert model.get_params()["kernel"] is kernel
    clone(model)


def test_a_union_learns_the_kernel_beside_other_atoms():
    rng = np.random.RandomState(0)
    X = rng.uniform(-10, 10, (150, 2))
    y = np.sinc(X[:, 0] / np.pi) + 0.1 * X[:, 1] + 0.1 * rng.normal(size=150)
    model = SparseBayesRegressor(Bias() + Linear() + Kernel("rbf", gamma="ard"), prior="flat")
    model.fit(X, y)
    linear = dict(zip(model.relevance_.tolist(), model.weights_, strict=True))
    np.testing.assert_allclose(linear[2], 0.1, atol=0.01)
    assert model.feature_relevance_[0] > 0.95
    assert model.gamma_.shape == (2,)


@pytest.mark.parametrize("centers", [10, np.linspace(-10, 10, 15)[:, None]], ids=["k", "given"])
def test_centers_may_be_chosen(centers):
    data = sinc(100, noise=0.1, random_state=0)
    model = RVR(gamma="evidence", centers=centers, random_state=0).fit(data.X, data.y)
    assert model.converged_
    assert model.certificate_.kernel_gradient < 1e-3


def test_goes_on_from_the_better_of_several_beginnings():
    data = sinc(100, noise=0.1, random_state=0)
    model, targets = gaussian_model(data.X, data.y)
    atoms = Kernel("rbf", gamma="evidence").bind(data.X)
    good, wide = begin_with(data.X, targets, atoms), atoms.bounds[:, 0]
    alone = learn(model, atoms, [good], 1e-6)
    both = learn(model, atoms, [wide, good], 1e-6)
    lost = learn(model, atoms, [wide], 1e-6)
    assert both.objective == alone.objective
    assert lost.objective < alone.objective - 1.0
    assert both.n_iter > alone.n_iter


def test_atoms_that_explain_noise_do_not_win():
    data = friedman1(240, random_state=0)
    model, _ = gaussian_model(data.X, data.y / data.y.std())
    atoms = Kernel("rbf", gamma="evidence").bind(data.X)
    wide, narrow = atoms.theta - np.log(4), atoms.theta + np.log(16)
    overfit = model.fit(atoms.with_theta(narrow), None)
    assert overfit.solution.state.dof.sum() > 120
    learned = learn(model, atoms, [narrow, wide], 1e-6)
    assert learned.dof < 120
    only = learn(model, atoms, [narrow], 1e-6)
    assert only.narrowing
    np.testing.assert_array_equal(only.atoms.theta, np.minimum(narrow, atoms.bounds[:, 1]))


def test_a_collapse_is_not_followed():
    data = friedman1(120, random_state=0)
    with pytest.warns(ConvergenceWarning, match="last sound model was kept"):
        model = RVR(gamma="evidence").fit(data.X, data.y)
    assert model.solution_.status is Status.NARROWING
    assert not model.converged_


def test_tuning_stops_before_atoms_explain_the_noise():
    data = friedman3(100, random_state=3)
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    model, _ = gaussian_model(X, data.y / data.y.std())
    atoms = Kernel("rbf", gamma="evidence").bind(X)
    first = model.fit(atoms, None).solution.state
    learned = learn(model, atoms, [atoms.theta], 1e-6)
    assert learned.narrowing
    assert learned.objective > first.objective
    assert first.dof.sum() < learned.dof <= 40


# --- bounds ----------------------------------------------------------------------------------


def test_a_bound_that_is_active_is_warned_of():
    data = sinc(100, noise=0.1, random_state=0)
    kernel = gp.RBF(0.7, length_scale_bounds=(0.5, 1.0))
    with pytest.warns(ConvergenceWarning, match="learned length_scale is at its bound"):
        model = RVR(kernel, gamma="evidence").fit(data.X, data.y)
    assert model.solution_.held == ("length_scale",)
    assert model.kernel_.length_scale == pytest.approx(1.0)


def test_an_irrelevant_input_at_its_lower_bound_is_none():
    gradient, theta = np.array([-1e-9, -0.1]), np.array([-5.0, -5.0])
    free, held = projected(gradient, theta, np.array([[-5.0, 5.0]] * 2), 1e-3)
    assert not free.any()
    assert held.tolist() == [False, True]


def test_widths_never_shrink_to_single_samples_silently():
    rng = np.random.RandomState(0)
    X, y = np.sort(rng.uniform(size=(60, 1)), axis=0), rng.normal(size=60)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = RVR(gamma="evidence").fit(X, y)
    nearest = np.median(np.diff(X[:, 0]))
    assert model.gamma_**-0.5 > 0.2 * nearest
    silent = not any(isinstance(one.message, ConvergenceWarning) for one in caught)
    assert silent == (model.solution_.status is Status.CONVERGED and not model.solution_.held)
    assert not silent or model.degrees_of_freedom_ < 30


# --- what all estimators keep ----------------------------------------------------------------


@pytest.mark.parametrize("factor", [1e-100, 1e100])
def test_units_of_targets_do_not_matter(factor):
    data = sinc(60, noise=0.1, random_state=0)
    one = RVR(gamma="evidence").fit(data.X, data.y)
    other = RVR(gamma="evidence").fit(data.X, factor * data.y)
    np.testing.assert_allclose(other.gamma_, one.gamma_, rtol=1e-6)
    np.testing.assert_array_equal(other.relevance_, one.relevance_)


def test_units_of_inputs_do_not_matter():
    data = sinc(60, noise=0.1, random_state=0)
    one = RVR(gamma="evidence").fit(data.X, data.y)
    other = RVR(gamma="evidence").fit(1024 * data.X, data.y)
    np.testing.assert_allclose(other.gamma_ * 1024**2, one.gamma_, rtol=1e-6)


def test_units_of_inputs_do_not_matter_to_a_kernel_of_distances():
    data = sinc(60, noise=0.1, random_state=1)
    X = np.column_stack([data.X[:, 0], np.random.RandomState(0).uniform(size=60)])
    units = np.array([2.0**20, 2.0**-10])
    one = RVR("laplacian", gamma="ard").fit(X, data.y)
    other = RVR("laplacian", gamma="ard").fit(units * X, data.y)
    np.testing.assert_allclose(other.gamma_ * units, one.gamma_, rtol=1e-6)
    np.testing.assert_allclose(other.feature_relevance_, one.feature_relevance_, rtol=1e-6)
    np.testing.assert_allclose(
        other.log_marginal_likelihood_, one.log_marginal_likelihood_, rtol=1e-9
    )


def test_a_kernel_function_may_have_any_attribute():
    def kernel(X, Z):
        return np.exp(-np.square(X[:, None] - Z).sum(axis=2))

    kernel.theta = 3.0
    data = sinc(40, noise=0.1, random_state=0)
    model = RVR(kernel).fit(data.X, data.y)
    assert not hasattr(model, "kernel_")
    assert not hasattr(model, "feature_relevance_")


def test_relevance_of_kernel_objects_and_weighted_rows():
    X = np.array([[0.0, 0.0], [2.0, 4.0], [9.0, 4.0]])
    weights = np.array([1.0, 1.0, 0.0])
    atoms = Kernel(gp.RBF([1.0, 4.0])).bind(X)
    # length_scale^-2 var: 1 of x0, 4 / 16 of x1; the last row does not count
    np.testing.assert_allclose(feature_relevance(atoms, X, weights), [0.8, 0.2])


@pytest.mark.parametrize("estimator", [RVR, RVC])
def test_no_more_than_two_designs_are_held_at_a_time(estimator):
    data = sinc(1000, noise=0.2, random_state=0)
    y = data.y > 0.2 if estimator is RVC else data.y
    tracemalloc.start()
    try:
        estimator(gamma="evidence").fit(data.X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3.2 * 8 * 1000**2  # two, and what evaluates one


def test_a_weight_of_two_is_a_row_given_twice():
    data = sinc(50, noise=0.1, random_state=0)
    twice = np.arange(50) < 10
    weighted = RVR(gamma="evidence").fit(data.X, data.y, sample_weight=1.0 + twice)
    X, y = np.concatenate([data.X, data.X[twice]]), np.concatenate([data.y, data.y[twice]])
    repeated = RVR(gamma="evidence").fit(X, y)
    np.testing.assert_allclose(repeated.gamma_, weighted.gamma_, rtol=1e-6)
    np.testing.assert_allclose(repeated.predict(X), weighted.predict(X), rtol=1e-6)


def test_several_targets_share_the_width():
    X = np.linspace(-10, 10, 80)[:, None]
    Y = np.column_stack([np.sinc(X[:, 0] / np.pi), np.cos(X[:, 0])])
    Y += 0.1 * np.random.RandomState(0).normal(size=Y.shape)
    model = RVR(gamma="evidence").fit(X, Y)
    assert np.ndim(model.gamma_) == 0
    assert model.converged_


def test_warm_start_goes_on_from_the_widths_learned():
    data = sinc(100, noise=0.1, random_state=0)
    model = RVR(gamma="evidence", warm_start=True).fit(data.X, data.y)
    width, spent = model.gamma_, model.n_iter_
    model.fit(data.X, data.y)
    np.testing.assert_allclose(model.gamma_, width, rtol=1e-4)
    assert model.n_iter_ < spent


def test_parameters_of_an_earlier_fit_are_taken_where_they_are_the_same_ones():
    atoms = Kernel("rbf", gamma="ard").bind(np.eye(3)[:, :2])
    low, high = atoms.bounds.T
    np.testing.assert_allclose(with_same(atoms, atoms.theta + 1.0).theta, atoms.theta + 1.0)
    beyond = np.array([low[0] - 1, high[1] + 1])
    np.testing.assert_allclose(with_same(atoms, beyond).theta, [low[0], high[1]])
    assert with_same(atoms, np.zeros(1)) is atoms


def test_model_files_hold_what_was_learned(tmp_path):
    data = friedman1(60, random_state=0)
    model = RVR(gamma="ard").fit(data.X, data.y)
    model.save(tmp_path / "m.sb")
    loaded = load(tmp_path / "m.sb")
    np.testing.assert_array_equal(loaded.gamma_, model.gamma_)
    np.testing.assert_array_equal(loaded.feature_relevance_, model.feature_relevance_)
    np.testing.assert_allclose(loaded.predict(data.X), model.predict(data.X))
    assert loaded.certificate_ == model.certificate_


def test_iterations_may_run_out():
    data = sinc(100, noise=0.1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = RVR(gamma="evidence", max_iter=2).fit(data.X, data.y)
    assert not model.converged_
    assert np.isfinite(model.predict(data.X)).all()


def test_iterations_of_classes_may_run_out():
    data = mixtures(60, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = RVC(gamma="evidence", max_iter=2).fit(data.X, data.y)
    assert model.certificate_.kernel_gradient == 0.0


# --- latent functions ------------------------------------------------------------------------


def test_working_targets_are_the_first_newton_step():
    t = np.array([0.0, 1.0, 1.0, 1.0])
    X = np.arange(4.0)[:, None]
    latent = Latent(make_design(Linear().bind(X), X), t, None, Bernoulli(), center=True)
    targets = working_targets(latent)
    p = 0.75
    np.testing.assert_allclose(targets.t[:, 0], (t - p) / (p * (1 - p)))
    np.testing.assert_allclose(targets.weights, 1.0)
    assert targets.center
    assert not working_targets(replace(latent, center=False)).center


@pytest.mark.parametrize("likelihood", [Multinomial(3), Poisson()], ids=repr)
def test_working_targets_of_other_likelihoods_are_finite(likelihood):
    t = np.array([0.0, 1.0, 2.0, 2.0, 1.0])
    X = np.arange(5.0)[:, None]
    latent = Latent(make_design(Linear().bind(X), X), t, np.ones(5), likelihood, center=True)
    targets = working_targets(latent)
    assert targets.t.shape == (5, likelihood.n_latent)
    assert np.isfinite(targets.t).all()
    assert (targets.weights > 0).all()


def test_classes_learn_a_width():
    data = mixtures(150, random_state=0)
    model = RVC(gamma="evidence").fit(data.X, data.y)
    assert model.gamma_ > 0
    assert model.score(data.X, data.y) > 0.85


def test_classes_learn_which_input_matters():
    rng = np.random.RandomState(0)
    X = rng.uniform(-2, 2, (150, 3))
    y = (np.abs(X[:, 1]) + 0.1 * rng.normal(size=150) > 1).astype(int)
    model = RVC(gamma="ard").fit(X, y)
    assert model.feature_relevance_[1] > 0.9


def test_counts_learn_a_width():
    rng = np.random.RandomState(0)
    X = np.linspace(-5, 5, 100)[:, None]
    y = rng.poisson(np.exp(1 + np.sin(2 * X[:, 0])))
    model = RVR(gamma="evidence", likelihood="poisson").fit(X, y)
    assert 0.3 < model.gamma_**-0.5 < 3.0


def test_one_outlier_in_the_inputs_does_not_hide_the_function():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (40, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=40)
    X[-1] = 1e6, 0.0
    model = RVR(gamma="evidence").fit(X, y)
    assert len(model.relevance_) > 3
    assert 0.5 < model.gamma_**-0.5 < 20.0


def test_a_narrowing_fit_is_not_called_converged():
    data = friedman1(120, random_state=0)
    with pytest.warns(ConvergenceWarning, match="so narrow that they explain the noise"):
        model = RVR(gamma="evidence", tol=1e4).fit(data.X, data.y)
    assert not model.converged_


def test_open_bounds_of_a_kernel_object():
    data = sinc(60, noise=0.1, random_state=0)
    kernel = gp.RBF(3.0, length_scale_bounds=(0.0, np.inf))
    model = RVR(kernel, gamma="evidence").fit(data.X, data.y)
    assert 1.0 < model.kernel_.length_scale < 2.9


def test_values_beyond_float64_are_a_wall_and_other_errors_are_not():
    data = sinc(30, noise=0.1, random_state=0)
    steep = RVR("poly", gamma="evidence", degree=40, coef0=1.0)
    steep.fit(data.X, data.y)  # narrower, it overflows
    assert np.isfinite(steep.predict(data.X)).all()

    class Broken(gp.RBF):
        def __call__(self, X, Y=None, eval_gradient=False):
            if self.length_scale != 3.0:
                raise ValueError("a mistake of its author")
            return super().__call__(X, Y, eval_gradient)

    with pytest.raises(ValueError, match="a mistake of its author"):
        RVR(Broken(3.0), gamma="evidence").fit(data.X, data.y)


def test_one_outlier_in_the_inputs_does_not_hide_the_classes():
    data = mixtures(120, random_state=3)
    X = np.vstack([data.X, [[1e6, 0.0]]])
    y = np.append(data.y, data.y[0])
    model = RVC(gamma="evidence").fit(X, y)
    assert model.score(data.X, data.y) > 0.8
    assert 0.05 < model.gamma_**-0.5 < 20.0


# --- what does not matter --------------------------------------------------------------------


@pytest.mark.parametrize("gamma", ["pooled", "pooled-ard", "evidence", "ard"])
@pytest.mark.parametrize("noise", [0.0, 1e-4])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_targets_that_are_nearly_linear(gamma, noise):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, new = rng.normal(size=(40, 2)), rng.uniform(-1, 1, (20, 2))
        truth = X[:, 0] + 2 * X[:, 1]
        model = RVR(gamma=gamma).fit(X, truth + noise * rng.normal(size=40))
        np.testing.assert_allclose(model.predict(new), new[:, 0] + 2 * new[:, 1], atol=0.05)


@pytest.mark.parametrize("gamma", ["pooled", "pooled-ard", "evidence", "ard"])
def test_order_of_rows_and_columns_does_not_change_widths(gamma):
    rng = np.random.default_rng(0)
    n = 1100 if gamma == "pooled" else 300
    X = rng.uniform(-3, 3, (n, 2))
    y = np.sinc(X[:, 0]) + 0.1 * X[:, 1] + 0.1 * rng.normal(size=n)
    found = RVR(gamma=gamma).fit(X, y).gamma_
    rows = rng.permutation(n)
    moved = RVR(gamma=gamma).fit(X[rows][:, ::-1], y[rows]).gamma_
    np.testing.assert_allclose(moved[::-1] if np.ndim(moved) else moved, found, rtol=0.02)
