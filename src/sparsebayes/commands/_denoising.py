"""The command ``sparsebayes denoise``: signals of a file in, the same without noise out."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import difflib
import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pywt
from numpy.typing import NDArray

from sparsebayes._console import counted, progress, say
from sparsebayes._files import atomic_write
from sparsebayes._settings import resolve_prior
from sparsebayes._signal_files import (
    SignalFile,
    check_output,
    check_std,
    open_signal,
    write_signal,
    write_std,
)
from sparsebayes._tables import check_folder, check_picture
from sparsebayes._wavelet_transforms import Transform
from sparsebayes.commands._summary import Summary
from sparsebayes.problem import Certificate
from sparsebayes.signals import Denoised, denoise

Array = NDArray[np.float64]

_MOST_LINES = 12  # of channels in the summary
_MOST_PANELS = 6
_LONG = 2**14  # samples beyond which wavelets that are not orthonormal take minutes


def run(arguments: argparse.Namespace) -> None:
    """Denoise a file.

    Parameters
    ----------
    arguments : Namespace
        Of the parser's command ``denoise``.
    """
    source = _checked(arguments)
    for remark in source.remarks:
        say(f"note: {source.path}: {remark}")
    if not arguments.quiet:
        _say_slow(source, arguments.wavelet)
    started = time.perf_counter()
    with contextlib.nullcontext() if arguments.quiet else progress():
        found = _denoise_all(source, arguments)
        std = {name: _std(source, name, found) for name in source.channels if arguments.std}
    seconds = time.perf_counter() - started
    _say_constant(source, found)
    clean = {name: _clean(source, name, found) for name in source.channels}
    for remark in write_signal(source, arguments.output, clean):
        say(f"note: {arguments.output}: {remark}")
    if arguments.std:
        write_std(source, arguments.std, std)
    if arguments.plot:
        _draw(source, found, arguments.plot)
    _summarize(source, found, arguments, seconds)


def _checked(arguments: argparse.Namespace) -> SignalFile:
    """Read the file, and refuse whatever will not work before any work is done."""
    for path in arguments.output, arguments.std:
        if path is not None:
            check_folder(path)
    if arguments.plot is not None:
        check_picture(arguments.plot)
        if importlib.util.find_spec("matplotlib") is None:
            raise ValueError('--plot needs matplotlib: pip install "sparsebayes[plot]"')
    given = [path for path in (arguments.output, arguments.std, arguments.plot) if path]
    if len({os.path.realpath(path) for path in given}) < len(given):
        raise ValueError("--output, --std and --plot are files of their own, two are the same")
    _check_wavelet(arguments.wavelet)
    resolve_prior(arguments.prior, None, 2, 2)
    source = open_signal(arguments.data, columns=arguments.column, axis=arguments.axis)
    check_output(source, arguments.output)
    if arguments.std is not None:
        check_std(source, arguments.std)
    return source


def _check_wavelet(name: str) -> None:
    known = pywt.wavelist(kind="discrete")
    if name.lower() in known:
        return
    close = difflib.get_close_matches(name.lower(), known, n=3)
    hint = f"did you mean {', '.join(close)}?" if close else "some are haar, db4, sym8, coif3"
    if name.lower() in pywt.wavelist(kind="continuous"):
        raise ValueError(f"--wavelet: {name!r} is a continuous wavelet, a discrete one is needed")
    raise ValueError(f"--wavelet: unknown discrete wavelet {name!r}; {hint}")


def _denoise_all(source: SignalFile, arguments: argparse.Namespace) -> dict[str, Denoised]:
    """Denoise every channel that is not constant."""
    found = {}
    count = len(source.channels)
    for place, (name, values) in enumerate(source.channels.items(), 1):
        if _is_constant(values):
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


def _is_constant(values: Array) -> bool:
    seen = values[~np.isnan(values)]
    return bool(np.all(seen == seen[0]))


def _clean(source: SignalFile, name: str, found: dict[str, Denoised]) -> Array:
    if name in found:
        return found[name].signal
    values = source.channels[name]
    return np.where(np.isnan(values), np.nanmax(values), values)


def _std(source: SignalFile, name: str, found: dict[str, Denoised]) -> Array:
    return found[name].std if name in found else np.zeros_like(source.channels[name])


def _missing(source: SignalFile) -> int:
    return sum(int(np.isnan(values).sum()) for values in source.channels.values())


def _say_slow(source: SignalFile, wavelet: str) -> None:
    """Say that there is no closed form, where that takes minutes."""
    size = max(values.size for values in source.channels.values())
    if size > _LONG and not Transform(wavelet, (2,)).orthonormal:
        say(
            f"note: {wavelet} is not orthonormal, and {size} samples take it long: haar, db, sym "
            "and coif wavelets take seconds"
        )


def _say_constant(source: SignalFile, found: dict[str, Denoised]) -> None:
    names = [name for name in source.channels if name not in found]
    if not names:
        return
    gaps = any(np.isnan(source.channels[name]).any() for name in names)
    how = "written with its gaps filled in" if gaps else "written unchanged"
    if len(source.channels) == 1:
        say(f"note: {source.path}: the signal is constant, it is {how}")
        return
    which = ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")
    say(
        f"note: {source.path}: {len(names)} of {len(source.channels)} signals are constant "
        f"({which}), they are {how.replace('its', 'their')}"
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
    missing = _missing(source)
    if missing:
        summary.line("missing", f"{counted(missing, 'sample')}, filled in")
    summary.facts(missing=missing, signals={name: _facts(one) for name, one in found.items()})
    if len(found) == 1 and count == 1:
        _show_one(summary, next(iter(found.values())), known)
    elif found:
        _show_several(summary, found, known)
    if found:
        summary.certificate(_worst(found), all(one.converged for one in found.values()))
    summary.line("time", f"{seconds:.3f} s", seconds=seconds)
    summary.line("output", arguments.output, output=arguments.output)
    if arguments.std:
        summary.line("std", arguments.std, std=arguments.std)
    if arguments.plot:
        summary.line("picture", arguments.plot, picture=arguments.plot)
    summary.show(arguments)


def _facts(found: Denoised) -> dict[str, float]:
    return {
        "atoms": found.n_atoms,
        "of_atoms": found.coefficients.size,
        "degrees_of_freedom": found.degrees_of_freedom,
        "noise_variance": found.noise_variance,
        "log_marginal_likelihood": found.log_marginal_likelihood,
    }


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


def _show_one(summary: Summary, found: Denoised, known: bool) -> None:
    summary.line("atoms kept", f"{found.n_atoms} of {found.coefficients.size} coefficients")
    summary.line("freedom", f"{found.degrees_of_freedom:.1f} degrees")
    deviation = f"{found.noise_variance**0.5:.4g} standard deviation"
    summary.line("noise given" if known else "noise found", deviation)
    summary.line("log evidence", f"{found.log_marginal_likelihood:.3f}")


def _show_several(summary: Summary, found: dict[str, Denoised], known: bool) -> None:
    ones = list(found.values())
    if len(ones) > _MOST_LINES:
        kept, size = sum(one.n_atoms for one in ones), sum(one.coefficients.size for one in ones)
        summary.line("atoms kept", f"{kept} of {size} coefficients")
        summary.line("freedom", f"{sum(one.degrees_of_freedom for one in ones):.1f} degrees")
        noise = sorted(one.noise_variance**0.5 for one in ones)
        span = f"{noise[0]:.4g}" if known else f"{noise[0]:.4g} to {noise[-1]:.4g}"
        summary.line("noise given" if known else "noise found", f"{span} standard deviation")
        summary.line("log evidence", f"{sum(one.log_marginal_likelihood for one in ones):.3f}")
        return
    rows = [("signal", "atoms kept", "freedom", "noise", "log evidence")] + [
        (
            name,
            f"{one.n_atoms} of {one.coefficients.size}",
            f"{one.degrees_of_freedom:.1f}",
            f"{one.noise_variance**0.5:.4g}",
            f"{one.log_marginal_likelihood:.3f}",
        )
        for name, one in found.items()
    ]
    summary.table(rows)


def _worst(found: dict[str, Denoised]) -> Certificate:
    """The certificate of all signals together."""
    each = [dataclasses.astuple(one.certificate) for one in found.values()]
    return Certificate(*map(max, zip(*each, strict=True)))


def _draw(source: SignalFile, found: dict[str, Denoised], path: str) -> None:
    """Draw the signals, a panel each."""
    from matplotlib.figure import Figure

    names = list(found)[:_MOST_PANELS]
    if len(found) > len(names):
        say(f"note: {path}: only the first {len(names)} of {len(found)} signals are drawn")
    if not names:
        say(f"note: {path}: not drawn, there is nothing but constants")
        return
    flat = found[names[0]].signal.ndim == 2
    # A Figure of its own rather than pyplot's: no window system is asked for.
    figure = Figure(figsize=(11 if flat else 8, 1.0 + 3.0 * len(names)), layout="constrained")
    for place, name in enumerate(names):
        title = name if len(source.channels) > 1 else ""
        if flat:
            _draw_field(figure, len(names), place, title, found[name])
            continue
        axes = found[name].plot(ax=figure.add_subplot(len(names), 1, place + 1))
        if title:
            axes.set_title(f"{title}: {axes.get_title()}")
    with atomic_write(path) as file:
        figure.savefig(file, format=Path(path).suffix[1:].lower(), dpi=120)


def _draw_field(figure: Any, rows: int, row: int, title: str, found: Denoised) -> None:
    """Draw a picture before and after, and how sure that is, side by side."""
    low, high = float(found.signal.min()), float(found.signal.max())
    levels: dict[str, Any] = {"cmap": "gray", "vmin": low, "vmax": high}
    for place, (label, values, style) in enumerate(
        [
            ("data", found.data, levels),
            ("denoised", found.signal, levels),
            ("standard deviation", found.std, {"cmap": "viridis"}),
        ]
    ):
        axes = figure.add_subplot(rows, 3, 3 * row + place + 1)
        image = axes.imshow(values, interpolation="nearest", **style)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_title(f"{title}: {label}" if title else label)
        figure.colorbar(image, ax=axes, shrink=0.7)
