import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from tests.predictions.made import labels, names, probabilities

from hardpan import Dataset
from hardpan.confusion import subset_of_ids
from hardpan.errors import InputError
from hardpan.predictions import Predictions, export, import_file, merge

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


@pytest.mark.parametrize("suffix", ["npz", "parquet", "csv"])
def test_what_is_exported_of_a_subset_is_the_subset(tmp_path, run, suffix):
    file = manifest(tmp_path / "hard.json", ["image-39", "image-0", "image-8"])
    done = export(Predictions.open(f"{tmp_path / 'run'}@{file}"), tmp_path / f"hard.{suffix}")
    assert done.examples == 3
    import_file(tmp_path / f"hard.{suffix}", tmp_path / "back")
    back = Predictions.open(tmp_path / "back")
    assert np.array_equal(back.to_array(), run.to_array(rows=[0, 8, 39]))
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


def test_looking_for_a_store_that_is_not_there_leaves_nothing_behind(tmp_path):
    with pytest.raises(InputError, match="nothing"):
        Predictions.open(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []


def dataset(order=None, split=True, classes=C):
    rng = np.random.default_rng(1)
    rows = np.arange(N) if order is None else np.asarray(order)
    columns = {"split": np.where(np.arange(N) % 4 == 0, "test", "train")[rows]} if split else {}
    truth = (labels(N, C) % classes)[rows]
    names_of = [str(label) for label in range(classes)]
    x = rng.normal(size=(N, 2))[rows]
    return Dataset.from_arrays(x, truth, ids=names(N)[rows], class_names=names_of, name="toy", **columns)


def good(n=N, seeds=1):
    """Probabilities that are mostly right."""
    rng = np.random.default_rng(2)
    return 0.4 * rng.dirichlet(np.ones(C), size=(seeds, 1, n)) + 0.6 * np.eye(C)[labels(n, C)]


def test_align_by_id_takes_the_order_labels_and_split_of_the_dataset():
    order = np.random.default_rng(0).permutation(N)
    whole = Predictions.from_arrays(good(), ids=names(N))
    found = whole.align(dataset(order))
    assert found.ids.tolist() == names(N)[order].tolist()
    assert np.array_equal(found.final_probs(), whole.final_probs()[order])
    assert np.array_equal(found.labels, labels(N, C)[order])
    assert found.rows.tolist() == list(range(N))
    assert np.array_equal(found.held_out_rows, found.split == "test")
    part = Predictions.from_arrays(good()[:, :, :7], ids=names(N)[:7]).align(dataset(order))
    assert sorted(part.rows.tolist()) == sorted(np.flatnonzero(order < 7).tolist())
    few = whole.align(dataset().select(split="test"))
    assert len(few) == len(dataset().select(split="test"))


def test_align_by_order_takes_all_rows_or_the_test_rows():
    data = dataset()
    everything = Predictions.from_arrays(good())
    with pytest.raises(InputError, match="by_order"):
        everything.align(data)
    assert everything.align(data, by_order=True).ids.tolist() == names(N).tolist()
    test = data.splits().test
    found = Predictions.from_arrays(good()[:, :, test]).align(data, by_order=True)
    assert np.array_equal(found.rows, test)
    assert np.array_equal(found.labels, data.labels[test])
    with pytest.raises(InputError, match="by_order"):
        Predictions.from_arrays(good()[:, :, :5]).align(data, by_order=True)
    shuffled = Predictions.from_arrays(good(), ids=names(N)[::-1])
    with pytest.raises(InputError, match="by_order"):
        shuffled.align(data, by_order=True)


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (lambda: Predictions.from_arrays(good(), ids=[f"other-{i}" for i in range(N)]), "other-0"),
        (lambda: Predictions.from_arrays(np.full((N, 5), 0.2), ids=names(N)), r"\b5\b"),
        (lambda: Predictions.from_arrays(good(), ids=names(N), labels=(labels(N, C) + 1) % C), "labels"),
        (lambda: Predictions.from_arrays(good()[..., [1, 0, 2, 3]], ids=names(N), name="swapped"), "swapped"),
        (lambda: Predictions.from_arrays(np.roll(good(), 1, axis=-1), ids=names(N), name="rolled"), "rolled"),
    ],
    ids=["other ids", "other classes", "other labels", "permuted columns", "shifted columns"],
)
def test_predictions_of_something_else_are_refused(made, named):
    with pytest.raises(InputError, match=named):
        made().align(dataset())


def test_a_poor_model_is_no_permutation():
    noise = Predictions.from_arrays(np.random.default_rng(0).dirichlet(np.ones(C), size=N), ids=names(N))
    assert len(noise.align(dataset())) == N
    swapped = Predictions.from_arrays(good()[..., [1, 0, 2, 3]], ids=names(N))
    assert len(swapped.align(dataset(), check=False)) == N


def test_a_few_newer_labels_are_those_of_the_dataset():
    older = labels(N, C).copy()
    older[:2] = (older[:2] + 1) % C
    found = Predictions.from_arrays(good(), ids=names(N), labels=older).align(dataset())
    assert np.array_equal(found.labels, labels(N, C))
    with pytest.raises(InputError, match="labels"):
        Predictions.from_arrays(good(), labels=older).align(dataset(), by_order=True)


def test_select_takes_rows_ids_masks_splits_seeds_and_epochs(run):
    assert run.select(split="test").ids.tolist() == names(N)[::4].tolist()
    mask = np.arange(N) < 3
    for rows in ([0, 1, 2], mask, names(N)[:3]):
        assert run.select(rows).ids.tolist() == names(N)[:3].tolist()
    some = run.select([5, 2], seeds=[1], epochs=[2, 0])
    assert (some.seeds, some.epochs) == ((1,), (2, 0))
    assert np.array_equal(some.read(1, 0), run.read(1, 0)[[5, 2]])
    for wrong in ({"rows": [N]}, {"rows": 2.5}, {"split": "validation"}, {"split": "best"}):
        with pytest.raises(InputError, match=r"rows|split"):
            run.select(**wrong)
    for wrong in ({"seeds": [9]}, {"epochs": [0, 0]}, {"seeds": []}):
        with pytest.raises(InputError, match=r"seeds|epochs"):
            run.select(**wrong)


def test_outcomes_are_right_and_wrong_at_the_last_epoch(run):
    found = run.outcomes()
    expected = run.to_array()[:, -1].argmax(axis=-1) == run.labels
    assert np.array_equal(found.scores, expected)
    assert found.items.tolist() == run.ids.tolist()
    assert found.key.tolist() == [str(label) for label in run.labels]
    with pytest.raises(InputError, match="labels"):
        Predictions.from_arrays(good()).outcomes()
    with pytest.raises(InputError, match="labels"):
        run.outcomes([0, 1])
