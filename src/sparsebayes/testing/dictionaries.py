"""The contract of a dictionary and its atoms."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from sparsebayes._sameness import same
from sparsebayes.dictionaries import Atoms, Dictionary, Products, Tunable
from sparsebayes.testing._promises import ensure, quiet

FloatArray = NDArray[np.float64]

__all__ = ["check_dictionary"]

_STEP = 1e-5  # of central differences


def check_dictionary(dictionary: Dictionary, X: ArrayLike, X_new: ArrayLike | None = None) -> None:
    """Check that an object keeps the promises of a `Dictionary`, and its atoms those of `Atoms`.

    Atoms must be the same however they are asked for: all rows or some, all atoms or a few, into a
    new array or a given one. Where they have products (`at`) or parameters to learn (`Tunable`),
    those are compared with the atoms themselves.

    Parameters
    ----------
    dictionary : Dictionary
        The object to check.
    X : array-like of shape (N, d)
        Rows it can be bound to, at least eight of them.
    X_new : array-like of shape (n, d), optional
        Other rows, at which its atoms can be evaluated; by default those of X in another order.

    Raises
    ------
    AssertionError
        If a promise is broken; the message says which one.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Kernel, Linear
    >>> from sparsebayes.testing import check_dictionary
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> check_dictionary(Linear() + Kernel("rbf", gamma=0.5), X)
    """
    rows = np.array(X, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < 8:
        raise ValueError(f"X must have two dimensions and eight rows or more, not {rows.shape}")
    other = rows[::-2].copy() if X_new is None else np.array(X_new, dtype=np.float64)
    atoms = _check_bind(dictionary, rows, other)
    _check_numbers(atoms, rows)
    for at in (rows, other):
        _check_evaluate(atoms, at)
        _check_out(atoms, at)
        _check_restrict(atoms, at)
    _check_orthonormal(atoms, rows)
    _check_spec(atoms)
    if isinstance(atoms, Tunable):
        _check_tunable(atoms, rows)
    if hasattr(atoms, "at"):
        _check_products(atoms, rows)


def _values(atoms: Atoms, X: FloatArray) -> FloatArray:
    given = X.copy()
    with quiet("evaluate()"):
        values: Any = atoms.evaluate(X)
    ensure(np.array_equal(X, given), "evaluate() changes X")
    dense = values.toarray() if hasattr(values, "toarray") else values
    shape = (len(X), atoms.size)
    ensure(
        isinstance(dense, np.ndarray) and dense.shape == shape and dense.dtype == np.float64,
        f"evaluate() must return a float64 array of shape {shape}",
    )
    ensure(np.isfinite(dense).all(), "evaluate() gives NaN or infinity")
    return np.asarray(dense)


def _close(one: FloatArray, other: FloatArray) -> bool:
    size = max(float(np.max(np.abs(other), initial=0.0)), 1e-300)
    return one.shape == other.shape and np.allclose(one, other, rtol=1e-9, atol=1e-12 * size)


def _check_bind(dictionary: Any, X: FloatArray, other: FloatArray) -> Atoms:
    ensure(not isinstance(dictionary, type), "it is a class: give an object of it")
    ensure(isinstance(dictionary, Dictionary), "it lacks the method bind() of Dictionary")
    given, before = X.copy(), copy.deepcopy(getattr(dictionary, "__dict__", {}))
    with quiet("bind()"):
        atoms: Any = dictionary.bind(X, random_state=0)
    ensure(np.array_equal(X, given), "bind() changes X")
    ensure(
        same(before, getattr(dictionary, "__dict__", {})),
        "bind() changes the dictionary, which must hold parameters only",
    )
    missing = [name for name in _members(Atoms) if not hasattr(atoms, name)]
    ensure(not missing, f"what bind() returns lacks {', '.join(missing)} of Atoms")
    values = _values(atoms, other)
    ways = {
        "bound again": dictionary.bind(X, random_state=0),
        "bound with sample weights of one": dictionary.bind(
            X, sample_weight=np.ones(len(X)), random_state=0
        ),
        "cloned": clone(dictionary, safe=False).bind(X, random_state=0),
        "bound to the same rows in another layout": dictionary.bind(
            np.asfortranarray(X), random_state=0
        ),
    }
    for way, again in ways.items():
        ensure(_close(_values(again, other), values), f"atoms differ when {way}")
    bound: Atoms = atoms
    return bound


def _members(protocol: type) -> list[str]:
    return sorted(name for name in vars(protocol) if not name.startswith("_"))


def _check_numbers(atoms: Atoms, X: FloatArray) -> None:
    ensure(isinstance(atoms.size, int | np.integer), "size must be an int")
    ensure(atoms.size >= 1, "there are no atoms: bind() to rows that give some")
    index: Any = atoms.index
    ensure(
        isinstance(index, np.ndarray) and index.shape == (atoms.size,) and index.dtype == np.intp,
        f"index must be an array of dtype intp and shape ({atoms.size},)",
    )
    ensure(len(np.unique(index)) == len(index), "index has a position twice")
    ensure(
        index.min() >= 0 and index.max() < atoms.count,
        f"index must be within 0..count-1, and count is {atoms.count}",
    )
    ensure(isinstance(atoms.orthonormal, bool), "orthonormal must be True or False")
    ensure(
        atoms.n_features_in in (None, X.shape[1]),
        f"n_features_in must be None or {X.shape[1]}, the columns of X",
    )


def _check_evaluate(atoms: Atoms, X: FloatArray) -> None:
    whole = _values(atoms, X)
    ensure(_close(_values(atoms, X), whole), "evaluate() gives other values the second time")
    parts = [_values(atoms, X[start : start + 3]) for start in range(0, len(X), 3)]
    ensure(_close(np.vstack(parts), whole), "a row's values depend on the other rows in evaluate()")
    ensure(
        _close(_values(atoms, np.asfortranarray(X)), whole), "evaluate() depends on the layout of X"
    )
    _values(atoms, X[:0])


def _check_out(atoms: Atoms, X: FloatArray) -> None:
    whole, n, m = _values(atoms, X), len(X), atoms.size
    wide = np.full((n, m + 2), np.nan)
    places = {
        "a new array": np.full((n, m), np.nan),
        "an array in Fortran's order": np.full((n, m), np.nan, order="F"),
        "a part of an array": wide[:, 1:-1],
    }
    for place, out in places.items():
        with quiet("evaluate()"):
            returned = atoms.evaluate(X, out=out)
        ensure(returned is out, f"evaluate(X, out=out) must return out, {place}")
        ensure(_close(out, whole), f"evaluate(X, out=out) differs from evaluate(X), {place}")
    ensure(np.isnan(wide[:, [0, -1]]).all(), "evaluate(X, out=out) writes beside out")


def _check_restrict(atoms: Atoms, X: FloatArray) -> None:
    whole = _values(atoms, X)
    order = np.random.default_rng(0).permutation(atoms.size)
    choices: list[ArrayLike] = [order, order[::2], order[:1].tolist(), []]
    for chosen in choices:
        few = atoms.restrict(chosen)
        picked = np.asarray(chosen, dtype=np.intp)
        ensure(few.size == len(picked), f"restrict() to {len(picked)} atoms gives {few.size}")
        ensure(
            np.array_equal(few.index, atoms.index[picked]),
            "restrict() loses the positions in the dictionary (index)",
        )
        ensure(
            few.count == atoms.count and few.n_features_in == atoms.n_features_in,
            "restrict() must keep count and n_features_in",
        )
        ensure(
            _close(_values(few, X), whole[:, picked]), "restrict() gives other atoms than asked for"
        )
    twice = atoms.restrict(order).restrict(np.arange(atoms.size)[::-2])
    ensure(
        _close(_values(twice, X), whole[:, order[::-2]]),
        "restrict() of restricted atoms gives other atoms than asked for",
    )


def _check_orthonormal(atoms: Atoms, X: FloatArray) -> None:
    if atoms.orthonormal:
        Phi = _values(atoms, X)
        ensure(
            np.allclose(Phi.T @ Phi, np.eye(atoms.size), atol=1e-8),
            "the atoms claim to be orthonormal on the rows they are bound to, and are not",
        )


def _check_spec(atoms: Atoms) -> None:
    try:
        spec, arrays = atoms.to_spec()
    except ValueError as error:
        ensure(str(error), "to_spec() must say why models cannot be stored")
        return
    ensure(isinstance(spec, dict) and isinstance(spec.get("kind"), str), 'to_spec() needs a "kind"')
    try:
        json.dumps(spec, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"to_spec() gives what JSON cannot hold: {error}") from None
    ensure(
        all(isinstance(array, np.ndarray) for array in arrays.values()),
        "to_spec() must return a dict of arrays",
    )


def _check_tunable(atoms: Any, X: FloatArray) -> None:
    theta = np.asarray(atoms.theta)
    ensure(theta.ndim == 1 and theta.dtype == np.float64, "theta must be a float64 array, (P,)")
    P = len(theta)
    ensure(np.shape(atoms.bounds) == (P, 2), f"bounds must have shape ({P}, 2)")
    ensure(len(atoms.labels) == P, "labels must name each entry of theta")
    low, high = np.reshape(atoms.bounds, (P, 2)).T
    ensure((low <= theta).all() and (theta <= high).all(), "theta is not within its bounds")
    whole = _values(atoms, X)
    ensure(_close(_values(atoms.with_theta(theta), X), whole), "with_theta(theta) changes atoms")
    D = np.random.default_rng(0).normal(size=whole.shape)
    found = np.asarray(atoms.pullback(X, D))
    ensure(found.shape == (P,), f"pullback() must return an array of shape ({P},)")
    for p in range(P):
        step = _STEP * np.eye(P)[p]
        up, down = (_values(atoms.with_theta(theta + sign * step), X) for sign in (1, -1))
        want = float(np.sum(D * (up - down))) / (2 * _STEP)
        scale = float(np.sum(np.abs(D * (up - down)))) / (2 * _STEP) + np.abs(whole).max()
        ensure(
            abs(found[p] - want) <= 1e-5 * scale,
            f"pullback() is wrong for {atoms.labels[p]}: {found[p]:.6g}, not {want:.6g}",
        )


def _check_products(atoms: Any, X: FloatArray) -> None:
    products, Phi = atoms.at(X), _values(atoms, X)
    ensure(isinstance(products, Products), "what at() returns lacks a member of Products")
    ensure(tuple(products.shape) == Phi.shape, f"shape of at() must be {Phi.shape}")
    rng = np.random.default_rng(0)
    weights, rows = rng.normal(size=(3, Phi.shape[1])), rng.normal(size=(3, Phi.shape[0]))
    ensure(_close(products.synthesize(weights), weights @ Phi.T), "synthesize() is not Phi w")
    ensure(_close(products.analyze(rows), rows @ Phi), "analyze() is not Phi' r")
    norms = products.squared_norms()
    ensure(
        norms is None or _close(np.asarray(norms), np.square(Phi).sum(axis=0)),
        "squared_norms() are not those of the atoms",
    )
    if hasattr(products, "squares"):
        ensure(
            _close(np.asarray(products.squares(rows)), rows @ np.square(Phi)),
            "squares() are not products with the squares of the atoms",
        )
