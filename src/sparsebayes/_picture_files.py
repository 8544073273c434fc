"""Pictures in png and tiff files by Pillow: gray or color, 8 or 16 bits, or floating point."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sparsebayes._series_files import Array, side_by_side
from sparsebayes._sound_files import clipping, rounded
from sparsebayes._tables.arrays import DAMAGE

PICTURES = (".png", ".tif", ".tiff")
_TIFF = (".tif", ".tiff")
_COLORS = ("red", "green", "blue")
# What a picture of each mode holds: channels, whether an alpha channel follows, largest number.
_MODES: dict[str, tuple[tuple[str, ...], bool, int | None]] = {
    "L": (("gray",), False, 255),
    "LA": (("gray",), True, 255),
    "RGB": (_COLORS, False, 255),
    "RGBA": (_COLORS, True, 255),
    "I;16": (("gray",), False, 65535),
    "F": (("gray",), False, None),
}
_CONVERTED = {
    "1": ("L", "two levels, written with 256"),
    "I;16B": ("I;16", ""),
    "I;16L": ("I;16", ""),
}
# Lossless: noise that a jpeg would add is not wanted.
_COMPRESSIONS = ("raw", "packbits", "tiff_lzw", "tiff_deflate", "tiff_adobe_deflate")


class PictureFile:
    """A picture; colors are channels of their own, an alpha channel is kept as it is."""

    kind = "picture"

    def __init__(self, path: str) -> None:
        need_pillow(path)
        self.path = path
        self.remarks: list[str] = []
        image = self._open()
        self._mode = image.mode
        names, has_alpha, self._largest = _MODES[image.mode]
        values = np.asarray(image)
        layers = values.reshape(*values.shape[:2], -1)
        self._alpha = layers[..., -1] if has_alpha else None
        with np.errstate(invalid="ignore"):  # a signaling NaN is as missing as any
            self.channels = {
                name: layers[..., place].astype(np.float64) for place, name in enumerate(names)
            }
        self.suffixes: tuple[str, ...] = (*(_TIFF if self._mode == "F" else PICTURES), ".npy")
        kept = ("icc_profile", "dpi")
        self._settings = {key: image.info[key] for key in kept if key in image.info}
        self._compression = image.info.get("compression", "tiff_deflate")

    def _open(self) -> Any:
        from PIL import Image, ImageOps, UnidentifiedImageError

        try:
            # Pillow warns of metadata that it cannot use, and of large pictures.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with Image.open(self.path, formats=("PNG", "TIFF")) as opened:
                    fault = _fault(opened, self.path)
                    if not fault:
                        opened.load()
                        # Older versions of Pillow read gray of 16 bits from png files as 32.
                        deep = opened.mode == "I" and opened.format == "PNG"
                        image = opened.convert("I;16") if deep else opened
                        # Stored turned or mirrored, with a note on it that would be lost.
                        upright = ImageOps.exif_transpose(image)
        except UnidentifiedImageError:
            fault = "not a png or tiff picture, damaged, or of a kind that Pillow does not know"
        except (OSError, EOFError, ValueError, *DAMAGE) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            fault = f"the picture is damaged ({error})"
        except Image.DecompressionBombError as error:
            fault = f"the picture is too large ({error})"
        if fault:
            raise ValueError(f"{self.path}: {' '.join(fault.split())}")
        return self._converted(upright)

    def _converted(self, image: Any) -> Any:
        if image.mode in ("P", "PA"):
            self.remarks.append("a palette of colors, written as colors")
            image = image.convert(
                "RGBA" if image.mode == "PA" or "transparency" in image.info else "RGB"
            )
        elif image.mode in _CONVERTED:
            mode, remark = _CONVERTED[image.mode]
            self.remarks += [remark] if remark else []
            image = image.convert(mode)
        elif "transparency" in image.info:
            self.remarks.append("one color is transparent, which is not kept")
        if image.mode not in _MODES:
            raise ValueError(
                f"{self.path}: holds {image.mode}: convert it to gray, RGB or floating point first"
            )
        return image

    def array(self, channels: dict[str, Array]) -> NDArray[Any]:
        """Put the channels, and alpha, on the last axis; gray without alpha has only two axes."""
        found = side_by_side(channels)
        return found if self._alpha is None else np.dstack([found, self._alpha])

    def write(self, file: BinaryIO, suffix: str, channels: dict[str, Array]) -> list[str]:
        """Write the picture with as many bits as were read."""
        from PIL import Image

        values = self.array(channels)
        remarks: list[str] = []
        if self._largest is None:
            image = Image.fromarray(values.astype(np.float32))
        else:
            integers, clipped = rounded(values, (0, self._largest))
            remarks = clipping(clipped, values.size, "a picture")
            image = Image.fromarray(
                integers.astype(np.uint8 if self._largest == 255 else np.uint16)
            )
        save_picture(file, suffix, image, self._compression, self._settings)
        return remarks


def write_floats(file: BinaryIO, suffix: str, values: Array) -> None:
    """Write numbers of the plane as a tiff picture of floating point."""
    from PIL import Image

    save_picture(file, suffix, Image.fromarray(values.astype(np.float32)), "tiff_deflate", {})


def save_picture(
    file: BinaryIO, suffix: str, image: Any, compression: str, settings: dict[str, Any]
) -> None:
    """Write an image of Pillow's; a lossy compression becomes a lossless one."""
    if suffix == ".png":
        image.save(file, format="PNG", **settings)
        return
    lossless = compression if compression in _COMPRESSIONS else "tiff_deflate"
    image.save(file, format="TIFF", compression=lossless, **settings)


def need_pillow(path: str) -> None:
    """Refuse a picture where nothing can read or write one."""
    if importlib.util.find_spec("PIL") is None:
        raise ValueError(f'{path}: pictures need Pillow: pip install "sparsebayes[image]"')


def _fault(image: Any, path: str) -> str:
    """What forbids to use a picture; of numbers, Pillow tells only the mode it turns them into."""
    pages = getattr(image, "n_frames", 1)
    if pages > 1:
        return f"{pages} pages or frames: split them"
    advice = "cannot be read without loss: convert it to 8 bits, to gray of 16, or to a npy file"
    if image.format == "TIFF":
        bits, kinds = image.tag_v2.get(258, (1,)), image.tag_v2.get(339, (1,))
        if image.mode == "F":
            return ""
        if any(kind != 1 for kind in kinds):
            return f"signed numbers of {max(bits)} bits, which {advice}"
        if max(bits) > 16 or (max(bits) > 8 and len(bits) > 1):
            return f"{len(bits)} x {max(bits)} bits, which {advice}"
        return ""
    with open(path, "rb") as file:
        header = file.read(26)
    # Bits and kind of color are behind the signature, and length, name, width and height.
    bits, color = header[24], header[25]
    return f"colors of 16 bits, which {advice}" if bits == 16 and color != 0 else ""
