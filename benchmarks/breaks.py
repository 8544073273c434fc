"""Deliberate breaks: does the test suite notice a fault that someone could make?

``python -m benchmarks.breaks`` puts one fault after the other into a copy of this checkout, runs
the tests that should notice and prints whether one failed; ``--tree TREE`` takes another checkout.
A break is told by what it breaks. It holds one or more places in the code, of which the first that
occurs is used, so that it outlives code that is moved or rewritten; one that occurs nowhere any
more is reported, and must be given its new place. A test that fails without the break as well does
not count.
"""

from __future__ import annotations

import argparse
import compileall
import math
import os
import py_compile
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import _harness

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = (".git", ".venv", "build", "dist", "*_cache", "__pycache__", ".hypothesis", "gallery")
LIMIT = 300.0  # CPU seconds; a break that hangs is noticed by whoever waits
PATIENCE = 20  # seconds of the wall clock for each of these: the machine may be shared
LOST = ("NOT FOUND", "NO TESTS")


@dataclass(frozen=True)
class Break:
    """One fault: its room, what it breaks, where that may be, and which tests should notice."""

    room: str
    what: str
    places: tuple[tuple[str, str], ...]  # snippet, and what it is replaced by
    tests: tuple[str, ...]  # names of files in tests/, with wildcards; in the order they are run


def breaking(room: str, what: str, tests: str, *places: tuple[str, str]) -> Break:
    return Break(room, what, places, tuple(f"test_{name}.py" for name in tests.split()))


