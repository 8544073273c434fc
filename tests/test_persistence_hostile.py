"""Model files from strangers: each gives one line, runs nothing and allocates nothing."""

import io
import json
import pickle
import struct
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

import sparsebayes
from sparsebayes import RVC, RVR, SparseBayesClassifier, SparseBayesRegressor
from sparsebayes.datasets import sinc
from sparsebayes.persistence import ModelFileError, load, save

SINC = sinc(60, random_state=0)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """The members of a good model file."""
    path = tmp_path_factory.mktemp("models") / "good.model"
    save(RVR(gamma=0.1).fit(SINC.X, SINC.y), path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """The members of a good model file of a classifier."""
    path = tmp_path_factory.mktemp("models") / "classes.model"
    y = np.array(["ash", "birch", "oak"])[np.digitize(SINC.y, [-0.05, 0.4])]
    model = SparseBayesClassifier().fit(np.c_[SINC.X, SINC.y], y)
    save(model, path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture
def write(tmp_path):
    """Write members to a file, exactly as they are."""

    def make(members, compression=zipfile.ZIP_STORED):
        path = tmp_path / "hostile.model"
        with zipfile.ZipFile(path, "w", compression) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        return path

    return make


def refuse(path, *words):
    """Loading must fail with one line that names the file."""
    with pytest.raises(ModelFileError) as caught:
        load(path)
    text = str(caught.value)
    assert text.startswith(str(path))
    assert "\n" not in text
    assert len(text) < len(str(path)) + 250
    for word in words:
        assert word in text
    return text


def edited(members, **changes):
    """Change keys of model.json; a value of ... removes the key."""
    header = json.loads(members["model.json"]) | changes
    header = {key: value for key, value in header.items() if value is not ...}
    return members | {"model.json": json.dumps(header)}


class Bomb:
    """Unpickling it leaves a mark."""

    def __reduce__(self):
        return exec, ("import sys; sys.exploded = True",)


def exploded():
    return hasattr(sys, "exploded")


def npy(array):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def header(dtype, shape):
    return f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}"


def npy_with_header(text, data=b""):
    text = text.encode("latin1").ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def loaded_or_refused(path):
    """The model, or None for a ModelFileError; any other exception is a defect."""
    try:
        return load(path)
    except ModelFileError:
        return None


def some_array(good):
    return next(name for name in good if name.startswith("arrays/") and len(good[name]) > 200)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"a,b\n1,2\n",
        b"\x89PNG\r\n\x1a\n" + bytes(100),
        bytes(1000),
        pickle.dumps(Bomb()),
        npy(np.array([Bomb()], dtype=object)),
        b"PK\x05\x06" + bytes(10),
    ],
    ids=["empty", "csv", "png", "zeros", "pickle", "npy", "half-an-end-record"],
)
def test_files_of_another_kind(tmp_path, content):
    path = tmp_path / "other.model"
    path.write_bytes(content)
    refuse(path, "is not a sparsebayes model file")
    assert not exploded()


def test_a_pickle_inside_an_array_does_not_run(good, write):
    name = some_array(good)
    refuse(write(good | {name: npy(np.array([Bomb()] * 40, dtype=object))}), "not hold numbers")
    refuse(write(good | {name: pickle.dumps(Bomb())}), "damaged")
    refuse(write(good | {"model.json": pickle.dumps(Bomb())}), "damaged")
    assert not exploded()
    # The mark works: the test could fail.
    pickle.loads(pickle.dumps(Bomb()))
    assert exploded()
    del sys.exploded


@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999])
def test_truncated_files(good, write, share):
    path = write(good)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    refuse(path, "truncated")


def test_every_byte_matters_or_does_no_harm(good, write):
    path = write(good)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for place in rng.choice(len(whole), 400, replace=False):
        broken = bytearray(whole)
        broken[place] ^= 1 << rng.integers(8)
        path.write_bytes(bytes(broken))
        refused += loaded_or_refused(path) is None
    assert refused > 300


