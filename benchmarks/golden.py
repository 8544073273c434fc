"""Golden results: fits of every kind, kept and compared with those of a later revision.

``python -m benchmarks.golden --save before.json`` keeps what this revision finds, and
``--against before.json`` fits again and prints what changed: a figure to judge a change of the
solvers by, and not a test of digits. Objectives are as estimators report them, in units of the
user's targets. The families of reference problems need ../shared/oracles and are left out with a
message where it is absent.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from benchmarks._harness import SHARED, Report, Run, argument_parser, environment, rms
from benchmarks.optimum import FIXED_ONLY, ORACLES, cases
from sparsebayes import (
    RVC,
    RVR,
    SparseBayesClassifier,
    SparseBayesRegressor,
    denoise,
    reconstruct,
)
from sparsebayes.datasets import (
    Dataset,
    blocks,
    blocks_sinc,
    doppler,
    friedman1,
    friedman2,
    friedman3,
    mixtures,
    sinc,
    sparse_linear,
)
from sparsebayes.dictionaries import Bias, Kernel, Linear, Wavelet
from sparsebayes.rows import Chunks

Array = NDArray[np.float64]

WITHIN = 1.6448536269514722  # standard deviations of a 90 % interval
WIDTHS = {1: 1 / 9, 2: 1 / 6.25}  # gamma of sinc in one and two dimensions
MEMORY = {"memory": "100MB"}  # what makes a fit read its rows in blocks
SHORT = 0.3  # CPU seconds: a shorter fit is repeated
NOTED = 0.5  # nats of difference that a fit is listed for
UNBOUNDED = ("COLLAPSED", "NOISE_FLOOR", "NARROWING")  # statuses whose objective has no maximum


@dataclass(frozen=True)
class Fit:
    """One fit: its family, its name, what is timed, and what is then measured of its result."""

    family: str
    name: str
    job: Callable[[], Any]
    measure: Callable[[Any], dict[str, Any]]

    @property
    def key(self) -> str:
        return f"{self.family}: {self.name}"


# What is measured


def of_model(model: Any) -> dict[str, Any]:
    """Evidence, objective, atoms and status of an estimator."""
    return {
        "evidence": float(model.log_marginal_likelihood_),
        "objective": float(model.log_posterior_),
        "atoms": len(model.relevance_),
        "status": model.solution_.status.name,
    }


def of_function(test: Dataset, model: Any) -> dict[str, Any]:
    """Also the error to the truth of new rows, and how many of their targets intervals hold."""
    mean, std = model.predict(test.X, return_std=True)
    held = np.abs(test.y - mean) < WITHIN * std
    return of_model(model) | {"error": rms(mean - test.truth), "coverage": float(held.mean())}


def of_truth(X: Any, truth: Array, model: Any) -> dict[str, Any]:
    """Also the error to the truth, where there are no error bars or no new rows."""
    return of_model(model) | {"error": rms(np.asarray(model.predict(X)) - truth)}


def of_classes(X: Array, y: Any, model: Any) -> dict[str, Any]:
    """Also the log-loss of new rows, and the share that is put into the right class."""
    p = model.predict_proba(X)
    code = np.searchsorted(model.classes_, y)
    loss = -np.log(np.maximum(p[np.arange(len(y)), code], 1e-300)).mean()
    return of_model(model) | {"error": float(loss), "right": float((p.argmax(1) == code).mean())}


def of_signal(truth: Array, found: Any) -> dict[str, Any]:
    """Evidence, error, and how much of the truth the error bars of a signal hold."""
    statuses = {one.status.name for one in np.atleast_1d(np.array(found.solution, dtype=object))}
    return {
        "evidence": float(np.sum(found.log_marginal_likelihood)),
        "objective": float(np.sum(found.log_marginal_likelihood)),
        "atoms": int(np.sum(found.n_atoms)),
        "status": " ".join(sorted(statuses)),
        "error": rms(found.signal - truth),
        "coverage": float(np.mean(np.abs(truth - found.signal) < WITHIN * found.std)),
    }


class Counted(np.memmap):  # type: ignore[type-arg]
    """A memory map that knows how many of its rows were read."""

    taken: int | None = None

    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)
        if self.taken is not None:
            if isinstance(part, Counted):
                part.taken = None
            self.taken += len(part) if np.ndim(part) > 1 else 1
        return part


def with_passes(X: Counted, measure: Callable[[Any], dict[str, Any]], model: Any) -> dict[str, Any]:
    """Also the passes over the data, as rows read over rows."""
    assert X.taken is not None
    passes, X.taken = X.taken / len(X), 0
    return {"passes": passes} | measure(model)


# The families


def reference() -> Iterator[Fit]:
    """The reference problems, flat prior, noise estimated and given; classes and counts."""
    for case in cases(None):
        model = SparseBayesRegressor(
            "linear",
            fit_intercept=False,
            prior="flat",
            noise_variance=case.noise_variance,
            random_state=0,
        )
        name = f"{case.name}, noise {'fixed' if case.fixed else 'estimated'}"
        job = partial(model.fit, case.Phi, case.t)
        yield Fit("reference", name, job, partial(of_truth, case.Phi, case.truth))
    for name in sorted(FIXED_ONLY):
        for path in ORACLES.glob(f"{name}_*.npz"):
            with np.load(path) as z:
                Phi, t, truth = z["Phi"], z["t"], z["y_true"]
            model = SparseBayesRegressor("linear", fit_intercept=False, prior="bic", random_state=0)
            measure = partial(of_truth, Phi, truth)
            yield Fit("reference", f"{name}, bic", partial(model.fit, Phi, t), measure)
    for path in sorted(ORACLES.glob("c*.npz")):
        with np.load(path) as z:
            kind = json.loads(str(z["meta"]))["likelihood"]
            Phi, t, truth = z["Phi"], z["t"], z["y_true"]
        options: dict[str, Any] = {"fit_intercept": False, "prior": "flat", "random_state": 0}
        name = path.stem.partition("_")[0]
        if kind == "bernoulli":
            machine = SparseBayesClassifier("linear", **options)
            measure = partial(of_classes, Phi, t)
            yield Fit("reference", f"{name}, classes", partial(machine.fit, Phi, t), measure)
        elif kind == "poisson":
            counts = SparseBayesRegressor("linear", likelihood="poisson", **options)
            measure = partial(of_truth, Phi, truth)
            yield Fit("reference", f"{name}, counts", partial(counts.fit, Phi, t), measure)


def on(family: str, name: str, model: Any, train: Dataset, test: Dataset, **given: Any) -> Fit:
    """Return a plain regression: fitted to one draw, measured on another."""
    return Fit(
        family, name, partial(model.fit, train.X, train.y, **given), partial(of_function, test)
    )


def smooth() -> Iterator[Fit]:
    """Sinc in one and two dimensions with given widths."""
    for dim, n, draw in product((1, 2), (100, 300, 1000, 2000), range(3)):
        if dim == 1 and draw:
            continue
        train, test = (sinc(n, 0.1, dim, seed) for seed in (draw, 10 + draw))
        model = RVR(gamma=WIDTHS[dim], random_state=0)
        yield on("sinc", f"{dim}-D, N = {n}, draw {draw}", model, train, test)


def friedman() -> Iterator[Fit]:
    for draw, (name, make, n, gamma) in product(
        range(2),
        (
            ("1, N = 240", friedman1, 240, "scale"),
            ("1, N = 400, wide", friedman1, 400, 0.36),
            ("1, N = 1000", friedman1, 1000, "scale"),
            ("2, N = 240", friedman2, 240, "scale"),
            ("3, N = 240", friedman3, 240, "scale"),
        ),
    ):
        model = RVR(gamma=gamma, random_state=0)
        train, test = make(n, random_state=draw), make(1000, random_state=10 + draw)
        yield on("Friedman", f"{name}, draw {draw}", model, train, test)


def wide() -> Iterator[Fit]:
    """Kernels so wide that their atoms are nearly collinear, some with little noise."""
    for dim, gamma, n, noise in (
        (1, 0.02, 200, 0.1),
        (1, 0.05, 500, 0.01),
        (1, 1 / 9, 100, 0.001),
        (2, 0.02, 300, 0.1),
        (2, 0.02, 500, 0.01),
    ):
        train, test = (sinc(n, noise, dim, seed) for seed in (3, 13))
        name = f"{dim}-D, gamma {gamma:.2g}, N = {n}, noise {noise}"
        yield on("wide", name, RVR(gamma=gamma, random_state=0), train, test)
    train, test = sinc(200, 0.1, random_state=4), sinc(500, 0.1, random_state=14)
    for kernel in ("lspline", "tps"):
        yield on("wide", kernel, SparseBayesRegressor(Kernel(kernel)), train, test)


def sparse() -> Iterator[Fit]:
    """Linear problems with few true columns, under priors with a price."""
    for n, m, k, prior in (
        (500, 2000, 30, "ric"),
        (500, 2000, 30, "bic"),
        (500, 400, 30, "aic"),
        (100, 400, 12, "ric"),
        (300, 150, 12, "flat"),
        (100, 400, 12, "flat"),
        (200, 20_000, 10, "ric"),
    ):
        train = sparse_linear(n, m, k, random_state=5)
        X = np.random.default_rng(15).normal(size=(1000, m))
        f = X @ train.weights
        test = Dataset(X, f + np.random.default_rng(25).normal(0, train.noise_std, 1000), f, 0.0)
        model = SparseBayesRegressor(prior=prior, random_state=0)
        yield on("sparse", f"{n} x {m}, {k} columns, {prior}", model, train, test)


def null() -> Iterator[Fit]:
    """Targets that are noise alone: the truth is zero."""
    for n, m, prior in ((100, 100, "ric"), (100, 100, "flat"), (300, 2000, "ric")):
        data = sparse_linear(n, m, 0, random_state=6)
        model = SparseBayesRegressor(prior=prior, random_state=0)
        measure = partial(of_truth, data.X, data.truth)
        yield Fit("null", f"{n} x {m}, {prior}", partial(model.fit, data.X, data.y), measure)
    X = sinc(300, dim=2, random_state=6).X
    y = np.random.default_rng(6).normal(size=300)
    job = partial(RVR(gamma=WIDTHS[2], random_state=0).fit, X, y)
    yield Fit("null", "kernels", job, partial(of_truth, X, np.zeros(300)))


def unions() -> Iterator[Fit]:
    """Wavelets and unions, as regressions on positions."""
    smooth_and_steps = blocks_sinc(256, random_state=7)
    wave = doppler(512, random_state=7)
    X = np.arange(256.0)[:, None]
    jobs = {
        "Doppler, sym8": (SparseBayesRegressor(Wavelet("sym8")), np.arange(512.0)[:, None], wave),
        "BlocksSinc, haar + tps": (
            SparseBayesRegressor(Wavelet("haar") + Kernel("tps"), prior="bic"),
            X,
            smooth_and_steps,
        ),
        "BlocksSinc, haar + tps, aic": (
            SparseBayesRegressor(Wavelet("haar") + Kernel("tps"), prior="aic"),
            X,
            smooth_and_steps,
        ),
    }
    for name, (model, positions, data) in jobs.items():
        measure = partial(of_truth, positions, data.truth)
        yield Fit("unions", name, partial(model.fit, positions, data.y), measure)
    train, test = friedman1(240, random_state=7), friedman1(1000, random_state=17)
    model = SparseBayesRegressor(Linear() + Kernel("rbf", gamma=0.5) + Bias(), prior="bic")
    yield on("unions", "Friedman 1, linear + rbf + bias", model, train, test)


def learned() -> Iterator[Fit]:
    """Widths of kernels found by the fit."""
    for gamma in ("pooled", "pooled-ard", "evidence", "ard"):
        model = RVR(gamma=gamma, random_state=0)
        train, test = (friedman1(240, random_state=seed) for seed in (8, 18))
        yield on("learned", f"Friedman 1, {gamma}", model, train, test)
        model = RVR(gamma=gamma, random_state=0)
        train, test = (sinc(200, 0.1, 2, seed) for seed in (8, 18))
        yield on("learned", f"2-D sinc, {gamma}", model, train, test)
    model = RVR("laplacian", gamma="evidence", random_state=0)
    train, test = (sinc(100, 0.1, random_state=seed) for seed in (8, 18))
    yield on("learned", "sinc, laplacian, evidence", model, train, test)
    train, test = (mixtures(200, random_state=seed) for seed in (8, 18))
    for gamma in ("pooled", "evidence"):
        machine = RVC(gamma=gamma, random_state=0)
        measure = partial(of_classes, test.X, test.y)
        yield Fit("learned", f"classes, {gamma}", partial(machine.fit, train.X, train.y), measure)


def clusters(classes: int, spread: float, seed: int) -> tuple[Array, NDArray[np.intp]]:
    """Draw points around centers on a circle, one for each class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=200)
    angle = 2 * np.pi * y / classes
    return np.c_[np.cos(angle), np.sin(angle)] + spread * rng.normal(size=(200, 2)), y


