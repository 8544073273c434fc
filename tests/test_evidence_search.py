"""Selection by evidence: what is compared, what is refused, and who never wins."""

import re
import warnings
import weakref
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning, NotFittedError
from sklearn.gaussian_process import kernels as gp
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsebayes import RVC, RVR, EvidenceSearch, SparseBayesClassifier, SparseBayesRegressor
from sparsebayes.datasets import friedman1, mixtures, sinc, sparse_linear
from sparsebayes.dictionaries import Bias, Kernel, Linear
from sparsebayes.likelihoods import Gaussian, Poisson
from sparsebayes.metrics import log_predictive_density

SINC = sinc(100, noise=0.1, random_state=0)
CLASSES = mixtures(100, random_state=1)
WIDTHS = [0.01, 0.1, 1.0]


@pytest.fixture(scope="module")
def search():
    return EvidenceSearch(RVR(), {"gamma": WIDTHS}).fit(SINC.X, SINC.y)


# ------------------------------------------------------------------- scikit-learn's rules


# Many of these data are interpolated, which deserves the warning; any other one is an error.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        EvidenceSearch(RVR(centers=12, random_state=0), {"gamma": [0.1]}),
        EvidenceSearch(SparseBayesClassifier(), {"dictionary": [Linear(), Bias()]}),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_the_best_of_plain_fits(search):
    fits = [RVR(gamma=gamma).fit(SINC.X, SINC.y) for gamma in WIDTHS]
    evidence = [fit.log_marginal_likelihood_ for fit in fits]
    assert_array_equal(search.results_["log_evidence"], evidence)
    assert_array_equal(search.results_["n_atoms"], [len(fit.relevance_) for fit in fits])
    assert_array_equal(search.results_["noise_variance"], [fit.noise_variance_ for fit in fits])
    scores = np.array(evidence) - [fit.degrees_of_freedom_ for fit in fits]
    assert_array_equal(search.results_["score"], scores)
    assert search.best_index_ == np.argmax(scores) == 1
    assert search.best_score_ == max(scores)
    assert search.best_params_ == {"gamma": 0.1}
    best = fits[1]
    for got, want in zip(
        search.predict(SINC.X, return_std=True), best.predict(SINC.X, return_std=True), strict=True
    ):
        assert_array_equal(got, want)
    assert search.score(SINC.X, SINC.y) == best.score(SINC.X, SINC.y)
    assert_array_equal(search.predict_distribution(SINC.X).std, best.predict(SINC.X, True)[1])
    assert_array_equal(search.sample_y(SINC.X, 3), best.sample_y(SINC.X, 3))
    assert is_regressor(search)
    assert not hasattr(search, "predict_proba")
    assert not hasattr(search, "classes_")


def test_a_degree_of_freedom_has_its_price(search):
    grid = {"gamma": [0.1, 0.316]}
    dear = EvidenceSearch(RVR(), grid).fit(SINC.X, SINC.y)
    free = EvidenceSearch(RVR(), grid, penalty=0).fit(SINC.X, SINC.y)
    assert free.best_params_ == {"gamma": 0.316}
    assert free.best_score_ == free.best_estimator_.log_marginal_likelihood_
    assert dear.best_params_ == {"gamma": 0.1}
    assert_array_equal(dear.results_["log_evidence"], free.results_["log_evidence"])


def test_the_table(search):
    table = pd.DataFrame(search.results_)
    assert table["rank"].tolist() == [3, 1, 2]
    assert table["param_gamma"].tolist() == WIDTHS
    assert table["params"].tolist() == [{"gamma": gamma} for gamma in WIDTHS]
    assert (table["status"] == "CONVERGED").all()
    assert (table["message"] == "").all()
    assert (table["fit_time"] > 0).all()
    flat = table["log_posterior"] == table["log_evidence"]
    assert flat.all()


