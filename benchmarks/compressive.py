"""Compressive sensing with default settings: phase transition, noise, error bars, pictures."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct
from sklearn.linear_model import LassoCV, OrthogonalMatchingPursuitCV

from benchmarks._harness import SHARED, Report, Run, argument_parser, interleave
from sparsebayes import reconstruct
from sparsebayes.reproduce.thesis import psnr
from sparsebayes.sensing import PartialDCT

Array = NDArray[np.float64]

LIMIT = 120.0  # seconds, after which a competitor retires
EXACT = 1e-2  # relative error up to which a signal counts as recovered; a lasso is biased
PICTURE_SECONDS, PICTURE_ARRAYS = 120.0, 100
IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
OURS = "reconstruct"


@dataclass(frozen=True)
class Task:
    """Measurements A w + noise of a sparse w."""

    A: Array  # (n, N)
    w: Array  # (N,)
    y: Array  # (n,)
    noise_std: float

    @classmethod
    def draw(cls, ensemble: str, N: int, n: int, k: int, snr_db: float | None, seed: int) -> Task:
        """Standard normal coefficients; rows drawn at random where the ensemble is the DCT."""
        rng = np.random.default_rng([N, n, k, seed])
        if ensemble == "Gaussian":
            A = rng.standard_normal((n, N)) / n**0.5
        else:
            rows = rng.choice(N, n, replace=False)
            A = dct(np.eye(N), axis=0, norm="ortho")[rows]
        w = np.zeros(N)
        w[rng.choice(N, k, replace=False)] = rng.standard_normal(k)
        y = A @ w
        noise_std = 0.0 if snr_db is None else float(y.std() * 10 ** (-snr_db / 20))
        return cls(A, w, y + noise_std * rng.standard_normal(n), noise_std)

    def error(self, coefficients: Array) -> float:
        """Relative error of the coefficients."""
        return float(np.linalg.norm(coefficients - self.w) / np.linalg.norm(self.w))


def basis_pursuit(task: Task) -> Array:
    """SPGL1, told the noise where there is any."""
    import spgl1

    sigma = task.noise_std * len(task.y) ** 0.5
    return np.asarray(spgl1.spg_bpdn(task.A, task.y, sigma, iter_lim=5000, opt_tol=1e-7)[0])


def competitors(task: Task) -> dict[str, Callable[[], Any]]:
    """Name and fit of everyone in the table; each returns coefficients, ours the whole result."""
    A, y = task.A, task.y
    n = len(y)
    field: dict[str, Callable[[], Any]] = {
        OURS: lambda: reconstruct(y, A, basis="identity"),
        "basis pursuit (SPGL1)": lambda: basis_pursuit(task),
        "LassoCV": lambda: LassoCV(fit_intercept=False, eps=1e-4).fit(A, y).coef_,
        "OMP, cross-validated": lambda: (
            OrthogonalMatchingPursuitCV(fit_intercept=False, max_iter=n // 2).fit(A, y).coef_
        ),
    }
    if find_spec("spgl1") is None:
        del field["basis pursuit (SPGL1)"]
    return field


def coefficients_of(result: Any) -> Array:
    return np.asarray(getattr(result, "coefficients", result))


def phase_transition(report: Report, sizes: list[int], seeds: int) -> None:
    """Share of signals recovered from n = 0.4 N measurements without noise, over k / n."""
    ratios = (0.1, 0.2, 0.3, 0.35, 0.4, 0.45, 0.5)
    total: dict[str, int] = {}
    for ensemble in ("Gaussian", "partial DCT"):
        for N in sizes:
            n = int(0.4 * N)
            found: dict[str, dict[float, list[float]]] = {}
            times: dict[str, list[float]] = {}
            for ratio in ratios:
                for seed in range(seeds):
                    task = Task.draw(ensemble, N, n, int(ratio * n), None, seed)
                    runs = interleave(competitors(task), repeats=1, limit=LIMIT)
                    for name, run in runs.items():
                        error = (
                            np.inf
                            if run.result is None
                            else task.error(coefficients_of(run.result))
                        )
                        found.setdefault(name, {}).setdefault(ratio, []).append(error)
                        times.setdefault(name, []).append(run.cpu)
            rows = []
            for name, errors in found.items():
                shares = {f"{ratio:g}": np.mean(np.less(errors[ratio], EXACT)) for ratio in ratios}
                total[name] = total.get(name, 0) + sum(
                    np.less(errors[r], EXACT).sum() for r in ratios
                )
                easy = float(np.median(errors[ratios[0]]))
                rows.append(
                    {"": name}
                    | shares
                    | {"error, k = 0.1 n": easy, "CPU s": np.median(times[name])}
                )
            columns = {"": ""} | {f"{ratio:g}": ".2f" for ratio in ratios}
            columns |= {"error, k = 0.1 n": ".1e", "CPU s": ".3f"}
            heading = (
                f"Share recovered over k / n: {ensemble}, N = {N}, n = {n}, {seeds} seeds each"
            )
            report.show(heading, rows, columns)
    others = {name: count for name, count in total.items() if name != OURS}
    best = max(others, key=lambda name: others[name])
    report.judge(
        "recovers more signals than any other",
        total[OURS] > others[best],
        f"{total[OURS]}, next {best} with {others[best]}",
    )


def noisy(report: Report, seeds: int) -> None:
    """Errors at 20 dB, and how many of the true coefficients 90 % intervals hold."""
    rows, covered = [], []
    for ensemble in ("Gaussian", "partial DCT"):
        for N, n, k in ((256, 128, 16), (512, 256, 50), (1024, 400, 60)):
            lines: dict[str, list[tuple[float, float]]] = {}
            inside: list[float] = []
            oracle: list[float] = []
            for seed in range(seeds):
                task = Task.draw(ensemble, N, n, k, 20.0, seed)
                true = task.w != 0
                least = np.zeros(N)
                least[true] = np.linalg.lstsq(task.A[:, true], task.y, rcond=None)[0]
                oracle.append(task.error(least))
                runs = interleave(competitors(task), repeats=1, limit=LIMIT)
                for name, run in runs.items():
                    if run.result is not None:
                        error = task.error(coefficients_of(run.result))
                        lines.setdefault(name, []).append((error, run.cpu))
                ours = runs[OURS].result
                within = np.abs(ours.coefficients - task.w) <= 1.645 * ours.coefficient_std
                kept = true & (ours.coefficient_std > 0)
                inside.append(float(within[kept].mean()))
                covered.append((within[true].sum(), true.sum(), within[kept].sum(), kept.sum()))
            for name, line in lines.items():
                errors, times = np.transpose(line)
                rows.append(
                    {
                        "": name,
                        "problem": f"{ensemble} {n} x {N}, {k} true",
                        "error": float(np.median(errors)),
                        "x true support": float(
                            np.median(errors / np.array(oracle[: len(errors)]))
                        ),
                        "CPU s": float(np.median(times)),
                        "90 % holds": float(np.mean(inside)) if name == OURS else None,
                    }
                )
    columns = {"": "", "problem": "", "error": ".4f", "x true support": ".2f", "CPU s": ".3f"}
    report.show(f"Noise at 20 dB, {seeds} seeds each", rows, columns | {"90 % holds": ".3f"})
    all_in, all_true, found_in, found = np.sum(covered, axis=0)
    share = found_in / found
    report.judge(
        "90 % intervals hold 85 to 95 % of the true coefficients that were found",
        0.85 <= share <= 0.95,
        f"{share:.3f} (of all, those too small to be found included, {all_in / all_true:.3f})",
    )


def detectable(report: Report, seeds: int) -> None:
    """Coverage where every true coefficient stands out of the noise."""
    held = []
    for seed in range(seeds):
        rng = np.random.default_rng([7, seed])
        n, N, k = 200, 512, 30
        A = rng.standard_normal((n, N)) / n**0.5
        w = np.zeros(N)
        w[rng.choice(N, k, replace=False)] = rng.choice([-1, 1], k) * rng.uniform(0.5, 2, k)
        found = reconstruct(A @ w + 0.05 * rng.standard_normal(n), A, basis="identity")
        within = np.abs(found.coefficients - w) <= 1.645 * found.coefficient_std
        held.append(within[w != 0].mean())
    share = float(np.mean(held))
    report.judge(
        "90 % intervals hold 85 to 95 % of true coefficients of 0.5 to 2 in noise of 0.05",
        0.85 <= share <= 0.95,
        f"{share:.3f} of {seeds * 30}",
    )


def interpolated(mask: NDArray[np.bool_], y: Array) -> Array:
    """Linear interpolation between the known pixels, the nearest one beyond them."""
    from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator

    known, every = np.argwhere(mask), np.argwhere(np.ones_like(mask))
    found = LinearNDInterpolator(known, y)(every)
    beyond = np.isnan(found)
    found[beyond] = NearestNDInterpolator(known, y)(every[beyond])
    return np.asarray(found.reshape(mask.shape))


def pictures(report: Report, names: list[str], bases: list[str], draw: bool) -> None:
    """512 x 512 pixels from a quarter as many measurements."""
    path = SHARED / "data" / "images" / "images.npz"
    if not path.exists():
        print(f"\nPictures are skipped: {path} is absent.")
        return
    rows = []
    for name in names:
        with np.load(path) as stored:
            truth = stored[name].astype(np.float64)
        quarter = truth.size // 4
        mask = np.zeros(truth.size, dtype=bool)
        mask[np.random.default_rng(0).choice(truth.size, quarter, replace=False)] = True
        mask = mask.reshape(truth.shape)
        dct_sensing = PartialDCT(truth.shape, quarter, random_state=0)
        kinds = {
            "pixels": (mask, truth[mask], lambda m=mask, t=truth: interpolated(m, t[m])),
            "DCT": (
                dct_sensing,
                dct_sensing.measure(truth),
                lambda s=dct_sensing, t=truth: s.adjoint(s.measure(t)),
            ),
        }
        for kind, (sensing, y, simple) in kinds.items():
            other = "linear interpolation" if kind == "pixels" else "least energy"
            rows.append(
                {"": f"{name} from 25 % of its {kind}", "by": other, "PSNR": psnr(simple(), truth)}
            )
            for basis in bases:
                row, found = _picture(sensing, y, truth, basis)
                rows.append(
                    {"": f"{name} from 25 % of its {kind}", "by": f"reconstruct, {basis}"} | row
                )
                if draw and name == names[0] and basis == bases[0]:
                    _draw(found, truth, kind)
    columns = {"": "", "by": "", "PSNR": ".2f", "atoms": "d", "noise": ".2f", "std": ".2f"}
    columns |= {"CPU s": ".1f", "CPU s, std": ".1f", "arrays": ".0f", "status": ""}
    report.show("Pictures, 512 x 512", rows, columns)
    ours = [row for row in rows if row["by"].startswith("reconstruct")]
    slowest, largest = max(row["CPU s"] for row in ours), max(row["arrays"] for row in ours)
    report.judge(
        f"a picture in at most {PICTURE_SECONDS:g} s on one core",
        slowest <= PICTURE_SECONDS,
        f"{slowest:.0f} s",
    )
    report.judge(
        f"at most {PICTURE_ARRAYS} arrays of the size of the picture",
        largest <= PICTURE_ARRAYS,
        f"{largest:.0f}",
    )


def _picture(sensing: Any, y: Array, truth: Array, basis: str) -> tuple[dict[str, Any], Any]:
    run, spread = Run(), Run()
    tracemalloc.start()
    run.once(lambda: reconstruct(y, sensing, basis=basis))
    found = run.result
    spread.once(lambda: found.std)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    row = {
        "PSNR": psnr(found.signal, truth),
        "atoms": found.n_atoms,
        "noise": found.noise_variance**0.5,
        "std": float(found.std.mean()),
        "CPU s": run.cpu,
        "CPU s, std": spread.cpu,
        "arrays": peak / truth.nbytes,
        "status": found.solution.status.name.lower(),
    }
    return row, found


def _draw(found: Any, truth: Array, kind: str) -> None:
    """Truth, what a simple method makes of it, ours, and the map of its error bars."""
    import io

    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    first = np.nan_to_num(found.data, nan=255.0) if found.data is not None else None
    panels = [("picture", truth)]
    if first is not None:
        panels.append(("25 % of its pixels", first))
    panels.append((f"from 25 % of its {kind}, {psnr(found.signal, truth):.1f} dB", found.signal))
    figure, axes = plt.subplots(1, len(panels) + 1, figsize=(3.2 * (len(panels) + 1), 3.5))
    for ax, (title, picture) in zip(axes, panels, strict=False):
        ax.imshow(picture, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        ax.set_title(title, fontsize=9)
    high = float(np.quantile(found.std, 0.995))
    image = axes[-1].imshow(found.std, cmap="viridis", vmin=0, vmax=high, interpolation="nearest")
    axes[-1].set_title("posterior standard deviation", fontsize=9)
    figure.colorbar(image, ax=axes[-1], fraction=0.046)
    for ax in axes:
        ax.set_xticks([])
        ax.set_yticks([])
    figure.tight_layout()
    raw = io.BytesIO()
    figure.savefig(raw, format="png", dpi=80)
    plt.close(figure)
    raw.seek(0)
    target = IMAGES / f"compressive-{kind.lower()}.png"
    with Image.open(raw) as picture:
        few = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        few.save(target, optimize=True)
    print(f"\n{target.name}: {target.stat().st_size / 1000:.0f} kB")


def main() -> None:
    parser = argument_parser(
        "Compressive sensing: phase transition, noise, error bars, pictures", 1
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 512, 1024])
    parser.add_argument("--only", choices=("phase", "noise", "pictures"), nargs="+", default=None)
    parser.add_argument("--images", nargs="+", default=["camera", "ascent"])
    parser.add_argument("--bases", nargs="+", default=["haar", "sym8"])
    parser.add_argument("--draw", action="store_true", help="pictures into docs/images")
    args = parser.parse_args()
    report = Report.open("Compressive sensing, default settings", args.threads)
    parts = args.only or ("phase", "noise", "pictures")
    if "phase" in parts:
        phase_transition(report, args.sizes, args.seeds)
    if "noise" in parts:
        noisy(report, args.seeds)
        detectable(report, args.seeds)
    if "pictures" in parts:
        pictures(report, args.images, args.bases, args.draw)
    report.close(args)


if __name__ == "__main__":
    main()