def classes() -> Iterator[Fit]:
    """Two classes and several, overlapping and separable."""

    def fit(name: str, model: Any, train: tuple[Any, Any], test: tuple[Any, Any]) -> Fit:
        return Fit("classes", name, partial(model.fit, *train), partial(of_classes, *test))

    for n, draw in product((100, 250, 1000), range(3)):
        train, test = (mixtures(size, seed) for size, seed in ((n, draw), (1000, 10 + draw)))
        pair = (train.X, train.y), (test.X, test.y)
        yield fit(f"mixtures, N = {n}, draw {draw}", RVC(gamma=4.0, random_state=0), *pair)
        if (n, draw) == (250, 0):
            for solver in ("sequential", "em"):
                model = RVC(gamma=4.0, solver=solver, random_state=0)
                yield fit(f"mixtures, N = {n}, {solver}", model, *pair)
            weighted = RVC(gamma=4.0, class_weight={0: 3.0, 1: 1.0}, random_state=0)
            yield fit(f"mixtures, N = {n}, weighted", weighted, *pair)
    for count in (3, 5):
        for shared in (False, True):
            model = RVC(gamma=1.0, shared=shared, random_state=0)
            name = f"{count} classes{', shared' if shared else ''}"
            yield fit(name, model, clusters(count, 0.4, 9), clusters(count, 0.4, 19))
    model = RVC(gamma=1.0, random_state=0)
    yield fit("separable", model, clusters(2, 0.1, 9), clusters(2, 0.1, 19))
    data, new = (sparse_linear(200, 300, 5, random_state=seed) for seed in (9, 19))
    signs = new.X @ data.weights > 0
    linear = SparseBayesClassifier(random_state=0)
    yield fit("linear, 200 x 300", linear, (data.X, data.y > 0), (new.X, signs))


def counts() -> Iterator[Fit]:
    rng = np.random.default_rng(10)
    data = sinc(200, 0.0)
    rate = np.exp(1 + 2 * data.truth)
    model = RVR(gamma=WIDTHS[1], likelihood="poisson", random_state=0)
    job = partial(model.fit, data.X, rng.poisson(rate))
    yield Fit("counts", "sinc", job, partial(of_truth, data.X, rate))
    X = rng.normal(size=(200, 50))
    rate = np.exp(1 + X[:, 3] - 0.5 * X[:, 7])
    linear = SparseBayesRegressor(likelihood="poisson", random_state=0)
    job = partial(linear.fit, X, rng.poisson(rate))
    yield Fit("counts", "linear, 200 x 50", job, partial(of_truth, X, rate))


def targets_and_weights() -> Iterator[Fit]:
    """Several targets that share their atoms; rows that count more or less."""
    rng = np.random.default_rng(11)
    data = sinc(300, 0.1, 2, 11)
    truth = np.c_[data.truth, 1 - 2 * data.truth, data.truth**2]
    Y = truth + 0.1 * rng.normal(size=truth.shape)
    job = partial(RVR(gamma=WIDTHS[2], random_state=0).fit, data.X, Y)
    yield Fit("targets", "three, kernels", job, partial(of_truth, data.X, truth))
    X, W = rng.normal(size=(150, 300)), np.zeros((300, 2))
    W[[5, 50, 150]] = rng.normal(size=(3, 2))
    job = partial(SparseBayesRegressor().fit, X, X @ W + 0.2 * rng.normal(size=(150, 2)))
    yield Fit("targets", "two, linear", job, partial(of_truth, X, X @ W))
    train, test = sinc(300, 0.1, random_state=11), sinc(500, 0.1, random_state=21)
    for name, weight in (("0 to 2", rng.uniform(0, 2, 300)), ("whole", rng.integers(0, 4, 300))):
        model = RVR(gamma=WIDTHS[1], random_state=0)
        yield on("weights", name, model, train, test, sample_weight=weight.astype(float))


