"""Checkpoints: what was saved comes back, whatever is damaged is noticed, and the last good one is used."""

import errno
import json

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from hardpan import engine
from hardpan.engine import checkpoints
from hardpan.errors import InputError


def save(folder, number):
    engine.save_checkpoint(folder, tensors={"w": torch.full((50,), float(number))}, state={"number": number})


def number_in(folder):
    found = engine.load_checkpoint(folder)
    assert (found.tensors["w"] == found.state["number"]).all()
    return found.state["number"]


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool]
)
def test_tensors_of_every_kind_come_back(tmp_path, dtype):
    tensors = {"a.b": torch.arange(24).reshape(2, 3, 4).to(dtype), "scalar": torch.tensor(1).to(dtype)}
    tensors["turned"] = tensors["a.b"].transpose(0, 2)
    engine.save_checkpoint(tmp_path, tensors=tensors, state={"x": [1, 2.5, None, "é"]})
    found = engine.load_checkpoint(tmp_path)
    assert found.state == {"x": [1, 2.5, None, "é"]}
    for name, item in tensors.items():
        assert found.tensors[name].dtype == dtype
        assert torch.equal(found.tensors[name], item)


def test_tensors_that_share_memory_come_back(tmp_path):
    base = torch.arange(10.0)
    engine.save_checkpoint(tmp_path, tensors={"all": base, "part": base[2:5], "again": base}, state={})
    found = engine.load_checkpoint(tmp_path).tensors
    assert torch.equal(found["part"], base[2:5])
    assert torch.equal(found["again"], base)


def test_two_generations_are_kept_and_no_more(tmp_path):
    assert engine.load_checkpoint(tmp_path / "missing") is None
    for number in range(5):
        save(tmp_path, number)
        assert number_in(tmp_path) == number
        assert len(list(tmp_path.glob("*.safetensors"))) == min(number + 1, 2)


@settings(max_examples=60, deadline=None)
@given(where=st.floats(0, 0.999), how=st.sampled_from(["flip", "cut", "empty", "gone"]), what=st.booleans())
def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path_factory, where, how, what):
    folder = tmp_path_factory.mktemp("damaged")
    save(folder, 1)
    save(folder, 2)
    marker = folder / checkpoints.LATEST
    path = marker if what else folder / json.loads(marker.read_text())["tensors"]
    content = bytearray(path.read_bytes())
    place = int(where * len(content))
    if how == "flip":
        content[place] ^= 0x55
        path.write_bytes(content)
    elif how == "gone":
        path.unlink()
    else:
        path.write_bytes(content[: place if how == "cut" else 0])
    # A change of the marker that leaves its meaning (a blank) is no damage.
    assert number_in(folder) in ((1, 2) if what else (1,))
    save(folder, 3)
    assert number_in(folder) == 3


def test_only_damaged_checkpoints_are_an_error(tmp_path):
    save(tmp_path, 1)
    (tmp_path / checkpoints.LATEST).write_text("{")
    with pytest.raises(InputError, match="damaged"):
        engine.load_checkpoint(tmp_path)


def test_a_marker_cannot_name_a_file_elsewhere(tmp_path):
    save(tmp_path / "a", 1)
    marker = tmp_path / "a" / checkpoints.LATEST
    data = json.loads(marker.read_text())
    (tmp_path / "a" / data["tensors"]).rename(tmp_path / data["tensors"])
    marker.write_text(json.dumps(data | {"tensors": "../" + data["tensors"]}))
    with pytest.raises(InputError, match="damaged"):
        engine.load_checkpoint(tmp_path / "a")


def test_a_full_disk_promises_no_old_checkpoint_where_there_is_none(tmp_path, monkeypatch):
    def full(path, content):
        raise OSError(errno.ENOSPC, "ENOSPC")

    monkeypatch.setattr(checkpoints, "write_bytes", full)
    with pytest.raises(InputError, match="ENOSPC"):
        save(tmp_path / "new", 1)


def test_a_full_disk_is_said_and_the_old_checkpoint_stays(tmp_path, monkeypatch):
    save(tmp_path, 1)

    def full(path, content):
        raise OSError(errno.ENOSPC, "ENOSPC")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "write_bytes", full)
        with pytest.raises(InputError, match="ENOSPC"):
            save(tmp_path, 2)
    assert number_in(tmp_path) == 1
