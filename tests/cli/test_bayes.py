"""``hardpan bayes`` as a person types it: JSON alone on stdout, and one sentence for bad input."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hardpan import bayes, cli, files
from hardpan.pages import formatting


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    np.save(tmp_path / "means.npy", 2 * rng.normal(size=(4, 6)))
    np.save(tmp_path / "cov.npy", root @ root.T + np.eye(6))
    np.save(tmp_path / "covs.npy", np.array([1.0, 2.0, 3.0, 4.0]))
    np.save(tmp_path / "priors.npy", np.array([0.1, 0.2, 0.3, 0.4]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["bayes", *arguments])
    shown = capsys.readouterr()
    return int(stopped.value.code or 0), shown.out, shown.err


def from_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    code, out, _ = run(capsys, *arguments, "--json")
    assert code == 0
    return files.from_json(json.loads(out))


def test_one_temperature_is_an_estimate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = from_json(capsys, "gaussian", "means.npy", "--cov", "cov.npy", "--priors", "priors.npy")
    expected = bayes.gaussian(np.load("means.npy"), np.load("cov.npy"), np.load("priors.npy"))
    assert found == expected
    assert found.method == "importance"


def test_priors_and_covariance_may_be_written_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = from_json(capsys, "gaussian", "means.npy", "--cov", "2.5", "--priors", "0.1,0.2,0.3,0.4", "--seed", "3")
    assert found == bayes.gaussian(np.load("means.npy"), 2.5, [0.1, 0.2, 0.3, 0.4], seed=3)


def test_several_temperatures_are_a_curve_and_a_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "gaussian", "means.npy", "--temperature", "0.2,1,3", "--out", "dial")
    assert code == 0
    page = (folder / "dial" / "index.html").read_text()
    curve = files.load(folder / "dial" / "report.json")
    assert curve.temperatures == (0.2, 1.0, 3.0)
    for item in curve.estimates:
        written = formatting.estimate(item)
        assert formatting.unbroken(written).replace("–", "–\u2060") in page
        assert all(word in out for word in written.split())
    assert curve.to_frame("pandas")["value"].tolist() == [item.value for item in curve.estimates]
    drawn = json.loads(re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page, re.S)[1])
    (chart,) = drawn["charts"].values()
    for value in (*curve.line.values, *curve.line.temperatures):
        assert json.dumps(float(value)) in json.dumps(chart)
    config = files.load(folder / "dial" / "config.json")
    assert (config.method, config.temperatures) == ("auto", (0.2, 1.0, 3.0))


def test_a_covariance_for_each_class(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert from_json(capsys, "gaussian", "means.npy", "--covs", "covs.npy").method in ("chernoff", "contour")


def test_temperature_of_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    curve = from_json(capsys, "gaussian", "means.npy", "--error", "0.1")
    assert curve.target == 0.1
    assert curve.temperatures == (bayes.temperature_for(np.load("means.npy"), error=0.1),)
    assert curve.estimates[0].value == pytest.approx(0.1, rel=5e-3)
    _, out, _ = run(capsys, "gaussian", "means.npy", "--error", "0.1")
    assert f"The Bayes error is 10.0 % at temperature {curve.temperatures[0]:.6g}." in out
    several = from_json(capsys, "gaussian", "means.npy", "--covs", "covs.npy", "--error", "0.1")
    assert several.temperatures == (
        bayes.temperature_for(np.load("means.npy"), covs=np.load("covs.npy"), error=0.1),
    )


def test_detail_is_a_section(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    detail = from_json(capsys, "gaussian", "means.npy", "--detail", "--temperature", "2").detail
    expected = bayes.gaussian_detail(np.load("means.npy"), temperature=2.0)
    np.testing.assert_array_equal(detail.confusion, expected.confusion)
    assert math.isclose(detail.class_error.mean(), detail.error.value, rel_tol=1e-2)
    code, out, _ = run(capsys, "gaussian", "means.npy", "--detail", "--temperature", "2")
    assert code == 0
    for error, stderr in zip(detail.class_error, detail.class_error_stderr, strict=True):
        assert formatting.percent(error, 2 * stderr) in out
    assert detail.to_frame("pandas")["class_error"].tolist() == detail.class_error.tolist()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["gaussian", "nowhere.npy"], "MEANS nowhere.npy"),
        (["gaussian", "text.npy"], "MEANS "),
        (["gaussian", "objects.npy"], "MEANS "),
        (["gaussian", "means.npy", "--priors", "0.5,0.5"], "priors must"),
        (["gaussian", "means.npy", "--priors", "many"], "--priors must"),
        (["gaussian", "means.npy", "--temperature", "hot"], "--temperature must"),
        (["gaussian", "means.npy", "--temperature", "-1"], "temperature must"),
        (["gaussian", "means.npy", "--set", "method=magic"], "method must"),
        (["gaussian", "means.npy", "--error", "0.9"], "--error must"),
        (["gaussian", "means.npy", "--error", "0.1", "--temperature", "2"], "--error and --temperature must"),
        (["gaussian", "means.npy", "--error", "0.1", "--cov", "1", "--covs", "covs.npy"], "--cov and --covs must"),
        (["gaussian", "means.npy", "--covs", "covs.npy", "--detail"], "--detail needs"),
    ],
)
def test_bad_input_is_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    (folder / "text.npy").write_text("no numbers here")
    np.save(folder / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert sentence in err
    assert len(err.strip().splitlines()) == 1
