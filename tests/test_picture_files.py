"""Pictures in and out of files: every pixel and format kept, or refused in one line."""

import struct
import sys
import zlib

import numpy as np
import pytest

from file_checks import refused, through
from sparsebayes._signal_files import check_output, check_std, open_signal

RNG = np.random.default_rng(0)


@pytest.fixture
def picture():
    return pytest.importorskip("PIL.Image")


KINDS = {
    "L": ((6, 7), np.uint8, ["gray"]),
    "LA": ((6, 7, 2), np.uint8, ["gray"]),
    "RGB": ((6, 7, 3), np.uint8, ["red", "green", "blue"]),
    "RGBA": ((6, 7, 4), np.uint8, ["red", "green", "blue"]),
    "I;16": ((6, 7), np.uint16, ["gray"]),
}


@pytest.mark.parametrize("suffix", [".png", ".tif", ".tiff"])
@pytest.mark.parametrize("mode", KINDS)
def test_pictures(picture, tmp_path, mode, suffix):
    shape, dtype, names = KINDS[mode]
    values = RNG.integers(5, np.iinfo(dtype).max - 5, shape).astype(dtype)
    picture.fromarray(values).save(tmp_path / f"a{suffix}")
    signal = open_signal(str(tmp_path / f"a{suffix}"))
    layers = values.reshape(6, 7, -1)
    assert list(signal.channels) == names
    for place, found in enumerate(signal.channels.values()):
        np.testing.assert_array_equal(found, layers[..., place])
    for output in (".png", ".tiff"):
        assert through(tmp_path / f"a{suffix}", tmp_path / f"b{output}", 1.4) == []
        image = picture.open(tmp_path / f"b{output}")
        assert image.mode == mode
        expected = layers.astype(int) + 1
        if mode.endswith("A"):
            expected[..., -1] -= 1
        np.testing.assert_array_equal(np.asarray(image), expected.reshape(shape))
    through(tmp_path / f"a{suffix}", tmp_path / "b.npy", 0.5)
    written = np.load(tmp_path / "b.npy")
    assert written.shape == shape
    np.testing.assert_array_equal(written.reshape(6, 7, -1)[..., 0], layers[..., 0] + 0.5)


def test_floating_point(picture, tmp_path):
    values = RNG.normal(size=(6, 7)).astype(np.float32)
    values[2, 3] = np.nan
    picture.fromarray(values).save(tmp_path / "a.tif")
    np.testing.assert_array_equal(open_signal(str(tmp_path / "a.tif")).channels["gray"], values)
    through(tmp_path / "a.tif", tmp_path / "b.tif", 1.0)
    np.testing.assert_array_equal(np.asarray(picture.open(tmp_path / "b.tif")), values + 1)
    with pytest.raises(ValueError, match="cannot be written as .png, use one of .tif, .tiff, .npy"):
        through(tmp_path / "a.tif", tmp_path / "b.png")


def test_clipped_pixels_are_counted(picture, tmp_path):
    picture.fromarray(np.array([[0, 254], [255, 128]], dtype=np.uint8)).save(tmp_path / "a.png")
    remarks = through(tmp_path / "a.png", tmp_path / "b.png", 1.0)
    assert remarks == ["1 of 4 numbers were beyond the range of a picture and were clipped"]
    assert np.asarray(picture.open(tmp_path / "b.png")).tolist() == [[1, 255], [255, 129]]
    assert "1 of 4" in through(tmp_path / "a.png", tmp_path / "b.png", -1.0)[0]


@pytest.mark.parametrize("transparent", [False, True])
def test_palettes(picture, tmp_path, transparent):
    image = picture.fromarray(RNG.integers(0, 9, (6, 7)).astype(np.uint8), "L").convert("P")
    image.putpalette(list(range(255, 255 - 27, -1)))
    image.save(tmp_path / "a.png", **({"transparency": 3} if transparent else {}))
    signal = open_signal(str(tmp_path / "a.png"))
    assert list(signal.channels) == ["red", "green", "blue"]
    assert "palette" in signal.remarks[0]
    through(tmp_path / "a.png", tmp_path / "b.png")
    mode = "RGBA" if transparent else "RGB"
    written = picture.open(tmp_path / "b.png")
    assert written.mode == mode
    same = np.asarray(picture.open(tmp_path / "a.png").convert(mode))
    np.testing.assert_array_equal(np.asarray(written), same)


