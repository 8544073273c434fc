"""Linear operators as dictionaries: what they refuse, and fits that equal those on the matrix."""

import json
import pickle
from functools import cache, partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.fft import dct, idct
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from sklearn.base import clone
from sklearn.model_selection import cross_val_predict

import oracle
from pairwise import in_turn
from sparsebayes import SparseBayesClassifier, SparseBayesRegressor, posterior
from sparsebayes._counting import is_kernel_machine, takes_sparse
from sparsebayes._settings import resolve_prior
from sparsebayes._wavelet_transforms import Transform
from sparsebayes.dictionaries import (
    Bias,
    Kernel,
    Linear,
    Operator,
    StationaryWavelet,
    Wavelet,
    atoms_from_spec,
    operators,
)
from sparsebayes.hyperpriors import Smoothness
from sparsebayes.persistence import load, save

N, M = 80, 30
RNG = np.random.default_rng(0)
A = RNG.normal(0.2, 1.0, (N, M))
TRUTH = np.zeros(M)
TRUTH[[2, 11, 17]] = [2.0, -1.5, 1.0]
Y = A @ TRUTH + 0.3 * RNG.normal(size=N) + 0.7
LABELS = np.where(A @ TRUTH + RNG.logistic(size=N) > 0.5, "up", "down")
COUNTS = RNG.poisson(np.exp(0.3 * A @ TRUTH))
X = np.arange(float(N))[:, None]
JUMPS = np.where(X[:, 0] < 33, 0.0, 1.5) + np.sin(X[:, 0] / 9) + 0.2 * RNG.normal(size=N)
WEIGHTS = RNG.integers(0, 4, N).astype(float)


def hidden(matrix):
    """A matrix that shows nothing but its products."""
    return LinearOperator(
        matrix.shape,
        matvec=lambda w: matrix @ w,
        rmatvec=lambda r: matrix.T @ r,
        dtype=np.float64,
    )


def cosine_transform(n):
    return LinearOperator(
        (n, n),
        matvec=lambda w: idct(w, axis=0, norm="ortho"),
        rmatvec=lambda r: dct(r, axis=0, norm="ortho"),
        dtype=np.float64,
    )