def in_parts(model: Any, parts: Sequence[tuple[Array, Array]]) -> Any:
    model = clone(model)  # a fit that is repeated begins anew
    for X, y in parts:
        model.partial_fit(X, y)
    return model


def by_rows(folder: Path) -> Iterator[Fit]:
    """Fits that read rows in blocks or in parts, with their passes over the data."""
    train, test = sinc(5000, 0.1, 2, 12), sinc(1000, 0.1, 2, 22)
    centers = train.X[:400]
    train.X.tofile(folder / "X")

    def mapped() -> Counted:
        X = Counted(folder / "X", np.float64, "r", shape=train.X.shape)
        X.taken = 0
        return X

    X = mapped()
    model = RVR(gamma=WIDTHS[2], centers=centers, random_state=0, **MEMORY)
    measure = partial(with_passes, X, partial(of_function, test))
    yield Fit("rows", "memory map, 400 kernels", partial(model.fit, X, train.y), measure)

    X = mapped()
    model = RVR(gamma=WIDTHS[2], centers=train.X[:3000], random_state=0, **MEMORY)
    measure = partial(with_passes, X, partial(of_function, test))
    yield Fit("rows", "memory map, 3000 kernels", partial(model.fit, X, train.y), measure)

    X = mapped()
    y = (train.truth + 0.1 * np.random.default_rng(12).normal(size=5000) > 0.05).astype(int)
    y_new = (test.truth + 0.1 * np.random.default_rng(22).normal(size=1000) > 0.05).astype(int)
    machine = RVC(gamma=WIDTHS[2], centers=centers, random_state=0, **MEMORY)
    measure = partial(with_passes, X, partial(of_classes, test.X, y_new))
    yield Fit("rows", "memory map, classes", partial(machine.fit, X, y), measure)

    chunks = Chunks([(train.X[i : i + 600], train.y[i : i + 600]) for i in range(0, 5000, 600)])
    model = RVR(gamma=WIDTHS[2], centers=centers, random_state=0)
    yield Fit("rows", "chunks", partial(model.fit, chunks), partial(of_function, test))

    wide_data = sparse_linear(3000, 500, 10, random_state=12)
    linear = SparseBayesRegressor(**MEMORY)
    job = partial(linear.fit, wide_data.X, wide_data.y)
    yield Fit("rows", "columns", job, partial(of_truth, wide_data.X, wide_data.truth))

    parts = [(train.X[i : i + 1250], train.y[i : i + 1250]) for i in range(0, 5000, 1250)]
    model = RVR(gamma=WIDTHS[2], centers=centers, random_state=0)
    yield Fit("rows", "partial_fit", partial(in_parts, model, parts), partial(of_function, test))


