"""Sound in wav files: PCM of 8, 16, 24 and 32 bits and floating point, any number of channels."""

from __future__ import annotations

import io
import struct
import warnings
import wave
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy.io import wavfile

from sparsebayes._series_files import TABLES, Array, side_by_side, write_columns
from sparsebayes._tables.arrays import DAMAGE


class SoundFile:
    """A wav file; numbers are those of the file, not scaled to one."""

    kind = "sound"

    def __init__(self, path: str) -> None:
        self.path = path
        self.remarks: list[str] = []
        self.suffixes: tuple[str, ...] = (".wav", ".npy", *TABLES)
        with open(path, "rb") as file:
            content = file.read()
        self.rate, values = _decode(path, content)
        self._dtype = values.dtype
        if not 0 < self.rate * max(values[:1].nbytes, 1) < 2**32:
            raise ValueError(
                f"{path}: not a wav file that can be read ({self.rate} samples a second)"
            )
        if values.dtype == np.int64:
            raise ValueError(f"{path}: integers of 64 bits, which are not exact as floats")
        self.bits = 24 if _sample_bytes(content) == 3 else 8 * values.dtype.itemsize
        count = 1 if values.ndim == 1 else values.shape[1]
        with np.errstate(invalid="ignore"):  # a signaling NaN is as missing as any
            columns = values.reshape(len(values), count).astype(np.float64)
        if self.bits == 24:
            columns /= 256  # wavfile reads 24 bits as the upper ones of 32
        names = {1: ["sound"], 2: ["left", "right"]}.get(
            count, [f"channel {place + 1}" for place in range(count)]
        )
        self.channels = {name: columns[:, place] for place, name in enumerate(names)}

    def array(self, channels: dict[str, Array]) -> NDArray[Any]:
        """Put the channels side by side, shape (samples,) or (samples, channels)."""
        return side_by_side(channels)

    def write(self, file: BinaryIO, suffix: str, channels: dict[str, Array]) -> list[str]:
        """Write the samples in the format that was read, or as a table."""
        if suffix != ".wav":
            write_columns(file, suffix, channels)
            return []
        values = side_by_side(channels)
        if self._dtype.kind == "f":
            wavfile.write(file, self.rate, values.astype(self._dtype))
            return []
        if self.bits == 24:
            # wavfile writes no such files.
            limits = -(2**23), 2**23 - 1
            integers, clipped = rounded(values, limits)
            _write_24_bits(file, self.rate, integers)
        else:
            limits = int(np.iinfo(self._dtype).min), int(np.iinfo(self._dtype).max)
            integers, clipped = rounded(values, limits)
            wavfile.write(file, self.rate, integers.astype(self._dtype))
        return clipping(clipped, values.size, f"{self.bits} bits")


def rounded(values: Array, limits: tuple[int, int]) -> tuple[NDArray[np.int64], int]:
    """Round to integers within limits; also give how many had to be clipped to them."""
    integers = np.rint(values)
    clipped = np.clip(integers, *limits)
    return clipped.astype(np.int64), int(np.count_nonzero(clipped != integers))


def clipping(clipped: int, size: int, format_: str) -> list[str]:
    """What to say of clipped numbers; nothing where there are none."""
    if not clipped:
        return []
    return [f"{clipped} of {size} numbers were beyond the range of {format_} and were clipped"]


def _decode(path: str, content: bytes) -> tuple[int, NDArray[Any]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            rate, values = wavfile.read(io.BytesIO(content))
        except (ValueError, EOFError, *DAMAGE) as error:
            known = str(error) if "Unknown wave file format" in str(error) else "damaged"
            raise ValueError(f"{path}: not a wav file that can be read ({known})") from None
    if any("EOF" in str(warning.message) for warning in caught):
        raise ValueError(f"{path}: the wav file is cut short")
    return int(rate), values


def _sample_bytes(content: bytes) -> int:
    """Bytes of a sample by the header, which wavfile does not tell; 0 if it has none."""
    order = ">" if content[:4] == b"RIFX" else "<"
    start = 12
    while start + 24 <= len(content):
        size = int(struct.unpack(f"{order}I", content[start + 4 : start + 8])[0])
        if content[start : start + 4] == b"fmt ":
            _, channels, _, _, block = struct.unpack(
                f"{order}HHIIH", content[start + 8 : start + 22]
            )
            return int(block // max(channels, 1))
        start += 8 + size + size % 2
    return 0


def _write_24_bits(file: BinaryIO, rate: int, integers: NDArray[np.int64]) -> None:
    content = np.ascontiguousarray(integers, dtype="<i4").view(np.uint8).reshape(-1, 4)
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1 if integers.ndim == 1 else integers.shape[1])
        sound.setsampwidth(3)
        sound.setframerate(rate)
        sound.writeframes(np.ascontiguousarray(content[:, :3]).tobytes())