class TestRefused:
    @pytest.mark.parametrize(
        ("operator", "kind", "message"),
        [
            ("A", TypeError, "aslinearoperator takes, got str"),
            (None, TypeError, "got NoneType"),
            (Operator, TypeError, "not the class Operator"),
            ([[1.0]], TypeError, "got list"),
            (np.ones(3), ValueError, "two-dimensional"),
            (np.ones((2, 2), dtype=object), TypeError, "numbers"),
            (np.array([["a", "b"]]), TypeError, "A must"),
            (np.ones((80, 0)), ValueError, "rows and columns"),
            (np.ma.masked_greater(A, 2), ValueError, "masked"),
            (
                LinearOperator(A.shape, matvec=lambda w: w, rmatvec=lambda r: A.T @ r, dtype=float),
                ValueError,
                "A fails when it is multiplied",
            ),
            (
                LinearOperator(A.shape, matvec=lambda w: A @ w, rmatvec=lambda r: r, dtype=float),
                ValueError,
                "the adjoint of A fails when it is multiplied",
            ),
            (A + 1j, ValueError, "real"),
            (sp.csr_matrix(A + 1j), ValueError, "real"),
            (aslinearoperator(A + 1j), ValueError, "real"),
            (np.where(A > 2, np.nan, A), ValueError, "NaN"),
            (sp.csr_matrix(np.where(A > 2, np.inf, A)), ValueError, "infinity"),
            (hidden(np.where(A > 2, np.nan, A)), ValueError, "NaN"),
            (aslinearoperator(A.astype(np.float32)), ValueError, "float32"),
            (
                LinearOperator(A.shape, matvec=lambda w: A @ w, dtype=float),
                ValueError,
                "needs rmatvec beside matvec",
            ),
            (
                LinearOperator(
                    A.shape, matvec=lambda w: A @ w, rmatvec=lambda r: 1.001 * A.T @ r, dtype=float
                ),
                ValueError,
                "adjoint of A .* does not belong",
            ),
            (
                LinearOperator(
                    (N, N),
                    matvec=lambda w: np.roll(w, 1),
                    rmatvec=lambda r: np.roll(r, 1),
                    dtype=float,
                ),
                ValueError,
                "adjoint of A .* does not belong",
            ),
            (
                LinearOperator(
                    (N, N), matvec=lambda w: w + 1j * w, rmatvec=lambda r: r, dtype=float
                ),
                ValueError,
                "complex",
            ),
        ],
    )
    def test_operators(self, operator, kind, message):
        with pytest.raises(kind, match=message):
            Operator(operator).bind(X)
        with pytest.raises(kind, match=message):
            SparseBayesRegressor(Operator(operator)).fit(X, Y)

    @pytest.mark.parametrize("wrong", [1e-6, 1.0])
    def test_an_adjoint_that_is_wrong_in_one_place(self, wrong):
        n = 5000

        def shifted(r):
            back = np.roll(r, -1, axis=0)
            back[7] *= 1 + wrong
            return back

        roll = LinearOperator(
            (n, n), matvec=lambda w: np.roll(w, 1, axis=0), rmatvec=shifted, dtype=float
        )
        rows = np.arange(float(n))[:, None]
        if wrong < 1e-5:
            Operator(roll).bind(rows)  # 2e-10 of the whole: float64 has little better to offer
        else:
            with pytest.raises(ValueError, match="adjoint"):
                Operator(roll).bind(rows)

    @pytest.mark.parametrize("operator", [A, sp.csr_matrix(A), aslinearoperator(A)])
    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            (np.arange(2.0 * N).reshape(N, 2), "one column"),
            (X + 1, "from 0 to 79, but one is 80"),
            (X - 1, "one is -1"),
            (X + 0.5, "one is 0.5"),
            (X[:, 0], "one column"),
        ],
    )
    def test_rows(self, operator, rows, message):
        with pytest.raises(ValueError, match=message):
            Operator(operator).bind(rows)
        atoms = Operator(operator).bind(X)
        for few in (atoms, atoms.restrict([0, 3])):
            with pytest.raises(ValueError, match=r"X (must|has)"):
                few.evaluate(rows)

    def test_rows_that_a_model_never_saw(self):
        model = SparseBayesRegressor(Operator(hidden(A))).fit(X[:70], Y[:70])
        assert model.predict(X[70:]).shape == (10,)
        with pytest.raises(ValueError, match="one is 80"):
            model.predict([[80]])
        with pytest.raises(ValueError, match="2 features"):
            model.predict([[0, 1]])

    @pytest.mark.parametrize("operator", [A, aslinearoperator(A)])
    @pytest.mark.parametrize(
        ("norms", "kind", "message"),
        [
            (np.ones(M), ValueError, "column_norms are not those of A: column"),
            (np.ones(M - 1), ValueError, r"its shape is \(29,\)"),
            (np.full(M, np.nan), ValueError, "finite"),
            (np.full(M, np.inf), ValueError, "finite"),
            (np.full(M, -1.0), ValueError, "not negative"),
            ("unit", TypeError, "must be numbers"),
            ([None] * M, (TypeError, ValueError), "column_norms"),
        ],
    )
    def test_norms(self, operator, norms, kind, message):
        with pytest.raises(kind, match=message):
            Operator(operator, column_norms=norms).bind(X)

    @pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, aslinearoperator])
    def test_a_false_claim_of_orthonormality(self, make):
        Q = np.linalg.qr(A)[0]
        assert Operator(make(Q), orthonormal=True).bind(X).orthonormal
        almost = Q.copy()
        almost[:, 3] = Q[:, 3] + 1e-4 * Q[:, 5]
        for false in (almost, 1.00001 * Q, A):
            with pytest.raises(ValueError, match="not orthonormal: A'A u differs"):
                Operator(make(false), orthonormal=True).bind(X)
        with pytest.raises(ValueError, match="30 in 20 rows"):
            Operator(make(Q[:20]), orthonormal=True).bind(X[:20])
        with pytest.raises(TypeError, match="True or False"):
            Operator(make(Q), orthonormal=1).bind(X)

    def test_an_orthonormal_operator_is_not_orthonormal_on_some_of_its_rows(self):
        Q = Operator(cosine_transform(N), orthonormal=True)
        assert Q.bind(X[::-1]).orthonormal
        for rows in (X[:70], np.concatenate([X[:40], X[:40]])):
            assert not Q.bind(rows).orthonormal


