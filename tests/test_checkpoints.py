"""Checkpoints: whole or not there, of this fit or refused, and never the end of a fit."""

import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sparsebayes import RVR, SparseBayesRegressor
from sparsebayes.checkpoints import Checkpoint, CheckpointError, Saved, fingerprint, sketch
from sparsebayes.datasets import sinc
from sparsebayes.dictionaries import Kernel, Linear
from sparsebayes.hyperpriors import Smoothness
from sparsebayes.persistence import ModelFileError, load

KEY = {"rows": 1000, "prior": "bic", "targets": [0.25, 1.5], "reference": [0.0, 1.0, 0.4]}
SAVED = Saved(
    "all rows",
    4,
    {"noise_var": 0.01, "max_gain": np.inf},
    {"active": np.array([3, 1, 8]), "v": np.array([0.1, 2.0, 1e-300])},
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.checkpoint"


@pytest.fixture
def written(path):
    Checkpoint(path).write(KEY, SAVED)
    return path


def refuse(path, *words, key=KEY):
    """Reading must fail with one line that names the file and what to do."""
    with pytest.raises(CheckpointError) as caught:
        Checkpoint(path, resume=True).read(key)
    text = str(caught.value)
    assert text.startswith(str(path))
    assert "\n" not in text
    assert "resume=False" in text
    for word in words:
        assert word in text
    return text


def test_what_was_written_is_read(written):
    found = Checkpoint(written, resume=True).read(KEY)
    assert (found.stage, found.turn, found.numbers) == (SAVED.stage, SAVED.turn, SAVED.numbers)
    assert found.arrays.keys() == SAVED.arrays.keys()
    for name, array in SAVED.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array, strict=True)


def test_without_resume_or_a_file_a_fit_begins_anew(written, tmp_path):
    assert Checkpoint(written).read(KEY) is None
    assert Checkpoint(tmp_path / "another", resume=True).read(KEY) is None
    (tmp_path / "empty").touch()
    assert Checkpoint(tmp_path / "empty", resume=True).read(KEY) is None


def test_without_resume_the_file_of_another_fit_stays_until_there_is_something_new(written):
    before = written.read_bytes()
    anew = Checkpoint(written)
    assert anew.read({"rows": 5}) is None
    assert written.read_bytes() == before
    anew.write({"rows": 5}, SAVED)
    assert Checkpoint(written, resume=True).read({"rows": 5}).turn == 4


def test_the_file_is_small_and_leaves_nothing_beside_it(path):
    many = {"active": np.arange(1000), "v": np.ones(1000)}
    Checkpoint(path).write(KEY, Saved("all rows", 1, {}, many))
    assert path.stat().st_size < 2_048 + 16 * 1000
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rows": 999}, ["rows was 1000, is 999"]),
        ({"prior": "ric"}, ["prior was 'bic', is 'ric'"]),
        ({"targets": [0.25, 1.5000001]}, ["targets was [0.25, 1.5], is"]),
        ({"reference": [0.0, 1.0]}, ["reference was"]),
        ({"solver": "em"}, ["solver was not known, is 'em'"]),
        ({"rows": 1000.0}, ["rows"]),
        ({"prior": None}, ["prior was 'bic', is None"]),
    ],
    ids=lambda value: str(value)[:30],
)
def test_another_fit_is_refused_by_what_differs(written, change, words):
    refuse(written, "another fit", *words, key=KEY | change)


def test_a_fit_that_lacks_what_the_file_knows_is_another_one(written):
    less = {name: value for name, value in KEY.items() if name != "prior"}
    refuse(written, "prior was 'bic', is not known", key=less)


def test_many_differences_are_counted_not_listed(path):
    Checkpoint(path).write(dict.fromkeys("abcdef", 1), SAVED)
    refuse(path, "a was 1, is 2", "and 3 more", key=dict.fromkeys("abcdef", 2))


def test_rounding_is_no_difference(written):
    near = KEY | {
        "targets": [0.25 * (1 + 1e-12), 1.5 - 1e-12],
        "reference": [1e-15, 1.0, 0.4],  # a zero beside a one
    }
    assert Checkpoint(written, resume=True).read(near).turn == SAVED.turn