def test_a_list_of_grids_masks_what_does_not_apply():
    grid = [{"kernel": ["rbf"], "gamma": [0.1, 1.0]}, {"kernel": ["lspline"]}]
    search = EvidenceSearch(RVR(), grid).fit(SINC.X, SINC.y)
    column = search.results_["param_gamma"]
    assert_array_equal(np.ma.getmaskarray(column), [False, False, True])
    assert len(search.results_["params"]) == 3


def test_classes():
    grid = {"gamma": [0.5, 4.0, 1000.0]}
    labels = np.where(CLASSES.y == 1, "yes", "no")
    search = EvidenceSearch(RVC(), grid).fit(CLASSES.X, labels)
    best = RVC(**search.best_params_).fit(CLASSES.X, labels)
    assert search.best_params_ == {"gamma": 4.0}
    assert is_classifier(search)
    assert not hasattr(search, "sample_y")
    assert search.classes_.tolist() == ["no", "yes"]
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        assert_array_equal(getattr(search, name)(CLASSES.X), getattr(best, name)(CLASSES.X))
    plug_in = search.predict_proba(CLASSES.X, plug_in=True)
    assert_array_equal(plug_in, best.predict_proba(CLASSES.X, plug_in=True))


def test_dictionaries_are_told_apart():
    wide = sparse_linear(80, 20, 3, random_state=0)
    grid = {"dictionary": [Linear(), Kernel("rbf", gamma=0.05)]}
    assert isinstance(
        EvidenceSearch(SparseBayesRegressor(), grid).fit(wide.X, wide.y).best_params_["dictionary"],
        Linear,
    )
    chosen = EvidenceSearch(SparseBayesRegressor(), grid).fit(SINC.X, SINC.y).best_params_
    assert isinstance(chosen["dictionary"], Kernel)


def test_pipelines():
    data = friedman1(120, random_state=0)
    units = np.array([1.0, 1e3, 1.0, 1.0, 1e-3, 1.0, 1.0, 1.0, 1.0, 1.0])
    model = make_pipeline(StandardScaler(), RVR("poly", coef0=1.0))
    grid = {"standardscaler": ["passthrough", StandardScaler()], "rvr__degree": [2, 3]}
    search = EvidenceSearch(model, grid).fit(data.X * units, data.y)
    assert isinstance(search.best_params_["standardscaler"], StandardScaler)
    assert not hasattr(search.best_params_["standardscaler"], "mean_")  # the user's own, not fitted
    scaled = StandardScaler().fit_transform(data.X * units)
    degree = search.best_params_["rvr__degree"]
    alone = RVR("poly", coef0=1.0, degree=degree).fit(scaled, data.y)
    found = search.results_["log_evidence"][search.best_index_]
    assert_allclose(found, alone.log_marginal_likelihood_, rtol=1e-9)
    found = search.predict_distribution(data.X * units)
    assert_allclose(found.mean, search.predict(data.X * units))
    assert_allclose(found.std, search.predict(data.X * units, return_std=True)[1])
    few = EvidenceSearch(
        Pipeline([("pca", PCA(random_state=0)), ("model", RVR(gamma=0.1))]),
        {"pca__n_components": [1, 2]},
    ).fit(data.X, data.y)
    assert few.n_features_in_ == 10


def test_options_of_distributions_and_draws_reach_the_last_step():
    model = make_pipeline(StandardScaler(), RVR())
    search = EvidenceSearch(model, {"rvr__gamma": [1.0, 4.0]}).fit(SINC.X, SINC.y)
    far = SINC.X + 30
    for options in ({"augment": True}, {"marginalize": True}):
        mean, std = search.predict(far, return_std=True, **options)
        found = search.predict_distribution(far, **options)
        assert_allclose(found.mean, mean)
        assert_allclose(found.std, std)
    last, scaled = search.best_estimator_[-1], search.best_estimator_[0].transform(far)
    assert_array_equal(
        search.sample_y(far, 2, random_state=5, noise=True),
        last.sample_y(scaled, 2, random_state=5, noise=True),
    )


