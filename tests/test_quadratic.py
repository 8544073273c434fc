"""The quadratic is the Gram matrix of centered atoms of unit norm, however it is computed."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import oracle
from random_problems import examples, seeds
from sparsebayes.core import quadratic, stored
from sparsebayes.core.stored import weighted_quadratic
from sparsebayes.core.tolerances import TOLERANCES
from sparsebayes.design import ArrayDesign, BlockedDesign
from sparsebayes.dictionaries import Linear


def definition(Phi, t, center):
    """G, g, tt and spread of repeated rows."""
    Phi, t = Phi.astype(np.longdouble), t.astype(np.longdouble)
    variance = np.sum(np.var(t, axis=0))
    if center:
        Phi, t = Phi - Phi.mean(axis=0), t - t.mean(axis=0)
    norm = np.sqrt(np.sum(Phi**2, axis=0))
    unit = np.where(norm > 1e-9, Phi / np.where(norm > 1e-9, norm, 1), 0)
    parts = unit.T @ unit, unit.T @ t, np.sum(t**2), variance
    return tuple(np.asarray(part, dtype=float) for part in parts)


@examples(40)
@given(
    seeds, st.booleans(), st.booleans(), st.integers(2, 12), st.integers(1, 8), st.integers(1, 3)
)
def test_every_storage_gives_the_gram_matrix_of_the_definition(
    seed, center, weighted, n, m, n_targets
):
    rng = np.random.RandomState(seed)
    Phi = (rng.standard_normal((n, m)) + 1) * (rng.uniform(size=(n, m)) < 0.7)
    t = rng.standard_normal((n, n_targets)) + 2
    weights = rng.randint(0, 4, n) if weighted else None
    if weighted:
        weights[:2] += 1
    rows = oracle.repeated(Phi, weights), oracle.repeated(t, weights)
    G, g, tt, spread = definition(*rows, center)
    total = len(rows[0])
    floats = None if weights is None else weights.astype(float)
    designs = [
        ArrayDesign(Phi),
        ArrayDesign(sp.csc_matrix(Phi)),
        BlockedDesign(Linear().bind(Phi), Phi, 5),
    ]
    for design in designs:
        quad = weighted_quadratic(design, t, floats, center)
        some = rng.permutation(m)[: m // 2 + 1]
        before = quad.gram(some)  # nothing cached
        np.testing.assert_allclose(before.G, G[np.ix_(some, some)], atol=1e-11)
        np.testing.assert_allclose(quad.columns(some), G[some], atol=1e-11)
        every = rng.permutation(m)
        mixed = quad.gram(every)  # some cached, some not
        np.testing.assert_allclose(mixed.G, G[np.ix_(every, every)], atol=1e-11)
        np.testing.assert_allclose(mixed.g, g[every], atol=1e-11)
        np.testing.assert_allclose(quad.g, g, atol=1e-11)
        np.testing.assert_allclose(quad.diag, G.diagonal(), atol=1e-11)
        assert quad.size == m
        for one in (quad, mixed):
            assert one.tt == pytest.approx(tt, rel=1e-10, abs=1e-12)
            assert one.spread == pytest.approx(spread, rel=1e-10, abs=1e-12)
            assert one.n == total - center
            assert one.log_offset == pytest.approx(-0.5 * n_targets * np.log(total) * center)


@examples(30)
@given(seeds, st.booleans(), st.lists(st.integers(1, 90), min_size=3, max_size=10))
def test_the_column_cache_never_returns_a_wrong_column(seed, weighted, sizes):
    """Requests large and small, so that columns are kept, forgotten and computed again."""
    rng = np.random.RandomState(seed)
    Phi, t = rng.standard_normal((15, 200)) + 1, rng.standard_normal((15, 1))
    weights = rng.uniform(0.5, 2, 15) if weighted else None
    quad = weighted_quadratic(ArrayDesign(Phi), t, weights, center=True)
    every = np.arange(200)
    G = weighted_quadratic(ArrayDesign(Phi), t, weights, center=True).gram(every).G
    for size in sizes:
        wanted = rng.permutation(200)[:size]
        np.testing.assert_allclose(quad.columns(wanted), G[wanted], atol=1e-12)
        some = rng.permutation(200)[: max(1, size // 2)]
        np.testing.assert_allclose(quad.gram(some).G, G[np.ix_(some, some)], atol=1e-12)


def test_a_column_seen_before_is_not_computed_again():
    rng = np.random.RandomState(0)
    Phi, t = rng.standard_normal((9, 30)), rng.standard_normal((9, 1))
    quad = weighted_quadratic(ArrayDesign(Phi), t)
    first = quad.columns(np.array([4, 7]))
    again = quad.columns(np.array([7, 2, 4]))
    assert quad.cache.n_columns == 3
    np.testing.assert_array_equal(again[[2, 0]], first)


def test_atoms_left_of_a_block_are_not_computed_again(monkeypatch):
    rng = np.random.RandomState(0)
    Phi, t = rng.standard_normal((9, 30)), rng.standard_normal((9, 1))
    quad = weighted_quadratic(ArrayDesign(Phi), t)
    asked, compute = [], quad.products.block

    def block(some, unit):
        asked.append(some.tolist())
        return compute(some, unit)

    monkeypatch.setattr(quad.products, "block", block)
    crowd = np.array([3, 8, 1, 20, 5])
    whole = quad.gram(crowd).G
    left = whole[np.ix_([4, 1], [4, 1])].copy()
    whole[:] = 0  # what is remembered is a copy
    np.testing.assert_array_equal(quad.gram(crowd[[4, 1]]).G, left)
    quad.columns(np.array([8]))
    np.testing.assert_allclose(quad.gram(crowd[[4, 1]]).G, left, atol=1e-14)
    assert asked == [crowd.tolist()]
    quad.gram(np.array([5, 9]))  # another one beside those known: a new block, of both
    assert asked == [crowd.tolist(), [5, 9]]
    monkeypatch.setattr(quadratic, "TOLERANCES", TOLERANCES._replace(recent=1))
    quad.gram(np.array([2, 3]))
    quad.gram(np.array([2, 3]))
    assert asked[2:] == [[2, 3], [2, 3]]  # too large to be remembered


def test_changing_what_was_returned_changes_nothing_kept():
    rng = np.random.RandomState(0)
    quad = weighted_quadratic(ArrayDesign(rng.standard_normal((9, 5))), rng.standard_normal((9, 1)))
    every = np.arange(5)
    first = quad.columns(every)
    kept, gram = first.copy(), quad.gram(every).G
    first[:] = 0
    gram[:] = 0
    np.testing.assert_array_equal(quad.columns(every), kept)
    np.testing.assert_allclose(quad.gram(every).G, kept)


@pytest.mark.parametrize("cells", [1, 150])
@pytest.mark.parametrize("weighted", [False, True])
def test_many_rows_are_never_held_for_all_atoms_at_once(monkeypatch, cells, weighted):
    rng = np.random.RandomState(11)
    Phi, t = rng.standard_normal((50, 9)) + 1.0, rng.standard_normal((50, 1))
    weights = rng.uniform(0.5, 2.0, 50) if weighted else None
    chosen = np.array([8, 1, 0, 4, 6, 3])
    expected = weighted_quadratic(ArrayDesign(Phi), t, weights, center=True).gram(chosen).G
    monkeypatch.setattr(stored, "TOLERANCES", TOLERANCES._replace(chunk_cells=cells))
    quad = weighted_quadratic(ArrayDesign(Phi), t, weights, center=True)
    most, compute = [], quad.products.columns

    def columns(some, unit):
        most.append(some.size)
        return compute(some, unit)

    monkeypatch.setattr(quad.products, "columns", columns)
    found = quad.gram(chosen).G
    assert sum(most) == 6
    assert max(most) == max(1, cells // 50)
    np.testing.assert_allclose(found, expected, atol=1e-14)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(quad.gram(chosen[:2]).G, expected[:2, :2], atol=1e-14)
    assert sum(most) == 6  # of few atoms the others' columns would cost more than they


@pytest.mark.parametrize("center", [False, True])
def test_weights_equal_repeated_rows(center):
    rng = np.random.RandomState(3)
    Phi, t, weights = (
        rng.standard_normal((12, 6)),
        rng.standard_normal((12, 2)),
        rng.randint(0, 4, 12),
    )
    every = np.arange(6)
    weighted = weighted_quadratic(ArrayDesign(Phi), t, weights.astype(float), center).gram(every)
    rows = oracle.repeated(Phi, weights), oracle.repeated(t, weights)
    repeated = weighted_quadratic(ArrayDesign(rows[0]), rows[1], None, center).gram(every)
    for name in ("G", "g", "tt", "n", "spread", "log_offset"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-11)


@examples(30)
@given(seeds, st.booleans())
def test_scaling_and_permuting_atoms_changes_nothing(seed, center):
    rng = np.random.RandomState(seed)
    Phi, t = rng.standard_normal((10, 6)) + 1, rng.standard_normal((10, 1))
    scale, order = 10.0 ** rng.uniform(-170, 170, 6), rng.permutation(6)
    plain = weighted_quadratic(ArrayDesign(Phi), t, None, center)
    other = weighted_quadratic(ArrayDesign((Phi * scale)[:, order]), t, None, center)
    every = np.arange(6)
    np.testing.assert_allclose(other.g, plain.g[order], atol=1e-11)
    G = plain.columns(every)
    np.testing.assert_allclose(other.columns(every), G[np.ix_(order, order)], atol=1e-11)
    np.testing.assert_allclose(other.norm, (plain.norm * scale)[order], rtol=1e-11)


@pytest.mark.parametrize("center", [False, True])
def test_void_columns_are_void_and_nothing_else_is(center):
    rng = np.random.RandomState(2)
    Phi = rng.standard_normal((14, 4))
    Phi[:, 0], Phi[:, 2] = 0.0, 3.7
    quad = weighted_quadratic(ArrayDesign(Phi), rng.standard_normal((14, 1)), None, center)
    expected = np.array([0.0, 1.0, 0.0 if center else 1.0, 1.0])
    np.testing.assert_array_equal(quad.diag, expected)
    every = np.arange(4)
    for G in (quad.columns(every), quad.gram(every).G):
        np.testing.assert_array_equal(G.diagonal(), expected)
        assert not G[expected == 0].any()
        assert not G[:, expected == 0].any()
    assert not quad.g[expected == 0].any()


def test_unit_atoms_are_centered_and_of_unit_norm():
    rng = np.random.RandomState(4)
    weights = rng.uniform(0, 2, 11)
    quad = weighted_quadratic(
        ArrayDesign(5 * rng.standard_normal((11, 7)) + 3),
        rng.standard_normal((11, 1)),
        weights,
        True,
    )
    some = np.array([6, 1])
    atoms = quad.products.unit_atoms(some, quad.unit)
    np.testing.assert_allclose(atoms @ weights, 0, atol=1e-12)
    np.testing.assert_allclose((atoms**2) @ weights, 1, rtol=1e-12)


@pytest.mark.parametrize("offset", [1.0, 1e3, 1e6])
def test_an_offset_changes_nothing_when_centered(offset):
    rng = np.random.RandomState(5)
    Phi, t = rng.standard_normal((40, 6)) + offset, rng.standard_normal((40, 1)) + offset
    G, g, tt, _ = definition(Phi, t, center=True)
    quad = weighted_quadratic(ArrayDesign(Phi), t, None, center=True)
    every = np.arange(6)
    np.testing.assert_allclose(quad.gram(every).G, G, atol=1e-8)
    np.testing.assert_allclose(quad.columns(every), G, atol=1e-8)
    np.testing.assert_allclose(quad.g, g, atol=1e-8)
    assert quad.tt == pytest.approx(float(tt), rel=1e-9)
