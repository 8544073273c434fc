"""The command that denoises files: what it writes, says and refuses."""

import re
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from scipy.io import wavfile

from sparsebayes import _console, denoise
from sparsebayes.commands import _denoising
from sparsebayes.datasets import blocks, bumps

RNG = np.random.default_rng(0)
SIGNAL = blocks(512, snr=7, random_state=0).y
OTHER = bumps(512, snr=7, random_state=1).y


def square(rows=32, columns=40):
    """A bright square on dark ground, in noise."""
    picture = np.full((rows, columns), 60.0)
    picture[8:20, 10:30] = 180.0
    return np.clip(np.rint(picture + 10 * RNG.normal(size=picture.shape)), 0, 255)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "noisy.csv"
    rows = zip(np.arange(512) / 100, SIGNAL, OTHER, strict=True)
    lines = [f"{t},{x!r},{y!r},a" for t, x, y in ((t, float(x), float(y)) for t, x, y in rows)]
    path.write_text("t,x,y,note\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture
def array(tmp_path):
    path = tmp_path / "noisy.npy"
    np.save(path, SIGNAL)
    return path


# ---------------------------------------------------------------------------- what works


def test_an_array(run, array, tmp_path):
    output, std = tmp_path / "clean.npy", tmp_path / "std.npy"
    code, out, err = run("denoise", array, "--output", output, "--std", std)
    assert (code, err) == (0, "")
    expected = denoise(SIGNAL)
    np.testing.assert_allclose(np.load(output), expected.signal, rtol=1e-12)
    np.testing.assert_allclose(np.load(std), expected.std, rtol=1e-9)
    for word in (
        f"{array} by wavelets sym8, prior bic\n",
        "samples       512\n",
        f"{expected.n_atoms} of 512 coefficients\n",
        f"freedom       {expected.degrees_of_freedom:.1f} degrees\n",
        f"noise found   {expected.noise_variance**0.5:.4g} standard deviation\n",
        f"log evidence  {expected.log_marginal_likelihood:.3f}\n",
        "certificate   no single change of an atom gains more than ",
        "time          ",
        f"output        {output}\n",
        f"std           {std}\n",
    ):
        assert word in out
    assert "missing" not in out


def test_options_reach_the_function(run, array, tmp_path):
    output = tmp_path / "clean.npy"
    options = ["--wavelet", "HAAR", "--prior", "1.5", "--level", "3", "--noise-variance", "0.9"]
    code, out, err = run("denoise", array, "--output", output, *options)
    assert (code, err) == (0, "")
    expected = denoise(SIGNAL, "haar", 1.5, 0.9, level=3)
    np.testing.assert_allclose(np.load(output), expected.signal, rtol=1e-12)
    assert "wavelets haar, prior 1.5" in out
    assert "noise given   0.9487 standard" in out
    code, out, err = run(
        "denoise", array, "--output", output, "--by-scale", "--noise-variance", "mad"
    )
    assert (code, err) == (0, "")
    expected = denoise(SIGNAL, noise_variance="mad", by_scale=True)
    np.testing.assert_allclose(np.load(output), expected.signal, rtol=1e-12)
    assert "prior bic by scale\n" in out
    assert f"noise found   {expected.noise_variance**0.5:.4g} standard" in out


def test_named_columns_of_a_table(run, table, tmp_path):
    output = tmp_path / "clean.csv"
    code, out, err = run("denoise", table, "--column", "y", "--output", output)
    assert (code, err) == (0, "")
    before, after = (
        [line.split(",") for line in path.read_text().splitlines()] for path in (table, output)
    )
    assert [row[:2] + row[3:] for row in before] == [row[:2] + row[3:] for row in after]
    clean = [float(row[2]) for row in after[1:]]
    np.testing.assert_allclose(clean, denoise(OTHER).signal, rtol=1e-12)
    assert "samples       512\n" in out


def test_all_columns_of_a_table(run, tmp_path):
    path, output = tmp_path / "noisy.tsv", tmp_path / "clean.tsv"
    np.savetxt(path, np.c_[np.arange(512), SIGNAL, OTHER], delimiter="\t")
    code, out, err = run("denoise", path, "--output", output, "--std", tmp_path / "std.csv")
    assert (code, err) == (0, "")
    positions, *columns = np.loadtxt(output, delimiter="\t").T
    np.testing.assert_array_equal(positions, np.arange(512))
    for column, signal in zip(columns, (SIGNAL, OTHER), strict=True):
        expected = denoise(signal)
        np.testing.assert_allclose(column, expected.signal, rtol=1e-12)
        figures = (
            f"{expected.n_atoms} of 512",
            f"{expected.degrees_of_freedom:.1f}",
            f"{expected.noise_variance**0.5:.4g}",
            f"{expected.log_marginal_likelihood:.3f}",
        )
        assert re.search(r"^  [23] +" + " +".join(map(re.escape, figures)) + "$", out, re.MULTILINE)
    assert "samples       512 in each of 2 signals\n" in out
    assert "positions     '1', kept\n" in out
    std = np.loadtxt(tmp_path / "std.csv", delimiter=",", skiprows=1)
    np.testing.assert_allclose(std[:, 1], denoise(OTHER).std, rtol=1e-9)


def test_lines_along_an_axis(run, tmp_path):
    path, output = tmp_path / "noisy.npy", tmp_path / "clean.npy"
    lines = SIGNAL[:64] + RNG.normal(size=(15, 64))
    np.save(path, lines.T)
    code, out, err = run("denoise", path, "--axis", 0, "--wavelet", "haar", "--output", output)
    assert (code, err) == (0, "")
    expected = [denoise(line, "haar") for line in lines]
    np.testing.assert_allclose(np.load(output).T, [one.signal for one in expected], rtol=1e-12)
    assert f"{sum(one.n_atoms for one in expected)} of 960 coefficients" in out
    noise = [one.noise_variance**0.5 for one in expected]
    assert f"{min(noise):.4g} to {max(noise):.4g} standard" in out


@pytest.mark.parametrize("channels", [1, 2])
def test_sound(run, tmp_path, channels):
    path, output = tmp_path / "noisy.wav", tmp_path / "clean.wav"
    signals = np.rint(np.stack([SIGNAL, OTHER], 1) * 1000).astype(np.int16)[:, :channels]
    wavfile.write(path, 8000, np.squeeze(signals))
    code, out, err = run("denoise", path, "--output", output)
    assert (code, err) == (0, "")
    rate, written = wavfile.read(output)
    assert (rate, written.dtype) == (8000, np.int16)
    for place, found in enumerate(written.reshape(512, -1).T):
        expected = np.rint(denoise(signals[:, place]).signal)
        np.testing.assert_array_equal(found, expected)
    assert "8000 a second\n" in out


def test_clipped_samples_are_counted(run, tmp_path):
    path = tmp_path / "noisy.wav"
    wave = 120 * np.sign(np.sin(np.arange(512) / 20)) + RNG.normal(0, 9, 512)
    values = np.clip(np.rint(128 + wave), 0, 255).astype(np.uint8)
    wavfile.write(path, 8000, values)
    code, _, err = run("denoise", path, "--output", tmp_path / "clean.wav", "--quiet")
    signal = np.rint(denoise(values.astype(float)).signal)
    beyond = int(np.sum((signal < 0) | (signal > 255)))
    assert beyond > 0
    assert code == 0
    assert err.startswith("sparsebayes: note: ")
    assert f"{beyond} of 512 numbers were beyond the range of 8 bits" in err


def test_pictures(run, tmp_path):
    Image = pytest.importorskip("PIL.Image")
    gray, color = tmp_path / "gray.tif", tmp_path / "color.png"
    values = square()
    Image.fromarray(values.astype(np.uint8)).save(gray)
    code, out, err = run("denoise", gray, "--wavelet", "haar", "--output", gray)
    assert (code, err) == (0, "")
    expected = denoise(values, "haar").signal
    np.testing.assert_array_equal(np.asarray(Image.open(gray)), np.rint(expected))
    assert "samples       32 x 40\n" in out
    layers = np.dstack([square() for _ in range(3)] + [np.arange(1280).reshape(32, 40) % 256])
    Image.fromarray(layers.astype(np.uint8)).save(color)
    output = tmp_path / "clean.png"
    code, out, err = run("denoise", color, "--wavelet", "haar", "--output", output)
    assert (code, err) == (0, "")
    written = np.asarray(Image.open(output))
    np.testing.assert_array_equal(written[..., 3], layers[..., 3])
    expected = denoise(layers[..., 1], "haar").signal
    np.testing.assert_array_equal(written[..., 1], np.clip(np.rint(expected), 0, 255))
    for name in ("red", "green", "blue"):
        assert f"  {name}" in out


def test_missing_samples_are_filled_in_and_counted(run, tmp_path):
    path, output = tmp_path / "noisy.csv", tmp_path / "clean.csv"
    values = SIGNAL[:128].copy()
    values[40:44] = np.nan
    np.savetxt(path, values)
    code, out, err = run("denoise", path, "--wavelet", "haar", "--output", output)
    assert code == 0
    assert "missing       4 samples, filled in\n" in out
    assert err.startswith("sparsebayes: warning: ")
    assert "4 of 128 samples are missing" in err
    written = np.loadtxt(output)
    assert np.isfinite(written).all()
    assert np.abs(written - SIGNAL[:128]).max() < 0.5 * np.ptp(SIGNAL)


def test_a_prior_is_by_scale_only_where_it_was(run, tmp_path):
    path, output = tmp_path / "noisy.npy", ["--output", tmp_path / "clean.npy"]
    values = square()
    np.save(path, values)
    assert "prior bic by scale\n" in run("denoise", path, "--wavelet", "haar", *output)[1]
    assert "prior bic\n" in run("denoise", path, "--wavelet", "bior2.2", *output)[1]
    assert "prior 2.0\n" in run("denoise", path, "--prior", 2, *output)[1]
    values[3, 4:6] = np.nan
    np.save(path, values)
    assert "prior bic\n" in run("denoise", path, "--wavelet", "haar", *output)[1]


def test_constant_signals_are_written_unchanged(run, tmp_path):
    path, output, std = (tmp_path / name for name in ("a.npy", "b.npy", "std.npy"))
    np.save(path, np.full(100, 0.1))
    code, out, err = run("denoise", path, "--output", output, "--std", std)
    assert code == 0
    assert err == f"sparsebayes: note: {path}: the signal is constant, it is written unchanged\n"
    assert "samples       100\n" in out
    assert output.read_bytes() == path.read_bytes()
    np.testing.assert_array_equal(np.load(std), np.zeros(100))
    np.save(path, [3.0, np.nan, 3.0])
    code, out, err = run("denoise", path, "--output", output)
    assert code == 0
    assert "the signal is constant, it is written with its gaps filled in\n" in err
    assert "missing       1 sample, filled in\n" in out
    np.testing.assert_array_equal(np.load(output), [3.0, 3.0, 3.0])


def test_a_constant_channel_among_others(run, tmp_path):
    path, output = tmp_path / "a.wav", tmp_path / "b.wav"
    signals = np.stack([np.rint(SIGNAL * 1000), np.full(512, 7)], 1).astype(np.int16)
    wavfile.write(path, 8000, signals)
    code, _, err = run("denoise", path, "--output", output)
    assert code == 0
    assert "1 of 2 signals are constant ('right'), they are written unchanged" in err
    np.testing.assert_array_equal(wavfile.read(output)[1][:, 1], signals[:, 1])


def test_uneven_positions_are_said(run, tmp_path):
    path = tmp_path / "a.csv"
    np.savetxt(path, np.c_[np.arange(64) ** 1.5, SIGNAL[:64]], delimiter=",")
    code, _, err = run("denoise", path, "--wavelet", "haar", "--output", path)
    assert code == 0
    assert err.startswith(f"sparsebayes: note: {path}: '1' is not equally spaced")


def test_a_picture_of_the_result(run, table, array, tmp_path):
    pytest.importorskip("matplotlib")
    field = tmp_path / "field.npy"
    np.save(field, square())
    for number, path in enumerate([array, table, field]):
        picture = tmp_path / f"{number}.png"
        columns = ["--column", "x", "--column", "y"] if path is table else []
        output = ["--output", tmp_path / f"clean{path.suffix}", "--plot", picture]
        code, out, err = run("denoise", path, *columns, *output)
        assert (code, err) == (0, "")
        assert f"picture       {picture}\n" in out
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_only_the_first_signals_are_drawn(run, tmp_path):
    pytest.importorskip("matplotlib")
    path, picture = tmp_path / "a.npy", tmp_path / "a.svg"
    np.save(path, SIGNAL[:64] + RNG.normal(size=(8, 64)))
    code, _, err = run("denoise", path, "--axis", 1, "--output", path, "--plot", picture)
    assert code == 0
    assert "only the first 6 of 8 signals are drawn" in err
    assert "<svg" in picture.read_text()


def test_quiet(run, array, tmp_path):
    assert run("denoise", array, "--output", tmp_path / "b.npy", "--quiet") == (0, "", "")
    np.save(array, np.stack([SIGNAL, OTHER]))
    signals = ["--axis", 1, "--output", tmp_path / "b.npy"]
    assert run("denoise", array, *signals, "--quiet") == (0, "", "")


def test_progress_of_channels(run, tmp_path, monkeypatch):
    monkeypatch.setattr(_denoising, "progress", partial(_console.progress, delay=0.0, interval=0.0))
    path = tmp_path / "a.wav"
    signals = np.rint(np.stack([SIGNAL, OTHER], 1) * 1000).astype(np.int16)
    wavfile.write(path, 8000, signals)
    code, _, err = run("denoise", path, "--output", path)
    assert code == 0
    assert "left: 1 of 2\n" in err
    assert "right: 2 of 2\n" in err


def test_wavelets_that_are_not_orthonormal_are_said_to_be_slow(run, array, tmp_path, monkeypatch):
    words = "bior2.2 is not orthonormal, and 512 samples take it long"
    output = ["--output", tmp_path / "b.npy"]
    assert run("denoise", array, "--wavelet", "bior2.2", *output)[2] == ""
    monkeypatch.setattr(_denoising, "_LONG", 500)
    assert words in run("denoise", array, "--wavelet", "bior2.2", *output)[2]
    assert run("denoise", array, "--wavelet", "bior2.2", "--quiet", *output) == (0, "", "")
    assert run("denoise", array, "--wavelet", "db4", *output)[2] == ""


def test_help(run):
    code, out, err = run("denoise", "--help")
    assert (code, err) == (0, "")
    assert "examples:\n" in out
    assert max(map(len, out.splitlines())) <= 82


def test_help_imports_nothing_heavy():
    code = """
import sys
from sparsebayes.cli import main
try:
    main(["denoise", "--help"])
except SystemExit:
    print(sorted({"numpy", "scipy", "sklearn", "pywt", "PIL"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stderr, done.stdout[-3:]) == ("", "[]\n")


# ---------------------------------------------------------------------------- what does not


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ([], "--output"),
        (["--output", "b.npy", "--level", "0"], "'0' is not an integer above zero"),
        (["--output", "b.npy", "--level", "two"], "'two' is not an integer above zero"),
        (["--output", "b.npy", "--noise-variance", "0"], "'0' is not a number above zero"),
        (["--output", "b.npy", "--axis", "x"], "--axis"),
    ],
)
def test_wrong_usage(run, options, word):
    code, out, err = run("denoise", "a.npy", *options)
    assert (code, out) == (2, "")
    assert err.startswith("usage: ")
    assert word in err


@pytest.fixture
def refuses(fails, tmp_path):
    """Run what must fail with one line on stderr and leave no file."""

    def main(path, *options, words):
        before = {entry: entry.read_bytes() for entry in tmp_path.iterdir() if entry.is_file()}
        options = ["--output", tmp_path / f"out{path.suffix}", *options]
        fails("denoise", path, *options, words=words)
        assert before == {e: e.read_bytes() for e in tmp_path.iterdir() if e.is_file()}

    return main


def test_bad_settings(refuses, array):
    refuses(array, "--wavelet", "sym88", words=["--wavelet", "'sym88'", "did you mean sym8"])
    refuses(array, "--wavelet", "D4", words=["'D4'", "db4"])
    refuses(array, "--wavelet", "xyzzy", words=["'xyzzy'", "haar"])
    refuses(array, "--wavelet", "mexh", words=["'mexh' is a continuous wavelet"])
    refuses(array, "--prior", "strong", words=["prior", "strong"])
    refuses(array, "--prior", "-1", words=["prior", "-1"])
    refuses(array, "--level", "40", words=[array, "level", "40"])
    refuses(array, "--column", "x", words=[array, "--column is for csv"])


def test_bad_files(refuses, table, tmp_path):
    refuses(tmp_path / "missing.wav", words=["missing.wav: no such file"])
    words = "'note', row 1 (line 2): 'a' is not a number: name the columns of signals by --column"
    refuses(table, words=[table, words])
    refuses(table, "--column", "z", words=["--column: no column 'z'", "it has: t, x, y, note"])
    for name, values, words in [
        ("complex.npy", SIGNAL + 1j, ["complex"]),
        ("text.npy", np.array(["a"]), ["numbers are needed"]),
        ("nan.npy", np.full(9, np.nan), ["no samples: all are missing"]),
        ("inf.npy", np.array([1.0, np.inf]), ["infinite value at sample 2"]),
        ("none.npy", np.empty(0), ["no samples"]),
        ("cube.npy", np.ones((3, 3, 3)), ["3 dimensions", "--axis"]),
    ]:
        np.save(tmp_path / name, values)
        refuses(tmp_path / name, words=[tmp_path / name, *words])
    for suffix in (".csv", ".npy", ".wav", ".png", ".tiff"):
        path = tmp_path / f"empty{suffix}"
        path.touch()
        refuses(path, words=[path, "the file is empty"])
        path.write_bytes(b"\xff\x00 not what the name says" * 9)
        refuses(path, words=[path])


def test_bad_outputs(fails, array, tmp_path):
    for options, words in [
        (["--output", tmp_path / "nowhere" / "b.npy"], ["no such folder"]),
        (["--output", tmp_path], ["is a directory"]),
        (["--output", tmp_path / "b.mp3"], ["unknown suffix '.mp3'"]),
        (["--output", tmp_path / "b"], ["no suffix"]),
        (["--output", tmp_path / "b.wav"], ["cannot be written as .wav", ".npy, .csv"]),
        (["--output", tmp_path / "b.npy", "--std", tmp_path / "s.png"], ["standard deviations"]),
        (["--output", tmp_path / "b.npy", "--std", tmp_path / "x" / "s.npy"], ["no such folder"]),
        (["--output", tmp_path / "b.npy", "--std", tmp_path / "b.npy"], ["two are the same"]),
        (["--output", tmp_path / "b.npy", "--plot", tmp_path / "s.txt"], [".png"]),
        (["--output", tmp_path / "b.npy", "--plot", tmp_path / "x" / "s.png"], ["no such folder"]),
    ]:
        fails("denoise", array, *options, words=words)
    assert list(tmp_path.iterdir()) == [array]


def test_a_picture_as_a_table(fails, tmp_path):
    Image = pytest.importorskip("PIL.Image")
    Image.fromarray(square().astype(np.uint8)).save(tmp_path / "a.png")
    words = ["what was read from a .png file cannot be written as .csv", ".png, .tif, .tiff, .npy"]
    fails("denoise", tmp_path / "a.png", "--output", tmp_path / "b.csv", words=words)


def test_without_optional_packages(fails, array, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    options = ["--output", tmp_path / "b.npy", "--plot", tmp_path / "b.png"]
    fails("denoise", array, *options, words=['pip install "sparsebayes[plot]"'])
    monkeypatch.setitem(sys.modules, "PIL", None)
    (tmp_path / "a.png").write_bytes(b"x")
    fails(
        "denoise",
        tmp_path / "a.png",
        "--output",
        tmp_path / "b.png",
        words=['pip install "sparsebayes[image]"'],
    )


def test_an_interruption_leaves_the_file_as_it_was(run, array, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(_denoising, "denoise", interrupt)
    before = array.read_bytes()
    assert run("denoise", array, "--output", array) == (130, "", "sparsebayes: interrupted\n")
    assert array.read_bytes() == before


def test_too_little_memory(fails, array, monkeypatch):
    def exhausted(*_, **__):
        raise MemoryError

    monkeypatch.setattr(_denoising, "denoise", exhausted)
    fails("denoise", array, "--output", array, words=["not enough memory", "into pieces"])


def test_faults_of_a_signal_name_it(fails, tmp_path):
    path = tmp_path / "a.wav"
    wavfile.write(path, 8000, np.stack([SIGNAL[:8], OTHER[:8]], 1))
    words = [f"{path}: 'left':", "level"]
    fails("denoise", path, "--level", 9, "--output", path, words=words)
