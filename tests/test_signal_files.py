"""Signals in and out of files: numbers and formats kept, faults named in one line."""

import os
import wave

import numpy as np
import pytest
from scipy.io import wavfile

from file_checks import refused, through
from sparsebayes._signal_files import (
    SUFFIXES,
    check_output,
    check_std,
    open_signal,
    write_signal,
    write_std,
)

RNG = np.random.default_rng(0)


# ---------------------------------------------------------------------------- any file


def test_files_that_are_none(tmp_path):
    refused(tmp_path / "missing.csv", "no such file")
    refused(tmp_path, "is a directory")
    for suffix in SUFFIXES:
        empty = tmp_path / f"empty{suffix}"
        empty.touch()
        refused(empty, "the file is empty")
        garbage = tmp_path / f"garbage{suffix}"
        garbage.write_bytes(b"\x00\xff\xfe garbage \x80" * 5)
        refused(garbage)
    other = tmp_path / "signal.mp3"
    other.write_bytes(b"x")
    refused(other, "unknown suffix '.mp3'", ".wav")
    nameless = tmp_path / "signal"
    nameless.write_bytes(b"x")
    refused(nameless, "no suffix")


def test_options_of_other_files(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(4.0))
    refused(tmp_path / "a.npy", "--column is for csv", columns=["x"])
    (tmp_path / "a.csv").write_text("x\n1\n2\n")
    refused(tmp_path / "a.csv", "--axis is for npy", axis=0)


def test_an_output_stays_as_it_was_if_writing_fails(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.arange(4.0))
    before = (tmp_path / "a.npy").read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        through(tmp_path / "a.npy", tmp_path / "a.npy", 1.0)
    assert (tmp_path / "a.npy").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]


def test_output_may_be_the_input(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x\n1\n2\n")
    assert through(path, path, 1.0) == []
    assert path.read_text() == "x\n2.0\n3.0\n"


# ---------------------------------------------------------------------------- tables


def test_one_column(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("volt\n0.1\nNA\n1e-3\n")
    signal = open_signal(str(path))
    np.testing.assert_array_equal(signal.channels["volt"], [0.1, np.nan, 1e-3])
    assert list(signal.channels) == ["volt"]


def test_no_header(tmp_path):
    path = tmp_path / "a.csv"
    np.savetxt(path, RNG.normal(size=50))
    signal = open_signal(str(path))
    np.testing.assert_array_equal(signal.channels["1"], np.loadtxt(path))
    assert through(path, tmp_path / "b.csv", 1.0) == []
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "b.csv"), np.loadtxt(path) + 1.0)
    table = tmp_path / "c.csv"
    table.write_text("0,5,1\n1,4,3\n2,5,2\n")
    assert list(open_signal(str(table)).channels) == ["2", "3"]
    assert list(open_signal(str(table), columns=["3"]).channels) == ["3"]
    refused(table, "--column", "numbered from 1 to 3", columns=["x"])


@pytest.mark.parametrize("position", ["0 1 2 3", "7 5 3 1", "a b c d", "0.33 0.67 1.0 1.33"])
def test_positions_are_kept(tmp_path, position):
    path = tmp_path / "a.csv"
    rows = zip(position.split(), "3151", "2718", strict=True)
    path.write_text("t,x,y\n" + "".join(f"{','.join(row)}\n" for row in rows))
    signal = open_signal(str(path))
    assert list(signal.channels) == ["x", "y"]
    assert signal.position == "t"
    assert signal.remarks == []
    through(path, tmp_path / "b.csv", 0.5)
    lines = [line.split(",") for line in (tmp_path / "b.csv").read_text().splitlines()]
    assert lines[0] == ["t", "x", "y"]
    assert [line[0] for line in lines[1:]] == position.split()
    assert [line[2] for line in lines[1:]] == ["2.5", "7.5", "1.5", "8.5"]


