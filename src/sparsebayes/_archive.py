"""One JSON object and named arrays in one zip: no pickle, no compression, nothing executed."""

from __future__ import annotations

import io
import json
import math
import os
import tokenize
import zipfile
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._files import atomic_write

# Fixed dates: the same content gives the same bytes.
_DATE = (1980, 1, 1, 0, 0, 0)
_NPY_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
# What the zip, JSON and npy readers raise on hostile bytes has no common base.
HOSTILE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    tokenize.TokenError,
    zipfile.BadZipFile,
)

Arrays = dict[str, NDArray[Any]]


class ArchiveError(Exception):
    """A finding about a file; the message continues a sentence that begins with its name."""


def write_archive(
    path: str | os.PathLike[str], header: dict[str, Any], arrays: Arrays, kind: str = "model"
) -> None:
    """Write the archive in one step.

    Parameters
    ----------
    path : str or path
        The file to be made or replaced.
    header : dict
        What JSON can hold.
    arrays : dict of str to ndarray
        Numbers only.
    kind : str, default="model"
        What the file is; names the member that holds the header, which is the first.
    """
    text = json.dumps(header | {"arrays": sorted(arrays)}, indent=1, allow_nan=False)
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(f"{kind}.json", _DATE), text)
        for name in sorted(arrays):
            archive.writestr(zipfile.ZipInfo(_member(name), _DATE), _npy(arrays[name]))


class ArchiveReader:
    """An archive open for reading: the header first, the arrays when it has been believed.

    Parameters
    ----------
    file : binary file
        Seekable.
    kind : str, default="model"
        What the file must be.

    Raises
    ------
    ArchiveError
        If it is not an archive of this kind; members of `HOSTILE` where a reader gave up.
    """

    def __init__(self, file: IO[bytes], kind: str = "model") -> None:
        self._none = f"is not a sparsebayes {kind} file"
        self._header = f"{kind}.json"
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        begins_as_zip = file.read(4) == b"PK\x03\x04"
        if not zipfile.is_zipfile(file):
            if begins_as_zip:
                raise ArchiveError("is truncated: copy it again")
            raise ArchiveError(self._none)
        self._archive = zipfile.ZipFile(file)
        infos = self._archive.infolist()
        self._members = {info.filename: info for info in infos}
        if len(self._members) != len(infos):
            raise ArchiveError("is damaged (two members of one name)")
        if self._header not in self._members:
            raise ArchiveError(f"{self._none}: it has no {self._header}")
        if any(info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 for info in infos):
            raise ArchiveError(
                f"was packed again by another program: {kind} files are not compressed"
            )
        # Without compression this bounds all that reading can allocate, overlaps included.
        if sum(info.file_size for info in infos) > size:
            raise ArchiveError("is damaged (its members are larger than the file)")

    def header(self) -> dict[str, Any]:
        """Read the JSON object."""
        header = json.loads(self._archive.read(self._members[self._header]).decode("utf-8"))
        if not isinstance(header, dict):
            raise ArchiveError(self._none)
        return header

    def arrays(self, header: dict[str, Any]) -> Arrays:
        """Read the arrays that the header names."""
        return {name: self._array(name) for name in texts(header["arrays"])}

    def _array(self, name: str) -> NDArray[Any]:
        member = self._members.get(_member(name))
        if member is None:
            raise ArchiveError(f"is damaged (it lacks {shortened(_member(name))})")
        data = self._archive.read(member)
        buffer = io.BytesIO(data)
        shape, _, dtype = _NPY_HEADERS[np.lib.format.read_magic(buffer)](buffer)
        if dtype.kind not in "biuf":
            raise ArchiveError(f"is damaged ({shortened(name)} does not hold numbers)")
        # Before anything is allocated: the shape must be exactly what the bytes can fill.
        size = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or size != len(data) - buffer.tell():
            raise ArchiveError(f"is damaged ({shortened(name)} has not the size its shape says)")
        buffer.seek(0)
        array: NDArray[Any] = np.lib.format.read_array(buffer, allow_pickle=False)
        return array.astype(dtype.newbyteorder("="), copy=False)


def texts(value: Any) -> list[str]:
    """Insist on a list of strings."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ArchiveError("is damaged (a list of names is something else)")
    return value


def shortened(value: object, limit: int = 120) -> str:
    """Bring what a file says of itself to one line of bounded length."""
    text = " ".join(str(value).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _member(name: str) -> str:
    return f"arrays/{name}.npy"


def _npy(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    # Little-endian everywhere: the file does not depend on the machine.
    portable = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    np.lib.format.write_array(buffer, portable, allow_pickle=False)
    return buffer.getvalue()
