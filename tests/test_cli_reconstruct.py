"""``sparsebayes reconstruct`` and ``completion``."""

import io
import json
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sparsebayes import reconstruct
from sparsebayes.sensing import PartialDCT, PartialHadamard

STEPS = np.repeat([0.0, 3.0, -1.0, 2.0], 32)
RNG = np.random.default_rng(0)
SENSING = RNG.standard_normal((60, 128)) / 8
MEASURED = SENSING @ STEPS + 0.01 * RNG.standard_normal(60)


@pytest.fixture
def measured(tmp_path):
    np.save(tmp_path / "A.npy", SENSING)
    sp.save_npz(tmp_path / "A.npz", sp.csr_matrix(SENSING))
    pd.DataFrame(SENSING).to_csv(tmp_path / "A.csv", index=False, header=False)
    np.save(tmp_path / "y.npy", MEASURED)
    pd.DataFrame({"y": MEASURED}).to_csv(tmp_path / "y.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("matrix", ["A.npy", "A.npz", "A.csv"])
@pytest.mark.parametrize("data", ["y.npy", "y.csv"])
def test_measurements_and_a_matrix(run, measured, matrix, data):
    out, std = measured / "x.npy", measured / "std.npy"
    files = [measured / data, "--sensing", measured / matrix, "--output", out, "--std", std]
    code, text, err = run("reconstruct", *files)
    assert (code, err) == (0, "")
    expected = reconstruct(MEASURED, SENSING)
    np.testing.assert_allclose(np.load(out), expected.signal, atol=1e-8)
    np.testing.assert_allclose(np.load(std), expected.std, rtol=1e-5)
    assert "60, 46.9% of them" in text
    assert "no single change of an atom gains more" in text


def test_numbers_for_programs(run, measured):
    files = [measured / "y.npy", "--sensing", measured / "A.npy", "--output", measured / "x.csv"]
    code, text, err = run("reconstruct", *files, "--json")
    assert (code, err) == (0, "")
    found = json.loads(text)
    expected = reconstruct(MEASURED, SENSING)
    assert found["shape"] == [128]
    assert found["measured"] == 60
    assert found["converged"] is True
    assert found["signals"]["signal"]["atoms"] == expected.n_atoms
    assert found["signals"]["signal"]["noise_variance"] == pytest.approx(expected.noise_variance)
    column = pd.read_csv(measured / "x.csv")["signal"]
    np.testing.assert_allclose(column, expected.signal, atol=1e-8)


@pytest.mark.parametrize(
    ("option", "kind"), [("--dct", PartialDCT), ("--hadamard", PartialHadamard)]
)
def test_measurements_by_a_seed(run, tmp_path, option, kind):
    image = np.add.outer(np.arange(16) // 4, np.arange(16) // 8).astype(float)
    np.save(tmp_path / "y.npy", kind((16, 16), 120, random_state=7).measure(image))
    out = tmp_path / "x.npy"
    files = [tmp_path / "y.npy", option, "16x16", "--seed", 7, "--output", out]
    code, _, err = run("reconstruct", *files, "--quiet")
    assert (code, err) == (0, "")
    np.testing.assert_allclose(np.load(out), image, atol=1e-3)


def test_gaps_of_a_table_are_filled_and_other_columns_kept(run, tmp_path):
    values = STEPS + 0.01 * RNG.standard_normal(128)
    values[RNG.random(128) < 0.4] = np.nan
    table = pd.DataFrame({"day": np.arange(128), "level": values, "who": "me"})
    table.to_csv(tmp_path / "gaps.csv", index=False)
    out = tmp_path / "whole.csv"
    code, text, err = run(
        "reconstruct", tmp_path / "gaps.csv", "--column", "level", "--output", out
    )
    assert code == 0, err
    whole = pd.read_csv(out)
    assert list(whole) == ["day", "level", "who"]
    known = ~np.isnan(values)
    expected = reconstruct(values[known], known)
    np.testing.assert_allclose(whole["level"], expected.signal, atol=1e-8)
    assert f"{known.sum()}, {known.mean():.1%} of them" in text


def test_a_masked_picture(run, tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    image = np.zeros((32, 32, 3), dtype=np.uint8)
    image[:, :, 0] = 60 + 90 * (np.arange(32) >= 16)
    image[:, :, 1] = 200 - image[:, :, 0]
    image[:, :, 2] = 77
    known = RNG.random((32, 32)) < 0.5
    pillow.fromarray(image * known[..., None].astype(np.uint8)).save(tmp_path / "torn.png")
    pillow.fromarray((255 * known).astype(np.uint8)).save(tmp_path / "known.png")
    out, plot = tmp_path / "whole.png", tmp_path / "plot.png"
    files = [tmp_path / "torn.png", "--mask", tmp_path / "known.png"]
    code, text, err = run("reconstruct", *files, "--output", out, "--plot", plot)
    assert code == 0
    assert "1 of 3 signals are constant ('blue')" in err
    np.testing.assert_allclose(np.asarray(pillow.open(out)), image, atol=1)
    assert plot.stat().st_size > 1000
    assert "red" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("y.npy --dct 10 --output x.npy", "a signal of 10 samples"),
        ("y.npy --sensing no.npy --output x.npy", "no.npy: No such file"),
        ("y.npy --sensing y.npy --output x.npy", "a matrix of real numbers is needed, this is 60"),
        ("y.npy --sensing bad.npz --output x.npy", "bad.npz: no matrix can be read"),
        ("y.npy --sensing A.txt --output x.npy", "a matrix is in a file with one of"),
        ("A.npy --sensing A.npy --output x.npy", "measurements are one row of numbers"),
        ("A.csv --sensing A.npy --output x.npy", "name the one of the measurements"),
        ("x.wav --dct 60 --output x.npy", "measurements are in a file"),
        ("gaps.npy --dct 60 --output x.npy", "some are missing"),
        ("short.npy --sensing A.npy --output x.npy", "60 rows, but there are 2 measurements"),
        ("y.npy --mask A.npy --output x.npy", "the mask has 60 x 128 samples"),
        ("y.npy --mask none.npy --output x.npy", "the mask leaves no sample"),
        ("y.npy --basis haarr --output x.npy", "did you mean"),
        ("y.npy --basis morl --output x.npy", "is a continuous wavelet"),
        ("y.npy --prior much --dct 100 --output x.npy", "prior"),
        ("y.npy --dct 100 --output x.png", "cannot be written as .png"),
        ("y.npy --dct 10x10 --output x.csv", "cannot be written as .csv"),
        ("y.npy --dct 100 --output x.npy --std x.npy", "two are the same"),
        ("y.npy --dct 100 --output no/x.npy", "no such folder"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(run, measured, monkeypatch, options, message):
    monkeypatch.chdir(measured)
    (measured / "bad.npz").write_bytes(b"PK nonsense")
    np.save("none.npy", np.zeros(60))
    np.save("short.npy", np.ones(2))
    np.save("gaps.npy", np.where(np.arange(60) == 3, np.nan, 1.0))
    before = sorted(measured.iterdir())
    code, out, err = run("reconstruct", *options.split())
    assert (code, out) == (1, "")
    assert err.startswith("sparsebayes: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert sorted(measured.iterdir()) == before


@pytest.mark.parametrize("shape", ["0", "4x", "2x2x2", "-3", "ax2"])
def test_a_shape_that_is_none(run, shape):
    code, _, err = run("reconstruct", "y.npy", f"--dct={shape}", "--output", "x.npy")
    assert code == 2
    assert "is no shape such as 1000 or 512x512" in err


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh", "fish"])
def test_completion_knows_commands_and_options(run, shell, tmp_path):
    pytest.importorskip("shtab")
    code, script, err = run("completion", shell)
    assert (code, err) == (0, "")
    for word in ("reconstruct", "hadamard", "predict", "target"):
        assert word in script
    found = shutil.which(shell)
    if found is None:
        return
    path = tmp_path / "script"
    path.write_text(script)
    assert subprocess.run([found, "-n", path], check=False).returncode == 0


def test_completion_in_a_real_shell(run, tmp_path):
    pytest.importorskip("shtab")
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    path = tmp_path / "script"
    path.write_text(run("completion", "bash")[1])
    program = f"""
        source {path}
        COMP_WORDS=(sparsebayes recon) COMP_CWORD=1
        $(complete -p sparsebayes | sed 's/.*-F \\([^ ]*\\).*/\\1/') sparsebayes recon sparsebayes
        echo "${{COMPREPLY[@]}}"
    """
    found = subprocess.run([bash, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["reconstruct"]


def piped(*arguments, given):
    command = [sys.executable, "-m", "sparsebayes", *map(str, arguments)]
    return subprocess.run(command, input=given, capture_output=True, check=False)


def test_signals_through_pipes(run, stdin, measured):
    noisy = pd.DataFrame({"t": np.arange(128), "x": STEPS + 0.1 * RNG.standard_normal(128)})
    stdin(noisy.to_csv(index=False))
    code, out, err = run("denoise", "-", "--wavelet", "haar", "--output", "-")
    assert code == 0, err
    clean = pd.read_csv(io.StringIO(out))
    assert list(clean) == ["t", "x"]
    assert np.std(clean["x"] - STEPS) < 0.08
    assert err.startswith("stdin.csv by wavelets haar")  # stdout holds nothing but data
    matrix = measured / "A.npy"
    options = ["--sensing", matrix, "--output", "-", "--format", "npy", "--quiet"]
    found = piped("reconstruct", "-", *options, given=(measured / "y.npy").read_bytes())
    assert (found.returncode, found.stderr) == (0, b"")
    expected = reconstruct(MEASURED, SENSING).signal
    np.testing.assert_allclose(np.load(io.BytesIO(found.stdout)), expected, atol=1e-8)


def test_nonsense_through_a_pipe(fails, stdin):
    stdin(b"a,b\n1,x\n2,y\n")
    err = fails("denoise", "-", "--output", "-", words=[])
    assert err.startswith("sparsebayes: error: stdin.csv: ")
