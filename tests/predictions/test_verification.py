import json
import shutil

import numpy as np
import pytest
from tests.predictions.made import labels, names, probabilities

from hardpan import files
from hardpan.errors import InputError
from hardpan.predictions import Predictions, check

N, C = 90, 4


@pytest.fixture
def path(tmp_path):
    made = Predictions.create(tmp_path / "run", ids=names(N), n_classes=C, labels=labels(N, C), block=30)
    for seed in (0, 1):
        for epoch in (0, 1):
            made.write(seed, epoch, probabilities(N, C, seed=10 * seed + epoch))
    return tmp_path / "run"


def only_problem(path):
    found = check(path)
    assert not found.ok
    assert len(found.problems) == 1
    return found.problems[0]


def test_a_whole_store_is_verified(path):
    found = check(path)
    assert found.ok
    assert found.shards == 12
    assert found.bytes == sum(file.stat().st_size for file in (path / "probabilities").rglob("c/*/0"))
    assert files.from_json(files.to_json(found)) == found


def test_a_truncated_shard_is_named(path):
    shard = path / "probabilities/1/0/c/2/0"
    shard.write_bytes(shard.read_bytes()[:-5])
    problem = only_problem(path)
    assert (problem.what, problem.file) == ("truncated", "probabilities/1/0/c/2/0")
    assert (problem.seed, problem.epoch, problem.block) == (1, 0, 2)


def test_every_flipped_bit_is_seen(path):
    shard = path / "probabilities/0/1/c/1/0"
    whole = shard.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(40):
        data = bytearray(whole)
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        shard.write_bytes(data)
        problem = only_problem(path)
        assert (problem.what, problem.file) == ("altered", "probabilities/0/1/c/1/0")
        with pytest.raises(InputError):
            Predictions.open(path).read(0, 1)
    shard.write_bytes(whole)
    assert check(path).ok


def test_a_shard_of_another_epoch_or_store_is_foreign(path, tmp_path):
    shutil.copy(path / "probabilities/0/0/c/1/0", path / "probabilities/1/1/c/1/0")
    problem = only_problem(path)
    assert (problem.what, problem.file) == ("foreign", "probabilities/1/1/c/1/0")


def test_a_shard_with_its_marker_from_elsewhere_is_foreign(path, tmp_path):
    other = Predictions.create(tmp_path / "other", ids=[f"x{row}" for row in range(N)], n_classes=C, block=30)
    other.write(1, 1, probabilities(N, C, seed=99))
    for name in ("c/1/0", "commit/1.json"):
        shutil.copy(tmp_path / "other/probabilities/1/1" / name, path / "probabilities/1/1" / name)
    problem = only_problem(path)
    assert (problem.what, problem.file) == ("foreign", "probabilities/1/1/commit/1.json")


def test_a_shard_that_went_away_is_missing(path):
    (path / "probabilities/0/0/c/0/0").unlink()
    assert only_problem(path).what == "missing"


def test_what_went_away_is_never_read_as_zeros(path):
    (path / "probabilities/1/0/c/2/0").unlink()
    held = Predictions.open(path)
    for start, stop in ((0, N), (60, 90), (75, 76), (29, 61)):
        with pytest.raises(InputError):
            held.read(1, 0, start, stop)
    assert np.array_equal(held.read(1, 0, 0, 60), probabilities(N, C, seed=10)[:60])
    assert held.read(1, 0, 75, 75).shape == (0, C)


def test_a_damaged_marker_is_named(path):
    (path / "probabilities/0/0/commit/0.json").write_text("{")
    assert only_problem(path).file == "probabilities/0/0/commit/0.json"


def test_a_damaged_array_description_is_noticed(path):
    description = path / "probabilities/0/0/zarr.json"
    content = json.loads(description.read_text())
    content["data_type"] = "int16"
    description.write_text(json.dumps(content))
    found = check(path)
    assert {problem.what for problem in found.problems} == {"unreadable"}
    assert {problem.file for problem in found.problems} == {"probabilities/0/0"}
    check(path, drop=True)
    Predictions.open(path).write(0, 0, probabilities(N, C))
    assert check(path).ok


