"""Latent posteriors against their definition: every column written out, nothing clever."""

import json
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from sparsebayes.dictionaries import Kernel, Linear
from sparsebayes.latent_posterior import LatentPosterior

D = 5


def posterior(K=3, m=6, seed=0, dictionary=None, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(8, D)) + shift
    atoms = (dictionary or Linear()).bind(X)
    chosen = np.sort(rng.choice(atoms.size * K, size=m, replace=False))
    used, atom = np.unique(chosen // K, return_inverse=True)
    return LatentPosterior(
        atoms=atoms.restrict(used),
        atom=atom.astype(np.intp),
        latent=(chosen % K).astype(np.intp),
        norm=rng.uniform(0.5, 3, size=m),
        center=rng.normal(size=(m, K)),
        mean=rng.normal(size=m),
        root=rng.normal(size=(m, m)) / 3,
        prior_variance=rng.uniform(0.1, 2, size=m),
        offset=rng.normal(size=K),
        offset_root=rng.normal(size=(K, K)) / 4,
    )


CASES = {
    "one latent function": posterior(1, 3),
    "three": posterior(3, 6),
    "three, all columns": posterior(3, 3 * D),
    "kernels": posterior(4, 9, dictionary=Kernel(gamma=0.2)),
    "union": posterior(2, 7, dictionary=Linear() + Kernel(gamma=0.2)),
    "a latent function without columns": posterior(5, 2),
    "no columns": posterior(3, 0),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request):
    X = np.random.default_rng(9).normal(size=(20, D))
    return request.param, X


def columns(post, X):
    """(n, m, K): what each centered column of unit norm adds to each latent function."""
    m, K = len(post.norm), len(post.offset)
    U = np.zeros((len(X), m, K))
    for i in range(m):
        phi = post.atoms.evaluate(X)[:, post.atom[i]]
        for n in range(len(X)):
            unit = np.eye(K)[post.latent[i]]
            U[n, i] = (phi[n] * unit - post.center[i]) / post.norm[i]
    return U


def test_moments(case):
    post, X = case
    U = columns(post, X)
    want = post.offset + np.einsum("nik,i->nk", U, post.mean)
    Sigma = post.root @ post.root.T
    want_cov = np.einsum("nik,ij,njl->nkl", U, Sigma, U) + post.offset_root @ post.offset_root.T
    mean, covariance = post.spread(X)
    assert_allclose(mean, want, atol=1e-12)
    assert_allclose(covariance, want_cov, atol=1e-12)
    assert_allclose(post.predict(X), want, atol=1e-12)
    assert_array_equal(covariance, covariance.transpose(0, 2, 1))
    assert np.linalg.eigvalsh(covariance).min() > -1e-12
    assert post.n_latent == len(post.offset)


def test_in_terms_of_the_atoms_as_given(case):
    post, X = case
    f = np.tile(post.intercept, (len(X), 1))
    for i, w in enumerate(post.weights):
        f[:, post.latent[i]] += w * post.atoms.evaluate(X)[:, post.atom[i]]
    assert_allclose(f, post.predict(X), atol=1e-12)
    scale = np.diag(1 / post.norm)
    assert_allclose(post.covariance, scale @ post.root @ post.root.T @ scale, atol=1e-14)
    assert_allclose(post.weight_variance, post.prior_variance / post.norm**2)


def test_draws_are_joint_over_rows_and_functions(case):
    post, X = case
    X, size = X[:4], 20_000
    draws = post.sample(X, size, np.random.default_rng(0))
    K = post.n_latent
    assert draws.shape == (4, K, size)
    flat = columns(post, X).transpose(0, 2, 1).reshape(4 * K, -1)
    want = flat @ post.root @ post.root.T @ flat.T
    want += np.tile(post.offset_root @ post.offset_root.T, (4, 4))
    std = np.sqrt(want.diagonal())
    error = draws.mean(axis=2).ravel() - post.predict(X).ravel()
    assert (np.abs(error) < 5 * std / size**0.5).all()
    got = np.cov(draws.reshape(4 * K, size))
    assert (np.abs(got - want) < 0.05 * np.outer(std, std)).all()
    assert_array_equal(draws, post.sample(X, size, np.random.default_rng(0)))
    assert post.sample(X, 2, np.random.RandomState(0)).shape == (4, K, 2)


def test_sparse_rows(case):
    post, X = case
    X = np.where(np.random.default_rng(3).random(X.shape) < 0.6, 0.0, X)
    for got, want in zip(post.spread(sp.csr_matrix(X)), post.spread(X), strict=True):
        assert_allclose(got, want, atol=1e-12)


@pytest.mark.parametrize(("K", "far"), [(1, 2.0**40), (3, 2.0**12)])
def test_atoms_far_from_zero_lose_few_digits(K, far):
    """Centers as a fit makes them: what is left of a constant is a shift that all share."""
    rng = np.random.default_rng(0)
    X = rng.integers(-8, 8, size=(20, D)).astype(float)
    near, moved = posterior(K, 3), posterior(K, 3)
    contrast = np.eye(K) - 1 / K if K > 1 else np.eye(1)
    near.center[:] = contrast[near.latent] * rng.integers(-8, 8, size=(3, 1))
    moved.center[:] = near.center + contrast[near.latent] * far
    assert_allclose(moved.predict(X + far) @ contrast, near.predict(X) @ contrast, rtol=1e-9)
    got, want = moved.spread(X + far)[1], near.spread(X)[1]
    assert_allclose(contrast @ got @ contrast, contrast @ want @ contrast, atol=1e-8)


def test_rows_come_in_blocks():
    rng = np.random.default_rng(0)
    post = posterior(3, 150, dictionary=Kernel(gamma=0.2, centers=rng.normal(size=(100, D))))
    X = rng.normal(size=(60_000, D))
    calls = {
        "predict": lambda: post.predict(X),
        "spread": lambda: post.spread(X)[1],
        "sample": lambda: post.sample(X, 2, np.random.default_rng(0)),
    }
    for name, call in calls.items():
        tracemalloc.start()
        result = call()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20e6 + 4 * result.nbytes < 8 * len(X) * 150, name
    some = slice(None, None, 7919)
    assert_allclose(calls["spread"]()[some], post.spread(X[some])[1], rtol=1e-9)
    assert_allclose(calls["predict"]()[some], post.predict(X[some]), rtol=1e-9, atol=1e-12)


def test_no_rows(case):
    post, X = case
    K = post.n_latent
    assert post.predict(X[:0]).shape == (0, K)
    assert [a.shape for a in post.spread(X[:0])] == [(0, K), (0, K, K)]
    assert post.sample(X[:0], 3, np.random.default_rng(0)).shape == (0, K, 3)


def test_round_trip(case):
    post, X = case
    spec, arrays = post.to_spec()
    spec = json.loads(json.dumps(spec))
    arrays = {name: value.copy() for name, value in arrays.items()}
    same = LatentPosterior.from_spec(spec, arrays)
    for got, want in zip(same.spread(X), post.spread(X), strict=True):
        assert_array_equal(got, want)
    for name in ("weights", "covariance", "weight_variance", "intercept", "atom", "latent"):
        assert_array_equal(getattr(same, name), getattr(post, name))


HOSTILE = {
    "lacks norm": lambda a: a.pop("norm"),
    "lacks latent": lambda a: a.pop("latent"),
    "lacks atoms": lambda a: [a.pop(k) for k in list(a) if k.startswith("atoms.")],
    "short mean": lambda a: a.update(mean=a["mean"][:-1]),
    "mean of two dimensions": lambda a: a.update(mean=a["mean"][:, None]),
    "long center": lambda a: a.update(center=np.vstack([a["center"], a["center"]])),
    "narrow center": lambda a: a.update(center=a["center"][:, :-1]),
    "single precision": lambda a: a.update(root=a["root"].astype(np.float32)),
    "NaN": lambda a: a.update(offset=np.full_like(a["offset"], np.nan)),
    "infinity": lambda a: a.update(prior_variance=np.full_like(a["prior_variance"], np.inf)),
    "norm of zero": lambda a: a.update(norm=0 * a["norm"]),
    "negative variance": lambda a: a.update(prior_variance=-a["prior_variance"]),
    "no latent function": lambda a: a.update(
        offset=np.empty(0), offset_root=np.empty((0, 0)), center=np.empty((len(a["norm"]), 0))
    ),
    "no columns": lambda a: a.update(
        {k: np.empty((0,) * a[k].ndim, dtype=a[k].dtype) for k in ("norm", "mean", "root", "atom")}
    ),
    "atom outside": lambda a: a.update(atom=a["atom"] + 1),
    "atom before": lambda a: a.update(atom=a["atom"] - 1),
    "latent outside": lambda a: a.update(latent=a["latent"] + 1),
    "latent before": lambda a: a.update(latent=a["latent"] - 1),
    "atom not an index": lambda a: a.update(atom=a["atom"].astype(float)),
    "latent not an index": lambda a: a.update(latent=a["latent"].astype("U3")),
    "objects": lambda a: a.update(mean=a["mean"].astype(object)),
    "the same column twice": lambda a: a.update(
        atom=np.append(a["atom"][:-1], a["atom"][0]),
        latent=np.append(a["latent"][:-1], a["latent"][0]),
    ),
    "offset root of another size": lambda a: a.update(offset_root=np.eye(2)),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_arrays(change):
    post = posterior(3, 3 * D)
    spec, arrays = post.to_spec()
    change(arrays)
    with pytest.raises(ValueError, match="stored"):
        LatentPosterior.from_spec(spec, arrays)


def test_an_atom_that_no_column_uses():
    spec, arrays = posterior(3, 3 * D).to_spec()
    arrays["atom"] = np.repeat(np.arange(D)[: D - 1], 3)
    for name, value in arrays.items():
        if name not in ("atom", "offset", "offset_root") and not name.startswith("atoms."):
            arrays[name] = value[:12, :12] if name == "root" else value[:12]
    with pytest.raises(ValueError, match="number of atoms"):
        LatentPosterior.from_spec(spec, arrays)


@pytest.mark.parametrize("spec", [{}, None, [], {"atoms": None}, {"atoms": {"kind": "os.system"}}])
def test_hostile_specs(spec):
    arrays = posterior(3, 6).to_spec()[1]
    with pytest.raises(ValueError, match="stored"):
        LatentPosterior.from_spec(spec, arrays)
