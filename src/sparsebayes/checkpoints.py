"""Where a long fit stands, in a small file that a kill at any moment leaves whole.

A round of such a fit depends on its data, its parameters and a few numbers for each active atom;
only these numbers are stored. The file is a zip of JSON and arrays, as a model file is, and runs
nothing when it is read: about 2 kB, and 8 bytes for each number of the arrays.

With the state goes a fingerprint of the fit. A fit that resumes compares it with its own, so that
it never goes on with the state of other data or another model.
"""

from __future__ import annotations

import math
import os
import stat
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import sparsebayes
from sparsebayes._archive import (
    HOSTILE,
    ArchiveError,
    ArchiveReader,
    shortened,
    texts,
    write_archive,
)
from sparsebayes._files import check_place
from sparsebayes._parameters import NotStorableError, decode, encode

__all__ = ["Checkpoint", "CheckpointError", "Saved", "fingerprint", "sketch"]

_KIND = "checkpoint"
_FORMAT = "sparsebayes-checkpoint"
_FORMAT_VERSION = 1
_SAME = 1e-9  # sums over rows in other blocks, or by other threads, differ by rounding
_NAMED = 3  # differences that a message tells
_FEW = 16  # entries of an array that is kept as it is
_LONGEST = 80  # characters of a value that a message shows
_ANEW = "delete it, or fit with resume=False, to begin anew"
# What may change from one part of a fit to the next: it changes where a fit ends, not its way.
_FREE = (
    "callback",
    "checkpoint",
    "max_iter",
    "memory",
    "on_interrupt",
    "resume",
    "screened",
    "tol",
    "verbose",
    "warm_start",
)


class CheckpointError(ValueError):
    """A checkpoint cannot be used: damaged, of another fit, or in a place that cannot be written.

    Examples
    --------
    >>> try:
    ...     Checkpoint("no/such/folder/fit.checkpoint")
    ... except CheckpointError as error:
    ...     print(error)
    checkpoint='no/such/folder/fit.checkpoint': no such folder /...
    """


@dataclass(frozen=True)
class Saved:
    """Where a fit stands.

    Parameters
    ----------
    stage : str
        Name of the part of the fit that is under way.
    turn : int
        Which round of it.
    numbers : dict of str to float
        Single numbers, such as the noise variance; infinities are kept.
    arrays : dict of str to ndarray
        Arrays of numbers, such as the active atoms and their variances.

    Examples
    --------
    >>> Saved("all rows", 2, {"noise_var": 0.01}, {"active": np.array([4, 7])}).turn
    2
    """

    stage: str
    turn: int
    numbers: dict[str, float]
    arrays: dict[str, NDArray[Any]]


class Checkpoint:
    """The file in which a fit keeps where it stands.

    Parameters
    ----------
    path : str or path
        The file. Its folder must exist and be writable: that is tried here, before the fit begins.
    resume : bool, default=False
        Whether `read` gives what the file holds. Otherwise the first `write` replaces it.

    Raises
    ------
    CheckpointError
        If nothing can be written there, or the file is there and is no checkpoint.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "fit.checkpoint")
    ...     saved = Saved("all rows", 3, {"noise_var": 0.01}, {"active": np.array([4, 7])})
    ...     Checkpoint(path).write({"rows": 1000}, saved)
    ...     Checkpoint(path, resume=True).read({"rows": 1000}).arrays["active"]
    array([4, 7])
    """

    def __init__(self, path: str | os.PathLike[str], resume: bool = False) -> None:
        if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
            raise TypeError(f"checkpoint must be None or a path, got {path!r}.")
        self.path = os.fspath(path)
        self.resume = bool(resume)
        self._failed = False
        try:
            self._check()
        except OSError as error:
            raise CheckpointError(f"checkpoint={self.path!r}: {_reason(error)}") from None
        except ValueError as error:  # its message begins with the path
            text = str(error).removeprefix(f"{self.path}: ")
            raise CheckpointError(f"checkpoint={self.path!r}: {text}") from None

    def _check(self) -> None:
        if not self.path or "\0" in self.path:
            raise ValueError("this is no name of a file")
        check_place(self.path)
        if os.path.exists(self.path):
            if not stat.S_ISREG(os.stat(self.path).st_mode):
                raise ValueError("this is no regular file")
            with open(self.path, "rb") as file:
                begin = file.read(30 + len(_KIND))
            # Of a zip the name of the first member follows thirty bytes: ours is known by it,
            # damaged or not, and somebody's data are not overwritten.
            if begin and (begin[:4] != b"PK\x03\x04" or begin[30:] != _KIND.encode()):
                raise ValueError("the file is there and is no checkpoint: choose another name")
        # The rights of a folder do not tell of a full disk or a name that is too long.
        folder, name = os.path.split(os.path.realpath(self.path))
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{name}.", suffix=".tmp") as file:
            file.write(b"\0" * 4096)

    def read(self, fingerprint: Mapping[str, Any]) -> Saved | None:
        """Where the fit stood when the file was written.

        Parameters
        ----------
        fingerprint : dict of str to object
            What identifies the fit that wants to go on; see `fingerprint`.

        Returns
        -------
        Saved or None
            None where the fit begins anew: without ``resume``, or without a file.

        Raises
        ------
        CheckpointError
            If the file is damaged, or of another fit; the message names what differs.
        """
        if not self.resume or not os.path.exists(self.path) or not os.path.getsize(self.path):
            return None
        try:
            with open(self.path, "rb") as file:
                archive = ArchiveReader(file, _KIND)
                header = archive.header()
                _check_format(header)
                different = _differences(header["fingerprint"], _plain(fingerprint))
                if different:
                    raise ArchiveError(f"is the checkpoint of another fit ({different})")
                return _restored(header, archive.arrays(header))
        except ArchiveError as error:
            raise CheckpointError(f"{self.path} {error}; {_ANEW}.") from None
        except HOSTILE as error:
            reason = shortened(error) or type(error).__name__
            raise CheckpointError(f"{self.path} is damaged ({reason}); {_ANEW}.") from None

    def write(self, fingerprint: Mapping[str, Any], saved: Saved) -> None:
        """Replace the file by a new one, in one step.

        A disk that is full, or a folder that is gone, does not end a fit of hours: there is a
        warning, and the file stays what it was.

        Parameters
        ----------
        fingerprint : dict of str to object
            What identifies the fit; see `fingerprint`.
        saved : Saved
            Where it stands.
        """
        header = {
            "format": _FORMAT,
            "format_version": _FORMAT_VERSION,
            "sparsebayes_version": sparsebayes.__version__,
            "fingerprint": _plain(fingerprint),
            "stage": saved.stage,
            "turn": int(saved.turn),
            "numbers": {name: encode(float(value)) for name, value in saved.numbers.items()},
        }
        try:
            write_archive(self.path, header, saved.arrays, _KIND)
        except OSError as error:
            if not self._failed:
                warnings.warn(
                    f"the checkpoint {self.path} could not be written ({_reason(error)}): the fit "
                    "goes on, and the file stays as it was.",
                    RuntimeWarning,
                    stacklevel=2,
                )
            self._failed = True
        else:
            self._failed = False