def test_what_search_does_not_change():
    model, grid = RVR(), {"gamma": [0.1], "kernel": [gp.RBF(3.0)]}
    search = EvidenceSearch(model, grid)
    copy = clone(search)
    search.fit(SINC.X, SINC.y)
    assert search.estimator is model
    assert not hasattr(model, "relevance_")
    assert copy.get_params()["param_grid"]["gamma"] == [0.1]
    assert search.get_params()["estimator__tol"] == 1e-6


def test_frames_and_names():
    frame = pd.DataFrame(SINC.X, columns=["time"])
    search = EvidenceSearch(RVR(), {"gamma": [0.1]}).fit(frame, SINC.y)
    assert search.feature_names_in_.tolist() == ["time"]
    assert search.n_features_in_ == 1


def test_before_the_fit():
    search = EvidenceSearch(RVR(), {"gamma": [0.1]})
    with pytest.raises(NotFittedError):
        search.predict(SINC.X)
    with pytest.raises(AttributeError, match="not fitted yet"):
        _ = search.n_features_in_


def test_parallel_fits_and_seeds_give_the_same(search):
    grid = {"gamma": WIDTHS}
    model = RVR(centers=12, random_state=np.random.RandomState(3))
    one = EvidenceSearch(model, grid).fit(SINC.X, SINC.y)
    two = EvidenceSearch(model, grid, n_jobs=2).fit(SINC.X, SINC.y)
    assert_array_equal(one.results_["log_evidence"], two.results_["log_evidence"])
    assert_array_equal(one.predict(SINC.X), two.predict(SINC.X))


class Counted(StandardScaler):
    """Counts how many of its kind are alive after a fit."""

    alive: ClassVar = weakref.WeakSet()
    most = 0

    def fit(self, X, y=None, sample_weight=None):
        Counted.alive.add(self)
        Counted.most = max(Counted.most, len(Counted.alive))
        return super().fit(X, y, sample_weight)


def test_only_the_best_of_the_fitted_models_is_held():
    grid = {"rvr__gamma": [0.05, 0.1, 0.2, 0.3, 0.4, 0.5]}
    EvidenceSearch(make_pipeline(Counted(), RVR()), grid).fit(SINC.X, SINC.y)
    assert Counted.most <= 3  # the best, the one being fitted, and one on its way


def test_a_search_within_cross_validation():
    shuffled = np.random.default_rng(0).permutation(100)
    X, y = SINC.X[shuffled], SINC.y[shuffled]
    search = EvidenceSearch(RVR(), {"gamma": [0.1, 31.6]})
    for scoring in (None, log_predictive_density):
        found = cross_val_score(search, X, y, cv=3, scoring=scoring)
        assert_array_equal(found, cross_val_score(RVR(gamma=0.1), X, y, cv=3, scoring=scoring))


# ------------------------------------------------------------------------------- weights


def test_weights_are_copies_of_rows():
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 3, 100)
    rows = np.repeat(np.arange(100), weights)
    weighted = EvidenceSearch(RVR(), {"gamma": WIDTHS})
    weighted.fit(SINC.X, SINC.y, sample_weight=weights)
    repeated = EvidenceSearch(RVR(), {"gamma": WIDTHS}).fit(SINC.X[rows], SINC.y[rows])
    assert_allclose(weighted.results_["log_evidence"], repeated.results_["log_evidence"], rtol=1e-8)


