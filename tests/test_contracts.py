"""Contract tests for users: what is built in passes them, and each broken promise is found."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from sparsebayes.dictionaries import Bias, Kernel, Linear, StationaryWavelet, Wavelet
from sparsebayes.hyperpriors import Flat, Gamma, LogDerivatives, Smoothness
from sparsebayes.testing import check_dictionary, check_hyperprior

rng = np.random.default_rng(0)
ROWS = rng.uniform(0.1, 2.0, (12, 3))
GRID = np.arange(20.0)[:, None]

GOOD = {
    "bias": (Bias(), ROWS),
    "linear": (Linear(), ROWS),
    "kernel": (Kernel("rbf", gamma=0.7), ROWS),
    "k-means": (Kernel(gamma=1.0, centers=4), ROWS),
    "learned": (Kernel("rbf", gamma="ard"), ROWS),
    "learned union": (Linear() + Kernel("tps", gamma="evidence"), ROWS),
    "wavelet": (Wavelet("db2"), GRID),
    "wavelets and products": (Wavelet("haar") + StationaryWavelet("haar", 2), GRID),
}


@pytest.mark.parametrize(("dictionary", "X"), GOOD.values(), ids=GOOD.keys())
def test_dictionaries_that_are_built_in(dictionary, X):
    check_dictionary(dictionary, X)


@dataclass(frozen=True, eq=False)
class PowerAtoms:
    """Powers of the first column: the smallest atoms there can be."""

    index: np.ndarray
    count: int
    orthonormal: bool = False
    n_features_in: int | None = 3

    @property
    def size(self):
        return len(self.index)

    def evaluate(self, X, out=None):
        return np.power(X[:, :1], self.index, out=out)

    def restrict(self, indices):
        return replace(self, index=self.index[np.asarray(indices, dtype=np.intp)])

    def to_spec(self):
        return {"kind": "powers"}, {"index": self.index}


class Powers:
    def __init__(self, make=PowerAtoms, **changes):
        self.make, self.changes = make, changes

    def bind(self, X, *, sample_weight=None, random_state=None):
        return self.make(np.arange(5), **{"count": 5, **self.changes})


def variant(**methods):
    """A dictionary whose atoms have other methods."""
    return Powers(dataclass(frozen=True, eq=False)(type("Variant", (PowerAtoms,), methods)))


def test_a_dictionary_of_ones_own():
    check_dictionary(Powers(), ROWS, ROWS[:4] + 0.1)


def test_rows_that_check_nothing_are_refused():
    with pytest.raises(ValueError, match="eight rows or more"):
        check_dictionary(Powers(), ROWS[:3])


def evaluate(X, index, out=None):
    return np.power(X[:, :1], index, out=out)


class Changes:
    """bind() that leaves a mark."""

    def bind(self, X, *, sample_weight=None, random_state=None):
        self.columns = X.shape[1]
        return PowerAtoms(np.arange(5), 5)


class Weighs(Powers):
    def bind(self, X, *, sample_weight=None, random_state=None):
        shift = 0 if sample_weight is None else 1
        return PowerAtoms(np.arange(5) + shift, 9)


class Centers(Powers):
    def bind(self, X, *, sample_weight=None, random_state=None):
        X -= X.mean(axis=0)
        return PowerAtoms(np.arange(5), 5)


class Half:
    def __init__(self, products):
        self.products = products
        self.shape = products.shape

    def synthesize(self, weights):
        return self.products.synthesize(weights)

    def analyze(self, rows):
        return 0.5 * self.products.analyze(rows)

    def squared_norms(self):
        return None


class Detour:
    """A built-in dictionary with one method of its atoms replaced."""

    def __init__(self, dictionary, name, make):
        self.dictionary, self.name, self.make = dictionary, name, make

    def bind(self, X, *, sample_weight=None, random_state=None):
        atoms = self.dictionary.bind(X, sample_weight=sample_weight, random_state=random_state)
        return Replaced(atoms, self.name, self.make(atoms))


class Replaced:
    def __init__(self, atoms, name, method):
        self.atoms = atoms
        setattr(self, name, method)

    def __getattr__(self, name):
        return getattr(self.__dict__["atoms"], name)


def plus_mean(self, X, out=None):
    values = evaluate(X, self.index)
    return np.add(values, values.mean() if len(X) else 0.0, out=out)


def beside(self, X, out=None):
    values = evaluate(X, self.index, out)
    if out is not None and out.base is not None and out.base.shape[1] > out.shape[1]:
        out.base[:, 0] = 0.0
    return values


BROKEN = {
    "a class": (Powers, "it is a class"),
    "no bind": (object(), "lacks the method bind()"),
    "parameters change": (Changes(), "bind() changes the dictionary"),
    "X changes": (Centers(), "bind() changes X"),
    "weights matter": (Weighs(), "bound with sample weights of one"),
    "no atoms": (Powers(lambda *a, **k: "atoms"), "lacks evaluate, n_features_in"),
    "short positions": (
        Powers(lambda i, **k: PowerAtoms(i.astype(np.int32), **k)),
        "dtype intp",
    ),
    "positions twice": (Powers(lambda i, **k: PowerAtoms(i // 2, **k)), "a position twice"),
    "positions outside": (Powers(count=3), "within 0..count-1"),
    "a number for a claim": (Powers(orthonormal=0), "orthonormal must be True or False"),
    "a false claim": (Powers(orthonormal=True), "claim to be orthonormal"),
    "other columns": (Powers(n_features_in=7), "n_features_in must be None or 3"),
    "NaN": (
        variant(evaluate=lambda self, X, out=None: evaluate(X, self.index) * np.nan),
        "NaN or infinity",
    ),
    "warnings": (
        variant(evaluate=lambda self, X, out=None: np.log(0 * evaluate(X, self.index))),
        "evaluate() warns: divide by zero",
    ),
    "one column": (
        variant(evaluate=lambda self, X, out=None: X[:, 0] * 1.0),
        "float64 array of shape",
    ),
    "rows that look around": (variant(evaluate=plus_mean), "depend on the other rows"),
    "out ignored": (
        variant(evaluate=lambda self, X, out=None: evaluate(X, self.index)),
        "must return out",
    ),
    "beside out": (variant(evaluate=beside), "writes beside out"),
    "restricts to others": (
        variant(restrict=lambda self, i: replace(self, index=self.index[: len(i)])),
        "loses the positions",
    ),
    "restricts to too many": (
        variant(restrict=lambda self, i: replace(self, index=np.arange(1 + len(i)))),
        "restrict() to 5 atoms gives 6",
    ),
    "counts anew": (
        variant(
            restrict=lambda self, i: replace(
                self, index=self.index[np.asarray(i, dtype=np.intp)], count=len(i)
            )
        ),
        "must keep count",
    ),
    "no kind": (variant(to_spec=lambda self: ({}, {})), 'needs a "kind"'),
    "no JSON": (
        variant(to_spec=lambda self: ({"kind": "powers", "index": self.index}, {})),
        "what JSON cannot hold",
    ),
    "a wrong derivative": (
        Detour(
            Kernel(gamma="evidence"),
            "pullback",
            lambda atoms: lambda X, D: -atoms.pullback(X, D),
        ),
        "pullback() is wrong for gamma",
    ),
    "a wrong adjoint": (
        Detour(Wavelet("haar"), "at", lambda atoms: lambda X: Half(atoms.at(X))),
        "analyze() is not Phi' r",
    ),
}


@pytest.mark.parametrize(("dictionary", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_dictionaries_are_found(dictionary, message):
    X = GRID if isinstance(dictionary, Detour) else ROWS
    with pytest.raises(AssertionError) as caught:
        check_dictionary(dictionary, X)
    assert message in str(caught.value)


@pytest.mark.parametrize("prior", [Flat(), Smoothness(0.0), Smoothness(2.0), Smoothness(30.0)])
def test_priors_that_are_built_in(prior):
    check_hyperprior(prior)


@dataclass(frozen=True)
class Priced:
    """The smoothness prior, of which one method is replaced."""

    density: object = None
    derivatives: object = None
    best: object = None
    good = Smoothness(2.0)

    def log_density(self, v, noise_var):
        return (self.density or self.good.log_density)(v, noise_var)

    def log_derivatives(self, v, noise_var):
        return (self.derivatives or self.good.log_derivatives)(v, noise_var)

    def best_variance(self, s, q2, noise_var, n_targets=1):
        return (self.best or self.good.best_variance)(s, q2, noise_var, n_targets)


def changed(**parts):
    """Derivatives of which some are multiplied."""

    def derivatives(v, noise_var):
        found = Priced.good.log_derivatives(v, noise_var)._asdict()
        return LogDerivatives(**{k: parts.get(k, 1.0) * x for k, x in found.items()})

    return Priced(derivatives=derivatives)


def best(change):
    def best_variance(s, q2, noise_var, n_targets):
        return change(Priced.good.best_variance(s, q2, noise_var, n_targets), s, q2, noise_var)

    return Priced(best=best_variance)


def in_place(s, q2, noise_var, n_targets):
    s *= 1.0 + 1e-12
    return Priced.good.best_variance(s, q2, noise_var, n_targets)


BROKEN_PRIORS = {
    "a class": (Smoothness, "it is a class"),
    "no method": (object(), "lacks a method"),
    "never out": (Gamma(0.5, 0.1), "log_density() "),
    "not zero at zero": (Priced(density=lambda v, n: -1 - v / (v + n)), "zero at v = 0"),
    "rises": (Priced(density=lambda v, n: 2 * v / (v + n)), "rises with v"),
    "NaN": (Priced(density=lambda v, n: v * np.nan), "is NaN"),
    "warns": (Priced(density=lambda v, n: -np.log(v / n)), "log_density() warns"),
    "a number": (Priced(density=lambda v, n: 0.0), "float64 array of shape"),
    "in a unit": (Priced(density=lambda v, n: -v / (v + 1.0)), "v / noise_var alone"),
    "slope": (changed(u=-1), "a wrong u:"),
    "bend": (changed(uu=0.9), "a wrong uu:"),
    "slope in the noise": (changed(rho=0), "a wrong rho:"),
    "mixed": (changed(u_rho=-1), "a wrong u_rho:"),
    "bend in the noise": (changed(rho_rho=-1), "a wrong rho_rho:"),
    "four derivatives": (
        Priced(derivatives=lambda v, n: tuple(Priced.good.log_derivatives(v, n))[:4]),
        "five arrays",
    ),
    "too small": (best(lambda v, s, q2, n: 0.9 * v), "misses a better variance"),
    "always out": (best(lambda v, s, q2, n: 0 * v), "misses a better variance"),
    "never zero": (best(lambda v, s, q2, n: v + 1e-3 * n), "less than being out"),
    "negative": (best(lambda v, s, q2, n: v - n), "not negative"),
    "of the flat prior": (
        Priced(best=lambda *given: Flat().best_variance(*given)),
        "less than being out",
    ),
    "one target": (
        Priced(best=lambda s, q2, n, t: Priced.good.best_variance(s, q2, n)),
        "less than being out",
    ),
    "depends on others": (
        best(lambda v, s, q2, n: v * (1 + 1e-6 * (len(v) > 1))),
        "differs from one by one",
    ),
    "changes s": (Priced(best=in_place), "changes its arguments"),
}


@pytest.mark.parametrize(("prior", "message"), BROKEN_PRIORS.values(), ids=BROKEN_PRIORS.keys())
def test_broken_priors_are_found(prior, message):
    with pytest.raises(AssertionError) as caught:
        check_hyperprior(prior)
    assert message in str(caught.value)
