"""The script that trains ensembles on a device, here on the CPU with next to nothing to do: both of its calls."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hardpan.data.dataset import Dataset

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.soak
def test_both_calls_write_what_the_figures_read(tmp_path):
    digits = Dataset.open("digits")
    parts = {"x_train": digits.x[:400], "y_train": digits.labels[:400], "x_test": digits.x[400:600]}
    np.savez(tmp_path / "d.npz", **parts, y_test=digits.labels[400:600])
    common = ["--data", tmp_path / "d.npz", "--out", tmp_path / "out", "--minutes", 3, "--epochs", 2, "--batch", 64]
    common += ["--device", "cpu", "--at-once", 2, "--models", "linear"]
    run(*common, "--seeds", 2)
    with np.load(tmp_path / "out" / "linear.npz") as kept:
        assert kept["entropy"].shape == (3, 2, 600)
        assert kept["correct"].shape == (2, 600)
        assert bool(kept["finished"])
        assert kept["accuracy"][:, -1, 1].min() > 0.5
        told = {name: kept[name] for name in kept.files}
    # Two epochs may leave one of the groups empty: these scores fill both.
    told["scores"] = np.linspace(0, np.log2(10), 600)[np.random.default_rng(0).permutation(600)]
    np.savez(tmp_path / "out" / "linear.npz", **told)
    goals = ["--objectives", "erm,groupdro,reweight", "--seeds", 1, "--rates", "0.1,0.01"]
    goals += ["--lengths", '{"reweight": 2}']
    run(*common, "--groups", tmp_path / "out" / "linear.npz", *goals)
    with np.load(tmp_path / "out" / "mitigation.npz") as kept:
        assert sorted(kept["objectives"].tolist()) == ["erm", "groupdro", "reweight"]
        assert sorted(kept["epochs"].tolist()) == [2, 2, 4]
        assert kept["correct"].shape == (3, 600)
        assert bool(kept["finished"])


def run(*arguments: object) -> None:
    program = [sys.executable, "-m", "reproductions.confusion_device", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": "src", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
