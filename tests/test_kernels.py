"""Which kernels of BLAS the numerical tests are run under, on what processor."""

import dataclasses
import platform

import pytest

import kernels
from kernels import Kernel, chosen, in_use, started

HERE = in_use()
x86_openblas = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64") or HERE.libraries != ("openblas",),
    reason="kernels are known of OpenBLAS on x86-64",
)


def test_what_is_run_under_every_kernel_is_there():
    for name in kernels.NUMERICAL:
        file, _, test = name.partition("::")
        path = kernels.ROOT / file
        assert path.exists(), name
        assert not test or f"def {test}(" in path.read_text(), name


def test_another_blas_is_tested_as_it_is():
    other = dataclasses.replace(HERE, libraries=("mkl",), kernels=("?",))
    runs, reasons = chosen(other)
    assert runs == [(Kernel("native"), other)]
    (reason,) = reasons
    assert "only native" in reason
    assert "mkl" in reason


@x86_openblas
def test_each_run_computes_in_another_way():
    runs, reasons = chosen(started(Kernel("native")))
    names = [kernel.name for kernel, _ in runs]
    assert names[0] == "native"
    assert len({found for _, found in runs}) == len(runs)
    told = [reason.partition(":")[0] for reason in reasons]
    assert sorted(names + told) == ["Haswell", "Nehalem", "Zen", "native"]
    for kernel, found in runs[1:]:
        assert set(found.kernels) <= set(kernel.names)
        assert not any(name.startswith(kernel.lacks) for name in found.features)


@x86_openblas
def test_what_a_processor_lacks_is_told(monkeypatch):
    monkeypatch.setattr(kernels, "KERNELS", [Kernel("native"), Kernel("Zen9", needs=("AVX9",))])
    runs, reasons = chosen(HERE)
    assert [kernel.name for kernel, _ in runs] == ["native"]
    assert reasons == ["Zen9: not run, this processor lacks AVX9"]


@x86_openblas
def test_instructions_that_numpy_goes_on_to_use_are_an_error():
    """As if NumPy could do without nothing."""
    if not HERE.features:
        pytest.skip("NumPy uses its baseline only")
    with pytest.raises(SystemExit, match="NumPy was to do without"):
        chosen(dataclasses.replace(HERE, baseline=("AVX2",), features=()))


@x86_openblas
def test_a_kernel_that_is_not_heeded_is_an_error(monkeypatch):
    wrong = [Kernel("native"), Kernel("Nehalem", ("Haswell",))]
    monkeypatch.setattr(kernels, "KERNELS", wrong)
    with pytest.raises(SystemExit, match="OPENBLAS_CORETYPE=Nehalem is not heeded, in use is"):
        chosen(HERE)
