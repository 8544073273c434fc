"""What ``denoise`` and ``reconstruct`` share: files checked, signals as lines and as pictures."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pywt
from numpy.typing import NDArray

from sparsebayes._console import say
from sparsebayes._files import atomic_write
from sparsebayes._signal_files import SignalFile, write_signal, write_std
from sparsebayes._tables import check_folder, check_picture
from sparsebayes.commands._summary import Summary
from sparsebayes.problem import Certificate
from sparsebayes.reconstruction import Reconstruction
from sparsebayes.signals import Denoised

Array = NDArray[np.float64]
Found = Denoised | Reconstruction

_MOST_LINES = 12  # of channels in the summary
_MOST_PANELS = 6


def check_outputs(arguments: argparse.Namespace) -> None:
    """Refuse files that cannot be written, before any work is done."""
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


def check_wavelet(name: str, option: str) -> None:
    """Refuse a name that PyWavelets does not know as a discrete wavelet."""
    known = pywt.wavelist(kind="discrete")
    if name.lower() in known:
        return
    close = difflib.get_close_matches(name.lower(), known, n=3)
    hint = f"did you mean {', '.join(close)}?" if close else "some are haar, db4, sym8, coif3"
    if name.lower() in pywt.wavelist(kind="continuous"):
        raise ValueError(f"{option}: {name!r} is a continuous wavelet, a discrete one is needed")
    raise ValueError(f"{option}: unknown discrete wavelet {name!r}; {hint}")


def is_constant(values: Array) -> bool:
    """Whether all samples that are there are equal."""
    seen = values[~np.isnan(values)]
    return bool(np.all(seen == seen[0]))


def clean_of(source: SignalFile, name: str, found: Mapping[str, Found]) -> Array:
    """The signal that was found of a channel; of a constant one, it with its gaps filled in."""
    if name in found:
        return found[name].signal
    values = source.channels[name]
    return np.where(np.isnan(values), np.nanmax(values), values)


def std_of(source: SignalFile, name: str, found: Mapping[str, Found]) -> Array:
    """Its standard deviation."""
    return found[name].std if name in found else np.zeros_like(source.channels[name])


def missing_samples(source: SignalFile) -> int:
    """How many there are, in all channels."""
    return sum(int(np.isnan(values).sum()) for values in source.channels.values())


def say_constant(source: SignalFile, found: Mapping[str, Found]) -> None:
    """Say which channels are written as they are."""
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


def write_found(
    source: SignalFile,
    found: Mapping[str, Found],
    files: argparse.Namespace,
    arguments: argparse.Namespace,
) -> None:
    """Write signals, and their deviations and a picture where they were asked for."""
    say_constant(source, found)
    whole = {name: clean_of(source, name, found) for name in source.channels}
    # Deviations are computed when first asked for: before any file is written.
    std = {name: std_of(source, name, found) for name in whole if arguments.std}
    for remark in write_signal(source, files.output, whole):
        say(f"note: {arguments.output}: {remark}")
    if arguments.std:
        write_std(source, arguments.std, std)
    if arguments.plot:
        draw(source, found, arguments.plot)


def show_files(summary: Summary, arguments: argparse.Namespace, seconds: float) -> None:
    """Say how long it took, and what was written."""
    summary.line("time", f"{seconds:.3f} s", seconds=seconds)
    summary.line("output", arguments.output, output=arguments.output)
    if arguments.std:
        summary.line("std", arguments.std, std=arguments.std)
    if arguments.plot:
        summary.line("picture", arguments.plot, picture=arguments.plot)


def facts(found: Found) -> dict[str, float]:
    """What a program asks of a signal."""
    return {
        "atoms": found.n_atoms,
        "of_atoms": found.coefficients.size,
        "degrees_of_freedom": found.degrees_of_freedom,
        "noise_variance": found.noise_variance,
        "log_marginal_likelihood": found.log_marginal_likelihood,
    }


def show(summary: Summary, found: Mapping[str, Found], known: bool, single: bool) -> None:
    """Say what was found: in lines for a single signal, in a table for several."""
    summary.facts(signals={name: facts(one) for name, one in found.items()})
    if not found:
        return
    if single:
        _show_one(summary, next(iter(found.values())), known)
    else:
        _show_several(summary, found, known)
    summary.certificate(_worst(found), all(one.converged for one in found.values()))


def _show_one(summary: Summary, found: Found, known: bool) -> None:
    summary.line("atoms kept", f"{found.n_atoms} of {found.coefficients.size} coefficients")
    summary.line("freedom", f"{found.degrees_of_freedom:.1f} degrees")
    deviation = f"{found.noise_variance**0.5:.4g} standard deviation"
    summary.line("noise given" if known else "noise found", deviation)
    summary.line("log evidence", f"{found.log_marginal_likelihood:.3f}")


def _show_several(summary: Summary, found: Mapping[str, Found], known: bool) -> None:
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


def _worst(found: Mapping[str, Found]) -> Certificate:
    """The certificate of all signals together."""
    each = [dataclasses.astuple(one.certificate) for one in found.values()]
    return Certificate(*map(max, zip(*each, strict=True)))


def draw(source: SignalFile, found: Mapping[str, Found], path: str) -> None:
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


def _draw_field(figure: Any, rows: int, row: int, title: str, found: Found) -> None:
    """Draw a picture before and after, and how sure that is, side by side."""
    low, high = float(found.signal.min()), float(found.signal.max())
    levels: dict[str, Any] = {"cmap": "gray", "vmin": low, "vmax": high}
    panels: list[tuple[str, Array | None, dict[str, Any]]] = [
        ("data", found.data, levels),
        ("denoised" if isinstance(found, Denoised) else "reconstructed", found.signal, levels),
        ("standard deviation", found.std, {"cmap": "viridis"}),
    ]
    for place, (label, values, style) in enumerate(panels):
        if values is None:  # no sample was measured itself
            continue
        axes = figure.add_subplot(rows, 3, 3 * row + place + 1)
        image = axes.imshow(values, interpolation="nearest", **style)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_title(f"{title}: {label}" if title else label)
        figure.colorbar(image, ax=axes, shrink=0.7)
