"""The numerical tests under several BLAS kernels: `make kernels`, or `python tests/kernels.py`.

OpenBLAS and NumPy choose their kernels by the processor, and kernels round differently. Each run
computes as a processor of one kind does. Arguments go to pytest.
"""

import json
import os
import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]

# All estimators, and all that prints fitted numbers: about a minute and a half of CPU time.
NUMERICAL = [
    "tests/test_permutations.py",
    "tests/test_documentation.py::test_code_of_a_page_runs_and_prints_what_the_page_shows",
    "tests/test_documentation.py::test_the_demonstration_prints_what_the_page_shows",
    "tests/test_documentation.py::test_examples_run_print_and_draw",
    "src",
    "tests/test_count_regression.py",
    "tests/test_estimators.py",
    "tests/test_little_noise.py",
    "tests/test_orthonormal_estimators.py",
    "tests/test_roots.py",
    "tests/test_row_classification.py",
    "tests/test_sample_weight.py",
    "tests/test_scale_invariance.py",
    "tests/test_widths.py",
]


@dataclass(frozen=True)
class Kernel:
    """A kernel of OpenBLAS, and the instructions of the processors that use it."""

    name: str  # for OPENBLAS_CORETYPE; "native" leaves the choice to OpenBLAS
    names: tuple[str, ...] = ()  # that threadpoolctl may say is in use
    needs: tuple[str, ...] = ()  # any of these features, in NumPy's words
    lacks: tuple[str, ...] = ()  # features that begin so


AVX512 = ("AVX512", "X86_V4")  # NumPy before 2.4 and since
AVX2 = ("AVX2", "X86_V3")
AVX = ("AVX", "F16C", "FMA", "X86_V3", "X86_V4")
KERNELS = [
    Kernel("native"),
    Kernel("Haswell", ("Haswell",), needs=AVX2, lacks=AVX512),
    # Many builds of OpenBLAS hold no kernel of that name and take the nearest.
    Kernel("Zen", ("Zen", "Haswell"), needs=AVX2, lacks=AVX512),
    Kernel("Nehalem", ("Nehalem",), lacks=AVX),
]


@dataclass(frozen=True)
class InUse:
    """What a process computes with."""

    libraries: tuple[str, ...]  # BLAS, such as "openblas"
    kernels: tuple[str, ...]  # of all of them
    baseline: tuple[str, ...]  # instructions that NumPy was built for,
    features: tuple[str, ...]  # and those that it takes beyond

    def __str__(self):
        kernels = ", ".join(self.kernels) or "of unknown kernel"
        features = " ".join((*self.baseline, *self.features))
        return f"{', '.join(self.libraries) or 'unknown BLAS'} {kernels}; NumPy {features}"


def in_use():
    """What this process computes with, as the libraries themselves say."""
    import numpy as np
    import scipy.linalg  # noqa: F401  (SciPy may bring a BLAS of its own)
    from threadpoolctl import threadpool_info

    simd = np.show_config("dicts")["SIMD Extensions"]
    found = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return InUse(
        tuple(sorted({library["internal_api"] for library in found})),
        tuple(sorted({library.get("architecture") or "?" for library in found})),
        tuple(simd.get("baseline", ())),
        tuple(simd.get("found", ())),
    )


def environment(kernel, features):
    """Variables of a process that computes as such a processor does."""
    own = {"OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES", "NPY_ENABLE_CPU_FEATURES"}
    variables = {name: value for name, value in os.environ.items() if name not in own}
    if kernel.name != "native":
        variables["OPENBLAS_CORETYPE"] = kernel.name
        lacking = [name for name in features if name.startswith(kernel.lacks)]
        variables |= {"NPY_DISABLE_CPU_FEATURES": " ".join(lacking)} if lacking else {}
    return variables


def started(kernel, features=()):
    """What a new process of this kernel computes with."""
    program = "import json, kernels; print(json.dumps(vars(kernels.in_use())))"
    told = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(kernel, features) | {"PYTHONPATH": str(ROOT / "tests")},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return InUse(**{name: tuple(values) for name, values in json.loads(told).items()})


def chosen(native):
    """Kernels to run, each with what is in use there; the others with the reason why not."""
    if platform.machine().lower() not in ("x86_64", "amd64") or native.libraries != ("openblas",):
        here = f"{platform.machine()} with {', '.join(native.libraries) or 'unknown BLAS'}"
        return [(KERNELS[0], native)], [
            f"only native: kernels are known of OpenBLAS on x86-64, this is {here}"
        ]
    runs, reasons = [(KERNELS[0], native)], []
    for kernel in KERNELS[1:]:
        if kernel.needs and not {*native.baseline, *native.features} & {*kernel.needs}:
            reasons.append(f"{kernel.name}: not run, this processor lacks {kernel.needs[0]}")
            continue
        found = started(kernel, native.features)
        if not set(found.kernels) <= set(kernel.names):
            sys.exit(f"error: OPENBLAS_CORETYPE={kernel.name} is not heeded, in use is {found}")
        if any(name.startswith(kernel.lacks) for name in found.features):
            sys.exit(f"error: NumPy was to do without {' '.join(kernel.lacks)}, in use is {found}")
        same = next((run.name for run, other in runs if other == found), None)
        if same:
            reasons.append(f"{kernel.name}: not run, here it is the same as {same} ({found})")
        else:
            runs.append((kernel, found))
    return runs, reasons


def tested(kernel, features, arguments):
    """Run pytest, show what it says; gives its exit code and its last line."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal"]
    with subprocess.Popen(
        [*command, *NUMERICAL, *arguments],
        cwd=ROOT,
        env=environment(kernel, features),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        last = ""
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    return process.returncode, re.sub(r"\x1b\[\d*m|^=+ | =+$", "", last)


def main(arguments):
    """Run every kernel that this processor has; 1 if a test failed under one of them."""
    native = started(KERNELS[0])
    runs, reasons = chosen(native)
    results = []
    for kernel, found in runs:
        print(f"== {kernel.name}: {found}", flush=True)
        results.append(tested(kernel, native.features, arguments))
    print("== numerical tests under kernels of BLAS and NumPy")
    for (kernel, found), (_, last) in zip(runs, results, strict=True):
        print(f"{kernel.name} ({found}): {last}")
    print("\n".join(reasons))
    return int(any(code for code, _ in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