@pytest.mark.parametrize("routing", [False, True])
def test_weights_reach_the_last_step_of_a_pipeline(routing):
    weights = np.where(np.arange(100) < 50, 0.0, 1.0)
    with config_context(enable_metadata_routing=routing):
        scaler, model = StandardScaler(), RVR()
        if routing:
            scaler.set_fit_request(sample_weight=False)
            model.set_fit_request(sample_weight=True)
        search = EvidenceSearch(make_pipeline(scaler, model), {"rvr__gamma": [0.1, 1.0]})
        search.fit(SINC.X, SINC.y, sample_weight=weights)
    X = StandardScaler().fit_transform(SINC.X)
    expected = [RVR(gamma=g).fit(X, SINC.y, weights).log_marginal_likelihood_ for g in (0.1, 1.0)]
    assert_allclose(search.results_["log_evidence"], expected)


def test_arguments_of_other_steps():
    weights = np.where(np.arange(100) < 50, 0.0, 1.0)
    search = EvidenceSearch(make_pipeline(StandardScaler(), RVR()), {"rvr__gamma": [0.1]})
    search.fit(SINC.X, SINC.y, standardscaler__sample_weight=weights)
    assert_allclose(search.best_estimator_[0].mean_, SINC.X[50:].mean(axis=0))


# ------------------------------------------------------------------- models not to be trusted


@pytest.mark.parametrize("penalty", [0, 1.0])
def test_a_collapsed_model_does_not_win(penalty):
    search = EvidenceSearch(RVR(), {"gamma": [0.01, 0.1, 31.6]}, penalty=penalty)
    search.fit(SINC.X, SINC.y)
    assert search.results_["status"].tolist() == ["CONVERGED", "CONVERGED", "COLLAPSED"]
    assert search.results_["log_evidence"].argmax() == 2
    assert search.best_params_ == {"gamma": 0.1}
    assert search.results_["rank"].tolist() == [2, 1, 3]
    assert "collapsed" in search.results_["message"][2]


def test_copies_of_rows_hide_no_collapse():
    """As many kernels as rows fit them exactly, however often each is counted."""
    grid = {"gamma": [0.1, 31.6]}
    twice = np.repeat(np.arange(len(SINC.y)), 2)
    found = [
        EvidenceSearch(RVR(), grid).fit(SINC.X, SINC.y, sample_weight=np.full(len(SINC.y), 1.5)),
        EvidenceSearch(RVR(), grid).fit(SINC.X[twice], SINC.y[twice]),
    ]
    for search in found:
        assert search.results_["status"].tolist() == ["CONVERGED", "COLLAPSED"]
        assert search.best_params_ == {"gamma": 0.1}


def test_if_all_collapsed_it_is_said():
    search = EvidenceSearch(RVR(), {"gamma": [31.6, 100.0]})
    with pytest.warns(ConvergenceWarning) as told:
        search.fit(SINC.X, SINC.y)
    texts = [str(warning.message) for warning in told]
    assert sum("every candidate that could be fitted collapsed" in text for text in texts) == 1
    assert sum(text.startswith("RVR: ") for text in texts) == 1  # of the best one only
    assert search.best_params_ == {"gamma": 31.6}


def test_noise_free_data_are_no_collapse():
    exact = sinc(100, noise=0.0, random_state=0)
    grid = {"dictionary": [Linear(), Kernel("rbf", gamma=0.1)]}
    with pytest.warns(ConvergenceWarning, match="reached its floor"):
        search = EvidenceSearch(SparseBayesRegressor(), grid).fit(exact.X, exact.y)
    assert search.best_index_ == 1
    assert search.results_["status"].tolist() == ["CONVERGED", "NOISE_FLOOR"]


def test_candidates_that_cannot_be_fitted():
    grid = {"gamma": [-1.0, 0.1, "wide"]}
    with pytest.warns(FitFailedWarning, match="2 of 3 .* gamma=-1.0: gamma must be .*'wide'"):
        search = EvidenceSearch(RVR(), grid).fit(SINC.X, SINC.y)
    assert search.best_params_ == {"gamma": 0.1}
    assert search.results_["status"].tolist() == ["FAILED", "CONVERGED", "FAILED"]
    assert search.results_["rank"].tolist() == [2, 1, 3]
    assert np.isnan(search.results_["log_evidence"][[0, 2]]).all()
    assert "gamma must be" in search.results_["message"][0]
    with pytest.raises(ValueError, match="gamma must be"):
        EvidenceSearch(RVR(), grid, error_score="raise").fit(SINC.X, SINC.y)