@settings(max_examples=30, deadline=None)
@given(
    hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e6, 1e6)),
    st.data(),
)
def test_a_sketch_tells_arrays_apart_and_bears_rounding(values, data):
    place = data.draw(st.integers(0, values.size - 1))
    largest = max(np.abs(values).max(), 1.0)
    changed = values.copy()
    changed[place] += 0.01 * largest
    scale = max(map(abs, sketch(values) + sketch(changed)))
    assert max(np.abs(np.subtract(sketch(values), sketch(changed)))) > 1e-9 * scale
    rounded = values * (1 + 4e-16)
    assert max(np.abs(np.subtract(sketch(values), sketch(rounded)))) <= 1e-12 * largest


def test_a_sketch_of_nothing_and_the_order_of_entries():
    assert sketch([]) == []
    values = np.arange(10.0)
    assert sketch(values) != sketch(values[::-1])


def mine(X, Z):
    return X @ Z.T


def test_parameters_of_estimators_become_a_fingerprint(path):
    model = RVR(mine, prior=Smoothness(1.5), random_state=np.random.RandomState(0), tol=1e-4)
    key = fingerprint(model.get_params(deep=False), rows=10, weights=np.ones(5000))
    assert not {"tol", "max_iter", "verbose", "warm_start"} & set(key)
    Checkpoint(path).write(key, SAVED)
    same = fingerprint(model.set_params(tol=1e-9, verbose=1).get_params(deep=False), rows=10)
    refuse(path, "weights", key=same)
    same = fingerprint(model.get_params(deep=False), rows=10, weights=np.ones(5000))
    assert Checkpoint(path, resume=True).read(same).turn == SAVED.turn
    other = fingerprint(model.set_params(prior=Smoothness(2.0)).get_params(deep=False), rows=10)
    refuse(path, "prior was Smoothness(c=1.5), is Smoothness(c=2.0)", key=other)
    refuse(path, "kernel was 'test_checkpoints.mine', is 'rbf'", key=same | {"kernel": "rbf"})


def test_dictionaries_are_told_apart(path):
    Checkpoint(path).write(fingerprint({"dictionary": Kernel("rbf", gamma=0.5)}), SAVED)
    other = fingerprint({"dictionary": Kernel("rbf", gamma=0.25)})
    refuse(path, "gamma=0.5", "gamma=0.25", key=other)


def test_parameters_of_dictionaries_are_told_apart_in_few_bytes(path):
    centers = np.random.default_rng(0).normal(size=(400, 2))
    model = SparseBayesRegressor(Kernel("rbf", gamma=np.array([0.5, 2.0]), centers=centers))
    Checkpoint(path).write(fingerprint(model.get_params()), SAVED)
    assert path.stat().st_size < 4000
    assert Checkpoint(path, resume=True).read(fingerprint(model.get_params())).turn == SAVED.turn
    model.dictionary.gamma = np.array([0.5, 1.0])
    refuse(path, "dictionary__gamma was array([0.5, 2. ])", key=fingerprint(model.get_params()))
    model.dictionary.gamma = np.array([0.5, 2.0])
    model.dictionary.centers = centers + 1e-6
    text = refuse(path, "dictionary__centers", key=fingerprint(model.get_params()))
    assert "gamma" not in text
    refuse(path, key=fingerprint(model.set_params(dictionary=Linear()).get_params()))


@pytest.mark.parametrize("size", [1, 20, 200, -30, -1])
def test_a_truncated_file_is_refused(written, size):
    whole = written.read_bytes()
    written.write_bytes(whole[:size])
    if size < 40 and size > 0:  # so little is left that it may be anybody's
        with pytest.raises(CheckpointError, match="no checkpoint"):
            Checkpoint(written, resume=True)
    else:
        refuse(written)


def test_every_byte_that_changes_is_noticed_or_harmless(written):
    whole = written.read_bytes()
    refused = 0
    for place in range(45, len(whole), 7):
        changed = bytearray(whole)
        changed[place] ^= 0x55
        written.write_bytes(bytes(changed))
        try:
            found = Checkpoint(written, resume=True).read(KEY)
        except CheckpointError:
            refused += 1
            continue
        assert found.turn == SAVED.turn
        assert found.numbers == SAVED.numbers
        for name, array in SAVED.arrays.items():
            np.testing.assert_array_equal(found.arrays[name], array)
    assert refused > 0.8 * len(range(45, len(whole), 7))


