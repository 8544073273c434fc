"""Widths of kernels learned with the model: a joint optimum, under a prior, within bounds."""

import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as gp

from kernel_definitions import gentle_slope
from sparsebayes import RVC, RVR, SparseBayesRegressor, load
from sparsebayes._kernel_report import feature_relevance
from sparsebayes.core.stored import weighted_quadratic
from sparsebayes.datasets import friedman1, friedman3, mixtures, sinc
from sparsebayes.design import make_design
from sparsebayes.dictionaries import Bias, Kernel, Linear
from sparsebayes.engine import refresh
from sparsebayes.fit.learned_kernels import TOLERANCES, GaussianModel, learn, projected, with_same
from sparsebayes.fit.widths import Targets, find_widths
from sparsebayes.hyperpriors import Flat
from sparsebayes.problem import Certificate, Status
from sparsebayes.solvers import search
from sparsebayes.solvers.newton import newton


def gaussian_model(X, y, solve=search.solve):
    t = (y - y.mean())[:, None]

    def quadratic(atoms):
        return weighted_quadratic(make_design(atoms, X), t, None, center=True)

    return GaussianModel(X, t, Flat(), None, quadratic, lambda p, start: solve(p, start=start))


def begun(X, y, gamma):
    """Atoms with the widths that the search finds."""
    atoms = Kernel("rbf", gamma=gamma).bind(X)
    t = (y - y.mean())[:, None]
    return atoms.with_theta(find_widths(atoms, X, Targets(t, None, True, None)).theta)


# --- the joint optimum -----------------------------------------------------------------------


def test_no_round_lowers_the_objective_and_the_end_is_a_joint_optimum():
    data = friedman1(100, random_state=0)
    spent = []

    def solve(problem, start):
        solution = search.solve(problem, start=start)
        spent.append(solution.n_iter)
        return solution

    model, atoms = gaussian_model(data.X, data.y, solve), begun(data.X, data.y, "ard")
    center = atoms.theta
    learned = learn(model, atoms, center, 1e-6)
    assert learned.n_iter == sum(spent)
    assert learned.slope <= 1e-3

    def objective(theta):
        moved = (theta - center) / TOLERANCES.spread
        return model.profile(learned.atoms, learned.fit)(theta).objective - 0.5 * moved @ moved

    theta = learned.atoms.theta
    np.testing.assert_allclose(objective(theta), learned.objective, rtol=1e-9)
    assert learned.objective > model.fit(atoms, None).solution.state.objective + 0.1
    low, high = learned.atoms.bounds.T
    free = (theta > low + 0.01) & (theta < high - 0.01)
    assert np.abs(gentle_slope(objective, theta, step=1e-3)[free]).max() < 2e-3
    # The evidence alone is not at rest, but rises towards narrower kernels.
    assert model.gradient(learned.atoms, learned.fit).max() > 0.1


def test_a_profile_has_no_memory():
    """It depends on the widths alone, not on where it was evaluated before; else climbs stall."""
    data = friedman1(240, random_state=8)
    model = gaussian_model(data.X, data.y / data.y.std())
    atoms = begun(data.X, data.y / data.y.std(), "evidence")
    fit = model.fit(atoms, None)
    profile = model.profile(atoms, fit)
    first = profile(atoms.theta).objective
    for step in (0.5, -0.3, 0.2):
        profile(atoms.theta + step)
    assert profile(atoms.theta).objective == first


def test_a_solver_that_falls_to_a_poorer_optimum_is_not_followed():
    data = sinc(60, noise=0.1, random_state=1)

    def solve(problem, start):  # a refit forgets all atoms but one
        solution = search.solve(problem)
        if start is None:
            return solution
        active, v, noise_var = start
        noise = problem.noise()._replace(var=noise_var)
        end = newton(problem.quad.gram(active[:1]), Flat(), v[:1], noise, tol=1e-9)
        state = refresh(problem.quad, Flat(), active[:1][end.kept], end.v, end.noise_var)
        return replace(solution, state=state)

    model = gaussian_model(data.X, data.y, solve)
    atoms = Kernel("rbf", gamma="evidence").bind(data.X)
    first = model.fit(atoms, None).solution.state.objective
    assert learn(model, atoms, atoms.theta, 1e-6).objective == first