def test_if_none_can_be_fitted_it_is_an_error():
    with pytest.raises(ValueError, match="no candidate .* gamma=-1.0: .*; gamma='wide'"):
        EvidenceSearch(RVR(), {"gamma": [-1.0, "wide"]}).fit(SINC.X, SINC.y)
    with pytest.raises(ValueError, match="^Input X contains NaN"):
        EvidenceSearch(RVR(), {"gamma": WIDTHS}).fit(SINC.X * np.nan, SINC.y)


# ------------------------------------------------------------------- what cannot be compared


@pytest.mark.parametrize(
    ("model", "grid", "message"),
    [
        (RVR(), {"fit_intercept": [True, False]}, "flat prior, whose evidence depends on the unit"),
        (RVC(), {"class_weight": [None, "balanced"]}, "class_weight=None and .*'balanced'"),
        (RVR(), {"likelihood": ["gaussian", "poisson"]}, "'gaussian' and .*'poisson'.* density"),
        (RVR(), {"likelihood": [Gaussian(0.1), Poisson()]}, "unit of its latent function"),
        (RVR(), {"prior": ["flat", "bic"], "gamma": [1.0]}, "prior='flat' and prior='bic'"),
        (RVR(), [{"gamma": [1.0]}, {"gamma": [1.0], "prior": [2.0]}], "differ only in"),
        (RVR(), {"noise_prior": [None, (1.0, 1.0)]}, r"noise_prior=\(1.0, 1.0\)"),
        (make_pipeline(RVR()), {"rvr__fit_intercept": [True, False]}, "unit of y"),
        (make_pipeline(RVR()), {"rvr__prior": ["flat", "bic"]}, "held-out data"),
    ],
)
def test_candidates_that_evidence_cannot_compare(model, grid, message):
    with pytest.raises(ValueError, match=message):
        EvidenceSearch(model, grid).fit(SINC.X, SINC.y)


def test_parameters_of_a_likelihood_are_compared():
    grid = {"likelihood": [Gaussian(0.01), Gaussian(1.0), "gaussian"]}
    search = EvidenceSearch(RVR(gamma=0.1), grid).fit(SINC.X, SINC.y)
    assert search.results_["rank"][1] == 3  # ten times the noise


def test_a_prior_for_each_dictionary():
    grid = [
        {"dictionary": [Linear()], "prior": ["ric"]},
        {"dictionary": [Kernel("rbf", gamma=0.1)], "prior": ["flat"]},
    ]
    given = EvidenceSearch(SparseBayesRegressor(), grid).fit(SINC.X, SINC.y)
    auto = EvidenceSearch(SparseBayesRegressor(), {"dictionary": [Linear(), Kernel(gamma=0.1)]})
    assert_allclose(
        given.results_["log_evidence"], auto.fit(SINC.X, SINC.y).results_["log_evidence"]
    )