def test_positions_with_gaps_are_said_to_be_uneven(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("t,x\n0,3\n1,1\n5,4\n6,1\n")
    signal = open_signal(str(path))
    assert list(signal.channels) == ["x"]
    assert "'t' is not equally spaced" in signal.remarks[0]


def test_a_first_column_that_goes_up_and_down_is_a_signal(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n3,1\n1,2\n4,3\n")
    signal = open_signal(str(path))
    assert list(signal.channels) == ["x", "y"]
    assert signal.position is None


def test_named_columns_and_the_rest_as_it_was(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('day;"a;b";x;note\n1;007;3;"one; two"\n2;008;1;\n')
    signal = open_signal(str(path), columns=["x"])
    changed = {"x": signal.channels["x"] * 2}
    write_signal(signal, str(tmp_path / "b.csv"), changed)
    written = (tmp_path / "b.csv").read_text()
    assert written == 'day;"a;b";x;note\n1;007;6.0;"one; two"\n2;008;2.0;\n'
    write_signal(signal, str(tmp_path / "b.tsv"), changed)
    assert (tmp_path / "b.tsv").read_text().splitlines()[1] == "1\t007\t6.0\tone; two"
    refused(path, "--column", "no column 'X'", "did you mean 'x'?", columns=["X"])


def test_numbers_read_back_the_same(tmp_path):
    path = tmp_path / "a.csv"
    values = RNG.normal(size=100) * 10.0 ** RNG.integers(-200, 200, 100)
    path.write_text("x\n" + "\n".join(map(repr, values.tolist())))
    through(path, tmp_path / "b.csv")
    np.testing.assert_array_equal(open_signal(str(tmp_path / "b.csv")).channels["x"], values)


def test_faulty_tables(tmp_path):
    path = tmp_path / "a.csv"
    for text, words in {
        "x\n1\ntwo\n": ["'x'", "row 2", "line 3", "'two'"],
        "t,x\n0,1\n1,high\n": ["'x'", "'high'"],
        "x\n": ["no samples"],
        "t,x\n0,\n1,nan\n": ["no samples: all are missing"],
        "t,x,y\n0,1,\n1,nan,\n": ["'y'", "all are missing"],
        "x\n1\n-inf\n": ["infinite value at sample 2"],
        "x,x\n1,2\n": ["'x' appears more than once"],
        "t,x\n0,1\n1\n": ["row 2", "1 fields"],
        "x\n1\n\n2\n": ["line 3 is blank", "nan"],
    }.items():
        path.write_text(text)
        refused(path, *words)


def test_a_column_of_several_may_have_gaps_and_blank_lines_around_it(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("t,x\n0,1\n\n1,\n2,3\n\n")
    np.testing.assert_array_equal(open_signal(str(path)).channels["x"], [1, np.nan, 3])
    path.write_text("x\n1\n2\n\n\n")
    np.testing.assert_array_equal(open_signal(str(path)).channels["x"], [1, 2])


# ---------------------------------------------------------------------------- arrays


@pytest.mark.parametrize("shape", [(9,), (4, 5)])
@pytest.mark.parametrize("dtype", ["float64", "float32", ">f8", "int16", "uint8"])
def test_arrays(tmp_path, shape, dtype):
    values = RNG.integers(0, 200, shape).astype(dtype)
    np.save(tmp_path / "a.npy", values)
    np.testing.assert_array_equal(open_signal(str(tmp_path / "a.npy")).channels["signal"], values)
    through(tmp_path / "a.npy", tmp_path / "b.npy", 0.25)
    written = np.load(tmp_path / "b.npy")
    assert written.dtype == (values.dtype if values.dtype.kind == "f" else np.float64)
    np.testing.assert_array_equal(written, values + 0.25)


def test_arrays_of_more_dimensions_need_an_axis(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.ones((2, 3, 4)))
    refused(path, "3 dimensions", "--axis")
    refused(path, "--axis 3", axis=3)


@pytest.mark.parametrize("axis", [-3, -2, -1, 0, 1, 2])
def test_lines_along_an_axis(tmp_path, axis):
    path = tmp_path / "a.npy"
    values = RNG.normal(size=(2, 3, 4)).astype(np.float32)
    np.save(path, values)
    signal = open_signal(str(path), axis=axis)
    assert list(signal.channels)[:2] == ["line 1", "line 2"]
    np.testing.assert_array_equal(signal.channels["line 1"], np.moveaxis(values, axis, -1)[0, 0])
    changed = {name: np.cumsum(line) for name, line in signal.channels.items()}
    write_signal(signal, str(tmp_path / "b.npy"), changed)
    expected = np.cumsum(values.astype(float), axis=axis)
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), expected.astype(np.float32))
    write_std(signal, str(tmp_path / "s.npy"), changed)
    np.testing.assert_array_equal(np.load(tmp_path / "s.npy"), expected.astype(np.float32))
    with pytest.raises(ValueError, match="suffixes .npy$"):
        check_std(signal, "s.csv")


def test_one_dimension_along_its_axis(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(5.0))
    signal = open_signal(str(tmp_path / "a.npy"), axis=0)
    write_signal(signal, str(tmp_path / "b.npy"), signal.channels)
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), np.arange(5.0))


