"""Refusals that come before the work, and name what would have worked."""

import numpy as np
import pytest

from hardpan.cli import main
from hardpan.predictions import Predictions


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 2, 20))
    np.save("p.npy", rows)
    for name in ("linear", "mlp"):
        made = Predictions.create(f"runs/{name}", ids=[f"e{i}" for i in range(20)], n_classes=4)
        made.write(0, 0, rows[0, 0])
    return tmp_path


def refused(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("confusion", "score", "p.npy", "--out", "s3://bucket/x"),
        ("confusion", "subset", "p.npy", "--count", "3", "--out", "s3://bucket/x"),
        ("confusion", "subset", "p.npy", "--count", "3", "--out", "memory://x.json"),
        ("confusion", "transfer", "p.npy", "p.npy", "--out", "gs://x"),
        ("predictions", "export", "p.npy", "s3://bucket/x.npz"),
    ],
)
def test_an_address_does_not_become_a_folder_of_that_name(folder, capsys, arguments):
    before = sorted(folder.iterdir())
    assert f"{arguments[-1]}: must be a path on this machine" in refused(capsys, *arguments)
    assert sorted(folder.iterdir()) == before


def test_a_folder_whose_name_has_a_colon_is_a_folder(folder):
    (folder / "aa:" / "b").mkdir(parents=True)
    with pytest.raises(SystemExit) as ended:
        main(["confusion", "score", "p.npy", "--out", "aa:/b"])
    assert ended.value.code == 0
    assert (folder / "aa:" / "b" / "index.html").exists()


def test_a_folder_of_stores_names_them(folder, capsys):
    assert "runs/linear" in refused(capsys, "confusion", "score", "runs")


def test_a_wrong_level_is_refused_before_anything_is_scored(folder, capsys):
    said = refused(capsys, "confusion", "score", "gone.npy", "--set", "confidence=95")
    assert "confidence" in said


def test_models_that_agree_in_every_score_have_no_side_of_the_diagonal(folder, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["confusion", "transfer", "p.npy", "p.npy"])
    assert ended.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "50 %" not in shown