def fingerprint(parameters: Mapping[str, Any], **facts: Any) -> dict[str, Any]:
    """What identifies a fit: its parameters but those that its way does not depend on, and facts.

    Whole numbers and texts must be equal when it is compared. Floats must be to nine digits, as
    sums over rows depend on their order; those of one list, to nine digits of the largest of them.

    Parameters
    ----------
    parameters : dict of str to object
        Constructor parameters of the estimator.
    **facts : object
        Numbers of rows and columns, sums, sketches of arrays.

    Returns
    -------
    dict of str to object
        For `Checkpoint`, which keeps of objects that no file can hold what they are called.

    Examples
    --------
    >>> fingerprint({"prior": "bic", "verbose": 2}, rows=1000, targets=[0.5, 1.25])
    {'prior': 'bic', 'rows': 1000, 'targets': [0.5, 1.25]}
    """
    kept = {name: value for name, value in parameters.items() if name not in _FREE}
    return kept | facts


def sketch(values: ArrayLike) -> list[float]:
    """Few numbers that tell an array from others, and not from itself with other rounding.

    Parameters
    ----------
    values : array_like
        Finite numbers.

    Returns
    -------
    list of float
        The least, the largest, and an average in which every place has another weight.

    Examples
    --------
    >>> sketch([1.0, 2.0, 4.0]) == sketch([2.0, 1.0, 4.0])
    False
    """
    flat = np.asarray(values, dtype=np.float64).ravel()
    if not flat.size:
        return []
    golden = (5**0.5 - 1) / 2  # multiples of it never come near each other, modulo one
    weights = 1.0 + (np.arange(1, flat.size + 1) * golden) % 1.0
    low, high = float(flat.min()), float(flat.max())
    return [low, high, float(weights @ (flat - low)) / flat.size]


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """What JSON can hold, and in few words: long arrays as sketches, other objects by name."""
    # scikit-learn gives the parameters of a parameter as well: "dictionary__gamma".
    told = {name.partition("__")[0] for name in values if "__" in name}
    return {
        name: _named(value) if name in told else _short(value) for name, value in values.items()
    }


def _short(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.size > _FEW:
        return [int(value.size), sketch(value)]
    try:
        return encode(value)
    except NotStorableError:
        return _named(value)


def _named(value: Any) -> str:
    kind = value if hasattr(value, "__qualname__") else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def _check_format(header: dict[str, Any]) -> None:
    if header.get("format") != _FORMAT or not isinstance(header.get("fingerprint"), dict):
        raise ArchiveError("is not a sparsebayes checkpoint file")
    if header.get("format_version") != _FORMAT_VERSION:
        version = shortened(header.get("sparsebayes_version"))
        raise ArchiveError(f"was written by another version of sparsebayes ({version})")


def _restored(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Saved:
    stage, turn = header["stage"], header["turn"]
    texts([stage])
    if type(turn) is not int or turn < 0:
        raise ArchiveError("is damaged (its turn is no number)")
    numbers = {name: float(decode(value)) for name, value in header["numbers"].items()}
    return Saved(stage, turn, numbers, arrays)


def _differences(there: dict[str, Any], here: dict[str, Any]) -> str:
    """Name what differs; empty where nothing does."""
    names = [name for name in {**here, **there} if not _same(there.get(name), here.get(name))]
    told = []
    for name in names[:_NAMED]:
        before, now = _shown(there, name), _shown(here, name)
        short = max(len(before), len(now)) < _LONGEST
        told.append(f"{name} was {before}, is {now}" if short else f"{name} differs")
    if len(names) > _NAMED:
        told.append(f"and {len(names) - _NAMED} more")
    return "; ".join(told)


def _shown(values: dict[str, Any], name: str) -> str:
    if name not in values:
        return "not known"
    try:
        return shortened(repr(decode(values[name])), _LONGEST)
    except HOSTILE:
        return "something else"


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return False
        if one and all(type(value) is float for value in one + other):
            largest = max(map(abs, one + other))
            return all(abs(a - b) <= _SAME * largest for a, b in zip(one, other, strict=True))
        return all(map(_same, one, other))
    if type(one) is float and type(other) is float:
        return math.isclose(one, other, rel_tol=_SAME)
    return type(one) is type(other) and bool(one == other)


def _reason(error: OSError) -> str:
    return error.strerror or shortened(error) or type(error).__name__
