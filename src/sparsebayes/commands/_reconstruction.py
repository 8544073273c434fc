"""The command ``sparsebayes reconstruct``: samples or measurements in, a whole signal out."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sparsebayes._console import counted, progress, say
from sparsebayes._series_files import TABLES, side_by_side, write_columns
from sparsebayes._settings import resolve_prior
from sparsebayes._signal_files import (
    SignalFile,
    check_output,
    check_std,
    open_signal,
)
from sparsebayes._tables.arrays import DAMAGE
from sparsebayes.commands._signal_output import (
    check_outputs,
    check_wavelet,
    is_constant,
    show,
    show_files,
    write_found,
)
from sparsebayes.commands._streams import named, on_files
from sparsebayes.commands._summary import Summary
from sparsebayes.reconstruction import Reconstruction, reconstruct
from sparsebayes.sensing import PartialDCT, PartialHadamard

Array = NDArray[np.float64]

_MEASUREMENTS = (*TABLES, ".npy")
_MATRICES = (".npy", ".npz", *TABLES)


def run(arguments: argparse.Namespace) -> None:
    """Reconstruct the signals of a file.

    Parameters
    ----------
    arguments : Namespace
        Of the parser's command ``reconstruct``.
    """
    with on_files(arguments) as files:
        _run(files, arguments)


def _run(files: argparse.Namespace, arguments: argparse.Namespace) -> None:
    check_outputs(files)
    if arguments.basis != "identity":
        check_wavelet(arguments.basis, "--basis")
    resolve_prior(arguments.prior, None, 2, 2)
    by_transform = arguments.dct or arguments.hadamard
    gather = _measured if by_transform or arguments.sensing else _sampled
    source, tasks = gather(files)
    check_output(source, files.output)
    if arguments.std is not None:
        check_std(source, arguments.std)
    for remark in source.remarks:
        say(f"note: {source.path}: {remark}")
    started = time.perf_counter()
    with contextlib.nullcontext() if arguments.quiet else progress():
        found = _reconstruct_all(source, tasks, arguments)
    seconds = time.perf_counter() - started
    write_found(source, found, files, arguments)
    _summarize(source, tasks, found, arguments, seconds)


Tasks = dict[str, tuple[Array, Any]]  # measurements and sensing of each signal


def _sampled(arguments: argparse.Namespace) -> tuple[SignalFile, Tasks]:
    """Samples of a file, but for those that are missing or masked."""
    source = named(open_signal(arguments.data, columns=arguments.column))
    mask = None if arguments.mask is None else _mask(arguments.mask)
    tasks: Tasks = {}
    for name, values in source.channels.items():
        if mask is not None:
            if mask.shape != values.shape:
                raise ValueError(
                    f"{arguments.mask}: the mask has {_size(mask)} samples, {source.path} has "
                    f"{_size(values)}"
                )
            values = np.where(mask, values, np.nan)
            source.channels[name] = values
        known = ~np.isnan(values)
        if not known.any():
            raise ValueError(f"{source.path}: the mask leaves no sample of {name!r}")
        if not is_constant(values):
            tasks[name] = (values[known], known)
    return source, tasks


def _mask(path: str) -> NDArray[np.bool_]:
    channels = list(open_signal(path).channels.values())
    # Gaps of a table, and colors that are all black, are not known.
    known: NDArray[np.bool_] = np.any([np.nan_to_num(one) != 0 for one in channels], axis=0)
    return known


def _measured(arguments: argparse.Namespace) -> tuple[SignalFile, Tasks]:
    """Measurements of a signal that no sample is known of."""
    if Path(arguments.data).suffix.lower() not in _MEASUREMENTS:
        raise ValueError(
            f"{arguments.data}: measurements are in a file with one of the suffixes "
            f"{', '.join(_MEASUREMENTS)}"
        )
    given = named(open_signal(arguments.data, columns=arguments.column))
    if len(given.channels) > 1:
        raise ValueError(
            f"{given.path}: {len(given.channels)} columns, name the one of the measurements by "
            "--column"
        )
    measurements = np.squeeze(next(iter(given.channels.values())))
    if measurements.ndim != 1 or np.isnan(measurements).any():
        fault = "some are missing" if measurements.ndim == 1 else f"they are {_size(measurements)}"
        raise ValueError(f"{given.path}: measurements are one row of numbers, {fault}")
    if arguments.sensing:
        sensing: Any = _matrix(arguments.sensing)
        shape: tuple[int, ...] = (sensing.shape[1],)
        if sensing.shape[0] != len(measurements):
            raise ValueError(
                f"{arguments.sensing}: {sensing.shape[0]} rows, but there are "
                f"{counted(len(measurements), 'measurement')} in {given.path}"
            )
    else:
        shape = arguments.dct or arguments.hadamard
        kind = PartialDCT if arguments.dct else PartialHadamard
        sensing = kind(shape, len(measurements), random_state=arguments.seed)
    return _Unseen(given.path, shape, given.remarks), {"signal": (measurements, sensing)}


class _Unseen:
    """A signal of which there are measurements but no samples, as a file to be written."""

    kind = "array"

    def __init__(self, path: str, shape: tuple[int, ...], remarks: list[str]) -> None:
        self.path, self.remarks = path, remarks
        self.channels: dict[str, Array] = {"signal": np.full(shape, np.nan)}
        more = TABLES if len(shape) == 1 else (".tif", ".tiff")
        self.suffixes: tuple[str, ...] = (".npy", *more)

    def array(self, channels: dict[str, Array]) -> NDArray[Any]:
        """The signal itself."""
        return side_by_side(channels)

    def write(self, file: BinaryIO, suffix: str, channels: dict[str, Array]) -> list[str]:
        """Write it as a column."""
        write_columns(file, suffix, channels)
        return []


def _matrix(path: str) -> Any:
    """A matrix, dense or sparse, of a file that is only data."""
    suffix = Path(path).suffix.lower()
    if suffix not in _MATRICES:
        raise ValueError(f"{path}: a matrix is in a file with one of {', '.join(_MATRICES)}")
    if suffix in TABLES:
        return side_by_side(open_signal(path).channels).reshape(-1, len(open_signal(path).channels))
    try:
        found = sp.load_npz(path) if suffix == ".npz" else np.load(path, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile, *DAMAGE) as error:
        raise ValueError(f"{path}: no matrix can be read from it ({error})") from None
    if found.ndim != 2 or found.dtype.kind not in "biuf":
        raise ValueError(f"{path}: a matrix of real numbers is needed, this is {_size(found)}")
    return found


def _size(values: Any) -> str:
    return " x ".join(map(str, values.shape))


def _reconstruct_all(
    source: SignalFile, tasks: Tasks, arguments: argparse.Namespace
) -> dict[str, Reconstruction]:
    found = {}
    for place, (name, (measurements, sensing)) in enumerate(tasks.items(), 1):
        if len(tasks) > 1 and not arguments.quiet:
            print(f"{name}: {place} of {len(tasks)}", file=sys.stderr)
        try:
            found[name] = reconstruct(
                measurements,
                sensing,
                arguments.basis,
                arguments.prior,
                arguments.noise_variance,
                level=arguments.level,
                solver=arguments.solver,
                verbose=0 if arguments.quiet else 1,
            )
        except ValueError as error:
            which = f" {name!r}:" if len(tasks) > 1 else ""
            raise ValueError(f"{source.path}:{which} {error}") from None
    return found


def _summarize(
    source: SignalFile,
    tasks: Tasks,
    found: dict[str, Reconstruction],
    arguments: argparse.Namespace,
    seconds: float,
) -> None:
    first = next(iter(source.channels.values()))
    summary = Summary(f"{source.path} by {arguments.basis}, prior {arguments.prior}")
    count = len(source.channels)
    several = f" in each of {counted(count, 'signal')}" if count > 1 else ""
    summary.line("samples", _size(first) + several, data=source.path, shape=first.shape)
    measured = sum(len(measurements) for measurements, _ in tasks.values())
    constant = [values for name, values in source.channels.items() if name not in tasks]
    measured += sum(int((~np.isnan(values)).sum()) for values in constant)
    share = measured / sum(values.size for values in source.channels.values())
    summary.line("measured", f"{measured}, {share:.1%} of them", measured=measured)
    show(summary, found, arguments.noise_variance is not None, single=count == 1)
    show_files(summary, arguments, seconds)
    summary.show(arguments)
