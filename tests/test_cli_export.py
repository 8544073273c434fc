"""``sparsebayes export`` and ``sparsebayes info``."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from exportable_models import classifier, count_regression, data, regression
from sparsebayes import RVR, SparseBayesRegressor
from sparsebayes.cli import main
from sparsebayes.persistence import load, save

DATA = Path(__file__).parent / "data"


@pytest.fixture
def stored(tmp_path):
    """A model file with names of features and of the target."""
    path = tmp_path / "heat.model"
    model = load(DATA / "first-kernel.model")
    save(model, path, target_names=("heat",))
    return str(path)


def refused(capsys, *arguments, code=1):
    """Run a command that fails: one line on stderr, nothing on stdout."""
    assert main([str(each) for each in arguments]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sparsebayes: error: ")
    assert err.count("\n") == 1
    return err


class TestExport:
    @pytest.mark.parametrize("kind", ["c", "onnx"])
    def test_the_model_is_not_written_over(self, stored, capsys, kind):
        before = Path(stored).read_bytes()
        err = refused(capsys, "export", stored, "--format", kind, "--output", stored)
        assert "would be overwritten" in err
        assert Path(stored).read_bytes() == before

    def test_onnx(self, stored, tmp_path, capsys):
        target = tmp_path / "heat.onnx"
        assert main(["export", stored, "--output", str(target), "--name", "boiler"]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        assert f"{target.stat().st_size} bytes" in out
        assert "mean, std, function_std" in out
        file = onnx.load(target)
        assert file.graph.name == "boiler"
        about = {entry.key: entry.value for entry in file.metadata_props}
        assert json.loads(about["target"]) == ["heat"]
        assert json.loads(about["features"]) == ["speed", "load [kg]"]
        session = onnxruntime.InferenceSession(str(target), providers=["CPUExecutionProvider"])
        before = json.loads((DATA / "first-models.json").read_text())
        mean, std, _ = session.run(None, {"X": np.array(before["inputs"])})
        np.testing.assert_allclose(mean, before["first-kernel"]["mean"], rtol=1e-9)
        np.testing.assert_allclose(std, before["first-kernel"]["std"], rtol=1e-9)

    def test_c(self, stored, tmp_path, capsys):
        target = tmp_path / "heat.h"
        options = ["--name", "boiler", "--precision", "single", "--json"]
        assert main(["export", stored, "--output", str(target), *options]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        facts = json.loads(out)
        assert facts["format"] == "c"
        assert facts["source_bytes"] == target.stat().st_size
        assert "boiler_predict" in facts["functions"]
        assert "float boiler" in target.read_text() or "boiler_predict(const float" in (
            target.read_text()
        )

    @pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
    def test_a_header_to_stdout_is_a_header_alone(self, stored, capfdbinary):
        assert main(["export", stored, "--output", "-", "--format", "c"]) == 0
        out, err = capfdbinary.readouterr()
        assert b"C header" in err
        check = ["gcc", "-std=c99", "-fsyntax-only", "-x", "c", "-"]
        subprocess.run(check, input=out, check=True, capture_output=True)

    def test_onnx_to_stdout(self, stored, capfdbinary):
        assert main(["export", stored, "--output", "-", "--format", "onnx", "--json"]) == 0
        out, err = capfdbinary.readouterr()
        onnx.checker.check_model(onnx.load_from_string(out))
        assert json.loads(err)["file_bytes"] == len(out)

    def test_quiet(self, stored, tmp_path, capsys):
        assert main(["export", stored, "--output", str(tmp_path / "m.h"), "--quiet"]) == 0
        assert capsys.readouterr() == ("", "")

    def test_the_format_may_be_said(self, stored, tmp_path, capsys):
        target = tmp_path / "heat.txt"
        assert main(["export", stored, "--output", str(target), "--format", "onnx"]) == 0
        onnx.checker.check_model(onnx.load(target))

    def test_what_is_refused(self, stored, tmp_path, capsys):
        X, y, _ = data()
        save(RVR("precomputed").fit(X @ X.T, y), tmp_path / "pre.model")
        for name in ("pre.h", "pre.onnx"):
            target = tmp_path / name
            text = refused(capsys, "export", tmp_path / "pre.model", "--output", target)
            assert "precomputed" in text
            assert not target.exists()
        text = refused(capsys, "export", stored, "--output", tmp_path / "heat.pdf")
        assert "ends in .h or .onnx" in text
        assert "--format c or onnx is needed" in refused(capsys, "export", stored, "--output", "-")
        assert "folder" in refused(capsys, "export", stored, "--output", tmp_path / "no" / "a.h")
        assert "missing" in refused(capsys, "export", "missing.model", "--output", "a.h")
        text = refused(capsys, "export", __file__, "--output", tmp_path / "a.h")
        assert "is not a sparsebayes model file" in text
        text = refused(
            capsys, "export", stored, "--output", tmp_path / "a.h", "--name", "2 boilers"
        )
        assert "identifier" in text
        assert sorted(path.name for path in tmp_path.iterdir()) == ["heat.model", "pre.model"]

    def test_without_the_package_onnx(self, stored, tmp_path, capsys, monkeypatch):
        monkeypatch.setitem(sys.modules, "onnx", None)
        text = refused(capsys, "export", stored, "--output", tmp_path / "heat.onnx")
        assert 'pip install "sparsebayes[onnx]"' in text

    def test_wrong_usage(self, stored, capsys):
        for options in ([], ["--output", "a.h", "--precision", "half"]):
            with pytest.raises(SystemExit) as caught:
                main(["export", stored, *options])
            assert caught.value.code == 2


class TestInfo:
    def test_for_people(self, stored, capsys):
        assert main(["info", stored]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        lines = out.splitlines()
        assert lines[0] == f"{stored}: regression, heat"
        said = {line[:16].strip(): line[16:] for line in lines if line[16:]}
        assert said["estimator"] == "RVR(gamma=0.5)"
        assert said["features"] == "speed, load [kg]"
        assert said["atoms kept"] == "13 of 60"
        assert said["noise found"].startswith("0.08431")
        assert said["log evidence"] == "21.365"
        assert said["certificate"].startswith("no single change")
        assert said["written by"].endswith("in format 1")
        assert said["size"] == f"{Path(stored).stat().st_size} bytes"

    def test_for_programs(self, stored, capsys):
        assert main(["info", stored, "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert facts["task"] == "regression"
        assert facts["target"] == ["heat"]
        assert facts["features"] == ["speed", "load [kg]"]
        assert (facts["atoms"], facts["of_atoms"], facts["n_features"]) == (13, 60, 2)
        assert facts["noise_variance"] == pytest.approx(0.0071076, rel=1e-5)
        assert facts["certificate"]["max_gain"] < 1e-6
        assert facts["exports"].keys() == {"c", "onnx"}
        assert facts["exports"]["onnx"] > 1000
        assert facts["format_version"] == 1

    def test_of_every_kind(self, tmp_path, capsys):
        path = str(tmp_path / "any.model")
        X, y, _ = data()
        learned = RVR(gamma="ard", noise_variance=0.02).fit(X, y)
        widths = RVR(gamma=np.array([0.3, 0.0, 0.5, 0.1]), noise_variance=0.02).fit(X, y)
        models = {
            "regression": [
                *(regression(name) for name in ("union", "nothing", "known-noise")),
                learned,
                widths,
            ],
            "classification": [classifier("columns"), classifier("seven")],
            "counts": [count_regression("kernel")],
        }
        for task, some in models.items():
            for model in some:
                save(model, path)
                assert main(["info", path, "--json"]) == 0
                facts = json.loads(capsys.readouterr().out)
                assert facts["task"] == task
                assert facts["features"] is None
                assert facts["atoms"] == model.posterior_.atoms.size
                assert facts["degrees_of_freedom"] == pytest.approx(model.degrees_of_freedom_)
                assert main(["info", path]) == 0
                assert "4, without names" in capsys.readouterr().out

    def test_what_it_cannot_be_exported_to(self, tmp_path, capsys, monkeypatch):
        X, y, _ = data()
        path = str(tmp_path / "pre.model")
        save(RVR("precomputed").fit(X @ X.T, y), path)
        assert main(["info", path]) == 0
        out = capsys.readouterr().out
        assert out.count("not to C or ONNX: kernel=") == 1
        assert main(["info", path, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["exports"] == {"c": None, "onnx": None}
        save(SparseBayesRegressor().fit(X, y), path)
        monkeypatch.setitem(sys.modules, "onnx", None)
        assert main(["info", path]) == 0
        out = capsys.readouterr().out
        assert "C, " in out
        assert 'not to ONNX: export to ONNX needs the package onnx: pip install "spars' in out

    def test_hostile_names(self, tmp_path, capsys):
        X, y, _ = data()
        model = SparseBayesRegressor().fit(X, y)
        names = ["\x1b[2Jclear", "two\nlines", "x" * 5000, "\u202etxt"]
        model.feature_names_in_ = np.array(names, dtype=object)
        path = str(tmp_path / "odd.model")
        save(model, path, target_names=("\x1b]0;title\a",))
        assert main(["info", path]) == 0
        out = capsys.readouterr().out
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert "\a" not in out
        assert max(map(len, out.splitlines())) < 250
        assert main(["info", path, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["features"] == names

    def test_no_model_file(self, tmp_path, capsys):
        assert "missing.model" in refused(capsys, "info", "missing.model")
        assert "directory" in refused(capsys, "info", tmp_path)
        assert "is not a sparsebayes model file" in refused(capsys, "info", __file__)

    def test_a_model_of_a_newer_version(self, tmp_path, capsys):
        from test_model_versions import of_the_future, rewritten, with_new_parameters

        def change(header, members):
            of_the_future(header, members)
            with_new_parameters(header, members)

        path = rewritten(DATA / "first-kernel.model", tmp_path / "newer.model", change)
        assert main(["info", str(path)]) == 0
        out, err = capsys.readouterr()
        assert "sparsebayes 0.7.1.dev3, in format 1" in out
        assert "warning: the model was written by sparsebayes 0.7.1.dev3" in err
        assert err.count("\n") == 1