class TestAtoms:
    @pytest.mark.parametrize("make", [np.asarray, sp.coo_matrix, sp.csr_array, hidden])
    def test_store_restrict_and_pickle(self, make):
        dictionary = Operator(make(A))
        atoms = dictionary.bind(X)
        assert (atoms.size, atoms.count, atoms.n_features_in) == (M, M, 1)
        named = [5, 3, 3, 70]
        rows, chosen = X[named], [17, 4, 29]
        for some, own in ((atoms, A), (atoms.restrict(chosen), A[:, chosen])):
            spec, arrays = some.to_spec()
            back = atoms_from_spec(json.loads(json.dumps(spec, allow_nan=False)), arrays)
            np.testing.assert_array_equal(back.index, some.index)
            assert (back.count, back.n_features_in) == (M, 1)
            first = back.restrict(np.arange(some.size)[::-1]).restrict([-1])
            for each, expected in ((some, own), (back, own), (first, own[:, :1])):
                found = each.evaluate(rows)
                found = found.toarray() if sp.issparse(found) else found
                np.testing.assert_allclose(found, expected[named], rtol=1e-13)
                out = np.full((4, each.size + 2), np.nan)[:, 1:-1]
                assert each.evaluate(rows, out=out) is out
                np.testing.assert_array_equal(out, found)
        few = atoms.restrict(chosen)
        stored = pickle.dumps(few)
        assert len(stored) < 12 * 3 * N + 2000  # three columns, nothing of the others
        assert atoms.restrict([]).evaluate(rows).shape == (4, 0)
        with pytest.raises(IndexError):
            atoms.restrict([M])

    def test_columns_too_many_to_be_stored(self, monkeypatch):
        monkeypatch.setattr(operators, "_STORED_BYTES", 8 * N * 2)
        atoms = Operator(hidden(A), np.linalg.norm(A, axis=0)).bind(X)
        few, many = atoms.restrict([3, 7]), atoms.restrict([20, 3, 7, 11])
        assert isinstance(few, operators.MatrixAtoms)
        assert many.A is atoms.A
        np.testing.assert_array_equal(many.index, [20, 3, 7, 11])
        for rows in (X, X[::-1], X[[5, 5, 2]]):
            named = rows[:, 0].astype(int)
            own = A[:, many.index][named]
            np.testing.assert_allclose(many.evaluate(rows), own, rtol=1e-13)
            weights = RNG.normal(size=(2, 4))
            np.testing.assert_allclose(many.at(rows).synthesize(weights), weights @ own.T)
            known = many.at(rows).squared_norms()
            if len(rows) == N:
                np.testing.assert_allclose(known, (own**2).sum(axis=0))
            else:
                assert known is None
        np.testing.assert_array_equal(many.restrict([2, 0]).evaluate(X), A[:, [7, 20]])
        np.testing.assert_array_equal(many.to_spec()[1]["columns"], A[:, many.index])
        model = SparseBayesRegressor(Operator(hidden(A))).fit(X, Y)
        assert isinstance(model.posterior_.atoms, operators.OperatorAtoms)
        plain = SparseBayesRegressor().fit(A, Y)
        np.testing.assert_allclose(model.predict(X), plain.predict(A), atol=1e-6)

    def test_damaged_stores_are_refused(self):
        spec, arrays = Operator(A).bind(X).restrict([3, 4]).to_spec()
        columns = arrays["columns"]
        for bad in (columns[:, :1], columns[0], columns.astype("U"), np.full_like(columns, np.nan)):
            with pytest.raises(ValueError, match="stored"):
                atoms_from_spec(spec, arrays | {"columns": bad})
        with pytest.raises(ValueError, match="stored"):
            atoms_from_spec(spec | {"count": 3}, arrays)

    def test_a_clone_shares_the_operator(self):
        operator = hidden(A)
        dictionary = Operator(operator, orthonormal=False)
        copy = clone(SparseBayesRegressor(dictionary + Bias())).dictionary
        assert copy.parts[0] is not dictionary
        assert copy.parts[0].A is operator
        assert clone(dictionary).get_params() == dictionary.get_params()
        assert repr(dictionary).startswith("Operator(A=")

    def test_what_estimators_ask(self):
        for dictionary in (Operator(A), Operator(A) + Kernel("tps"), Bias() + Operator(A)):
            assert not is_kernel_machine(dictionary)
            assert resolve_prior("auto", dictionary, 10, 5) == Smoothness(float(np.log(5)))
        assert takes_sparse(Operator(A))