@pytest.mark.parametrize("name", ["ids", "labels"])
def test_damaged_columns_are_named(path, name):
    chunk = path / name / "c/0"
    chunk.write_bytes(chunk.read_bytes()[:-3])
    assert only_problem(path).file == name


def test_files_that_do_not_belong_are_foreign_and_leftovers_are_not(path):
    (path / "probabilities/0/0/c/0/0.123.partial").write_bytes(b"half")
    (path / "probabilities/0/0/c/2/0").rename(path / "probabilities/0/0/c/2/kept")
    shutil.copy(path / "probabilities/0/0/c/2/kept", path / "probabilities/0/0/c/2/0")
    (path / "probabilities/0/0/commit/2.json").unlink()
    problem = only_problem(path)
    assert (problem.what, problem.file) == ("foreign", "probabilities/0/0/c/2/kept")
    assert check(path).leftovers == ("probabilities/0/0/c/0/0.123.partial", "probabilities/0/0/c/2/0")


def test_damaged_shards_can_be_taken_back_and_recorded_again(path):
    shard = path / "probabilities/0/1/c/1/0"
    shard.write_bytes(b"nothing")
    assert not check(path, drop=True).ok
    found = Predictions.open(path)
    assert not found.committed(0, 1)
    assert found.committed(0, 0)
    found.write(0, 1, probabilities(N, C, seed=1))
    assert check(path).ok
    assert np.array_equal(Predictions.open(path).read(0, 1), probabilities(N, C, seed=1))


def test_the_summary_says_what_is_there(path):
    (path / "probabilities/1/1/commit/2.json").unlink()
    found = check(path)
    assert (found.examples, found.classes) == (N, C)
    assert (found.seeds, found.epochs) == ((0, 1), (0,))
    assert found.epochs_of == {"0": (0, 1)}
    assert found.partial == ("seed 1 epoch 1: 2 shards",)
    assert found.labelled
    markers = (path / "probabilities").rglob("commit/*.json")
    shards = [file.parent.parent / "c" / file.stem / "0" for file in markers]
    assert found.bytes == sum(file.stat().st_size for file in shards)


def test_no_flipped_bit_anywhere_gives_other_numbers(path):
    """Whatever file is damaged, reading gives what was recorded or one sentence, never something else."""
    rng = np.random.default_rng(0)
    truth = Predictions.open(path).to_array()
    paths = sorted(file for file in path.rglob("*") if file.is_file())
    for trial in range(60):
        file = paths[trial % len(paths)]
        whole = file.read_bytes()
        data = bytearray(whole)
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        file.write_bytes(data)
        try:
            verified = check(path).ok
            held = Predictions.open(path)
            found, beside = held.to_array(), (held.ids.tolist(), held.labels.tolist())
        except InputError as error:
            verified, message = False, str(error)
            assert "\n" not in message
        else:
            if verified:
                assert np.array_equal(found, truth[: len(found), : found.shape[1]]), file
                assert beside == (names(N).tolist(), labels(N, C).tolist())
        file.write_bytes(whole)
    assert check(path).ok


def test_strange_files_are_named_wherever_they_lie(path):
    for name in ("notes.txt", "ids/c/copy", "labels/old.npy", "models/a.pt", "models/b.pt"):
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes(b"")
    found = check(path)
    assert {item.what for item in found.problems} == {"foreign"}
    assert [item.file for item in found.problems] == ["models", "notes.txt", "ids/c/copy", "labels/old.npy"]


def test_what_stopped_writers_left_beside_the_predictions_does_no_harm(path):
    left = ["ids/c/0.12ab.partial", "split/zarr.json", "zarr.json.12ab.partial"]  # made without a split
    (path / "split").mkdir()
    for name in left:
        (path / name).write_bytes(b"")
    found = check(path)
    assert found.ok
    assert sorted(found.leftovers) == left


def test_strange_files_are_named_behind_an_address(path):
    fsspec = pytest.importorskip("fsspec")
    address = "memory://verified/run"
    fsspec.filesystem("memory").put(str(path), "/verified/run", recursive=True)
    assert check(address).ok
    for name in ("notes.txt", "models/a.pt", "ids/c/copy"):
        fsspec.filesystem("memory").pipe(f"/verified/run/{name}", b"mine")
    assert [item.file for item in check(address).problems] == ["models", "notes.txt", "ids/c/copy"]
