"""reproductions/flow_device.py: every command leads to a job; a packed dataset comes back whole or not at all."""

import importlib
import json
import sys

import numpy as np
import pytest
from reproductions import flow_device
from reproductions.flow_jobs.packing import unpack


@pytest.fixture
def command(monkeypatch):
    def run(*words):
        monkeypatch.setattr(sys, "argv", ["flow_device.py", *map(str, words)])
        monkeypatch.setattr(sys, "path", list(sys.path))
        flow_device.main()

    return run


@pytest.mark.parametrize("name", flow_device.JOBS)
def test_every_command_has_its_job(name):
    assert callable(getattr(importlib.import_module(f"reproductions.flow_jobs.{flow_device.JOBS[name]}"), name))
    assert f"flow_device.py {name} " in flow_device.__doc__


@pytest.mark.parametrize("channels", [(), (1,), (3,)])
def test_a_packed_dataset_is_the_same_again(command, tmp_path, channels):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (30, 6, 5, *channels), dtype=np.uint8), np.arange(30) % 3
    np.savez(tmp_path / "data.npz", x_train=x[:20], y_train=y[:20], x_test=x[20:], y_test=y[20:])
    command("pack", tmp_path / "data.npz", tmp_path / "data.pack", "--rows", 15)
    found = unpack(tmp_path / "data.pack")
    kept = [*range(15), *range(20, 30)]
    np.testing.assert_array_equal(found.x, x[kept])
    np.testing.assert_array_equal(found.labels, y[kept])
    assert found.split.tolist() == ["train"] * 15 + ["test"] * 10


def test_a_damaged_pack_is_refused(command, tmp_path):
    x, y = np.zeros((4, 4, 4), dtype=np.uint8), np.arange(4) % 2
    np.savez(tmp_path / "data.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    command("pack", tmp_path / "data.npz", tmp_path / "data.pack")
    header, _, body = (tmp_path / "data.pack").read_bytes().partition(b"\n")
    told = json.loads(header) | {"sha256": "0" * 64}
    (tmp_path / "data.pack").write_bytes(json.dumps(told).encode() + b"\n" + body)
    with pytest.raises(SystemExit, match=r"data\.pack"):
        unpack(tmp_path / "data.pack")


def test_a_record_names_its_command(command, tmp_path, capsys):
    command("check", "--tiny", "--out", tmp_path)
    assert "NOT OK" not in capsys.readouterr().out
    record = json.loads((tmp_path / "check.json").read_text())
    assert record["command"] == f"check --tiny --out {tmp_path}"
    assert max(row["gap"] for row in record["rows"] if "float32" in row["path"]) < 1e-3