def same_fit(one, other, rows, matrix):
    assert one.converged_
    assert other.converged_
    np.testing.assert_array_equal(one.relevance_, other.relevance_)
    assert one.log_marginal_likelihood_ == pytest.approx(
        other.log_marginal_likelihood_, rel=1e-11, abs=1e-8
    )
    np.testing.assert_allclose(one.weights_, other.weights_, rtol=1e-5, atol=1e-7)
    if hasattr(one, "predict_proba"):
        found, expected = one.predict_proba(rows), other.predict_proba(matrix)
    else:
        found, expected = one.predict(rows), other.predict(matrix)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@cache
def of_three_classes(shared):
    """The fit on the matrix, which is the same beside every operator."""
    return SparseBayesClassifier(shared=shared).fit(A, np.digitize(A @ TRUTH, [-1, 1.5]))


OPERATORS = {
    "array": Operator(A),
    "sparse": Operator(sp.csr_matrix(A)),
    "operator": Operator(hidden(A)),
    "norms": Operator(hidden(A), np.linalg.norm(A, axis=0)),
}


@pytest.mark.parametrize("dictionary", OPERATORS.values(), ids=OPERATORS)
class TestFits:
    @in_turn(
        solver=["working-set", "sequential"],
        fit_intercept=[True, False],
        weights={"plain": None, "weighted": WEIGHTS},
    )
    def test_regression(self, dictionary, solver, fit_intercept, weights):
        settings = {"solver": solver, "fit_intercept": fit_intercept}
        plain = SparseBayesRegressor(**settings).fit(A, Y, sample_weight=weights)
        model = SparseBayesRegressor(dictionary, **settings).fit(X, Y, sample_weight=weights)
        assert {2, 11, 17} <= set(model.relevance_)
        same_fit(model, plain, X, A)
        std = model.predict(X[:5], return_std=True)[1]
        np.testing.assert_allclose(std, plain.predict(A[:5], return_std=True)[1], rtol=1e-5)

    def test_a_union_with_a_bias(self, dictionary):
        matrix = np.column_stack([A, np.ones(N)])
        settings = {"fit_intercept": False, "prior": "bic"}
        plain = SparseBayesRegressor(**settings).fit(matrix, Y, sample_weight=WEIGHTS)
        model = SparseBayesRegressor(dictionary + Bias(), **settings)
        model.fit(X, Y, sample_weight=WEIGHTS)
        assert M in model.relevance_
        same_fit(model, plain, X, matrix)

    def test_a_union_with_a_trend(self, dictionary):
        matrix = np.column_stack([X / 10, A])
        y = Y + 0.1 * X[:, 0]
        plain = SparseBayesRegressor().fit(matrix, y)
        model = SparseBayesRegressor(Linear() + dictionary).fit(X, y)
        assert model.relevance_[0] == 0
        assert model.log_marginal_likelihood_ == pytest.approx(
            plain.log_marginal_likelihood_, abs=1e-8
        )

    def test_several_targets(self, dictionary):
        y = np.column_stack([Y, -2 * Y + A[:, 4]])
        same_fit(SparseBayesRegressor(dictionary).fit(X, y), SparseBayesRegressor().fit(A, y), X, A)

    @in_turn(solver=["working-set", "sequential"], fit_intercept=[True, False])
    def test_two_classes(self, dictionary, solver, fit_intercept):
        settings = {"solver": solver, "fit_intercept": fit_intercept, "prior": "aic"}
        plain = SparseBayesClassifier(**settings).fit(A, LABELS, sample_weight=WEIGHTS)
        model = SparseBayesClassifier(dictionary, **settings).fit(X, LABELS, sample_weight=WEIGHTS)
        assert model.relevance_.size
        same_fit(model, plain, X, A)

    @pytest.mark.parametrize("shared", [True, False])
    def test_three_classes(self, dictionary, shared):
        labels = np.digitize(A @ TRUTH, [-1, 1.5])
        plain = of_three_classes(shared)
        model = SparseBayesClassifier(dictionary, shared=shared).fit(X, labels)
        assert model.log_marginal_likelihood_ == pytest.approx(
            plain.log_marginal_likelihood_, abs=1e-8
        )
        np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(A), atol=1e-6)

    @pytest.mark.parametrize("fit_intercept", [True, False])
    def test_counts(self, dictionary, fit_intercept):
        settings = {"likelihood": "poisson", "fit_intercept": fit_intercept}
        plain = SparseBayesRegressor(**settings).fit(A, COUNTS)
        model = SparseBayesRegressor(dictionary, **settings).fit(X, COUNTS)
        assert model.relevance_.size
        same_fit(model, plain, X, A)

    def test_model_file(self, dictionary, tmp_path):
        for model in (
            SparseBayesRegressor(dictionary).fit(X, Y),
            SparseBayesRegressor(Bias() + dictionary + Kernel(gamma=0.1)).fit(X, Y),
            SparseBayesClassifier(dictionary, prior="aic").fit(X, LABELS),
        ):
            save(model, tmp_path / "model")
            back = load(tmp_path / "model")
            np.testing.assert_array_equal(back.predict(X), model.predict(X))
            np.testing.assert_array_equal(back.relevance_, model.relevance_)

    def test_cross_validation(self, dictionary):
        found = cross_val_predict(SparseBayesRegressor(dictionary), X, Y, cv=3)
        expected = cross_val_predict(SparseBayesRegressor(), A, Y, cv=3)
        np.testing.assert_allclose(found, expected, atol=1e-5)

    def test_rows_in_any_order_and_twice(self, dictionary):
        again = np.concatenate([np.arange(N), np.arange(20)])
        order = np.random.default_rng(1).permutation(again)
        twice = SparseBayesRegressor(dictionary).fit(X[order], Y[order])
        weighted = SparseBayesRegressor(dictionary).fit(X, Y, 1.0 + (np.arange(N) < 20))
        assert twice.log_marginal_likelihood_ == pytest.approx(
            weighted.log_marginal_likelihood_, abs=1e-8
        )
        np.testing.assert_allclose(twice.predict(X), weighted.predict(X), atol=1e-7)