def test_a_signal_as_a_table_and_a_field_as_a_picture(tmp_path):
    values = RNG.normal(size=9)
    np.save(tmp_path / "a.npy", values)
    through(tmp_path / "a.npy", tmp_path / "b.tsv")
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "b.tsv", skiprows=1), values)
    pytest.importorskip("PIL")
    field = RNG.normal(size=(4, 5)).astype(np.float32)
    np.save(tmp_path / "c.npy", field)
    through(tmp_path / "c.npy", tmp_path / "d.tiff")
    np.testing.assert_array_equal(open_signal(str(tmp_path / "d.tiff")).channels["gray"], field)


def test_faulty_arrays(tmp_path):
    path = tmp_path / "a.npy"
    for values, word in [
        (np.ones(4) + 1j, "complex"),
        (np.array(["a", "b"]), "numbers are needed"),
        (np.array([True, False]), "bool"),
        (np.float64(3.0), "a single number"),
        (np.empty(0), "no samples"),
        (np.empty((0, 4)), "no samples"),
        (np.full((3, 3), np.nan), "all are missing"),
        (np.array([[1.0, 2.0], [np.inf, 3.0]]), "infinite value at sample 2 x 1"),
    ]:
        np.save(path, values)
        refused(path, word)
    np.save(path, np.arange(100.0))
    whole = path.read_bytes()
    for length in (3, 40, 100, len(whole) - 1):
        path.write_bytes(whole[:length])
        refused(path, "not a npy file")