def solvers() -> Iterator[Fit]:
    """The algorithms of the papers."""
    train, test = sinc(100, 0.1, random_state=13), sinc(500, 0.1, random_state=23)
    for solver in ("sequential", "sequential-random", "sequential-cyclic", "em", "mackay"):
        model = RVR(gamma=WIDTHS[1], solver=solver, random_state=0)
        yield on("solvers", f"sinc, {solver}", model, train, test)
    data = sparse_linear(200, 100, 8, random_state=13)
    for solver in ("sequential", "mackay"):
        linear = SparseBayesRegressor(prior="flat", solver=solver, random_state=0)
        measure = partial(of_truth, data.X, data.truth)
        yield Fit("solvers", f"linear, {solver}", partial(linear.fit, data.X, data.y), measure)


def signals() -> Iterator[Fit]:
    """Signals and a picture: denoised, and reconstructed from few numbers."""
    from sparsebayes.sensing import PartialDCT

    rng = np.random.default_rng(14)
    steps, wave, both = (make(n, random_state=14) for make, n in SIGNALS)
    picture = np.add.outer(steps.truth[::16], wave.truth[::16]) / 2
    noisy = picture + rng.normal(size=picture.shape)

    def fit(name: str, truth: Array, job: Callable[[], Any]) -> Fit:
        return Fit("signals", name, job, partial(of_signal, truth))

    yield fit("Blocks, haar", steps.truth, partial(denoise, steps.y, "haar"))
    yield fit("Doppler, sym8, ric", wave.truth, partial(denoise, wave.y, "sym8", "ric"))
    yield fit("a picture", picture, partial(denoise, noisy, "db2"))
    union = Wavelet("haar") + Kernel("tps")
    yield fit("BlocksSinc, haar + tps", both.truth, partial(denoise, both.y, union))
    mask = rng.random(both.truth.size) < 0.6
    job = partial(reconstruct, np.where(mask, both.y, 0.0), mask, "haar")
    yield fit("BlocksSinc, 60 % of its samples", both.truth, job)
    spikes = np.zeros(256)
    spikes[rng.choice(256, 15, replace=False)] = rng.normal(size=15)
    A = rng.normal(size=(100, 256)) / 10
    job = partial(reconstruct, A @ spikes + 0.01 * rng.normal(size=100), A, "identity")
    yield fit("spikes, Gaussian sensing", spikes, job)
    sensing = PartialDCT((64, 64), 1500, random_state=0)
    job = partial(reconstruct, sensing.measure(picture), sensing, "haar", solver="matrix-free")
    yield fit("a picture, partial DCT, matrix-free", picture, job)


