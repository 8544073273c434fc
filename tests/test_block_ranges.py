"""Rows in blocks whose values leave float64, or whose names are none: an answer or a clear error.

What leaks a RuntimeWarning fails here too: the settings of pytest make errors of warnings.
"""

import numpy as np
import pytest

from sparsebayes import RVC, RVR, SparseBayesClassifier, SparseBayesRegressor
from sparsebayes.dictionaries import Kernel, Linear
from sparsebayes.rows import Chunks
from sparsebayes.rows.blocks import Block, plus, settled
from sparsebayes.rows.gaussian import Sizes, SizeSums, norms_of
from sparsebayes.rows.products import Screens, Weighted

MEMORY = "100MB"
LEAVE = "leave the range of float64"


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(120, 4))
    return X, X[:, 0] + 0.1 * rng.normal(size=120)


def labels(y, n_classes):
    return np.digitize(y, np.linspace(-0.5, 0.5, n_classes - 1) if n_classes > 2 else [0.0])


class TestRegression:
    @pytest.mark.parametrize("scale", [1e-150, 1e-100, 1.0, 1e100, 1e150])
    @pytest.mark.parametrize("fit_intercept", [True, False])
    def test_answer_is_that_in_memory(self, data, scale, fit_intercept):
        X, y = data
        blocks, whole = (
            SparseBayesRegressor(fit_intercept=fit_intercept, memory=memory).fit(X * scale, y)
            for memory in (MEMORY, None)
        )
        assert blocks.relevance_.tolist() == whole.relevance_.tolist()
        np.testing.assert_allclose(blocks.predict(X * scale), whole.predict(X * scale), rtol=1e-6)

    @pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-170, 1e154, 1e155, 1e170, 1e200, 1e300])
    @pytest.mark.parametrize("fit_intercept", [True, False])
    def test_what_is_lost_is_told(self, data, scale, fit_intercept):
        X, y = data
        model = SparseBayesRegressor(fit_intercept=fit_intercept, memory=MEMORY)
        with pytest.raises(ValueError, match=LEAVE) as error:
            model.fit(X * scale, y)
        assert "nan" not in str(error.value)

    @pytest.mark.parametrize("scale", [1e-170, 1e155, 1e200])
    def test_a_single_column_is_told(self, data, scale):
        X, y = data
        with pytest.raises(ValueError, match=LEAVE):
            SparseBayesRegressor(memory=MEMORY).fit(X * [scale, 1, 1, 1], y)

    @pytest.mark.parametrize("value", [0.0, 1.1e-300, 1.1e-170, 1.1, 1.1e160, 2.0**1000])
    def test_constant_columns_are_no_atoms(self, data, value):
        X, y = data
        Z = np.column_stack([X, np.full(len(X), value)])
        model = SparseBayesRegressor(memory=MEMORY).fit(Z, y)
        assert model.relevance_.tolist() == SparseBayesRegressor().fit(Z, y).relevance_.tolist()

    def test_rows_of_no_weight_do_not_count(self, data):
        X, y = data
        Z, weights = np.column_stack([X, np.zeros(len(X))]), np.ones(len(X))
        Z[:3, 4], weights[:3] = 1e-170, 0.0
        model = SparseBayesRegressor(memory=MEMORY).fit(Z, y, sample_weight=weights)
        assert 0 in model.relevance_

    def test_kernels_far_from_all_rows_do_not_count(self, data):
        X, y = data
        kernel = Kernel("rbf", gamma=1.0, centers=[[0.0], [1.0], [-1.0], [23.0]])
        atoms = kernel.bind(X[:, :1])
        assert 0 < atoms.evaluate(X[:, :1])[:, 3].max() < 1e-160
        model = SparseBayesRegressor(kernel, memory=MEMORY).fit(X[:, :1], y)
        assert 0 < model.relevance_.size <= 3
        both = SparseBayesRegressor(kernel + Linear(), memory=MEMORY)
        with pytest.raises(ValueError, match="size .*e-170, .* leave"):
            both.fit(X[:, :1] * 1e-170 + 0.0, y)

    @pytest.mark.parametrize("scale", [1e-85, 1e80, 1e120])
    def test_kernels_all_of_which_leave_the_range(self, data, scale):
        X, y = data
        with pytest.raises(ValueError, match=LEAVE):
            RVR(kernel="linear", memory=MEMORY).fit(X * scale, y)