@in_turn(offset=[0.0, 1e5], solver=["auto", "working-set"])
def test_predictions_by_products_equal_those_by_atoms(monkeypatch, offset, solver):
    monkeypatch.setattr(operators, "_STORED_BYTES", 0)  # so that fitted atoms have products
    y = np.column_stack([Y, 2 - JUMPS])
    for dictionary in (
        Wavelet("sym8"),
        Wavelet("haar") + Kernel("tps", gamma=0.001) + Linear(),
        Operator(hidden(A + offset)) + StationaryWavelet("haar", level=1),
    ):
        model = SparseBayesRegressor(dictionary, prior="bic", solver=solver).fit(X, y)
        kept, rows = model.posterior_, X[RNG.permutation(N)[:70]]
        chosen = np.arange(len(kept.norm)) % 2 == 0

        def asked(kept=kept, rows=rows, chosen=chosen):
            yield kept.predict(rows)
            yield from kept.spread(rows, noise=True)
            yield kept.contribution(rows, chosen)
            yield kept.sample(rows, 3, np.random.RandomState(0), noise=False)
            yield kept.target_covariance(rows)

        fast = list(asked())
        with monkeypatch.context() as patch:
            patch.setattr(posterior, "has_products", lambda atoms: False)
            patch.setattr(posterior, "products_at", lambda atoms, X: None)
            for found, expected in zip(fast, asked(), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


def test_predictions_of_long_signals_take_few_transforms(monkeypatch):
    n = 2**16
    rows = np.arange(float(n))[:, None]
    y = np.sin(rows[:, 0] / 999) + 0.1 * np.random.default_rng(4).normal(size=n)
    model = SparseBayesRegressor(Wavelet("sym8")).fit(rows, y)
    made = []
    one = Transform.synthesize

    def counted(self, weights):
        made.append(len(np.atleast_2d(weights)))
        return one(self, weights)

    monkeypatch.setattr(Transform, "synthesize", counted)
    mean = model.predict(rows)
    assert sum(made) == 1
    made.clear()
    again, std = model.predict(rows, return_std=True)
    assert sum(made) <= 1 + model.relevance_.size
    np.testing.assert_array_equal(mean, again)
    assert (std > model.noise_variance_**0.5).all()


def test_a_small_array_comes_back_from_a_model_file_and_a_large_operator_does_not(tmp_path):
    y = A[:, 2] + 0.1 * RNG.normal(size=N)
    small = np.ascontiguousarray(A[:, :5])
    save(SparseBayesRegressor(Bias() + Operator(small)).fit(X, y), tmp_path / "small")
    back = load(tmp_path / "small")
    np.testing.assert_array_equal(back.dictionary.parts[1].A, small)
    assert back.fit(X, y).predict(X).shape == (N,)
    for operator in (A, hidden(small), sp.csr_matrix(small)):
        model = SparseBayesRegressor(Operator(operator)).fit(X, y)
        save(model, tmp_path / "large")
        back = load(tmp_path / "large")
        assert back.dictionary == "linear"  # its default: the parameter was not stored
        np.testing.assert_array_equal(back.predict(X), model.predict(X))


def test_sparse_row_numbers():
    rows = sp.csr_matrix(X)
    for dictionary in (Operator(A), Operator(hidden(A)), Operator(hidden(A)) + Bias()):
        model = SparseBayesRegressor(dictionary).fit(rows, Y)
        expected = SparseBayesRegressor(dictionary).fit(X, Y)
        np.testing.assert_allclose(model.predict(rows), expected.predict(X), atol=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_closed_form_of_an_orthonormal_operator_is_the_optimum(fit_intercept):
    n = 256
    rows = np.arange(float(n))[:, None]
    rng = np.random.default_rng(3)
    y = 1.0 + np.cos(np.pi * (rows[:, 0] + 0.5) * 9 / n) + 0.2 * rng.normal(size=n)
    dictionary = Operator(cosine_transform(n), orthonormal=True)
    closed = SparseBayesRegressor(dictionary, fit_intercept=fit_intercept).fit(rows, y)
    climbed = SparseBayesRegressor(
        dictionary, fit_intercept=fit_intercept, solver="working-set"
    ).fit(rows, y)
    same_fit(closed, climbed, rows, rows)
    np.testing.assert_array_equal(closed.relevance_, [9] if fit_intercept else [0, 9])


def test_a_transform_larger_than_any_matrix():
    n = 2**13  # a matrix of half a gigabyte
    rows = np.arange(float(n))[:, None]
    rng = np.random.default_rng(2)
    coefficients = np.zeros(n)
    chosen = np.sort(rng.choice(np.arange(1, n), 12, replace=False))
    coefficients[chosen] = 40.0 * rng.choice([-1, 1], 12)
    y = idct(coefficients, norm="ortho") + rng.normal(size=n)
    dictionary = Operator(cosine_transform(n), orthonormal=True)
    model = SparseBayesRegressor(dictionary, solver="working-set").fit(rows, y)
    np.testing.assert_array_equal(model.relevance_, chosen)
    assert model.noise_variance_ == pytest.approx(1.0, rel=0.03)
    assert model.converged_


GAPS = np.sort(RNG.permutation(N)[:60])
WAVELETS = {
    "haar": Wavelet("haar", shape=N),
    "sym8": Wavelet("sym8", shape=N),
    "biorthogonal": Wavelet("bior2.2", shape=N),
    "stationary": StationaryWavelet("haar", level=2, shape=N),
    "and-kernel": Wavelet("haar", shape=N) + Kernel("tps", gamma=0.001),
    "and-operator": Wavelet("db2", shape=N) + Operator(hidden(A)),
}


@pytest.mark.parametrize("dictionary", WAVELETS.values(), ids=WAVELETS)
class TestWavelets:
    @in_turn(rows={"complete": np.arange(N), "gaps": GAPS}, weighted=[False, True])
    def test_evidence(self, dictionary, rows, weighted, tmp_path):
        y, weights = JUMPS[rows], WEIGHTS[rows] if weighted else None
        noise = 0.04 if weighted else None
        model = SparseBayesRegressor(dictionary, prior="bic", noise_variance=noise)
        model.fit(X[rows], y, weights)
        Phi = model.posterior_.atoms.evaluate(X)
        assert model.converged_
        assert model.relevance_.size > 1
        whole = None if weights is None else weights.astype(int)
        expected = oracle.log_evidence(
            oracle.repeated(Phi[rows], whole),
            oracle.repeated(y[:, None], whole),
            model.prior_variance_,
            model.noise_variance_,
            center=True,
        )
        assert model.log_marginal_likelihood_ == pytest.approx(expected, abs=1e-8)
        np.testing.assert_allclose(model.predict(X), model.intercept_ + Phi @ model.weights_)
        save(model, tmp_path / "model")
        np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))

    def test_fits_equal_those_on_the_matrix(self, dictionary):
        matrix = dictionary.bind(X).evaluate(X)
        place = list(WAVELETS.values()).index(dictionary)
        counts = np.random.default_rng(2).poisson(np.exp(JUMPS))
        # Balances of mode and variances are no maxima: their evidence is known less well.
        others = (
            (SparseBayesClassifier, JUMPS > 0.7, 1e-6),
            (partial(SparseBayesRegressor, likelihood="poisson"), counts, 1e-6),
        )
        for make, y, error in (
            (partial(SparseBayesRegressor, prior="bic", solver="working-set"), JUMPS, 1e-8),
            *others[place : place + 1],
        ):
            make = partial(make, tol=1e-10)
            model, plain = make(dictionary).fit(X, y), make().fit(matrix, y)
            assert model.log_marginal_likelihood_ == pytest.approx(
                plain.log_marginal_likelihood_, abs=error
            )