SIGNALS = ((blocks, 1024), (doppler, 1024), (blocks_sinc, 256))


def fits(folder: Path, wanted: Sequence[str] | None) -> Iterator[Fit]:
    """Yield the fits of the families that are wanted; all where that is None."""
    families: dict[str, Callable[[], Iterator[Fit]]] = {
        "reference": reference,
        "sinc": smooth,
        "Friedman": friedman,
        "wide": wide,
        "sparse": sparse,
        "null": null,
        "unions": unions,
        "learned": learned,
        "classes": classes,
        "counts": counts,
        "targets": targets_and_weights,
        "rows": partial(by_rows, folder),
        "solvers": solvers,
        "signals": signals,
    }
    unknown = set(wanted or ()) - set(families)
    if unknown:
        raise SystemExit(f"no family is called {min(unknown)!r}; there are {', '.join(families)}")
    for name, family in families.items():
        if wanted is None or name in wanted:
            yield from family()


def measured(fit: Fit, repeats: int) -> dict[str, Any]:
    """Run one fit; a failure is a result too."""
    run = Run()
    row: dict[str, Any] = {"family": fit.family, "fit": fit.name}
    try:
        for _ in range(repeats):
            run.once(fit.job)
            row |= fit.measure(run.result)
            if run.cpu > SHORT:
                break
    except Exception as error:  # noqa: BLE001
        row["status"] = f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
    return row | {"CPU s": run.cpu if np.isfinite(run.cpu) else None, "messages": run.messages}


# Comparison