def test_a_collapse_is_not_followed():
    """Thirty atoms of forty rows: a little narrower, they explain the noise."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (40, 2))
    y = np.sinc(3 * np.linalg.norm(X, axis=1))
    y = y + 0.3 * y.std() * np.random.default_rng(100).normal(size=40)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learned, held = (RVR(gamma=word).fit(X, y) for word in ("evidence", "pooled"))
    assert held.solution_.status is Status.CONVERGED
    assert learned.solution_.status in (Status.CONVERGED, Status.NARROWING)
    assert learned.noise_variance_ > 1e-3 * held.noise_variance_
    narrowing = learned.solution_.status is Status.NARROWING
    assert narrowing == any("last sound model was kept" in str(one.message) for one in caught)


@pytest.mark.parametrize("word", ["evidence", "ard"])
def test_the_estimator_is_certified(word):
    data = sinc(100, noise=0.1, random_state=0)
    model = RVR(gamma=word).fit(data.X, data.y)
    assert model.solution_.status is Status.CONVERGED
    assert 0 < model.certificate_.kernel_gradient < 1e-3
    same = RVR(gamma=model.gamma_).fit(data.X, data.y)
    assert same.log_marginal_likelihood_ >= model.log_marginal_likelihood_ - 0.5
    assert same.certificate_.kernel_gradient == 0.0


def test_certificate_holds_widths_too():
    assert Certificate(0.0, 0.0, -1.0).holds(1e-6)
    assert not Certificate(0.0, 0.0, -1.0, kernel_gradient=0.01).holds(1e-6)


def test_predicts_as_well_as_the_process():
    """Without the prior the joint optimum errs by a tenth more than the process does."""
    ratios = []
    for seed in range(2):
        data, test = friedman3(150, random_state=seed), friedman3(1000, random_state=100 + seed)
        shift, unit = data.X.mean(axis=0), data.X.std(axis=0)
        X, new = (data.X - shift) / unit, (test.X - shift) / unit
        model = RVR(gamma="ard").fit(X, data.y)
        assert model.solution_.status is Status.CONVERGED
        kernel = gp.ConstantKernel() * gp.RBF(np.ones(4), (1e-5, 1e8)) + gp.WhiteKernel(0.1)
        process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
        errors = [
            np.mean((one.predict(new) - test.y) ** 2) ** 0.5
            for one in (model, process.fit(X, data.y))
        ]
        ratios.append(errors[0] / errors[1])
    assert np.mean(ratios) < 1.06


@pytest.mark.parametrize("solver", ["sequential", "em", "mackay"])
def test_every_solver_learns_a_width(solver):
    data = sinc(60, noise=0.1, random_state=0)
    width = RVR(gamma="evidence").fit(data.X, data.y).gamma_
    model = RVR(gamma="evidence", solver=solver).fit(data.X, data.y)
    assert model.gamma_ == pytest.approx(width, rel=0.3)
    assert model.certificate_.kernel_gradient < 1e-3


def test_iterations_may_run_out():
    data = sinc(100, noise=0.1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = RVR(gamma="evidence", max_iter=2).fit(data.X, data.y)
    assert not model.converged_
    assert np.isfinite(model.predict(data.X)).all()
    classes = mixtures(60, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = RVC(gamma="evidence", max_iter=2).fit(classes.X, classes.y)
    assert model.certificate_.kernel_gradient == 0.0


# --- what is learned -------------------------------------------------------------------------


def test_irrelevant_inputs_are_found():
    data = friedman1(150, random_state=3)
    model = RVR(gamma="ard").fit(data.X, data.y)
    assert model.feature_relevance_.shape == (10,)
    assert model.feature_relevance_.sum() == pytest.approx(1.0)
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
    data = sinc(60, noise=0.1, random_state=0)
    model = RVR(**settings, gamma="evidence").fit(data.X, data.y)
    assert model.converged_
    test = sinc(300, noise=0.0, random_state=1)
    start = RVR(**settings, gamma="scale").fit(data.X, data.y)
    errors = [np.std(one.predict(test.X) - test.y) for one in (model, start)]
    assert errors[0] < 1.2 * errors[1]


def test_kernel_objects_stay_as_given_and_keep_what_is_fixed():
    data = sinc(60, noise=0.1, random_state=0)
    kernel = gp.ConstantKernel(1.0, "fixed") * gp.RBF(3.0)
    model = RVR(kernel, gamma="evidence").fit(data.X, data.y)
    assert kernel.k2.length_scale == 3.0
    assert model.kernel_.k1.constant_value == 1.0
    assert 1.0 < model.kernel_.k2.length_scale < 2.99
    assert model.get_params()["kernel"] is kernel
    clone(model)


def test_a_union_learns_the_kernel_beside_other_atoms():
    rng = np.random.RandomState(0)
    X = rng.uniform(-10, 10, (120, 2))
    # Were there one variance for both parts, the large trend would choose the width.
    y = np.sinc(X[:, 0] / np.pi) + X[:, 1] + 0.1 * rng.normal(size=120)
    model = SparseBayesRegressor(Bias() + Linear() + Kernel("rbf", gamma="ard"), prior="flat")
    model.fit(X, y)
    linear = dict(zip(model.relevance_.tolist(), model.weights_, strict=True))
    assert linear[2] == pytest.approx(1.0, abs=0.01)
    assert model.feature_relevance_[0] > 0.95
    assert 1.0 < model.gamma_[0] ** -0.5 < 5.0


@pytest.mark.parametrize("centers", [10, np.linspace(-10, 10, 15)[:, None]], ids=["k", "given"])
def test_centers_may_be_chosen(centers):
    data = sinc(60, noise=0.1, random_state=0)
    model = RVR(gamma="evidence", centers=centers, random_state=0).fit(data.X, data.y)
    assert model.converged_
    assert model.certificate_.kernel_gradient < 1e-3


def test_several_targets_share_the_width():
    X = np.linspace(-10, 10, 80)[:, None]
    Y = np.column_stack([np.sinc(X[:, 0] / np.pi), np.cos(X[:, 0])])
    Y += 0.1 * np.random.RandomState(0).normal(size=Y.shape)
    model = RVR(gamma="evidence").fit(X, Y)
    assert np.ndim(model.gamma_) == 0
    assert model.converged_


@pytest.mark.parametrize("machine", [RVR, RVC])
def test_one_outlier_in_the_inputs_does_not_hide_the_function(machine):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (60, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)
    X[-1] = 1e6, 0.0
    model = machine(gamma="evidence").fit(X, y if machine is RVR else y > 0)
    assert 0.3 < model.gamma_**-0.5 < 20.0
    if machine is RVC:
        assert model.score(X, y > 0) > 0.85


# --- bounds ----------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.1, 0.0])
@pytest.mark.filterwarnings("ignore:.*noise estimate reached its floor")
def test_a_bound_that_is_active_is_warned_of(noise):
    data = sinc(60, noise=noise, random_state=0)
    kernel = gp.RBF(0.7, length_scale_bounds=(0.5, 1.0))
    with pytest.warns(ConvergenceWarning, match="learned length_scale is at its bound"):
        model = RVR(kernel, gamma="evidence").fit(data.X, data.y)
    assert model.solution_.held == ("length_scale",)
    assert 0.9 < model.kernel_.length_scale <= 1.0 + 1e-9


def test_open_bounds_of_a_kernel_object():
    data = sinc(60, noise=0.1, random_state=0)
    kernel = gp.RBF(3.0, length_scale_bounds=(0.0, np.inf))
    model = RVR(kernel, gamma="evidence").fit(data.X, data.y)
    assert 1.0 < model.kernel_.length_scale < 2.99


def test_an_irrelevant_input_at_its_lower_bound_is_none():
    bounds, theta = np.array([[-5.0, 5.0]] * 3), np.array([-5.0, -5.0, 0.0])
    free, held = projected(np.array([-1e-9, -0.1, 0.1]), theta, bounds, 1e-3)
    assert free.tolist() == [False, False, True]
    assert held.tolist() == [False, True, False]


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


# --- what all estimators keep ----------------------------------------------------------------


def test_constant_targets_and_inputs_teach_nothing():
    X = np.column_stack([np.linspace(0, 1, 30), np.full(30, 7.0)])
    with pytest.warns(ConvergenceWarning, match="floor"):
        model = RVR(gamma="evidence").fit(X, np.full(30, 3.0))
    assert len(model.relevance_) == 0
    np.testing.assert_allclose(model.predict(X), 3.0)
    noise = np.random.default_rng(0).normal(size=30)
    assert RVR(gamma="ard").fit(X, np.sin(9 * X[:, 0]) + 0.1 * noise).gamma_[1] == 0.0


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
    data = sinc(600, noise=0.2, random_state=0)
    y = data.y > 0.2 if estimator is RVC else data.y
    tracemalloc.start()
    try:
        estimator(gamma="evidence").fit(data.X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3.2 * 8 * 600**2  # two, and what evaluates one


def test_a_warm_start_goes_on_from_the_widths_learned():
    data = sinc(100, noise=0.1, random_state=0)
    model = RVR(gamma="ard", warm_start=True).fit(data.X, data.y)
    width, spent, predicted = model.gamma_, model.n_iter_, model.predict(data.X)
    model.fit(data.X, data.y)
    np.testing.assert_allclose(model.gamma_, width, rtol=1e-4)
    np.testing.assert_allclose(model.predict(data.X), predicted, atol=1e-3)
    assert model.n_iter_ < spent


def test_widths_of_an_earlier_fit_are_taken_where_they_are_the_same_ones():
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


# --- latent functions ------------------------------------------------------------------------


def test_classes_learn_which_input_matters():
    rng = np.random.RandomState(0)
    X = rng.uniform(-2, 2, (150, 3))
    y = (np.abs(X[:, 1]) + 0.1 * rng.normal(size=150) > 1).astype(int)
    model = RVC(gamma="ard").fit(X, y)
    assert model.feature_relevance_[1] > 0.9
    assert model.converged_


def test_labels_that_mean_nothing_end_soon():
    """Free widths wandered for 20 seconds and ended UNTUNED."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 10)), rng.integers(0, 2, 40)
    model = RVC(gamma="ard").fit(X, y)
    assert model.converged_
    assert model.n_iter_ < 1000


def test_classes_that_hardly_overlap_keep_their_atoms():
    """Laplace's evidence has folds: a refit that loses all atoms is not followed."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-3, 3, (30, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=30) > 0
    model = RVC(gamma="evidence", prior="aic").fit(X, y)
    assert model.score(X, y) > 0.9


def test_counts_learn_a_width():
    rng = np.random.RandomState(0)
    X = np.linspace(-5, 5, 100)[:, None]
    y = rng.poisson(np.exp(1 + np.sin(2 * X[:, 0])))
    model = RVR(gamma="evidence", likelihood="poisson").fit(X, y)
    assert 0.3 < model.gamma_**-0.5 < 3.0
