"""What a compiled core would bring: Newton's step in NumPy beside the same step in C.

Of a fit, the screens and the evaluation of kernels are a few large products, whose time is that of
BLAS and of memory. Newton's steps on some dozen variances are many small calls. Here one such step
is timed twice at the optimum of a real fit: as the solver makes it, and compiled by gcc. The
difference, times the number of steps, is what a compiled core would save.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel

from benchmarks._harness import Report, argument_parser
from benchmarks.fast2003 import GAMMA, NOISE_STD
from sparsebayes import RVR
from sparsebayes.core.quadratic import Gram
from sparsebayes.datasets import sinc
from sparsebayes.engine import whiten
from sparsebayes.hyperpriors import Flat
from sparsebayes.solvers.newton import Noise, ascent, derivatives, prune

Array = NDArray[np.float64]

# B = I + RGR, its factor and inverse, z, gradient, Hessian, and the step that solves for it.
SOURCE = r"""
#include <math.h>
#define AT(A, i, j) A[(i) * m + (j)]
static int factorize(int m, double *A) {          /* lower Cholesky factor, in place */
  for (int j = 0; j < m; j++) {
    for (int k = 0; k < j; k++)
      AT(A, j, j) -= AT(A, j, k) * AT(A, j, k);
    if (!(AT(A, j, j) > 0)) return 1;
    double d = AT(A, j, j) = sqrt(AT(A, j, j));
    for (int i = j + 1; i < m; i++) {
      double sum = AT(A, i, j);
      for (int k = 0; k < j; k++) sum -= AT(A, i, k) * AT(A, j, k);
      AT(A, i, j) = sum / d;
    }
  }
  return 0;
}
int step(int m, const double *G, const double *g, const double *v, double noise,
         double *L, double *inv, double *W, double *z, double *out) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < m; j++)
      AT(L, i, j) = sqrt(v[i] * v[j]) / noise * AT(G, i, j) + (i == j);
  if (factorize(m, L)) return 1;
  for (int j = 0; j < m; j++)                      /* rows of inv: columns of the inverse factor */
    for (int i = 0; i < m; i++) {
      double sum = i == j;
      for (int k = j; k < i; k++) sum -= AT(L, i, k) * AT(inv, j, k);
      AT(inv, j, i) = i < j ? 0 : sum / AT(L, i, i);
    }
  for (int i = 0; i < m; i++)
    for (int j = 0; j <= i; j++) {
      double sum = 0;
      for (int k = i; k < m; k++) sum += AT(inv, i, k) * AT(inv, j, k);
      AT(W, i, j) = AT(W, j, i) = sum;
    }
  for (int i = 0; i < m; i++) {
    z[i] = 0;
    for (int j = 0; j < m; j++) z[i] += AT(W, i, j) * sqrt(v[j]) / noise * g[j];
  }
  int worthless = 0;
  for (int i = 0; i < m; i++) {
    double d = AT(W, i, i), power = d + z[i] * z[i];
    worthless += z[i] * z[i] <= d * (1 - d);
    out[i] = 0.5 * (power - 1);
    for (int j = 0; j < m; j++)
      AT(L, i, j) = -AT(W, i, j) * (z[i] * z[j] + 0.5 * AT(W, i, j));
    AT(L, i, i) += 0.5 * power + d * out[i];
  }
  if (factorize(m, L)) return 2;
  for (int i = 0; i < m; i++) {
    for (int k = 0; k < i; k++) out[i] -= AT(L, i, k) * out[k];
    out[i] /= AT(L, i, i);
  }
  for (int i = m - 1; i >= 0; i--) {
    for (int k = i + 1; k < m; k++) out[i] -= AT(L, k, i) * out[k];
    out[i] /= AT(L, i, i);
  }
  return worthless ? 3 : 0;
}
"""


def compiled(folder: str) -> Any:
    """Compile the step."""
    source, library = Path(folder, "step.c"), Path(folder, "step.so")
    source.write_text(SOURCE)
    options = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]
    subprocess.run(["gcc", *options, str(source), "-o", str(library), "-lm"], check=True)
    return ctypes.CDLL(str(library)).step


def shortest(job: Callable[[], object], repeats: int, calls: int = 1) -> float:
    """CPU seconds of one call, the least of several measurements."""
    best = np.inf
    for _ in range(repeats):
        before = time.process_time()
        for _ in range(calls):
            job()
        best = min(best, (time.process_time() - before) / calls)
    return float(best)


def steps(gram: Gram, v: Array, noise_var: float, library: Any, repeats: int) -> tuple[float, ...]:
    """Seconds of a step in NumPy and in C; both must be the same step."""
    m, noise, flat = len(v), Noise(noise_var, False, 0.0), Flat()
    room = [np.zeros((m, m)) for _ in range(3)] + [np.zeros(m), np.zeros(m)]
    pointer = ctypes.POINTER(ctypes.c_double)
    given = [np.ascontiguousarray(a).ctypes.data_as(pointer) for a in (gram.G, gram.g, v)]
    work = [a.ctypes.data_as(pointer) for a in room]

    def in_numpy() -> Array:
        white = whiten(gram, v, noise_var)
        prune(flat, v, noise_var, white)
        gradient, hessian = derivatives(gram, flat, v, noise, white)
        return ascent(gradient, hessian, white.W.diagonal())

    def in_c() -> int:
        return int(library(m, *given, ctypes.c_double(noise_var), *work))

    code, expected = in_c(), in_numpy()
    if code or not np.allclose(room[-1], expected, rtol=1e-6, atol=1e-8):
        raise RuntimeError(f"the compiled step is another one (code {code})")
    return shortest(in_numpy, repeats, 200), shortest(in_c, repeats, 200)


def row(N: int, library: Any, repeats: int) -> dict[str, Any]:
    """Measure one size."""
    data = sinc(N, noise=NOISE_STD, dim=2, random_state=0)
    settings: dict[str, Any] = {"gamma": GAMMA, "prior": "flat", "fit_intercept": False}
    model = RVR(random_state=0, **settings).fit(data.X, data.y)
    fit = shortest(lambda: RVR(random_state=0, **settings).fit(data.X, data.y), repeats)
    Phi = rbf_kernel(data.X, model.relevance_vectors_, gamma=GAMMA)
    norms = np.linalg.norm(Phi, axis=0)
    Phi /= norms
    t = data.y[:, None]
    gram = Gram(Phi.T @ Phi, Phi.T @ t, float(np.sum(t**2)), float(N), float(np.var(t)))
    # A little beside the optimum, where a step is not all rounding.
    v = 1.05 * model.prior_variance_ * norms**2
    ours, c = steps(gram, v, model.noise_variance_, library, repeats)
    saved = model.n_iter_ * (ours - c)
    return {
        "N": N,
        "atoms": len(v),
        "fit ms": fit * 1e3,
        "steps": model.n_iter_,
        "step us": ours * 1e6,
        "in C us": c * 1e6,
        "steps' share": model.n_iter_ * ours / fit,
        "saved": saved / fit,
        "times faster": fit / (fit - saved),
    }


COLUMNS = {
    "N": "d",
    "atoms": "d",
    "fit ms": ".1f",
    "steps": "d",
    "step us": ".0f",
    "in C us": ".0f",
    "steps' share": ".0%",
    "saved": ".0%",
    "times faster": ".2f",
}


def main() -> None:
    parser = argument_parser("What compiled Newton steps would bring: 2-D sinc", 5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 1000, 4000])
    args = parser.parse_args()
    if shutil.which("gcc") is None:
        print("gcc is not installed: there is nothing to compare with.")
        return
    report = Report.open("The interpreter: Newton's step in NumPy and in C", args.threads)
    report.note("CPU clock; a fit with all its steps in C is calculated, not measured")
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(folder)
        rows = [row(N, library, args.repeats) for N in args.sizes]
    report.show("2-D sinc, RVR without intercept", rows, COLUMNS)
    report.close(args)


if __name__ == "__main__":
    main()