def compared(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What changed from one revision to another, of one fit."""

    def change(key: str, how: Callable[[float, float], float]) -> float | None:
        pair = before.get(key), after.get(key)
        if any(value is None or not np.isfinite(value) for value in pair) or pair[0] == 0:
            return None
        return how(float(pair[0]), float(pair[1]))  # type: ignore[arg-type]

    same = before["status"] == after["status"]
    bounded = not {before["status"], after["status"]} & set(UNBOUNDED)
    return {
        "fit": f"{after['family']}: {after['fit']}",
        "family": after["family"],
        "nats": change("objective", lambda old, new: new - old) if bounded else None,
        "error ratio": change("error", lambda old, new: new / old),
        "coverage": change("coverage", lambda old, new: new - old),
        "atoms": change("atoms", lambda old, new: new - old),
        "passes": change("passes", lambda old, new: new / old),
        "time ratio": change("CPU s", lambda old, new: new / old),
        "before s": before.get("CPU s"),
        "after s": after.get("CPU s"),
        "status": "" if same else f"{before['status']} -> {after['status']}",
    }


def of_families(changes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line for each family, and one for all fits."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for change in changes:
        groups.setdefault(change["family"], []).append(change)
    groups["all"] = list(changes)
    rows = []
    for family, group in groups.items():

        def values(key: str, group: list[dict[str, Any]] = group) -> list[float]:
            return [change[key] for change in group if change[key] is not None]

        nats, errors, passes = values("nats"), values("error ratio"), values("passes")
        times = [c for c in group if None not in (c["before s"], c["after s"])]
        old = sum(c["before s"] for c in times)
        rows.append(
            {
                "family": family,
                "fits": len(group),
                "sum, nats": sum(nats) if nats else None,
                "worst": min(nats, default=None),
                "best": max(nats, default=None),
                "median error ratio": float(np.median(errors)) if errors else None,
                "worst error ratio": max(errors, default=None),
                "coverage": float(np.mean(values("coverage"))) if values("coverage") else None,
                "atoms": sum(values("atoms")),
                "passes": float(np.median(passes)) if passes else None,
                "time ratio": sum(c["after s"] for c in times) / old if old else None,
                "median": float(np.median(values("time ratio"))) if times else None,
                "other status": sum(bool(change["status"]) for change in group),
            }
        )
    return rows


FOUND_COLUMNS = {
    "family": "",
    "fit": "",
    "objective": ".3f",
    "error": ".4g",
    "coverage": ".3f",
    "right": ".3f",
    "atoms": "d",
    "passes": ".1f",
    "CPU s": ".3f",
    "status": "",
}
FAMILY_COLUMNS = {
    "family": "",
    "fits": "d",
    "sum, nats": "+.2f",
    "worst": "+.2f",
    "best": "+.2f",
    "median error ratio": ".3f",
    "worst error ratio": ".3f",
    "coverage": "+.3f",
    "atoms": "+.0f",
    "passes": ".2f",
    "time ratio": ".2f",
    "median": ".2f",
    "other status": "d",
}
CHANGE_COLUMNS = {
    "fit": "",
    "nats": "+.3f",
    "error ratio": ".3f",
    "coverage": "+.3f",
    "atoms": "+.0f",
    "time ratio": ".2f",
    "status": "",
}


def is_noted(change: dict[str, Any]) -> bool:
    """Whether a fit changed so much that it is listed."""
    nats, error = change["nats"], change["error ratio"]
    other = bool(change["status"]) or (nats is not None and abs(nats) > NOTED)
    return other or (error is not None and abs(error - 1) > 0.05)


def compare(report: Report, old: dict[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    """Print what changed since a file was saved."""
    before = {f"{row['family']}: {row['fit']}": row for row in old["rows"]}
    after = {f"{row['family']}: {row['fit']}": row for row in rows}
    both = [key for key in after if key in before]
    if not both:
        raise SystemExit("none of these fits is in the file they are compared with")
    families = {row["family"] for row in rows}
    for key in before:
        if key not in after and before[key]["family"] in families:
            print(f"  only before: {key}")
    for key in after.keys() - before.keys():
        print(f"  only now: {key}")
    changes = [compared(before[key], after[key]) for key in both]
    heading = "Families: objective now minus before, errors and CPU time now over before"
    report.show(heading, of_families(changes), FAMILY_COLUMNS)
    noted = [change for change in changes if is_noted(change)]
    if noted:
        heading = f"Fits that changed by more than {NOTED} nats or 5 % of their error"
        report.show(heading, noted, CHANGE_COLUMNS)
    machine = old.get("env", {}).get("cpu")
    if machine != report.env["cpu"]:
        print(f"  times before are those of another machine: {machine}")


def run(args: Any) -> list[dict[str, Any]]:
    """Run all fits, and say how each one ended as it does."""
    if not ORACLES.is_dir():
        print(f"no reference problems in ../{ORACLES.relative_to(SHARED.parent)}: left out")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        RVR().fit(*imported()), RVC().fit(imported()[0], imported()[1] > 0)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for fit in fits(Path(folder), args.only):
            rows.append(measured(fit, args.repeats))
            line = {key: rows[-1].get(key) for key in ("objective", "CPU s", "status")}
            print(f"  {fit.key}: {line}", flush=True)
    return rows


def imported() -> tuple[Array, Array]:
    """Data of a first fit, which is not timed: it imports what the others need."""
    data = sinc(30, random_state=0)
    return data.X, data.y


def main() -> None:
    parser = argument_parser("Results of fits of every kind, kept and compared", 3)
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep the results there")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with results kept")
    parser.add_argument("--read", type=Path, metavar="FILE", help="results kept instead of fits")
    parser.add_argument("--only", nargs="+", metavar="FAMILY", help="families; default all")
    args = parser.parse_args()
    report = Report.open("Golden results", args.threads)
    rows = json.loads(args.read.read_text())["rows"] if args.read else run(args)
    report.show("Fits", rows, FOUND_COLUMNS)
    for row in rows:
        for message in row["messages"]:
            print(f"  {row['family']}: {row['fit']} warned: {message.splitlines()[0][:120]}")
    total = sum(row["CPU s"] or 0.0 for row in rows)
    report.note(f"{len(rows)} fits, {total:.0f} CPU seconds")
    if args.save:
        kept = {"env": environment(args.threads), "rows": rows}
        args.save.write_text(json.dumps(kept, indent=1, default=float) + "\n")
        print(f"{args.save}: written")
    if args.against:
        compare(report, json.loads(args.against.read_text()), rows)
    report.close(args)


if __name__ == "__main__":
    main()