class TestPyLops:
    def test_fits_equal_those_on_the_matrix(self):
        pylops = pytest.importorskip("pylops")
        basis = pylops.signalprocessing.DCT(dims=(N,)).H
        smooth = pylops.Smoothing1D(5, N, dtype="float64")
        y = np.cos(np.pi * (X[:, 0] + 0.5) * 6 / N) + 0.1 * RNG.normal(size=N)
        for operator in (
            pylops.MatrixMult(A),
            basis,
            smooth @ basis,
            pylops.HStack([basis, pylops.Identity(N)]),
            pylops.VStack([pylops.MatrixMult(A[:40]), pylops.MatrixMult(A[40:])]),
            pylops.CausalIntegration(N),
        ):
            matrix = operator.todense()
            target = Y if operator.shape[1] == M else y
            model = SparseBayesRegressor(Operator(operator)).fit(X, target)
            plain = SparseBayesRegressor(Operator(matrix)).fit(X, target)
            assert model.log_marginal_likelihood_ == pytest.approx(
                plain.log_marginal_likelihood_, abs=1e-8
            )
            np.testing.assert_array_equal(model.relevance_, plain.relevance_)
        assert 6 in SparseBayesRegressor(Operator(basis, orthonormal=True)).fit(X, y).relevance_

    def test_a_complex_one_is_refused(self):
        pylops = pytest.importorskip("pylops")
        with pytest.raises(ValueError, match="real"):
            Operator(pylops.signalprocessing.FFT(N)).bind(X)

    def test_a_stored_fit_does_without_pylops(self, tmp_path):
        pylops = pytest.importorskip("pylops")
        model = SparseBayesRegressor(Operator(pylops.MatrixMult(A)) + Bias()).fit(X, Y)
        save(model, tmp_path / "model")
        np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))