def rewritten(path, change):
    """Replace the header of a checkpoint by a changed one, with the right checksum."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["checkpoint.json"])
    change(header)
    members["checkpoint.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda header: header.update(format="other"), "not a sparsebayes checkpoint"),
        (lambda header: header.update(fingerprint=[1]), "not a sparsebayes checkpoint"),
        (lambda header: header.update(format_version=2), "another version"),
        (lambda header: header.update(turn="four"), "damaged"),
        (lambda header: header.update(turn=-1), "damaged"),
        (lambda header: header.update(stage=4), "damaged"),
        (lambda header: header.update(numbers={"noise_var": "much"}), "damaged"),
        (lambda header: header.update(numbers=[1.0]), "damaged"),
        (lambda header: header.update(arrays=["missing"]), "missing"),
        (lambda header: header.pop("stage"), "damaged"),
        (lambda header: header["fingerprint"].update(prior={"$": "evil"}), "something else"),
    ],
)
def test_a_header_that_contradicts_itself_is_refused(written, change, word):
    rewritten(written, change)
    refuse(written, word)


def test_other_files_are_neither_read_nor_overwritten(tmp_path):
    data, model = tmp_path / "data.csv", tmp_path / "sinc.model"
    data.write_text("x,y\n1,2\n" * 20)
    few = sinc(30, random_state=0)
    RVR(gamma=0.1).fit(few.X, few.y).save(model)
    for path in (data, model):
        before = path.read_bytes()
        for resume in (False, True):
            with pytest.raises(CheckpointError, match="is no checkpoint: choose another name"):
                Checkpoint(path, resume)
        assert path.read_bytes() == before


def test_a_checkpoint_is_no_model(written):
    with pytest.raises(ModelFileError, match=r"not a sparsebayes model file"):
        load(written)


@pytest.mark.parametrize("wrong", [3, b"fit.checkpoint", object(), ["a"]])
def test_a_path_is_a_path(wrong):
    with pytest.raises(TypeError, match="checkpoint must be None or a path"):
        Checkpoint(wrong)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "no name of a file"),
        ("a\0b", "no name of a file"),
        (".", "is a directory"),
        ("missing/fit.checkpoint", "no such folder"),
        ("file/fit.checkpoint", "no such folder"),
        pytest.param(
            "pipe",
            "no regular file",
            marks=pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes"),
        ),
        ("x" * 300, "too long"),
        ("x" * 250, "too long"),  # the file that takes its place has a longer name
    ],
    ids=lambda value: value[:20].replace("\0", "0"),
)
def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path, monkeypatch, name, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    if name == "pipe":
        os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckpointError, match=words) as caught:
        Checkpoint(name)
    assert str(caught.value).startswith("checkpoint=")


@pytest.mark.skipif(os.access("/", os.W_OK), reason="this user may write anywhere")
def test_a_folder_without_rights_is_refused_at_once(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(CheckpointError, match="writable"):
        Checkpoint(tmp_path / "fit.checkpoint")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no such file system")
def test_a_folder_that_takes_no_files_is_refused_at_once():
    with pytest.raises(CheckpointError, match="checkpoint='/proc/"):
        Checkpoint("/proc/self/fit.checkpoint")


def test_a_folder_that_goes_away_ends_no_fit(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    kept = Checkpoint(folder / "fit.checkpoint")
    folder.rmdir()
    with pytest.warns(RuntimeWarning, match="could not be written .*the fit goes on"):
        kept.write(KEY, SAVED)
    kept.write(KEY, SAVED)  # said once, until it works again
    folder.mkdir()
    kept.write(KEY, SAVED)
    assert Checkpoint(kept.path, resume=True).read(KEY).turn == SAVED.turn


FULL = """
import resource, sys, warnings
import numpy as np
from sparsebayes.checkpoints import Checkpoint, Saved

path = sys.argv[1]
kept = Checkpoint(path)
kept.write({"rows": 3}, Saved("all rows", 1, {}, {"v": np.ones(4)}))
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    kept.write({"rows": 3}, Saved("all rows", 2, {}, {"v": np.ones(4000)}))
print(len(caught), caught[0].message)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sizes of files cannot be limited")
def test_a_disk_that_is_full_ends_no_fit_and_leaves_the_last_checkpoint(path):
    command = [sys.executable, "-c", FULL, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.startswith("1 the checkpoint")
    assert Checkpoint(path, resume=True).read({"rows": 3}).turn == 1
    assert os.listdir(path.parent) == [path.name]
