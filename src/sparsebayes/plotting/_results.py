"""What pictures ask of the results of `denoise` and `reconstruct`."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["caption", "checked_result"]


def checked_result(result: Any, name: str) -> Any:
    """Return what a result has, or refuse what is no such result.

    Parameters
    ----------
    result : object
        As given.
    name : str
        Of the attribute.

    Returns
    -------
    object
        The attribute.
    """
    known = hasattr(type(result), name) or hasattr(result, name)
    if not (known and hasattr(result, "coefficients")):
        makers = "`denoise`" if name == "parts" else "`denoise` or `reconstruct`"
        raise TypeError(f"result must be what {makers} returned, got {type(result).__name__}.")
    return getattr(result, name)


def caption(result: Any) -> str:
    """How many atoms were kept, and how large the noise is.

    Parameters
    ----------
    result : Denoised or Reconstruction
        The result.

    Returns
    -------
    str
        Such as "16 of 100 atoms, noise 0.089".
    """
    noise = np.asarray(result.noise_variance)
    size = f", noise {float(noise) ** 0.5:.2g}" if noise.ndim == 0 else ""
    return f"{int(np.sum(result.n_atoms))} of {result.coefficients.size} atoms{size}"