class TestClassification:
    @pytest.mark.parametrize("n_classes", [2, 3])
    @pytest.mark.parametrize("scale", [1e-135, 1e135])
    def test_answer_is_that_in_memory(self, data, n_classes, scale):
        X, y = data[0], labels(data[1], n_classes)
        blocks, whole = (
            SparseBayesClassifier(memory=memory).fit(X * scale, y) for memory in (MEMORY, None)
        )
        np.testing.assert_allclose(
            blocks.predict_proba(X * scale), whole.predict_proba(X * scale), rtol=1e-5
        )

    @pytest.mark.parametrize("memory", [MEMORY, None])
    @pytest.mark.parametrize("n_classes", [2, 3])
    @pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e-150, 1e153, 1e155, 1e200, 1e300])
    def test_what_is_lost_is_told(self, data, memory, n_classes, scale):
        X, y = data[0], labels(data[1], n_classes)
        with pytest.raises(ValueError, match=LEAVE):
            SparseBayesClassifier(memory=memory).fit(X * scale, y)

    @pytest.mark.parametrize("memory", [MEMORY, None])
    @pytest.mark.parametrize("scale", [1e-170, 1e155])
    def test_a_single_column_is_told(self, data, memory, scale):
        X, y = data
        with pytest.raises(ValueError, match=LEAVE):
            SparseBayesClassifier(memory=memory).fit(X * [scale, 1, 1, 1], y > 0)

    @pytest.mark.parametrize("memory", [MEMORY, None])
    @pytest.mark.parametrize("solver", ["em", "mackay"])
    @pytest.mark.parametrize("scale", [1e-170, 1e153, 1e155, 1e300])
    def test_joint_solvers_are_never_asked(self, data, memory, solver, scale):
        X, y = data
        with pytest.raises(ValueError, match=LEAVE):
            SparseBayesClassifier(solver=solver, memory=memory).fit(X * scale, y > 0)

    @pytest.mark.parametrize("memory", [MEMORY, None])
    @pytest.mark.parametrize("solver", ["auto", "em"])
    @pytest.mark.parametrize("n_classes", [2, 3])
    @pytest.mark.parametrize("scale", [1e-100, 1e80])
    def test_kernels_all_of_which_leave_the_range(self, data, memory, solver, n_classes, scale):
        X, y = data[0], labels(data[1], n_classes)
        with pytest.raises(ValueError, match=LEAVE):
            RVC(kernel="linear", solver=solver, memory=memory).fit(X * scale, y)


class TestNorms:
    @pytest.mark.parametrize("alike", [True, False])
    def test_no_order_of_blocks_matters(self, alike):
        """What vanishes in one block only is not lost."""
        X = np.array([[1e-170, 2e-170, 0.0], [3e-170, 1.0, 0.0], [2e-170, 3.0, 0.0]])
        atoms, about = Linear().bind(X), np.zeros(3)
        blocks = [Block(X[i : i + 1], np.ones((1, 1)), None, i, "one") for i in range(3)]
        chosen = np.arange(3 if alike else 0)
        for statistic in (Sizes(atoms, about), Screens(atoms, about, Weighted(), chosen)):
            for order in ((0, 1, 2), (2, 0, 1)):
                found = [statistic(blocks[i]) for i in order]
                sums = settled(plus(plus(found[0], found[1]), found[2]))
                if isinstance(statistic, Screens):
                    total = float(sums.C[0, 0])
                    sums = SizeSums(total, sums.first[0], sums.second[0], sums.faint)
                norms = norms_of(sums, about, center=False)
                assert norms.lost.tolist() == [3e-170, 0.0, 0.0]
                np.testing.assert_allclose(norms.norm, [0.0, np.sqrt(10), 0.0])


class TestNames:
    @pytest.mark.parametrize("estimator", [RVC, RVR, SparseBayesClassifier, SparseBayesRegressor])
    def test_names_must_tell_columns_apart(self, data, estimator):
        pd = pytest.importorskip("pandas")
        X, y = data
        model = estimator(memory=MEMORY)
        with pytest.raises(ValueError, match="several columns of the name 'a'"):
            model.fit(pd.DataFrame(X, columns=["a", "a", "b", "c"]), y > 0)
        with pytest.raises(TypeError, match="such as 'a', and others, such as 1: make all of them"):
            model.fit(pd.DataFrame(X, columns=["a", 1, "b", "c"]), y > 0)

    @pytest.mark.parametrize("columns", [list("abcd"), range(4), [(1, "a"), (1, "b"), (2, "a"), 3]])
    def test_other_names_are_fine(self, data, columns):
        pd = pytest.importorskip("pandas")
        X, y = data
        D = pd.DataFrame(X)
        D.columns = pd.Index(columns, tupleize_cols=False)
        model = RVR(memory=MEMORY).fit(D, y)
        np.testing.assert_allclose(model.predict(D), RVR().fit(X, y).predict(X), rtol=1e-6)

    def test_those_of_chunks_too(self, data):
        pd = pytest.importorskip("pandas")
        X, y = data
        D = pd.DataFrame(X, columns=["a", "a", "b", "c"])
        with pytest.raises(ValueError, match="several columns of the name 'a'"):
            SparseBayesRegressor().fit(Chunks(lambda: iter([(D, y)])))

    def test_those_of_dask_too(self, data):
        pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
        X, y = data
        D = pd.DataFrame(X, columns=["a", 1, "b", "c"])
        with pytest.raises(TypeError, match="make all of them text"):
            SparseBayesRegressor().fit(dd.from_pandas(D, npartitions=2), y)