BREAKS = (
    # Core
    breaking(
        "core",
        "the determinant of the evidence is counted half",
        "engine* core* waist* known_optima*",
        (
            "log_det = 2.0 * float(np.add.reduce(np.log(L.diagonal())))",
            "log_det = float(np.add.reduce(np.log(L.diagonal())))",
        ),
    ),
    breaking(
        "core",
        "what the model explains is added to S of a candidate",
        "engine* core* waist* search*",
        ('diag - np.einsum("ij,ij->j", X, X)', 'diag + np.einsum("ij,ij->j", X, X)'),
    ),
    breaking(
        "core",
        "candidates in the span of the model are taken in by what rounding leaves of S",
        "engine* degenerate_moves* roots* core* waist* little_noise* search*",
        ("spanned = np.logical_not(S > collinear * diag)", "spanned = np.logical_not(S > 0)"),
        ("spanned = ~(S > collinear * diag)", "spanned = ~(S > 0)"),
    ),
    breaking(
        "core",
        "the intercept takes no degree of freedom from the noise",
        "quadratic* totals* scale_invariance* estimators* waist*",
        ("total - 1.0 if center else total, spread", "total, spread"),
    ),
    breaking(
        "core",
        "the certificate does not look at atoms out of the model",
        "certificate* search* problem* contracts*",
        (
            "max_gain = float(statistics.gains.max(initial=0.0))",
            "max_gain = float(statistics.gains[state.active].max(initial=0.0))",
        ),
        (
            "max_gain = max(float(statistics.gains.max(initial=0.0)), 0.0)",
            "max_gain = max(float(statistics.gains[state.active].max(initial=0.0)), 0.0)",
        ),
    ),
    breaking(
        "core",
        "a collapsed noise is not told",
        "evidence_search* sequential* noise_priors* known_optima* search* signals* search*",
        (
            "return self.noise_var is None and float(state.dof.sum()) > _COLLAPSE * own",
            "return self.noise_var is None and float(state.dof.sum()) > 2.0 * own",
        ),
    ),
    breaking(
        "core",
        "several targets count as one in the volume of an atom's gain",
        "hyperpriors*",
        (
            "likelihood -= n_targets * np.log1p(vs)",
            "likelihood -= np.log1p(vs)",
        ),
    ),
    breaking(
        "core",
        "the smoothness prior does not depend on the noise",
        "hyperpriors* orthonormal*",
        ("return -self.c * (v / (v + noise_var))", "return -self.c * (v / (v + 1.0))"),
    ),
    breaking(
        "core",
        "a maximum under a price is kept though it is worth less than nothing",
        "hyperpriors* union_search* smoothness_of_classes*",
        (
            "v[gain(self, s[some], q2[some], v, noise_var, n_targets) <= 0] = 0.0",
            "v[~np.isfinite(v)] = 0.0",
        ),
    ),
    breaking(
        "core",
        "the inverse gamma prior of the noise forgets its Jacobian",
        "noise_priors*",
        (
            "self.log_normalizer - (self.g + 1) * math.log(noise_var)",
            "self.log_normalizer - self.g * math.log(noise_var)",
        ),
    ),
    breaking(
        "core",
        "the curvature of two classes is that of one minus p",
        "likelihoods* laplace*",
        ("(small / total / total)[:, None, None]", "(small / total)[:, None, None]"),
    ),
    breaking(
        "core",
        "the factorial of a count is that of one less",
        "likelihoods* count_regression*",
        ("- few - gammaln(few + 1.0)", "- few - gammaln(few)"),
    ),
    breaking(
        "core",
        "Laplace's evidence leaves out the volume of the intercepts",
        "laplace* classifiers* relinearize* latent_quadratic*",
        (
            "0.5 * float(total @ covariance @ total) + intercepts.log_volume",
            "0.5 * float(total @ covariance @ total)",
        ),
    ),
    # Solvers
    breaking(
        "solvers",
        "the derivative in the noise forgets the degrees of freedom",
        "newton* certificate* search*",
        (
            "n_targets * (gram.n - m + trace)) + each",
            "n_targets * gram.n) + each",
        ),
    ),
    breaking(
        "solvers",
        "MacKay's update of the noise forgets the degrees of freedom",
        "joint* sequential*",
        (
            "free = n_targets * gram.n - float(dof.sum())",
            "free = n_targets * gram.n",
        ),
    ),
    breaking(
        "solvers",
        "EM leaves the posterior variance out of the second moment",
        "joint*",
        ("second = v * (power + (terms - dof))", "second = v * power"),
    ),
    breaking(
        "solvers",
        "sequential: the covariance of a new atom with the others has the wrong sign",
        "sequential*",
        ("Sigma[m, :m] = -own * tied", "Sigma[m, :m] = own * tied"),
    ),
    breaking(
        "solvers",
        "the table of swaps gives the place of a deleted atom back in another unit",
        "exchange* swaps* known_optima* search*",
        ("Y *= (1.0 / (noise_var * d))[:, None]", "Y *= (1.0 / d)[:, None]"),
    ),
    breaking(
        "solvers",
        "the search ends where it got to without competition between atoms",
        "known_optima* search*",
        (
            "    smooth = is_smooth(run, best)\n    patience = 1 if smooth",
            "    return best\n    smooth = is_smooth(run, best)\n    patience = 1 if smooth",
        ),
    ),
    breaking(
        "solvers",
        "the closed form of orthonormal atoms takes half the price",
        "orthonormal*",
        ("power[active] / noise_var - 2.0 * own_c", "power[active] / noise_var - own_c"),
    ),
    # Fit: units, samples, kernel learning, checkpoints
    breaking(
        "fit",
        "the evidence is not turned back into the user's unit",
        "scale_invariance* estimators* evidence_search*",
        (
            "state.log_evidence - of_noise - n_targets * (quad.n - n_before) * log_scale",
            "state.log_evidence - of_noise",
        ),
    ),
    breaking(
        "fit",
        "equal rows become one of the first one's weight",
        "sample_weight*",
        ("np.add.reduceat(w[order], starts)", "w[order][starts]"),
    ),
    breaking(
        "fit",
        "the evidence's derivative in an atom adds what the posterior takes",
        "evidence_gradient* learned_kernels*",
        (
            "residual @ mu.T - n_targets * (atoms.T @ state.Sigma)",
            "residual @ mu.T + n_targets * (atoms.T @ state.Sigma)",
        ),
    ),
    breaking(
        "fit",
        "the evidence of a Gaussian process forgets its intercept",
        "widths*",
        ("height -= 0.5 * self.T * math.log(total)", "height -= 0.0 * self.T * math.log(total)"),
    ),
    breaking(
        "fit",
        "a checkpoint of other data is taken for that of these",
        "checkpoints*",
        ("return kept | facts", "return kept"),
    ),
    breaking(
        "fit",
        "sums of two lots of rows forget that their means differ",
        "sufficient* incremental* totals*",
        ("scatter[strip] += scaled[strip, None] * away", "scatter[strip] += 0.0 * away"),
    ),
    # Rows
    breaking(
        "rows",
        "every block but the first is counted twice",
        "sources* rows_regression* row_*",
        (
            "[merge(found[0], result)] if found",
            "[merge(merge(found[0], result), result)] if found",
        ),
    ),
    breaking(
        "rows",
        "targets in blocks are not weighted",
        "rows_regression* row_summary* row_span* row_*",
        (
            "pull = block.y * ones[:, None]",
            "pull = block.y + 0.0",
        ),
    ),
    breaking(
        "rows",
        "what rounding left out of one total is lost when two are merged",
        "totals* row_summary*",
        ("self._lost[name] += other._lost[name]", "self._lost[name] += 0.0"),
    ),
    breaking(
        "rows",
        "only the first block is looked at for NaN",
        "sources* bad_input*",
        ("if not _finite(values):", "if not first and not _finite(values):"),
    ),
    # Posterior and predictive distributions
    breaking(
        "posterior",
        "the predictive variance leaves out the intercept",
        "predictive* estimators* export_c*",
        (
            "floor = self.offset_variance + (self.noise_variance if noise else 0.0)",
            "floor = self.noise_variance if noise else 0.0",
        ),
    ),
    breaking(
        "posterior",
        "class probabilities do not know how uncertain the weights are",
        "likelihoods* latent_predictive* classifiers*",
        (
            "log_mean_sigmoid(mean[:, 0], covariance[:, 0, 0])",
            "log_mean_sigmoid(mean[:, 0], 0.0 * covariance[:, 0, 0])",
        ),
    ),
    breaking(
        "posterior",
        "intervals are one-sided",
        "predictive*",
        ("ndtri(0.5 + 0.5 * checked_level(level))", "ndtri(checked_level(level))"),
    ),
    breaking(
        "posterior",
        "the noise of draws has its variance for a standard deviation",
        "predictive* estimators* orthonormal_estimators*",
        (
            "draws += np.sqrt(self.noise_variance) * random_state",
            "draws += self.noise_variance * random_state",
        ),
    ),
    breaking(
        "posterior",
        "an added atom's prior variance does not know the size of the kernel",
        "augmentation*",
        ("self.v_new = explained / size", "self.v_new = explained"),
    ),
    # Dictionaries
    breaking(
        "dictionaries",
        "the thin-plate spline is twice as large",
        "dictionaries* export_c*",
        ("np.multiply(out, 0.5, out=out)\n        refuse_overflow", "refuse_overflow"),
    ),
    breaking(
        "dictionaries",
        "the slope of a linear spline in its width is off by half of the cubic",
        "kernel_gradients* dictionaries*",
        ("slopes.append(product + 1.5 * cubic)", "slopes.append(product + cubic)"),
    ),
    breaking(
        "dictionaries",
        "atoms of a union are counted from zero in every part",
        "dictionaries* contracts*",
        ("np.concatenate([p.index + o for p, o in", "np.concatenate([p.index for p, o in"),
    ),
    breaking(
        "dictionaries",
        "a choice of columns is given back in the order of the data",
        "dictionaries* estimators*",
        (
            "return replace(self, index=self.index[positions(indices, self.size)])",
            "return replace(self, index=np.sort(self.index[positions(indices, self.size)]))",
        ),
    ),
    # Signals
    breaking(
        "signals",
        "the error bars of a signal leave out the scaling functions",
        "signals* orthonormal*",
        ("variances[:first] = state.noise_var", "variances[:first] = 0.0"),
    ),
    breaking(
        "signals",
        "noise from the median is multiplied by what it should be divided by",
        "signals* cli_denoise*",
        (
            "(float(np.median(np.abs(finest))) / _NORMAL_MEDIAN) ** 2",
            "(float(np.median(np.abs(finest))) * _NORMAL_MEDIAN) ** 2",
        ),
    ),
    breaking(
        "signals",
        "the transpose of a scrambled measurement forgets the signs",
        "sensing* reconstruction*",
        ("found *= signs", "found *= np.abs(signs)"),
    ),
    # Estimators
    breaking(
        "estimators",
        "weights of classes replace those of samples",
        "classifiers* sample_weight* interoperability_classification* row_classification*",
        (
            "product = of_class[codes] if weights is None else of_class[codes] * weights",
            "product = of_class[codes]",
        ),
    ),
    breaking(
        "estimators",
        "coefficients of several targets are transposed",
        "estimators* interoperability*",
        (
            "self.coef_ = coef if coef.ndim == 1 else coef.T",
            "self.coef_ = coef",
        ),
        ("return coef if coef.ndim == 1 else coef.T", "return coef"),
    ),
    breaking(
        "estimators",
        "averages of log densities forget the weights",
        "evidence_search* reporting*",
        ("return float(np.average(each, weights=weights))", "return float(np.average(each))"),
    ),
    # Model files
    breaking(
        "storage",
        "files of a newer format are read as if they were of this one",
        "persistence* model_versions*",
        ("if version > _FORMAT_VERSION:", "if version > 2 * _FORMAT_VERSION:"),
    ),
    breaking(
        "storage",
        "a stored posterior may hold NaN",
        "persistence_hostile* persistence*",
        (
            'if not np.isfinite(value).all():\n                raise ValueError(f"stored posterior',
            'if np.isinf(value).any():\n                raise ValueError(f"stored posterior',
        ),
    ),
    # Exports
    breaking(
        "export",
        "C: weights of several targets are transposed",
        "export_c*",
        ("@weight@[@T@ * i + t]", "@weight@[@m@ * t + i]"),
    ),
    breaking(
        "export",
        "C: standard deviations leave out the noise",
        "export_c*",
        ("*std = @scale@sqrt(@variance(v) + @noise@);", "*std = @scale@sqrt(@variance(v));"),
    ),
    breaking(
        "export",
        "ONNX: sigmoid kernels forget their constant",
        "export_onnx* onnx*",
        (
            'graph("Tanh", graph("Add", inner_products(graph, X, Z * width), part.coef0))',
            'graph("Tanh", inner_products(graph, X, Z * width))',
        ),
    ),
    breaking(
        "export",
        "a scaler's mean is subtracted where it was told not to",
        "export_c* export_onnx*",
        ("shift = step.mean_ if step.with_mean else 0.0", "shift = step.mean_"),
    ),
    # Pictures
    breaking(
        "plotting",
        "shrinkage takes what the prior leaves for degrees of freedom",
        "displays* plotting*",
        (
            "dof = 1.0 - variance / posterior.prior_variance",
            "dof = variance / posterior.prior_variance",
        ),
    ),
    breaking(
        "plotting",
        "bars of two standard deviations show one",
        "displays* plotting*",
        ("errors=2.0 * (errors[drawn, 0]", "errors=1.0 * (errors[drawn, 0]"),
    ),
    breaking(
        "plotting",
        "a probability of one has a bin of its own",
        "displays* reporting* plotting*",
        (
            "place = np.minimum((probability * count).astype(np.intp), count - 1)",
            "place = (probability * count).astype(np.intp)",
        ),
    ),
    # Reports
    breaking(
        "reporting",
        "the report does not escape names",
        "reporting*",
        (
            'return Html(html.escape(_UNFIT.sub("\\ufffd", str(value))))',
            'return Html(_UNFIT.sub("\\ufffd", str(value)))',
        ),
    ),
    breaking(
        "reporting",
        "coverage counts targets below their interval as inside",
        "reporting reporting_models*",
        ("return np.asarray((low <= y) & (y <= high))", "return np.asarray(y <= high)"),
    ),
    breaking(
        "reporting",
        "error bars that are too small are not warned of",
        "reporting_warnings* reporting*",
        (
            "if share < level - max(_OFF, chance):",
            "if share < 0.1 * (level - max(_OFF, chance)):",
        ),
    ),
    # Commands
    breaking(
        "commands",
        "the ends of intervals are exchanged",
        "cli cli_fit_choices* cli_formats* cli_*",
        ('parts["lower"], parts["upper"] = ends', 'parts["upper"], parts["lower"] = ends'),
    ),
    breaking(
        "commands",
        "rows that were held out are fitted too",
        "cli cli_fit_choices* cli_report* cli_*",
        (
            "data.X, data.y, data.places = data.X[~test], data.y[~test], data.places[~test]",
            "data.X, data.y, data.places = data.X, data.y, data.places",
        ),
    ),
    breaking(
        "commands",
        "predictions stand in the wrong rows where some have gaps",
        "cli_real_files* cli cli_*",
        (
            "spread[complete] = column[:count] if numeric",
            "spread[:count] = column[:count] if numeric",
        ),
    ),
    # Tables
    breaking(
        "tables",
        "numbers are read up to the first letter that belongs to none",
        "tables tables_* cli_real_files*",
        ("if not _PATTERNS[mark].fullmatch(text):", "if not _PATTERNS[mark].match(text):"),
    ),
    breaking(
        "tables",
        "missing predictions are written as nan",
        "cli_real_files* tables cli cli_formats*",
        ("return [None if value != value else value for value in values]", "return values"),
        (
            "([None if value != value else value for value in values] if missing else values)",
            "values",
        ),
    ),
    breaking(
        "tables",
        "columns whose numbers can be read in two ways are read in one",
        "cli_real_files* tables*",
        ('if column.kind == "ambiguous" or (there', "if (there"),
    ),
    # Data sets
    breaking(
        "datasets",
        "noise is drawn by a ratio of variances",
        "datasets*",
        ("return float(truth.std(ddof=1) / snr)", "return float(truth.std(ddof=1) / snr**2)"),
    ),
)


