"""Time of one prediction, and size of the model: Python, ONNX, and C as gcc compiles it.

A device gets one row at a time, so that is what is timed; the column of a thousand rows says what
Python can do where rows come in blocks.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks._harness import Report, Run, argument_parser, version
from sparsebayes import RVC, RVR, SparseBayesRegressor, export_c, export_onnx
from sparsebayes.datasets import sinc, sparse_linear

ROWS = 1000
_CALLS = {  # one call of the function in C, and what Python calls it
    "mean": ("predict(x, out)", lambda m, X: m.predict(X).reshape(len(X), -1)),
    "std": (
        "predict_std(x, out, out + 1)",
        lambda m, X: np.stack(m.predict(X, return_std=True), axis=1),
    ),
    "probabilities": ("predict_proba(x, out)", lambda m, X: m.predict_proba(X)),
    "plug-in": ("predict_proba_plug_in(x, out)", lambda m, X: m.predict_proba(X, plug_in=True)),
}
_PROGRAM = """
#include <stdio.h>
#include <time.h>
#include "model.h"
static double rows[{n} * model_n_inputs];
int main(void)
{{
    FILE *file = fopen("rows.bin", "rb");
    model_real x[model_n_inputs], out[{outputs} + 1] = {{0}};
    volatile model_real sink = 0;
    double seconds = 0, count = 0;
    clock_t start;
    int i, k;
    if (!file || fread(rows, sizeof(rows), 1, file) != 1) return 1;
    for (i = 0; i < {n}; i++) {{
        for (k = 0; k < model_n_inputs; k++) x[k] = (model_real)rows[i * model_n_inputs + k];
        model_{call};
        for (k = 0; k < {outputs}; k++) printf("%.17g ", (double)out[k]);
    }}
    start = clock();
    do {{
        for (i = 0; i < {n}; i++) {{
            for (k = 0; k < model_n_inputs; k++) x[k] = (model_real)rows[i * model_n_inputs + k];
            model_{call};
            sink = out[0];
        }}
        count += {n};
        seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    }} while (seconds < 0.2);
    (void)sink;
    printf("%.17g\\n", seconds / count);
    return 0;
}}
"""


def models() -> dict[str, tuple[Any, np.ndarray, list[str]]]:
    """Fitted models, rows to predict, and what is asked of them."""
    wave = sinc(200, noise=0.1, random_state=0)
    wide = sparse_linear(300, 100, 5, random_state=0)
    tumors, malignant = load_breast_cancer(return_X_y=True)
    flowers, species = load_iris(return_X_y=True)
    regression = RVR(gamma=1 / 9).fit(wave.X, wave.y)
    classes = make_pipeline(StandardScaler(), RVC(gamma=0.02)).fit(tumors[:, :8], malignant)
    return {
        "sinc, RVR": (regression, wave.X, ["mean", "std"]),
        "100 columns, linear": (SparseBayesRegressor().fit(wide.X, wide.y), wide.X, ["std"]),
        "tumors, scaler + RVC": (classes, tumors[:, :8], ["probabilities"]),
        "iris, RVC": (RVC(gamma=0.2).fit(flowers, species), flowers, ["probabilities", "plug-in"]),
    }


def best(job: Callable[[], Any], repeats: int) -> float:
    """CPU seconds of the fastest of some runs: one thread does it all."""
    run = Run()
    for _ in range(repeats):
        run.once(job)
    return run.cpu


def in_python(model: Any, X: np.ndarray, answer: str, repeats: int) -> tuple[float, float]:
    """Seconds for a row alone, and for one of a thousand."""
    function = _CALLS[answer][1]
    many = np.resize(X, (ROWS, X.shape[1]))
    rows = [many[i : i + 1] for i in range(20)]
    alone = best(lambda: [function(model, row) for row in rows], repeats) / len(rows)
    return alone, best(lambda: function(model, many), repeats) / ROWS


def in_onnx(model: Any, X: np.ndarray, folder: Path, repeats: int) -> tuple[float, int] | None:
    """Seconds for a row alone, and bytes of the file; None where no runtime is installed."""
    if version("onnxruntime") is None:
        return None
    import onnxruntime

    path = folder / "model.onnx"
    export_onnx(model, path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    rows = [np.resize(X, (20, X.shape[1]))[i : i + 1].astype(np.float64) for i in range(20)]
    seconds = best(lambda: [session.run(None, {"X": row}) for row in rows], repeats) / len(rows)
    return seconds, path.stat().st_size


def in_c(
    model: Any, X: np.ndarray, answer: str, precision: str, folder: Path
) -> tuple[float, float, int, int | None]:
    """Seconds for a row, largest difference to Python, bytes of tables and of machine code."""
    call, function = _CALLS[answer]
    expected = function(model, X)
    X = np.ascontiguousarray(X, dtype=np.float64)
    written = export_c(model, folder / "model.h", precision=precision)
    (folder / "rows.bin").write_bytes(X.tobytes())
    source = _PROGRAM.format(n=len(X), outputs=expected.shape[1], call=call)
    (folder / "main.c").write_text(source)
    _run(["gcc", "-std=c99", "-O2", "main.c", "-o", "main", "-lm"], folder)
    *values, seconds = map(float, _run([str(folder / "main")], folder).split())
    difference = np.abs(np.reshape(values, expected.shape) - expected).max()
    return seconds, float(difference), written.data_bytes, _code_bytes(call, folder)


def _code_bytes(call: str, folder: Path) -> int | None:
    """Machine code and tables of a program that calls one function, compiled for size."""
    if shutil.which("size") is None:
        return None
    (folder / "one.c").write_text(
        '#include "model.h"\n'
        "void answer(const model_real *x, model_real *out);\n"
        f"void answer(const model_real *x, model_real *out) {{ model_{call}; }}\n"
    )
    _run(["gcc", "-std=c99", "-Os", "-c", "one.c", "-o", "one.o"], folder)
    return int(re.findall(r"\d+", _run(["size", "one.o"], folder).splitlines()[1])[0])


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[0])
    return done.stdout


COLUMNS = {
    "": "",
    "asked for": "",
    "atoms": "d",
    "Python": ".0f",
    "of 1000": ".1f",
    "ONNX": ".0f",
    "C double": ".2f",
    "C single": ".2f",
}
DIFFERENCES = {"": "", "asked for": "", "C double": ".0e", "C single": ".0e"}
SIZES = {
    "": "",
    "asked for": "",
    "model file": "d",
    "ONNX file": "d",
    "C tables, double": "d",
    "C tables, single": "d",
    "code + tables, double": "d",
    "code + tables, single": "d",
}


def main() -> None:
    args = argument_parser("One prediction in Python, ONNX and C", 5).parse_args()
    report = Report.open("One prediction in Python, ONNX and C: time and size", args.threads)
    if shutil.which("gcc") is None:
        raise SystemExit("gcc is not installed")
    if version("onnxruntime") is None:
        print("onnxruntime is not installed and left out (pip install onnxruntime)")
    times, differences, sizes = [], [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for label, (model, X, answers) in models().items():
            onnx = in_onnx(model, X, folder, args.repeats)
            last = model[-1] if hasattr(model, "steps") else model
            last.save(folder / "model.bin")
            for answer in answers:
                alone, one_of_many = in_python(model, X, answer, args.repeats)
                double = in_c(model, X, answer, "double", folder)
                single = in_c(model, X, answer, "single", folder)
                both = {"": label, "asked for": answer}
                times.append(
                    both
                    | {
                        "atoms": last.posterior_.atoms.size,
                        "Python": 1e6 * alone,
                        "of 1000": 1e6 * one_of_many,
                        "ONNX": 1e6 * onnx[0] if onnx and answer == answers[0] else None,
                        "C double": 1e6 * double[0],
                        "C single": 1e6 * single[0],
                    }
                )
                differences.append(both | {"C double": double[1], "C single": single[1]})
                sizes.append(
                    both
                    | {
                        "model file": (folder / "model.bin").stat().st_size,
                        "ONNX file": onnx[1] if onnx else None,
                        "C tables, double": double[2],
                        "C tables, single": single[2],
                        "code + tables, double": double[3],
                        "code + tables, single": single[3],
                    }
                )
    report.show("Microseconds of CPU for one prediction", times, COLUMNS)
    report.note("ONNX computes all answers at a time: mean and deviations, or probabilities.")
    report.show("Largest difference from Python, over all rows", differences, DIFFERENCES)
    report.show("Bytes", sizes, SIZES)
    report.note("Code and tables: what calls of this one function add to a program (gcc -Os).")
    worst = max(row["C double"] for row in differences)
    report.judge("C in double precision agrees to 1e-6", worst < 1e-6, f"{worst:.0e}")
    tables = next(row for row in sizes if row[""].startswith("tumors"))["C tables, double"]
    report.judge("eight inputs, few atoms: tables below 4 kB", tables < 4096, f"{tables} bytes")
    report.close(args)


if __name__ == "__main__":
    main()
