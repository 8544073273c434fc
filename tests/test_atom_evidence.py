"""The evidence of one atom's variance: the numbers that are drawn equal textbook definitions."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import oracle
from sparsebayes import RVC, RVR, SparseBayesClassifier, SparseBayesRegressor, load
from sparsebayes.datasets import mixtures, sinc
from sparsebayes.dictionaries import Kernel, Linear
from sparsebayes.fit.widths import as_found
from sparsebayes.hyperpriors import Flat, Gamma, Smoothness
from sparsebayes.plotting import AtomEvidenceDisplay


class Undrawn(AtomEvidenceDisplay):
    """The numbers alone, where many are looked at."""

    def plot(self, ax=None):
        return self


@pytest.fixture(scope="module")
def linear():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6)) * [1.0, 30.0, 0.1, 1.0, 5.0, 1.0] + 3.0
    y = 50.0 + X @ [2.0, 0.1, 0.0, 0.0, 0.3, 0.0] + rng.normal(size=40)
    return X, y


def oracle_curve(X, Y, model, atom, v):
    """l(v) of an atom by the difference of two log evidences, each from its definition."""
    at = np.zeros(X.shape[1])
    at[model.relevance_] = model.prior_variance_
    at[atom] = 0.0
    center, noise = model.fit_intercept, model.noise_variance_
    out = oracle.log_evidence(X, Y, at, noise, center)
    curve = []
    for each in v:
        at[atom] = each
        curve.append(oracle.log_evidence(X, Y, at, noise, center) - out)
    return np.array(curve)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_the_curve_is_the_log_evidence_in_the_units_of_the_user(linear, fit_intercept, n_targets):
    X, y = linear
    Y = y[:, None] if n_targets == 1 else np.stack([y, y[::-1]], axis=1)
    model = SparseBayesRegressor(prior="flat", fit_intercept=fit_intercept).fit(
        X, Y[:, 0] if n_targets == 1 else Y
    )
    assert 0 < len(model.relevance_) < 6
    for atom in range(6):
        display = Undrawn.from_estimator(model, X, Y[:, 0] if n_targets == 1 else Y, atom=atom)
        some = display.v[::57]
        wanted = oracle_curve(X, Y, model, atom, some)
        np.testing.assert_allclose(display.evidence[::57], wanted, rtol=1e-6, atol=1e-6)
        assert display.objective is None
        inside = atom in model.relevance_
        assert (display.current is not None) == inside
        assert (display.best[0] > 0) == inside
        if inside:
            place = model.relevance_.tolist().index(atom)
            assert display.current[0] == pytest.approx(model.prior_variance_[place])
            assert display.best[0] == pytest.approx(display.current[0], rel=1e-2)
            assert display.best[1] >= display.evidence.max() - 1e-9


def test_a_prior_has_a_curve_of_its_own(linear):
    X, y = linear
    model = SparseBayesRegressor(prior=2.0).fit(X, y)
    display = AtomEvidenceDisplay.from_estimator(model, X, y)
    assert display.objective_.get_linestyle() == "--"
    for line, values in (
        (display.evidence_, display.evidence),
        (display.objective_, display.objective),
    ):
        np.testing.assert_array_equal(line.get_ydata(), values)
        np.testing.assert_array_equal(line.get_xdata(), display.v)
    assert display.best_.get_xydata().tolist() == [list(display.best)]
    assert display.current_.get_xydata().tolist() == [list(display.current)]
    # Smoothness(2) at an atom as given: v |phi|^2 against the noise.
    atom = model.relevance_[np.argmax(np.abs(model.weights_) / np.sqrt(np.diag(model.covariance_)))]
    signal = display.v * np.sum((X[:, atom] - X[:, atom].mean()) ** 2)
    price = 2.0 * signal / (signal + model.noise_variance_)
    np.testing.assert_allclose(display.evidence - display.objective, price, rtol=1e-6)
    assert display.best[1] == pytest.approx(display.objective.max(), abs=1e-3)
    assert display.best[0] == pytest.approx(display.current[0], rel=1e-2)


def multinomial():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 4)) * [1.0, 10.0, 1.0, 1.0]
    scores = np.stack([3 * X[:, 0], 0.3 * X[:, 1], np.zeros(120)], axis=1)
    return X, np.array(["a", "b", "c"])[(scores + rng.gumbel(size=(120, 3))).argmax(axis=1)]


def counts():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(80, 4))
    return X, rng.poisson(np.exp(0.5 + 0.8 * X[:, 0]))


def two():
    X, labels = multinomial()
    return X, labels == "a"


LATENT = {
    "two classes": (two, SparseBayesClassifier(prior="bic")),
    "three classes": (multinomial, SparseBayesClassifier()),
    "shared": (multinomial, SparseBayesClassifier(shared=True, prior="aic")),
    "balanced": (two, SparseBayesClassifier(prior="flat", class_weight="balanced")),
    "counts": (counts, SparseBayesRegressor(likelihood="poisson")),
    "no intercept": (two, SparseBayesClassifier(prior="flat", fit_intercept=False)),
}


@pytest.mark.parametrize(("data", "model"), LATENT.values(), ids=LATENT)
def test_a_fitted_model_is_at_the_maximum_of_every_atom(data, model):
    X, y = data()
    model.fit(X, y)
    assert model.converged_
    inside = 0
    for atom in range(4):
        for label in model.classes_ if len(getattr(model, "classes_", ())) > 2 else [None]:
            display = Undrawn.from_estimator(model, X, y, atom=atom, label=label)
            curve = display.evidence if display.objective is None else display.objective
            if display.current is None:
                assert display.best == (0.0, 0.0)
                assert curve.max() < 1e-3
            else:
                inside += 1
                assert display.best[0] == pytest.approx(display.current[0], rel=1e-2)
                assert display.best[1] - display.current[1] < 1e-4
                assert display.best[1] >= curve.max() - 1e-6
    assert inside


def test_the_default_atom_is_the_one_that_is_most_certain(linear):
    X, y = linear
    model = SparseBayesRegressor().fit(X, y)
    z = np.abs(model.weights_) / np.sqrt(np.diag(model.covariance_))
    display = AtomEvidenceDisplay.from_estimator(model, X, y)
    assert display.ax_.get_title().startswith(f"atom {model.relevance_[np.argmax(z)]}:")


def test_kernels_pipelines_weights_files_and_sparse_data(tmp_path):
    data = sinc(50, noise=0.1, random_state=0)
    weights = np.where(np.arange(50) % 3 == 0, 2.0, 1.0)
    model = RVR(gamma="evidence").fit(data.X, data.y, sample_weight=weights)
    for atom in (int(model.relevance_[0]), 0):
        display = Undrawn.from_estimator(model, data.X, data.y, atom=atom, sample_weight=weights)
        assert (display.best[0] > 0) == (atom in model.relevance_)
        assert display.best[1] - (display.current or (0, 0))[1] < 1e-4
    model.save(tmp_path / "model")
    again = Undrawn.from_estimator(
        load(tmp_path / "model"), data.X, data.y, atom=0, sample_weight=weights
    )
    np.testing.assert_allclose(again.evidence, display.evidence, rtol=1e-6)
    pipe = make_pipeline(StandardScaler(), RVC(gamma=1.0))
    points = mixtures(60, random_state=0)
    pipe.fit(points.X, points.y)
    assert Undrawn.from_estimator(pipe, points.X, points.y).current is not None
    union = SparseBayesRegressor(Linear() + Kernel("rbf", gamma=0.1)).fit(data.X, data.y)
    assert Undrawn.from_estimator(union, data.X, data.y, atom=0).v.size
    rows = csr_matrix(np.random.default_rng(0).normal(size=(30, 3)))
    y = rows.toarray() @ [1.0, 0.0, 2.0] + 0.1 * np.random.default_rng(1).normal(size=30)
    thin = SparseBayesRegressor().fit(rows, y)
    assert Undrawn.from_estimator(thin, rows, y, atom=1).current is None


@pytest.mark.parametrize("prior", [Flat(), Smoothness(3.5)])
def test_given_statistics(prior):
    for s, q in ((1.0, 3.0), (2.0, 1.0), (0.5, 1.5)):
        display = AtomEvidenceDisplay.from_statistics(s, q, hyperprior=prior, noise_variance=0.5)
        np.testing.assert_allclose(display.evidence, oracle.value(s, q * q, display.v, 1))
        if display.objective is not None:
            charged = display.evidence - prior.c * display.v / (display.v + 0.5)
            np.testing.assert_allclose(display.objective, charged)
        v = float(prior.best_variance(np.array([s]), np.array([q * q]), 0.5)[0])
        assert display.best[0] == v
        marker = display.best_.get_marker()
        assert marker == ("o" if v > 0 else "<")
        low, high = display.ax_.get_ylim()
        assert low < 0 < high
        assert low < display.best[1] < high


def test_the_cases_of_figure_1_of_faul_and_tipping():
    maximum = AtomEvidenceDisplay.from_statistics(1.0, 2.0)
    assert maximum.best[0] == 3.0
    peak = int(np.argmax(maximum.evidence))
    assert (np.diff(maximum.evidence[: peak + 1]) > 0).all()
    assert (np.diff(maximum.evidence[peak:]) < 0).all()
    assert "q^2$ > $s" in maximum.ax_.get_title()
    falling = AtomEvidenceDisplay.from_statistics(1.0, 0.5)
    assert falling.best == (0.0, 0.0)
    assert (np.diff(falling.evidence) < 0).all()
    assert falling.best_.get_ydata()[0] == 0.0


def test_what_shares_a_variance_adds_up():
    targets = AtomEvidenceDisplay.from_statistics(1.0, [2.0, 1.0])
    np.testing.assert_allclose(targets.evidence, oracle.value(1.0, 5.0, targets.v, 2))
    directions = AtomEvidenceDisplay.from_statistics([1.0, 3.0], [2.0, 1.0])
    sums = oracle.value(1.0, 4.0, directions.v, 1) + oracle.value(3.0, 1.0, directions.v, 1)
    np.testing.assert_allclose(directions.evidence, sums)
    assert directions.best[1] == pytest.approx(directions.evidence.max(), abs=1e-4)


def test_a_prior_that_lets_no_atom_out_has_no_line_for_it():
    display = AtomEvidenceDisplay.from_statistics(1.0, 0.1, hyperprior=Gamma(1.0, 2.0))
    assert display.zero_ is None
    assert display.best[0] > 0
    assert display.best[1] == pytest.approx(display.objective.max(), abs=1e-3)


def test_other_data_than_those_of_the_fit_are_refused(linear):
    X, y = linear
    model = SparseBayesRegressor().fit(X, y)
    with pytest.raises(ValueError, match="not the training data of this model"):
        Undrawn.from_estimator(model, X, y[::-1])
    with pytest.raises(ValueError, match="not the training data of this model"):
        Undrawn.from_estimator(model, X, y, sample_weight=np.arange(1.0, 41.0))
    with pytest.raises(ValueError, match="one target for each of 40 rows"):
        Undrawn.from_estimator(model, X, y[:3])
    with pytest.raises(ValueError, match="between 0 and 5, got 6"):
        Undrawn.from_estimator(model, X, y, atom=6)
    with pytest.raises(ValueError, match="atom must be an integer"):
        Undrawn.from_estimator(model, X, y, atom=-1)
    nothing = SparseBayesRegressor(prior=100.0).fit(X, np.random.default_rng(0).normal(size=40))
    with pytest.raises(ValueError, match="kept no atom: say by atom= which"):
        Undrawn.from_estimator(nothing, X, y)
    rows, labels = multinomial()
    classes = SparseBayesClassifier().fit(rows, labels)
    with pytest.raises(ValueError, match="label must be one of the classes"):
        Undrawn.from_estimator(classes, rows, labels, label="d")
    with pytest.raises(ValueError, match="not the training data"):
        Undrawn.from_estimator(classes, rows, np.full(120, "d"))
    with pytest.raises(ValueError, match="not the training data"):
        Undrawn.from_estimator(classes, rows, labels[::-1])


def test_atoms_that_cannot_be_made_again_are_refused():
    data = sinc(50, noise=0.1, random_state=0)
    drawn = RVR(gamma=0.1, centers=20).fit(data.X, data.y)  # centers from an unknown seed
    out = int(np.setdiff1d(np.arange(20), drawn.relevance_)[0])
    assert Undrawn.from_estimator(drawn, data.X, data.y).current is not None
    with pytest.raises(ValueError, match="drawn at random"):
        Undrawn.from_estimator(drawn, data.X, data.y, atom=out)
    seeded = RVR(gamma=0.1, centers=20, random_state=3).fit(data.X, data.y)
    out = int(np.setdiff1d(np.arange(20), seeded.relevance_)[0])
    assert Undrawn.from_estimator(seeded, data.X, data.y, atom=out).current is None
    twice = np.concatenate([data.X, data.X[:1]])
    model = RVR(gamma=0.1).fit(twice, np.append(data.y, data.y[0]))
    with pytest.raises(ValueError, match="atom 50 is none of its own"):
        Undrawn.from_estimator(model, twice, np.append(data.y, data.y[0]), atom=50)


def test_widths_found_before_the_fit_are_those_of_its_atoms():
    data = sinc(50, noise=0.1, random_state=0)
    alone = RVR(gamma="pooled").fit(data.X, data.y)
    both = SparseBayesRegressor(Linear() + Kernel(gamma="pooled")).fit(data.X, data.y)
    for model, count in ((alone, 50), (both, 51)):
        for atom in np.setdiff1d(np.arange(count), model.relevance_)[:3]:
            drawn = Undrawn.from_estimator(model, data.X, data.y, atom=int(atom))
            assert drawn.current is None
    kept = both.posterior_.atoms
    with pytest.raises(ValueError, match="has no atom in the model"):
        as_found(Kernel(gamma="pooled") + both.dictionary, kept)


@pytest.mark.parametrize(
    ("s", "q"), [(0.0, 1.0), (-1.0, 1.0), (1.0, np.nan), ([1.0, 2.0], 1.0), ("a", 1.0), (np.inf, 1)]
)
def test_statistics_that_are_none_are_refused(s, q):
    with pytest.raises(ValueError, match="s "):
        AtomEvidenceDisplay.from_statistics(s, q)


def test_priors_that_are_none_are_refused():
    with pytest.raises(TypeError, match="hyperprior must be None or a hyperprior"):
        AtomEvidenceDisplay.from_statistics(1.0, 1.0, hyperprior="bic")
    with pytest.raises(ValueError, match="noise_variance must be"):
        AtomEvidenceDisplay.from_statistics(1.0, 1.0, noise_variance=0)