@pytest.mark.parametrize(
    ("search", "error", "message"),
    [
        (EvidenceSearch(SVR(), {"C": [1.0]}), TypeError, r"SVR\(.*\) has no evidence"),
        (EvidenceSearch(RVR, {"gamma": [1.0]}), TypeError, "estimator object, got <class"),
        (EvidenceSearch("rbf", {"gamma": [1.0]}), TypeError, "estimator object, got 'rbf'"),
        (EvidenceSearch(RVR(), {"width": [1.0]}), ValueError, "Invalid parameter 'width'"),
        (EvidenceSearch(RVR(), {"gamma": 1.0}), TypeError, "'gamma' needs to be a list"),
        (EvidenceSearch(RVR(), {"gamma": [1.0]}, n_jobs=0), ValueError, "n_jobs must be"),
        (EvidenceSearch(RVR(), {"gamma": [1.0]}, n_jobs=1.5), ValueError, "n_jobs must be"),
        (EvidenceSearch(RVR(), {"gamma": [1.0]}, penalty=-1), ValueError, "penalty must be"),
        (EvidenceSearch(RVR(), {"gamma": [1.0]}, penalty="a"), ValueError, "penalty must be"),
        (EvidenceSearch(RVR(), {"gamma": [1.0]}, penalty=[1, 2]), ValueError, "penalty must be"),
        (EvidenceSearch(RVR(), {"gamma": [1.0]}, verbose=-1), ValueError, "verbose must be"),
        (EvidenceSearch(RVR(), {"gamma": [1.0]}, error_score=0), ValueError, "error_score must"),
        (EvidenceSearch(RVR(), []), ValueError, "param_grid has no candidates"),
    ],
)
def test_settings_that_make_no_sense(search, error, message):
    with pytest.raises(error, match=message) as raised:
        search.fit(SINC.X, SINC.y)
    assert "\n" not in str(raised.value)


def test_progress(capsys):
    grid = {"gamma": [0.1, -1.0]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitFailedWarning)
        EvidenceSearch(RVR(), grid, verbose=1).fit(SINC.X, SINC.y)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("[EvidenceSearch] 1/2 ")
    assert re.search(r"gamma=0\.1  log evidence 7\d\.\d+  atoms \d+", first)
    assert first.endswith("CONVERGED")
    assert "2/2" in second
    assert "gamma=-1.0  failed: gamma must be" in second


# --------------------------------------------------------------------- the score by held-out data


def test_log_predictive_density_of_numbers():
    new = sinc(50, noise=0.1, random_state=1)
    model = RVR(gamma=0.1).fit(SINC.X, SINC.y)
    mean, std = model.predict(new.X, return_std=True)
    z = (new.y - mean) / std
    each = -0.5 * z**2 - np.log(std) - 0.5 * np.log(2 * np.pi)
    assert_allclose(log_predictive_density(model, new.X, new.y), each.mean())
    weights = np.arange(50.0)
    weighted = log_predictive_density(model, new.X, new.y, sample_weight=weights)
    assert_allclose(weighted, np.average(each, weights=weights))
    two = RVR(gamma=0.1).fit(SINC.X, np.c_[SINC.y, SINC.y])
    both = log_predictive_density(two, new.X, np.c_[new.y, new.y])
    per_target = two.predict_distribution(new.X).logpdf(np.c_[new.y, new.y])
    assert_allclose(both, per_target.sum() / 50)


def test_log_predictive_density_of_classes_and_counts():
    labels = np.where(CLASSES.y == 1, "yes", "no")
    model = make_pipeline(StandardScaler(), RVC()).fit(CLASSES.X, labels)
    proba = model.predict_proba(CLASSES.X)[np.arange(100), CLASSES.y]
    assert_allclose(log_predictive_density(model, CLASSES.X, labels), np.log(proba).mean())
    counts = np.random.default_rng(0).poisson(3.0, 100)
    poisson = RVR(gamma=0.1, likelihood="poisson").fit(SINC.X, counts)
    expected = poisson.predict_distribution(SINC.X).logpmf(counts).mean()
    assert_allclose(log_predictive_density(poisson, SINC.X, counts), expected)


def test_log_predictive_density_chooses_what_evidence_cannot():
    shuffled = np.random.default_rng(0).permutation(100)
    X, y = SINC.X[shuffled], SINC.y[shuffled]
    model = make_pipeline(StandardScaler(), RVR(gamma=3.0))
    search = GridSearchCV(model, {"rvr__prior": ["flat", "bic"]}, scoring=log_predictive_density)
    search.fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    with pytest.raises(TypeError, match="predicts no distribution"):
        log_predictive_density(SVR().fit(X, y), X, y)
