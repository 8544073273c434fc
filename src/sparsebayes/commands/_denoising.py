"""The command ``sparsebayes denoise``: signals of a file in, the same without noise out."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time

import numpy as np
from numpy.typing import NDArray

from sparsebayes._console import counted, progress, say
from sparsebayes._settings import resolve_prior
from sparsebayes._signal_files import (
    SignalFile,
    check_output,
    check_std,
    open_signal,
)
from sparsebayes._wavelet_transforms import Transform
from sparsebayes.commands._signal_output import (
    check_outputs,
    check_wavelet,
    is_constant,
    missing_samples,
    show,
    show_files,
    write_found,
)
from sparsebayes.commands._streams import named, on_files
from sparsebayes.commands._summary import Summary
from sparsebayes.signals import Denoised, denoise

Array = NDArray[np.float64]

_LONG = 2**14  # samples beyond which wavelets that are not orthonormal take minutes


def run(arguments: argparse.Namespace) -> None:
    """Denoise a file.

    Parameters
    ----------
    arguments : Namespace
        Of the parser's command ``denoise``.
    """
    with on_files(arguments) as files:
        _run(files, arguments)


def _run(files: argparse.Namespace, arguments: argparse.Namespace) -> None:
    source = _checked(files)
    for remark in source.remarks:
        say(f"note: {source.path}: {remark}")
    if not arguments.quiet:
        _say_slow(source, arguments.wavelet)
    started = time.perf_counter()
    with contextlib.nullcontext() if arguments.quiet else progress():
        found = _denoise_all(source, arguments)
    seconds = time.perf_counter() - started
    write_found(source, found, files, arguments)
    _summarize(source, found, arguments, seconds)


def _checked(arguments: argparse.Namespace) -> SignalFile:
    """Read the file, and refuse whatever will not work before any work is done."""
    check_outputs(arguments)
    check_wavelet(arguments.wavelet, "--wavelet")
    resolve_prior(arguments.prior, None, 2, 2)
    source = named(open_signal(arguments.data, columns=arguments.column, axis=arguments.axis))
    check_output(source, arguments.output)
    if arguments.std is not None:
        check_std(source, arguments.std)
    return source


def _denoise_all(source: SignalFile, arguments: argparse.Namespace) -> dict[str, Denoised]:
    """Denoise every channel that is not constant."""
    found = {}
    count = len(source.channels)
    for place, (name, values) in enumerate(source.channels.items(), 1):
        if is_constant(values):
            continue
        if count > 1 and not arguments.quiet:
            print(f"{name}: {place} of {count}", file=sys.stderr)
        try:
            found[name] = denoise(
                values,
                arguments.wavelet,
                arguments.prior,
                arguments.noise_variance,
                level=arguments.level,
                by_scale=arguments.by_scale,
                verbose=0 if arguments.quiet else 1,
            )
        except ValueError as error:
            which = f" {name!r}:" if count > 1 else ""
            raise ValueError(f"{source.path}:{which} {error}") from None
    return found


def _say_slow(source: SignalFile, wavelet: str) -> None:
    """Say that there is no closed form, where that takes minutes."""
    size = max(values.size for values in source.channels.values())
    if size > _LONG and not Transform(wavelet, (2,)).orthonormal:
        say(
            f"note: {wavelet} is not orthonormal, and {size} samples take it long: haar, db, sym "
            "and coif wavelets take seconds"
        )


def _summarize(
    source: SignalFile, found: dict[str, Denoised], arguments: argparse.Namespace, seconds: float
) -> None:
    known = isinstance(arguments.noise_variance, float)
    first = next(iter(source.channels.values()))
    prior = f"{arguments.prior}{_counted_by(source, arguments)}"
    summary = Summary(f"{source.path} by wavelets {arguments.wavelet.lower()}, prior {prior}")
    size = " x ".join(map(str, first.shape))
    count = len(source.channels)
    several = f" in each of {counted(count, 'signal')}" if count > 1 else ""
    rate = getattr(source, "rate", None)
    text = size + several + (f", {rate} a second" if rate else "")
    summary.line("samples", text, data=source.path, shape=first.shape)
    position = getattr(source, "position", None)
    if position is not None:
        summary.line("positions", f"{position!r}, kept", positions=position)
    missing = missing_samples(source)
    if missing:
        summary.line("missing", f"{counted(missing, 'sample')}, filled in")
    summary.facts(missing=missing)
    show(summary, found, known, single=count == 1)
    show_files(summary, arguments, seconds)
    summary.show(arguments)


def _counted_by(source: SignalFile, arguments: argparse.Namespace) -> str:
    """What the prior counts, where that is not all samples."""
    channels = list(source.channels.values())
    by_scale = channels[0].ndim == 2 if arguments.by_scale is None else arguments.by_scale
    if not (by_scale and arguments.prior in ("bic", "ric")):
        return ""
    whole = [not np.isnan(values).any() for values in channels]
    if not (any(whole) and Transform(arguments.wavelet, (2,)).orthonormal):
        return ""
    return " by scale" if all(whole) else " by scale where nothing is missing"
