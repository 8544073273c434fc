"""Signals from few measurements: exact where that is possible, honest where it is not."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator
from sklearn.exceptions import ConvergenceWarning

from pairwise import in_turn
from sparsebayes import SparseBayesRegressor, denoise, reconstruct
from sparsebayes._wavelet_transforms import Transform
from sparsebayes.dictionaries import Kernel, StationaryWavelet, Wavelet
from sparsebayes.hyperpriors import Smoothness
from sparsebayes.problem import Status
from sparsebayes.sensing import PartialDCT, PartialHadamard

STEPS = np.repeat([0.0, 3.0, -1.0, 2.0, 2.5, 0.5, 1.0, -2.0], 16)  # 8 Haar coefficients of 128
BOTH = pytest.mark.parametrize("solver", ["auto", "matrix-free"])


def steps_image():
    image = np.zeros((16, 16))
    image[4:12, 8:] = 2.0
    image[:, :4] += 1.0
    return image


def sensings(rng):
    matrix = rng.standard_normal((64, 128)) / 8
    mask = np.zeros(128, dtype=bool)
    mask[rng.choice(128, 80, replace=False)] = True
    return {
        "matrix": matrix,
        "list": matrix.tolist(),
        "sparse": sp.csr_array(matrix),
        "operator": aslinearoperator(matrix),
        "mask": mask,
        "indices": np.flatnonzero(mask)[::-1],
        "dct": PartialDCT(128, 64, random_state=1),
        "hadamard": PartialHadamard(128, 64, random_state=1),
    }


def measure(sensing, signal):
    if hasattr(sensing, "measure"):
        return sensing.measure(signal)
    if hasattr(sensing, "matvec") or sp.issparse(sensing):
        return sensing @ signal.ravel()
    array = np.asarray(sensing)
    return signal[array] if array.ndim == 1 else array @ signal.ravel()


@pytest.mark.parametrize(
    ("name", "solver"),
    [
        *((name, "auto") for name in sensings(np.random.default_rng(0))),
        *((name, "matrix-free") for name in ("matrix", "mask", "dct", "hadamard")),
    ],
)
def test_exact_recovery(name, solver):
    sensing = sensings(np.random.default_rng(0))[name]
    found = reconstruct(measure(sensing, STEPS), sensing, basis="haar", shape=128, solver=solver)
    np.testing.assert_allclose(found.signal, STEPS, atol=1e-5)
    assert found.n_atoms == 8
    assert found.converged
    assert found.solution.status is Status.NOISE_FLOOR
    assert found.noise_variance < 1e-8 * STEPS.var()
    assert found.std.max() < 1e-3
    assert found.signal.shape == found.std.shape == (128,)


@in_turn(kind=["mask", "dct", "hadamard", "tuple"], solver=["auto", "matrix-free", "matrix-free"])
def test_images(kind, solver):
    image = steps_image()
    rng = np.random.default_rng(2)
    mask = rng.random((16, 16)) < 0.6
    sensing = {
        "mask": mask,
        "tuple": np.nonzero(mask),
        "dct": PartialDCT((16, 16), 120),
        "hadamard": PartialHadamard((16, 16), 120),
    }[kind]
    y = image[sensing] if kind in ("mask", "tuple") else sensing.measure(image)
    found = reconstruct(y, sensing, basis="haar", shape=(16, 16), solver=solver)
    np.testing.assert_allclose(found.signal, image, atol=1e-4)
    assert found.std.shape == (16, 16)
    if kind in ("mask", "tuple"):
        np.testing.assert_array_equal(np.isnan(found.data), ~mask)
        np.testing.assert_array_equal(found.data[mask], image[mask])
        assert "16 x 16 from" in repr(found)


def test_a_whole_image_with_its_mask():
    image = steps_image()
    mask = np.random.default_rng(2).random((16, 16)) < 0.6
    gaps = np.where(mask, image, np.nan)
    found, same = reconstruct(gaps, mask), reconstruct(image[mask], mask)
    np.testing.assert_array_equal(found.signal, same.signal)


BASES = {
    "name": "haar",
    "identity": "identity",
    "dictionary": Wavelet("db2", level=3),
    "frame": StationaryWavelet("haar", level=2),
    "kernel": Kernel("rbf", gamma=0.05),
    "transform": Transform("sym4", (64,)),
    "matrix": np.linalg.qr(np.random.default_rng(0).standard_normal((64, 64)))[0],
    "operator": aslinearoperator(np.random.default_rng(0).standard_normal((64, 80))),
}


def noisy_problem(basis):
    rng = np.random.default_rng(4)
    A = rng.standard_normal((40, 64)) / 40**0.5
    signal = np.sin(np.arange(64) / 6) + (np.arange(64) > 30)
    return A, A @ signal + 0.05 * rng.standard_normal(40)


def atoms_of(basis):
    """Columns of a basis, from what the library has for regression."""
    if isinstance(basis, str):
        return (
            np.eye(64) if basis == "identity" else Transform(basis, (64,)).synthesize(np.eye(64)).T
        )
    if isinstance(basis, Transform):
        return basis.synthesize(np.eye(64)).T
    if hasattr(basis, "bind"):
        X = np.arange(64.0)[:, None]
        found = basis.bind(X).evaluate(X)
        return found.toarray() if sp.issparse(found) else np.asarray(found)
    return basis if isinstance(basis, np.ndarray) else basis @ np.eye(80)


@pytest.mark.parametrize("name", BASES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_it_is_a_regression_on_the_product_of_the_matrices(name):
    basis = BASES[name]
    A, y = noisy_problem(basis)
    B = atoms_of(basis)
    found = reconstruct(y, A, basis=basis, prior="bic", solver="working-set")
    model = SparseBayesRegressor(prior="bic", fit_intercept=False, random_state=0).fit(A @ B, y)
    assert abs(found.log_marginal_likelihood - model.log_marginal_likelihood_) < 1e-5
    np.testing.assert_allclose(found.coefficients, model.coef_, atol=1e-5)
    np.testing.assert_allclose(found.signal, B @ model.coef_, atol=1e-5)
    assert np.isclose(found.noise_variance, model.noise_variance_, rtol=1e-4)
    active = model.relevance_
    np.testing.assert_allclose(
        found.coefficient_std[active], np.sqrt(np.diag(model.covariance_)), rtol=1e-3
    )
    covariance = B[:, active] @ model.covariance_ @ B[:, active].T
    np.testing.assert_allclose(found.std, np.sqrt(np.diag(covariance)), rtol=1e-3, atol=1e-7)
    assert found.n_atoms == len(active)
    assert np.isclose(found.degrees_of_freedom, model.degrees_of_freedom_, rtol=1e-3)


def test_products_and_the_matrix_give_the_same(monkeypatch):
    import sparsebayes._reconstructing as how

    rng = np.random.default_rng(0)
    mask = rng.random((16, 16)) < 0.5
    y = (steps_image() + 0.1 * rng.standard_normal((16, 16)))[mask]
    first = reconstruct(y, mask, basis="sym4", solver="working-set")
    monkeypatch.setattr(how, "_DENSE", 0)
    second = reconstruct(y, mask, basis="sym4", solver="working-set")
    assert abs(first.log_marginal_likelihood - second.log_marginal_likelihood) < 1e-6
    np.testing.assert_allclose(first.signal, second.signal, atol=1e-5)


def test_matrix_free_comes_near_the_exact_solver():
    rng = np.random.default_rng(1)
    sensing = PartialDCT(256, 120)
    signal = np.cumsum(np.where(rng.random(256) < 0.03, rng.standard_normal(256), 0.0))
    y = sensing.measure(signal) + 0.05 * rng.standard_normal(120)
    exact = reconstruct(y, sensing, solver="working-set")
    free = reconstruct(y, sensing, solver="matrix-free", n_draws=400)
    assert free.log_marginal_likelihood > exact.log_marginal_likelihood - 8.0
    error = np.linalg.norm(free.signal - signal)
    assert error < 1.3 * np.linalg.norm(exact.signal - signal)
    assert np.isclose(free.std.mean(), exact.std.mean(), rtol=0.3)
    assert free.solution.state.log_evidence_error < 3.0
    np.testing.assert_array_equal(free.std, free.std)


@BOTH
def test_error_bars_cover(solver):
    """90 % intervals of the coefficients that are not zero, over a few draws of the problem."""
    inside = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal((120, 256)) / 120**0.5
        w = np.zeros(256)
        w[rng.choice(256, 20, replace=False)] = rng.choice([-1, 1], 20) * rng.uniform(0.5, 2, 20)
        y = A @ w + 0.05 * rng.standard_normal(120)
        found = reconstruct(y, A, basis="identity", solver=solver)
        true = w != 0
        within = np.abs(found.coefficients - w) <= 1.645 * found.coefficient_std
        inside.append(within[true].mean())
    assert 0.80 < np.mean(inside) < 0.97


@BOTH
def test_units_do_not_matter(solver):
    A, y = noisy_problem(None)
    first = reconstruct(y, A, basis="haar", solver=solver)
    second = reconstruct(1e6 * y, A, basis="haar", solver=solver)
    np.testing.assert_allclose(second.signal, 1e6 * first.signal, rtol=1e-3, atol=1e3)
    assert np.isclose(second.noise_variance, 1e12 * first.noise_variance, rtol=1e-2)
    change = len(y) * np.log(1e6)
    assert abs(second.log_marginal_likelihood + change - first.log_marginal_likelihood) < 0.5


@BOTH
def test_noise_that_is_given_and_priors(solver):
    A, y = noisy_problem(None)
    found = reconstruct(y, A, basis="haar", noise_variance=0.04, solver=solver)
    assert np.isclose(found.noise_variance, 0.04)
    by_name = reconstruct(y, A, prior="ric", solver=solver)
    by_number = reconstruct(y, A, prior=float(np.log(64)), solver=solver)
    by_object = reconstruct(y, A, prior=Smoothness(np.log(64)), solver=solver)
    np.testing.assert_array_equal(by_name.coefficients, by_number.coefficients)
    np.testing.assert_array_equal(by_name.coefficients, by_object.coefficients)
    firm = reconstruct(y, A, noise_prior=(1000.0, 1001 * 0.09), solver=solver)
    assert np.isclose(firm.noise_variance, 0.09, rtol=0.1)


def test_a_complete_signal_is_denoised():
    rng = np.random.default_rng(0)
    noisy = STEPS + 0.1 * rng.standard_normal(128)
    found = reconstruct(noisy, np.ones(128, dtype=bool), basis="haar")
    other = denoise(noisy, "haar")
    assert np.abs(found.signal - other.signal).max() < 0.1
    assert np.isclose(found.noise_variance, other.noise_variance, rtol=0.1)


def test_large_problems_take_products_alone():
    rng = np.random.default_rng(0)
    signal = np.zeros(16384)
    signal[3000:7000] = 2.0
    signal[9000:] -= 1.0
    mask = rng.random(16384) < 0.3
    y = signal[mask] + 0.1 * rng.standard_normal(int(mask.sum()))
    found = reconstruct(y, mask, n_draws=4)
    assert found.solution.status is Status.SETTLED
    assert np.sqrt(np.mean((found.signal - signal) ** 2)) < 0.03
    assert 0.09 < found.noise_variance**0.5 < 0.11
    assert found.std.shape == (16384,)


def test_zero_and_constant_measurements():
    found = reconstruct(np.zeros(20), PartialDCT(64, 20))
    assert found.n_atoms == 0
    np.testing.assert_array_equal(found.signal, np.zeros(64))
    np.testing.assert_array_equal(found.std, np.zeros(64))
    for solver in ("working-set", "matrix-free"):
        found = reconstruct(np.full(20, 5.0), np.arange(0, 60, 3), shape=64, solver=solver)
        np.testing.assert_allclose(found.signal, 5.0, atol=1e-4)


def test_repeatable_and_lazy():
    A, y = noisy_problem(None)
    first, second = (reconstruct(y, A, solver="matrix-free") for _ in range(2))
    np.testing.assert_array_equal(first.signal, second.signal)
    np.testing.assert_array_equal(first.std, second.std)
    assert first.std is first.std


def test_warns_where_it_did_not_converge():
    A, y = noisy_problem(None)
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        found = reconstruct(y, A, max_iter=3, solver="matrix-free", tol=1e-9)
    assert not found.converged


def test_plot():
    pytest.importorskip("matplotlib").use("Agg")
    A, y = noisy_problem(None)
    assert reconstruct(y, A).plot().get_title()
    assert reconstruct(STEPS[::2], np.arange(0, 128, 2), shape=128).plot().get_title()


def test_progress(capsys):
    A, y = noisy_problem(None)
    reconstruct(y, A, solver="matrix-free", verbose=1)
    assert "reconstruct" in capsys.readouterr().err


Y, A = np.ones(10), np.random.default_rng(0).standard_normal((10, 16))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: reconstruct(np.ones(9), A), r"makes 10 measurements, but .* shape \(9,\)"),
        (lambda: reconstruct(np.ones((10, 2)), A), "makes 10 measurements"),
        (lambda: reconstruct(Y * 1j, A), "complex"),
        (lambda: reconstruct(["a"] * 10, A), "real numbers"),
        (lambda: reconstruct(np.r_[np.nan, Y[1:]], A), "measurement 0 is nan"),
        (lambda: reconstruct(sp.eye_array(10), A), "sparse"),
        (lambda: reconstruct([[1], [1, 2]], A), "rows that differ"),
        (lambda: reconstruct(Y, A, basis="wavelet"), "name of a discrete wavelet"),
        (lambda: reconstruct(Y, A, basis=None), "basis must be"),
        (lambda: reconstruct(Y, A, basis=np.eye(15)), "15 rows"),
        (lambda: reconstruct(Y, A, basis=Transform("haar", (8,))), "8"),
        (lambda: reconstruct(Y, A, basis=np.eye(16), level=2), "level is for a wavelet"),
        (lambda: reconstruct(Y, A, basis="haar", level=9), "no more than 4 levels"),
        (lambda: reconstruct(Y, A, shape=(4, 5)), "16 columns"),
        (lambda: reconstruct(Y, A, shape="x"), "shape must be"),
        (lambda: reconstruct(Y, A, solver="em"), "solver must be one of"),
        (lambda: reconstruct(Y, A, prior="best"), "prior must be one of"),
        (lambda: reconstruct(Y, A, noise_variance=0), "noise_variance must be"),
        (lambda: reconstruct(Y, A, tol=-1), "tol must be"),
        (lambda: reconstruct(Y, A, max_iter=0), "max_iter must be"),
        (lambda: reconstruct(Y, A, n_draws=0), "n_draws must be"),
        (lambda: reconstruct(Y, A, verbose="x"), "verbose must be"),
        (lambda: reconstruct(Y, A, random_state="x"), "random_state|seed"),
        (lambda: reconstruct(Y, np.arange(10)), "give shape="),
        (lambda: reconstruct(np.full((4, 4), np.nan), np.ones((4, 4), dtype=bool)), "is nan"),
        (lambda: reconstruct(Y * 1e200, A), "range of float64"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()


def test_atoms_that_are_hardly_measured_are_no_false_claim():
    """Samples side by side see next to nothing of most atoms, whose norms fast sums cannot tell."""
    rng = np.random.default_rng(0)
    signal = np.where(np.arange(4096) < 300, 1.0, -1.0)
    mask = np.zeros(4096, dtype=bool)
    mask[100:500] = True
    y = signal[mask] + 0.1 * rng.standard_normal(400)
    found = reconstruct(y, mask, "coif3", solver="working-set", prior="ric")
    assert found.converged
    assert np.abs(found.signal - signal)[150:250].max() < 0.1


def test_error_bars_of_atoms_that_can_stand_in_for_each_other():
    """Two copies of an atom share a coefficient: each alone is hardly known."""
    rng = np.random.default_rng(5)
    A = rng.standard_normal((60, 80)) / 60**0.5
    A[:, 1] = A[:, 0]
    w = np.zeros(80)
    w[[0, 1, 30, 50]] = 2.0, 2.0, -3.0, 1.5
    y = A @ w + 0.05 * rng.standard_normal(60)
    found = reconstruct(y, A, "identity", "flat", 0.05**2, solver="matrix-free", n_draws=400)
    state = found.solution.state
    Phi = A[:, state.active]
    unit = 0.05**2 / state.noise_var  # of the solver's variances, which are of atoms of unit norm
    precision = np.linalg.norm(Phi, axis=0) ** 2 / (unit * state.v)
    exact = np.linalg.inv(np.diag(precision) + Phi.T @ Phi / 0.05**2)
    assert {0, 1} <= set(state.active)
    np.testing.assert_allclose(
        found.coefficient_std[state.active], np.sqrt(np.diag(exact)), rtol=0.2
    )
