"""The quadratic of a curvature and a pull on every column: the same as dense sums over samples."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from random_latent_problems import Frozen
from random_problems import examples, seeds
from sparsebayes.core import stored
from sparsebayes.core.intercepts import Intercepts
from sparsebayes.core.stored import expanded_quadratic, weighted_gram
from sparsebayes.core.tolerances import TOLERANCES
from sparsebayes.design import ArrayDesign, BlockedDesign
from sparsebayes.dictionaries import Linear
from sparsebayes.likelihoods import Multinomial

latents = st.sampled_from([1, 2, 3, 5])


def assert_equal(fast, slow, to=1e-9, scale=None):
    """To 1e-9 of the largest entry, or of ``scale``."""
    fast, slow = np.asarray(fast), np.asarray(slow)
    assert fast.shape == slow.shape
    scale = np.abs(slow).max(initial=0.0) if scale is None else scale
    np.testing.assert_allclose(fast, slow, rtol=to, atol=to * scale)


def random_curvature(rng, n, K, softmax):
    """Positive definite, or that of a softmax: shift invariant. Some rows have none."""
    weights = 10.0 ** rng.uniform(-2, 0, n) * (rng.uniform(size=n) < 0.9)
    if softmax and K > 1:
        f, t = rng.standard_normal((n, K)), np.zeros(n)
        B = Multinomial(K).expand(t, f).curvature
    else:
        root = rng.standard_normal((n, K, K))
        B = root @ root.transpose(0, 2, 1)
    return B * weights[:, None, None]


def random_parts(seed, K, softmax, n=12, m=4):
    rng = np.random.RandomState(seed)
    Phi = rng.standard_normal((n, m)) * 10.0 ** rng.uniform(-2, 2, m) + rng.choice([0, 1], m)
    Phi *= rng.uniform(size=(n, m)) < 0.8
    B = random_curvature(rng, n, K, softmax)
    pull = np.einsum("nkl,nl->nk", B, rng.standard_normal((n, K)))
    return Phi, B, pull


def dense(Phi, B, pull, center):
    n, K = pull.shape
    whole = np.zeros((n, K, n, K))
    whole[np.arange(n), :, np.arange(n)] = B
    return Frozen(Phi, whole.reshape(n * K, n * K), np.zeros((n, K)), pull, center)


def scaled(definition, quad):
    """G and g of columns of unit norm, by definition."""
    inverse = np.where(quad.norm > 0, 1 / np.where(quad.norm > 0, quad.norm, 1.0), 0.0)
    return inverse[:, None] * definition.H * inverse, inverse * definition.b


def check(quad, definition, to=1e-9):
    size = definition.H.diagonal()
    K, group = quad.K, quad.group
    wanted = size.reshape(-1, K)
    wanted = np.repeat(wanted.mean(axis=1), K) if group > 1 else size
    assert_equal(quad.norm**2, wanted, to)
    G, g = scaled(definition, quad)
    assert_equal(quad.diag, G.diagonal(), to)
    assert_equal(quad.g[:, 0], g, to)
    every = np.arange(quad.size)
    assert_equal(quad.gram(every).G, G, to, scale=1.0)  # from blocks
    assert_equal(quad.columns(every), G, to, scale=1.0)
    assert_equal(quad.gram(every).G, G, to, scale=1.0)  # from whole columns, kept
    columns = np.arange(len(G))
    # but for a shift of all latent functions, where that changes nothing
    assert_equal(quad.centers(columns) @ definition.C, definition.centers @ definition.C, to)
    blocks = quad.blocks
    assert blocks.shape == (quad.size, group, group)
    for a in range(quad.size):
        own = slice(a * group, (a + 1) * group)
        assert_equal(blocks[a], G[own, own], to, scale=1.0)


@examples(60)
@given(seeds, latents, st.booleans(), st.booleans(), st.booleans())
def test_everything_equals_its_definition(seed, K, softmax, center, shared):
    Phi, B, pull = random_parts(seed, K, softmax)
    quad = expanded_quadratic(ArrayDesign(Phi), B, pull, center, shared)
    check(quad, dense(Phi, B, pull, center))
    assert quad.size == Phi.shape[1] * (1 if shared else K)


@examples(20)
@given(seeds, latents, st.booleans(), st.booleans(), st.integers(1, 13))
def test_dense_sparse_and_blocked_give_the_same(seed, K, center, shared, block_rows):
    Phi, B, pull = random_parts(seed, K, softmax=True)
    plain = expanded_quadratic(ArrayDesign(Phi), B, pull, center, shared)
    designs = [
        ArrayDesign(np.asfortranarray(Phi)),
        ArrayDesign(sp.csc_matrix(Phi)),
        ArrayDesign(sp.csc_array(Phi)),
        BlockedDesign(Linear().bind(Phi), Phi, block_rows),
    ]
    some = np.array([plain.size - 1, 0])
    for design in designs:
        quad = expanded_quadratic(design, B, pull, center, shared)
        check(quad, dense(Phi, B, pull, center))
        assert_equal(quad.columns(some), plain.columns(some), scale=1.0)
        assert_equal(quad.gram(some).G, plain.gram(some).G, scale=1.0)


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("cells", [1, 50, 100])
def test_pieces_are_as_good_as_the_whole(K, center, shared, cells, monkeypatch):
    Phi, B, pull = random_parts(3, K, softmax=True)
    Phi = np.hstack([Phi, 1e3 + 1e-3 * Phi[:, :2]])  # summed afresh, in pieces as well
    whole = expanded_quadratic(ArrayDesign(Phi), B, pull, center, shared)
    small = TOLERANCES._replace(chunk_cells=cells, weighted_cells=cells)
    monkeypatch.setattr(stored, "TOLERANCES", small)
    quad = expanded_quadratic(ArrayDesign(Phi), B, pull, center, shared)
    assert_equal(quad.norm, whole.norm)
    every = np.arange(quad.size)
    assert_equal(quad.columns(every), whole.columns(every))
    assert_equal(quad.blocks, whole.blocks)


@examples(20)
@given(seeds, latents, st.booleans())
def test_some_columns_some_of_them_kept(seed, K, shared):
    Phi, B, pull = random_parts(seed, K, softmax=True)
    quad = expanded_quadratic(ArrayDesign(Phi), B, pull, True, shared)
    rng = np.random.RandomState(seed)
    G, g = scaled(dense(Phi, B, pull, True), quad)
    quad.columns(rng.permutation(quad.size)[: quad.size // 2])
    computed = quad.cache.n_columns
    assert computed == quad.size // 2 * quad.group
    some = rng.permutation(quad.size)[: max(1, quad.size - 1)]
    own = quad.members(some)
    gram = quad.gram(some)
    assert quad.cache.n_columns == computed
    assert_equal(gram.G, G[np.ix_(own, own)], scale=1.0)
    assert_equal(gram.g[:, 0], g[own])
    assert gram.group == quad.group
    assert gram.size == some.size
    assert_equal(quad.columns(some), G[own], scale=1.0)
    assert quad.cache.n_columns <= quad.size * quad.group


def test_columns_are_numbered_atom_by_atom():
    Phi, B, pull = random_parts(0, 3, softmax=True)
    own = expanded_quadratic(ArrayDesign(Phi), B, pull, True)
    every = np.arange(12)
    np.testing.assert_array_equal(own.atom(every), np.repeat(np.arange(4), 3))
    np.testing.assert_array_equal(own.latent(every), np.tile(np.arange(3), 4))
    np.testing.assert_array_equal(own.members(np.array([5, 1])), [5, 1])
    shared = expanded_quadratic(ArrayDesign(Phi), B, pull, True, shared=True)
    np.testing.assert_array_equal(shared.members(np.array([2, 0])), [6, 7, 8, 0, 1, 2])


@examples(30)
@given(seeds, latents, st.booleans())
def test_intercepts(seed, K, softmax):
    B = random_curvature(np.random.RandomState(seed), 9, K, softmax)
    found = Intercepts(B, center=True)
    C = B.sum(axis=0)
    assert_equal(found.C, C)
    assert_equal(found.covariance, np.linalg.pinv(C, rcond=1e-10, hermitian=True), to=1e-8)
    assert_equal(found.root @ found.root.T, found.covariance)
    sizes = np.linalg.eigvalsh(C)
    sizes = sizes[1:] if softmax and K > 1 else sizes
    volume = 0.5 * np.sum(np.log(2 * np.pi / sizes))
    assert found.log_volume == pytest.approx(volume, rel=1e-9, abs=1e-9)
    none = Intercepts(B, center=False)
    assert not none.covariance.any()
    assert not none.root.any()
    assert none.log_volume == 0


@examples(20)
@given(seeds, latents, st.booleans())
def test_the_offset_is_the_best_intercept_of_the_quadratic(seed, K, softmax):
    """Of sum of pull'f - f'B f / 2 with centered columns, whatever their weights."""
    Phi, B, pull = random_parts(seed, K, softmax)
    quad = expanded_quadratic(ArrayDesign(Phi), B, pull, True)
    w = np.random.RandomState(seed).standard_normal(quad.size)
    f = quad.offset + (dense(Phi, B, pull, True).every @ w).reshape(-1, K)
    left = (pull - np.einsum("nkl,nl->nk", B, f)).sum(axis=0)
    scale = np.abs(np.einsum("nkl,nl->nk", B, f)).sum()
    assert np.abs(left).max() < 1e-9 * (scale + np.abs(pull).sum())


@examples(30)
@given(seeds, latents)
def test_weighted_gram_equals_its_definition(seed, K):
    rng = np.random.RandomState(seed)
    B = random_curvature(rng, 8, K, softmax=False)
    rows, latent = rng.standard_normal((6, 8)), rng.randint(0, K, 6)
    slow = np.einsum("in,nij,jn->ij", rows, B[:, latent][:, :, latent], rows)
    assert_equal(weighted_gram(rows, latent, B), slow)
    assert weighted_gram(rows[:0], latent[:0], B).shape == (0, 0)


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("storage", [np.asarray, sp.csc_matrix])
def test_a_constant_is_no_atom_beside_an_intercept(K, shared, storage):
    Phi, B, pull = random_parts(1, K, softmax=True)
    Phi[:, 1], Phi[:, 2] = 1 / 3, 0.0
    centered = expanded_quadratic(ArrayDesign(storage(Phi)), B, pull, True, shared)
    plain = expanded_quadratic(ArrayDesign(storage(Phi)), B, pull, False, shared)
    for quad, void in (
        (centered, [False, True, True, False]),
        (plain, [False, False, True, False]),
    ):
        np.testing.assert_array_equal(quad.norm == 0, np.repeat(void, K))
        np.testing.assert_array_equal(quad.diag == 0, np.repeat(void, K))
        assert not quad.g[np.repeat(void, K)].any()
        columns = quad.columns(np.arange(quad.size))
        assert np.isfinite(columns).all()
        assert not columns[:, np.repeat(void, K)].any()


@pytest.mark.parametrize("offset", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("K", [1, 3, 5])
@pytest.mark.parametrize("shared", [False, True])
def test_atoms_far_from_zero_keep_their_digits(offset, K, shared):
    """Beside intercepts an atom and the same atom, shifted, are one; to what float64 has left."""
    Phi, B, pull = random_parts(2, K, softmax=True)
    Phi = np.random.RandomState(0).standard_normal(Phi.shape)
    shifted = Phi + offset
    Phi = shifted - offset  # what is left of it
    one, two = (
        expanded_quadratic(ArrayDesign(each), B, pull, True, shared) for each in (Phi, shifted)
    )
    to = 1e-13 * offset + 1e-9
    assert_equal(two.norm, one.norm, to)
    assert_equal(two.g, one.g, to)
    every = np.arange(one.size)
    assert_equal(two.gram(every).G, one.gram(every).G, to)
    assert_equal(two.columns(every), one.columns(every), to)
    assert_equal(two.blocks, one.blocks, to, scale=1.0)
    assert_equal(two.centers(every), one.centers(every) + offset * np.eye(K)[every % K], to)


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("center", [False, True])
def test_samples_without_curvature(K, center):
    """Saturated rows have no say; where nearly all are, atoms have no norm to speak of."""
    Phi, B, pull = random_parts(4, K, softmax=True)
    B[3:6] = pull[3:6] = 0.0
    check(expanded_quadratic(ArrayDesign(Phi), B, pull, center), dense(Phi, B, pull, center))
    wild = Phi.copy()
    wild[3:6] = 1e6
    one, two = (expanded_quadratic(ArrayDesign(each), B, pull, center) for each in (Phi, wild))
    assert_equal(two.norm, one.norm, to=1e-6)
    faint = expanded_quadratic(ArrayDesign(Phi), 1e-200 * B, 1e-200 * pull, center)
    assert_equal(faint.norm, 1e-100 * one.norm)
    every = np.arange(one.size)
    assert_equal(faint.columns(every), one.columns(every))


@pytest.mark.parametrize(("K", "center"), [(1, False), (3, False), (3, True)])
def test_no_curvature_at_all(K, center):
    Phi, B, pull = random_parts(4, K, softmax=True)
    nothing = expanded_quadratic(ArrayDesign(Phi), 0 * B, 0 * pull, center)
    assert not nothing.norm.any()
    assert not nothing.g.any()
    assert not nothing.columns(np.arange(nothing.size)).any()


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("scale", [1e-100, 1e-30, 1e30, 1e100])
def test_scale_of_atoms_does_not_matter(K, center, scale):
    Phi, B, pull = random_parts(5, K, softmax=True)
    one = expanded_quadratic(ArrayDesign(Phi), B, pull, center)
    two = expanded_quadratic(ArrayDesign(Phi * [1.0, scale, scale, 1.0]), B, pull, center)
    factor = np.repeat([1.0, scale, scale, 1.0], K)
    assert_equal(two.norm / factor, one.norm)
    assert_equal(two.g, one.g)
    every = np.arange(one.size)
    assert_equal(two.columns(every), one.columns(every))
    assert_equal(two.gram(every).G, one.gram(every).G)


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_atoms_whose_squares_leave_the_range_are_refused(K, center, scale):
    Phi, B, pull = random_parts(5, K, softmax=True)
    with pytest.raises(ValueError, match="leave the range of float64"):
        expanded_quadratic(ArrayDesign(Phi * scale), B, pull, center)
