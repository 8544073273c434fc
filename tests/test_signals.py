"""denoise: the closed form equals the definitions, and every input has a clear answer."""

import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from pairwise import pairwise
from random_problems import examples, seeds
from sparsebayes import SparseBayesRegressor, denoise
from sparsebayes._bases import products_of
from sparsebayes._wavelet_transforms import Transform
from sparsebayes.core.quadratic import Gram
from sparsebayes.datasets import blocks_sinc, doppler
from sparsebayes.dictionaries import (
    Bias,
    Kernel,
    Linear,
    Operator,
    StationaryWavelet,
    Union,
    Wavelet,
)
from sparsebayes.hyperpriors import Flat, InverseGamma, Smoothness
from sparsebayes.problem import Problem, Status
from sparsebayes.solvers import search

SHAPES = [(64,), (37,), (100,), (2,), (3,), (16, 16), (7, 12), (1, 9)]


def steps(n, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    x = np.linspace(0, 1, n)
    return np.sin(7 * x) + (x > 0.4) + noise * rng.standard_normal(n)


def picture(shape=(24, 17), seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    rows, columns = np.indices(shape)
    return (rows > columns) + rows / shape[0] + noise * rng.standard_normal(shape)


def random_signal(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape) + 3 * (np.indices(shape)[0] > 2)


def matrix(transform):
    """Atoms as columns."""
    return transform.synthesize(np.eye(transform.size)).reshape(transform.size, -1).T


# The closed form, against other ways to the same answer


@pytest.mark.parametrize("name", ["sym8", "haar", "coif2"])
@pytest.mark.parametrize("noise", [None, 0.02])
def test_the_closed_form_is_what_the_default_solver_finds_on_the_matrix(name, noise):
    y = steps(64)
    found = denoise(y, name, noise_variance=noise)
    Phi = matrix(Transform(name, (64,)))[:, 1:]
    slow = SparseBayesRegressor(
        "linear", prior="bic", noise_variance=noise, solver="working-set"
    ).fit(Phi, y)
    np.testing.assert_allclose(found.signal, slow.predict(Phi), atol=1e-5)
    np.testing.assert_allclose(found.std, _function_std(slow, Phi), atol=1e-5)
    np.testing.assert_allclose(found.coefficients[1:], slow.coef_, atol=1e-5)
    np.testing.assert_array_equal(1 + slow.relevance_, 1 + np.flatnonzero(found.coefficients[1:]))
    assert found.noise_variance == pytest.approx(slow.noise_variance_, rel=1e-4)
    assert found.log_marginal_likelihood == pytest.approx(slow.log_marginal_likelihood_, abs=1e-5)
    assert found.degrees_of_freedom == pytest.approx(slow.degrees_of_freedom_, abs=1e-4)
    assert found.n_atoms == len(slow.relevance_)


def _function_std(model, X):
    return np.sqrt(model.predict(X, return_std=True)[1] ** 2 - model.noise_variance_)


@pairwise(shape=SHAPES, level=[None, 1], prior=["bic", "ric", 1.7, Smoothness(0.4), Flat()])
def test_any_shape_and_depth_is_the_same_problem_solved_in_general(shape, level, prior):
    y, noise = random_signal(shape), 0.8
    transform = Transform("db2", shape, level)
    found = denoise(y, "db2", prior, noise, level=level, by_scale=False)
    first, n = transform.scaling.stop, y.size
    g = transform.analyze(y - y.mean())[first:, None]
    c = {"bic": 0.5 * np.log(n), "ric": np.log(n - first)}.get(prior, prior)
    hyperprior = c if isinstance(c, Flat | Smoothness) else Smoothness(float(c))
    gram = Gram(np.eye(n - first), g, float(np.vdot(g, g)), float(n - first), 1.0)
    slow = search.solve(Problem(gram, hyperprior, noise)).state
    weights = transform.analyze(y - y.mean())
    weights[first:] = 0.0
    weights[first + slow.active] = slow.mu[:, 0]
    np.testing.assert_allclose(found.coefficients[first:], weights[first:], atol=2e-5)
    X = np.argwhere(np.ones(shape))
    Phi = Wavelet("db2", level).bind(X).evaluate(X)  # of the public dictionary
    np.testing.assert_allclose(Phi @ found.coefficients, found.signal.ravel() - y.mean(), atol=1e-9)
    np.testing.assert_allclose(found.signal - y.mean(), transform.synthesize(weights), atol=2e-5)
    variances = np.full(n, noise)
    variances[first:] = 0.0
    variances[first + slow.active] = np.diag(slow.Sigma)
    dense = np.sqrt(np.square(matrix(transform)) @ variances).reshape(shape)
    np.testing.assert_allclose(found.std, dense, atol=2e-5)
    smoother = first - 1 + np.sum(1 - np.diag(slow.Sigma) / slow.v)
    assert found.degrees_of_freedom == pytest.approx(smoother, abs=1e-4)
    log_evidence = slow.log_evidence - 0.5 * np.log(n)
    assert found.log_marginal_likelihood == pytest.approx(log_evidence)


def test_the_noise_is_the_best_there_is():
    y = steps(100)
    found = denoise(y)

    values = [
        denoise(y, noise_variance=float(v)).solution.state.objective
        for v in found.noise_variance * np.exp(np.linspace(-3, 3, 41))
    ]
    assert max(values) <= found.solution.state.objective + 1e-9


def test_a_prior_of_the_noise_acts_as_in_the_estimators():
    y = steps(64)
    found = denoise(y, "haar", noise_prior=(20.0, 1.0))
    slow = SparseBayesRegressor(
        "linear", prior="bic", noise_prior=(20.0, 1.0), solver="working-set"
    ).fit(matrix(Transform("haar", (64,)))[:, 1:], y)
    assert found.noise_variance == pytest.approx(slow.noise_variance_, rel=1e-4)
    assert found.log_marginal_likelihood == pytest.approx(slow.log_marginal_likelihood_, abs=1e-5)
    assert found.noise_variance > denoise(y, "haar").noise_variance
    same = denoise(1e3 * y, "haar", noise_prior=InverseGamma(20.0, 1e6))
    assert same.noise_variance == pytest.approx(1e6 * found.noise_variance)


@pytest.mark.parametrize(("prior", "factor"), [("bic", 0.5), ("ric", 1.0)])
@pytest.mark.parametrize("shape", [(256,), (32, 32), (33, 20)])
def test_prices_by_scale_count_the_coefficients_of_a_subband(prior, factor, shape):
    y = random_signal(shape)
    transform = Transform("sym4", shape)
    found = denoise(y, "sym4", prior, by_scale=True)
    before = transform.analyze(y - y.mean())
    for block in transform.blocks:
        if block.slice.start < transform.scaling.stop:
            continue
        c = factor * np.log(block.slice.stop - block.slice.start)
        z2 = before[block.slice] ** 2 / found.noise_variance - 2 * c
        kept = np.where(z2 > 1, 1 - 1 / np.maximum(z2, 1), 0.0)
        after = found.coefficients[block.slice]
        np.testing.assert_allclose(after, kept * before[block.slice], atol=1e-9)
    assert found.converged
    plain = denoise(y, "sym4", 2.0, by_scale=True)
    np.testing.assert_array_equal(plain.signal, denoise(y, "sym4", 2.0).signal)


def test_pictures_are_priced_by_scale_and_signals_as_in_the_paper():
    image, signal = random_signal((32, 32)), random_signal((256,))
    for y, default in (image, True), (signal, False):
        found = denoise(y, "sym4").signal
        np.testing.assert_array_equal(found, denoise(y, "sym4", by_scale=default).signal)
        assert not np.array_equal(found, denoise(y, "sym4", by_scale=not default).signal)


def test_the_noise_of_the_finest_wavelets():
    y = steps(4096, noise=0.3)
    found = denoise(y, noise_variance="mad")
    finest = Transform("sym8", (4096,)).analyze(y)[2048:]
    assert found.noise_variance == pytest.approx((np.median(np.abs(finest)) / 0.6744898) ** 2)
    assert found.noise_variance == pytest.approx(0.09, rel=0.1)
    with pytest.raises(ValueError, match="at least half of the finest"):
        denoise(np.repeat(steps(32), 2), "haar", noise_variance="mad")
    assert denoise(np.ones(8), noise_variance="mad").noise_variance == 0.0


# Error bars and quality


def test_error_bars_cover_where_the_noise_is_known():
    data = doppler(1024, snr=7, random_state=0)
    noise = data.truth.std(ddof=1) / 7
    found = denoise(data.y, noise_variance=noise**2)
    inside = np.abs(found.signal - data.truth) <= 2 * found.std
    # What is taken for noise is in no error bar, so nominal coverage is not reached.
    assert 0.7 < inside.mean() <= 1
    assert np.mean((found.signal - data.truth) ** 2) < 0.25 * noise**2


# Invariances


@examples(25)
@given(seeds, st.sampled_from([1e-140, 1e-3, -2.0, 7.0, 1e140]), st.sampled_from(SHAPES[:3]))
def test_units_do_not_matter(seed, factor, shape):
    y = random_signal(shape, seed % 1000)
    one, other = denoise(y), denoise(factor * y)
    np.testing.assert_allclose(other.signal / factor, one.signal, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(other.std / abs(factor), one.std, rtol=1e-9)
    assert other.noise_variance / factor**2 == pytest.approx(one.noise_variance)
    shift = (y.size - _kept(one)) * np.log(abs(factor))
    assert other.log_marginal_likelihood == pytest.approx(one.log_marginal_likelihood - shift)


def _kept(found):
    return Transform("sym8", found.signal.shape).scaling.stop


@examples(25)
@given(seeds, st.sampled_from([-3.0, 1e3, 1e8]), st.sampled_from([(64,), (37,), (9, 14)]))
def test_a_constant_added_is_only_added(seed, shift, shape):
    y = random_signal(shape, seed % 1000)
    one, other = denoise(y), denoise(y + shift)
    tolerance = 1e-6 if shift == 1e8 else 1e-10
    np.testing.assert_allclose(other.signal - shift, one.signal, atol=tolerance)
    np.testing.assert_allclose(other.coefficients, one.coefficients, atol=tolerance)
    np.testing.assert_allclose(other.std, one.std, atol=tolerance)
    assert other.noise_variance == pytest.approx(one.noise_variance, rel=1e-5)


@examples(15)
@given(seeds, st.sampled_from([(16, 16), (12, 30), (7, 9)]))
def test_a_picture_may_be_turned(seed, shape):
    y = random_signal(shape, seed % 1000)
    one, other = denoise(y), denoise(y.T)
    if _kept(one) == _kept(other):  # where both set as many samples aside
        np.testing.assert_allclose(other.noise_variance, one.noise_variance, rtol=1e-6)
    if shape == (16, 16):
        np.testing.assert_allclose(other.signal, one.signal.T, atol=1e-9)
        np.testing.assert_allclose(other.std, one.std.T, atol=1e-9)


# What is given and what is returned


@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        pd.Series,
        lambda y: y.astype(object),
        lambda y: pd.Series(y, dtype="Float64"),
        lambda y: np.ma.masked_array(y, False),
        lambda y: y[::-1][::-1],
        lambda y: np.asfortranarray(y),
    ],
)
def test_anything_that_holds_numbers_will_do(make):
    y = steps(50)
    before = y.copy()
    np.testing.assert_array_equal(denoise(make(y)).signal, denoise(y).signal)
    np.testing.assert_array_equal(y, before)


@pytest.mark.parametrize("kind", ["float32", "float16", "int16", "uint8", "bool", "longdouble"])
def test_results_are_double_precision(kind):
    y = (20 * np.abs(steps(40))).astype(kind)
    found = denoise(y)
    assert found.signal.dtype == found.std.dtype == found.coefficients.dtype == np.float64
    np.testing.assert_allclose(found.signal, denoise(y.astype(float)).signal)


def test_the_attributes_of_one_signal():
    y = steps(100)
    found = denoise(y)
    assert isinstance(found.noise_variance, float)
    assert found.signal.shape == found.std.shape == found.coefficients.shape == (100,)
    assert found.n_atoms == found.solution.state.active.size
    assert found.converged
    assert found.certificate.holds(1e-6)
    assert found.data is y
    assert found.std is found.std
    (part,) = found.parts
    np.testing.assert_array_equal(found.offset + part, found.signal)
    X = np.arange(100)[:, None]
    Phi = Wavelet("sym8").bind(X).evaluate(X)
    np.testing.assert_allclose(found.least_squares, Phi.T @ (y - y.mean()), atol=1e-11)
    np.testing.assert_array_equal(found.coefficients[:3], found.least_squares[:3])  # not shrunk
    assert repr(found).startswith(f"<Denoised 100: {found.n_atoms} of 100 atoms, noise variance")
    copy = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(copy.std, found.std)
    np.testing.assert_array_equal(copy.parts[0], part)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_lines_along_an_axis_are_signals_of_their_own(axis):
    y = np.random.default_rng(0).standard_normal((5, 64, 3)) + np.arange(64)[:, None] // 32
    y = np.moveaxis(y, 1, axis)
    found = denoise(y, "haar", axis=axis)
    lines = np.moveaxis(y, axis, -1)
    assert found.noise_variance.shape == found.offset.shape == lines.shape[:-1]
    assert found.degrees_of_freedom.shape == found.log_marginal_likelihood.shape
    place = np.moveaxis(found.signal, axis, -1)
    std, coefficients = np.moveaxis(found.std, axis, -1), np.moveaxis(found.coefficients, axis, -1)
    (part,) = found.parts
    least_squares = np.moveaxis(found.least_squares, axis, -1)
    for i in np.ndindex(lines.shape[:-1]):
        one = denoise(lines[i], "haar")
        np.testing.assert_array_equal(place[i], one.signal)
        np.testing.assert_array_equal(std[i], one.std)
        np.testing.assert_array_equal(coefficients[i], one.coefficients)
        np.testing.assert_array_equal(least_squares[i], one.least_squares)
        np.testing.assert_array_equal(np.moveaxis(part, axis, -1)[i], one.parts[0])
        assert found.noise_variance[i] == one.noise_variance
        assert found.n_atoms[i] == one.n_atoms
    assert len(found.solution) == np.prod(lines.shape[:-1])
    assert found.converged
    worst = max(one.certificate.gradient_norm for one in found.solution)
    assert found.certificate.gradient_norm == worst
    assert f"in {len(found.solution)} lines" in repr(found)


def test_memory_is_a_few_arrays_and_no_more_for_the_error_bars_not_asked_for():
    y = steps(2**16)
    denoise(y[: 2**10])
    tracemalloc.start()
    denoise(y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * y.nbytes


# Dictionaries


def test_a_dictionary_of_wavelets_is_the_closed_form():
    y = steps(96)
    for name, level in [("sym8", None), ("haar", 2)]:
        one, other = denoise(y, name, level=level), denoise(y, Wavelet(name, level))
        np.testing.assert_array_equal(one.signal, other.signal)
        assert other.solution.n_iter == 1


@pytest.mark.parametrize("name", ["bior4.4", "dmey", "rbio2.2"])
def test_wavelets_that_are_not_orthonormal_are_fitted(name):
    y = steps(64)
    found = denoise(y, name)
    model = SparseBayesRegressor(Wavelet(name), prior="bic").fit(np.arange(64.0)[:, None], y)
    np.testing.assert_allclose(found.signal, model.predict(np.arange(64.0)[:, None]), atol=1e-6)
    assert found.n_atoms == len(model.relevance_)
    with pytest.raises(ValueError, match="one orthonormal wavelet transform"):
        _ = found.least_squares


def test_a_dictionary_is_fitted_as_an_estimator_fits_it():
    y, x = steps(60), np.linspace(0, 1, 60)
    found = denoise(y, Kernel("rbf", gamma=20.0), positions=x)
    X = x[:, None]
    model = SparseBayesRegressor(Kernel("rbf", gamma=20.0), prior="bic").fit(X, y)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(found.signal, mean)
    np.testing.assert_allclose(found.std, np.sqrt(std**2 - model.noise_variance_))
    np.testing.assert_allclose(found.coefficients[model.relevance_], model.weights_)
    assert found.coefficients.shape == (60,)
    assert found.noise_variance == model.noise_variance_
    assert found.log_marginal_likelihood == model.log_marginal_likelihood_
    assert found.degrees_of_freedom == pytest.approx(model.degrees_of_freedom_)
    given = denoise(y, Kernel("rbf", gamma=20.0), noise_variance=0.02, positions=x)
    assert given.noise_variance == 0.02


def test_parts_of_a_union_separate_what_they_are_made_for():
    data = blocks_sinc(512, random_state=0)
    union = Wavelet("haar") + Kernel("tps")
    found = denoise(data.y, union)
    assert len(found.parts) == 2
    np.testing.assert_allclose(found.offset + sum(found.parts), found.signal, atol=1e-9)
    assert found.offset == pytest.approx(data.y.mean())
    n = len(data.y)
    Phi = union.bind(np.arange(float(n))[:, None]).evaluate(np.arange(float(n))[:, None])
    for k, part in enumerate(found.parts):
        own = slice(k * n, (k + 1) * n)
        alone = Phi[:, own] @ found.coefficients[own]
        np.testing.assert_allclose(part, alone - alone.mean(), atol=1e-8)
        assert np.any(part != 0)


def test_parts_that_have_no_atoms_are_zero_and_unions_may_be_nested():
    rng = np.random.default_rng(0)
    y = np.arange(50.0) + rng.standard_normal(50)
    found = denoise(y, Union([Bias(), Union([Kernel("rbf", gamma=1.0), Linear()])]))
    assert len(found.parts) == 2
    assert not found.parts[0].any()
    np.testing.assert_allclose(found.offset + found.parts[1], found.signal)


def test_the_first_atom_of_a_part_is_its_own():
    y = np.arange(50.0) + np.random.default_rng(0).standard_normal(50)
    nothing, trend = denoise(y, Union([Bias(), Linear()])).parts
    assert not nothing.any()
    assert np.ptp(trend) > 40


def test_a_picture_may_be_fitted_too():
    y = picture((10, 8))
    found = denoise(y, Kernel("rbf", gamma=0.1) + Linear())
    assert found.signal.shape == found.std.shape == found.parts[0].shape == (10, 8)
    X = np.indices((10, 8)).reshape(2, -1).T.astype(float)
    dictionary = Kernel("rbf", gamma=0.1) + Linear()
    model = SparseBayesRegressor(dictionary, prior="bic").fit(X, y.ravel())
    np.testing.assert_allclose(found.signal.ravel(), model.predict(X))


def test_progress_goes_to_stderr(capsys):
    denoise(steps(40), Kernel("rbf", gamma=0.01), verbose=2)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "[denoise]" in shown.err
    assert "converged" in shown.err
    denoise(steps(40))
    assert capsys.readouterr().err == ""


def test_random_centers_repeat_with_their_seed():
    y = steps(80)
    kernel = Kernel("rbf", gamma=0.01, centers=12)
    one, same = (denoise(y, kernel, random_state=3).signal for _ in range(2))
    np.testing.assert_array_equal(one, same)


# Missing samples


def gappy(y, share=0.1, seed=0):
    holes = np.random.default_rng(seed).random(y.shape) < share
    return np.where(holes, np.nan, y), holes


@pytest.mark.parametrize(
    "wavelet", ["haar", Wavelet("haar"), Kernel("tps"), Wavelet("haar") + Kernel("tps")]
)
def test_missing_samples_are_filled_in_and_less_sure(wavelet):
    y, holes = gappy(steps(120))
    y[-2:] = np.nan
    holes[-2:] = True
    with pytest.warns(UserWarning, match=f"{holes.sum()} of 120 samples are missing"):
        found = denoise(y, wavelet)
    assert np.isfinite(found.signal).all()
    assert np.isfinite(found.std).all()
    assert found.signal.shape == (120,)
    assert np.isnan(found.data[holes]).all()
    truth = steps(120, noise=0.0)
    assert np.abs(found.signal - truth)[~holes].max() < 0.7
    np.testing.assert_allclose(found.offset + sum(found.parts), found.signal, atol=1e-8)


def test_marks_of_what_is_missing():
    y, holes = gappy(steps(64))
    with pytest.warns(UserWarning, match="missing"):
        expected = denoise(y, "haar").signal
    masked = np.ma.masked_array(np.where(holes, 99.0, y), holes)
    for marked in (masked, pd.Series(y, dtype="Float64"), [None if np.isnan(v) else v for v in y]):
        with pytest.warns(UserWarning, match="missing"):
            np.testing.assert_allclose(denoise(marked, "haar").signal, expected)


def test_gaps_in_pictures_and_lines():
    y, _ = gappy(picture((16, 12)))
    with pytest.warns(UserWarning, match="of 192 samples"):
        found = denoise(y, "haar")
    assert found.signal.shape == (16, 12)
    assert np.isfinite(found.signal).all()
    with pytest.warns(UserWarning, match="of 192 samples"):
        lines = denoise(y, "haar", axis=1)
    assert np.isfinite(lines.signal).all()
    whole = ~np.isnan(y).any(axis=1)
    assert whole.any()
    row = int(np.flatnonzero(whole)[0])
    np.testing.assert_array_equal(lines.signal[row], denoise(y[row], "haar").signal)
    with pytest.raises(ValueError, match="one orthonormal"):
        _ = lines.least_squares


@pytest.mark.filterwarnings("ignore:denoise")
def test_large_signals_are_reconstructed(monkeypatch):
    y, holes = gappy(steps(256))
    exact = denoise(y + 100.0, "haar")
    monkeypatch.setattr("sparsebayes.signals._LARGE", 16)
    found = denoise(y + 100.0, "haar")
    assert found.offset == pytest.approx(np.nanmean(y + 100.0))
    assert np.sqrt(np.mean((found.signal - exact.signal) ** 2)) < 0.05
    assert found.noise_variance == pytest.approx(exact.noise_variance, rel=0.3)
    assert found.std.shape == (256,)
    np.testing.assert_array_equal(found.offset + found.parts[0], found.signal)
    np.testing.assert_array_equal(np.isnan(found.data), holes)


@pytest.mark.filterwarnings("ignore:denoise")
def test_too_little_is_left():
    for y in (np.full(8, np.nan), [1.0, np.nan, np.nan]):
        with pytest.raises(ValueError, match="fewer than two samples"):
            denoise(y)


def test_rows_of_an_operator_are_pixels():
    image = np.add.outer(np.arange(6.0), 3 * np.sin(np.arange(9.0))) + random_signal((6, 9))
    X = np.argwhere(np.ones((6, 9)))
    atoms = Wavelet("haar").bind(X).evaluate(X)
    found = denoise(image, Operator(atoms), noise_variance=1.0)
    other = denoise(image.ravel(), Operator(atoms), noise_variance=1.0)
    assert found.signal.shape == found.std.shape == found.parts[0].shape == (6, 9)
    assert found.n_atoms > 0
    np.testing.assert_array_equal(found.signal.ravel(), other.signal)


def test_a_large_signal_with_gaps_is_warned_of_once(monkeypatch):
    monkeypatch.setattr("sparsebayes.reconstruction._FINE", ())  # whatever happens is trouble
    monkeypatch.setattr("sparsebayes.signals._FINE", ())
    y = doppler(4100, snr=7, random_state=0).y
    y[1000:1005] = np.nan
    with pytest.warns(UserWarning, match="denoise: ") as caught:
        denoise(y, "haar")
    assert [str(one.message)[:9] for one in caught] == 2 * ["denoise: "]
    assert {one.filename for one in caught} == {__file__}


def test_coefficients_of_a_large_signal_with_gaps_are_of_the_public_atoms():
    y = doppler(4110, snr=7, random_state=0).y
    y[1000:1005] = np.nan
    with pytest.warns(UserWarning, match="5 of 4110 samples are missing"):
        found = denoise(y, "haar")
    products = products_of(Wavelet("haar"), (4110,), None, np.random.RandomState(0))
    (signal,) = products.synthesize(found.coefficients[None])
    np.testing.assert_allclose(found.offset + signal, found.signal, atol=1e-9)


# Degenerate signals


@pytest.mark.parametrize("value", [0.0, 3.0, -1e-100, 1e100, 0.1])
@pytest.mark.parametrize("wavelet", ["sym8", "bior2.2", Kernel("rbf", gamma=1.0)])
def test_a_constant_signal_is_itself(value, wavelet):
    y = np.full(20, value)
    found = denoise(y, wavelet)
    np.testing.assert_allclose(found.signal, y, rtol=1e-15)
    assert not found.std.any()
    assert found.n_atoms == 0
    assert found.noise_variance == 0.0
    assert found.converged
    noisy = denoise(y, wavelet, noise_variance=4.0)
    np.testing.assert_allclose(noisy.signal, y, rtol=1e-15)
    assert noisy.noise_variance == 4.0
    assert noisy.std.min() >= 2 / 20**0.5 * (1 - 1e-9)


@pytest.mark.parametrize("noise", [1e-80, 1e80])
def test_a_constant_has_the_unit_of_its_noise(noise):
    found = denoise(np.full(16, 3.0), noise_variance=noise)
    np.testing.assert_allclose(found.std, np.sqrt(noise / 16))
    np.testing.assert_array_equal(found.signal, 3.0)


def test_a_constant_with_a_prior_of_the_noise():
    found = denoise(np.full(20, 3.0), noise_prior=(2.0, 8.0))
    assert 0 < found.noise_variance < 8.0
    assert found.converged


def test_a_flat_prior_explains_everything_and_says_so():
    with pytest.warns(ConvergenceWarning, match="denoise: the model explains the data almost"):
        found = denoise(steps(64), prior="flat")
    assert found.solution.status is Status.COLLAPSED
    with pytest.warns(ConvergenceWarning, match="denoise: 3 of 3 lines: the model"):
        denoise(np.stack([steps(64, k) for k in range(3)]), prior="flat", axis=1)


# Bad input


@pytest.mark.parametrize(
    ("signal", "message"),
    [
        ([], "empty"),
        (np.zeros((3, 0)), "empty"),
        (5.0, "must be an array"),
        (None, "must be an array"),
        ([1.0], "one sample only"),
        (np.zeros((2, 3, 4)), "give axis="),
        ([1 + 2j, 3.0], "complex"),
        (np.array([1, 2j], dtype=object), "must be numbers"),
        ([1.0, np.inf, 2.0], "infinite at 1"),
        ([[1.0, 2.0], [0.0, -np.inf]], r"infinite at \(1, 1\)"),
        (["a", "b"], "must be numbers"),
        ("signal.csv", "must be numbers"),
        ([1.0, "x", 3.0], "must be numbers"),
        (np.array([1.0, "x"], dtype=object), "must be numbers"),
        ([[1.0, 2.0], [3.0]], "rows that differ"),
        (np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]"), "must be numbers"),
        ([0.0, 1e200, 3e200], "another unit"),
        ([0.0, 1e-200, 3e-200], "another unit"),
        ([1e308, 1e308, -1e308], "another unit"),
    ],
)
def test_signals_that_are_none(signal, message):
    with pytest.raises(ValueError, match=message) as caught:
        denoise(signal)
    assert "\n" not in str(caught.value)


def test_a_sparse_matrix_is_refused():
    with pytest.raises(TypeError, match="sparse"):
        denoise(sp.csr_matrix(np.eye(4)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"wavelet": "sym99"}, "unknown discrete wavelet 'sym99'"),
        ({"wavelet": "morl"}, "unknown discrete wavelet"),
        ({"wavelet": 3}, "name of a discrete wavelet"),
        ({"wavelet": Kernel}, "name of a discrete wavelet"),
        ({"wavelet": Kernel("precomputed")}, "precomputed"),
        ({"wavelet": Wavelet("haar", shape=32)}, "does not fit a signal of shape"),
        ({"wavelet": Kernel("rbf"), "level": 2}, "level is one of the dictionary"),
        ({"wavelet": Kernel("rbf"), "by_scale": True}, "by_scale=True is for orthonormal"),
        ({"wavelet": "bior4.4", "noise_variance": "mad"}, "'mad' is for orthonormal"),
        ({"prior": "strong"}, "prior must be one of"),
        ({"prior": -1}, "prior must be one of"),
        ({"noise_variance": 0}, "noise_variance must be"),
        ({"noise_variance": "sure"}, "noise_variance must be"),
        ({"noise_variance": True}, "noise_variance must be"),
        ({"noise_variance": 1e-300}, "out of proportion"),
        ({"noise_prior": (1.0, 1e-300)}, "out of proportion"),
        ({"noise_prior": 3}, "noise_prior must be"),
        ({"noise_prior": (1.0, 1.0), "noise_variance": 1.0}, "noise_variance must be None"),
        ({"level": 0}, "level must be"),
        ({"level": 1.5}, "level must be"),
        ({"level": 7}, "no more than 6 levels"),
        ({"axis": 1}, "axis=1 is not an axis"),
        ({"axis": -2}, "axis=-2 is not an axis"),
        ({"axis": 0.5}, "axis must be"),
        ({"by_scale": "yes"}, "by_scale must be"),
        ({"tol": 0}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"verbose": -1}, "verbose must be"),
        ({"random_state": "seed"}, "random_state must be"),
        ({"wavelet": Kernel("rbf"), "positions": [1.0, 2.0]}, "one row for each of 64 samples"),
        ({"wavelet": Kernel("rbf"), "positions": [1j] * 64}, "positions must be real"),
        ({"wavelet": Kernel("rbf"), "positions": [np.nan] * 64}, "positions must be finite"),
        ({"wavelet": "haar", "positions": np.sqrt(np.arange(64.0))}, "equally spaced|regular|grid"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        denoise(steps(64), **settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wavelet", [StationaryWavelet("haar", 2), Wavelet("haar", mode="zero")])
def test_other_wavelets(wavelet):
    y = steps(48)
    found = denoise(y, wavelet)
    model = SparseBayesRegressor(wavelet, prior="bic").fit(np.arange(48.0)[:, None], y)
    np.testing.assert_allclose(found.signal, model.predict(np.arange(48.0)[:, None]), atol=1e-9)
    assert found.coefficients.size > 48
