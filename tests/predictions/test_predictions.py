import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from tests.predictions.made import labels, names, probabilities

from hardpan.confusion import subset_of_ids
from hardpan.errors import InputError
from hardpan.predictions import Predictions, export, import_file, merge, open_scores

S, E, N, C = 2, 3, 40, 4


@pytest.fixture
def run(tmp_path):
    split = np.where(np.arange(N) % 4 == 0, "test", "train")
    held = Predictions.create(
        tmp_path / "run", ids=names(N), n_classes=C, labels=labels(N, C), split=split, block=7
    )
    for seed, of_seed in enumerate(probabilities(S, E, N, C)):
        for epoch, rows in enumerate(of_seed):
            held.write(seed, epoch, rows)
    return held


def manifest(path, ids, of=N):
    subset_of_ids(ids, examples=of).save(path)
    return path


@settings(max_examples=60, deadline=None)
@given(some.sets(some.integers(0, N - 1), min_size=1), some.integers(1, N), some.data())
def test_a_view_is_the_array_at_those_rows(chosen, block, data):
    whole = probabilities(S, E, N, C)
    rows = np.array(sorted(chosen))
    held = Predictions.from_arrays(whole, ids=names(N), labels=labels(N, C))

    class Blocked(type(held)):
        block = property(lambda self: block)

    held.__class__ = Blocked
    view = held.select(rows)
    assert view.ids.tolist() == names(N)[rows].tolist()
    assert view.labels.tolist() == labels(N, C)[rows].tolist()
    assert np.array_equal(view.to_array(), whole[:, :, rows])
    start = data.draw(some.integers(0, len(rows)))
    stop = data.draw(some.integers(start, len(rows)))
    assert np.array_equal(view.read(1, 2, start, stop), whole[1, 2, rows[start:stop]])
    assert np.concatenate([view.read(0, 0, *span) for span in view.blocks()]).shape == (len(rows), C)


def test_a_manifest_behind_a_store_takes_its_examples_in_the_order_of_the_store(tmp_path, run):
    file = manifest(tmp_path / "hard.json", ["image-30", "image-3", "image-12"])
    hard = Predictions.open(f"{tmp_path / 'run'}@{file}")
    assert hard.ids.tolist() == ["image-3", "image-12", "image-30"]
    assert hard.split.tolist() == ["train", "test", "train"]
    assert (hard.seeds, hard.epochs, hard.n_classes) == (run.seeds, run.epochs, C)
    assert np.array_equal(hard.read(1, 2), run.read(1, 2)[[3, 12, 30]])
    assert "hard.json" in repr(hard)
    again = pickle.loads(pickle.dumps(hard))
    assert np.array_equal(again.read(0, 1), hard.read(0, 1))
    with pytest.raises(InputError, match="read-only"):
        hard.write(0, 9, hard.read(0, 0))


@pytest.mark.parametrize("suffix", ["npz", "npy", "parquet", "csv"])
def test_what_is_exported_of_a_subset_is_the_subset(tmp_path, run, suffix):
    file = manifest(tmp_path / "hard.json", ["image-39", "image-0", "image-8"])
    done = export(Predictions.open(f"{tmp_path / 'run'}@{file}"), tmp_path / f"hard.{suffix}")
    assert done.examples == 3
    import_file(tmp_path / f"hard.{suffix}", tmp_path / "back")
    back = Predictions.open(tmp_path / "back")
    assert np.array_equal(back.to_array(), run.to_array(rows=[0, 8, 39]))
    if suffix != "npy":
        assert back.ids.tolist() == ["image-0", "image-8", "image-39"]


def test_parts_that_were_cut_apart_merge_to_the_whole(tmp_path, run):
    first = manifest(tmp_path / "first.json", names(N)[:11])
    rest = manifest(tmp_path / "rest.json", names(N)[11:])
    merge([f"{tmp_path / 'run'}@{first}", f"{tmp_path / 'run'}@{rest}"], tmp_path / "all")
    assert np.array_equal(Predictions.open(tmp_path / "all").to_array(), run.to_array())


def test_a_manifest_that_does_not_fit_is_refused(tmp_path, run):
    other = manifest(tmp_path / "other.json", ["image-3", "elsewhere"])
    with pytest.raises(InputError, match="elsewhere"):
        Predictions.open(f"{tmp_path / 'run'}@{other}")
    changed = manifest(tmp_path / "changed.json", ["image-3", "image-5"])
    changed.write_text(changed.read_text().replace("image-5", "image-6"))
    with pytest.raises(InputError, match=r"changed\.json"):
        Predictions.open(f"{tmp_path / 'run'}@{changed}")
    with pytest.raises(InputError, match=r"missing\.json"):
        Predictions.open(f"{tmp_path / 'run'}@{tmp_path / 'missing.json'}")


def test_a_place_that_has_the_mark_in_its_name_is_opened_as_it_is(tmp_path):
    Predictions.create(tmp_path / "me@home.json", ids=names(2), n_classes=2).write(0, 0, np.full((2, 2), 0.5))
    assert len(Predictions.open(tmp_path / "me@home.json")) == 2


@pytest.mark.parametrize("look", [Predictions.open, open_scores])
def test_looking_for_a_store_that_is_not_there_leaves_nothing_behind(tmp_path, look):
    with pytest.raises(InputError, match="nothing"):
        look(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []
