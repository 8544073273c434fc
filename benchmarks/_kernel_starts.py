"""Is the joint optimum of atoms and widths stable? Learning begun from ten random widths.

Starts are uniform in log gamma within a factor of a hundred of the usual one, for each input in
"ard". From each start the learner runs twice: with its first search, which maximizes the evidence
of a model in which all atoms share one variance; and without, where it fits at the start's widths
and goes on from there. "usual" is what an estimator does: it begins with the better of both, from
widths that suit the spread of the inputs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._harness import Report, Run, rms
from benchmarks._kernel_problems import Draw, Split, friedman, made, with_boston
from sparsebayes._gaussian_kernels import GaussianFit, GaussianModel
from sparsebayes._threads import one_blas_thread
from sparsebayes.datasets import sinc
from sparsebayes.design import make_design
from sparsebayes.dictionaries import Kernel
from sparsebayes.hyperpriors import Flat
from sparsebayes.kernel_learning import Learned, learn
from sparsebayes.problem import Status
from sparsebayes.quadratic import DesignQuadratic
from sparsebayes.shared_variance import Targets, first_theta
from sparsebayes.solvers import working_set

Array = NDArray[np.float64]

STARTS = 10
FACTOR = 100.0
TOL = 1e-6
NEAR = 1.0  # nats: as good as the best
SAME = 0.1  # between predictions, in noise standard deviations of the usual fit: all the same

COLUMNS = {
    "": "",
    "best": ".2f",
    "median below": ".2f",
    "worst below": ".2f",
    "within 1 nat": "d",
    "usual below": ".2f",
    "median apart": ".3f",
    "most apart": ".3f",
    "least RMSE": ".4g",
    "median RMSE": ".4g",
    "most RMSE": ".4g",
    "atoms from": "d",
    "atoms to": "d",
    "collapsed": "d",
    "CPU s": ".2f",
}


@dataclass(slots=True)
class Ends:
    """Where the learner ended, start by start; the usual start comes first."""

    objective: list[float] = field(default_factory=list)
    prediction: list[Array] = field(default_factory=list)
    noise_std: list[float] = field(default_factory=list)
    rmse: list[float] = field(default_factory=list)
    atoms: list[int] = field(default_factory=list)
    collapsed: list[bool] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


class Task:
    """One training set and the learner for it, targets in units of their standard deviation."""

    def __init__(self, data: Split, gamma: str) -> None:
        self.data = data
        self.mean, self.unit = float(data.y.mean()), float(data.y.std())
        self.t = ((data.y - self.mean) / self.unit)[:, None]
        self.atoms = Kernel("rbf", gamma=gamma).bind(data.X)
        self.model = GaussianModel(data.X, self.t, Flat(), None, self.quadratic, self.solve)

    def quadratic(self, atoms: Any) -> DesignQuadratic:
        return DesignQuadratic(make_design(atoms, self.data.X), self.t, None, True)

    def solve(self, problem: Any, start: Any) -> Any:
        return working_set.solve(problem, tol=TOL, start=start)

    def searched(self, theta: Array) -> Array:
        """What the first search makes of a start."""
        atoms, targets = self.atoms.with_theta(theta), Targets(self.t, None, True, None)
        return first_theta(atoms, self.data.X, targets)

    def start(self, seed: int) -> Array:
        """Random widths, within the bounds."""
        theta, (low, high) = self.atoms.theta, self.atoms.bounds.T
        shift = np.random.default_rng(seed).uniform(-1, 1, len(theta)) * np.log(FACTOR)
        return np.asarray(np.clip(theta + shift, low, high))

    def usual(self) -> Learned[GaussianFit]:
        with one_blas_thread():
            begins = [self.searched(self.atoms.theta), self.atoms.theta]
            return learn(self.model, self.atoms, begins, TOL)

    def learn(self, seed: int, prepared: bool) -> Learned[GaussianFit]:
        with one_blas_thread():
            theta = self.start(seed)
            return learn(self.model, self.atoms, [self.searched(theta) if prepared else theta], TOL)

    def predict(self, learned: Learned[GaussianFit]) -> Array:
        """Mean at the test rows, in units of the targets."""
        quad, state = learned.fit.quad, learned.fit.solution.state
        Phi = learned.atoms.restrict(state.active).evaluate(self.data.X_test)
        Phi = (Phi - quad.mean[state.active]) / quad.norm[state.active]
        return np.asarray(self.mean + self.unit * (quad.offset + Phi @ state.mu)[:, 0])


def measure(task: Task, usual: Run, prepared: bool, starts: int) -> Ends:
    """From the usual start and from random ones."""
    ends = Ends()
    for seed in range(starts + 1):
        run = usual if seed == 0 else Run()
        if seed:
            run.once(partial(task.learn, seed, prepared))
        solution, prediction = run.result.fit.solution, task.predict(run.result)
        state = solution.state
        ends.objective.append(state.objective)
        ends.prediction.append(prediction)
        ends.noise_std.append(task.unit * state.noise_var**0.5)
        ends.rmse.append(rms(prediction - task.data.truth))
        ends.atoms.append(len(state.active))
        ends.collapsed.append(solution.status is Status.COLLAPSED)
        ends.cpu.append(run.cpu)
    return ends


def row(name: str, ends: Ends) -> dict[str, Any]:
    """Spread over the random starts, beside the usual one."""
    objective = np.array(ends.objective[1:])
    best = int(objective.argmax()) + 1
    below = objective.max() - objective
    # Of the usual fit: where a model has collapsed, its noise is no unit.
    apart = [rms(p - ends.prediction[best]) / ends.noise_std[0] for p in ends.prediction[1:]]
    return {
        "": name,
        "best": float(objective.max()),
        "median below": float(np.median(below)),
        "worst below": float(below.max()),
        "within 1 nat": int((below <= NEAR).sum()),
        "usual below": float(objective.max() - ends.objective[0]),
        "median apart": float(np.median(apart)),
        "most apart": float(np.max(apart)),
        "least RMSE": min(ends.rmse[1:]),
        "median RMSE": float(np.median(ends.rmse[1:])),
        "most RMSE": max(ends.rmse[1:]),
        "atoms from": min(ends.atoms[1:]),
        "atoms to": max(ends.atoms[1:]),
        "collapsed": sum(ends.collapsed[1:]),
        "CPU s": float(np.median(ends.cpu[1:])),
    }


def problems() -> dict[str, Draw]:
    draws: dict[str, Draw] = {"sinc, N = 100": partial(made, sinc, 100, noise=0.1)}
    draws |= {name: d for name, d in friedman(240).items() if name.startswith("Friedman 1")}
    return with_boston(draws)


def run(report: Report, args: Any) -> None:
    """All problems, both kinds of widths, with and without the first search."""
    starts = 3 if args.quick else STARTS
    for name, draw in problems().items():
        if args.only and not any(name.startswith(wanted) for wanted in args.only):
            continue
        rows = []
        for gamma in ("evidence", "ard") if draw(0).X.shape[1] > 1 else ("evidence",):
            task, usual = Task(draw(0), gamma), Run()
            usual.once(task.usual)
            with_begin, without = (measure(task, usual, by, starts) for by in (True, False))
            rows += [row(gamma, with_begin), row(f"{gamma}, no first search", without)]
            judge(report, f"{name}, {gamma}", rows[-2], starts)
        heading = f"{name}: {starts} starts; nats below the best, predictions apart in noise sd"
        report.show(heading, rows, COLUMNS)


def judge(report: Report, name: str, r: dict[str, Any], starts: int) -> None:
    report.judge(
        f"{name}: stable from {starts} starts (predictions within {SAME} noise sd)",
        r["most apart"] <= SAME,
        f"objective at most {r['worst below']:.2f} nats below the best, {r['within 1 nat']} within "
        f"one; predictions {r['median apart']:.3f} apart, at most {r['most apart']:.3f}",
    )