@pytest.mark.parametrize(
    ("array", "word"),
    [
        (npy(np.zeros(3, dtype=[("a", float)])), "not hold numbers"),
        (npy(np.array(["text"])), "not hold numbers"),
        (npy(np.array([1j])), "not hold numbers"),
        (npy(np.array(["2020-01-01"], dtype="M8[D]")), "not hold numbers"),
        (npy(np.zeros((2, 3, 4))), "damaged"),
        (npy(np.full((40, 1), np.nan)), "damaged"),
        (npy(np.zeros(0)), "damaged"),
        (npy(np.zeros(5))[:-3], "has not the size its shape says"),
        (npy(np.zeros(5)) + b"more", "has not the size its shape says"),
        (npy_with_header(header("<f8", "(1000000000000000,)")), "size"),
        (npy_with_header(header("<f8", "(1099511627776, 1099511627776)")), "size"),
        (npy_with_header(header("<f8", "(-1, -2)"), bytes(16)), "size"),
        (npy_with_header(header("|O", "(1,)"), pickle.dumps(Bomb())), "not hold numbers"),
        (npy_with_header("{'descr': '<f8', 'shape': (1,)}", bytes(8)), "damaged"),
        (npy_with_header("__import__('os').abort()"), "damaged"),
        (npy_with_header("(" * 100), "damaged"),
        (b"\x93NUMPY\x01\x00\xff\xff", "damaged"),
        (b"\x93NUMPY\x09\x00" + bytes(100), "damaged"),
        (b"\x93NUMPY", "damaged"),
        (b"no array", "damaged"),
        (b"", "damaged"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else value.split()[0],
)
def test_hostile_arrays(good, write, array, word):
    refuse(write(good | {some_array(good): array}), word)
    assert not exploded()


def test_other_byte_order_is_understood(good, write):
    name = some_array(good)
    swapped = np.load(io.BytesIO(good[name]))
    swapped = swapped.astype(swapped.dtype.newbyteorder(">"))
    path = write(good | {name: npy(swapped)})
    again = load(path).predict(SINC.X)
    np.testing.assert_array_equal(again, load(write(good)).predict(SINC.X))


def test_missing_members(good, write):
    for name in good:
        rest = {key: data for key, data in good.items() if key != name}
        refuse(write(rest), "model.json" if name == "model.json" else f"it lacks {name}")


def test_compressed_files_are_refused_before_they_expand(good, write):
    bomb = good | {"arrays/huge.npy": bytes(200_000_000)}
    path = write(bomb, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 1_000_000
    refuse(path, "not compressed")


def test_members_that_claim_more_than_there_is(good, write):
    path = write(good)
    content = bytearray(path.read_bytes())
    start = content.find(b"PK\x01\x02")
    content[start + 20 : start + 28] = struct.pack("<II", 2**31, 2**31)
    path.write_bytes(bytes(content))
    refuse(path, "its members are larger than the file")


def test_overlapping_members(good, write):
    path = write(good | {"b": b"", "c": b""})
    content = bytearray(path.read_bytes())
    # The last two entries of the directory now point to the first member's bytes.
    first = content.find(b"PK\x01\x02")
    entry = len(content)
    for _ in range(2):
        entry = content.rfind(b"PK\x01\x02", 0, entry)
        content[entry + 16 : entry + 28] = content[first + 16 : first + 28]
        content[entry + 42 : entry + 46] = content[first + 42 : first + 46]
    path.write_bytes(bytes(content))
    refuse(path, "its members are larger than the file")


def test_two_members_of_one_name(good, tmp_path):
    path = tmp_path / "twice.model"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.json", good["model.json"])
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("model.json", b"{}")
    refuse(path, "two members of one name")


def test_encrypted_members(good, write):
    path = write(good)
    content = bytearray(path.read_bytes())
    content[content.find(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(bytes(content))
    refuse(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '"sparsebayes-model"',
        "{}",
        '{"format": "other"}',
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"format": "sparsebayes-model", "format_version": ' + "9" * 10_000 + "}",
        "\xff",
    ],
)
def test_hostile_headers(good, write, text):
    refuse(write(good | {"model.json": text.encode("latin1")}))


@pytest.mark.parametrize("version", [..., None, "1", True, 0, -1, 1.5, [1]])
def test_versions_that_are_none(good, write, version):
    refuse(write(edited(good, format_version=version)), "format version")


def test_newer_versions_say_how_to_upgrade(good, write):
    path = write(edited(good, format_version=2, sparsebayes_version="7.1"))
    text = refuse(path, "sparsebayes 7.1", "format 2", "pip install --upgrade sparsebayes")
    assert sparsebayes.__version__ in text
    # A newer version may have changed anything else: that must not be looked at first.
    header = {
        "format": "sparsebayes-model",
        "format_version": 99,
        "sparsebayes_version": "x" * 9999,
    }
    refuse(write(good | {"model.json": json.dumps(header)}), "format 99")


@pytest.mark.parametrize(
    "changes",
    [
        {"estimator": "Ridge"},
        {"estimator": "os.system"},
        {"estimator": "__class__"},
        {"estimator": ["RVR"]},
        {"estimator": None},
        {"parameters": None},
        {"parameters": []},
        {"parameters": {"unknown": 1}},
        {"parameters": {"kernel": {"$": "os.system", "parameters": {"command": "true"}}}},
        {"parameters": {"kernel": {"$": "RVR", "parameters": {}}}},
        {"parameters": {"kernel": {"$": "Kernel", "parameters": {"unknown": 1}}}},
        {"parameters": {"kernel": {"$": "Kernel"}}},
        {"parameters": {"gamma": {"$": "float", "value": "1" * 100}}},
        {"parameters": {"gamma": {"$": "array", "items": ["a"]}}},
        {"parameters": {"gamma": {"$": "array", "items": [[1], [1, 2]]}}},
        {"parameters": {"gamma": {"$": "tuple", "items": "ab"}}},
        {"parameters": {"gamma": {"$": ["tuple"]}}},
        {"fitted": {}},
        {"fitted": []},
        {"posterior": {}},
        {"posterior": None},
        {"posterior": {"kind": "pickle"}},
        {"arrays": {}},
        {"arrays": [1]},
        {"arrays": ["../../etc/passwd"]},
        {"arrays": []},
        {"target_names": "y"},
        {"target_names": [1]},
    ],
    ids=str,
)
def test_hostile_values(good, write, changes):
    refuse(write(edited(good, **changes)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tol": -1}, "tol must be a number > 0, got -1"),
        ({"tol": "x"}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"fit_intercept": "maybe"}, "fit_intercept must be True or False"),
        ({"solver": ["em"]}, "solver must be one of"),
        ({"prior": []}, "prior must be"),
        ({"noise_variance": -1.0}, "noise_variance must be"),
        ({"likelihood": 3}, "likelihood must be"),
        ({"memory": "lots"}, "memory must be"),
        ({"random_state": "seed"}, "random_state must be"),
        ({"kernel": "rbg"}, "unknown kernel 'rbg'"),
        ({"gamma": -2.0}, "gamma must be"),
        ({"gamma": {"a": 1}}, "gamma must be"),
        ({"degree": 1.5}, "degree must be"),
        ({"kernel_params": [1]}, "kernel_params must be"),
    ],
    ids=str,
)
def test_parameters_that_no_fit_can_have_had(good, write, changes, words):
    stored = json.loads(good["model.json"])["parameters"]
    refuse(write(edited(good, parameters=stored | changes)), "is damaged", words)


def test_parameters_of_dictionaries_and_classes(classes, write):
    stored = json.loads(classes["model.json"])["parameters"]
    kernel = {"$": "Kernel", "parameters": {"kernel": "rbf", "gamma": "wide"}}
    union = {"$": "Union", "parameters": {"parts": [{"$": "Linear", "parameters": {}}, kernel]}}
    for changes in ({"dictionary": "x"}, {"dictionary": union}, {"class_weight": 3}, {"shared": 1}):
        (name,) = changes
        words = "gamma" if changes == {"dictionary": union} else name
        refuse(write(edited(classes, parameters=stored | changes)), words)


@pytest.mark.parametrize("kind", ["regressor", "classes"])
def test_a_number_in_the_header_allocates_nothing(kind, classes, tmp_path, write):
    """3e8 features, said by four kilobytes, are a model that knows three of them."""
    members = classes
    if kind == "regressor":
        X = np.random.default_rng(0).normal(size=(40, 3))
        save(SparseBayesRegressor(noise_variance=0.1).fit(X, X[:, 0]), tmp_path / "columns.model")
        with zipfile.ZipFile(tmp_path / "columns.model") as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["model.json"])
    header["fitted"]["n_features_in_"] = header["posterior"]["atoms"]["n_features_in"] = 3 * 10**8
    path = write(members | {"model.json": json.dumps(header)})
    assert path.stat().st_size < 10_000
    tracemalloc.start()
    model = load(path)
    assert tracemalloc.get_traced_memory()[1] < 1e7
    tracemalloc.stop()
    with pytest.raises(ValueError, match="300000000 features"):
        model.predict([[1.0, 2.0]])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_weights_of_columns_after_loading(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 3
    for model, targets in (
        (SparseBayesRegressor(prior="flat"), X[:, 0] + 0.1 * y),
        (SparseBayesRegressor(prior="flat"), X[:, :2] + 0.1 * y[:, None]),
        (SparseBayesClassifier(prior="flat"), y),
    ):
        save(model.fit(X, targets), tmp_path / "columns.model")
        same = load(tmp_path / "columns.model")
        assert np.any(model.coef_)
        np.testing.assert_array_equal(same.coef_, model.coef_)
        again = model.fit(X[:, :2], targets)  # the coefficients of the first fit are forgotten
        assert again.coef_.shape[-1] == 2
    for other in (RVR(), RVR().fit(X, X[:, 0]), SparseBayesRegressor(), SparseBayesClassifier()):
        assert not hasattr(other, "coef_")


@pytest.mark.parametrize(
    "key",
    ["sparsebayes_version", "estimator", "parameters", "fitted", "posterior", "arrays"],
)
def test_missing_keys(good, write, key):
    refuse(write(edited(good, **{key: ...})), f"lacks '{key}'")


@pytest.mark.parametrize(
    "changes",
    [
        {"n_features_in_": 2},
        {"n_features_in_": "many"},
        {"n_features_in_": None},
        {"feature_names_in_": ["a", "b"]},
        {"feature_names_in_": "a"},
        {"feature_names_in_": [1]},
        {"certificate_": {}},
        {"certificate_": {"max_gain": 0.0, "other": 1.0}},
        {"certificate_": 1},
        {"noise_variance_": {}},
        {"log_marginal_likelihood_": "x"},
        {"n_iter_": []},
    ],
    ids=str,
)
def test_hostile_scalars(good, write, changes):
    stored = json.loads(good["model.json"])["fitted"]
    refuse(write(edited(good, fitted=stored | changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {"classes_": ...},
        {"classes_": None},
        {"classes_": ["ash", "birch", "oak"]},
        {"classes_": {"type": "str", "labels": ["ash", "birch"]}},
        {"classes_": {"type": "str", "labels": ["ash", "birch", "elm", "oak"]}},
        {"classes_": {"type": "str", "labels": ["ash", "ash", "oak"]}},
        {"classes_": {"type": "str", "labels": ["oak", "birch", "ash"]}},
        {"classes_": {"type": "str", "labels": [1, 2, 3]}},
        {"classes_": {"type": "str", "labels": "abc"}},
        {"classes_": {"type": "<U1000000000", "labels": ["ash", "birch", "oak"]}},
        {"classes_": {"type": "int8", "labels": [1, 2, 300]}},
        {"classes_": {"type": "int64", "labels": [1, 2, 10**30]}},
        {"classes_": {"type": "int64", "labels": [0, True, 2]}},
        {"classes_": {"type": "float64", "labels": [0.0, 1.0, {"$": "float", "value": "nan"}]}},
        {"classes_": {"type": "object", "labels": [[1], [2], [3]]}},
        {"classes_": {"type": "object", "labels": [1, "a", 2]}},
        {"classes_": {"type": "M8[D]", "labels": [1, 2, 3]}},
        {"classes_": {"type": ["str"], "labels": ["a", "b", "c"]}},
        {"likelihood_": ...},
        {"likelihood_": None},
        {"likelihood_": "poisson"},
        {"likelihood_": {"$": "Poisson", "parameters": {}}},
        {"likelihood_": {"$": "Bernoulli", "parameters": {}}},
        {"likelihood_": {"$": "Multinomial", "parameters": {"n_classes": 4}}},
        {"likelihood_": {"$": "Multinomial", "parameters": {"n_classes": 10**9}}},
        {"likelihood_": {"$": "Multinomial", "parameters": {"n_classes": "3"}}},
        {"likelihood_": {"$": "Flat", "parameters": {}}},
        {"likelihood_": {"$": "Linear", "parameters": {}}},
        {"likelihood_": {"$": "os.system", "parameters": {"command": "true"}}},
        {"n_features_in_": 7},
    ],
    ids=str,
)
def test_hostile_classes(classes, write, changes):
    stored = json.loads(classes["model.json"])["fitted"] | changes
    stored = {key: value for key, value in stored.items() if value is not ...}
    refuse(write(edited(classes, fitted=stored)))


def test_an_estimator_of_another_kind(good, classes, write):
    for name in ("RVC", "SparseBayesClassifier"):
        refuse(write(edited(good, estimator=name)))
    for name in ("RVR", "SparseBayesRegressor"):
        refuse(write(edited(classes, estimator=name)))


def test_arrays_of_a_classifier_are_looked_at(classes, write):
    """Arrays of other shapes, sizes and values than the others say."""
    for name in [name for name in classes if name.startswith("arrays/")]:
        array = np.load(io.BytesIO(classes[name]))
        beyond = array + 1000 if array.dtype.kind == "i" else np.inf * np.ones_like(array)
        for wrong in (array[:-1], array[..., None], beyond, np.full(array.shape, np.nan)):
            refuse(write(classes | {name: npy(wrong)}), "damaged")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # 1e308 may overflow: that is harmless
@pytest.mark.parametrize("kind", ["good", "classes"])
def test_any_change_of_the_header_is_refused_or_harmless(kind, request, write):
    """Put something unexpected in every place of model.json, three of nine things in turn."""
    good = request.getfixturevalue(kind)
    header = json.loads(good["model.json"])

    def places(node, path=()):
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in items:
            yield path + (key,)
            if isinstance(value, dict | list):
                yield from places(value, path + (key,))

    values = (None, -1, 10**30, 1e308, "x", [], {}, [[]], {"$": "tuple", "items": []})
    for count, path in enumerate(places(header)):
        for value in values[count % 3 :: 3]:
            changed = json.loads(json.dumps(header))
            node = changed
            for key in path[:-1]:
                node = node[key]
            node[path[-1]] = value
            hostile = write(good | {"model.json": json.dumps(changed)})
            model = loaded_or_refused(hostile)
            known = RVC | RVR | SparseBayesClassifier | SparseBayesRegressor
            assert model is None or isinstance(model, known)