@dataclass
class Outcome:
    """What became of one break."""

    noticed: str  # "noticed", "NOT NOTICED", "NOT FOUND", "NO TESTS"
    cpu: float = 0.0
    by: str = ""


class Copy:
    """A copy of a checkout, into which one break after the other is put."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.path = folder / "tree"
        shutil.copytree(tree, self.path, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
        # The code is compiled once; what is changed is told by its content, and not by its time.
        checked = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(self.path / "src", quiet=1, invalidation_mode=checked)
        if _harness.SHARED.exists():  # reference problems, which are found beside a checkout
            (folder / "shared").symlink_to(_harness.SHARED)

    def place(self, fault: Break) -> dict[Path, str]:
        """Return the files that a break is in, and their text with the break; none if in none."""
        for snippet, replacement in fault.places:
            texts = {path: path.read_text() for path in sorted((self.path / "src").rglob("*.py"))}
            found = {path: text for path, text in texts.items() if snippet in text}
            if found:
                return {path: text.replace(snippet, replacement) for path, text in found.items()}
        return {}

    def tests(self, fault: Break, broken: Iterable[Path]) -> list[str]:
        """Return the files of tests, and the files that are broken for the examples in them."""
        found = [test for name in fault.tests for test in sorted(self.path.glob(f"tests/{name}"))]
        names = [path.relative_to(self.path).as_posix() for path in (*found, *broken)]
        return list(dict.fromkeys(names)) if found else []

    def run(
        self, asked: Iterable[str], limit: float | None, *, first: bool
    ) -> tuple[list[str], float]:
        """Run tests; return those that fail, or the first of them, and the CPU seconds."""
        env = os.environ | {
            "PYTHONPATH": os.pathsep.join(str(self.path / part) for part in ("src", "", "tests")),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
        command += ["-x"] * first
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ended: int | None = None

        def bounded() -> None:
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit),) * 2)

        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                [*command, *asked],
                cwd=self.path,
                env=env,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=bounded,
            )
            try:
                ended = process.wait(None if limit is None else PATIENCE * limit)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            output.seek(0)
            text = output.read()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if ended is None or ended < 0:
            return ["(hung)"], cpu
        failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", text, re.MULTILINE)
        return failed or [f"(pytest ended with {ended})"] * bool(ended), cpu

    def outcome(
        self, fault: Break, limit: float, *, whole: bool = False, without: Iterable[str] = ()
    ) -> Outcome:
        """Put a break in, run the tests without some of them, and take it out again."""
        broken = self.place(fault)
        if not broken:
            return Outcome("NOT FOUND")
        asked = ["tests", "src"] if whole else self.tests(fault, broken)
        if not asked:
            return Outcome("NO TESTS")
        sound = {path: path.read_text() for path in broken}
        write(broken)
        try:
            deselected = [f"--deselect={test}" for test in without]
            failed, cpu = self.run([*asked, *deselected], limit, first=True)
        finally:
            write(sound)
        if failed:
            return Outcome("noticed", cpu, failed[0])
        return Outcome("NOT NOTICED", cpu, f"by {' '.join(asked)}")

    def outcomes(self, faults: Sequence[Break], limit: float, *, whole: bool) -> list[Outcome]:
        """Try all breaks; again without the tests that turn out to fail on sound code as well."""
        found: dict[Break, Outcome] = {}
        waiting, known, unsound = list(faults), set[str](), set[str]()
        while waiting:
            for fault in waiting:
                found[fault] = self.outcome(fault, limit, whole=whole, without=sorted(unsound))
                print("  ".join(lines(fault, found[fault])), flush=True)
            named = {found[fault].by for fault in waiting if found[fault].noticed == "noticed"}
            asked = sorted(test for test in named - known if "::" in test)
            failed = set(self.run(asked, None, first=False)[0]) if asked else set()
            for test in sorted(failed):
                print(f"fails without a break: {test}", flush=True)
            waiting = [fault for fault in faults if found[fault].by in failed - unsound]
            known, unsound = known | named, unsound | failed
        return [found[fault] for fault in faults]


def write(texts: dict[Path, str]) -> None:
    """Write files, none of which a compiler would refuse: such a fault is found without tests."""
    for path, text in texts.items():
        compile(text, path, "exec")
        path.write_text(text)


def where(copy: Copy, fault: Break) -> Outcome:
    """Say where a break is and which files would be tested, and run nothing."""
    broken = copy.place(fault)
    tests = copy.tests(fault, broken) if broken else []
    outcome = Outcome("found" if tests else LOST[bool(broken)], by=" ".join(tests))
    print("  ".join(lines(fault, outcome)))
    return outcome


def chosen(wanted: Sequence[str]) -> list[Break]:
    """Return the breaks whose room or description holds one of the words; all without words."""
    return [
        fault
        for fault in BREAKS
        if not wanted or any(word in f"{fault.room}: {fault.what}" for word in wanted)
    ]


def lines(fault: Break, outcome: Outcome) -> list[str]:
    """Return the row of a table."""
    return [outcome.noticed, f"{outcome.cpu:.1f}", fault.room, fault.what, outcome.by]


def summary(outcomes: Iterable[tuple[Break, Outcome]]) -> list[str]:
    """Return how many breaks were noticed, room by room, and in all."""
    rooms: dict[str, list[str]] = {}
    for fault, outcome in outcomes:
        rooms.setdefault(fault.room, []).append(outcome.noticed)
    told = [
        f"{room}: {found.count('noticed')} of {len(found)} noticed" for room, found in rooms.items()
    ]
    every = [noticed for found in rooms.values() for noticed in found]
    told.append(f"all: {every.count('noticed')} of {len(every)} noticed")
    lost = [f"{word}: {every.count(word)}, to be brought up to date" for word in LOST]
    return told + [line for word, line in zip(LOST, lost, strict=True) if word in every]


def main() -> None:
    parser = argparse.ArgumentParser(description="Deliberate breaks, and whether tests notice them")
    parser.add_argument("--tree", type=Path, default=ROOT, help="a checkout; this one")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="of their names")
    parser.add_argument("--find", action="store_true", help="only say where each one is")
    parser.add_argument("--whole", action="store_true", help="run the whole suite for each one")
    parser.add_argument("--limit", type=float, default=LIMIT, help="CPU seconds of a run")
    args = parser.parse_args()
    faults = chosen(args.only)
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(args.tree.resolve(), Path(folder))
        if args.find:
            found = [where(copy, fault) for fault in faults]
        else:
            found = copy.outcomes(faults, args.limit, whole=args.whole)
    outcomes = list(zip(faults, found, strict=True))
    if not args.find:
        header = ["", "CPU s", "room", "break", "by"]
        print("", _harness.table([header, *(lines(*each) for each in outcomes)]), sep="\n")
        print("", *summary(outcomes), sep="\n")
    sys.exit(any(outcome.noticed.startswith("NO") for outcome in found))


if __name__ == "__main__":
    main()