def test_two_levels(picture, tmp_path):
    picture.fromarray(RNG.integers(0, 2, (6, 7)).astype(bool)).save(tmp_path / "a.png")
    signal = open_signal(str(tmp_path / "a.png"))
    assert set(np.unique(signal.channels["gray"])) == {0.0, 255.0}
    assert "two levels" in signal.remarks[0]


def test_a_turned_picture_is_put_upright(picture, tmp_path):
    image = picture.fromarray(np.arange(12, dtype=np.uint8).reshape(3, 4))
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(tmp_path / "a.png", exif=exif)
    through(tmp_path / "a.png", tmp_path / "b.png")
    expected = np.rot90(np.arange(12).reshape(3, 4), -1)
    np.testing.assert_array_equal(np.asarray(picture.open(tmp_path / "b.png")), expected)


def test_resolution_profile_and_compression_are_kept(picture, tmp_path):
    image = picture.fromarray(np.zeros((3, 4), dtype=np.uint8))
    settings = {"dpi": (300, 300), "icc_profile": b"profile"}
    image.save(tmp_path / "a.tif", compression="tiff_lzw", **settings)
    through(tmp_path / "a.tif", tmp_path / "b.tif")
    with picture.open(tmp_path / "b.tif") as written:
        info = written.info
    assert info["compression"] == "tiff_lzw"
    assert info["dpi"] == (300, 300)
    assert info["icc_profile"] == b"profile"


def png(depth, color, width=4, height=4):
    """A png by hand: Pillow writes no colors of 16 bits."""
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[color]
    row = b"\0" + bytes(width * channels * depth // 8)

    def chunk(name, content):
        checksum = zlib.crc32(name + content)
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(row * height))
    return b"\x89PNG\r\n\x1a\n" + chunks + chunk(b"IEND", b"")


def test_pictures_that_cannot_be_read_without_loss(picture, tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(png(16, 0))
    assert list(open_signal(str(path)).channels) == ["gray"]
    for color in (2, 4, 6):
        path.write_bytes(png(16, color))
        refused(path, "colors of 16 bits, which cannot be read without loss")
    path = tmp_path / "a.tif"
    picture.fromarray(np.zeros((4, 4), dtype=np.int32)).save(path)
    refused(path, "signed")
    picture.fromarray(np.zeros((4, 4, 4), dtype=np.uint8), "CMYK").save(path)
    refused(path, "CMYK", "convert")
    tifffile = pytest.importorskip("tifffile")
    for values in (
        np.zeros((4, 5, 3), dtype=np.uint16),
        np.zeros((4, 5), dtype=np.int8),
        np.zeros((4, 5), dtype=np.int16),
        np.zeros((4, 5), dtype=np.uint32),
        np.zeros((4, 5), dtype=np.float64),
    ):
        tifffile.imwrite(path, values, photometric="rgb" if values.ndim == 3 else "minisblack")
        refused(path)


def test_faulty_pictures(picture, tmp_path):
    pages = [picture.fromarray(np.full((4, 4), level, dtype=np.uint8)) for level in (1, 2)]
    for suffix in (".tif", ".png"):
        path = tmp_path / f"pages{suffix}"
        pages[0].save(path, save_all=True, append_images=pages[1:])
        refused(path, "2 pages or frames")
    noise = picture.fromarray(RNG.integers(0, 255, (40, 40)).astype(np.uint8))
    for suffix in (".tif", ".png"):
        path = tmp_path / f"a{suffix}"
        noise.save(path)
        whole = path.read_bytes()
        for length in (10, 60, len(whole) // 2):
            path.write_bytes(whole[:length])
            refused(path)
    noise.save(tmp_path / "a.jpg")
    (tmp_path / "a.jpg").rename(tmp_path / "jpg.png")
    refused(tmp_path / "jpg.png", "not a png or tiff picture")


def test_pictures_without_pillow(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    path.write_bytes(png(8, 0))
    monkeypatch.setitem(sys.modules, "PIL", None)
    refused(path, 'pip install "sparsebayes[image]"')
    np.save(tmp_path / "b.npy", np.ones((4, 4)))
    signal = open_signal(str(tmp_path / "b.npy"))
    for check in check_output, check_std:
        with pytest.raises(ValueError, match="pictures need Pillow"):
            check(signal, str(tmp_path / "b.tif"))
