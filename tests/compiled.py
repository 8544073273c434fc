"""Exported C headers, compiled by gcc into one program and called from the tests."""

import shutil
import subprocess

import numpy as np
import pytest

from sparsebayes.export import export_c

GCC = shutil.which("gcc")
STRICT = [
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Werror",
    "-Wconversion",
    "-Wdouble-promotion",
    "-Wshadow",
]

needs_gcc = pytest.mark.skipif(GCC is None, reason="gcc is not installed")


def _calls(name, function, task, size):
    """C code that calls one function at x and prints what it gives."""
    if task == "classes" and function.endswith("_predict"):
        return f'printf("%d ", {function}(x));'
    out = f"{name}_real out[{size}]; {name}_real std = 0; (void)std;"
    second = ", &std" if function.endswith("_std") else ""
    shown = ' printf("%.17g ", (double)std);' if second else ""
    return (
        f"{{ int j; {out} {function}(x, out{second}); "
        f'for (j = 0; j < {size}; j++) printf("%.17g ", (double)out[j]);{shown} }}'
    )


class Program:
    """Models and rows of inputs for them, exported, compiled and run in one go."""

    def __init__(self, folder, flags=(), compiler="gcc", language="c99"):
        self.folder, self.compiler = folder, compiler
        self.flags = [f"-std={language}", *STRICT, *flags]
        self.cases = {}

    def add(self, case, model, X, precision="double"):
        """Export a model; its rows are predicted when the program runs."""
        name = f"m{len(self.cases)}"
        header = self.folder / f"{name}.h"
        written = export_c(model, header, precision=precision, name=name)
        X = np.ascontiguousarray(X, dtype=np.float64)
        (self.folder / f"{name}.bin").write_bytes(X.tobytes())
        self.cases[case] = (name, written, X)
        return written

    def run(self):
        """Results by case and function: arrays of one row for each row of inputs."""
        includes, bodies = [], []
        for name, written, X in self.cases.values():
            text = (self.folder / f"{name}.h").read_text(encoding="utf-8")
            classes = f"{name}_n_classes" in text
            size = f"{name}_n_classes" if classes else f"{name}_n_targets"
            task = "classes" if classes else "regression"
            includes.append(f'#include "{name}.h"')
            loops = [
                f"for (i = 0; i < {len(X)}; i++) {{ {name}_real x[{name}_n_inputs]; int k; "
                f"for (k = 0; k < {name}_n_inputs; k++) "
                f"x[k] = ({name}_real)rows[i * {name}_n_inputs + k]; "
                f'{_calls(name, function, task, size)} printf("\\n"); }}'
                for function in written.functions
            ]
            bodies.append(
                f"static double rows_{name}[{max(X.size, 1)}];\n"
                f"static void run_{name}(void) {{ double *rows = rows_{name}; int i; "
                f'read_rows("{name}.bin", rows, {X.size}); {" ".join(loops)} }}'
            )
        main = "\n".join(
            [
                "#include <stdio.h>",
                *includes,
                "static void read_rows(const char *path, double *rows, size_t n) {",
                '  FILE *file = fopen(path, "rb");',
                "  if (!file || fread(rows, sizeof(double), n, file) != n) rows[0] = 0;",
                "  if (file) fclose(file); }",
                *bodies,
                "int main(void) {",
                *(f"run_{name}();" for name, _, _ in self.cases.values()),
                "return 0; }\n",
            ]
        )
        source = self.folder / ("main.c" if self.compiler == "gcc" else "main.cpp")
        source.write_text(main)
        self._call([self.compiler, *self.flags, source.name, "-o", "main", "-lm"])
        lines = iter(self._call([str(self.folder / "main")]).splitlines())
        return {
            case: {
                function.removeprefix(f"{name}_"): np.array(
                    [[float(word) for word in next(lines).split()] for _ in X]
                )
                for function in written.functions
            }
            for case, (name, written, X) in self.cases.items()
        }

    def _call(self, command):
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:3000]
        assert not done.stderr
        return done.stdout
