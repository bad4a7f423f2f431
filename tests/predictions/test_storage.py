import os

import numpy as np
import pytest
import zarr
from tests.predictions.made import names, probabilities
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import MemoryStore

from hardpan.predictions import Predictions, layout, storage
from hardpan.predictions.assembly import ShardBuffers


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(
    ("examples", "classes", "block"), [(90, 5, 30), (100, 5, 40), (1, 2, 1), (3000, 100, 1500)]
)
def test_shards_are_those_of_zarr(examples, classes, block, dtype):
    rows = probabilities(examples, classes).astype(dtype)
    memory = MemoryStore()
    array = zarr.create_array(
        memory,
        shape=rows.shape,
        chunks=(block, classes),
        dtype=dtype,
        compressors=storage.compressors(),
        filters=[],
        fill_value=0,
    )
    array[:] = rows
    for number, start in enumerate(range(0, examples, block)):
        written = sync(memory.get(f"c/{number}/0", default_buffer_prototype())).to_bytes()
        assert b"".join(storage.encoded(rows[start : start + block], block)) == written


def test_zarr_alone_reads_what_was_written(tmp_path):
    rows = probabilities(100, 5)
    Predictions.create(tmp_path / "run", ids=range(100), n_classes=5, block=30).write(1, 2, rows)
    found = zarr.open_array(tmp_path / "run" / "probabilities" / "1" / "2", mode="r")
    assert np.array_equal(found[:], rows)


@pytest.mark.parametrize("classes", [2, 10, 1000, 10_000_000])
@pytest.mark.parametrize("examples", [1, 1000, 32_768, 1_281_167])
def test_a_shard_is_neither_tiny_nor_huge_nor_one_of_very_many(examples, classes):
    block = layout.default_block(examples, classes, 2)
    shards_of_an_epoch = -(-examples // block)
    assert 1 <= block <= examples
    assert block * classes * 2 <= 16 * 2**20 or block == 1
    assert shards_of_an_epoch <= 16 or block * classes * 2 > 15 * 2**20


def test_buffers_are_taken_again_within_their_memory():
    buffers = ShardBuffers(100)
    first = buffers.take((5, 5), np.float16)
    second = buffers.take((5, 5), np.float16)
    on_disk = buffers.take((1, 1), np.float16)
    assert isinstance(on_disk, np.memmap)
    assert not isinstance(second, np.memmap)
    buffers.give_back(first)
    buffers.give_back(on_disk)
    assert buffers.take((5, 5), np.float16) is first
    buffers.give_back(first)
    assert not isinstance(buffers.take((2, 5), np.float32), np.memmap)  # another shape: the free one makes room
    assert isinstance(buffers.take((5, 5), np.float16), np.memmap)


@pytest.mark.skipif(os.name != "posix", reason="other systems cannot flush a folder")
def test_the_folder_of_every_rename_is_flushed_after_it(tmp_path, monkeypatch):
    happened = []
    replace, fsync = os.replace, os.fsync

    def replaced(source, target):
        replace(source, target)
        happened.append(("renamed", os.stat(os.path.dirname(target)).st_ino))

    def flushed(handle):
        fsync(handle)
        happened.append(("flushed", os.fstat(handle).st_ino))

    monkeypatch.setattr(os, "replace", replaced)
    monkeypatch.setattr(os, "fsync", flushed)
    made = Predictions.create(tmp_path / "run", ids=names(40), n_classes=3, block=10)
    made.write(0, 0, probabilities(40, 3))
    renames = [(at, folder) for at, (what, folder) in enumerate(happened) if what == "renamed"]
    assert len(renames) >= 8  # four shards and their markers
    assert all(("flushed", folder) in happened[at:] for at, folder in renames)