def test_a_pickle_in_an_array_is_not_opened(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "opened"),)

    np.save(tmp_path / "a.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    refused(tmp_path / "a.npy", "objects, not numbers")
    assert not (tmp_path / "opened").exists()


# ---------------------------------------------------------------------------- sound


@pytest.mark.parametrize("shape", [(50,), (50, 2), (50, 3)])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "float32", "float64"])
def test_sound(tmp_path, shape, dtype):
    values = RNG.integers(0, 200, shape).astype(dtype)
    wavfile.write(tmp_path / "a.wav", 8000, values)
    signal = open_signal(str(tmp_path / "a.wav"))
    assert signal.rate == 8000
    names = {1: ["sound"], 2: ["left", "right"], 3: ["channel 1", "channel 2", "channel 3"]}
    assert list(signal.channels) == names[values.size // 50]
    np.testing.assert_array_equal(np.stack(list(signal.channels.values()), 1).ravel(), values.flat)
    assert through(tmp_path / "a.wav", tmp_path / "b.wav", 1.2) == []
    rate, written = wavfile.read(tmp_path / "b.wav")
    assert rate == 8000
    assert written.dtype == values.dtype
    expected = values + (1.2 if values.dtype.kind == "f" else 1)
    np.testing.assert_allclose(written, expected, rtol=1e-6)


def write_24_bits(path, values):
    with wave.open(str(path), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(3)
        sound.setframerate(44100)
        sound.writeframes(b"".join(int(v).to_bytes(3, "little", signed=True) for v in values))


def test_sound_of_24_bits(tmp_path):
    values = RNG.integers(-(2**23), 2**23, 60)
    values[:2] = -(2**23), 2**23 - 1
    write_24_bits(tmp_path / "a.wav", values)
    np.testing.assert_array_equal(open_signal(tmp_path / "a.wav").channels["sound"], values)
    assert through(tmp_path / "a.wav", tmp_path / "b.wav") == []
    assert (tmp_path / "b.wav").read_bytes() == (tmp_path / "a.wav").read_bytes()
    remarks = through(tmp_path / "a.wav", tmp_path / "b.wav", 1.0)
    assert remarks == ["1 of 60 numbers were beyond the range of 24 bits and were clipped"]
    _, written = wavfile.read(tmp_path / "b.wav")
    np.testing.assert_array_equal(written // 256, np.minimum(values + 1, 2**23 - 1))


@pytest.mark.parametrize(("dtype", "bits"), [("uint8", 8), ("int16", 16), ("int32", 32)])
def test_clipped_samples_are_counted(tmp_path, dtype, bits):
    limits = np.iinfo(dtype)
    values = np.array([limits.min, limits.min + 9, 100, limits.max - 9, limits.max], dtype=dtype)
    wavfile.write(tmp_path / "a.wav", 8000, values)
    (remark,) = through(tmp_path / "a.wav", tmp_path / "b.wav", 5.0)
    assert f"1 of 5 numbers were beyond the range of {bits} bits" in remark
    _, written = wavfile.read(tmp_path / "b.wav")
    assert written.tolist() == [limits.min + 5, limits.min + 14, 105, limits.max - 4, limits.max]


def test_sound_as_array_and_table(tmp_path):
    values = RNG.integers(-99, 99, (20, 2)).astype(np.int16)
    wavfile.write(tmp_path / "a.wav", 8000, values)
    through(tmp_path / "a.wav", tmp_path / "b.npy", 0.5)
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), values + 0.5)
    through(tmp_path / "a.wav", tmp_path / "b.csv", 0.5)
    assert (tmp_path / "b.csv").read_text().startswith("left,right\n")


def test_faulty_sound(tmp_path):
    path = tmp_path / "a.wav"
    wavfile.write(path, 8000, np.arange(100, dtype=np.int16).reshape(50, 2))
    whole = path.read_bytes()
    for content in [
        whole[:30],
        whole[:101],
        b"RIFF",
        whole[:22] + b"\0\0" + whole[24:],  # no channels
        whole[:4] + bytes(4) + whole[8:],  # a length of zero
        whole[:12] + b"JUNK" + whole[16:],
    ]:
        path.write_bytes(content)
        refused(path, "not a wav file that can be read")
    path.write_bytes(whole[:100])
    refused(path, "cut short")
    path.write_bytes(whole[:20] + b"\x07\x00" + whole[22:])
    refused(path, "MULAW")
    wavfile.write(path, 8000, np.empty(0, dtype=np.int16))
    refused(path, "no samples")
    wavfile.write(path, 8000, np.ones(4, dtype=np.int64))
    refused(path, "64 bits")
    wavfile.write(path, 8000, np.ones(4, dtype=np.float32))
    whole = path.read_bytes()
    path.write_bytes(whole[:24] + b"\xff\xff\xff\xff" + whole[28:])
    refused(path, "4294967295 samples a second")


# ---------------------------------------------------------------------------- damaged files


@pytest.mark.parametrize("suffix", [".csv", ".npy", ".wav", ".png", ".tif"])
def test_damaged_files_are_read_or_refused(tmp_path, suffix, capfd):
    """Bytes changed, removed or put in: nothing but a ValueError that names the file."""
    path = tmp_path / f"a{suffix}"
    values = RNG.integers(0, 99, (12, 13)).astype(np.uint8)
    if suffix == ".csv":
        path.write_text("t,x\n" + "".join(f"{row},{row * row % 7}\n" for row in range(20)))
    elif suffix == ".npy":
        np.save(path, values.astype(float))
    elif suffix == ".wav":
        wavfile.write(path, 8000, values.astype(np.float32))
    else:
        pytest.importorskip("PIL.Image").fromarray(values).save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    messages = []
    tries = 100 if suffix == ".tif" else 300  # pictures may become large
    for _ in range(tries):
        content = bytearray(whole)
        for _ in range(rng.integers(1, 5)):
            place = int(rng.integers(0, max(1, min(len(content), 200))))
            choice = rng.integers(3)
            if choice == 0:
                content[place : place + 1] = rng.bytes(1)
            elif choice == 1:
                del content[place : place + int(rng.integers(1, 9))]
            else:
                content[place:place] = rng.bytes(3)
        path.write_bytes(content or b"x")
        try:
            through(path, tmp_path / f"b{suffix}")
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) > tries / 3
    assert all(str(path) in message for message in messages)
    capfd.readouterr()  # libtiff writes to stderr by itself


# ---------------------------------------------------------------------------- what fits what


def test_formats_that_do_not_fit(tmp_path):
    picture = pytest.importorskip("PIL.Image")
    (tmp_path / "a.csv").write_text("x\n1\n2\n")
    np.save(tmp_path / "one.npy", np.ones(4))
    np.save(tmp_path / "two.npy", np.ones((4, 4)))
    wavfile.write(tmp_path / "a.wav", 8000, np.ones(4, dtype=np.int16))
    picture.fromarray(np.ones((4, 4, 3), dtype=np.uint8)).save(tmp_path / "a.png")
    for name, outputs in {
        "a.csv": ".wav .png .tif",
        "one.npy": ".wav .png .tif",
        "two.npy": ".csv .wav .png",
        "a.wav": ".png .tiff",
        "a.png": ".csv .wav",
    }.items():
        signal = open_signal(str(tmp_path / name))
        for suffix in outputs.split():
            with pytest.raises(ValueError, match=f"cannot be written as {suffix}, use one of"):
                check_output(signal, str(tmp_path / f"b{suffix}"))
        with pytest.raises(ValueError, match="unknown suffix '.mp3'"):
            check_output(signal, str(tmp_path / "b.mp3"))


def test_standard_deviations(tmp_path):
    picture = pytest.importorskip("PIL.Image")
    wavfile.write(tmp_path / "a.wav", 8000, np.ones((4, 2), dtype=np.int16))
    picture.fromarray(np.ones((4, 4), dtype=np.uint8)).save(tmp_path / "gray.png")
    picture.fromarray(np.ones((4, 4, 4), dtype=np.uint8)).save(tmp_path / "color.png")
    for name, fitting, others in [
        ("a.wav", ".npy .csv .tsv", ".wav .png"),
        ("gray.png", ".npy .tif .tiff", ".png .csv"),
        ("color.png", ".npy", ".tiff .csv"),
    ]:
        signal = open_signal(str(tmp_path / name))
        for suffix in fitting.split():
            check_std(signal, f"std{suffix}")
        for suffix in others.split():
            with pytest.raises(ValueError, match="standard deviations of .* suffixes .npy"):
                check_std(signal, f"std{suffix}")
    sound, gray, color = (
        open_signal(str(tmp_path / name)) for name in ["a.wav", "gray.png", "color.png"]
    )
    left, right = RNG.normal(size=(2, 4))
    write_std(sound, str(tmp_path / "std.csv"), {"left": left, "right": right})
    rows = np.loadtxt(tmp_path / "std.csv", delimiter=",", skiprows=1)
    np.testing.assert_array_equal(rows, np.stack([left, right], 1))
    write_std(sound, str(tmp_path / "std.npy"), {"left": left, "right": right})
    np.testing.assert_array_equal(np.load(tmp_path / "std.npy"), np.stack([left, right], 1))
    field = RNG.normal(size=(4, 4)).astype(np.float32)
    write_std(gray, str(tmp_path / "std.tif"), {"gray": field})
    np.testing.assert_array_equal(np.asarray(picture.open(tmp_path / "std.tif")), field)
    write_std(color, str(tmp_path / "std.npy"), dict.fromkeys(("red", "green", "blue"), field))
    np.testing.assert_array_equal(np.load(tmp_path / "std.npy"), np.dstack([field] * 3))
